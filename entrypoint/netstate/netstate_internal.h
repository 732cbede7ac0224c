/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the parts of a save and a restore. Each part adds its records to those of the state
 * file, and takes out of them what it has restored or given up; records of other parts are left
 * alone.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "entrypoint/engine/statefile.h"
#include "entrypoint/netstate/netstate.h"

/* One save or restore. */
struct run {
	const struct netstate *netstate;
	struct statefile *records;
	struct netstate_result *result; /* of a restore */
};

void run_note(const struct run *run, const char *format, ...) _printf_(2, 3);
/* Reports what could not be restored, with that in front, and counts it. */
#define RUN_FAILURE "could not be restored: "
void run_failure(const struct run *run, const char *format, ...) _printf_(2, 3);
/* Was the state saved since the machine booted? */
bool run_is_of_this_boot(const struct run *run);
/* Records what of @name is set and not saved, so that the restore reports it. -ENOMEM. */
int run_record_unsaved(const struct run *run, const char *name, const char *what);

/* ---- records and arrays (records.c) */

/* Without a field for a text that is NULL or "". -ENOMEM. */
int record_set_text(struct record *record, const char *field, const char *text);
/* A new one with one or two of such fields. NULL: no memory. */
struct record *records_add(struct statefile *records, const char *kind, const char *field,
	const char *text, const char *second, const char *second_text);
/* The next one of a kind, the first one of all behind NULL. NULL: there is no more. */
struct record *records_next(
	const struct statefile *records, const char *kind, const struct record *previous);
/* The first of a kind with that value of a field. NULL: none. */
struct record *records_find(
	const struct statefile *records, const char *kind, const char *field, const char *value);
/* "" and 0 without the field, or the record. */
const char *record_text(const struct record *record, const char *field);
uint64_t record_number(const struct record *record, const char *field);
/* Is its kind one of the list, which ends with NULL? */
bool record_is_of(const struct record *record, const char *const *kinds);
/* Marks a record, and takes out those that are marked. */
void record_forget(struct record *record);
void records_sweep(struct statefile *records);
/* Takes out those of the kinds with that value of the field; NULL: all. */
void records_forget(
	struct statefile *records, const char *const *kinds, const char *field, const char *value);

/*
 * Room for one more item, zeroed, at the end of an array that grows: @array is the address of the
 * pointer to the first. NULL: no memory.
 */
void *array_add(void *array, size_t *count, size_t size);

/* ---- jobs, each in a process of its own (pool.c) */

/* JOB_LOST: it was not tried to its end, for whatever reason. */
enum job_status { JOB_LOST, JOB_DONE, JOB_ABSENT };

typedef enum job_status pool_job(const struct run *run, void *context, size_t index);

/*
 * Runs @count jobs, at most @width of them at a time, and waits for all. A process that dies is
 * reported as a failure, and all processes below it die with it. A job may run a pool itself: what
 * is reported in that one passes through the job's process.
 * @statuses: [count], JOB_LOST until a job returns; may be NULL.
 */
int pool_run(const struct run *run, size_t count, unsigned width, pool_job *job, void *context,
	enum job_status *statuses, struct error *error);

/* ---- devices, named as the devlink program does, "pci/0000:3b:00.0" (device.c) */

#define DEVICE_PART_SIZE 64 /* of a PCI address, a driver */
#define DEVICE_NAME_SIZE 96 /* of a device, a parameter */

/* Its folder in /sys; -1: there is none, and what reads below it finds nothing. */
int device_open(int root_fd, const char *name);
bool device_is_driven(int root_fd, const char *name);
int device_write(int root_fd, const char *name, const char *file, const char *text);
/* A decimal number. False when the file is not there, or has none. */
bool sysfs_read_number(int dir_fd, const char *path, unsigned *ret);
/*
 * The name that lasts of the device that is behind an entry of a class, whose folder is open: ""
 * without one. Of a subfunction "pci/0000:3b:00.0/sf/88".
 */
void device_name_of(int dir_fd, char name[DEVICE_NAME_SIZE]);
/*
 * The devices of the modules' drivers, on any bus, by name. Not: functions that are a PF's VFs, and
 * devices that another device is divided into (the auxiliary bus).
 */
int device_names(int root_fd, const struct strv *modules, struct strv *names);

/* Their eswitch, parameters, VFs, subfunctions (device.c, device_record.c, device_restore.c) */
extern const char *const device_kinds[];

/* Adds every device whose driver is one of the modules that go, and that has no record. */
int devices_save(const struct run *run, struct error *error);
/*
 * One process a device. What was tried is taken out of the records, so that devices whose process
 * died are left, and those that are absent: after a boot only when a process died. On failure all.
 */
int devices_restore(const struct run *run, struct error *error);
/*
 * Takes out the devices that have VFs or are in switchdev mode now: set up after the records were
 * written (the host's own configuration after a boot), and that is newer.
 */
void devices_forget_set_up(const struct run *run);

/* ---- interfaces and what stands on them (link.c, link_restore.c) */

extern const char *const link_kinds[];
/* Field, "1", of the record of a link that was restored, and is kept because others stand on it. */
#define LINK_DONE "done"

int links_save(const struct run *run, struct error *error);
/*
 * Finds each interface again by device and port, waits for it at most bind_ms, and restores what it
 * had. What could not be tried, because its interface is absent, is left in the records: after a
 * boot only when a device is. On failure, all of it.
 */
int links_restore(const struct run *run, struct error *error);
/* netstate_restore_bond_macs(); nothing is reported. */
void links_restore_bond_macs(const struct run *run);
/*
 * Has no driver been unloaded since the links were saved, in this boot? The kernel gives no index
 * twice: interfaces that still have theirs were never gone.
 */
bool links_are_untouched(const struct run *run);

/* ---- names of RDMA devices (rdma.c), of this boot: after one the node's own udev named them */

#define RDMA_KIND "rdma"

int rdma_save(const struct run *run); /* -ENOMEM */
/*
 * Takes out all records but those of an RDMA device that is gone, or whose settings went with
 * rdma_cm: both go before an interface does. -ENOMEM.
 */
int rdma_keep_lost(const struct run *run);
void rdma_restore(const struct run *run);

/* ---- interfaces in another network namespace, which are only reported (netns.c) */

#define NETNS_KIND "away"

/* Reports and records each. -ENOMEM. */
int netns_save(const struct run *run);
/* Reports what was there and went with its driver. */
void netns_restore(const struct run *run);

/* Records, in a list of its own, what one message of another namespace says of an interface. */
struct nlmsghdr;
int netns_take(void *found, const struct nlmsghdr *message);
