/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/status/status.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/utsname.h>
#include <sys/wait.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/conf.h"
#include "common/fs.h"
#include "entrypoint/contract.h"
#include "entrypoint/engine/lock.h"
#include "entrypoint/engine/spawn.h"
#include "entrypoint/nic/report.h"
#include "entrypoint/rdma/ofed.h"
#include "entrypoint/role/roles.h"
#include "entrypoint/status/status_internal.h"
#include "module/elf.h"
#include "module/running.h"

void status_print(const struct json *json, const char *format, ...)
{
	va_list arguments;

	if (json)
		return;
	va_start(arguments, format);
	(void) vprintf(format, arguments);
	va_end(arguments);
}

/* ---- the roles' own status files */

static const struct {
	const char *role;
	const char *path;
	const char *lock; /* held as long as the role runs; NULL: it has none */
} sources[] = {
	{ "gpu", GPU_STATE_FOLDER "/gpu.status", CONTRACT_GPU_PID_FILE },
	{ "peermem", GPU_STATE_FOLDER "/peermem.status", NULL },
	{ "gds", GPU_STATE_FOLDER "/gds.status", NULL },
	{ "gdrcopy", GPU_STATE_FOLDER "/gdrcopy.status", NULL },
	{ "nic", NIC_STATE_FOLDER "/nic.status", CONTRACT_OFED_LOCK },
};

struct role_status {
	char state[32];
	char step[64];
	char reason[64];
	char pid[16];
	char ready_ms[24];
	char detail[1024];
	char proof[1024];
	char phases[2048]; /* "step:microseconds" with blanks between */
};

/* A role without a lock shows by its process, where that can be seen. */
static bool is_alive(int root_fd, size_t index, const struct role_status *status)
{
	char path[32];

	if (sources[index].lock)
		return lock_is_held(root_fd, sources[index].lock);
	(void) snprintf(path, sizeof(path), "proc/%s", status->pid);
	return fs_exists(root_fd, path);
}

static bool read_role(int root_fd, size_t index, struct role_status *status)
{
	_cleanup_free_ char *text = NULL;

	if (fs_read(root_fd, sources[index].path, 65536, &text, NULL) < 0)
		return false;
	conf_value(text, "state", status->state, sizeof(status->state));
	conf_value(text, "step", status->step, sizeof(status->step));
	conf_value(text, "reason", status->reason, sizeof(status->reason));
	conf_value(text, "pid", status->pid, sizeof(status->pid));
	conf_value(text, "ready_ms", status->ready_ms, sizeof(status->ready_ms));
	conf_value(text, "detail", status->detail, sizeof(status->detail));
	conf_value(text, "proof", status->proof, sizeof(status->proof));
	conf_value(text, "phases", status->phases, sizeof(status->phases));
	/* A killed init leaves its last state behind. */
	if (strcmp(status->state, "stopped") != 0 && strcmp(status->state, "failed") != 0 &&
		!is_alive(root_fd, index, status))
		(void) snprintf(status->state, sizeof(status->state), "dead");
	return true;
}

static void print_phases(struct json *json, const char *phases)
{
	const char *separator = STATUS_INDENT "phases: ";
	char step[64];
	int length;
	long us;

	json_write_open(json, "phases", '[');
	for (; sscanf(phases, " %63[^: ]:%ld%n", step, &us, &length) == 2; phases += length) {
		json_write_open(json, NULL, '{');
		json_write_text(json, "step", step);
		json_write_number(json, "us", us);
		json_write_close(json, '}');
		status_print(json, "%s%s %.1f ms", separator, step, (double) us / 1e3);
		separator = ", ";
	}
	json_write_close(json, ']');
	if (*separator == ',')
		status_print(json, "\n");
}

static void print_role(const char *role, const struct role_status *status)
{
	(void) printf("%-8s %-9s", role, status->state);
	if (*status->step)
		(void) printf(" at %s", status->step);
	if (strcmp(status->state, "ready") == 0)
		(void) printf(" after %s ms", status->ready_ms);
	if (strcmp(status->reason, "OK") != 0)
		(void) printf(" [%s]", status->reason);
	(void) printf("%s%s\n", *status->detail ? ": " : "", status->detail);
	if (strcmp(status->state, "dead") == 0)
		(void) puts(STATUS_INDENT
			"! its process is gone and undid nothing: the kubelet starts the container "
			"again; why it ended: kubectl describe pod, kubectl logs --previous");
	if (*status->proof)
		(void) printf(STATUS_INDENT "load proof: %s\n", status->proof);
	print_phases(NULL, status->phases);
}

static void print_role_json(struct json *json, const char *role, const struct role_status *status)
{
	long ready_ms = strtol(status->ready_ms, NULL, 10);

	json_write_open(json, NULL, '{');
	json_write_text(json, "role", role);
	json_write_text(json, "state", status->state);
	json_write_text(json, "step", status->step);
	json_write_text(json, "reason", status->reason);
	json_write_number(json, "pid", strtol(status->pid, NULL, 10));
	/* 0 in the file: it did not come that far. */
	json_write_number_or_null(json, "ready_ms", ready_ms > 0 ? ready_ms : -1);
	json_write_text(json, "detail", status->detail);
	json_write_text(json, "proof", status->proof);
	print_phases(json, status->phases);
	json_write_close(json, '}');
}

/* Is there a role, and is each of them ready? */
static bool status_roles(int root_fd, struct json *json)
{
	size_t count = 0, ready = 0;

	json_write_open(json, "roles", '[');
	for (size_t i = 0; i < ARRAY_SIZE(sources); i++) {
		struct role_status status = { .state = "" };

		if (!read_role(root_fd, i, &status))
			continue;
		if (json)
			print_role_json(json, sources[i].role, &status);
		else
			print_role(sources[i].role, &status);
		ready += strcmp(status.state, "ready") == 0;
		count++;
	}
	json_write_close(json, ']');
	if (!count)
		status_print(json,
			"roles    no driver container of Slipway has run on this node since it "
			"booted\n");
	return count && ready == count;
}

/* ---- the kernel that runs */

#define CONFIG_LIMIT (4 << 20)

enum answer { ANSWER_UNKNOWN, ANSWER_NO, ANSWER_YES };

/* The text of the running kernel's configuration, which the caller frees; or NULL. */
static char *read_config(int root_fd, const char *krel)
{
	static const struct {
		const char *before, *after;
	} places[] = {
		{ "boot/config-", "" },
		{ CONTRACT_GPU_HOST_ROOT "/boot/config-", "" },
		{ "lib/modules/", "/config" },
		{ CONTRACT_GPU_HOST_ROOT "/lib/modules/", "/config" },
		{ CONTRACT_GPU_HOST_ROOT "/lib/modules/", "/build/.config" },
	};
	_cleanup_free_ char *packed = NULL;
	struct error ignored;
	char *text = NULL;
	size_t size = 0;

	if (fs_read(root_fd, "proc/config.gz", CONFIG_LIMIT, &packed, &size) == 0 &&
		decompress(DECOMPRESS_GZIP, packed, size, CONFIG_LIMIT, &text, &size, &ignored) ==
			0) {
		char *ended = strndup(text, size);

		free(text);
		return ended;
	}
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		char path[256];

		(void) snprintf(
			path, sizeof(path), "%s%s%s", places[i].before, krel, places[i].after);
		if (fs_read(root_fd, path, CONFIG_LIMIT, &text, NULL) == 0)
			return text;
	}
	return NULL;
}

static enum answer config_option(const char *config, const char *name)
{
	char line[64];
	int length = snprintf(line, sizeof(line), "%s=y\n", name);

	if (!config)
		return ANSWER_UNKNOWN;
	for (const char *found = config; (found = strstr(found, line)); found += length)
		if (found == config || found[-1] == '\n')
			return ANSWER_YES;
	return ANSWER_NO;
}

/* Are symbols' CRCs compared? Without a configuration, what the image knows of its kernel. */
static enum answer has_modversions(int root_fd, const char *krel, const char *config)
{
	_cleanup_free_ char *text = NULL;
	char vermagic[256] = "", path[256];

	if (config)
		return config_option(config, "CONFIG_MODVERSIONS");
	(void) snprintf(path, sizeof(path), KERNEL_FACTS_FOLDER "/%s/" KERNEL_FACTS_FILE, krel);
	if (fs_read(root_fd, path, CONFIG_LIMIT, &text, NULL) == 0)
		conf_value(text, "vermagic", vermagic, sizeof(vermagic));
	if (!*vermagic)
		return ANSWER_UNKNOWN;
	return strstr(vermagic, " modversions") ? ANSWER_YES : ANSWER_NO;
}

/* A kernel that can unload shows a count of references for each module that is not built in. */
static enum answer can_unload(int root_fd, const char *config)
{
	_cleanup_strv_ struct strv modules = { 0 };

	if (fs_list(root_fd, "sys/module", &modules) < 0)
		return config_option(config, "CONFIG_MODULE_UNLOAD");
	for (size_t i = 0; i < modules.count; i++) {
		char path[256];

		(void) snprintf(path, sizeof(path), "sys/module/%s/initstate", modules.items[i]);
		if (!fs_exists(root_fd, path))
			continue;
		(void) snprintf(path, sizeof(path), "sys/module/%s/refcnt", modules.items[i]);
		return fs_exists(root_fd, path) ? ANSWER_YES : ANSWER_NO;
	}
	return config_option(config, "CONFIG_MODULE_UNLOAD");
}

static enum answer forces_signatures(int root_fd, const char *config)
{
	_cleanup_free_ char *value = NULL;

	if (fs_read_line(root_fd, "sys/module/module/parameters/sig_enforce", &value) == 0)
		return *value == 'Y' ? ANSWER_YES : ANSWER_NO;
	return config_option(config, "CONFIG_MODULE_SIG_FORCE");
}

/* What decides about drivers and cannot be changed while the kernel runs. */
static void status_kernel(int root_fd, struct json *json)
{
	static const struct {
		const char *key;
		enum answer notable;
		const char *text;
	} facts[] = {
		{ "modversions", ANSWER_NO,
			"without module versions (nothing compares symbols' CRCs)" },
		{ "module_unloading", ANSWER_NO,
			"without module unloading (a driver stays until the next boot)" },
		{ "signatures_forced", ANSWER_YES, "takes signed modules only" },
	};
	enum answer answers[ARRAY_SIZE(facts)];
	_cleanup_free_ char *config = NULL;
	struct utsname system;

	(void) uname(&system);
	config = read_config(root_fd, system.release);
	answers[0] = has_modversions(root_fd, system.release, config);
	answers[1] = can_unload(root_fd, config);
	answers[2] = forces_signatures(root_fd, config);
	json_write_text(json, "kernel", system.release);
	json_write_open(json, "kernel_facts", '{');
	json_write_text(json, "build", system.version);
	json_write_text(json, "machine", system.machine);
	status_print(json, "kernel   %s", system.release);
	for (size_t i = 0; i < ARRAY_SIZE(facts); i++) {
		if (answers[i] == ANSWER_UNKNOWN)
			json_write_null(json, facts[i].key);
		else
			json_write_boolean(json, facts[i].key, answers[i] == ANSWER_YES);
		if (answers[i] == facts[i].notable)
			status_print(json, ", %s", facts[i].text);
	}
	json_write_close(json, '}');
	status_print(json, "\n");
}

/* ---- how the NIC role's driver came to run */

static void print_nic(const struct nic_report *report)
{
	static const struct {
		enum nic_report_list list;
		const char *words;
	} lines[] = {
		{ NIC_REPORT_PARAMETERS, "parameters: " },
		{ NIC_REPORT_REPLACED, "! changed since: " },
		{ NIC_REPORT_UNRESTORED, "! not restored: " },
		{ NIC_REPORT_MISSING, "! did not come back: " },
	};
	const struct strv *went = &report->lists[NIC_REPORT_WENT];

	(void) printf("ofed     %s: ", report->mode);
	if (strcmp(report->swap, "same") == 0)
		(void) printf("it ran already, nothing was touched");
	else
		(void) printf("%s", went->count ? "loaded in the place of"
						: "loaded, nothing had to make room");
	for (size_t i = 0; i < went->count; i++)
		(void) printf(" %s", went->items[i]);
	(void) putchar('\n');
	for (size_t i = 0; i < ARRAY_SIZE(lines); i++)
		for (size_t k = 0; k < report->lists[lines[i].list].count; k++)
			(void) printf(STATUS_INDENT "%s%s\n", lines[i].words,
				report->lists[lines[i].list].items[k]);
}

void status_nic(int root_fd, struct json *json)
{
	_cleanup_(nic_report_free) struct nic_report report = { .mode = "" };

	/* What a killed one left is of no use: its next start compares anew. */
	if (!lock_is_held(root_fd, CONTRACT_OFED_LOCK) || nic_report_read(root_fd, &report) < 0) {
		json_write_null(json, "nic");
		return;
	}
	if (!json)
		print_nic(&report);
	json_write_open(json, "nic", '{');
	json_write_text(json, "mode", report.mode);
	json_write_text(json, "swap", report.swap);
	for (size_t i = 0; i < NIC_REPORT_LISTS; i++)
		json_write_list(json, nic_report_key((enum nic_report_list) i), &report.lists[i]);
	json_write_close(json, '}');
}

/* ---- GPUDirect RDMA */

/*
 * How often the role that follows OFED loaded nvidia-peermem, and how long the last time took;
 * *loads stays -1 where none follows. Either of the two roles may be the one (rdma/peermem.h).
 */
static void read_follower(int root_fd, long *loads, long *last_us)
{
	static const char *const files[] = { GPU_STATE_FOLDER "/peermem.status",
		GPU_STATE_FOLDER "/gpu.status" };

	for (size_t i = 0; i < ARRAY_SIZE(files) && *loads < 0; i++) {
		_cleanup_free_ char *text = NULL;
		char value[24];

		if (fs_read(root_fd, files[i], 65536, &text, NULL) < 0)
			continue;
		conf_value(text, "peermem_loads", value, sizeof(value));
		if (strtol(value, NULL, 10) <= 0)
			continue;
		*loads = strtol(value, NULL, 10);
		conf_value(text, "peermem_us", value, sizeof(value));
		*last_us = strtol(value, NULL, 10);
	}
}

static void status_peermem(int root_fd, struct json *json)
{
	bool loaded = sysmodule_is_live(root_fd, PEERMEM_MODULE);
	bool rdma_core = sysmodule_exists(root_fd, "ib_core"); /* a module or built in */
	bool ofed_ready = fs_exists(root_fd, CONTRACT_OFED_READY);
	bool ofed_stale = ready_flag_is_stale(root_fd);
	long loads = -1, last_us = -1;

	read_follower(root_fd, &loads, &last_us);
	json_write_open(json, "peermem", '{');
	json_write_boolean(json, "loaded", loaded);
	json_write_boolean(json, "rdma_core", rdma_core);
	json_write_boolean(json, "ofed_ready", ofed_ready && !ofed_stale);
	json_write_boolean(json, "ofed_flag_stale", ofed_stale);
	json_write_number_or_null(json, "loads", loads);
	json_write_number_or_null(json, "last_load_us", last_us);
	json_write_close(json, '}');

	status_print(json, "peermem  %s", loaded ? "loaded" : "not loaded");
	if (!rdma_core)
		status_print(json, "; the kernel has no RDMA core");
	else if (ofed_stale)
		status_print(json, "; stale flag: " READY_FLAG_STALE);
	else
		status_print(json, "; OFED's container %s",
			ofed_ready ? "says that it is ready" : "has not said that it is ready");
	if (loads == 1)
		status_print(
			json, "; loaded once after OFED came, in %.1f ms", (double) last_us / 1e3);
	else if (loads > 1)
		status_print(json, "; loaded %ld times after OFED came, the last time in %.1f ms",
			loads, (double) last_us / 1e3);
	status_print(json, "\n");
}

/* ---- the modules that show how far a node is */

/* In the order that they come; last those that stand in the way. */
static const char *const shown_modules[] = { "ib_core", "ib_uverbs", "mlx5_core", "mlx5_ib",
	"nvidia", "nvidia_uvm", "nvidia_modeset", "nvidia_drm", PEERMEM_MODULE, "gdrdrv",
	"nvidia_fs", "nvidia_vgpu_vfio", "nouveau", "nova_core", "nova_drm" };

static void status_modules(int root_fd, struct json *json)
{
	bool none = true;

	json_write_open(json, "modules", '[');
	status_print(json, "modules ");
	for (size_t i = 0; i < ARRAY_SIZE(shown_modules); i++) {
		const char *name = shown_modules[i];
		/* Negative of a built-in module, and where the kernel has no CONFIG_MODULE_UNLOAD.
		 */
		int references = sysmodule_references(root_fd, name);
		bool built_in = sysmodule_is_built_in(root_fd, name);
		char build_id[BUILD_ID_HEX_SIZE];

		if (!sysmodule_exists(root_fd, name))
			continue;
		none = false;
		sysmodule_build_id(root_fd, name, build_id);
		json_write_open(json, NULL, '{');
		json_write_text(json, "name", name);
		json_write_boolean(json, "built_in", built_in);
		json_write_text(json, "build_id", build_id);
		json_write_number_or_null(json, "references", references);
		json_write_close(json, '}');
		if (built_in)
			status_print(json, " %s(built in)", name);
		else if (references < 0)
			status_print(json, " %s(cannot be unloaded)", name);
		else
			status_print(json, " %s(%d)", name, references);
	}
	json_write_close(json, ']');
	status_print(json, "%s\n", none ? " none" : "");
}

/* ---- libraries that open devices */

#define CHILD_DEADLINE_MS 5000

/* Fills @answer from the child; false when it sent less, or nothing in time. */
static bool receive(int fd, char *answer, size_t size)
{
	uint64_t deadline_ms = clock_monotonic_ms() + CHILD_DEADLINE_MS;

	while (size) {
		uint64_t now_ms = clock_monotonic_ms();
		struct pollfd wait = { .fd = fd, .events = POLLIN };
		ssize_t got;

		if (now_ms >= deadline_ms || poll(&wait, 1, (int) (deadline_ms - now_ms)) <= 0)
			return false;
		got = read(fd, answer, size);
		if (got <= 0)
			return false;
		answer += got;
		size -= (size_t) got;
	}
	return true;
}

struct question {
	void (*ask)(int root_fd, void *answer);
	int root_fd;
	void *answer;
	size_t size;
	int fd;
};

static void answer_question(void *context)
{
	const struct question *question = context;

	question->ask(question->root_fd, question->answer);
	(void) !fs_write_all(question->fd, question->answer, question->size);
}

bool status_ask_child(
	void (*ask)(int root_fd, void *answer), int root_fd, void *answer, size_t size)
{
	struct question question = { ask, root_fd, answer, size, -1 };
	const struct spawn child = { .run = answer_question, .context = &question };
	bool answered = false;
	int ends[2];
	pid_t pid;
	int r;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return false;
	(void) fflush(NULL);
	question.fd = ends[1];
	r = spawn_start(&child, &pid);
	(void) close(ends[1]);
	if (r == 0) {
		answered = receive(ends[0], answer, size);
		(void) kill(pid, SIGKILL);
		(void) waitpid(pid, NULL, answered ? 0 : WNOHANG);
	}
	(void) close(ends[0]);
	return answered;
}

/* ---- all of it */

/* In the order of the lines and members. */
static status_part *const parts[] = { status_nic, status_driver, status_devices, status_rdma,
	status_daemons, status_peermem, status_imex, status_fabric, status_modules };

int status_main(int root_fd, bool json)
{
	struct json object = { .file = stdout };
	struct json *form = json ? &object : NULL;
	bool ready;

	json_write_open(form, NULL, '{');
	status_kernel(root_fd, form);
	ready = status_roles(root_fd, form);
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		parts[i](root_fd, form);
	json_write_close(form, '}');
	if (form)
		(void) putchar('\n');
	return ready ? 0 : 1;
}
