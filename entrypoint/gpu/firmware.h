/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the kernel finds GSP firmware. It looks in its own mount name space, the host's: first
 * below the parameter "path" of firmware_class, then in the host's /lib/firmware (Linux
 * drivers/base/firmware_loader/main.c). The parameter is set to the lib/firmware of the driver
 * root, as the operator's other images do.
 *
 * The driver root is exported after the modules are loaded, and a module may want firmware while it
 * loads (nvidia_drm with modeset=1). So the image's firmware is shown there before, as a mount of
 * that one folder, and the root then covers it. Nothing is copied: that folder lies in the host's
 * memory (/run), and two files of firmware are 70 MB.
 */
#pragma once

#include "entrypoint/gpu/gpu.h"

/* STEP_DIRECT each, the second the undo of the first. */
int gpu_set_firmware_path(struct action *action);
int gpu_clear_firmware_path(struct action *action);
