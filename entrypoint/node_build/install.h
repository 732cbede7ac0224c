/* SPDX-License-Identifier: Apache-2.0 */
/* Putting what was compiled on the node where the image would have it. */
#pragma once

#include "common/error.h"
#include "common/strv.h"

/*
 * Copies a module set at @set_fd, made by @recipe, below the root, with the modules of the host
 * (@host_fd) that it depends on, and runs depmod: its files come last, so that an image with
 * modules.dep is complete. What the image has of that recipe for this kernel goes before. Names of
 * modules that neither the host nor its kernel has go to @missing.
 */
int install_set(int root_fd, int host_fd, int set_fd, const char *krel, const char *recipe,
	struct strv *missing, struct error *error);

/* Renames nvidia-peermem.ko of a set over the image's, and runs depmod. */
int install_peermem(int root_fd, int set_fd, const char *krel, struct error *error);
