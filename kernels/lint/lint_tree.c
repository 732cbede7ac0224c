/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kernels/lint/lint_rules.h"

static int config_missing(struct lint_check *check)
{
	if (*check->record->config_source)
		return 0;
	return lint_add(check, "config-missing", LINT_ERROR,
		"add the kernel's configuration: the headers package with .config or "
		"include/config/auto.conf, or a bundle that slipway probe made on the node",
		"the kernel tree has no configuration: neither its compiler nor its options are "
		"known");
}

static int not_prepared(struct lint_check *check)
{
	if (check->record->prepared)
		return 0;
	return lint_add(check, "not-prepared", LINT_ERROR,
		"run make modules_prepare in the tree, or give the headers package that was made "
		"of it",
		"the kernel tree has no include/generated/utsrelease.h: no module can be compiled "
		"in it");
}

static int no_symvers(struct lint_check *check)
{
	if (check->record->has_symvers)
		return 0;
	return lint_add(check, "no-symvers", LINT_ERROR,
		"give the tree's Module.symvers too: a complete build of the kernel leaves it, make "
		"modules_prepare alone does not",
		"the kernel tree has no Module.symvers: which symbols the kernel exports, and their "
		"CRCs, is not known");
}

static int host_tools_missing(struct lint_check *check)
{
	if (*check->record->tools_arch)
		return 0;
	return lint_add(check, "host-tools-missing", LINT_WARNING,
		"run make modules_prepare in the tree, or add the package with its scripts "
		"(linux-kbuild-…)",
		"the kernel tree has no scripts/basic/fixdep, scripts/mod/modpost or "
		"tools/objtool/objtool: kbuild runs them for each module");
}

static int host_tools_foreign_arch(struct lint_check *check)
{
	const char *tools = check->record->tools_arch;
	const char *machine = check->request->machine_arch;

	if (!*tools || !machine || strcmp(tools, machine) == 0)
		return 0;
	return lint_add(check, "host-tools-foreign-arch", LINT_ERROR,
		"build on a machine of the tools' architecture, or make the tree's programs here "
		"with make modules_prepare from the full source",
		"the kernel tree's own programs (fixdep, modpost) are for %s, this machine is %s",
		tools, machine);
}

static int kernel_foreign_arch(struct lint_check *check)
{
	const char *arch = check->record->arch;
	const char *machine = check->request->machine_arch;

	if (!*arch || !machine || strcmp(arch, machine) == 0)
		return 0;
	return lint_add(check, "kernel-foreign-arch", LINT_ERROR,
		"build on a machine of the kernel's architecture",
		"the kernel is for %s, and the build container compiles for %s", arch, machine);
}

const lint_rule lint_tree_rules[] = {
	config_missing,
	not_prepared,
	no_symvers,
	host_tools_missing,
	host_tools_foreign_arch,
	kernel_foreign_arch,
	NULL,
};

static int no_tree(struct lint_check *check)
{
	return lint_add(check, "no-tree", LINT_WARNING,
		"give the headers with --kernel-from, or slipway probe --headers=yes on the node",
		"there are no headers to compile against: only the node's configuration is judged");
}

const lint_rule lint_no_tree_rules[] = {
	no_tree,
	kernel_foreign_arch,
	NULL,
};
