/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The swap itself, with a way back: modules out in reverse order, ours in, what depended on them in
 * again; and the other way round when a step fails or the operator wants the inbox driver back.
 * What takes an action runs in a worker, with struct nic's plan (nic.h), unless it says otherwise.
 */
#pragma once

#include "entrypoint/engine/plan.h"
#include "entrypoint/role/role.h"

/* Is an earlier life's swap unfinished? Then the way back is owed (debt.h). A look at one file. */
bool swap_is_owed(const struct role *role);
/*
 * On the way out: does OFED stay? Unless the operator wants the node's own driver back, or what was
 * there before is owed: by this life, or by one before it, whatever this one's plan says.
 */
bool swap_stays(const struct role *role);

/* Removes plan.go, nvidia_peermem first, by asking for it; nothing when the plan says same. */
int swap_out(struct action *action);
/*
 * The undo: when a swap was begun and is not settled, what was there before comes back, last gone
 * first, with its parameters: the very builds, or where one of them is nowhere at hand or fails,
 * the host's own modules. Nothing else.
 */
int swap_back(struct action *action);

/* Loads plan.load. Modules that the host's udev brings in the middle are taken out again. */
int swap_in(struct action *action);
/*
 * The undo. When the swap is not settled, ours go. Else they stay, unless the operator wants the
 * node's own modules back (RESTORE_DRIVER_ON_POD_TERMINATION): then those are proven, what was
 * there before becomes what is owed, and ours go. A refusal leaves ours as they are.
 */
int swap_in_undo(struct action *action);

/*
 * Loads again what went besides: from the image where that has it, else from the host, when the
 * load proof lets it. Never fails the start: what cannot come is told and kept in the role's list
 * "missing", a line for each.
 */
int swap_others(struct action *action);
#define SWAP_MISSING_LIST "missing"

/* After all is done: nothing is owed any more. A rename. */
void swap_settle(const struct role *role);
/* wanted: was a swap settled whose modules are not kept yet? */
bool swap_is_settled(const void *role);
/* Keeps copies of what was loaded where the next image finds them. What fails is told. */
int swap_keep(struct action *action);

/*
 * STEP_DIRECT, the last undo of all: after a failed start the last word also says what became of
 * the modules that were there before.
 */
int swap_last_word(struct action *action);
/* That of a life that was killed before it could say it is nobody's. */
void swap_forget_word(const struct role *role);
