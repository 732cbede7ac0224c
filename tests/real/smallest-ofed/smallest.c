// SPDX-License-Identifier: GPL-2.0
/* The least that can be compiled as an OFED: whether a kernel tree is whole shows in seconds. */
#include <linux/module.h>

#include "include/smallest.h"

static int __init smallest_init(void)
{
	pr_info(SMALLEST_GREETING "\n");
	return 0;
}

static void __exit smallest_exit(void)
{
}

module_init(smallest_init);
module_exit(smallest_exit);
MODULE_DESCRIPTION("Test module: compiles in a kernel's tree");
MODULE_LICENSE("GPL");
MODULE_VERSION("1.0");
