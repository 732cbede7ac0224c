/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The load proof on the node, before anything is unloaded or loaded: do the image's modules fit the
 * kernel that runs, and nvidia-peermem the OFED that is loaded?
 */
#pragma once

#include "entrypoint/plan.h"

/* STEP_WORKER: vermagic of every module of the image; for the GPU role with RDMA, peermem's CRC. */
int prove_modules(struct action *action);
/* STEP_WORKER: peermem's CRC only. */
int prove_peermem(struct action *action);
