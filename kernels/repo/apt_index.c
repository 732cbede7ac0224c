/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lists of an apt suite: InRelease, or Release and Release.gpg, then Packages of each
 * component. https://wiki.debian.org/DebianRepository/Format
 */
#include <fcntl.h>
#include <string.h>

#include "common/fs.h"
#include "kernels/repo/index_job.h"
#include "kernels/repo/release.h"
#include "kernels/repo/signature.h"
#include "kernels/repo/stream.h"

#define RELEASE_LIMIT_BYTES ((uint64_t) 32 << 20)
#define LIST_LIMIT_BYTES    ((uint64_t) 1 << 30)

/* Smallest first: what apt's own lists come in. "" is the list as it is. */
static const char *const suffixes[] = { ".xz", ".zst", ".bz2", ".gz", "" };

struct component {
	char *list;     /* "main/binary-amd64/Packages" */
	size_t attempt; /* counts through the suffixes, twice where there is by-hash */
	const struct release_file *file; /* of the attempt at hand */
	size_t number;                   /* of its file in this round */
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

	if (!state)
		return;
	for (size_t i = 0; i < state->count; i++)
		free(state->components[i].list);
	free(state->components);
	release_free(&state->release);
	free(state);
	job->state = NULL;
}

static const char *apt_arch(const char *arch)
{
	static const char *const names[][2] = { { "x86_64", "amd64" }, { "aarch64", "arm64" },
		{ "ppc64le", "ppc64el" }, { "armv7l", "armhf" }, { "i686", "i386" } };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (strcmp(arch, names[i][0]) == 0)
			return names[i][1];
	return arch;
}

static int want_of_suite(
	struct index_job *job, const char *name, bool conditional, struct error *error)
{
	_cleanup_free_ char *path = NULL;
	struct index_wish wish = {
		.name = name, .limit_bytes = RELEASE_LIMIT_BYTES, .conditional = conditional
	};

	if (asprintf(&path, "dists/%s/%s", job->request->repository->suite, name) < 0)
		return error_set_errno(error, -ENOMEM, "%s", name);
	wish.path = path;
	return index_job_want(job, &wish, error);
}

static int apt_start(struct index_job *job, struct error *error)
{
	job->state = calloc(1, sizeof(struct apt_state));
	if (!job->state)
		return error_set_errno(error, -ENOMEM, "%s", job->request->url);
	return want_of_suite(job, "InRelease", true, error);
}

/* "bookworm" is what Debian's file calls Codename, "jammy-updates" what Ubuntu's calls Suite. */
static int check_suite(const struct index_job *job, const struct release *release, const char *name,
	struct error *error)
{
	const char *suite = job->request->repository->suite;

	if (strcmp(release->suite, suite) == 0 || strcmp(release->codename, suite) == 0)
		return 0;
	return error_set(error, -EKEYREJECTED,
		"%s: is the signed file of the suite \"%.60s\" (codename \"%.60s\"), not of %s: the "
		"mirror serves one suite for another: use another with --mirror",
		name, release->suite, release->codename, suite);
}

static int read_release(
	struct index_job *job, const char *file, const char *url, struct error *error)
{
	struct apt_state *state = job->state;
	_cleanup_free_ char *text = NULL;
	size_t size;
	int r = fs_read(job->work_fd, file, RELEASE_LIMIT_BYTES, &text, &size);

	if (r < 0)
		return error_set_errno(error, r, "%s", url);
	r = release_parse(text, size, url, &state->release, error);
	if (r == 0)
		r = check_suite(job, &state->release, url, error);
	if (r == 0)
		r = index_check_expiry(
			job->request, job->options, state->release.valid_until_s, error);
	if (r < 0)
		return r;
	job->made.valid_until_s = state->release.valid_until_s;
	job->made.not_automatic = state->release.not_automatic;
	job->made.date = strdup(state->release.date);
	return job->made.date ? 0 : error_set_errno(error, -ENOMEM, "%s", url);
}

static const struct release_file *file_of(
	const struct release *release, const char *list, const char *suffix)
{
	char path[512];

	if (snprintf(path, sizeof(path), "%s%s", list, suffix) >= (int) sizeof(path))
		return NULL;
	return release_find(release, path);
}

/* A list that is empty, as those of most components of a security suite, need not be fetched. */
static bool is_empty_list(const struct release *release, const char *list)
{
	const struct release_file *plain = file_of(release, list, "");

	return plain && plain->size_bytes == 0;
}

static int add_components(struct index_job *job, struct error *error)
{
	const struct repository *repository = job->request->repository;
	struct apt_state *state = job->state;
	_cleanup_strv_ struct strv names = { 0 };
	bool listed = false;

	if (strv_split(&names, repository->components, " \t\n") < 0)
		return error_set_errno(error, -ENOMEM, "%s", job->request->url);
	state->components = calloc(names.count ? names.count : 1, sizeof(*state->components));
	if (!state->components)
		return error_set_errno(error, -ENOMEM, "%s", job->request->url);
	for (size_t i = 0; i < names.count; i++) {
		struct component component = { 0 };

		if (asprintf(&component.list, "%s/binary-%s/Packages", names.items[i],
			    apt_arch(job->request->arch)) < 0)
			return error_set_errno(error, -ENOMEM, "%s", job->request->url);
		for (size_t j = 0; j < ARRAY_SIZE(suffixes) && !component.file; j++)
			component.file = file_of(&state->release, component.list, suffixes[j]);
		listed = listed || component.file;
		component.done = !component.file || is_empty_list(&state->release, component.list);
		state->components[state->count++] = component;
	}
	if (listed)
		return 0;
	return error_set(error, -EADDRNOTAVAIL,
		"%s: the suite %s has no packages for %s in any of the components %s: see --arch "
		"and the catalogue's file of this distribution",
		job->request->url, repository->suite, apt_arch(job->request->arch),
		repository->components);
}

/* The component's next place to try: its file by hash, then by name, of each packing. */
static bool next_attempt(
	const struct release *release, struct component *component, bool *ret_by_hash)
{
	for (; component->attempt < 2 * ARRAY_SIZE(suffixes); component->attempt++) {
		const char *suffix = suffixes[component->attempt / 2];

		*ret_by_hash = component->attempt % 2 == 0;
		component->file = file_of(release, component->list, suffix);
		if (!component->file || (*ret_by_hash && !release->by_hash))
			continue;
		component->attempt++;
		return true;
	}
	return false;
}

static int want_list(
	struct index_job *job, struct component *component, bool by_hash, struct error *error)
{
	const char *suite = job->request->repository->suite;
	const struct release_file *file = component->file;
	_cleanup_free_ char *path = NULL;
	char name[32];
	struct index_wish wish = { .name = name,
		.sha256 = file->sha256,
		.size_bytes = file->size_bytes,
		.limit_bytes = LIST_LIMIT_BYTES };
	int r;

	(void) snprintf(name, sizeof(name), "list-%zu", job->file_count);
	if (by_hash)
		r = asprintf(&path, "dists/%s/%.*s/by-hash/SHA256/%s", suite,
			(int) (strrchr(file->path, '/') - file->path), file->path, file->sha256);
	else
		r = asprintf(&path, "dists/%s/%s", suite, file->path);
	if (r < 0)
		return error_set_errno(error, -ENOMEM, "%s", file->path);
	component->number = job->file_count;
	wish.path = path;
	return index_job_want(job, &wish, error);
}

/* Moves on to the lists that are still to come; without any the job is done. */
static int want_lists(struct index_job *job, struct error *error)
{
	struct apt_state *state = job->state;
	int r = 0;

	for (size_t i = 0; i < state->count && r == 0; i++) {
		struct component *component = &state->components[i];
		bool by_hash;

		if (component->done)
			continue;
		if (!next_attempt(&state->release, component, &by_hash))
			return error_set(error, -EADDRNOTAVAIL,
				"%s/dists/%s/%s: the mirror has it in none of the forms that its "
				"Release file names: it is incomplete: use another with --mirror",
				job->request->url, job->request->repository->suite,
				component->list);
		r = want_list(job, component, by_hash, error);
	}
	job->done = r == 0 && job->file_count == 0;
	return r;
}

static int check_signature(struct index_job *job, const char *url, const char *path,
	const char *detached, struct error *error)
{
	struct signature_request request = {
		.name = url,
		.folder_fd = job->work_fd,
		.path = path,
		.detached = detached,
		.output = detached ? NULL : "Release.text",
		.keyrings = &job->request->repository->keyrings,
		.keyring = job->options->keyring,
		.allow_unsigned = job->options->allow_unsigned,
	};
	_cleanup_(signature_free) struct signature signature = { 0 };
	int r = signature_check(&request, &signature, error);

	if (r == 0)
		job->made.signer = TAKE_PTR(signature.signer);
	return r;
}

/* The head is here and, unless it is the known one, says what to fetch. */
static int take_head(struct index_job *job, const char *path, const char *detached,
	const char *release, struct error *error)
{
	struct apt_state *state = job->state;
	_cleanup_free_ char *url = strdup(job->files[0].url);
	int r = url ? index_job_take_head(job, &job->files[0], path, error) : -ENOMEM;

	if (r < 0)
		return url ? r : error_set_errno(error, r, "%s", path);
	if (index_job_is_known(job)) {
		job->unchanged = true;
		job->done = true;
		return 0;
	}
	r = check_signature(job, url, path, detached, error);
	if (r == -EKEYREJECTED && detached) {
		struct error why = *error;

		return index_job_restart(job, r, &why, error);
	}
	if (r == 0)
		r = read_release(job, release, url, error);
	if (r == 0)
		r = add_components(job, error);
	if (r < 0)
		return r;
	index_job_forget_files(job);
	state->stage = STAGE_LISTS;
	return want_lists(job, error);
}

static int take_in_release(struct index_job *job, struct error *error)
{
	struct apt_state *state = job->state;
	const struct download_file *file = &job->files[0];
	int r;

	if (file->not_modified) {
		job->unchanged = true;
		job->done = true;
		return 0;
	}
	if (file->result == 0)
		return take_head(job, "InRelease", NULL, "Release.text", error);
	if (file->result != -EADDRNOTAVAIL) {
		*error = file->error;
		return file->result;
	}
	index_job_forget_files(job);
	state->stage = STAGE_RELEASE;
	r = want_of_suite(job, "Release", false, error);
	return r == 0 ? want_of_suite(job, "Release.gpg", false, error) : r;
}

static int take_release(struct index_job *job, struct error *error)
{
	const struct download_file *release = &job->files[0], *signature = &job->files[1];

	if (release->result < 0) {
		job->absent = release->result == -EADDRNOTAVAIL;
		*error = release->error;
		return release->result;
	}
	if (signature->result == 0)
		return take_head(job, "Release", "Release.gpg", "Release", error);
	if (signature->result != -EADDRNOTAVAIL) {
		*error = signature->error;
		return signature->result;
	}
	/* Without a signature's file it is what a clear-signed file without a signature is. */
	return take_head(job, "Release", NULL, "Release.text", error);
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
	if (r == 0 && package_list_push(&job->made.packages, &package) < 0)
		r = error_set_errno(error, -ENOMEM, "%s", job->request->url);
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
	_cleanup_close_ int fd = openat(job->work_fd, file->path, O_RDONLY | O_CLOEXEC);
	struct stream stream = {
		.fd = fd,
		.name = file->url,
		.limit_bytes = plain ? plain->size_bytes : 0,
		.unpacked = { .digest = STREAM_SHA256, .hex = plain ? plain->sha256 : NULL },
		.on_block = on_block,
		.context = reader,
	};
	int r;

	if (fd < 0 || !reader)
		return error_set_errno(error, fd < 0 ? -errno : -ENOMEM, "%s", file->url);
	r = stream_run(&stream, error);
	if (r == 0)
		r = stanza_reader_finish(reader, error);
	(void) unlinkat(job->work_fd, file->path, 0);
	return r;
}

static int take_list(struct index_job *job, struct component *component, struct error *error)
{
	const struct download_file *file = &job->files[component->number];
	int r;

	if (file->result == -EADDRNOTAVAIL)
		return 0; /* the next place is tried */
	if (file->result < 0) {
		*error = file->error;
		return file->result;
	}
	r = read_list(job, component, error);
	component->done = r == 0;
	return r;
}

static int take_lists(struct index_job *job, struct error *error)
{
	struct apt_state *state = job->state;
	int r = 0;

	for (size_t i = 0; i < state->count && r == 0; i++)
		if (!state->components[i].done)
			r = take_list(job, &state->components[i], error);
	if (r == 0) {
		index_job_forget_files(job);
		r = want_lists(job, error);
	}
	/* A mirror in the middle of an update has lists of one time and an InRelease of another. */
	if (r == -EBADMSG || r == -EADDRNOTAVAIL) {
		struct error why = *error;

		return index_job_restart(job, r, &why, error);
	}
	return r;
}

static int apt_take(struct index_job *job, struct error *error)
{
	const struct apt_state *state = job->state;

	switch (state->stage) {
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
