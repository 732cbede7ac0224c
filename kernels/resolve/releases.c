/* SPDX-License-Identifier: Apache-2.0 */
/* Lists the existing kernel releases: the catalogue's rules read backwards. */
#include <fnmatch.h>
#include <string.h>

#include "common/nearest.h"
#include "common/xalloc.h"
#include "kernels/krel.h"
#include "kernels/repo/package.h"
#include "kernels/resolve/resolve.h"

#define NEAREST_EACH_SIDE 3
#define KREL_WORD         "{krel}"

struct listing {
	const struct index *indexes;
	size_t count;
	const struct catalogue *os;
	struct strv headers; /* alternatives of the rules' first words */
	struct strv modules;
	struct strv *krels;
};

/* "6.1.0-56-amd64" has two dots in its version; "6.12-amd64", which only means the newest, one. */
static bool is_release(const char *krel)
{
	int dots = 0;

	for (const char *c = krel; *c && *c != '-'; c++)
		dots += *c == '.';
	return dots >= 2 && krel_is_valid(krel);
}

/* Adds the release if @word for it is the name @wanted. */
static void add_if_means(
	const struct listing *listing, const char *word, const char *krel, const char *wanted)
{
	_cleanup_free_ char *text = catalogue_expand(listing->os, word, krel);

	if (strcmp(text, wanted) == 0)
		xstrv_push(listing->krels, krel);
}

static bool has_modules(const struct listing *listing, const char *krel)
{
	for (size_t i = 0; i < listing->modules.count; i++) {
		_cleanup_free_ char *name =
			catalogue_expand(listing->os, listing->modules.items[i], krel);

		for (size_t j = 0; j < listing->count; j++)
			if (listing->indexes[j].result == 0 &&
				index_find(&listing->indexes[j], name))
				return true;
	}
	return false;
}

/*
 * Adds the text that stands for {krel} in a package's name. Packages that flavours share
 * ("6.1.0-56-common") are recognized by their lack of modules.
 */
static void add_by_name(
	const struct listing *listing, const struct package *package, const char *word)
{
	const char *place = strstr(word, KREL_WORD);
	const char *suffix = place ? place + strlen(KREL_WORD) : "";
	size_t before = place ? (size_t) (place - word) : 0;
	size_t length = strlen(package->name);
	_cleanup_free_ char *krel = NULL;

	if (!place || strncmp(package->name, word, before) != 0 ||
		length <= before + strlen(suffix))
		return;
	krel = xstrndup(package->name + before, length - before - strlen(suffix));
	if (is_release(krel) && has_modules(listing, krel))
		add_if_means(listing, word, krel, package->name);
}

static void add_by_provides(
	const struct listing *listing, const struct package *package, const char *word)
{
	_cleanup_(relation_free) struct relation relation = { 0 };
	const char *cursor = package->provides;

	while (relation_next(&cursor, &relation)) {
		_cleanup_free_ char *pattern = NULL;

		if (!is_release(relation.version))
			continue;
		pattern = catalogue_expand(listing->os, word, relation.version);
		if (fnmatch(pattern, relation.name, 0) == 0)
			xstrv_push(listing->krels, relation.version);
	}
}

/* The release of each flavour, and of none, whose headers are this package. */
static void add_by_version(
	const struct listing *listing, const struct package *package, const char *word)
{
	const struct kernel_rules *rules = &listing->os->kernel;
	const char *version = version_without_epoch(package->version);
	const char *dot = strrchr(version, '.');
	size_t length = rules->build_counter && dot ? (size_t) (dot - version) : strlen(version);

	if (strncmp(package->name, word, strcspn(word, "{")) != 0)
		return;
	for (size_t i = 0; i <= rules->flavours.count; i++) {
		const char *flavour = i ? rules->flavours.items[i - 1] : "";
		_cleanup_free_ char *krel =
			xasprintf("%.*s%s%s", (int) length, version, *flavour ? "-" : "", flavour);

		if (is_release(krel))
			add_if_means(listing, word, krel, package->name);
	}
}

void resolve_releases(
	const struct index *indexes, size_t count, const struct catalogue *os, struct strv *krels)
{
	static void (*const add[])(const struct listing *, const struct package *, const char *) = {
		[MATCH_NAME] = add_by_name,
		[MATCH_PROVIDES] = add_by_provides,
		[MATCH_VERSION] = add_by_version,
	};
	struct listing listing = { .indexes = indexes, .count = count, .os = os, .krels = krels };

	xstrv_split(&listing.headers, os->kernel.headers.items[0], "|");
	xstrv_split(&listing.modules, os->kernel.modules.items[0], "|");
	for (size_t i = 0; i < count; i++)
		for (size_t j = 0; !indexes[i].request->for_tools && indexes[i].result == 0 &&
				   j < indexes[i].count;
			j++)
			for (size_t k = 0; k < listing.headers.count; k++)
				add[os->kernel.match](&listing, &indexes[i].packages[j],
					listing.headers.items[k]);
	strv_free(&listing.headers);
	strv_free(&listing.modules);
	if (krels->count)
		qsort(krels->items, krels->count, sizeof(*krels->items), krel_compare_items);
	for (size_t i = krels->count; i-- > 1;)
		if (strcmp(krels->items[i], krels->items[i - 1]) == 0)
			strv_remove(krels, i);
}

/* ---- flavours and series */

/*
 * Returns the part that distinguishes kernels of one version: Debian's is in the release's name,
 * rpm's follows the machine.
 */
static char *flavour_of(const struct catalogue *os, const char *krel)
{
	_cleanup_free_ char *version = NULL;
	char *flavour;

	if (os->kernel.match == MATCH_NAME)
		return xstrdup(krel_flavour(krel));
	catalogue_split_krel(os, krel, &version, &flavour);
	return flavour;
}

static bool is_of_flavour(const struct catalogue *os, const char *krel, const char *wanted)
{
	_cleanup_free_ char *flavour = flavour_of(os, krel);

	return strcmp(flavour, wanted) == 0;
}

/* The newest of them; @length 0: of any series. */
static const char *newest_of(const struct strv *krels, const struct catalogue *os,
	const char *series, size_t length, const char *flavour)
{
	const char *newest = NULL;

	for (size_t i = 0; i < krels->count; i++) {
		const char *krel = krels->items[i];

		if ((length == 0 || (strncmp(krel, series, length) == 0 &&
					    (krel[length] == '.' || krel[length] == '-'))) &&
			is_of_flavour(os, krel, flavour) &&
			(!newest || krel_compare(krel, newest) > 0))
			newest = krel;
	}
	return newest;
}

const char *resolve_newest(const struct strv *krels, const struct catalogue *os, const char *arch)
{
	_cleanup_free_ char *flavour = catalogue_flavour(os, arch);
	const char *series = os->kernel.series;

	return newest_of(krels, os, series, strlen(series), flavour);
}

/* Appends the releases that have @krel's flavour. */
static void of_same_flavour(
	const struct strv *krels, const struct catalogue *os, const char *krel, struct strv *same)
{
	_cleanup_free_ char *flavour = flavour_of(os, krel);

	for (size_t i = 0; i < krels->count; i++)
		if (is_of_flavour(os, krels->items[i], flavour))
			xstrv_push(same, krels->items[i]);
}

/* "6.1" of "6.1.0-57-amd64": how far two releases of one series agree. */
static size_t series_length(const char *krel)
{
	size_t length = strcspn(krel, ".");

	return krel[length] ? length + 1 + strcspn(krel + length + 1, ".-+") : length;
}

const char *resolve_update(const struct strv *krels, const struct catalogue *os, const char *krel)
{
	_cleanup_free_ char *flavour = flavour_of(os, krel);
	bool rolling = !*os->kernel.series;
	const char *newest = newest_of(krels, os, krel, rolling ? 0 : series_length(krel), flavour);

	return newest && krel_compare(newest, krel) >= 0 ? newest : NULL;
}

void resolve_nearest(const struct strv *krels, const struct catalogue *os, const char *krel,
	struct strv *nearest)
{
	_cleanup_strv_ struct strv same = { 0 };
	_cleanup_strv_ struct strv series = { 0 };
	const struct strv *from = &same;
	size_t length = series_length(krel);
	size_t place = 0;

	of_same_flavour(krels, os, krel, &same);
	if (same.count == 0)
		from = krels;
	/* Prefer the same series, if it has any: another one is a distant neighbour. */
	for (size_t i = 0; i < from->count; i++)
		if (series_length(from->items[i]) == length &&
			strncmp(from->items[i], krel, length) == 0)
			xstrv_push(&series, from->items[i]);
	if (series.count)
		from = &series;
	while (place < from->count && krel_compare(from->items[place], krel) < 0)
		place++;
	for (size_t i = place > NEAREST_EACH_SIDE ? place - NEAREST_EACH_SIDE : 0;
		i < from->count && i < place + NEAREST_EACH_SIDE; i++)
		xstrv_push(nearest, from->items[i]);
}

const char *resolve_meant(const struct strv *krels, const struct catalogue *os, const char *krel)
{
	_cleanup_strv_ struct strv same = { 0 };
	const char *plain = NULL;

	of_same_flavour(krels, os, krel, &same);
	if (same.count)
		return NULL;
	/* Without its flavour: the plainest one. */
	for (size_t i = 0; i < krels->count; i++) {
		const char *item = krels->items[i];

		if (strncmp(item, krel, strlen(krel)) == 0 && item[strlen(krel)] == '-' &&
			(!plain || strlen(item) < strlen(plain)))
			plain = item;
	}
	return plain ? plain : nearest_word(krels, krel);
}
