/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The swap itself, with a way back: modules out in reverse order, ours in, what depended on them in
 * again; and the other way round when a step fails or the operator wants the inbox driver back. All
 * run in workers, with struct nic's plan (nic.h).
 */
#pragma once

#include "entrypoint/engine/plan.h"

/* Removes plan.go, nvidia_peermem first, by asking for it; nothing when the plan says same. */
int swap_out(struct action *action);
/* The undo: whatever of the plan was there before and is not now comes back, last gone first. */
int swap_back(struct action *action);

/* Loads plan.load, then keeps the files that were loaded where the next image finds them. */
int swap_in(struct action *action);
/*
 * The undo. After a failed start: ours go. On a stop without RESTORE_DRIVER_ON_POD_TERMINATION they
 * stay. With it: the inbox modules are proven first, then ours go.
 */
int swap_in_undo(struct action *action);

/* Loads storage, third-party and auxiliary modules again that went; what cannot come is told. */
int swap_others(struct action *action);
