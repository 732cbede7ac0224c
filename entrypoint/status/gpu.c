/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/status/status_internal.h"

#include <ctype.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

#include "common/conf.h"
#include "common/fs.h"
#include "entrypoint/contract.h"
#include "entrypoint/engine/lock.h"
#include "entrypoint/gpu/procfs.h"
#include "entrypoint/role/pci.h"
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

	*version = (struct driver_version){ .loaded = sysmodule_is_live(root_fd, "nvidia") };
	procfs_value(root_fd, PROCFS_NVIDIA "/version", "NVRM version", line, sizeof(line));
	version->open = strstr(line, "Open Kernel Module");
	while ((word = strsep(&rest, " "))) {
		if (isdigit((unsigned char) *word) && strchr(word, '.') &&
			word[strspn(word, "0123456789.")] == '\0') {
			(void) snprintf(version->text, sizeof(version->text), "%s", word);
			return;
		}
	}
}

/* The version of the user space in the driver root: its library is named after it. */
static void user_space_version(int root_fd, char *version, size_t size)
{
	static const char *const folders[] = { "usr/lib64", "usr/lib/x86_64-linux-gnu",
		"usr/lib/aarch64-linux-gnu", "usr/lib" };
	static const char library[] = "libnvidia-ml.so.";

	version[0] = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(folders); i++) {
		_cleanup_strv_ struct strv names = { 0 };
		char path[128];

		(void) snprintf(path, sizeof(path), CONTRACT_DRIVER_ROOT "/%s", folders[i]);
		if (fs_list(root_fd, path, &names) < 0)
			continue;
		for (size_t j = 0; j < names.count; j++) {
			const char *name = names.items[j];

			if (strncmp(name, library, strlen(library)) == 0 &&
				strchr(name + strlen(library), '.'))
				(void) snprintf(version, size, "%s", name + strlen(library));
		}
		if (*version)
			return;
	}
}

/* What changes what containers can do with the GPU; the rest is in /proc/driver/nvidia/params. */
static const char *const shown_parameters[] = { "NvLinkDisable", "ImexChannelCount",
	"CreateImexChannel0", "EnableGpuFirmware", "ModifyDeviceFiles" };

void status_driver(int root_fd, struct json *json)
{
	struct driver_version version;
	char user_space[64], coherent[64];

	driver_version(root_fd, &version);
	user_space_version(root_fd, user_space, sizeof(user_space));
	procfs_value(root_fd, PROCFS_NVIDIA "/params", "CoherentGPUMemoryMode", coherent,
		sizeof(coherent));
	json_write_open(json, "driver", '{');
	json_write_boolean(json, "loaded", version.loaded);
	json_write_text_or_null(json, "version", version.text);
	if (*version.text)
		json_write_boolean(json, "open", version.open);
	else
		json_write_null(json, "open");
	json_write_text_or_null(json, "user_space_version", user_space);
	json_write_open(json, "parameters", '{');
	for (size_t i = 0; i < ARRAY_SIZE(shown_parameters); i++)
		json_write_number_or_null(json, shown_parameters[i],
			procfs_nvidia_parameter(root_fd, shown_parameters[i]));
	json_write_text_or_null(json, "CoherentGPUMemoryMode", coherent);
	json_write_close(json, '}');
	json_write_close(json, '}');

	if (!version.loaded)
		status_print(json, "driver   nvidia is not loaded");
	else if (*version.text)
		status_print(json, "driver   %s (%s kernel modules)", version.text,
			version.open ? "open" : "proprietary");
	else
		status_print(json,
			"driver   nvidia is loaded, of a version that /proc/driver/nvidia does "
			"not tell");
	if (*user_space && version.loaded && strcmp(user_space, version.text) != 0)
		status_print(json,
			"; BUT the user space in /" CONTRACT_DRIVER_ROOT
			" is of %s: programs will find a version mismatch",
			user_space);
	else if (*user_space)
		status_print(json, "; user space in /" CONTRACT_DRIVER_ROOT ": %s", user_space);
	status_print(json, "\n");
}

/* ---- PCI functions */

/* What the driver says of a GPU that it has: /proc/driver/nvidia/gpus/<address>/information. */
struct gpu_information {
	char model[64];
	char uuid[64];
	char firmware[64]; /* of the GSP; "N/A" until the GPU was first opened */
	char minor[16];    /* /dev/nvidia<minor> */
	char excluded[8];  /* "Yes": by NVreg_ExcludedGpus */
};

static void read_information(int root_fd, const char *address, struct gpu_information *information)
{
	char path[128];

	(void) snprintf(path, sizeof(path), PROCFS_NVIDIA "/gpus/%s/information", address);
	procfs_value(root_fd, path, "Model", information->model, sizeof(information->model));
	procfs_value(root_fd, path, "GPU UUID", information->uuid, sizeof(information->uuid));
	procfs_value(root_fd, path, "GPU Firmware", information->firmware,
		sizeof(information->firmware));
	procfs_value(root_fd, path, "Device Minor", information->minor, sizeof(information->minor));
	procfs_value(root_fd, path, "GPU Excluded", information->excluded,
		sizeof(information->excluded));
}

/* A driver that is there and has not taken the card is what one looks for at night. */
static const char *unwilling(int root_fd, const struct pci_function *function)
{
	if (function->kind == PCI_NIC && sysmodule_is_live(root_fd, "mlx5_core"))
		return " !  mlx5_core is loaded and does not drive it: the kernel's log says why";
	if (function->kind == PCI_GPU && sysmodule_is_live(root_fd, "nvidia"))
		return " !  nvidia is loaded and does not drive it: the kernel's log says why";
	return "";
}

static void print_gpu(int root_fd, const struct pci_function *function, struct json *json)
{
	struct gpu_information gpu;
	bool excluded, node;
	char path[32];

	read_information(root_fd, function->address, &gpu);
	excluded = strcmp(gpu.excluded, "Yes") == 0;
	(void) snprintf(path, sizeof(path), "dev/nvidia%s", gpu.minor);
	node = *gpu.minor && fs_exists(root_fd, path);
	json_write_text_or_null(json, "model", gpu.model);
	json_write_text_or_null(json, "uuid", gpu.uuid);
	json_write_text_or_null(json, "firmware", gpu.firmware);
	json_write_number_or_null(json, "minor", *gpu.minor ? strtol(gpu.minor, NULL, 10) : -1);
	json_write_boolean(json, "node", node);
	json_write_boolean(json, "excluded", excluded);

	if (*gpu.model)
		status_print(json, ", %s, %s, GSP firmware %s%s", gpu.model, gpu.uuid,
			*gpu.firmware ? gpu.firmware : "not told",
			excluded ? ", EXCLUDED by NVreg_ExcludedGpus" : "");
	else if (strcmp(function->driver, "nvidia") == 0)
		status_print(json, ", but /proc/driver/nvidia/gpus does not have it");
	if (*gpu.model && !node)
		status_print(json, ", no /dev/nvidia%s here", gpu.minor);
}

void status_devices(int root_fd, struct json *json)
{
	_cleanup_free_ struct pci_function *functions = NULL;
	int count = pci_functions(root_fd, &functions);

	json_write_open(json, "devices", '[');
	for (int i = 0; i < count; i++) {
		const struct pci_function *function = &functions[i];
		const char *kind = pci_kind_name(function->kind);
		char id[16];

		(void) snprintf(id, sizeof(id), "%04x:%04x", function->vendor, function->device);
		json_write_open(json, NULL, '{');
		json_write_text(json, "address", function->address);
		json_write_text(json, "kind", kind);
		json_write_text(json, "id", id);
		json_write_text_or_null(json, "driver", function->driver);
		json_write_number(json, "numa_node", function->numa_node);
		status_print(json, "%-8s %s [%s] by %s%s", kind, function->address, id,
			*function->driver ? function->driver : "no driver",
			*function->driver ? "" : unwilling(root_fd, function));
		if (function->kind == PCI_GPU)
			print_gpu(root_fd, function, json);
		if (function->numa_node >= 0)
			status_print(json, ", NUMA node %d", function->numa_node);
		json_write_close(json, '}');
		status_print(json, "\n");
	}
	json_write_close(json, ']');
	if (count <= 0)
		status_print(json, "devices  no NVIDIA or Mellanox PCI function\n");
}

/* ---- daemons */

#define STATE_FILE GPU_STATE_FOLDER "/gpu.daemons"

char *daemon_lines_read(int root_fd)
{
	char *text = NULL;

	return fs_read(root_fd, STATE_FILE, 65536, &text, NULL) < 0 ? NULL : text;
}

/* What an older slipway-init wrote ends with last-exit. */
static bool parse_daemon(const char *line, struct daemon_line *daemon)
{
	*daemon = (struct daemon_line){ .pid = 0 };
	if (sscanf(line, "%63s %ld %31s %ld %ld %31s %ld %511[^\n]", daemon->name, &daemon->pid,
		    daemon->state, &daemon->restarts, &daemon->since, daemon->last_exit,
		    &daemon->again, daemon->why) < 6)
		return false;
	if (strcmp(daemon->last_exit, "-") == 0)
		daemon->last_exit[0] = '\0';
	return true;
}

bool daemon_line_next(const char **text, struct daemon_line *daemon)
{
	while (*text && **text) {
		char line[1024];
		size_t length = strcspn(*text, "\n");

		(void) snprintf(line, sizeof(line), "%.*s", (int) length, *text);
		*text += length + ((*text)[length] == '\n');
		if (parse_daemon(line, daemon))
			return true;
	}
	return false;
}

/* All that a driver may come with; nvidia-imex has a part of its own (imex.c). */
static const char *const known_daemons[] = { "nvidia-persistenced", "nv-fabricmanager", "nvlsm",
	"nvidia-gridd", "nvidia-topologyd" };

/*
 * The init that supervises, or 0 where none runs. Only the lock and the program tell: the number
 * in the file is of the container's process ids, which need not be those that are seen from here.
 */
static pid_t find_supervisor(int root_fd)
{
	_cleanup_free_ char *text = NULL;
	char path[64], pid[16], program[256];
	const char *name;
	ssize_t length;

	if (!lock_is_held(root_fd, CONTRACT_GPU_PID_FILE) ||
		fs_read(root_fd, GPU_STATE_FOLDER "/gpu.status", 65536, &text, NULL) < 0)
		return 0;
	conf_value(text, "pid", pid, sizeof(pid));
	(void) snprintf(path, sizeof(path), "proc/%s/exe", pid);
	length = readlinkat(root_fd, path, program, sizeof(program) - 1);
	program[length < 0 ? 0 : length] = '\0';
	name = strrchr(program, '/');
	return name && strncmp(name, "/slipway-init", strlen("/slipway-init")) == 0
		       ? (pid_t) strtol(pid, NULL, 10)
		       : 0;
}

/* What its program went to the background as, before a pid file named it to the supervisor. */
static pid_t find_forked(int root_fd, const char *name, pid_t supervisor)
{
	struct process_seen processes[PROCESSES_MAX];
	size_t count = processes_of_program(root_fd, name, processes, ARRAY_SIZE(processes));

	for (size_t i = 0; supervisor && i < count; i++)
		if (process_descends(root_fd, processes[i].pid, supervisor))
			return processes[i].pid;
	return 0;
}

/* A supervisor that was killed leaves its last word behind. */
static void correct_state(int root_fd, pid_t supervisor, struct daemon_line *daemon)
{
	char path[32];

	(void) snprintf(path, sizeof(path), "proc/%ld", daemon->pid);
	if (!daemon->pid || fs_exists(root_fd, path))
		return;
	daemon->pid = find_forked(root_fd, daemon->name, supervisor);
	if (!daemon->pid)
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
	json_write_number_or_null(json, "again", daemon->again ? daemon->again : -1);
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
		status_print(json, ", the next start in %ld s", left > 0 ? left : 0);
	if (*daemon->why && strcmp(daemon->state, "up") != 0)
		status_print(json, ": %s", daemon->why);
	status_print(json, "\n");
}

/* What the host or another container started. */
static void print_other(struct json *json, const char *name, const struct process_seen *process)
{
	char text[POD_TEXT_SIZE] = "the host's";

	json_write_open(json, NULL, '{');
	json_write_text(json, "name", name);
	json_write_boolean(json, "supervised", false);
	json_write_text(json, "state", "running");
	json_write_number(json, "pid", process->pid);
	json_write_boolean(json, "in_pod", process->in_pod);
	json_write_close(json, '}');
	if (process->in_pod)
		pod_text(&process->pod, text);
	status_print(json, "daemon   %s: process %d, %s: none of Slipway's roles started it\n",
		name, (int) process->pid, text);
}

static bool is_supervised(const char *text, pid_t pid)
{
	struct daemon_line daemon;

	while (daemon_line_next(&text, &daemon))
		if (daemon.pid == pid)
			return true;
	return false;
}

void status_daemons(int root_fd, struct json *json)
{
	_cleanup_free_ char *text = daemon_lines_read(root_fd);
	pid_t supervisor = find_supervisor(root_fd);
	struct process_seen seen[PROCESSES_MAX];
	struct daemon_line daemon;
	const char *rest = text;
	bool none = true;

	json_write_open(json, "daemons", '[');
	for (; daemon_line_next(&rest, &daemon); none = false) {
		correct_state(root_fd, supervisor, &daemon);
		print_supervised(json, &daemon);
	}
	for (size_t i = 0; i < ARRAY_SIZE(known_daemons); i++) {
		size_t count = processes_of_program(root_fd, known_daemons[i], seen, PROCESSES_MAX);

		for (size_t j = 0; j < count; j++) {
			if (is_supervised(text, seen[j].pid) ||
				(supervisor && process_descends(root_fd, seen[j].pid, supervisor)))
				continue;
			print_other(json, known_daemons[i], &seen[j]);
			none = false;
		}
	}
	json_write_close(json, ']');
	if (none)
		status_print(json, "daemons  none runs\n");
}
