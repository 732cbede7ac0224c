/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for OFED: for its ready flag and for the peer-memory symbols in the running kernel. */
#pragma once

#include "entrypoint/engine/plan.h"

struct role;

/*
 * STEP_WAIT: 0 once OFED is there (role->peermem->due is set then), 1 with what is missing. Watches
 * the folder of the flag; modules that come are told by uevents. Host OFED (USE_HOST_MOFED) has no
 * flag. A node without a Mellanox PCI function is not waited for: 0, told, and nothing is due.
 * Fails at once (REASON_NO_PEER_MEMORY) when the OFED of a NIC container has no peer-memory
 * interface.
 */
int ofed_wait(struct action *action);

/*
 * Has OFED come, as far as a few system calls tell: the NIC container's flag (with USE_HOST_MOFED,
 * and where no NIC container could be: nothing), and a live module that exports, or may export, the
 * peer-memory interface?
 */
bool ofed_is_up(const struct role *role);

/* The module that exports the interface to the image's nvidia-peermem, or most likely does. */
const char *ofed_exporter(const struct role *role);

/* Has the node a PCI function of Mellanox? */
bool ofed_has_nic(int root_fd);
