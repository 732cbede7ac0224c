/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which processes keep a driver's devices open. Needs the host's process ids (hostPID): without
 * them only the container's own processes are seen, and the message of the caller says so.
 */
#pragma once

#include <sys/types.h>

#include "common/cleanup.h"

struct user {
	pid_t pid;
	char command[32]; /* /proc/<pid>/comm, which the kernel cuts at 15 bytes */
	char device[64];  /* the path that it opened, as it sees it */
};

/*
 * Finds up to @capacity processes that have a character device open whose path starts with one of
 * the NULL-terminated @prefixes ("/dev/nvidia"). One entry a process. Returns how many there are,
 * or a negative errno.
 */
int users_of_devices(int root_fd, const char *const *prefixes, struct user *users, size_t capacity);
