/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Capabilities in a copy of a function's PCI configuration space: PCI Local Bus 3.0, 6.7; PCI
 * Express Base 6.0, 7.5.3, 7.6.3 and 7.7.11; numbers from linux/pci_regs.h. The bytes come from a
 * device, so no list is trusted: one that loops or leads outside ends.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define PCI_CONFIG_SIZE     256u /* of a conventional function, and what PCI Express has of it */
#define PCI_CONFIG_SIZE_EXP 4096u

/*
 * Returns where the first capability @id begins in @config, which has @size bytes, or 0 where there
 * is none. At least @length bytes of it are there.
 */
size_t pci_config_find(const unsigned char *config, size_t size, unsigned id, size_t length);

/* The same for an extended capability, from byte 256 on. */
size_t pci_config_find_extended(
	const unsigned char *config, size_t size, unsigned id, size_t length);

/*
 * The ACS control register, as PCI_ACS_* bits; 0 where the function has none; -ENODATA where
 * the function no longer answers, or @config is cut: the kernel shows 64 bytes to a process without
 * CAP_SYS_ADMIN, and 256 where it has no access to the extended space.
 */
int pci_config_acs_control(const unsigned char *config, size_t size);
