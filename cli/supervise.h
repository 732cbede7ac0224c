/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ctrl-C and SIGTERM without signal handlers: the work is done in a child with its own process
 * group, so that what it started ends with it, and this process stays to clear up after it.
 */
#pragma once

#include <stdbool.h>

#include "cli/context.h"

/*
 * Runs @work in a child. Returns its exit status, or 128 + N when signal N ended it or arrived
 * here. Negative errno when the child could not be started.
 */
int supervise(int (*work)(void *context), void *context);

/*
 * Says how supervise() ended where the work could not say so itself: interrupted (@state is what
 * became of its results), or killed. Returns the exit code.
 */
int supervise_report(int result, const char *verb, bool json, const char *state);

/*
 * Opens @context with a run of its own in the cache, calls @work as supervise() does, clears up
 * after it and reports how it ended. Returns the exit code. The context outlives the work: the
 * caller closes it.
 */
int supervise_in_cache(struct context *context, const struct common_options *options,
	const char *verb, const char *state, int (*work)(void *data), void *data);

/*
 * The same of a verb that makes something: reports a failure of @make, to people and as a JSON
 * event; its exit code is context->failure, or by the errno.
 */
int supervise_run(struct context *context, const struct common_options *options, const char *verb,
	const char *state, int (*make)(void *data, struct error *error), void *data);
