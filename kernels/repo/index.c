/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/repo/index.h"

#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#include "common/fs.h"
#include "common/xalloc.h"
#include "kernels/disk_full.h"
#include "kernels/repo/repo_internal.h"
#include "kernels/repo/signature.h"
#include "kernels/web_page.h"

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

/* ---- what the cache remembers of a list */

/* Raise the number whenever what is written changes. */
#define FIRST_FIELD "Slipway-Index: 1 "
#define START       (sizeof(FIRST_FIELD) - 1)
#define HEAD        (START + HASH_HEX_SIZE) /* with the line's end */

/* A package's stanza is shorter than what the package takes in memory; and there is the head. */
#define DIGEST_LIMIT_BYTES (PACKAGE_LIST_LIMIT_BYTES + ((size_t) 1 << 20))

void digest_free(struct digest *digest)
{
	free(digest->absent);
	free(digest->release_sha256);
	free(digest->date);
	free(digest->signer);
	free(digest->etag);
	free(digest->last_modified);
	package_list_free(&digest->packages);
	*digest = (struct digest){ 0 };
}

char *digest_name(const struct index_request *request, const struct index_options *options)
{
	const struct repository *repository = request->repository;
	struct hash *hash = hash_new();
	char hex[HASH_HEX_SIZE];

	hash_add_text(hash, FIRST_FIELD);
	hash_add_text(hash, request->url);
	hash_add_text(hash, request->arch);
	hash_add_text(hash, repository->suite);
	hash_add_text(hash, repository->components);
	hash_add_text(hash, repository->kind == REPOSITORY_APT ? "apt" : "rpm-md");
	signature_hash_keyring(&repository->keyrings, options->keyring, hash);
	for (size_t i = 0; i < request->keep->count; i++)
		hash_add_text(hash, request->keep->items[i]);
	hash_finish(hash, hex);
	return xasprintf("%s.digest", hex);
}

/* The fields about the list as a whole that are texts: written in this order, if not empty. */
static const struct field {
	const char *name;
	size_t offset;
} fields[] = {
	{ "Absent", offsetof(struct digest, absent) },
	{ "Release-SHA256", offsetof(struct digest, release_sha256) },
	{ "Date", offsetof(struct digest, date) },
	{ "Signer", offsetof(struct digest, signer) },
	{ "ETag", offsetof(struct digest, etag) },
	{ "Last-Modified", offsetof(struct digest, last_modified) },
};

static char **slot_of(const struct digest *digest, const struct field *field)
{
	return (char **) ((uintptr_t) digest + field->offset);
}

struct digest_job {
	struct digest *digest;
	const char *name;
	bool has_head;
};

static int on_stanza(void *context, const struct stanza *stanza, struct error *error)
{
	struct digest_job *job = context;
	struct digest *digest = job->digest;
	_cleanup_(package_free) struct package package = { 0 };
	uint64_t until_s = 0;
	int r;

	if (job->has_head) {
		r = package_from_stanza(stanza, job->name, &package, error);
		return r < 0 ? r : package_list_push(&digest->packages, &package, job->name, error);
	}
	job->has_head = true;
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		const char *value = stanza_value(stanza, fields[i].name);

		if (value && *value)
			*slot_of(digest, &fields[i]) = xstrdup(value);
	}
	(void) list_number(stanza_value(stanza, "Valid-Until"), &until_s);
	(void) list_number(stanza_value(stanza, "Listed"), &digest->listed);
	digest->valid_until_s = (int64_t) until_s;
	digest->not_automatic = stanza_value(stanza, "NotAutomatic") != NULL;
	return 0;
}

static int damaged(const char *name, const char *why, struct error *error)
{
	return error_set(error, -EUCLEAN,
		"indexes/%s: the cached list is damaged: %s: it will be fetched again when the "
		"mirror can be reached",
		name, why);
}

int digest_parse(
	const char *text, size_t size, const char *name, struct digest *ret, struct error *error)
{
	_cleanup_(digest_free) struct digest digest = { 0 };
	struct digest_job job = { .digest = &digest, .name = name };
	_cleanup_(stanza_reader_free) struct stanza_reader *reader = NULL;
	char hex[HASH_HEX_SIZE];
	struct error why = { 0 };
	int r;

	if (size < HEAD || memcmp(text, FIRST_FIELD, START) != 0 || text[HEAD - 1] != '\n')
		return damaged(name, "it has no valid beginning", error);
	hash_bytes(text + HEAD, size - HEAD, hex);
	if (memcmp(text + START, hex, HASH_HEX_SIZE - 1) != 0)
		return damaged(name, "its hash differs", error);
	reader = stanza_reader_new(name, on_stanza, &job);
	r = stanza_reader_feed(reader, text + HEAD, size - HEAD, &why);
	if (r == 0)
		r = stanza_reader_finish(reader, &why);
	if (r < 0)
		return damaged(name, why.text, error);
	if (!job.has_head)
		return damaged(name, "it is empty", error);
	*ret = digest;
	digest = (struct digest){ 0 };
	return 0;
}

static int digest_read(int folder_fd, const char *name, struct digest *ret, struct error *error)
{
	_cleanup_free_ char *text = NULL;
	struct stat status = { 0 };
	size_t size;
	int r = fs_read(folder_fd, name, DIGEST_LIMIT_BYTES, &text, &size);

	if (r == 0 && fstatat(folder_fd, name, &status, 0) < 0)
		r = -errno;
	if (r < 0)
		return error_set_errno(error, r, "indexes/%s", name);
	r = digest_parse(text, size, name, ret, error);
	if (r == 0)
		ret->asked_s = status.st_mtime;
	return r;
}

static int digest_write(
	int folder_fd, const char *name, const struct digest *digest, struct error *error)
{
	_cleanup_free_ char *text = NULL;
	size_t size = 0;
	FILE *file = open_memstream(&text, &size);
	char hex[HASH_HEX_SIZE];
	int r;

	if (!file)
		out_of_memory();
	/* The hash stands before what it covers: its place is left free at first. */
	fprintf(file, "%s%*s\n", FIRST_FIELD, HASH_HEX_SIZE - 1, "");
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		const char *value = *slot_of(digest, &fields[i]);

		if (value && *value)
			fprintf(file, "%s: %s\n", fields[i].name, value);
	}
	if (digest->not_automatic)
		fputs("NotAutomatic: yes\n", file);
	if (digest->valid_until_s > 0)
		fprintf(file, "Valid-Until: %" PRId64 "\n", digest->valid_until_s);
	fprintf(file, "Listed: %" PRIu64 "\n\n", digest->listed);
	for (size_t i = 0; i < digest->packages.count; i++)
		package_write(&digest->packages.items[i], file);
	if (fclose(file) != 0)
		out_of_memory();
	hash_bytes(text + HEAD, size - HEAD, hex);
	memcpy(text + START, hex, HASH_HEX_SIZE - 1);
	r = fs_write_atomic(folder_fd, name, text, size, 0644);
	return r < 0 ? error_set_errno(error, r, "indexes/%s", name) : 0;
}

/* ---- what kinds of repositories call */

void index_job_want(struct index_job *job, struct download_file file, const char *place, ...)
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
	(void) error_set(error, -EKEYREJECTED,
		"%s: the list of %s expired on %s: the mirror is out of date, or this machine's "
		"clock is wrong",
		request->url, request->repository->name, text);
	(void) error_try(error, -EKEYREJECTED, "use another mirror: --mirror URL");
	return error_try(error, -EKEYREJECTED, "accept the expired list: --allow-expired");
}

/* ---- the head of a repository's lists */

/* File for the text that a clear signature covers. */
#define SIGNED_TEXT "head.text"

/* May what is remembered be used, fresh or not? */
static bool is_usable(const struct index_job *job)
{
	return job->cache_result == 0 && !job->known.absent;
}

static void want_head(struct index_job *job)
{
	const struct index_head *head = &job->kind->heads[job->head];
	struct download_file wanted = { .path = head->name,
		.limit_bytes = job->kind->head_limit_bytes };

	index_job_forget_files(job);
	/* Only where it is not as the cache has it. */
	if (job->head == 0 && is_usable(job) && !job->restarted) {
		wanted.etag = job->known.etag;
		wanted.last_modified = job->known.last_modified;
	}
	index_job_want(job, wanted, "%s/%s", job->folder, head->name);
	if (!head->signature)
		return;
	wanted = (struct download_file){ .path = head->signature,
		.limit_bytes = job->kind->head_limit_bytes };
	index_job_want(job, wanted, "%s/%s", job->folder, head->signature);
}

/* Everything anew, without conditions; where that was tried before, @code it is. */
static int restart(struct index_job *job, int code)
{
	if (job->restarted)
		return code;
	job->restarted = true;
	if (job->state)
		job->kind->free(TAKE_PTR(job->state));
	digest_free(&job->made);
	job->head = 0;
	want_head(job);
	return 0;
}

/* Header lines go into the digest as they are: nothing that could end a line there. */
static char *header_value(const char *text)
{
	return text && *text && !strpbrk(text, "\r\n") ? xstrdup(text) : NULL;
}

/* Is it the one that the cache's digest was made of? Then the job is done. */
static int compare_head(struct index_job *job, struct error *error)
{
	const struct download_file *file = &job->files[0];
	char hex[HASH_HEX_SIZE] = "";

	if (!file->not_modified) {
		int r = hash_file(job->work_fd, file->path, hex);

		if (r < 0)
			return error_set_errno(error, r, "%s", file->url);
		job->made.etag = header_value(file->new_etag);
		job->made.last_modified = header_value(file->new_last_modified);
		job->made.release_sha256 = xstrdup(hex);
	}
	job->unchanged = file->not_modified || (is_usable(job) && job->known.release_sha256 &&
						       strcmp(job->known.release_sha256, hex) == 0);
	job->done = job->unchanged;
	return 0;
}

/* *ret_text: the file whose content is signed. */
static int check_signature(struct index_job *job, const char **ret_text, struct error *error)
{
	const struct index_head *head = &job->kind->heads[job->head];
	const struct repository *repository = job->request->repository;
	const struct download_file *file = head->signature ? &job->files[1] : NULL;
	/* Object stores, where rpm-md lies, answer 403 for what they do not have. */
	bool missing =
		file && (file->result == -EADDRNOTAVAIL ||
				(file->result == -EACCES && repository->kind == REPOSITORY_RPM_MD));
	const struct signature_request request = {
		.name = job->files[0].url,
		.folder_fd = job->work_fd,
		.path = head->name,
		.detached = missing ? NULL : head->signature,
		.output = SIGNED_TEXT,
		.keyrings = &repository->keyrings,
		.keyring = job->options->keyring,
		/*
		 * If each package is signed, the list's signature is only an extra, checked if
		 * there is a key.
		 */
		.allow_unsigned = job->options->allow_unsigned ||
				  (repository->kind == REPOSITORY_RPM_MD &&
					  repository->trust == TRUST_PACKAGES),
	};

	if (missing && !request.allow_unsigned) {
		(void) error_set(error, -EKEYREJECTED,
			"%s: not signed: the mirror has no %s for it", request.name,
			head->signature);
		(void) error_try(error, -EKEYREJECTED, "use another mirror: --mirror URL");
		return error_try(
			error, -EKEYREJECTED, "accept the unsigned list: --allow-unsigned");
	}
	if (file && file->result < 0 && !missing)
		return index_job_failed(file, error);
	*ret_text = request.detached ? head->name : SIGNED_TEXT;
	return signature_check(&request, &job->made.signer, error);
}

static int take_head(struct index_job *job, struct error *error)
{
	const struct index_kind *kind = job->kind;
	const struct download_file *file = &job->files[0];
	_cleanup_free_ char *text = NULL;
	const char *name = NULL;
	size_t size;
	int r;

	if (file->result == -EADDRNOTAVAIL && job->head + 1 < ARRAY_SIZE(kind->heads) &&
		kind->heads[job->head + 1].name) {
		job->head++;
		want_head(job);
		return 0;
	}
	job->absent = file->result == -EADDRNOTAVAIL;
	if (file->result < 0)
		return index_job_failed(file, error);
	if (web_page_is(job->work_fd, file->path)) {
		(void) web_page_refuse(file->url, -EPROTO, error);
		return error_try(error, -EPROTO, "use another mirror: --mirror URL");
	}
	r = compare_head(job, error);
	if (r < 0 || job->done)
		return r;
	r = check_signature(job, &name, error);
	/* While a mirror is being updated, one of the two files may be newer than the other. */
	if (r == -EKEYREJECTED && job->file_count > 1 && job->files[1].result == 0)
		return restart(job, r);
	if (r < 0)
		return r;
	r = fs_read(job->work_fd, name, kind->head_limit_bytes, &text, &size);
	if (r < 0)
		return error_set_errno(error, r, "%s", file->url);
	return kind->read_head(job, text, size, error);
}

static int take(struct index_job *job, struct error *error)
{
	int r;

	if (!job->state)
		return take_head(job, error);
	r = job->kind->take_lists(job, error);
	/* A mirror in the middle of an update has lists of one time and a head of another. */
	return r == -EBADMSG || r == -EADDRNOTAVAIL ? restart(job, r) : r;
}

/* ---- rounds: files of all jobs are fetched, then looked at in threads */

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
		job->result = take(job, &job->error);
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
			files = xreallocarray(files, total + 1, sizeof(struct download_file *));
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
	job->fresh = known->asked_s <= now && now - known->asked_s < INDEX_MAX_AGE_S &&
		     index_check_expiry(job->request, options, known->valid_until_s, &expired) == 0;
}

static bool must_ask(const struct index_job *job)
{
	if (download_is_offline(job->options->download))
		return !is_usable(job); /* a mirror on this machine's disk can still be asked */
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
	const struct mirror *mirror = job->request->mirror;
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
	if (repository->kind == REPOSITORY_APT) {
		job->kind = &index_kind_apt;
		job->folder = xasprintf("dists/%s", repository->suite);
	} else {
		job->kind = &index_kind_rpm_md;
		job->folder = xstrdup("repodata");
	}
	/* One repository's trouble: the others are asked. */
	if (mirror->problem)
		job->result = error_set(&job->error, mirror->problem, "%s", mirror->why);
	else
		job->result =
			mirrors_credentials(mirror, repository, &job->credentials, &job->error);
	job->done = job->result < 0;
	if (!job->done)
		want_head(job);
	return 0;
}

/* Stores the job's result in the cache, also that there is no such list. */
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

/* Returns warnings about flaws that are accepted; NULL: there are none. */
static char *warning_of(const struct index_job *job)
{
	const struct repository *repository = job->request->repository;
	const struct digest *known = &job->known;
	_cleanup_strv_ struct strv warnings = { 0 };

	if (job->result < 0 || (!job->fresh && download_is_offline(job->options->download))) {
		_cleanup_free_ char *age = age_text(known);

		xstrv_pushf(&warnings, "the list of %s is %s old: %s", repository->name, age,
			job->result < 0 ? job->error.text : "working offline");
	}
	if (!known->signer && repository->trust == TRUST_INDEX)
		xstrv_pushf(&warnings,
			"the list of %s has no signature that could be checked: it is used because "
			"of --allow-unsigned",
			repository->name);
	if (known->valid_until_s && time(NULL) > (time_t) known->valid_until_s &&
		!repository->archive)
		xstrv_push(&warnings, "the list is past its Valid-Until date: there may be a newer "
				      "one");
	return warnings.count ? xstrv_join(&warnings, "; ") : NULL;
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
	bool kept = is_usable(job) && !options->refresh &&
		    (job->result == -EHOSTUNREACH || job->result == -ETIMEDOUT ||
			    job->result == -ENETDOWN);
	int r;

	if (job->result == -ENETDOWN && job->cache_result == -EUCLEAN) {
		index->error = job->cache_error;
		return job->cache_result;
	}
	if (job->result == -ENETDOWN && !kept)
		return error_set(&index->error, -ENETDOWN,
			"%s: the lists of %s are not in the cache and cannot be fetched with "
			"--offline: run slipway resolve once without it",
			job->request->url, job->request->repository->name);
	if (job->result < 0 && !kept) {
		index->error = job->error;
		return job->result;
	}
	if (known->absent && !kept) {
		_cleanup_free_ char *age = age_text(known);

		return error_set(&index->error, -EADDRNOTAVAIL,
			"%s (the mirror was asked %s ago; --refresh asks it again)", known->absent,
			age);
	}
	if (!is_usable(job)) {
		index->error = job->cache_error;
		return job->cache_result;
	}
	/* An attacker who keeps the mirror out of reach must not keep an expired list in use. */
	if (!download_is_offline(options->download)) {
		r = index_check_expiry(job->request, options, known->valid_until_s, &index->error);
		if (r < 0)
			return r;
	}
	index->warning = warning_of(job);
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
		job->kind->free(job->state);
	index_job_forget_files(job);
	free(job->folder);
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
