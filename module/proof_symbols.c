/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the kernel resolves a module's symbols: simplify_symbols(), resolve_symbol() and
 * verify_exported_symbols() of kernel/module/main.c, check_version() of kernel/module/version.c.
 */
#include "module/proof_internal.h"

#include <elf.h>
#include <string.h>

#include "common/arch.h"

#define SOME_BEFORE_5_9 ": a rule since 5.9, which not all older kernels have"
#define RELEASES_SIZE   192 /* of release_text()'s text: releases have 64 bytes */

/* ---- symbols that nothing is known to export, and other releases */

/* Before what shows it, that is the first thing to know: "built for A, not for B: ". */
static void release_text(struct proof_trial *trial, char text[RELEASES_SIZE])
{
	const char *ours, *theirs;

	*text = '\0';
	if (trial->said_release || !proof_foreign_release(trial, &ours, &theirs))
		return;
	trial->said_release = true;
	(void) snprintf(text, RELEASES_SIZE,
		"built for %.*s, not for %.*s: ", (int) strcspn(ours, " "), ours,
		(int) strcspn(theirs, " "), theirs);
}

/* Unknown exports of the kernel are one doubt, however many symbols depend on them. */
static int doubt_exports(struct proof_trial *trial)
{
	const char *krel = trial->kernel->krel;
	const struct proof_about about = { .symbol = trial->modversions ? ELF_LAYOUT_SYMBOL
									: trial->first_missing };
	char cure[256], count[32] = "";

	if (trial->exports_known ||
		(!trial->missing && !(trial->modversions && trial->has_versions)))
		return 0;
	(void) snprintf(cure, sizeof(cure),
		"give the Module.symvers of the kernel's headers (--with FILE) or its release "
		"(--kernel %s)",
		krel ? krel : "RELEASE");
	if (trial->missing > 1)
		(void) snprintf(count, sizeof(count), " and %zu more", trial->missing - 1);
	return proof_add(trial, PROOF_DOUBT, "symvers", trial->modversions ? ENOEXEC : ENOENT, cure,
		&about, "the kernel's exports are unknown: the module needs %s%s",
		trial->missing ? trial->first_missing : ELF_LAYOUT_SYMBOL, count);
}

static int judge_missing(struct proof_trial *trial, const char *symbol)
{
	static const char id[] = "symbol-missing";
	const struct symvers_entry *entry =
		trial->kernel->symvers ? symvers_find(trial->kernel->symvers, symbol) : NULL;
	const char *cure = "rebuild it, or load the exporting module first";
	char exporter[PROOF_NAME_SIZE], release[RELEASES_SIZE];
	struct proof_about about = { .symbol = symbol };
	const char *ours, *theirs;

	if (entry && trial->set && set_replaces(trial->set, entry->module)) {
		proof_exporter_name(entry->module, exporter);
		about.exporter = exporter;
		return proof_add(trial, PROOF_REFUSAL, id, ENOENT, "rebuild it against this set",
			&about,
			"needs %s, which the kernel's own %s exports, but its replacement in this "
			"set does not",
			symbol, exporter);
	}
	if (!trial->exports_known) {
		if (trial->missing++ == 0)
			trial->first_missing = symbol;
		return 0;
	}
	/* The interface by which GPU memory goes to the network without the host's. */
	if (strcmp(symbol, "ib_register_peer_memory_client") == 0 ||
		strcmp(symbol, "ib_unregister_peer_memory_client") == 0)
		cure = "also give the OFED that exports it (the NIC image, or its Module.symvers "
		       "with --with); this module is needed only for GPUDirect RDMA";
	else if (proof_foreign_release(trial, &ours, &theirs))
		cure = proof_rebuild(trial);
	release_text(trial, release);
	return proof_add(trial, PROOF_REFUSAL, id, ENOENT, cure, &about,
		"%sneeds %s, which is exported neither by the kernel nor by a module loaded before "
		"it",
		release, symbol);
}

/* ---- what exports a symbol, and how */

static bool is_tainted(const struct proof_kernel *kernel, const char *path)
{
	char name[PROOF_NAME_SIZE];

	if (!kernel->proprietary || !kernel->proprietary->count)
		return false;
	proof_exporter_name(path, name);
	return strv_contains(kernel->proprietary, name);
}

static void describe_export(const struct proof_kernel *kernel, const struct symvers_entry *entry,
	struct proof_export *ret)
{
	*ret = (struct proof_export){
		.symbol = entry->symbol,
		.exporter = entry->module,
		.name_space = entry->name_space,
		.crc = entry->crc,
		.has_crc = entry->has_crc,
		.crc_unknown = !entry->has_crc,
		.gpl = strcmp(entry->export, "EXPORT_SYMBOL_GPL") == 0 ||
		       strcmp(entry->export, "EXPORT_UNUSED_SYMBOL_GPL") == 0,
		.gpl_unknown = !*entry->export,
		.proprietary = is_tainted(kernel, entry->module),
		.vmlinux = strcmp(entry->module, "vmlinux") == 0,
	};
}

static bool find_export(const struct proof_trial *trial, const char *symbol, uint32_t hash,
	struct proof_export *ret)
{
	const struct symvers_entry *entry;

	if (trial->set && set_find(trial->set, symbol, hash, ret))
		return true;
	if (!trial->kernel->symvers)
		return false;
	entry = symvers_find_hashed(trial->kernel->symvers, symbol, hash);
	if (!entry || (trial->set && set_replaces(trial->set, entry->module)))
		return false;
	describe_export(trial->kernel, entry, ret);
	return true;
}

/* Returns how a text calls the exporter, and copies its name into @name. */
static const char *exporter_text(const struct proof_export *export, char name[PROOF_NAME_SIZE])
{
	proof_exporter_name(export->exporter, name);
	return export->vmlinux ? "the kernel" : name;
}

static int refuse_version(struct proof_trial *trial, const struct proof_export *export,
	const struct elf_symbol_version *wanted, int answer)
{
	char exporter[PROOF_NAME_SIZE], text[PROOF_NAME_SIZE + 64], release[RELEASES_SIZE];
	const char *by = exporter_text(export, exporter);
	const struct proof_about about = { .symbol = export->symbol,
		.exporter = exporter,
		.has_crcs = true,
		.wanted_crc = wanted->crc,
		.found_crc = export->crc };
	const char *where = "that the kernel has";
	const char *cure = text;
	const char *ours, *theirs;

	if (export->member)
		where = "of this set";
	else if (trial->kernel->running)
		where = "that is loaded";
	if (export->vmlinux || proof_foreign_release(trial, &ours, &theirs))
		cure = proof_rebuild(trial);
	else
		(void) snprintf(
			text, sizeof(text), "rebuild it against the %s %s", exporter, where);
	trial->version_differs = true;
	if (wanted->wide)
		return proof_add(trial, PROOF_REFUSAL, "symbol-version", answer, cure, &about,
			"damaged: its CRC of %s is longer than 32 bits, and %s exports 0x%08x",
			export->symbol, by, export->crc);
	release_text(trial, release);
	return proof_add(trial, PROOF_REFUSAL, "symbol-version", answer, cure, &about,
		*release ? "%sit needs %s with CRC 0x%08x, but %s exports 0x%08x"
			 : "%sbuilt for %s CRC 0x%08x, but %s exports 0x%08x",
		release, export->symbol, wanted->crc, by, export->crc);
}

/* Unknown CRCs of the kernel itself are counted here and reported once, at the end. */
static int doubt_version(struct proof_trial *trial, const struct proof_export *export, int answer)
{
	char exporter[PROOF_NAME_SIZE];
	const struct proof_about about = { .symbol = export->symbol, .exporter = exporter };

	if (export->vmlinux) {
		if (trial->unknown_crcs++ == 0)
			trial->unknown_crc = export->symbol;
		return 0;
	}
	proof_exporter_name(export->exporter, exporter);
	return proof_add(trial, PROOF_DOUBT, "symbol-crc-unknown", answer,
		"give the loaded module's file or Module.symvers", &about,
		"the CRC of %s, exported by %s, is not known", export->symbol, exporter);
}

static int doubt_versions_of_kernel(struct proof_trial *trial)
{
	static const char id[] = "symbol-crc-unknown";
	static const char cure[] = "give the kernel's Module.symvers";
	const struct proof_about about = { .symbol = trial->unknown_crc, .exporter = "vmlinux" };

	if (!trial->unknown_crcs)
		return 0;
	if (trial->unknown_crcs == 1)
		return proof_add(trial, PROOF_DOUBT, id, EINVAL, cure, &about,
			"the CRC of %s, exported by the kernel, is not known", trial->unknown_crc);
	return proof_add(trial, PROOF_DOUBT, id, EINVAL, cure, &about,
		"the CRCs of %s and %zu other symbols of the kernel are not known",
		trial->unknown_crc, trial->unknown_crcs - 1);
}

/* "6.1.0-56-cloud-amd64", "6.12.48+deb13-arm64", with a vermagic's rest behind it or not. */
static bool is_debian(const char *release)
{
	size_t length = strcspn(release, " ");
	const char *mark = strstr(release, "+deb");

	for (const struct arch *arch = archs; arch->uname; arch++) {
		size_t size = strlen(arch->debian);

		if (length > size && release[length - size - 1] == '-' &&
			strncmp(release + length - size, arch->debian, size) == 0)
			return true;
	}
	return mark && mark < release + length;
}

/* The extended form's reader skips what it does not list. */
static int judge_missing_version(
	struct proof_trial *trial, const struct proof_export *export, int answer)
{
	const struct proof_kernel *kernel = trial->kernel;
	const char *release = kernel->krel ? kernel->krel : kernel->vermagic;
	enum proof_option takes = kernel->missing_versions;
	char exporter[PROOF_NAME_SIZE];
	const char *by = exporter_text(export, exporter);
	const struct proof_about about = { .symbol = export->symbol, .exporter = exporter };

	if (trial->has_extended)
		return 0;
	if (takes == PROOF_UNKNOWN && release && is_debian(release))
		takes = PROOF_NO;
	return proof_add(trial, proof_weight_without(takes), "symbol-without-version", answer,
		"rebuild it with the Module.symvers of all modules that it uses", &about,
		"has no version for %s, exported by %s: upstream kernels load it with a warning, "
		"Debian's refuse it",
		export->symbol, by);
}

/* @wanted: what the module was built for, or NULL. */
static int judge_version(struct proof_trial *trial, const struct proof_export *export,
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
	if (!wanted->wide && export->crc_unknown)
		return doubt_version(trial, export, answer);
	return refuse_version(trial, export, wanted, answer);
}

/* Every module depends on the layout of struct module, although no symbol table says so. */
int proof_judge_layout(struct proof_trial *trial)
{
	struct proof_export layout;

	if (!trial->modversions)
		return 0;
	if (!trial->has_versions)
		return proof_add(trial, proof_weight_without(trial->kernel->options.force_load),
			"no-versions", ENOEXEC, "rebuild it with the kernel's Module.symvers", NULL,
			"has no symbol versions, which this kernel checks: only a kernel with "
			"CONFIG_MODULE_FORCE_LOAD loads it, and becomes tainted");
	/*
	 * If it is not found, the kernel's exports are not known: reported once, after the symbols.
	 */
	if (!find_export(trial, ELF_LAYOUT_SYMBOL, PROOF_LAYOUT_HASH, &layout))
		return 0;
	return judge_version(trial, &layout,
		trial->basic ? elf_versions_find(trial->basic, ELF_LAYOUT_SYMBOL, PROOF_LAYOUT_HASH)
			     : trial->module->layout,
		ENOEXEC);
}

/* verify_module_namespace(): "module:a,b*"; a star stands for any end. */
static bool names_module(const char *name_space, const char *module)
{
	const char *next = strchr(name_space, ':') + 1;
	size_t module_length = strlen(module);

	while (*next) {
		size_t field = strcspn(next, ",");
		bool star = field && next[field - 1] == '*';
		size_t length = star ? field - 1 : field;

		if (length <= module_length && (star || length == module_length) &&
			proof_same_chars(next, module, length))
			return true;
		next += field;
		next += *next == ',';
	}
	return false;
}

static int judge_imported(struct proof_trial *trial, const struct proof_export *export)
{
	enum proof_weight weight = proof_weight_without(trial->kernel->options.missing_imports);
	const struct proof_about about = { .symbol = export->symbol };
	const char *import = NULL;
	char cure[256];

	if (proof_is_module_name_space(export->name_space) &&
		(!trial->version || trial->version >= PROOF_VERSION(6, 16))) {
		if (names_module(export->name_space, trial->struct_name))
			return 0;
		return proof_add(trial, weight, "name-space", EINVAL,
			"use a driver source that does not need that symbol", &about,
			"uses %s, which is exported only to %s: only a kernel with "
			"CONFIG_MODULE_ALLOW_MISSING_NAMESPACE_IMPORTS loads it",
			export->symbol, strchr(export->name_space, ':') + 1);
	}
	while ((import = proof_info(trial, "import_ns", import)))
		if (strcmp(import, export->name_space) == 0)
			return 0;
	(void) snprintf(
		cure, sizeof(cure), "add MODULE_IMPORT_NS(%s) to its source", export->name_space);
	return proof_add(trial, weight, "name-space", EINVAL, cure, &about,
		"uses %s without importing its name space %s: only a kernel with "
		"CONFIG_MODULE_ALLOW_MISSING_NAMESPACE_IMPORTS loads it",
		export->symbol, export->name_space);
}

/*
 * inherit_taint() came with 5.9, and from there to the older kernels that were maintained in 2021:
 * of these a release does not tell.
 */
static bool may_not_inherit(const struct proof_trial *trial)
{
	return trial->version && trial->version < PROOF_VERSION(5, 9);
}

/* The kernel does not show such a symbol: as good as missing. */
static int judge_hidden(struct proof_trial *trial, const struct proof_export *export)
{
	const char *license = proof_info(trial, "license", NULL);
	bool certain = export->gpl && !(trial->inherited && may_not_inherit(trial));
	enum proof_weight weight = certain ? PROOF_REFUSAL : PROOF_DOUBT;
	const char *cure = export->gpl ? "use a driver source with a compatible licence"
				       : "give the kernel's Module.symvers";
	char exporter[PROOF_NAME_SIZE];
	const char *by = exporter_text(export, exporter);
	const struct proof_about about = { .symbol = export->symbol, .exporter = exporter };

	if (trial->inherited)
		return proof_add(trial, weight, "gpl-only", ENOENT, cure, &about,
			"uses a proprietary module and so cannot use %s, which %s exports only to "
			"GPL-compatible modules%s",
			export->symbol, by, certain ? "" : SOME_BEFORE_5_9);
	return proof_add(trial, weight, "gpl-only", ENOENT, cure, &about,
		export->gpl
			? "its licence \"%s\" is not GPL-compatible, but %s exports %s only to "
			  "GPL-compatible modules"
			: "its licence \"%s\" is not GPL-compatible, and it is unknown whether %s "
			  "exports %s only to GPL-compatible modules",
		license ? license : "unspecified", by, export->symbol);
}

/* inherit_taint(): what uses GPL-only symbols may not use a proprietary module's. */
static int judge_taint(struct proof_trial *trial, const struct proof_export *export)
{
	char exporter[PROOF_NAME_SIZE];
	const struct proof_about about = { .symbol = export->symbol, .exporter = exporter };
	bool certain = !may_not_inherit(trial);

	proof_exporter_name(export->exporter, exporter);
	if (trial->uses_gpl_only)
		return proof_add(trial, certain ? PROOF_REFUSAL : PROOF_DOUBT, "tainted-exporter",
			ENOENT, "use a driver source that needs only one of the two", &about,
			"uses GPL-only symbols and so may not use %s of the proprietary module "
			"%s%s",
			export->symbol, exporter, certain ? "" : SOME_BEFORE_5_9);
	if (trial->proprietary)
		return 0;
	trial->proprietary = true;
	trial->inherited = true;
	return proof_add(trial, PROOF_NOTE, "inherits-taint", 0, NULL, &about,
		"uses %s of the proprietary module %s: it counts as proprietary too",
		export->symbol, exporter);
}

/* It keeps the value that it has in the file: mostly 0, which not everything can reach. */
static int note_absent(struct proof_trial *trial, const struct elf_undefined *undefined)
{
	struct elf_absent *absent = &trial->absent;

	if (!trial->exports_known)
		return 0;
	if (!absent->items) {
		absent->items = calloc(trial->module->undefined_count, sizeof(*absent->items));
		if (!absent->items)
			return -ENOMEM;
	}
	absent->items[absent->count++] = undefined->index;
	return 0;
}

/* The order is the kernel's, in resolve_symbol(): what it cannot see it does not compare. */
static int judge_export(struct proof_trial *trial, const struct proof_export *export,
	const struct elf_symbol_version *wanted, const struct elf_undefined *undefined)
{
	size_t before;
	int r;

	if (trial->proprietary && (export->gpl || export->gpl_unknown)) {
		if (!undefined->weak)
			return judge_hidden(trial, export);
		return export->gpl ? note_absent(trial, undefined) : 0;
	}
	trial->uses_gpl_only = trial->uses_gpl_only || export->gpl;
	if (export->proprietary && trial->uses_gpl_only)
		return undefined->weak ? note_absent(trial, undefined) : judge_taint(trial, export);
	if (export->proprietary && judge_taint(trial, export) < 0)
		return -ENOMEM;
	before = trial->proof.count;
	r = judge_version(trial, export, wanted, EINVAL);
	if (r < 0 || trial->proof.count != before || !*export->name_space)
		return r;
	return judge_imported(trial, export);
}

/*
 * Assemblers before 2.37 leave _GLOBAL_OFFSET_TABLE_ behind, and the kernel skips it on x86;
 * on 64-bit PowerPC .TOC. is the module's own (dedotify() of arch/powerpc/kernel/module_64.c).
 */
static bool is_ignored(const struct proof_trial *trial, const char *symbol)
{
	uint16_t machine = elf_module_machine(trial->module);

	if (machine == EM_PPC64)
		return strcmp(symbol, ".TOC.") == 0;
	return (machine == EM_X86_64 || machine == EM_386) &&
	       strcmp(symbol, "_GLOBAL_OFFSET_TABLE_") == 0;
}

static int judge_symbol(struct proof_trial *trial, const struct elf_undefined *undefined)
{
	const struct elf_symbol_version *wanted = undefined->version;
	struct proof_export export;

	/* One that binds weakly may be absent, but is checked like any other where it is there. */
	if (!find_export(trial, undefined->name, undefined->hash, &export)) {
		if (undefined->weak)
			return note_absent(trial, undefined);
		return is_ignored(trial, undefined->name) ? 0
							  : judge_missing(trial, undefined->name);
	}
	if (trial->set && (export.member || !export.vmlinux) &&
		set_use(trial->set, &export, undefined->weak) < 0)
		return -ENOMEM;
	if (trial->basic)
		wanted = elf_versions_find(trial->basic, undefined->name, undefined->hash);
	return judge_export(trial, &export, wanted, undefined);
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
	const struct proof_about about = { .symbol = entry->symbol, .exporter = exporter };
	bool vmlinux = strcmp(entry->module, "vmlinux") == 0;
	enum proof_weight weight = PROOF_REFUSAL;

	proof_exporter_name(entry->module, exporter);
	if (!vmlinux && !trial->kernel->running)
		return proof_add(trial, PROOF_NOTE, "duplicate-export", 0, NULL, &about,
			"exports %s, as %s does: the kernel loads only one of the two",
			entry->symbol, exporter);
	/* If the exporter is not identified, this is likely but not known. */
	if (!vmlinux && entry->partial)
		weight = PROOF_DOUBT;
	return proof_add(trial, weight, "duplicate-export", ENOEXEC,
		"unload or leave out one of the two", &about,
		"exports %s, which %s already exports", entry->symbol, exporter);
}

/*
 * Reports exports that another module has already. A module that is replaced by this very module,
 * or by another of its set, is gone by then.
 */
int proof_judge_duplicates(struct proof_trial *trial)
{
	const struct symvers *symvers = trial->kernel->symvers;
	size_t count;
	const struct elf_module_export *exports = elf_module_exports(trial->module, &count);

	for (size_t i = 0; symvers && i < count; i++) {
		const struct symvers_entry *entry =
			symvers_find_hashed(symvers, exports[i].symbol, exports[i].hash);

		if (!entry || proof_same_module(entry->module, trial->struct_name) ||
			(trial->set && set_replaces(trial->set, entry->module)))
			continue;
		if (refuse_duplicate(trial, entry) < 0)
			return -ENOMEM;
		if (strcmp(entry->module, "vmlinux") == 0)
			break; /* the kernel stops here */
	}
	return 0;
}
