/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/bundle/bundle.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/image/buildah.h"
#include "cli/slipway_version.h"
#include "cli/stage/build.h"
#include "common/fs.h"
#include "common/xalloc.h"
#include "kernels/archive/unpack.h"
#include "kernels/fetch/store.h"
#include "kernels/krel.h"
#include "kernels/tool.h"

#define BLOBS "blobs/sha256/"

/* ---- collecting */

struct collecting {
	struct build *build;
	struct bundle_manifest *manifest;
	struct bundle_target *target;
	const char *folder;
	int folder_fd;
};

/* Puts a file that lies in the folder on the list. */
static int list_file(const struct collecting *collecting, const char *path, struct error *error)
{
	struct bundle_file *file = bundle_add_file(collecting->manifest);
	struct hash *hash = hash_new();
	char hex[HASH_HEX_SIZE];
	struct stat status = { 0 };
	int r;

	if (!hash)
		out_of_memory();
	r = hash_add_file(hash, collecting->folder_fd, path);
	hash_finish(hash, hex);
	if (r == 0 && fstatat(collecting->folder_fd, path, &status, AT_SYMLINK_NOFOLLOW) < 0)
		r = -errno;
	if (r < 0)
		return error_set_errno(error, r, "%s", path);
	file->path = xstrdup(path);
	file->sha256 = xstrdup(hex);
	file->size_bytes = (uint64_t) status.st_size;
	return 0;
}

static bool is_listed(const struct collecting *collecting, const char *path)
{
	return bundle_find_file(collecting->manifest, path) != NULL;
}

static int add_lock(const struct collecting *collecting, struct error *error)
{
	const struct lock *lock = &collecting->build->kernel.lock;
	_cleanup_free_ char *text = lock_write(lock);
	char *path = collecting->target->lock = xasprintf("locks/%s-%s.json", lock->os, lock->krel);
	int r;

	if (!text)
		out_of_memory();
	if (is_listed(collecting, path))
		return error_set(error, -EINVAL, "kernel %s is named twice", lock->krel);
	r = fs_mkdir_parents(collecting->folder_fd, "locks", 0755);
	if (r == 0)
		r = fs_write_atomic(collecting->folder_fd, path, text, strlen(text), 0644);
	return r < 0 ? error_set_errno(error, r, "%s", path) : list_file(collecting, path, error);
}

static int add_downloads(const struct collecting *collecting, struct error *error)
{
	struct kernel *kernel = &collecting->build->kernel;
	int r = kernel_fetch(kernel, NULL, error);

	for (size_t i = 0; i < kernel->lock.count && r == 0; i++) {
		_cleanup_free_ char *path = xasprintf(BLOBS "%s", kernel->lock.packages[i].sha256);

		if (is_listed(collecting, path))
			continue;
		r = copy_tree(kernel->context->cache.fd, path, collecting->folder_fd, path);
		r = r < 0 ? error_set_errno(error, r, "%s", path)
			  : list_file(collecting, path, error);
	}
	return r;
}

/* Writes the image @id to the file @path of the bundle, unless another target has. */
static int save_image(
	const struct collecting *collecting, const char *id, const char *path, struct error *error)
{
	_cleanup_free_ char *full = xasprintf("%s/%s", collecting->folder, path);
	int r;

	if (is_listed(collecting, path))
		return 0;
	r = fs_mkdir_parents(collecting->folder_fd, "images", 0755);
	if (r < 0)
		return error_set_errno(error, r, "%s/images", collecting->folder);
	progress_step(&collecting->build->context.progress, path);
	r = buildah_save(id, full, error);
	return r < 0 ? r : list_file(collecting, path, error);
}

static int add_image(const struct collecting *collecting, enum stage_id stage, struct error *error)
{
	const struct build *build = collecting->build;
	struct bundle_image *image = bundle_add_image(collecting->target);
	int r = image_name(build, stage, &image->name, error);

	if (r < 0)
		return r;
	image->stage = xstrdup(stage_name(stage));
	image->key = xstrdup(build->outputs[stage].key);
	image->id = buildah_image_id(image->name);
	if (!image->id)
		return error_set(error, -ENOENT, "image %s is gone from the storage: run again",
			image->name);
	image->file = xasprintf("images/%.16s.tar", image->id);
	return save_image(collecting, image->id, image->file, error);
}

static void set_source(
	struct bundle_source *source, const char *kind, const char *name, const char *file)
{
	source->kind = xstrdup(kind);
	source->name = xstrdup(name);
	source->file = xstrdup(file);
}

/* What the build container's image was made of is in it: its own base is not needed. */
static int add_images(const struct collecting *collecting, struct error *error)
{
	struct bundle_source *base = &collecting->target->base;
	_cleanup_free_ char *id = NULL;
	_cleanup_free_ char *file = NULL;
	int r = add_image(collecting, STAGE_TOOLCHAIN, error);

	if (r < 0)
		return r;
	if (!collecting->build->options.base) {
		set_source(base, BUNDLE_SOURCE_NONE, "", "");
		return add_image(collecting, STAGE_RUNTIME_BASE, error);
	}
	/* The user's own image goes by its ID: its name may mean another one elsewhere. */
	r = image_name(collecting->build, STAGE_RUNTIME_BASE, &id, error);
	if (r < 0)
		return r;
	file = xasprintf("images/%.16s.tar", id);
	set_source(base, BUNDLE_SOURCE_FILE, id, file);
	return save_image(collecting, id, file, error);
}

/* With sorted names and no times, so that the same tree makes the same bundle. */
static int pack_tree(
	const struct collecting *collecting, const char *from, const char *to, struct error *error)
{
	const char *const words[] = { "tar", "--create", "--sort=name", "--mtime=@0", "--owner=0",
		"--group=0", "--numeric-owner", "--exclude=.git", "--directory", from };
	_cleanup_strv_ struct strv argv = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		xstrv_push(&argv, words[i]);
	xstrv_pushf(&argv, "--file=%s/%s", collecting->folder, to);
	xstrv_push(&argv, ".");
	return tool_run(&argv, NULL, error);
}

/* A file or folder of the user's, under the number of what has come before it. */
static int add_user_path(const struct collecting *collecting, const char *path,
	struct bundle_source *source, struct error *error)
{
	const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
	_cleanup_free_ char *file = NULL;
	struct stat status;
	bool is_folder;
	int r;

	if (stat(path, &status) < 0)
		return error_set_errno(error, -errno, "%s", path);
	is_folder = S_ISDIR(status.st_mode);
	file = xasprintf("sources/%zu-%s%s", collecting->manifest->file_count, name,
		is_folder ? ".tar" : "");
	set_source(source, is_folder ? BUNDLE_SOURCE_TREE : BUNDLE_SOURCE_FILE, name, file);
	progress_step(&collecting->build->context.progress, name);
	r = fs_mkdir_parents(collecting->folder_fd, "sources", 0755);
	if (r == 0 && !is_folder)
		r = copy_apart(AT_FDCWD, path, collecting->folder_fd, file);
	if (r < 0)
		return error_set_errno(error, r, "%s", path);
	if (is_folder)
		r = pack_tree(collecting, path, file, error);
	return r < 0 ? r : list_file(collecting, file, error);
}

static int add_source(const struct collecting *collecting, enum driver driver,
	struct bundle_source *to, struct error *error)
{
	const struct source *from = &collecting->build->sources[driver];

	if (from->path)
		return add_user_path(collecting, from->path, to, error);
	set_source(
		to, from->form == SOURCE_PACKAGE ? BUNDLE_SOURCE_WORD : BUNDLE_SOURCE_NONE, "", "");
	return 0;
}

static int add_sources(const struct collecting *collecting, struct error *error)
{
	const struct strv *files = &collecting->build->options.kernel_from;
	struct bundle_target *target = collecting->target;
	int r = add_source(collecting, DRIVER_OFED, &target->ofed, error);

	if (r == 0)
		r = add_source(collecting, DRIVER_NVIDIA, &target->nvidia, error);
	for (size_t i = 0; i < files->count && r == 0; i++)
		r = add_user_path(collecting, files->items[i], bundle_add_kernel(target), error);
	return r;
}

static int add_target(const struct collecting *collecting, struct error *error)
{
	const struct build *build = collecting->build;
	struct bundle_target *target = collecting->target;
	int r = base_sources_stamp(build, &target->refreshed);

	if (r < 0)
		return error_set_errno(error, r, "bundle");
	target->krel = xstrdup(build->kernel.lock.krel);
	target->os = xstrdup(build->kernel.lock.os);
	target->arch = xstrdup(build->kernel.lock.arch);
	target->unsigned_lists = xstrdup(build->options.common.allow_unsigned ? "yes" : "no");
	r = add_lock(collecting, error);
	if (r == 0)
		r = add_downloads(collecting, error);
	if (r == 0)
		r = add_images(collecting, error);
	return r < 0 ? r : add_sources(collecting, error);
}

int bundle_collect(struct build *build, struct bundle_manifest *manifest, const char *folder,
	struct error *error)
{
	_cleanup_close_ int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct collecting collecting = {
		.build = build, .manifest = manifest, .folder = folder, .folder_fd = fd
	};
	int r;

	if (fd < 0)
		return error_set_errno(error, -errno, "%s", folder);
	r = kernel_open_tree(&build->kernel, error);
	if (r == 0)
		r = stages_make(
			build, STAGE_BIT(STAGE_TOOLCHAIN) | STAGE_BIT(STAGE_RUNTIME_BASE), error);
	if (r < 0)
		return r;
	collecting.target = bundle_add_target(manifest);
	progress_begin(&build->context.progress, "collect");
	r = add_target(&collecting, error);
	progress_end(&build->context.progress, r < 0 ? "failed" : "done");
	return r;
}

/* ---- importing */

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
		xstrv_push(&krels, manifest->targets[i].krel);
	}
	if (bundle->target)
		return 0;
	list = xstrv_join(&krels, ", ");
	return error_set(error, -ENODATA, "%s: %s%s; it has %s", build->options.bundle,
		any ? "it has several kernels" : "it was not made for kernel ",
		any ? ": name one with --kernel" : krel, list);
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
	_cleanup_free_ char *source = xasprintf("oci-archive:%s/%s", bundle->folder, file);
	_cleanup_free_ char *there = buildah_image_id(id);
	_cleanup_free_ char *pulled = NULL;
	int r;

	if (there)
		return 0;
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

	if (r == 0) {
		path = xasprintf("%s/" IMAGE_NAME_FILE, folder);
		r = fs_write_atomic(AT_FDCWD, path, image->name, strlen(image->name), 0644);
	}
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
	int r = cache_lock(cache, image->stage, image->key, &lock_fd);

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
	const struct bundle_target *target = bundle->target;

	for (size_t i = 0; i < target->image_count; i++) {
		int r;

		progress_step(&build->context.progress, target->images[i].name);
		r = take_image(build, bundle, &target->images[i], error);
		if (r < 0)
			return r;
	}
	if (strcmp(target->base.kind, BUNDLE_SOURCE_FILE) == 0)
		return pull(bundle, target->base.file, target->base.name, error);
	return 0;
}

/* The path of something of the bundle, as long-lived as the bundle. */
static const char *path_of(struct bundle *bundle, const char *file, const char *ending)
{
	xstrv_pushf(&bundle->texts, "%s/%s%s", bundle->folder, file, ending);
	return bundle->texts.items[bundle->texts.count - 1];
}

/* What an option is to say so that the build finds the source: a word, a path, or nothing. */
static int option_for(struct bundle *bundle, const struct bundle_source *source,
	const char *package_word, const char *none, const char **ret_option, struct error *error)
{
	struct unpack unpack_to = { 0 };
	const char *path;
	int r;

	*ret_option = none;
	if (strcmp(source->kind, BUNDLE_SOURCE_NONE) == 0)
		return 0;
	*ret_option = package_word;
	if (strcmp(source->kind, BUNDLE_SOURCE_WORD) == 0)
		return 0;
	*ret_option = path = path_of(bundle, source->file, "");
	if (strcmp(source->kind, BUNDLE_SOURCE_TREE) != 0)
		return 0;
	*ret_option = unpack_to.folder = path_of(bundle, source->file, ".d");
	r = fs_mkdir_parents(AT_FDCWD, unpack_to.folder, 0755);
	return r < 0 ? error_set_errno(error, r, "%s", source->file)
		     : unpack_tar(&unpack_to, AT_FDCWD, path, error);
}

static int set_options(struct build *build, struct bundle *bundle, struct error *error)
{
	const struct bundle_target *target = bundle->target;
	struct build_options *options = &build->options;
	int r = option_for(bundle, &target->ofed, "reference", NULL, &options->ofed, error);

	if (r == 0)
		r = option_for(bundle, &target->nvidia, "debian", "none", &options->nvidia, error);
	for (size_t i = 0; i < target->kernel_from_count && r == 0; i++) {
		const char *path;

		r = option_for(bundle, &target->kernel_from[i], NULL, NULL, &path, error);
		if (r == 0 && path)
			xstrv_push(&options->kernel_from, path);
	}
	options->krel = target->krel;
	options->lock = path_of(bundle, target->lock, "");
	options->base = *target->base.name ? target->base.name : NULL;
	/* It is part of the keys of the images, which are of the bundle. */
	options->common.allow_unsigned = strcmp(target->unsigned_lists, "yes") == 0;
	build->bundle_slipway = bundle->manifest.slipway;
	build->bundle_refreshed = target->refreshed;
	return r;
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
	if (r < 0)
		return r;
	/* Who builds from it decides that, not who made it. */
	if (strcmp(bundle->target->unsigned_lists, "yes") == 0 &&
		!build->options.common.allow_unsigned)
		return error_set(error, -EKEYREJECTED,
			"%s: made with --allow-unsigned: nobody vouches for the packages in it; give "
			"--allow-unsigned here too to build from it all the same",
			build->options.bundle);
	note_version(build, bundle);
	r = take_downloads(build, bundle, error);
	if (r == 0)
		r = take_images(build, bundle, error);
	return r < 0 ? r : set_options(build, bundle, error);
}

int bundle_import(struct build *build, struct bundle **ret, struct error *error)
{
	int r;

	*ret = xcalloc(1, sizeof(**ret));
	progress_begin(&build->context.progress, "bundle");
	r = import(build, *ret, error);
	progress_end(&build->context.progress, r < 0 ? "failed" : "done");
	return r;
}
