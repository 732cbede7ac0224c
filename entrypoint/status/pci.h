/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The PCI functions that driver containers are about, from /sys/bus/pci/devices. Classes: PCI Code
 * and ID Assignment Specification; an NVSwitch is what NVIDIA's own driver takes for one, the
 * vendor's "other bridge" (open-gpu-kernel-modules kernel-open/nvidia/linux_nvswitch.c).
 */
#pragma once

enum pci_kind { PCI_OTHER, PCI_GPU, PCI_NVSWITCH, PCI_NIC };

struct pci_function {
	char address[16]; /* "0000:00:06.0" */
	enum pci_kind kind;
	unsigned vendor, device;
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

/* How many of a kind there are. */
int pci_count(int root_fd, enum pci_kind kind);
