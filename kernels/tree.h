/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A kernel tree: what modules compile against, and what its config says of the kernel. The tree
 * must work wherever it lies, so what a distribution made absolute is made relative here.
 */
#pragma once

#include <stdbool.h>

#include "common/error.h"

struct kernel_tree {
	char *krel;
	char *compiler;      /* "gcc-12": the program that modules must be compiled with */
	char *compiler_text; /* CONFIG_CC_VERSION_TEXT: what the kernel was compiled with */
	bool modversions;
	bool module_unload;
};

/*
 * Rewrites the absolute include of Debian's flavour Makefile; a tree without one is fine.
 * @root_fd holds lib/modules/<krel>/build.
 */
int kernel_tree_relocate(int root_fd, const char *krel, struct error *error) _must_check_;

/*
 * Reads the record of a tree. -EINVAL when it is not prepared for compiling modules, when it is of
 * another release than @krel, or when its config does not name the compiler.
 */
int kernel_tree_read(
	int root_fd, const char *krel, struct kernel_tree *ret, struct error *error) _must_check_;
void kernel_tree_free(struct kernel_tree *tree);
