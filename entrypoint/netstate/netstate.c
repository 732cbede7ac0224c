/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/netstate/netstate.h"

#include <fcntl.h>
#include <stdarg.h>
#include <string.h>

#include "common/fs.h"
#include "entrypoint/engine/kill_point.h"
#include "entrypoint/netstate/state_internal.h"

#define _cleanup_statefile_ _cleanup_(statefile_free)
#define BOOT_ID_PATH        "proc/sys/kernel/random/boot_id"
#define MACHINE_PATH        "sys/class/dmi/id/product_uuid"
#define TRIED               "tried" /* field of the boot record: restored once, and this is pending */

bool netstate_is_saved(int root_fd, const char *path)
{
	return fs_exists(root_fd, path);
}

/* ---- reports */

void netstate_note(const struct netstate *netstate, const char *format, ...)
{
	char text[512];
	va_list arguments;

	va_start(arguments, format);
	(void) vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	if (netstate->report)
		netstate->report(netstate->context, text);
}

void netstate_failure(
	const struct netstate *netstate, struct netstate_result *result, const char *format, ...)
{
	char text[512];
	va_list arguments;

	va_start(arguments, format);
	(void) vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	if (result->failures++ == 0)
		(void) snprintf(result->first, sizeof(result->first), "%.255s", text);
	netstate_note(netstate, "could not be restored: %s", text);
}

#define UNSAVED "unsaved" /* kind of a record */

int netstate_unsaved(struct statefile *records, const char *name, const char *what)
{
	struct record *record;

	for (size_t i = 0; i < records->count; i++) {
		const char *of = record_get(&records->items[i], "name");

		if (strcmp(records->items[i].kind, UNSAVED) == 0 && of && strcmp(of, name) == 0)
			return 0;
	}
	record = statefile_add(records, UNSAVED);
	if (!record || record_set(record, "name", name) < 0)
		return -ENOMEM;
	return record_set(record, "what", what);
}

static bool is_saved(const struct record *record)
{
	return strcmp(record->kind, UNSAVED) != 0;
}

/* ---- the file */

/* Kept for a person to look at, out of the way of the next one. */
static int put_aside(const struct netstate *netstate, const char *why)
{
	char aside[512];

	(void) snprintf(aside, sizeof(aside), "%.490s.%s", netstate->path, why);
	return renameat(netstate->root_fd, netstate->path, netstate->root_fd, aside) < 0 ? -errno
											 : 0;
}

/* ---- of which boot and machine a state file is */

static struct record *boot_record(const struct statefile *records)
{
	for (size_t i = 0; i < records->count; i++)
		if (strcmp(records->items[i].kind, "boot") == 0)
			return &records->items[i];
	return NULL;
}

/* Devices are known by their places, which another machine has too. */
static int name_machine(const struct netstate *netstate, struct record *record)
{
	_cleanup_free_ char *machine = NULL;

	if (fs_read_line(netstate->root_fd, MACHINE_PATH, &machine) < 0 || !*machine)
		return 0;
	return record_set(record, "machine", machine);
}

/* A disk that was cloned. A machine that does not say which it is, is taken for the same. */
static bool is_foreign(const struct netstate *netstate, const struct statefile *records)
{
	_cleanup_free_ char *machine = NULL;
	const struct record *record = boot_record(records);
	const char *saved = record ? record_get(record, "machine") : NULL;

	return saved && fs_read_line(netstate->root_fd, MACHINE_PATH, &machine) == 0 && *machine &&
	       strcmp(saved, machine) != 0;
}

static bool is_pending(const struct statefile *records)
{
	const struct record *record = boot_record(records);
	const char *tried = record ? record_get(record, TRIED) : NULL;

	return tried && strcmp(tried, "1") == 0;
}

static int name_boot(
	const struct netstate *netstate, struct statefile *records, struct error *error)
{
	_cleanup_free_ char *id = NULL;
	struct record *record = boot_record(records);
	int r = fs_read_line(netstate->root_fd, BOOT_ID_PATH, &id);

	if (r < 0)
		return error_set_errno(error, r, "/" BOOT_ID_PATH);
	if (!record)
		record = statefile_add(records, "boot");
	if (!record || record_set(record, "id", id) < 0 || name_machine(netstate, record) < 0 ||
		(record_get(record, TRIED) && record_set(record, TRIED, "0") < 0))
		return error_set_errno(error, -ENOMEM, "network state");
	return 0;
}

bool netstate_is_of_this_boot(const struct netstate *netstate, const struct statefile *records)
{
	_cleanup_free_ char *id = NULL;
	const struct record *record = boot_record(records);
	const char *saved = record ? record_get(record, "id") : NULL;

	return saved && fs_read_line(netstate->root_fd, BOOT_ID_PATH, &id) == 0 &&
	       strcmp(saved, id) == 0;
}

/* The state file of this machine. -ENOENT: there is none. One that is of no use is put aside. */
static int read_state(
	const struct netstate *netstate, struct statefile *records, struct error *error)
{
	int r = statefile_read(netstate->root_fd, netstate->path, records, error);

	if (r == -EBADMSG)
		(void) put_aside(netstate, "damaged");
	if (r < 0 || !is_foreign(netstate, records))
		return r;
	netstate_note(netstate, "%s is of another machine: put aside as %s.foreign", netstate->path,
		netstate->path);
	statefile_free(records);
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
	struct error ignored;

	return statefile_read(root_fd, path, &records, &ignored) < 0 ||
	       devices_are_driven(root_fd, &records);
}

/* ---- saving */

/*
 * What of an earlier run's state file holds: nothing, when no driver has gone since; all, when one
 * has; of devices alone, when the node has booted since, for its interfaces are then as its own
 * configuration made them, and of those what it has not set up itself. Of what a finished restore
 * left, what has not come or not been set up since.
 */
static void choose_what_holds(const struct netstate *netstate, struct statefile *records)
{
	struct error error = { 0 };

	if (netstate_is_of_this_boot(netstate, records) && is_pending(records)) {
		netstate_note(
			netstate, "%s has what an earlier start could not restore", netstate->path);
		links_forget_done(records);
		devices_forget_set_up(netstate, records);
		return;
	}
	if (netstate_is_of_this_boot(netstate, records)) {
		if (links_are_untouched(netstate, records, &error))
			statefile_free(records);
		return;
	}
	netstate_note(netstate, "%s is of an earlier boot: interfaces are saved as they are now",
		netstate->path);
	links_forget(records);
	statefile_keep(records, is_saved);
	netns_forget(records);
	rdma_forget(records);
	devices_forget_set_up(netstate, records);
}

static int read_earlier(
	const struct netstate *netstate, struct statefile *records, struct error *error)
{
	int r = read_state(netstate, records, error);

	if (r == -EBADMSG) {
		netstate_note(netstate, "%s; put aside", error->text);
		return 0;
	}
	if (r == 0)
		choose_what_holds(netstate, records);
	return r == -ENOENT ? 0 : r;
}

int netstate_save(const struct netstate *netstate, struct error *error)
{
	_cleanup_statefile_ struct statefile records = { 0 };
	int r = read_earlier(netstate, &records, error);

	if (r == 0)
		r = name_boot(netstate, &records, error);
	if (r == 0)
		r = devices_save(netstate, &records, error);
	if (r == 0 && (netns_save(netstate, &records) < 0 || rdma_save(netstate, &records) < 0))
		r = error_set_errno(error, -ENOMEM, "network state");
	if (r == 0)
		r = links_save(netstate, &records, error);
	if (r == 0)
		r = statefile_write(netstate->root_fd, netstate->path, &records, error);
	kill_point("network:saved");
	return r < 0 ? error_prefix(error, r, "the network's state cannot be saved") : 0;
}

/* ---- restoring */

/* A file that is gone stays gone also after a power loss. */
static int remove_state(const struct netstate *netstate)
{
	_cleanup_free_ char *folder = strdup(netstate->path);
	char *slash = folder ? strrchr(folder, '/') : NULL;
	_cleanup_close_ int folder_fd = -1;

	if (unlinkat(netstate->root_fd, netstate->path, 0) < 0 && errno != ENOENT)
		return -errno;
	if (slash)
		*slash = '\0';
	folder_fd =
		openat(netstate->root_fd, slash ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (folder_fd >= 0)
		(void) fsync(folder_fd);
	return 0;
}

/* Kinds of records that this version restores, and fields that it does not. */
static const char *const kinds[] = { "boot", "device", "param", "vf", "sf", "link", "sysctls",
	"ethtool", "address", "neighbour", "nexthop", "route", "rule", "bridge-vlans",
	"bridge-entry", "rdma", "away" };

static const struct {
	const char *kind;
	const char *field; /* NULL: the whole record */
	const char *what;
} dropped[] = {
	{ "rate", NULL, "devlink's rates (devlink port function rate)" },
	{ "link", "token", "IPv6 tokens (ip token)" },
	{ "ethtool", "private_flags", "ethtool's private flags" },
};

static bool is_restored(const struct record *record)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (strcmp(record->kind, kinds[i]) == 0)
			return true;
	return false;
}

/*
 * What was not saved; and what this version does not restore of a state that another one saved,
 * before the node was upgraded or downgraded.
 */
static void report_unsaved(
	const struct netstate *netstate, struct statefile *records, struct netstate_result *result)
{
	for (size_t i = 0; i < ARRAY_SIZE(dropped); i++) {
		size_t count = 0;

		for (size_t k = 0; k < records->count; k++) {
			const struct record *record = &records->items[k];

			count += strcmp(record->kind, dropped[i].kind) == 0 &&
				 (!dropped[i].field || record_get(record, dropped[i].field));
		}
		if (count)
			netstate_failure(netstate, result,
				"%s: %zu saved by another version, this one does not restore them",
				dropped[i].what, count);
	}
	for (size_t i = 0; i < records->count; i++) {
		const struct record *record = &records->items[i];
		const char *name = record_get(record, "name");
		const char *what = record_get(record, "what");

		if (strcmp(record->kind, UNSAVED) == 0)
			netstate_failure(netstate, result, "%s: %s: not saved, to be set again",
				name ? name : "", what ? what : "");
		else if (!is_restored(record) && strcmp(record->kind, "rate") != 0)
			netstate_failure(netstate, result,
				"a record of the kind %.32s was saved by another version, this one "
				"does not restore it",
				record->kind);
	}
	statefile_keep(records, is_restored);
}

static void restore_parts(
	const struct netstate *netstate, struct statefile *records, struct netstate_result *result)
{
	struct error part = { 0 };

	if (devices_restore(netstate, records, result, &part) < 0) {
		netstate_failure(netstate, result, "devices: %s", part.text);
		result->is_cut_short = true;
	}
	kill_point("network:devices");
	if (links_restore(netstate, records, result, &part) < 0) {
		netstate_failure(netstate, result, "interfaces: %s", part.text);
		result->is_cut_short = true;
	}
	rdma_restore(netstate, records, result);
	kill_point("network:rdma");
	netns_restore(netstate, records, result);
	kill_point("network:restored");
}

/* Only what is pending: what is back is the node's again, and what is changed there holds. */
static int keep_pending(const struct netstate *netstate, struct statefile *records)
{
	struct record *record = boot_record(records);
	struct error why = { 0 };

	if (!record || record_set(record, TRIED, "1") < 0)
		return -ENOMEM;
	if (statefile_write(netstate->root_fd, netstate->path, records, &why) < 0)
		netstate_note(netstate, "%s stays whole", why.text);
	return 0;
}

int netstate_restore(
	const struct netstate *netstate, struct netstate_result *result, struct error *error)
{
	_cleanup_statefile_ struct statefile records = { 0 };
	bool same_boot;
	bool again;
	int r = read_state(netstate, &records, error);

	*result = (struct netstate_result){ 0 };
	if (r < 0)
		return r;
	again = is_pending(&records);
	same_boot = netstate_is_of_this_boot(netstate, &records);
	if (!same_boot) {
		statefile_keep(&records, is_saved);
		netns_forget(&records);
		rdma_forget(&records);
	}
	if (again)
		netstate_note(
			netstate, "what an earlier start could not restore is tried once more");
	report_unsaved(netstate, &records, result);
	restore_parts(netstate, &records, result);
	if (!result->is_cut_short && !(result->is_absent && same_boot))
		return 0;
	if (again) {
		result->is_given_up = true;
		return 0;
	}
	result->is_pending = true;
	netstate_note(netstate, "the next start tries once more what is not back");
	return keep_pending(netstate, &records) < 0
		       ? error_set_errno(error, -ENOMEM, "network state")
		       : 0;
}

void netstate_forget(const struct netstate *netstate, const struct netstate_result *result)
{
	int r;

	if (result->is_pending)
		return;
	r = result->is_given_up ? put_aside(netstate, "unrestored") : remove_state(netstate);
	if (r < 0)
		netstate_note(netstate, "%s cannot be removed, the next start reads it again: %s",
			netstate->path, strerror(-r));
	else if (result->is_given_up)
		netstate_note(netstate,
			"what was tried twice is not tried again; its state is in %s.unrestored",
			netstate->path);
}
