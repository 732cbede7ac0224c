/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/status/status.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
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
#include "module/decompress.h"
#include "module/kernel_facts.h"
#include "module/sysmodule.h"

/* ---- what each role says of itself */

static const struct {
	const char *role;
	const char *path;
	const char *lock; /* held as long as the role lives; NULL: it has none */
} sources[] = {
	{ "gpu", GPU_STATE_FOLDER "/gpu.status", CONTRACT_GPU_PID_FILE },
	{ "peermem", GPU_STATE_FOLDER "/peermem.status", NULL },
	{ "gds", GPU_STATE_FOLDER "/gds.status", NULL },
	{ "gdrcopy", GPU_STATE_FOLDER "/gdrcopy.status", NULL },
	{ "nic", NIC_STATE_FOLDER "/nic.status", CONTRACT_OFED_LOCK },
};

struct role_status {
	const char *role;
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
#define VALUE(name)                                                                                \
	{                                                                                          \
#name, status->name, sizeof(status->name)                                          \
	}
	const struct {
		const char *key;
		char *value;
		size_t size;
	} values[] = { VALUE(state), VALUE(step), VALUE(reason), VALUE(pid), VALUE(ready_ms),
		VALUE(detail), VALUE(proof), VALUE(phases) };
#undef VALUE
	_cleanup_free_ char *text = NULL;

	if (fs_read(root_fd, sources[index].path, 65536, &text, NULL) < 0)
		return false;
	status->role = sources[index].role;
	for (size_t i = 0; i < ARRAY_SIZE(values); i++)
		conf_value(text, values[i].key, values[i].value, values[i].size);
	/* A killed init leaves its last state behind. */
	if (strcmp(status->state, "stopped") != 0 && strcmp(status->state, "failed") != 0 &&
		!is_alive(root_fd, index, status))
		(void) snprintf(status->state, sizeof(status->state), "dead");
	return true;
}

/* The next "step:microseconds" of *@text. */
static bool next_phase(const char **text, char step[64], long *ret_us)
{
	int length = 0;

	if (sscanf(*text, " %63[^: ]:%ld%n", step, ret_us, &length) != 2)
		return false;
	*text += length;
	return true;
}

static void print_phases(const char *phases)
{
	const char *separator = STATUS_INDENT "phases: ";
	char step[64];
	long us;

	while (next_phase(&phases, step, &us)) {
		(void) printf("%s%s %.1f ms", separator, step, (double) us / 1e3);
		separator = ", ";
	}
	if (*separator == ',')
		(void) putchar('\n');
}

static void print_role(const struct role_status *status)
{
	(void) printf("%-8s %-9s", status->role, status->state);
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
	print_phases(status->phases);
}

static void print_phases_json(struct json *json, const char *phases)
{
	char step[64];
	long us;

	json_write_open(json, "phases", '[');
	while (next_phase(&phases, step, &us)) {
		json_write_open(json, NULL, '{');
		json_write_text(json, "step", step);
		json_write_number(json, "us", us);
		json_write_close(json, '}');
	}
	json_write_close(json, ']');
}

static void print_role_json(struct json *json, const struct role_status *status)
{
	long ready_ms = strtol(status->ready_ms, NULL, 10);

	json_write_open(json, NULL, '{');
	json_write_text(json, "role", status->role);
	json_write_text(json, "state", status->state);
	json_write_text(json, "step", status->step);
	json_write_text(json, "reason", status->reason);
	json_write_number(json, "pid", strtol(status->pid, NULL, 10));
	/* 0 in the file: it did not come that far. */
	json_write_number_or_null(json, "ready_ms", ready_ms > 0 ? ready_ms : -1);
	json_write_text(json, "detail", status->detail);
	json_write_text(json, "proof", status->proof);
	print_phases_json(json, status->phases);
	json_write_close(json, '}');
}

/* Returns how many there are, and in *ret_ready how many of them are ready. */
static size_t status_roles(int root_fd, struct json *json, size_t *ret_ready)
{
	size_t told = 0;

	*ret_ready = 0;
	if (json)
		json_write_open(json, "roles", '[');
	for (size_t i = 0; i < ARRAY_SIZE(sources); i++) {
		struct role_status status = { .role = NULL };

		if (!read_role(root_fd, i, &status))
			continue;
		if (json)
			print_role_json(json, &status);
		else
			print_role(&status);
		*ret_ready += strcmp(status.state, "ready") == 0;
		told++;
	}
	if (json)
		json_write_close(json, ']');
	else if (!told)
		(void) puts("roles    no driver container of Slipway has run on this node since it "
			    "booted");
	return told;
}

/* ---- the kernel that runs */

#define CONFIG_LIMIT (4 << 20)

enum answer { ANSWER_UNKNOWN, ANSWER_NO, ANSWER_YES };

/* What decides about drivers and cannot be changed while the kernel runs. */
struct kernel_answers {
	enum answer modversions;       /* symbols have CRCs that are compared */
	enum answer unloading;         /* modules can be unloaded */
	enum answer signatures_forced; /* only signed modules */
};

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

/* Where the node shows no configuration: what the image knows of the kernel that it was made for.
 */
static enum answer modversions_by_image(int root_fd, const char *krel)
{
	_cleanup_free_ char *text = NULL;
	char vermagic[256], path[256];

	(void) snprintf(path, sizeof(path), KERNEL_FACTS_FOLDER "/%s/" KERNEL_FACTS_FILE, krel);
	if (fs_read(root_fd, path, CONFIG_LIMIT, &text, NULL) < 0)
		return ANSWER_UNKNOWN;
	conf_value(text, "vermagic", vermagic, sizeof(vermagic));
	if (!*vermagic)
		return ANSWER_UNKNOWN;
	return strstr(vermagic, " modversions") ? ANSWER_YES : ANSWER_NO;
}

/* A kernel that can unload shows a count of references for each module that is not built in. */
static enum answer can_unload(int root_fd)
{
	_cleanup_strv_ struct strv modules = { 0 };

	if (fs_list(root_fd, "sys/module", &modules) < 0)
		return ANSWER_UNKNOWN;
	for (size_t i = 0; i < modules.count; i++) {
		char path[256];

		(void) snprintf(path, sizeof(path), "sys/module/%s/initstate", modules.items[i]);
		if (!fs_exists(root_fd, path))
			continue;
		(void) snprintf(path, sizeof(path), "sys/module/%s/refcnt", modules.items[i]);
		return fs_exists(root_fd, path) ? ANSWER_YES : ANSWER_NO;
	}
	return ANSWER_UNKNOWN;
}

static enum answer forces_signatures(int root_fd, const char *config)
{
	_cleanup_free_ char *value = NULL;

	if (fs_read_line(root_fd, "sys/module/module/parameters/sig_enforce", &value) == 0)
		return *value == 'Y' ? ANSWER_YES : ANSWER_NO;
	return config_option(config, "CONFIG_MODULE_SIG_FORCE");
}

static void find_answers(int root_fd, const char *krel, struct kernel_answers *answers)
{
	_cleanup_free_ char *config = read_config(root_fd, krel);

	answers->modversions = config_option(config, "CONFIG_MODVERSIONS");
	if (answers->modversions == ANSWER_UNKNOWN)
		answers->modversions = modversions_by_image(root_fd, krel);
	answers->unloading = can_unload(root_fd);
	if (answers->unloading == ANSWER_UNKNOWN)
		answers->unloading = config_option(config, "CONFIG_MODULE_UNLOAD");
	answers->signatures_forced = forces_signatures(root_fd, config);
}

static void print_answer_json(struct json *json, const char *key, enum answer answer)
{
	if (answer == ANSWER_UNKNOWN)
		json_write_null(json, key);
	else
		json_write_boolean(json, key, answer == ANSWER_YES);
}

static void print_kernel_json(
	struct json *json, const struct utsname *system, const struct kernel_answers *answers)
{
	json_write_text(json, "kernel", system->release);
	json_write_open(json, "kernel_facts", '{');
	json_write_text(json, "build", system->version);
	json_write_text(json, "machine", system->machine);
	print_answer_json(json, "modversions", answers->modversions);
	print_answer_json(json, "module_unloading", answers->unloading);
	print_answer_json(json, "signatures_forced", answers->signatures_forced);
	json_write_close(json, '}');
}

static void status_kernel(int root_fd, struct json *json)
{
	struct kernel_answers answers;
	struct utsname system;

	(void) uname(&system);
	find_answers(root_fd, system.release, &answers);
	if (json) {
		print_kernel_json(json, &system, &answers);
		return;
	}
	(void) printf("kernel   %s", system.release);
	if (answers.modversions == ANSWER_NO)
		(void) printf(", without module versions (nothing compares symbols' CRCs)");
	if (answers.unloading == ANSWER_NO)
		(void) printf(", without module unloading (a driver stays until the next boot)");
	if (answers.signatures_forced == ANSWER_YES)
		(void) printf(", takes signed modules only");
	(void) putchar('\n');
}

/* ---- how the NIC role's driver came to run */

static void print_nic(const struct nic_report *report)
{
	static const struct {
		enum nic_report_list list;
		const char *words;
	} lines[] = {
		{ NIC_REPORT_PARAMETERS, "parameters: " },
		{ NIC_REPORT_REPLACED, "! changed by somebody: " },
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

static void print_nic_json(const struct nic_report *report, struct json *json)
{
	json_write_open(json, "nic", '{');
	json_write_text(json, "mode", report->mode);
	json_write_text(json, "swap", report->swap);
	for (size_t i = 0; i < NIC_REPORT_LISTS; i++) {
		json_write_open(json, nic_report_key((enum nic_report_list) i), '[');
		for (size_t j = 0; j < report->lists[i].count; j++)
			json_write_text(json, NULL, report->lists[i].items[j]);
		json_write_close(json, ']');
	}
	json_write_close(json, '}');
}

void status_nic(int root_fd, struct json *json)
{
	_cleanup_(nic_report_free) struct nic_report report = { .mode = "" };
	/* What a killed one left is of no use: its next start compares anew. */
	bool serves =
		lock_is_held(root_fd, CONTRACT_OFED_LOCK) && nic_report_read(root_fd, &report) == 0;

	if (!json && serves)
		print_nic(&report);
	else if (json && serves)
		print_nic_json(&report, json);
	else if (json)
		json_write_null(json, "nic");
}

/* ---- GPUDirect RDMA */

struct peermem {
	bool loaded;
	bool rdma_core;  /* ib_core is there, a module or built in */
	bool ofed_ready; /* the NIC container's flag */
	bool ofed_stale; /* and nobody who answers for it */
	long loads;      /* how often the role that follows OFED loaded it; -1: nobody follows */
	long last_us;    /* the last time: from OFED being there to loaded */
};

/* Either of the two roles may be the one that follows OFED (entrypoint/rdma/peermem.h). */
static void read_follower(int root_fd, struct peermem *peermem)
{
	static const char *const files[] = { GPU_STATE_FOLDER "/peermem.status",
		GPU_STATE_FOLDER "/gpu.status" };

	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		_cleanup_free_ char *text = NULL;
		char value[24];

		if (fs_read(root_fd, files[i], 65536, &text, NULL) < 0)
			continue;
		conf_value(text, "peermem_loads", value, sizeof(value));
		if (!*value || strtol(value, NULL, 10) <= 0)
			continue;
		peermem->loads = strtol(value, NULL, 10);
		conf_value(text, "peermem_us", value, sizeof(value));
		peermem->last_us = strtol(value, NULL, 10);
		return;
	}
}

static void print_peermem_json(struct json *json, const struct peermem *peermem)
{
	json_write_open(json, "peermem", '{');
	json_write_boolean(json, "loaded", peermem->loaded);
	json_write_boolean(json, "rdma_core", peermem->rdma_core);
	json_write_boolean(json, "ofed_ready", peermem->ofed_ready && !peermem->ofed_stale);
	json_write_boolean(json, "ofed_flag_stale", peermem->ofed_stale);
	json_write_number_or_null(json, "loads", peermem->loads);
	json_write_number_or_null(json, "last_load_us", peermem->last_us);
	json_write_close(json, '}');
}

static void print_peermem(const struct peermem *peermem)
{
	(void) printf("peermem  %s", peermem->loaded ? "loaded" : "not loaded");
	if (!peermem->rdma_core)
		(void) printf("; the kernel has no RDMA core");
	else if (peermem->ofed_stale)
		(void) printf("; stale flag: " READY_FLAG_STALE);
	else
		(void) printf("; OFED's container %s", peermem->ofed_ready
							       ? "says that it is ready"
							       : "has not said that it is ready");
	if (peermem->loads == 1)
		(void) printf("; loaded once after OFED came, in %.1f ms",
			(double) peermem->last_us / 1e3);
	else if (peermem->loads > 1)
		(void) printf("; loaded %ld times after OFED came, the last time in %.1f ms",
			peermem->loads, (double) peermem->last_us / 1e3);
	(void) putchar('\n');
}

static void status_peermem(int root_fd, struct json *json)
{
	struct peermem peermem = {
		.loaded = sysmodule_is_live(root_fd, "nvidia_peermem"),
		.rdma_core = sysmodule_exists(root_fd, "ib_core"),
		.ofed_ready = fs_exists(root_fd, CONTRACT_OFED_READY),
		.ofed_stale = ready_flag_is_stale(root_fd),
		.loads = -1,
		.last_us = -1,
	};

	read_follower(root_fd, &peermem);
	if (json)
		print_peermem_json(json, &peermem);
	else
		print_peermem(&peermem);
}

/* ---- the modules that tell how far a node is */

/* In the order that they come; last those that stand in the way. */
static const char *const told_modules[] = { "ib_core", "ib_uverbs", "mlx5_core", "mlx5_ib",
	"nvidia", "nvidia_uvm", "nvidia_modeset", "nvidia_drm", "nvidia_peermem", "gdrdrv",
	"nvidia_fs", "nvidia_vgpu_vfio", "nouveau", "nova_core", "nova_drm" };

static void status_modules(int root_fd, struct json *json)
{
	bool none = true;

	if (json)
		json_write_open(json, "modules", '[');
	else
		(void) printf("modules ");
	for (size_t i = 0; i < ARRAY_SIZE(told_modules); i++) {
		const char *name = told_modules[i];
		/* Not told of a built-in module, nor where the kernel has no CONFIG_MODULE_UNLOAD.
		 */
		int references = sysmodule_references(root_fd, name);
		bool built_in = sysmodule_is_built_in(root_fd, name);
		char build_id[BUILD_ID_HEX_SIZE];

		if (!sysmodule_exists(root_fd, name))
			continue;
		none = false;
		if (json) {
			sysmodule_build_id(root_fd, name, build_id);
			json_write_open(json, NULL, '{');
			json_write_text(json, "name", name);
			json_write_boolean(json, "built_in", built_in);
			json_write_text(json, "build_id", build_id);
			json_write_number_or_null(json, "references", references);
			json_write_close(json, '}');
		} else if (built_in) {
			(void) printf(" %s(built in)", name);
		} else if (references < 0) {
			(void) printf(" %s(cannot be unloaded)", name);
		} else {
			(void) printf(" %s(%d)", name, references);
		}
	}
	if (json)
		json_write_close(json, ']');
	else
		(void) printf("%s\n", none ? " none" : "");
}

/* ---- libraries that open devices */

#define CHILD_DEADLINE_MS 5000

/* Fills @answer from the child; false when it said less, or nothing in time. */
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
	size_t told, ready;

	if (form)
		json_write_open(form, NULL, '{');
	status_kernel(root_fd, form);
	told = status_roles(root_fd, form, &ready);
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		parts[i](root_fd, form);
	if (form) {
		json_write_close(form, '}');
		(void) putchar('\n');
	}
	return told && ready == told ? 0 : 1;
}
