/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Running another program to its end, for the build side (buildah, apt-get, mmdebstrap). No shell
 * is involved: what is started is an argv, found by PATH.
 */
#pragma once

#include <stdbool.h>

#include "common/error.h"
#include "common/strv.h"

struct process {
	const struct strv *argv;
	const char *folder;           /* working directory, or NULL for ours */
	const struct strv *extra_env; /* "NAME=value" on top of our environment, or NULL */
	int stdin_fd;                 /* given to the child, or -1 for /dev/null */
	int log_fd;                   /* where stderr, and stdout unless captured, go; -1: ours */
	/* Called with each full line of stdout and stderr while it runs, without '\n'; or NULL. */
	void (*on_line)(void *context, const char *line);
	void *context;
};

/*
 * Runs it and waits. Returns its exit status (128 + N when signal N ended it), or a negative errno
 * with @error set when it could not be started. With on_line or @ret_output set, output is read
 * through a pipe; *ret_output (may be NULL) is then all of stdout, freed by the caller.
 */
int process_run(const struct process *process, char **ret_output, struct error *error);

/*
 * Was the program with this exit status stopped by SIGINT, SIGTERM or SIGHUP? Other signals,
 * such as the SIGKILL of a kernel that is out of memory, are failures.
 */
bool process_was_interrupted(int status);
