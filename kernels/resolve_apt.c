/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/resolve_apt.h"

#include <ctype.h>
#include <string.h>

#include "kernels/resolve_walk.h"
#include "kernels/version.h"

#define HEADERS_PREFIX    "linux-headers-"
#define NEAREST_EACH_SIDE 3

/*
 * The release that a headers package is for: "6.1.0-56-amd64", not "6.1.0-56-common" (shared by
 * flavours) and not "amd64" or "6.12-amd64" (which only depend on the newest).
 */
static const char *release_of(const char *package)
{
	const char *krel = package + strlen(HEADERS_PREFIX);
	const char *flavour;
	int dots = 0;

	if (strncmp(package, HEADERS_PREFIX, strlen(HEADERS_PREFIX)) != 0 ||
		!isdigit((unsigned char) *krel) || strstr(krel, "-common"))
		return NULL;
	flavour = strchr(krel, '-');
	if (!flavour)
		return NULL;
	for (const char *c = krel; c < flavour; c++)
		dots += *c == '.';
	return dots >= 2 ? krel : NULL;
}

/* What follows the last part that starts with a digit: "cloud-amd64" of 6.1.0-56-cloud-amd64. */
static const char *flavour_of(const char *krel)
{
	const char *flavour = strchr(krel, '-');

	while (flavour && isdigit((unsigned char) flavour[1]))
		flavour = strchr(flavour + 1, '-');
	return flavour ? flavour + 1 : "";
}

static bool is_of_series(const char *krel, const char *series)
{
	size_t length = strlen(series);

	return strncmp(krel, series, length) == 0 && krel[length] == '.';
}

const char *resolve_newest(const struct strv *names, const struct catalogue *os)
{
	const char *newest = NULL;

	for (size_t i = 0; i < names->count; i++) {
		const char *krel = release_of(names->items[i]);

		if (!krel || !is_of_series(krel, os->kernel.series) ||
			strcmp(flavour_of(krel), os->kernel.flavour) != 0)
			continue;
		if (!newest || version_compare(krel, newest) > 0)
			newest = krel;
	}
	return newest;
}

static int releases(const struct strv *names, const char *flavour, struct strv *krels)
{
	for (size_t i = 0; i < names->count; i++) {
		const char *krel = release_of(names->items[i]);

		if (!krel || (flavour && strcmp(flavour_of(krel), flavour) != 0))
			continue;
		if (strv_push_unique(krels, krel) < 0)
			return -ENOMEM;
	}
	if (krels->count)
		qsort(krels->items, krels->count, sizeof(*krels->items), version_compare_items);
	return 0;
}

int resolve_nearest(const struct strv *names, const char *krel, struct strv *nearest)
{
	_cleanup_strv_ struct strv krels = { 0 };
	size_t place = 0, first, last;
	int r = releases(names, flavour_of(krel), &krels);

	if (r == 0 && krels.count == 0)
		r = releases(names, NULL, &krels);
	if (r < 0)
		return r;
	while (place < krels.count && version_compare(krels.items[place], krel) < 0)
		place++;
	first = place > NEAREST_EACH_SIDE ? place - NEAREST_EACH_SIDE : 0;
	last = place + NEAREST_EACH_SIDE < krels.count ? place + NEAREST_EACH_SIDE : krels.count;
	for (size_t i = first; i < last && r == 0; i++)
		r = strv_push(nearest, krels.items[i]);
	return r;
}

static int no_such_kernel(
	const struct strv *names, const struct resolve_request *request, struct error *error)
{
	_cleanup_strv_ struct strv nearest = { 0 };
	_cleanup_free_ char *joined = NULL;

	if (resolve_nearest(names, request->krel, &nearest) == 0 && nearest.count)
		joined = strv_join(&nearest, ", ");
	return error_set(error, -ENODATA,
		"kernel %s: no package " HEADERS_PREFIX
		"%s in %s's lists; the nearest there are: %s",
		request->krel, request->krel, request->os->os, joined ? joined : "none");
}

/* Is the release named in the lists? Fills @ret_krel with it. */
static int look_up(const struct strv *names, const struct resolve_request *request, char **ret_krel)
{
	_cleanup_free_ char *package = NULL;
	const char *krel = request->krel;

	if (strcmp(krel, "newest") == 0)
		krel = resolve_newest(names, request->os);
	if (!krel || asprintf(&package, HEADERS_PREFIX "%s", krel) < 0)
		return krel ? -ENOMEM : -ENODATA;
	if (!release_of(package) || !strv_contains(names, package))
		return -ENODATA;
	*ret_krel = strdup(krel);
	return *ret_krel ? 0 : -ENOMEM;
}

/* A name that is not there may be younger than our lists: they are fetched once before giving up.
 */
static int find_krel(struct apt *apt, const struct resolve_request *request, char **ret_krel,
	struct error *error)
{
	for (int attempt = 0;; attempt++) {
		_cleanup_strv_ struct strv names = { 0 };
		int r = apt_names(apt, HEADERS_PREFIX, &names, error);

		if (r < 0)
			return r;
		r = look_up(&names, request, ret_krel);
		if (r == -ENODATA && attempt > 0)
			return no_such_kernel(&names, request, error);
		if (r < 0 && r != -ENODATA)
			return error_set_errno(error, r, "kernel %s", request->krel);
		if (r == 0)
			return 0;
		r = apt_refresh(apt, error);
		if (r < 0)
			return r;
	}
}

char *resolve_upstream(const char *version)
{
	const char *colon = strchr(version, ':');
	const char *start = colon ? colon + 1 : version;
	const char *dash = strrchr(start, '-');

	return dash ? strndup(start, (size_t) (dash - start)) : strdup(start);
}

/* The version of @name that packages the same upstream release as @version, or NULL in *ret. */
static int same_upstream(const struct apt *apt, const char *name, const char *version, char **ret,
	struct error *error)
{
	_cleanup_strv_ struct strv versions = { 0 };
	_cleanup_free_ char *wanted = resolve_upstream(version);
	int r = wanted ? apt_versions(apt, name, &versions, error) : -ENOMEM;

	*ret = NULL;
	for (size_t i = 0; i < versions.count && r == 0 && !*ret; i++) {
		_cleanup_free_ char *upstream = resolve_upstream(versions.items[i]);

		if (!upstream)
			r = -ENOMEM;
		else if (strcmp(upstream, wanted) == 0)
			*ret = strdup(versions.items[i]);
	}
	return r;
}

static void drop_purpose(struct lock *lock, const char *purpose)
{
	size_t kept = 0;

	for (size_t i = 0; i < lock->count; i++) {
		if (strcmp(lock->packages[i].purpose, purpose) == 0)
			lock_package_free(&lock->packages[i]);
		else
			lock->packages[kept++] = lock->packages[i];
	}
	lock->count = kept;
}

static const char *version_of(const struct lock *lock, const char *name)
{
	for (size_t i = 0; i < lock->count; i++)
		if (strcmp(lock->packages[i].name, name) == 0)
			return lock->packages[i].version;
	return NULL;
}

/* Returns 1 when there is no packaging that fits. */
static int add_extra(const struct apt *apt, const struct resolve_extra *extra,
	const char *kernel_version, struct lock *lock, struct error *error)
{
	_cleanup_(apt_package_free) struct apt_package package = { 0 };
	_cleanup_free_ char *version = NULL;
	const char *model;
	int r;

	if (extra->same_upstream_as) {
		model = version_of(lock, extra->same_upstream_as);
		r = model ? same_upstream(apt, extra->name, model, &version, error) : 0;
		if (r < 0 || !version)
			return r < 0 ? r : 1;
	}
	if (!version && strcmp(extra->purpose, LOCK_OFED_SOURCE) == 0)
		version = strdup(kernel_version);
	r = resolve_show_near(apt, extra->name, version, &package, error);
	if (r == -ENODATA)
		return error_prefix(error, -ENOENT, "package for %s", extra->purpose);
	return r < 0 ? r : resolve_add_package(lock, &package, extra->purpose, error);
}

static int add_extras(const struct apt *apt, const struct resolve_request *request,
	const char *version, struct lock *lock, struct error *error)
{
	const char *dropped = NULL;

	for (size_t i = 0; i < request->extra_count; i++) {
		const struct resolve_extra *extra = &request->extras[i];
		int r;

		if (dropped && strcmp(extra->purpose, dropped) == 0)
			continue;
		r = add_extra(apt, extra, version, lock, error);
		if (r < 0)
			return r;
		if (r > 0) {
			drop_purpose(lock, extra->purpose);
			dropped = extra->purpose;
		}
	}
	return 0;
}

static int take_url(struct lock_package *package, const struct strv *lines)
{
	for (size_t i = 0; i < lines->count; i++) {
		const char *blank = strrchr(lines->items[i], ' ');

		if (strcmp(blank + 1, package->sha256) != 0)
			continue;
		package->url = strndup(lines->items[i], (size_t) (blank - lines->items[i]));
		return package->url ? 0 : -ENOMEM;
	}
	return -ENODATA;
}

static int add_urls(const struct apt *apt, struct lock *lock, struct error *error)
{
	_cleanup_strv_ struct strv wanted = { 0 };
	_cleanup_strv_ struct strv lines = { 0 };
	int r = 0;

	for (size_t i = 0; i < lock->count && r == 0; i++)
		r = strv_pushf(&wanted, "%s=%s", lock->packages[i].name, lock->packages[i].version);
	if (r < 0)
		return error_set_errno(error, r, "lock");
	r = apt_locate(apt, &wanted, &lines, error);
	for (size_t i = 0; i < lock->count && r == 0; i++) {
		r = take_url(&lock->packages[i], &lines);
		if (r < 0)
			error_set_errno(error, r, "%s: apt-get names no URL with its SHA-256",
				lock->packages[i].name);
	}
	return r;
}

int resolve(struct apt *apt, const struct resolve_request *request, struct lock *ret,
	struct error *error)
{
	_cleanup_(lock_free) struct lock lock = { 0 };
	_cleanup_free_ char *version = NULL;
	int r = find_krel(apt, request, &lock.krel, error);

	if (r < 0)
		return r;
	lock.os = strdup(request->os->os);
	lock.arch = strdup("x86_64");
	if (!lock.os || !lock.arch)
		return error_set_errno(error, -ENOMEM, "lock");
	r = resolve_add_kernel(apt, &lock, &version, error);
	if (r == 0)
		r = add_extras(apt, request, version, &lock, error);
	if (r == 0)
		r = add_urls(apt, &lock, error);
	if (r < 0)
		return r;
	*ret = lock;
	lock = (struct lock){ 0 };
	return 0;
}
