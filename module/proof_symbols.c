/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the kernel resolves a module's symbols: simplify_symbols(), resolve_symbol() and
 * verify_exported_symbols() of kernel/module/main.c, check_version() of kernel/module/version.c.
 */
#include "module/proof_internal.h"

#include <elf.h>
#include <string.h>

#define SOME_BEFORE_5_9 ": a rule of 5.9, which not every older kernel was given"
#define RELEASES_SIZE   192 /* of release_text()'s text: releases have 64 bytes */

/* ---- symbols that nothing is known to export, and other releases */

/* Before what shows it, that is the first thing to know: "built for A, not for B: ". */
static void release_text(struct proof_trial *trial, char *text, size_t size)
{
	const char *ours, *theirs;

	*text = '\0';
	if (trial->said_release || !proof_foreign_release(trial, &ours, &theirs))
		return;
	trial->said_release = true;
	(void) snprintf(text, size, "built for %.*s, not for %.*s: ", (int) strcspn(ours, " "),
		ours, (int) strcspn(theirs, " "), theirs);
}

/* The interface by which GPU memory goes to the network without the host's. */
static bool is_peer_memory(const char *symbol)
{
	return strcmp(symbol, "ib_register_peer_memory_client") == 0 ||
	       strcmp(symbol, "ib_unregister_peer_memory_client") == 0;
}

static const char *cure_missing(const struct proof_trial *trial, const char *symbol)
{
	const char *ours, *theirs;

	if (is_peer_memory(symbol))
		return "give the OFED that exports it too (the NIC image, or its Module.symvers by "
		       "--with); this module matters only where GPUDirect RDMA is asked for";
	if (proof_foreign_release(trial, &ours, &theirs))
		return proof_rebuild(trial);
	return "rebuild it, or load the module that exports it first";
}

/* What the kernel exports is one thing that is not known, however many symbols hang on it. */
static int doubt_exports(struct proof_trial *trial)
{
	const char *krel = trial->kernel->krel;
	char cure[256], count[32] = "";
	const struct proof_draft draft = { .id = "symvers",
		.weight = PROOF_DOUBT,
		.answer = trial->modversions ? ENOEXEC : ENOENT,
		.symbol = trial->modversions ? PROOF_LAYOUT : trial->first_missing,
		.cure = cure };

	if (trial->exports_known ||
		(!trial->missing && !(trial->modversions && trial->has_versions)))
		return 0;
	(void) snprintf(cure, sizeof(cure),
		"give the Module.symvers of its headers (--with FILE), or its release (--kernel %s)",
		krel ? krel : "RELEASE");
	if (trial->missing > 1)
		(void) snprintf(count, sizeof(count), " and %zu more", trial->missing - 1);
	return proof_add(trial, &draft, "nothing tells what the kernel exports: it needs %s%s",
		trial->missing ? trial->first_missing : PROOF_LAYOUT, count);
}

static int refuse_replaced(struct proof_trial *trial, const char *symbol, const char *path)
{
	char exporter[PROOF_NAME_SIZE];
	const struct proof_draft draft = { .id = "symbol-missing",
		.weight = PROOF_REFUSAL,
		.answer = ENOENT,
		.symbol = symbol,
		.exporter = exporter,
		.cure = "rebuild it against the set that it is loaded with" };

	proof_exporter_name(path, exporter);
	return proof_add(trial, &draft,
		"needs %s, which the kernel's own %s exports, but not the one that takes its place",
		symbol, exporter);
}

static int judge_missing(struct proof_trial *trial, const char *symbol)
{
	const struct proof_overlay *overlay = trial->overlay;
	const struct symvers_entry *entry =
		trial->kernel->symvers ? symvers_find(trial->kernel->symvers, symbol) : NULL;
	const struct proof_draft draft = { .id = "symbol-missing",
		.weight = PROOF_REFUSAL,
		.answer = ENOENT,
		.symbol = symbol,
		.cure = cure_missing(trial, symbol) };
	char release[RELEASES_SIZE];

	if (entry && overlay && overlay->replaces(overlay->context, entry->module))
		return refuse_replaced(trial, symbol, entry->module);
	if (!trial->exports_known) {
		if (trial->missing++ == 0)
			trial->first_missing = symbol;
		return 0;
	}
	release_text(trial, release, sizeof(release));
	return proof_add(trial, &draft,
		"%sneeds %s, which neither the kernel nor a module loaded before it exports",
		release, symbol);
}

/* ---- what exports a symbol, and how */

static bool entry_is_gpl(const struct symvers_entry *entry)
{
	return strcmp(entry->export, "EXPORT_SYMBOL_GPL") == 0 ||
	       strcmp(entry->export, "EXPORT_UNUSED_SYMBOL_GPL") == 0;
}

static bool is_tainted(const struct proof_kernel *kernel, const char *path)
{
	char name[PROOF_NAME_SIZE];

	if (!kernel->proprietary || !kernel->proprietary->count)
		return false;
	proof_exporter_name(path, name);
	return strv_contains(kernel->proprietary, name);
}

/*
 * inherit_taint() came with 5.9, and from there to the older kernels that were maintained in 2021:
 * of these a release does not tell.
 */
static bool may_not_inherit(const struct proof_trial *trial)
{
	return trial->version && trial->version < PROOF_VERSION(5, 9);
}

void proof_export_of(const struct proof_kernel *kernel, const struct symvers_entry *entry,
	struct proof_export *ret)
{
	*ret = (struct proof_export){
		.symbol = entry->symbol,
		.exporter = entry->module,
		.name_space = entry->name_space,
		.crc = entry->crc,
		.has_crc = entry->has_crc,
		.crc_unknown = !entry->has_crc,
		.gpl = entry_is_gpl(entry),
		.gpl_unknown = !*entry->export,
		.proprietary = is_tainted(kernel, entry->module),
		.vmlinux = strcmp(entry->module, "vmlinux") == 0,
		.in_name_space = *entry->name_space,
	};
}

bool proof_find_export(const struct proof_trial *trial, const char *symbol, uint32_t hash,
	struct proof_export *ret)
{
	const struct proof_overlay *overlay = trial->overlay;
	const struct symvers_entry *entry;

	if (overlay && overlay->find(overlay->context, symbol, hash, ret))
		return true;
	if (!trial->kernel->symvers)
		return false;
	entry = symvers_find_hashed(trial->kernel->symvers, symbol, hash);
	if (!entry || (overlay && overlay->replaces(overlay->context, entry->module)))
		return false;
	proof_export_of(trial->kernel, entry, ret);
	return true;
}

static const char *rebuild_against(const struct proof_trial *trial,
	const struct proof_export *export, const char *exporter, char *text, size_t size)
{
	const char *where = "that the kernel has";
	const char *ours, *theirs;

	if (export->vmlinux || proof_foreign_release(trial, &ours, &theirs))
		return proof_rebuild(trial);
	if (export->member)
		where = "of this set";
	else if (trial->kernel->running)
		where = "that is loaded";
	(void) snprintf(text, size, "rebuild it against the %s %s", exporter, where);
	return text;
}

static int refuse_version(struct proof_trial *trial, const struct proof_export *export,
	const struct elf_symbol_version *wanted, int answer)
{
	char exporter[PROOF_NAME_SIZE], cure[PROOF_NAME_SIZE + 64], release[RELEASES_SIZE];
	struct proof_draft draft = { .id = "symbol-version",
		.weight = PROOF_REFUSAL,
		.answer = answer,
		.symbol = export->symbol,
		.exporter = exporter,
		.has_crcs = true,
		.wanted_crc = wanted->crc,
		.found_crc = export->crc };
	const char *who = export->vmlinux ? "the kernel" : exporter;

	proof_exporter_name(export->exporter, exporter);
	draft.cure = rebuild_against(trial, export, exporter, cure, sizeof(cure));
	trial->version_differs = true;
	if (wanted->wide)
		return proof_add(trial, &draft,
			"damaged: its CRC of %s has more than 32 bits, but %s exports 0x%08x",
			export->symbol, who, export->crc);
	release_text(trial, release, sizeof(release));
	if (*release)
		return proof_add(trial, &draft,
			"%sit wants %s with CRC 0x%08x, but %s exports 0x%08x", release,
			export->symbol, wanted->crc, who, export->crc);
	return proof_add(trial, &draft, "built for %s CRC 0x%08x, but %s exports 0x%08x",
		export->symbol, wanted->crc, who, export->crc);
}

/* Of the kernel as a whole it is said once, at the end. */
static int doubt_version(struct proof_trial *trial, const struct proof_export *export, int answer)
{
	char exporter[PROOF_NAME_SIZE];
	const struct proof_draft draft = { .id = "symbol-crc-unknown",
		.weight = PROOF_DOUBT,
		.answer = answer,
		.symbol = export->symbol,
		.exporter = exporter,
		.cure = "give the Module.symvers or the file of the module that is loaded" };

	if (export->vmlinux) {
		if (trial->unknown_crcs++ == 0)
			trial->unknown_crc = export->symbol;
		return 0;
	}
	proof_exporter_name(export->exporter, exporter);
	return proof_add(trial, &draft, "the CRC of %s, which %s exports, is not known",
		export->symbol, exporter);
}

static int doubt_versions_of_kernel(struct proof_trial *trial)
{
	const struct proof_draft draft = { .id = "symbol-crc-unknown",
		.weight = PROOF_DOUBT,
		.answer = EINVAL,
		.symbol = trial->unknown_crc,
		.exporter = "vmlinux",
		.cure = "give the kernel's Module.symvers" };

	if (!trial->unknown_crcs)
		return 0;
	if (trial->unknown_crcs == 1)
		return proof_add(trial, &draft,
			"the CRC of %s, which the kernel exports, is not known",
			trial->unknown_crc);
	return proof_add(trial, &draft,
		"the CRCs of %s and %zu other symbols that the kernel exports are not known",
		trial->unknown_crc, trial->unknown_crcs - 1);
}

static enum proof_option takes_missing_versions(const struct proof_trial *trial)
{
	const struct proof_kernel *kernel = trial->kernel;
	const char *release = kernel->krel ? kernel->krel : kernel->vermagic;

	if (kernel->missing_versions == PROOF_UNKNOWN && release && proof_is_debian(release))
		return PROOF_NO;
	return kernel->missing_versions;
}

/* The extended form's reader passes over what it does not list. */
static int judge_missing_version(
	struct proof_trial *trial, const struct proof_export *export, int answer)
{
	char exporter[PROOF_NAME_SIZE];
	const struct proof_draft draft = { .id = "symbol-without-version",
		.weight = proof_weight_without(takes_missing_versions(trial)),
		.answer = answer,
		.symbol = export->symbol,
		.exporter = exporter,
		.cure = "rebuild it with the Module.symvers of all that it uses" };

	if (trial->has_extended)
		return 0;
	proof_exporter_name(export->exporter, exporter);
	return proof_add(trial, &draft,
		"has no version for %s, which %s exports: Linux takes that with a warning, Debian's "
		"kernels refuse it",
		export->symbol, export->vmlinux ? "the kernel" : exporter);
}

int proof_judge_version(struct proof_trial *trial, const struct proof_export *export,
	const struct elf_symbol_version *wanted, int answer)
{
	/* As it mostly is. */
	if (wanted && !wanted->wide && export->has_crc && wanted->crc == export->crc)
		return 0;
	if (!trial->modversions || !trial->has_versions)
		return 0;
	if (!export->has_crc && !export->crc_unknown)
		return 0; /* as for a module that was forced in */
	if (!wanted)
		return judge_missing_version(trial, export, answer);
	if (wanted->wide)
		return refuse_version(trial, export, wanted, answer);
	if (export->crc_unknown)
		return doubt_version(trial, export, answer);
	return wanted->crc == export->crc ? 0 : refuse_version(trial, export, wanted, answer);
}

static bool imports(const struct proof_trial *trial, const char *name_space)
{
	const char *import = NULL;

	while ((import = proof_info(trial, "import_ns", import)))
		if (strcmp(import, name_space) == 0)
			return true;
	return false;
}

static int judge_imported(struct proof_trial *trial, const struct proof_export *export)
{
	bool for_modules = proof_is_module_name_space(export->name_space) &&
			   (!trial->version || trial->version >= PROOF_VERSION(6, 16));
	char cure[256];
	struct proof_draft draft = { .id = "name-space",
		.weight = proof_weight_without(trial->kernel->missing_imports),
		.answer = EINVAL,
		.symbol = export->symbol,
		.cure = for_modules ? "use a driver source that does without that symbol" : cure };

	if (for_modules ? proof_name_space_names(export->name_space, trial->struct_name)
			: imports(trial, export->name_space))
		return 0;
	(void) snprintf(
		cure, sizeof(cure), "add MODULE_IMPORT_NS(%s) to its source", export->name_space);
	if (for_modules)
		return proof_add(trial, &draft,
			"uses %s, which is exported to %s only: only a kernel with "
			"CONFIG_MODULE_ALLOW_MISSING_NAMESPACE_IMPORTS takes it",
			export->symbol, strchr(export->name_space, ':') + 1);
	return proof_add(trial, &draft,
		"uses %s of name space %s without importing it: only a kernel with "
		"CONFIG_MODULE_ALLOW_MISSING_NAMESPACE_IMPORTS takes it",
		export->symbol, export->name_space);
}

/* The kernel does not show such a symbol: as good as missing. */
static int judge_hidden(struct proof_trial *trial, const struct proof_export *export)
{
	const char *license = proof_info(trial, "license", NULL);
	bool certain = export->gpl && !(trial->inherited && may_not_inherit(trial));
	char exporter[PROOF_NAME_SIZE];
	const struct proof_draft draft = { .id = "gpl-only",
		.weight = certain ? PROOF_REFUSAL : PROOF_DOUBT,
		.answer = ENOENT,
		.symbol = export->symbol,
		.exporter = exporter,
		.cure = export->gpl ? "use a driver source with a compatible licence"
				    : "give the kernel's Module.symvers" };
	const char *who = export->vmlinux ? "the kernel" : exporter;

	proof_exporter_name(export->exporter, exporter);
	if (trial->inherited)
		return proof_add(trial, &draft,
			"uses a proprietary module, and so loses sight of %s, which %s exports to "
			"GPL-compatible modules only%s",
			export->symbol, who, certain ? "" : SOME_BEFORE_5_9);
	return proof_add(trial, &draft,
		export->gpl
			? "its licence \"%s\" is not compatible with the GPL, but %s exports %s "
			  "to such modules only"
			: "its licence \"%s\" is not compatible with the GPL, and it is not "
			  "known whether %s exports %s to such modules only",
		license ? license : "unspecified", who, export->symbol);
}

/* inherit_taint(): who uses GPL-only symbols may not use a proprietary module's. */
static int judge_taint(struct proof_trial *trial, const struct proof_export *export)
{
	char exporter[PROOF_NAME_SIZE];
	bool certain = !may_not_inherit(trial);
	const struct proof_draft refused = { .id = "tainted-exporter",
		.weight = certain ? PROOF_REFUSAL : PROOF_DOUBT,
		.answer = ENOENT,
		.symbol = export->symbol,
		.exporter = exporter,
		.cure = "use a driver source that needs only one of both" };
	const struct proof_draft inherits = { .id = "inherits-taint",
		.weight = PROOF_NOTE,
		.symbol = export->symbol,
		.exporter = exporter };

	proof_exporter_name(export->exporter, exporter);
	if (trial->uses_gpl_only)
		return proof_add(trial, &refused,
			"uses GPL-only symbols, and so may not use %s of the proprietary module "
			"%s%s",
			export->symbol, exporter, certain ? "" : SOME_BEFORE_5_9);
	if (trial->proprietary)
		return 0;
	trial->proprietary = true;
	trial->inherited = true;
	return proof_add(trial, &inherits,
		"uses %s of the proprietary module %s: it counts as proprietary too",
		export->symbol, exporter);
}

static const struct elf_symbol_version *wanted_of(
	const struct proof_trial *trial, const struct elf_undefined *undefined)
{
	if (trial->reads_basic)
		return elf_versions_find(
			&trial->basic, undefined->name, elf_undefined_hash(undefined));
	return undefined->version;
}

/* The order is the kernel's, in resolve_symbol(): what it cannot see it does not compare. */
static int judge_export(struct proof_trial *trial, const struct proof_export *export,
	const struct elf_undefined *undefined)
{
	bool weak = undefined->weak;
	size_t before;
	int r;

	if (trial->proprietary && (export->gpl || export->gpl_unknown))
		return weak ? 0 : judge_hidden(trial, export);
	trial->uses_gpl_only = trial->uses_gpl_only || export->gpl;
	if (export->proprietary && trial->uses_gpl_only)
		return weak ? 0 : judge_taint(trial, export);
	if (export->proprietary && judge_taint(trial, export) < 0)
		return -ENOMEM;
	before = trial->proof.count;
	r = proof_judge_version(trial, export, wanted_of(trial, undefined), EINVAL);
	if (r < 0 || trial->proof.count != before || !export->in_name_space)
		return r;
	return judge_imported(trial, export);
}

/*
 * Assemblers before 2.37 leave _GLOBAL_OFFSET_TABLE_ behind, and the kernel passes over it on x86;
 * on 64-bit PowerPC .TOC. is the module's own (dedotify() of arch/powerpc/kernel/module_64.c).
 */
static bool is_ignored(const struct proof_trial *trial, const char *symbol)
{
	if (trial->machine == EM_PPC64 && strcmp(symbol, ".TOC.") == 0)
		return true;
	return (trial->machine == EM_X86_64 || trial->machine == EM_386) &&
	       strcmp(symbol, "_GLOBAL_OFFSET_TABLE_") == 0;
}

/* @room: for what is not ready; NULL when nothing exports it. */
static const struct proof_export *find_undefined(const struct proof_trial *trial,
	const struct elf_undefined *undefined, struct proof_export *room)
{
	const struct proof_overlay *overlay = trial->overlay;
	const struct proof_export *known = NULL;

	if (trial->finds_known && undefined->known)
		known = overlay->find_known(overlay->context, undefined->number);
	if (known)
		return known;
	return proof_find_export(trial, undefined->name, elf_undefined_hash(undefined), room)
		       ? room
		       : NULL;
}

/* Nothing of it matters to this module but the CRC, and that fits: as of most symbols. */
static bool is_plain(const struct proof_trial *trial, const struct proof_export *export,
	const struct elf_undefined *undefined)
{
	const struct elf_symbol_version *wanted = wanted_of(trial, undefined);

	return wanted && wanted->crc == export->crc && export->has_crc && !wanted->wide &&
	       !export->in_name_space && !export->proprietary && !trial->proprietary;
}

static int judge_symbol(struct proof_trial *trial, const struct elf_undefined *undefined)
{
	const struct proof_overlay *overlay = trial->overlay;
	struct proof_export room;
	const struct proof_export *export = find_undefined(trial, undefined, &room);

	/* One that binds weakly may be absent, but is checked like any other where it is there. */
	if (!export)
		return undefined->weak || is_ignored(trial, undefined->name)
			       ? 0
			       : judge_missing(trial, undefined->name);
	if (overlay && (export->member || !export->vmlinux) &&
		overlay->use(overlay->context, export, undefined->weak) < 0)
		return -ENOMEM;
	if (is_plain(trial, export, undefined)) {
		trial->uses_gpl_only = trial->uses_gpl_only || export->gpl;
		return 0;
	}
	return judge_export(trial, export, undefined);
}

int proof_judge_symbols(struct proof_trial *trial)
{
	size_t count;
	const struct elf_undefined *symbols = elf_module_undefined_symbols(trial->module, &count);
	uint32_t next = 0;

	trial->among_symbols = true;
	for (size_t i = 0; i < count; i++) {
		if (next < symbols[i].index &&
			proof_judge_places(trial, symbols[i].index, &next) < 0)
			return -ENOMEM;
		if (judge_symbol(trial, &symbols[i]) < 0)
			return -ENOMEM;
	}
	if (proof_judge_places(trial, UINT32_MAX, &next) < 0)
		return -ENOMEM;
	trial->among_symbols = false;
	if (doubt_versions_of_kernel(trial) < 0)
		return -ENOMEM;
	return doubt_exports(trial);
}

static int refuse_duplicate(struct proof_trial *trial, const struct symvers_entry *entry)
{
	char exporter[PROOF_NAME_SIZE];
	bool there = strcmp(entry->module, "vmlinux") == 0 || trial->kernel->running;
	bool unknown = entry->partial && strcmp(entry->module, "vmlinux") != 0;
	const struct proof_draft draft = { .id = "duplicate-export",
		/* Of one that is not identified it is likely, not known. */
		.weight = !there    ? PROOF_NOTE
			  : unknown ? PROOF_DOUBT
				    : PROOF_REFUSAL,
		.answer = ENOEXEC,
		.symbol = entry->symbol,
		.exporter = exporter,
		.cure = "unload, or do without, one of both" };

	proof_exporter_name(entry->module, exporter);
	return proof_add(trial, &draft,
		there ? "exports %s, which %s exports already"
		      : "exports %s, as %s does: the kernel takes only one of both",
		entry->symbol, exporter);
}

/* What the kernel's symvers has of a symbol that the module exports, or NULL. */
static const struct symvers_entry *exported_already(
	const struct proof_trial *trial, const struct elf_module_export *export)
{
	const struct symvers *symvers = trial->kernel->symvers;

	if (elf_module_known(trial->module) == symvers)
		return export->known;
	return symvers_find_hashed(symvers, export->symbol, export->hash);
}

/* Who is replaced by this very module, or by another of its set, is not there any more. */
int proof_judge_duplicates(struct proof_trial *trial)
{
	const struct proof_overlay *overlay = trial->overlay;
	size_t count;
	const struct elf_module_export *exports = elf_module_exports(trial->module, &count);

	for (size_t i = 0; trial->kernel->symvers && i < count; i++) {
		const struct symvers_entry *entry = exported_already(trial, &exports[i]);

		if (!entry || proof_same_module(entry->module, trial->struct_name) ||
			(overlay && overlay->replaces(overlay->context, entry->module)))
			continue;
		if (refuse_duplicate(trial, entry) < 0)
			return -ENOMEM;
		if (strcmp(entry->module, "vmlinux") == 0)
			break; /* the kernel stops here */
	}
	return 0;
}
