// SPDX-License-Identifier: GPL-2.0
/*
 * pin: a test double for "something in the kernel uses this module".
 *
 * Loaded with module=NAME it takes a reference on NAME and gives it back when it is itself
 * unloaded. On a real node such a reference comes from an open device file or from a driver that a
 * test machine cannot run; what the code under test sees, a refcnt above zero that no holder
 * explains, is the same. It is loaded in the test VM only.
 */
#include <linux/module.h>

#include "find_module.h"

static char *module;
module_param(module, charp, 0444);
MODULE_PARM_DESC(module, "name of the module to hold, with underscores");

static struct module *held;

static int __init pin_init(void)
{
	find_module_fn find = locate_find_module();
	int err = -ENOENT;

	if (!find || !module) {
		pr_err("pin: give module=NAME\n");
		return -EINVAL;
	}
	rcu_read_lock_sched();
	held = find(module);
	if (held && try_module_get(held))
		err = 0;
	rcu_read_unlock_sched();
	if (err)
		pr_err("pin: %s is not loaded\n", module);
	return err;
}

static void __exit pin_exit(void)
{
	module_put(held);
}

module_init(pin_init);
module_exit(pin_exit);
MODULE_DESCRIPTION("Test double: holds a reference on another module");
MODULE_LICENSE("GPL");
