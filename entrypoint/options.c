/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/options.h"

#include <string.h>
#include <strings.h>

#include "entrypoint/contract.h"

/*
 * The GPU operator's startup probe gives a container 60 + 1200 s: a wait that ends a little before
 * tells its reason itself instead of being killed.
 */
#define OFED_DEADLINE_SECONDS 1200

/* A pod has 30 s from SIGTERM to SIGKILL unless it says otherwise; 5 of them for the unloading. */
#define UNLOAD_DEADLINE_SECONDS 20

#define SECONDS_MAX (7L * 24 * 3600)

static bool is_true(const char *name)
{
	const char *value = getenv(name);

	return value && strcasecmp(value, "true") == 0;
}

static int read_seconds(const char *name, long otherwise, uint32_t *ret_ms, struct error *error)
{
	const char *value = getenv(name);
	long seconds = otherwise;
	char *end;

	if (value && *value) {
		errno = 0;
		seconds = strtol(value, &end, 10);
		if (errno || *end || seconds < 1 || seconds > SECONDS_MAX)
			return error_set(error, -EINVAL, "%s=%s: give whole seconds from 1 to %ld",
				name, value, SECONDS_MAX);
	}
	*ret_ms = (uint32_t) seconds * 1000;
	return 0;
}

int options_read(struct options *options, struct error *error)
{
	int r;

	options->rdma = is_true(CONTRACT_ENV_RDMA);
	options->host_ofed = is_true(CONTRACT_ENV_HOST_OFED);
	options->restore_inbox = is_true(CONTRACT_ENV_RESTORE);
	r = read_seconds(
		"SLIPWAY_OFED_DEADLINE_SECONDS", OFED_DEADLINE_SECONDS, &options->ofed_ms, error);
	if (r < 0)
		return r;
	return read_seconds("SLIPWAY_UNLOAD_DEADLINE_SECONDS", UNLOAD_DEADLINE_SECONDS,
		&options->unload_ms, error);
}
