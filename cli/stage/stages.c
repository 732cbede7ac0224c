/* SPDX-License-Identifier: Apache-2.0 */
/* Every stage of a build, with what it reads, and what makes those that are not in the cache. */
#include "cli/stage/stage_internal.h"

#include <fcntl.h>
#include <string.h>

#include "common/fs.h"
#include "common/xalloc.h"

static int make_tree(struct build *build, const struct stage *stage,
	const struct stage_place *place, struct error *error)
{
	(void) stage;
	return kernel_make_tree(&build->kernel, place, error);
}

static int make_modules(struct build *build, const struct stage *stage,
	const struct stage_place *place, struct error *error)
{
	(void) stage;
	return kernel_make_modules(&build->kernel, place, error);
}

#define SOURCE_STAGE(stage_name, of)                                                               \
	{                                                                                          \
		.name = (stage_name), .failure = EXIT_CODE_SOURCE, .driver = (of),                 \
		.applies = source_applies, .add_inputs = source_add_inputs, .run = source_run,     \
	}

#define SET_STAGE(stage_name, of, of_source, bound_to)                                             \
	{                                                                                          \
		.name = (stage_name), .failure = EXIT_CODE_COMPILE, .driver = (of),                \
		.inputs = STAGE_BIT(STAGE_KERNEL) | STAGE_BIT(of_source) |                         \
			  STAGE_BIT(STAGE_TOOLCHAIN) | (bound_to),                                 \
		.applies = set_applies, .add_inputs = set_add_inputs, .run = set_run,              \
	}

#define SIGNED_STAGE(stage_name, of, of_set)                                                       \
	{                                                                                          \
		.name = (stage_name), .failure = EXIT_CODE_SIGNATURE, .driver = (of),              \
		.inputs = STAGE_BIT(of_set), .otherwise = (of_set), .applies = sign_applies,       \
		.add_inputs = sign_add_inputs, .run = sign_run,                                    \
	}

static const struct stage stages[STAGE_COUNT] = {
	/* Their keys are kernel_set_keys()'s. */
	[STAGE_KERNEL] = { .name = "kernel", .failure = EXIT_CODE_CONTENT, .run = make_tree },
	[STAGE_MODULES] = { .name = "modules", .failure = EXIT_CODE_CONTENT, .run = make_modules },
	[STAGE_OFED_SOURCE] = SOURCE_STAGE("ofed-source", DRIVER_OFED),
	[STAGE_NVIDIA_SOURCE] = SOURCE_STAGE("nvidia-source", DRIVER_NVIDIA),
	[STAGE_GDRCOPY_SOURCE] = SOURCE_STAGE("gdrcopy-source", DRIVER_GDRCOPY),
	[STAGE_NVIDIA_FS_SOURCE] = SOURCE_STAGE("nvidia-fs-source", DRIVER_NVIDIA_FS),
	[STAGE_BUILD_BASE] = {
		.name = "build-base",
		.failure = EXIT_CODE_IMAGE,
		.base = "build",
		.add_inputs = base_add_inputs,
		.run = base_run,
		.still_there = image_still_there,
	},
	[STAGE_TOOLCHAIN] = {
		.name = "toolchain",
		.failure = EXIT_CODE_IMAGE,
		.inputs = STAGE_BIT(STAGE_BUILD_BASE),
		.add_inputs = toolchain_add_inputs,
		.run = toolchain_run,
		.still_there = image_still_there,
	},
	[STAGE_RUNTIME_BASE] = {
		.name = "runtime-base",
		.failure = EXIT_CODE_IMAGE,
		.base = "runtime",
		.add_inputs = base_add_inputs,
		.run = base_run,
		.still_there = image_still_there,
	},
	[STAGE_KIT] = {
		.name = "kit",
		.failure = EXIT_CODE_IMAGE,
		.inputs = STAGE_BIT(STAGE_NVIDIA_SOURCE) | STAGE_BIT(STAGE_TOOLCHAIN),
		.driver = DRIVER_NVIDIA,
		.applies = kit_applies,
		.add_inputs = kit_add_inputs,
		.run = kit_run,
		.still_there = image_still_there,
	},
	[STAGE_NIC_KIT] = {
		.name = "nic-kit",
		.failure = EXIT_CODE_IMAGE,
		.inputs = STAGE_BIT(STAGE_OFED_SOURCE) | STAGE_BIT(STAGE_TOOLCHAIN) |
			STAGE_BIT(STAGE_RUNTIME_BASE),
		.driver = DRIVER_OFED,
		.applies = kit_applies,
		.add_inputs = kit_add_inputs,
		.run = kit_run,
		.still_there = image_still_there,
	},
	[STAGE_OFED] = SET_STAGE("ofed", DRIVER_OFED, STAGE_OFED_SOURCE, 0),
	[STAGE_NVIDIA] =
		SET_STAGE("nvidia", DRIVER_NVIDIA, STAGE_NVIDIA_SOURCE, STAGE_BIT(STAGE_OFED)),
	[STAGE_GDRCOPY] = SET_STAGE(
		"gdrcopy", DRIVER_GDRCOPY, STAGE_GDRCOPY_SOURCE, STAGE_BIT(STAGE_NVIDIA)),
	[STAGE_NVIDIA_FS] = SET_STAGE(
		"nvidia-fs", DRIVER_NVIDIA_FS, STAGE_NVIDIA_FS_SOURCE, STAGE_BIT(STAGE_NVIDIA)),
	[STAGE_OFED_SIGNED] = SIGNED_STAGE("ofed-signed", DRIVER_OFED, STAGE_OFED),
	[STAGE_NVIDIA_SIGNED] = SIGNED_STAGE("nvidia-signed", DRIVER_NVIDIA, STAGE_NVIDIA),
	[STAGE_GDRCOPY_SIGNED] = SIGNED_STAGE("gdrcopy-signed", DRIVER_GDRCOPY, STAGE_GDRCOPY),
	[STAGE_NVIDIA_FS_SIGNED] =
		SIGNED_STAGE("nvidia-fs-signed", DRIVER_NVIDIA_FS, STAGE_NVIDIA_FS),
	[STAGE_INIT] = {
		.name = "init",
		.failure = EXIT_CODE_COMPILE,
		.inputs = STAGE_BIT(STAGE_KERNEL) | STAGE_BIT(STAGE_TOOLCHAIN),
		.add_inputs = init_add_inputs,
		.run = init_run,
	},
	[STAGE_USERSPACE] = {
		.name = "userspace",
		.failure = EXIT_CODE_COMPILE,
		.inputs = STAGE_BIT(STAGE_KERNEL) | STAGE_BIT(STAGE_TOOLCHAIN),
		.applies = userspace_applies,
		.add_inputs = userspace_add_inputs,
		.run = userspace_run,
	},
	[STAGE_PROOF] = {
		.name = "proof",
		.failure = EXIT_CODE_INTERNAL,
		.inputs = STAGE_BIT(STAGE_KERNEL) | STAGE_BIT(STAGE_MODULES) |
			STAGE_BIT(STAGE_OFED_SIGNED) | STAGE_BIT(STAGE_NVIDIA_SIGNED) |
			STAGE_BIT(STAGE_GDRCOPY_SIGNED) | STAGE_BIT(STAGE_NVIDIA_FS_SIGNED) |
			STAGE_BIT(STAGE_USERSPACE),
		.add_inputs = proof_add_inputs,
		.run = proof_run,
	},
	[STAGE_NIC] = {
		.name = "nic",
		.failure = EXIT_CODE_IMAGE,
		.inputs = STAGE_BIT(STAGE_KERNEL) | STAGE_BIT(STAGE_MODULES) |
			STAGE_BIT(STAGE_RUNTIME_BASE) | STAGE_BIT(STAGE_NIC_KIT) |
			STAGE_BIT(STAGE_OFED_SIGNED) | STAGE_BIT(STAGE_INIT) |
			STAGE_BIT(STAGE_PROOF),
		.driver = DRIVER_OFED,
		.applies = set_applies,
		.add_inputs = image_add_inputs,
		.run = image_run,
	},
	[STAGE_GPU] = {
		.name = "gpu",
		.failure = EXIT_CODE_IMAGE,
		.inputs = STAGE_BIT(STAGE_KERNEL) | STAGE_BIT(STAGE_MODULES) |
			STAGE_BIT(STAGE_RUNTIME_BASE) | STAGE_BIT(STAGE_OFED_SIGNED) |
			STAGE_BIT(STAGE_NVIDIA_SIGNED) | STAGE_BIT(STAGE_GDRCOPY_SIGNED) |
			STAGE_BIT(STAGE_NVIDIA_FS_SIGNED) | STAGE_BIT(STAGE_INIT) |
			STAGE_BIT(STAGE_KIT) | STAGE_BIT(STAGE_USERSPACE) |
			STAGE_BIT(STAGE_PROOF),
		.driver = DRIVER_NVIDIA,
		.applies = set_applies,
		.add_inputs = image_add_inputs,
		.run = image_run,
	},
};

const char *stage_name(enum stage_id id)
{
	return stages[id].name;
}

bool stage_applies(const struct build *build, enum stage_id id)
{
	return !stages[id].applies || stages[id].applies(build, &stages[id]);
}

/* The stage itself, or the one whose output is read in its place. */
static enum stage_id effective(const struct build *build, enum stage_id id)
{
	const enum stage_id otherwise = stages[id].otherwise;

	return otherwise && !stage_applies(build, id) ? otherwise : id;
}

static unsigned int effective_inputs(const struct build *build, enum stage_id id)
{
	unsigned int inputs = 0;

	for (enum stage_id input = 0; input < id; input++)
		if (stages[id].inputs & STAGE_BIT(input))
			inputs |= STAGE_BIT(effective(build, input));
	return inputs;
}

struct cached *stage_cached(struct build *build, enum stage_id id)
{
	return id == STAGE_KERNEL    ? &build->kernel.tree
	       : id == STAGE_MODULES ? &build->kernel.modules
				     : &build->outputs[id];
}

const char *stage_output(const struct build *build, enum stage_id id)
{
	id = effective(build, id);
	return id == STAGE_KERNEL    ? build->kernel.tree.path
	       : id == STAGE_MODULES ? build->kernel.modules.path
				     : build->outputs[id].path;
}

int stage_open(const struct build *build, enum stage_id id, int *ret_fd, struct error *error)
{
	const char *path = stage_output(build, id);

	*ret_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return *ret_fd < 0 ? error_set_errno(error, -errno, "%s", path) : 0;
}

int stage_conf_value(const struct build *build, enum stage_id stage, const char *file,
	const char *key, char **ret_value, struct error *error)
{
	_cleanup_free_ char *path = xasprintf("%s/%s", stage_output(build, stage), file);
	_cleanup_strv_ struct strv lines = { 0 };
	_cleanup_free_ char *text = NULL;
	size_t length = strlen(key);
	int r = fs_read(AT_FDCWD, path, 0, &text, NULL);

	if (r < 0)
		return error_set_errno(error, r, "%s", path);
	xstrv_split(&lines, text, "\n");
	for (size_t i = 0; i < lines.count; i++)
		if (strncmp(lines.items[i], key, length) == 0 && lines.items[i][length] == '=') {
			*ret_value = xstrdup(lines.items[i] + length + 1);
			return 0;
		}
	return error_set(error, -EINVAL, "%s: no %s= line in it", path, key);
}

static int set_key(struct build *build, enum stage_id id, struct error *error)
{
	const struct stage *stage = &stages[id];
	unsigned int inputs = effective_inputs(build, id);
	struct hash *hash = cached_start_key(stage->name);
	int r;

	for (enum stage_id input = 0; input < id; input++)
		if ((inputs & STAGE_BIT(input)) && stage_applies(build, input))
			hash_add_text(hash, stage_cached(build, input)->key);
	r = stage->add_inputs ? stage->add_inputs(build, stage, hash, error) : 0;
	cached_finish_key(stage_cached(build, id), &build->context, stage->name, hash);
	return r;
}

/* A goal that is not in the cache, and what such a stage reads that is not there. */
static unsigned int missing_stages(struct build *build, unsigned int goals)
{
	unsigned int needed = goals;
	unsigned int missing = 0;

	for (unsigned int id = STAGE_COUNT; id-- > 0;) {
		if (!(needed & STAGE_BIT(id)) || !stage_applies(build, id) ||
			cached_is_there(
				&build->context, stage_cached(build, id), stages[id].still_there))
			continue;
		missing |= STAGE_BIT(id);
		needed |= effective_inputs(build, id);
	}
	return missing;
}

struct run {
	struct build *build;
	const struct stage *stage;
};

static int run_stage(void *data, const struct stage_place *place, struct error *error)
{
	const struct run *run = data;

	return run->stage->run(run->build, run->stage, place, error);
}

static int make_one(struct build *build, enum stage_id id, struct error *error)
{
	struct run run = { .build = build, .stage = &stages[id] };
	const struct cached_maker maker = {
		.name = stages[id].name,
		.run = run_stage,
		.data = &run,
		.still_there = stages[id].still_there,
	};

	return cached_make(stage_cached(build, id), &build->context, &maker, error);
}

int stages_make(struct build *build, unsigned int goals, struct error *error)
{
	unsigned int last = 0;
	unsigned int missing;
	int r;

	for (unsigned int id = 0; id < STAGE_COUNT; id++)
		if (goals & STAGE_BIT(id))
			last = id;
	kernel_set_keys(&build->kernel);
	for (unsigned int id = STAGE_MODULES + 1; id <= last; id++) {
		if (!stage_applies(build, id))
			continue;
		r = set_key(build, id, error);
		if (r < 0)
			return context_fail(&build->context, stages[id].failure, r);
	}
	missing = missing_stages(build, goals);
	for (unsigned int id = 0; id <= last; id++) {
		if (!(missing & STAGE_BIT(id)))
			continue;
		r = make_one(build, id, error);
		if (r < 0)
			return context_fail(&build->context, stages[id].failure, r);
	}
	return 0;
}
