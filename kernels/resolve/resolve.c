/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whom to ask for a kernel: the distribution's own lists as we have them, the same lists anew, its
 * archives. "There is no such kernel" is only said when every list that may have it was read.
 */
#include "kernels/resolve/resolve.h"

#include <stdarg.h>
#include <string.h>

#include "common/xalloc.h"
#include "kernels/krel.h"

/* ---- the trace, for --explain */

void trace_add(struct trace *trace, const char *outcome, const char *repository, const char *url,
	const char *format, ...)
{
	struct trace_entry *entry;
	va_list arguments;

	trace->entries = xreallocarray(trace->entries, trace->count + 1, sizeof(*entry));
	entry = &trace->entries[trace->count++];
	*entry = (struct trace_entry){
		.outcome = outcome,
		.repository = xstrdup(repository),
		.url = xstrdup(url),
	};
	va_start(arguments, format);
	entry->text = xvasprintf(format, arguments);
	va_end(arguments);
}

void trace_free(struct trace *trace)
{
	for (size_t i = 0; i < trace->count; i++) {
		free(trace->entries[i].repository);
		free(trace->entries[i].url);
		free(trace->entries[i].text);
	}
	free(trace->entries);
	*trace = (struct trace){ 0 };
}

/* ---- the lists that a question is put to: chosen, opened together, and judged */

struct query {
	const struct resolve_places *places;
	const struct resolve_request *request;
	struct resolve_answer *answer;
	/* The distribution's own lists, then those of its archives. */
	struct index_request *requests;
	size_t asked; /* requests; those from @count on are not opened yet */
	struct index *indexes;
	size_t count;
	size_t own;
	struct strv urls;             /* that the requests borrow */
	struct strv unknown;          /* mirrors of own lists whose place is not known */
	struct strv unknown_archives; /* the same of archives */
	struct strv undated; /* mirrors of archives that are known, and need a --snapshot */
	bool wants_date;     /* one of the unknown archives needs a --snapshot too */
};

static void query_reset(struct query *query)
{
	indexes_free(&query->indexes, query->count);
	free(query->requests);
	strv_free(&query->urls);
	strv_free(&query->unknown);
	strv_free(&query->unknown_archives);
	strv_free(&query->undated);
	*query = (struct query){
		.places = query->places, .request = query->request, .answer = query->answer
	};
}

static bool is_newest(const struct resolve_request *request)
{
	return strcmp(request->krel, KREL_NEWEST) == 0;
}

/* Asks for a repository's list for @arch, or notes why not. */
static int add_list(struct query *query, const struct repository *repository, const char *arch,
	struct error *error)
{
	const struct resolve_request *request = query->request;
	const char *snapshot = query->places->snapshot;
	const struct mirror *mirror = mirrors_find(query->places->mirrors, repository);
	bool is_dated = repository->archive && strstr(repository->path, "{snapshot}");
	struct trace *trace = &query->answer->trace;
	_cleanup_free_ char *url = NULL;
	struct error why = { 0 };
	int r;

	if (!mirror) {
		xstrv_push_unique(repository->archive ? &query->unknown_archives : &query->unknown,
			repository->mirror);
		query->wants_date |= is_dated;
		trace_add(trace, TRACE_SKIPPED, repository->name, "",
			"no mirror is known for %s: set it with --mirror %s=URL or in mirrors.ini",
			repository->mirror, repository->mirror);
		return 0;
	}
	r = mirrors_url(mirror, repository, request->os, is_newest(request) ? NULL : request->krel,
		arch, snapshot, &url, &why);
	if (r == -EINVAL) { /* its path needs a --snapshot, or another kernel */
		if (!snapshot && is_dated)
			xstrv_push_unique(&query->undated, repository->mirror);
		trace_add(trace, TRACE_SKIPPED, repository->name, mirror->url, "%s", why.text);
		return 0;
	}
	if (r < 0)
		return error_set(
			error, r, "%s: %s", repository->name, *why.text ? why.text : strerror(-r));
	xstrv_push(&query->urls, url);
	query->requests[query->asked] = (struct index_request){
		.repository = repository,
		.mirror = mirror,
		.url = query->urls.items[query->asked],
		.arch = arch,
		.for_tools = strcmp(arch, request->arch) != 0,
		.keep = &request->os->kernel.keep,
	};
	query->asked++;
	return 0;
}

static bool may_be_skipped(int result)
{
	return result == -EADDRNOTAVAIL || result == -ETIMEDOUT || result == -EHOSTUNREACH ||
	       result == -ENETDOWN || result == -EACCES;
}

/* An archive's 404 is an answer: the vault of a minor release that is not over does not exist. */
static bool is_absent(const struct index *index)
{
	return index->result == -EADDRNOTAVAIL && index->request->repository->archive;
}

/* Was there something to ask, and nothing of it could be read? */
static bool is_unreachable(const struct query *query, bool archives)
{
	size_t first = archives ? query->own : 0;
	size_t end = archives ? query->count : query->own;

	for (size_t i = first; i < end; i++)
		if (query->indexes[i].result >= 0)
			return false;
	return first < end;
}

/* The first list that may have the kernel and could not be asked; NULL when all answered. */
static const struct index *find_unanswered(const struct query *query)
{
	for (size_t i = 0; i < query->count; i++)
		if (query->indexes[i].result < 0 && !is_absent(&query->indexes[i]) &&
			!query->indexes[i].request->for_tools)
			return &query->indexes[i];
	return NULL;
}

/*
 * Opens the repositories that may have the kernel: the archives, or all others, anew. A list that
 * is wrong (a signature, damage, our own disk), rather than unreachable, ends all.
 */
static int open_lists(struct query *query, bool archives, bool refresh, struct error *error)
{
	const struct catalogue *os = query->request->os;
	struct resolve_answer *answer = query->answer;
	struct index_options options = *query->places->options;
	size_t first = archives ? query->count : 0;
	struct index *opened = NULL;
	bool is_grouped;
	int r;

	if (!archives) {
		query_reset(query);
		trace_free(&answer->trace);
		strv_free(&answer->warnings);
		query->requests = xcalloc(2 * os->repository_count, sizeof(*query->requests));
	}
	for (size_t i = 0; i < os->repository_count; i++) {
		const struct repository *repository = &os->repositories[i];
		/* One of a few kernels, or of the past, is none to look for the newest in. */
		bool concerns = is_newest(query->request)
					? repository->krels.count == 0 && !repository->root_only
					: repository_concerns(repository, query->request->krel);

		if (!concerns || repository->archive != archives)
			continue;
		r = add_list(query, repository, query->request->arch, error);
		if (r == 0 && resolve_has_tools(os, query->request))
			r = add_list(query, repository, query->request->machine, error);
		if (r < 0)
			return r;
	}
	options.refresh |= refresh;
	if (query->asked > first) {
		r = indexes_open(
			&options, query->requests + first, query->asked - first, &opened, error);
		if (r < 0)
			return r;
	}
	query->indexes = xreallocarray(query->indexes, query->asked, sizeof(*query->indexes));
	for (; query->count < query->asked; query->count++)
		query->indexes[query->count] = opened[query->count - first];
	free(opened);
	if (!archives)
		query->own = query->count;
	/* One sentence at the end is for all own lists. */
	is_grouped = !archives && is_unreachable(query, false);
	for (size_t i = first; i < query->count; i++) {
		const struct index *index = &query->indexes[i];
		const char *name = index->request->repository->name;

		if (index->result < 0)
			trace_add(&answer->trace, is_absent(index) ? TRACE_ABSENT : TRACE_FAILED,
				name, index->request->url, "%s", index->error.text);
		if (index->result < 0 && !is_absent(index) && !is_grouped)
			xstrv_pushf(
				&answer->warnings, "%s is skipped: %s", name, index->error.text);
		if (index->warning)
			xstrv_pushf(&answer->warnings, "%s: %s", name, index->warning);
	}
	for (size_t i = first; i < query->count; i++)
		if (query->indexes[i].result < 0 && !may_be_skipped(query->indexes[i].result)) {
			*error = query->indexes[i].error;
			return query->indexes[i].result;
		}
	return 0;
}

/* The result of the first of the own lists, with its reason once for all of them. */
static int report_unreachable(const struct query *query, struct error *error)
{
	const struct index *first = &query->indexes[0];
	const char *os = query->request->os->os;

	/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): not empty */
	*error = first->error;
	if (query->own == 1)
		return error_prefix(
			error, first->result, "the only list of %s could not be read", os);
	return error_prefix(
		error, first->result, "none of the %zu lists of %s could be read", query->own, os);
}

static int report_no_mirror(const struct query *query, struct error *error)
{
	_cleanup_free_ char *names = xstrv_join(&query->unknown, ", ");

	/* Once apt was asked, its knowledge of mirrors is in the cache, too. */
	if (download_is_offline(query->places->options->download)) {
		(void) error_set(error, -ENETDOWN,
			"%s: its package lists are not in the cache and cannot be fetched with "
			"--offline",
			query->request->os->os);
		(void) error_try(error, -ENETDOWN, "run once without --offline");
		return error_try(error, -ENETDOWN,
			"to build without a network, make a bundle elsewhere (slipway bundle) and "
			"use slipway build --bundle");
	}
	(void) error_set(error, -ENOMEDIUM,
		"%s: no mirror is configured on this machine for its packages (mirrors: %s)",
		query->request->os->os, names);
	return error_try(error, -ENOMEDIUM,
		"set --mirror %s=URL, or add a line to /etc/slipway/mirrors.ini (docs/kernels.md)",
		query->unknown.items[0]);
}

/* ---- asking */

/*
 * Finds the newest release, which is only known when every list answered. A mirror without a list
 * does not count as an answer, except for archives and optional lists: a vulnerable kernel would
 * pass for the newest when the security mirror is set up wrongly.
 */
static int find_newest(const struct query *query, char **ret_krel, struct error *error)
{
	const struct catalogue *os = query->request->os;
	_cleanup_free_ char *flavour = catalogue_flavour(os, query->request->arch);
	_cleanup_strv_ struct strv krels = { 0 };
	const char *newest;

	if (is_unreachable(query, false))
		return report_unreachable(query, error);
	for (size_t i = 0; i < query->count; i++) {
		const struct index *index = &query->indexes[i];
		const struct repository *repository = index->request->repository;

		/* A mirror may have the kernel's architecture alone: its tree has the tools'
		 * source. */
		if (index->request->for_tools)
			continue;
		if (index->result < 0 && !(index->result == -EADDRNOTAVAIL &&
						 (repository->archive || repository->optional))) {
			*error = index->error;
			return error_prefix(error, index->result,
				"kernel newest: unknown without the list of %s", repository->name);
		}
	}
	resolve_releases(query->indexes, query->count, os, &krels);
	newest = resolve_newest(&krels, os, query->request->arch);
	if (!newest)
		return error_set(error, -ENODATA,
			"kernel newest: the lists of %s have no %s%skernel%s%s", os->os,
			os->kernel.series, *os->kernel.series ? " " : "",
			*flavour ? " of flavour " : "", flavour);
	*ret_krel = xstrdup(newest);
	return 0;
}

static int look(struct query *query, bool strict, struct error *error)
{
	struct resolve_request request = *query->request;
	_cleanup_free_ char *krel = NULL;

	request.strict = strict;
	if (is_newest(&request)) {
		int r = find_newest(query, &krel, error);

		if (r < 0)
			return r;
		request.krel = krel;
	}
	return resolve_in(query->indexes, query->count, &request, &query->answer->lock,
		&query->answer->trace, error);
}

/* An archive needs a mirror and a time: which of them was not given? */
static void try_archive(const struct query *query, struct error *error)
{
	static const char why[] = "for a kernel that has left the mirrors (docs/kernels.md)";

	if (query->undated.count)
		(void) error_try(error, -ENODATA, "--snapshot TIME beside the mirror %s, %s",
			query->undated.items[0], why);
	else if (query->unknown_archives.count)
		(void) error_try(error, -ENODATA, "--mirror %s=URL%s, %s",
			query->unknown_archives.items[0],
			query->places->snapshot ? " beside --snapshot"
			: query->wants_date     ? " --snapshot TIME"
						: "",
			why);
}

/* The nearest there are, and which lists could not be asked: those may have it. */
static int report_not_found(const struct query *query, struct error *error)
{
	const struct resolve_request *request = query->request;
	const struct index *unanswered = find_unanswered(query);
	_cleanup_strv_ struct strv krels = { 0 };
	_cleanup_strv_ struct strv nearest = { 0 };
	_cleanup_free_ char *joined = NULL;
	_cleanup_free_ char *unasked = NULL;
	const char *meant;
	struct error why = *error;

	if (is_unreachable(query, false) &&
		(query->count == query->own || is_unreachable(query, true)))
		return report_unreachable(query, error);
	if (unanswered) {
		(void) error_set(error, unanswered->result,
			"%s; but the list of %s may have it and could not be read: %s", why.text,
			unanswered->request->repository->name, unanswered->error.text);
		return error_take_lines(error, unanswered->result, &unanswered->error);
	}
	resolve_releases(query->indexes, query->count, request->os, &krels);
	meant = resolve_meant(&krels, request->os, request->krel);
	resolve_nearest(&krels, request->os, request->krel, &nearest);
	joined = xstrv_join(&nearest, ", ");
	unasked = xstrv_join(&query->unknown, ", ");
	(void) error_set(error, -ENODATA, "%s; the nearest are: %s", why.text,
		nearest.count ? joined : "none");
	if (query->unknown.count)
		(void) error_line(
			error, -ENODATA, "not searched (no mirror configured): %s", unasked);
	if (meant)
		(void) error_try(error, -ENODATA, "use %s, if that was meant", meant);
	try_archive(query, error);
	return error_try(error, -ENODATA,
		"slipway resolve --explain %s shows every place that was searched", request->krel);
}

/*
 * A name that is not there may be younger than our lists: they are asked once more. Then come the
 * archives. Only when all of them have answered, and none has modules of the headers' own build,
 * may those be of another, or lacking: a list that did not answer may have the right ones.
 */
static int ask(struct query *query, struct error *error)
{
	const struct index_options *options = query->places->options;
	int r = open_lists(query, false, false, error);

	if (r == 0)
		r = look(query, true, error);
	if (r == -ENODATA && query->own && !options->refresh &&
		!download_is_offline(options->download)) {
		r = open_lists(query, false, true, error);
		if (r == 0)
			r = look(query, true, error);
	}
	if (r != -ENODATA)
		return r;
	r = open_lists(query, true, false, error);
	if (r < 0)
		return r;
	r = query->count > query->own ? look(query, true, error) : -ENODATA;
	if (r == -ENODATA && !find_unanswered(query))
		r = look(query, false, error);
	if (query->count == 0 && query->unknown.count)
		return report_no_mirror(query, error);
	return r == -ENODATA ? report_not_found(query, error) : r;
}

/* Takes the rest from the lists: the compilers, and whether modules are lacking. */
static void finish(struct query *query)
{
	struct resolve_answer *answer = query->answer;
	struct strv *compilers = &answer->compilers;

	/* Not a reason to fail: modules can be compiled, and what they need of the kernel's is not
	 * known. */
	if (!query->request->has_modules && answer->lock.krel &&
		!lock_find(&answer->lock, LOCK_MODULES))
		xstrv_pushf(&answer->warnings,
			"kernel %s: its headers were found, but no list of %s has its own modules",
			answer->lock.krel, answer->lock.os);
	for (size_t i = 0; i < query->count; i++) {
		const struct index *index = &query->indexes[i];

		if (index->request->for_tools)
			continue;
		for (size_t j = 0; index->result == 0 && j < index->count; j++) {
			const char *package = index->packages[j].name;
			_cleanup_free_ char *name = resolve_compiler_name(package);

			if (name && strcmp(name, package) == 0)
				xstrv_push_unique(compilers, name);
		}
	}
	if (compilers->count)
		qsort(compilers->items, compilers->count, sizeof(*compilers->items),
			krel_compare_items);
}

int resolve(const struct resolve_places *places, const struct resolve_request *request,
	struct resolve_answer *ret, struct error *error)
{
	_cleanup_(query_reset) struct query query = {
		.places = places,
		.request = request,
		.answer = ret,
	};
	int r = is_newest(request) ? 0 : krel_check(request->krel, error);

	*ret = (struct resolve_answer){ 0 };
	if (r < 0)
		return r;
	/* Nothing to ask: then a list that cannot be read does not matter. */
	if (request->has_headers && request->has_modules && request->extra_count == 0)
		return resolve_in(NULL, 0, request, &ret->lock, &ret->trace, error);
	r = ask(&query, error);
	if (r < 0)
		return r;
	finish(&query);
	return 0;
}

int resolve_list(const struct resolve_places *places, const struct resolve_request *request,
	struct strv *krels, struct resolve_answer *ret, struct error *error)
{
	_cleanup_(query_reset) struct query query = {
		.places = places,
		.request = request,
		.answer = ret,
	};
	int r;

	*ret = (struct resolve_answer){ 0 };
	r = open_lists(&query, false, false, error);
	if (r < 0)
		return r;
	if (query.count == 0 && query.unknown.count)
		return report_no_mirror(&query, error);
	if (is_unreachable(&query, false))
		return report_unreachable(&query, error);
	resolve_releases(query.indexes, query.count, request->os, krels);
	finish(&query);
	return 0;
}

void resolve_answer_free(struct resolve_answer *answer)
{
	lock_free(&answer->lock);
	trace_free(&answer->trace);
	strv_free(&answer->warnings);
	strv_free(&answer->compilers);
	*answer = (struct resolve_answer){ 0 };
}
