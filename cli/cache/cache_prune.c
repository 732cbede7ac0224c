/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cache/cache_prune.h"

#include <string.h>

#include "cli/image/buildah.h"
#include "cli/image/image.h"
#include "common/fs.h"

#define OURS "localhost/slipway/"

struct pruning {
	const struct cache *cache;
	const struct prune_request *request;
	const struct prune_listener *listener;
	struct prune_result *result;
	struct cache_entries entries;
	time_t living_since_s;
	uint64_t left_bytes;
	struct strv kept_images; /* that an output which stays stands for */
};

static void pruning_free(struct pruning *pruning)
{
	cache_entries_free(&pruning->entries);
	strv_free(&pruning->kept_images);
}

/* The image that an output stands for; the caller frees it. NULL: none, or not ours to remove. */
static char *image_of(const struct pruning *pruning, const struct cache_entry *entry)
{
	_cleanup_free_ char *path = NULL;
	_cleanup_free_ char *name = NULL;

	if (entry->kind != CACHE_OUTPUT || asprintf(&path, "%s/image", entry->path) < 0 ||
		fs_read_line(pruning->cache->fd, path, &name) < 0 ||
		strncmp(name, OURS, strlen(OURS)) != 0)
		return NULL;
	return TAKE_PTR(name);
}

/* The name of a driver image of an output; the caller frees it. */
static char *driver_image_of(const struct pruning *pruning, const struct cache_entry *entry)
{
	_cleanup_free_ char *folder = NULL;
	struct image image = { 0 };
	struct error ignored;
	char *name;

	if (entry->kind != CACHE_OUTPUT ||
		asprintf(&folder, "%s/%s", pruning->cache->path, entry->path) < 0 ||
		image_read(folder, &image, &ignored) < 0)
		return NULL;
	name = TAKE_PTR(image.reference);
	image_free(&image);
	return name;
}

static int by_last_use(const void *a, const void *b)
{
	const struct cache_entry *left = a, *right = b;

	return (left->used_s > right->used_s) - (left->used_s < right->used_s);
}

static bool is_wanted_gone(const struct pruning *pruning, const struct cache_entry *entry)
{
	const struct prune_request *request = pruning->request;

	if (request->all || entry->kind == CACHE_DAMAGED)
		return true;
	if (request->by_age && time(NULL) - entry->used_s > request->age_s)
		return true;
	return request->by_size && pruning->left_bytes > request->keep_bytes;
}

static void remove_image(const struct pruning *pruning, const char *name)
{
	if (pruning->request->dry_run || buildah_remove_image(name) == 0)
		pruning->listener->on_image(pruning->listener->context, name);
}

/* 1: gone, or would be. */
static int remove_entry(struct pruning *pruning, const struct cache_entry *entry)
{
	_cleanup_free_ char *image = image_of(pruning, entry);
	int r = 1;

	if (cache_entry_in_use(entry, pruning->living_since_s))
		r = 0;
	else if (!pruning->request->dry_run)
		r = cache_entry_remove(pruning->cache, entry);
	if (r == 0)
		pruning->result->in_use++;
	if (r <= 0)
		return r;
	pruning->result->removed++;
	pruning->result->removed_bytes += entry->size_bytes;
	pruning->left_bytes -= entry->size_bytes;
	pruning->listener->on_entry(pruning->listener->context, entry);
	if (image)
		remove_image(pruning, image);
	return 1;
}

static int remember_images(struct pruning *pruning, const struct cache_entry *entry)
{
	_cleanup_free_ char *image = image_of(pruning, entry);
	_cleanup_free_ char *driver = driver_image_of(pruning, entry);
	int r = image ? strv_push(&pruning->kept_images, image) : 0;

	return r == 0 && driver ? strv_push(&pruning->kept_images, driver) : r;
}

static int remove_entries(struct pruning *pruning, struct error *error)
{
	for (size_t i = 0; i < pruning->entries.count; i++) {
		const struct cache_entry *entry = &pruning->entries.items[i];
		int r = is_wanted_gone(pruning, entry) ? remove_entry(pruning, entry) : 0;

		if (r == 0)
			r = remember_images(pruning, entry);
		if (r < 0)
			return error_set_errno(
				error, r, "%s/%s", pruning->cache->path, entry->path);
	}
	return 0;
}

/* Images of outputs that went without them: with the cache's folder, or by hand. */
static int remove_other_images(struct pruning *pruning)
{
	_cleanup_strv_ struct strv names = { 0 };
	int r = buildah_image_names(OURS, &names);

	for (size_t i = 0; i < names.count && r == 0; i++)
		if (!strv_contains(&pruning->kept_images, names.items[i]))
			remove_image(pruning, names.items[i]);
	return r;
}

int cache_prune(const struct cache *cache, const struct prune_request *request,
	const struct prune_listener *listener, struct prune_result *ret, struct error *error)
{
	_cleanup_(pruning_free) struct pruning pruning = {
		.cache = cache,
		.request = request,
		.listener = listener,
		.result = ret,
		.living_since_s = cache_oldest_run(cache),
	};
	int r = cache_entries_read(cache, &pruning.entries, error);

	*ret = (struct prune_result){ 0 };
	if (r < 0)
		return r;
	if (pruning.entries.count)
		qsort(pruning.entries.items, pruning.entries.count, sizeof(*pruning.entries.items),
			by_last_use);
	for (size_t i = 0; i < pruning.entries.count; i++)
		pruning.left_bytes += pruning.entries.items[i].size_bytes;
	r = remove_entries(&pruning, error);
	/* Another cache's run may have made some a moment ago: only where all is to go. */
	if (r == 0 && request->all && !pruning.living_since_s)
		(void) !remove_other_images(&pruning);
	return r;
}
