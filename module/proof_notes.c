/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel takes with a complaint: module_augment_kernel_taints() and check_modinfo(). */
#include <string.h>

#include "module/proof_internal.h"

/* Modules that the kernel knows by name to be other than they say. */
bool proof_is_license_offender(const char *name)
{
	return strcmp(name, "driverloader") == 0 || strcmp(name, "lve") == 0;
}

bool proof_is_proprietary(const struct elf_module *module)
{
	const char *name = elf_module_name(module);

	return !proof_license_is_gpl(elf_module_info(module, "license")) ||
	       (name && proof_is_license_offender(name));
}

static int note(struct proof_trial *trial, const char *id, const char *text)
{
	const struct proof_draft draft = { .id = id, .weight = PROOF_NOTE };

	return proof_add(trial, &draft, "%s", text);
}

static int note_license(struct proof_trial *trial)
{
	const struct proof_draft draft = { .id = "proprietary", .weight = PROOF_NOTE };
	const char *license = proof_info(trial, "license", NULL);

	if (!trial->proprietary)
		return 0;
	return proof_add(trial, &draft,
		"its licence \"%s\" is not the GPL's kind: it taints the kernel (P)",
		license ? license : "unspecified");
}

static int note_retpoline(struct proof_trial *trial)
{
	if (trial->kernel->retpoline != PROOF_YES || proof_info(trial, "retpoline", NULL))
		return 0;
	return note(trial, "retpoline",
		"compiled without retpolines, which the kernel complains of in its log");
}

int proof_note_taints(struct proof_trial *trial)
{
	static const struct {
		const char *key;
		bool when_absent;
		const char *id;
		const char *text;
	} taints[] = {
		{ "intree", true, "out-of-tree",
			"built out of the kernel's tree: it taints the "
			"kernel (O)" },
		{ "staging", false, "staging",
			"of the kernel's staging tree: it taints the "
			"kernel (C)" },
		{ "test", false, "test", "a test module: it taints the kernel (N)" },
	};
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(taints) && r == 0; i++)
		if (!proof_info(trial, taints[i].key, NULL) == taints[i].when_absent)
			r = note(trial, taints[i].id, taints[i].text);
	if (r == 0)
		r = note_retpoline(trial);
	return r < 0 ? r : note_license(trial);
}
