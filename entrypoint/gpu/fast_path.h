/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the driver that runs is the one that a full start would load, and saying so for the next
 * start. */
#pragma once

#include "entrypoint/gpu/gpu.h"

/* STEP_DIRECT: sets gpu->keep. */
int fast_path_recognise(struct action *action);
/* STEP_DIRECT: writes nvidia-driver.state and the fingerprint. */
int fast_path_remember(struct action *action);
/* STEP_DIRECT, its undo. */
int fast_path_forget(struct action *action);
/* A watch: removes nvidia-driver.state once the fingerprint no longer holds. */
void fast_path_watch(struct role *role, unsigned happened, uint64_t *wake_ms);
