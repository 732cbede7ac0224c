/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/network/network.h"

#include <fcntl.h>
#include <string.h>

#include "common/fs.h"
#include "entrypoint/engine/kill_point.h"
#include "entrypoint/network/devices.h"
#include "entrypoint/network/links.h"
#include "entrypoint/network/record.h"
#include "entrypoint/network/tell.h"

#define _cleanup_records_ _cleanup_(records_free)
#define BOOT_ID_PATH      "proc/sys/kernel/random/boot_id"

bool network_is_saved(int root_fd, const char *journal)
{
	return fs_exists(root_fd, journal);
}

/* A damaged journal is kept for whoever wants to know, out of the way of the next one. */
static void put_aside(const struct network *network)
{
	char aside[512];

	(void) snprintf(aside, sizeof(aside), "%.500s.damaged", network->journal);
	(void) renameat(network->root_fd, network->journal, network->root_fd, aside);
}

/* ---- whose boot a journal is of */

static struct record *boot_record(const struct records *records)
{
	for (size_t i = 0; i < records->count; i++)
		if (strcmp(records->items[i].kind, "boot") == 0)
			return &records->items[i];
	return NULL;
}

static int name_boot(const struct network *network, struct records *records, struct error *error)
{
	_cleanup_free_ char *id = NULL;
	struct record *record = boot_record(records);
	int r = fs_read_line(network->root_fd, BOOT_ID_PATH, &id);

	if (r < 0)
		return error_set_errno(error, r, "/" BOOT_ID_PATH);
	if (!record)
		record = records_add(records, "boot");
	if (!record || record_set(record, "id", id) < 0)
		return error_set_errno(error, -ENOMEM, "network state");
	return 0;
}

static bool is_of_this_boot(const struct network *network, const struct records *records)
{
	_cleanup_free_ char *id = NULL;
	const struct record *record = boot_record(records);
	const char *saved = record ? record_get(record, "id") : NULL;

	return saved && fs_read_line(network->root_fd, BOOT_ID_PATH, &id) == 0 &&
	       strcmp(saved, id) == 0;
}

/* ---- saving */

/*
 * What of an earlier life's journal holds: nothing, when no driver has gone since; all, when one
 * has; of devices alone, when the node has booted since, for its interfaces are then as its own
 * configuration made them.
 */
static void choose_what_holds(const struct network *network, struct records *records)
{
	struct error error = { 0 };

	if (is_of_this_boot(network, records)) {
		if (links_are_untouched(network, records, &error))
			records_free(records);
		return;
	}
	network_note(network, "%s is of an earlier boot: interfaces are saved as they are now",
		network->journal);
	links_forget(records);
}

static int read_earlier(const struct network *network, struct records *records, struct error *error)
{
	int r = records_read(network->root_fd, network->journal, records, error);

	if (r == -EBADMSG) {
		network_note(network, "%s; put aside", error->text);
		put_aside(network);
		return 0;
	}
	if (r == 0)
		choose_what_holds(network, records);
	return r == -ENOENT ? 0 : r;
}

int network_save(const struct network *network, struct error *error)
{
	_cleanup_records_ struct records records = { 0 };
	int r = read_earlier(network, &records, error);

	if (r == 0)
		r = name_boot(network, &records, error);
	if (r == 0)
		r = devices_save(network, &records, error);
	if (r == 0)
		r = links_save(network, &records, error);
	if (r == 0)
		r = records_write(network->root_fd, network->journal, &records, error);
	kill_point("network:saved");
	return r < 0 ? error_prefix(error, r, "the network's state cannot be saved") : 0;
}

/* ---- restoring */

/* A journal that is gone stays gone also after a power loss. */
static int remove_journal(const struct network *network, struct error *error)
{
	_cleanup_free_ char *folder = strdup(network->journal);
	char *slash = folder ? strrchr(folder, '/') : NULL;
	_cleanup_close_ int folder_fd = -1;

	if (unlinkat(network->root_fd, network->journal, 0) < 0 && errno != ENOENT)
		return error_set_errno(error, -errno, "%s cannot be removed", network->journal);
	if (slash)
		*slash = '\0';
	folder_fd =
		openat(network->root_fd, slash ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (folder_fd >= 0)
		(void) fsync(folder_fd);
	return 0;
}

int network_restore(
	const struct network *network, struct network_result *result, struct error *error)
{
	_cleanup_records_ struct records records = { 0 };
	struct error part = { 0 };
	int r = records_read(network->root_fd, network->journal, &records, error);

	*result = (struct network_result){ 0 };
	if (r == -EBADMSG)
		put_aside(network);
	if (r < 0)
		return r;
	if (devices_restore(network, &records, result, &part) < 0)
		network_failure(network, result, "devices: %s", part.text);
	kill_point("network:devices");
	if (links_restore(network, &records, result, &part) < 0)
		network_failure(network, result, "interfaces: %s", part.text);
	kill_point("network:restored");
	return remove_journal(network, error);
}
