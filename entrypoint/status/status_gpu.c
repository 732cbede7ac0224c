/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/status/status_internal.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/arch.h"
#include "common/conf.h"
#include "common/fs.h"
#include "entrypoint/contract.h"
#include "entrypoint/engine/lock_file.h"
#include "entrypoint/gpu/procfs.h"
#include "entrypoint/role/parameters.h"
#include "entrypoint/role/pci.h"
#include "entrypoint/role/role.h"
#include "entrypoint/role/roles.h"
#include "module/running.h"

/* ---- the driver that is loaded */

/*
 * "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build …", without
 * "Open" for the proprietary one: the version is the first word of digits and dots.
 */
void driver_version(int root_fd, struct driver_version *version)
{
	char line[256];
	char *rest = line;
	const char *word;

	procfs_value(root_fd, PROCFS_NVIDIA "/version", "NVRM version", line, sizeof(line));
	*version = (struct driver_version){ .open = strstr(line, "Open Kernel Module") };
	while ((word = strsep(&rest, " "))) {
		if (isdigit((unsigned char) *word) && strchr(word, '.') &&
			word[strspn(word, "0123456789.")] == '\0') {
			(void) snprintf(version->text, sizeof(version->text), "%s", word);
			return;
		}
	}
}

bool driver_library_folder(size_t number, char path[96])
{
	const char *const folders[][2] = { { "lib64", "" }, { "lib/", arch_here()->triplet },
		{ "lib", "" } };

	if (number >= ARRAY_SIZE(folders))
		return false;
	(void) snprintf(
		path, 96, CONTRACT_DRIVER_ROOT "/usr/%s%s", folders[number][0], folders[number][1]);
	return true;
}

/* The version of the user space in the driver root: its library is named after it. */
static void user_space_version(int root_fd, char version[64])
{
	static const char library[] = "libnvidia-ml.so.";
	char folder[96];

	version[0] = '\0';
	for (size_t i = 0; !*version && driver_library_folder(i, folder); i++) {
		_cleanup_strv_ struct strv names = { 0 };

		if (fs_list(root_fd, folder, &names) < 0)
			continue;
		for (size_t j = 0; j < names.count; j++) {
			const char *name = names.items[j];

			if (strncmp(name, library, strlen(library)) == 0 &&
				strchr(name + strlen(library), '.'))
				(void) snprintf(version, 64, "%.63s", name + strlen(library));
		}
	}
}

/*
 * Prints the nodes that addons need in the driver root while they are loaded. Prints none if the
 * driver root is not visible, as in the NIC's pod.
 */
static void print_addon_nodes(int root_fd, struct json *json, struct findings *findings)
{
	struct module_node nodes[ADDON_NODES_MAX];
	bool is_seen = fs_exists(root_fd, CONTRACT_DRIVER_ROOT "/dev");
	size_t count = is_seen ? procfs_addon_nodes(root_fd, NULL, nodes) : 0;

	json_write_open(json, "addon_nodes", '[');
	for (size_t i = 0; i < count; i++) {
		char path[128];
		bool right;

		(void) snprintf(
			path, sizeof(path), "/" CONTRACT_DRIVER_ROOT "/%.79s", nodes[i].path);
		right = status_has_node(root_fd, path + 1, nodes[i].device);
		json_write_open(json, NULL, '{');
		json_write_text(json, "path", path);
		json_write_boolean(json, "correct", right);
		json_write_close(json, '}');
		if (!right)
			status_finding(findings, json,
				"%s is missing or has another device number: containers are not "
				"given %s",
				path, nodes[i].module->feature);
	}
	json_write_close(json, ']');
}

/* Parameters of kernelModuleConfig that are not in effect. */
static void print_ignored_parameters(int root_fd, struct json *json, struct findings *findings)
{
	const struct role gpu = {
		.name = "gpu", .state_folder = GPU_STATE_FOLDER, .root_fd = root_fd
	};
	_cleanup_strv_ struct strv lines = { 0 };
	_cleanup_strv_ struct strv refused = { 0 };

	(void) !role_list_read(&gpu, ROLE_UNKNOWN_LIST, &lines); /* none: no such parameter */
	json_write_list(json, "unknown_parameters", &lines);
	for (size_t i = 0; i < lines.count; i++) {
		const char *module = lines.items[i];
		int length = (int) strcspn(module, " ");
		const char *parameter = module + length + (module[length] == ' ');

		status_finding(findings, json, "%s has no effect: %.*s has no such parameter",
			parameter, length, module);
	}
	(void) !role_list_read(&gpu, ROLE_REFUSED_LIST, &refused);
	json_write_list(json, "refused_parameters", &refused);
	if (refused.count)
		status_finding(findings, json,
			"the driver has its earlier parameters until it is stopped, because it did "
			"not load with those in kernelModuleConfig: %s",
			refused.items[0]);
}

/* NVIDIA's params has texts in quotation marks. */
static void unquote(char *text)
{
	size_t length = strlen(text);

	if (length < 2 || *text != '"' || text[length - 1] != '"')
		return;
	text[length - 1] = '\0';
	memmove(text, text + 1, length - 1);
}

void status_driver(int root_fd, struct json *json, struct findings *findings)
{
	/* Parameters that change what containers can do with the GPU. */
	static const char *const parameters[] = { "NvLinkDisable", "ImexChannelCount",
		"CreateImexChannel0", "EnableGpuFirmware", "ModifyDeviceFiles",
		"GrdmaPciTopoCheckOverride" };
	bool loaded = sysmodule_is_live(root_fd, "nvidia");
	struct driver_version version;
	char user_space[64], coherent[64];

	driver_version(root_fd, &version);
	user_space_version(root_fd, user_space);
	procfs_value(root_fd, PROCFS_NVIDIA "/params", "CoherentGPUMemoryMode", coherent,
		sizeof(coherent));
	unquote(coherent);
	json_write_open(json, "driver", '{');
	json_write_boolean(json, "loaded", loaded);
	json_write_text_or_null(json, "version", version.text);
	json_write_answer(json, "open", *version.text ? version.open : -1);
	json_write_text_or_null(json, "user_space_version", user_space);
	json_write_open(json, "parameters", '{');
	for (size_t i = 0; i < ARRAY_SIZE(parameters); i++)
		json_write_number_or_null(
			json, parameters[i], procfs_nvidia_parameter(root_fd, parameters[i]));
	json_write_text_or_null(json, "CoherentGPUMemoryMode", coherent);
	json_write_close(json, '}');

	if (!loaded)
		status_print(json, "driver   nvidia is not loaded");
	else if (*version.text)
		status_print(json, "driver   %s (%s kernel modules)", version.text,
			version.open ? "open" : "proprietary");
	else
		status_print(json,
			"driver   nvidia is loaded, but /proc/driver/nvidia does not show its version");
	if (*user_space)
		status_print(json, "; user space in /" CONTRACT_DRIVER_ROOT ": %s", user_space);
	status_print(json, "\n");
	if (*user_space && loaded && strcmp(user_space, version.text) != 0)
		status_finding(findings, json,
			"the user space in /" CONTRACT_DRIVER_ROOT
			" is version %s, the kernel driver is not: programs will report a version "
			"mismatch",
			user_space);
	print_ignored_parameters(root_fd, json, findings);
	print_addon_nodes(root_fd, json, findings);
	status_driver_root(root_fd, json, findings);
	json_write_close(json, '}');
}

/* ---- PCI functions */

/* A driver that is there and has not taken the card is what one looks for at night. */
static void find_undriven(int root_fd, const struct pci_function *function, struct json *json,
	struct findings *findings)
{
	static const char *const drivers[] = { [PCI_GPU] = "nvidia", [PCI_NIC] = "mlx5_core" };
	const char *driver =
		(size_t) function->kind < ARRAY_SIZE(drivers) ? drivers[function->kind] : NULL;

	if (driver && !*function->driver && sysmodule_is_live(root_fd, driver))
		status_finding(findings, json,
			"%s: %s is loaded and does not drive it: the kernel's log says why",
			function->address, driver);
}

/* The path is not known where sysfs is laid out otherwise: then the link is not, either. */
static void read_link(int root_fd, const struct pci_function *function, struct pci_link *link)
{
	struct pci_path path;
	char folder[64];

	(void) snprintf(folder, sizeof(folder), PCI_DEVICES "/%s", function->address);
	*link = (struct pci_link){ -1, -1, -1, -1 };
	if (pci_path_read(root_fd, folder, &path) == 0)
		pci_link_read(root_fd, &path, link);
}

/* NULL: the driver does not list it. */
static const struct procfs_gpu *gpu_at(const struct procfs_gpus *gpus, const char *address)
{
	for (size_t i = 0; i < gpus->count; i++)
		if (strcmp(gpus->items[i].address, address) == 0)
			return &gpus->items[i];
	return NULL;
}

static void print_gpu(int root_fd, const struct pci_function *function, struct json *json,
	struct findings *findings)
{
	enum { MODEL, UUID, FIRMWARE, MINOR, EXCLUDED, KEYS };
	/* FIRMWARE is the GSP's, "N/A" until the GPU was first opened. */
	static const char *const keys[KEYS] = { "Model", "GPU UUID", "GPU Firmware", "Device Minor",
		"GPU Excluded" };
	const struct procfs_gpu *gpu = gpu_at(&findings->gpus, function->address);
	char value[KEYS][64], path[128];
	bool excluded, node;

	for (size_t i = 0; i < KEYS; i++)
		procfs_text_value(gpu ? gpu->text : "", keys[i], value[i], sizeof(value[i]));
	excluded = strcmp(value[EXCLUDED], "Yes") == 0;
	(void) snprintf(path, sizeof(path), "dev/nvidia%s", value[MINOR]);
	node = *value[MINOR] && fs_exists(root_fd, path);
	json_write_text_or_null(json, "model", value[MODEL]);
	json_write_text_or_null(json, "uuid", value[UUID]);
	json_write_text_or_null(json, "firmware", value[FIRMWARE]);
	json_write_number_or_null(
		json, "minor", *value[MINOR] ? strtol(value[MINOR], NULL, 10) : -1);
	json_write_boolean(json, "node", node);
	json_write_boolean(json, "excluded", excluded);

	if (*value[MODEL])
		/* R595 lists no UUID of a GPU whose firmware has not run. */
		status_print(json, ", %s%s%s, GSP firmware %s%s", value[MODEL],
			*value[UUID] ? ", " : "", value[UUID],
			*value[FIRMWARE] ? value[FIRMWARE] : "not known",
			excluded ? ", EXCLUDED by NVreg_ExcludedGpus" : "");
	else if (strcmp(function->driver, "nvidia") == 0)
		status_print(json, gpu && !gpu->has_answered
					   ? ", which does not answer"
					   : ", but /proc/driver/nvidia/gpus does not list it");
	if (*value[MODEL] && !node)
		status_print(json, ", no /dev/nvidia%s here", value[MINOR]);
}

void status_devices(int root_fd, struct json *json, struct findings *findings)
{
	_cleanup_free_ struct pci_function *functions = NULL;
	const struct procfs_gpus *gpus = &findings->gpus;
	int count = pci_functions(root_fd, &functions);
	char sentence[PROCFS_SENTENCE];

	json_write_open(json, "devices", '[');
	for (int i = 0; i < count; i++) {
		const struct pci_function *function = &functions[i];
		const char *kind = pci_kind_name(function->kind);
		struct pci_link link;
		char id[16];

		read_link(root_fd, function, &link);
		(void) snprintf(id, sizeof(id), "%04x:%04x", function->vendor, function->device);
		json_write_open(json, NULL, '{');
		json_write_text(json, "address", function->address);
		json_write_text(json, "kind", kind);
		json_write_text(json, "id", id);
		json_write_text_or_null(json, "driver", function->driver);
		json_write_number(json, "numa_node", function->numa_node);
		json_write_number_or_null(json, "link_width", link.width);
		json_write_number_or_null(json, "link_width_possible", link.width_possible);
		status_print(json, "%-8s %s [%s] by %s", kind, function->address, id,
			*function->driver ? function->driver : "no driver");
		if (function->kind == PCI_GPU)
			print_gpu(root_fd, function, json, findings);
		if (function->numa_node >= 0)
			status_print(json, ", NUMA node %d", function->numa_node);
		json_write_close(json, '}');
		status_print(json, "\n");
		find_undriven(root_fd, function, json, findings);
		if (pci_link_is_narrow(&link))
			status_finding(findings, json, PCI_LINK_NARROW, function->address,
				link.width, link.width_possible);
	}
	json_write_close(json, ']');
	for (size_t i = 0; procfs_gpus_next_silent(gpus, &i, sentence);)
		status_finding(findings, json, "%s", sentence);
	if (count <= 0)
		status_print(json, "devices  no NVIDIA or Mellanox PCI function\n");
}

/* ---- daemons */

/* Lines that an older slipway-init wrote end with last-exit. */
size_t daemon_lines_read(int root_fd, struct daemon_line lines[DAEMON_LINES])
{
	_cleanup_free_ char *text = NULL;
	size_t count = 0;
	const char *line;
	char *rest;

	if (fs_read(root_fd, GPU_STATE_FOLDER "/gpu.daemons", 65536, &text, NULL) < 0)
		return 0;
	rest = text;
	while (count < DAEMON_LINES && (line = strsep(&rest, "\n"))) {
		struct daemon_line *daemon = &lines[count];

		*daemon = (struct daemon_line){ .pid = 0 };
		if (sscanf(line, "%63s %ld %31s %ld %ld %31s %ld %511[^\n]", daemon->name,
			    &daemon->pid, daemon->state, &daemon->restarts, &daemon->since,
			    daemon->last_exit, &daemon->again, daemon->why) < 6)
			continue;
		if (strcmp(daemon->last_exit, "-") == 0)
			daemon->last_exit[0] = '\0';
		count++;
	}
	return count;
}

/* All that a driver may come with; nvidia-imex has a part of its own. */
static const char *const known_daemons[] = { "nvidia-persistenced", "nv-fabricmanager", "nvlsm",
	"nvidia-gridd", "nvidia-topologyd" };

/*
 * The init that supervises, or 0 where none runs. The lock and the program decide: the number in
 * the file is of the container's process ids, which need not be those that are seen from here.
 */
static pid_t find_supervisor(int root_fd)
{
	static const char init[] = "slipway-init";
	_cleanup_free_ char *text = NULL;
	char path[64], pid[16], program[64];

	if (!lock_is_held(root_fd, CONTRACT_GPU_PID_FILE) ||
		fs_read(root_fd, GPU_STATE_FOLDER "/gpu.status", 65536, &text, NULL) < 0)
		return 0;
	conf_value(text, "pid", pid, sizeof(pid));
	(void) snprintf(path, sizeof(path), "proc/%s/exe", pid);
	sysfs_link_name(root_fd, path, program, sizeof(program));
	return strncmp(program, init, strlen(init)) == 0 ? (pid_t) strtol(pid, NULL, 10) : 0;
}

/*
 * A supervisor that was killed leaves its last report behind; and what its program went to the
 * background as is not in it before a pid file names it.
 */
static void correct_state(int root_fd, pid_t supervisor, struct daemon_line *daemon)
{
	struct process_seen seen[PROCESSES_MAX];
	char path[32];
	size_t count;

	(void) snprintf(path, sizeof(path), "proc/%ld", daemon->pid);
	if (!daemon->pid || fs_exists(root_fd, path))
		return;
	count = processes_of_program(root_fd, daemon->name, seen, PROCESSES_MAX);
	for (size_t i = 0; i < count; i++) {
		if (process_descends(root_fd, seen[i].pid, supervisor)) {
			daemon->pid = seen[i].pid;
			return;
		}
	}
	daemon->pid = 0;
	(void) snprintf(daemon->state, sizeof(daemon->state), "gone");
}

static void print_supervised(struct json *json, const struct daemon_line *daemon)
{
	long left = daemon->again - (long) time(NULL);

	json_write_open(json, NULL, '{');
	json_write_text(json, "name", daemon->name);
	json_write_boolean(json, "supervised", true);
	json_write_text(json, "state", daemon->state);
	json_write_number_or_null(json, "pid", daemon->pid ? daemon->pid : -1);
	json_write_number(json, "restarts", daemon->restarts);
	json_write_number(json, "since", daemon->since);
	json_write_text_or_null(json, "last_exit", daemon->last_exit);
	json_write_number_or_null(json, "next_start", daemon->again ? daemon->again : -1);
	json_write_text_or_null(json, "why", daemon->why);
	json_write_close(json, '}');

	status_print(json, "daemon   %s: %s", daemon->name, daemon->state);
	if (daemon->pid)
		status_print(json, ", process %ld", daemon->pid);
	if (daemon->restarts == 1)
		status_print(json, ", started again once");
	else if (daemon->restarts)
		status_print(json, ", started again %ld times", daemon->restarts);
	if (*daemon->last_exit)
		status_print(json, ", last ended with %s", daemon->last_exit);
	if (daemon->again)
		status_print(json, ", next start in %ld s", left > 0 ? left : 0);
	if (*daemon->why && strcmp(daemon->state, "up") != 0)
		status_print(json, ": %s", daemon->why);
	status_print(json, "\n");
}

/* Prints a process that the host or another container started. */
static void print_other(struct json *json, const char *name, const struct process_seen *process)
{
	char owner[POD_TEXT_SIZE];

	json_write_open(json, NULL, '{');
	json_write_text(json, "name", name);
	json_write_boolean(json, "supervised", false);
	json_write_text(json, "state", "running");
	json_write_number(json, "pid", process->pid);
	json_write_boolean(json, "in_pod", process->in_pod);
	json_write_close(json, '}');
	status_owner(process, owner);
	status_print(json, "daemon   %s: process %d, %s: none of Slipway's roles started it\n",
		name, (int) process->pid, owner);
}

void status_daemons(int root_fd, struct json *json, struct findings *findings)
{
	pid_t supervisor = find_supervisor(root_fd);
	struct process_seen seen[PROCESSES_MAX];
	struct daemon_line lines[DAEMON_LINES];
	size_t count = daemon_lines_read(root_fd, lines);
	bool none = count == 0;

	(void) findings;
	json_write_open(json, "daemons", '[');
	for (size_t i = 0; i < count; i++) {
		correct_state(root_fd, supervisor, &lines[i]);
		print_supervised(json, &lines[i]);
	}
	for (size_t i = 0; i < ARRAY_SIZE(known_daemons); i++) {
		size_t running =
			processes_of_program(root_fd, known_daemons[i], seen, PROCESSES_MAX);

		for (size_t j = 0; j < running; j++) {
			bool ours = process_descends(root_fd, seen[j].pid, supervisor);

			for (size_t k = 0; k < count; k++)
				ours = ours || lines[k].pid == seen[j].pid;
			if (ours)
				continue;
			print_other(json, known_daemons[i], &seen[j]);
			none = false;
		}
	}
	json_write_close(json, ']');
	if (none)
		status_print(json, "daemons  none runs\n");
}
