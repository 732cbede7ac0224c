/* SPDX-License-Identifier: Apache-2.0 */
/* How downloads are shown. */
#include "cli/progress.h"

#include "common/clock.h"
#include "common/json_text.h"

#define EVENT_MS 1000
#define LINE_MS  10000

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

static void tell_event(const struct progress *progress, const struct download_progress *download)
{
	(void) fputs("{\"event\":\"download\",\"stage\":", progress->json);
	json_text_string(progress->json, progress->stage ? progress->stage : "");
	(void) fprintf(progress->json,
		",\"elapsed_ms\":%llu,\"done_bytes\":%llu,\"total_bytes\":%llu,"
		"\"bytes_per_s\":%llu,\"files_done\":%u,\"files\":%u}\n",
		(unsigned long long) progress_elapsed_ms(progress),
		(unsigned long long) download->done_bytes,
		(unsigned long long) download->total_bytes,
		(unsigned long long) download->bytes_per_s, download->files_done, download->files);
	(void) fflush(progress->json);
}

/* Also the last word about a download is told, however short it was. */
static bool is_due(const struct progress *progress, const struct download_progress *download,
	uint64_t pause_ms)
{
	return download->files_done == download->files ||
	       clock_monotonic_ms() - progress->told_ms >= pause_ms;
}

void progress_on_download(void *context, const struct download_progress *download)
{
	struct progress *progress = context;

	describe(download, progress->step, sizeof(progress->step));
	if (progress->json && is_due(progress, download, EVENT_MS)) {
		tell_event(progress, download);
		progress->told_ms = clock_monotonic_ms();
	} else if (progress->terminal) {
		progress_tick(progress);
	} else if (progress->text && download->files_done < download->files) {
		/* The first line comes after that time, too: most downloads need none. */
		if (!progress->told_ms)
			progress->told_ms = clock_monotonic_ms();
		if (!is_due(progress, download, LINE_MS))
			return;
		(void) fprintf(progress->text, "%-14s            %s\n",
			progress->stage ? progress->stage : "", progress->step);
		progress->told_ms = clock_monotonic_ms();
	}
}

void progress_on_retry(void *context, const char *url, const char *why, unsigned int wait_ms)
{
	struct progress *progress = context;
	char text[512];

	(void) snprintf(text, sizeof(text), "%s: %s: tried again in %.1f s", url, why,
		(double) wait_ms / 1000);
	progress_note(progress, text);
}
