/* SPDX-License-Identifier: Apache-2.0 */
/* What is mounted where in our mount name space: /proc/self/mountinfo (Linux
 * Documentation/filesystems/proc.rst, section 3.5). Paths are relative to @root_fd. */
#pragma once

#include <stdbool.h>

/* How many mounts lie at exactly this path, one over the other; or a negative errno. */
int mountinfo_count(int root_fd, const char *path);

struct mountinfo {
	bool of_root; /* it is the root itself: of a container, its own file system */
	bool shared;  /* what is mounted below reaches other mount name spaces */
};

/* The mount that the path lies on, the topmost of those that are there; or a negative errno. */
int mountinfo_find(int root_fd, const char *path, struct mountinfo *ret);

/*
 * Does what is mounted below this path reach other mount name spaces? Asks the mount that the path
 * lies on, the topmost of those that are there.
 */
bool mountinfo_is_shared(int root_fd, const char *path);
