/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Saves what a network driver forgets when it is unloaded, and restores it afterwards: for devices
 * eswitch modes, parameters, VFs and what the PF holds for them, subfunctions; for interfaces
 * names, settings, masters, addresses, routes (docs/nic.md). Devices are those whose driver is one
 * of the modules that go, on any bus. Runs in workers.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "common/strv.h"

struct netstate {
	int root_fd;
	const char *path;           /* of the state file, relative to the root (statefile.h) */
	const struct strv *modules; /* whose devices: drivers that go, '_' in the names */
	uint32_t bind_ms; /* the most that is waited for one device or interface to come */
	/* Gets "note" events: what is being done and what could not be done. May be NULL. */
	void (*report)(void *context, const char *text);
	void *context;
};

/* The result of a restore. */
struct netstate_result {
	unsigned devices; /* PFs that were restored, in whole or in part */
	unsigned vfs;
	unsigned links;
	unsigned failures; /* things that could not be restored; each was reported */
	bool is_pending;   /* the state file has what is left, for the next start */
	bool is_given_up;  /* something of such a file is left again */
};

/*
 * Saves the state into the file, unless there is one already: then an earlier run was killed
 * between save and restore, what it saved is the state to go back to, and devices that it does not
 * know are added. Touches nothing else.
 */
int netstate_save(const struct netstate *netstate, struct error *error);

/* Is there a state file: of a run that was killed, or of what a finished one has left? */
bool netstate_is_saved(int root_fd, const char *path);
/*
 * Is it of what a finished restore has left? That is tried once more, by the next start; a save
 * takes of it what has not come yet.
 */
bool netstate_is_pending(int root_fd, const char *path);

/*
 * Has any of its devices a driver? Without one nothing could be restored. True also of a file that
 * says nothing of devices, or that cannot be read.
 */
bool netstate_can_restore(int root_fd, const char *path);

/*
 * When the modules are unloaded, before others are loaded: gives bonds their MACs again. A bond
 * that lost its last port has a random one, would take that of the port that joins it first, and a
 * network manager that is faster than the restore asks for a lease with it. What fails is left to
 * the restore.
 */
void netstate_restore_bond_macs(int root_fd, const char *path);

/*
 * Restores what the file says, PFs in parallel; where no interface has gone since it was written,
 * in this boot, only the part of RDMA devices. 0 also when parts failed: @result counts and names
 * them. May be called again after a SIGKILL at any point. The file stays: when devices or
 * interfaces of this boot are absent, or a part failed as a whole, with what is left of it; else
 * until netstate_forget(). -ENOENT: there is none, or it is of another machine. -EBADMSG: it is
 * damaged.
 */
int netstate_restore(
	const struct netstate *netstate, struct netstate_result *result, struct error *error);

/*
 * After netstate_restore(), when its failures are written down: removes the file, unless it is
 * pending; what was tried twice is put aside as ".unrestored". A file that cannot be removed (a
 * disk that is read-only by now) is reported, and is no failure: to restore it again does nothing.
 */
void netstate_forget(const struct netstate *netstate, const struct netstate_result *result);

/*
 * Appends a line for each interface in another network namespace (a pod's) that goes with the
 * modules: a function's, or made on one that is here. What cannot be seen is left out. -ENOMEM.
 */
int netstate_list_in_pods(int root_fd, const struct strv *modules, struct strv *lines) _must_check_;
