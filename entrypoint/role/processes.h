/* SPDX-License-Identifier: Apache-2.0 */
/* Processes of the node. Needs the host's process ids (hostPID): without them only the container's
 * own are seen. */
#pragma once

#include <dirent.h>
#include <stdbool.h>
#include <sys/types.h>

#include "entrypoint/engine/pod.h"

/* The folder of all processes, for processes_next(), and closedir(3); NULL with errno. */
DIR *processes_open(int root_fd);
/* The next process, its folder opened with O_PATH, which the caller closes; -1 at the end. */
int processes_next(DIR *dir, pid_t *ret_pid);

/*
 * Has the process a descriptor for whose link text @is_it says so? The links are read, never opened
 * or followed: that could block on a dead network file system. @target may be changed.
 */
typedef bool process_link_function(void *context, char *target);
bool process_opens(int process_fd, process_link_function *is_it, void *context);

/* As many of one program are told. */
#define PROCESSES_MAX 8

struct process_seen {
	pid_t pid;
	char command[16]; /* /proc/<pid>/comm, which the kernel cuts at 15 bytes */
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
 * Does anything listen on the TCP port, of IPv4 or IPv6, in the host's network name space (ours,
 * where that cannot be seen)? @ret_owner is the process, with pid 0 where it cannot be told.
 * -1 when the tables cannot be read.
 */
int port_is_listening(int root_fd, unsigned port, struct process_seen *ret_owner);
