/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/error.h"

/*
 * Opens a file of a kernel's build folder. @kernel, as --kernel of verbs that read local files
 * takes it, is the file itself, the build folder, lib/modules/<krel>, or a kernel tree with one
 * release; @name is the file's path in the build folder. -ENOENT when there is none, -ENOTUNIQ when
 * the tree has several releases. The caller closes it.
 */
int kernel_file_open(const char *kernel, const char *name, int *ret_fd) _must_check_;
