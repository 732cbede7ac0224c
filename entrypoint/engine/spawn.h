/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one way to start a child: workers, the vendor daemons, the compiler's tool, questions that
 * may hang, the helpers of the network's state. Descriptors are the child's too; ours are all
 * close-on-exec.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "common/cleanup.h"

struct spawn {
	/* Runs in the child, a plain fork that then ends with status 0; NULL: a program. */
	void (*run)(void *context);
	void *context;

	const char *program;  /* its path */
	char *const *argv;    /* no signal is blocked in it, and its stdin is /dev/null */
	const char *variable; /* "NAME=value" on top of our environment, or NULL */
	int output_fd;        /* of a program: its stdout and stderr; -1: ours */

	/* A session of its own, which outlives us; otherwise the child ends with us, by SIGKILL. */
	bool detached;
};

/* A negative errno, also where the program cannot be run: then nothing is left to wait for. */
int spawn_start(const struct spawn *spawn, pid_t *ret_pid) _must_check_;

/* Waits for its end. The exit status, 128 + N when signal N ended it; or a negative errno. */
int spawn_wait(pid_t pid);
