/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Determines which NVLink fabric a node has, and so which daemons it needs, from PCI alone: before
 * any driver is loaded, and without InfiniBand's sysfs, which is empty while its modules are
 * absent.
 *
 * Sources: NVIDIA Fabric Manager User Guide (the NVSwitches of HGX-2, HGX A100 and HGX H100 are PCI
 * functions; those of HGX B200/B300 are not: the host sees a ConnectX-7 whose limited function has
 * SMDL=SW_MNG in its vital product data, and management reaches the switches through it). The
 * class of NVSwitches is "other bridge", vendor NVIDIA, whatever the device id: 1ac2, 1af1, 22a3
 * (pci.ids). On GB200 and GB300 the rack's switch trays manage the fabric: ids as Amazon's EKS
 * images list them.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"

enum fabric_kind {
	FABRIC_NONE,
	FABRIC_NVSWITCH,  /* up to NVLink 4: fabric manager talks to the switches' driver */
	FABRIC_NVLINK5,   /* fabric manager and nvlsm, through a ConnectX bridge and ib_umad */
	FABRIC_ELSEWHERE, /* the rack has the switches, and their daemons */
};

struct fabric {
	enum fabric_kind kind;
	unsigned switches; /* NVSwitches, or bridge functions of NVLink 5 */
	char bridge[32];   /* NVLink 5: the first bridge function's PCI address */
	char guid[20]; /* NVLink 5: its port's GUID as "0x…", once the InfiniBand driver has it */
};

/* @takes_switches: from vfio-pci, too, as a start does that takes devices from other drivers. */
void fabric_find(int root_fd, bool takes_switches, struct fabric *fabric);

/*
 * NVLink 5: finds the GUID of the port that fabric manager and nvlsm talk through: of the first
 * bridge function that has an InfiniBand device, the first port on which a subnet manager may run.
 * 0, or -EAGAIN with what is missing in @error.
 */
int fabric_find_guid(int root_fd, struct fabric *fabric, struct error *error);

/*
 * Makes the nodes of InfiniBand's management devices in dev/infiniband that are not there: a
 * container's /dev is filled when it starts, and knows nothing of what was loaded since.
 */
int fabric_make_nodes(int root_fd, struct error *error);
