/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads what /sys and the kernel know about the devices whose driver goes, and saves it. Source:
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
#include "entrypoint/role/pci.h"

int device_open(int root_fd, const char *name)
{
	const char *slash = strchr(name, '/');
	char path[PATH_MAX];

	(void) snprintf(path, sizeof(path), "sys/bus/%.*s/devices/%s",
		slash ? (int) (slash - name) : 0, name, slash ? slash + 1 : name);
	return openat(root_fd, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

bool device_is_driven(int root_fd, const char *name)
{
	_cleanup_close_ int fd = device_open(root_fd, name);

	return fs_exists(fd, "driver");
}

int device_write(int root_fd, const char *name, const char *file, const char *text)
{
	_cleanup_close_ int fd = device_open(root_fd, name);

	return fd < 0 ? -errno : sysfs_put(fd, text, "%s", file);
}

bool sysfs_read_number(int dir_fd, const char *path, unsigned *ret)
{
	_cleanup_free_ char *text = NULL;
	char *end;

	if (fs_read_line(dir_fd, path, &text) < 0 || !isdigit((unsigned char) *text))
		return false;
	*ret = (unsigned) strtoul(text, &end, 10);
	return *end == '\0';
}

/* ---- the names of devices */

/* "pci/0000:3b:00.0" of a device's folder. */
static void read_name(int dir_fd, const char *path, char name[DEVICE_NAME_SIZE])
{
	_cleanup_close_ int fd = openat(dir_fd, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	char self[64];
	char device[64];
	char bus[32];

	name[0] = '\0';
	if (fd < 0)
		return;
	(void) snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
	sysfs_link_name(AT_FDCWD, self, device, sizeof(device));
	sysfs_link_name(fd, "subsystem", bus, sizeof(bus));
	if (device[0] && bus[0])
		(void) snprintf(name, DEVICE_NAME_SIZE, "%s/%s", bus, device);
}

/*
 * A subfunction's auxiliary device is numbered by who came first; its sfnum is what the one who
 * made it chose (drivers/net/ethernet/mellanox/mlx5/core/sf/dev/dev.c), and its parent is the PF.
 */
void device_name_of(int dir_fd, char name[DEVICE_NAME_SIZE])
{
	char parent[DEVICE_NAME_SIZE];
	unsigned number;

	read_name(dir_fd, "device", name);
	if (!sysfs_read_number(dir_fd, "device/sfnum", &number))
		return;
	read_name(dir_fd, "device/..", parent);
	if (parent[0])
		(void) snprintf(name, DEVICE_NAME_SIZE, "%.80s/sf/%u", parent, number);
}

/* A driver's folder has a link for each of its devices, between its own files. */
static int add_devices(int root_fd, const char *folder, const char *bus, struct strv *names)
{
	_cleanup_strv_ struct strv entries = { 0 };
	int r = fs_list(root_fd, folder, &entries);

	for (size_t i = 0; i < entries.count; i++) {
		char name[DEVICE_NAME_SIZE + DEVICE_PART_SIZE];
		_cleanup_close_ int fd = -1;

		(void) snprintf(name, sizeof(name), "%s/%s", bus, entries.items[i]);
		fd = device_open(root_fd, name);
		if (strlen(name) < DEVICE_NAME_SIZE && fs_exists(fd, "driver") &&
			!fs_exists(fd, "physfn") && strv_push_unique(names, name) < 0)
			return -ENOMEM;
	}
	return r == -ENOENT ? 0 : r;
}

int device_names(int root_fd, const struct strv *modules, struct strv *names)
{
	for (size_t i = 0; i < modules->count; i++) {
		_cleanup_strv_ struct strv drivers = { 0 };
		char folder[PATH_MAX];
		int r;

		/* It has links named "<bus>:<driver>". */
		(void) snprintf(folder, sizeof(folder), "sys/module/%s/drivers", modules->items[i]);
		r = fs_list(root_fd, folder, &drivers);
		if (r < 0 && r != -ENOENT)
			return r;
		for (size_t k = 0; k < drivers.count; k++) {
			char *bus = drivers.items[k];
			char *colon = strchr(bus, ':');

			if (!colon)
				continue;
			*colon = '\0';
			if (strcmp(bus, "auxiliary") == 0)
				continue;
			(void) snprintf(
				folder, sizeof(folder), "sys/bus/%s/drivers/%s", bus, colon + 1);
			r = add_devices(root_fd, folder, bus, names);
			if (r < 0)
				return r;
		}
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

/*
 * Returns the device's own interface that came first (lowest index), if it has several (ports,
 * interfaces above); 0: none.
 */
static int find_ifindex(int device_fd)
{
	_cleanup_strv_ struct strv interfaces = { 0 };
	unsigned best = 0;

	(void) !fs_list(device_fd, "net", &interfaces);
	for (size_t i = 0; i < interfaces.count; i++) {
		_cleanup_free_ char *port = NULL;
		unsigned ifindex;
		char file[128];

		(void) snprintf(file, sizeof(file), "net/%s/phys_port_name", interfaces.items[i]);
		if (fs_read_line(device_fd, file, &port) == 0 && is_representor(port))
			continue;
		(void) snprintf(file, sizeof(file), "net/%s/ifindex", interfaces.items[i]);
		if (sysfs_read_number(device_fd, file, &ifindex) && (!best || ifindex < best))
			best = ifindex;
	}
	return (int) best;
}

static void read_function(int device_fd, struct device_vf *vf)
{
	_cleanup_free_ char *override = NULL;
	_cleanup_close_ int fd = -1;
	char link[32];

	(void) snprintf(link, sizeof(link), "virtfn%u", vf->index);
	sysfs_link_name(device_fd, link, vf->function, sizeof(vf->function));
	fd = openat(device_fd, link, O_PATH | O_DIRECTORY | O_CLOEXEC);
	sysfs_link_name(fd, "driver", vf->driver, sizeof(vf->driver));
	if (fs_read_line(fd, "driver_override", &override) == 0 && strcmp(override, "(null)") != 0)
		(void) snprintf(
			vf->override, sizeof(vf->override), "%.*s", DEVICE_PART_SIZE - 1, override);
}

int device_read_sysfs(int root_fd, const char *name, struct device *device)
{
	_cleanup_close_ int fd = device_open(root_fd, name);
	unsigned autoprobe = 0;

	*device = (struct device){ 0 };
	(void) snprintf(device->name, sizeof(device->name), "%s", name);
	sysfs_link_name(fd, "driver", device->driver, sizeof(device->driver));
	if (sysfs_read_number(fd, "sriov_numvfs", &device->vf_number))
		device->known |= DEVICE_VFS;
	if (sysfs_read_number(fd, "sriov_drivers_autoprobe", &autoprobe))
		device->known |= DEVICE_AUTOPROBE;
	device->autoprobe = autoprobe != 0;
	device->ifindex = find_ifindex(fd);
	if (device->vf_number == 0)
		return 0;
	device->vfs = calloc(device->vf_number, sizeof(*device->vfs));
	if (!device->vfs)
		return -ENOMEM;
	device->vf_count = device->vf_number;
	for (unsigned i = 0; i < device->vf_number; i++) {
		device->vfs[i].index = i;
		read_function(fd, &device->vfs[i]);
	}
	return 0;
}

void device_read_subfunction(int root_fd, const char *name, struct device_sf *sf)
{
	_cleanup_close_ int fd = device_open(root_fd, name);
	_cleanup_strv_ struct strv entries = { 0 };

	*sf->auxiliary = '\0';
	*sf->driver = '\0';
	/* A subfunction of another controller is on another host. */
	if (sf->controller || fs_list(fd, ".", &entries) < 0)
		return;
	for (size_t i = 0; i < entries.count; i++) {
		char file[256];
		unsigned number;

		if (!strstr(entries.items[i], ".sf."))
			continue;
		(void) snprintf(file, sizeof(file), "%s/sfnum", entries.items[i]);
		if (!sysfs_read_number(fd, file, &number) || number != sf->number)
			continue;
		(void) snprintf(sf->auxiliary, sizeof(sf->auxiliary), "%.*s", DEVICE_PART_SIZE - 1,
			entries.items[i]);
		(void) snprintf(file, sizeof(file), "%s/driver", entries.items[i]);
		sysfs_link_name(fd, file, sf->driver, sizeof(sf->driver));
		return;
	}
}

/* ---- what its interface knows of its VFs */

int device_read_vfs(struct netlink *route, struct device *device, struct error *error)
{
	struct nlmsghdr *request;

	if (!device->ifindex || !device->vf_count)
		return 0;
	request = netlink_link_request(route, RTM_GETLINK, 0, (uint32_t) device->ifindex);
	/* Without statistics: 64 KiB, the most of an attribute, are then enough for 300 VFs. */
	mnl_attr_put_u32(request, IFLA_EXT_MASK, RTEXT_FILTER_VF | RTEXT_FILTER_SKIP_STATS);
	return netlink_talk(route, request, device_take_vfs, device, error);
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
			"%s: the settings of %zu of its %zu VFs cannot be read and are not "
			"saved: %s",
			name, device->vf_count - known, device->vf_count,
			device->ifindex ? "the kernel does not report them"
					: "its interface is not in this network namespace");
	if (!devlink)
		return 0;
	r = devlink_ask(devlink, DEVLINK_CMD_ESWITCH_GET, name, list, &why);
	if (r < 0 && r != -EOPNOTSUPP && r != -ENODEV)
		run_note(run, "%s: its eswitch mode cannot be read and is not saved: %s", name,
			why.text);
	return 0;
}

/* Asked once for all devices. */
static int read_devlink(const struct run *run, struct netlink *devlink, struct device_list *devices)
{
	struct error why = { 0 };

	if (devlink_ask(devlink, DEVLINK_CMD_PARAM_GET, NULL, devices, &why) < 0)
		run_note(run, "devlink parameters cannot be read and are not saved: %s", why.text);
	if (devlink_ask(devlink, DEVLINK_CMD_PORT_GET, NULL, devices, &why) < 0)
		run_note(run, "subfunctions cannot be read and are not saved: %s", why.text);
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
		run_note(run, "%s was configured after its state was saved: its new state is kept",
			names.items[i]);
		records_forget(run->records, device_kinds, "device", names.items[i]);
	}
}
