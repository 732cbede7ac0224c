/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lists of an apt suite: InRelease, or Release and Release.gpg, then Packages of each
 * component. https://wiki.debian.org/DebianRepository/Format
 */
#include <string.h>

#include "common/fs.h"
#include "common/xalloc.h"
#include "kernels/krel.h"
#include "kernels/repo/repo_internal.h"

#define RELEASE_LIMIT_BYTES ((uint64_t) 32 << 20)
#define LIST_LIMIT_BYTES    ((uint64_t) 1 << 30)

/* Smallest first: what apt's own lists come in. "" is the list as it is. */
static const char *const suffixes[] = { ".xz", ".zst", ".bz2", ".gz", "" };

struct component {
	char *list;     /* "main/binary-amd64/Packages" */
	size_t attempt; /* counts through the suffixes, twice where there is by-hash */
	size_t number;  /* of its file in this round */
	char name[32];  /* of that file */
	bool done;
};

enum stage { STAGE_IN_RELEASE, STAGE_RELEASE, STAGE_LISTS };

struct apt_state {
	enum stage stage;
	struct release release;
	struct component *components;
	size_t count;
};

static void apt_free(struct index_job *job)
{
	struct apt_state *state = job->state;

	for (size_t i = 0; i < state->count; i++)
		free(state->components[i].list);
	free(state->components);
	release_free(&state->release);
	free(state);
}

static void want_of_suite(struct index_job *job, const char *name, bool conditional)
{
	index_job_want(job,
		(struct download_file){ .path = name, .limit_bytes = RELEASE_LIMIT_BYTES },
		conditional, "dists/%s/%s", job->request->repository->suite, name);
}

static void apt_start(struct index_job *job)
{
	job->state = xcalloc(1, sizeof(struct apt_state));
	want_of_suite(job, "InRelease", true);
}

static int read_release(
	struct index_job *job, const char *file, const char *url, struct error *error)
{
	const char *suite = job->request->repository->suite;
	struct release *release = &((struct apt_state *) job->state)->release;
	_cleanup_free_ char *text = NULL;
	size_t size;
	int r = fs_read(job->work_fd, file, RELEASE_LIMIT_BYTES, &text, &size);

	if (r < 0)
		return error_set_errno(error, r, "%s", url);
	r = release_parse(text, size, url, release, error);
	if (r < 0)
		return r;
	/* "bookworm" is Debian's Codename, "jammy-updates" Ubuntu's Suite. */
	if (strcmp(release->suite, suite) != 0 && strcmp(release->codename, suite) != 0)
		return error_set(error, -EKEYREJECTED,
			"%s: is the signed file of the suite \"%.60s\" (codename \"%.60s\"), not "
			"of %s: the mirror serves one suite for another: use another with --mirror",
			url, release->suite, release->codename, suite);
	r = index_check_expiry(job->request, job->options, release->valid_until_s, error);
	if (r < 0)
		return r;
	job->made.valid_until_s = release->valid_until_s;
	job->made.not_automatic = release->not_automatic;
	job->made.date = xstrdup(release->date);
	return 0;
}

static const struct release_file *file_of(
	const struct release *release, const char *list, const char *suffix)
{
	_cleanup_free_ char *path = xasprintf("%s%s", list, suffix);

	return release_find(release, path);
}

static int add_components(struct index_job *job, struct error *error)
{
	const struct repository *repository = job->request->repository;
	const char *arch = arch_debian(job->request->arch);
	struct apt_state *state = job->state;
	_cleanup_strv_ struct strv names = { 0 };
	bool any = false;

	xstrv_split(&names, repository->components, " \t\n");
	state->components = xcalloc(names.count, sizeof(*state->components));
	for (size_t i = 0; i < names.count; i++) {
		struct component *component = &state->components[state->count++];
		const struct release_file *plain;
		bool listed = false;

		component->list = xasprintf("%s/binary-%s/Packages", names.items[i], arch);
		for (size_t j = 0; j < ARRAY_SIZE(suffixes) && !listed; j++)
			listed = file_of(&state->release, component->list, suffixes[j]);
		/* An empty list, as of most components of a security suite, is not fetched. */
		plain = file_of(&state->release, component->list, "");
		component->done = !listed || (plain && plain->size_bytes == 0);
		any |= listed;
	}
	if (any)
		return 0;
	return error_set(error, -EADDRNOTAVAIL,
		"%s: the suite %s has no packages for %s in any of the components %s: see --arch "
		"and the catalogue's file of this distribution",
		job->request->url, repository->suite, arch, repository->components);
}

/* The component's next place: its file by hash, then by name, of each packing. False: none left. */
static bool want_list(struct index_job *job, struct component *component)
{
	const char *suite = job->request->repository->suite;
	const struct release *release = &((struct apt_state *) job->state)->release;

	while (component->attempt < 2 * ARRAY_SIZE(suffixes)) {
		bool by_hash = component->attempt % 2 == 0;
		const struct release_file *file =
			file_of(release, component->list, suffixes[component->attempt++ / 2]);
		struct download_file wanted = { .path = component->name,
			.limit_bytes = LIST_LIMIT_BYTES };

		if (!file || (by_hash && !release->by_hash))
			continue;
		component->number = job->file_count;
		(void) snprintf(
			component->name, sizeof(component->name), "list-%zu", component->number);
		wanted.sha256 = file->sha256;
		wanted.size_bytes = file->size_bytes;
		if (by_hash)
			index_job_want(job, wanted, false, "dists/%s/%.*s/by-hash/SHA256/%s", suite,
				(int) (strrchr(file->path, '/') - file->path), file->path,
				file->sha256);
		else
			index_job_want(job, wanted, false, "dists/%s/%s", suite, file->path);
		return true;
	}
	return false;
}

/* Moves on to the lists that are still to come; without any the job is done. */
static int want_lists(struct index_job *job, struct error *error)
{
	struct apt_state *state = job->state;

	index_job_forget_files(job);
	for (size_t i = 0; i < state->count; i++)
		if (!state->components[i].done && !want_list(job, &state->components[i]))
			return error_set(error, -EADDRNOTAVAIL,
				"%s/dists/%s/%s: the mirror has it in none of the forms that its "
				"Release file names: it is incomplete: use another with --mirror",
				job->request->url, job->request->repository->suite,
				state->components[i].list);
	job->done = job->file_count == 0;
	return 0;
}

/* The head is here and, unless it is the known one, has what to fetch. */
static int take_head(
	struct index_job *job, const char *path, const char *detached, struct error *error)
{
	const char *url = job->files[0].url;
	const char *text = detached ? path : "Release.text";
	int r = index_job_take_head(job, path, error);

	if (r < 0 || job->done)
		return r;
	r = index_job_check_signature(job, path, detached, detached ? NULL : text, false, error);
	if (r == -EKEYREJECTED && detached)
		return index_job_restart(job, r);
	if (r == 0)
		r = read_release(job, text, url, error);
	if (r == 0)
		r = add_components(job, error);
	if (r < 0)
		return r;
	((struct apt_state *) job->state)->stage = STAGE_LISTS;
	return want_lists(job, error);
}

static int take_in_release(struct index_job *job, struct error *error)
{
	const struct download_file *file = &job->files[0];

	if (file->result == 0)
		return take_head(job, "InRelease", NULL, error);
	if (file->result != -EADDRNOTAVAIL)
		return index_job_failed(file, error);
	index_job_forget_files(job);
	((struct apt_state *) job->state)->stage = STAGE_RELEASE;
	want_of_suite(job, "Release", false);
	want_of_suite(job, "Release.gpg", false);
	return 0;
}

static int take_release(struct index_job *job, struct error *error)
{
	const struct download_file *release = &job->files[0], *signature = &job->files[1];

	if (release->result < 0) {
		job->absent = release->result == -EADDRNOTAVAIL;
		return index_job_failed(release, error);
	}
	if (signature->result == 0)
		return take_head(job, "Release", "Release.gpg", error);
	if (signature->result != -EADDRNOTAVAIL)
		return index_job_failed(signature, error);
	/* Without a signature's file it is what a clear-signed file without a signature is. */
	return take_head(job, "Release", NULL, error);
}

static int on_stanza(void *context, const struct stanza *stanza, struct error *error)
{
	struct index_job *job = context;
	const char *name = stanza_value(stanza, "Package");
	struct package package = { 0 };
	int r;

	job->made.listed++;
	if (name && !index_keeps(job->request->keep, name))
		return 0;
	r = package_from_stanza(stanza, job->request->url, &package, error);
	if (r == 0)
		package_list_push(&job->made.packages, &package);
	return r;
}

static int on_block(void *context, const char *data, size_t size, struct error *error)
{
	return stanza_reader_feed(context, data, size, error);
}

static int read_list(struct index_job *job, const struct component *component, struct error *error)
{
	const struct apt_state *state = job->state;
	const struct download_file *file = &job->files[component->number];
	const struct release_file *plain = file_of(&state->release, component->list, "");
	_cleanup_(stanza_reader_free) struct stanza_reader *reader =
		stanza_reader_new(file->url, on_stanza, job);
	const struct stream stream = {
		.dir_fd = job->work_fd,
		.path = file->path,
		.name = file->url,
		.limit_bytes = plain ? plain->size_bytes : 0,
		.unpacked = plain ? plain->sha256 : NULL,
		.on_block = on_block,
		.context = reader,
	};
	int r = stream_run(&stream, error);

	return r == 0 ? stanza_reader_finish(reader, error) : r;
}

static int take_lists(struct index_job *job, struct error *error)
{
	struct apt_state *state = job->state;
	int r = 0;

	for (size_t i = 0; i < state->count && r == 0; i++) {
		struct component *component = &state->components[i];
		const struct download_file *file = &job->files[component->number];

		if (component->done || file->result == -EADDRNOTAVAIL)
			continue; /* where it was not found, the next place is tried */
		r = file->result < 0 ? index_job_failed(file, error)
				     : read_list(job, component, error);
		component->done = r == 0;
	}
	if (r == 0)
		r = want_lists(job, error);
	/* A mirror in the middle of an update has lists of one time and an InRelease of another. */
	return r == -EBADMSG || r == -EADDRNOTAVAIL ? index_job_restart(job, r) : r;
}

static int apt_take(struct index_job *job, struct error *error)
{
	switch (((const struct apt_state *) job->state)->stage) {
	case STAGE_IN_RELEASE:
		return take_in_release(job, error);
	case STAGE_RELEASE:
		return take_release(job, error);
	case STAGE_LISTS:
		return take_lists(job, error);
	}
	return -EINVAL;
}

const struct index_kind index_kind_apt = {
	.start = apt_start,
	.take = apt_take,
	.free = apt_free,
};
