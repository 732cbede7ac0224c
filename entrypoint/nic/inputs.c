/* SPDX-License-Identifier: Apache-2.0 */
/* The network operator's inputs to the NIC container: its argument and its environment. */
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>

#include "common/fs.h"
#include "common/path.h"
#include "entrypoint/contract.h"
#include "entrypoint/nic/nic_internal.h"
#include "entrypoint/options.h"
#include "entrypoint/role/mounts.h"

/* Separators of names in the lists of the operators' documentation, and those that people write. */
#define SEPARATORS ": ,\t\n"

/* The least time that one device is given to come. */
#define BIND_LEAST_MS 1000

static const char *const modes[] = {
	[NIC_PRECOMPILED] = "precompiled",
	[NIC_SOURCES] = "sources",
};

/* Set to nothing, a LIST has its default, as in the stock image; a LIST_OR_NONE is empty. */
enum kind { FLAG, LIST, LIST_OR_NONE, PATH };

#define INPUT(member) offsetof(struct nic_inputs, member)

static const struct variable {
	const char *name;
	enum kind kind;
	size_t offset;
	const char *otherwise;
} variables[] = {
	{ CONTRACT_ENV_UNLOAD_STORAGE, FLAG, INPUT(unload_storage), "" },
	{ CONTRACT_ENV_UNLOAD_THIRD_PARTY, FLAG, INPUT(unload_third_party), "" },
	{ CONTRACT_ENV_IFNAMES, FLAG, INPUT(ifnames_rule), "" },
	{ CONTRACT_ENV_NFSRDMA, FLAG, INPUT(nfsrdma), "" },
	{ CONTRACT_ENV_STORAGE, LIST, INPUT(storage), CONTRACT_NIC_STORAGE },
	{ CONTRACT_ENV_THIRD_PARTY, LIST, INPUT(third_party), CONTRACT_NIC_THIRD_PARTY },
	{ CONTRACT_ENV_AUXILIARY, LIST_OR_NONE, INPUT(auxiliary), CONTRACT_NIC_AUXILIARY },
	{ CONTRACT_ENV_BLACKLIST, LIST_OR_NONE, INPUT(blacklist), CONTRACT_NIC_BLACKLIST },
	{ CONTRACT_ENV_READY_FILE, PATH, INPUT(ready_file), CONTRACT_OFED_READY },
	{ CONTRACT_ENV_LOCK_FILE, PATH, INPUT(lock_file), CONTRACT_OFED_LOCK },
	{ CONTRACT_ENV_DRIVERS_MOUNT, PATH, INPUT(drivers_mount), CONTRACT_OFED_RUN },
	{ CONTRACT_ENV_SOURCES, PATH, INPUT(sources), CONTRACT_SOURCES },
	{ CONTRACT_ENV_UDEV_RULES, PATH, INPUT(udev_rules), CONTRACT_NIC_UDEV_RULES },
	{ CONTRACT_ENV_BLACKLIST_FILE, PATH, INPUT(blacklist_file), CONTRACT_NIC_BLACKLIST_FILE },
	{ CONTRACT_ENV_INVENTORY, PATH, INPUT(inventory), "" },
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
		return error_set(error, -EINVAL,
			"nic-driver takes one argument: \"%.64s\" is a second one", arguments[1]);
	for (size_t i = 0; i < ARRAY_SIZE(modes); i++)
		if (strcmp(arguments[0], modes[i]) == 0) {
			inputs->mode = (enum nic_mode) i;
			return 0;
		}
	return error_set(
		error, -EINVAL, "nic-driver \"%.64s\": give precompiled or sources", arguments[0]);
}

#define MODULE_LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"

/*
 * A word that is no module's name is skipped in MLX5_AUXILIARY_MODULES, as in the stock image, and
 * refused in the other lists.
 */
static int read_names(struct nic_inputs *inputs, const struct variable *variable,
	struct strv *names, struct error *error)
{
	const char *value = getenv(variable->name);

	if (!value || (variable->kind == LIST && !value[strspn(value, SEPARATORS)]))
		value = variable->otherwise;
	if (strv_split(names, value, SEPARATORS) < 0)
		return error_set_errno(error, -ENOMEM, "%s", variable->name);
	for (size_t i = names->count; i-- > 0;) {
		char *name = names->items[i];

		for (char *dash = name; (dash = strchr(dash, '-'));)
			*dash = '_';
		if (strlen(name) < 64 && !name[strspn(name, MODULE_LETTERS)])
			continue;
		if (names != &inputs->auxiliary)
			return error_set(error, -EINVAL,
				"%s has \"%.64s\", which is not a module name: separate names "
				"with spaces",
				variable->name, name);
		if (strv_push(&inputs->invalid_auxiliary, name) < 0)
			return error_set_errno(error, -ENOMEM, "%s", variable->name);
		strv_remove(names, i);
	}
	return 0;
}

static bool has_dotdot(const char *path)
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

	if (value && *value && (*value != '/' || has_dotdot(value)))
		return error_set(error, -EINVAL, "%s=%.200s: give a path from the root, without ..",
			variable, value);
	if (!value || !*value)
		value = otherwise;
	value += strspn(value, "/");
	length = strlen(value);
	while (length && value[length - 1] == '/')
		length--;
	if (!length && *otherwise)
		return error_set(error, -EINVAL, "%s=/: give a path below the root", variable);
	*ret = strndup(value, length);
	return *ret ? 0 : error_set_errno(error, -ENOMEM, "%s", variable);
}

/*
 * It is used when it is a folder of the host's disk that only root writes to. The container's own
 * root goes with the container, which a power loss ends, too. Journals say what is written to the
 * host's files and /proc/sys, and modules are loaded from there: what others could write is not
 * believed, nor what cannot be looked at.
 */
static void check_inventory(struct nic_inputs *inputs, int root_fd)
{
	_cleanup_close_ int inventory_fd = -1;
	_cleanup_close_ int fd = -1;
	struct mountinfo mount;
	struct error why = { 0 };
	struct stat status;

	inputs->is_inventory_roots = false;
	if (!*inputs->inventory || !fs_exists(root_fd, inputs->inventory) ||
		(mountinfo_find(root_fd, inputs->inventory, &mount) == 0 && mount.of_root)) {
		(void) snprintf(
			inputs->unused, sizeof(inputs->unused), "is not a folder of the host");
		return;
	}
	inventory_fd = open_in_root(root_fd, inputs->inventory, O_RDONLY | O_DIRECTORY);
	if (inventory_fd < 0) {
		(void) error_set_errno(&why, inventory_fd, "it cannot be opened");
	} else {
		fd = open_owned(inventory_fd, INVENTORY_FOLDER, O_RDONLY | O_DIRECTORY, &why);
		/* Made at once where it is not there: in a folder with the sticky bit it could be
		 * any user's by the time that it is written to. */
		if (fd == -ENOENT && mkdirat(inventory_fd, INVENTORY_FOLDER, 0700) < 0 &&
			errno != EEXIST)
			(void) error_set_errno(&why, -errno, INVENTORY_FOLDER " cannot be made");
		else if (fd == -ENOENT)
			fd = open_owned(
				inventory_fd, INVENTORY_FOLDER, O_RDONLY | O_DIRECTORY, &why);
	}
	if (fd < 0)
		(void) snprintf(
			inputs->unused, sizeof(inputs->unused), "is not used, %.255s", why.text);
	else
		inputs->is_inventory_roots = fstat(inventory_fd, &status) == 0 && is_owned(&status);
}

int nic_inputs_read(
	struct nic_inputs *inputs, int root_fd, char *const *arguments, struct error *error)
{
	int r = read_mode(inputs, arguments, error);

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(variables); i++) {
		const struct variable *variable = &variables[i];
		void *value = (char *) inputs + variable->offset;

		if (variable->kind == FLAG)
			r = options_flag(variable->name, value, error);
		else if (variable->kind != PATH)
			r = read_names(inputs, variable, value, error);
		else
			r = read_path(variable->name, variable->otherwise, value, error);
	}
	if (r == 0)
		r = options_seconds(CONTRACT_ENV_BIND_DELAY, 0, CONTRACT_NIC_BIND_SECONDS,
			&inputs->bind_ms, error);
	if (r < 0)
		return r;
	/* "No delay" is no look at whether a device has come. */
	if (inputs->bind_ms < BIND_LEAST_MS)
		inputs->bind_ms = BIND_LEAST_MS;
	inputs->unused[0] = '\0';
	check_inventory(inputs, root_fd);
	if (asprintf(&inputs->shown_sources, "%s/%s", inputs->drivers_mount, inputs->sources) < 0)
		inputs->shown_sources = NULL;
	if (asprintf(&inputs->journal_folder, "%s%s",
		    *inputs->unused ? NIC_STATE_FOLDER : inputs->inventory,
		    *inputs->unused ? "" : "/" INVENTORY_FOLDER) < 0)
		inputs->journal_folder = NULL;
	return inputs->shown_sources && inputs->journal_folder
		       ? 0
		       : error_set_errno(error, -ENOMEM, "environment");
}

void nic_inputs_free(struct nic_inputs *inputs)
{
	for (size_t i = 0; i < ARRAY_SIZE(variables); i++) {
		void *value = (char *) inputs + variables[i].offset;

		if (variables[i].kind == PATH)
			free(*(char **) value);
		else if (variables[i].kind != FLAG)
			strv_free(value);
	}
	strv_free(&inputs->invalid_auxiliary);
	free(inputs->shown_sources);
	free(inputs->journal_folder);
	*inputs = (struct nic_inputs){ .mode = NIC_PRECOMPILED };
}

/* ---- variables of the stock image that are accepted and change nothing here, each with its why */

#define NO_TOOLKIT "OpenShift's driver toolkit is not used: this container compiles by itself"

static const struct ignored_env ignored_variables[] = {
	{ "a start installs no packages", NULL, { "UBUNTU_PRO_TOKEN" } },
	{ "the image knows where its own sources are", NULL, { "NVIDIA_NIC_DRIVER_PATH" } },
	{ NO_TOOLKIT, NULL,
		{ CONTRACT_ENV_DTK, CONTRACT_ENV_DTK_FOLDER, CONTRACT_ENV_DTK_VERSION,
			CONTRACT_ENV_DTK_START, CONTRACT_ENV_DTK_DONE } },
	{ "builds are kept for each kernel, under a key of everything that went into them", NULL,
		{ "USE_DKMS" } },
	{ "every step is logged anyway", NULL, { CONTRACT_ENV_DEBUG } },
	{ "the log is the container's, and the events are in a file beside the status", NULL,
		{ "DEBUG_LOG_FILE" } },
	{ "the termination message says why the container ended; it would come late after a sleep",
		NULL, { "DEBUG_SLEEP_SEC_ON_EXIT" } },
	{ "there is one entrypoint", NULL, { "USE_NEW_ENTRYPOINT" } },
	{ "only the operator's init container has such checks", NULL, { "SKIP_PREFLIGHT_CHECKS" } },
	IGNORED_ENV_PROXIES,
};

static _printf_(2, 3) void note_environment(struct log *log, const char *format, ...)
{
	char text[ERROR_TEXT_SIZE];
	va_list arguments;

	va_start(arguments, format);
	(void) vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	log_event(log, "note", "environment", 0, REASON_NONE, text);
}

void nic_inputs_log(const struct nic_inputs *inputs, struct log *log)
{
	const char *flags = getenv(CONTRACT_ENV_BUILD_FLAGS);
	struct error why = { 0 };

	ignored_env_report(log, "environment", ignored_variables, ARRAY_SIZE(ignored_variables));
	if (inputs->mode == NIC_PRECOMPILED && flags && *flags)
		note_environment(log, CONTRACT_ENV_BUILD_FLAGS
			" applies to the mode sources: precompiled modules are compiled already");
	for (size_t i = 0; i < inputs->invalid_auxiliary.count; i++)
		note_environment(log,
			CONTRACT_ENV_AUXILIARY
			" has \"%.64s\", which is not a module name: skipped",
			inputs->invalid_auxiliary.items[i]);
	if (*inputs->inventory && *inputs->unused)
		note_environment(log,
			"/%s (%s) %s: journals are kept in memory, and a power loss takes them",
			inputs->inventory, CONTRACT_ENV_INVENTORY, inputs->unused);
	if (nic_network_is_distrusted(log->root_fd, &why))
		note_environment(log,
			"the network state that a previous run saved is not trusted and not "
			"restored: %s",
			why.text);
}
