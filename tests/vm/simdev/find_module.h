/* SPDX-License-Identifier: GPL-2.0 */
/* find_module() for test modules: the kernel does not export it. */
#pragma once

#include <linux/kprobes.h>
#include <linux/module.h>

typedef struct module *(*find_module_fn)(const char *name);

#ifdef CONFIG_KPROBES

/* A kprobe on it shows where it is. */
static find_module_fn locate_find_module(void)
{
	struct kprobe probe = { .symbol_name = "find_module" };
	find_module_fn found = NULL;

	if (register_kprobe(&probe) == 0) {
		found = (find_module_fn) (unsigned long) probe.addr;
		unregister_kprobe(&probe);
	}
	return found;
}

#else /* User Mode Linux */

static struct list_head *all_modules;

static struct module *find_in_list(const char *name)
{
	struct module *module;

	list_for_each_entry_rcu(
		module, all_modules, list) if (module->state != MODULE_STATE_UNFORMED &&
					       strcmp(module->name, name) == 0) return module;
	return NULL;
}

/*
 * A new module is put in front of all others: what comes before the one whose init calls this is
 * the list's head.
 */
static find_module_fn locate_find_module(void)
{
	all_modules = THIS_MODULE->list.prev;
	return find_in_list;
}

#endif
