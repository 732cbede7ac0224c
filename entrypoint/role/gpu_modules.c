/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/role/gpu_modules.h"

#include <string.h>

#include "entrypoint/contract.h"
#include "module/running.h"

#define FLAG(member) .flag = offsetof(struct options, member)

/* Minors are those of open-gpu-kernel-modules kernel-open/common/inc/nv.h. */
const struct gpu_module gpu_modules[GPU_MODULE_COUNT + 1] = {
	{
		.name = "nvidia",
		.kind = GPU_MODULE_BASE,
		.nodes = { { "nvidiactl", NVIDIA_FRONTEND, 255, "dev/nvidiactl", false } },
		.devices = { "/dev/nvidia[0-9]*", "/dev/nvidiactl", "/dev/nvidia-caps/*",
			"/dev/nvidia-caps-imex-channels/*", "/dev/nvidia-nvswitch*" },
	},
	{
		.name = "nvidia_uvm",
		.kind = GPU_MODULE_BASE,
		.nodes = { { "nvidia-uvm", NULL, 0, "dev/nvidia-uvm", false },
			{ "nvidia-uvm", NULL, 1, "dev/nvidia-uvm-tools", false } },
		.devices = { "/dev/nvidia-uvm*" },
	},
	{
		.name = "nvidia_modeset",
		.kind = GPU_MODULE_BASE,
		.nodes = { { "nvidia-modeset", NVIDIA_FRONTEND, 254, "dev/nvidia-modeset", true } },
		.devices = { "/dev/nvidia-modeset" },
	},
	{
		.name = "nvidia_drm",
		.kind = GPU_MODULE_OPTION,
		FLAG(drm),
		.word = "drm",
		.drm_driver = "nvidia",
	},
	{
		.name = PEERMEM_MODULE,
		.kind = GPU_MODULE_PEERMEM,
		.devices = { "/dev/infiniband/uverbs*" },
	},
	{
		.name = "gdrdrv",
		.kind = GPU_MODULE_ADDON,
		FLAG(gdrcopy),
		.word = "gdrcopy",
		.variable = CONTRACT_ENV_GDRCOPY,
		.build_option = "--gdrcopy",
		.feature = "GDRCopy",
		.nodes = { { "gdrdrv", NULL, 0, "dev/gdrdrv", false } },
		.devices = { "/dev/gdrdrv*" },
	},
	{
		.name = "nvidia_fs",
		.kind = GPU_MODULE_ADDON,
		FLAG(gds),
		.word = "gds",
		.variable = CONTRACT_ENV_GDS,
		.build_option = "--nvidia-fs",
		.feature = "GPUDirect Storage",
		.device_class = "sys/class/nvidia-fs-class",
		.devices = { "/dev/nvidia-fs*" },
	},
	{
		.name = "nvidia_vgpu_vfio",
		.kind = GPU_MODULE_HOST,
		.devices = { "/dev/vfio/*" },
	},
	{ .name = NULL },
};

const struct gpu_module *gpu_module_find(const char *name)
{
	for (const struct gpu_module *module = gpu_modules; module->name; module++)
		if (strcmp(module->name, name) == 0)
			return module;
	return NULL;
}

const struct gpu_module *gpu_module_of_sidecar(const char *word)
{
	for (const struct gpu_module *module = gpu_modules; module->name; module++)
		if (module->kind == GPU_MODULE_ADDON && strcmp(module->word, word) == 0)
			return module;
	return NULL;
}

bool gpu_module_is_asked(const struct gpu_module *module, const struct options *options)
{
	if (!module->word)
		return false;
	return *(const bool *) ((const char *) options + module->flag);
}
