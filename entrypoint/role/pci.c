/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/role/pci.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/pci_regs.h>
#include <stdarg.h>
#include <string.h>

#include "common/fs.h"
#include "entrypoint/contract.h"

#define CLASS_NETWORK 0x02
#define CLASS_DISPLAY 0x03
#define CLASS_BRIDGE  0x0680

#define CONFIG_SIZE  256u /* of a conventional function; PCI Express has 4096 */
#define CONFIG_LIMIT 4096

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
	for (size_t i = 0; i < addresses.count; i++) {
		const char *address = addresses.items[i];
		struct pci_function *function = &functions[count];
		unsigned vendor = (unsigned) read_number(root_fd, address, "vendor");
		char path[512];

		/* A server has hundreds of functions, and few of them matter here. */
		if (vendor != CONTRACT_PCI_NVIDIA && vendor != CONTRACT_PCI_MELLANOX)
			continue;
		*function = (struct pci_function){
			.vendor = vendor,
			.class = (unsigned) read_number(root_fd, address, "class"),
		};
		function->kind = kind_of(vendor, function->class);
		if (function->kind == PCI_OTHER)
			continue;
		function->device = (unsigned) read_number(root_fd, address, "device");
		function->numa_node = (int) read_number(root_fd, address, "numa_node");
		(void) snprintf(function->address, sizeof(function->address), "%s", address);
		(void) snprintf(path, sizeof(path), PCI_DEVICES "/%s/driver", address);
		sysfs_link_name(root_fd, path, function->driver, sizeof(function->driver));
		count++;
	}
	*ret_functions = TAKE_PTR(functions);
	return count;
}

bool pci_is_vgpu(int root_fd, const struct pci_function *function)
{
	_cleanup_free_ char *text = NULL;
	const unsigned char *config;
	size_t size;
	char path[128];

	(void) snprintf(path, sizeof(path), PCI_DEVICES "/%s/config", function->address);
	if (fs_read(root_fd, path, CONFIG_LIMIT, &text, &size) < 0 || size < CONFIG_SIZE)
		return true;
	config = (const unsigned char *) text;
	if (!(config[PCI_STATUS] & PCI_STATUS_CAP_LIST))
		return false;
	/* A list has no more entries than fit; one that is longer is a circle. */
	for (unsigned at = config[PCI_CAPABILITY_LIST], left = CONFIG_SIZE / 4; at && left;
		left--) {
		const unsigned char *entry = config + at;

		if (at + VGPU_SIGNATURE + 2 > CONFIG_SIZE || entry[PCI_CAP_LIST_ID] == 0xff)
			return false;
		if (entry[PCI_CAP_LIST_ID] == PCI_CAP_ID_VNDR)
			return entry[PCI_CAP_FLAGS] >= VGPU_SIGNATURE + 2 &&
			       memcmp(entry + VGPU_SIGNATURE, "VF", 2) == 0;
		at = entry[PCI_CAP_LIST_NEXT];
	}
	return false;
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
