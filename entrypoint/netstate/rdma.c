/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of RDMA devices ("mlx5_2", or what udev made of it): the kernel gives them in the order of
 * coming, which is another one after VFs were made side by side, and workloads ask for them by
 * name. With them what is set of their ports: rdma_cm's RoCE mode and ToS (cma_roce_mode,
 * cma_roce_tos of mlnx-tools), and traffic_class, which OFED's mlx5_ib has. In the state file:
 *
 *   rdma device=pci/0000:3b:00.0 name=mlx5_0 1.default_roce_tos=106 1.traffic_class=106 …
 *
 * RDMA devices that belong to one device cannot be told apart: they are not saved. Sources: Linux
 * drivers/infiniband/core/nldev.c, cma_configfs.c.
 */
#include <fcntl.h>
#include <limits.h>
#include <rdma/rdma_netlink.h>
#include <stdlib.h>
#include <string.h>

#include "common/fs.h"
#include "entrypoint/netstate/netlink_internal.h"
#include "entrypoint/netstate/netstate_internal.h"
#include "entrypoint/netstate/rdma_config.h"
#include "entrypoint/rdma/port.h"
#include "entrypoint/role/pci.h"

/* An RDMA device that is there. */
struct rdma_device {
	char name[RDMA_NAME_SIZE];
	char device[DEVICE_NAME_SIZE];
	char module[DEVICE_PART_SIZE]; /* of the device's driver */
	bool is_known;                 /* to the kernel's netlink, … */
	uint32_t index;                /* … by that number */
};

struct rdma_devices {
	struct rdma_device *items;
	size_t count;
};

static void devices_free(struct rdma_devices *devices)
{
	free(devices->items);
}

/* Not those that are no device's (rdma_rxe's stand on interfaces). -ENOMEM. */
static int list_devices(int root_fd, struct rdma_devices *devices)
{
	_cleanup_close_ int class_fd =
		openat(root_fd, RDMA_CLASS, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_strv_ struct strv names = { 0 };
	int r = fs_list(class_fd, ".", &names);

	devices_free(devices);
	*devices = (struct rdma_devices){ 0 };
	for (size_t i = 0; i < names.count; i++) {
		_cleanup_close_ int dir_fd =
			openat(class_fd, names.items[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		struct rdma_device *device;

		if (dir_fd < 0 || strlen(names.items[i]) >= RDMA_NAME_SIZE)
			continue;
		device = array_add(&devices->items, &devices->count, sizeof(*device));
		if (!device)
			return -ENOMEM;
		(void) snprintf(device->name, RDMA_NAME_SIZE, "%s", names.items[i]);
		device_name_of(dir_fd, device->device);
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

/* ---- settings of their ports */

#define TRAFFIC_CLASS "traffic_class"

static const struct setting {
	const char *name;
	const char *usual; /* what the kernel gives a port that has RoCE (cma_add_one()) */
} settings[] = {
	{ RDMA_CONFIG_MODE, "RoCE v2" },
	{ RDMA_CONFIG_TOS, "0" },
	{ TRAFFIC_CLASS, "" },
};

/* A setting as it is to be written, "" where it is not set. NULL: the driver has none. */
static char *read_setting(int root_fd, const struct rdma_config *config, const char *name,
	const char *port, const char *setting)
{
	char path[PATH_MAX];
	char *text = NULL;
	unsigned value;

	if (strcmp(setting, TRAFFIC_CLASS) != 0)
		return rdma_config_read(config, port, setting, &text) < 0 ? NULL : text;
	(void) snprintf(path, sizeof(path), RDMA_CLASS "/%s/tc/%s/" TRAFFIC_CLASS, name, port);
	if (fs_read_line(root_fd, path, &text) < 0)
		return NULL;
	/* "Global tclass=106"; further lines are rules for addresses, which are not saved. */
	if (sscanf(text, "Global tclass=%u", &value) == 1)
		(void) snprintf(text, strlen(text) + 1, "%u", value);
	else
		*text = '\0';
	return text;
}

static int save_port(const struct run *run, const struct rdma_config *config, const char *port,
	struct record *record)
{
	const char *name = record_text(record, "name");

	for (size_t i = 0; i < ARRAY_SIZE(settings); i++) {
		_cleanup_free_ char *value =
			read_setting(run->netstate->root_fd, config, name, port, settings[i].name);
		char field[64];

		(void) snprintf(field, sizeof(field), "%.16s.%s", port, settings[i].name);
		if (value && strcmp(value, settings[i].usual) != 0 &&
			record_set_text(record, field, value) < 0)
			return -ENOMEM;
	}
	return 0;
}

static int save_settings(const struct run *run, int config_fd, struct record *record)
{
	const char *name = record_text(record, "name");
	_cleanup_(rdma_config_end) struct rdma_config config;
	_cleanup_strv_ struct strv ports = { 0 };
	char path[PATH_MAX];

	(void) rdma_config_begin(&config, config_fd, name);
	(void) snprintf(path, sizeof(path), RDMA_CLASS "/%s/ports", name);
	(void) !fs_list(run->netstate->root_fd, path, &ports);
	for (size_t i = 0; i < ports.count; i++)
		if (save_port(run, &config, ports.items[i], record) < 0)
			return -ENOMEM;
	return 0;
}

/* The settings of its ports are lost with rdma_cm or mlx5_ib, too. */
static bool is_affected(const struct run *run, const struct rdma_device *device)
{
	const struct strv *modules = run->netstate->modules;

	return strv_contains(modules, device->module) || strv_contains(modules, "rdma_cm") ||
	       strv_contains(modules, "mlx5_ib");
}

int rdma_save(const struct run *run)
{
	_cleanup_(devices_free) struct rdma_devices devices = { 0 };
	_cleanup_close_ int config_fd = rdma_config_open(run->netstate->root_fd);

	if (list_devices(run->netstate->root_fd, &devices) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < devices.count; i++) {
		const struct rdma_device *device = &devices.items[i];
		struct record *record;

		if (!is_affected(run, device) || !only_of(&devices, device->device) ||
			records_find(run->records, RDMA_KIND, "device", device->device))
			continue;
		record = records_add(
			run->records, RDMA_KIND, "device", device->device, "name", device->name);
		if (!record || save_settings(run, config_fd, record) < 0)
			return -ENOMEM;
	}
	return 0;
}

/* "1.default_roce_tos" and its like: what is behind the port, one of settings[]. NULL. */
static const char *setting_of(const char *field)
{
	const char *dot = strchr(field, '.');

	for (size_t i = 0; dot && i < ARRAY_SIZE(settings); i++)
		if (strcmp(dot + 1, settings[i].name) == 0)
			return settings[i].name;
	return NULL;
}

static bool has_settings_of_rdma_cm(const struct record *record)
{
	for (size_t i = 0; i < record->count; i++) {
		const char *setting = setting_of(record->fields[i].name);

		if (setting && strcmp(setting, TRAFFIC_CLASS) != 0)
			return true;
	}
	return false;
}

int rdma_keep_lost(const struct run *run)
{
	_cleanup_(devices_free) struct rdma_devices devices = { 0 };
	bool has_rdma_cm = fs_exists(run->netstate->root_fd, "sys/module/rdma_cm");

	if (list_devices(run->netstate->root_fd, &devices) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < run->records->count; i++) {
		struct record *record = &run->records->items[i];

		if (strcmp(record->kind, RDMA_KIND) != 0 ||
			(only_of(&devices, record_text(record, "device")) &&
				(has_rdma_cm || !has_settings_of_rdma_cm(record))))
			record_forget(record);
	}
	records_sweep(run->records);
	return 0;
}

/* ---- restoring */

struct renaming {
	const struct run *run;
	struct netlink *netlink;
	struct rdma_devices now;
};

/* The RDMA device that the record's device has now, or NULL. */
static struct rdma_device *now_of(const struct renaming *renaming, const struct record *record)
{
	return only_of(&renaming->now, record_text(record, "device"));
}

static bool are_there(void *context)
{
	struct renaming *renaming = context;
	const struct record *record = NULL;

	if (list_devices(renaming->run->netstate->root_fd, &renaming->now) < 0)
		return true;
	while ((record = records_next(renaming->run->records, RDMA_KIND, record)))
		if (!now_of(renaming, record))
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
		(void) snprintf(device->name, RDMA_NAME_SIZE, "%s", name);
	return r;
}

/* One of ours that waits for its own name goes aside for as long as that takes. */
static int move_aside(const struct renaming *renaming, const char *name, struct error *error)
{
	const struct record *record = NULL;
	char aside[RDMA_NAME_SIZE];

	while ((record = records_next(renaming->run->records, RDMA_KIND, record))) {
		struct rdma_device *now = now_of(renaming, record);

		if (!now || strcmp(now->name, name) != 0)
			continue;
		(void) snprintf(aside, sizeof(aside), "slipway_%u", now->index);
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
	if (!now && device_is_driven(run->netstate->root_fd, device))
		run_failure(run, "the RDMA device %s (of %s) did not appear within %u ms", name,
			device, run->netstate->bind_ms);
	if (!now || strcmp(now->name, name) == 0)
		return;
	if (record_is_part(name, RDMA_NAME_SIZE))
		r = move_aside(renaming, name, &error);
	else
		r = error_set(&error, -EBADMSG, "its record is damaged");
	if (r == 0)
		r = rename_to(renaming, now, name, &error);
	if (r < 0)
		run_failure(run, "the RDMA device %s (of %s): its name (now %s): %s", name, device,
			now->name, error.text);
}

/* A device is in /sys before rdma_cm knows it. */
struct config_wait {
	struct rdma_config config;
	int fd;
	const char *name;
};

static bool is_configurable(void *context)
{
	struct config_wait *wait = context;

	return rdma_config_begin(&wait->config, wait->fd, wait->name);
}

/* False: what is loaded has no such setting. */
static bool restore_setting(const struct run *run, const struct rdma_config *config,
	const struct record_field *field, const char *setting, const char *name)
{
	_cleanup_free_ char *port = strndup(field->name, strcspn(field->name, "."));
	bool is_of_driver = strcmp(setting, TRAFFIC_CLASS) == 0;
	int root_fd = run->netstate->root_fd;
	_cleanup_free_ char *now = NULL;
	int r;

	if (!port || !record_is_part(port, RDMA_NAME_SIZE))
		return true;
	now = read_setting(root_fd, config, name, port, setting);
	if (now && strcmp(now, field->value) == 0)
		return true;
	if (is_of_driver)
		r = sysfs_put(
			root_fd, field->value, RDMA_CLASS "/%s/tc/%s/" TRAFFIC_CLASS, name, port);
	else if (config->fd >= 0)
		r = rdma_config_write(config, port, setting, field->value);
	else
		r = -ENOENT;
	if (r == -ENOENT && (is_of_driver || config->fd < 0))
		return false;
	if (r < 0)
		run_failure(run, "the RDMA device %s, port %s: %s=%s: %s", name, port, setting,
			field->value, strerror(-r));
	return true;
}

static void restore_settings(
	const struct run *run, int config_fd, const struct record *record, const char *name)
{
	struct config_wait wait = { .fd = config_fd, .name = name };
	bool is_begun = false;
	char lacks[256] = "";

	for (size_t i = 0; i < record->count; i++) {
		const struct record_field *field = &record->fields[i];
		const char *setting = setting_of(field->name);
		size_t length = strlen(lacks);

		if (!setting)
			continue;
		if (!is_begun && !is_configurable(&wait) && config_fd >= 0)
			(void) netlink_wait(NETLINK_KOBJECT_UEVENT, UEVENTS, run->netstate->bind_ms,
				is_configurable, &wait);
		is_begun = true;
		if (!restore_setting(run, &wait.config, field, setting, name))
			(void) snprintf(lacks + length, sizeof(lacks) - length, " %s=%s",
				field->name, field->value);
	}
	if (*lacks)
		run_note(run, "the RDMA device %s: the loaded driver has no%s", name, lacks);
	rdma_config_end(&wait.config);
}

/* Asked of devices that are there: to ask for the family could load the host's module. */
static int read_indexes(struct renaming *renaming, struct error *error)
{
	int r = netlink_open(NETLINK_RDMA, &renaming->netlink, error);

	if (r < 0)
		return r;
	return netlink_talk(renaming->netlink,
		netlink_request(renaming->netlink,
			RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_GET), NLM_F_DUMP, 0),
		keep_index, &renaming->now, error);
}

void rdma_restore(const struct run *run)
{
	_cleanup_close_ int config_fd = -1;
	struct renaming renaming = { .run = run };
	const struct record *record = NULL;
	struct error error = { 0 };

	if (!records_next(run->records, RDMA_KIND, NULL))
		return;
	(void) netlink_wait(
		NETLINK_KOBJECT_UEVENT, UEVENTS, run->netstate->bind_ms, are_there, &renaming);
	config_fd = rdma_config_open(run->netstate->root_fd);
	if (renaming.now.count && read_indexes(&renaming, &error) < 0)
		run_failure(run, "names of RDMA devices: %s", error.text);
	else
		while ((record = records_next(run->records, RDMA_KIND, record)))
			restore_one(&renaming, record);
	for (record = NULL; (record = records_next(run->records, RDMA_KIND, record));) {
		const struct rdma_device *now = now_of(&renaming, record);

		if (now)
			restore_settings(run, config_fd, record, now->name);
	}
	netlink_close(&renaming.netlink);
	devices_free(&renaming.now);
	records_forget(run->records, (const char *const[]){ RDMA_KIND, NULL }, NULL, NULL);
}
