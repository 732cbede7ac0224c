/* SPDX-License-Identifier: Apache-2.0 */
/* What /sys and the kernel say of a device. Source: Documentation/ABI/testing/sysfs-bus-pci. */
#include "entrypoint/netstate/device_state.h"

#include <ctype.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "common/fs.h"

void device_free(struct device *device)
{
	free(device->vfs);
	free(device->sfs);
	free(device->ports);
	free(device->rates);
	free(device->params);
	*device = (struct device){ 0 };
}

void device_list_free(struct device_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		device_free(&list->items[i]);
	free(list->items);
	*list = (struct device_list){ 0 };
}

struct device *device_list_find(const struct device_list *list, const char *name)
{
	for (size_t i = 0; i < list->count; i++)
		if (strcmp(list->items[i].name, name) == 0)
			return &list->items[i];
	return NULL;
}

/* ---- paths */

void device_path(const char *name, const char *file, char *path, size_t size)
{
	const char *slash = strchr(name, '/');
	int bus = slash ? (int) (slash - name) : 0;

	(void) snprintf(path, size, "sys/bus/%.*s/devices/%s/%s", bus, name,
		slash ? slash + 1 : name, file);
}

static void last_part(int root_fd, const char *path, char part[DEVICE_PART_SIZE])
{
	char target[PATH_MAX];
	ssize_t length = readlinkat(root_fd, path, target, sizeof(target) - 1);
	const char *slash;

	target[length < 0 ? 0 : length] = '\0';
	slash = strrchr(target, '/');
	(void) snprintf(
		part, DEVICE_PART_SIZE, "%.*s", DEVICE_PART_SIZE - 1, slash ? slash + 1 : target);
}

void device_link(int root_fd, const char *name, const char *link, char part[DEVICE_PART_SIZE])
{
	char path[PATH_MAX];

	device_path(name, link, path, sizeof(path));
	last_part(root_fd, path, part);
}

void device_module(int root_fd, const char *name, char module[DEVICE_PART_SIZE])
{
	device_link(root_fd, name, "driver/module", module);
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

static bool is_virtual_function(int root_fd, const char *name)
{
	char physical[DEVICE_PART_SIZE];

	device_link(root_fd, name, "physfn", physical);
	return *physical != '\0';
}

/* A driver's folder has a link for each of its devices, between its own files. */
static int add_devices(int root_fd, const char *folder, const char *bus, struct strv *names)
{
	_cleanup_strv_ struct strv entries = { 0 };
	int r = fs_list(root_fd, folder, &entries);

	for (size_t i = 0; r == 0 && i < entries.count; i++) {
		char name[DEVLINK_NAME_SIZE + DEVICE_PART_SIZE];
		char path[PATH_MAX];

		(void) snprintf(name, sizeof(name), "%s/%s", bus, entries.items[i]);
		if (strlen(name) >= DEVLINK_NAME_SIZE)
			continue;
		device_path(name, "driver", path, sizeof(path));
		if (!fs_exists(root_fd, path) || is_virtual_function(root_fd, name))
			continue;
		r = strv_push_unique(names, name);
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
	for (size_t i = 0; r == 0 && i < drivers.count; i++) {
		char *bus = drivers.items[i];
		char *colon = strchr(bus, ':');

		if (!colon)
			continue;
		*colon = '\0';
		if (strcmp(bus, "auxiliary") == 0)
			continue;
		(void) snprintf(folder, sizeof(folder), "sys/bus/%s/drivers/%s", bus, colon + 1);
		r = add_devices(root_fd, folder, bus, names);
	}
	return r == -ENOENT ? 0 : r;
}

int device_names(int root_fd, const struct strv *modules, struct strv *names)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < modules->count; i++)
		r = add_drivers(root_fd, modules->items[i], names);
	if (r == 0)
		strv_sort(names);
	return r;
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

void device_read_function(int root_fd, const char *name, struct device_vf *vf)
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
		device_read_function(root_fd, name, &device->vfs[i]);
	}
	return 0;
}

int device_read_vfs(struct netlink *route, struct device *device, struct error *error)
{
	struct vf_list list = { 0 };
	int r;

	if (!device->ifindex || !device->vf_count)
		return 0;
	r = vf_ask(route, device->ifindex, &list, error);
	for (size_t i = 0; r == 0 && i < list.count; i++)
		if (list.items[i].index < device->vf_count)
			device->vfs[list.items[i].index].settings = list.items[i];
	free(list.items);
	return r;
}

/* ---- subfunctions and parameters */

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

int device_add_param(struct device *device, const struct devlink_param *param)
{
	struct devlink_param *params =
		reallocarray(device->params, device->param_count + 1, sizeof(*params));

	if (!params)
		return -ENOMEM;
	device->params = params;
	params[device->param_count++] = *param;
	return 0;
}

bool device_is_same_port(const struct devlink_port *one, const struct devlink_port *other)
{
	return one->is_vf == other->is_vf && one->controller == other->controller &&
	       one->pf == other->pf && one->number == other->number;
}

static int add_vf_port(struct device *device, const struct devlink_port *port)
{
	struct devlink_port *ports =
		reallocarray(device->ports, device->port_count + 1, sizeof(*ports));

	if (!ports)
		return -ENOMEM;
	device->ports = ports;
	ports[device->port_count++] = *port;
	return 0;
}

int device_add_port(struct device *device, const struct devlink_port *port)
{
	struct device_sf *sfs;

	if (port->is_vf)
		return add_vf_port(device, port);
	sfs = reallocarray(device->sfs, device->sf_count + 1, sizeof(*sfs));
	if (!sfs)
		return -ENOMEM;
	device->sfs = sfs;
	sfs[device->sf_count++] = (struct device_sf){ .port = *port };
	return 0;
}

int device_add_rate(
	struct device *device, const struct devlink_rate *rate, const struct devlink_port *port)
{
	struct device_rate *rates =
		reallocarray(device->rates, device->rate_count + 1, sizeof(*rates));

	if (!rates)
		return -ENOMEM;
	device->rates = rates;
	rates[device->rate_count] = (struct device_rate){ .rate = *rate };
	if (port)
		rates[device->rate_count].port = *port;
	device->rate_count++;
	return 0;
}

int device_keep_rate(struct device *device, const struct devlink_rate *rate)
{
	if (*rate->node)
		return device_add_rate(device, rate, NULL);
	if (!rate->share && !rate->max && !*rate->parent)
		return 0;
	for (size_t i = 0; i < device->port_count; i++)
		if (device->ports[i].index == rate->port_index)
			return device_add_rate(device, rate, &device->ports[i]);
	for (size_t i = 0; i < device->sf_count; i++)
		if (device->sfs[i].port.index == rate->port_index)
			return device_add_rate(device, rate, &device->sfs[i].port);
	return 0;
}
