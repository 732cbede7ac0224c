/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <string.h>

#include "cli/bundle/bundle.h"
#include "cli/bundle/bundle_archive.h"
#include "cli/stage/stage_tools.h"
#include "cli/slipway_version.h"
#include "common/fs.h"
#include "kernels/krel.h"
#include "kernels/fetch/store.h"
#include "kernels/archive/unpack.h"

#define BLOBS "blobs/sha256/"

void bundle_free(struct bundle **bundle)
{
	if (!*bundle)
		return;
	bundle_manifest_free(&(*bundle)->manifest);
	strv_free(&(*bundle)->texts);
	free((*bundle)->folder);
	free(TAKE_PTR(*bundle));
}

static void on_bytes(void *context, uint64_t bytes, uint64_t of_bytes)
{
	struct build *build = context;
	struct progress *progress = &build->context.progress;

	(void) snprintf(progress->step, sizeof(progress->step), "checked %.1f of %.1f MB",
		(double) bytes / 1e6, (double) of_bytes / 1e6);
	progress_tick(progress);
}

static int unpack(struct build *build, struct bundle *bundle, struct error *error)
{
	_cleanup_close_ int fd = -1;
	int r = cache_new_folder(&build->context.cache, "bundle", &bundle->folder);

	if (r < 0)
		return error_set_errno(error, r, "%s", build->context.cache.path);
	fd = open(bundle->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return error_set_errno(error, -errno, "%s", bundle->folder);
	return bundle_unpack(build->options.bundle, fd, &bundle->manifest, on_bytes, build, error);
}

static int choose_target(struct build *build, struct bundle *bundle, struct error *error)
{
	const struct bundle_manifest *manifest = &bundle->manifest;
	const char *krel = build->options.krel;
	bool any = !krel || strcmp(krel, KREL_NEWEST) == 0;
	_cleanup_strv_ struct strv krels = { 0 };
	_cleanup_free_ char *list = NULL;

	for (size_t i = 0; i < manifest->target_count; i++) {
		if (any ? manifest->target_count == 1
			: strcmp(krel, manifest->targets[i].krel) == 0)
			bundle->target = &manifest->targets[i];
		if (strv_push(&krels, manifest->targets[i].krel) < 0)
			return error_set_errno(error, -ENOMEM, "bundle");
	}
	if (bundle->target)
		return 0;
	list = strv_join(&krels, ", ");
	return error_set(error, -ENODATA, "%s: %s%s; it has %s", build->options.bundle,
		any ? "it has several kernels" : "it was not made for kernel ",
		any ? ": name one with --kernel" : krel, list ? list : "others");
}

/* A download is named by its digest, and that has been checked. */
static int take_downloads(struct build *build, const struct bundle *bundle, struct error *error)
{
	_cleanup_(store_close) struct store store = { .fd = -1 };
	_cleanup_close_ int fd = open(bundle->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r = fd < 0 ? error_set_errno(error, -errno, "%s", bundle->folder)
		       : store_open(build->context.cache.fd, "blobs", &store, error);

	for (size_t i = 0; i < bundle->manifest.file_count && r == 0; i++) {
		const struct bundle_file *file = &bundle->manifest.files[i];

		if (strncmp(file->path, BLOBS, strlen(BLOBS)) != 0)
			continue;
		if (strcmp(file->path + strlen(BLOBS), file->sha256) != 0)
			return error_set(error, -EBADMSG,
				"%s: altered: %s has another SHA-256 than its name",
				build->options.bundle, file->path);
		/* One in the cache that is damaged makes room for the right one. */
		r = store_check(&store, file->sha256, file->size_bytes, error);
		if (r == -EUCLEAN)
			r = store_set_aside_damaged(&store, file->sha256, file->size_bytes, error);
		if (r < 0)
			return error_prefix(error, r, "%s", file->path);
		r = store_take(&store, fd, file->path, file->sha256);
		if (r < 0)
			return error_set_errno(error, r, "%s", file->path);
	}
	return r;
}

static int pull(const struct bundle *bundle, const char *file, const char *id, struct error *error)
{
	_cleanup_free_ char *source = NULL;
	_cleanup_free_ char *pulled = NULL;
	_cleanup_free_ char *there = buildah_image_id(id);
	int r;

	if (there)
		return 0;
	if (asprintf(&source, "oci-archive:%s/%s", bundle->folder, file) < 0)
		return error_set_errno(error, -ENOMEM, "%s", file);
	r = buildah_pull(source, &pulled, error);
	if (r < 0)
		return error_prefix(error, r, "%s", file);
	if (strcmp(pulled, id) != 0)
		return error_set(
			error, -EBADMSG, "%s: holds image %.12s, not %.12s", file, pulled, id);
	return 0;
}

/* The output of the stage that made the image where the bundle comes from. */
static int keep_output(const struct build *build, const struct bundle_image *image,
	const char *output, struct error *error)
{
	const struct cache *cache = &build->context.cache;
	_cleanup_free_ char *folder = NULL;
	_cleanup_free_ char *path = NULL;
	int r = cache_new_folder(cache, "imported", &folder);

	if (r == 0 && asprintf(&path, "%s/" IMAGE_NAME_FILE, folder) < 0)
		r = -ENOMEM;
	if (r == 0)
		r = fs_write_atomic(AT_FDCWD, path, image->name, strlen(image->name), 0644);
	if (r == 0)
		r = cache_set_aside(cache, output);
	if (r == 0)
		r = cache_keep(cache, folder, output);
	return r < 0 ? error_set_errno(error, r, "%s", image->stage) : 0;
}

static int take_image(struct build *build, const struct bundle *bundle,
	const struct bundle_image *image, struct error *error)
{
	const struct cache *cache = &build->context.cache;
	_cleanup_free_ char *output = cache_output_path(cache, image->stage, image->key);
	_cleanup_free_ char *there = NULL;
	_cleanup_close_ int lock_fd = -1;
	int r = output ? cache_lock(cache, image->stage, image->key, &lock_fd) : -ENOMEM;

	if (r < 0)
		return error_set_errno(error, r, "%s: lock in the cache", image->stage);
	/* Made here before, or taken: it is used as it is, whatever the bundle has. */
	if (cache_use(cache, output) && image_still_there(output))
		return 0;
	r = pull(bundle, image->file, image->id, error);
	there = buildah_image_id(image->name);
	if (r == 0 && !there)
		r = buildah_tag(image->id, image->name, error);
	return r < 0 ? r : keep_output(build, image, output, error);
}

static int take_images(struct build *build, const struct bundle *bundle, struct error *error)
{
	int r = 0;

	for (size_t i = 0; i < bundle->target->image_count && r == 0; i++) {
		const struct bundle_image *image = &bundle->target->images[i];

		progress_step(&build->context.progress, image->name);
		r = take_image(build, bundle, image, error);
	}
	if (r == 0 && strcmp(bundle->target->base.kind, BUNDLE_SOURCE_FILE) == 0)
		r = pull(bundle, bundle->target->base.file, bundle->target->base.name, error);
	return r;
}

/* The path of something of the bundle, as long-lived as the bundle: NULL without memory. */
static const char *text_of(struct bundle *bundle, const char *file)
{
	if (strv_pushf(&bundle->texts, "%s/%s", bundle->folder, file) < 0)
		return NULL;
	return bundle->texts.items[bundle->texts.count - 1];
}

static int unpack_tree(struct bundle *bundle, const char *file, const char *tar_path,
	const char **ret_path, struct error *error)
{
	struct unpack unpack_to = { 0 };
	_cleanup_free_ char *name = NULL;
	int r;

	if (asprintf(&name, "%s.d", file) < 0)
		return error_set_errno(error, -ENOMEM, "%s", file);
	*ret_path = text_of(bundle, name);
	r = *ret_path ? fs_mkdir_parents(AT_FDCWD, *ret_path, 0755) : -ENOMEM;
	if (r < 0)
		return error_set_errno(error, r, "%s", file);
	unpack_to.folder = *ret_path;
	return unpack_tar(&unpack_to, AT_FDCWD, tar_path, error);
}

/* What an option is to say so that the build finds the source: a word, a path, or nothing. */
static int option_for(struct bundle *bundle, const struct bundle_source *source,
	const char *package_word, const char *none, const char **ret_option, struct error *error)
{
	const char *path;

	if (strcmp(source->kind, BUNDLE_SOURCE_NONE) == 0) {
		*ret_option = none;
		return 0;
	}
	if (strcmp(source->kind, BUNDLE_SOURCE_WORD) == 0) {
		*ret_option = package_word;
		return 0;
	}
	path = text_of(bundle, source->file);
	if (!path)
		return error_set_errno(error, -ENOMEM, "%s", source->file);
	if (strcmp(source->kind, BUNDLE_SOURCE_TREE) == 0)
		return unpack_tree(bundle, source->file, path, ret_option, error);
	*ret_option = path;
	return 0;
}

static int set_kernel_from(struct build *build, struct bundle *bundle, struct error *error)
{
	const struct bundle_target *target = bundle->target;

	for (size_t i = 0; i < target->kernel_from_count; i++) {
		const char *path = NULL;
		int r = option_for(bundle, &target->kernel_from[i], NULL, NULL, &path, error);

		if (r == 0 && path && strv_push(&build->options.kernel_from, path) < 0)
			r = error_set_errno(error, -ENOMEM, "--kernel-from");
		if (r < 0)
			return r;
	}
	return 0;
}

static int set_options(struct build *build, struct bundle *bundle, struct error *error)
{
	const struct bundle_target *target = bundle->target;
	struct build_options *options = &build->options;
	int r = option_for(bundle, &target->ofed, "reference", NULL, &options->ofed, error);

	if (r == 0)
		r = option_for(bundle, &target->nvidia, "debian", "none", &options->nvidia, error);
	if (r == 0)
		r = set_kernel_from(build, bundle, error);
	options->krel = target->krel;
	options->lock = text_of(bundle, target->lock);
	options->base = *target->base.name ? target->base.name : NULL;
	/* It is part of the keys of the images, which are of the bundle. */
	options->common.allow_unsigned = strcmp(target->unsigned_lists, "yes") == 0;
	if (r == 0 && !options->lock)
		r = error_set_errno(error, -ENOMEM, "%s", target->lock);
	return r;
}

/* Whoever builds from it decides that, not whoever made it. */
static int check_signed(const struct build *build, const struct bundle *bundle, struct error *error)
{
	if (strcmp(bundle->target->unsigned_lists, "yes") != 0 ||
		build->options.common.allow_unsigned)
		return 0;
	return error_set(error, -EKEYREJECTED,
		"%s: made with --allow-unsigned: nobody vouches for the packages in it; give "
		"--allow-unsigned here too to build from it all the same",
		build->options.bundle);
}

static void note_version(struct build *build, const struct bundle *bundle)
{
	char text[160];

	if (strcmp(bundle->manifest.slipway, SLIPWAY_VERSION) == 0)
		return;
	(void) snprintf(text, sizeof(text),
		"the bundle was made by slipway %.40s, this is " SLIPWAY_VERSION,
		bundle->manifest.slipway);
	progress_note(&build->context.progress, text);
}

static int import(struct build *build, struct bundle *bundle, struct error *error)
{
	int r = unpack(build, bundle, error);

	if (r == 0)
		r = choose_target(build, bundle, error);
	if (r == 0)
		r = check_signed(build, bundle, error);
	if (r < 0)
		return r;
	note_version(build, bundle);
	r = take_downloads(build, bundle, error);
	if (r == 0)
		r = take_images(build, bundle, error);
	return r < 0 ? r : set_options(build, bundle, error);
}

int bundle_import(struct build *build, struct error *error)
{
	int r;

	build->bundle = calloc(1, sizeof(*build->bundle));
	if (!build->bundle)
		return error_set_errno(error, -ENOMEM, "bundle");
	progress_begin(&build->context.progress, "bundle");
	r = import(build, build->bundle, error);
	progress_end(&build->context.progress, r < 0 ? "failed" : "done");
	return r;
}

int bundle_lacks_image(const struct build *build, const char *what, struct error *error)
{
	if (!build->bundle)
		return error_set(error, -ENETDOWN,
			"%s: not in the cache, and --offline keeps it from being made: run once "
			"without --offline, or build from a bundle",
			what);
	return error_set(error, -ENETDOWN,
		"%s: the one in the bundle is of other recipes: the bundle was made by slipway %s, "
		"and this is " SLIPWAY_VERSION " with its own containers/ folder: build with that "
		"one, or make the bundle anew with this one",
		what, build->bundle->manifest.slipway);
}
