/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The half of the network state that hangs on interfaces, of PFs, VFs, representors and
 * subfunctions alike, and of what stands on them: name and altnames, MTU, MAC, queue length, flags,
 * master (bond, bridge, VRF) with the port's settings, VLAN and other interfaces above that go with
 * it, addresses, routes and rules of neighbours that a person set.
 */
#pragma once

#include "entrypoint/netstate/network.h"
#include "entrypoint/engine/statefile.h"

/* Appends records of every interface of a device whose driver is one of network->modules. */
int links_save(const struct network *network, struct statefile *records, struct error *error);

/*
 * What a restore has done is taken out of @records: what is left is of interfaces that are not
 * there, and, marked as done, those that others may stand on. A save goes on with
 * links_forget_done().
 */
void links_forget_done(struct statefile *records);

/* Takes all that links_save() adds out of @records. */
void links_forget(struct statefile *records);

/*
 * Has no driver been unloaded since the links were saved, in this boot? The kernel gives no index
 * twice: interfaces that still have theirs were never gone.
 */
bool links_are_untouched(
	const struct network *network, const struct statefile *records, struct error *error);

/*
 * Finds each interface again by device and port, waits for it at most network->bind_ms (by netlink
 * events), and gives back what it had. What fails is told and passed over. Leaves in @records what
 * could not be tried, for its interface is absent; on failure, all.
 */
int links_restore(const struct network *network, struct statefile *records,
	struct network_result *result, struct error *error);
