/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening what will be believed, below a folder that others may reach, too: a host path that is
 * mounted into several containers, say. What is root's, in folders that are root's, can have been
 * put there by root only.
 */
#pragma once

#include <stdbool.h>
#include <sys/stat.h>

#include "common/error.h"

/*
 * Is it root's (or the caller's own), and may nobody else write to it? Of a folder with the sticky
 * bit others may add to it, but not replace what is there: that is enough of a folder on the way.
 */
bool is_owned(const struct stat *status);
bool is_owned_way(const struct stat *status);

/*
 * Opens @path below @dir_fd with @flags and O_CLOEXEC. No part of it may be a link or "..", and
 * @dir_fd, each folder on the way and what is opened, a regular file or a folder, have to be owned
 * in that sense; else -EPERM, and @error names which is not and why. -ENOENT: it is not there.
 */
int open_owned(int dir_fd, const char *path, int flags, struct error *error) _must_check_;
