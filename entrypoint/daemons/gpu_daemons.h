/* SPDX-License-Identifier: Apache-2.0 */
/* The vendor's daemons of the GPU role: which, in which order, with which configuration. */
#pragma once

#include "entrypoint/gpu/gpu.h"

/* STEP_DIRECT: puts configuration and licence files in their places. */
int gpu_daemons_configure(struct action *action);
/* STEP_WAIT: starts them in order, each when the one before is up. */
int gpu_daemons_start(struct action *action);
/* STEP_WAIT, its undo: stops them in reverse order. */
int gpu_daemons_stop(struct action *action);
/* A watch: starts again what ended, and keeps .driver-daemons-status true. */
void gpu_daemons_watch(struct role *role, unsigned happened, uint64_t *wake_ms);
