/* SPDX-License-Identifier: Apache-2.0 */
/* How the kernel resolves a module's symbols: simplify_symbols() of kernel/module/main.c. */
#include <string.h>

#include "module/proof_internal.h"

static bool entry_is_gpl(const struct symvers_entry *entry)
{
	return strcmp(entry->export, "EXPORT_SYMBOL_GPL") == 0 ||
	       strcmp(entry->export, "EXPORT_UNUSED_SYMBOL_GPL") == 0;
}

bool proof_find_export(
	const struct proof_trial *trial, const char *symbol, struct proof_export *ret)
{
	const struct proof_overlay *overlay = trial->overlay;
	const struct symvers_entry *entry;

	if (overlay && overlay->find(overlay->context, symbol, ret))
		return true;
	if (!trial->kernel->symvers)
		return false;
	entry = symvers_find(trial->kernel->symvers, symbol);
	if (!entry)
		return false;
	*ret = (struct proof_export){
		.symbol = entry->symbol,
		.exporter = entry->module,
		.name_space = entry->name_space,
		.crc = entry->crc,
		.has_crc = true,
		.gpl = entry_is_gpl(entry),
	};
	return true;
}

int proof_judge_version(struct proof_trial *trial, const struct proof_export *export, int answer)
{
	char exporter[PROOF_NAME_SIZE], cure[PROOF_NAME_SIZE + 64];
	struct proof_draft draft = { .id = "symbol-version",
		.weight = PROOF_REFUSAL,
		.answer = answer,
		.symbol = export->symbol,
		.exporter = exporter,
		.has_crcs = true,
		.found_crc = export->crc,
		.cure = cure };

	if (!trial->modversions || !export->has_crc ||
		!elf_module_version(trial->module, export->symbol, &draft.wanted_crc) ||
		draft.wanted_crc == export->crc)
		return 0;
	proof_exporter_name(export->exporter, exporter);
	if (strcmp(exporter, "vmlinux") == 0) {
		(void) snprintf(
			cure, sizeof(cure), "rebuild it against the headers of this kernel");
		return proof_add(trial, &draft,
			"built for %s CRC 0x%08x, but the kernel exports 0x%08x", export->symbol,
			draft.wanted_crc, export->crc);
	}
	(void) snprintf(cure, sizeof(cure), "rebuild it against the %s that is loaded", exporter);
	return proof_add(trial, &draft, "built for %s CRC 0x%08x, but %s exports 0x%08x",
		export->symbol, draft.wanted_crc, exporter, export->crc);
}

static int judge_name_space(struct proof_trial *trial, const struct proof_export *export)
{
	_cleanup_strv_ struct strv imports = { 0 };
	char cure[256];
	struct proof_draft draft = { .id = "name-space",
		.weight = proof_weight_without(trial->kernel->missing_imports),
		.answer = EINVAL,
		.symbol = export->symbol,
		.cure = "use a driver source that does without that symbol" };

	if (!*export->name_space)
		return 0;
	if (proof_is_module_name_space(export->name_space)) {
		if (proof_name_space_names(export->name_space, trial->name))
			return 0;
		return proof_add(trial, &draft,
			"uses %s, which is exported to %s only: only a kernel with "
			"CONFIG_MODULE_ALLOW_MISSING_NAMESPACE_IMPORTS takes it",
			export->symbol, strchr(export->name_space, ':') + 1);
	}
	if (elf_module_info_all(trial->module, "import_ns", &imports) < 0)
		return -ENOMEM;
	if (strv_contains(&imports, export->name_space))
		return 0;
	(void) snprintf(
		cure, sizeof(cure), "add MODULE_IMPORT_NS(%s) to its source", export->name_space);
	draft.cure = cure;
	return proof_add(trial, &draft,
		"uses %s of name space %s without importing it: only a kernel with "
		"CONFIG_MODULE_ALLOW_MISSING_NAMESPACE_IMPORTS takes it",
		export->symbol, export->name_space);
}

/* The order is the kernel's, in resolve_symbol(): what it cannot see it does not compare. */
static int judge_export(struct proof_trial *trial, const struct proof_export *export)
{
	int r;

	if (export->gpl && trial->proprietary) {
		const char *license = elf_module_info(trial->module, "license");
		char exporter[PROOF_NAME_SIZE];
		const struct proof_draft draft = { .id = "gpl-only",
			.weight = PROOF_REFUSAL,
			.answer = ENOENT,
			.symbol = export->symbol,
			.exporter = exporter,
			.cure = "use a driver source with a compatible licence" };

		proof_exporter_name(export->exporter, exporter);
		return proof_add(trial, &draft,
			"its licence \"%s\" is not compatible with the GPL, but %s exports %s "
			"to such modules only",
			license ? license : "unspecified",
			strcmp(exporter, "vmlinux") == 0 ? "the kernel" : exporter, export->symbol);
	}
	r = proof_judge_version(trial, export, EINVAL);
	return r < 0 ? r : judge_name_space(trial, export);
}

static int judge_missing(struct proof_trial *trial, const char *symbol)
{
	const struct proof_draft draft = { .id = "symbol-missing",
		.weight = PROOF_REFUSAL,
		.answer = ENOENT,
		.symbol = symbol,
		.cure = "rebuild it, or load the module that exports it first" };

	/* Assemblers before 2.37 leave this one behind, and the kernel passes over it. */
	if (strcmp(symbol, "_GLOBAL_OFFSET_TABLE_") == 0)
		return 0;
	return proof_add(trial, &draft,
		"needs %s, which neither the kernel nor a module loaded before it exports", symbol);
}

/* A symbol that binds weakly may be absent, but is checked like any other where somebody has it. */
int proof_judge_symbols(struct proof_trial *trial)
{
	_cleanup_strv_ struct strv needed = { 0 };
	_cleanup_strv_ struct strv used = { 0 };
	int r = 0;

	if (elf_module_undefined(trial->module, false, &needed) < 0 ||
		elf_module_undefined(trial->module, true, &used) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < used.count && r == 0; i++) {
		struct proof_export export;

		if (proof_find_export(trial, used.items[i], &export))
			r = judge_export(trial, &export);
		else if (strv_contains(&needed, used.items[i]))
			r = judge_missing(trial, used.items[i]);
	}
	return r;
}
