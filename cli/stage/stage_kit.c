/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kits: the build container with a driver's source and its recipes in it, as the image that a
 * driver image starts from which can compile on a node. entrypoint/node_build/kit.h reads it.
 */
#include <fcntl.h>
#include <string.h>

#include "cli/stage/stage_tools.h"
#include "common/copy.h"
#include "common/fs.h"

#define RECIPES_MAX 3

struct kit {
	const char *name;          /* of its image, and of messages */
	const char *containerfile; /* below containers/debian */
	const char *patches;       /* below containers/patches: what the recipe may apply */
	const char *recipes[RECIPES_MAX];
	enum stage_id source_stage;
	const struct source *source;
	bool with_runtime; /* programs of the runtime base go into it */
};

static struct kit gpu_kit(const struct build *build)
{
	return (struct kit){
		.name = "kit",
		.containerfile = "Containerfile.kit",
		.patches = "nvidia",
		.recipes = { "lib.sh", "nvidia.sh", "peermem.sh" },
		.source_stage = STAGE_NVIDIA_SOURCE,
		.source = &build->nvidia,
	};
}

static struct kit nic_kit(const struct build *build)
{
	return (struct kit){
		.name = "nic-kit",
		.containerfile = "Containerfile.nic-kit",
		.patches = "ofed",
		.recipes = { "lib.sh", "ofed.sh" },
		.source_stage = STAGE_OFED_SOURCE,
		.source = &build->ofed,
		.with_runtime = true,
	};
}

bool kit_applies(const struct build *build)
{
	return build->options.sources_image && nvidia_applies(build);
}

bool nic_kit_applies(const struct build *build)
{
	return build->options.sources_image && ofed_applies(build);
}

static int add_inputs(
	const struct build *build, const struct kit *kit, struct hash *hash, struct error *error)
{
	char path[128];
	int r;

	(void) snprintf(path, sizeof(path), "containers/debian/%s", kit->containerfile);
	r = cached_add_data(&build->context, path, hash, error);
	for (size_t i = 0; i < RECIPES_MAX && kit->recipes[i] && r == 0; i++) {
		(void) snprintf(path, sizeof(path), "containers/recipes/%s", kit->recipes[i]);
		r = cached_add_data(&build->context, path, hash, error);
	}
	(void) snprintf(path, sizeof(path), "containers/patches/%s", kit->patches);
	if (r == 0)
		r = cached_add_data(&build->context, path, hash, error);
	if (r == 0 && kit->source->kind == SOURCE_TREE)
		r = source_add_content(kit->source, hash, error);
	return r;
}

int kit_add_inputs(const struct build *build, struct hash *hash, struct error *error)
{
	const struct kit kit = gpu_kit(build);

	return add_inputs(build, &kit, hash, error);
}

int nic_kit_add_inputs(const struct build *build, struct hash *hash, struct error *error)
{
	const struct kit kit = nic_kit(build);

	return add_inputs(build, &kit, hash, error);
}

static int copy_data(const struct build *build, const char *from, int to_fd, const char *to)
{
	_cleanup_free_ char *path = NULL;

	if (asprintf(&path, "%s/containers/%s", build->context.data, from) < 0)
		return -ENOMEM;
	return copy_tree(AT_FDCWD, path, to_fd, to);
}

static int copy_recipes(const struct build *build, const struct kit *kit, int kit_fd)
{
	char path[128];
	int r = 0;

	for (size_t i = 0; i < RECIPES_MAX && kit->recipes[i] && r == 0; i++) {
		(void) snprintf(path, sizeof(path), "recipes/%s", kit->recipes[i]);
		r = copy_data(build, path, kit_fd, path);
	}
	if (r < 0)
		return r;
	(void) snprintf(path, sizeof(path), "patches/%s", kit->patches);
	r = copy_data(build, path, kit_fd, "patches");
	/* A source without fixes: the recipe's folder of them is empty. */
	return r == -ENOENT ? fs_mkdir_parents(kit_fd, "patches", 0755) : r;
}

/* The id is a hash of all that is in it, the compiler included: the node's cache goes by it. */
static int write_conf(const struct build *build, const struct stage_place *place, int kit_fd)
{
	_cleanup_free_ char *text = NULL;

	if (asprintf(&text, "id=%s\nos=%s\n", place->key, build->context.os.os) < 0)
		return -ENOMEM;
	return fs_write_atomic(kit_fd, "kit.conf", text, strlen(text), 0644);
}

static int fill(const struct build *build, const struct kit *kit, const struct stage_place *place,
	const char *folder, struct error *error)
{
	_cleanup_close_ int kit_fd = -1;
	_cleanup_free_ char *source = NULL;
	_cleanup_free_ char *path = NULL;
	int r;

	if (asprintf(&path, "%s/kit", folder) < 0)
		return error_set_errno(error, -ENOMEM, "kit");
	r = fs_mkdir_parents(AT_FDCWD, path, 0755);
	if (r < 0)
		return error_set_errno(error, r, "%s", path);
	kit_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (kit_fd < 0)
		return error_set_errno(error, -errno, "%s", path);
	r = source_tree(build, kit->source, kit->source_stage, &source, error);
	if (r < 0)
		return r;
	r = copy_tree(AT_FDCWD, source, kit_fd, "source");
	if (r == 0)
		r = copy_recipes(build, kit, kit_fd);
	if (r == 0)
		r = write_conf(build, place, kit_fd);
	return r < 0 ? error_set_errno(error, r, "%s", path) : 0;
}

static int list_arguments(const struct build *build, const struct kit *kit, struct strv *arguments,
	struct error *error)
{
	_cleanup_free_ char *base = NULL;
	_cleanup_free_ char *runtime = NULL;
	int r = image_name(build, STAGE_TOOLCHAIN, &base, error);

	if (r == 0 && kit->with_runtime)
		r = image_name(build, STAGE_RUNTIME_BASE, &runtime, error);
	if (r < 0)
		return r;
	if (strv_pushf(arguments, "BASE=%s", base) < 0 ||
		(runtime && strv_pushf(arguments, "RUNTIME=%s", runtime) < 0))
		return error_set_errno(error, -ENOMEM, "%s", kit->name);
	return 0;
}

static int make_kit(struct build *build, const struct kit *kit, const struct stage_place *place,
	struct error *error)
{
	_cleanup_(stage_buildah_done) struct buildah buildah = { .log_fd = -1 };
	_cleanup_strv_ struct strv arguments = { 0 };
	_cleanup_strv_ struct strv labels = { 0 };
	_cleanup_free_ char *folder = NULL;
	_cleanup_free_ char *file = NULL;
	_cleanup_free_ char *name = NULL;
	_cleanup_free_ char *id = NULL;
	int r = list_arguments(build, kit, &arguments, error);

	if (r < 0)
		return r;
	if (asprintf(&file, "%s/containers/debian/%s", build->context.data, kit->containerfile) <
			0 ||
		asprintf(&name, "localhost/slipway/%s-%s:%.16s", kit->name, build->context.os.os,
			place->key) < 0 ||
		cache_new_folder(&build->context.cache, "kit-context", &folder) < 0)
		return error_set_errno(error, -ENOMEM, "%s", kit->name);
	progress_step(&build->context.progress, "the driver's source and the recipes");
	r = fill(build, kit, place, folder, error);
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

int kit_run(struct build *build, const struct stage_place *place, struct error *error)
{
	const struct kit kit = gpu_kit(build);

	return make_kit(build, &kit, place, error);
}

int nic_kit_run(struct build *build, const struct stage_place *place, struct error *error)
{
	const struct kit kit = nic_kit(build);

	return make_kit(build, &kit, place, error);
}
