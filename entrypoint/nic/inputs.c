/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/nic/inputs_internal.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "common/fs.h"
#include "common/path.h"
#include "entrypoint/contract.h"
#include "entrypoint/nic/nic_internal.h"
#include "entrypoint/options.h"
#include "entrypoint/role/mounts.h"
#include "entrypoint/role/roles.h"

/* What the lists of the operators' documentation have between names, and what people write. */
#define SEPARATORS ": ,\t\n"

/* What one device may take to come is at least this. */
#define BIND_LEAST_MS 1000

/* Ours, in the inventory. */
#define OWN_FOLDER ".slipway"

static const char *const modes[] = {
	[NIC_PRECOMPILED] = "precompiled",
	[NIC_SOURCES] = "sources",
};

const char *nic_mode_name(enum nic_mode mode)
{
	return modes[mode];
}

static int read_mode(struct nic_inputs *inputs, char *const *arguments, struct error *error)
{
	inputs->mode = NIC_PRECOMPILED;
	if (!arguments || !arguments[0])
		return 0;
	if (arguments[1])
		return error_set(error, -EINVAL, "nic-driver takes one argument, and no \"%.64s\"",
			arguments[1]);
	for (size_t i = 0; i < ARRAY_SIZE(modes); i++)
		if (strcmp(arguments[0], modes[i]) == 0) {
			inputs->mode = (enum nic_mode) i;
			return 0;
		}
	return error_set(
		error, -EINVAL, "nic-driver \"%.64s\": give precompiled or sources", arguments[0]);
}

static bool is_module_name(const char *name)
{
	return strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") ==
		       strlen(name) &&
	       strlen(name) < 64;
}

/* A variable that is set to nothing is an empty list. */
static int read_list(
	const char *variable, const char *otherwise, struct strv *names, struct error *error)
{
	const char *value = getenv(variable);

	if (strv_split(names, value ? value : otherwise, SEPARATORS) < 0)
		return error_set_errno(error, -ENOMEM, "%s", variable);
	for (size_t i = 0; i < names->count; i++) {
		for (char *dash = names->items[i]; (dash = strchr(dash, '-'));)
			*dash = '_';
		if (!is_module_name(names->items[i]))
			return error_set(error, -EINVAL,
				"%s has \"%.64s\", which is no module's name: give names with a "
				"space between",
				variable, names->items[i]);
	}
	return 0;
}

static bool climbs(const char *path)
{
	for (const char *dots = path; (dots = strstr(dots, "..")); dots += 2)
		if ((dots == path || dots[-1] == '/') && (dots[2] == '/' || !dots[2]))
			return true;
	return false;
}

/* Relative to the root, without '/' at either end. */
static int read_path(const char *variable, const char *otherwise, char **ret, struct error *error)
{
	const char *value = getenv(variable);
	size_t length;

	if (value && *value && (*value != '/' || climbs(value)))
		return error_set(error, -EINVAL, "%s=%.200s: give a path from the root, without ..",
			variable, value);
	if (!value || !*value)
		value = otherwise;
	value += strspn(value, "/");
	length = strlen(value);
	while (length && value[length - 1] == '/')
		length--;
	if (!length && *otherwise)
		return error_set(error, -EINVAL, "%s=/: the root itself cannot be it", variable);
	*ret = strndup(value, length);
	return *ret ? 0 : error_set_errno(error, -ENOMEM, "%s", variable);
}

/* A folder of the container's own root goes with the container, which a power loss ends too. */
static bool is_on_disk(const char *inventory, int root_fd)
{
	struct mountinfo mount;

	if (!*inventory || !fs_exists(root_fd, inventory))
		return false;
	return mountinfo_find(root_fd, inventory, &mount) < 0 || !mount.of_root;
}

/*
 * Made at once where it is not there: in a folder with the sticky bit it could be anybody's by the
 * time that it is written to.
 */
static int open_own(int inventory_fd, struct error *why)
{
	int fd = open_owned(inventory_fd, OWN_FOLDER, O_RDONLY | O_DIRECTORY, why);

	if (fd != -ENOENT)
		return fd;
	if (mkdirat(inventory_fd, OWN_FOLDER, 0700) < 0 && errno != EEXIST)
		return error_set_errno(why, -errno, OWN_FOLDER " cannot be made");
	return open_owned(inventory_fd, OWN_FOLDER, O_RDONLY | O_DIRECTORY, why);
}

/*
 * Journals say what is written to the host's files and /proc/sys, and modules are loaded from
 * there: what others could write is not believed, nor what cannot be looked at.
 */
static bool is_roots(struct nic_inputs *inputs, int root_fd)
{
	_cleanup_close_ int inventory_fd =
		open_in_root(root_fd, inputs->inventory, O_RDONLY | O_DIRECTORY);
	_cleanup_close_ int fd = -1;
	struct error why = { "" };

	fd = inventory_fd < 0 ? error_set_errno(&why, inventory_fd, "it cannot be opened")
			      : open_own(inventory_fd, &why);
	if (fd >= 0)
		return true;
	(void) snprintf(inputs->distrusted, sizeof(inputs->distrusted), "%.255s", why.text);
	return false;
}

static int read_variables(struct nic_inputs *inputs, struct error *error)
{
	const struct {
		const char *name;
		bool *value;
	} flags[] = {
		{ CONTRACT_ENV_UNLOAD_STORAGE, &inputs->unload_storage },
		{ CONTRACT_ENV_UNLOAD_THIRD_PARTY, &inputs->unload_third_party },
		{ CONTRACT_ENV_IFNAMES, &inputs->ifnames_rule },
		{ CONTRACT_ENV_NFSRDMA, &inputs->nfsrdma },
	};
	const struct {
		const char *name;
		const char *otherwise;
		struct strv *list;
	} lists[] = {
		{ CONTRACT_ENV_STORAGE, CONTRACT_NIC_STORAGE, &inputs->storage },
		{ CONTRACT_ENV_THIRD_PARTY, CONTRACT_NIC_THIRD_PARTY, &inputs->third_party },
		{ CONTRACT_ENV_AUXILIARY, CONTRACT_NIC_AUXILIARY, &inputs->auxiliary },
		{ CONTRACT_ENV_BLACKLIST, CONTRACT_NIC_BLACKLIST, &inputs->blacklist },
	};
	const struct {
		const char *name;
		const char *otherwise;
		char **path;
	} paths[] = {
		{ CONTRACT_ENV_READY_FILE, CONTRACT_OFED_READY, &inputs->ready_file },
		{ CONTRACT_ENV_LOCK_FILE, CONTRACT_OFED_LOCK, &inputs->lock_file },
		{ CONTRACT_ENV_DRIVERS_MOUNT, CONTRACT_OFED_RUN, &inputs->drivers_mount },
		{ CONTRACT_ENV_SOURCES, CONTRACT_SOURCES, &inputs->sources },
		{ CONTRACT_ENV_UDEV_RULES, CONTRACT_NIC_UDEV_RULES, &inputs->udev_rules },
		{ CONTRACT_ENV_BLACKLIST_FILE, CONTRACT_NIC_BLACKLIST_FILE,
			&inputs->blacklist_file },
		{ CONTRACT_ENV_INVENTORY, "", &inputs->inventory },
	};
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(flags); i++)
		r = options_flag(flags[i].name, flags[i].value, error);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(lists); i++)
		r = read_list(lists[i].name, lists[i].otherwise, lists[i].list, error);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(paths); i++)
		r = read_path(paths[i].name, paths[i].otherwise, paths[i].path, error);
	return r < 0 ? r
		     : options_seconds(CONTRACT_ENV_BIND_DELAY, 0, CONTRACT_NIC_BIND_SECONDS,
			       &inputs->bind_ms, error);
}

int nic_inputs_read(
	struct nic_inputs *inputs, int root_fd, char *const *arguments, struct error *error)
{
	int r = read_mode(inputs, arguments, error);

	if (r == 0)
		r = read_variables(inputs, error);
	if (r < 0)
		return r;
	/* "No delay" is no look at whether a device has come. */
	if (inputs->bind_ms < BIND_LEAST_MS)
		inputs->bind_ms = BIND_LEAST_MS;
	inputs->distrusted[0] = '\0';
	inputs->journal_on_disk =
		is_on_disk(inputs->inventory, root_fd) && is_roots(inputs, root_fd);
	if (asprintf(&inputs->shown_sources, "%s/%s", inputs->drivers_mount, inputs->sources) < 0)
		inputs->shown_sources = NULL;
	if (asprintf(&inputs->journal_folder, "%s%s",
		    inputs->journal_on_disk ? inputs->inventory : NIC_STATE_FOLDER,
		    inputs->journal_on_disk ? "/" OWN_FOLDER : "") < 0)
		inputs->journal_folder = NULL;
	return inputs->shown_sources && inputs->journal_folder
		       ? 0
		       : error_set_errno(error, -ENOMEM, "environment");
}

void nic_inputs_free(struct nic_inputs *inputs)
{
	char *const strings[] = { inputs->ready_file, inputs->lock_file, inputs->drivers_mount,
		inputs->sources, inputs->shown_sources, inputs->udev_rules, inputs->blacklist_file,
		inputs->inventory, inputs->journal_folder };

	strv_free(&inputs->storage);
	strv_free(&inputs->third_party);
	strv_free(&inputs->auxiliary);
	strv_free(&inputs->blacklist);
	for (size_t i = 0; i < ARRAY_SIZE(strings); i++)
		free(strings[i]);
	*inputs = (struct nic_inputs){ .mode = NIC_PRECOMPILED };
}

/* ---- variables of the stock image that are accepted and change nothing here, each with its why */

#define NO_TOOLKIT "OpenShift's driver toolkit is not used: this container compiles by itself"

static const struct ignored_env without_use[] = {
	{ "no package of a distribution is installed at a start", NULL, { "UBUNTU_PRO_TOKEN" } },
	{ "the image knows where its own sources are", NULL, { "NVIDIA_NIC_DRIVER_PATH" } },
	{ NO_TOOLKIT, NULL,
		{ CONTRACT_ENV_DTK, CONTRACT_ENV_DTK_FOLDER, CONTRACT_ENV_DTK_VERSION,
			CONTRACT_ENV_DTK_START, CONTRACT_ENV_DTK_DONE } },
	{ "a build is kept under a key of all that went into it, for every kernel", NULL,
		{ "USE_DKMS" } },
	{ "every step is told as it is", NULL, { CONTRACT_ENV_DEBUG } },
	{ "the log is the container's own, and the events lie beside the status", NULL,
		{ "DEBUG_LOG_FILE" } },
	{ "why it ended stands in the termination message, which a container that sleeps hides",
		NULL, { "DEBUG_SLEEP_SEC_ON_EXIT" } },
	{ "there is one entrypoint", NULL, { "USE_NEW_ENTRYPOINT" } },
	{ "it is the operator's init container's, not this one's", NULL,
		{ "SKIP_PREFLIGHT_CHECKS" } },
	IGNORED_ENV_PROXIES,
};

static const char *value_of(const char *name)
{
	const char *value = getenv(name);

	return value ? value : "";
}

static void log_memory(const struct nic_inputs *inputs, struct log *log)
{
	struct error note;

	if (!*inputs->inventory || inputs->journal_on_disk)
		return;
	(void) error_set(&note, 0,
		"/%s (%s) %s%s: what a start remembers lies in memory, and is lost with the node's "
		"power",
		inputs->inventory, CONTRACT_ENV_INVENTORY,
		*inputs->distrusted ? "is not used, " : "is no folder of the host",
		inputs->distrusted);
	log_event(log, "note", "environment", 0, REASON_NONE, note.text);
}

static void log_distrusted(struct log *log)
{
	struct error why = { "" };
	struct error note;

	if (!nic_network_is_distrusted(log->root_fd, &why))
		return;
	(void) error_set(&note, 0,
		"what an earlier life saved of the network is not believed, and not given back: %s",
		why.text);
	log_event(log, "note", "environment", 0, REASON_NONE, note.text);
}

void nic_inputs_tell(const struct nic_inputs *inputs, struct log *log)
{
	ignored_env_tell(log, "environment", without_use, ARRAY_SIZE(without_use));
	if (inputs->mode == NIC_PRECOMPILED && *value_of(CONTRACT_ENV_BUILD_FLAGS))
		log_event(log, "note", "environment", 0, REASON_NONE,
			CONTRACT_ENV_BUILD_FLAGS
			" is for the mode sources: precompiled modules are compiled already");
	log_memory(inputs, log);
	log_distrusted(log);
}
