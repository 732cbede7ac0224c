/* SPDX-License-Identifier: Apache-2.0 */
/*
 * While the NIC role serves: are its modules still those that it loaded? Somebody on the node may
 * unload them or put the host's own in their place. That is told (event, status, metrics, and the
 * reason DRIVER_REPLACED), and nothing is done about it: who did it may be at work still, and the
 * operator's liveness probe ends the container when there is no mlx5_core at all.
 */
#pragma once

#include "entrypoint/role/role.h"

struct nic_watch {
	struct strv modules; /* "name build-id load" of each that is to be there */
	struct strv changed; /* what was told of them last */
	uint64_t settled_ms; /* until then its folder may not be as the kernel told; 0: it is */
};

void nic_watch_free(struct nic_watch *watch);

/* A watch of the role (struct watch). */
void nic_watch(struct role *role, unsigned happened, uint64_t *wake_ms);
