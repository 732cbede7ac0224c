/* SPDX-License-Identifier: Apache-2.0 */
/* The flow of a build: every arrow, with what it reads and what it is called. */
#include "cli/stage/arrow_tools.h"

static const struct arrow arrows[ARROW_COUNT] = {
	[ARROW_KERNEL] = {
		.name = "kernel",
		.failure = EXIT_CODE_CONTENT,
		.add_inputs = kernel_add_inputs,
		.run = kernel_run,
	},
	[ARROW_MODULES] = {
		.name = "modules",
		.failure = EXIT_CODE_CONTENT,
		.add_inputs = modules_add_inputs,
		.run = modules_run,
	},
	[ARROW_OFED_SOURCE] = {
		.name = "ofed-source",
		.failure = EXIT_CODE_SOURCE,
		.applies = ofed_source_applies,
		.add_inputs = ofed_source_add_inputs,
		.run = ofed_source_run,
	},
	[ARROW_NVIDIA_SOURCE] = {
		.name = "nvidia-source",
		.failure = EXIT_CODE_SOURCE,
		.applies = nvidia_source_applies,
		.add_inputs = nvidia_source_add_inputs,
		.run = nvidia_source_run,
	},
	[ARROW_GDRCOPY_SOURCE] = {
		.name = "gdrcopy-source",
		.failure = EXIT_CODE_SOURCE,
		.applies = gdrcopy_source_applies,
		.add_inputs = gdrcopy_source_add_inputs,
		.run = gdrcopy_source_run,
	},
	[ARROW_NVIDIA_FS_SOURCE] = {
		.name = "nvidia-fs-source",
		.failure = EXIT_CODE_SOURCE,
		.applies = nvidia_fs_source_applies,
		.add_inputs = nvidia_fs_source_add_inputs,
		.run = nvidia_fs_source_run,
	},
	[ARROW_BUILD_BASE] = {
		.name = "build-base",
		.failure = EXIT_CODE_IMAGE,
		.add_inputs = build_base_add_inputs,
		.run = build_base_run,
		.still_there = image_still_there,
	},
	[ARROW_TOOLCHAIN] = {
		.name = "toolchain",
		.failure = EXIT_CODE_IMAGE,
		.inputs = ARROW_BIT(ARROW_BUILD_BASE),
		.add_inputs = toolchain_add_inputs,
		.run = toolchain_run,
		.still_there = image_still_there,
	},
	[ARROW_RUNTIME_BASE] = {
		.name = "runtime-base",
		.failure = EXIT_CODE_IMAGE,
		.add_inputs = runtime_base_add_inputs,
		.run = runtime_base_run,
		.still_there = image_still_there,
	},
	[ARROW_KIT] = {
		.name = "kit",
		.failure = EXIT_CODE_IMAGE,
		.inputs = ARROW_BIT(ARROW_NVIDIA_SOURCE) | ARROW_BIT(ARROW_TOOLCHAIN),
		.applies = kit_applies,
		.add_inputs = kit_add_inputs,
		.run = kit_run,
		.still_there = image_still_there,
	},
	[ARROW_NIC_KIT] = {
		.name = "nic-kit",
		.failure = EXIT_CODE_IMAGE,
		.inputs = ARROW_BIT(ARROW_OFED_SOURCE) | ARROW_BIT(ARROW_TOOLCHAIN) |
			ARROW_BIT(ARROW_RUNTIME_BASE),
		.applies = nic_kit_applies,
		.add_inputs = nic_kit_add_inputs,
		.run = nic_kit_run,
		.still_there = image_still_there,
	},
	[ARROW_OFED] = {
		.name = "ofed",
		.failure = EXIT_CODE_COMPILE,
		.inputs = ARROW_BIT(ARROW_KERNEL) | ARROW_BIT(ARROW_OFED_SOURCE) |
			ARROW_BIT(ARROW_TOOLCHAIN),
		.applies = ofed_applies,
		.add_inputs = ofed_add_inputs,
		.run = ofed_run,
	},
	[ARROW_NVIDIA] = {
		.name = "nvidia",
		.failure = EXIT_CODE_COMPILE,
		.inputs = ARROW_BIT(ARROW_KERNEL) | ARROW_BIT(ARROW_NVIDIA_SOURCE) |
			ARROW_BIT(ARROW_TOOLCHAIN) | ARROW_BIT(ARROW_OFED),
		.applies = nvidia_applies,
		.add_inputs = nvidia_add_inputs,
		.run = nvidia_run,
	},
	[ARROW_GDRCOPY] = {
		.name = "gdrcopy",
		.failure = EXIT_CODE_COMPILE,
		.inputs = ARROW_BIT(ARROW_KERNEL) | ARROW_BIT(ARROW_GDRCOPY_SOURCE) |
			ARROW_BIT(ARROW_TOOLCHAIN) | ARROW_BIT(ARROW_NVIDIA),
		.applies = gdrcopy_applies,
		.add_inputs = gdrcopy_add_inputs,
		.run = gdrcopy_run,
	},
	[ARROW_NVIDIA_FS] = {
		.name = "nvidia-fs",
		.failure = EXIT_CODE_COMPILE,
		.inputs = ARROW_BIT(ARROW_KERNEL) | ARROW_BIT(ARROW_NVIDIA_FS_SOURCE) |
			ARROW_BIT(ARROW_TOOLCHAIN) | ARROW_BIT(ARROW_NVIDIA),
		.applies = nvidia_fs_applies,
		.add_inputs = nvidia_fs_add_inputs,
		.run = nvidia_fs_run,
	},
	[ARROW_OFED_SIGNED] = {
		.name = "ofed-signed",
		.failure = EXIT_CODE_SIGNATURE,
		.inputs = ARROW_BIT(ARROW_OFED),
		.applies = ofed_signed_applies,
		.otherwise = ARROW_OFED,
		.add_inputs = sign_add_inputs,
		.run = ofed_sign_run,
	},
	[ARROW_NVIDIA_SIGNED] = {
		.name = "nvidia-signed",
		.failure = EXIT_CODE_SIGNATURE,
		.inputs = ARROW_BIT(ARROW_NVIDIA),
		.applies = nvidia_signed_applies,
		.otherwise = ARROW_NVIDIA,
		.add_inputs = sign_add_inputs,
		.run = nvidia_sign_run,
	},
	[ARROW_GDRCOPY_SIGNED] = {
		.name = "gdrcopy-signed",
		.failure = EXIT_CODE_SIGNATURE,
		.inputs = ARROW_BIT(ARROW_GDRCOPY),
		.applies = gdrcopy_signed_applies,
		.otherwise = ARROW_GDRCOPY,
		.add_inputs = sign_add_inputs,
		.run = gdrcopy_sign_run,
	},
	[ARROW_NVIDIA_FS_SIGNED] = {
		.name = "nvidia-fs-signed",
		.failure = EXIT_CODE_SIGNATURE,
		.inputs = ARROW_BIT(ARROW_NVIDIA_FS),
		.applies = nvidia_fs_signed_applies,
		.otherwise = ARROW_NVIDIA_FS,
		.add_inputs = sign_add_inputs,
		.run = nvidia_fs_sign_run,
	},
	[ARROW_INIT] = {
		.name = "init",
		.failure = EXIT_CODE_COMPILE,
		.inputs = ARROW_BIT(ARROW_KERNEL) | ARROW_BIT(ARROW_TOOLCHAIN),
		.add_inputs = init_add_inputs,
		.run = init_run,
	},
	[ARROW_USERSPACE] = {
		.name = "userspace",
		.failure = EXIT_CODE_COMPILE,
		.inputs = ARROW_BIT(ARROW_KERNEL) | ARROW_BIT(ARROW_TOOLCHAIN),
		.applies = userspace_applies,
		.add_inputs = userspace_add_inputs,
		.run = userspace_run,
	},
	[ARROW_PROOF] = {
		.name = "proof",
		.failure = EXIT_CODE_INTERNAL,
		.inputs = ARROW_BIT(ARROW_KERNEL) | ARROW_BIT(ARROW_MODULES) |
			ARROW_BIT(ARROW_OFED_SIGNED) | ARROW_BIT(ARROW_NVIDIA_SIGNED) |
			ARROW_BIT(ARROW_GDRCOPY_SIGNED) | ARROW_BIT(ARROW_NVIDIA_FS_SIGNED) |
			ARROW_BIT(ARROW_USERSPACE),
		.add_inputs = proof_add_inputs,
		.run = proof_run,
	},
	[ARROW_NIC] = {
		.name = "nic",
		.failure = EXIT_CODE_IMAGE,
		.inputs = ARROW_BIT(ARROW_KERNEL) | ARROW_BIT(ARROW_MODULES) | ARROW_BIT(ARROW_RUNTIME_BASE) |
			ARROW_BIT(ARROW_NIC_KIT) |
			ARROW_BIT(ARROW_OFED_SIGNED) | ARROW_BIT(ARROW_INIT) | ARROW_BIT(ARROW_PROOF),
		.applies = ofed_applies,
		.add_inputs = nic_add_inputs,
		.run = nic_run,
	},
	[ARROW_GPU] = {
		.name = "gpu",
		.failure = EXIT_CODE_IMAGE,
		.inputs = ARROW_BIT(ARROW_KERNEL) | ARROW_BIT(ARROW_MODULES) | ARROW_BIT(ARROW_RUNTIME_BASE) |
			ARROW_BIT(ARROW_OFED_SIGNED) | ARROW_BIT(ARROW_NVIDIA_SIGNED) |
			ARROW_BIT(ARROW_GDRCOPY_SIGNED) | ARROW_BIT(ARROW_NVIDIA_FS_SIGNED) | ARROW_BIT(ARROW_INIT) |
			ARROW_BIT(ARROW_KIT) |
			ARROW_BIT(ARROW_USERSPACE) | ARROW_BIT(ARROW_PROOF),
		.applies = nvidia_applies,
		.add_inputs = gpu_add_inputs,
		.run = gpu_run,
	},
};

const struct arrow *arrow_get(enum arrow_id id)
{
	return &arrows[id];
}
