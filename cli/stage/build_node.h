/* SPDX-License-Identifier: Apache-2.0 */
/* What a bundle of slipway probe among --kernel-from tells of the node, for lint. */
#pragma once

#include "cli/stage/build.h"

struct build_node {
	struct probe probe;
	struct kernel_record record;
	char *symvers_first;
	struct lint_node lint; /* of the above; lint.probe is NULL when there is no bundle */
};

/*
 * Reads the first bundle there is. @tree_fd: the kernel tree's root, to compare with, or -1. 0 with
 * ret->lint.probe NULL when there is none; -EBADMSG or -EINVAL when it is damaged. The caller frees
 * it.
 */
int build_node_read(const struct build *build, int tree_fd, struct build_node *ret,
	struct error *error) _must_check_;
void build_node_free(struct build_node *node);
