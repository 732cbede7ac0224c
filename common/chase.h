/* SPDX-License-Identifier: Apache-2.0 */
/* Paths in another system's root: links mean what they mean there. */
#pragma once

#include "common/cleanup.h"

/*
 * Follows every link of @path as a process would whose root is @root_fd: absolute targets start
 * there again, and ".." does not lead out. *ret_path is then relative to @root_fd and has no link
 * in it ("." for the root itself); the caller frees it. -ENOENT when something is missing, -ELOOP
 * for links that go round. Not for roots that somebody changes meanwhile.
 */
int chase(int root_fd, const char *path, char **ret_path) _must_check_;

/* The same, but -EXDEV for whatever is absolute or leads above @dir_fd. */
int chase_beneath(int dir_fd, const char *path, char **ret_path) _must_check_;
