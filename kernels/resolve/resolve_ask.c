/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order of asking: the distribution's own lists as we have them, the same lists anew, its
 * archives. "There is no such kernel" is only said when every list that may have it was read.
 */
#include <string.h>

#include "common/hash.h"
#include "kernels/krel.h"
#include "kernels/resolve/resolve_kernel.h"
#include "kernels/resolve/resolve_places.h"
#include "kernels/version.h"

struct asking {
	const struct resolve_places *places;
	const struct resolve_request *request;
	struct resolve_answer *answer;
	struct place_set own;
	struct place_set archives;
	/* Both sets' lists in one array; the sets own what is in them. */
	struct index *indexes;
	size_t count;
};

static void asking_free(struct asking *asking)
{
	free(asking->indexes);
	place_set_free(&asking->own);
	place_set_free(&asking->archives);
}

static int join_lists(struct asking *asking)
{
	size_t own = asking->own.count;
	size_t archives = asking->archives.count;
	struct index *indexes = calloc(own + archives + 1, sizeof(*indexes));

	if (!indexes)
		return -ENOMEM;
	if (own)
		memcpy(indexes, asking->own.indexes, own * sizeof(*indexes));
	if (archives)
		memcpy(indexes + own, asking->archives.indexes, archives * sizeof(*indexes));
	free(asking->indexes);
	asking->indexes = indexes;
	asking->count = own + archives;
	return 0;
}

/* Opens one of the sets; a list that is wrong, rather than silent, ends all. */
static int open_set(struct asking *asking, bool archives, bool refresh, struct error *error)
{
	struct place_set *set = archives ? &asking->archives : &asking->own;
	struct trace *trace = &asking->answer->trace;
	const struct index *broken;
	int r;

	if (!archives) {
		place_set_free(set);
		trace_free(trace);
		strv_free(&asking->answer->warnings);
	}
	r = place_set_open(asking->places, asking->request, archives, refresh, set, trace, error);
	if (r < 0)
		return r;
	r = place_set_note(set, trace, &asking->answer->warnings);
	if (r == 0)
		r = join_lists(asking);
	if (r < 0)
		return error_set_errno(error, r, "package lists");
	broken = place_set_broken(set);
	return broken ? error_set(error, broken->result, "%s", broken->error.text) : 0;
}

/* Archives have the past, and some lists need not be on every mirror. */
static bool may_be_absent(const struct repository *repository)
{
	return repository->archive || repository->optional;
}

/*
 * The newest is only known when no list is silent. That a mirror has no list is no answer either:
 * a kernel with holes would pass for the newest when the security mirror is set up wrongly.
 */
static int check_newest(const struct asking *asking, struct error *error)
{
	if (place_set_is_mute(&asking->own))
		return place_set_say_mute(&asking->own, asking->request->os, error);
	for (size_t i = 0; i < asking->count; i++) {
		const struct index *index = &asking->indexes[i];

		if (index->result < 0 && !(index->result == -EADDRNOTAVAIL &&
						 may_be_absent(index->request->repository)))
			return error_set(error, index->result,
				"kernel newest: which one is not known without the list of %s: %s",
				index->request->repository->name, index->error.text);
	}
	return 0;
}

/* Which release is meant? The caller frees *ret_krel. -ENODATA when there is none. */
static int find_newest(const struct asking *asking, char **ret_krel, struct error *error)
{
	const struct catalogue *os = asking->request->os;
	_cleanup_strv_ struct strv krels = { 0 };
	const char *newest;
	int r = check_newest(asking, error);

	if (r < 0)
		return r;
	r = resolve_releases(asking->indexes, asking->count, os, &krels);
	if (r < 0)
		return error_set_errno(error, r, "kernel newest");
	newest = resolve_newest(&krels, os);
	if (!newest)
		return error_set(error, -ENODATA,
			"kernel newest: the lists of %s have no %s%skernel%s%s", os->os,
			os->kernel.series, *os->kernel.series ? " " : "",
			*os->kernel.flavour ? " of flavour " : "", os->kernel.flavour);
	*ret_krel = strdup(newest);
	return *ret_krel ? 0 : error_set_errno(error, -ENOMEM, "kernel newest");
}

static int look(struct asking *asking, bool strict, struct error *error)
{
	struct resolve_request request = *asking->request;
	_cleanup_free_ char *krel = NULL;
	int r = 0;

	request.strict = strict;
	if (strcmp(request.krel, KREL_NEWEST) == 0)
		r = find_newest(asking, &krel, error);
	if (r < 0)
		return r;
	if (krel)
		request.krel = krel;
	return resolve_in(asking->indexes, asking->count, &request, &asking->answer->lock,
		&asking->answer->trace, error);
}

static const struct index *silent_list(const struct asking *asking)
{
	const struct index *silent = place_set_silent(&asking->own);

	return silent ? silent : place_set_silent(&asking->archives);
}

/* The nearest there are, and which lists could not be asked: those may have it. */
static int not_found(const struct asking *asking, struct error *error)
{
	const struct index *silent = silent_list(asking);
	_cleanup_strv_ struct strv krels = { 0 };
	_cleanup_strv_ struct strv nearest = { 0 };
	_cleanup_free_ char *joined = NULL;
	_cleanup_free_ char *unasked = NULL;
	_cleanup_free_ char *archive = NULL;
	const char *meant = NULL;
	struct error why = *error;

	if (place_set_is_mute(&asking->own) &&
		(!asking->archives.count || place_set_is_mute(&asking->archives)))
		return place_set_say_mute(&asking->own, asking->request->os, error);

	if (resolve_releases(asking->indexes, asking->count, asking->request->os, &krels) == 0)
		meant = resolve_meant(&krels, asking->request->os, asking->request->krel);
	if (krels.count &&
		resolve_nearest(&krels, asking->request->os, asking->request->krel, &nearest) ==
			0 &&
		nearest.count)
		joined = strv_join(&nearest, ", ");
	if (silent)
		return error_set(error, silent->result,
			"%s; but the list of %s could not be read, and may have it: %s", why.text,
			silent->request->repository->name, silent->error.text);
	if (asking->own.unknown.count)
		unasked = strv_join(&asking->own.unknown, ", ");
	if (place_set_missing_half(&asking->archives, asking->places->snapshot, &archive) < 0)
		return error_set_errno(error, -ENOMEM, "package lists");
	return error_set(error, -ENODATA,
		"%s%s%s%s nearest there are: %s%s%s%s; slipway resolve --explain shows every place",
		why.text, meant ? "; did you mean " : "", meant ? meant : "",
		meant ? "? The" : "; the", joined ? joined : "none",
		unasked ? "; not asked, for nothing says where they are: " : "",
		unasked ? unasked : "", archive ? archive : "");
}

static bool may_ask_again(const struct asking *asking)
{
	const struct index_options *options = asking->places->options;

	return !options->refresh && !download_is_offline(options->download);
}

/*
 * A name that is not there may be younger than our lists: they are asked once more. Then come the
 * archives. Only when all of them have answered, and none has modules of the headers' own build,
 * may those be of another, or lacking: a list that is silent may have the right ones.
 */
static int ask(struct asking *asking, struct error *error)
{
	int r = open_set(asking, false, false, error);

	if (r == 0)
		r = look(asking, true, error);
	if (r == -ENODATA && asking->own.count && may_ask_again(asking)) {
		r = open_set(asking, false, true, error);
		if (r == 0)
			r = look(asking, true, error);
	}
	if (r != -ENODATA)
		return r;
	r = open_set(asking, true, false, error);
	if (r == 0 && asking->archives.count)
		r = look(asking, true, error);
	else if (r == 0)
		r = -ENODATA;
	if (r == -ENODATA && !silent_list(asking))
		r = look(asking, false, error);
	if (asking->count == 0 && asking->own.unknown.count)
		return place_set_no_mirror(&asking->own, asking->request->os, error);
	return r == -ENODATA ? not_found(asking, error) : r;
}

/* Of the lists themselves, not of what they were asked. */
static int stamp(struct asking *asking)
{
	struct hash *hash = hash_new();
	char hex[HASH_HEX_SIZE];

	if (!hash)
		return -ENOMEM;
	for (size_t i = 0; i < asking->own.count; i++) {
		const struct index *index = &asking->own.indexes[i];

		hash_add_text(hash, asking->own.urls[i]);
		hash_add_text(hash, index->result == 0 ? index->release_sha256 : "");
	}
	hash_finish(hash, hex);
	asking->answer->stamp = strdup(hex);
	return asking->answer->stamp ? 0 : -ENOMEM;
}

static int list_compilers(struct asking *asking)
{
	struct strv *compilers = &asking->answer->compilers;

	for (size_t i = 0; i < asking->count; i++)
		for (size_t j = 0; asking->indexes[i].result == 0 && j < asking->indexes[i].count;
			j++) {
			const char *package = asking->indexes[i].packages[j].name;
			_cleanup_free_ char *name = resolve_compiler_name(package);

			if (name && strcmp(name, package) == 0 &&
				strv_push_unique(compilers, name) < 0)
				return -ENOMEM;
		}
	if (compilers->count)
		qsort(compilers->items, compilers->count, sizeof(*compilers->items),
			version_compare_items);
	return 0;
}

/* Not a reason to fail: modules can be compiled, and what they need of the kernel's is not told. */
static int warn_of_modules(struct asking *asking)
{
	const struct lock *lock = &asking->answer->lock;

	if (asking->request->has_modules || !lock->krel || lock_find(lock, LOCK_MODULES))
		return 0;
	return strv_pushf(&asking->answer->warnings,
		"kernel %s: its headers are there, its own modules are in no list of %s",
		lock->krel, lock->os);
}

static int finish(struct asking *asking, struct error *error)
{
	int r = stamp(asking);

	if (r == 0)
		r = warn_of_modules(asking);

	if (r == 0)
		r = list_compilers(asking);
	return r < 0 ? error_set_errno(error, r, "package lists") : 0;
}

int resolve(const struct resolve_places *places, const struct resolve_request *request,
	struct resolve_answer *ret, struct error *error)
{
	_cleanup_(asking_free) struct asking asking = {
		.places = places,
		.request = request,
		.answer = ret,
	};
	int r = strcmp(request->krel, KREL_NEWEST) == 0 ? 0 : krel_check(request->krel, error);

	*ret = (struct resolve_answer){ 0 };
	if (r < 0)
		return r;
	/* Nothing to ask: then a list that cannot be read is nobody's business. */
	if (request->has_headers && request->has_modules && request->extra_count == 0)
		return resolve_in(NULL, 0, request, &ret->lock, &ret->trace, error);
	r = ask(&asking, error);
	return r < 0 ? r : finish(&asking, error);
}

int resolve_list(const struct resolve_places *places, const struct resolve_request *request,
	struct strv *krels, struct resolve_answer *ret, struct error *error)
{
	_cleanup_(asking_free) struct asking asking = {
		.places = places,
		.request = request,
		.answer = ret,
	};
	int r;

	*ret = (struct resolve_answer){ 0 };
	r = open_set(&asking, false, false, error);
	if (r < 0)
		return r;
	if (asking.count == 0 && asking.own.unknown.count)
		return place_set_no_mirror(&asking.own, request->os, error);
	if (place_set_is_mute(&asking.own))
		return place_set_say_mute(&asking.own, request->os, error);
	r = resolve_releases(asking.indexes, asking.count, request->os, krels);
	return r < 0 ? error_set_errno(error, r, "%s", request->os->os) : finish(&asking, error);
}
