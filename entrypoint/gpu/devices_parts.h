/* SPDX-License-Identifier: Apache-2.0 */
/* Taking the GPUs from other drivers: what its parts share. devices.h is its interface. */
#pragma once

#include "entrypoint/gpu/gpu.h"
#include "entrypoint/status/pci.h"

#define DEVICES_LIST "freed" /* role_list.h: what was taken, and how it comes back */

#define PCI_DEVICES_PATH "sys/bus/pci/devices"

struct taking {
	struct action *action;
	struct pci_function *functions; /* GPUs, NVSwitches and what else pci_functions() knows */
	int count;
	struct strv freed; /* lines of the list: what an earlier life took too */
};

/* Adds a line to the list, on the node too, unless it is there. To be called before the deed. */
int taking_remember(struct taking *taking, const char *format, ...) _printf_(2, 3);

/* GPUs and NVSwitches: what nvidia drives. */
bool taking_is_ours(const struct pci_function *function);

/* Writes an attribute of /sys. Negative errno, without a message. */
int sysfs_put(int root_fd, const char *path, const char *text);
int sysfs_put_device(
	int root_fd, const struct pci_function *function, const char *file, const char *text);

/* Whether a part would do anything: a few reads of /sys. */
bool devices_have_graphics(int root_fd);
bool devices_have_override(int root_fd, const struct pci_function *function);

/* nouveau, nova_core and nova_drm go, with what holds them. (free_graphics.c) */
int devices_free_graphics(struct taking *taking);

/* Devices that wait for a virtual machine, and that none has open, are unbound. (free_vfio.c) */
int devices_free_vfio(struct taking *taking);
