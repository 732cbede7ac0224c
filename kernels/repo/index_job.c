/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/repo/index_job.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "common/fs.h"

#define THREADS_LIMIT 4 /* each may hold a decompressor's window */

int index_job_want(struct index_job *job, const struct index_wish *wish, struct error *error)
{
	struct download_file *grown = reallocarray(job->files, job->file_count + 1, sizeof(*grown));
	struct download_file *file;
	char *url = NULL, *name = NULL;

	if (grown)
		job->files = grown;
	if (!grown || asprintf(&url, "%s/%s", job->request->url, wish->path) < 0)
		return error_set_errno(error, -ENOMEM, "%s", wish->path);
	name = strdup(wish->name);
	if (!name) {
		free(url);
		return error_set_errno(error, -ENOMEM, "%s", wish->path);
	}
	file = &job->files[job->file_count++];
	*file = (struct download_file){
		.url = url,
		.dir_fd = job->work_fd,
		.path = name,
		.sha256 = wish->sha256,
		.size_bytes = wish->size_bytes,
		.limit_bytes = wish->limit_bytes,
		.user = job->credentials.user,
		.password = job->credentials.password,
		.client_certificate = job->credentials.client_certificate,
		.client_key = job->credentials.client_key,
		.certificate_authority = job->credentials.certificate_authority,
	};
	if (wish->conditional && job->known && !job->restarted) {
		file->etag = job->known->etag;
		file->last_modified = job->known->last_modified;
	}
	(void) unlinkat(job->work_fd, name, 0);
	return 0;
}

void index_job_forget_files(struct index_job *job)
{
	for (size_t i = 0; i < job->file_count; i++) {
		free((char *) (uintptr_t) job->files[i].url);
		free((char *) (uintptr_t) job->files[i].path);
		download_file_done(&job->files[i]);
	}
	free(job->files);
	job->files = NULL;
	job->file_count = 0;
}

int index_job_restart(struct index_job *job, int code, const struct error *why, struct error *error)
{
	if (job->restarted) {
		*error = *why;
		return code;
	}
	job->restarted = true;
	job->kind->free(job);
	job->state = NULL;
	index_job_forget_files(job);
	digest_free(&job->made);
	return job->kind->start(job, error);
}

/* Header lines go into the digest as they are: nothing that could end a line there. */
static char *header_value(const char *text)
{
	if (!text || !*text || strpbrk(text, "\r\n"))
		return NULL;
	return strdup(text);
}

int index_job_take_head(struct index_job *job, const struct download_file *file, const char *name,
	struct error *error)
{
	struct hash *hash = hash_new();
	char hex[HASH_HEX_SIZE];
	int r;

	if (!hash)
		return error_set_errno(error, -ENOMEM, "%s", file->url);
	r = hash_add_file(hash, job->work_fd, name);
	hash_finish(hash, hex);
	if (r < 0)
		return error_set_errno(error, r, "%s", file->url);
	job->made.etag = header_value(file->new_etag);
	job->made.last_modified = header_value(file->new_last_modified);
	job->made.release_sha256 = strdup(hex);
	return job->made.release_sha256 ? 0 : error_set_errno(error, -ENOMEM, "%s", file->url);
}

bool index_job_is_known(const struct index_job *job)
{
	return job->known && job->known->release_sha256 &&
	       strcmp(job->known->release_sha256, job->made.release_sha256) == 0;
}

bool index_keeps(const struct strv *keep, const char *name)
{
	for (size_t i = 0; i < keep->count; i++)
		if (strncmp(name, keep->items[i], strlen(keep->items[i])) == 0)
			return true;
	return keep->count == 0;
}

int index_check_expiry(const struct index_request *request, const struct index_options *options,
	int64_t valid_until_s, struct error *error)
{
	const time_t until = (time_t) valid_until_s;
	char text[64] = "";
	struct tm date;

	if (valid_until_s == 0 || time(NULL) <= until || request->repository->archive ||
		options->allow_expired)
		return 0;
	if (gmtime_r(&until, &date))
		(void) strftime(text, sizeof(text), "%Y-%m-%d %H:%M UTC", &date);
	return error_set(error, -EKEYREJECTED,
		"%s: the list of %s was valid until %s only: the mirror is out of date, or this "
		"machine's clock is wrong: use another mirror with --mirror, or accept the list "
		"with --allow-expired",
		request->url, request->repository->name, text);
}

int index_disk_full(const char *what, struct error *error)
{
	return error_set(error, -ENOSPC,
		"%s: no space is left on the cache's disk: free some (slipway cache prune), or "
		"name a folder on another with --cache",
		what);
}

static void run_step(struct index_job *job)
{
	if (job->done)
		return;
	job->result = job->kind->take(job, &job->error);
	if (job->result < 0)
		job->done = true;
	/* A download says it itself; everything else is written to unpack or check that list. */
	if (job->result == -ENOSPC && !strstr(job->error.text, "no space is left"))
		(void) index_disk_full(job->request->url, &job->error);
}

struct crew {
	struct index_job *jobs;
	size_t count;
	atomic_size_t next;
};

static void *work(void *context)
{
	struct crew *crew = context;

	for (;;) {
		size_t i = atomic_fetch_add(&crew->next, 1);

		if (i >= crew->count)
			return NULL;
		run_step(&crew->jobs[i]);
	}
}

/* Unpacking the lists is what takes the time. */
static void take_all(struct index_job *jobs, size_t count)
{
	struct crew crew = { .jobs = jobs, .count = count };
	long processors = sysconf(_SC_NPROCESSORS_ONLN);
	size_t wanted = processors < THREADS_LIMIT ? (size_t) processors : THREADS_LIMIT;
	pthread_t threads[THREADS_LIMIT];
	size_t started = 0;

	while (started + 1 < wanted && started + 1 < count &&
		pthread_create(&threads[started], NULL, work, &crew) == 0)
		started++;
	(void) work(&crew);
	for (size_t i = 0; i < started; i++)
		(void) pthread_join(threads[i], NULL);
}

/* Fetches what all jobs want; 0 when they want nothing more. */
static int fetch_round(struct index_job *jobs, size_t count, size_t *ret_files)
{
	struct download *download = jobs[0].options->download;
	_cleanup_free_ struct download_file *files = NULL;
	struct error error = { 0 };
	size_t total = 0;

	for (size_t i = 0; i < count; i++)
		total += jobs[i].done ? 0 : jobs[i].file_count;
	*ret_files = total;
	if (total == 0)
		return 0;
	files = calloc(total, sizeof(*files));
	if (!files)
		return -ENOMEM;
	total = 0;
	for (size_t i = 0; i < count; i++)
		for (size_t j = 0; !jobs[i].done && j < jobs[i].file_count; j++)
			files[total++] = jobs[i].files[j];
	if (download_run(download, files, total, &error) == -ENOMEM)
		return -ENOMEM;
	total = 0;
	for (size_t i = 0; i < count; i++)
		for (size_t j = 0; !jobs[i].done && j < jobs[i].file_count; j++)
			jobs[i].files[j] = files[total++];
	return 0;
}

int index_jobs_run(struct index_job *jobs, size_t count, struct error *error)
{
	size_t files = 0;

	for (size_t i = 0; i < count; i++) {
		if (jobs[i].done)
			continue;
		jobs[i].result = jobs[i].kind->start(&jobs[i], &jobs[i].error);
		jobs[i].done = jobs[i].result < 0;
	}
	for (;;) {
		int r = count ? fetch_round(jobs, count, &files) : 0;

		if (r < 0)
			return error_set_errno(error, r, "fetching the lists");
		if (files == 0)
			return 0;
		take_all(jobs, count);
		files = 0;
	}
}

void index_job_free(struct index_job *job)
{
	if (job->kind)
		job->kind->free(job);
	job->state = NULL;
	index_job_forget_files(job);
	digest_free(&job->made);
	mirror_credentials_free(&job->credentials);
	cleanup_close(&job->work_fd);
	job->work_fd = -1;
}
