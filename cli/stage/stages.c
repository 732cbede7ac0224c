/* SPDX-License-Identifier: Apache-2.0 */
/* The stages of a build: what each is of, what it reads and what makes it. */
#include "cli/stage/stage_internal.h"

#define INPUTS(...)                                                                                \
	.inputs = { __VA_ARGS__ },                                                                 \
	.input_count = sizeof((struct stage_input[]){ __VA_ARGS__ }) / sizeof(struct stage_input)

/* One whose output is the name of an image in Buildah's storage. */
#define NAMES_AN_IMAGE .failure = EXIT_CODE_IMAGE, .still_there = image_still_there

static const char *const root_names[] = { "build-root", "init-root" };
static const char *const toolchain_names[] = { "toolchain", "init-toolchain" };
static const char *const kit_names[] = { "nic-kit", "kit" };
static const char *const userspace_names[] = { "nic-userspace", "userspace" };
static const char *const programs_names[] = { "nic-programs", "programs" };
static const char *const image_names[] = { "nic", "gpu" };
static const struct room image_rooms[] = { { 40, 40, 40 }, { 360, 770, 360 } };

const struct stage_row stage_rows[STAGE_KIND_COUNT] = {
	/* Their keys, and how they are made, are the kernel's own. */
	[STAGE_KERNEL] = { .name = "kernel", .failure = EXIT_CODE_CONTENT, .room = { 100 } },
	[STAGE_MODULES] = { .name = "modules", .failure = EXIT_CODE_CONTENT, .room = { 460 } },
	[STAGE_SOURCE] = { .name = "-source",
		.dimension = OF_DRIVER,
		.failure = EXIT_CODE_SOURCE,
		.applies = source_applies,
		.add_inputs = source_key,
		.run = source_run },
	/* A root lies in the cache as a folder and as a tar file. */
	[STAGE_ROOT] = { NAMES_AN_IMAGE, .names = root_names, .dimension = OF_ROOT,
		.applies = toolchain_applies, .add_inputs = root_key, .run = root_run,
		.room = { 1000, 410 } },
	[STAGE_TOOLCHAIN] = { NAMES_AN_IMAGE, .names = toolchain_names, .dimension = OF_ROOT,
		INPUTS({ STAGE_ROOT, OF_SAME }), .otherwise = { STAGE_TOOLCHAIN, ROOT_KERNEL },
		.applies = toolchain_applies, .add_inputs = toolchain_key, .run = toolchain_run },
	[STAGE_RUNTIME_BASE] = { NAMES_AN_IMAGE, .name = "runtime-base", .add_inputs = runtime_key,
		.run = runtime_run, .room = { 60, 30 } },
	[STAGE_CORE] = { .name = "-core",
		.dimension = OF_DRIVER,
		.failure = EXIT_CODE_COMPILE,
		INPUTS({ STAGE_SOURCE, OF_SAME }, { STAGE_TOOLCHAIN, ROOT_KERNEL }),
		.applies = core_applies,
		.add_inputs = core_key,
		.run = core_run,
		.compiles = true },
	[STAGE_KIT] = { NAMES_AN_IMAGE, .names = kit_names, .dimension = OF_IMAGE,
		INPUTS({ STAGE_SOURCE, OF_OWN }, { STAGE_TOOLCHAIN, ROOT_KERNEL },
			{ STAGE_RUNTIME_BASE, 0 }, { STAGE_CORE, OF_OWN }),
		.applies = kit_applies, .add_inputs = kit_key, .run = kit_run },
	[STAGE_USERSPACE] = { .names = userspace_names,
		.dimension = OF_IMAGE,
		.failure = EXIT_CODE_COMPILE,
		INPUTS({ STAGE_SOURCE, DRIVER_NVIDIA }, { STAGE_TOOLCHAIN, ROOT_RUNTIME }),
		.applies = userspace_applies,
		.add_inputs = userspace_key,
		.run = userspace_run,
		.room = { 940 } },
	[STAGE_CONFIGURED] = { .name = "-configured",
		.dimension = OF_DRIVER,
		.failure = EXIT_CODE_COMPILE,
		INPUTS({ STAGE_KERNEL, 0 }, { STAGE_SOURCE, OF_SAME },
			{ STAGE_TOOLCHAIN, ROOT_KERNEL }),
		.applies = configured_applies,
		.add_inputs = configured_key,
		.run = configured_run,
		.compiles = true },
	[STAGE_SET] = { .name = "",
		.dimension = OF_DRIVER,
		.failure = EXIT_CODE_COMPILE,
		INPUTS({ STAGE_KERNEL, 0 }, { STAGE_SOURCE, OF_SAME },
			{ STAGE_TOOLCHAIN, ROOT_KERNEL }, { STAGE_CORE, OF_SAME },
			{ STAGE_CONFIGURED, OF_SAME }, { STAGE_SET, OF_BOUND }),
		.applies = set_applies,
		.add_inputs = set_key,
		.run = set_run,
		.compiles = true },
	[STAGE_SIGNED] = { .name = "-signed",
		.dimension = OF_DRIVER,
		.failure = EXIT_CODE_SIGNATURE,
		INPUTS({ STAGE_SET, OF_SAME }),
		.otherwise = { STAGE_SET, OF_SAME },
		.applies = sign_applies,
		.add_inputs = sign_key,
		.run = sign_run,
		.in_process = true },
	[STAGE_INIT] = { .name = "init",
		.failure = EXIT_CODE_COMPILE,
		INPUTS({ STAGE_TOOLCHAIN, ROOT_RUNTIME }),
		.add_inputs = init_key,
		.run = init_run,
		.compiles = true },
	[STAGE_PROGRAMS] = { .names = programs_names,
		.dimension = OF_IMAGE,
		.failure = EXIT_CODE_IMAGE,
		INPUTS({ STAGE_RUNTIME_BASE, 0 }, { STAGE_USERSPACE, OF_SAME }, { STAGE_INIT, 0 }),
		.applies = image_applies,
		.add_inputs = programs_key,
		.run = programs_run },
	[STAGE_PROOF] = { .name = "proof",
		.failure = EXIT_CODE_INTERNAL,
		INPUTS({ STAGE_KERNEL, 0 }, { STAGE_MODULES, 0 }, { STAGE_USERSPACE, OF_EACH },
			{ STAGE_SIGNED, OF_EACH }, { STAGE_PROGRAMS, OF_EACH }),
		.add_inputs = proof_key,
		.run = proof_run },
	[STAGE_IMAGE] = { .names = image_names,
		.dimension = OF_IMAGE,
		.failure = EXIT_CODE_IMAGE,
		INPUTS({ STAGE_KERNEL, 0 }, { STAGE_MODULES, 0 }, { STAGE_RUNTIME_BASE, 0 },
			{ STAGE_KIT, OF_SAME }, { STAGE_USERSPACE, OF_SAME },
			{ STAGE_SIGNED, OF_PROVEN }, { STAGE_INIT, 0 }, { STAGE_PROOF, 0 },
			{ STAGE_TOOLCHAIN, ROOT_RUNTIME }),
		.applies = image_applies,
		.add_inputs = image_key,
		.run = image_run,
		.rooms = image_rooms },
};
