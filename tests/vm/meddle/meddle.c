// SPDX-License-Identifier: GPL-2.0
/*
 * meddle: a test double for what goes wrong between a load proof, or a look at references, and the
 * act itself.
 *
 * when=NAME refuse=N: the next N loads of NAME fail, after the kernel has checked and linked it and
 * before its init runs, as a driver's init fails on a card that it does not like.
 *
 * when=NAME take=OTHER: when NAME goes, OTHER gets a reference that no holder explains, which is
 * given back when this module is unloaded, as a process opens a device just then.
 *
 * when=NAME load=OTHER: when NAME comes, or with going=1 goes, the host's modprobe is asked for
 * OTHER, as udev does for a new device.
 *
 * What the kernel does about each is real: a notifier's refusal ends load_module() with its errno,
 * a reference keeps delete_module() out. It is loaded in the test VM only.
 */
#include <linux/module.h>
#include <linux/notifier.h>
#include <linux/umh.h>

#include "find_module.h"

static char *when;
module_param(when, charp, 0444);
MODULE_PARM_DESC(when, "name of the module that sets it off, with underscores");
static int refuse;
module_param(refuse, int, 0644);
MODULE_PARM_DESC(refuse, "how many loads of it fail");
static char *take;
module_param(take, charp, 0444);
MODULE_PARM_DESC(take, "module that gets a reference when it goes");
static char *load;
module_param(load, charp, 0444);
MODULE_PARM_DESC(load, "module that the host loads when it comes");
static bool going;
module_param(going, bool, 0444);
MODULE_PARM_DESC(going, "load= when it goes");
static int times = 1;
module_param(times, int, 0644);
MODULE_PARM_DESC(times, "how often load= is done");

static struct module *held;
static find_module_fn find;

static void take_reference(void)
{
	struct module *module;

	rcu_read_lock_sched();
	module = find(take);
	if (module && try_module_get(module))
		held = module;
	rcu_read_unlock_sched();
	pr_info("meddle: %s %s\n", held ? "took" : "could not take", take);
}

static void ask_host(void)
{
	/* Read later, when this has returned. */
	static char *argv[] = { "/usr/sbin/modprobe", NULL, NULL };
	static char *envp[] = { "PATH=/usr/sbin:/usr/bin:/sbin:/bin", NULL };

	argv[1] = load;
	pr_info("meddle: the host loads %s\n", load);
	call_usermodehelper(argv[0], argv, envp, UMH_NO_WAIT);
}

static int meddle_notify(struct notifier_block *block, unsigned long state, void *data)
{
	const struct module *module = data;

	if (strcmp(module->name, when) != 0)
		return NOTIFY_DONE;
	if (state == MODULE_STATE_GOING && take && !held)
		take_reference();
	if (state == (going ? MODULE_STATE_GOING : MODULE_STATE_COMING) && load && times > 0) {
		times--;
		ask_host();
	}
	if (state == MODULE_STATE_COMING && refuse > 0) {
		refuse--;
		pr_info("meddle: %s is refused\n", when);
		return notifier_from_errno(-EIO);
	}
	return NOTIFY_DONE;
}

static struct notifier_block meddle_block = { .notifier_call = meddle_notify };

static int __init meddle_init(void)
{
	find = locate_find_module();
	if (!find || !when) {
		pr_err("meddle: give when=NAME\n");
		return -EINVAL;
	}
	return register_module_notifier(&meddle_block);
}

static void __exit meddle_exit(void)
{
	unregister_module_notifier(&meddle_block);
	if (held)
		module_put(held);
}

module_init(meddle_init);
module_exit(meddle_exit);
MODULE_DESCRIPTION("Test double: meddles with modules that come and go");
MODULE_LICENSE("GPL");
