/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/engine/log.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "common/fs.h"
#include "common/json_text.h"
#include "common/text.h"

static void state_path(const struct log *log, const char *suffix, char *path)
{
	(void) snprintf(path, LOG_PATH_SIZE, "%s/%s.%s", log->folder, log->role, suffix);
}

void log_prepare(struct log *log, int root_fd, const char *role, const char *folder)
{
	*log = (struct log){
		.root_fd = root_fd,
		.role = role,
		.folder = folder,
		.start_us = clock_monotonic_us(),
		.events_fd = -1,
		.state = "starting",
		.step = "",
	};
}

/*
 * Size limit of the event file; the previous file is kept, too, at the same size. /run is memory.
 */
#define EVENTS_MOST ((size_t) 4 << 20)

/* Begins the file of events; the one before is kept. */
static void open_events(struct log *log)
{
	char previous[LOG_PATH_SIZE];
	char path[LOG_PATH_SIZE];
	int r;

	state_path(log, "events.jsonl", path);
	state_path(log, "events.jsonl.1", previous);
	r = fs_mkdir_parents(log->root_fd, log->folder, 0755);
	if (r == 0) {
		(void) renameat(log->root_fd, path, log->root_fd, previous);
		log->events_fd = openat(log->root_fd, path,
			O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644);
		r = log->events_fd < 0 ? -errno : 0;
	}
	log->events_size = 0;
	if (r < 0)
		(void) fprintf(stderr, "%s: /%s cannot be written (%s): events go to stderr only\n",
			log->role, path, strerror(-r));
}

static void report_change(const struct log *log)
{
	if (log->changed)
		log->changed(log);
}

void log_open(struct log *log)
{
	open_events(log);
	/* Overwrite the status that a previous run left. */
	report_change(log);
}

void log_close(struct log *log)
{
	cleanup_close(&log->events_fd);
	if (log->stream)
		(void) fclose(log->stream);
	log->stream = NULL;
	free(TAKE_PTR(log->text));
}

/* An empty text: what is put in is log->text once it is flushed. NULL: no memory. */
static FILE *begin_text(struct log *log)
{
	if (!log->stream)
		log->stream = open_memstream(&log->text, &log->text_size);
	else
		rewind(log->stream);
	return log->stream;
}

static void write_line(FILE *file, const char *text)
{
	for (; *text; text++)
		(void) fputc(*text == '\n' ? ' ' : *text, file);
	(void) fputc('\n', file);
}

static void write_status(struct log *log)
{
	FILE *file = begin_text(log);
	char path[LOG_PATH_SIZE];
	int r;

	if (!file)
		return;
	(void) fprintf(file,
		"role=%s\npid=%d\nstate=%s\nstep=%s\nreason=%s\nready_ms=%llu\ndetail=", log->role,
		(int) getpid(), log->state, log->step, reason_entry(log->reason)->code,
		(unsigned long long) log->ready_us / 1000);
	write_line(file, log->detail);
	(void) fputs("proof=", file);
	write_line(file, log->proof);
	(void) fputs("phases=", file);
	for (size_t i = 0; i < log->phase_count; i++)
		(void) fprintf(file, "%s%s:%llu", i ? " " : "", log->phases[i].step,
			(unsigned long long) log->phases[i].us);
	(void) fprintf(file, "\npeermem_loads=%u\npeermem_us=%llu\n", log->peermem_loads,
		(unsigned long long) log->peermem_us);
	if (fflush(file) != 0)
		return;
	state_path(log, "status", path);
	r = fs_write_atomic(log->root_fd, path, log->text, log->text_size, 0644);
	if (r < 0)
		(void) fprintf(
			stderr, "%s: /%s cannot be written: %s\n", log->role, path, strerror(-r));
}

/* @more is for people alone. */
static void put_event(struct log *log, const char *event, const char *step, uint64_t duration_us,
	enum reason reason, const char *message, const char *more)
{
	unsigned long long since_ms = (clock_monotonic_us() - log->start_us) / 1000;
	const char *code = reason_entry(reason)->code;
	char duration[32] = "";
	struct timespec now;
	char stamp[32];
	struct tm utc;
	FILE *file;

	if (strcmp(event, "done") == 0 && !log->ready_us &&
		log->phase_count < ARRAY_SIZE(log->phases)) {
		log->phases[log->phase_count++] = (struct log_phase){ step, duration_us };
	} else if (strcmp(event, LOG_EVENT_PEERMEM) == 0) {
		log->peermem_loads++;
		log->peermem_us = duration_us;
		write_status(log);
		report_change(log);
	}
	if (duration_us)
		(void) snprintf(duration, sizeof(duration), " (%llu ms)",
			(unsigned long long) (duration_us + 500) / 1000);
	text_print(stderr, "%s %4llu.%03llu s  %s%s%s%s%s%s%s%s%s%s\n", log->role, since_ms / 1000,
		since_ms % 1000, event, *step ? " " : "", step, duration, reason ? " [" : "",
		reason ? code : "", reason ? "]" : "", *message ? ": " : "", message, more);
	file = log->events_fd < 0 ? NULL : begin_text(log);
	if (!file)
		return;
	(void) clock_gettime(CLOCK_REALTIME, &now);
	(void) strftime(stamp, sizeof(stamp), "%Y-%m-%dT%H:%M:%S", gmtime_r(&now.tv_sec, &utc));
	(void) fprintf(file,
		"{\"time\":\"%s.%03ldZ\",\"since_start_ms\":%llu,\"role\":\"%s\",\"event\":", stamp,
		now.tv_nsec / 1000000, since_ms, log->role);
	json_text_string(file, event);
	(void) fputs(",\"step\":", file);
	json_text_string(file, step);
	(void) fprintf(file, ",\"duration_us\":%llu,\"reason\":\"%s\",\"message\":",
		(unsigned long long) duration_us, code);
	json_text_string(file, message);
	(void) fputs("}\n", file);
	/* One write a line: a reader never sees half an object. */
	if (fflush(file) == 0 &&
		write(log->events_fd, log->text, log->text_size) != (ssize_t) log->text_size)
		(void) fprintf(stderr, "%s: the event file is cut short: %s\n", log->role,
			strerror(errno));
	log->events_size += log->text_size;
	if (log->events_size > EVENTS_MOST) {
		cleanup_close(&log->events_fd);
		open_events(log);
	}
}

void log_event(struct log *log, const char *event, const char *step, uint64_t duration_us,
	enum reason reason, const char *message)
{
	put_event(log, event, step, duration_us, reason, message, "");
}

void log_gave_up(struct log *log, enum reason reason, const char *message)
{
	char more[LOG_MORE_SIZE];

	put_event(log, "gave up", "", 0, reason, message, log_more(reason, more));
}

const char *log_more(enum reason reason, char more[LOG_MORE_SIZE])
{
	(void) snprintf(
		more, LOG_MORE_SIZE, " (see: slipway explain %s)", reason_entry(reason)->code);
	return more;
}

/* Forgets what the previous step waited for. Returns whether there was any. */
static bool set_step(struct log *log, const char *step)
{
	bool over = log->reason == REASON_NONE && *log->detail;

	log->step = step;
	if (over)
		log->detail[0] = '\0';
	return over;
}

void log_state(struct log *log, const char *state, const char *step)
{
	bool changed = strcmp(state, log->state) != 0;

	if (strcmp(state, "ready") == 0 && !log->ready_us)
		log->ready_us = clock_monotonic_us() - log->start_us;
	log->state = state;
	(void) set_step(log, step);
	write_status(log);
	/* Not for each step: a start has many, and they are short. */
	if (changed)
		report_change(log);
}

void log_step(struct log *log, const char *step, bool write_now)
{
	if (set_step(log, step) || write_now)
		write_status(log);
}

void log_detail(struct log *log, enum reason reason, const char *detail)
{
	log->reason = reason;
	(void) snprintf(log->detail, sizeof(log->detail), "%s", detail);
	write_status(log);
	report_change(log);
}

void log_proof(struct log *log, const char *verdict)
{
	(void) snprintf(log->proof, sizeof(log->proof), "%s", verdict);
	write_status(log);
}

void log_termination(const struct log *log, enum reason reason, const char *message)
{
	_cleanup_close_ int fd =
		openat(log->root_fd, LOG_TERMINATION, O_WRONLY | O_TRUNC | O_CLOEXEC);
	/* A refusal by the proof itself is not repeated. */
	bool with_proof = *log->proof && strncmp(log->proof, message, 40) != 0;
	char text[LOG_TERMINATION_SIZE];
	size_t size;

	if (fd < 0)
		return; /* the runtime gave us none: not an operator's pod */
	(void) snprintf(text, sizeof(text) - 1, "%s: %s%s%s", reason_entry(reason)->code, message,
		with_proof ? "; load proof: " : "", with_proof ? log->proof : "");
	text_clean(text);
	size = strlen(text);
	text[size++] = '\n';
	if (write(fd, text, size) < 0)
		(void) fprintf(
			stderr, "%s: /%s: %s\n", log->role, LOG_TERMINATION, strerror(errno));
}
