/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parameters of modules: /drivers/<module>.conf and our defaults, checked against what the image's
 * modules take before anything is unloaded, and put where libkmod and whoever chroots into the
 * driver root finds them (/etc/modprobe.d/slipway.conf). NVreg_ImexChannelCount and
 * NVreg_CreateImexChannel0 are the user's alone: the DRA driver counts on the module's defaults.
 */
#pragma once

#include "entrypoint/gpu/gpu.h"

#define PARAMETERS_PATH "etc/modprobe.d/slipway.conf"

/*
 * STEP_WORKER: REASON_BAD_PARAMETER when a parameter does not exist or takes no such value. Of the
 * role it wants krel and driver_modules only, so that another role than the GPU's can call it.
 */
int gpu_parameters(struct action *action);
