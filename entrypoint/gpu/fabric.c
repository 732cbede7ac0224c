/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/gpu/fabric.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "common/fs.h"
#include "entrypoint/contract.h"
#include "entrypoint/role/pci.h"

#define MAD_CLASS "sys/class/infiniband_mad"

/* PCI's class code without the programming interface (pci.ids). */
#define CLASS_INFINIBAND 0x0207

/* PCI's vital product data is 32 KiB at most (PCI 3.0, appendix I). */
#define VPD_MOST 32768

/* InfiniBand's PortInfo:CapabilityMask, "IsSMDisabled". */
#define CAP_SM_DISABLED (1u << 10)

/*
 * Is it the bridge of NVLink 5? The mark is looked for in what can be read: the kernel ends a file
 * of damaged data early, and an error in mid-course does not undo what came before it.
 */
static bool is_bridge(int root_fd, const struct pci_function *function)
{
	_cleanup_close_ int fd = -1;
	_cleanup_free_ char *data = NULL;
	char path[128];
	size_t used = 0;
	ssize_t size;

	if (function->kind != PCI_NIC || function->class >> 8 != CLASS_INFINIBAND)
		return false;
	(void) snprintf(path, sizeof(path), PCI_DEVICES "/%s/vpd", function->address);
	fd = openat(root_fd, path, O_RDONLY | O_CLOEXEC);
	data = fd < 0 ? NULL : malloc(VPD_MOST);
	if (!data)
		return false;
	while (used < VPD_MOST && (size = read(fd, data + used, VPD_MOST - used)) > 0)
		used += (size_t) size;
	return memmem(data, used, "SW_MNG", strlen("SW_MNG")) != NULL;
}

/* A GPU of a rack whose switch trays manage the fabric. */
static bool is_of_rack(const struct pci_function *function)
{
	return function->vendor == CONTRACT_PCI_NVIDIA &&
	       (function->device == 0x2941 || function->device == 0x31c2 ||
		       function->device == 0x31c3);
}

void fabric_find(int root_fd, bool takes_switches, struct fabric *fabric)
{
	_cleanup_free_ struct pci_function *functions = NULL;
	int count = pci_functions(root_fd, &functions);

	*fabric = (struct fabric){ .kind = FABRIC_NONE };
	for (int i = 0; i < count; i++) {
		const struct pci_function *function = &functions[i];

		if (is_of_rack(function)) {
			fabric->kind = FABRIC_ELSEWHERE;
			return;
		}
		/* A device meant for a virtual machine does not belong to this node's fabric. */
		if (strcmp(function->driver, "vfio-pci") == 0 &&
			!(takes_switches && function->kind == PCI_NVSWITCH))
			continue;
		if (function->kind == PCI_NVSWITCH) {
			if (fabric->kind == FABRIC_NONE)
				fabric->kind = FABRIC_NVSWITCH;
			fabric->switches++;
		} else if (is_bridge(root_fd, function)) {
			if (fabric->kind != FABRIC_NVLINK5)
				(void) snprintf(fabric->bridge, sizeof(fabric->bridge), "%s",
					function->address);
			fabric->kind = FABRIC_NVLINK5;
			fabric->switches++;
		}
	}
}

/*
 * Its GUID, where a subnet manager may run on the port. The lower half of a port's first GID is
 * the GUID: "fe80:0000:0000:0000:e09d:7303:003f:3bf8".
 */
static bool port_serves(int root_fd, const char *port, char guid[20])
{
	_cleanup_free_ char *mask = NULL;
	_cleanup_free_ char *gid = NULL;
	unsigned parts[4];
	char path[768];

	(void) snprintf(path, sizeof(path), "%s/cap_mask", port);
	if (fs_read_line(root_fd, path, &mask) < 0 || strtoul(mask, NULL, 16) & CAP_SM_DISABLED)
		return false;
	(void) snprintf(path, sizeof(path), "%s/gids/0", port);
	if (fs_read_line(root_fd, path, &gid) < 0 ||
		sscanf(gid, "fe80:%*4x:%*4x:%*4x:%4x:%4x:%4x:%4x", &parts[0], &parts[1], &parts[2],
			&parts[3]) != 4 ||
		!(parts[0] | parts[1] | parts[2] | parts[3]))
		return false;
	(void) snprintf(guid, 20, "0x%04x%04x%04x%04x", parts[0], parts[1], parts[2], parts[3]);
	return true;
}

static bool function_serves(int root_fd, const char *address, char guid[20])
{
	_cleanup_strv_ struct strv names = { 0 };
	_cleanup_strv_ struct strv ports = { 0 };
	char path[512];

	(void) snprintf(path, sizeof(path), PCI_DEVICES "/%s/infiniband", address);
	if (fs_list(root_fd, path, &names) < 0 || !names.count)
		return false;
	(void) snprintf(
		path, sizeof(path), PCI_DEVICES "/%s/infiniband/%s/ports", address, names.items[0]);
	if (fs_list(root_fd, path, &ports) < 0)
		return false;
	for (size_t i = 0; i < ports.count; i++) {
		char port[700];

		(void) snprintf(port, sizeof(port), "%s/%s", path, ports.items[i]);
		if (port_serves(root_fd, port, guid))
			return true;
	}
	return false;
}

int fabric_find_guid(int root_fd, struct fabric *fabric, struct error *error)
{
	_cleanup_free_ struct pci_function *functions = NULL;
	int count = pci_functions(root_fd, &functions);

	for (int i = 0; i < count; i++)
		if (strcmp(functions[i].driver, "vfio-pci") != 0 &&
			is_bridge(root_fd, &functions[i]) &&
			function_serves(root_fd, functions[i].address, fabric->guid))
			return 0;
	return error_set(error, -EAGAIN,
		"none of the %u NVLink bridge functions (the first is %s) has an InfiniBand port "
		"for a subnet manager: mlx5_ib has to drive them, and virtualization must not "
		"have taken them away",
		fabric->switches, fabric->bridge);
}

int fabric_make_nodes(int root_fd, struct error *error)
{
	_cleanup_strv_ struct strv names = { 0 };
	int r = fs_list(root_fd, MAD_CLASS, &names);

	if (r == 0)
		r = fs_mkdir_parents(root_fd, "dev/infiniband", 0755);
	if (r < 0)
		return error_set_errno(
			error, r, "/" MAD_CLASS " (ib_umad makes it) or /dev/infiniband");
	for (size_t i = 0; i < names.count; i++) {
		_cleanup_free_ char *numbers = NULL;
		unsigned major_number;
		unsigned minor_number;
		char path[320];

		(void) snprintf(path, sizeof(path), MAD_CLASS "/%s/dev", names.items[i]);
		if (fs_read_line(root_fd, path, &numbers) < 0 ||
			sscanf(numbers, "%u:%u", &major_number, &minor_number) != 2)
			continue; /* abi_version, say: no device */
		(void) snprintf(path, sizeof(path), "dev/infiniband/%s", names.items[i]);
		if (mknodat(root_fd, path, S_IFCHR | 0600, makedev(major_number, minor_number)) <
				0 &&
			errno != EEXIST)
			return error_set_errno(error, -errno, "/%s", path);
	}
	return 0;
}
