/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions whose interface is in another network name space (a pod's) when their driver goes: it
 * goes with it, and what comes back comes into this one, for nobody but the CNI knows how the other
 * was set up. So that is told, before and after. In the journal: "away device=… [name=…]
 * [where=…]".
 */
#pragma once

#include "entrypoint/netstate/network.h"
#include "entrypoint/engine/statefile.h"

/* Tells of each, and adds it to @records. Never a reason to stop: -ENOMEM only. */
int away_save(const struct network *network, struct statefile *records);

/* Of an earlier boot: its pods are gone. */
void away_forget(struct statefile *records);

/*
 * What is not there any more is told as a thing that could not be restored; takes all of it out of
 * @records.
 */
void away_restore(
	const struct network *network, struct statefile *records, struct network_result *result);
