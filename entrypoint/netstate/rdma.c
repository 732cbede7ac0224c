/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of RDMA devices ("mlx5_2", or what udev made of it): the kernel gives them in the order of
 * coming, which is another one after VFs were made side by side, and workloads ask for them by
 * name. In the state file: "rdma device=pci/0000:3b:00.0 name=mlx5_0". Of several that belong to
 * one device none can be known from the other: they are not saved. Source: Linux
 * drivers/infiniband/core/nldev.c.
 */
#include <fcntl.h>
#include <rdma/rdma_netlink.h>
#include <stdlib.h>
#include <string.h>

#include "common/fs.h"
#include "entrypoint/netstate/device_internal.h"
#include "entrypoint/netstate/link_internal.h"
#include "entrypoint/role/pci.h"

#define CLASS     "sys/class/infiniband"
#define NAME_SIZE 64 /* IB_DEVICE_NAME_MAX of include/rdma/ib_verbs.h */

/* An RDMA device that is there. */
struct rdma_device {
	char name[NAME_SIZE];
	char device[LINK_DEVICE_SIZE];
	char module[DEVICE_PART_SIZE]; /* of the device's driver */
	bool is_known;                 /* to the kernel's netlink, … */
	uint32_t index;                /* … by that number */
};

struct rdma_devices {
	struct rdma_device *items;
	size_t count;
};

/* Not those that are no device's (rdma_rxe's stand on interfaces). -ENOMEM. */
static int list_devices(int root_fd, struct rdma_devices *devices)
{
	_cleanup_close_ int class_fd = openat(root_fd, CLASS, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_strv_ struct strv names = { 0 };
	int r = class_fd < 0 ? 0 : fs_list(class_fd, ".", &names);

	free(devices->items);
	*devices = (struct rdma_devices){ 0 };
	for (size_t i = 0; i < names.count; i++) {
		_cleanup_close_ int dir_fd =
			openat(class_fd, names.items[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		struct rdma_device *device;

		if (dir_fd < 0 || strlen(names.items[i]) >= NAME_SIZE)
			continue;
		device = array_add(&devices->items, &devices->count, sizeof(*device));
		if (!device)
			return -ENOMEM;
		(void) snprintf(device->name, NAME_SIZE, "%s", names.items[i]);
		link_device_of(dir_fd, device->device);
		sysfs_link_name(
			dir_fd, "device/driver/module", device->module, sizeof(device->module));
		if (!*device->device)
			devices->count--;
	}
	return r == -ENOMEM ? r : 0;
}

/* NULL: there is none, or more than one. */
static struct rdma_device *only_of(const struct rdma_devices *devices, const char *device)
{
	struct rdma_device *found = NULL;

	for (size_t i = 0; i < devices->count; i++) {
		if (strcmp(devices->items[i].device, device) != 0)
			continue;
		if (found)
			return NULL;
		found = &devices->items[i];
	}
	return found;
}

int rdma_save(const struct run *run)
{
	struct rdma_devices devices = { 0 };
	int r = list_devices(run->netstate->root_fd, &devices);

	for (size_t i = 0; r == 0 && i < devices.count; i++) {
		const struct rdma_device *device = &devices.items[i];
		struct record *record;

		if (!strv_contains(run->netstate->modules, device->module) ||
			!only_of(&devices, device->device) ||
			records_find(run->records, RDMA_KIND, "device", device->device))
			continue;
		record = statefile_add(run->records, RDMA_KIND);
		if (!record || record_set(record, "device", device->device) < 0 ||
			record_set(record, "name", device->name) < 0)
			r = -ENOMEM;
	}
	free(devices.items);
	return r;
}

/* ---- restoring */

struct renaming {
	const struct run *run;
	struct netlink *netlink;
	struct rdma_devices now;
};

/* The RDMA device that the record's device has now; NULL: none, or it is another record. */
static struct rdma_device *now_of(const struct renaming *renaming, const struct record *record)
{
	return strcmp(record->kind, RDMA_KIND) == 0
		       ? only_of(&renaming->now, record_text(record, "device"))
		       : NULL;
}

static bool are_there(void *context)
{
	struct renaming *renaming = context;
	const struct statefile *records = renaming->run->records;

	if (list_devices(renaming->run->netstate->root_fd, &renaming->now) < 0)
		return true;
	for (size_t i = 0; i < records->count; i++)
		if (strcmp(records->items[i].kind, RDMA_KIND) == 0 &&
			!now_of(renaming, &records->items[i]))
			return false;
	return true;
}

static int keep_index(void *context, const struct nlmsghdr *message)
{
	struct rdma_devices *devices = context;
	const char *name = netlink_text(netlink_attribute(message, 0, RDMA_NLDEV_ATTR_DEV_NAME));

	for (size_t i = 0; name && i < devices->count; i++)
		if (strcmp(devices->items[i].name, name) == 0) {
			devices->items[i].is_known = true;
			devices->items[i].index = netlink_number(
				netlink_attribute(message, 0, RDMA_NLDEV_ATTR_DEV_INDEX));
		}
	return 0;
}

/* The table has the new name at once. */
static int rename_to(const struct renaming *renaming, struct rdma_device *device, const char *name,
	struct error *error)
{
	struct nlmsghdr *request = netlink_request(
		renaming->netlink, RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_SET), 0, 0);
	int r;

	if (!device->is_known)
		return error_set(error, -ENODEV, "the kernel has no RDMA device %s", device->name);
	mnl_attr_put_u32(request, RDMA_NLDEV_ATTR_DEV_INDEX, device->index);
	netlink_put_text(request, RDMA_NLDEV_ATTR_DEV_NAME, name);
	r = netlink_talk(renaming->netlink, request, NULL, NULL, error);
	if (r == 0)
		(void) snprintf(device->name, NAME_SIZE, "%s", name);
	return r;
}

/* One of ours that waits for its own name goes aside for as long as that takes. */
static int move_aside(const struct renaming *renaming, const char *name, struct error *error)
{
	for (size_t i = 0; i < renaming->run->records->count; i++) {
		struct rdma_device *now = now_of(renaming, &renaming->run->records->items[i]);
		char aside[NAME_SIZE];

		if (!now || strcmp(now->name, name) != 0)
			continue;
		(void) snprintf(aside, sizeof(aside), "slipway_%zu", i);
		return rename_to(renaming, now, aside, error);
	}
	return 0; /* if another one has it, the kernel refuses */
}

static void restore_one(const struct renaming *renaming, const struct record *record)
{
	const struct run *run = renaming->run;
	const char *device = record_text(record, "device");
	const char *name = record_text(record, "name");
	struct rdma_device *now = now_of(renaming, record);
	struct error error = { 0 };
	int r;

	/* That of a device that is absent was reported with it. */
	if (!now && device_has_file(run->netstate->root_fd, device, "driver"))
		run_failure(run, "the RDMA device %s (of %s) did not come within %u ms", name,
			device, run->netstate->bind_ms);
	if (!now || strcmp(now->name, name) == 0)
		return;
	if (!record_is_part(name, NAME_SIZE))
		r = error_set(&error, -EBADMSG, "its record is damaged");
	else
		r = move_aside(renaming, name, &error);
	if (r == 0)
		r = rename_to(renaming, now, name, &error);
	if (r < 0)
		run_failure(run, "the RDMA device %s (of %s): its name (it is %s): %s", name,
			device, now->name, error.text);
}

void rdma_restore(const struct run *run)
{
	struct renaming renaming = { .run = run };
	_cleanup_close_ int events = -1;
	struct error error = { 0 };
	int r = 0;

	if (!records_find(run->records, RDMA_KIND, NULL, NULL))
		return;
	events = netlink_listen(NETLINK_KOBJECT_UEVENT);
	(void) netlink_wait(events, run->netstate->bind_ms, are_there, &renaming);
	/* Opened for devices that are there: to ask for the family could load the host's module. */
	if (renaming.now.count)
		r = netlink_open(NETLINK_RDMA, &renaming.netlink, &error);
	if (renaming.netlink)
		r = netlink_talk(renaming.netlink,
			netlink_request(renaming.netlink,
				RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_GET), NLM_F_DUMP, 0),
			keep_index, &renaming.now, &error);
	if (r < 0)
		run_failure(run, "names of RDMA devices: %s", error.text);
	for (size_t i = 0; r == 0 && i < run->records->count; i++)
		if (strcmp(run->records->items[i].kind, RDMA_KIND) == 0)
			restore_one(&renaming, &run->records->items[i]);
	netlink_close(&renaming.netlink);
	free(renaming.now.items);
	records_forget(run->records, (const char *const[]){ RDMA_KIND, NULL });
}
