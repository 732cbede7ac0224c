/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters of modules: /drivers/<module>.conf and our defaults, checked and put where libkmod and
 * whoever chroots into the driver root finds them. */
#pragma once

#include "entrypoint/gpu/gpu.h"

/* STEP_WORKER. */
int gpu_parameters(struct action *action);
