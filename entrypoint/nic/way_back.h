/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an earlier life of this container left half done: it was killed in the middle of a swap, or
 * of giving the network back. This life's own steps end it; should they not come to that, because
 * it is refused say, the node must not stay as that life left it.
 */
#pragma once

#include "entrypoint/engine/plan.h"

/* wanted: is a swap owed, or is there a journal of the network? */
bool nic_is_unfinished(const void *role);
/* STEP_WORKER: says so. */
int nic_tell_unfinished(struct action *action);

/*
 * STEP_WORKER, undo: ours go, when what was there before is owed. The network is saved first where
 * that life left no journal; when it cannot be, ours stay. -EBUSY: to be tried again.
 */
int nic_unfinished_out(struct action *action);
/*
 * STEP_WORKER, undo, after the other one however that ended: what was there before comes, at worst
 * ours again, and the network gets its state.
 */
int nic_unfinished_back(struct action *action);

/*
 * wanted, when compared: did that life do all but say that it is over? What runs is ours, and the
 * network has its state.
 */
bool nic_is_all_but_settled(const void *role);
/* STEP_WORKER: says it, before anything can fail, for then this life would go back without need. */
int nic_settle_earlier(struct action *action);
