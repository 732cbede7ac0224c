/* SPDX-License-Identifier: Apache-2.0 */
/* Working out the plan of a swap, in a worker, without touching anything. */
#pragma once

#include "entrypoint/role/load.h"
#include "entrypoint/nic/nic.h"

/*
 * In a worker, for the way out: what goes when these @modules, which are the image's, go: they and
 * all that hold them, in order, to plan->go. Refusals as for a start.
 */
int swap_plan_removal(struct action *action, const struct strv *modules, struct swap_plan *plan);

/*
 * STEP_WORKER: compares every module of the image's set with what runs, and writes the plan to
 * NIC_PLAN_PATH. -EBUSY (REASON_MODULE_IN_USE) when something that would have to go cannot: the
 * message names all of it, with what to do.
 */
int nic_compare(struct action *action);
/* STEP_DIRECT, next: reads it into struct nic. */
int nic_adopt_plan(struct action *action);

/* The same with a tree of the caller's choice: nic_compare()'s part for the unit tests. */
int swap_plan_make(struct action *action, struct loader *loader, struct swap_plan *plan);

/*
 * Appends the modules that the image is asked to load: what its image.conf names, else what OFED's
 * own start script loads, of those that it has; and with ENABLE_NFSRDMA what that brings. -ENOENT
 * when it lacks the first of them, which no driver does without.
 */
int nic_module_list(struct action *action, struct strv *names);
