/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes of the node: which keep a driver's devices open or mapped, which listen, whose pods
 * they are. Needs the host's process ids (hostPID): without them only the container's own are seen,
 * and the messages of callers say so.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "common/strv.h"
#include "entrypoint/engine/pod.h"

/* As many of one program are reported. */
#define PROCESSES_MAX 8

struct process_seen {
	pid_t pid;
	char command[32]; /* /proc/<pid>/comm, which the kernel cuts at 15 bytes */
	char device[64];  /* of users_of_devices(): the path that it opened, as it sees it */
	bool in_pod;
	struct pod pod;
};

/* Finds up to @capacity processes of the program @name. Returns how many. */
size_t processes_of_program(
	int root_fd, const char *name, struct process_seen *seen, size_t capacity);

/*
 * Is the process @pid a child, or a child's child, of @ancestor? A daemon that forked is one of the
 * driver container's init, before its pid file names it: the init is its subreaper.
 */
bool process_descends(int root_fd, pid_t pid, pid_t ancestor);

/*
 * Does a process listen on the TCP port, of IPv4 or IPv6, in the host's network name space (ours,
 * where that cannot be seen)? @ret_owner is the process, with pid 0 where it is not known.
 * -1 when the tables cannot be read.
 */
int port_is_listening(int root_fd, unsigned port, struct process_seen *ret_owner);

/*
 * Finds the processes that have a device open whose path matches one of the @patterns of fnmatch(3)
 * ('*' goes over '/', too), or where none has, those that have one mapped. One entry a process, the
 * first @capacity in @users. Returns how many there are in all, or a negative errno.
 */
int users_of_devices(
	int root_fd, const struct strv *patterns, struct process_seen *users, size_t capacity);

/*
 * Appends the patterns of a module's own devices: what its driver is known for, and the DRM nodes
 * of the devices that it drives now. 0 with nothing appended for a module that has none.
 */
int users_patterns(int root_fd, const char *module, struct strv *patterns) _must_check_;

#define USER_TEXT_SIZE 400

/* "process 4711 (python3, /dev/nvidia0, pod jobs/trainer-0, container 0123456789ab)". */
void user_text(const struct process_seen *user, char text[USER_TEXT_SIZE]);
