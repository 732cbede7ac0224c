/* SPDX-License-Identifier: Apache-2.0 */
/* Putting nvidia-peermem into the kernel, once nvidia and OFED are there. In workers. */
#pragma once

#include "entrypoint/engine/plan.h"

/*
 * STEP_WORKER: sees that lib/modules has the nvidia-peermem that fits the loaded OFED, compiles it
 * where none fits and the image can, and loads it. Nothing has to go for it, so the kernel judges,
 * unless the NIC container's fingerprint tells the CRC: then that does. Only a refusal is looked
 * into by the load proof. Fails with REASON_PEERMEM_OTHER_OFED, REASON_NO_PEER_MEMORY, or what the
 * kernel said.
 */
int peermem_load(struct action *action);

/*
 * In a worker, before the load proof of a role whose plan loads peermem with other modules: only
 * the choice. What does not fit is left to the proof, which says more of it.
 */
int peermem_prepare(struct action *action);

/* STEP_WORKER: only the choice among what the image has. What does not fit is no failure. */
int peermem_put_fitting(struct action *action);
