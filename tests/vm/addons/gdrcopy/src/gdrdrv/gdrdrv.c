// SPDX-License-Identifier: GPL-2.0
/*
 * A stand-in for GDRCopy's gdrdrv, whose source is another project's: the name, the device number
 * and the symbols of NVIDIA's that it cannot be loaded without, and nothing that it is for. For the
 * tests of `slipway build --gdrcopy` and of who loads and unloads it; part of no image that ships.
 */
#include <linux/fs.h>
#include <linux/module.h>

#include "gdrdrv.h"
#include "nv-p2p.h"

static const struct file_operations operations = { .owner = THIS_MODULE };
static int major;

/* Never called: a symbol that is used is one that the kernel asks NVIDIA's module for. */
static int (*volatile get_pages)(uint64_t, uint32_t, uint64_t, uint64_t,
	struct nvidia_p2p_page_table **, void (*)(void *), void *);

static int __init gdrdrv_init(void)
{
	get_pages = nvidia_p2p_get_pages;
	major = register_chrdev(0, "gdrdrv", &operations);
	return major < 0 ? major : 0;
}

static void __exit gdrdrv_exit(void)
{
	unregister_chrdev(major, "gdrdrv");
}

module_init(gdrdrv_init);
module_exit(gdrdrv_exit);
MODULE_DESCRIPTION("stand-in for GDRCopy's gdrdrv");
MODULE_LICENSE("GPL");
