/* SPDX-License-Identifier: Apache-2.0 */
/* What the rules of lint are given, and how they tell. kernels/lint/lint.h is for everyone else. */
#pragma once

#include "kernels/lint/lint.h"

struct lint_check {
	const struct kernel_record *record;
	const struct lint_request *request;
	struct lint *lint; /* findings are added to */
};

/* Each rule looks for one thing and adds a finding when it is there. 0 or -ENOMEM. */
typedef int (*lint_rule)(struct lint_check *check);

/* Adds a finding; @fix and the reason are copied, @id is not. */
int lint_add(struct lint_check *check, const char *id, enum lint_severity severity, const char *fix,
	const char *reason, ...) _printf_(5, 6) _must_check_;

/* NULL-terminated. lint_tree.c: is the tree complete, and does it fit this machine? */
extern const lint_rule lint_tree_rules[];
/* lint_tree.c, too: what there is to say without any tree. */
extern const lint_rule lint_no_tree_rules[];
/* lint_node.c: the node, as slipway probe saw it. Only with request->node. */
extern const lint_rule lint_node_rules[];
/* lint_compiler.c: the compiler, and what binds modules to it. */
extern const lint_rule lint_compiler_rules[];
/* lint_options.c: what the kernel's options mean for the drivers. */
extern const lint_rule lint_option_rules[];
