/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver root that the GPU role exports, where every operand looks for programs, libraries,
 * sources and devices (contract: operator's driver root, see contract.h).
 */
#pragma once

#include "entrypoint/gpu/gpu.h"

/* STEP_DIRECT each, the second the undo of the first. */
int gpu_export_root(struct action *action);
int gpu_detach_root(struct action *action);
