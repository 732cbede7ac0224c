/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/netstate/netstate.h"

#include <fcntl.h>
#include <stdarg.h>
#include <string.h>

#include "common/fs.h"
#include "entrypoint/engine/kill_point.h"
#include "entrypoint/netstate/netstate_internal.h"

#define _cleanup_statefile_ _cleanup_(statefile_free)
#define BOOT_ID_PATH        "proc/sys/kernel/random/boot_id"
#define MACHINE_PATH        "sys/class/dmi/id/product_uuid"
#define TRIED               "tried" /* field of the boot record: restored once, and this is pending */

bool netstate_is_saved(int root_fd, const char *path)
{
	return fs_exists(root_fd, path);
}

/* ---- reports */

void run_note(const struct run *run, const char *format, ...)
{
	char text[600];
	va_list arguments;

	va_start(arguments, format);
	(void) vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	if (run->netstate->report)
		run->netstate->report(run->netstate->context, text);
}

void run_failure(const struct run *run, const char *format, ...)
{
	char text[512];
	va_list arguments;

	va_start(arguments, format);
	(void) vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	run->result->failures++;
	run_note(run, RUN_FAILURE "%s", text);
}

#define UNSAVED_KIND "unsaved"

int run_record_unsaved(const struct run *run, const char *name, const char *what)
{
	const struct record *record = NULL;

	while ((record = records_next(run->records, UNSAVED_KIND, record)))
		if (strcmp(record_text(record, "name"), name) == 0 &&
			strcmp(record_text(record, "what"), what) == 0)
			return 0;
	return records_add(run->records, UNSAVED_KIND, "name", name, "what", what) ? 0 : -ENOMEM;
}

/* ---- the file, and of which boot and machine it is */

/* Kept for a person to look at, out of the way of the next one. */
static int put_aside(const struct netstate *netstate, const char *why)
{
	char aside[512];

	(void) snprintf(aside, sizeof(aside), "%.490s.%s", netstate->path, why);
	return renameat(netstate->root_fd, netstate->path, netstate->root_fd, aside) < 0 ? -errno
											 : 0;
}

static struct record *boot_record(const struct statefile *records)
{
	return records_next(records, "boot", NULL);
}

static bool is_pending(const struct statefile *records)
{
	return record_number(boot_record(records), TRIED) == 1;
}

/* Is the field of the boot record what the file has? Neither is known: @unknown. */
static bool is_of_this(const struct run *run, const char *field, const char *path, bool unknown)
{
	const char *saved = record_text(boot_record(run->records), field);
	_cleanup_free_ char *now = NULL;

	if (!*saved || fs_read_line(run->netstate->root_fd, path, &now) < 0 || !*now)
		return unknown;
	return strcmp(saved, now) == 0;
}

bool run_is_of_this_boot(const struct run *run)
{
	return is_of_this(run, "id", BOOT_ID_PATH, false);
}

/* Devices are known by their places, which another machine, with a cloned disk, has too. */
static int name_boot(const struct run *run, struct error *error)
{
	_cleanup_free_ char *id = NULL;
	_cleanup_free_ char *machine = NULL;
	struct record *record = boot_record(run->records);
	int r = fs_read_line(run->netstate->root_fd, BOOT_ID_PATH, &id);

	if (r < 0)
		return error_set_errno(error, r, "/" BOOT_ID_PATH);
	(void) !fs_read_line(run->netstate->root_fd, MACHINE_PATH, &machine);
	if (!record)
		record = statefile_add(run->records, "boot");
	if (!record || record_set(record, "id", id) < 0 ||
		(machine && *machine && record_set(record, "machine", machine) < 0) ||
		(record_get(record, TRIED) && record_set(record, TRIED, "0") < 0))
		return error_set_errno(error, -ENOMEM, "network state");
	return 0;
}

/* The state file of this machine. -ENOENT: there is none. One that is of no use is put aside. */
static int read_state(const struct run *run, struct error *error)
{
	const struct netstate *netstate = run->netstate;
	int r = statefile_read(netstate->root_fd, netstate->path, run->records, error);

	if (r == -EBADMSG)
		(void) put_aside(netstate, "damaged");
	if (r < 0 || is_of_this(run, "machine", MACHINE_PATH, true))
		return r;
	run_note(run, "%s is of another machine: moved to %s.foreign", netstate->path,
		netstate->path);
	statefile_free(run->records);
	(void) put_aside(netstate, "foreign");
	return -ENOENT;
}

bool netstate_is_pending(int root_fd, const char *path)
{
	_cleanup_statefile_ struct statefile records = { 0 };
	struct error ignored;

	return statefile_read(root_fd, path, &records, &ignored) == 0 && is_pending(&records);
}

bool netstate_can_restore(int root_fd, const char *path)
{
	_cleanup_statefile_ struct statefile records = { 0 };
	const struct record *record = NULL;
	struct error ignored;

	if (statefile_read(root_fd, path, &records, &ignored) < 0)
		return true;
	while ((record = records_next(&records, "device", record)))
		if (device_is_driven(root_fd, record_text(record, "device")))
			return true;
	return !records_next(&records, "device", NULL);
}

/* Forgets what a reboot ends: the pods are gone, and the node's own udev has named RDMA devices. */
static void forget_of_boot(struct statefile *records)
{
	static const char *const kinds[] = { UNSAVED_KIND, NETNS_KIND, RDMA_KIND, NULL };

	records_forget(records, kinds, NULL, NULL);
}

/* ---- saving */

/*
 * Chooses the records of an earlier run's state file that still hold. If no interface has gone
 * since, none does but those of RDMA that went before; if one has, all do. If the node has booted
 * since, only those of devices that it has not set up itself hold, for its interfaces are then as
 * its own configuration made them. After a finished restore, those hold that have not come or not
 * been set up since.
 */
static int choose_what_holds(const struct run *run)
{
	const char *path = run->netstate->path;

	if (!run_is_of_this_boot(run)) {
		run_note(run, "%s is of an earlier boot: saving the interfaces as they are now",
			path);
		records_forget(run->records, link_kinds, NULL, NULL);
		forget_of_boot(run->records);
		devices_forget_set_up(run);
	} else if (is_pending(run->records)) {
		run_note(run, "%s has what an earlier start could not restore", path);
		records_forget(run->records, link_kinds, LINK_DONE, "1");
		devices_forget_set_up(run);
	} else if (links_are_untouched(run)) {
		return rdma_keep_lost(run);
	}
	return 0;
}

static int save(const struct run *run, struct error *error)
{
	int r = read_state(run, error);

	if (r < 0 && r != -EBADMSG && r != -ENOENT)
		return r;
	if (r == -EBADMSG)
		run_note(run, "%s; moved aside", error->text);
	else if (r == 0 && choose_what_holds(run) < 0)
		return error_set_errno(error, -ENOMEM, "network state");
	r = name_boot(run, error);
	if (r < 0)
		return r;
	r = devices_save(run, error);
	if (r < 0)
		return r;
	if (netns_save(run) < 0 || rdma_save(run) < 0)
		return error_set_errno(error, -ENOMEM, "network state");
	r = links_save(run, error);
	if (r < 0)
		return r;
	return statefile_write(run->netstate->root_fd, run->netstate->path, run->records, error);
}

int netstate_save(const struct netstate *netstate, struct error *error)
{
	_cleanup_statefile_ struct statefile records = { 0 };
	const struct run run = { .netstate = netstate, .records = &records };
	int r = save(&run, error);

	kill_point("network:saved");
	return r < 0 ? error_prefix(error, r, "the network's state cannot be saved") : 0;
}

void netstate_restore_bond_macs(int root_fd, const char *path)
{
	_cleanup_statefile_ struct statefile records = { 0 };
	const struct netstate netstate = { .root_fd = root_fd, .path = path };
	struct netstate_result ignored_result = { 0 };
	const struct run run = {
		.netstate = &netstate, .records = &records, .result = &ignored_result
	};
	struct error ignored;

	if (statefile_read(root_fd, path, &records, &ignored) == 0 && run_is_of_this_boot(&run))
		links_restore_bond_macs(&run);
}

/* ---- restoring */

static bool is_restored(const struct record *record)
{
	static const char *const others[] = { "boot", RDMA_KIND, NETNS_KIND, NULL };

	return record_is_of(record, others) || record_is_of(record, device_kinds) ||
	       record_is_of(record, link_kinds);
}

/* How many of a kind have the field; NULL: how many there are. */
static size_t count(const struct statefile *records, const char *kind, const char *field)
{
	const struct record *record = NULL;
	size_t count = 0;

	while ((record = records_next(records, kind, record)))
		count += !field || record_get(record, field);
	return count;
}

/* Reports what was not saved, and what another version saved before an up- or downgrade. */
static void report_unsaved(const struct run *run)
{
	static const struct {
		const char *kind;
		const char *field;
		const char *what;
	} dropped[] = {
		{ "link", "token", "IPv6 tokens (ip token)" },
		{ "ethtool", "private_flags", "ethtool's private flags" },
	};
	struct statefile *records = run->records;

	for (size_t i = 0; i < ARRAY_SIZE(dropped); i++) {
		size_t have = count(records, dropped[i].kind, dropped[i].field);

		if (have)
			run_failure(run,
				"%s: %zu saved by another version, which this one does not "
				"restore: set them again",
				dropped[i].what, have);
	}
	for (size_t i = 0; i < records->count; i++) {
		const struct record *record = &records->items[i];

		if (strcmp(record->kind, UNSAVED_KIND) == 0)
			run_failure(run, "%s: %s: not saved: set it again",
				record_text(record, "name"), record_text(record, "what"));
		else if (!is_restored(record) &&
			 records_next(records, record->kind, NULL) == record)
			run_failure(run,
				"%zu record(s) of the kind %.32s, saved by another version, are "
				"unknown to this one",
				count(records, record->kind, NULL), record->kind);
	}
	statefile_keep(records, is_restored);
}

/*
 * If no interface has gone since the save, its run was killed, or refused, before the first driver
 * went: the node's present state is kept. RDMA devices go before interfaces, and are restored.
 */
static void forget_untouched(const struct run *run)
{
	static const char *const kinds[] = { UNSAVED_KIND, NETNS_KIND, NULL };

	if (!run_is_of_this_boot(run) || is_pending(run->records) || !links_are_untouched(run))
		return;
	run_note(run,
		"no interface has gone since %s was written: leaving the interfaces as they are",
		run->netstate->path);
	records_forget(run->records, kinds, NULL, NULL);
	records_forget(run->records, device_kinds, NULL, NULL);
	records_forget(run->records, link_kinds, NULL, NULL);
}

static void restore_parts(const struct run *run)
{
	struct error part = { 0 };

	if (devices_restore(run, &part) < 0)
		run_failure(run, "devices: %s", part.text);
	kill_point("network:devices");
	if (links_restore(run, &part) < 0)
		run_failure(run, "interfaces: %s", part.text);
	rdma_restore(run);
	kill_point("network:rdma");
	netns_restore(run);
	kill_point("network:restored");
}

/* Only what is pending: what is back is the node's again, and what is changed there holds. */
static int keep_pending(const struct run *run, struct error *error)
{
	const struct netstate *netstate = run->netstate;
	struct record *record = boot_record(run->records);
	struct error why = { 0 };

	run->result->is_pending = true;
	run_note(run, "the next start retries what is still missing");
	if (!record || record_set(record, TRIED, "1") < 0)
		return error_set_errno(error, -ENOMEM, "network state");
	if (statefile_write(netstate->root_fd, netstate->path, run->records, &why) < 0)
		run_note(run, "%s: the next start retries all of it", why.text);
	return 0;
}

int netstate_restore(
	const struct netstate *netstate, struct netstate_result *result, struct error *error)
{
	_cleanup_statefile_ struct statefile records = { 0 };
	const struct run run = { .netstate = netstate, .records = &records, .result = result };
	int r = read_state(&run, error);

	*result = (struct netstate_result){ 0 };
	if (r < 0)
		return r;
	if (!run_is_of_this_boot(&run))
		forget_of_boot(&records);
	forget_untouched(&run);
	if (is_pending(&records))
		run_note(&run, "retrying what an earlier start could not restore");
	report_unsaved(&run);
	restore_parts(&run);
	/* The boot's own record is what is left when all was done. */
	if (records.count <= (boot_record(&records) != NULL))
		return 0;
	result->is_given_up = is_pending(&records);
	return result->is_given_up ? 0 : keep_pending(&run, error);
}

void netstate_forget(const struct netstate *netstate, const struct netstate_result *result)
{
	const struct run run = { .netstate = netstate };
	_cleanup_free_ char *folder = strdup(netstate->path);
	char *slash = folder ? strrchr(folder, '/') : NULL;
	int r = 0;

	if (result->is_pending)
		return;
	if (result->is_given_up)
		r = put_aside(netstate, "unrestored");
	else if (unlinkat(netstate->root_fd, netstate->path, 0) < 0 && errno != ENOENT)
		r = -errno;
	if (slash)
		*slash = '\0';
	/* A file that is gone stays gone also after a power loss. */
	(void) !fs_sync(netstate->root_fd, slash ? folder : ".");
	if (r < 0)
		run_note(&run, "%s cannot be removed, the next start reads it again: %s",
			netstate->path, strerror(-r));
	else if (result->is_given_up)
		run_note(&run,
			"some state could not be restored in two starts and is given up; it is "
			"in %s.unrestored",
			netstate->path);
}
