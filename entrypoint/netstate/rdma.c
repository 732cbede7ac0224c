/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of RDMA devices ("mlx5_2", or what udev made of it): the kernel gives them in the order of
 * coming, which is another one after VFs were made side by side, and workloads ask for them by
 * name. In the state file: "rdma device=pci/0000:3b:00.0 name=mlx5_0". Of several that belong to
 * one device none can be known from the other: they are not saved. Source: Linux
 * drivers/infiniband/core/nldev.c.
 */
#include <fcntl.h>
#include <limits.h>
#include <rdma/rdma_netlink.h>
#include <stdlib.h>
#include <string.h>

#include "common/fs.h"
#include "entrypoint/netstate/device_internal.h"
#include "entrypoint/netstate/link_internal.h"
#include "entrypoint/netstate/state_internal.h"
#include "entrypoint/role/pci.h"

#define KIND      "rdma"
#define CLASS     "sys/class/infiniband"
#define NAME_SIZE 64 /* IB_DEVICE_NAME_MAX of include/rdma/ib_verbs.h */

/* An RDMA device that is there. */
struct rdma_device {
	char name[NAME_SIZE];
	char device[LINK_DEVICE_SIZE];
	char module[DEVICE_PART_SIZE]; /* of the device's driver */
};

struct rdma_devices {
	struct rdma_device *items;
	size_t count;
};

/* False: it has gone again, or is no device's (rdma_rxe's stand on interfaces). */
static bool read_device(int class_fd, const char *name, struct rdma_device *device)
{
	_cleanup_close_ int dir_fd = openat(class_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	*device = (struct rdma_device){ 0 };
	if (dir_fd < 0 || snprintf(device->name, NAME_SIZE, "%s", name) >= NAME_SIZE)
		return false;
	link_device_of(dir_fd, device->device);
	sysfs_link_name(dir_fd, "device/driver/module", device->module, sizeof(device->module));
	return device->device[0] != '\0';
}

static int list_devices(int root_fd, struct rdma_devices *devices)
{
	_cleanup_close_ int class_fd = openat(root_fd, CLASS, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_strv_ struct strv names = { 0 };
	int r = class_fd < 0 ? 0 : fs_list(class_fd, ".", &names);

	free(devices->items);
	*devices =
		(struct rdma_devices){ .items = calloc(names.count + 1, sizeof(*devices->items)) };
	if (r == -ENOMEM || !devices->items)
		return -ENOMEM;
	for (size_t i = 0; i < names.count; i++)
		if (read_device(class_fd, names.items[i], &devices->items[devices->count]))
			devices->count++;
	return 0;
}

/* NULL: there is none, or more than one. */
static const struct rdma_device *only_of(const struct rdma_devices *devices, const char *device)
{
	const struct rdma_device *found = NULL;

	for (size_t i = 0; i < devices->count; i++) {
		if (strcmp(devices->items[i].device, device) != 0)
			continue;
		if (found)
			return NULL;
		found = &devices->items[i];
	}
	return found;
}

/* ---- saving */

static bool is_rdma(const struct record *record)
{
	return strcmp(record->kind, KIND) == 0 && record_get(record, "device") &&
	       record_get(record, "name");
}

static bool is_recorded(const struct statefile *records, const char *device)
{
	for (size_t i = 0; i < records->count; i++)
		if (is_rdma(&records->items[i]) &&
			strcmp(record_get(&records->items[i], "device"), device) == 0)
			return true;
	return false;
}

static int save_devices(const struct netstate *netstate, const struct rdma_devices *devices,
	struct statefile *records)
{
	for (size_t i = 0; i < devices->count; i++) {
		const struct rdma_device *device = &devices->items[i];
		struct record *record;

		if (!strv_contains(netstate->modules, device->module) ||
			!only_of(devices, device->device) || is_recorded(records, device->device))
			continue;
		record = statefile_add(records, KIND);
		if (!record || record_set(record, "device", device->device) < 0 ||
			record_set(record, "name", device->name) < 0)
			return -ENOMEM;
	}
	return 0;
}

int rdma_save(const struct netstate *netstate, struct statefile *records)
{
	struct rdma_devices devices = { 0 };
	int r = list_devices(netstate->root_fd, &devices);

	if (r == 0)
		r = save_devices(netstate, &devices, records);
	free(devices.items);
	return r;
}

/* ---- restoring */

struct renaming {
	const struct netstate *netstate;
	const struct statefile *records;
	struct netstate_result *result;
	struct netlink *netlink;
	struct rdma_devices now;
};

/* What the record's device is called now; NULL: it has no RDMA device. */
static const char *name_now(const struct renaming *renaming, const struct record *record)
{
	const struct rdma_device *now = only_of(&renaming->now, record_get(record, "device"));

	return now ? now->name : NULL;
}

static bool are_there(void *context)
{
	struct renaming *renaming = context;

	if (list_devices(renaming->netstate->root_fd, &renaming->now) < 0)
		return true;
	for (size_t i = 0; i < renaming->records->count; i++)
		if (is_rdma(&renaming->records->items[i]) &&
			!name_now(renaming, &renaming->records->items[i]))
			return false;
	return true;
}

struct search {
	const char *name;
	uint32_t index;
	bool is_found;
};

static int find_index(void *context, const struct nlmsghdr *message)
{
	struct search *search = context;
	const char *name = netlink_text(netlink_attribute(message, 0, RDMA_NLDEV_ATTR_DEV_NAME));

	if (name && strcmp(name, search->name) == 0) {
		search->index =
			netlink_number(netlink_attribute(message, 0, RDMA_NLDEV_ATTR_DEV_INDEX));
		search->is_found = true;
	}
	return 0;
}

static int rename_device(
	struct renaming *renaming, const char *from, const char *to, struct error *error)
{
	struct search search = { .name = from };
	struct nlmsghdr *request = netlink_request(
		renaming->netlink, RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_GET), NLM_F_DUMP);
	int r = netlink_talk(renaming->netlink, request, find_index, &search, error);

	if (r < 0)
		return r;
	if (!search.is_found)
		return error_set(error, -ENODEV, "the kernel has no RDMA device %s", from);
	request = netlink_request(
		renaming->netlink, RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_SET), 0);
	mnl_attr_put_u32(request, RDMA_NLDEV_ATTR_DEV_INDEX, search.index);
	netlink_put_text(request, RDMA_NLDEV_ATTR_DEV_NAME, to);
	return netlink_talk(renaming->netlink, request, NULL, NULL, error);
}

/* The table has the new name at once. */
static int rename_to(
	struct renaming *renaming, const char *from, const char *to, struct error *error)
{
	int r = rename_device(renaming, from, to, error);

	for (size_t i = 0; r == 0 && i < renaming->now.count; i++)
		if (strcmp(renaming->now.items[i].name, from) == 0) {
			(void) snprintf(renaming->now.items[i].name, NAME_SIZE, "%s", to);
			break;
		}
	return r;
}

/* One of ours that waits for its own name goes aside for as long as that takes. */
static int move_aside(struct renaming *renaming, const char *name, struct error *error)
{
	for (size_t i = 0; i < renaming->records->count; i++) {
		const struct record *record = &renaming->records->items[i];
		const char *now = is_rdma(record) ? name_now(renaming, record) : NULL;
		char aside[NAME_SIZE];

		if (!now || strcmp(now, name) != 0)
			continue;
		(void) snprintf(aside, sizeof(aside), "slipway_%zu", i);
		return rename_to(renaming, now, aside, error);
	}
	return 0; /* if another one has it, the kernel says so */
}

/* Of a device that is there: another one's absence was reported. */
static void report_absent(const struct renaming *renaming, const struct record *record)
{
	const char *device = record_get(record, "device");
	char driver[DEVICE_PART_SIZE];

	device_link(renaming->netstate->root_fd, device, "driver", driver);
	if (*driver)
		netstate_failure(renaming->netstate, renaming->result,
			"the RDMA device %s (of %s) did not come within %u ms",
			record_get(record, "name"), device, renaming->netstate->bind_ms);
}

static void restore_one(struct renaming *renaming, const struct record *record)
{
	const char *name = record_get(record, "name");
	const char *now = name_now(renaming, record);
	struct error error = { 0 };
	char from[NAME_SIZE];

	if (!now)
		report_absent(renaming, record);
	if (!now || strcmp(now, name) == 0)
		return;
	(void) snprintf(from, sizeof(from), "%s", now);
	if (strlen(name) >= NAME_SIZE || strchr(name, '/'))
		(void) error_set(&error, -EBADMSG, "its record is damaged");
	else if (move_aside(renaming, name, &error) == 0)
		(void) rename_to(renaming, from, name, &error);
	if (*error.text)
		netstate_failure(renaming->netstate, renaming->result,
			"the RDMA device %s (of %s): its name (it is %s): %s", name,
			record_get(record, "device"), from, error.text);
}

static bool has_any(const struct statefile *records)
{
	for (size_t i = 0; i < records->count; i++)
		if (is_rdma(&records->items[i]))
			return true;
	return false;
}

/* The socket is opened for devices that are there: to ask for the family could load the host's. */
static void restore_all(struct renaming *renaming)
{
	_cleanup_close_ int uevents = uevents_open();
	struct error error = { 0 };

	(void) uevents_wait(uevents, renaming->netstate->bind_ms, are_there, renaming);
	if (renaming->now.count && netlink_open(NETLINK_RDMA, &renaming->netlink, &error) < 0) {
		netstate_failure(renaming->netstate, renaming->result, "names of RDMA devices: %s",
			error.text);
		return;
	}
	for (size_t i = 0; i < renaming->records->count; i++)
		if (is_rdma(&renaming->records->items[i]))
			restore_one(renaming, &renaming->records->items[i]);
	netlink_close(&renaming->netlink);
}

static bool is_other(const struct record *record)
{
	return strcmp(record->kind, KIND) != 0;
}

void rdma_forget(struct statefile *records)
{
	statefile_keep(records, is_other);
}

void rdma_restore(
	const struct netstate *netstate, struct statefile *records, struct netstate_result *result)
{
	struct renaming renaming = { .netstate = netstate, .records = records, .result = result };

	if (has_any(records))
		restore_all(&renaming);
	free(renaming.now.items);
	rdma_forget(records);
}
