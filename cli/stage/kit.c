/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kits: the build container with a driver's source and its recipes in it, as the image that a
 * driver image starts from which can compile on a node. entrypoint/node_build/kit.h reads it.
 */
#include <fcntl.h>
#include <string.h>

#include "cli/stage/stage_internal.h"
#include "common/fs.h"
#include "common/xalloc.h"

#define RECIPES_MAX 3

static const struct kit {
	const char *containerfile; /* below containers/debian */
	const char *recipes[RECIPES_MAX];
	bool with_runtime; /* programs of the runtime base go into it */
} kits[DRIVER_COUNT] = {
	[DRIVER_NVIDIA] = {
		.containerfile = "Containerfile.kit",
		.recipes = { "lib.sh", "nvidia.sh", "peermem.sh" },
	},
	[DRIVER_OFED] = {
		.containerfile = "Containerfile.nic-kit",
		.recipes = { "lib.sh", "ofed.sh" },
		.with_runtime = true,
	},
};

bool kit_applies(const struct build *build, const struct stage *stage)
{
	return build->options.sources_image && build_has(build, stage->driver);
}

int kit_add_inputs(const struct build *build, const struct stage *stage, struct hash *hash,
	struct error *error)
{
	const struct kit *kit = &kits[stage->driver];
	const struct source *source = &build->sources[stage->driver];
	const struct context *context = &build->context;
	char path[128];
	int r;

	(void) snprintf(path, sizeof(path), "containers/debian/%s", kit->containerfile);
	r = cached_add_data(context, path, hash, error);
	for (size_t i = 0; i < RECIPES_MAX && kit->recipes[i] && r == 0; i++) {
		(void) snprintf(path, sizeof(path), "containers/recipes/%s", kit->recipes[i]);
		r = cached_add_data(context, path, hash, error);
	}
	(void) snprintf(
		path, sizeof(path), "containers/patches/%s", source_kinds[stage->driver].name);
	if (r == 0)
		r = cached_add_data(context, path, hash, error);
	if (r == 0 && source->form == SOURCE_TREE)
		r = source_add_content(source, hash, error);
	return r;
}

static int copy_data(const struct build *build, const char *from, int to_fd, const char *to)
{
	_cleanup_free_ char *path = xasprintf("%s/containers/%s", build->context.data, from);

	return copy_tree(AT_FDCWD, path, to_fd, to);
}

static int copy_recipes(const struct build *build, enum driver driver, int kit_fd)
{
	const struct kit *kit = &kits[driver];
	char path[128];
	int r = 0;

	for (size_t i = 0; i < RECIPES_MAX && kit->recipes[i] && r == 0; i++) {
		(void) snprintf(path, sizeof(path), "recipes/%s", kit->recipes[i]);
		r = copy_data(build, path, kit_fd, path);
	}
	if (r < 0)
		return r;
	(void) snprintf(path, sizeof(path), "patches/%s", source_kinds[driver].name);
	r = copy_data(build, path, kit_fd, "patches");
	/* A source without fixes: the recipe's folder of them is empty. */
	return r == -ENOENT ? fs_mkdir_parents(kit_fd, "patches", 0755) : r;
}

/* kit.conf's id is a hash of all that is in it, the compiler included: the node's cache goes by it.
 */
static int fill(const struct build *build, enum driver driver, const struct stage_place *place,
	const char *folder, struct error *error)
{
	_cleanup_free_ char *path = xasprintf("%s/kit", folder);
	_cleanup_free_ char *conf = xasprintf("id=%s\nos=%s\n", place->key, build->context.os.os);
	_cleanup_free_ char *source = NULL;
	_cleanup_close_ int kit_fd = -1;
	int r = fs_mkdir_parents(AT_FDCWD, path, 0755);

	if (r < 0)
		return error_set_errno(error, r, "%s", path);
	kit_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (kit_fd < 0)
		return error_set_errno(error, -errno, "%s", path);
	r = source_tree(build, driver, &source, error);
	if (r < 0)
		return r;
	r = copy_tree(AT_FDCWD, source, kit_fd, "source");
	if (r == 0)
		r = copy_recipes(build, driver, kit_fd);
	if (r == 0)
		r = fs_write_atomic(kit_fd, "kit.conf", conf, strlen(conf), 0644);
	return r < 0 ? error_set_errno(error, r, "%s", path) : 0;
}

int kit_run(struct build *build, const struct stage *stage, const struct stage_place *place,
	struct error *error)
{
	const struct kit *kit = &kits[stage->driver];
	const struct context *context = &build->context;
	_cleanup_(stage_buildah_done) struct buildah buildah = { .log_fd = -1 };
	_cleanup_strv_ struct strv arguments = { 0 };
	_cleanup_strv_ struct strv labels = { 0 };
	_cleanup_free_ char *folder = NULL;
	_cleanup_free_ char *base = NULL;
	_cleanup_free_ char *runtime = NULL;
	_cleanup_free_ char *file = NULL;
	_cleanup_free_ char *name = NULL;
	_cleanup_free_ char *id = NULL;
	int r = image_name(build, STAGE_TOOLCHAIN, &base, error);

	if (r == 0 && kit->with_runtime)
		r = image_name(build, STAGE_RUNTIME_BASE, &runtime, error);
	if (r < 0)
		return r;
	r = cache_new_folder(&context->cache, "kit-context", &folder);
	if (r < 0)
		return error_set_errno(error, r, "%s", stage->name);
	xstrv_pushf(&arguments, "BASE=%s", base);
	if (runtime)
		xstrv_pushf(&arguments, "RUNTIME=%s", runtime);
	file = xasprintf("%s/containers/debian/%s", context->data, kit->containerfile);
	name = xasprintf("localhost/slipway/%s-%s:%.16s", stage->name, context->os.os, place->key);
	progress_step(&build->context.progress, "the driver's source and the recipes");
	r = fill(build, stage->driver, place, folder, error);
	if (r == 0)
		r = stage_buildah(build, place, &buildah, error);
	if (r < 0)
		return r;
	r = buildah_build(&buildah, file, folder, &arguments, &labels, &id, error);
	if (r < 0)
		return error_prefix(error, r, "log %s", place->log);
	r = buildah_tag(id, name, error);
	return r < 0 ? r : image_name_write(place, name, error);
}
