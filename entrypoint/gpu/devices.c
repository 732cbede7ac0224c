/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/gpu/devices.h"

#include <string.h>

#include "common/fs.h"
#include "entrypoint/contract.h"

#define PCI_DEVICES "sys/bus/pci/devices"

static bool is_nvidia(int root_fd, const char *device)
{
	_cleanup_free_ char *vendor = NULL;
	char path[512];

	(void) snprintf(path, sizeof(path), PCI_DEVICES "/%s/vendor", device);
	return fs_read_line(root_fd, path, &vendor) == 0 &&
	       strtoul(vendor, NULL, 16) == CONTRACT_PCI_NVIDIA;
}

int gpu_find_device(struct action *action)
{
	const struct role *role = action->role;
	_cleanup_strv_ struct strv devices = { 0 };
	int r = fs_list(role->root_fd, PCI_DEVICES, &devices);

	for (size_t i = 0; r == 0 && i < devices.count; i++)
		if (is_nvidia(role->root_fd, devices.items[i]))
			return 0;
	return action_fail(action, REASON_NO_NVIDIA_DEVICE, -ENODEV,
		"none of the node's %zu PCI devices has NVIDIA's vendor id 10de: is the GPU "
		"seated, "
		"powered and passed through (lspci -d 10de:), and should this node run a GPU "
		"driver?",
		devices.count);
}

int gpu_free_devices(struct action *action)
{
	(void) action;
	return 0;
}
