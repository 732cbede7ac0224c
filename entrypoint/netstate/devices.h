/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The half of the network state that hangs on devices: eswitch mode, inline and encap modes, flow
 * steering mode, number of VFs, and of each VF what its PF holds (admin MAC or GUIDs, VLAN, QoS,
 * trust, spoof check, rates, link state), its driver_override and driver; subfunctions;
 * representors' names. A device is named as devlink does, "pci/0000:3b:00.0".
 */
#pragma once

#include "entrypoint/netstate/network.h"
#include "entrypoint/engine/statefile.h"

/* Appends records of every device whose driver is one of network->modules. */
int devices_save(const struct network *network, struct statefile *records, struct error *error);

/*
 * Applies them, one worker a PF; adds to @result. What fails is told and passed over. Takes out of
 * @records what was tried, so that those of devices that are absent, or that nobody got to, are
 * left. On failure all are.
 */
int devices_restore(const struct network *network, struct statefile *records,
	struct network_result *result, struct error *error);

/* Has one of the recorded devices a driver now? True also where none is recorded. */
bool devices_are_driven(int root_fd, const struct statefile *records);

/*
 * Takes out the devices that have VFs or are in switchdev mode now: somebody has set them up after
 * the records were written (the host's own configuration after a boot), and that is newer.
 */
void devices_forget_set_up(const struct network *network, struct statefile *records);
