/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/progress.h"
#include "cli/message.h"

#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/json_text.h"
#include "common/text.h"
#include "common/xalloc.h"

#define STAGE_WIDTH      16 /* of the longest name */
#define REDRAW_MS        100
#define TICK_NS          500000000
#define EVENT_MS         1000  /* between events about files */
#define LINE_MS          30000 /* between plain lines about them */
#define DOWNLOAD_LINE_MS 10000
#define QUIET_LINE_MS    60000 /* without any other line */

/*
 * Held by whoever writes lines or changes a stage of this process. The ticker lives from a stage's
 * begin to its end; progress_split() insists that no process is forked for a stage meanwhile.
 */
static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static pthread_cond_t stopped; /* there while it lives */
static pthread_t ticker;
static bool ticks;

static void lock_lines(void)
{
	(void) pthread_mutex_lock(&lock);
}

static void unlock_lines(const int *unused)
{
	(void) unused;
	(void) pthread_mutex_unlock(&lock);
}

/* The lines are ours until the block ends. */
#define LOCK_LINES                                                                                 \
	_cleanup_(unlock_lines) const int lines_locked = 0;                                        \
	(void) lines_locked;                                                                       \
	lock_lines()

void progress_start(struct progress *progress, bool json)
{
	const char *terminal = getenv("TERM");

	*progress = (struct progress){
		.text = json ? NULL : stderr,
		.json = json ? stdout : NULL,
		.terminal = !json && isatty(STDERR_FILENO) &&
			    !(terminal && strcmp(terminal, "dumb") == 0),
		.first_ms = clock_monotonic_ms(),
	};
}

static struct progress_stage *stage_of(struct progress *progress)
{
	return progress->stage ? progress->stage : &progress->own;
}

static const struct progress_stage *seen_stage_of(const struct progress *progress)
{
	return progress->stage ? progress->stage : &progress->own;
}

const char *progress_stage_name(const struct progress *progress)
{
	const struct progress_stage *stage = seen_stage_of(progress);

	return *stage->name ? stage->name : NULL;
}

/* Since the stage began, or the whole. */
static unsigned long long elapsed_ms(const struct progress *progress)
{
	const struct progress_stage *stage = seen_stage_of(progress);

	return clock_monotonic_ms() - (*stage->name ? stage->started_ms : progress->first_ms);
}

#define ELAPSED ",\"elapsed_ms\":%llu"

/*
 * Prints an event: the numbers of @format, which begins with a comma; @value unless @key is NULL.
 */
static _printf_(5, 6) void event(const struct progress *progress, const char *kind, const char *key,
	const char *value, const char *format, ...)
{
	_cleanup_free_ char *numbers = NULL;
	va_list arguments;

	if (!progress->json)
		return;
	va_start(arguments, format);
	numbers = xvasprintf(format, arguments);
	va_end(arguments);
	(void) fprintf(progress->json, "{\"event\":\"%s\",\"stage\":", kind);
	json_text_string(progress->json, seen_stage_of(progress)->name);
	(void) fputs(numbers, progress->json);
	if (key) {
		(void) fprintf(progress->json, ",\"%s\":", key);
		json_text_string(progress->json, value);
	}
	(void) fputs("}\n", progress->json);
	(void) (progress->json == stdout ? message_flush() : fflush(progress->json));
}

/* By one write: several processes print lines. */
static _printf_(2, 3) void print_line(const struct progress *progress, const char *format, ...)
{
	char *line = NULL;
	size_t size = 0;
	FILE *file = open_memstream(&line, &size);
	va_list arguments;

	if (!file)
		out_of_memory();
	va_start(arguments, format);
	text_vprint(file, format, arguments);
	va_end(arguments);
	if (fclose(file) != 0)
		out_of_memory();
	(void) fwrite(line, 1, size, progress->text);
	(void) fflush(progress->text);
	free(line);
}

/* Its end, which may be told later; else now. */
static uint64_t until_ms(const struct progress_stage *stage)
{
	return stage->ended_ms ? stage->ended_ms : clock_monotonic_ms();
}

/* The next two: what the stage is at, and how long it took so far, where lines are not updated in
 * place. */
static void print_step(struct progress *progress, const char *text)
{
	struct progress_stage *stage = stage_of(progress);

	stage->reported_ms = clock_monotonic_ms();
	print_line(progress, "%-*s            %s\n", STAGE_WIDTH, stage->name, text);
}

static void print_timed(
	struct progress *progress, struct progress_stage *stage, const char *word, const char *text)
{
	stage->reported_ms = clock_monotonic_ms();
	print_line(progress, "%-*s %7.1f s  %s%s\n", STAGE_WIDTH, stage->name,
		(double) (until_ms(stage) - stage->started_ms) / 1000, word, text);
}

static int columns(void)
{
	struct winsize size;

	if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) < 0 || size.ws_col < 40)
		return 80;
	return size.ws_col;
}

/* Its line on the terminal, without a newline. */
static void draw_stage(
	const struct progress *progress, const struct progress_stage *stage, const char *tail)
{
	double seconds = (double) (until_ms(stage) - stage->started_ms) / 1000;
	int room = columns() - STAGE_WIDTH - 14;

	text_print(progress->text, "%-*s %7.1f s  %.*s", STAGE_WIDTH, stage->name, seconds,
		room > 0 ? room : 0, tail);
}

static void draw(struct progress *progress, const char *tail)
{
	if (progress->in_table)
		return;
	(void) fputs(PROGRESS_ERASE, progress->text);
	draw_stage(progress, stage_of(progress), tail);
	(void) fflush(progress->text);
	progress->drawn_ms = clock_monotonic_ms();
}

static void *tick(void *data)
{
	LOCK_LINES;
	while (ticks) {
		struct timespec until;

		(void) clock_gettime(CLOCK_MONOTONIC, &until);
		until.tv_nsec += TICK_NS;
		until.tv_sec += until.tv_nsec / 1000000000;
		until.tv_nsec %= 1000000000;
		(void) pthread_cond_timedwait(&stopped, &lock, &until);
		if (ticks)
			progress_tick(data);
	}
	return NULL;
}

/* Signals are the main thread's. Without a thread the lines stand still, no more. */
static void start_ticker(struct progress *progress)
{
	pthread_condattr_t attributes;
	sigset_t all, before;

	if (ticks || progress->in_table || !progress->text)
		return;
	(void) pthread_condattr_init(&attributes);
	(void) pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	(void) pthread_cond_init(&stopped, &attributes);
	(void) pthread_condattr_destroy(&attributes);
	(void) sigfillset(&all);
	(void) pthread_sigmask(SIG_SETMASK, &all, &before);
	ticks = true;
	if (pthread_create(&ticker, NULL, tick, progress) != 0)
		ticks = false;
	(void) pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void stop_ticker(void)
{
	lock_lines();
	if (!ticks) {
		unlock_lines(NULL);
		return;
	}
	ticks = false;
	(void) pthread_cond_signal(&stopped);
	unlock_lines(NULL);
	(void) pthread_join(ticker, NULL);
	(void) pthread_cond_destroy(&stopped);
}

void progress_begin(struct progress *progress, const char *name)
{
	LOCK_LINES;
	struct progress_stage *stage = stage_of(progress);

	start_ticker(progress);
	*stage = (struct progress_stage){ .started_ms = clock_monotonic_ms() };
	(void) snprintf(stage->name, sizeof(stage->name), "%s", name);
	event(progress, "begin", NULL, NULL, ELAPSED, elapsed_ms(progress));
	if (progress->terminal)
		draw(progress, "");
}

void progress_expect(struct progress *progress, size_t to_compile)
{
	stage_of(progress)->to_compile = to_compile;
}

void progress_at(struct progress *progress, const char *text)
{
	LOCK_LINES;
	struct progress_stage *stage = stage_of(progress);

	(void) snprintf(stage->step, sizeof(stage->step), "%s", text);
	progress_tick(progress);
}

void progress_step(struct progress *progress, const char *text)
{
	LOCK_LINES;
	struct progress_stage *stage = stage_of(progress);

	(void) snprintf(stage->step, sizeof(stage->step), "%s", text);
	event(progress, "step", "step", text, ELAPSED, elapsed_ms(progress));
	if (progress->terminal)
		draw(progress, stage->step);
	else if (progress->text)
		print_step(progress, text);
}

void progress_compiled(struct progress *progress, const char *file)
{
	LOCK_LINES;
	struct progress_stage *stage = stage_of(progress);
	uint64_t now_ms = clock_monotonic_ms();
	size_t done = ++stage->compiled, all = stage->to_compile;

	/* Another kernel or source may want more files than the last one did. */
	if (all >= done)
		(void) snprintf(stage->step, sizeof(stage->step),
			"%zu of about %zu files compiled: %s", done, all, file);
	else
		(void) snprintf(stage->step, sizeof(stage->step), "%zu file%s compiled: %s", done,
			done == 1 ? "" : "s", file);
	if (progress->terminal) {
		progress_tick(progress);
		return;
	}
	/* The first line comes after that time, too: a short recipe needs none. */
	if (!stage->reported_ms)
		stage->reported_ms = now_ms;
	if (now_ms - stage->reported_ms < (progress->json ? EVENT_MS : LINE_MS) &&
		!progress->verbose)
		return;
	stage->reported_ms = now_ms;
	event(progress, "compile", "file", file, ",\"files_done\":%zu,\"files\":%zu",
		stage->compiled, stage->to_compile);
	if (progress->text)
		print_step(progress, stage->step);
}

void progress_detail(struct progress *progress, const char *text)
{
	LOCK_LINES;
	if (progress->verbose && progress->text)
		print_step(progress, text);
}

static void say_if_quiet(struct progress *progress, struct progress_stage *stage)
{
	uint64_t last_ms = stage->reported_ms ? stage->reported_ms : stage->started_ms;

	if (*stage->name && clock_monotonic_ms() - last_ms >= QUIET_LINE_MS)
		print_timed(progress, stage, *stage->step ? "still at: " : "still running",
			stage->step);
}

void progress_tick(struct progress *progress)
{
	LOCK_LINES;
	struct progress_stage *stage = stage_of(progress);

	/* In a table it is for the process that draws it. */
	if (!*stage->name || !progress->text || progress->in_table)
		return;
	if (!progress->terminal)
		say_if_quiet(progress, stage);
	else if (clock_monotonic_ms() - progress->drawn_ms >= REDRAW_MS)
		draw(progress, stage->step);
}

/* On a terminal the line that stays has the last step, which most often says what was made. */
static void print_end(struct progress *progress, struct progress_stage *stage)
{
	bool failed = strcmp(stage->result, "failed") == 0;
	bool done = strcmp(stage->result, "done") == 0;
	_cleanup_free_ char *count = NULL;

	progress->made += !failed;
	count = progress->to_make && !failed
			? xasprintf(", %zu of %zu", progress->made, progress->to_make)
			: xstrdup("");
	if (progress->terminal && failed) {
		draw_stage(progress, stage, "");
		message_print(progress->text, COLOUR_RED, "%s\n", stage->result);
	} else if (progress->terminal) {
		draw_stage(progress, stage, done ? stage->step : stage->result);
		(void) fputc('\n', progress->text);
	} else if (progress->text) {
		print_timed(progress, stage, stage->result, count);
	}
	stage->name[0] = '\0';
}

void progress_end(struct progress *progress, const char *result)
{
	struct progress_stage *stage = stage_of(progress);

	event(progress, "end", "result", result, ELAPSED, elapsed_ms(progress));
	stage->ended_ms = clock_monotonic_ms();
	(void) snprintf(stage->result, sizeof(stage->result), "%s", result);
	/* In a table the last line is for the process that draws it. */
	if (progress->in_table)
		return;
	stop_ticker();
	if (progress->terminal)
		(void) fputs(PROGRESS_ERASE, progress->text);
	print_end(progress, stage);
}

void progress_hide(struct progress *progress)
{
	stop_ticker();
	if (progress->terminal)
		(void) fputs(PROGRESS_ERASE, progress->text);
	stage_of(progress)->name[0] = '\0';
}

void progress_hold(void)
{
	lock_lines();
}

void progress_release(void)
{
	unlock_lines(NULL);
}

void progress_abandon(struct progress *progress)
{
	stop_ticker();
	if (progress->terminal && progress_stage_name(progress))
		(void) fputc('\n', progress->text);
}

void progress_note(struct progress *progress, const char *text)
{
	LOCK_LINES;
	event(progress, "note", "text", text, ELAPSED, elapsed_ms(progress));
	if (!progress->text)
		return;
	if (progress->terminal && progress->in_table) {
		_cleanup_free_ char *line = xasprintf("%s\n", text);

		(void) !write(progress->notes_fd, line, strlen(line));
		return;
	}
	if (progress->terminal && progress_stage_name(progress))
		(void) fputs(PROGRESS_ERASE, progress->text);
	if (progress->terminal && strncasecmp(text, "warning", 7) == 0)
		message_print(progress->text, COLOUR_YELLOW, "%s\n", text);
	else
		print_line(progress, "%s\n", text);
}

void progress_notef(struct progress *progress, const char *format, ...)
{
	_cleanup_free_ char *text = NULL;
	va_list arguments;

	va_start(arguments, format);
	text = xvasprintf(format, arguments);
	va_end(arguments);
	progress_note(progress, text);
}

/* "12.3 of 80.1 MB, 5.2 MB/s, 13 s left (2 of 5 files)", without what is not known. */
static void describe(const struct download_progress *download, char *text, size_t size)
{
	char total[32] = "", left[48] = "", files[48] = "";
	uint64_t rest = download->total_bytes > download->done_bytes
				? download->total_bytes - download->done_bytes
				: 0;

	if (download->total_bytes)
		(void) snprintf(
			total, sizeof(total), " of %.1f", (double) download->total_bytes / 1e6);
	if (rest && download->bytes_per_s)
		(void) snprintf(left, sizeof(left), ", %llu s left",
			(unsigned long long) rest / download->bytes_per_s + 1);
	if (download->files > 1)
		(void) snprintf(files, sizeof(files), " (%u of %u files)", download->files_done,
			download->files);
	(void) snprintf(text, size, "%.1f%s MB, %.1f MB/s%s%s", (double) download->done_bytes / 1e6,
		total, (double) download->bytes_per_s / 1e6, left, files);
}

/* ---- stages that run at once */

/* The cursor stands below the table's last line. */
static void erase_table(struct progress *progress)
{
	if (progress->table_lines)
		(void) fprintf(progress->text, "\033[%zuA\033[J", progress->table_lines);
	progress->table_lines = 0;
}

void progress_table(struct progress *progress, struct progress_stage *stages, size_t count)
{
	if (!progress->terminal) {
		for (size_t i = 0; progress->text && i < count; i++)
			say_if_quiet(progress, &stages[i]);
		return;
	}
	erase_table(progress);
	for (size_t i = 0; i < count; i++) {
		if (!*stages[i].name)
			continue;
		draw_stage(progress, &stages[i], stages[i].step);
		(void) fputc('\n', progress->text);
		progress->table_lines++;
	}
	if (progress->table_lines) {
		const struct progress_stage all = { .name = "all",
			.started_ms = progress->first_ms };
		_cleanup_free_ char *text =
			xasprintf("%zu of %zu stages are made", progress->made, progress->to_make);

		draw_stage(progress, &all, text);
		(void) fputc('\n', progress->text);
		progress->table_lines++;
	}
	(void) fflush(progress->text);
}

void progress_table_end(struct progress *progress, struct progress_stage *stage)
{
	if (!*stage->name)
		return;
	if (progress->terminal)
		erase_table(progress);
	print_end(progress, stage);
}

void progress_table_lost(struct progress *progress, struct progress_stage *stage)
{
	struct progress_stage *own = progress->stage;

	if (!*stage->name)
		return;
	progress->stage = stage;
	progress->in_table = true;
	progress_end(progress, "failed");
	progress->in_table = false;
	progress->stage = own;
}

void progress_table_notes(struct progress *progress, const char *text, size_t size)
{
	_cleanup_free_ char *notes = xstrndup(text, size);
	char *rest = notes, *line;

	erase_table(progress);
	while ((line = strsep(&rest, "\n")))
		if (*line)
			text_print(progress->text, "%s\n", line);
}

void progress_split(struct progress *progress, struct progress_stage *stage, int notes_fd)
{
	assert(!ticks); /* it could have held the lock, for ever here */
	progress->stage = stage;
	progress->notes_fd = notes_fd;
	progress->in_table = true;
	progress->table_lines = 0;
}

/* ---- downloads */

/* The end of a download is reported, too, however short it was. */
static bool is_due(const struct progress *progress, const struct download_progress *download,
	uint64_t pause_ms)
{
	return download->files_done == download->files ||
	       clock_monotonic_ms() - seen_stage_of(progress)->reported_ms >= pause_ms;
}

void progress_on_download(void *context, const struct download_progress *download)
{
	LOCK_LINES;
	struct progress *progress = context;
	struct progress_stage *stage = stage_of(progress);

	describe(download, stage->step, sizeof(stage->step));
	if (progress->json && is_due(progress, download, EVENT_MS)) {
		event(progress, "download", NULL, NULL,
			ELAPSED ",\"done_bytes\":%llu,\"total_bytes\":%llu,\"bytes_per_s\":%llu,"
				"\"files_done\":%u,\"files\":%u",
			(unsigned long long) progress_elapsed_ms(progress),
			(unsigned long long) download->done_bytes,
			(unsigned long long) download->total_bytes,
			(unsigned long long) download->bytes_per_s, download->files_done,
			download->files);
		stage->reported_ms = clock_monotonic_ms();
	} else if (progress->terminal) {
		progress_tick(progress);
	} else if (progress->text && download->files_done < download->files) {
		/* The first line comes after that time, too: most downloads need none. */
		if (!stage->reported_ms)
			stage->reported_ms = clock_monotonic_ms();
		if (!is_due(progress, download, DOWNLOAD_LINE_MS))
			return;
		print_step(progress, stage->step);
	}
}

void progress_on_retry(void *context, const char *url, const char *why, unsigned int wait_ms)
{
	progress_notef(
		context, "%s: %s: trying again in %.1f s", url, why, (double) wait_ms / 1000);
}

uint64_t progress_elapsed_ms(const struct progress *progress)
{
	return clock_monotonic_ms() - progress->first_ms;
}
