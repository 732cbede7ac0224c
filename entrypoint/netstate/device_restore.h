/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One device on its way back: what the steps of device_restore.c share. Each compares what is with
 * what was and touches only what differs; what fails is told, and the rest goes on.
 */
#pragma once

#include "entrypoint/netstate/crew.h"
#include "entrypoint/netstate/device_state.h"

struct restoration {
	const struct network *network;
	struct crew *crew;
	const struct device *saved;
	struct device now;
	struct devlink *devlink; /* NULL: a kernel without it */
	struct netlink *route;
	int uevents;
	bool has_refused_params; /* to be tried again */
};

/* Brings one device back, in a process of its own. CREW_ABSENT: it, or its interface, is not there.
 */
enum crew_fate device_restore(
	const struct network *network, const struct device *saved, struct crew *crew);

/* Waits until driver, interface and devlink instance are there; false, and said, when one is not.
 */
bool restoration_await(struct restoration *restoration);

/* Looks anew at what /sys and the PF's interface say. */
int restoration_look(struct restoration *restoration);

/* Parameters first: some can be set in legacy mode only, some need a reload. (device_params.c) */
void restore_params(struct restoration *restoration);

/* At the end, what was refused before the other steps. (device_params.c) */
void restore_refused_params(struct restoration *restoration);

/* VFs are made without a driver, and get what the PF holds for them. (device_vfs.c) */
void restore_vfs(struct restoration *restoration);

/* Then the eswitch's modes, for drivers of VFs and representors shall meet the final one. */
void restore_eswitch(struct restoration *restoration);

/* Subfunctions, which exist in switchdev mode only. (device_subfunctions.c) */
void restore_subfunctions(struct restoration *restoration);

/* What ports may send. (device_rates.c) */
void restore_rates(struct restoration *restoration);

/* At last the VFs' drivers, and autoprobe as it was. (device_bind.c) */
void restore_drivers(struct restoration *restoration);
