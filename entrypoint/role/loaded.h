/* SPDX-License-Identifier: Apache-2.0 */
/* Whether what is loaded is what a file is. One rule for all who ask. */
#pragma once

#include "module/elf.h"

enum loaded {
	LOADED_SAME,
	LOADED_OTHER,
	LOADED_UNKNOWN, /* the kernel shows neither build id nor srcversion */
};

/*
 * Is the loaded module @name the build that @file is (elf_module_open_brief() will do)? By the
 * build id where both have one, else by srcversion.
 */
enum loaded loaded_compare(int root_fd, const char *name, const struct elf_module *file);
