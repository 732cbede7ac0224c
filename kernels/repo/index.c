/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/repo/index.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#include "common/fs.h"
#include "kernels/repo/index_job_internal.h"

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

#define THREADS_LIMIT 4 /* each may hold a decompressor's window */

int index_job_want(struct index_job *job, const struct wanted_file *wanted, struct error *error)
{
	struct download_file *grown = reallocarray(job->files, job->file_count + 1, sizeof(*grown));
	struct download_file *file;
	char *url = NULL, *name = NULL;

	if (grown)
		job->files = grown;
	if (!grown || asprintf(&url, "%s/%s", job->request->url, wanted->path) < 0)
		return error_set_errno(error, -ENOMEM, "%s", wanted->path);
	name = strdup(wanted->name);
	if (!name) {
		free(url);
		return error_set_errno(error, -ENOMEM, "%s", wanted->path);
	}
	file = &job->files[job->file_count++];
	*file = (struct download_file){
		.url = url,
		.dir_fd = job->work_fd,
		.path = name,
		.sha256 = wanted->sha256,
		.size_bytes = wanted->size_bytes,
		.limit_bytes = wanted->limit_bytes,
		.user = job->credentials.user,
		.password = job->credentials.password,
		.client_certificate = job->credentials.client_certificate,
		.client_key = job->credentials.client_key,
		.certificate_authority = job->credentials.certificate_authority,
	};
	if (wanted->conditional && job->known && !job->restarted) {
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

/* -ENOSPC, with the next step. */
static int index_disk_full(const char *what, struct error *error)
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

		if (i >= pool->count)
			return NULL;
		run_step(&pool->jobs[i]);
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

static int index_jobs_run(struct index_job *jobs, size_t count, struct error *error)
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

/* Runs all jobs that are not done to their end; each has its @result. Negative only when none could
 * run. */
static void index_job_free(struct index_job *job)
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

/* One repository on its way from request to index. */
struct asked {
	const struct index_request *request;
	char *name;          /* of its digest */
	struct digest known; /* what the cache has */
	bool usable;         /* @known may be used, fresh or not */
	bool fresh;
	bool wanted;      /* the mirror is to be asked */
	int cache_result; /* why the cache has nothing usable, with @cache_error */
	struct error cache_error;
	int result; /* of asking the mirror, with @error */
	struct error error;
};

static void asked_free(struct asked **asked, size_t count)
{
	for (size_t i = 0; *asked && i < count; i++) {
		free((*asked)[i].name);
		digest_free(&(*asked)[i].known);
	}
	free(*asked);
	*asked = NULL;
}

static bool wants_signature(
	const struct index_request *request, const struct index_options *options)
{
	return request->repository->trust == TRUST_INDEX && !options->allow_unsigned;
}

/* Looks into the cache. A damaged digest is as good as none, unless the mirror cannot be asked. */
static void look(struct asked *asked, const struct index_options *options)
{
	struct digest *known = &asked->known;
	struct error expired;
	time_t now = time(NULL);

	digest_free(known);
	asked->usable = false;
	asked->fresh = false;
	asked->cache_result =
		digest_read(options->folder_fd, asked->name, known, &asked->cache_error);
	if (asked->cache_result < 0)
		return;
	/* Written under --allow-unsigned, it is not for a run without. */
	if (!known->absent && !known->signer && wants_signature(asked->request, options)) {
		digest_free(known);
		asked->cache_result = -ENOENT;
		return;
	}
	asked->usable = !known->absent;
	asked->fresh =
		known->asked_s <= now && now - known->asked_s < INDEX_MAX_AGE_S &&
		index_check_expiry(asked->request, options, known->valid_until_s, &expired) == 0;
}

static bool must_ask(const struct asked *asked, const struct index_options *options)
{
	if (download_is_offline(options->download))
		return !asked->usable; /* a mirror on this machine's disk can still be asked */
	return !asked->fresh || options->refresh;
}

/* One run at a time fetches lists; the next one finds them fetched. */
static int lock_folder(const struct index_options *options, int *ret_fd, struct error *error)
{
	_cleanup_close_ int fd =
		openat(options->folder_fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC, 0644);

	if (fd < 0)
		return error_set_errno(error, -errno, "indexes/lock");
	while (flock(fd, LOCK_EX) < 0)
		if (errno != EINTR)
			return error_set_errno(error, -errno, "indexes/lock");
	*ret_fd = TAKE_FD(fd);
	return 0;
}

static int make_folder(struct index_job *job, int folder_fd, size_t number)
{
	char path[64];
	int r;

	(void) snprintf(path, sizeof(path), "work/%zu", number);
	r = fs_mkdir_parents(folder_fd, path, 0700);
	if (r < 0)
		return r;
	job->work_fd = openat(folder_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return job->work_fd < 0 ? -errno : 0;
}

static int job_prepare(struct index_job *job, const struct asked *asked,
	const struct index_options *options, size_t number, struct error *error)
{
	const struct index_request *request = asked->request;
	int r;

	job->request = request;
	job->options = options;
	job->known = asked->usable ? &asked->known : NULL;
	job->kind =
		request->repository->kind == REPOSITORY_APT ? &index_kind_apt : &index_kind_rpm_md;
	r = make_folder(job, options->folder_fd, number);
	if (r == -ENOSPC)
		return index_disk_full("indexes/work", error);
	if (r < 0)
		return error_set_errno(error, r, "indexes/work");
	/* One repository's trouble: the others are asked. */
	job->result = mirrors_credentials(
		request->mirror, request->repository, &job->credentials, &job->error);
	job->done = job->result < 0;
	return 0;
}

/* What came of a job goes into the cache, also that there is no such list. */
static int job_keep(
	struct index_job *job, const struct asked *asked, const struct index_options *options)
{
	int r = job->result;

	if (r == 0 && job->unchanged)
		return digest_touch(options->folder_fd, asked->name, &job->error);
	if (r == -EADDRNOTAVAIL && job->absent) {
		digest_free(&job->made);
		job->made.absent = strdup(job->error.text);
		for (char *c = job->made.absent; c && *c; c++)
			if (*c == '\r' || *c == '\n')
				*c = ' ';
	} else if (r < 0) {
		return r;
	}
	package_list_sort(&job->made.packages);
	r = digest_write(options->folder_fd, asked->name, &job->made, &job->error);
	if (r == -ENOSPC)
		return index_disk_full(asked->request->url, &job->error);
	return r < 0 ? r : job->result;
}

static void job_settle(
	struct index_job *job, struct asked *asked, const struct index_options *options)
{
	asked->result = job_keep(job, asked, options);
	asked->error = job->error;
	if (asked->result == 0)
		look(asked, options);
}

static int run_jobs(struct asked *asked, size_t count, struct index_job *jobs, size_t wanted,
	const struct index_options *options, struct error *error)
{
	size_t job = 0;
	int r = 0;

	for (size_t i = 0; i < count && r == 0; i++)
		if (asked[i].wanted) {
			r = job_prepare(&jobs[job], &asked[i], options, job, error);
			job++;
		}
	if (r == 0)
		r = index_jobs_run(jobs, wanted, error);
	job = 0;
	for (size_t i = 0; i < count && r == 0; i++)
		if (asked[i].wanted)
			job_settle(&jobs[job++], &asked[i], options);
	return r;
}

static int make_jobs(struct asked *asked, size_t count, size_t wanted,
	const struct index_options *options, struct error *error)
{
	struct index_job *jobs = calloc(wanted, sizeof(*jobs));
	int r;

	if (!jobs)
		return error_set_errno(error, -ENOMEM, "fetching the lists");
	for (size_t i = 0; i < wanted; i++)
		jobs[i].work_fd = -1;
	r = run_jobs(asked, count, jobs, wanted, options, error);
	for (size_t i = 0; i < wanted; i++)
		index_job_free(&jobs[i]);
	free(jobs);
	return r;
}

/* What a killed run left goes too. */
static int empty_work(const struct index_options *options, struct error *error)
{
	int r = fs_remove_tree(options->folder_fd, "work");

	return r < 0 ? error_set_errno(error, r, "indexes/work") : 0;
}

static int ask(
	struct asked *asked, size_t count, const struct index_options *options, struct error *error)
{
	_cleanup_close_ int lock_fd = -1;
	time_t before = time(NULL);
	struct error ignored;
	size_t wanted = 0;
	int left;
	int r = lock_folder(options, &lock_fd, error);

	for (size_t i = 0; i < count && r == 0; i++) {
		if (!must_ask(&asked[i], options))
			continue;
		/* Another run may have fetched it while this one waited for the lock. */
		look(&asked[i], options);
		asked[i].wanted = must_ask(&asked[i], options) &&
				  !(asked[i].fresh && asked[i].known.asked_s > before);
		wanted += asked[i].wanted;
	}
	if (r < 0 || wanted == 0)
		return r;
	r = empty_work(options, error);
	if (r < 0)
		return r;
	r = make_jobs(asked, count, wanted, options, error);
	left = empty_work(options, r < 0 ? &ignored : error);
	return r < 0 ? r : left;
}

static char *age_text(int64_t seconds)
{
	char *text = NULL;

	if (seconds >= 48L * 3600)
		return asprintf(&text, "%lld days", (long long) seconds / 86400) < 0 ? NULL : text;
	if (seconds >= 2L * 3600)
		return asprintf(&text, "%lld hours", (long long) seconds / 3600) < 0 ? NULL : text;
	return asprintf(&text, "%lld minutes", (long long) seconds / 60) < 0 ? NULL : text;
}

static int64_t age_of(const struct digest *digest)
{
	int64_t age = (int64_t) time(NULL) - (int64_t) digest->asked_s;

	return age < 0 ? 0 : age;
}

static int add_warning(struct index *index, const char *text)
{
	char *longer = NULL;

	if (asprintf(&longer, "%s%s%s", index->warning ? index->warning : "",
		    index->warning ? "; " : "", text) < 0)
		return -ENOMEM;
	free(index->warning);
	index->warning = longer;
	return 0;
}

static int warn_of_age(
	struct index *index, const struct asked *asked, const struct index_options *options)
{
	_cleanup_free_ char *age = age_text(age_of(&asked->known));
	_cleanup_free_ char *text = NULL;

	if (asked->result == 0 && (asked->fresh || !download_is_offline(options->download)))
		return 0;
	if (!age)
		return -ENOMEM;
	if (asprintf(&text, "the list of %s is %s old: %s", asked->request->repository->name, age,
		    asked->result < 0 ? asked->error.text : "working offline") < 0)
		return -ENOMEM;
	return add_warning(index, text);
}

/* What is accepted although something about it is not as it should be. */
static int add_warnings(
	struct index *index, const struct asked *asked, const struct index_options *options)
{
	const struct index_request *request = asked->request;
	const struct digest *known = &asked->known;
	_cleanup_free_ char *text = NULL;
	int r = warn_of_age(index, asked, options);

	if (r == 0 && !known->signer && request->repository->trust == TRUST_INDEX) {
		if (asprintf(&text,
			    "the list of %s carries no signature that could be checked: it is "
			    "used because --allow-unsigned says so",
			    request->repository->name) < 0)
			return -ENOMEM;
		r = add_warning(index, text);
	}
	if (r == 0 && known->valid_until_s && time(NULL) > (time_t) known->valid_until_s &&
		!request->repository->archive)
		r = add_warning(index, "the list is past its Valid-Until: there may be newer ones");
	return r;
}

static char *text_or_nothing(char **slot)
{
	char *text = TAKE_PTR(*slot);

	return text ? text : strdup("");
}

static int fill(struct index *index, struct asked *asked, const struct index_options *options)
{
	struct digest *known = &asked->known;
	int r = add_warnings(index, asked, options);

	if (r < 0)
		return r;
	index->release_sha256 = text_or_nothing(&known->release_sha256);
	index->date = text_or_nothing(&known->date);
	index->signer = text_or_nothing(&known->signer);
	if (!index->release_sha256 || !index->date || !index->signer)
		return -ENOMEM;
	index->listed = known->listed;
	index->not_automatic = known->not_automatic;
	index->packages = TAKE_PTR(known->packages.items);
	index->count = known->packages.count;
	known->packages = (struct package_list){ 0 };
	return 0;
}

/* The mirror could not be asked, which an older list makes up for. */
static bool is_out_of_reach(int result)
{
	return result == -EHOSTUNREACH || result == -ETIMEDOUT || result == -ENETDOWN;
}

static int fail(struct index *index, int result, const struct error *error)
{
	index->error = *error;
	return result;
}

static int settle_absent(struct index *index, const struct asked *asked)
{
	_cleanup_free_ char *age = age_text(age_of(&asked->known));

	return error_set(&index->error, -EADDRNOTAVAIL,
		"%s (the mirror was asked %s ago: --refresh asks it again)", asked->known.absent,
		age ? age : "some time");
}

static int settle(struct index *index, struct asked *asked, const struct index_options *options)
{
	/* The mirror is out of reach, and the list that is here will do. */
	bool kept = asked->result < 0 && asked->usable && is_out_of_reach(asked->result) &&
		    !options->refresh;
	int r = 0;

	if (asked->result == -ENETDOWN && asked->cache_result == -EUCLEAN)
		return fail(index, asked->cache_result, &asked->cache_error);
	if (asked->result == -ENETDOWN && !kept)
		return error_set(&index->error, -ENETDOWN,
			"%s: the lists of %s are not in the cache, and --offline forbids to fetch "
			"them: run slipway resolve once without it",
			asked->request->url, asked->request->repository->name);
	if (asked->result < 0 && !kept)
		return fail(index, asked->result, &asked->error);
	if (asked->known.absent && !kept)
		return settle_absent(index, asked);
	if (!asked->usable)
		return fail(index, asked->cache_result, &asked->cache_error);
	/* An attacker who keeps the mirror away must not keep an expired list alive. */
	if (!download_is_offline(options->download))
		r = index_check_expiry(
			asked->request, options, asked->known.valid_until_s, &index->error);
	if (r == 0)
		r = fill(index, asked, options);
	return r == -ENOMEM ? error_set_errno(&index->error, r, "%s", asked->request->url) : r;
}

int indexes_open(const struct index_options *options, const struct index_request *requests,
	size_t count, struct index **ret, struct error *error)
{
	struct asked *asked = calloc(count ? count : 1, sizeof(*asked));
	struct index *indexes = calloc(count ? count : 1, sizeof(*indexes));
	bool must = false;
	int r = asked && indexes ? 0 : -ENOMEM;

	for (size_t i = 0; i < count && r == 0; i++) {
		asked[i].request = &requests[i];
		r = digest_name(&requests[i], options, &asked[i].name);
		if (r < 0)
			break;
		look(&asked[i], options);
		must = must || must_ask(&asked[i], options);
	}
	if (r < 0)
		(void) error_set_errno(error, r, "package lists");
	if (r == 0 && must)
		r = ask(asked, count, options, error);
	for (size_t i = 0; i < count && r == 0; i++) {
		indexes[i].request = &requests[i];
		indexes[i].result = settle(&indexes[i], &asked[i], options);
	}
	asked_free(&asked, asked ? count : 0);
	if (r < 0) {
		free(indexes);
		return r;
	}
	*ret = indexes;
	return 0;
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
