/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A child of the build side, to its end: another program (buildah, apt-get, mmdebstrap), which is
 * an argv and no shell's line, or a function of ours.
 */
#pragma once

#include <stdbool.h>

#include "common/error.h"
#include "common/strv.h"

struct process {
	const struct strv *argv;      /* of a program, found by PATH */
	const char *folder;           /* its working directory, or NULL for ours */
	const struct strv *extra_env; /* "NAME=value" on top of our environment, or NULL */
	/*
	 * In place of argv, folder and extra_env: what the child does as process 1 of a process
	 * name space. All that it starts ends with it, and it ends with us. Returns its exit
	 * status.
	 */
	int (*work)(void *context);
	int stdin_fd; /* given to the child, or -1 for /dev/null */
	int log_fd;   /* where stderr, and stdout unless captured, go; -1: ours */
	/*
	 * Called with each line of stdout and stderr while it runs, without '\n'; one of more
	 * than some 16,000 bytes comes in pieces. Or NULL.
	 */
	void (*on_line)(void *context, const char *line);
	/*
	 * With on_line: a FIFO (fifo(7)) whose lines are output, too, until the child's own ends.
	 * Programs that write there do not need the child to pass it on. Or NULL.
	 */
	const char *fifo;
	/* Called about once a second for as long as it prints nothing. Or NULL. */
	void (*on_quiet)(void *context);
	void *context;           /* of these functions */
	unsigned int timeout_ms; /* then it is killed, where its output is read; 0: never */
};

/* Is there a program of that name in PATH? */
bool process_can_start(const char *name);

/* Says that a program is missing. Returns -ENOPKG. */
int process_no_program(const char *name, struct error *error);

/*
 * Runs the process and waits for it. Returns its exit status (128 + N when signal N ended it), or a
 * negative errno with @error set when it could not be started (-ENOPKG: there is no such program),
 * or -ETIMEDOUT. When on_line or @ret_output is set, output is read through a pipe; *ret_output
 * (may be NULL) is then all of stdout, freed by the caller.
 */
int process_run(const struct process *process, char **ret_output, struct error *error);

/*
 * Was the program with this exit status stopped by SIGINT, SIGTERM or SIGHUP? Other signals,
 * such as the SIGKILL of a kernel that is out of memory, are failures.
 */
bool process_was_interrupted(int status);
