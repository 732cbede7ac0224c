/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/status/status.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/utsname.h>

#include "common/cleanup.h"
#include "common/conf.h"
#include "common/fs.h"
#include "common/text.h"
#include "entrypoint/contract.h"
#include "entrypoint/engine/lock_file.h"
#include "entrypoint/engine/reason.h"
#include "entrypoint/image.h"
#include "entrypoint/netstate/netstate.h"
#include "entrypoint/nic/report.h"
#include "entrypoint/role/gpu_modules.h"
#include "entrypoint/role/securityfs.h"
#include "entrypoint/status/status_internal.h"
#include "module/elf.h"
#include "module/kernel_config.h"
#include "module/running.h"

void status_print(const struct json *json, const char *format, ...)
{
	va_list arguments;

	if (json)
		return;
	va_start(arguments, format);
	text_vprint(stdout, format, arguments);
	va_end(arguments);
}

void status_finding(struct findings *findings, const struct json *json, const char *format, ...)
{
	_cleanup_free_ char *line = NULL;
	va_list arguments;
	int length;

	va_start(arguments, format);
	length = vasprintf(&line, format, arguments);
	va_end(arguments);
	if (length < 0)
		line = NULL;
	if (!line || strv_push(&findings->lines, line) < 0)
		findings->incomplete = true;
	if (line)
		status_print(json, STATUS_INDENT "! %s\n", line);
}

void status_owner(const struct process_seen *process, char text[POD_TEXT_SIZE])
{
	(void) snprintf(text, POD_TEXT_SIZE, "the host's");
	if (process->in_pod)
		pod_text(&process->pod, text);
}

bool status_find_symbols(void *library, const struct status_symbol *symbols, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		void *function = dlsym(library, symbols[i].name);

		if (!function)
			return false;
		*(void **) symbols[i].function = function;
	}
	return true;
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

/* Keys of the file and of the JSON object, in its order. */
enum role_key { STATE, STEP, REASON, PID, READY_MS, DETAIL, PROOF, PHASES, ROLE_KEYS };

static const char *const role_keys[ROLE_KEYS] = { "state", "step", "reason", "pid", "ready_ms",
	"detail", "proof", "phases" };

struct role_status {
	char value[ROLE_KEYS][2048];
};

/* A role without a lock shows by its process, where that can be seen. */
static bool is_alive(int root_fd, const char *lock, const char *pid)
{
	char path[32];

	if (lock)
		return lock_is_held(root_fd, lock);
	(void) snprintf(path, sizeof(path), "proc/%.16s", pid);
	return fs_exists(root_fd, path);
}

static bool read_role(int root_fd, size_t index, struct role_status *status)
{
	_cleanup_free_ char *text = NULL;
	char *state;

	*status = (struct role_status){ 0 };
	if (fs_read(root_fd, sources[index].path, 65536, &text, NULL) < 0)
		return false;
	for (size_t i = 0; i < ROLE_KEYS; i++)
		conf_value(text, role_keys[i], status->value[i], sizeof(status->value[i]));
	state = status->value[STATE];
	/* A killed init leaves its last state behind. */
	if (strcmp(state, "stopped") != 0 && strcmp(state, "failed") != 0 &&
		!is_alive(root_fd, sources[index].lock, status->value[PID]))
		(void) snprintf(state, sizeof(status->value[STATE]), "dead");
	return true;
}

/* @phases: "step:microseconds" with blanks between. */
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

static void print_role(struct json *json, struct findings *findings, const char *role,
	const struct role_status *status)
{
	const char *state = status->value[STATE];
	long ready_ms = strtol(status->value[READY_MS], NULL, 10);

	json_write_open(json, NULL, '{');
	json_write_text(json, "role", role);
	for (size_t i = 0; i < PHASES; i++) {
		if (i == PID)
			json_write_number(json, "pid", strtol(status->value[PID], NULL, 10));
		else if (i == READY_MS) /* 0 in the file: it did not come that far */
			json_write_number_or_null(json, "ready_ms", ready_ms > 0 ? ready_ms : -1);
		else
			json_write_text(json, role_keys[i], status->value[i]);
	}

	status_print(json, "%-8s %-9s", role, state);
	if (*status->value[STEP])
		status_print(json, " at %s", status->value[STEP]);
	if (strcmp(state, "ready") == 0)
		status_print(json, " after %s ms", status->value[READY_MS]);
	if (strcmp(status->value[REASON], "OK") != 0)
		status_print(json, " [%s]", status->value[REASON]);
	status_print(json, "%s%s\n", *status->value[DETAIL] ? ": " : "", status->value[DETAIL]);
	if (strcmp(state, "dead") == 0)
		status_finding(findings, json,
			"its process is gone without a cleanup (%s): the kubelet restarts the "
			"container; to see why it ended: kubectl describe pod, kubectl logs "
			"--previous",
			role);
	if (*status->value[PROOF])
		status_print(json, STATUS_INDENT "load proof: %s\n", status->value[PROOF]);
	print_phases(json, status->value[PHASES]);
	json_write_close(json, '}');
}

/* Is there a role, and is each of them ready? */
static bool status_roles(int root_fd, struct json *json, struct findings *findings)
{
	size_t count = 0, ready = 0;

	json_write_open(json, "roles", '[');
	for (size_t i = 0; i < ARRAY_SIZE(sources); i++) {
		struct role_status status;

		if (!read_role(root_fd, i, &status))
			continue;
		print_role(json, findings, sources[i].role, &status);
		ready += strcmp(status.value[STATE], "ready") == 0;
		count++;
	}
	json_write_close(json, ']');
	if (!count)
		status_print(json,
			"roles    no driver container of Slipway has run on this node since it "
			"booted\n");
	return count && ready == count;
}

/* ---- the kernel that runs: what can be asked of it is answered by 1, 0, or -1: not known */

/* The text of the running kernel's configuration, which the caller frees; or NULL. */
static char *read_config(int root_fd, const char *krel)
{
	static const char *const roots[] = { "", CONTRACT_GPU_HOST_ROOT "/" };
	_cleanup_free_ char *packed = NULL;
	struct error ignored;
	char *text = NULL;
	size_t size = 0;

	char place[256], path[320];

	if (fs_read(root_fd, KERNEL_CONFIG_SHOWN, KERNEL_CONFIG_LIMIT, &packed, &size) == 0 &&
		decompress(DECOMPRESS_GZIP, packed, size, KERNEL_CONFIG_LIMIT, &text, &size,
			&ignored) == 0)
		return text;
	for (size_t i = 0; kernel_config_place(i, krel, place, sizeof(place)); i++)
		for (size_t k = 0; k < ARRAY_SIZE(roots); k++) {
			(void) snprintf(path, sizeof(path), "%s%s", roots[k], place);
			if (fs_read(root_fd, path, KERNEL_CONFIG_LIMIT, &text, NULL) == 0)
				return text;
		}
	return NULL;
}

static int config_option(const char *config, const char *name)
{
	char value[8];

	if (!config)
		return -1;
	conf_value(config, name, value, sizeof(value));
	return strcmp(value, "y") == 0;
}

/* Are symbols' CRCs compared? Without a configuration, what the image knows of its kernel. */
static int has_modversions(int root_fd, const char *krel, const char *config)
{
	struct kernel_facts facts;
	char path[256];

	if (config)
		return config_option(config, "CONFIG_MODVERSIONS");
	(void) snprintf(path, sizeof(path), KERNEL_FACTS_FOLDER "/%s/" KERNEL_FACTS_FILE, krel);
	if (kernel_facts_read(root_fd, path, &facts) < 0 || !*facts.vermagic)
		return -1;
	return strstr(facts.vermagic, " modversions") != NULL;
}

/* A kernel that can unload shows a count of references for each module that is not built in. */
static int can_unload(int root_fd, const char *config)
{
	_cleanup_strv_ struct strv modules = { 0 };

	if (sysmodule_list(root_fd, &modules) < 0 || !modules.count)
		return config_option(config, "CONFIG_MODULE_UNLOAD");
	return sysmodule_references(root_fd, modules.items[0]) >= 0;
}

static int forces_signatures(int root_fd, const char *config)
{
	_cleanup_free_ char *value = NULL;

	if (securityfs_locks_down(root_fd))
		return 1;
	if (fs_read_line(root_fd, "sys/module/module/parameters/sig_enforce", &value) == 0)
		return *value == 'Y';
	return config_option(config, "CONFIG_MODULE_SIG_FORCE");
}

/* Prints facts about the kernel that decide about drivers and cannot be changed while it runs. */
static void status_kernel(int root_fd, struct json *json, struct findings *findings)
{
	static const struct {
		const char *key;
		int notable;
		const char *text;
	} facts[] = {
		{ "modules", 0, "without loadable modules" },
		{ "modversions", 0, "without module versions (nothing compares symbols' CRCs)" },
		{ "module_unloading", 0,
			"without module unloading (a driver stays until the next boot)" },
		{ "signatures_forced", 1, "takes signed modules only" },
	};
	int answers[ARRAY_SIZE(facts)];
	_cleanup_free_ char *config = NULL;
	struct utsname system;

	(void) uname(&system);
	config = read_config(root_fd, system.release);
	answers[0] = sysmodule_supported(root_fd);
	/* The others are about modules. */
	answers[1] = answers[0] ? has_modversions(root_fd, system.release, config) : -1;
	answers[2] = answers[0] ? can_unload(root_fd, config) : -1;
	answers[3] = answers[0] ? forces_signatures(root_fd, config) : -1;
	json_write_text(json, "kernel", system.release);
	json_write_open(json, "kernel_facts", '{');
	json_write_text(json, "build", system.version);
	json_write_text(json, "machine", system.machine);
	status_print(json, "kernel   %s", system.release);
	for (size_t i = 0; i < ARRAY_SIZE(facts); i++) {
		json_write_answer(json, facts[i].key, answers[i]);
		if (answers[i] == facts[i].notable)
			status_print(json, ", %s", facts[i].text);
	}
	json_write_close(json, '}');
	status_print(json, "\n");
	if (!answers[0])
		status_finding(findings, json,
			"no driver can be loaded: boot a kernel with CONFIG_MODULES");
}

/* ---- how the NIC role's driver came to run, and what did not come back */

void status_nic(int root_fd, struct json *json, struct findings *findings)
{
	static const struct {
		enum nic_report_list list;
		const char *words;
	} faults[] = {
		{ NIC_REPORT_REPLACED, "changed since" },
		{ NIC_REPORT_UNRESTORED, "not restored" },
		{ NIC_REPORT_MISSING, "could not be reloaded" },
	};
	_cleanup_(nic_report_free) struct nic_report report = { .mode = "" };
	const struct strv *unloaded = &report.lists[NIC_REPORT_UNLOADED];
	const struct strv *parameters = &report.lists[NIC_REPORT_PARAMETERS];
	const char *how = "loaded, nothing had to be unloaded";
	_cleanup_strv_ struct strv modules = { 0 };
	_cleanup_strv_ struct strv in_pods = { 0 };
	struct error ignored;
	struct utsname system;

	/* The report of a killed container is of no use: its next start compares again. */
	if (!lock_is_held(root_fd, CONTRACT_OFED_LOCK) || nic_report_read(root_fd, &report) < 0) {
		json_write_null(json, "nic");
		return;
	}
	json_write_open(json, "nic", '{');
	json_write_text(json, "mode", report.mode);
	json_write_text(json, "swap", report.swap);
	for (size_t i = 0; i < NIC_REPORT_LISTS; i++)
		json_write_list(json, nic_report_key((enum nic_report_list) i), &report.lists[i]);
	(void) uname(&system);
	if (image_driver_modules(root_fd, system.release, &modules, &ignored) == 0 &&
		netstate_list_in_pods(root_fd, &modules, &in_pods) == 0)
		json_write_list(json, "in_pods", &in_pods);
	else
		json_write_null(json, "in_pods");
	json_write_close(json, '}');

	if (strcmp(report.swap, "same") == 0)
		how = "was already loaded, nothing was changed";
	else if (unloaded->count)
		how = "loaded in place of";
	status_print(json, "ofed     %s: %s", report.mode, how);
	for (size_t i = 0; i < unloaded->count; i++)
		status_print(json, " %s", unloaded->items[i]);
	status_print(json, "\n");
	for (size_t i = 0; i < parameters->count; i++)
		status_print(json, STATUS_INDENT "parameters: %s\n", parameters->items[i]);
	for (size_t i = 0; i < ARRAY_SIZE(faults); i++)
		for (size_t k = 0; k < report.lists[faults[i].list].count; k++)
			status_finding(findings, json, "%s: %s", faults[i].words,
				report.lists[faults[i].list].items[k]);
	for (size_t i = 0; i < in_pods.count; i++)
		status_print(json, STATUS_INDENT "removed with the driver: %s\n", in_pods.items[i]);
}

/* ---- the modules that show how far a node is */

static const char *const rdma_modules[] = { "ib_core", "ib_uverbs", "mlx5_core", "mlx5_ib" };
static const char *const conflicting_modules[] = { "nouveau", "nova_core", "nova_drm" };

/* Returns 1 for a module that is there, else 0. */
static int status_module(int root_fd, const char *name, struct json *json)
{
	/* Negative of a built-in module, and where the kernel has no CONFIG_MODULE_UNLOAD. */
	int references = sysmodule_references(root_fd, name);
	bool built_in = sysmodule_is_built_in(root_fd, name);
	char build_id[BUILD_ID_HEX_SIZE];

	if (!sysmodule_exists(root_fd, name))
		return 0;
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
	return 1;
}

/* In the order that they come; last those that stand in the way. */
static void status_modules(int root_fd, struct json *json, struct findings *findings)
{
	int count = 0;

	(void) findings;
	json_write_open(json, "modules", '[');
	status_print(json, "modules ");
	for (size_t i = 0; i < ARRAY_SIZE(rdma_modules); i++)
		count += status_module(root_fd, rdma_modules[i], json);
	for (const struct gpu_module *module = gpu_modules; module->name; module++)
		count += status_module(root_fd, module->name, json);
	for (size_t i = 0; i < ARRAY_SIZE(conflicting_modules); i++)
		count += status_module(root_fd, conflicting_modules[i], json);
	json_write_close(json, ']');
	status_print(json, "%s\n", count ? "" : " none");
}

/* ---- all of it */

/* In the order of the lines and members. */
static status_part *const parts[] = { status_nic, status_driver, status_devices, status_rdma,
	status_daemons, status_peermem, status_operator, status_imex, status_fabric,
	status_modules };

const char status_usage[] = "usage: status [--json] [--strict]\n"
			    "Shows each role's state, and what runs on the node: docs/status.md.\n"
			    "  --json    one JSON object\n"
			    "  --strict  exit 3 if something is wrong, as \"!\" marks it\n"
			    "Exit code: 0 when all roles are ready, else 1, also without a role.\n";

const char *status_parse(char *const *arguments, struct status_options *options)
{
	*options = (struct status_options){ .json = false };
	for (; *arguments; arguments++) {
		if (strcmp(*arguments, "--json") == 0)
			options->json = true;
		else if (strcmp(*arguments, "--strict") == 0)
			options->strict = true;
		else
			return *arguments;
	}
	return NULL;
}

int status_main(int root_fd, const struct status_options *options)
{
	struct json object = { .file = stdout };
	struct json *form = options->json ? &object : NULL;
	struct findings findings = { .incomplete = false };
	int exit_code;

	json_write_open(form, NULL, '{');
	status_kernel(root_fd, form, &findings);
	exit_code = status_roles(root_fd, form, &findings) ? 0 : 1;
	procfs_gpus_ask(root_fd, PROCFS_GPUS_MS, &findings.gpus);
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		parts[i](root_fd, form, &findings);
	json_write_list(form, "findings", &findings.lines);
	json_write_close(form, '}');
	if (form)
		(void) putchar('\n');
	if (options->strict && findings.lines.count)
		exit_code = STATUS_EXIT_FINDINGS;
	if (findings.incomplete)
		exit_code = reason_entry(REASON_INTERNAL)->exit_code;
	strv_free(&findings.lines);
	return exit_code;
}
