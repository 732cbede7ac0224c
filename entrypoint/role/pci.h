/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The PCI functions that driver containers are about, from /sys/bus/pci/devices. Classes: PCI Code
 * and ID Assignment Specification; an NVSwitch is what NVIDIA's own driver takes for one, the
 * vendor's "other bridge" (open-gpu-kernel-modules kernel-open/nvidia/linux_nvswitch.c).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/cleanup.h"

#define PCI_DEVICES "sys/bus/pci/devices"

#define PCI_ADDRESS_SIZE 16

enum pci_kind { PCI_OTHER, PCI_GPU, PCI_NVSWITCH, PCI_NIC };

struct pci_function {
	char address[PCI_ADDRESS_SIZE]; /* "0000:00:06.0" */
	enum pci_kind kind;
	unsigned vendor, device;
	unsigned class;  /* base class, sub-class and programming interface, a byte each */
	int numa_node;   /* -1: none */
	char driver[32]; /* bound to it, or "" */
};

/* "gpu", "nvswitch", "nic" */
const char *pci_kind_name(enum pci_kind kind);

/*
 * GPUs, NVSwitches and Mellanox network functions, sorted by address, in an array that the caller
 * frees. Returns how many, or a negative errno.
 */
int pci_functions(int root_fd, struct pci_function **ret_functions);

/* -1: the firmware names none. */
int pci_numa_node(int root_fd, const char *address);

/* -1: no IOMMU is in use. */
int pci_iommu_group(int root_fd, const char *address);

/*
 * A copy of the function's configuration space, as far as the kernel shows it, which the caller
 * frees. Returns 0 or a negative errno.
 */
int pci_config_read(int root_fd, const char *address, unsigned char **ret_config, size_t *ret_size);

/*
 * Is the GPU a vGPU? Its vendor-specific capability begins with "VF" then (gpu-driver-container
 * vgpu/src/vgpu-util.go, isVGPUDevice(); the list of capabilities: PCI 3.0, 6.7). Also true where
 * the list cannot be read: the kernel shows it to root alone.
 */
bool pci_is_vgpu(int root_fd, const struct pci_function *function);

/* Has the node a function of this vendor? Also true where the bus cannot be seen. */
bool pci_has_vendor(int root_fd, unsigned vendor);

/* ---- where it is plugged in */

#define PCI_DEPTH_MAX 16

struct pci_path {
	char root[PCI_ADDRESS_SIZE]; /* "pci0000:20"; "" where sysfs is laid out otherwise */
	/* From the host bridge down; the last one is the port that the function is plugged into. */
	char bridges[PCI_DEPTH_MAX][PCI_ADDRESS_SIZE];
	size_t depth;
	char address[PCI_ADDRESS_SIZE]; /* the function itself */
};

/*
 * Reads the path of the function at or above @folder of sysfs, whose links are followed. -ENODEV:
 * there is none, as for a device of software. -E2BIG: more bridges than are counted here.
 */
int pci_path_read(int root_fd, const char *folder, struct pci_path *path);

struct pci_link {
	int width, width_possible;         /* lanes */
	int speed_mts, speed_possible_mts; /* megatransfers a second */
};

/*
 * The function's PCI Express link, and what both its ends can do; -1 where that is not known. GPUs
 * that idle lower their speed, never their width.
 */
void pci_link_read(int root_fd, const struct pci_path *path, struct pci_link *link);

/* Has it fewer lanes than both ends can have? */
bool pci_link_is_narrow(const struct pci_link *link);

/* The sentence about one, with the function's address and its two widths. */
#define PCI_LINK_NARROW                                                                            \
	"%s: its PCIe link has %d of the %d lanes that the function and its port can have: "       \
	"check how the card sits in its slot"

/* The last part of the target of a link of sysfs, "" where there is none. */
void sysfs_link_name(int root_fd, const char *path, char *name, size_t size);

/* Writes to a file of sysfs that is there. Negative errno, without a message. */
int sysfs_put(int root_fd, const char *text, const char *format, ...) _printf_(3, 4);
