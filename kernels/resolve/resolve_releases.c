/* SPDX-License-Identifier: Apache-2.0 */
/* Which kernel releases there are: the catalogue's rules read backwards. */
#include <fnmatch.h>
#include <string.h>

#include "common/nearest.h"
#include "kernels/krel.h"
#include "kernels/repo/relation.h"
#include "kernels/resolve/resolve.h"
#include "kernels/resolve/resolve_match.h"
#include "kernels/version.h"

#define NEAREST_EACH_SIDE 3
#define KREL_WORD         "{krel}"

/* "6.1.0-56-amd64" has two dots in its version; "6.12-amd64", which only means the newest, one. */
static bool is_release(const char *krel)
{
	int dots = 0;

	if (!krel_is_valid(krel))
		return false;
	for (const char *c = krel; *c && *c != '-'; c++)
		dots += *c == '.';
	return dots >= 2;
}

static bool has_package(const struct index *indexes, size_t count, const char *name)
{
	for (size_t i = 0; i < count; i++)
		if (indexes[i].result == 0 && index_find(&indexes[i], name))
			return true;
	return false;
}

struct listing {
	const struct index *indexes;
	size_t count;
	const struct catalogue *os;
	struct strv headers; /* alternatives of the rules' first words */
	struct strv modules;
	struct strv *krels;
};

/* Is @word for this release the text @wanted? Negative without memory. */
static int means(const struct catalogue *os, const char *word, const char *krel, const char *wanted)
{
	_cleanup_free_ char *text = NULL;
	int r = catalogue_expand(os, word, krel, &text);

	return r < 0 ? r : strcmp(text, wanted) == 0;
}

static int has_modules(const struct listing *listing, const char *krel)
{
	for (size_t i = 0; i < listing->modules.count; i++) {
		_cleanup_free_ char *name = NULL;
		int r = catalogue_expand(listing->os, listing->modules.items[i], krel, &name);

		if (r < 0 || has_package(listing->indexes, listing->count, name))
			return r < 0 ? r : 1;
	}
	return 0;
}

/*
 * What stands for {krel} in a package's name. What flavours share ("6.1.0-56-common") is told by
 * its lack of modules.
 */
static int of_name(const struct listing *listing, const struct package *package, const char *word)
{
	const char *place = strstr(word, KREL_WORD);
	const char *suffix = place ? place + strlen(KREL_WORD) : "";
	size_t before = place ? (size_t) (place - word) : 0;
	size_t length = strlen(package->name);
	_cleanup_free_ char *krel = NULL;
	int r;

	if (!place || strncmp(package->name, word, before) != 0 ||
		length <= before + strlen(suffix))
		return 0;
	krel = strndup(package->name + before, length - before - strlen(suffix));
	if (!krel)
		return -ENOMEM;
	if (!is_release(krel))
		return 0;
	r = means(listing->os, word, krel, package->name);
	if (r > 0)
		r = has_modules(listing, krel);
	return r > 0 ? strv_push(listing->krels, krel) : r;
}

static int of_provides(
	const struct listing *listing, const struct package *package, const char *word)
{
	const char *cursor = package->provides;

	for (;;) {
		_cleanup_(relation_free) struct relation relation = { 0 };
		_cleanup_free_ char *pattern = NULL;
		int r = relation_next(&cursor, &relation);

		if (r <= 0)
			return r;
		if (!is_release(relation.version))
			continue;
		r = catalogue_expand(listing->os, word, relation.version, &pattern);
		if (r == 0 && fnmatch(pattern, relation.name, 0) == 0)
			r = strv_push(listing->krels, relation.version);
		if (r < 0)
			return r;
	}
}

/* A release of this flavour whose headers are this package? */
static int of_flavour(const struct listing *listing, const struct package *package,
	const char *word, const char *flavour)
{
	const struct kernel_rules *rules = &listing->os->kernel;
	const char *colon = strchr(package->version, ':');
	const char *version = colon ? colon + 1 : package->version;
	const char *dot = strrchr(version, '.');
	size_t length = rules->build_counter && dot ? (size_t) (dot - version) : strlen(version);
	_cleanup_free_ char *krel = NULL;
	int r;

	if (asprintf(&krel, "%.*s%s%s", (int) length, version, *flavour ? "-" : "", flavour) < 0)
		return -ENOMEM;
	if (!is_release(krel))
		return 0;
	r = means(listing->os, word, krel, package->name);
	return r > 0 ? strv_push(listing->krels, krel) : r;
}

static int of_version(
	const struct listing *listing, const struct package *package, const char *word)
{
	const struct kernel_rules *rules = &listing->os->kernel;
	int r;

	if (strncmp(package->name, word, strcspn(word, "{")) != 0)
		return 0;
	r = of_flavour(listing, package, word, "");
	for (size_t i = 0; i < rules->flavours.count && r == 0; i++)
		r = of_flavour(listing, package, word, rules->flavours.items[i]);
	return r;
}

static int of_package(const struct listing *listing, const struct package *package)
{
	int r = 0;

	for (size_t i = 0; i < listing->headers.count && r == 0; i++) {
		const char *word = listing->headers.items[i];

		switch (listing->os->kernel.match) {
		case MATCH_NAME:
			r = of_name(listing, package, word);
			break;
		case MATCH_PROVIDES:
			r = of_provides(listing, package, word);
			break;
		case MATCH_VERSION:
			r = of_version(listing, package, word);
			break;
		}
	}
	return r;
}

static void drop_repeated(struct strv *sorted)
{
	for (size_t i = sorted->count; i-- > 1;)
		if (strcmp(sorted->items[i], sorted->items[i - 1]) == 0)
			strv_remove(sorted, i);
}

static void listing_free(struct listing *listing)
{
	strv_free(&listing->headers);
	strv_free(&listing->modules);
}

int resolve_releases(
	const struct index *indexes, size_t count, const struct catalogue *os, struct strv *krels)
{
	_cleanup_(listing_free) struct listing listing = {
		.indexes = indexes,
		.count = count,
		.os = os,
		.krels = krels,
	};
	int r = strv_split(&listing.headers, os->kernel.headers.items[0], "|");

	if (r == 0)
		r = strv_split(&listing.modules, os->kernel.modules.items[0], "|");
	for (size_t i = 0; i < count && r == 0; i++)
		for (size_t j = 0; indexes[i].result == 0 && j < indexes[i].count && r == 0; j++)
			r = of_package(&listing, &indexes[i].packages[j]);
	if (r < 0)
		return r;
	if (krels->count)
		qsort(krels->items, krels->count, sizeof(*krels->items), version_compare_items);
	drop_repeated(krels);
	return 0;
}

/* What tells kernels of one version apart: Debian's is in its name, rpm's follows the machine. */
static int flavour_of(const struct catalogue *os, const char *krel, char **ret_flavour)
{
	_cleanup_free_ char *version = NULL;

	if (os->kernel.match != MATCH_NAME)
		return catalogue_split_krel(os, krel, &version, ret_flavour);
	*ret_flavour = strdup(krel_flavour(krel));
	return *ret_flavour ? 0 : -ENOMEM;
}

static bool is_of_flavour(const struct catalogue *os, const char *krel, const char *wanted)
{
	_cleanup_free_ char *flavour = NULL;

	return flavour_of(os, krel, &flavour) == 0 && strcmp(flavour, wanted) == 0;
}

static bool is_of_series(const char *krel, const char *series)
{
	size_t length = strlen(series);

	return length == 0 ||
	       (strncmp(krel, series, length) == 0 && (krel[length] == '.' || krel[length] == '-'));
}

const char *resolve_newest(const struct strv *krels, const struct catalogue *os)
{
	const char *newest = NULL;

	for (size_t i = 0; i < krels->count; i++) {
		const char *krel = krels->items[i];

		if (!is_of_series(krel, os->kernel.series) ||
			!is_of_flavour(os, krel, os->kernel.flavour))
			continue;
		if (!newest || version_compare(krel, newest) > 0)
			newest = krel;
	}
	return newest;
}

static int of_same_flavour(
	const struct strv *krels, const struct catalogue *os, const char *krel, struct strv *same)
{
	_cleanup_free_ char *flavour = NULL;
	int r = flavour_of(os, krel, &flavour);

	for (size_t i = 0; i < krels->count && r == 0; i++)
		if (is_of_flavour(os, krels->items[i], flavour))
			r = strv_push(same, krels->items[i]);
	return r;
}

/* "6.1" of "6.1.0-57-amd64": how far two releases of one series agree. */
static size_t series_length(const char *krel)
{
	size_t length = strcspn(krel, ".");

	return krel[length] ? length + 1 + strcspn(krel + length + 1, ".-+") : length;
}

/* Of those the ones of the same series; all where it has none: another series is a far neighbour.
 */
static int of_same_series(const struct strv *from, const char *krel, struct strv *same)
{
	size_t length = series_length(krel);
	int r = 0;

	for (size_t i = 0; i < from->count && r == 0; i++)
		if (series_length(from->items[i]) == length &&
			strncmp(from->items[i], krel, length) == 0)
			r = strv_push(same, from->items[i]);
	return r;
}

int resolve_nearest(const struct strv *krels, const struct catalogue *os, const char *krel,
	struct strv *nearest)
{
	_cleanup_strv_ struct strv same = { 0 };
	_cleanup_strv_ struct strv series = { 0 };
	const struct strv *from = &same;
	size_t place = 0, first, last;
	int r = of_same_flavour(krels, os, krel, &same);

	if (same.count == 0)
		from = krels;
	if (r == 0)
		r = of_same_series(from, krel, &series);
	if (series.count)
		from = &series;
	while (place < from->count && version_compare(from->items[place], krel) < 0)
		place++;
	first = place > NEAREST_EACH_SIDE ? place - NEAREST_EACH_SIDE : 0;
	last = place + NEAREST_EACH_SIDE < from->count ? place + NEAREST_EACH_SIDE : from->count;
	for (size_t i = first; i < last && r == 0; i++)
		r = strv_push(nearest, from->items[i]);
	return r;
}

const char *resolve_meant(const struct strv *krels, const struct catalogue *os, const char *krel)
{
	_cleanup_strv_ struct strv same = { 0 };

	if (of_same_flavour(krels, os, krel, &same) < 0 || same.count)
		return NULL;
	return nearest_word(krels, krel);
}
