/* SPDX-License-Identifier: Apache-2.0 */
/* The root file system of an image (seam 3 of docs/architecture.md), made of hard links. */
#pragma once

#include "cli/stage/build.h"

struct stage {
	const char *role;    /* "nic" or "gpu" */
	enum arrow_id set;   /* whose modules go in */
	enum arrow_id other; /* whose modules another image brings; ARROW_COUNT: none */
	const char *folder;  /* absolute, empty: becomes the root */
};

/* Copies the set, what it needs of the kernel and slipway-init, writes image.conf, runs depmod. */
int stage_root(struct build *build, const struct stage *stage, struct error *error) _must_check_;

/* stage_kernel.c: puts what the load proof on the node wants to know of the kernel into the root.
 */
int stage_kernel(const struct build *build, const struct stage *stage, int root_fd,
	struct error *error) _must_check_;
