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
		FLAG,    /* bool */
		TEXT,    /* const char *, as it is */
		CHOICE,  /* bool: of two words, the one that is not usual */
		SECONDS, /* uint32_t, in milliseconds */
	} kind;
	size_t field;         /* of struct options */
	const char *words[2]; /* of a choice, the usual one first */
	long seconds;         /* unless it is set */
};

#define FIELD(member) offsetof(struct options, member)

/* All that slipway-init reads of the environment, with nic_variables. */
static const struct variable variables[] = {
	{ "SLIPWAY_NODE_CACHE", TEXT, FIELD(node_cache), { NULL }, 0 },
	{ "SLIPWAY_NODE_HEADERS", CHOICE, FIELD(host_headers), { "any", "host" }, 0 },
	{ "SLIPWAY_NVIDIA_DRM", FLAG, FIELD(drm), { NULL }, 0 },
	{ "SLIPWAY_ALLOW_MODULE_LOSS", FLAG, FIELD(module_loss), { NULL }, 0 },
	{ "SLIPWAY_STRICT_PARAMETERS", FLAG, FIELD(strict_parameters), { NULL }, 0 },
	{ "SLIPWAY_UNLISTED_GPUS", FLAG, FIELD(unlisted_gpus), { NULL }, 0 },
	/*
	 * The GPU operator's startup probe gives a container 60 + 1200 s: a wait that ends a little
	 * before reports its reason itself instead of being killed.
	 */
	{ "SLIPWAY_OFED_DEADLINE_SECONDS", SECONDS, FIELD(ofed_ms), { NULL }, 1200 },
	/* A pod has 30 s from SIGTERM to SIGKILL by default; 5 of them for the unloading. */
	{ "SLIPWAY_UNLOAD_DEADLINE_SECONDS", SECONDS, FIELD(unload_ms), { NULL }, 20 },
	{ CONTRACT_ENV_DIGEST, TEXT, FIELD(digest), { NULL }, 0 },
	{ CONTRACT_ENV_DRIVER_TYPE, CHOICE, FIELD(vgpu), { "passthrough", "vgpu" }, 0 },
	{ CONTRACT_ENV_GDRCOPY, FLAG, FIELD(gdrcopy), { NULL }, 0 },
	{ CONTRACT_ENV_GDS, FLAG, FIELD(gds), { NULL }, 0 },
	{ CONTRACT_ENV_HOST_OFED, FLAG, FIELD(host_ofed), { NULL }, 0 },
	{ CONTRACT_ENV_LICENSE_SERVER, TEXT, FIELD(license_server), { NULL }, 0 },
	{ CONTRACT_ENV_RDMA, FLAG, FIELD(rdma), { NULL }, 0 },
	{ CONTRACT_ENV_RESTORE, FLAG, FIELD(restore_inbox), { NULL }, 0 },
	{ CONTRACT_ENV_VGPU_UNCHECKED, FLAG, FIELD(vgpu_unchecked), { NULL }, 0 },
};

/* Read in nic/inputs.c. */
static const char *const nic_variables[] = { CONTRACT_ENV_AUXILIARY, CONTRACT_ENV_BIND_DELAY,
	CONTRACT_ENV_BLACKLIST, CONTRACT_ENV_BLACKLIST_FILE, CONTRACT_ENV_BUILD_FLAGS,
	CONTRACT_ENV_DRIVERS_MOUNT, CONTRACT_ENV_DTK, CONTRACT_ENV_DTK_FOLDER, CONTRACT_ENV_IFNAMES,
	CONTRACT_ENV_INVENTORY, CONTRACT_ENV_LOCK_FILE, CONTRACT_ENV_NFSRDMA,
	CONTRACT_ENV_READY_FILE, CONTRACT_ENV_SOURCES, CONTRACT_ENV_STORAGE,
	CONTRACT_ENV_THIRD_PARTY, CONTRACT_ENV_UDEV_RULES, CONTRACT_ENV_UNLOAD_STORAGE,
	CONTRACT_ENV_UNLOAD_THIRD_PARTY };

/* Variables of slipway build, its recipes or tests: without effect here, and no mistake. */
static const char *const build_variables[] = { "SLIPWAY_ARCH", "SLIPWAY_CACHE", "SLIPWAY_CC",
	"SLIPWAY_DATADIR", "SLIPWAY_JOBS", "SLIPWAY_KERNEL", "SLIPWAY_KILL_AT", "SLIPWAY_KREL",
	"SLIPWAY_MIRRORS", "SLIPWAY_NFSRDMA", "SLIPWAY_NVIDIA", "SLIPWAY_OFED",
	"SLIPWAY_OFED_FLAGS", "SLIPWAY_OUTPUT", "SLIPWAY_PATCHES", "SLIPWAY_SOURCE",
	"SLIPWAY_VERSION", "SLIPWAY_WORK" };

/* ---- values */

/* The operators write "true" and "false"; people write others. */
static const char *const words_of_yes[] = { "true", "1", "yes", "on" };
static const char *const words_of_no[] = { "", "false", "0", "no", "off" };

static bool is_among(const char *const *words, size_t count, const char *value,
	int (*compare)(const char *, const char *))
{
	for (size_t i = 0; i < count; i++)
		if (compare(words[i], value) == 0)
			return true;
	return false;
}

int options_flag(const char *name, bool *ret, struct error *error)
{
	const char *value = getenv(name);

	*ret = value && is_among(words_of_yes, ARRAY_SIZE(words_of_yes), value, strcasecmp);
	if (!value || *ret || is_among(words_of_no, ARRAY_SIZE(words_of_no), value, strcasecmp))
		return 0;
	return error_set(error, -EINVAL,
		"%s=%.64s: give true (also 1, yes, on) or false (0, no, off, or nothing)", name,
		value);
}

static bool read_number(const char *text, long least, long most, long *ret)
{
	char *end;

	errno = 0;
	*ret = strtol(text, &end, 10);
	return !errno && *text && !*end && *ret >= least && *ret <= most;
}

int options_seconds(
	const char *name, long least, long otherwise, uint32_t *ret_ms, struct error *error)
{
	const char *value = getenv(name);
	long seconds = otherwise;

	if (value && *value && !read_number(value, least, SECONDS_MAX, &seconds))
		return error_set(error, -EINVAL, "%s=%s: give whole seconds from %ld to %ld", name,
			value, least, SECONDS_MAX);
	*ret_ms = (uint32_t) seconds * 1000;
	return 0;
}

static int read_variable(
	struct options *options, const struct variable *variable, struct error *error)
{
	void *field = (char *) options + variable->field;
	const char *value = getenv(variable->name);

	switch (variable->kind) {
	case FLAG:
		return options_flag(variable->name, field, error);
	case TEXT:
		*(const char **) field = value;
		return 0;
	case CHOICE:
		if (!value || !*value)
			value = variable->words[0];
		*(bool *) field = strcasecmp(value, variable->words[0]) != 0;
		if (is_among(variable->words, 2, value, strcasecmp))
			return 0;
		return error_set(error, -EINVAL, "%s=%.64s: give %s or %s", variable->name, value,
			variable->words[0], variable->words[1]);
	default:
		return options_seconds(variable->name, 1, variable->seconds, field, error);
	}
}

/* ---- arguments */

/*
 * Takes the arguments of the stock image's script, in every form that getopt(1) allows: "-m8",
 * "--max-threads=8", "--max 8". Source: NVIDIA gpu-driver-container, ubuntu24.04/nvidia-driver,
 * rhel9/nvidia-driver.
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
	long threads;
	int kind;

	(void) snprintf(verb, sizeof(verb), "%s", options->verb ? options->verb : "init");
	for (; *arguments && count <= ARGUMENTS_MAX; arguments++)
		argv[count++] = *arguments;
	optind = 0; /* glibc: begin anew */
	while ((kind = getopt_long(count, argv, ":am:k:t:s:", known, NULL)) != -1) {
		switch (kind) {
		case 'a':
			options->accept_license = true;
			break;
		case 'm':
			if (!read_number(optarg, 1, THREADS_MAX, &threads))
				return error_set(error, -EINVAL,
					"--max-threads %s: give a whole number from 1 to %ld",
					optarg, THREADS_MAX);
			options->max_threads = (uint32_t) threads;
			break;
		case 'k':
			options->kernel = optarg;
			break;
		case 't':
			options->tag = optarg;
			break;
		case 's':
			options->sign = optarg;
			break;
		default: /* its name is still where getopt_long() looked last */
			return error_set(error, -EINVAL,
				"%s: %s \"%.64s\": it takes [-a | --accept-license] "
				"[-m | --max-threads N] [-k | --kernel VERSION] [-t | --tag TAG] "
				"[-s | --sign KEYID]",
				verb, kind == ':' ? "no value after" : "no such argument",
				argv[optind - 1]);
		}
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

static bool is_ours(const char *name)
{
	return strncmp(name, PREFIX, strlen(PREFIX)) == 0;
}

/* Misspelt, a flag of the operator's is as good as not set, unnoticed. */
static bool is_slip(const char *name, const char *other, struct error *note)
{
	if (is_ours(other) || !is_slip_of(name, other, SLIPS))
		return false;
	(void) error_set(note, 0, "%s is not read: did you mean %s?", name, other);
	return true;
}

bool variables_is_unknown(const char *entry, struct error *note)
{
	_cleanup_strv_ struct strv words = { 0 };
	_cleanup_free_ char *all = NULL;
	char name[NAME_SIZE];
	const char *meant;

	(void) snprintf(name, sizeof(name), "%.*s", (int) strcspn(entry, "="), entry);
	for (size_t i = 0; i < ARRAY_SIZE(variables); i++) {
		if (strcmp(variables[i].name, name) == 0)
			return false;
		if (is_ours(variables[i].name) && strv_push(&words, variables[i].name) < 0)
			return false;
	}
	if (is_among(nic_variables, ARRAY_SIZE(nic_variables), name, strcmp) ||
		is_among(build_variables, ARRAY_SIZE(build_variables), name, strcmp))
		return false;
	if (is_ours(name)) {
		meant = nearest_word(&words, name);
		all = strv_join(&words, ", ");
		if (meant)
			(void) error_set(note, 0,
				"%s is not a variable of slipway-init: did you mean %s?", name,
				meant);
		else
			(void) error_set(note, 0,
				"%s is not a variable of slipway-init, and has no effect: it reads %s",
				name, all ? all : "others");
		return true;
	}
	for (size_t i = 0; i < ARRAY_SIZE(variables); i++)
		if (is_slip(name, variables[i].name, note))
			return true;
	for (size_t i = 0; i < ARRAY_SIZE(nic_variables); i++)
		if (is_slip(name, nic_variables[i], note))
			return true;
	return false;
}

void variables_report(struct log *log)
{
	for (char *const *entry = environ; entry && *entry; entry++) {
		struct error note = { 0 };

		if (variables_is_unknown(*entry, &note))
			log_event(log, "note", "environment", 0, REASON_NONE, note.text);
	}
}

void ignored_env_report(
	struct log *log, const char *step, const struct ignored_env *groups, size_t count)
{
	for (const struct ignored_env *group = groups; group < groups + count; group++) {
		_cleanup_strv_ struct strv set = { 0 };
		_cleanup_free_ char *names = NULL;
		struct error text;

		for (const char *const *name = group->names; *name; name++) {
			const char *value = getenv(*name);

			if (!value || !*value || (group->usual && strcmp(group->usual, value) == 0))
				continue;
			if (strv_push(&set, *name) < 0)
				return;
		}
		names = set.count ? strv_join(&set, ", ") : NULL;
		if (!names)
			continue;
		(void) error_set(&text, 0, "%s %s set: not needed, because %s", names,
			set.count == 1 ? "is" : "are", group->reason);
		log_event(log, "note", step, 0, REASON_NONE, text.text);
	}
}
