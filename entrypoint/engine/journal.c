/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/engine/journal.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "common/fs.h"
#include "common/json_text.h"
#include "entrypoint/contract.h"

static void state_path(const struct journal *journal, const char *suffix, char *path)
{
	(void) snprintf(
		path, JOURNAL_PATH_SIZE, "%s/%s.%s", journal->folder, journal->role, suffix);
}

void journal_prepare(struct journal *journal, int root_fd, const char *role, const char *folder)
{
	*journal = (struct journal){
		.root_fd = root_fd,
		.role = role,
		.folder = folder,
		.start_us = clock_monotonic_us(),
		.events_fd = -1,
		.state = "starting",
		.step = "",
	};
}

/* What is kept of the events: this much, and as much before it. /run is memory. */
#define EVENTS_MOST ((size_t) 4 << 20)

/* Begins the file of events; the one before is kept. */
static void open_events(struct journal *journal)
{
	char previous[JOURNAL_PATH_SIZE];
	char path[JOURNAL_PATH_SIZE];
	int r;

	state_path(journal, "events.jsonl", path);
	state_path(journal, "events.jsonl.1", previous);
	r = fs_mkdir_parents(journal->root_fd, journal->folder, 0755);
	if (r == 0) {
		(void) renameat(journal->root_fd, path, journal->root_fd, previous);
		journal->events_fd = openat(journal->root_fd, path,
			O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644);
		r = journal->events_fd < 0 ? -errno : 0;
	}
	journal->events_size = 0;
	if (r < 0)
		(void) fprintf(stderr, "%s: /%s cannot be written (%s): events go to stderr only\n",
			journal->role, path, strerror(-r));
}

void journal_open(struct journal *journal)
{
	open_events(journal);
	/* What an earlier life said of itself is over. */
	if (journal->changed)
		journal->changed(journal);
}

static void close_events(struct journal *journal)
{
	cleanup_close(&journal->events_fd);
	journal->events_fd = -1;
}

void journal_close(struct journal *journal)
{
	close_events(journal);
	if (journal->stream)
		(void) fclose(journal->stream);
	journal->stream = NULL;
	free(TAKE_PTR(journal->text));
}

/* An empty text: what is put in front of end_text() is journal->text. NULL: no memory. */
static FILE *begin_text(struct journal *journal)
{
	if (!journal->stream)
		journal->stream = open_memstream(&journal->text, &journal->text_size);
	else
		rewind(journal->stream);
	return journal->stream;
}

static bool end_text(struct journal *journal)
{
	return fflush(journal->stream) == 0;
}

static void print_line(const struct journal *journal, const char *event, const char *step,
	uint64_t duration_us, enum reason reason, const char *message)
{
	unsigned long long since_start_ms = (clock_monotonic_us() - journal->start_us) / 1000;
	char duration[32] = "";

	if (duration_us)
		(void) snprintf(duration, sizeof(duration), " (%llu ms)",
			(unsigned long long) (duration_us + 500) / 1000);
	(void) fprintf(stderr, "%s %4llu.%03llu s  %s%s%s%s%s%s%s%s%s\n", journal->role,
		since_start_ms / 1000, since_start_ms % 1000, event, *step ? " " : "", step,
		duration, reason ? " [" : "", reason ? reason_entry(reason)->code : "",
		reason ? "]" : "", *message ? ": " : "", message);
}

static void write_object(const struct journal *journal, FILE *file, const char *event,
	const char *step, uint64_t duration_us, enum reason reason, const char *message)
{
	struct timespec now;
	struct tm utc;
	char stamp[32];

	(void) clock_gettime(CLOCK_REALTIME, &now);
	(void) strftime(stamp, sizeof(stamp), "%Y-%m-%dT%H:%M:%S", gmtime_r(&now.tv_sec, &utc));
	(void) fprintf(file,
		"{\"time\":\"%s.%03ldZ\",\"since_start_ms\":%llu,\"role\":\"%s\",\"event\":", stamp,
		now.tv_nsec / 1000000,
		(unsigned long long) (clock_monotonic_us() - journal->start_us) / 1000,
		journal->role);
	json_text_string(file, event);
	(void) fputs(",\"step\":", file);
	json_text_string(file, step);
	(void) fprintf(file, ",\"duration_us\":%llu,\"reason\":\"%s\",\"message\":",
		(unsigned long long) duration_us, reason_entry(reason)->code);
	json_text_string(file, message);
	(void) fputs("}\n", file);
}

static void write_line(FILE *file, const char *text)
{
	for (; *text; text++)
		(void) fputc(*text == '\n' ? ' ' : *text, file);
	(void) fputc('\n', file);
}

static void print_status(const struct journal *journal, FILE *file)
{
	(void) fprintf(file,
		"role=%s\npid=%d\nstate=%s\nstep=%s\nreason=%s\nready_ms=%llu\ndetail=",
		journal->role, (int) getpid(), journal->state, journal->step,
		reason_entry(journal->reason)->code, (unsigned long long) journal->ready_us / 1000);
	write_line(file, journal->detail);
	(void) fputs("proof=", file);
	write_line(file, journal->proof);
	(void) fputs("phases=", file);
	for (size_t i = 0; i < journal->phase_count; i++)
		(void) fprintf(file, "%s%s:%llu", i ? " " : "", journal->phases[i].step,
			(unsigned long long) journal->phases[i].us);
	(void) fprintf(file, "\npeermem_loads=%u\npeermem_us=%llu\n", journal->peermem_loads,
		(unsigned long long) journal->peermem_us);
}

static void write_status(struct journal *journal)
{
	FILE *file = begin_text(journal);
	char path[JOURNAL_PATH_SIZE];
	int r;

	if (!file)
		return;
	print_status(journal, file);
	if (!end_text(journal))
		return;
	state_path(journal, "status", path);
	r = fs_write_atomic(journal->root_fd, path, journal->text, journal->text_size, 0644);
	if (r < 0)
		(void) fprintf(stderr, "%s: /%s cannot be written: %s\n", journal->role, path,
			strerror(-r));
}

static void tell_change(const struct journal *journal)
{
	if (journal->changed)
		journal->changed(journal);
}

static void keep_figures(
	struct journal *journal, const char *event, const char *step, uint64_t duration_us)
{
	if (strcmp(event, "done") == 0 && !journal->ready_us &&
		journal->phase_count < ARRAY_SIZE(journal->phases)) {
		journal->phases[journal->phase_count++] =
			(struct journal_phase){ step, duration_us };
	} else if (strcmp(event, JOURNAL_EVENT_PEERMEM) == 0) {
		journal->peermem_loads++;
		journal->peermem_us = duration_us;
		write_status(journal);
		tell_change(journal);
	}
}

void journal_event(struct journal *journal, const char *event, const char *step,
	uint64_t duration_us, enum reason reason, const char *message)
{
	FILE *file;

	keep_figures(journal, event, step, duration_us);
	print_line(journal, event, step, duration_us, reason, message);
	if (journal->events_fd < 0)
		return;
	file = begin_text(journal);
	if (!file)
		return;
	write_object(journal, file, event, step, duration_us, reason, message);
	/* One write a line: a reader never sees half an object. */
	if (end_text(journal) && write(journal->events_fd, journal->text, journal->text_size) !=
					 (ssize_t) journal->text_size)
		(void) fprintf(stderr, "%s: the event file is cut short: %s\n", journal->role,
			strerror(errno));
	journal->events_size += journal->text_size;
	if (journal->events_size > EVENTS_MOST) {
		close_events(journal);
		open_events(journal);
	}
}

/* What the step before waited for is over. Returns whether there was any. */
static bool set_step(struct journal *journal, const char *step)
{
	bool over = journal->reason == REASON_NONE && *journal->detail;

	journal->step = step;
	if (over)
		journal->detail[0] = '\0';
	return over;
}

void journal_state(struct journal *journal, const char *state, const char *step)
{
	bool changed = strcmp(state, journal->state) != 0;

	if (strcmp(state, "ready") == 0 && !journal->ready_us)
		journal->ready_us = clock_monotonic_us() - journal->start_us;
	journal->state = state;
	(void) set_step(journal, step);
	write_status(journal);
	/* Not for each step: a start has many, and they are short. */
	if (changed)
		tell_change(journal);
}

void journal_step(struct journal *journal, const char *step, bool told)
{
	if (set_step(journal, step) || told)
		write_status(journal);
}

void journal_detail(struct journal *journal, enum reason reason, const char *detail)
{
	journal->reason = reason;
	(void) snprintf(journal->detail, sizeof(journal->detail), "%s", detail);
	write_status(journal);
	tell_change(journal);
}

void journal_proof(struct journal *journal, const char *verdict)
{
	(void) snprintf(journal->proof, sizeof(journal->proof), "%s", verdict);
	write_status(journal);
}

/* A refusal by the proof itself is not told twice. */
static bool adds_proof(const struct journal *journal, const char *message)
{
	return *journal->proof && strncmp(journal->proof, message, 40) != 0;
}

void journal_termination(const struct journal *journal, enum reason reason, const char *message)
{
	_cleanup_close_ int fd =
		openat(journal->root_fd, CONTRACT_TERMINATION_LOG, O_WRONLY | O_TRUNC | O_CLOEXEC);
	char text[CONTRACT_TERMINATION_LOG_SIZE];
	int length;

	if (fd < 0)
		return; /* the runtime gave us none: not an operator's pod */
	length = snprintf(text, sizeof(text), "%s: %s%s%s\n", reason_entry(reason)->code, message,
		adds_proof(journal, message) ? "; load proof: " : "",
		adds_proof(journal, message) ? journal->proof : "");
	if (length > 0 && write(fd, text, strnlen(text, sizeof(text))) < 0)
		(void) fprintf(stderr, "%s: /%s: %s\n", journal->role, CONTRACT_TERMINATION_LOG,
			strerror(errno));
}
