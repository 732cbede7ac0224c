/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/status/metrics.h"

#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "common/fs.h"
#include "entrypoint/nic/report.h"
#include "entrypoint/status/daemon_line.h"
#include "entrypoint/status/driver_version.h"
#include "module/sysmodule.h"

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

/* Seconds since 1970; CLOCK_MONOTONIC is what the journal counts in. */
static double start_time(const struct log *log)
{
	struct timespec now;

	(void) clock_gettime(CLOCK_REALTIME, &now);
	return (double) now.tv_sec + (double) now.tv_nsec / 1e9 -
	       (double) (clock_monotonic_us() - log->start_us) / 1e6;
}

static void print_role(FILE *file, const struct log *log)
{
	head(file, "slipway_role_ready", "gauge", "Whether the role serves.");
	(void) fprintf(file, "slipway_role_ready{role=\"%s\"} %d\n", log->role,
		strcmp(log->state, "ready") == 0);
	head(file, "slipway_role_info", "gauge", "State and reason code of the role.");
	(void) fputs("slipway_role_info{", file);
	print_label(file, "role", log->role, false);
	print_label(file, "state", log->state, false);
	print_label(file, "reason", reason_entry(log->reason)->code, true);
	(void) fputs("} 1\n", file);
	head(file, "slipway_role_start_time_seconds", "gauge",
		"When the role's process started, since 1970.");
	(void) fprintf(file, "slipway_role_start_time_seconds{role=\"%s\"} %.0f\n", log->role,
		start_time(log));
}

static void print_phases(FILE *file, const struct log *log)
{
	if (log->ready_us) {
		head(file, "slipway_role_start_duration_seconds", "gauge",
			"From the process's start to ready.");
		(void) fprintf(file, "slipway_role_start_duration_seconds{role=\"%s\"} %.6f\n",
			log->role, (double) log->ready_us / 1e6);
	}
	if (!log->phase_count)
		return;
	head(file, "slipway_phase_duration_seconds", "gauge", "How long a step of the start took.");
	for (size_t i = 0; i < log->phase_count; i++) {
		(void) fputs("slipway_phase_duration_seconds{", file);
		print_label(file, "role", log->role, false);
		print_label(file, "step", log->phases[i].step, true);
		(void) fprintf(file, "} %.6f\n", (double) log->phases[i].us / 1e6);
	}
}

static void print_peermem(FILE *file, const struct log *log)
{
	if (!log->peermem_loads)
		return;
	head(file, "slipway_peermem_loads_total", "counter",
		"How often nvidia-peermem was loaded after OFED came.");
	(void) fprintf(file, "slipway_peermem_loads_total{role=\"%s\"} %u\n", log->role,
		log->peermem_loads);
	head(file, "slipway_peermem_load_duration_seconds", "gauge",
		"From OFED being there to nvidia-peermem being live, the last time.");
	(void) fprintf(file, "slipway_peermem_load_duration_seconds{role=\"%s\"} %.6f\n", log->role,
		(double) log->peermem_us / 1e6);
}

static void print_driver(FILE *file, const struct log *log)
{
	struct driver_version version;

	driver_version(log->root_fd, &version);
	head(file, "slipway_driver_loaded", "gauge", "Whether the module nvidia is live.");
	(void) fprintf(file, "slipway_driver_loaded %d\n", version.loaded);
	head(file, "slipway_driver_info", "gauge", "The NVIDIA driver that is loaded.");
	(void) fputs("slipway_driver_info{", file);
	print_label(file, "version", version.text, false);
	print_label(file, "open", version.open ? "true" : "false", true);
	(void) fprintf(file, "} %d\n", version.loaded);
	head(file, "slipway_peermem_loaded", "gauge", "Whether nvidia_peermem is live.");
	(void) fprintf(file, "slipway_peermem_loaded %d\n",
		sysmodule_is_live(log->root_fd, "nvidia_peermem"));
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

static void print_count(FILE *file, const char *name, const char *help, const struct strv *list)
{
	head(file, name, "gauge", help);
	(void) fprintf(file, "%s %zu\n", name, list->count);
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
	print_count(file, "slipway_nic_modules_replaced",
		"Modules that somebody unloaded or replaced since the role loaded them.",
		&report.lists[NIC_REPORT_REPLACED]);
	print_count(file, "slipway_nic_modules_missing",
		"Modules that made room and did not come back.", &report.lists[NIC_REPORT_MISSING]);
	print_count(file, "slipway_nic_network_unrestored",
		"Parts of the network's state that did not come back.",
		&report.lists[NIC_REPORT_UNRESTORED]);
}

char *metrics_text(const struct log *log)
{
	char *text = NULL;
	size_t size = 0;
	FILE *file = open_memstream(&text, &size);

	if (!file)
		return NULL;
	print_role(file, log);
	print_phases(file, log);
	print_peermem(file, log);
	if (strcmp(log->role, "nic") == 0)
		print_nic(file, log);
	/* Of the node, so told by one role only: two files with one series are refused. */
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
