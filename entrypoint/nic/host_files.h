/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the NIC role puts into its host's /etc (hostfiles.h): the udev rules that keep interfaces'
 * names, for as long as the container serves, and a blacklist that keeps udev and the kernel from
 * loading the host's modules between the swap's first unload and its last load. Actions of nic.c;
 * all run in workers, for they sync a disk. None of them fails: what cannot be put or undone, on a
 * host whose /etc is read-only say, is told.
 */
#pragma once

#include "entrypoint/engine/plan.h"

/* Undoes what an earlier life of the container left; the udev rules stay where they are wanted. */
int nic_host_files_clear(struct action *action);

/* Before the swap: rules and blacklist, and udevd is told to read them. */
int nic_host_files_put(struct action *action);
/* Both, and whatever else the journal knows. */
int nic_host_files_undo(struct action *action);

/* Right after the last load: the blacklist goes. */
int nic_unblock(struct action *action);
/* The undo: it comes back, when modules are about to go again. */
int nic_block_again(struct action *action);
