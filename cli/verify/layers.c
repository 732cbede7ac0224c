/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images are read layer by layer. Of a layer that a digest names, the files that the proof needs
 * are kept in the cache: images share most of their layers, and are judged more than once.
 */
#include "cli/verify/verify_internal.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "cli/cached.h"
#include "common/fs.h"
#include "common/xalloc.h"

#define LAYER      "layer"
#define LAYER_FORM "1" /* changes with the files that are taken, and how they are laid out */

/* Unpacks it where no run has. The caller frees *ret_folder. */
static int keep(const struct local_image *image, size_t number, const struct unpack *unpack,
	struct context *context, char **ret_folder, struct error *error)
{
	const struct cache *cache = &context->cache;
	struct hash *hash = cached_start_key(LAYER);
	struct cached cached = { 0 };
	struct unpack of_layer = *unpack;
	_cleanup_free_ char *folder = NULL;
	_cleanup_close_ int lock_fd = -1;
	int r;

	hash_add_text(hash, LAYER_FORM);
	hash_add_text(hash, local_image_layer_digest(image, number));
	cached_finish_key(&cached, context, LAYER, hash);
	*ret_folder = cached.path;
	r = cache_lock(cache, LAYER, cached.key, true, &lock_fd);
	if (r < 0)
		return error_set_errno(error, r, "%s: lock in the cache", LAYER);
	/* The digest says what is in the layer, if it is whole: of an archive that is not known. */
	if (cached_is_there(context, &cached, NULL))
		return local_image_check_layer(image, number, error);
	r = cache_new_folder(cache, LAYER, &folder);
	if (r < 0)
		return error_set_errno(error, r, "%s", cache->path);
	of_layer.folder = folder;
	r = local_image_unpack_layer(image, number, &of_layer, error);
	if (r < 0)
		return r;
	r = cache_keep(folder, cached.path);
	return r < 0 ? error_set_errno(error, r, "%s", cached.path) : 0;
}

/* For one that nothing names: into a folder of this run. */
static int unpack_unkept(const struct local_image *image, size_t number,
	const struct unpack *unpack, struct context *context, char **ret_folder,
	struct error *error)
{
	struct unpack of_layer = *unpack;
	int r = cache_new_folder(&context->cache, LAYER, ret_folder);

	if (r < 0)
		return error_set_errno(error, r, "%s", context->cache.path);
	of_layer.folder = *ret_folder;
	return local_image_unpack_layer(image, number, &of_layer, error);
}

int verify_unpack_layers(const struct local_image *image, const struct unpack *unpack,
	struct context *context, struct error *error)
{
	_cleanup_close_ int fd = open(unpack->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return error_set_errno(error, -errno, "%s", unpack->folder);
	for (size_t i = 0; i < image->layers.count; i++) {
		_cleanup_free_ char *layer = NULL;
		int r = local_image_layer_digest(image, i)
				? keep(image, i, unpack, context, &layer, error)
				: unpack_unkept(image, i, unpack, context, &layer, error);

		if (r == 0)
			r = local_image_merge(layer, fd, error);
		if (r < 0)
			return r;
	}
	return unpack_check_links(unpack->folder, image->path, error);
}
