/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel asks of a module before it looks at its symbols, and after. */
#include "module/proof_internal.h"

#include <string.h>

const char *proof_info(const struct proof_trial *trial, const char *key, const char *previous)
{
	if (trial->version && !elf_module_info_is_seen(trial->module, trial->version))
		return NULL;
	return elf_module_info_next(trial->module, key, previous);
}

static int judge_machine(struct proof_trial *trial)
{
	uint16_t wanted = trial->kernel->machine;
	char ours[16], theirs[16];
	const struct proof_draft draft = { .id = "machine",
		.weight = PROOF_REFUSAL,
		.answer = ENOEXEC,
		.cure = "build it for the kernel's architecture" };

	if (!wanted || wanted == trial->machine)
		return 0;
	trial->unfit = true;
	return proof_add(trial, &draft, "built for %s, but the kernel is of %s",
		proof_machine_text(trial->machine, ours), proof_machine_text(wanted, theirs));
}

/* The message names the file, and so do we. */
static const char *without_path(const struct proof_trial *trial, const char *text)
{
	const char *path = elf_module_path(trial->module);
	size_t length = strlen(path);

	if (strncmp(text, path, length) == 0 && strncmp(text + length, ": ", 2) == 0)
		return text + length + 2;
	return text;
}

/* What elf_module_check_format() and its like answer; -EFAULT: this version does not look there. */
static int add_defect(
	struct proof_trial *trial, int code, const char *prefix, const struct error *error)
{
	const struct proof_draft draft = { .id = "format",
		.weight = PROOF_REFUSAL,
		.answer = code == -E2BIG    ? ENOMEM
			  : code == -EFAULT ? ENOEXEC
					    : -code,
		.cure = "build it, or copy it, anew" };

	if (code == -ENOMEM)
		return code;
	return proof_add(trial, &draft, "%s%s%s", prefix, without_path(trial, error->text),
		code == -EFAULT ? ": this kernel does not look, and may not survive it" : "");
}

static int judge_stage(struct proof_trial *trial, enum elf_stage stage)
{
	struct error error = { 0 };
	int r = elf_module_check_stage(trial->module, trial->version, stage, NULL, &error);

	return r < 0 ? add_defect(trial, r, "", &error) : 0;
}

/* layout_and_allocate() and find_module_sections(), behind check_modinfo(). */
int proof_judge_memory(struct proof_trial *trial)
{
	return judge_stage(trial, ELF_STAGE_LAYOUT);
}

/* mod_sysfs_setup(), behind all others. */
int proof_judge_sysfs(struct proof_trial *trial)
{
	return judge_stage(trial, ELF_STAGE_SYSFS);
}

/* Of its own architecture that kernel may well take it. */
static int doubt_machine(struct proof_trial *trial)
{
	char machine[16];
	const struct proof_draft draft = { .id = "machine",
		.weight = PROOF_DOUBT,
		.answer = ENOEXEC,
		.cure = "try it on a node of that kernel: 64-bit little-endian ones are read" };

	trial->unfit = true;
	return proof_add(trial, &draft, "built for %s, whose modules are not read here",
		proof_machine_text(trial->machine, machine));
}

static int judge_format(struct proof_trial *trial)
{
	struct error error = { 0 };
	int r;

	if (!elf_module_is_read(trial->module))
		return doubt_machine(trial);
	r = elf_module_check_stage(trial->module, trial->version, ELF_STAGE_FILE, NULL, &error);

	trial->unfit = r < 0;
	return r < 0 ? add_defect(trial, r, "", &error) : 0;
}

/* Symbols that are no matter of resolving, up to @before. *@next: where to go on. */
int proof_judge_places(struct proof_trial *trial, uint32_t before, uint32_t *next)
{
	while (*next < before) {
		struct error error = { 0 };
		int r = elf_module_check_stage(
			trial->module, trial->version, ELF_STAGE_SYMBOLS, next, &error);

		if (r == 0)
			*next = UINT32_MAX;
		if (*next >= before)
			return 0;
		r = add_defect(trial, r, "", &error);
		if (r < 0)
			return r;
		(*next)++;
	}
	return 0;
}

/* apply_relocations(), after the symbols. */
int proof_judge_relocations(struct proof_trial *trial)
{
	struct error error = { 0 };
	int r = judge_stage(trial, ELF_STAGE_RELOCATIONS);

	if (r < 0 || !trial->kernel->relocations)
		return r;
	r = elf_module_check_relocations(trial->module, trial->version, &error);
	return r < 0 ? add_defect(trial, r, "damaged: ", &error) : 0;
}

/* elf_validity_cache_index_mod() since 6.4; before, a wrong size was not noticed. */
static int judge_struct_size(struct proof_trial *trial)
{
	uint64_t ours = elf_module_struct_size(trial->module);
	uint64_t theirs = trial->kernel->struct_size;
	struct proof_draft draft = { .id = "struct-size",
		.weight = PROOF_REFUSAL,
		.answer = ENOEXEC,
		.cure = proof_rebuild(trial) };

	if (!theirs || !ours || ours == theirs)
		return 0;
	if (!trial->version)
		draft.weight = PROOF_DOUBT;
	else if (trial->version < PROOF_VERSION(6, 4) && ours > theirs)
		draft.weight = PROOF_NOTE;
	return proof_add(trial, &draft,
		"its struct module has %llu bytes, but the kernel's has %llu%s",
		(unsigned long long) ours, (unsigned long long) theirs,
		trial->version < PROOF_VERSION(6, 4) && ours < theirs
			? ": this kernel does not look, and writes beyond it"
			: "");
}

int proof_judge_file(struct proof_trial *trial)
{
	int r = judge_machine(trial);

	if (r < 0 || trial->unfit)
		return r;
	r = judge_format(trial);
	return r < 0 || trial->unfit ? r : judge_struct_size(trial);
}

int proof_judge_blacklist(struct proof_trial *trial)
{
	const struct strv *names = trial->kernel->blacklist;
	const struct proof_draft draft = { .id = "blacklisted",
		.weight = PROOF_REFUSAL,
		.answer = EPERM,
		.cure = "take its name out of module_blacklist= on the kernel's command line" };

	if (!names || !strv_contains(names, trial->name))
		return 0;
	return proof_add(trial, &draft, "the kernel was started with it in module_blacklist=");
}

static const struct elf_symbol_version *layout_version(const struct proof_trial *trial)
{
	if (trial->reads_basic)
		return elf_versions_find(&trial->basic, PROOF_LAYOUT, PROOF_LAYOUT_HASH);
	return elf_module_layout(trial->module);
}

/* Every module depends on the layout of struct module, although no symbol table says so. */
int proof_judge_layout(struct proof_trial *trial)
{
	const struct proof_draft none = { .id = "no-versions",
		.weight = proof_weight_without(trial->kernel->force_load),
		.answer = ENOEXEC,
		.cure = "rebuild it with the kernel's Module.symvers at hand" };
	struct proof_export layout;

	if (!trial->modversions)
		return 0;
	if (!trial->has_versions)
		return proof_add(trial, &none,
			"has no symbol versions, which this kernel checks: only a kernel with "
			"CONFIG_MODULE_FORCE_LOAD takes it, and is tainted by it");
	/* What the kernel exports is not known then: said once, behind the symbols. */
	if (!proof_find_export(trial, PROOF_LAYOUT, PROOF_LAYOUT_HASH, &layout))
		return 0;
	return proof_judge_version(trial, &layout, layout_version(trial), ENOEXEC);
}

bool proof_foreign_release(
	const struct proof_trial *trial, const char **ret_ours, const char **ret_theirs)
{
	const struct proof_kernel *kernel = trial->kernel;

	*ret_ours = proof_info(trial, "vermagic", NULL);
	*ret_theirs = kernel->vermagic ? kernel->vermagic : kernel->krel;
	return *ret_ours && *ret_theirs && !proof_same_release(*ret_ours, *ret_theirs);
}

/* Nobody builds the kernel's own modules against its headers. */
const char *proof_rebuild(const struct proof_trial *trial)
{
	const struct proof_overlay *overlay = trial->overlay;

	if (overlay && overlay->is_kernels(overlay->context, trial->name) &&
		proof_info(trial, "intree", NULL))
		return "take this kernel's own";
	return PROOF_REBUILD;
}

static int note_vermagic(struct proof_trial *trial)
{
	const struct proof_draft only = { .id = "vermagic-only", .weight = PROOF_NOTE };

	if (trial->modversions)
		return 0;
	return proof_add(trial, &only,
		"vermagic only: the kernel has no CONFIG_MODVERSIONS, so that nothing tells whether "
		"its symbols are those that the module was built for");
}

/* After the symbols, which decide: where they do not agree a refusal has said so already. */
int proof_note_release(struct proof_trial *trial)
{
	const struct proof_draft draft = { .id = "release", .weight = PROOF_NOTE };
	const char *ours, *theirs;
	bool agree = trial->exports_known && !trial->unknown_crcs;

	if (!trial->modversions || trial->version_differs || !trial->kernel->vermagic ||
		!proof_foreign_release(trial, &ours, &theirs))
		return 0;
	return proof_add(trial, &draft,
		agree ? "built for release %.*s, which may differ from %.*s as their symbol "
			"versions agree"
		      : "built for release %.*s, not for %.*s: it loads only where all their symbol "
			"versions agree",
		(int) strcspn(ours, " "), ours, (int) strcspn(theirs, " "), theirs);
}

static int refuse_vermagic(struct proof_trial *trial, const char *ours, const char *theirs)
{
	const struct proof_draft draft = { .id = "vermagic",
		.weight = PROOF_REFUSAL,
		.answer = ENOEXEC,
		.cure = proof_rebuild(trial) };

	trial->said_release = true;
	return proof_add(trial, &draft, "built for vermagic \"%.*s\", but the kernel's is \"%.*s\"",
		(int) proof_trimmed(ours), ours, (int) proof_trimmed(theirs), theirs);
}

static int doubt_vermagic(struct proof_trial *trial)
{
	const struct proof_draft draft = { .id = "vermagic-unknown",
		.weight = PROOF_DOUBT,
		.answer = ENOEXEC,
		.cure = "give one of the kernel's own modules, or its record" };
	const char *ours, *theirs;

	if (!proof_foreign_release(trial, &ours, &theirs))
		return proof_add(trial, &draft, "the kernel's vermagic is not known");
	return proof_add(trial, &draft,
		"the kernel's vermagic is not known: built for %.*s, not for %.*s, it loads only "
		"where the kernel has CONFIG_MODVERSIONS and every symbol version agrees",
		(int) strcspn(ours, " "), ours, (int) strcspn(theirs, " "), theirs);
}

int proof_judge_vermagic(struct proof_trial *trial)
{
	const char *ours = proof_info(trial, "vermagic", NULL);
	const char *theirs = trial->kernel->vermagic;
	const struct proof_draft none = { .id = "no-vermagic",
		.weight = proof_weight_without(trial->kernel->force_load),
		.answer = ENOEXEC,
		.cure = "build it with the kernel's own Makefile (make -C <headers> M=…)" };
	bool basic = false;

	if (!ours)
		return proof_add(trial, &none,
			"states no vermagic: only a kernel with CONFIG_MODULE_FORCE_LOAD takes it");
	if (!theirs)
		return doubt_vermagic(trial);
	/* The extended form alone does not excuse another release. */
	(void) elf_module_has_versions(trial->module, &basic);
	if (!proof_same_magic(ours, theirs, trial->modversions && basic))
		return refuse_vermagic(trial, ours, theirs);
	return note_vermagic(trial);
}

int proof_judge_livepatch(struct proof_trial *trial)
{
	const struct proof_draft draft = { .id = "livepatch",
		.weight = proof_weight_without(trial->kernel->livepatch),
		.answer = ENOEXEC,
		.cure = "use a kernel with CONFIG_LIVEPATCH" };

	if (!proof_info(trial, "livepatch", NULL))
		return 0;
	return proof_add(trial, &draft,
		"a live patch: only a kernel with CONFIG_LIVEPATCH takes "
		"it, and is tainted by it");
}

/* check_export_symbol_versions(): exports without CRCs would undo the others' checks. */
int proof_judge_own_exports(struct proof_trial *trial)
{
	struct proof_draft draft = { .id = "exports-without-versions",
		.weight = proof_weight_without(trial->kernel->force_load),
		.answer = ENOEXEC,
		.cure = proof_rebuild(trial) };
	size_t count;
	const struct elf_module_export *exports = elf_module_exports(trial->module, &count);

	for (size_t i = 0; trial->modversions && i < count; i++) {
		if (exports[i].has_crc)
			continue;
		draft.symbol = exports[i].symbol;
		return proof_add(trial, &draft,
			"exports %s without a version: only a kernel with "
			"CONFIG_MODULE_FORCE_LOAD takes it, and is tainted by it",
			exports[i].symbol);
	}
	return 0;
}

/* setup_modinfo(), since 6.16: who may use such a name space is said where it is exported. */
int proof_judge_imports(struct proof_trial *trial)
{
	const struct proof_draft draft = { .id = "module-import",
		.weight = trial->version ? PROOF_REFUSAL : PROOF_DOUBT,
		.answer = EPERM,
		.cure = "take that MODULE_IMPORT_NS() out of its source" };
	const char *import = NULL;

	if (trial->version && trial->version < PROOF_VERSION(6, 16))
		return 0;
	while ((import = proof_info(trial, "import_ns", import)))
		if (proof_is_module_name_space(import))
			return proof_add(trial, &draft,
				"imports name space %s, which kernels since 6.16 refuse", import);
	return 0;
}

static bool is_built_in(const struct proof_trial *trial)
{
	const struct proof_overlay *overlay = trial->overlay;
	const struct strv *names = trial->kernel->builtin;

	if (overlay && overlay->is_built_in)
		return overlay->is_built_in(overlay->context, trial->struct_name);
	return names && strv_contains(names, trial->struct_name);
}

/* mod_sysfs_init(): the name is that of a folder in /sys/module. */
int proof_judge_built_in(struct proof_trial *trial)
{
	const struct proof_kernel *kernel = trial->kernel;
	struct proof_draft draft = { .id = "built-in",
		.weight = PROOF_DOUBT,
		.answer = EINVAL,
		.cure = "look whether the running kernel has that folder" };

	if (!is_built_in(trial))
		return 0;
	if (kernel->builtin_shown) {
		draft.weight = strv_contains(kernel->builtin_shown, trial->struct_name)
				       ? PROOF_REFUSAL
				       : PROOF_NOTE;
		draft.cure = "use a kernel that has it as a module";
	}
	return proof_add(trial, &draft,
		"the kernel has %s built in, and refuses the module where that has a folder in "
		"/sys/module",
		trial->struct_name);
}

/* ---- what the kernel takes with a complaint: module_augment_kernel_taints(), check_modinfo() */

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
	const struct proof_draft proprietary = { .id = "proprietary", .weight = PROOF_NOTE };
	const char *license = proof_info(trial, "license", NULL);

	for (size_t i = 0; i < ARRAY_SIZE(taints); i++)
		if (!proof_info(trial, taints[i].key, NULL) == taints[i].when_absent &&
			note(trial, taints[i].id, taints[i].text) < 0)
			return -ENOMEM;
	if (trial->kernel->retpoline == PROOF_YES && !proof_info(trial, "retpoline", NULL) &&
		note(trial, "retpoline",
			"compiled without retpolines, which the kernel complains of in its log") <
			0)
		return -ENOMEM;
	if (!trial->proprietary)
		return 0;
	return proof_add(trial, &proprietary,
		"its licence \"%s\" is not the GPL's kind: it taints the kernel (P)",
		license ? license : "unspecified");
}
