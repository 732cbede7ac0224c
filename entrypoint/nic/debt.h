/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the node is owed, in two files that outlive this process but not the boot (/run), both in
 * the plan's own form (swap_plan.h):
 *
 *   nic.swap   from before the first module leaves until the swap is over: what was there (go) and
 *              what takes its place (load). While it is there the way back is owed.
 *   nic.inbox  from the first swap of this boot on: the node's own modules (go), for
 *              RESTORE_DRIVER_ON_POD_TERMINATION, also after OFED was replaced by another OFED, and
 *              all that containers inserted instead (load).
 */
#pragma once

#include "entrypoint/nic/at_hand.h"
#include "entrypoint/nic/nic.h"

/* -ENOENT: nothing is owed. swap_plan_free() in any case. */
int debt_read(const struct role *role, struct swap_plan *debt, struct error *error);
int debt_write(const struct role *role, const struct swap_plan *debt, struct error *error);
/* Nothing is owed any more. */
void debt_forget(const struct role *role);
/* The same after a swap that succeeded: nic.settled says until then that modules are to be kept. */
void debt_settle(const struct role *role);
bool debt_is_settled(const struct role *role);
void debt_settled_forget(const struct role *role);

/* -ENOENT: nothing was ever replaced. */
int inbox_read(const struct role *role, struct swap_plan *inbox, struct error *error);
void inbox_forget(const struct role *role);

/*
 * Before the first swap step: enters @plan in both files. Of an earlier life that was killed in the
 * middle the debt stands as it is: what was there before it is owed, not what it left half done;
 * modules that came since are added. Files are replaced in one step each.
 */
int debt_enter(const struct role *role, const struct swap_plan *plan, struct at_hand *at_hand,
	struct error *error);

/* Parts of debt_enter(), by themselves for the unit tests. */
/* @coming: what of plan.load this start will insert. */
int debt_merge(struct swap_plan *debt, const struct swap_plan *plan,
	const struct strv *coming) _must_check_;
/* @known: there is a list already; else all of @plan is the node's own. */
int inbox_merge(struct swap_plan *inbox, const struct swap_plan *plan, bool known,
	struct at_hand *at_hand) _must_check_;

/* Puts a copy of @module at @index of what goes. -ENOMEM. */
int swap_insert(
	struct swap_plan *plan, size_t index, const struct swap_module *module) _must_check_;
