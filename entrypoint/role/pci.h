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

enum pci_kind { PCI_OTHER, PCI_GPU, PCI_NVSWITCH, PCI_NIC };

struct pci_function {
	char address[16]; /* "0000:00:06.0" */
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

/*
 * Is the GPU a vGPU? Its vendor-specific capability begins with "VF" then (gpu-driver-container
 * vgpu/src/vgpu-util.go, isVGPUDevice(); the list of capabilities: PCI 3.0, 6.7). Also true where
 * the list cannot be read: the kernel shows it to root alone.
 */
bool pci_is_vgpu(int root_fd, const struct pci_function *function);

/* Has the node a function of this vendor? Also true where the bus cannot be seen. */
bool pci_has_vendor(int root_fd, unsigned vendor);

/* The last part of the target of a link of sysfs, "" where there is none. */
void sysfs_link_name(int root_fd, const char *path, char *name, size_t size);

/* Writes to a file of sysfs that is there. Negative errno, without a message. */
int sysfs_put(int root_fd, const char *text, const char *format, ...) _printf_(3, 4);
