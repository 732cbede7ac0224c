// SPDX-License-Identifier: GPL-2.0
/*
 * simfabric: a test double for what PCI shows of an NVLink fabric: NVSwitches (10de:22a3, a
 * bridge), or the ConnectX-7 through which the switches of NVLink 5 are managed (15b3:1021, with
 * SMDL=SW_MNG in its vital product data). Configuration space only: there is nothing behind it, so
 * a driver that wants one of them gives up on it.
 *
 * It is loaded in the test VM only and is part of no image. The licence is the kernel's, because it
 * uses symbols that are exported to GPL modules only.
 */
#include <linux/module.h>
#include <linux/pci.h>

#include "../simdev/root_bus.h"

static int switches;
module_param(switches, int, 0444);
MODULE_PARM_DESC(switches, "how many NVSwitches to create");

static int bridges;
module_param(bridges, int, 0444);
MODULE_PARM_DESC(bridges, "how many NVLink 5 bridge functions to create");

static int bus = 0x60;
module_param(bus, int, 0444);
MODULE_PARM_DESC(bus, "number of the PCI bus to create");

#define CONFIG_SIZE 256
#define SLOTS       8
#define VPD_AT      0x48

static u8 config[SLOTS][CONFIG_SIZE];
static struct pci_bus *root;
static struct resource bus_numbers = { .name = "simfabric bus", .flags = IORESOURCE_BUS };

/* An identifier, read-only data with the keywords SN and VA and a checksum, and the end. */
static const u8 vpd[] = "\x82\x0a\x00"
			"ConnectX-7"
			"\x90\x12\x00"
			"SN\x01X"
			"VA\x0bSMDL=SW_MNG"
			"\x78";

static int config_read(struct pci_bus *on, unsigned int devfn, int where, int size, u32 *value)
{
	int i;

	*value = ~0U;
	if (on->number != bus || PCI_FUNC(devfn) || PCI_SLOT(devfn) >= switches + bridges ||
		where + size > CONFIG_SIZE)
		return PCIBIOS_DEVICE_NOT_FOUND;
	*value = 0;
	for (i = 0; i < size; i++)
		*value |= (u32) config[PCI_SLOT(devfn)][where + i] << (8 * i);
	return PCIBIOS_SUCCESSFUL;
}

/* Writing an address asks for the four bytes there; the flag says that they have come. */
static int config_write(struct pci_bus *on, unsigned int devfn, int where, int size, u32 value)
{
	u8 *space;
	int i;

	if (on->number != bus || PCI_FUNC(devfn) || PCI_SLOT(devfn) >= switches + bridges)
		return PCIBIOS_DEVICE_NOT_FOUND;
	space = config[PCI_SLOT(devfn)];
	if (where != VPD_AT + PCI_VPD_ADDR || size != 2 || value & PCI_VPD_ADDR_F)
		return PCIBIOS_SUCCESSFUL;
	for (i = 0; i < 4; i++)
		space[VPD_AT + PCI_VPD_DATA + i] = value + i < sizeof(vpd) - 1 ? vpd[value + i] : 0;
	space[where] = value;
	space[where + 1] = (value | PCI_VPD_ADDR_F) >> 8;
	return PCIBIOS_SUCCESSFUL;
}

static struct pci_ops config_ops = {
	.read = config_read,
	.write = config_write,
};

static void put(u8 *space, int where, int size, u32 value)
{
	int i;

	for (i = 0; i < size; i++)
		space[where + i] = value >> (8 * i);
}

static void fill(u8 *space, u32 id, u32 class, bool has_vpd)
{
	put(space, PCI_VENDOR_ID, 4, id);
	put(space, PCI_CLASS_REVISION, 4, class << 8 | 0xa1);
	put(space, PCI_SUBSYSTEM_VENDOR_ID, 4, id);
	if (!has_vpd)
		return;
	put(space, PCI_STATUS, 2, PCI_STATUS_CAP_LIST);
	put(space, PCI_CAPABILITY_LIST, 1, VPD_AT);
	put(space, VPD_AT, 1, PCI_CAP_ID_VPD);
}

static void remove_bus(void)
{
	pci_lock_rescan_remove();
	pci_stop_root_bus(root);
	pci_remove_root_bus(root);
	pci_unlock_rescan_remove();
}

static int __init simfabric_init(void)
{
	struct pci_bus *scanned;
	int slot;

	if (switches + bridges > SLOTS)
		return -EINVAL;
	for (slot = 0; slot < switches + bridges; slot++)
		fill(config[slot], slot < switches ? 0x22a310de : 0x102115b3,
			slot < switches ? 0x068000 : 0x020700, slot >= switches);
	bus_numbers.start = bus;
	bus_numbers.end = bus;
	pci_lock_rescan_remove();
	scanned = scan_root_bus(&config_ops, &bus_numbers, NULL);
	if (!IS_ERR(scanned)) {
		root = scanned;
		pci_bus_add_devices(root);
	}
	pci_unlock_rescan_remove();
	return PTR_ERR_OR_ZERO(scanned);
}

static void __exit simfabric_exit(void)
{
	remove_bus();
}

module_init(simfabric_init);
module_exit(simfabric_exit);
MODULE_DESCRIPTION("Test double: what PCI shows of an NVLink fabric, and nothing behind it");
MODULE_LICENSE("GPL");
