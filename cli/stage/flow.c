/* SPDX-License-Identifier: Apache-2.0 */
/* The flow of a build: every stage, with what it reads and what it is called. */
#include "cli/stage/stage_tools.h"

static int make_tree(struct build *build, const struct stage_place *place, struct error *error)
{
	return kernel_make_tree(&build->kernel, place, error);
}

static int make_modules(struct build *build, const struct stage_place *place, struct error *error)
{
	return kernel_make_modules(&build->kernel, place, error);
}

static const struct stage stages[STAGE_COUNT] = {
	[STAGE_KERNEL] = {
		.name = "kernel",
		.failure = EXIT_CODE_CONTENT,
		.run = make_tree,
	},
	[STAGE_MODULES] = {
		.name = "modules",
		.failure = EXIT_CODE_CONTENT,
		.run = make_modules,
	},
	[STAGE_OFED_SOURCE] = {
		.name = "ofed-source",
		.failure = EXIT_CODE_SOURCE,
		.applies = ofed_source_applies,
		.add_inputs = ofed_source_add_inputs,
		.run = ofed_source_run,
	},
	[STAGE_NVIDIA_SOURCE] = {
		.name = "nvidia-source",
		.failure = EXIT_CODE_SOURCE,
		.applies = nvidia_source_applies,
		.add_inputs = nvidia_source_add_inputs,
		.run = nvidia_source_run,
	},
	[STAGE_GDRCOPY_SOURCE] = {
		.name = "gdrcopy-source",
		.failure = EXIT_CODE_SOURCE,
		.applies = gdrcopy_source_applies,
		.add_inputs = gdrcopy_source_add_inputs,
		.run = gdrcopy_source_run,
	},
	[STAGE_NVIDIA_FS_SOURCE] = {
		.name = "nvidia-fs-source",
		.failure = EXIT_CODE_SOURCE,
		.applies = nvidia_fs_source_applies,
		.add_inputs = nvidia_fs_source_add_inputs,
		.run = nvidia_fs_source_run,
	},
	[STAGE_BUILD_BASE] = {
		.name = "build-base",
		.failure = EXIT_CODE_IMAGE,
		.add_inputs = build_base_add_inputs,
		.run = build_base_run,
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
		.add_inputs = runtime_base_add_inputs,
		.run = runtime_base_run,
		.still_there = image_still_there,
	},
	[STAGE_KIT] = {
		.name = "kit",
		.failure = EXIT_CODE_IMAGE,
		.inputs = STAGE_BIT(STAGE_NVIDIA_SOURCE) | STAGE_BIT(STAGE_TOOLCHAIN),
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
		.applies = nic_kit_applies,
		.add_inputs = nic_kit_add_inputs,
		.run = nic_kit_run,
		.still_there = image_still_there,
	},
	[STAGE_OFED] = {
		.name = "ofed",
		.failure = EXIT_CODE_COMPILE,
		.inputs = STAGE_BIT(STAGE_KERNEL) | STAGE_BIT(STAGE_OFED_SOURCE) |
			STAGE_BIT(STAGE_TOOLCHAIN),
		.applies = ofed_applies,
		.add_inputs = ofed_add_inputs,
		.run = ofed_run,
	},
	[STAGE_NVIDIA] = {
		.name = "nvidia",
		.failure = EXIT_CODE_COMPILE,
		.inputs = STAGE_BIT(STAGE_KERNEL) | STAGE_BIT(STAGE_NVIDIA_SOURCE) |
			STAGE_BIT(STAGE_TOOLCHAIN) | STAGE_BIT(STAGE_OFED),
		.applies = nvidia_applies,
		.add_inputs = nvidia_add_inputs,
		.run = nvidia_run,
	},
	[STAGE_GDRCOPY] = {
		.name = "gdrcopy",
		.failure = EXIT_CODE_COMPILE,
		.inputs = STAGE_BIT(STAGE_KERNEL) | STAGE_BIT(STAGE_GDRCOPY_SOURCE) |
			STAGE_BIT(STAGE_TOOLCHAIN) | STAGE_BIT(STAGE_NVIDIA),
		.applies = gdrcopy_applies,
		.add_inputs = gdrcopy_add_inputs,
		.run = gdrcopy_run,
	},
	[STAGE_NVIDIA_FS] = {
		.name = "nvidia-fs",
		.failure = EXIT_CODE_COMPILE,
		.inputs = STAGE_BIT(STAGE_KERNEL) | STAGE_BIT(STAGE_NVIDIA_FS_SOURCE) |
			STAGE_BIT(STAGE_TOOLCHAIN) | STAGE_BIT(STAGE_NVIDIA),
		.applies = nvidia_fs_applies,
		.add_inputs = nvidia_fs_add_inputs,
		.run = nvidia_fs_run,
	},
	[STAGE_OFED_SIGNED] = {
		.name = "ofed-signed",
		.failure = EXIT_CODE_SIGNATURE,
		.inputs = STAGE_BIT(STAGE_OFED),
		.applies = ofed_signed_applies,
		.otherwise = STAGE_OFED,
		.add_inputs = sign_add_inputs,
		.run = ofed_sign_run,
	},
	[STAGE_NVIDIA_SIGNED] = {
		.name = "nvidia-signed",
		.failure = EXIT_CODE_SIGNATURE,
		.inputs = STAGE_BIT(STAGE_NVIDIA),
		.applies = nvidia_signed_applies,
		.otherwise = STAGE_NVIDIA,
		.add_inputs = sign_add_inputs,
		.run = nvidia_sign_run,
	},
	[STAGE_GDRCOPY_SIGNED] = {
		.name = "gdrcopy-signed",
		.failure = EXIT_CODE_SIGNATURE,
		.inputs = STAGE_BIT(STAGE_GDRCOPY),
		.applies = gdrcopy_signed_applies,
		.otherwise = STAGE_GDRCOPY,
		.add_inputs = sign_add_inputs,
		.run = gdrcopy_sign_run,
	},
	[STAGE_NVIDIA_FS_SIGNED] = {
		.name = "nvidia-fs-signed",
		.failure = EXIT_CODE_SIGNATURE,
		.inputs = STAGE_BIT(STAGE_NVIDIA_FS),
		.applies = nvidia_fs_signed_applies,
		.otherwise = STAGE_NVIDIA_FS,
		.add_inputs = sign_add_inputs,
		.run = nvidia_fs_sign_run,
	},
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
		.inputs = STAGE_BIT(STAGE_KERNEL) | STAGE_BIT(STAGE_MODULES) | STAGE_BIT(STAGE_RUNTIME_BASE) |
			STAGE_BIT(STAGE_NIC_KIT) |
			STAGE_BIT(STAGE_OFED_SIGNED) | STAGE_BIT(STAGE_INIT) | STAGE_BIT(STAGE_PROOF),
		.applies = ofed_applies,
		.add_inputs = nic_add_inputs,
		.run = nic_run,
	},
	[STAGE_GPU] = {
		.name = "gpu",
		.failure = EXIT_CODE_IMAGE,
		.inputs = STAGE_BIT(STAGE_KERNEL) | STAGE_BIT(STAGE_MODULES) | STAGE_BIT(STAGE_RUNTIME_BASE) |
			STAGE_BIT(STAGE_OFED_SIGNED) | STAGE_BIT(STAGE_NVIDIA_SIGNED) |
			STAGE_BIT(STAGE_GDRCOPY_SIGNED) | STAGE_BIT(STAGE_NVIDIA_FS_SIGNED) | STAGE_BIT(STAGE_INIT) |
			STAGE_BIT(STAGE_KIT) |
			STAGE_BIT(STAGE_USERSPACE) | STAGE_BIT(STAGE_PROOF),
		.applies = nvidia_applies,
		.add_inputs = gpu_add_inputs,
		.run = gpu_run,
	},
};

const struct stage *stage_get(enum stage_id id)
{
	return &stages[id];
}
