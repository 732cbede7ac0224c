/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lists of an apt suite: InRelease, or Release and Release.gpg, then Packages of each
 * component. https://wiki.debian.org/DebianRepository/Format
 */
#include <string.h>

#include "common/arch.h"
#include "common/fs.h"
#include "common/xalloc.h"
#include "kernels/repo/repo_internal.h"

#define LIST_LIMIT_BYTES ((uint64_t) 1 << 30)

/* Smallest first: what apt's own lists come in. "" is the list as it is. */
static const char *const suffixes[] = { ".xz", ".zst", ".bz2", ".gz", "" };

struct component {
	char *list;     /* "main/binary-amd64/Packages" */
	size_t attempt; /* counts through the suffixes, twice where there is by-hash */
	size_t number;  /* of its file in this round */
	char name[32];  /* of that file */
	bool done;
};

struct apt_state {
	struct release release;
	struct component *components;
	size_t count;
};

static void apt_free(void *context)
{
	struct apt_state *state = context;

	for (size_t i = 0; i < state->count; i++)
		free(state->components[i].list);
	free(state->components);
	release_free(&state->release);
	free(state);
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
		"%s: the suite %s has no packages for %s in the components %s: check --arch and "
		"the distribution's catalogue file",
		job->request->url, repository->suite, arch, repository->components);
}

/* The component's next place: its file by hash, then by name, of each packing. False: none left. */
static bool want_list(struct index_job *job, struct component *component)
{
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
			index_job_want(job, wanted, "%s/%.*s/by-hash/SHA256/%s", job->folder,
				(int) (strrchr(file->path, '/') - file->path), file->path,
				file->sha256);
		else
			index_job_want(job, wanted, "%s/%s", job->folder, file->path);
		return true;
	}
	return false;
}

/* Moves on to the lists that are still to come; without any the job is done. */
static int want_lists(struct index_job *job, struct error *error)
{
	struct apt_state *state = job->state;

	index_job_forget_files(job);
	for (size_t i = 0; i < state->count; i++) {
		if (state->components[i].done || want_list(job, &state->components[i]))
			continue;
		(void) error_set(error, -EADDRNOTAVAIL,
			"%s/%s/%s: the mirror is incomplete: it has none of the forms of this list "
			"that its Release file names",
			job->request->url, job->folder, state->components[i].list);
		return error_try(error, -EADDRNOTAVAIL, "use another mirror: --mirror URL");
	}
	job->done = job->file_count == 0;
	return 0;
}

static int apt_read_head(struct index_job *job, const char *text, size_t size, struct error *error)
{
	const char *suite = job->request->repository->suite;
	const char *url = job->files[0].url;
	struct apt_state *state = job->state = xcalloc(1, sizeof(*state));
	struct release *release = &state->release;
	int r = release_parse(text, size, url, release, error);

	if (r < 0)
		return r;
	/* "bookworm" is Debian's Codename, "jammy-updates" Ubuntu's Suite. */
	if (strcmp(release->suite, suite) != 0 && strcmp(release->codename, suite) != 0) {
		(void) error_set(error, -EKEYREJECTED,
			"%s: this is the signed file of the suite \"%.60s\" (codename \"%.60s\"), "
			"not of %s: the mirror serves the wrong suite",
			url, release->suite, release->codename, suite);
		return error_try(error, -EKEYREJECTED, "use another mirror: --mirror URL");
	}
	r = index_check_expiry(job->request, job->options, release->valid_until_s, error);
	if (r == 0)
		r = add_components(job, error);
	if (r < 0)
		return r;
	job->made.valid_until_s = release->valid_until_s;
	job->made.not_automatic = release->not_automatic;
	job->made.date = xstrdup(release->date);
	return want_lists(job, error);
}

static int on_stanza(void *context, const struct stanza *stanza, struct error *error)
{
	struct index_job *job = context;
	const char *name = stanza_value(stanza, "Package");
	_cleanup_(package_free) struct package package = { 0 };
	int r;

	job->made.listed++;
	if (name && !index_keeps(job->request->keep, name))
		return 0;
	r = package_from_stanza(stanza, job->request->url, &package, error);
	return r < 0 ? r
		     : package_list_push(&job->made.packages, &package, job->request->url, error);
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

static int apt_take_lists(struct index_job *job, struct error *error)
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
	return r < 0 ? r : want_lists(job, error);
}

const struct index_kind index_kind_apt = {
	.heads = { { "InRelease", NULL }, { "Release", "Release.gpg" } },
	.head_limit_bytes = (uint64_t) 32 << 20,
	.read_head = apt_read_head,
	.take_lists = apt_take_lists,
	.free = apt_free,
};
