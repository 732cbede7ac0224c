/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cached.h"

#include <fcntl.h>

#include "common/xalloc.h"

/* Goes into every key: a change in what outputs look like makes all old ones useless. */
#define CACHE_VERSION "slipway-cache-1"

struct hash *cached_start_key(const char *name)
{
	struct hash *hash = hash_new();

	hash_add_text(hash, CACHE_VERSION);
	hash_add_text(hash, name);
	return hash;
}

void cached_finish_key(
	struct cached *cached, const struct context *context, const char *name, struct hash *hash)
{
	hash_finish(hash, cached->key);
	free(cached->path);
	cached->path = cache_output_path(&context->cache, name, cached->key);
}

int cached_add_data(
	const struct context *context, const char *path, struct hash *hash, struct error *error)
{
	_cleanup_free_ char *full = xasprintf("%s/%s", context->data, path);
	int r;

	hash_add_text(hash, path);
	r = hash_add_tree(hash, AT_FDCWD, full);
	return r < 0 && r != -ENOENT ? error_set_errno(error, r, "%s", full) : 0;
}

bool cached_is_there(const struct context *context, const struct cached *cached,
	bool (*still_there)(const char *path))
{
	return cache_use(&context->cache, cached->path) &&
	       (!still_there || still_there(cached->path));
}

/* Under the output's lock. */
static int make(struct cached *cached, struct context *context, const struct cached_maker *maker,
	struct error *error)
{
	const struct cache *cache = &context->cache;
	_cleanup_free_ char *log = cache_log_path(cache, maker->name, cached->key);
	_cleanup_free_ char *folder = NULL;
	_cleanup_free_ char *detail = NULL;
	int r = cache_new_folder(cache, maker->name, &folder);

	if (r < 0)
		return error_set_errno(error, r, "%s", maker->name);
	detail = xasprintf("log %s", log);
	progress_detail(&context->progress, detail);
	r = maker->run(maker->data,
		&(struct stage_place){ .folder = folder, .log = log, .key = cached->key }, error);
	if (r < 0)
		return r;
	/* One that is there stands for an image that is not in this storage. */
	r = cache_replace(cache, folder, cached->path);
	return r < 0 ? error_set_errno(error, r, "%s", cached->path) : 0;
}

int cached_make(struct cached *cached, struct context *context, const struct cached_maker *maker,
	struct error *error)
{
	struct progress *progress = &context->progress;
	_cleanup_close_ int lock_fd = -1;
	int r;

	progress_begin(progress, maker->name);
	r = cache_lock(&context->cache, maker->name, cached->key, false, &lock_fd);
	if (r == -EWOULDBLOCK) {
		progress_step(progress, "wait for another run, which makes it");
		r = cache_lock(&context->cache, maker->name, cached->key, true, &lock_fd);
	}
	if (r < 0) {
		progress_end(progress, "failed");
		return error_set_errno(error, r, "%s: lock in the cache", maker->name);
	}
	/* Another run may have made it since we looked, and others may use it already. */
	if (cached_is_there(context, cached, maker->still_there)) {
		progress_end(progress, "made by another run");
		return 0;
	}
	r = cache_name_full(&context->cache, make(cached, context, maker, error), error);
	progress_end(progress, r < 0 ? "failed" : "done");
	cached->ran = r == 0;
	return r;
}

void cached_free(struct cached *cached)
{
	free(cached->path);
	*cached = (struct cached){ 0 };
}
