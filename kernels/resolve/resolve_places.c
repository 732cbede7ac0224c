/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/resolve/resolve_places.h"

#include <string.h>

#include "kernels/krel.h"

void place_set_free(struct place_set *set)
{
	indexes_free(&set->indexes, set->count);
	for (size_t i = 0; set->urls && i < set->count; i++)
		free(set->urls[i]);
	free(set->urls);
	free(set->requests);
	strv_free(&set->unknown);
	strv_free(&set->undated);
	*set = (struct place_set){ 0 };
}

static bool is_newest(const struct resolve_request *request)
{
	return strcmp(request->krel, KREL_NEWEST) == 0;
}

/* One of a few kernels, or of the past, is none to look for the newest in. */
static bool concerns(
	const struct repository *repository, const struct resolve_request *request, bool archives)
{
	if (repository->archive != archives)
		return false;
	if (is_newest(request))
		return repository->krels.count == 0;
	return repository_concerns(repository, request->krel);
}

static int note_no_mirror(
	struct place_set *set, const struct repository *repository, struct trace *trace)
{
	if (strv_push_unique(&set->unknown, repository->mirror) < 0)
		return -ENOMEM;
	set->wants_date |= strstr(repository->path, "{snapshot}") != NULL;
	return trace_add(trace, TRACE_SKIPPED, repository->name, "",
		"no mirror is known for %s: --mirror %s=URL, or mirrors.ini", repository->mirror,
		repository->mirror);
}

static int note_unmade(struct place_set *set, const struct repository *repository,
	const char *snapshot, const struct mirror *mirror, const struct error *why,
	struct trace *trace)
{
	if (!snapshot && strstr(repository->path, "{snapshot}") &&
		strv_push_unique(&set->undated, repository->mirror) < 0)
		return -ENOMEM;
	return trace_add(trace, TRACE_SKIPPED, repository->name, mirror->url, "%s", why->text);
}

static int add_place(const struct resolve_places *places, const struct resolve_request *request,
	const struct repository *repository, struct place_set *set, struct trace *trace,
	struct error *error)
{
	const struct mirror *mirror = mirrors_find(places->mirrors, repository);
	const char *krel = is_newest(request) ? NULL : request->krel;
	struct error why = { 0 };
	char *url = NULL;
	int r;

	if (!mirror) {
		r = note_no_mirror(set, repository, trace);
		return r < 0 ? error_set_errno(error, r, "%s", repository->name) : 0;
	}
	r = mirrors_url(
		mirror, repository, request->os, krel, request->arch, places->snapshot, &url, &why);
	if (r == -EINVAL) /* its path wants a --snapshot, or another kernel */
		r = note_unmade(set, repository, places->snapshot, mirror, &why, trace);
	if (r < 0)
		return error_set(
			error, r, "%s: %s", repository->name, *why.text ? why.text : strerror(-r));
	if (!url)
		return 0;
	set->urls[set->count] = url;
	set->requests[set->count++] = (struct index_request){
		.repository = repository,
		.mirror = mirror,
		.url = url,
		.arch = request->arch,
		.keep = &request->os->kernel.keep,
	};
	return 0;
}

static int choose(const struct resolve_places *places, const struct resolve_request *request,
	bool archives, struct place_set *set, struct trace *trace, struct error *error)
{
	const struct catalogue *os = request->os;
	int r = 0;

	set->urls = calloc(os->repository_count, sizeof(*set->urls));
	set->requests = calloc(os->repository_count, sizeof(*set->requests));
	if (!set->urls || !set->requests)
		return error_set_errno(error, -ENOMEM, "%s", os->os);
	for (size_t i = 0; i < os->repository_count && r == 0; i++)
		if (concerns(&os->repositories[i], request, archives))
			r = add_place(places, request, &os->repositories[i], set, trace, error);
	return r;
}

int place_set_open(const struct resolve_places *places, const struct resolve_request *request,
	bool archives, bool refresh, struct place_set *ret, struct trace *trace,
	struct error *error)
{
	_cleanup_(place_set_free) struct place_set set = { 0 };
	struct index_options options = *places->options;
	int r = choose(places, request, archives, &set, trace, error);

	if (r < 0)
		return r;
	options.refresh |= refresh;
	if (set.count)
		r = indexes_open(&options, set.requests, set.count, &set.indexes, error);
	if (r < 0)
		return r;
	*ret = set;
	set = (struct place_set){ 0 };
	return 0;
}

static bool may_be_passed_over(int result)
{
	return result == -EADDRNOTAVAIL || result == -ETIMEDOUT || result == -EHOSTUNREACH ||
	       result == -ENETDOWN || result == -EACCES;
}

/* An archive's 404 is an answer: the vault of a minor release that is not over does not exist. */
static bool is_absent(const struct index *index)
{
	return index->result == -EADDRNOTAVAIL && index->request->repository->archive;
}

/* Archives are asked beside the distribution's own lists, which may have answered. */
static bool is_own(const struct place_set *set)
{
	return set->count && !set->requests[0].repository->archive;
}

int place_set_note(const struct place_set *set, struct trace *trace, struct strv *warnings)
{
	/* One sentence says it for all of them, at the end. */
	bool grouped = is_own(set) && place_set_is_mute(set);
	int r = 0;

	for (size_t i = 0; i < set->count && r == 0; i++) {
		const struct index *index = &set->indexes[i];
		const char *name = set->requests[i].repository->name;

		if (is_absent(index)) {
			r = trace_add(
				trace, TRACE_ABSENT, name, set->urls[i], "%s", index->error.text);
		} else if (index->result < 0) {
			r = trace_add(
				trace, TRACE_FAILED, name, set->urls[i], "%s", index->error.text);
			if (r == 0 && !grouped)
				r = strv_pushf(
					warnings, "%s is passed over: %s", name, index->error.text);
		}
		if (r == 0 && index->warning)
			r = strv_pushf(warnings, "%s: %s", name, index->warning);
	}
	return r;
}

const struct index *place_set_broken(const struct place_set *set)
{
	for (size_t i = 0; i < set->count; i++)
		if (set->indexes[i].result < 0 && !may_be_passed_over(set->indexes[i].result))
			return &set->indexes[i];
	return NULL;
}

const struct index *place_set_silent(const struct place_set *set)
{
	for (size_t i = 0; i < set->count; i++)
		if (set->indexes[i].result < 0 && !is_absent(&set->indexes[i]))
			return &set->indexes[i];
	return NULL;
}

bool place_set_is_mute(const struct place_set *set)
{
	for (size_t i = 0; i < set->count; i++)
		if (set->indexes[i].result >= 0)
			return false;
	return set->count > 0;
}

int place_set_say_mute(const struct place_set *set, const struct catalogue *os, struct error *error)
{
	const struct index *first = &set->indexes[0];

	if (set->count == 1)
		return error_set(error, first->result, "the only list of %s could not be read: %s",
			os->os, first->error.text);
	return error_set(error, first->result, "none of the %zu lists of %s could be read: %s",
		set->count, os->os, first->error.text);
}

int place_set_missing_half(const struct place_set *archives, const char *snapshot, char **ret_text)
{
	static const char why[] = "it may have left the mirrors: an archive can be asked with";
	char *text = NULL;
	int r = 0;

	if (archives->undated.count)
		r = asprintf(&text,
			"; %s --snapshot TIME, which is missing beside the mirror %s: "
			"docs/mirrors.md",
			why, archives->undated.items[0]);
	else if (archives->unknown.count && snapshot)
		r = asprintf(&text,
			"; %s --mirror %s=URL, which is missing beside --snapshot: docs/mirrors.md",
			why, archives->unknown.items[0]);
	else if (archives->unknown.count)
		r = asprintf(&text, "; %s --mirror %s=URL%s: docs/mirrors.md", why,
			archives->unknown.items[0], archives->wants_date ? " --snapshot TIME" : "");
	*ret_text = r < 0 ? NULL : text;
	return r < 0 ? -ENOMEM : 0;
}

int place_set_no_mirror(
	const struct place_set *set, const struct catalogue *os, struct error *error)
{
	_cleanup_free_ char *names = strv_join(&set->unknown, ", ");

	return error_set(error, -ENOMEDIUM,
		"%s: nothing on this machine says where its packages are (mirrors: %s): give "
		"--mirror %s=URL, or write it into /etc/slipway/mirrors.ini (docs/mirrors.md)",
		os->os, names ? names : "", set->unknown.count ? set->unknown.items[0] : os->os);
}
