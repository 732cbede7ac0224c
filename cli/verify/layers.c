/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images are read layer by layer. Of a layer that a digest names, the files that the proof needs
 * are kept in the cache: images share most of their layers, and are judged more than once.
 */
#include "cli/verify/verify_internal.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/cached.h"
#include "common/fs.h"
#include "common/xalloc.h"

#define LAYER      "layer"
#define LAYER_FORM "1" /* changes with the files that are taken, and how they are laid out */

/* Beside the layer's files: what image_files_text() says of its programs. */
#define PROGRAMS      "programs.json"
#define PROGRAMS_FORM "programs-1"

/* Unpacks it, with what its programs need where they are looked at. */
static int unpack_layer(const struct local_image *image, size_t number, const struct unpack *unpack,
	bool look_at, struct error *error)
{
	_cleanup_(verify_look_close) struct verify_look look = { .fd = -1 };
	_cleanup_free_ char *path = xasprintf("%s/" PROGRAMS, unpack->folder);
	_cleanup_free_ char *text = NULL;
	struct unpack looking = *unpack;
	int r;

	if (!look_at)
		return local_image_unpack_layer(image, number, unpack, error);
	r = verify_look_open(&look, unpack->folder, error);
	if (r < 0)
		return r;
	looking.look = verify_look;
	looking.look_context = &look;
	r = local_image_unpack_layer(image, number, &looking, error);
	if (r < 0)
		return r;
	text = image_files_text(&look.files);
	r = fs_write_atomic(AT_FDCWD, path, text, strlen(text), 0644);
	return r < 0 ? error_set_errno(error, r, "%s", path) : 0;
}

/* Adds what unpack_layer() left. */
static int add_programs(const char *layer, struct image_files *files, struct error *error)
{
	_cleanup_free_ char *path = xasprintf("%s/" PROGRAMS, layer);
	_cleanup_strv_ struct strv whiteouts = { 0 };
	_cleanup_free_ char *text = NULL;
	size_t size = 0;
	int r = local_image_whiteouts(layer, &whiteouts, error);

	if (r < 0)
		return r;
	for (size_t i = 0; i < whiteouts.count; i++)
		image_files_remove(files, whiteouts.items[i]);
	r = fs_read(AT_FDCWD, path, 0, &text, &size);
	if (r < 0)
		return error_set_errno(error, r, "%s", path);
	r = image_files_parse(files, text, size, error);
	image_files_next_layer(files);
	return r < 0 ? error_prefix(error, r, "%s", path) : 0;
}

/* Unpacks it where no run has. The caller frees *ret_folder. */
static int keep(const struct local_image *image, size_t number, const struct unpack *unpack,
	bool look_at, struct context *context, char **ret_folder, struct error *error)
{
	const struct cache *cache = &context->cache;
	struct hash *hash = cached_start_key(LAYER);
	struct cached cached = { 0 };
	struct unpack of_layer = *unpack;
	_cleanup_free_ char *folder = NULL;
	_cleanup_close_ int lock_fd = -1;
	int r;

	hash_add_text(hash, LAYER_FORM);
	if (look_at)
		hash_add_text(hash, PROGRAMS_FORM);
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
	r = unpack_layer(image, number, &of_layer, look_at, error);
	if (r < 0)
		return r;
	r = cache_keep(folder, cached.path);
	return r < 0 ? error_set_errno(error, r, "%s", cached.path) : 0;
}

/* For one that nothing names: into a folder of this run. */
static int unpack_unkept(const struct local_image *image, size_t number,
	const struct unpack *unpack, bool look_at, struct context *context, char **ret_folder,
	struct error *error)
{
	struct unpack of_layer = *unpack;
	int r = cache_new_folder(&context->cache, LAYER, ret_folder);

	if (r < 0)
		return error_set_errno(error, r, "%s", context->cache.path);
	of_layer.folder = *ret_folder;
	return unpack_layer(image, number, &of_layer, look_at, error);
}

int verify_unpack_layers(const struct local_image *image, const struct unpack *unpack,
	struct image_files *files, struct context *context, struct error *error)
{
	_cleanup_close_ int fd = open(unpack->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return error_set_errno(error, -errno, "%s", unpack->folder);
	for (size_t i = 0; i < image->layers.count; i++) {
		_cleanup_free_ char *layer = NULL;
		int r = local_image_layer_digest(image, i)
				? keep(image, i, unpack, files, context, &layer, error)
				: unpack_unkept(image, i, unpack, files, context, &layer, error);

		if (r == 0)
			r = local_image_merge(layer, fd, error);
		if (r == 0 && files)
			r = add_programs(layer, files, error);
		if (r < 0)
			return r;
	}
	return unpack_check_links(unpack->folder, image->path, error);
}
