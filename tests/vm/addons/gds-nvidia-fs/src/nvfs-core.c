// SPDX-License-Identifier: GPL-2.0
/*
 * A stand-in for GPUDirect Storage's nvidia-fs, whose source is another project's: the name, the
 * devices and a symbol of NVIDIA's that it cannot be loaded without, and nothing that it is for.
 * For the tests of `slipway build --nvidia-fs` and of who loads and unloads it; part of no image
 * that ships.
 */
#include <linux/device.h>
#include <linux/fs.h>
#include <linux/module.h>
#include <linux/version.h>

#include "config-host.h"
#include "nv-p2p.h"

#ifndef HAVE_CONFIGURED
#error "configure has not run"
#endif

#define DEVICES 2

static const struct file_operations operations = { .owner = THIS_MODULE };
static struct class *class;
static int major;

/* Never called: a symbol that is used is one that the kernel asks NVIDIA's module for. */
static int (*volatile free_page_table)(struct nvidia_p2p_page_table *);

static int __init nvfs_init(void)
{
	free_page_table = nvidia_p2p_free_page_table;
	major = register_chrdev(0, "nvidia-fs", &operations);
	if (major < 0)
		return major;
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 4, 0)
	class = class_create(THIS_MODULE, "nvidia-fs-class");
#else
	class = class_create("nvidia-fs-class");
#endif
	if (IS_ERR(class)) {
		unregister_chrdev(major, "nvidia-fs");
		return PTR_ERR(class);
	}
	for (int i = 0; i < DEVICES; i++)
		device_create(class, NULL, MKDEV(major, i), NULL, "nvidia-fs%d", i);
	return 0;
}

static void __exit nvfs_exit(void)
{
	for (int i = 0; i < DEVICES; i++)
		device_destroy(class, MKDEV(major, i));
	class_destroy(class);
	unregister_chrdev(major, "nvidia-fs");
}

module_init(nvfs_init);
module_exit(nvfs_exit);
MODULE_DESCRIPTION("stand-in for nvidia-fs");
MODULE_LICENSE("GPL v2");
