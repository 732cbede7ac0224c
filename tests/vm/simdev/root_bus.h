/* SPDX-License-Identifier: GPL-2.0 */
/* A PCI root bus without hardware, on each machine that run-vm starts (tests/vm/machine.bash). */
#pragma once

#include <linux/err.h>
#include <linux/pci.h>

#if defined(CONFIG_UML)

#define SYSDATA        NULL
#define MEMORY_START   0UL
#define INTERRUPT_LINE 10

#elif defined(CONFIG_ARM64)

#include <linux/pci-ecam.h>

/*
 * With ACPI, pcibios_root_bridge_prepare() (arch/arm64/kernel/pci.c) takes sysdata for one of
 * these. Without a parent the bridge has no ACPI device, as on Hyper-V.
 */
static struct pci_config_window sysdata;
#define SYSDATA        (&sysdata)
#define MEMORY_START   (1UL << 30) /* VIRT_MEM of QEMU's hw/arm/virt.c */
#define INTERRUPT_LINE 200         /* no one's: 10 is the timer of each processor */

#else

static struct pci_sysdata sysdata = { .node = NUMA_NO_NODE };
#define SYSDATA        (&sysdata)
#define MEMORY_START   0UL
#define INTERRUPT_LINE 10

#endif

/*
 * Finds the functions that answer on a new root bus. The bus has the first of these numbers; its
 * BARs may lie in the window, unless that is NULL. An error pointer: there is no such bus. Call it
 * with pci_lock_rescan_remove() held.
 */
static struct pci_bus *scan_root_bus(
	struct pci_ops *ops, struct resource *numbers, struct resource *window)
{
	struct pci_host_bridge *bridge = pci_alloc_host_bridge(0);
	int err;

	if (!bridge)
		return ERR_PTR(-ENOMEM);
	bridge->sysdata = SYSDATA;
	bridge->busnr = numbers->start;
	bridge->ops = ops;
#ifdef CONFIG_PCI_DOMAINS_GENERIC
	/* Else the kernel looks for it in a device tree. */
	bridge->domain_nr = 0;
#endif
	if (window)
		pci_add_resource(&bridge->windows, window);
	pci_add_resource(&bridge->windows, numbers);
	err = pci_scan_root_bus_bridge(bridge);
	if (err) {
		pci_free_host_bridge(bridge);
		return ERR_PTR(err);
	}
	return bridge->bus;
}
