/* SPDX-License-Identifier: Apache-2.0 */
/* Packages that a build needs beside the kernel's: driver sources, and what belongs to them. */
#include <string.h>

#include "kernels/resolve/resolve_kernel.h"

char *resolve_upstream(const char *version)
{
	const char *colon = strchr(version, ':');
	const char *start = colon ? colon + 1 : version;
	const char *dash = strrchr(start, '-');

	return dash ? strndup(start, (size_t) (dash - start)) : strdup(start);
}

/* Is it for those who ask for it, and does nothing in this resolution? */
static bool is_apart(const struct resolution *resolution, const struct index *index)
{
	return index->not_automatic && index != resolution->home;
}

/* The newest; one of backports only where no other list has any, or the kernel is from there. */
static const struct found *newest(const struct resolution *resolution, struct found_list *list)
{
	match_sort(list, resolution->home);
	for (size_t i = 0; i < list->count; i++)
		if (!is_apart(resolution, list->items[i].index))
			return &list->items[i];
	return list->count ? &list->items[0] : NULL;
}

/* Of the same upstream version as the package @model of the lock, or NULL in *ret. */
static int same_upstream(const struct resolution *resolution, const char *model,
	const struct found_list *list, const struct found **ret)
{
	const struct lock_package *package = lock_find_name(&resolution->lock, model);
	_cleanup_free_ char *wanted = package ? resolve_upstream(package->version) : NULL;

	*ret = NULL;
	if (!wanted)
		return package ? -ENOMEM : 0;
	for (size_t i = 0; i < list->count && !*ret; i++) {
		_cleanup_free_ char *upstream = resolve_upstream(list->items[i].package->version);

		if (!upstream)
			return -ENOMEM;
		if (strcmp(upstream, wanted) == 0)
			*ret = &list->items[i];
	}
	return 0;
}

static const struct found *beside_kernel(
	const struct resolution *resolution, const struct found_list *list)
{
	for (size_t i = 0; resolution->anchor && i < list->count; i++)
		if (match_compare_versions(
			    list->items[i].package->version, resolution->anchor->version) == 0)
			return &list->items[i];
	return NULL;
}

/* Returns 1 when there is no packaging of @name that fits. */
static int add_named(struct resolution *resolution, const struct resolve_extra *extra,
	const char *name, struct error *error)
{
	_cleanup_(found_list_free) struct found_list list = { 0 };
	const struct found *found = NULL;
	int r = match_name(&resolution->scope, name, &list);

	if (r < 0)
		return error_set_errno(error, r, "%s", name);
	match_sort(&list, resolution->home);
	if (extra->same_upstream_as && lock_find_name(&resolution->lock, extra->same_upstream_as)) {
		r = same_upstream(resolution, extra->same_upstream_as, &list, &found);
		if (r < 0 || !found)
			return r < 0 ? error_set_errno(error, r, "%s", name) : 1;
	}
	if (!found && extra->beside_kernel)
		found = beside_kernel(resolution, &list);
	if (!found)
		found = newest(resolution, &list);
	if (!found && extra->optional)
		return 0;
	if (!found)
		return error_set(error, -ENOENT,
			"%s: the package for %s is in no list of %s that could be read: name a tree or "
			"a tarball instead, or run again with --refresh",
			name, extra->purpose, resolution->scope.os->os);
	r = resolution_add(resolution, found, extra->purpose);
	return r < 0 ? error_set_errno(error, r, "%s", name) : 0;
}

/* As add_named(); the catalogue's name of a package may hold words about the kernel. */
static int add_extra(
	struct resolution *resolution, const struct resolve_extra *extra, struct error *error)
{
	_cleanup_free_ char *name = NULL;
	int r = catalogue_expand(
		resolution->scope.os, extra->name, resolution->request->krel, &name);

	return r < 0 ? error_set_errno(error, r, "%s", extra->name)
		     : add_named(resolution, extra, name, error);
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

int resolve_extras(struct resolution *resolution, struct error *error)
{
	const struct resolve_request *request = resolution->request;
	const char *dropped = NULL;

	for (size_t i = 0; i < request->extra_count; i++) {
		const struct resolve_extra *extra = &request->extras[i];
		int r;

		if (dropped && strcmp(extra->purpose, dropped) == 0)
			continue;
		r = add_extra(resolution, extra, error);
		if (r < 0)
			return r;
		if (r > 0) {
			drop_purpose(&resolution->lock, extra->purpose);
			dropped = extra->purpose;
		}
	}
	return 0;
}
