/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "common/fs.h"
#include "common/text.h"
#include "entrypoint/nic/report.h"
#include "entrypoint/status/status.h"
#include "entrypoint/status/status_internal.h"
#include "module/running.h"

/*
 * Prometheus text exposition format 0.0.4: backslash and quote are escaped, and a line feed would
 * be. A file that is not UTF-8 is refused as a whole.
 */
static void print_label(FILE *file, const char *name, const char *text)
{
	_cleanup_free_ char *clean = strdup(text);
	const char *value = clean ? clean : "";

	if (clean)
		text_clean(clean);
	(void) fprintf(file, "%s=\"", name);
	for (; *value; value++) {
		if (*value == '"' || *value == '\\')
			(void) fprintf(file, "\\%c", *value);
		else
			(void) fputc(*value, file);
	}
	(void) fputc('"', file);
}

#define NO_MORE ((const char *) NULL) /* labels */

/*
 * A sample; its labels follow, name and value by turns, then NO_MORE. @help is of a metric's first
 * sample, else NULL.
 */
__attribute__((sentinel)) static void put(
	FILE *file, const char *name, const char *help, int decimals, double number, ...)
{
	const char *separator = "{";
	const char *label;
	va_list labels;

	if (help)
		(void) fprintf(file, "# HELP %s %s\n# TYPE %s %s\n", name, help, name,
			strstr(name, "_total") ? "counter" : "gauge");
	(void) fputs(name, file);
	va_start(labels, number);
	while ((label = va_arg(labels, const char *))) {
		(void) fputs(separator, file);
		print_label(file, label, va_arg(labels, const char *));
		separator = ",";
	}
	va_end(labels);
	(void) fprintf(file, "%s %.*f\n", *separator == ',' ? "}" : "", decimals, number);
}

/* Seconds since 1970; CLOCK_MONOTONIC is what the events count in. */
static double start_time(const struct log *log)
{
	struct timespec now;

	(void) clock_gettime(CLOCK_REALTIME, &now);
	return (double) now.tv_sec + (double) now.tv_nsec / 1e9 -
	       (double) (clock_monotonic_us() - log->start_us) / 1e6;
}

static void print_role(FILE *file, const struct log *log)
{
	const char *role = log->role;

	put(file, "slipway_role_ready", "Whether the role serves.", 0,
		strcmp(log->state, "ready") == 0, "role", role, NO_MORE);
	put(file, "slipway_role_info", "State and reason code of the role.", 0, 1, "role", role,
		"state", log->state, "reason", reason_entry(log->reason)->code, NO_MORE);
	put(file, "slipway_role_start_time_seconds", "When the role's process started, since 1970.",
		0, start_time(log), "role", role, NO_MORE);
	if (log->ready_us)
		put(file, "slipway_role_start_duration_seconds",
			"From the process's start to ready.", 6, (double) log->ready_us / 1e6,
			"role", role, NO_MORE);
	for (size_t i = 0; i < log->phase_count; i++)
		put(file, "slipway_phase_duration_seconds",
			i ? NULL : "How long a step of the start took.", 6,
			(double) log->phases[i].us / 1e6, "role", role, "step", log->phases[i].step,
			NO_MORE);
	if (!log->peermem_loads)
		return;
	put(file, "slipway_peermem_loads_total",
		"How often nvidia-peermem was loaded after OFED came.", 0, log->peermem_loads,
		"role", role, NO_MORE);
	put(file, "slipway_peermem_load_duration_seconds",
		"From OFED being ready to nvidia-peermem being live, the last time.", 6,
		(double) log->peermem_us / 1e6, "role", role, NO_MORE);
}

static void print_driver(FILE *file, int root_fd)
{
	bool loaded = sysmodule_is_live(root_fd, "nvidia");
	struct driver_version version;

	driver_version(root_fd, &version);
	put(file, "slipway_driver_loaded", "Whether the module nvidia is live.", 0, loaded,
		NO_MORE);
	put(file, "slipway_driver_info", "The NVIDIA driver that is loaded.", 0, loaded, "version",
		version.text, "open", version.open ? "true" : "false", NO_MORE);
	put(file, "slipway_peermem_loaded", "Whether nvidia_peermem is live.", 0,
		sysmodule_is_live(root_fd, PEERMEM_MODULE), NO_MORE);
}

static void print_daemons(FILE *file, int root_fd)
{
	struct daemon_line lines[DAEMON_LINES];
	size_t count = 0;

	/* A command that has done its work is no daemon that is down. */
	for (size_t i = 0, all = daemon_lines_read(root_fd, lines); i < all; i++)
		if (strcmp(lines[i].state, "done") != 0)
			lines[count++] = lines[i];
	for (size_t i = 0; i < count; i++)
		put(file, "slipway_daemon_up",
			i ? NULL : "Whether a daemon that the role supervises is up.", 0,
			strcmp(lines[i].state, "up") == 0, "daemon", lines[i].name, NO_MORE);
	for (size_t i = 0; i < count; i++)
		put(file, "slipway_daemon_restarts_total",
			i ? NULL : "How often a daemon that ended by itself was started again.", 0,
			(double) lines[i].restarts, "daemon", lines[i].name, NO_MORE);
}

/* Prints what the role reports about itself while it serves. */
static void print_nic(FILE *file, int root_fd)
{
	_cleanup_(nic_report_free) struct nic_report report = { .mode = "" };

	if (nic_report_read(root_fd, &report) < 0)
		return;
	put(file, "slipway_nic_info", "How the NIC driver was started.", 0, 1, "mode", report.mode,
		"swap", report.swap, NO_MORE);
	put(file, "slipway_nic_modules_replaced",
		"Modules that were unloaded or replaced since the role loaded them.", 0,
		(double) report.lists[NIC_REPORT_REPLACED].count, NO_MORE);
	put(file, "slipway_nic_modules_missing",
		"Modules that were unloaded for the driver and could not be reloaded.", 0,
		(double) report.lists[NIC_REPORT_MISSING].count, NO_MORE);
	put(file, "slipway_nic_network_unrestored",
		"Parts of the network's state that could not be restored.", 0,
		(double) report.lists[NIC_REPORT_UNRESTORED].count, NO_MORE);
}

char *metrics_text(const struct log *log)
{
	char *text = NULL;
	size_t size = 0;
	FILE *file = open_memstream(&text, &size);

	if (!file)
		return NULL;
	print_role(file, log);
	if (strcmp(log->role, "nic") == 0)
		print_nic(file, log->root_fd);
	/*
	 * Metrics of the node are in one role's file only: two files with one series are refused.
	 */
	if (strcmp(log->role, "gpu") == 0) {
		print_driver(file, log->root_fd);
		print_daemons(file, log->root_fd);
	}
	if (fclose(file) == 0)
		return text;
	free(text);
	return NULL;
}

void metrics_changed(const struct log *log)
{
	_cleanup_free_ char *text = metrics_text(log);
	_cleanup_free_ char *before = NULL;
	char path[LOG_PATH_SIZE];

	(void) snprintf(path, sizeof(path), "%s/metrics", log->folder);
	/* The log itself reports what is wrong with that folder. */
	if (!text || fs_mkdir_parents(log->root_fd, path, 0755) < 0)
		return;
	(void) snprintf(path, sizeof(path), "%s/metrics/%s.prom", log->folder, log->role);
	if (fs_read(log->root_fd, path, 0, &before, NULL) < 0 || strcmp(text, before) != 0)
		(void) !fs_write_atomic(log->root_fd, path, text, strlen(text), 0644);
}

void metrics_watch(struct role *role, unsigned happened, uint64_t *wake_ms)
{
	(void) happened, (void) wake_ms;
	metrics_changed(&role->log);
}
