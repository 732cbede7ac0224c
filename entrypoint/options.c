/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/options.h"

#include <getopt.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "common/nearest.h"
#include "common/strv.h"
#include "entrypoint/contract.h"
#include "entrypoint/engine/log.h"

#define THREADS_MAX   4096L
#define ARGUMENTS_MAX 32
#define SECONDS_MAX   (7L * 24 * 3600)

#define PREFIX    "SLIPWAY_"
#define NAME_SIZE 64

/* A pod has variables of all kinds: of names as long as these, so few mistakes are no accident. */
#define SLIPS 2

struct variable {
	const char *name;
	enum {
		FLAG,     /* bool */
		TEXT,     /* const char *, as it is */
		CHOICE,   /* bool: of two words, the one that is not usual */
		SECONDS,  /* uint32_t, in milliseconds */
		BY_NIC,   /* read in nic/inputs.c */
		BY_BUILD, /* of slipway build, its recipes or tests: nothing to us, and no mistake
			   */
	} kind;
	size_t field;         /* of struct options */
	const char *words[2]; /* of a choice */
	const char *usual;
	long seconds; /* unless it is set */
};

#define FIELD(member) offsetof(struct options, member)

/* All that slipway-init reads of the environment, and who reads it: here unless it says otherwise.
 */
static const struct variable variables[] = {
	{ .name = "SLIPWAY_NODE_CACHE", .kind = TEXT, .field = FIELD(node_cache) },
	{ .name = "SLIPWAY_NODE_HEADERS",
		.kind = CHOICE,
		.field = FIELD(host_headers),
		.words = { "host", "any" },
		.usual = "any" },
	{ .name = "SLIPWAY_NVIDIA_DRM", .kind = FLAG, .field = FIELD(drm) },
	/*
	 * The GPU operator's startup probe gives a container 60 + 1200 s: a wait that ends a little
	 * before tells its reason itself instead of being killed.
	 */
	{ .name = "SLIPWAY_OFED_DEADLINE_SECONDS",
		.kind = SECONDS,
		.field = FIELD(ofed_ms),
		.seconds = 1200 },
	/* A pod has 30 s from SIGTERM to SIGKILL by default; 5 of them for the unloading. */
	{ .name = "SLIPWAY_UNLOAD_DEADLINE_SECONDS",
		.kind = SECONDS,
		.field = FIELD(unload_ms),
		.seconds = 20 },
	{ .name = CONTRACT_ENV_AUXILIARY, .kind = BY_NIC },
	{ .name = CONTRACT_ENV_BIND_DELAY, .kind = BY_NIC },
	{ .name = CONTRACT_ENV_BLACKLIST, .kind = BY_NIC },
	{ .name = CONTRACT_ENV_BLACKLIST_FILE, .kind = BY_NIC },
	{ .name = CONTRACT_ENV_BUILD_FLAGS, .kind = BY_NIC },
	{ .name = CONTRACT_ENV_DIGEST, .kind = TEXT, .field = FIELD(digest) },
	{ .name = CONTRACT_ENV_DRIVERS_MOUNT, .kind = BY_NIC },
	{ .name = CONTRACT_ENV_DRIVER_TYPE,
		.kind = CHOICE,
		.field = FIELD(vgpu),
		.words = { "passthrough", "vgpu" },
		.usual = "passthrough" },
	{ .name = CONTRACT_ENV_DTK, .kind = BY_NIC },
	{ .name = CONTRACT_ENV_DTK_FOLDER, .kind = BY_NIC },
	{ .name = CONTRACT_ENV_GDRCOPY, .kind = FLAG, .field = FIELD(gdrcopy) },
	{ .name = CONTRACT_ENV_GDS, .kind = FLAG, .field = FIELD(gds) },
	{ .name = CONTRACT_ENV_HOST_OFED, .kind = FLAG, .field = FIELD(host_ofed) },
	{ .name = CONTRACT_ENV_IFNAMES, .kind = BY_NIC },
	{ .name = CONTRACT_ENV_INVENTORY, .kind = BY_NIC },
	{ .name = CONTRACT_ENV_LICENSE_SERVER, .kind = TEXT, .field = FIELD(license_server) },
	{ .name = CONTRACT_ENV_LOCK_FILE, .kind = BY_NIC },
	{ .name = CONTRACT_ENV_NFSRDMA, .kind = BY_NIC },
	{ .name = CONTRACT_ENV_RDMA, .kind = FLAG, .field = FIELD(rdma) },
	{ .name = CONTRACT_ENV_READY_FILE, .kind = BY_NIC },
	{ .name = CONTRACT_ENV_RESTORE, .kind = FLAG, .field = FIELD(restore_inbox) },
	{ .name = CONTRACT_ENV_SOURCES, .kind = BY_NIC },
	{ .name = CONTRACT_ENV_STORAGE, .kind = BY_NIC },
	{ .name = CONTRACT_ENV_THIRD_PARTY, .kind = BY_NIC },
	{ .name = CONTRACT_ENV_UDEV_RULES, .kind = BY_NIC },
	{ .name = CONTRACT_ENV_UNLOAD_STORAGE, .kind = BY_NIC },
	{ .name = CONTRACT_ENV_UNLOAD_THIRD_PARTY, .kind = BY_NIC },
	{ .name = CONTRACT_ENV_VGPU_UNCHECKED, .kind = FLAG, .field = FIELD(vgpu_unchecked) },
	{ .name = "SLIPWAY_ARCH", .kind = BY_BUILD },
	{ .name = "SLIPWAY_CACHE", .kind = BY_BUILD },
	{ .name = "SLIPWAY_CC", .kind = BY_BUILD },
	{ .name = "SLIPWAY_DATADIR", .kind = BY_BUILD },
	{ .name = "SLIPWAY_JOBS", .kind = BY_BUILD },
	{ .name = "SLIPWAY_KERNEL", .kind = BY_BUILD },
	{ .name = "SLIPWAY_KILL_AT", .kind = BY_BUILD },
	{ .name = "SLIPWAY_KREL", .kind = BY_BUILD },
	{ .name = "SLIPWAY_MIRRORS", .kind = BY_BUILD },
	{ .name = "SLIPWAY_NFSRDMA", .kind = BY_BUILD },
	{ .name = "SLIPWAY_NVIDIA", .kind = BY_BUILD },
	{ .name = "SLIPWAY_OFED", .kind = BY_BUILD },
	{ .name = "SLIPWAY_OFED_FLAGS", .kind = BY_BUILD },
	{ .name = "SLIPWAY_OUTPUT", .kind = BY_BUILD },
	{ .name = "SLIPWAY_PATCHES", .kind = BY_BUILD },
	{ .name = "SLIPWAY_SOURCE", .kind = BY_BUILD },
	{ .name = "SLIPWAY_VERSION", .kind = BY_BUILD },
	{ .name = "SLIPWAY_WORK", .kind = BY_BUILD },
};

/* ---- values */

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

static int read_choice(const struct variable *variable, bool *ret, struct error *error)
{
	const char *value = getenv(variable->name);

	if (!value || !*value)
		value = variable->usual;
	*ret = strcasecmp(value, variable->usual) != 0;
	if (is_among(variable->words, 2, value))
		return 0;
	return error_set(error, -EINVAL, "%s=%.64s: give %s or %s", variable->name, value,
		variable->words[0], variable->words[1]);
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

static int read_variable(
	struct options *options, const struct variable *variable, struct error *error)
{
	void *field = (char *) options + variable->field;

	switch (variable->kind) {
	case FLAG:
		return options_flag(variable->name, field, error);
	case TEXT:
		*(const char **) field = getenv(variable->name);
		return 0;
	case CHOICE:
		return read_choice(variable, field, error);
	case SECONDS:
		return options_seconds(variable->name, 1, variable->seconds, field, error);
	default:
		return 0;
	}
}

/* ---- arguments */

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

	(void) snprintf(verb, sizeof(verb), "%s", options->verb ? options->verb : "init");
	for (; *arguments && count <= ARGUMENTS_MAX; arguments++)
		argv[count++] = *arguments;
	optind = 0; /* glibc: begin anew */
	while ((kind = getopt_long(count, argv, ":am:k:t:s:", known, NULL)) != -1) {
		int r = take_argument(options, kind, argv, error);

		if (r < 0)
			return r;
	}
	if (optind == count && !*arguments)
		return 0;
	return error_set(error, -EINVAL, "%s takes no \"%.64s\"", verb,
		optind < count ? argv[optind] : *arguments);
}

int options_read(struct options *options, char *const *arguments, struct error *error)
{
	const char *server;
	int first = 0;

	/* All are read, also behind one that is wrong: the first such is what is reported. */
	for (size_t i = 0; i < ARRAY_SIZE(variables); i++) {
		struct error later;
		int r = read_variable(options, &variables[i], first < 0 ? &later : error);

		first = first < 0 ? first : r;
	}
	if (first < 0)
		return first;
	if (!options->digest)
		options->digest = "";
	server = options->license_server;
	options->vgpu_token = !server || !*server || strcasecmp(server, "NLS") == 0;
	return arguments ? read_arguments(options, arguments, error) : 0;
}

/* ---- variables that are not read */

static bool is_ours(const struct variable *variable)
{
	return strncmp(variable->name, PREFIX, strlen(PREFIX)) == 0 && variable->kind != BY_BUILD;
}

static bool is_operators(const struct variable *variable)
{
	return strncmp(variable->name, PREFIX, strlen(PREFIX)) != 0;
}

static void suggest(const char *name, struct error *note)
{
	_cleanup_strv_ struct strv words = { 0 };
	_cleanup_free_ char *all = NULL;
	const char *meant;

	for (size_t i = 0; i < ARRAY_SIZE(variables); i++)
		if (is_ours(&variables[i]) && strv_push(&words, variables[i].name) < 0)
			return;
	meant = nearest_word(&words, name);
	all = strv_join(&words, ", ");
	if (meant)
		(void) error_set(note, 0, "%s is not a variable of slipway-init: did you mean %s?",
			name, meant);
	else
		(void) error_set(note, 0,
			"%s is not a variable of slipway-init, and has no effect: it reads %s",
			name, all ? all : "others");
}

/* Misspelt, a flag of the operator's is as good as not set, unnoticed. */
static bool is_slip(const char *name, struct error *note)
{
	for (size_t i = 0; i < ARRAY_SIZE(variables); i++)
		if (is_operators(&variables[i]) && is_slip_of(name, variables[i].name, SLIPS)) {
			(void) error_set(note, 0, "nobody reads %s: did you mean %s?", name,
				variables[i].name);
			return true;
		}
	return false;
}

bool variables_is_unknown(const char *entry, struct error *note)
{
	char name[NAME_SIZE];

	(void) snprintf(name, sizeof(name), "%.*s", (int) strcspn(entry, "="), entry);
	for (size_t i = 0; i < ARRAY_SIZE(variables); i++)
		if (strcmp(variables[i].name, name) == 0)
			return false;
	if (strncmp(name, PREFIX, strlen(PREFIX)) != 0)
		return is_slip(name, note);
	suggest(name, note);
	return true;
}

void variables_tell(struct log *log)
{
	for (char *const *entry = environ; entry && *entry; entry++) {
		struct error note = { "" };

		if (variables_is_unknown(*entry, &note))
			log_event(log, "note", "environment", 0, REASON_NONE, note.text);
	}
}

static bool is_reported(const struct ignored_env *group, const char *value)
{
	return value && *value && !(group->usual && strcmp(group->usual, value) == 0);
}

static void report_group(struct log *log, const char *step, const struct ignored_env *group)
{
	_cleanup_strv_ struct strv set = { 0 };
	_cleanup_free_ char *names = NULL;
	struct error text;

	for (const char *const *name = group->names; *name; name++)
		if (is_reported(group, getenv(*name)) && strv_push(&set, *name) < 0)
			return;
	names = set.count ? strv_join(&set, ", ") : NULL;
	if (!names)
		return;
	(void) error_set(&text, 0, "%s %s set: not needed, because %s", names,
		set.count == 1 ? "is" : "are", group->reason);
	log_event(log, "note", step, 0, REASON_NONE, text.text);
}

void ignored_env_tell(
	struct log *log, const char *step, const struct ignored_env *groups, size_t count)
{
	for (size_t i = 0; i < count; i++)
		report_group(log, step, &groups[i]);
}
