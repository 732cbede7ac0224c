/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/status/metrics.h"

#include <stdarg.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "common/fs.h"
#include "entrypoint/nic/report.h"
#include "entrypoint/status/status_internal.h"
#include "module/running.h"

/* Prometheus text exposition format 0.0.4: backslash, quote and line feed are escaped. */
static void print_label(FILE *file, const char *name, const char *value, bool last)
{
	(void) fprintf(file, "%s=\"", name);
	for (; *value; value++) {
		if (*value == '\n')
			(void) fputs("\\n", file);
		else if (*value == '"' || *value == '\\')
			(void) fprintf(file, "\\%c", *value);
		else
			(void) fputc(*value, file);
	}
	(void) fputs(last ? "\"" : "\",", file);
}

static void head(FILE *file, const char *name, const char *type, const char *help)
{
	(void) fprintf(file, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* A metric with one sample; @format: its labels and value. */
static void _printf_(5, 6) put(
	FILE *file, const char *name, const char *type, const char *help, const char *format, ...)
{
	va_list arguments;

	head(file, name, type, help);
	(void) fputs(name, file);
	va_start(arguments, format);
	(void) vfprintf(file, format, arguments);
	va_end(arguments);
	(void) fputc('\n', file);
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
	put(file, "slipway_role_ready", "gauge", "Whether the role serves.", "{role=\"%s\"} %d",
		log->role, strcmp(log->state, "ready") == 0);
	head(file, "slipway_role_info", "gauge", "State and reason code of the role.");
	(void) fputs("slipway_role_info{", file);
	print_label(file, "role", log->role, false);
	print_label(file, "state", log->state, false);
	print_label(file, "reason", reason_entry(log->reason)->code, true);
	(void) fputs("} 1\n", file);
	put(file, "slipway_role_start_time_seconds", "gauge",
		"When the role's process started, since 1970.", "{role=\"%s\"} %.0f", log->role,
		start_time(log));
	if (log->ready_us)
		put(file, "slipway_role_start_duration_seconds", "gauge",
			"From the process's start to ready.", "{role=\"%s\"} %.6f", log->role,
			(double) log->ready_us / 1e6);
	if (log->phase_count)
		head(file, "slipway_phase_duration_seconds", "gauge",
			"How long a step of the start took.");
	for (size_t i = 0; i < log->phase_count; i++) {
		(void) fputs("slipway_phase_duration_seconds{", file);
		print_label(file, "role", log->role, false);
		print_label(file, "step", log->phases[i].step, true);
		(void) fprintf(file, "} %.6f\n", (double) log->phases[i].us / 1e6);
	}
	if (!log->peermem_loads)
		return;
	put(file, "slipway_peermem_loads_total", "counter",
		"How often nvidia-peermem was loaded after OFED came.", "{role=\"%s\"} %u",
		log->role, log->peermem_loads);
	put(file, "slipway_peermem_load_duration_seconds", "gauge",
		"From OFED being there to nvidia-peermem being live, the last time.",
		"{role=\"%s\"} %.6f", log->role, (double) log->peermem_us / 1e6);
}

static void print_driver(FILE *file, const struct log *log)
{
	struct driver_version version;

	driver_version(log->root_fd, &version);
	put(file, "slipway_driver_loaded", "gauge", "Whether the module nvidia is live.", " %d",
		version.loaded);
	head(file, "slipway_driver_info", "gauge", "The NVIDIA driver that is loaded.");
	(void) fputs("slipway_driver_info{", file);
	print_label(file, "version", version.text, false);
	print_label(file, "open", version.open ? "true" : "false", true);
	(void) fprintf(file, "} %d\n", version.loaded);
	put(file, "slipway_peermem_loaded", "gauge", "Whether nvidia_peermem is live.", " %d",
		sysmodule_is_live(log->root_fd, PEERMEM_MODULE));
}

static void print_daemon(FILE *file, const char *metric, const char *daemon, long value)
{
	(void) fprintf(file, "%s{", metric);
	print_label(file, "daemon", daemon, true);
	(void) fprintf(file, "} %ld\n", value);
}

static void print_daemons(FILE *file, const struct log *log)
{
	_cleanup_free_ char *text = daemon_lines_read(log->root_fd);
	struct daemon_line daemon;
	const char *rest = text;

	if (!text || !*text)
		return;
	head(file, "slipway_daemon_up", "gauge",
		"Whether a daemon that the role supervises is up.");
	while (daemon_line_next(&rest, &daemon))
		print_daemon(
			file, "slipway_daemon_up", daemon.name, strcmp(daemon.state, "up") == 0);
	head(file, "slipway_daemon_restarts_total", "counter",
		"How often a daemon that ended by itself was started again.");
	for (rest = text; daemon_line_next(&rest, &daemon);)
		print_daemon(file, "slipway_daemon_restarts_total", daemon.name, daemon.restarts);
}

/* What the role says of itself while it serves. */
static void print_nic(FILE *file, const struct log *log)
{
	_cleanup_(nic_report_free) struct nic_report report = { .mode = "" };

	if (nic_report_read(log->root_fd, &report) < 0)
		return;
	head(file, "slipway_nic_info", "gauge", "How the NIC driver came to run.");
	(void) fputs("slipway_nic_info{", file);
	print_label(file, "mode", report.mode, false);
	print_label(file, "swap", report.swap, true);
	(void) fputs("} 1\n", file);
	put(file, "slipway_nic_modules_replaced", "gauge",
		"Modules that were unloaded or replaced since the role loaded them.", " %zu",
		report.lists[NIC_REPORT_REPLACED].count);
	put(file, "slipway_nic_modules_missing", "gauge",
		"Modules that made room and did not come back.", " %zu",
		report.lists[NIC_REPORT_MISSING].count);
	put(file, "slipway_nic_network_unrestored", "gauge",
		"Parts of the network's state that did not come back.", " %zu",
		report.lists[NIC_REPORT_UNRESTORED].count);
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
		print_nic(file, log);
	/* Of the node, so in one role's file only: two files with one series are refused. */
	if (strcmp(log->role, "gpu") == 0) {
		print_driver(file, log);
		print_daemons(file, log);
	}
	if (fclose(file) != 0) {
		free(text);
		return NULL;
	}
	return text;
}

static void metrics_path(const struct log *log, char path[LOG_PATH_SIZE])
{
	(void) snprintf(path, LOG_PATH_SIZE, "%s/metrics/%s.prom", log->folder, log->role);
}

static void write_text(const struct log *log, const char *text)
{
	char path[LOG_PATH_SIZE];

	(void) snprintf(path, sizeof(path), "%s/metrics", log->folder);
	if (fs_mkdir_parents(log->root_fd, path, 0755) < 0)
		return; /* the journal says what is wrong with that folder */
	metrics_path(log, path);
	/* Nobody waits for the metrics, and nothing depends on them. */
	if (fs_write_atomic(log->root_fd, path, text, strlen(text), 0644) < 0)
		return;
}

void metrics_changed(const struct log *log)
{
	_cleanup_free_ char *text = metrics_text(log);

	if (text)
		write_text(log, text);
}

void metrics_watch(struct role *role, unsigned happened, uint64_t *wake_ms)
{
	_cleanup_free_ char *text = metrics_text(&role->log);
	_cleanup_free_ char *before = NULL;
	char path[LOG_PATH_SIZE];

	(void) happened, (void) wake_ms;
	metrics_path(&role->log, path);
	if (!text ||
		(fs_read(role->root_fd, path, 0, &before, NULL) == 0 && strcmp(text, before) == 0))
		return;
	write_text(&role->log, text);
}
