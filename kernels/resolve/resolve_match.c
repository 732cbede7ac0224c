/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/resolve/resolve_match.h"

#include <ctype.h>
#include <fnmatch.h>
#include <string.h>

#include "kernels/krel.h"
#include "kernels/repo/relation.h"
#include "kernels/version.h"

void found_list_free(struct found_list *list)
{
	free(list->items);
	*list = (struct found_list){ 0 };
}

static int append(struct found_list *list, const struct index *index, const struct package *package)
{
	struct found *grown = reallocarray(list->items, list->count + 1, sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	list->items = grown;
	grown[list->count++] = (struct found){ .index = index, .package = package };
	return 0;
}

static bool is_for(const struct package *package, const char *arch)
{
	const char *own = package->architecture;

	return strcmp(own, arch) == 0 || strcmp(own, arch_debian(arch)) == 0 ||
	       strcmp(own, "all") == 0 || strcmp(own, "noarch") == 0;
}

static const char *without_epoch(const char *version)
{
	const char *colon = strchr(version, ':');

	return colon ? colon + 1 : version;
}

int match_compare_versions(const char *a, const char *b)
{
	long left = strchr(a, ':') ? strtol(a, NULL, 10) : 0;
	long right = strchr(b, ':') ? strtol(b, NULL, 10) : 0;

	if (left != right)
		return left < right ? -1 : 1;
	return version_compare(without_epoch(a), without_epoch(b));
}

/* How long the version is without ".<number>" at its end. */
static size_t length_without_counter(const char *version)
{
	const char *dot = strrchr(version, '.');

	if (!dot || !isdigit((unsigned char) dot[1]) ||
		dot[1 + strspn(dot + 1, "0123456789")] != '\0')
		return strlen(version);
	return (size_t) (dot - version);
}

/* Has the package this version, or with the catalogue's build_counter this one and a counter? */
static bool version_fits(const struct catalogue *os, const char *version, const char *wanted)
{
	const char *own = without_epoch(version);
	size_t length;

	if (!os->kernel.build_counter)
		return strcmp(own, wanted) == 0;
	length = length_without_counter(own);
	return length == strlen(wanted) && strncmp(own, wanted, length) == 0 && own[length];
}

bool match_same_build(const struct catalogue *os, const char *a, const char *b)
{
	size_t left, right;

	if (match_compare_versions(a, b) == 0)
		return true;
	if (!os->kernel.build_counter)
		return false;
	a = without_epoch(a);
	b = without_epoch(b);
	left = length_without_counter(a);
	right = length_without_counter(b);
	/* One of them may be a Requires, which has no counter. */
	return (left == right && strncmp(a, b, left) == 0) ||
	       (strlen(a) == right && strncmp(a, b, right) == 0) ||
	       (strlen(b) == left && strncmp(a, b, left) == 0);
}

static int match_name_in(const struct match_scope *scope, const struct index *index,
	const char *name, const char *version, struct found_list *list)
{
	const struct package *package = index_find(index, name);
	const struct package *end = index->packages + index->count;
	int r = 0;

	for (; package && package < end && strcmp(package->name, name) == 0 && r == 0; package++) {
		if (!is_for(package, scope->arch) ||
			(version && !version_fits(scope->os, package->version, version)))
			continue;
		r = append(list, index, package);
	}
	return r;
}

static int match_named(const struct match_scope *scope, const char *name, const char *version,
	struct found_list *list)
{
	int r = 0;

	for (size_t i = 0; i < scope->count && r == 0; i++)
		if (scope->indexes[i].result == 0)
			r = match_name_in(scope, &scope->indexes[i], name, version, list);
	return r;
}

int match_name(const struct match_scope *scope, const char *name, struct found_list *list)
{
	return match_named(scope, name, NULL, list);
}

/* 1 when the package provides "<pattern> = krel". */
static int provides(const struct package *package, const char *pattern, const char *krel)
{
	const char *cursor = package->provides;

	/* Most packages are told by this alone. */
	if (!strstr(cursor, krel))
		return 0;
	for (;;) {
		_cleanup_(relation_free) struct relation relation = { 0 };
		int r = relation_next(&cursor, &relation);

		if (r <= 0)
			return r;
		if (strcmp(relation.version, krel) == 0 && fnmatch(pattern, relation.name, 0) == 0)
			return 1;
	}
}

static int match_provides(
	const struct match_scope *scope, const char *pattern, struct found_list *list)
{
	for (size_t i = 0; i < scope->count; i++) {
		const struct index *index = &scope->indexes[i];

		for (size_t j = 0; index->result == 0 && j < index->count; j++) {
			const struct package *package = &index->packages[j];
			int r = is_for(package, scope->arch)
					? provides(package, pattern, scope->krel)
					: 0;

			if (r > 0)
				r = append(list, index, package);
			if (r < 0)
				return r;
		}
	}
	return 0;
}

static int match_alternative(
	const struct match_scope *scope, const char *word, struct found_list *list)
{
	_cleanup_free_ char *text = NULL;
	_cleanup_free_ char *version = NULL;
	_cleanup_free_ char *flavour = NULL;
	int r = catalogue_expand(scope->os, word, scope->krel, &text);

	if (r < 0)
		return r;
	switch (scope->os->kernel.match) {
	case MATCH_NAME:
		return match_named(scope, text, NULL, list);
	case MATCH_PROVIDES:
		return match_provides(scope, text, list);
	case MATCH_VERSION:
		r = catalogue_split_krel(scope->os, scope->krel, &version, &flavour);
		return r < 0 ? r : match_named(scope, text, version, list);
	}
	return -EINVAL;
}

int match_word(const struct match_scope *scope, const char *word, struct found_list *list)
{
	_cleanup_strv_ struct strv alternatives = { 0 };
	size_t before = list->count;
	int r = strv_split(&alternatives, word, "|");

	for (size_t i = 0; i < alternatives.count && r == 0 && list->count == before; i++)
		r = match_alternative(scope, alternatives.items[i], list);
	return r;
}

char *match_describe(const struct match_scope *scope, const char *word)
{
	_cleanup_free_ char *text = NULL;
	_cleanup_free_ char *version = NULL;
	_cleanup_free_ char *flavour = NULL;
	char *description = NULL;
	int r = catalogue_expand(scope->os, word, scope->krel, &text);

	if (r == 0)
		r = catalogue_split_krel(scope->os, scope->krel, &version, &flavour);
	if (r < 0)
		return NULL;
	switch (scope->os->kernel.match) {
	case MATCH_NAME:
		for (char *bar = strchr(text, '|'); bar; bar = strchr(bar, '|'))
			*bar = '/';
		r = asprintf(&description, "package %s", text);
		break;
	case MATCH_PROVIDES:
		r = asprintf(&description, "package that provides %s = %s", text, scope->krel);
		break;
	case MATCH_VERSION:
		r = asprintf(&description, "package %s of version %s%s", text, version,
			scope->os->kernel.build_counter ? ".*" : "");
		break;
	}
	return r < 0 ? NULL : description;
}

struct order {
	const struct index *home;
};

static int compare_found(const void *a, const void *b, void *context)
{
	const struct order *order = context;
	const struct found *left = a;
	const struct found *right = b;
	int difference = match_compare_versions(right->package->version, left->package->version);

	if (difference || left->index == right->index)
		return difference;
	if (left->index == order->home || right->index == order->home)
		return left->index == order->home ? -1 : 1;
	return left->index < right->index ? -1 : 1;
}

void match_sort(struct found_list *list, const struct index *home)
{
	struct order order = { .home = home };

	if (list->count > 1)
		qsort_r(list->items, list->count, sizeof(*list->items), compare_found, &order);
}
