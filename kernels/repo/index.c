/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/repo/index.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#include "common/fs.h"
#include "common/xalloc.h"
#include "kernels/repo/repo_internal.h"
#include "kernels/repo/signature.h"

#define THREADS_LIMIT 4 /* each may hold a decompressor's window */

const struct package *index_find(const struct index *index, const char *name)
{
	size_t first = 0, last = index->count;

	while (first < last) {
		size_t middle = first + (last - first) / 2;

		if (strcmp(index->packages[middle].name, name) < 0)
			first = middle + 1;
		else
			last = middle;
	}
	return first < index->count && strcmp(index->packages[first].name, name) == 0
		       ? &index->packages[first]
		       : NULL;
}

/* ---- what kinds of repositories call */

void index_job_want(
	struct index_job *job, struct download_file file, bool conditional, const char *place, ...)
{
	_cleanup_free_ char *below = NULL;
	va_list arguments;

	va_start(arguments, place);
	below = xvasprintf(place, arguments);
	va_end(arguments);
	xstrv_pushf(&job->urls, "%s/%s", job->request->url, below);
	file.url = job->urls.items[job->urls.count - 1];
	file.dir_fd = job->work_fd;
	file.credentials = &job->credentials;
	if (conditional && job->usable && !job->restarted) {
		file.etag = job->known.etag;
		file.last_modified = job->known.last_modified;
	}
	(void) unlinkat(job->work_fd, file.path, 0);
	job->files = xreallocarray(job->files, job->file_count + 1, sizeof(*job->files));
	job->files[job->file_count++] = file;
}

void index_job_forget_files(struct index_job *job)
{
	for (size_t i = 0; i < job->file_count; i++)
		download_file_done(&job->files[i]);
	free(TAKE_PTR(job->files));
	job->file_count = 0;
	strv_free(&job->urls);
}

int index_job_failed(const struct download_file *file, struct error *error)
{
	*error = file->error;
	return file->result;
}

int index_job_restart(struct index_job *job, int code)
{
	if (job->restarted)
		return code;
	job->restarted = true;
	job->kind->free(job);
	index_job_forget_files(job);
	digest_free(&job->made);
	job->kind->start(job);
	return 0;
}

/* Header lines go into the digest as they are: nothing that could end a line there. */
static char *header_value(const char *text)
{
	return text && *text && !strpbrk(text, "\r\n") ? xstrdup(text) : NULL;
}

int index_job_take_head(struct index_job *job, const char *name, struct error *error)
{
	const struct download_file *file = &job->files[0];
	char hex[HASH_HEX_SIZE] = "";

	if (!file->not_modified) {
		struct hash *hash = hash_new();
		int r = hash_add_file(hash, job->work_fd, name);

		hash_finish(hash, hex);
		if (r < 0)
			return error_set_errno(error, r, "%s", file->url);
		job->made.etag = header_value(file->new_etag);
		job->made.last_modified = header_value(file->new_last_modified);
		job->made.release_sha256 = xstrdup(hex);
	}
	job->unchanged = file->not_modified || (job->usable && job->known.release_sha256 &&
						       strcmp(job->known.release_sha256, hex) == 0);
	job->done = job->unchanged;
	return 0;
}

int index_job_check_signature(struct index_job *job, const char *path, const char *detached,
	const char *output, bool optional, struct error *error)
{
	const struct signature_request request = {
		.name = job->files[0].url,
		.folder_fd = job->work_fd,
		.path = path,
		.detached = detached,
		.output = output,
		.keyrings = &job->request->repository->keyrings,
		.keyring = job->options->keyring,
		.allow_unsigned = job->options->allow_unsigned || optional,
	};
	_cleanup_(signature_free) struct signature signature = { 0 };
	int r = signature_check(&request, &signature, error);

	if (r == 0)
		job->made.signer = TAKE_PTR(signature.signer);
	return r;
}

int index_job_read(struct index_job *job, const struct download_file *file, struct stream *stream,
	struct error *error)
{
	_cleanup_close_ int fd = openat(job->work_fd, file->path, O_RDONLY | O_CLOEXEC);
	int r;

	if (fd < 0)
		return error_set_errno(error, -errno, "%s", file->url);
	stream->fd = fd;
	stream->name = file->url;
	r = stream_run(stream, error);
	(void) unlinkat(job->work_fd, file->path, 0);
	return r;
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

/* ---- rounds: files of all jobs are fetched, then looked at in threads */

/* -ENOSPC, with the next step. */
static int disk_full(const char *what, struct error *error)
{
	return error_set(error, -ENOSPC,
		"%s: no space is left on the cache's disk: free some (slipway cache prune), or "
		"name a folder on another with --cache",
		what);
}

struct pool {
	struct index_job *jobs;
	size_t count;
	atomic_size_t next;
};

static void *work(void *context)
{
	struct pool *pool = context;

	for (;;) {
		size_t i = atomic_fetch_add(&pool->next, 1);
		struct index_job *job;

		if (i >= pool->count)
			return NULL;
		job = &pool->jobs[i];
		if (job->done)
			continue;
		job->result = job->kind->take(job, &job->error);
		job->done |= job->result < 0;
		/* A download has that in its message; all else writes to unpack or check a list. */
		if (job->result == -ENOSPC && !strstr(job->error.text, "no space is left"))
			(void) disk_full(job->request->url, &job->error);
	}
}

/* Unpacking the lists is what takes the time. */
static void take_all(struct index_job *jobs, size_t count)
{
	struct pool pool = { .jobs = jobs, .count = count };
	long processors = sysconf(_SC_NPROCESSORS_ONLN);
	size_t wanted = processors < THREADS_LIMIT ? (size_t) processors : THREADS_LIMIT;
	pthread_t threads[THREADS_LIMIT];
	size_t started = 0;

	while (started + 1 < wanted && started + 1 < count &&
		pthread_create(&threads[started], NULL, work, &pool) == 0)
		started++;
	(void) work(&pool);
	for (size_t i = 0; i < started; i++)
		(void) pthread_join(threads[i], NULL);
}

/* Fetches what all jobs want; false when they want nothing more. */
static bool fetch_round(struct index_job *jobs, size_t count)
{
	_cleanup_free_ struct download_file **files = NULL;
	size_t total = 0;

	for (size_t i = 0; i < count; i++)
		for (size_t j = 0; !jobs[i].done && j < jobs[i].file_count; j++) {
			files = xreallocarray(files, total + 1, sizeof(*files));
			files[total++] = &jobs[i].files[j];
		}
	if (total)
		download_run(jobs[0].options->download, files, total);
	return total > 0;
}

/* ---- what the cache has, and when the mirror is asked */

/* Looks into the cache. A damaged digest is as good as none, unless the mirror cannot be asked. */
static void look(struct index_job *job)
{
	const struct index_options *options = job->options;
	struct digest *known = &job->known;
	struct error expired;
	time_t now = time(NULL);

	digest_free(known);
	job->usable = false;
	job->fresh = false;
	job->cache_result = digest_read(options->folder_fd, job->name, known, &job->cache_error);
	if (job->cache_result < 0)
		return;
	/* Written under --allow-unsigned, it is not for a run without. */
	if (!known->absent && !known->signer && job->request->repository->trust == TRUST_INDEX &&
		!options->allow_unsigned) {
		digest_free(known);
		job->cache_result = -ENOENT;
		return;
	}
	job->usable = !known->absent;
	job->fresh = known->asked_s <= now && now - known->asked_s < INDEX_MAX_AGE_S &&
		     index_check_expiry(job->request, options, known->valid_until_s, &expired) == 0;
}

static bool must_ask(const struct index_job *job)
{
	if (download_is_offline(job->options->download))
		return !job->usable; /* a mirror on this machine's disk can still be asked */
	return !job->fresh || job->options->refresh;
}

/* One run at a time fetches lists; the next one finds them fetched. */
static int lock_folder(const struct index_options *options, struct error *error)
{
	_cleanup_close_ int fd =
		openat(options->folder_fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC, 0644);

	if (fd < 0)
		return error_set_errno(error, -errno, "indexes/lock");
	while (flock(fd, LOCK_EX) < 0)
		if (errno != EINTR)
			return error_set_errno(error, -errno, "indexes/lock");
	return TAKE_FD(fd);
}

/* Makes ready for the first round, in a folder of its own. */
static int start(struct index_job *job, size_t number, struct error *error)
{
	const struct repository *repository = job->request->repository;
	_cleanup_free_ char *path = xasprintf("work/%zu", number);
	int r = fs_mkdir_parents(job->options->folder_fd, path, 0700);

	if (r == 0) {
		job->work_fd =
			openat(job->options->folder_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		r = job->work_fd < 0 ? -errno : 0;
	}
	if (r == -ENOSPC)
		return disk_full("indexes/work", error);
	if (r < 0)
		return error_set_errno(error, r, "indexes/work");
	job->kind = repository->kind == REPOSITORY_APT ? &index_kind_apt : &index_kind_rpm_md;
	/* One repository's trouble: the others are asked. */
	job->result = mirrors_credentials(
		job->request->mirror, repository, &job->credentials, &job->error);
	job->done = job->result < 0;
	if (!job->done)
		job->kind->start(job);
	return 0;
}

/* What came of a job goes into the cache, also that there is no such list. */
static int keep(struct index_job *job)
{
	const int folder_fd = job->options->folder_fd;
	int r = job->result;

	if (r == 0 && job->unchanged) /* makes the digest young again */
		return utimensat(folder_fd, job->name, NULL, 0) < 0
			       ? error_set_errno(&job->error, -errno, "indexes/%s", job->name)
			       : 0;
	if (r == -EADDRNOTAVAIL && job->absent) {
		digest_free(&job->made);
		job->made.absent = xstrdup(job->error.text);
		for (char *c = job->made.absent; *c; c++)
			if (*c == '\r' || *c == '\n')
				*c = ' ';
	} else if (r < 0) {
		return r;
	}
	package_list_sort(&job->made.packages);
	r = digest_write(folder_fd, job->name, &job->made, &job->error);
	if (r == -ENOSPC)
		return disk_full(job->request->url, &job->error);
	return r < 0 ? r : job->result;
}

/* Also what a killed run left. */
static int empty_work(const struct index_options *options, struct error *error)
{
	int r = fs_remove_tree(options->folder_fd, "work");

	return r < 0 ? error_set_errno(error, r, "indexes/work") : 0;
}

/* Asks the mirrors of all jobs for which that has to be. */
static int ask(struct index_job *jobs, size_t count, const struct index_options *options,
	struct error *error)
{
	time_t before = time(NULL);
	_cleanup_close_ int lock_fd = lock_folder(options, error);
	bool any = false;
	int r;

	if (lock_fd < 0)
		return lock_fd;
	for (size_t i = 0; i < count; i++) {
		struct index_job *job = &jobs[i];

		if (!must_ask(job))
			continue;
		/* Another run may have fetched it while this one waited for the lock. */
		look(job);
		job->done = !must_ask(job) || (job->fresh && job->known.asked_s > before);
		any |= !job->done;
	}
	if (!any)
		return 0;
	r = empty_work(options, error);
	for (size_t i = 0; i < count && r == 0; i++)
		if (!jobs[i].done)
			r = start(&jobs[i], i, error);
	if (r < 0) {
		(void) !fs_remove_tree(options->folder_fd, "work");
		return r;
	}
	while (fetch_round(jobs, count))
		take_all(jobs, count);
	for (size_t i = 0; i < count; i++) {
		if (jobs[i].work_fd < 0)
			continue;
		jobs[i].result = keep(&jobs[i]);
		if (jobs[i].result == 0)
			look(&jobs[i]);
	}
	return empty_work(options, error);
}

/* ---- what the caller gets */

static char *age_text(const struct digest *digest)
{
	long long seconds = (long long) time(NULL) - (long long) digest->asked_s;

	if (seconds >= 48LL * 3600)
		return xasprintf("%lld days", seconds / 86400);
	if (seconds >= 2LL * 3600)
		return xasprintf("%lld hours", seconds / 3600);
	return xasprintf("%lld minutes", seconds < 0 ? 0 : seconds / 60);
}

/* Takes over the text. */
static void add_warning(struct index *index, char *text)
{
	char *all = index->warning ? xasprintf("%s; %s", index->warning, text) : xstrdup(text);

	free(text);
	free(index->warning);
	index->warning = all;
}

/* What is accepted although something about it is not as it should be. */
static void add_warnings(struct index *index, const struct index_job *job)
{
	const struct repository *repository = job->request->repository;
	const struct digest *known = &job->known;

	if (job->result < 0 || (!job->fresh && download_is_offline(job->options->download))) {
		_cleanup_free_ char *age = age_text(known);

		add_warning(index, xasprintf("the list of %s is %s old: %s", repository->name, age,
					   job->result < 0 ? job->error.text : "working offline"));
	}
	if (!known->signer && repository->trust == TRUST_INDEX)
		add_warning(index,
			xasprintf("the list of %s carries no signature that could be checked: it "
				  "is used because --allow-unsigned says so",
				repository->name));
	if (known->valid_until_s && time(NULL) > (time_t) known->valid_until_s &&
		!repository->archive)
		add_warning(index,
			xstrdup("the list is past its Valid-Until: there may be newer ones"));
}

static char *text_or_nothing(char **slot)
{
	char *text = TAKE_PTR(*slot);

	return text ? text : xstrdup("");
}

static int settle(struct index *index, struct index_job *job)
{
	const struct index_options *options = job->options;
	struct digest *known = &job->known;
	/* The mirror is out of reach, and the list that is here will do. */
	bool kept = job->usable && !options->refresh &&
		    (job->result == -EHOSTUNREACH || job->result == -ETIMEDOUT ||
			    job->result == -ENETDOWN);
	int r;

	if (job->result == -ENETDOWN && job->cache_result == -EUCLEAN) {
		index->error = job->cache_error;
		return job->cache_result;
	}
	if (job->result == -ENETDOWN && !kept)
		return error_set(&index->error, -ENETDOWN,
			"%s: the lists of %s are not in the cache, and --offline forbids to fetch "
			"them: run slipway resolve once without it",
			job->request->url, job->request->repository->name);
	if (job->result < 0 && !kept) {
		index->error = job->error;
		return job->result;
	}
	if (known->absent && !kept) {
		_cleanup_free_ char *age = age_text(known);

		return error_set(&index->error, -EADDRNOTAVAIL,
			"%s (the mirror was asked %s ago: --refresh asks it again)", known->absent,
			age);
	}
	if (!job->usable) {
		index->error = job->cache_error;
		return job->cache_result;
	}
	/* An attacker who keeps the mirror out of reach must not keep an expired list in use. */
	if (!download_is_offline(options->download)) {
		r = index_check_expiry(job->request, options, known->valid_until_s, &index->error);
		if (r < 0)
			return r;
	}
	add_warnings(index, job);
	index->release_sha256 = text_or_nothing(&known->release_sha256);
	index->date = text_or_nothing(&known->date);
	index->signer = text_or_nothing(&known->signer);
	index->listed = known->listed;
	index->not_automatic = known->not_automatic;
	index->packages = known->packages.items;
	index->count = known->packages.count;
	known->packages = (struct package_list){ 0 };
	return 0;
}

static void job_free(struct index_job *job)
{
	if (job->state)
		job->kind->free(job);
	index_job_forget_files(job);
	digest_free(&job->known);
	digest_free(&job->made);
	mirror_credentials_free(&job->credentials);
	cleanup_close(&job->work_fd);
	free(job->name);
}

int indexes_open(const struct index_options *options, const struct index_request *requests,
	size_t count, struct index **ret, struct error *error)
{
	struct index_job *jobs = xcalloc(count, sizeof(*jobs));
	bool must = false;
	int r = 0;

	for (size_t i = 0; i < count; i++) {
		jobs[i].request = &requests[i];
		jobs[i].options = options;
		jobs[i].work_fd = -1;
		jobs[i].name = digest_name(&requests[i], options);
		look(&jobs[i]);
		jobs[i].done = !must_ask(&jobs[i]);
		must |= !jobs[i].done;
	}
	if (must)
		r = ask(jobs, count, options, error);
	if (r == 0) {
		*ret = xcalloc(count, sizeof(**ret));
		for (size_t i = 0; i < count; i++) {
			(*ret)[i].request = &requests[i];
			(*ret)[i].result = settle(&(*ret)[i], &jobs[i]);
		}
	}
	for (size_t i = 0; i < count; i++)
		job_free(&jobs[i]);
	free(jobs);
	return r;
}

void indexes_free(struct index **indexes, size_t count)
{
	for (size_t i = 0; *indexes && i < count; i++) {
		struct index *index = &(*indexes)[i];

		for (size_t j = 0; j < index->count; j++)
			package_free(&index->packages[j]);
		free(index->packages);
		free(index->warning);
		free(index->release_sha256);
		free(index->date);
		free(index->signer);
	}
	free(*indexes);
	*indexes = NULL;
}
