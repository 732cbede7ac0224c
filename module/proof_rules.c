/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel asks of a module before it looks at its symbols. */
#include "module/proof_internal.h"

#define REBUILD_HEADERS "rebuild it against the headers of this kernel"

/* Every module depends on the layout of struct module, although no symbol table says so. */
int proof_judge_layout(struct proof_trial *trial)
{
	struct proof_export layout;

	if (!trial->modversions)
		return 0;
	if (!elf_module_has_versions(trial->module, NULL)) {
		const struct proof_draft draft = { .id = "no-versions",
			.weight = proof_weight_without(trial->kernel->force_load),
			.answer = ENOEXEC,
			.cure = "rebuild it with the kernel's Module.symvers at hand" };

		return proof_add(trial, &draft,
			"has no symbol versions, which this kernel checks: only a kernel with "
			"CONFIG_MODULE_FORCE_LOAD takes it, and is tainted by it");
	}
	if (!proof_find_export(trial, PROOF_LAYOUT, &layout)) {
		const struct proof_draft draft = { .id = "symvers",
			.weight = PROOF_DOUBT,
			.answer = ENOEXEC,
			.symbol = PROOF_LAYOUT,
			.cure = "give the kernel's own Module.symvers too" };

		return proof_add(trial, &draft, "the symbol versions given have no " PROOF_LAYOUT);
	}
	return proof_judge_version(trial, &layout, ENOEXEC);
}

int proof_judge_vermagic(struct proof_trial *trial)
{
	const char *ours = elf_module_info(trial->module, "vermagic");
	const char *theirs = trial->kernel->vermagic;
	const struct proof_draft other = { .id = "vermagic",
		.weight = PROOF_REFUSAL,
		.answer = ENOEXEC,
		.cure = REBUILD_HEADERS };
	const struct proof_draft none = { .id = "no-vermagic",
		.weight = proof_weight_without(trial->kernel->force_load),
		.answer = ENOEXEC,
		.cure = "build it with the kernel's own Makefile (make -C <headers> M=…)" };
	bool basic = false;

	(void) elf_module_has_versions(trial->module, &basic);
	if (!ours)
		return proof_add(trial, &none,
			"states no vermagic: only a kernel with CONFIG_MODULE_FORCE_LOAD takes it");
	if (!theirs || proof_same_magic(ours, theirs, trial->modversions && basic))
		return 0;
	return proof_add(trial, &other, "built for vermagic \"%.*s\", but the kernel's is \"%.*s\"",
		(int) proof_trimmed(ours), ours, (int) proof_trimmed(theirs), theirs);
}
