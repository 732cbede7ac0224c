/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/image/base_sources.h"
#include "cli/bundle/bundle.h"
#include "cli/stage/stage_tools.h"
#include "common/fs.h"
#include "common/copy.h"
#include "kernels/tool.h"

struct collecting {
	struct build *build;
	struct bundle_manifest *manifest;
	struct bundle_target *target;
	const char *folder;
	int folder_fd;
};

static int hash_file(int dir_fd, const char *path, char hex[HASH_HEX_SIZE])
{
	struct hash *hash = hash_new();
	int r;

	if (!hash)
		return -ENOMEM;
	r = hash_add_file(hash, dir_fd, path);
	hash_finish(hash, hex);
	return r;
}

/* Puts a file that lies in the folder on the list. */
static int list_file(const struct collecting *collecting, const char *path, struct error *error)
{
	struct bundle_file *file = bundle_add_file(collecting->manifest);
	char hex[HASH_HEX_SIZE];
	struct stat status = { 0 };
	int r;

	if (!file)
		return error_set_errno(error, -ENOMEM, "%s", path);
	r = hash_file(collecting->folder_fd, path, hex);
	if (r == 0 && fstatat(collecting->folder_fd, path, &status, AT_SYMLINK_NOFOLLOW) < 0)
		r = -errno;
	if (r < 0)
		return error_set_errno(error, r, "%s", path);
	file->path = strdup(path);
	file->sha256 = strdup(hex);
	file->size_bytes = (uint64_t) status.st_size;
	return file->path && file->sha256 ? 0 : error_set_errno(error, -ENOMEM, "%s", path);
}

static bool is_listed(const struct collecting *collecting, const char *path)
{
	return bundle_find_file(collecting->manifest, path) != NULL;
}

static int add_lock(const struct collecting *collecting, struct error *error)
{
	_cleanup_free_ char *text = lock_write(&collecting->build->kernel.lock);
	int r;

	if (!text ||
		asprintf(&collecting->target->lock, "locks/%s-%s.json",
			collecting->build->kernel.lock.os, collecting->build->kernel.lock.krel) < 0)
		return error_set_errno(error, -ENOMEM, "lock");
	if (is_listed(collecting, collecting->target->lock))
		return error_set(error, -EINVAL, "kernel %s is named twice",
			collecting->build->kernel.lock.krel);
	r = fs_mkdir_parents(collecting->folder_fd, "locks", 0755);
	if (r == 0)
		r = fs_write_atomic(
			collecting->folder_fd, collecting->target->lock, text, strlen(text), 0644);
	return r < 0 ? error_set_errno(error, r, "%s", collecting->target->lock)
		     : list_file(collecting, collecting->target->lock, error);
}

static int add_downloads(const struct collecting *collecting, struct error *error)
{
	struct build *build = collecting->build;
	int r = kernel_fetch(&build->kernel, NULL, error);

	for (size_t i = 0; i < build->kernel.lock.count && r == 0; i++) {
		_cleanup_free_ char *path = NULL;

		if (asprintf(&path, "blobs/sha256/%s", build->kernel.lock.packages[i].sha256) < 0)
			return error_set_errno(error, -ENOMEM, "bundle");
		if (is_listed(collecting, path))
			continue;
		r = copy_tree(build->context.cache.fd, path, collecting->folder_fd, path);
		r = r < 0 ? error_set_errno(error, r, "%s", path)
			  : list_file(collecting, path, error);
	}
	return r;
}

/* Writes the image @id to the file @path of the bundle, unless another target has. */
static int save_image(
	const struct collecting *collecting, const char *id, const char *path, struct error *error)
{
	_cleanup_free_ char *full = NULL;
	int r;

	if (is_listed(collecting, path))
		return 0;
	if (asprintf(&full, "%s/%s", collecting->folder, path) < 0)
		return error_set_errno(error, -ENOMEM, "%s", path);
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
	int r;

	if (!image)
		return error_set_errno(error, -ENOMEM, "bundle");
	r = image_name(build, stage, &image->name, error);
	if (r < 0)
		return r;
	image->stage = strdup(stage_get(stage)->name);
	image->key = strdup(build->outputs[stage].key);
	image->id = buildah_image_id(image->name);
	if (!image->id)
		return error_set(error, -ENOENT, "image %s is gone from the storage: run again",
			image->name);
	if (!image->stage || !image->key ||
		asprintf(&image->file, "images/%.16s.tar", image->id) < 0)
		return error_set_errno(error, -ENOMEM, "bundle");
	return save_image(collecting, image->id, image->file, error);
}

/* The user's own image goes by its ID: its name may mean another one elsewhere. */
static int add_user_base(const struct collecting *collecting, struct error *error)
{
	_cleanup_free_ char *id = NULL;
	_cleanup_free_ char *file = NULL;
	int r = image_name(collecting->build, STAGE_RUNTIME_BASE, &id, error);

	if (r < 0)
		return r;
	if (asprintf(&file, "images/%.16s.tar", id) < 0 ||
		bundle_set_source(&collecting->target->base, BUNDLE_SOURCE_FILE, id, file) < 0)
		return error_set_errno(error, -ENOMEM, "--base");
	return save_image(collecting, id, file, error);
}

/* What the build container's image was made of is in it: its own base is not needed. */
static int add_images(const struct collecting *collecting, struct error *error)
{
	int r = add_image(collecting, STAGE_TOOLCHAIN, error);

	if (r < 0)
		return r;
	if (collecting->build->options.base)
		return add_user_base(collecting, error);
	r = add_image(collecting, STAGE_RUNTIME_BASE, error);
	if (r == 0 && bundle_set_source(&collecting->target->base, BUNDLE_SOURCE_NONE, "", "") < 0)
		r = error_set_errno(error, -ENOMEM, "bundle");
	return r;
}

/* With sorted names and no times, so that the same tree makes the same bundle. */
static int pack_tree(
	const struct collecting *collecting, const char *from, const char *to, struct error *error)
{
	const char *const words[] = { "tar", "--create", "--sort=name", "--mtime=@0", "--owner=0",
		"--group=0", "--numeric-owner", "--exclude=.git", "--directory", from };
	_cleanup_strv_ struct strv argv = { 0 };
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(words) && r == 0; i++)
		r = strv_push(&argv, words[i]);
	if (r == 0)
		r = strv_pushf(&argv, "--file=%s/%s", collecting->folder, to);
	if (r == 0)
		r = strv_push(&argv, ".");
	return r < 0 ? error_set_errno(error, r, "tar") : tool_run(&argv, NULL, error);
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
	if (asprintf(&file, "sources/%zu-%s%s", collecting->manifest->file_count, name,
		    is_folder ? ".tar" : "") < 0 ||
		bundle_set_source(source, is_folder ? BUNDLE_SOURCE_TREE : BUNDLE_SOURCE_FILE, name,
			file) < 0)
		return error_set_errno(error, -ENOMEM, "%s", path);
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

static int add_source(const struct collecting *collecting, const struct source *from,
	struct bundle_source *to, struct error *error)
{
	const char *kind = from->kind == SOURCE_PACKAGE ? BUNDLE_SOURCE_WORD : BUNDLE_SOURCE_NONE;

	if (from->kind == SOURCE_TREE || from->kind == SOURCE_ARCHIVE)
		return add_user_path(collecting, from->path, to, error);
	return bundle_set_source(to, kind, "", "") < 0 ? error_set_errno(error, -ENOMEM, "bundle")
						       : 0;
}

static int add_sources(const struct collecting *collecting, struct error *error)
{
	const struct build *build = collecting->build;
	struct bundle_target *target = collecting->target;
	int r = add_source(collecting, &build->ofed, &target->ofed, error);

	if (r == 0)
		r = add_source(collecting, &build->nvidia, &target->nvidia, error);
	for (size_t i = 0; i < build->options.kernel_from.count && r == 0; i++) {
		struct bundle_source *source = bundle_add_kernel(target);

		r = source ? add_user_path(
				     collecting, build->options.kernel_from.items[i], source, error)
			   : error_set_errno(error, -ENOMEM, "bundle");
	}
	return r;
}

static int describe(const struct collecting *collecting, struct error *error)
{
	const struct build *build = collecting->build;
	struct bundle_target *target = collecting->target;
	int r = base_sources_stamp(build, &target->refreshed);

	target->krel = strdup(build->kernel.lock.krel);
	target->os = strdup(build->kernel.lock.os);
	target->arch = strdup(build->kernel.lock.arch);
	target->unsigned_lists = strdup(build->options.common.allow_unsigned ? "yes" : "no");
	if (r == 0 && (!target->krel || !target->os || !target->arch || !target->unsigned_lists))
		r = -ENOMEM;
	return r < 0 ? error_set_errno(error, r, "bundle") : 0;
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
	if (!collecting.target)
		return error_set_errno(error, -ENOMEM, "bundle");
	progress_begin(&build->context.progress, "collect");
	r = describe(&collecting, error);
	if (r == 0)
		r = add_lock(&collecting, error);
	if (r == 0)
		r = add_downloads(&collecting, error);
	if (r == 0)
		r = add_images(&collecting, error);
	if (r == 0)
		r = add_sources(&collecting, error);
	progress_end(&build->context.progress, r < 0 ? "failed" : "done");
	return r;
}
