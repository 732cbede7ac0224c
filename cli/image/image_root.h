/* SPDX-License-Identifier: Apache-2.0 */
/* The root file system of an image (seam 3 of docs/architecture.md), made of hard links. */
#pragma once

#include "cli/stage/build.h"

struct image_root {
	const char *role;    /* "nic" or "gpu" */
	enum stage_id set;   /* whose modules go in */
	enum stage_id other; /* whose modules another image brings; STAGE_COUNT: none */
	const char *folder;  /* absolute, empty: becomes the root */
};

/* Copies the set, what it needs of the kernel and slipway-init, writes image.conf, runs depmod. */
int image_root_make(
	struct build *build, const struct image_root *stage, struct error *error) _must_check_;

/* stage_kernel.c: puts what the load proof on the node wants to know of the kernel into the root.
 */
int image_root_add_kernel(const struct build *build, const struct image_root *stage, int root_fd,
	struct error *error) _must_check_;
