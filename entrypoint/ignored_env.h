/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Variables of a stock image that are accepted and not needed here. Whoever sets one reads in the
 * log that it was seen, and why nothing comes of it. None is a reason to refuse a start, whatever
 * its value is.
 */
#pragma once

#include <stddef.h>

struct log;

struct unneeded {
	const char *reason;    /* follows "not needed, because" */
	const char *usual;     /* a value that an operator gives unasked, or NULL: no word of it */
	const char *names[12]; /* NULL behind the last */
};

/* Of a cluster with a proxy, OpenShift say, every pod has them. */
#define UNNEEDED_PROXIES                                                                           \
	{                                                                                          \
		.reason = "nothing is fetched on the node but headers that it lacks",              \
		.names = { "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy",   \
			"no_proxy" },                                                              \
	}

/*
 * Of those that are set, a note for each reason, with their names; never a value, which may be a
 * secret. @step: what the notes are told of.
 */
void ignored_env_tell(
	struct log *log, const char *step, const struct unneeded *groups, size_t count);
