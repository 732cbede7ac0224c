/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/repo/index.h"

#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#include "common/fs.h"
#include "kernels/repo/index_job.h"

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
