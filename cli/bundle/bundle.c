/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/bundle/bundle.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/image/buildah.h"
#include "cli/image/staging.h"
#include "cli/slipway_version.h"
#include "cli/stage/build.h"
#include "cli/stage/plan.h"
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
	json_object *manifest;
	json_object *target;
	struct staging folder;
};

json_object *bundle_manifest_new(void)
{
	json_object *manifest = json_object_new_object();

	json_add_texts(manifest, "slipway", SLIPWAY_VERSION);
	json_add(manifest, "schema", json_object_new_int(BUNDLE_SCHEMA));
	json_add(manifest, "targets", json_object_new_array());
	json_add(manifest, "files", json_object_new_array());
	return manifest;
}

/* Puts a file that lies in the folder on the list. */
static void list_file(struct collecting *collecting, const char *path)
{
	json_object *file = json_object_new_object();
	struct stat status = { 0 };
	char hex[HASH_HEX_SIZE] = "";
	int r = collecting->folder.result;

	if (r == 0)
		r = hash_file(collecting->folder.fd, path, hex);
	if (r == 0 && fstatat(collecting->folder.fd, path, &status, AT_SYMLINK_NOFOLLOW) < 0)
		r = -errno;
	if (r < 0)
		(void) staging_fail(&collecting->folder, r, path);
	json_add_texts(file, "path", path, "sha256", hex);
	json_add(file, "size_bytes", json_object_new_uint64((uint64_t) status.st_size));
	(void) json_object_array_add(bundle_member(collecting->manifest, "files"), file);
}

static bool is_listed(const struct collecting *collecting, const char *path)
{
	return bundle_file_find(collecting->manifest, path) <
	       bundle_file_count(collecting->manifest);
}

/* Writes the image @id to the file @path of the bundle, unless another target has. */
static int save_image(
	struct collecting *collecting, const char *id, const char *path, struct error *error)
{
	_cleanup_free_ char *full = xasprintf("%s/%s", collecting->folder.path, path);
	int r;

	if (is_listed(collecting, path))
		return 0;
	staging_mkdir(&collecting->folder, "images");
	progress_step(&collecting->build->context.progress, path);
	r = collecting->folder.result;
	if (r == 0)
		r = buildah_save(id, full, error);
	if (r < 0)
		return r;
	list_file(collecting, path);
	return collecting->folder.result;
}

static int add_image(struct collecting *collecting, const struct stage *stage, struct error *error)
{
	json_object *image;
	_cleanup_free_ char *name = image_name(stage, error);
	_cleanup_free_ char *file = NULL;
	_cleanup_free_ char *id = NULL;

	if (!name)
		return -EIO;
	id = buildah_image_id(name);
	if (!id)
		return error_set(
			error, -ENOENT, "image %s is gone from the storage: run again", name);
	file = xasprintf("images/%.16s.tar", id);
	image = json_object_new_object();
	json_add_texts(image, "file", file, "id", id, "key", stage->cached->key, "name", name,
		"stage", stage->name);
	(void) json_object_array_add(bundle_member(collecting->target, "images"), image);
	return save_image(collecting, id, file, error);
}

static json_object *source_new(const char *kind, const char *name, const char *file)
{
	json_object *source = json_object_new_object();

	json_add_texts(source, "file", file, "kind", kind, "name", name);
	return source;
}

/* The build container's image contains its base, which need not be saved separately. */
static int add_images(struct collecting *collecting, struct error *error)
{
	_cleanup_free_ char *id = NULL;
	_cleanup_free_ char *file = NULL;
	const struct build *build = collecting->build;
	const struct stage *base = stage_find(build, STAGE_RUNTIME_BASE, 0);
	const struct stage *toolchain = stage_find(build, STAGE_TOOLCHAIN, ROOT_KERNEL);
	const struct stage *other = stage_find(build, STAGE_TOOLCHAIN, ROOT_RUNTIME);
	int r = add_image(collecting, toolchain, error);

	if (r == 0 && other != toolchain)
		r = add_image(collecting, other, error);
	if (r < 0)
		return r;
	if (!build->options.base) {
		json_add(collecting->target, "base", source_new(BUNDLE_SOURCE_NONE, "", ""));
		return add_image(collecting, base, error);
	}
	/* The user's own image goes by its ID: its name may mean another one elsewhere. */
	id = image_name(base, error);
	if (!id)
		return -EIO;
	file = xasprintf("images/%.16s.tar", id);
	json_add(collecting->target, "base", source_new(BUNDLE_SOURCE_FILE, id, file));
	return save_image(collecting, id, file, error);
}

/* Sorts the names and drops the times, so that the same tree makes the same bundle. */
static int pack_tree(
	const struct collecting *collecting, const char *from, const char *to, struct error *error)
{
	const char *const words[] = { "tar", "--create", "--sort=name", "--mtime=@0", "--owner=0",
		"--group=0", "--numeric-owner", "--exclude=.git", "--directory", from };
	_cleanup_strv_ struct strv argv = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		xstrv_push(&argv, words[i]);
	xstrv_pushf(&argv, "--file=%s/%s", collecting->folder.path, to);
	xstrv_push(&argv, ".");
	return tool_run(&argv, NULL, error);
}

/* A file or folder of the user's, under the number of what has come before it. */
static int add_user_path(struct collecting *collecting, const char *path, json_object **ret_source,
	struct error *error)
{
	const char *name = basename(path);
	_cleanup_free_ char *file = NULL;
	struct stat status;
	bool is_folder;

	*ret_source = NULL;
	if (stat(path, &status) < 0)
		return error_set_errno(error, -errno, "%s", path);
	is_folder = S_ISDIR(status.st_mode);
	file = xasprintf("sources/%zu-%s%s", bundle_file_count(collecting->manifest), name,
		is_folder ? ".tar" : "");
	*ret_source = source_new(is_folder ? BUNDLE_SOURCE_TREE : BUNDLE_SOURCE_FILE, name, file);
	progress_step(&collecting->build->context.progress, name);
	staging_mkdir(&collecting->folder, "sources");
	if (!is_folder)
		staging_copy_apart(&collecting->folder, file, path);
	else if (collecting->folder.result == 0)
		collecting->folder.result = pack_tree(collecting, path, file, error);
	list_file(collecting, file);
	return collecting->folder.result;
}

static int add_sources(struct collecting *collecting, struct error *error)
{
	static const struct {
		enum driver driver;
		const char *key;
	} drivers[] = { { DRIVER_OFED, "ofed" }, { DRIVER_NVIDIA, "nvidia" } };
	const struct strv *files = &collecting->build->options.kernel_from;
	json_object *source;
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(drivers); i++) {
		const struct source *from = &collecting->build->sources[drivers[i].driver];

		if (from->path)
			r = add_user_path(collecting, from->path, &source, error);
		else {
			r = 0;
			source = source_new(from->form == SOURCE_PACKAGE ? BUNDLE_SOURCE_WORD
									 : BUNDLE_SOURCE_NONE,
				"", "");
		}
		json_add(collecting->target, drivers[i].key, source);
		if (r < 0)
			return r;
	}
	for (size_t i = 0; i < files->count; i++) {
		r = add_user_path(collecting, files->items[i], &source, error);
		(void) json_object_array_add(
			bundle_member(collecting->target, "kernel_from"), source);
		if (r < 0)
			return r;
	}
	return 0;
}

static int add_target(struct collecting *collecting, struct error *error)
{
	struct build *build = collecting->build;
	const struct lock *lock = &build->kernel.lock;
	json_object *target = json_object_new_object();
	_cleanup_free_ char *path = xasprintf("locks/%s-%s.json", lock->os, lock->krel);
	_cleanup_free_ char *text = lock_write(lock);
	_cleanup_free_ char *stamp = root_stamp(build, ROOT_KERNEL);
	_cleanup_free_ char *runtime_stamp = root_stamp(build, ROOT_RUNTIME);
	int r;

	(void) json_object_array_add(bundle_member(collecting->manifest, "targets"), target);
	if (is_listed(collecting, path))
		return error_set(error, -EINVAL, "kernel %s is named twice", lock->krel);
	collecting->target = target;
	json_add_texts(target, "arch", lock->arch, "krel", lock->krel, "lock", path, "os", lock->os,
		"root", build->roots[ROOT_KERNEL].os.os, "root_stamp", stamp, "runtime_stamp",
		runtime_stamp, "unsigned_lists",
		build->options.common.allow_unsigned ? "yes" : "no");
	json_add(target, "base", NULL);
	json_add(target, "images", json_object_new_array());
	json_add(target, "kernel_from", json_object_new_array());
	json_add(target, "nvidia", NULL);
	staging_write(&collecting->folder, path, text, strlen(text));
	list_file(collecting, path);
	r = kernel_fetch(&build->kernel, NULL, error);
	if (r < 0)
		return r;
	for (size_t i = 0; i < lock->count; i++) {
		_cleanup_free_ char *blob = xasprintf(BLOBS "%s", lock->packages[i].sha256);

		if (is_listed(collecting, blob))
			continue;
		staging_copy(&collecting->folder, blob, "%s/%s", build->context.cache.path, blob);
		list_file(collecting, blob);
	}
	r = collecting->folder.result;
	if (r == 0)
		r = add_images(collecting, error);
	return r < 0 ? r : add_sources(collecting, error);
}

#define GOALS (STAGE_BIT(STAGE_TOOLCHAIN) | STAGE_BIT(STAGE_RUNTIME_BASE))

int bundle_preflight(struct build *build, struct error *error)
{
	return build_preflight(build, GOALS, error);
}

int bundle_collect(
	struct build *build, json_object *manifest, const char *folder, struct error *error)
{
	struct collecting collecting = { .build = build, .manifest = manifest };
	int r = build_set_target(build, error);

	if (r == 0)
		r = kernel_open_tree(&build->kernel, error);
	if (r == 0)
		r = roots_settle(build, error);
	if (r == 0)
		r = stages_make(build, GOALS, NULL, error);
	if (r < 0)
		return r;
	roots_lock(build);
	progress_begin(&build->context.progress, "collect");
	r = staging_open(&collecting.folder, folder, error);
	if (r == 0)
		r = add_target(&collecting, error);
	progress_end(&build->context.progress, r < 0 ? "failed" : "done");
	staging_close(&collecting.folder);
	return r;
}

/* ---- importing */

void bundle_close(struct bundle *bundle)
{
	(void) json_object_put(bundle->manifest);
	strv_free(&bundle->texts);
	free(bundle->folder);
	*bundle = (struct bundle){ 0 };
}

static int choose_target(struct build *build, struct bundle *bundle, struct error *error)
{
	json_object *targets = bundle_member(bundle->manifest, "targets");
	size_t count = json_object_array_length(targets);
	const char *krel = build->options.krel;
	bool any = !krel || strcmp(krel, KREL_NEWEST) == 0;
	_cleanup_strv_ struct strv krels = { 0 };
	_cleanup_free_ char *list = NULL;

	for (size_t i = 0; i < count; i++) {
		json_object *target = json_object_array_get_idx(targets, i);

		if (any ? count == 1 : strcmp(krel, bundle_text(target, "krel")) == 0)
			bundle->target = target;
		xstrv_push(&krels, bundle_text(target, "krel"));
	}
	if (bundle->target)
		return 0;
	list = xstrv_join(&krels, ", ");
	(void) error_set(error, -ENODATA, "%s: %s%s; it has %s", build->options.bundle,
		any ? "it has several kernels" : "it was not made for kernel ", any ? "" : krel,
		list);
	return error_try(error, -ENODATA, "--kernel with one of them");
}

/* A download is named by its digest, and that has been checked. */
static int take_downloads(struct build *build, const struct bundle *bundle, struct error *error)
{
	_cleanup_(store_close) struct store store = { .fd = -1 };
	int r = store_open(build->context.cache.fd, "blobs", &store, error);

	for (size_t i = 0; i < bundle_file_count(bundle->manifest) && r == 0; i++) {
		struct bundle_file file = bundle_file_at(bundle->manifest, i);
		_cleanup_free_ char *path = xasprintf("%s/%s", bundle->folder, file.path);

		if (strncmp(file.path, BLOBS, strlen(BLOBS)) != 0)
			continue;
		if (strcmp(file.path + strlen(BLOBS), file.sha256) != 0)
			return error_set(error, -EBADMSG,
				"%s: altered: %s has another SHA-256 than its name",
				build->options.bundle, file.path);
		/* One in the cache that is damaged makes room for the right one. */
		r = store_check(&store, file.sha256, file.size_bytes, error);
		if (r == -EUCLEAN)
			r = store_set_aside_damaged(&store, file.sha256, file.size_bytes, error);
		if (r < 0)
			return error_prefix(error, r, "%s", file.path);
		r = store_take(&store, AT_FDCWD, path, file.sha256);
		if (r < 0)
			return error_set_errno(error, r, "%s", file.path);
	}
	return r;
}

/* An image, and with it the output of the stage that made it where the bundle comes from. */
static int take_image(
	struct build *build, const struct bundle *bundle, json_object *image, struct error *error)
{
	const struct cache *cache = &build->context.cache;
	const char *name = bundle_text(image, "name"), *id = bundle_text(image, "id");
	const char *stage = bundle_text(image, "stage"), *key = bundle_text(image, "key");
	_cleanup_free_ char *output = cache_output_path(cache, stage, key);
	_cleanup_free_ char *archive =
		xasprintf("%s/%s", bundle->folder, bundle_text(image, "file"));
	_cleanup_free_ char *folder = NULL;
	_cleanup_free_ char *path = NULL;
	_cleanup_free_ char *named = NULL;
	_cleanup_close_ int lock_fd = -1;
	int r = cache_lock(cache, stage, key, &lock_fd);

	if (r < 0)
		return error_set_errno(error, r, "%s: lock in the cache", stage);
	/* Made here before, or taken: it is used as it is, whatever the bundle has. */
	if (cache_use(cache, output) && image_still_there(output))
		return 0;
	progress_step(&build->context.progress, name);
	r = buildah_bring(archive, id, error);
	if (r < 0)
		return r;
	named = buildah_image_id(name);
	r = named ? 0 : buildah_tag(id, name, error);
	if (r < 0)
		return r;
	r = cache_new_folder(cache, "imported", &folder);
	if (r == 0) {
		path = xasprintf("%s/" IMAGE_NAME_FILE, folder);
		r = fs_write_atomic(AT_FDCWD, path, name, strlen(name), 0644);
	}
	if (r == 0)
		r = cache_set_aside(cache, output);
	if (r == 0)
		r = cache_keep(folder, output);
	return r < 0 ? error_set_errno(error, r, "%s", stage) : 0;
}

static int take_images(struct build *build, const struct bundle *bundle, struct error *error)
{
	json_object *images = bundle_member(bundle->target, "images");
	json_object *base = bundle_member(bundle->target, "base");
	_cleanup_free_ char *archive =
		xasprintf("%s/%s", bundle->folder, bundle_text(base, "file"));

	for (size_t i = 0; i < json_object_array_length(images); i++) {
		int r = take_image(build, bundle, json_object_array_get_idx(images, i), error);

		if (r < 0)
			return r;
	}
	return strcmp(bundle_text(base, "kind"), BUNDLE_SOURCE_FILE) == 0
		       ? buildah_bring(archive, bundle_text(base, "name"), error)
		       : 0;
}

/* The path of something of the bundle, as long-lived as the bundle. */
static const char *path_of(struct bundle *bundle, const char *file, const char *ending)
{
	xstrv_pushf(&bundle->texts, "%s/%s%s", bundle->folder, file, ending);
	return bundle->texts.items[bundle->texts.count - 1];
}

/* The value of an option by which the build finds the source: a word, a path, or nothing. */
static int option_for(struct bundle *bundle, json_object *source, const char *package_word,
	const char *none, const char **ret_option, struct error *error)
{
	const char *kind = bundle_text(source, "kind"), *file = bundle_text(source, "file");
	struct unpack unpack_to = { 0 };
	const char *path;
	int r;

	if (strcmp(kind, BUNDLE_SOURCE_NONE) == 0 || strcmp(kind, BUNDLE_SOURCE_WORD) == 0) {
		*ret_option = strcmp(kind, BUNDLE_SOURCE_NONE) == 0 ? none : package_word;
		return 0;
	}
	*ret_option = path = path_of(bundle, file, "");
	if (strcmp(kind, BUNDLE_SOURCE_TREE) != 0)
		return 0;
	*ret_option = unpack_to.folder = path_of(bundle, file, ".d");
	r = fs_mkdir_parents(AT_FDCWD, unpack_to.folder, 0755);
	return r < 0 ? error_set_errno(error, r, "%s", file)
		     : unpack_run(&unpack_to, AT_FDCWD, path, error);
}

static int set_options(struct build *build, struct bundle *bundle, struct error *error)
{
	json_object *target = bundle->target;
	json_object *kernels = bundle_member(target, "kernel_from");
	const char *base = bundle_text(bundle_member(target, "base"), "name");
	struct build_options *options = &build->options;
	int r = option_for(bundle, bundle_member(target, "ofed"), "reference", NULL,
		&options->sources[DRIVER_OFED], error);

	if (r == 0 && strcmp(options->sources[DRIVER_NVIDIA], "none") != 0)
		r = option_for(bundle, bundle_member(target, "nvidia"), "debian", "none",
			&options->sources[DRIVER_NVIDIA], error);
	for (size_t i = 0; i < json_object_array_length(kernels) && r == 0; i++) {
		const char *path = NULL;

		r = option_for(
			bundle, json_object_array_get_idx(kernels, i), NULL, NULL, &path, error);
		if (r == 0 && path)
			xstrv_push(&options->kernel_from, path);
	}
	options->krel = bundle_text(target, "krel");
	options->lock = path_of(bundle, bundle_text(target, "lock"), "");
	options->base = *base ? base : NULL;
	options->root = bundle_text(target, "root");
	/* It is part of the keys of the images, which are of the bundle. */
	options->common.allow_unsigned = strcmp(bundle_text(target, "unsigned_lists"), "yes") == 0;
	build->bundle_slipway = bundle_text(bundle->manifest, "slipway");
	build->bundle_stamps[ROOT_KERNEL] = bundle_text(target, "root_stamp");
	build->bundle_stamps[ROOT_RUNTIME] = bundle_text(target, "runtime_stamp");
	return r;
}

static int import(struct build *build, struct bundle *bundle, struct error *error)
{
	const char *slipway;
	int r = cache_new_folder(&build->context.cache, "bundle", &bundle->folder);

	if (r < 0)
		return error_set_errno(error, r, "%s", build->context.cache.path);
	r = bundle_unpack(build->options.bundle, bundle->folder, &build->context.progress,
		&bundle->manifest, error);
	if (r == 0)
		r = choose_target(build, bundle, error);
	if (r < 0)
		return r;
	/* The build decides that, not the machine that made the bundle. */
	if (strcmp(bundle_text(bundle->target, "unsigned_lists"), "yes") == 0 &&
		!build->options.common.allow_unsigned) {
		(void) error_set(error, -EKEYREJECTED,
			"%s: made with --allow-unsigned: no signature vouches for the packages in it",
			build->options.bundle);
		return error_try(error, -EKEYREJECTED,
			"--allow-unsigned here, too, to build from it all the same");
	}
	slipway = bundle_text(bundle->manifest, "slipway");
	if (strcmp(slipway, SLIPWAY_VERSION) != 0) {
		_cleanup_free_ char *note = xasprintf(
			"the bundle was made by slipway %.40s, this is " SLIPWAY_VERSION, slipway);

		progress_note(&build->context.progress, note);
	}
	r = take_downloads(build, bundle, error);
	if (r == 0)
		r = take_images(build, bundle, error);
	return r < 0 ? r : set_options(build, bundle, error);
}

int bundle_import(struct build *build, struct bundle *bundle, struct error *error)
{
	int r;

	progress_begin(&build->context.progress, "bundle");
	r = import(build, bundle, error);
	progress_end(&build->context.progress, r < 0 ? "failed" : "done");
	return r;
}
