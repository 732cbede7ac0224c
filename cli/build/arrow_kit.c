/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kit: the build container with the driver's source and the recipes in it, as the image that a
 * GPU image starts from which can compile on a node. entrypoint/nodebuild/kit.h reads it.
 */
#include <fcntl.h>
#include <string.h>

#include "cli/build/arrow_tools.h"
#include "common/copy.h"
#include "common/fs.h"

#define KIT_CONTAINERFILE "containers/debian/Containerfile.kit"

/* What runs on a node, below containers/. */
static const char *const recipes[] = { "lib.sh", "nvidia.sh", "peermem.sh" };

bool kit_applies(const struct build *build)
{
	return build->options.sources_image && nvidia_applies(build);
}

int kit_add_inputs(const struct build *build, struct hash *hash, struct error *error)
{
	int r = arrow_add_data(build, KIT_CONTAINERFILE, hash, error);

	for (size_t i = 0; i < ARRAY_SIZE(recipes) && r == 0; i++) {
		char path[128];

		(void) snprintf(path, sizeof(path), "containers/recipes/%s", recipes[i]);
		r = arrow_add_data(build, path, hash, error);
	}
	if (r == 0)
		r = arrow_add_data(build, "containers/patches/nvidia", hash, error);
	if (r == 0 && build->nvidia.kind == SOURCE_TREE)
		r = source_add_content(&build->nvidia, hash, error);
	return r;
}

static int copy_data(const struct build *build, const char *from, int to_fd, const char *to)
{
	_cleanup_free_ char *path = NULL;

	if (asprintf(&path, "%s/containers/%s", build->context.data, from) < 0)
		return -ENOMEM;
	return copy_tree(AT_FDCWD, path, to_fd, to);
}

static int copy_recipes(const struct build *build, int kit_fd)
{
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(recipes) && r == 0; i++) {
		char path[128];

		(void) snprintf(path, sizeof(path), "recipes/%s", recipes[i]);
		r = copy_data(build, path, kit_fd, path);
	}
	return r < 0 ? r : copy_data(build, "patches/nvidia", kit_fd, "patches");
}

/* The id is a hash of all that is in it, the compiler included: the node's cache goes by it. */
static int write_conf(const struct build *build, const struct arrow_place *place, int kit_fd)
{
	_cleanup_free_ char *text = NULL;

	if (asprintf(&text, "id=%s\nos=%s\n", place->key, build->context.os.os) < 0)
		return -ENOMEM;
	return fs_write_atomic(kit_fd, "kit.conf", text, strlen(text), 0644);
}

static int fill(const struct build *build, const struct arrow_place *place, const char *folder,
	struct error *error)
{
	_cleanup_close_ int kit_fd = -1;
	_cleanup_free_ char *source = NULL;
	_cleanup_free_ char *kit = NULL;
	int r;

	if (asprintf(&kit, "%s/kit", folder) < 0)
		return error_set_errno(error, -ENOMEM, "kit");
	r = fs_mkdir_parents(AT_FDCWD, kit, 0755);
	if (r < 0)
		return error_set_errno(error, r, "%s", kit);
	kit_fd = open(kit, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (kit_fd < 0)
		return error_set_errno(error, -errno, "%s", kit);
	r = source_tree(build, &build->nvidia, ARROW_NVIDIA_SOURCE, &source, error);
	if (r < 0)
		return r;
	r = copy_tree(AT_FDCWD, source, kit_fd, "source");
	if (r == 0)
		r = copy_recipes(build, kit_fd);
	if (r == 0)
		r = write_conf(build, place, kit_fd);
	return r < 0 ? error_set_errno(error, r, "%s", kit) : 0;
}

int kit_run(struct build *build, const struct arrow_place *place, struct error *error)
{
	_cleanup_(arrow_buildah_done) struct buildah buildah = { .log_fd = -1 };
	_cleanup_strv_ struct strv arguments = { 0 };
	_cleanup_strv_ struct strv labels = { 0 };
	_cleanup_free_ char *folder = NULL;
	_cleanup_free_ char *base = NULL;
	_cleanup_free_ char *file = NULL;
	_cleanup_free_ char *name = NULL;
	_cleanup_free_ char *id = NULL;
	int r = image_name(build, ARROW_TOOLCHAIN, &base, error);

	if (r < 0)
		return r;
	if (asprintf(&file, "%s/" KIT_CONTAINERFILE, build->context.data) < 0 ||
		asprintf(&name, "localhost/slipway/kit-%s:%.16s", build->context.os.os,
			place->key) < 0 ||
		strv_pushf(&arguments, "BASE=%s", base) < 0 ||
		cache_new_folder(&build->context.cache, "kit-context", &folder) < 0)
		return error_set_errno(error, -ENOMEM, "kit");
	progress_step(&build->context.progress, "the driver's source and the recipes");
	r = fill(build, place, folder, error);
	if (r == 0)
		r = arrow_buildah(build, place, &buildah, error);
	if (r < 0)
		return r;
	r = buildah_build(&buildah, file, folder, &arguments, &labels, &id, error);
	if (r < 0)
		return error_prefix(error, r, "log %s", place->log);
	r = buildah_tag(id, name, error);
	return r < 0 ? r : image_name_write(place, name, error);
}
