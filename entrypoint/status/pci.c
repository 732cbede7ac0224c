/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/status/pci.h"

#include <limits.h>
#include <string.h>

#include "common/fs.h"
#include "entrypoint/contract.h"

#define PCI_DEVICES   "sys/bus/pci/devices"
#define MELLANOX      0x15b3
#define CLASS_NETWORK 0x02
#define CLASS_DISPLAY 0x03
#define CLASS_BRIDGE  0x0680

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
	char path[128];

	(void) snprintf(path, sizeof(path), PCI_DEVICES "/%s/%s", address, file);
	return fs_read_line(root_fd, path, &text) < 0 ? -1 : strtol(text, NULL, 0);
}

static void read_driver(int root_fd, struct pci_function *function)
{
	char target[PATH_MAX];
	char path[128];
	const char *name;
	ssize_t length;

	(void) snprintf(path, sizeof(path), PCI_DEVICES "/%s/driver", function->address);
	length = readlinkat(root_fd, path, target, sizeof(target) - 1);
	target[length < 0 ? 0 : length] = '\0';
	name = strrchr(target, '/');
	(void) snprintf(function->driver, sizeof(function->driver), "%.*s",
		(int) sizeof(function->driver) - 1, name ? name + 1 : target);
}

/* @class has three bytes: base class, sub-class, programming interface. */
static enum pci_kind kind_of(unsigned vendor, unsigned class)
{
	if (vendor == CONTRACT_PCI_NVIDIA && class >> 16 == CLASS_DISPLAY)
		return PCI_GPU;
	if (vendor == CONTRACT_PCI_NVIDIA && class >> 8 == CLASS_BRIDGE)
		return PCI_NVSWITCH;
	if (vendor == MELLANOX && class >> 16 == CLASS_NETWORK)
		return PCI_NIC;
	return PCI_OTHER;
}

static void read_function(int root_fd, const char *address, struct pci_function *function)
{
	unsigned vendor = (unsigned) read_number(root_fd, address, "vendor");

	/* A server has hundreds of functions, and few of them matter here. */
	*function = (struct pci_function){ .vendor = vendor, .kind = PCI_OTHER };
	if (vendor != CONTRACT_PCI_NVIDIA && vendor != MELLANOX)
		return;
	function->kind = kind_of(vendor, (unsigned) read_number(root_fd, address, "class"));
	if (function->kind == PCI_OTHER)
		return;
	function->device = (unsigned) read_number(root_fd, address, "device");
	function->numa_node = (int) read_number(root_fd, address, "numa_node");
	(void) snprintf(function->address, sizeof(function->address), "%s", address);
	read_driver(root_fd, function);
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
		read_function(root_fd, addresses.items[i], &functions[count]);
		count += functions[count].kind != PCI_OTHER;
	}
	*ret_functions = TAKE_PTR(functions);
	return count;
}

int pci_count(int root_fd, enum pci_kind kind)
{
	_cleanup_free_ struct pci_function *functions = NULL;
	int count = pci_functions(root_fd, &functions);
	int found = 0;

	for (int i = 0; i < count; i++)
		found += functions[i].kind == kind;
	return found;
}
