/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/role/pci.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/pci_regs.h>
#include <stdarg.h>
#include <string.h>

#include "common/fs.h"
#include "common/path.h"
#include "entrypoint/contract.h"
#include "entrypoint/role/pci_config.h"

#define CLASS_NETWORK 0x02
#define CLASS_DISPLAY 0x03
#define CLASS_BRIDGE  0x0680

#define VGPU_SIGNATURE 3 /* behind id, next and length */

const char *pci_kind_name(enum pci_kind kind)
{
	static const char *const names[] = {
		[PCI_OTHER] = "other",
		[PCI_GPU] = "gpu",
		[PCI_NVSWITCH] = "nvswitch",
		[PCI_NIC] = "nic",
	};

	return names[kind];
}

static long read_number(int root_fd, const char *address, const char *file)
{
	_cleanup_free_ char *text = NULL;
	char path[512];

	(void) snprintf(path, sizeof(path), PCI_DEVICES "/%s/%s", address, file);
	return fs_read_line(root_fd, path, &text) < 0 ? -1 : strtol(text, NULL, 0);
}

void sysfs_link_name(int root_fd, const char *path, char *name, size_t size)
{
	char target[PATH_MAX];
	const char *slash;
	ssize_t length = readlinkat(root_fd, path, target, sizeof(target) - 1);

	target[length < 0 ? 0 : length] = '\0';
	slash = strrchr(target, '/');
	(void) snprintf(name, size, "%s", slash ? slash + 1 : target);
}

static enum pci_kind kind_of(unsigned vendor, unsigned class)
{
	if (vendor == CONTRACT_PCI_NVIDIA && class >> 16 == CLASS_DISPLAY)
		return PCI_GPU;
	if (vendor == CONTRACT_PCI_NVIDIA && class >> 8 == CLASS_BRIDGE)
		return PCI_NVSWITCH;
	if (vendor == CONTRACT_PCI_MELLANOX && class >> 16 == CLASS_NETWORK)
		return PCI_NIC;
	return PCI_OTHER;
}

/* False of a function that none of the kinds is. */
static bool read_function(int root_fd, const char *address, struct pci_function *function)
{
	unsigned vendor = (unsigned) read_number(root_fd, address, "vendor");
	char path[512];

	/* A server has hundreds of functions, and few of them matter here. */
	if (vendor != CONTRACT_PCI_NVIDIA && vendor != CONTRACT_PCI_MELLANOX)
		return false;
	*function = (struct pci_function){
		.vendor = vendor,
		.class = (unsigned) read_number(root_fd, address, "class"),
	};
	function->kind = kind_of(vendor, function->class);
	if (function->kind == PCI_OTHER)
		return false;
	function->device = (unsigned) read_number(root_fd, address, "device");
	function->numa_node = pci_numa_node(root_fd, address);
	(void) snprintf(function->address, sizeof(function->address), "%s", address);
	(void) snprintf(path, sizeof(path), PCI_DEVICES "/%s/driver", address);
	sysfs_link_name(root_fd, path, function->driver, sizeof(function->driver));
	return true;
}

int pci_functions(int root_fd, struct pci_function **ret_functions)
{
	_cleanup_free_ struct pci_function *functions = NULL;
	_cleanup_strv_ struct strv addresses = { 0 };
	int r = fs_list(root_fd, PCI_DEVICES, &addresses);
	int count = 0;

	if (r < 0)
		return r;
	functions = calloc(addresses.count + 1, sizeof(*functions));
	if (!functions)
		return -ENOMEM;
	for (size_t i = 0; i < addresses.count; i++)
		count += read_function(root_fd, addresses.items[i], &functions[count]);
	*ret_functions = TAKE_PTR(functions);
	return count;
}

int pci_numa_node(int root_fd, const char *address)
{
	return (int) read_number(root_fd, address, "numa_node");
}

int pci_iommu_group(int root_fd, const char *address)
{
	char path[128], group[16];

	(void) snprintf(path, sizeof(path), PCI_DEVICES "/%s/iommu_group", address);
	sysfs_link_name(root_fd, path, group, sizeof(group));
	return *group ? (int) strtol(group, NULL, 10) : -1;
}

int pci_config_read(int root_fd, const char *address, unsigned char **ret_config, size_t *ret_size)
{
	char *text = NULL;
	char path[128];
	int r;

	(void) snprintf(path, sizeof(path), PCI_DEVICES "/%s/config", address);
	r = fs_read(root_fd, path, PCI_CONFIG_SIZE_EXP, &text, ret_size);
	if (r < 0)
		return r;
	*ret_config = (unsigned char *) text;
	return 0;
}

bool pci_is_vgpu(int root_fd, const struct pci_function *function)
{
	_cleanup_free_ unsigned char *config = NULL;
	size_t size, at;

	if (pci_config_read(root_fd, function->address, &config, &size) < 0 ||
		size < PCI_CONFIG_SIZE)
		return true;
	at = pci_config_find(config, size, PCI_CAP_ID_VNDR, VGPU_SIGNATURE + 2);
	return at && config[at + PCI_CAP_FLAGS] >= VGPU_SIGNATURE + 2 &&
	       memcmp(config + at + VGPU_SIGNATURE, "VF", 2) == 0;
}

/* ---- where it is plugged in */

/* "0000:21:00.0", also with a longer domain, as below a VMD: "10000:e1:00.0". */
static bool is_address(const char *name)
{
	unsigned domain, bus, device, function;
	int length = 0;

	return sscanf(name, "%8x:%2x:%2x.%1x%n", &domain, &bus, &device, &function, &length) == 4 &&
	       name[length] == '\0' && length < PCI_ADDRESS_SIZE;
}

/* "pci0000:20" */
static bool is_host_bridge(const char *name)
{
	unsigned domain, bus;
	int length = 0;

	return sscanf(name, "pci%8x:%2x%n", &domain, &bus, &length) == 2 && name[length] == '\0' &&
	       length < PCI_ADDRESS_SIZE;
}

int pci_path_read(int root_fd, const char *folder, struct pci_path *path)
{
	_cleanup_free_ char *whole = NULL;
	const char *name;
	char *rest;
	int r = chase(root_fd, folder, &whole);

	if (r < 0)
		return r;
	*path = (struct pci_path){ .depth = 0 };
	rest = whole;
	while ((name = strsep(&rest, "/"))) {
		if (!*path->root && is_host_bridge(name))
			(void) snprintf(path->root, sizeof(path->root), "%s", name);
		if (!is_address(name))
			continue;
		if (*path->address) {
			if (path->depth == PCI_DEPTH_MAX)
				return -E2BIG;
			memcpy(path->bridges[path->depth++], path->address, PCI_ADDRESS_SIZE);
		}
		(void) snprintf(path->address, sizeof(path->address), "%s", name);
	}
	return *path->address ? 0 : -ENODEV;
}

/* "32.0 GT/s PCIe"; -1 of "Unknown" and where there is none. */
static int read_speed(int root_fd, const char *address, const char *file)
{
	_cleanup_free_ char *text = NULL;
	char path[512];
	double speed;

	(void) snprintf(path, sizeof(path), PCI_DEVICES "/%s/%s", address, file);
	if (fs_read_line(root_fd, path, &text) < 0)
		return -1;
	speed = strtod(text, NULL);
	return speed > 0 && speed < 1e5 ? (int) (speed * 1e3 + 0.5) : -1;
}

/* Linux writes 255 and, up to 4.19 or so, 0 for what is not known; a virtual function has 0. */
static int read_width(int root_fd, const char *address, const char *file)
{
	long width = read_number(root_fd, address, file);

	return width > 0 && width < 255 ? (int) width : -1;
}

void pci_link_read(int root_fd, const struct pci_path *path, struct pci_link *link)
{
	*link = (struct pci_link){
		.width = read_width(root_fd, path->address, "current_link_width"),
		.width_possible = read_width(root_fd, path->address, "max_link_width"),
		.speed_mts = read_speed(root_fd, path->address, "current_link_speed"),
		.speed_possible_mts = read_speed(root_fd, path->address, "max_link_speed"),
	};
	if (path->depth) {
		const char *port = path->bridges[path->depth - 1];
		int width = read_width(root_fd, port, "max_link_width");
		int speed = read_speed(root_fd, port, "max_link_speed");

		if (width > 0 && width < link->width_possible)
			link->width_possible = width;
		if (speed > 0 && speed < link->speed_possible_mts)
			link->speed_possible_mts = speed;
	}
}

bool pci_link_is_narrow(const struct pci_link *link)
{
	return link->width > 0 && link->width < link->width_possible;
}

bool pci_has_vendor(int root_fd, unsigned vendor)
{
	_cleanup_strv_ struct strv addresses = { 0 };

	if (fs_list(root_fd, PCI_DEVICES, &addresses) < 0)
		return true;
	for (size_t i = 0; i < addresses.count; i++)
		if (read_number(root_fd, addresses.items[i], "vendor") == (long) vendor)
			return true;
	return false;
}

int sysfs_put(int root_fd, const char *text, const char *format, ...)
{
	_cleanup_close_ int fd = -1;
	char path[PATH_MAX];
	va_list arguments;

	va_start(arguments, format);
	(void) vsnprintf(path, sizeof(path), format, arguments);
	va_end(arguments);
	fd = openat(root_fd, path, O_WRONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fs_write_all(fd, text, strlen(text));
}
