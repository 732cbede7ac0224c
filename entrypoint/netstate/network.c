/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/netstate/network.h"

#include <fcntl.h>
#include <stdarg.h>
#include <string.h>

#include "common/fs.h"
#include "entrypoint/engine/kill_point.h"
#include "entrypoint/netstate/state.h"

#define _cleanup_statefile_ _cleanup_(statefile_free)
#define BOOT_ID_PATH        "proc/sys/kernel/random/boot_id"
#define MACHINE_PATH        "sys/class/dmi/id/product_uuid"
#define TRIED               "tried" /* field of the boot record: restored once, and this is owed */

bool network_is_saved(int root_fd, const char *log)
{
	return fs_exists(root_fd, log);
}

/* ---- reports */

void network_note(const struct network *network, const char *format, ...)
{
	char text[512];
	va_list arguments;

	va_start(arguments, format);
	(void) vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	if (network->tell)
		network->tell(network->context, text);
}

void network_failure(
	const struct network *network, struct network_result *result, const char *format, ...)
{
	char text[512];
	va_list arguments;

	va_start(arguments, format);
	(void) vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	if (result->failures++ == 0)
		(void) snprintf(result->first, sizeof(result->first), "%.255s", text);
	network_note(network, "could not be restored: %s", text);
}

#define UNSAVED "unsaved" /* kind of a record */

int network_unsaved(struct statefile *records, const char *name, const char *what)
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
static int put_aside(const struct network *network, const char *why)
{
	char aside[512];

	(void) snprintf(aside, sizeof(aside), "%.490s.%s", network->log, why);
	return renameat(network->root_fd, network->log, network->root_fd, aside) < 0 ? -errno : 0;
}

/* ---- whose boot a journal is of */

static struct record *boot_record(const struct statefile *records)
{
	for (size_t i = 0; i < records->count; i++)
		if (strcmp(records->items[i].kind, "boot") == 0)
			return &records->items[i];
	return NULL;
}

/* Devices are known by their places, which another machine has too. */
static int name_machine(const struct network *network, struct record *record)
{
	_cleanup_free_ char *machine = NULL;

	if (fs_read_line(network->root_fd, MACHINE_PATH, &machine) < 0 || !*machine)
		return 0;
	return record_set(record, "machine", machine);
}

/* A disk that was cloned. A machine that does not say which it is, is taken for the same. */
static bool is_foreign(const struct network *network, const struct statefile *records)
{
	_cleanup_free_ char *machine = NULL;
	const struct record *record = boot_record(records);
	const char *saved = record ? record_get(record, "machine") : NULL;

	return saved && fs_read_line(network->root_fd, MACHINE_PATH, &machine) == 0 && *machine &&
	       strcmp(saved, machine) != 0;
}

static bool is_owed(const struct statefile *records)
{
	const struct record *record = boot_record(records);
	const char *tried = record ? record_get(record, TRIED) : NULL;

	return tried && strcmp(tried, "1") == 0;
}

static int name_boot(const struct network *network, struct statefile *records, struct error *error)
{
	_cleanup_free_ char *id = NULL;
	struct record *record = boot_record(records);
	int r = fs_read_line(network->root_fd, BOOT_ID_PATH, &id);

	if (r < 0)
		return error_set_errno(error, r, "/" BOOT_ID_PATH);
	if (!record)
		record = statefile_add(records, "boot");
	if (!record || record_set(record, "id", id) < 0 || name_machine(network, record) < 0 ||
		(record_get(record, TRIED) && record_set(record, TRIED, "0") < 0))
		return error_set_errno(error, -ENOMEM, "network state");
	return 0;
}

bool network_is_of_this_boot(const struct network *network, const struct statefile *records)
{
	_cleanup_free_ char *id = NULL;
	const struct record *record = boot_record(records);
	const char *saved = record ? record_get(record, "id") : NULL;

	return saved && fs_read_line(network->root_fd, BOOT_ID_PATH, &id) == 0 &&
	       strcmp(saved, id) == 0;
}

/* The journal of this machine. -ENOENT: there is none. One that is of no use is put aside. */
static int read_state(const struct network *network, struct statefile *records, struct error *error)
{
	int r = statefile_read(network->root_fd, network->log, records, error);

	if (r == -EBADMSG)
		(void) put_aside(network, "damaged");
	if (r < 0 || !is_foreign(network, records))
		return r;
	network_note(network, "%s is of another machine: put aside as %s.foreign", network->log,
		network->log);
	statefile_free(records);
	(void) put_aside(network, "foreign");
	return -ENOENT;
}

bool network_is_owed(int root_fd, const char *log)
{
	_cleanup_statefile_ struct statefile records = { 0 };
	struct error ignored;

	return statefile_read(root_fd, log, &records, &ignored) == 0 && is_owed(&records);
}

bool network_can_restore(int root_fd, const char *log)
{
	_cleanup_statefile_ struct statefile records = { 0 };
	struct error ignored;

	return statefile_read(root_fd, log, &records, &ignored) < 0 ||
	       devices_are_driven(root_fd, &records);
}

/* ---- saving */

/*
 * What of an earlier life's journal holds: nothing, when no driver has gone since; all, when one
 * has; of devices alone, when the node has booted since, for its interfaces are then as its own
 * configuration made them, and of those what it has not set up itself. Of what a finished restore
 * owes, what has not come or not been set up since.
 */
static void choose_what_holds(const struct network *network, struct statefile *records)
{
	struct error error = { 0 };

	if (network_is_of_this_boot(network, records) && is_owed(records)) {
		network_note(
			network, "%s has what an earlier start could not restore", network->log);
		links_forget_done(records);
		devices_forget_set_up(network, records);
		return;
	}
	if (network_is_of_this_boot(network, records)) {
		if (links_are_untouched(network, records, &error))
			statefile_free(records);
		return;
	}
	network_note(network, "%s is of an earlier boot: interfaces are saved as they are now",
		network->log);
	links_forget(records);
	statefile_keep(records, is_saved);
	netns_forget(records);
	rdma_forget(records);
	devices_forget_set_up(network, records);
}

static int read_earlier(
	const struct network *network, struct statefile *records, struct error *error)
{
	int r = read_state(network, records, error);

	if (r == -EBADMSG) {
		network_note(network, "%s; put aside", error->text);
		return 0;
	}
	if (r == 0)
		choose_what_holds(network, records);
	return r == -ENOENT ? 0 : r;
}

int network_save(const struct network *network, struct error *error)
{
	_cleanup_statefile_ struct statefile records = { 0 };
	int r = read_earlier(network, &records, error);

	if (r == 0)
		r = name_boot(network, &records, error);
	if (r == 0)
		r = devices_save(network, &records, error);
	if (r == 0 && (netns_save(network, &records) < 0 || rdma_save(network, &records) < 0))
		r = error_set_errno(error, -ENOMEM, "network state");
	if (r == 0)
		r = links_save(network, &records, error);
	if (r == 0)
		r = statefile_write(network->root_fd, network->log, &records, error);
	kill_point("network:saved");
	return r < 0 ? error_prefix(error, r, "the network's state cannot be saved") : 0;
}

/* ---- restoring */

/* A journal that is gone stays gone also after a power loss. */
static int remove_state(const struct network *network)
{
	_cleanup_free_ char *folder = strdup(network->log);
	char *slash = folder ? strrchr(folder, '/') : NULL;
	_cleanup_close_ int folder_fd = -1;

	if (unlinkat(network->root_fd, network->log, 0) < 0 && errno != ENOENT)
		return -errno;
	if (slash)
		*slash = '\0';
	folder_fd =
		openat(network->root_fd, slash ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
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
	const struct network *network, struct statefile *records, struct network_result *result)
{
	for (size_t i = 0; i < ARRAY_SIZE(dropped); i++) {
		size_t count = 0;

		for (size_t k = 0; k < records->count; k++) {
			const struct record *record = &records->items[k];

			count += strcmp(record->kind, dropped[i].kind) == 0 &&
				 (!dropped[i].field || record_get(record, dropped[i].field));
		}
		if (count)
			network_failure(network, result,
				"%s: %zu saved by another version, this one does not restore them",
				dropped[i].what, count);
	}
	for (size_t i = 0; i < records->count; i++) {
		const struct record *record = &records->items[i];
		const char *name = record_get(record, "name");
		const char *what = record_get(record, "what");

		if (strcmp(record->kind, UNSAVED) == 0)
			network_failure(network, result, "%s: %s: not saved, to be set again",
				name ? name : "", what ? what : "");
		else if (!is_restored(record) && strcmp(record->kind, "rate") != 0)
			network_failure(network, result,
				"a record of the kind %.32s was saved by another version, this one "
				"does not restore it",
				record->kind);
	}
	statefile_keep(records, is_restored);
}

static void restore_parts(
	const struct network *network, struct statefile *records, struct network_result *result)
{
	struct error part = { 0 };

	if (devices_restore(network, records, result, &part) < 0) {
		network_failure(network, result, "devices: %s", part.text);
		result->is_cut_short = true;
	}
	kill_point("network:devices");
	if (links_restore(network, records, result, &part) < 0) {
		network_failure(network, result, "interfaces: %s", part.text);
		result->is_cut_short = true;
	}
	rdma_restore(network, records, result);
	kill_point("network:rdma");
	netns_restore(network, records, result);
	kill_point("network:restored");
}

/* Only what is owed: what is back is the node's again, and what is changed there holds. */
static int keep_owed(const struct network *network, struct statefile *records)
{
	struct record *record = boot_record(records);
	struct error why = { 0 };

	if (!record || record_set(record, TRIED, "1") < 0)
		return -ENOMEM;
	if (statefile_write(network->root_fd, network->log, records, &why) < 0)
		network_note(network, "%s stays whole", why.text);
	return 0;
}

int network_restore(
	const struct network *network, struct network_result *result, struct error *error)
{
	_cleanup_statefile_ struct statefile records = { 0 };
	bool same_boot;
	bool again;
	int r = read_state(network, &records, error);

	*result = (struct network_result){ 0 };
	if (r < 0)
		return r;
	again = is_owed(&records);
	same_boot = network_is_of_this_boot(network, &records);
	if (!same_boot) {
		statefile_keep(&records, is_saved);
		netns_forget(&records);
		rdma_forget(&records);
	}
	if (again)
		network_note(network, "what an earlier start could not restore is tried once more");
	report_unsaved(network, &records, result);
	restore_parts(network, &records, result);
	if (!result->is_cut_short && !(result->is_absent && same_boot))
		return 0;
	if (again) {
		result->is_given_up = true;
		return 0;
	}
	result->is_owed = true;
	network_note(network, "the next start tries once more what is not back");
	return keep_owed(network, &records) < 0 ? error_set_errno(error, -ENOMEM, "network state")
						: 0;
}

void network_forget(const struct network *network, const struct network_result *result)
{
	int r;

	if (result->is_owed)
		return;
	r = result->is_given_up ? put_aside(network, "unrestored") : remove_state(network);
	if (r < 0)
		network_note(network, "%s cannot be removed, the next start reads it again: %s",
			network->log, strerror(-r));
	else if (result->is_given_up)
		network_note(network,
			"what was tried twice is not tried again; its state is in %s.unrestored",
			network->log);
}
