/* SPDX-License-Identifier: Apache-2.0 */
/* A kernel's own packages: headers with what belongs to them, modules, compiler. */
#include <string.h>

#include "kernels/resolve/resolve_kernel.h"

/* The first of this name in a list that is sorted as match_sort() does. */
static bool is_first_of_name(const struct found_list *list, size_t index)
{
	for (size_t i = 0; i < index; i++)
		if (strcmp(list->items[i].package->name, list->items[index].package->name) == 0)
			return false;
	return true;
}

/*
 * Adds what a word of the rules means: one package of each name. With MATCH_NAME the version is not
 * in the name: then it is to be that of the headers, or with @any_version the newest.
 */
static int add_alternative(struct resolution *resolution, const char *word, const char *purpose,
	bool any_version, size_t *ret_count)
{
	_cleanup_(found_list_free) struct found_list list = { 0 };
	bool by_name = resolution->scope.os->kernel.match == MATCH_NAME;
	int r = match_word(&resolution->scope, word, &list);

	*ret_count = 0;
	match_sort(&list, resolution->home);
	for (size_t i = 0; i < list.count && r == 0; i++) {
		const struct found *found = &list.items[i];

		if (by_name && !any_version && resolution->anchor &&
			match_compare_versions(
				found->package->version, resolution->anchor->version) != 0)
			continue;
		if ((any_version || !by_name) && !is_first_of_name(&list, i))
			continue;
		r = resolution_add(resolution, found, purpose);
		*ret_count += 1;
	}
	return r;
}

/* Of "a|b" the first that is there, in the version that is wanted. */
static int add_word(struct resolution *resolution, const char *word, const char *purpose,
	bool any_version, size_t *ret_count)
{
	_cleanup_strv_ struct strv alternatives = { 0 };
	int r = strv_split(&alternatives, word, "|");

	*ret_count = 0;
	for (size_t i = 0; i < alternatives.count && r == 0 && *ret_count == 0; i++)
		r = add_alternative(
			resolution, alternatives.items[i], purpose, any_version, ret_count);
	return r;
}

static int no_word(const struct resolution *resolution, const char *word, struct error *error)
{
	_cleanup_free_ char *description = match_describe(&resolution->scope, word);

	return error_set(error, -ENODATA, "kernel %s: no %s in the lists of %s",
		resolution->scope.krel, description ? description : word, resolution->scope.os->os);
}

static int add_words(struct resolution *resolution, const struct strv *words, const char *purpose,
	bool any_version, struct error *error)
{
	for (size_t i = 0; i < words->count; i++) {
		size_t count;
		int r = add_word(resolution, words->items[i], purpose, any_version, &count);

		if (r < 0)
			return error_set_errno(error, r, "%s", words->items[i]);
		if (count == 0)
			return no_word(resolution, words->items[i], error);
	}
	return 0;
}

static int add_optional(struct resolution *resolution, struct error *error)
{
	const struct strv *words = &resolution->scope.os->kernel.modules_optional;

	for (size_t i = 0; i < words->count; i++) {
		size_t count;
		int r = add_word(resolution, words->items[i], LOCK_MODULES, false, &count);

		if (r < 0)
			return error_set_errno(error, r, "%s", words->items[i]);
	}
	return 0;
}

enum strictness {
	SAME_BUILD,      /* modules of the version that the headers have */
	ANY_BUILD,       /* or of another */
	WITHOUT_MODULES, /* or none: modules can be compiled against headers alone */
};

static int add_modules(
	struct resolution *resolution, enum strictness strictness, struct error *error)
{
	const struct kernel_rules *rules = &resolution->scope.os->kernel;
	struct error why = { 0 };
	int r;

	if (resolution->request->has_modules)
		return 0;
	r = add_words(resolution, &rules->modules, LOCK_MODULES, strictness != SAME_BUILD, &why);
	if (r == -ENODATA && strictness == WITHOUT_MODULES)
		return trace_add(
			resolution->trace, TRACE_ABSENT, "", "", "its own modules: %s", why.text);
	return r < 0 ? error_set(error, r, "%s", why.text) : add_optional(resolution, error);
}

static void start_again(struct resolution *resolution)
{
	struct lock *lock = &resolution->lock;
	struct lock fresh = { .krel = lock->krel, .os = lock->os, .arch = lock->arch };

	lock->krel = lock->os = lock->arch = NULL;
	lock_free(lock);
	*lock = fresh;
	found_list_free(&resolution->headers);
}

/* All packages of the kernel, by one of the headers packages that could be its. */
static int try_anchor(struct resolution *resolution, const struct found *anchor,
	enum strictness strictness, struct error *error)
{
	int r;

	start_again(resolution);
	resolution->home = anchor->index;
	resolution->anchor = anchor->package;
	r = resolution_add(resolution, anchor, LOCK_HEADERS);
	if (r < 0)
		return error_set_errno(error, r, "%s", anchor->package->name);
	r = add_words(resolution, &resolution->scope.os->kernel.headers, LOCK_HEADERS,
		strictness != SAME_BUILD, error);
	if (r == 0)
		r = resolve_walk(resolution, error);
	if (r == 0)
		r = resolve_compiler(resolution, error);
	return r < 0 ? r : add_modules(resolution, strictness, error);
}

/* The archives' turn comes when the others were asked already. */
static bool is_noted(const struct trace *trace, const char *repository)
{
	for (size_t i = 0; trace && i < trace->count; i++)
		if (strcmp(trace->entries[i].repository, repository) == 0)
			return true;
	return false;
}

static int note_lists(const struct resolution *resolution, const struct found_list *anchors)
{
	const char *word = resolution->scope.os->kernel.headers.items[0];
	_cleanup_free_ char *description = match_describe(&resolution->scope, word);
	int r = 0;

	for (size_t i = 0; i < resolution->scope.count && r == 0; i++) {
		const struct index *index = &resolution->scope.indexes[i];
		const struct repository *repository = index->request->repository;
		const struct package *newest = NULL;

		if (index->result < 0 || is_noted(resolution->trace, repository->name))
			continue;
		for (size_t j = 0; j < anchors->count && !newest; j++)
			if (anchors->items[j].index == index)
				newest = anchors->items[j].package;
		r = newest ? trace_add(resolution->trace, TRACE_FOUND, repository->name,
				     index->request->url, "%s %s", newest->name, newest->version)
			   : trace_add(resolution->trace, TRACE_ABSENT, repository->name,
				     index->request->url,
				     "no %s among the %llu packages of its list",
				     description ? description : word,
				     (unsigned long long) index->listed);
	}
	return r;
}

int resolve_kernel(struct resolution *resolution, struct error *error)
{
	const char *word = resolution->scope.os->kernel.headers.items[0];
	_cleanup_(found_list_free) struct found_list anchors = { 0 };
	struct error first = { 0 };
	int r;

	if (resolution->request->has_headers)
		return add_modules(resolution, WITHOUT_MODULES, error);
	r = match_word(&resolution->scope, word, &anchors);

	if (r < 0)
		return error_set_errno(error, r, "%s", word);
	match_sort(&anchors, NULL);
	r = note_lists(resolution, &anchors);
	if (r < 0)
		return error_set_errno(error, r, "%s", word);
	if (anchors.count == 0)
		return no_word(resolution, word, error);
	r = -ENODATA;
	for (size_t i = 0; i < anchors.count && r == -ENODATA; i++)
		r = try_anchor(resolution, &anchors.items[i], SAME_BUILD, i ? error : &first);
	for (int s = ANY_BUILD;
		s <= WITHOUT_MODULES && r == -ENODATA && !resolution->request->strict; s++)
		r = try_anchor(resolution, &anchors.items[0], (enum strictness) s, error);
	return r == -ENODATA ? error_set(error, r, "%s", first.text) : r;
}
