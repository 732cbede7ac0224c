/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which processes keep a driver's devices open or mapped, and whose pods they are. Needs the host's
 * process ids (hostPID): without them only the container's own processes are seen, and the message
 * of the caller says so.
 */
#pragma once

#include <sys/types.h>

#include "common/cleanup.h"
#include "common/strv.h"
#include "entrypoint/engine/pod.h"

struct user {
	pid_t pid;
	char command[32]; /* /proc/<pid>/comm, which the kernel cuts at 15 bytes */
	char device[64];  /* the path that it opened, as it sees it */
	bool in_pod;
	struct pod pod;
};

/*
 * Finds the processes that have a device open whose path matches one of the @patterns of fnmatch(3)
 * ('*' goes over '/', too), or where none has, those that have one mapped. One entry a process, the
 * first @capacity in @users. Returns how many there are in all, or a negative errno.
 */
int users_of_devices(int root_fd, const struct strv *patterns, struct user *users, size_t capacity);

/*
 * Appends the patterns of a module's own devices: what its driver is known for, and the DRM nodes
 * of the devices that it drives now. 0 with nothing appended for a module that has none.
 */
int users_patterns(int root_fd, const char *module, struct strv *patterns) _must_check_;

#define USER_TEXT_SIZE 400

/* "process 4711 (python3, /dev/nvidia0, pod jobs/trainer-0, container 0123456789ab)". */
void user_text(const struct user *user, char text[USER_TEXT_SIZE]);
