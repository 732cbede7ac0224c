/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening below a folder that holds a stranger's files: openat2(2), or, where the kernel or a
 * container's filter does not have it, a walk that follows the links itself. Neither leaves the
 * folder, whatever its links say.
 */
#pragma once

#include "common/cleanup.h"

/*
 * Opens @path below @dir_fd, with O_CLOEXEC. -EXDEV when it or a link on its way is absolute or
 * leads above the folder. -EAGAIN when files moved about all the time.
 */
int open_beneath(int dir_fd, const char *path, int flags) _must_check_;

/* The same for a root: absolute links and ".." mean what they mean to a process with that root. */
int open_in_root(int root_fd, const char *path, int flags) _must_check_;

/* What both do without openat2(2); for tests. */
int open_beneath_by_walk(int dir_fd, const char *path, int flags) _must_check_;
int open_in_root_by_walk(int root_fd, const char *path, int flags) _must_check_;
