/* SPDX-License-Identifier: Apache-2.0 */
/* Driver sources made ready for the recipes: unpacked, checked, at their own top level. */
#include <dirent.h>
#include <fcntl.h>
#include <string.h>

#include "cli/stage/stage_tools.h"
#include "common/fs.h"
#include "kernels/tool.h"
#include "kernels/archive/unpack.h"

bool ofed_applies(const struct build *build)
{
	return build->ofed.kind != SOURCE_NONE;
}

bool nvidia_applies(const struct build *build)
{
	return build->nvidia.kind != SOURCE_NONE;
}

/* A tree is used where it lies: nothing is made of it. */
bool ofed_source_applies(const struct build *build)
{
	return build->ofed.kind == SOURCE_PACKAGE || build->ofed.kind == SOURCE_ARCHIVE;
}

bool nvidia_source_applies(const struct build *build)
{
	return build->nvidia.kind == SOURCE_PACKAGE || build->nvidia.kind == SOURCE_ARCHIVE;
}

int ofed_source_add_inputs(const struct build *build, struct hash *hash, struct error *error)
{
	int r;

	if (build->ofed.kind == SOURCE_ARCHIVE)
		return source_add_content(&build->ofed, hash, error);
	kernel_add_packages(&build->kernel, LOCK_OFED_SOURCE, hash);
	r = cached_add_data(&build->context, "scripts/reference-ofed", hash, error);
	return r < 0 ? r
		     : cached_add_data(&build->context, "scripts/reference-ofed.d", hash, error);
}

int nvidia_source_add_inputs(const struct build *build, struct hash *hash, struct error *error)
{
	if (build->nvidia.kind == SOURCE_ARCHIVE)
		return source_add_content(&build->nvidia, hash, error);
	kernel_add_packages(&build->kernel, LOCK_NVIDIA_SOURCE, hash);
	return 0;
}

/* A package's tarball is below usr/src, beside documentation and DKMS files. */
static bool is_tarball(void *context, const char *path)
{
	const char *dot = strstr(path, ".tar");

	(void) context;
	return strncmp(path, "usr/src/", 8) == 0 && dot;
}

static int find_tarball(const char *folder, char **ret_path, struct error *error)
{
	_cleanup_strv_ struct strv names = { 0 };
	_cleanup_free_ char *sources = NULL;
	int r;

	if (asprintf(&sources, "%s/usr/src", folder) < 0)
		return error_set_errno(error, -ENOMEM, "%s", folder);
	r = fs_list(AT_FDCWD, sources, &names);
	if (r < 0 || names.count == 0)
		return error_set(error, -EINVAL, "the source package has no tarball under usr/src");
	return asprintf(ret_path, "%s/%s", sources, names.items[0]) < 0
		       ? error_set_errno(error, -ENOMEM, "%s", folder)
		       : 0;
}

/* Fetches the package of a purpose and gives the path of the source tarball in it. */
static int package_tarball(
	struct build *build, const char *purpose, char **ret_path, struct error *error)
{
	const struct lock_package *package = lock_find(&build->kernel.lock, purpose);
	_cleanup_free_ char *folder = NULL;
	_cleanup_free_ char *blob = NULL;
	struct unpack unpack = { .wanted = is_tarball };
	int r = kernel_fetch(&build->kernel, purpose, error);

	if (r < 0)
		return r;
	if (asprintf(&blob, "blobs/sha256/%s", package->sha256) < 0 ||
		cache_new_folder(&build->context.cache, "package", &folder) < 0)
		return error_set_errno(error, -ENOMEM, "%s", package->name);
	unpack.folder = folder;
	progress_step(&build->context.progress, package->name);
	r = unpack_deb(&unpack, build->context.cache.fd, blob, error);
	return r < 0 ? r : find_tarball(folder, ret_path, error);
}

/* A file of the user's that is no whole archive is a bad source, not a damaged download. */
static int unpack_archive(const char *path, const char *folder, bool users, struct error *error)
{
	struct unpack unpack = { .folder = folder };
	int r = unpack_tar(&unpack, AT_FDCWD, path, error);

	return users && r == -EBADMSG ? -EINVAL : r;
}

static int check_in(const char *folder, int (*check)(const char *path, struct error *error),
	struct error *error)
{
	_cleanup_free_ char *top = NULL;
	int r = source_find_top(folder, &top);

	return r < 0 ? error_set_errno(error, r, "%s", folder) : check(top, error);
}

static int generate_reference(
	struct build *build, const struct stage_place *place, struct error *error)
{
	_cleanup_strv_ struct strv argv = { 0 };
	_cleanup_free_ char *tarball = NULL;
	int r = package_tarball(build, LOCK_OFED_SOURCE, &tarball, error);

	if (r < 0)
		return r;
	progress_step(&build->context.progress, "generate the reference OFED");
	r = strv_pushf(&argv, "%s/scripts/reference-ofed", build->context.data);
	if (r == 0)
		r = strv_push(&argv, "--kernel-source");
	if (r == 0)
		r = strv_push(&argv, tarball);
	if (r == 0)
		r = strv_push(&argv, "--output");
	if (r == 0)
		r = strv_push(&argv, place->folder);
	return r < 0 ? error_set_errno(error, r, "reference-ofed") : tool_run(&argv, NULL, error);
}

int ofed_source_run(struct build *build, const struct stage_place *place, struct error *error)
{
	int r = build->ofed.kind == SOURCE_ARCHIVE
			? unpack_archive(build->ofed.path, place->folder, true, error)
			: generate_reference(build, place, error);

	return r < 0 ? r : check_in(place->folder, source_check_ofed, error);
}

int nvidia_source_run(struct build *build, const struct stage_place *place, struct error *error)
{
	_cleanup_free_ char *tarball = NULL;
	int r;

	if (build->nvidia.kind == SOURCE_PACKAGE) {
		r = package_tarball(build, LOCK_NVIDIA_SOURCE, &tarball, error);
		if (r < 0)
			return r;
	}
	r = unpack_archive(tarball ? tarball : build->nvidia.path, place->folder, !tarball, error);
	return r < 0 ? r : check_in(place->folder, source_check_nvidia, error);
}

int source_unpack(const struct source *source, const char *folder,
	int (*check)(const char *path, struct error *error), struct error *error)
{
	int r = unpack_archive(source->path, folder, true, error);

	return r < 0 ? r : check_in(folder, check, error);
}

int source_tree(const struct build *build, const struct source *source, enum stage_id stage,
	char **ret_path, struct error *error)
{
	int r;

	if (source->kind == SOURCE_TREE) {
		*ret_path = strdup(source->path);
		return *ret_path ? 0 : error_set_errno(error, -ENOMEM, "%s", source->path);
	}
	r = source_find_top(stage_output(build, stage), ret_path);
	return r < 0 ? error_set_errno(error, r, "%s", stage_output(build, stage)) : 0;
}
