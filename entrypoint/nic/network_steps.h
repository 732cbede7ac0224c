/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When the network's state is saved and given back (network/network.h): before the first module
 * leaves and after the last one is back, on the way in and on the way out. Its journal lies on the
 * host's disk where the operator mounts a folder for it, and a later life finds it there.
 */
#pragma once

#include "entrypoint/engine/plan.h"
#include "entrypoint/role/role.h"

/* is_done of nic_network_save(): no module goes. */
bool nic_network_stays(const void *role);
/* STEP_WORKER: of the devices whose drivers go. */
int nic_network_save(struct action *action);
/*
 * STEP_WORKER, its undo: when a journal is there still, by then with the old drivers loaded. Where
 * no device has a driver it stays for the next start, and so does what a finished restore left for
 * that one.
 */
int nic_network_return(struct action *action);
/* The same, and what a finished restore left, too. */
int nic_network_give_back(struct action *action);

/* is_done of nic_network_restore(): no journal is there. */
bool nic_network_is_whole(const void *role);
/*
 * STEP_WORKER: gives back what the journal says. What could not be is told and written to the
 * role's list NIC_UNRESTORED_LIST, and is no failure: the driver is there. When it could not be
 * done at all, it is (REASON_NETWORK_INCOMPLETE).
 */
int nic_network_restore(struct action *action);
/* STEP_WORKER, its undo: saves anew, when modules are about to go and others to come. */
int nic_network_save_again(struct action *action);
/* In a worker: the same where an earlier life's way back begins with no journal of that life. */
int nic_network_save_owed(struct action *action);
/*
 * Would modules go with nothing saved of what they know? When an undo before failed, the save
 * itself say, and others were to come.
 */
bool nic_network_is_at_risk(const struct role *role);
