/* SPDX-License-Identifier: Apache-2.0 */
#include "module/proof.h"

#include <string.h>

/* The exporter of module_layout has to be asked for by name: no module has it as an undefined. */
#define LAYOUT_SYMBOL     "module_layout"
#define MODULE_NAME_SIZE  64
#define MODULE_NAME_SPACE "module:"

/* One proof while it is made. */
struct trial {
	const struct elf_module *module;
	const char *name;
	const char *vermagic;
	const struct symvers *symvers;
	bool kernel_versions; /* CONFIG_MODVERSIONS, which vermagic states */
	bool gpl;             /* the module may use EXPORT_SYMBOL_GPL */
	struct strv refusals; /* the kernel says no, whatever its options */
	struct strv doubts; /* it depends on an option of the kernel that vermagic does not tell */
};

static void trial_done(struct trial *trial)
{
	strv_free(&trial->refusals);
	strv_free(&trial->doubts);
}

/* The licences that Linux include/linux/license.h lets use GPL-only symbols. */
static bool license_is_gpl(const char *license)
{
	static const char *const compatible[] = { "GPL", "GPL v2", "GPL and additional rights",
		"Dual BSD/GPL", "Dual MIT/GPL", "Dual MPL/GPL" };

	for (size_t i = 0; license && i < ARRAY_SIZE(compatible); i++)
		if (strcmp(license, compatible[i]) == 0)
			return true;
	return false;
}

static bool export_is_gpl(const struct symvers_entry *entry)
{
	return strcmp(entry->export, "EXPORT_SYMBOL_GPL") == 0 ||
	       strcmp(entry->export, "EXPORT_UNUSED_SYMBOL_GPL") == 0;
}

/* Length without the space that ends the kernel's own string and that readers of it often cut. */
static size_t trimmed_length(const char *text)
{
	size_t length = strlen(text);

	while (length && text[length - 1] == ' ')
		length--;
	return length;
}

static bool has_word(const char *text, const char *word)
{
	size_t length = strlen(word);

	for (text += strspn(text, " "); *text; text += strspn(text, " ")) {
		size_t found = strcspn(text, " ");

		if (found == length && strncmp(text, word, length) == 0)
			return true;
		text += found;
	}
	return false;
}

/* same_magic() of kernel/module/version.c. */
static bool same_magic(const char *ours, const char *theirs, bool skip_release)
{
	if (skip_release) {
		ours += strcspn(ours, " ");
		theirs += strcspn(theirs, " ");
	}
	return trimmed_length(ours) == trimmed_length(theirs) &&
	       strncmp(ours, theirs, trimmed_length(ours)) == 0;
}

static int judge_vermagic(struct trial *trial)
{
	const char *ours = elf_module_info(trial->module, "vermagic");
	bool basic = false;

	(void) elf_module_has_versions(trial->module, &basic);
	if (!ours)
		return strv_pushf(&trial->doubts,
			"%s: states no vermagic: only a kernel with CONFIG_MODULE_FORCE_LOAD takes "
			"it: build it with the kernel's own Makefile (make -C <headers> M=…)",
			trial->name);
	if (same_magic(ours, trial->vermagic, trial->kernel_versions && basic))
		return 0;
	return strv_pushf(&trial->refusals,
		"%s: built for vermagic \"%.*s\", but the kernel's is \"%.*s\": rebuild it against "
		"the headers of this kernel",
		trial->name, (int) trimmed_length(ours), ours,
		(int) trimmed_length(trial->vermagic), trial->vermagic);
}

static int judge_version(struct trial *trial, const struct symvers_entry *entry)
{
	char exporter[MODULE_NAME_SIZE];
	uint32_t crc;

	if (!trial->kernel_versions || !elf_module_version(trial->module, entry->symbol, &crc) ||
		crc == entry->crc)
		return 0;
	if (strcmp(entry->module, "vmlinux") == 0)
		return strv_pushf(&trial->refusals,
			"%s: built for %s CRC 0x%08x, but the kernel exports 0x%08x: rebuild it "
			"against the headers of this kernel",
			trial->name, entry->symbol, crc, entry->crc);
	symvers_module_name(entry, exporter, sizeof(exporter));
	return strv_pushf(&trial->refusals,
		"%s: built for %s CRC 0x%08x, but %s exports 0x%08x: rebuild it against the %s "
		"that is loaded",
		trial->name, entry->symbol, crc, exporter, entry->crc, exporter);
}

/* Every module depends on the layout of struct module, although no symbol table says so. */
static int judge_layout(struct trial *trial)
{
	const struct symvers_entry *layout;

	if (!trial->kernel_versions)
		return 0;
	if (!elf_module_has_versions(trial->module, NULL))
		return strv_pushf(&trial->doubts,
			"%s: has no symbol versions, which this kernel checks: only a kernel with "
			"CONFIG_MODULE_FORCE_LOAD takes it, and is tainted by it: rebuild it with "
			"the kernel's Module.symvers at hand",
			trial->name);
	layout = symvers_find(trial->symvers, LAYOUT_SYMBOL);
	if (!layout)
		return strv_pushf(&trial->doubts,
			"%s: the symbol versions given have no " LAYOUT_SYMBOL
			": give the kernel's own Module.symvers too",
			trial->name);
	return judge_version(trial, layout);
}

/* Compares like the kernel's mod_strncmp(): '-' and '_' are one. */
static bool same_module_name(const char *left, const char *right, size_t length)
{
	for (size_t i = 0; i < length; i++) {
		char l = left[i] == '-' ? '_' : left[i];
		char r = right[i] == '-' ? '_' : right[i];

		if (l != r)
			return false;
	}
	return true;
}

/*
 * Whether a "module:a,b*" name space, which nobody can import (since 6.16), names the module; a
 * star stands for any end.
 */
static bool name_space_names_module(const char *name_space, const char *module)
{
	const char *next = name_space + strlen(MODULE_NAME_SPACE);
	size_t module_length = strlen(module);

	while (*next) {
		size_t field = strcspn(next, ",");
		bool star = field && next[field - 1] == '*';
		size_t length = star ? field - 1 : field;

		if (length <= module_length && (star || length == module_length) &&
			same_module_name(next, module, length))
			return true;
		next += field;
		next += *next == ',';
	}
	return false;
}

static int judge_name_space(struct trial *trial, const struct symvers_entry *entry)
{
	_cleanup_strv_ struct strv imports = { 0 };

	if (!*entry->name_space)
		return 0;
	if (strncmp(entry->name_space, MODULE_NAME_SPACE, strlen(MODULE_NAME_SPACE)) == 0) {
		if (name_space_names_module(entry->name_space, trial->name))
			return 0;
		return strv_pushf(&trial->doubts,
			"%s: uses %s, which is exported to %s only: only a kernel with "
			"CONFIG_MODULE_ALLOW_MISSING_NAMESPACE_IMPORTS takes it: use a driver "
			"source that does without that symbol",
			trial->name, entry->symbol, entry->name_space + strlen(MODULE_NAME_SPACE));
	}
	if (elf_module_info_all(trial->module, "import_ns", &imports) < 0)
		return -ENOMEM;
	if (strv_contains(&imports, entry->name_space))
		return 0;
	return strv_pushf(&trial->doubts,
		"%s: uses %s of name space %s without importing it: only a kernel with "
		"CONFIG_MODULE_ALLOW_MISSING_NAMESPACE_IMPORTS takes it: add "
		"MODULE_IMPORT_NS(%s) to its source",
		trial->name, entry->symbol, entry->name_space, entry->name_space);
}

/* The order is the kernel's, in resolve_symbol(): what it cannot see it does not compare. */
static int judge_export(struct trial *trial, const struct symvers_entry *entry)
{
	int r;

	if (export_is_gpl(entry) && !trial->gpl) {
		const char *license = elf_module_info(trial->module, "license");
		char exporter[MODULE_NAME_SIZE];

		symvers_module_name(entry, exporter, sizeof(exporter));
		return strv_pushf(&trial->refusals,
			"%s: its licence \"%s\" is not compatible with the GPL, but %s exports %s "
			"to such modules only: use a driver source with a compatible licence",
			trial->name, license ? license : "unspecified",
			strcmp(exporter, "vmlinux") == 0 ? "the kernel" : exporter, entry->symbol);
	}
	r = judge_version(trial, entry);
	return r < 0 ? r : judge_name_space(trial, entry);
}

static int judge_missing(struct trial *trial)
{
	_cleanup_strv_ struct strv needed = { 0 };

	if (elf_module_undefined(trial->module, false, &needed) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < needed.count; i++) {
		if (symvers_find(trial->symvers, needed.items[i]))
			continue;
		/* Assemblers before 2.37 leave this one behind, and the kernel passes over it. */
		if (strcmp(needed.items[i], "_GLOBAL_OFFSET_TABLE_") == 0)
			continue;
		if (strv_pushf(&trial->refusals,
			    "%s: needs %s, which neither the kernel nor a module loaded before it "
			    "exports: rebuild it, or load the module that exports it first",
			    trial->name, needed.items[i]) < 0)
			return -ENOMEM;
	}
	return 0;
}

/* A symbol that binds weakly may be absent, but is checked like any other where somebody has it. */
static int judge_exports(struct trial *trial)
{
	_cleanup_strv_ struct strv used = { 0 };

	if (elf_module_undefined(trial->module, true, &used) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < used.count; i++) {
		const struct symvers_entry *entry = symvers_find(trial->symvers, used.items[i]);

		if (entry && judge_export(trial, entry) < 0)
			return -ENOMEM;
	}
	return 0;
}

static int conclude(const struct trial *trial, struct proof *proof)
{
	struct proof result = { .verdict = PROOF_WILL_LOAD };
	const struct strv *lists[] = { &trial->refusals, &trial->doubts };

	if (trial->refusals.count)
		result.verdict = PROOF_WILL_NOT_LOAD;
	else if (trial->doubts.count)
		result.verdict = PROOF_CANNOT_TELL;
	for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
		for (size_t j = 0; j < lists[i]->count; j++)
			if (strv_push(&result.findings, lists[i]->items[j]) < 0) {
				proof_free(&result);
				return -ENOMEM;
			}
	*proof = result;
	return 0;
}

/* What messages call it: its own name, or its file's where it is too old to state one. */
static const char *name_of(const struct elf_module *module)
{
	const char *name = elf_module_name(module);
	const char *slash = strrchr(elf_module_path(module), '/');

	if (name)
		return name;
	return slash ? slash + 1 : elf_module_path(module);
}

int proof_module(const struct elf_module *module, const char *vermagic,
	const struct symvers *symvers, struct proof *proof)
{
	_cleanup_(trial_done) struct trial trial = {
		.module = module,
		.name = name_of(module),
		.vermagic = vermagic,
		.symvers = symvers,
		.kernel_versions = has_word(vermagic, "modversions"),
		.gpl = license_is_gpl(elf_module_info(module, "license")),
	};
	int r = judge_vermagic(&trial);

	if (r == 0)
		r = judge_layout(&trial);
	if (r == 0)
		r = judge_missing(&trial);
	if (r == 0)
		r = judge_exports(&trial);
	return r < 0 ? r : conclude(&trial, proof);
}

void proof_free(struct proof *proof)
{
	strv_free(&proof->findings);
}

const char *proof_verdict_text(enum proof_verdict verdict)
{
	static const char *const texts[] = {
		[PROOF_WILL_LOAD] = "will load",
		[PROOF_WILL_NOT_LOAD] = "will not load",
		[PROOF_CANNOT_TELL] = "cannot tell",
	};

	return texts[verdict];
}
