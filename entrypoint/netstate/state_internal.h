/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of the saved network state (network.h), and how they report. Each adds its records to
 * those of the state file, and takes out of them what it has restored or given up; records of other
 * parts are left alone.
 */
#pragma once

#include "entrypoint/engine/statefile.h"
#include "entrypoint/netstate/netstate.h"

void netstate_note(const struct netstate *netstate, const char *format, ...) _printf_(2, 3);
/* Reports what could not be restored, counts it, and keeps the first. */
void netstate_failure(const struct netstate *netstate, struct netstate_result *result,
	const char *format, ...) _printf_(3, 4);

/* Was the state saved since the machine booted? */
bool netstate_is_of_this_boot(const struct netstate *netstate, const struct statefile *records);

/*
 * Records what of @name is set and not saved, so that the restore reports it as a thing that has to
 * be set again. -ENOMEM.
 */
int netstate_unsaved(struct statefile *records, const char *name, const char *what);

/* ---- devices: eswitch, parameters, VFs, subfunctions (device.c, device_restore.c) */

/* Adds every device whose driver is one of netstate->modules and that @records does not have. */
int devices_save(const struct netstate *netstate, struct statefile *records, struct error *error);
/*
 * One process a device; adds to @result. What was tried is taken out of @records, so that devices
 * that are absent, or whose process died, are left. On failure all are.
 */
int devices_restore(const struct netstate *netstate, struct statefile *records,
	struct netstate_result *result, struct error *error);
/* Has one of the recorded devices a driver now? True also where none is recorded. */
bool devices_are_driven(int root_fd, const struct statefile *records);
/*
 * Takes out the devices that have VFs or are in switchdev mode now: somebody has set them up after
 * the records were written (the host's own configuration after a boot), and that is newer.
 */
void devices_forget_set_up(const struct netstate *netstate, struct statefile *records);

/* ---- interfaces and what stands on them (link_save.c, link_restore.c) */

int links_save(const struct netstate *netstate, struct statefile *records, struct error *error);
/*
 * Finds each interface again by device and port, waits for it at most netstate->bind_ms, and
 * restores what it had. What could not be tried, because its interface is absent, is left in
 * @records; on failure, all of it.
 */
int links_restore(const struct netstate *netstate, struct statefile *records,
	struct netstate_result *result, struct error *error);
/* Takes out what a restore has marked as done but kept because others may stand on it. */
void links_forget_done(struct statefile *records);
/* Takes out all that links_save() adds. */
void links_forget(struct statefile *records);
/*
 * Has no driver been unloaded since the links were saved, in this boot? The kernel gives no index
 * twice: interfaces that still have theirs were never gone.
 */
bool links_are_untouched(
	const struct netstate *netstate, const struct statefile *records, struct error *error);

/* ---- names of RDMA devices (rdma.c) */

/* -ENOMEM. */
int rdma_save(const struct netstate *netstate, struct statefile *records);
void rdma_restore(
	const struct netstate *netstate, struct statefile *records, struct netstate_result *result);
/* Of an earlier boot: the node's own udev has named them since. */
void rdma_forget(struct statefile *records);

/* ---- interfaces in another network namespace, which are only reported (netns.c) */

struct netns_link {
	char device[96]; /* "pci/0000:3b:00.2" */
	char name[16];   /* as that namespace has it */
};

struct netns_links {
	struct netns_link *items;
	size_t count;
};

void netns_links_free(struct netns_links *links);
/* Appends what one message of another namespace says, if it is of a device's interface. */
struct nlmsghdr;
int netns_take(struct netns_links *links, const struct nlmsghdr *message);

/* Reports and records each. -ENOMEM. */
int netns_save(const struct netstate *netstate, struct statefile *records);
/* Reports what was there and went with its driver. */
void netns_restore(
	const struct netstate *netstate, struct statefile *records, struct netstate_result *result);
/* Of an earlier boot: its pods are gone. */
void netns_forget(struct statefile *records);
