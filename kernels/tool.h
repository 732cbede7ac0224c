/* SPDX-License-Identifier: Apache-2.0 */
/* Running the programs that the build side drives (apt-get, buildah, depmod …) for their answer. */
#pragma once

#include <sys/types.h>

#include "common/error.h"
#include "common/strv.h"

/*
 * Runs it to its end. Returns 0 with stdout in *ret_output (may be NULL; the caller frees it).
 * -ENOPKG: there is no such program; -EINTR: it was stopped; -ENOMEM: it was killed, most
 * likely for memory; -ENOTRECOVERABLE: another signal ended it; -EIO: it failed, and @error holds
 * what it last said on stderr; -ENOSPC, -EDQUOT: the same where it said that a disk is full.
 */
int tool_run(const struct strv *argv, char **ret_output, struct error *error) _must_check_;
/*
 * The same for a program whose output is for people: it goes to the file @log, which an error
 * names.
 */
int tool_run_logged(const struct strv *argv, const char *log, struct error *error) _must_check_;
/*
 * The same error for the program @what that ended with @status (not 0, as process_run() returns
 * it), and whose output from @start on is in the file @log_fd, which can be read.
 */
int tool_failed(const char *what, int status, int log_fd, off_t start, struct error *error);
