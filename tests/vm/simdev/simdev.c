// SPDX-License-Identifier: GPL-2.0
/*
 * simdev: a test double for one GPU and one NIC on the PCI bus.
 *
 * A test machine has neither, and a driver looks for its device when it loads: nvidia.ko refuses to
 * stay without a PCI function of its vendor. This module creates a PCI root bus (40 by default)
 * whose functions answer configuration cycles from an array and whose BARs lie in memory that the
 * guest's kernel was told not to use ("-m 2048" with "mem=1792M"). It answers nothing else: there
 * is no firmware behind it, so a driver binds to the GPU and can be loaded, counted and unloaded,
 * but no work can be done on it, and mlx5_core gives up on the NIC with an error.
 *
 * It is loaded in the test VM only and is part of no image. The licence is the kernel's, because it
 * uses symbols that are exported to GPL modules only.
 */
#include <linux/io.h>
#include <linux/module.h>
#include <linux/pci.h>
#ifdef CONFIG_UML
#include <linux/logic_iomem.h>
#endif

#include "root_bus.h"

static bool gpu = true;
module_param(gpu, bool, 0444);
MODULE_PARM_DESC(gpu, "create the GPU function");

static int gpu_device = 0x20b0;
module_param(gpu_device, int, 0444);
MODULE_PARM_DESC(gpu_device, "the GPU's device id");

static bool nic = true;
module_param(nic, bool, 0444);
MODULE_PARM_DESC(nic, "create the NIC function (15b3:101d)");

static int bus = 0x40;
module_param(bus, int, 0444);
MODULE_PARM_DESC(bus, "number of the PCI bus to create");

static unsigned long base = MEMORY_START + (1792UL << 20); /* mem=1792M of run-vm */
module_param(base, ulong, 0444);
MODULE_PARM_DESC(base, "where the memory that the kernel leaves alone begins");

#define WINDOW_SIZE 0x0e000000UL
#define CONFIG_SIZE 256
#define SLOT_COUNT  2

/* What nvidia.ko reads before it believes in a GA100: PMC_BOOT_0 and PMC_BOOT_42. */
#define PMC_BOOT_0        0x000
#define PMC_BOOT_0_GA100  0x170000a1
#define PMC_BOOT_42       0xa00
#define PMC_BOOT_42_GA100 0x17000000

struct bar {
	int index;
	u32 size;
	u32 flags;
};

struct function {
	bool present;
	u8 config[CONFIG_SIZE];
	u8 writable[CONFIG_SIZE]; /* the bits of each byte that a write changes */
	void __iomem *registers;
};

static struct function functions[SLOT_COUNT];
static struct pci_bus *root;
static struct resource window = { .name = "simdev", .flags = IORESOURCE_MEM };
static struct resource bus_numbers = { .name = "simdev bus", .flags = IORESOURCE_BUS };

#ifdef CONFIG_UML

/*
 * There is no memory that a device could have. What is mapped here reads as zeros and keeps
 * nothing: enough for a NIC. Such a region stays, and so does this module.
 */
static unsigned long read_nothing(void *priv, unsigned int offset, int size)
{
	return 0;
}

static void write_nothing(void *priv, unsigned int offset, int size, unsigned long value)
{
}

static const struct logic_iomem_ops nothing = { .read = read_nothing, .write = write_nothing };

static long map_nothing(
	unsigned long offset, size_t size, const struct logic_iomem_ops **ops, void **priv)
{
	*ops = &nothing;
	return 0;
}

static const struct logic_iomem_region_ops region_ops = { .map = map_nothing };

static int take_window(void)
{
	__module_get(THIS_MODULE);
	return logic_iomem_add_region(&window, &region_ops);
}

#else

static int take_window(void)
{
	return insert_resource(&iomem_resource, &window);
}

#endif

static const struct bar gpu_bars[] = {
	{ 0, 16 << 20, PCI_BASE_ADDRESS_SPACE_MEMORY },
	{ 1, 64 << 20, PCI_BASE_ADDRESS_MEM_TYPE_64 | PCI_BASE_ADDRESS_MEM_PREFETCH },
	{ 3, 32 << 20, PCI_BASE_ADDRESS_MEM_TYPE_64 | PCI_BASE_ADDRESS_MEM_PREFETCH },
};

static const struct bar nic_bars[] = {
	{ 0, 32 << 20, PCI_BASE_ADDRESS_MEM_TYPE_64 | PCI_BASE_ADDRESS_MEM_PREFETCH },
};

static struct function *function_at(struct pci_bus *on, unsigned int devfn)
{
	struct function *function;

	if (on->number != bus || PCI_FUNC(devfn) != 0 || PCI_SLOT(devfn) >= SLOT_COUNT)
		return NULL;
	function = &functions[PCI_SLOT(devfn)];
	return function->present ? function : NULL;
}

static int config_read(struct pci_bus *on, unsigned int devfn, int where, int size, u32 *value)
{
	struct function *function = function_at(on, devfn);
	u32 result = 0;
	int i;

	if (!function || where + size > CONFIG_SIZE) {
		*value = ~0U;
		return PCIBIOS_DEVICE_NOT_FOUND;
	}
	for (i = 0; i < size; i++)
		result |= (u32) function->config[where + i] << (8 * i);
	*value = result;
	return PCIBIOS_SUCCESSFUL;
}

static int config_write(struct pci_bus *on, unsigned int devfn, int where, int size, u32 value)
{
	struct function *function = function_at(on, devfn);
	int i;

	if (!function || where + size > CONFIG_SIZE)
		return PCIBIOS_DEVICE_NOT_FOUND;
	for (i = 0; i < size; i++) {
		u8 mask = function->writable[where + i];
		u8 byte = value >> (8 * i);

		function->config[where + i] = (function->config[where + i] & ~mask) | (byte & mask);
	}
	return PCIBIOS_SUCCESSFUL;
}

static struct pci_ops config_ops = {
	.read = config_read,
	.write = config_write,
};

static void put(u8 *array, int where, int size, u32 value)
{
	int i;

	for (i = 0; i < size; i++)
		array[where + i] = value >> (8 * i);
}

/* A BAR shows its size by which of its address bits can be written. */
static void add_bar(struct function *function, const struct bar *bar)
{
	int where = PCI_BASE_ADDRESS_0 + 4 * bar->index;

	put(function->config, where, 4, bar->flags);
	put(function->writable, where, 4, ~(bar->size - 1));
	if (bar->flags & PCI_BASE_ADDRESS_MEM_TYPE_64)
		put(function->writable, where + 4, 4, ~0U);
}

static void add_function(
	struct function *function, u32 id, u32 class, const struct bar *bars, size_t count)
{
	size_t i;

	function->present = true;
	put(function->config, PCI_VENDOR_ID, 4, id);
	put(function->config, PCI_CLASS_REVISION, 4, class << 8 | 0xa1);
	put(function->config, PCI_SUBSYSTEM_VENDOR_ID, 4, id);
	put(function->config, PCI_INTERRUPT_LINE, 1, INTERRUPT_LINE);
	put(function->config, PCI_INTERRUPT_PIN, 1, 1);
	put(function->writable, PCI_COMMAND, 2,
		PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER | PCI_COMMAND_INTX_DISABLE);
	put(function->writable, PCI_CACHE_LINE_SIZE, 2, 0xffff);
	put(function->writable, PCI_INTERRUPT_LINE, 1, 0xff);
	for (i = 0; i < count; i++)
		add_bar(function, &bars[i]);
}

/*
 * The registers that a driver reads first. The mapping stays uncached: the driver maps the same
 * range uncached as well, and two mappings of one range must agree.
 */
static int fill_registers(int slot)
{
	struct pci_dev *dev;
	struct function *function = &functions[slot];

	if (!function->present)
		return 0;
	dev = pci_get_slot(root, PCI_DEVFN(slot, 0));
	if (!dev)
		return -ENODEV;
	function->registers = ioremap(pci_resource_start(dev, 0), PAGE_SIZE);
	pci_dev_put(dev);
	if (!function->registers)
		return -ENOMEM;

	memset_io(function->registers, 0, PAGE_SIZE);
	if (slot == 0) {
		writel(PMC_BOOT_0_GA100, function->registers + PMC_BOOT_0);
		writel(PMC_BOOT_42_GA100, function->registers + PMC_BOOT_42);
	}
	return 0;
}

static void remove_bus(void)
{
	int slot;

	if (root) {
		pci_lock_rescan_remove();
		pci_stop_root_bus(root);
		pci_remove_root_bus(root);
		pci_unlock_rescan_remove();
	}
	for (slot = 0; slot < SLOT_COUNT; slot++)
		if (functions[slot].registers)
			iounmap(functions[slot].registers);
	remove_resource(&window);
}

static int create_bus(void)
{
	struct pci_bus *scanned;
	int slot, err = 0;

	pci_lock_rescan_remove();
	scanned = scan_root_bus(&config_ops, &bus_numbers, &window);
	if (IS_ERR(scanned)) {
		err = PTR_ERR(scanned);
	} else {
		root = scanned;
		pci_bus_assign_resources(root);
		for (slot = 0; slot < SLOT_COUNT && !err; slot++)
			err = fill_registers(slot);
		if (!err)
			pci_bus_add_devices(root);
	}
	pci_unlock_rescan_remove();
	return err;
}

static int __init simdev_init(void)
{
	int err;

	window.start = base;
	window.end = base + WINDOW_SIZE - 1;
	bus_numbers.start = bus;
	bus_numbers.end = bus;
	if (gpu)
		add_function(&functions[0], (u32) gpu_device << 16 | 0x10de, 0x030200, gpu_bars,
			ARRAY_SIZE(gpu_bars));
	if (nic)
		add_function(&functions[1], 0x101d15b3, 0x020000, nic_bars, ARRAY_SIZE(nic_bars));

	err = take_window();
	if (err) {
		pr_err("simdev: %pR is in use: boot with -m 2048 and mem=1792M\n", &window);
		return err;
	}
	err = create_bus();
	if (err)
		remove_bus();
	return err;
}

static void __exit simdev_exit(void)
{
	remove_bus();
}

module_init(simdev_init);
module_exit(simdev_exit);
MODULE_DESCRIPTION("Test double: a PCI bus with a GPU and a NIC that have no firmware");
MODULE_LICENSE("GPL");
