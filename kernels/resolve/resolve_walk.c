/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kernels/repo/relation.h"
#include "kernels/resolve/resolve_kernel.h"

static bool is_followed(const struct strv *prefixes, const char *name)
{
	for (size_t i = 0; i < prefixes->count; i++)
		if (strncmp(name, prefixes->items[i], strlen(prefixes->items[i])) == 0)
			return true;
	return false;
}

/*
 * Of the headers' own source; or where the catalogue knows packages by their version, of the same
 * build: SUSE's kernel-devel comes from another source than kernel-default-devel.
 */
static bool belongs(const struct resolution *resolution, const struct package *package)
{
	const struct package *anchor = resolution->anchor;

	return strcmp(package->source, anchor->source) == 0 ||
	       (resolution->scope.os->kernel.match == MATCH_VERSION &&
		       match_same_build(resolution->scope.os, package->version, anchor->version));
}

static const struct found *find_version(
	const struct resolution *resolution, const struct found_list *list, const char *version)
{
	for (size_t i = 0; i < list->count; i++)
		if (match_same_build(
			    resolution->scope.os, list->items[i].package->version, version))
			return &list->items[i];
	return NULL;
}

/*
 * The version that is asked for, else that of the headers, else the newest: of the list that has
 * the headers where it has any.
 */
static const struct found *choose(const struct resolution *resolution,
	const struct relation *relation, const struct found_list *list)
{
	const struct found *found = NULL;

	if (strcmp(relation->sign, "=") == 0)
		found = find_version(resolution, list, relation->version);
	if (!found)
		found = find_version(resolution, list, resolution->anchor->version);
	for (size_t i = 0; i < list->count && !found; i++)
		if (list->items[i].index == resolution->home)
			found = &list->items[i];
	return found ? found : &list->items[0];
}

/* Returns 1 when it was taken or is none of ours, 0 when no list has it. */
static int follow(struct resolution *resolution, const struct relation *relation)
{
	_cleanup_(found_list_free) struct found_list list = { 0 };
	const struct found *found;
	int r = match_name(&resolution->scope, relation->name, &list);

	if (r < 0 || list.count == 0)
		return r;
	match_sort(&list, resolution->home);
	found = choose(resolution, relation, &list);
	if (!belongs(resolution, found->package))
		return 1;
	r = resolution_add(resolution, found, LOCK_HEADERS);
	return r < 0 ? r : 1;
}

static int not_there(const struct resolution *resolution, const struct package *package,
	const char *name, struct error *error)
{
	return error_set(error, -ENODATA, "kernel %s: %s %s depends on %s, which is in no list",
		resolution->scope.krel, package->name, package->version, name);
}

/* @wanted is a dependency that none of its alternatives has met yet, or NULL. */
static int walk_one(
	struct resolution *resolution, const struct package *package, struct error *error)
{
	const struct kernel_rules *rules = &resolution->scope.os->kernel;
	_cleanup_free_ char *wanted = NULL;
	const char *cursor = package->depends;

	for (;;) {
		_cleanup_(relation_free) struct relation relation = { 0 };
		int r = relation_next(&cursor, &relation);

		if (wanted && (r == 0 || !relation.alternative))
			return not_there(resolution, package, wanted, error);
		if (r <= 0)
			return r < 0 ? error_set_errno(error, r, "%s", package->name) : 0;
		if (!is_followed(&rules->follow, relation.name) ||
			(relation.alternative && !wanted))
			continue;
		r = follow(resolution, &relation);
		if (r < 0)
			return error_set_errno(error, r, "%s", relation.name);
		free(TAKE_PTR(wanted));
		if (r == 0)
			wanted = TAKE_PTR(relation.name);
	}
}

int resolve_walk(struct resolution *resolution, struct error *error)
{
	int r = 0;

	/* The list grows on the way; no package is in it twice. */
	for (size_t i = 0; i < resolution->headers.count && r == 0; i++)
		r = walk_one(resolution, resolution->headers.items[i].package, error);
	return r;
}
