/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the NIC role share. nic.c has its steps; each part has a file of its own. */
#pragma once

#include "entrypoint/nic/nic_build.h"
#include "entrypoint/nic/inputs.h"
#include "entrypoint/nic/swap_plan.h"
#include "entrypoint/nic/watch.h"
#include "entrypoint/role/role.h"
#include "entrypoint/role/roles.h"

/* The plan on its way from the worker that compares to the init; kept for people. */
#define NIC_PLAN_PATH NIC_STATE_FOLDER "/nic.plan"
/* What the node is owed: from before the first removal until all of it is back. */
#define NIC_SWAP_PATH NIC_STATE_FOLDER "/nic.swap"

/* What of the network's state did not come back: a list of the role, rewritten by each restore. */
#define NIC_UNRESTORED_LIST "unrestored"

struct nic {
	struct role role; /* first: a step's void *role is also a struct nic * */
	struct nic_inputs inputs;
	struct nic_build build; /* of the mode sources */
	struct swap_plan swap;  /* as the step "compare" made it */
	struct nic_watch watch;
	int lock_fd;            /* of LOCK_FILE_PATH where that is another one, or -1 */
	char *const *arguments; /* the mode, or none */
};

static inline struct nic *nic_of(void *role)
{
	return (struct nic *) role;
}

static inline const struct nic *nic_of_const(const void *role)
{
	return (const struct nic *) role;
}

/* The role's steps, for tests: @ret_count of them. */
const struct step *nic_plan(size_t *ret_count);

/* All that is to be loaded runs already: is_done of steps of which only the undo may be wanted. */
bool nic_is_same(const void *role);
/* The contrary: wanted of steps that are for a swap only. */
bool nic_swaps(const void *role);
