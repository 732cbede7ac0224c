/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a network driver forgets when it is unloaded, saved before and given back after: of the
 * devices (eswitch modes, VFs and what the PF holds for them, subfunctions, representors:
 * devices.h) and of the interfaces (names, MTU, flags, masters, addresses, routes: links.h).
 * Devices are those whose driver is one of the modules that go, whatever bus they are on. Runs in
 * workers.
 */
#pragma once

#include <stdint.h>

#include "common/error.h"
#include "common/strv.h"

struct network {
	int root_fd;
	const char *log;            /* path relative to the root (record.h) */
	const struct strv *modules; /* whose devices: drivers that go, '_' in the names */
	uint32_t bind_ms; /* the most that is waited for one device or interface to come */
	/* Says what is being done and what could not be: "note" events. May be NULL. */
	void (*tell)(void *context, const char *text);
	void *context;
};

/* What a restore made of it. */
struct network_result {
	unsigned devices; /* PFs that were brought back, in whole or in part */
	unsigned vfs;
	unsigned links;
	unsigned failures; /* things that could not be brought back; each was told */
	char first[256];   /* the first of them */
	/* What it left for another try: something absent; something that nobody got to. */
	bool is_absent;
	bool is_cut_short;
	bool is_owed;     /* the journal has that, for the next start */
	bool is_given_up; /* that was the other try */
};

/*
 * Saves the state into the journal, unless one is there already: then an earlier life was killed
 * between save and restore, what it saved is the state to go back to, and devices that it does not
 * know are added. Touches nothing else.
 */
int network_save(const struct network *network, struct error *error);

/* Is there a journal: of a life that was killed, or of what a finished one still owes? */
bool network_is_saved(int root_fd, const char *log);
/*
 * Is it of what a finished restore still owes? Such a one is tried once more, by the next start; a
 * save takes of it what has not come yet.
 */
bool network_is_owed(int root_fd, const char *log);

/*
 * Has any of its devices a driver? Without one nothing could be given back. True also of a journal
 * that says nothing of devices, or that nobody can read.
 */
bool network_can_restore(int root_fd, const char *log);

/*
 * Brings back what the journal says, PFs in parallel. 0 also when parts failed: @result counts and
 * names them. May be called again after a SIGKILL at any point. The journal stays: when devices or
 * interfaces of this boot are absent, or a part failed as a whole, with what is owed of it; else
 * until network_forget(). -ENOENT: there is none, or it is of another machine.
 */
int network_restore(
	const struct network *network, struct network_result *result, struct error *error);

/*
 * After network_restore(), when its failures are written down: removes the journal, unless that is
 * owed; what was tried twice is put aside as ".unrestored". A journal that cannot be removed (a
 * disk that is read only by now) is told, and is no failure: to restore it again does nothing.
 */
void network_forget(const struct network *network, const struct network_result *result);
