// SPDX-License-Identifier: GPL-2.0
/*
 * Keeps the kernel from preparing modules for function tracing (ftrace), which is half of what it
 * costs to load nvidia or mlx5_core in an emulated machine: for each function it looks the symbol
 * up in the module's table from the start (test_for_valid_rec() in kernel/trace/ftrace.c). It skips
 * a module without call sites, whose functions then call a stub that returns at once.
 */
#include <linux/kprobes.h>
#include <linux/module.h>

static int forget_call_sites(struct kprobe *probe, struct pt_regs *regs)
{
	struct module *module = (struct module *) regs_get_kernel_argument(regs, 0);

	module->num_ftrace_callsites = 0;
	return 0;
}

static struct kprobe probe = {
	.symbol_name = "ftrace_module_init",
	.pre_handler = forget_call_sites,
};

static int __init untraced_init(void)
{
	return register_kprobe(&probe);
}

module_init(untraced_init);

MODULE_DESCRIPTION("Modules are not prepared for function tracing");
MODULE_LICENSE("GPL");
