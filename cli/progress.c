/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/progress.h"

#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/json_text.h"
#include "common/text.h"
#include "common/xalloc.h"

#define STAGE_WIDTH      15 /* of the longest name */
#define REDRAW_MS        100
#define EVENT_MS         1000  /* between events about files */
#define LINE_MS          30000 /* between plain lines about them */
#define DOWNLOAD_LINE_MS 10000
#define QUIET_LINE_MS    60000 /* without any other line */

void progress_start(struct progress *progress, bool json)
{
	*progress = (struct progress){
		.text = json ? NULL : stderr,
		.json = json ? stdout : NULL,
		.terminal = !json && isatty(STDERR_FILENO),
		.first_ms = clock_monotonic_ms(),
	};
}

/* Since the stage began, or the whole. */
static unsigned long long elapsed_ms(const struct progress *progress)
{
	return clock_monotonic_ms() - (progress->stage ? progress->started_ms : progress->first_ms);
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
	json_text_string(progress->json, progress->stage ? progress->stage : "");
	(void) fputs(numbers, progress->json);
	if (key) {
		(void) fprintf(progress->json, ",\"%s\":", key);
		json_text_string(progress->json, value);
	}
	(void) fputs("}\n", progress->json);
	(void) fflush(progress->json);
}

/* The next two: what the stage is at, and how long it took so far, where lines are not updated in
 * place. */
static void print_step(struct progress *progress, const char *text)
{
	progress->reported_ms = clock_monotonic_ms();
	text_print(progress->text, "%-*s            %s\n", STAGE_WIDTH,
		progress->stage ? progress->stage : "", text);
}

static void print_timed(struct progress *progress, const char *word, const char *text)
{
	progress->reported_ms = clock_monotonic_ms();
	text_print(progress->text, "%-*s %7.1f s  %s%s\n", STAGE_WIDTH, progress->stage,
		(double) (progress->reported_ms - progress->started_ms) / 1000, word, text);
}

static int columns(void)
{
	struct winsize size;

	if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) < 0 || size.ws_col < 40)
		return 80;
	return size.ws_col;
}

static void draw(struct progress *progress, const char *tail)
{
	uint64_t now_ms = clock_monotonic_ms();
	double seconds = (double) (now_ms - progress->started_ms) / 1000;
	int room = columns() - STAGE_WIDTH - 14;

	(void) fputs(PROGRESS_ERASE, progress->text);
	text_print(progress->text, "%-*s %7.1f s  %.*s", STAGE_WIDTH, progress->stage, seconds,
		room > 0 ? room : 0, tail);
	(void) fflush(progress->text);
	progress->drawn_ms = now_ms;
}

void progress_begin(struct progress *progress, const char *stage)
{
	progress->stage = stage;
	progress->started_ms = clock_monotonic_ms();
	progress->step[0] = '\0';
	progress->reported_ms = 0;
	progress->compiled = 0;
	progress->to_compile = 0;
	event(progress, "begin", NULL, NULL, ELAPSED, elapsed_ms(progress));
	if (progress->terminal)
		draw(progress, "");
}

void progress_step(struct progress *progress, const char *text)
{
	(void) snprintf(progress->step, sizeof(progress->step), "%s", text);
	event(progress, "step", "step", text, ELAPSED, elapsed_ms(progress));
	if (progress->terminal)
		draw(progress, progress->step);
	else if (progress->text)
		print_step(progress, text);
}

void progress_compiled(struct progress *progress, const char *file)
{
	uint64_t now_ms = clock_monotonic_ms();
	size_t done = ++progress->compiled, all = progress->to_compile;

	/* Another kernel or source may want more files than the last one did. */
	if (all >= done)
		(void) snprintf(progress->step, sizeof(progress->step),
			"%zu of about %zu files compiled: %s", done, all, file);
	else
		(void) snprintf(progress->step, sizeof(progress->step), "%zu file%s compiled: %s",
			done, done == 1 ? "" : "s", file);
	if (progress->terminal) {
		progress_tick(progress);
		return;
	}
	/* The first line comes after that time, too: a short recipe needs none. */
	if (!progress->reported_ms)
		progress->reported_ms = now_ms;
	if (now_ms - progress->reported_ms < (progress->json ? EVENT_MS : LINE_MS))
		return;
	progress->reported_ms = now_ms;
	event(progress, "compile", "file", file, ",\"files_done\":%zu,\"files\":%zu",
		progress->compiled, progress->to_compile);
	if (progress->text)
		print_step(progress, progress->step);
}

void progress_tick(struct progress *progress)
{
	uint64_t now_ms = clock_monotonic_ms();
	uint64_t last_ms = progress->reported_ms ? progress->reported_ms : progress->started_ms;

	if (!progress->stage || !progress->text)
		return;
	if (progress->terminal) {
		if (now_ms - progress->drawn_ms >= REDRAW_MS)
			draw(progress, progress->step);
	} else if (now_ms - last_ms >= QUIET_LINE_MS) {
		print_timed(
			progress, *progress->step ? "still at: " : "still running", progress->step);
	}
}

void progress_end(struct progress *progress, const char *result)
{
	const char *tail = strcmp(result, "done") == 0 ? "" : result;

	event(progress, "end", "result", result, ELAPSED, elapsed_ms(progress));
	if (progress->terminal) {
		draw(progress, tail);
		(void) fputc('\n', progress->text);
	} else if (progress->text) {
		print_timed(progress, "", result);
	}
	progress->stage = NULL;
}

void progress_note(struct progress *progress, const char *text)
{
	event(progress, "note", "text", text, ELAPSED, elapsed_ms(progress));
	if (!progress->text)
		return;
	if (progress->terminal && progress->stage)
		(void) fputs(PROGRESS_ERASE, progress->text);
	text_print(progress->text, "%s\n", text);
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

/* The end of a download is reported, too, however short it was. */
static bool is_due(const struct progress *progress, const struct download_progress *download,
	uint64_t pause_ms)
{
	return download->files_done == download->files ||
	       clock_monotonic_ms() - progress->reported_ms >= pause_ms;
}

void progress_on_download(void *context, const struct download_progress *download)
{
	struct progress *progress = context;

	describe(download, progress->step, sizeof(progress->step));
	if (progress->json && is_due(progress, download, EVENT_MS)) {
		event(progress, "download", NULL, NULL,
			ELAPSED ",\"done_bytes\":%llu,\"total_bytes\":%llu,\"bytes_per_s\":%llu,"
				"\"files_done\":%u,\"files\":%u",
			(unsigned long long) progress_elapsed_ms(progress),
			(unsigned long long) download->done_bytes,
			(unsigned long long) download->total_bytes,
			(unsigned long long) download->bytes_per_s, download->files_done,
			download->files);
		progress->reported_ms = clock_monotonic_ms();
	} else if (progress->terminal) {
		progress_tick(progress);
	} else if (progress->text && download->files_done < download->files) {
		/* The first line comes after that time, too: most downloads need none. */
		if (!progress->reported_ms)
			progress->reported_ms = clock_monotonic_ms();
		if (!is_due(progress, download, DOWNLOAD_LINE_MS))
			return;
		print_step(progress, progress->step);
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
