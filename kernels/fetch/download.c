/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/fetch/download.h"

#include <string.h>

#include "common/clock.h"
#include "kernels/fetch/transfer_internal.h"

#define DEFAULT_PARALLEL 8
#define TICK_MS          100 /* between two looks at the clock, and two reports */
#define SPEED_SAMPLES    50

struct download {
	struct download_options options;
	CURLM *multi; /* NULL until something comes over the network: it has sockets of its own */
};

/* All that one call of download_run() is about. */
struct run {
	struct download *download;
	struct transfer *transfers;
	size_t count;
	size_t running;
	uint64_t reported_ms;
	uint64_t samples[SPEED_SAMPLES]; /* received bytes, one a TICK_MS, a ring */
	uint64_t sample_ms[SPEED_SAMPLES];
	unsigned int sample_count;
};

int download_open(
	const struct download_options *options, struct download **ret, struct error *error)
{
	struct download *download = calloc(1, sizeof(*download));

	if (!download)
		return error_set_errno(error, -ENOMEM, "download");
	download->options = *options;
	if (!download->options.parallel)
		download->options.parallel = DEFAULT_PARALLEL;
	*ret = download;
	return 0;
}

void download_close(struct download **download)
{
	if (!*download)
		return;
	if ((*download)->multi) {
		curl_multi_cleanup((*download)->multi);
		curl_global_cleanup();
	}
	free(TAKE_PTR(*download));
}

bool download_is_offline(const struct download *download)
{
	return download->options.offline;
}

void download_file_done(struct download_file *file)
{
	free(TAKE_PTR(file->new_etag));
	free(TAKE_PTR(file->new_last_modified));
}

static int open_multi(struct download *download)
{
	if (download->multi)
		return 0;
	if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
		return -ENOMEM;
	download->multi = curl_multi_init();
	if (download->multi)
		return 0;
	curl_global_cleanup();
	return -ENOMEM;
}

static void start(struct run *run, struct transfer *transfer)
{
	transfer_prepare(transfer);
	if (transfer->finished)
		return;
	if (open_multi(run->download) < 0 ||
		curl_multi_add_handle(run->download->multi, transfer->easy) != CURLM_OK) {
		(void) error_set_errno(&transfer->file->error, -ENOMEM, "libcurl");
		transfer_finish(transfer, -ENOMEM);
		return;
	}
	transfer->running = true;
	run->running++;
}

static void stop(struct run *run, struct transfer *transfer, CURLcode code)
{
	(void) curl_multi_remove_handle(run->download->multi, transfer->easy);
	transfer->running = false;
	run->running--;
	transfer_judge(transfer, code);
}

static void start_due(struct run *run, uint64_t now_ms)
{
	for (size_t i = 0; i < run->count; i++) {
		struct transfer *transfer = &run->transfers[i];

		if (run->running >= run->download->options.parallel)
			return;
		if (!transfer->finished && !transfer->running && transfer->resume_ms <= now_ms)
			start(run, transfer);
	}
}

static bool take_ended(struct run *run)
{
	CURLMsg *message;
	bool any = false;
	int left;

	while ((message = curl_multi_info_read(run->download->multi, &left))) {
		CURLcode code = message->data.result;
		struct transfer *transfer = NULL;

		if (message->msg != CURLMSG_DONE)
			continue;
		(void) curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &transfer);
		stop(run, transfer, code);
		any = true;
	}
	return any;
}

static void end_stalled(struct run *run, uint64_t now_ms)
{
	for (size_t i = 0; i < run->count; i++) {
		struct transfer *transfer = &run->transfers[i];

		if (!transfer->running || !transfer_is_stalled(transfer, now_ms))
			continue;
		transfer->stalled = true;
		stop(run, transfer, CURLE_OPERATION_TIMEDOUT);
	}
}

static uint64_t size_of(const struct transfer *transfer)
{
	return transfer->file->size_bytes ? transfer->file->size_bytes : transfer->announced_bytes;
}

/* Over the samples of the last seconds. */
static uint64_t speed(struct run *run, uint64_t received, uint64_t now_ms)
{
	unsigned int slot = run->sample_count % SPEED_SAMPLES;
	unsigned int oldest = run->sample_count < SPEED_SAMPLES ? 0 : slot;
	uint64_t bytes, ms;

	if (run->sample_count == 0)
		oldest = slot;
	bytes = received - (run->sample_count ? run->samples[oldest] : received);
	ms = now_ms - (run->sample_count ? run->sample_ms[oldest] : now_ms);
	run->samples[slot] = received;
	run->sample_ms[slot] = now_ms;
	run->sample_count++;
	return ms ? bytes * 1000 / ms : 0;
}

static void report(struct run *run, uint64_t now_ms, bool last)
{
	const struct download_options *options = &run->download->options;
	struct download_progress progress = { .files = (unsigned int) run->count };
	uint64_t received = 0;
	bool all_known = true;

	if (!options->on_progress || (!last && now_ms - run->reported_ms < TICK_MS))
		return;
	for (size_t i = 0; i < run->count; i++) {
		const struct transfer *transfer = &run->transfers[i];
		uint64_t size = size_of(transfer);
		bool done = transfer->finished && transfer->file->result == 0;

		progress.files_done += done;
		progress.done_bytes += done && size ? size : transfer->partial.bytes;
		progress.total_bytes += size;
		received += transfer->received_bytes;
		all_known &= size != 0 || transfer->finished;
	}
	if (!all_known)
		progress.total_bytes = 0;
	progress.bytes_per_s = speed(run, received, now_ms);
	run->reported_ms = now_ms;
	options->on_progress(options->context, &progress);
}

static bool all_finished(const struct run *run)
{
	for (size_t i = 0; i < run->count; i++)
		if (!run->transfers[i].finished)
			return false;
	return true;
}

static void run_to_end(struct run *run)
{
	uint64_t now_ms = clock_monotonic_ms();

	for (;;) {
		int ignored;

		start_due(run, now_ms);
		report(run, now_ms, false);
		if (all_finished(run))
			break;
		/* Who is not finished has run already or runs now: there is a multi handle. */
		if (run->download->multi) {
			(void) curl_multi_perform(run->download->multi, &ignored);
			if (!take_ended(run))
				(void) curl_multi_poll(
					run->download->multi, NULL, 0, TICK_MS, NULL);
		}
		now_ms = clock_monotonic_ms();
		end_stalled(run, now_ms);
	}
	report(run, now_ms, true);
}

int download_run(
	struct download *download, struct download_file *files, size_t count, struct error *error)
{
	struct run run = { .download = download, .count = count };

	run.transfers = calloc(count ? count : 1, sizeof(*run.transfers));
	if (!run.transfers)
		return error_set_errno(error, -ENOMEM, "download");
	for (size_t i = 0; i < count; i++) {
		run.transfers[i].file = &files[i];
		run.transfers[i].options = &download->options;
		run.transfers[i].partial.fd = -1;
	}
	run_to_end(&run);
	for (size_t i = 0; i < count; i++)
		transfer_done(&run.transfers[i]);
	free(run.transfers);
	for (size_t i = 0; i < count; i++) {
		if (files[i].result == 0)
			continue;
		*error = files[i].error;
		return files[i].result;
	}
	return 0;
}
