/* SPDX-License-Identifier: Apache-2.0 */
/* Which modules the GPU role loads. */
#pragma once

#include "entrypoint/gpu/gpu.h"

#define MODULE_LIST_MAX 8

struct module_list {
	const char *names[MODULE_LIST_MAX]; /* in load order */
	size_t count;
	size_t required; /* so many of them must be in the image; of the others those that are */
};

/*
 * nvidia, nvidia_uvm, nvidia_modeset; nvidia_drm where SLIPWAY_NVIDIA_DRM asks for it or
 * /drivers/nvidia-drm.conf is there; nvidia_peermem where the plan loads it (peermem/state.h);
 * gdrdrv and nvidia_fs where the operator's variables ask for GDRCopy and GDS and the image has
 * them: without, their containers compile them.
 */
void gpu_module_list(const struct role *role, struct module_list *list);

/* Notes the modules of GDRCopy and GDS that the variables ask for and that the image lacks. */
void gpu_tell_missing_modules(struct role *role);
