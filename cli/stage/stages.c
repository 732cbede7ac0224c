/* SPDX-License-Identifier: Apache-2.0 */
/* Every stage of a build, with what it reads, and what makes those that are not in the cache. */
#include "cli/stage/stage_internal.h"

#include <fcntl.h>
#include <string.h>

#include "common/fs.h"
#include "common/xalloc.h"

#define OF(id) STAGE_BIT(STAGE_##id)

/* Of a driver: its source made ready, the set compiled of it, and that set signed. */
#define DRIVER_STAGES(id, of, bound_to)                                                            \
	[STAGE_##id##_SOURCE] = { .name = of "-source",                                            \
		.failure = EXIT_CODE_SOURCE,                                                       \
		.driver = DRIVER_##id,                                                             \
		.applies = source_applies,                                                         \
		.add_inputs = source_key,                                                          \
		.run = source_run },                                                               \
	[STAGE_##id] = { .name = (of),                                                             \
		.failure = EXIT_CODE_COMPILE,                                                      \
		.driver = DRIVER_##id,                                                             \
		.inputs = OF(KERNEL) | OF(id##_SOURCE) | OF(TOOLCHAIN) | (bound_to),               \
		.applies = set_applies,                                                            \
		.add_inputs = set_key,                                                             \
		.run = set_run },                                                                  \
	[STAGE_##id##_SIGNED] = { .name = of "-signed",                                            \
		.failure = EXIT_CODE_SIGNATURE,                                                    \
		.driver = DRIVER_##id,                                                             \
		.inputs = OF(id),                                                                  \
		.otherwise = STAGE_##id,                                                           \
		.applies = sign_applies,                                                           \
		.add_inputs = sign_key,                                                            \
		.run = sign_run }

/* One whose output is the name of an image in Buildah's storage. */
#define IMAGE_STAGE(stage_name, key, run_it)                                                       \
	.name = (stage_name), .failure = EXIT_CODE_IMAGE, .add_inputs = (key), .run = (run_it),    \
	.still_there = image_still_there

#define SIGNED_SETS                                                                                \
	(OF(OFED_SIGNED) | OF(NVIDIA_SIGNED) | OF(GDRCOPY_SIGNED) | OF(NVIDIA_FS_SIGNED))

static const struct stage stages[STAGE_COUNT] = {
	/* Their keys, and how they are made, are the kernel's own. */
	[STAGE_KERNEL] = { .name = "kernel", .failure = EXIT_CODE_CONTENT },
	[STAGE_MODULES] = { .name = "modules", .failure = EXIT_CODE_CONTENT },
	DRIVER_STAGES(OFED, "ofed", OF(OFED_CONFIGURED)),
	[STAGE_OFED_CONFIGURED] = { .name = "ofed-configured",
		.failure = EXIT_CODE_COMPILE,
		.driver = DRIVER_OFED,
		.inputs = OF(KERNEL) | OF(OFED_SOURCE) | OF(TOOLCHAIN),
		.applies = set_applies,
		.add_inputs = configured_key,
		.run = configured_run },
	DRIVER_STAGES(NVIDIA, "nvidia", OF(NVIDIA_CORE) | OF(OFED)),
	DRIVER_STAGES(GDRCOPY, "gdrcopy", OF(NVIDIA)),
	DRIVER_STAGES(NVIDIA_FS, "nvidia-fs", OF(NVIDIA)),
	[STAGE_BUILD_ROOT] = { IMAGE_STAGE("build-root", root_key, root_run), .root = ROOT_KERNEL },
	[STAGE_TOOLCHAIN] = { IMAGE_STAGE("toolchain", toolchain_key, toolchain_run),
		.root = ROOT_KERNEL, .inputs = OF(BUILD_ROOT) },
	[STAGE_INIT_ROOT] = { IMAGE_STAGE("init-root", root_key, root_run), .root = ROOT_RUNTIME,
		.applies = runtime_root_applies },
	[STAGE_INIT_TOOLCHAIN] = { IMAGE_STAGE("init-toolchain", toolchain_key, toolchain_run),
		.root = ROOT_RUNTIME, .inputs = OF(INIT_ROOT), .otherwise = STAGE_TOOLCHAIN,
		.applies = runtime_root_applies },
	[STAGE_RUNTIME_BASE] = { IMAGE_STAGE("runtime-base", runtime_key, runtime_run),
		.root = ROOT_RUNTIME },
	[STAGE_NVIDIA_CORE] = { .name = "nvidia-core",
		.failure = EXIT_CODE_COMPILE,
		.inputs = OF(NVIDIA_SOURCE) | OF(TOOLCHAIN),
		.applies = core_applies,
		.add_inputs = core_key,
		.run = core_run },
	[STAGE_KIT] = { IMAGE_STAGE("kit", kit_key, kit_run),
		.inputs = OF(NVIDIA_SOURCE) | OF(NVIDIA_CORE) | OF(GDRCOPY_SOURCE) |
			  OF(NVIDIA_FS_SOURCE) | OF(TOOLCHAIN) | OF(RUNTIME_BASE),
		.driver = DRIVER_NVIDIA, .applies = kit_applies },
	[STAGE_NIC_KIT] = { IMAGE_STAGE("nic-kit", kit_key, kit_run),
		.inputs = OF(OFED_SOURCE) | OF(TOOLCHAIN) | OF(RUNTIME_BASE), .driver = DRIVER_OFED,
		.applies = kit_applies },
	[STAGE_INIT] = { .name = "init",
		.failure = EXIT_CODE_COMPILE,
		.inputs = OF(INIT_TOOLCHAIN),
		.add_inputs = init_key,
		.run = init_run },
	[STAGE_USERSPACE] = { .name = "userspace",
		.failure = EXIT_CODE_COMPILE,
		.inputs = OF(KERNEL) | OF(INIT_TOOLCHAIN) | OF(NVIDIA_SOURCE),
		.applies = userspace_applies,
		.add_inputs = userspace_key,
		.run = userspace_run },
	[STAGE_PROOF] = { .name = "proof",
		.failure = EXIT_CODE_INTERNAL,
		.inputs = OF(KERNEL) | OF(MODULES) | SIGNED_SETS | OF(USERSPACE),
		.add_inputs = proof_key,
		.run = proof_run },
	[STAGE_NIC] = { .name = "nic",
		.failure = EXIT_CODE_IMAGE,
		.inputs = OF(KERNEL) | OF(MODULES) | OF(RUNTIME_BASE) | OF(NIC_KIT) |
			  OF(OFED_SIGNED) | OF(INIT) | OF(PROOF),
		.driver = DRIVER_OFED,
		.applies = set_applies,
		.add_inputs = image_key,
		.run = image_run },
	[STAGE_GPU] = { .name = "gpu",
		.failure = EXIT_CODE_IMAGE,
		.inputs = OF(KERNEL) | OF(MODULES) | OF(RUNTIME_BASE) | SIGNED_SETS | OF(INIT) |
			  OF(KIT) | OF(USERSPACE) | OF(PROOF),
		.driver = DRIVER_NVIDIA,
		.applies = set_applies,
		.add_inputs = image_key,
		.run = image_run },
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

unsigned int stage_inputs(const struct build *build, enum stage_id id)
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

const char *stage_key(const struct build *build, enum stage_id id)
{
	id = effective(build, id);
	return id == STAGE_KERNEL    ? build->kernel.tree.key
	       : id == STAGE_MODULES ? build->kernel.modules.key
				     : build->outputs[id].key;
}

int stage_open(const struct build *build, enum stage_id id, struct error *error)
{
	const char *path = stage_output(build, id);
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 ? error_set_errno(error, -errno, "%s", path) : fd;
}

char *set_value(
	const struct build *build, enum stage_id stage, const char *key, struct error *error)
{
	_cleanup_free_ char *path = xasprintf("%s/set.conf", stage_output(build, stage));
	_cleanup_strv_ struct strv lines = { 0 };
	_cleanup_free_ char *text = NULL;
	size_t length = strlen(key);
	int r = fs_read(AT_FDCWD, path, 0, &text, NULL);

	if (r < 0) {
		(void) error_set_errno(error, r, "%s", path);
		return NULL;
	}
	xstrv_split(&lines, text, "\n");
	for (size_t i = 0; i < lines.count; i++)
		if (strncmp(lines.items[i], key, length) == 0 && lines.items[i][length] == '=')
			return xstrdup(lines.items[i] + length + 1);
	(void) error_set(error, -EINVAL, "%s: no %s= line in it", path, key);
	return NULL;
}

/* ---- keys */

void key_text(struct key *key, const char *text)
{
	hash_add_text(key->hash, text);
}

void key_data(struct key *key, const char *format, ...)
{
	_cleanup_free_ char *path = NULL;
	va_list arguments;

	va_start(arguments, format);
	path = xvasprintf(format, arguments);
	va_end(arguments);
	if (key->result == 0)
		key->result = cached_add_data(&key->build->context, path, key->hash, key->error);
}

static void keep_failure(struct key *key, int r, const char *path)
{
	if (r < 0 && key->result == 0)
		key->result = error_set_errno(key->error, r, "%s", path);
}

void key_tree(struct key *key, const char *path)
{
	keep_failure(key, hash_add_tree(key->hash, AT_FDCWD, path), path);
}

void key_file(struct key *key, const char *path)
{
	keep_failure(key, hash_add_file(key->hash, AT_FDCWD, path), path);
}

static int make_key(struct build *build, enum stage_id id, struct error *error)
{
	const struct stage *stage = &stages[id];
	unsigned int inputs = stage_inputs(build, id);
	struct key key = { .build = build, .hash = cached_start_key(stage->name), .error = error };

	for (enum stage_id input = 0; input < id; input++)
		if ((inputs & STAGE_BIT(input)) && stage_applies(build, input))
			key_text(&key, stage_cached(build, input)->key);
	if (stage->add_inputs)
		stage->add_inputs(stage, &key);
	cached_finish_key(stage_cached(build, id), &build->context, stage->name, key.hash);
	return key.result;
}

/* ---- making them */

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
		needed |= stage_inputs(build, id);
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
		r = stage_applies(build, id) ? make_key(build, id, error) : 0;
		if (r < 0)
			return context_fail(&build->context, stages[id].failure, r);
	}
	missing = missing_stages(build, goals);
	r = preflight(build, missing, error);
	if (r < 0)
		return r;
	for (unsigned int id = 0; id <= last; id++) {
		struct run run = { .build = build, .stage = &stages[id] };
		struct cached_maker maker = {
			.name = stages[id].name,
			.run = run_stage,
			.data = &run,
			.still_there = stages[id].still_there,
		};

		if (!(missing & STAGE_BIT(id)))
			continue;
		if (id == STAGE_KERNEL)
			maker = kernel_tree_maker(&build->kernel);
		else if (id == STAGE_MODULES)
			maker = kernel_modules_maker(&build->kernel);
		r = cached_make(stage_cached(build, id), &build->context, &maker, error);
		if (r < 0)
			return context_fail(&build->context, stages[id].failure, r);
	}
	return 0;
}
