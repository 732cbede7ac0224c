/* SPDX-License-Identifier: Apache-2.0 */
/* The sets of modules that the recipes compile of the drivers' sources, and what comes before. */
#include "cli/stage/stage_internal.h"

#include <fcntl.h>

#include "common/fs.h"
#include "common/xalloc.h"

/*
 * ---- the core of an open-gpu-kernel-modules tree: half of its compiling, and of no kernel. With
 * it the sources in kernel-open/ are what the installer has there.
 */

bool core_applies(const struct build *build, const struct stage *stage)
{
	return build->sources[stage->of].has_core;
}

void core_key(const struct stage *stage, struct key *key)
{
	const struct source *source = &key->build->sources[stage->of];

	key_data(key, "containers/recipes/%s-core.sh", driver_rows[stage->of].name);
	key_data(key, "containers/recipes/lib.sh");
	if (source->form == SOURCE_TREE)
		key_tree(key, source->path);
}

int core_run(struct build *build, const struct stage *stage, const struct stage_place *place,
	struct error *error)
{
	struct recipe recipe = { .name = stage->name };
	_cleanup_free_ char *source = NULL;
	int r = source_top(build, stage->of, &source, error);

	recipe.source = source;
	return r < 0 ? r : recipe_run(build, &recipe, place, error);
}

/* ---- the set that the recipe compiles of a source */

bool set_applies(const struct build *build, const struct stage *stage)
{
	return build_has(build, stage->of);
}

void set_key(const struct stage *stage, struct key *key)
{
	const struct driver_row *row = &driver_rows[stage->of];

	key_text(key, key->build->target.krel);
	key_data(key, "containers/recipes/%s.sh", row->name);
	key_data(key, "containers/recipes/lib.sh");
	key_data(key, "containers/patches/%s", row->name);
	if (row->recipe_part)
		key_data(key, "containers/recipes/%s", row->recipe_part);
	if (build_is_cross(key->build))
		key_data(key, "containers/recipes/host-tools.sh");
	source_tree_key(key, stage->of);
}

int set_run(struct build *build, const struct stage *stage, const struct stage_place *place,
	struct error *error)
{
	const struct driver_row *row = &driver_rows[stage->of];
	struct recipe recipe = { .name = row->name, .bound_to = row->bound_to };
	_cleanup_free_ char *source = NULL;
	int r = source_tree(build, stage->of, &source, error);

	if (r < 0)
		return r;
	recipe.source = source;
	if (row->configures)
		recipe.configured = stage_output(build, STAGE_CONFIGURED, stage->of);
	if (row->bound_to != DRIVER_COUNT && build_has(build, row->bound_to))
		recipe.bound = stage_output(build, STAGE_SET, row->bound_to);
	return recipe_run(build, &recipe, place, error);
}

/* ---- what OFED's configure says of the kernel: a compile that fails does not ask it again */

bool configured_applies(const struct build *build, const struct stage *stage)
{
	return driver_rows[stage->of].configures && build_has(build, stage->of);
}

void configured_key(const struct stage *stage, struct key *key)
{
	const struct driver_row *row = &driver_rows[stage->of];

	key_text(key, key->build->target.krel);
	key_data(key, "containers/recipes/%s-configure.sh", row->name);
	key_data(key, "containers/recipes/lib.sh");
	if (row->recipe_part)
		key_data(key, "containers/recipes/%s", row->recipe_part);
	if (build_is_cross(key->build))
		key_data(key, "containers/recipes/host-tools.sh");
	key_data(key, "containers/feature-tests");
	if (key->build->options.verify_configure)
		key_text(key, "verified");
	if (key->build->options.nfsrdma)
		key_text(key, "nfsrdma");
	if (ofed_has_gds(key->build))
		key_text(key, "gds");
	for (size_t i = 0; i < key->build->options.ofed_flags.count; i++)
		key_text(key, key->build->options.ofed_flags.items[i]);
	source_tree_key(key, stage->of);
}

int configured_run(struct build *build, const struct stage *stage, const struct stage_place *place,
	struct error *error)
{
	_cleanup_free_ char *name = xasprintf("%s-configure", driver_rows[stage->of].name);
	struct recipe recipe = { .name = name };
	_cleanup_free_ char *source = NULL;
	int r = source_tree(build, stage->of, &source, error);

	if (r < 0)
		return r;
	recipe.source = source;
	return recipe_run(build, &recipe, place, error);
}
