/* SPDX-License-Identifier: Apache-2.0 */
/* The drivers. Who adds one writes its row here, its option (DRIVER_OPTIONS) and its recipe. */
#include "cli/stage/stage_internal.h"

#include <string.h>

static const char *const reference_data[] = { "scripts/reference-ofed", "scripts/reference-ofed.d",
	NULL };

const struct driver_row driver_rows[DRIVER_COUNT] = {
	[DRIVER_OFED] = { .name = "ofed",
		.title = "OFED",
		.licence = "GPL-2.0-only OR BSD-2-Clause",
		.input = "nic",
		.image = IMAGE_NIC,
		.bound_to = DRIVER_COUNT,
		.configures = true,
		.set_variable = "SLIPWAY_OFED",
		.recipe_part = "ofed-tree.sh",
		.set_room = { 100 },
		.package_word = "reference",
		.package_text = "made from the distribution's kernel source, for trials only",
		.package_files = 278,
		.purpose = LOCK_OFED_SOURCE,
		.package_data = reference_data,
		.make_of_package = ofed_make_reference,
		.published = "MLNX_OFED_SRC-….tgz or MLNX_OFED_LINUX-….tgz",
		.lacks = "no configure at its top",
		.is_tree = ofed_is_tree,
		.check_tree = ofed_check_tree,
		.identify = ofed_identify,
		.unpack = ofed_unpack,
		.look = ofed_look,
		.version = ofed_version,
		.says = ofed_says },
	[DRIVER_NVIDIA] = { .name = "nvidia",
		.title = "NVIDIA's kernel modules",
		.licence = "MIT OR GPL-2.0-only", /* the open ones */
		.input = "gpu",
		.image = IMAGE_GPU,
		.bound_to = DRIVER_OFED,
		.set_variable = "SLIPWAY_NVIDIA",
		.source_room = { 190 },
		.set_room = { 100 },
		.package_word = "debian",
		.package_text = "the modules packaged by Debian",
		.package_files = 192,
		.purpose = LOCK_NVIDIA_SOURCE,
		.usual = "debian",
		.published = "NVIDIA's installer, NVIDIA-Linux-….run",
		.archive = "NVIDIA's installer",
		.lacks = "neither kernel-open/ nor Kbuild and nvidia/ at its top, and is not an "
			 "installer",
		.is_tree = nvidia_is_tree,
		.identify = nvidia_identify,
		.look = nvidia_look,
		.find_tree = nvidia_find_tree,
		.variant = nvidia_variant,
		.version = nvidia_version,
		.says = nvidia_says },
	[DRIVER_GDRCOPY] = { .name = "gdrcopy",
		.title = "GDRCopy",
		.licence = "MIT",
		.input = "gdrcopy",
		.image = IMAGE_GPU,
		.bound_to = DRIVER_NVIDIA,
		.needs_bound_to = true,
		.recipe_part = "bound-to-nvidia.sh",
		.file = "src/gdrdrv/gdrdrv.c" },
	[DRIVER_NVIDIA_FS] = { .name = "nvidia-fs",
		.title = "nvidia-fs",
		.licence = "GPL-2.0-only",
		.input = "nvidia-fs",
		.image = IMAGE_GPU,
		.bound_to = DRIVER_NVIDIA,
		.needs_bound_to = true,
		.recipe_part = "bound-to-nvidia.sh",
		.file = "src/nvfs-core.c" },
};

const char *driver_name(enum driver driver)
{
	return driver_rows[driver].name;
}

enum driver driver_find(const char *name)
{
	enum driver driver = 0;

	while (driver < DRIVER_COUNT && strcmp(driver_rows[driver].name, name) != 0)
		driver++;
	return driver;
}

const char *driver_package_word(enum driver driver)
{
	return driver_rows[driver].package_word;
}
