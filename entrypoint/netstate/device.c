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
#include "entrypoint/netstate/state_internal.h"
#include "entrypoint/role/pci.h"

/* ---- paths */

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

int sysfs_write(int root_fd, const char *path, const char *text)
{
	_cleanup_close_ int fd = openat(root_fd, path, O_WRONLY | O_CLOEXEC);

	return fd < 0 ? -errno : fs_write_all(fd, text, strlen(text));
}

int device_write(int root_fd, const char *name, const char *file, const char *text)
{
	char path[PATH_MAX];

	device_path(name, file, path, sizeof(path));
	return sysfs_write(root_fd, path, text);
}

/* False when the file is not there, or not a number. */
static bool read_number(int root_fd, const char *name, const char *file, unsigned *number)
{
	_cleanup_free_ char *text = NULL;
	char path[PATH_MAX];
	char *end;

	device_path(name, file, path, sizeof(path));
	if (fs_read_line(root_fd, path, &text) < 0 || !isdigit((unsigned char) *text))
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

	if (r < 0)
		return r == -ENOENT ? 0 : r;
	for (size_t i = 0; i < entries.count; i++) {
		char name[DEVLINK_NAME_SIZE + DEVICE_PART_SIZE];

		(void) snprintf(name, sizeof(name), "%s/%s", bus, entries.items[i]);
		if (strlen(name) >= DEVLINK_NAME_SIZE ||
			!device_has_file(root_fd, name, "driver") ||
			device_has_file(root_fd, name, "physfn"))
			continue;
		r = strv_push_unique(names, name);
		if (r < 0)
			return r;
	}
	return 0;
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

/* ---- a device's own interface */

/* Representors stand beside it, named "pf0vf1", "pf0sf88" or "c1pf0vf0": devlink's
 * devlink_compat_phys_port_name_get(). */
static bool is_representor(const char *port)
{
	if (*port == 'c' && isdigit((unsigned char) port[1]))
		port += 1 + strspn(port + 1, "0123456789");
	return port[0] == 'p' && port[1] == 'f' && isdigit((unsigned char) port[2]);
}

static int own_ifindex(int root_fd, const char *name, const char *interface)
{
	_cleanup_free_ char *port = NULL;
	char path[PATH_MAX];
	char file[128];
	unsigned ifindex = 0;

	(void) snprintf(file, sizeof(file), "net/%s/phys_port_name", interface);
	device_path(name, file, path, sizeof(path));
	if (fs_read_line(root_fd, path, &port) == 0 && is_representor(port))
		return 0;
	(void) snprintf(file, sizeof(file), "net/%s/ifindex", interface);
	return read_number(root_fd, name, file, &ifindex) ? (int) ifindex : 0;
}

/* The first that came, where there are several (ports, interfaces above). */
static int find_ifindex(int root_fd, const char *name)
{
	_cleanup_strv_ struct strv interfaces = { 0 };
	char path[PATH_MAX];
	int best = 0;

	device_path(name, "net", path, sizeof(path));
	if (fs_list(root_fd, path, &interfaces) < 0)
		return 0;
	for (size_t i = 0; i < interfaces.count; i++) {
		int ifindex = own_ifindex(root_fd, name, interfaces.items[i]);

		if (ifindex && (!best || ifindex < best))
			best = ifindex;
	}
	return best;
}

/* ---- VFs */

static void read_override(int root_fd, const char *name, char override[DEVICE_PART_SIZE])
{
	_cleanup_free_ char *text = NULL;
	char path[PATH_MAX];

	*override = '\0';
	device_path(name, "driver_override", path, sizeof(path));
	if (fs_read_line(root_fd, path, &text) == 0 && strcmp(text, "(null)") != 0)
		(void) snprintf(override, DEVICE_PART_SIZE, "%.*s", DEVICE_PART_SIZE - 1, text);
}

static void read_function(int root_fd, const char *name, struct device_vf *vf)
{
	char link[32];
	char function[DEVLINK_NAME_SIZE];

	(void) snprintf(link, sizeof(link), "virtfn%u", vf->settings.index);
	device_link(root_fd, name, link, vf->function);
	*vf->driver = '\0';
	*vf->override = '\0';
	if (!*vf->function)
		return;
	(void) snprintf(function, sizeof(function), "pci/%s", vf->function);
	device_link(root_fd, function, "driver", vf->driver);
	read_override(root_fd, function, vf->override);
}

int device_read_sysfs(int root_fd, const char *name, struct device *device)
{
	unsigned autoprobe = 0;

	*device = (struct device){ 0 };
	(void) snprintf(device->name, sizeof(device->name), "%s", name);
	device_link(root_fd, name, "driver", device->driver);
	device->has_vfs = read_number(root_fd, name, "sriov_numvfs", &device->vf_number);
	device->has_autoprobe = read_number(root_fd, name, "sriov_drivers_autoprobe", &autoprobe);
	device->autoprobe = autoprobe != 0;
	device->ifindex = find_ifindex(root_fd, name);
	if (device->vf_number == 0)
		return 0;
	device->vfs = calloc(device->vf_number, sizeof(*device->vfs));
	if (!device->vfs)
		return -ENOMEM;
	device->vf_count = device->vf_number;
	for (unsigned i = 0; i < device->vf_number; i++) {
		device->vfs[i].settings.index = i;
		read_function(root_fd, name, &device->vfs[i]);
	}
	return 0;
}

static int keep_vfs(void *context, const struct nlmsghdr *message)
{
	return vf_read(message, context);
}

int device_read_vfs(struct netlink *route, struct device *device, struct error *error)
{
	struct nlmsghdr *request;
	struct vf_list list = { 0 };
	struct ifinfomsg *link;
	int r;

	if (!device->ifindex || !device->vf_count)
		return 0;
	request = netlink_request(route, RTM_GETLINK, 0);
	link = netlink_extra(request, sizeof(*link));
	link->ifi_index = device->ifindex;
	/* Without statistics: 64 KiB, the most of an attribute, are then enough for 300 VFs. */
	mnl_attr_put_u32(request, IFLA_EXT_MASK, RTEXT_FILTER_VF | RTEXT_FILTER_SKIP_STATS);
	r = netlink_talk(route, request, keep_vfs, &list, error);
	for (size_t i = 0; r == 0 && i < list.count; i++)
		if (list.items[i].index < device->vf_count)
			device->vfs[list.items[i].index].settings = list.items[i];
	free(list.items);
	return r;
}

/* ---- subfunctions */

void device_read_subfunction(int root_fd, const char *name, struct device_sf *sf)
{
	_cleanup_strv_ struct strv entries = { 0 };
	char path[PATH_MAX];

	*sf->auxiliary = '\0';
	*sf->driver = '\0';
	device_path(name, "", path, sizeof(path));
	/* A subfunction of another controller is on another host. */
	if (sf->port.controller || fs_list(root_fd, path, &entries) < 0)
		return;
	for (size_t i = 0; i < entries.count; i++) {
		char file[256];
		unsigned number;

		if (!strstr(entries.items[i], ".sf."))
			continue;
		(void) snprintf(file, sizeof(file), "%s/sfnum", entries.items[i]);
		if (!read_number(root_fd, name, file, &number) || number != sf->port.number)
			continue;
		(void) snprintf(sf->auxiliary, sizeof(sf->auxiliary), "%.*s", DEVICE_PART_SIZE - 1,
			entries.items[i]);
		(void) snprintf(file, sizeof(file), "%s/driver", entries.items[i]);
		device_link(root_fd, name, file, sf->driver);
		return;
	}
}

/* ---- saving */

struct saving {
	const struct netstate *netstate;
	struct device_list devices;
	struct devlink *devlink; /* NULL: a kernel without it */
	struct netlink *route;
};

static void saving_end(struct saving *saving)
{
	device_list_free(&saving->devices);
	devlink_close(&saving->devlink);
	netlink_close(&saving->route);
}

static bool is_recorded(const struct statefile *records, const char *name)
{
	for (size_t i = 0; i < records->count; i++) {
		const char *device = record_get(&records->items[i], "device");

		if (device && strcmp(records->items[i].kind, "device") == 0 &&
			strcmp(device, name) == 0)
			return true;
	}
	return false;
}

/* A device whose driver answers with an error, or has no eswitch, is kept without it. */
static int read_device(struct saving *saving, const char *name, struct error *error)
{
	struct device_list *list = &saving->devices;
	struct device *items = reallocarray(list->items, list->count + 1, sizeof(*items));
	struct error why = { 0 };
	struct device *device;
	size_t known = 0;
	int r;

	if (!items)
		return error_set_errno(error, -ENOMEM, "%s", name);
	list->items = items;
	device = &items[list->count];
	r = device_read_sysfs(saving->netstate->root_fd, name, device);
	if (r < 0)
		return error_set_errno(error, r, "%s", name);
	list->count++;
	r = device_read_vfs(saving->route, device, error);
	if (r < 0)
		return error_prefix(error, r, "%s: its VFs", name);
	for (size_t i = 0; i < device->vf_count; i++)
		known += device->vfs[i].settings.known != 0;
	if (known < device->vf_count)
		netstate_note(saving->netstate,
			"%s: what it holds for %zu of its %zu VFs is not known, and not saved: %s",
			name, device->vf_count - known, device->vf_count,
			device->ifindex ? "the kernel leaves it out"
					: "its interface is not in this network namespace");
	if (!saving->devlink)
		return 0;
	r = devlink_eswitch_get(saving->devlink, name, &device->eswitch, &why);
	if (r < 0 && r != -EOPNOTSUPP && r != -ENODEV)
		netstate_note(saving->netstate,
			"%s: its eswitch's mode is not known, and not saved: %s", name, why.text);
	return 0;
}

static int keep_param(void *context, const char *name, const struct devlink_param *param)
{
	struct device *device = device_list_find(context, name);

	return device ? device_add_param(device, param) : 0;
}

static int keep_port(void *context, const char *name, const struct devlink_port *port)
{
	struct device *device = device_list_find(context, name);

	return device ? device_add_subfunction(device, port) : 0;
}

/* Asked once for all devices. */
static int read_devlink(struct saving *saving, struct statefile *records)
{
	_cleanup_strv_ struct strv rated = { 0 };
	struct error error = { 0 };

	if (!saving->devlink)
		return 0;
	if (devlink_params(saving->devlink, keep_param, &saving->devices, &error) < 0)
		netstate_note(saving->netstate,
			"devlink's parameters are not known, and not saved: %s", error.text);
	if (devlink_ports(saving->devlink, NULL, keep_port, &saving->devices, &error) < 0)
		netstate_note(saving->netstate, "subfunctions are not known, and not saved: %s",
			error.text);
	/* A kernel before 5.14 has no rates. */
	(void) !devlink_rated(saving->devlink, &rated, &error);
	for (size_t i = 0; i < saving->devices.count; i++) {
		struct device *device = &saving->devices.items[i];

		for (size_t k = 0; k < device->sf_count; k++)
			device_read_subfunction(
				saving->netstate->root_fd, device->name, &device->sfs[k]);
	}
	for (size_t i = 0; i < rated.count; i++)
		if (device_list_find(&saving->devices, rated.items[i]) &&
			netstate_unsaved(records, rated.items[i],
				"its rates (devlink port function rate)") < 0)
			return -ENOMEM;
	return 0;
}

static int save_all(struct saving *saving, const struct strv *names, struct statefile *records,
	struct error *error)
{
	int r = netlink_open(NETLINK_ROUTE, &saving->route, error);

	if (r < 0)
		return r;
	r = devlink_open(&saving->devlink, error);
	if (r < 0 && r != -ENOENT)
		return r;
	r = 0;
	for (size_t i = 0; r == 0 && i < names->count; i++)
		if (!is_recorded(records, names->items[i]))
			r = read_device(saving, names->items[i], error);
	if (r < 0)
		return r;
	r = read_devlink(saving, records);
	for (size_t i = 0; r == 0 && i < saving->devices.count; i++)
		r = device_store(&saving->devices.items[i], records);
	return r < 0 ? error_set_errno(error, r, "the saved network state") : 0;
}

int devices_save(const struct netstate *netstate, struct statefile *records, struct error *error)
{
	_cleanup_(saving_end) struct saving saving = { .netstate = netstate };
	_cleanup_strv_ struct strv names = { 0 };
	int r = device_names(netstate->root_fd, netstate->modules, &names);

	if (r < 0)
		return error_set_errno(error, r, "the devices of the modules that go");
	return names.count ? save_all(&saving, &names, records, error) : 0;
}

bool devices_are_driven(int root_fd, const struct statefile *records)
{
	bool is_any_recorded = false;

	for (size_t i = 0; i < records->count; i++) {
		const char *device = record_get(&records->items[i], "device");
		char driver[DEVICE_PART_SIZE];

		if (!device || strcmp(records->items[i].kind, "device") != 0)
			continue;
		is_any_recorded = true;
		device_link(root_fd, device, "driver", driver);
		if (*driver)
			return true;
	}
	return !is_any_recorded;
}

/* ---- what somebody has set up since */

static bool is_set_up(const struct netstate *netstate, struct devlink *devlink, const char *name)
{
	struct devlink_eswitch eswitch = { 0 };
	struct error ignored;
	struct device now;
	bool has_vfs = device_read_sysfs(netstate->root_fd, name, &now) == 0 && now.vf_number;

	device_free(&now);
	return has_vfs ||
	       (devlink && devlink_eswitch_get(devlink, name, &eswitch, &ignored) == 0 &&
		       eswitch.has_mode && eswitch.mode == DEVLINK_ESWITCH_MODE_SWITCHDEV);
}

void devices_forget_set_up(const struct netstate *netstate, struct statefile *records)
{
	_cleanup_(devlink_close) struct devlink *devlink = NULL;
	_cleanup_strv_ struct strv names = { 0 };
	struct error ignored;

	if (device_names(netstate->root_fd, netstate->modules, &names) < 0)
		return;
	(void) devlink_open(&devlink, &ignored);
	for (size_t i = 0; i < names.count; i++) {
		if (!is_recorded(records, names.items[i]) ||
			!is_set_up(netstate, devlink, names.items[i]))
			continue;
		netstate_note(netstate,
			"%s: somebody has set it up since its state was saved: that is kept",
			names.items[i]);
		device_forget(records, names.items[i]);
	}
}
