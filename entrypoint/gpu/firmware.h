/* SPDX-License-Identifier: Apache-2.0 */
/* Where the kernel finds GSP firmware: in the root that we export. */
#pragma once

#include "entrypoint/gpu/gpu.h"

/* STEP_DIRECT each, the second the undo of the first. */
int gpu_set_firmware_path(struct action *action);
int gpu_clear_firmware_path(struct action *action);
