/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/options.h"

#include <getopt.h>
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

#define THREADS_MAX   4096L
#define ARGUMENTS_MAX 32
#define SECONDS_MAX   (7L * 24 * 3600)

/* The operators write "true" and "false"; people write others. */
static const char *const words_of_yes[] = { "true", "1", "yes", "on" };
static const char *const words_of_no[] = { "", "false", "0", "no", "off" };

static bool is_among(const char *const *words, size_t count, const char *value)
{
	for (size_t i = 0; i < count; i++)
		if (strcasecmp(words[i], value) == 0)
			return true;
	return false;
}

int options_flag(const char *name, bool *ret, struct error *error)
{
	const char *value = getenv(name);

	*ret = value && is_among(words_of_yes, ARRAY_SIZE(words_of_yes), value);
	if (!value || *ret || is_among(words_of_no, ARRAY_SIZE(words_of_no), value))
		return 0;
	return error_set(error, -EINVAL,
		"%s=%.64s: give true (also 1, yes, on) or false (0, no, off, or nothing)", name,
		value);
}

/* All are read, also behind one that is wrong: the first such is what is told. */
static int read_flags(struct options *options, struct error *error)
{
	const struct {
		const char *name;
		bool *value;
	} flags[] = {
		{ CONTRACT_ENV_GDS, &options->gds },
		{ CONTRACT_ENV_GDRCOPY, &options->gdrcopy },
		{ CONTRACT_ENV_TOOLKIT_MISSING, &options->toolkit_missing },
		{ "SLIPWAY_NVIDIA_DRM", &options->drm },
		{ CONTRACT_ENV_VGPU_UNCHECKED, &options->vgpu_unchecked },
		{ CONTRACT_ENV_RDMA, &options->rdma },
		{ CONTRACT_ENV_HOST_OFED, &options->host_ofed },
		{ CONTRACT_ENV_RESTORE, &options->restore_inbox },
	};
	struct error later;
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(flags); i++) {
		int flag = options_flag(flags[i].name, flags[i].value, r < 0 ? &later : error);

		r = r < 0 ? r : flag;
	}
	return r;
}

static bool is_value(const char *name, const char *otherwise, const char *wanted)
{
	const char *value = getenv(name);

	return strcasecmp(value && *value ? value : otherwise, wanted) == 0;
}

static int read_driver_type(struct options *options, struct error *error)
{
	static const char name[] = CONTRACT_ENV_DRIVER_TYPE;

	options->vgpu = is_value(name, "passthrough", "vgpu");
	if (options->vgpu || is_value(name, "passthrough", "passthrough"))
		return 0;
	return error_set(error, -EINVAL, "%s=%.64s: give passthrough or vgpu", name, getenv(name));
}

static int read_headers(struct options *options, struct error *error)
{
	static const char name[] = "SLIPWAY_NODE_HEADERS";

	options->host_headers = is_value(name, "any", "host");
	if (options->host_headers || is_value(name, "any", "any"))
		return 0;
	return error_set(error, -EINVAL, "%s=%.64s: give host or any", name, getenv(name));
}

int options_seconds(
	const char *name, long least, long otherwise, uint32_t *ret_ms, struct error *error)
{
	const char *value = getenv(name);
	long seconds = otherwise;
	char *end;

	if (value && *value) {
		errno = 0;
		seconds = strtol(value, &end, 10);
		if (errno || *end || seconds < least || seconds > SECONDS_MAX)
			return error_set(error, -EINVAL,
				"%s=%s: give whole seconds from %ld to %ld", name, value, least,
				SECONDS_MAX);
	}
	*ret_ms = (uint32_t) seconds * 1000;
	return 0;
}

static int read_number(const char *name, const char *text, uint32_t *ret, struct error *error)
{
	char *end;
	long number;

	errno = 0;
	number = strtol(text, &end, 10);
	if (errno || !*text || *end || number < 1 || number > THREADS_MAX)
		return error_set(error, -EINVAL, "%s %s: give a whole number from 1 to %ld", name,
			text, THREADS_MAX);
	*ret = (uint32_t) number;
	return 0;
}

/* An argument that getopt_long() did not take: its name is still where it looked last. */
static int refuse_argument(int kind, char *const *argv, struct error *error)
{
	return error_set(error, -EINVAL,
		"%s: %s \"%.64s\": it takes [-a | --accept-license] [-m | --max-threads N] "
		"[-k | --kernel VERSION] [-t | --tag TAG] [-s | --sign KEYID]",
		argv[0], kind == ':' ? "no value after" : "no such argument", argv[optind - 1]);
}

static int take_argument(struct options *options, int kind, char *const *argv, struct error *error)
{
	switch (kind) {
	case 'a':
		options->accept_license = true;
		return 0;
	case 'm':
		return read_number("--max-threads", optarg, &options->max_threads, error);
	case 'k':
		options->kernel = optarg;
		return 0;
	case 't':
		options->tag = optarg;
		return 0;
	case 's':
		options->sign = optarg;
		return 0;
	default:
		return refuse_argument(kind, argv, error);
	}
}

/*
 * What the stock image's script takes, in all that getopt(1) allows it: "-m8", "--max-threads=8",
 * "--max 8". Source: NVIDIA gpu-driver-container, ubuntu24.04/nvidia-driver, rhel9/nvidia-driver.
 */
static int read_arguments(struct options *options, char *const *arguments, struct error *error)
{
	static const struct option known[] = {
		{ "accept-license", no_argument, NULL, 'a' },
		{ "max-threads", required_argument, NULL, 'm' },
		{ "kernel", required_argument, NULL, 'k' },
		{ "tag", required_argument, NULL, 't' },
		{ "sign", required_argument, NULL, 's' },
		{ NULL, 0, NULL, 0 },
	};
	char verb[16];
	char *argv[ARGUMENTS_MAX + 2] = { verb };
	int count = 1;
	int kind;
	int r = 0;

	(void) snprintf(verb, sizeof(verb), "%s", options->verb ? options->verb : "init");
	for (; *arguments && count <= ARGUMENTS_MAX; arguments++)
		argv[count++] = *arguments;
	optind = 0; /* glibc: begin anew */
	while (r == 0 && (kind = getopt_long(count, argv, ":am:k:t:s:", known, NULL)) != -1)
		r = take_argument(options, kind, argv, error);
	if (r == 0 && (optind < count || *arguments))
		r = error_set(error, -EINVAL, "%s takes no \"%.64s\"", verb,
			optind < count ? argv[optind] : *arguments);
	return r;
}

int options_read(struct options *options, char *const *arguments, struct error *error)
{
	const char *digest = getenv(CONTRACT_ENV_DIGEST);
	int r;

	options->digest = digest ? digest : "";
	options->node_cache = getenv("SLIPWAY_NODE_CACHE");
	options->vgpu_token = is_value(CONTRACT_ENV_LICENSE_SERVER, "NLS", "NLS");
	r = read_flags(options, error);
	if (r == 0)
		r = read_driver_type(options, error);
	if (r == 0)
		r = read_headers(options, error);
	if (r == 0 && arguments)
		r = read_arguments(options, arguments, error);
	if (r < 0)
		return r;
	r = options_seconds("SLIPWAY_OFED_DEADLINE_SECONDS", 1, OFED_DEADLINE_SECONDS,
		&options->ofed_ms, error);
	if (r < 0)
		return r;
	return options_seconds("SLIPWAY_UNLOAD_DEADLINE_SECONDS", 1, UNLOAD_DEADLINE_SECONDS,
		&options->unload_ms, error);
}
