/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What /sys and the kernel say of the devices whose driver goes, and the saving of it. Source:
 * Documentation/ABI/testing/sysfs-bus-pci.
 */
#include "entrypoint/netstate/device_internal.h"

#include <ctype.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/devlink.h>
#include <linux/rtnetlink.h>
#include <stdlib.h>
#include <string.h>

#include "common/fs.h"
#include "entrypoint/netstate/netstate_internal.h"
#include "entrypoint/role/pci.h"

void device_path(const char *name, const char *file, char *path, size_t size)
{
	const char *slash = strchr(name, '/');
	int bus = slash ? (int) (slash - name) : 0;

	(void) snprintf(path, size, "sys/bus/%.*s/devices/%s/%s", bus, name,
		slash ? slash + 1 : name, file);
}

bool device_has_file(int root_fd, const char *name, const char *file)
{
	char path[PATH_MAX];

	device_path(name, file, path, sizeof(path));
	return fs_exists(root_fd, path);
}

void device_link(int root_fd, const char *name, const char *link, char part[DEVICE_PART_SIZE])
{
	char path[PATH_MAX];

	device_path(name, link, path, sizeof(path));
	sysfs_link_name(root_fd, path, part, DEVICE_PART_SIZE);
}

int device_write(int root_fd, const char *name, const char *file, const char *text)
{
	char path[PATH_MAX];

	device_path(name, file, path, sizeof(path));
	return sysfs_put(root_fd, text, "%s", path);
}

/* NULL: it cannot be read. */
static char *read_text(int root_fd, const char *name, const char *file)
{
	char path[PATH_MAX];
	char *text = NULL;

	device_path(name, file, path, sizeof(path));
	return fs_read_line(root_fd, path, &text) < 0 ? NULL : text;
}

/* False when the file is not there, or not a number. */
static bool read_number(int root_fd, const char *name, const char *file, unsigned *number)
{
	_cleanup_free_ char *text = read_text(root_fd, name, file);
	char *end;

	if (!text || !isdigit((unsigned char) *text))
		return false;
	*number = (unsigned) strtoul(text, &end, 10);
	return *end == '\0';
}

/* ---- which devices */

/* A driver's folder has a link for each of its devices, between its own files. */
static int add_devices(int root_fd, const char *folder, const char *bus, struct strv *names)
{
	_cleanup_strv_ struct strv entries = { 0 };
	int r = fs_list(root_fd, folder, &entries);

	for (size_t i = 0; i < entries.count; i++) {
		char name[DEVICE_NAME_SIZE + DEVICE_PART_SIZE];

		(void) snprintf(name, sizeof(name), "%s/%s", bus, entries.items[i]);
		if (strlen(name) < DEVICE_NAME_SIZE && device_has_file(root_fd, name, "driver") &&
			!device_has_file(root_fd, name, "physfn") &&
			strv_push_unique(names, name) < 0)
			return -ENOMEM;
	}
	return r == -ENOENT ? 0 : r;
}

/* /sys/module/<m>/drivers has links named "<bus>:<driver>". */
static int add_drivers(int root_fd, const char *module, struct strv *names)
{
	_cleanup_strv_ struct strv drivers = { 0 };
	char folder[PATH_MAX];
	int r;

	(void) snprintf(folder, sizeof(folder), "sys/module/%s/drivers", module);
	r = fs_list(root_fd, folder, &drivers);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	for (size_t i = 0; i < drivers.count; i++) {
		char *bus = drivers.items[i];
		char *colon = strchr(bus, ':');

		if (!colon)
			continue;
		*colon = '\0';
		if (strcmp(bus, "auxiliary") == 0)
			continue;
		(void) snprintf(folder, sizeof(folder), "sys/bus/%s/drivers/%s", bus, colon + 1);
		r = add_devices(root_fd, folder, bus, names);
		if (r < 0)
			return r;
	}
	return 0;
}

int device_names(int root_fd, const struct strv *modules, struct strv *names)
{
	for (size_t i = 0; i < modules->count; i++) {
		int r = add_drivers(root_fd, modules->items[i], names);

		if (r < 0)
			return r;
	}
	strv_sort(names);
	return 0;
}

/* ---- what /sys has of one */

/* Representors stand beside it, named "pf0vf1", "pf0sf88" or "c1pf0vf0": devlink's
 * devlink_compat_phys_port_name_get(). */
static bool is_representor(const char *port)
{
	if (*port == 'c' && isdigit((unsigned char) port[1]))
		port += 1 + strspn(port + 1, "0123456789");
	return port[0] == 'p' && port[1] == 'f' && isdigit((unsigned char) port[2]);
}

/* Of its own interfaces the first that came, where there are several (ports, interfaces above). */
static int find_ifindex(int root_fd, const char *name)
{
	_cleanup_strv_ struct strv interfaces = { 0 };
	char path[PATH_MAX];
	unsigned best = 0;

	device_path(name, "net", path, sizeof(path));
	(void) !fs_list(root_fd, path, &interfaces);
	for (size_t i = 0; i < interfaces.count; i++) {
		_cleanup_free_ char *port = NULL;
		unsigned ifindex;
		char file[128];

		(void) snprintf(file, sizeof(file), "net/%s/phys_port_name", interfaces.items[i]);
		port = read_text(root_fd, name, file);
		(void) snprintf(file, sizeof(file), "net/%s/ifindex", interfaces.items[i]);
		if (!(port && is_representor(port)) && read_number(root_fd, name, file, &ifindex) &&
			(!best || ifindex < best))
			best = ifindex;
	}
	return (int) best;
}

static void read_function(int root_fd, const char *name, struct device_vf *vf)
{
	_cleanup_free_ char *override = NULL;
	char function[DEVICE_NAME_SIZE];
	char link[32];

	(void) snprintf(link, sizeof(link), "virtfn%u", vf->index);
	device_link(root_fd, name, link, vf->function);
	if (!*vf->function)
		return;
	(void) snprintf(function, sizeof(function), "pci/%s", vf->function);
	device_link(root_fd, function, "driver", vf->driver);
	override = read_text(root_fd, function, "driver_override");
	if (override && strcmp(override, "(null)") != 0)
		(void) snprintf(
			vf->override, sizeof(vf->override), "%.*s", DEVICE_PART_SIZE - 1, override);
}

int device_read_sysfs(int root_fd, const char *name, struct device *device)
{
	unsigned autoprobe = 0;

	*device = (struct device){ 0 };
	(void) snprintf(device->name, sizeof(device->name), "%s", name);
	device_link(root_fd, name, "driver", device->driver);
	if (read_number(root_fd, name, "sriov_numvfs", &device->vf_number))
		device->known |= DEVICE_VFS;
	if (read_number(root_fd, name, "sriov_drivers_autoprobe", &autoprobe))
		device->known |= DEVICE_AUTOPROBE;
	device->autoprobe = autoprobe != 0;
	device->ifindex = find_ifindex(root_fd, name);
	if (device->vf_number == 0)
		return 0;
	device->vfs = calloc(device->vf_number, sizeof(*device->vfs));
	if (!device->vfs)
		return -ENOMEM;
	device->vf_count = device->vf_number;
	for (unsigned i = 0; i < device->vf_number; i++) {
		device->vfs[i].index = i;
		read_function(root_fd, name, &device->vfs[i]);
	}
	return 0;
}

void device_read_subfunction(int root_fd, const char *name, struct device_sf *sf)
{
	_cleanup_strv_ struct strv entries = { 0 };
	char path[PATH_MAX];

	*sf->auxiliary = '\0';
	*sf->driver = '\0';
	device_path(name, "", path, sizeof(path));
	/* A subfunction of another controller is on another host. */
	if (sf->controller || fs_list(root_fd, path, &entries) < 0)
		return;
	for (size_t i = 0; i < entries.count; i++) {
		char file[256];
		unsigned number;

		if (!strstr(entries.items[i], ".sf."))
			continue;
		(void) snprintf(file, sizeof(file), "%s/sfnum", entries.items[i]);
		if (!read_number(root_fd, name, file, &number) || number != sf->number)
			continue;
		(void) snprintf(sf->auxiliary, sizeof(sf->auxiliary), "%.*s", DEVICE_PART_SIZE - 1,
			entries.items[i]);
		(void) snprintf(file, sizeof(file), "%s/driver", entries.items[i]);
		device_link(root_fd, name, file, sf->driver);
		return;
	}
}

/* ---- what its interface knows of its VFs */

static int keep_vfs(void *context, const struct nlmsghdr *message)
{
	device_take_vfs(message, context);
	return 0;
}

int device_read_vfs(struct netlink *route, struct device *device, struct error *error)
{
	struct nlmsghdr *request;
	struct ifinfomsg *link;

	if (!device->ifindex || !device->vf_count)
		return 0;
	request = netlink_request(route, RTM_GETLINK, 0, sizeof(*link));
	link = mnl_nlmsg_get_payload(request);
	link->ifi_index = device->ifindex;
	/* Without statistics: 64 KiB, the most of an attribute, are then enough for 300 VFs. */
	mnl_attr_put_u32(request, IFLA_EXT_MASK, RTEXT_FILTER_VF | RTEXT_FILTER_SKIP_STATS);
	return netlink_talk(route, request, keep_vfs, device, error);
}

/* ---- saving */

/* A device whose driver answers with an error, or has no eswitch, is kept without it. */
static int read_device(const struct run *run, struct netlink *route, struct netlink *devlink,
	const char *name, struct device_list *list, struct error *error)
{
	struct device *device = array_add(&list->items, &list->count, sizeof(*device));
	struct error why = { 0 };
	size_t known = 0;
	int r;

	if (!device || device_read_sysfs(run->netstate->root_fd, name, device) < 0)
		return error_set_errno(error, -ENOMEM, "%s", name);
	r = device_read_vfs(route, device, error);
	if (r < 0)
		return error_prefix(error, r, "%s: its VFs", name);
	for (size_t i = 0; i < device->vf_count; i++)
		known += device->vfs[i].known != 0;
	if (known < device->vf_count)
		run_note(run,
			"%s: what it holds for %zu of its %zu VFs is not known, and not saved: %s",
			name, device->vf_count - known, device->vf_count,
			device->ifindex ? "the kernel leaves it out"
					: "its interface is not in this network namespace");
	if (!devlink)
		return 0;
	r = devlink_ask(devlink, DEVLINK_CMD_ESWITCH_GET, name, list, &why);
	if (r < 0 && r != -EOPNOTSUPP && r != -ENODEV)
		run_note(run, "%s: its eswitch's mode is not known, and not saved: %s", name,
			why.text);
	return 0;
}

/* Asked once for all devices. */
static int read_devlink(const struct run *run, struct netlink *devlink, struct device_list *devices)
{
	struct error why = { 0 };

	if (devlink_ask(devlink, DEVLINK_CMD_PARAM_GET, NULL, devices, &why) < 0)
		run_note(run, "devlink's parameters are not known, and not saved: %s", why.text);
	if (devlink_ask(devlink, DEVLINK_CMD_PORT_GET, NULL, devices, &why) < 0)
		run_note(run, "subfunctions are not known, and not saved: %s", why.text);
	/* A kernel before 5.14 has no rates. */
	(void) !devlink_ask(devlink, DEVLINK_CMD_RATE_GET, NULL, devices, &why);
	for (size_t i = 0; i < devices->count; i++) {
		struct device *device = &devices->items[i];

		for (size_t k = 0; k < device->sf_count; k++)
			device_read_subfunction(
				run->netstate->root_fd, device->name, &device->sfs[k]);
		if (device->has_rates && run_record_unsaved(run, device->name,
						 "its rates (devlink port function rate)") < 0)
			return -ENOMEM;
	}
	return 0;
}

int devices_save(const struct run *run, struct error *error)
{
	_cleanup_(device_list_free) struct device_list devices = { 0 };
	_cleanup_(netlink_close) struct netlink *devlink = NULL; /* NULL: a kernel without it */
	_cleanup_(netlink_close) struct netlink *route = NULL;
	_cleanup_strv_ struct strv names = { 0 };
	int r = device_names(run->netstate->root_fd, run->netstate->modules, &names);

	if (r < 0)
		return error_set_errno(error, r, "the devices of the modules that go");
	if (!names.count)
		return 0;
	r = netlink_open(NETLINK_ROUTE, &route, error);
	if (r < 0)
		return r;
	r = netlink_open_family(DEVLINK_GENL_NAME, &devlink, error);
	if (r < 0 && r != -ENOENT)
		return r;
	for (size_t i = 0; i < names.count; i++) {
		if (records_find(run->records, "device", "device", names.items[i]))
			continue;
		r = read_device(run, route, devlink, names.items[i], &devices, error);
		if (r < 0)
			return r;
	}
	r = devlink ? read_devlink(run, devlink, &devices) : 0;
	for (size_t i = 0; r >= 0 && i < devices.count; i++)
		r = device_store(&devices.items[i], run->records);
	return r < 0 ? error_set_errno(error, r, "the saved network state") : 0;
}

bool devices_are_driven(int root_fd, const struct statefile *records)
{
	for (size_t i = 0; i < records->count; i++) {
		const char *device = record_get(&records->items[i], "device");

		if (device && strcmp(records->items[i].kind, "device") == 0 &&
			device_has_file(root_fd, device, "driver"))
			return true;
	}
	return !records_find(records, "device", NULL, NULL);
}

/* ---- what was set up since */

static bool is_set_up(const struct run *run, struct netlink *devlink, const char *name)
{
	_cleanup_(device_free) struct device now = { 0 };
	struct device_list list = { &now, 1 };
	struct error ignored;

	if (device_read_sysfs(run->netstate->root_fd, name, &now) == 0 && now.vf_number)
		return true;
	return devlink &&
	       devlink_ask(devlink, DEVLINK_CMD_ESWITCH_GET, name, &list, &ignored) == 0 &&
	       (now.known & DEVICE_MODE) && now.mode == DEVLINK_ESWITCH_MODE_SWITCHDEV;
}

void devices_forget_set_up(const struct run *run)
{
	_cleanup_(netlink_close) struct netlink *devlink = NULL;
	_cleanup_strv_ struct strv names = { 0 };
	struct error ignored;

	if (device_names(run->netstate->root_fd, run->netstate->modules, &names) < 0)
		return;
	(void) !netlink_open_family(DEVLINK_GENL_NAME, &devlink, &ignored);
	for (size_t i = 0; i < names.count; i++) {
		if (!records_find(run->records, "device", "device", names.items[i]) ||
			!is_set_up(run, devlink, names.items[i]))
			continue;
		run_note(run, "%s: it was set up since its state was saved: that is kept",
			names.items[i]);
		device_forget(run->records, names.items[i]);
	}
}
