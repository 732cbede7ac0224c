/* SPDX-License-Identifier: Apache-2.0 */
/* What is mounted where in our mount name space: /proc/self/mountinfo (Linux
 * Documentation/filesystems/proc.rst, section 3.5). Paths are relative to @root_fd. */
#pragma once

#include <stdbool.h>

/* How many mounts lie at exactly this path, one over the other; or a negative errno. */
int mountinfo_count(int root_fd, const char *path);

/*
 * Does what is mounted below this path reach other mount name spaces? Asks the mount that the path
 * lies on, the topmost of those that are there.
 */
bool mountinfo_is_shared(int root_fd, const char *path);
