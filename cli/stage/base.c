/* SPDX-License-Identifier: Apache-2.0 */
/* Images that others start from: the runtime base, the build containers, the kits. */
#include "cli/stage/stage_internal.h"

#include <fcntl.h>
#include <string.h>

#include "common/fs.h"
#include "common/xalloc.h"

/* ---- what driver images start from */

void runtime_key(const struct stage *stage, struct key *key)
{
	const char *base = key->build->options.base;
	_cleanup_free_ char *image = NULL;

	if (base) {
		key->result = find_users_image("--base", base, &image, key->error);
		if (key->result == 0)
			key_text(key, image);
		return;
	}
	root_question_key(stage, key);
	key_data(key, "containers/runtime/trim-runtime.sh");
	key_data(key, "containers/runtime/busybox");
	key_text(key, stage->packages ? stage->packages : "");
}

int runtime_run(struct build *build, const struct stage *stage, const struct stage_place *place,
	struct error *error)
{
	_cleanup_free_ char *name = NULL;
	int r;

	if (!build->options.base)
		return root_make(build, stage, place, error);
	r = find_users_image("--base", build->options.base, &name, error);
	return r < 0 ? r : image_name_write(place, name, error);
}

/* ---- the build containers: of the kernel's distribution, and of the runtime's for slipway-init */

bool toolchain_applies(const struct build *build, const struct stage *stage)
{
	return stage->of == ROOT_KERNEL || !roots_are_one(build);
}

void toolchain_key(const struct stage *stage, struct key *key)
{
	const char *compiler = toolchain_compiler(key->build, stage->of);

	key_text(key, compiler ? compiler : "");
	/* A vendor's image gets them here; a root has them, and its own key. */
	if (key->build->options.base_image && stage->of == ROOT_KERNEL) {
		_cleanup_strv_ struct strv packages = { 0 };

		root_packages(key->build, stage->of, &packages);
		for (size_t i = 0; i < packages.count; i++)
			key_text(key, packages.items[i]);
	}
	key_data(key, "containers/%s/Containerfile", key->build->roots[stage->of].os.root.family);
	key_data(key, "containers/root/compiler.sh");
}

int toolchain_run(struct build *build, const struct stage *stage, const struct stage_place *place,
	struct error *error)
{
	const struct catalogue *os = &build->roots[stage->of].os;
	const char *compiler = toolchain_compiler(build, stage->of);
	_cleanup_free_ char *containerfile = xasprintf("%s/Containerfile", os->root.family);
	_cleanup_(made_image_free) struct made_image image = { .containerfile = containerfile };
	_cleanup_(staging_close) struct staging staging = { .fd = -1 };
	_cleanup_free_ char *base = NULL;
	_cleanup_free_ char *folder = NULL;
	_cleanup_free_ char *prefix = xasprintf("build-%s-%s", os->os, compiler);
	int r;

	if (build->options.common.offline)
		return root_fail_offline(build, "the build container's image", error);
	base = image_name(stage_find(build, STAGE_ROOT, stage->of), error);
	if (!base)
		return -EIO;
	r = cache_new_folder(&build->context.cache, "toolchain-context", &folder);
	if (r < 0)
		return error_set_errno(error, r, "toolchain");
	r = staging_open(&staging, folder, error);
	if (r < 0)
		return r;
	staging_copy(
		&staging, "compiler.sh", "%s/containers/root/compiler.sh", build->context.data);
	if (staging.result < 0)
		return staging.result;
	image.folder = folder;
	xstrv_pushf(&image.arguments, "BASE=%s", base);
	xstrv_pushf(&image.arguments, "COMPILER=%s", compiler);
	/* A vendor's image gets its packages from its own repositories. */
	if (stage->of == ROOT_KERNEL && build->options.base_image) {
		_cleanup_strv_ struct strv packages = { 0 };
		_cleanup_free_ char *words = NULL;

		root_packages(build, stage->of, &packages);
		words = xstrv_join(&packages, " ");
		xstrv_pushf(&image.arguments, "PACKAGES=%s", words);
		image.network = true;
	}
	progress_step(&build->context.progress, compiler);
	r = made_image_keep(build, place, &image, prefix, error);
	return r;
}

/*
 * ---- the kits: a driver's source, its recipes and the build container that they run in, in the
 * image that a driver image starts from which can compile on a node. cli/node_build/ reads it.
 */

#define KIT_CONTAINERFILE "runtime/Containerfile.kit"

/* Below containers/, and in the kit. */
static const char *const kit_recipes[IMAGE_COUNT][5] = {
	[IMAGE_NIC] = { "recipes/lib.sh", "recipes/ofed.sh", "recipes/ofed-tree.sh",
		"feature-tests" },
	[IMAGE_GPU] = { "recipes/lib.sh", "recipes/nvidia.sh", "recipes/peermem.sh" },
};

/* Is it compiled with the kit's own driver, which its modules are bound to? */
static bool is_addon(const struct build *build, const struct stage *kit, enum driver driver)
{
	return driver_rows[driver].bound_to == image_driver(kit->of) && build_has(build, driver) &&
	       driver_rows[driver].image == (enum image_id) kit->of;
}

bool kit_applies(const struct build *build, const struct stage *stage)
{
	return build->options.sources_image && build_has(build, image_driver(stage->of));
}

static void source_part_key(struct key *key, enum driver driver)
{
	key_data(key, "containers/patches/%s", driver_rows[driver].name);
	source_tree_key(key, driver);
}

void kit_key(const struct stage *stage, struct key *key)
{
	const char *const *recipes = kit_recipes[stage->of];

	key_data(key, "containers/" KIT_CONTAINERFILE);
	for (size_t i = 0; recipes[i]; i++)
		key_data(key, "containers/%s", recipes[i]);
	source_part_key(key, image_driver(stage->of));
	for (enum driver driver = 0; driver < DRIVER_COUNT; driver++) {
		const struct driver_row *kind = &driver_rows[driver];

		if (!is_addon(key->build, stage, driver))
			continue;
		key_text(key, kind->name);
		key_data(key, "containers/recipes/%s.sh", kind->name);
		key_data(key, "containers/recipes/%s", kind->recipe_part);
		source_part_key(key, driver);
	}
}

/* To "source" and "patches" below @folder, "" or with a slash at its end. */
static int stage_source(const struct build *build, enum driver driver, const char *folder,
	struct staging *staging, struct error *error)
{
	_cleanup_free_ char *source = NULL;
	_cleanup_free_ char *to = xasprintf("%ssource", folder);
	_cleanup_free_ char *patches = xasprintf("%spatches", folder);
	int r = source_tree(build, driver, &source, error);

	if (r < 0)
		return r;
	staging_copy(staging, to, "%s", source);
	/* If the source has no fixes, the recipe's folder of fixes is empty. */
	staging_mkdir(staging, patches);
	staging_copy_found(staging, patches, "%s/containers/patches/%s", build->context.data,
		driver_rows[driver].name);
	return staging->result;
}

/* Its source, patches and recipes: containers/recipes/nvidia.sh runs them after itself. */
static int stage_addon(
	const struct build *build, enum driver driver, struct staging *staging, struct error *error)
{
	const struct driver_row *kind = &driver_rows[driver];
	const char *data = build->context.data;
	_cleanup_free_ char *folder = xasprintf("addons/%s/", kind->name);
	_cleanup_free_ char *recipe = xasprintf("recipes/%s.sh", kind->name);
	_cleanup_free_ char *part = xasprintf("recipes/%s", kind->recipe_part);
	int r = stage_source(build, driver, folder, staging, error);

	if (r < 0)
		return r;
	staging_copy(staging, recipe, "%s/containers/%s", data, recipe);
	if (!fs_exists(staging->fd, part))
		staging_copy(staging, part, "%s/containers/%s", data, part);
	return staging->result;
}

int kit_run(struct build *build, const struct stage *stage, const struct stage_place *place,
	struct error *error)
{
	const char *const *recipes = kit_recipes[stage->of];
	const struct context *context = &build->context;
	_cleanup_(made_image_free) struct made_image image = {
		.containerfile = KIT_CONTAINERFILE,
		.has_stages = true,
	};
	_cleanup_(staging_close) struct staging staging = { .fd = -1 };
	/* The id is a hash of all that is in it, the compiler included: the node's cache goes by
	 * it. */
	_cleanup_free_ char *conf = xasprintf("id=%s\nos=%s\n", place->key, build->target.os->os);
	_cleanup_free_ char *prefix = xasprintf("%s-%s", stage->name, build->target.os->os);
	_cleanup_free_ char *folder = NULL;
	_cleanup_free_ char *path = NULL;
	_cleanup_free_ char *base = image_name(stage_find(build, STAGE_RUNTIME_BASE, 0), error);
	_cleanup_free_ char *toolchain =
		base ? image_name(stage_find(build, STAGE_TOOLCHAIN, ROOT_KERNEL), error) : NULL;
	int r;

	if (!toolchain)
		return -EIO;
	r = cache_new_folder(&context->cache, "kit-context", &folder);
	if (r < 0)
		return error_set_errno(error, r, "%s", stage->name);
	progress_step(&build->context.progress, "the driver's source and the recipes");
	path = xasprintf("%s/kit", folder);
	r = staging_open(&staging, path, error);
	if (r < 0)
		return r;
	for (size_t i = 0; recipes[i]; i++)
		staging_copy(&staging, recipes[i], "%s/containers/%s", context->data, recipes[i]);
	r = stage_source(build, image_driver(stage->of), "", &staging, error);
	if (r < 0)
		return r;
	for (enum driver driver = 0; driver < DRIVER_COUNT; driver++) {
		if (!is_addon(build, stage, driver))
			continue;
		r = stage_addon(build, driver, &staging, error);
		if (r < 0)
			return r;
	}
	staging_write(&staging, "kit.conf", conf, strlen(conf));
	if (staging.result < 0)
		return staging.result;
	image.folder = folder;
	xstrv_pushf(&image.arguments, "BASE=%s", base);
	xstrv_pushf(&image.arguments, "TOOLCHAIN=%s", toolchain);
	return made_image_keep(build, place, &image, prefix, error);
}
