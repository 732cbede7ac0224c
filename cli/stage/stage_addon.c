/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Modules that others build against NVIDIA's on the node: GDRCopy's gdrdrv and GPUDirect Storage's
 * nvidia-fs. Here they are bound to the very symbols of our set, so that the proof covers them.
 */
#include "cli/stage/stage_tools.h"

struct addon {
	const char *name; /* of the recipe */
	enum stage_id source_stage;
	int (*check)(const char *path, struct error *error);
};

static const struct addon gdrcopy = { "gdrcopy", STAGE_GDRCOPY_SOURCE, source_check_gdrcopy };
static const struct addon nvidia_fs = { "nvidia-fs", STAGE_NVIDIA_FS_SOURCE,
	source_check_nvidia_fs };

bool gdrcopy_applies(const struct build *build)
{
	return build->gdrcopy.kind != SOURCE_NONE;
}

bool nvidia_fs_applies(const struct build *build)
{
	return build->nvidia_fs.kind != SOURCE_NONE;
}

/* A tree is used where it lies. */
bool gdrcopy_source_applies(const struct build *build)
{
	return build->gdrcopy.kind == SOURCE_ARCHIVE;
}

bool nvidia_fs_source_applies(const struct build *build)
{
	return build->nvidia_fs.kind == SOURCE_ARCHIVE;
}

int gdrcopy_source_add_inputs(const struct build *build, struct hash *hash, struct error *error)
{
	return source_add_content(&build->gdrcopy, hash, error);
}

int nvidia_fs_source_add_inputs(const struct build *build, struct hash *hash, struct error *error)
{
	return source_add_content(&build->nvidia_fs, hash, error);
}

int gdrcopy_source_run(struct build *build, const struct stage_place *place, struct error *error)
{
	return source_unpack(&build->gdrcopy, place->folder, gdrcopy.check, error);
}

int nvidia_fs_source_run(struct build *build, const struct stage_place *place, struct error *error)
{
	return source_unpack(&build->nvidia_fs, place->folder, nvidia_fs.check, error);
}

static int add_inputs(const struct build *build, const struct addon *addon,
	const struct source *source, struct hash *hash, struct error *error)
{
	int r = recipe_add(build, addon->name, hash, error);

	if (r == 0)
		r = cached_add_data(
			&build->context, "containers/recipes/bound-to-nvidia.sh", hash, error);
	if (r == 0 && source->kind == SOURCE_TREE)
		r = source_add_content(source, hash, error);
	return r;
}

int gdrcopy_add_inputs(const struct build *build, struct hash *hash, struct error *error)
{
	return add_inputs(build, &gdrcopy, &build->gdrcopy, hash, error);
}

int nvidia_fs_add_inputs(const struct build *build, struct hash *hash, struct error *error)
{
	return add_inputs(build, &nvidia_fs, &build->nvidia_fs, hash, error);
}

static int run(struct build *build, const struct addon *addon, const struct source *source,
	const struct stage_place *place, struct error *error)
{
	_cleanup_free_ char *tree = NULL;
	struct recipe recipe = { .name = addon->name, .nvidia = stage_output(build, STAGE_NVIDIA) };
	int r = source_tree(build, source, addon->source_stage, &tree, error);

	recipe.source = tree;
	return r < 0 ? r : recipe_run(build, &recipe, place, error);
}

int gdrcopy_run(struct build *build, const struct stage_place *place, struct error *error)
{
	return run(build, &gdrcopy, &build->gdrcopy, place, error);
}

int nvidia_fs_run(struct build *build, const struct stage_place *place, struct error *error)
{
	return run(build, &nvidia_fs, &build->nvidia_fs, place, error);
}
