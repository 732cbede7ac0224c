/* SPDX-License-Identifier: Apache-2.0 */
/* Paths below a folder that others may write to: links are followed on purpose, or not at all. */
#pragma once

#include <stdbool.h>
#include <sys/stat.h>

#include "common/cleanup.h"
#include "common/error.h"

/* ---- paths in another system's root: links mean what they mean there */

/*
 * Follows every link of @path as a process would whose root is @root_fd: absolute targets start
 * there again, and ".." does not lead out. *ret_path is then relative to @root_fd and has no link
 * in it ("." for the root itself); the caller frees it. -ENOENT when something is missing, -ELOOP
 * for links that go round. Not for roots that change meanwhile.
 */
int chase(int root_fd, const char *path, char **ret_path) _must_check_;

/*
 * The same where the root is the folder @top, below @root_fd or absolute ("": @root_fd itself).
 * *ret_path begins with it.
 */
int chase_in(int root_fd, const char *top, const char *path, char **ret_path) _must_check_;

/*
 * ---- opening below a folder that holds foreign files: openat2(2), or, where the kernel or a
 * container's filter does not have it, a walk that follows the links itself. Neither leaves the
 * folder, whatever its links.
 */

/*
 * Opens @path below @dir_fd, with O_CLOEXEC. -EXDEV when it or a link on its way is absolute or
 * leads above the folder. -EAGAIN when files moved about all the time.
 */
int open_beneath(int dir_fd, const char *path, int flags) _must_check_;

/* The same for a root: absolute links and ".." mean what they mean to a process with that root. */
int open_in_root(int root_fd, const char *path, int flags) _must_check_;

/* Both functions without openat2(2); for tests. */
int open_beneath_by_walk(int dir_fd, const char *path, int flags) _must_check_;
int open_in_root_by_walk(int root_fd, const char *path, int flags) _must_check_;

/*
 * ---- opening what will be believed, below a folder that others may reach, too: a host path that
 * is mounted into several containers. What is root's, in folders that are root's, can have
 * been put there by root only.
 */

/*
 * Is it root's (or the caller's own), and may no other user write to it? Of a folder with the
 * sticky bit others may add to it, but not replace what is there: that is enough of a folder on the
 * way.
 */
bool is_owned(const struct stat *status);
bool is_owned_way(const struct stat *status);

/*
 * Opens @path below @dir_fd with @flags and O_CLOEXEC. No part of it may be a link or "..", and
 * @dir_fd, each folder on the way and what is opened, a regular file or a folder, have to be owned
 * in that sense; else -EPERM, and @error names which is not and why. -ENOENT: it is not there.
 */
int open_owned(int dir_fd, const char *path, int flags, struct error *error) _must_check_;
