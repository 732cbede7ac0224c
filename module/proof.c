/* SPDX-License-Identifier: Apache-2.0 */
/* Findings, and what the kernel asks of a module before it looks at its symbols, and after. */
#include "module/proof_internal.h"

#include <elf.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "common/arch.h"

#define MODULE_NAME_SPACE "module:"
#define UNREADABLE_CURE   "make it readable and try again"
#define FORMAT_CURE       "build or copy it again"
#define VERSION_CURE      "give the kernel's release: its version decides what is checked in a file"
#define BACKPORT_CURE                                                                               \
	"build it with that kernel's headers and its distribution's compiler and binutils, or try " \
	"it on such a node"

/* ---- findings */

static void finding_free(struct proof_finding *finding)
{
	free(finding->symbol);
	free(finding->exporter);
	free(finding->text);
	free(finding->cure);
}

_printf_(8, 0) static int append(struct proof *proof, const char *name, enum proof_weight weight,
	const char *id, int answer, const char *cure, const struct proof_about *about,
	const char *format, va_list arguments)
{
	static const struct proof_about nothing = { .symbol = NULL };
	struct proof_finding *finding = proof->findings;
	_cleanup_free_ char *text = NULL;
	size_t count = proof->count;

	/* Grows at powers of two, so that the count alone tells the capacity. */
	if (count < 2 || !(count & (count - 1))) {
		finding = reallocarray(finding, count < 2 ? 2 : count * 2, sizeof(*finding));
		if (!finding)
			return -ENOMEM;
		proof->findings = finding;
	}
	if (vasprintf(&text, format, arguments) < 0) {
		text = NULL;
		return -ENOMEM;
	}
	if (!about)
		about = &nothing;
	finding += proof->count++; /* what it has, also of a half-filled one, is freed */
	*finding = (struct proof_finding){
		.id = id,
		.weight = weight,
		.answer = weight == PROOF_NOTE ? 0 : answer,
		.symbol = about->symbol ? strdup(about->symbol) : NULL,
		.exporter = about->exporter ? strdup(about->exporter) : NULL,
		.has_crcs = about->has_crcs,
		.wanted_crc = about->wanted_crc,
		.found_crc = about->found_crc,
		.cure = strdup(cure && weight != PROOF_NOTE ? cure : ""),
	};
	if (asprintf(&finding->text, "%s%s%s", name, *name ? ": " : "", text) < 0)
		finding->text = NULL;
	return finding->text && finding->cure && (!about->symbol || finding->symbol) &&
			       (!about->exporter || finding->exporter)
		       ? 0
		       : -ENOMEM;
}

int proof_append(struct proof *proof, const char *name, enum proof_weight weight, const char *id,
	int answer, const char *cure, const struct proof_about *about, const char *format, ...)
{
	va_list arguments;
	int r;

	if (weight == PROOF_REFUSAL && proof->verdict != PROOF_WILL_NOT_LOAD) {
		proof->verdict = PROOF_WILL_NOT_LOAD;
		proof->answer = answer;
	}
	va_start(arguments, format);
	r = append(proof, name, weight, id, answer, cure, about, format, arguments);
	va_end(arguments);
	return r;
}

int proof_add(struct proof_trial *trial, enum proof_weight weight, const char *id, int answer,
	const char *cure, const struct proof_about *about, const char *format, ...)
{
	va_list arguments;
	int r;

	/* The first refusal is the kernel's answer, but simplify_symbols() keeps the last. */
	if (weight == PROOF_REFUSAL &&
		(!trial->proof.answer || (trial->among_symbols && trial->answered_symbols))) {
		trial->proof.answer = answer;
		trial->answered_symbols = trial->among_symbols;
	}
	va_start(arguments, format);
	r = append(&trial->proof, trial->name, weight, id, answer, cure, about, format, arguments);
	va_end(arguments);
	return r;
}

int proof_add_note(struct proof_trial *trial, const char *id, const char *format, ...)
{
	va_list arguments;
	int r;

	va_start(arguments, format);
	r = append(&trial->proof, trial->name, PROOF_NOTE, id, 0, NULL, NULL, format, arguments);
	va_end(arguments);
	return r;
}

void proof_conclude(struct proof *proof)
{
	/* Stable, and linear where nothing is out of place: findings are few. */
	for (size_t i = 1; i < proof->count; i++) {
		struct proof_finding moved = proof->findings[i];
		size_t place = i;

		for (; place && proof->findings[place - 1].weight > moved.weight; place--)
			proof->findings[place] = proof->findings[place - 1];
		proof->findings[place] = moved;
	}
	proof->verdict = PROOF_WILL_LOAD;
	if (!proof->count)
		return;
	if (proof->findings[0].weight == PROOF_REFUSAL)
		proof->verdict = PROOF_WILL_NOT_LOAD;
	else if (proof->findings[0].weight == PROOF_DOUBT)
		proof->verdict = PROOF_CANNOT_TELL;
	/* A refusal's is there already; of doubts the first one's counts. */
	if (!proof->answer)
		proof->answer = proof->findings[0].answer;
}

enum proof_weight proof_weight_without(enum proof_option option)
{
	static const enum proof_weight weights[] = {
		[PROOF_UNKNOWN] = PROOF_DOUBT,
		[PROOF_NO] = PROOF_REFUSAL,
		[PROOF_YES] = PROOF_NOTE,
	};

	return weights[option];
}

void proof_free(struct proof *proof)
{
	for (size_t i = 0; i < proof->count; i++)
		finding_free(&proof->findings[i]);
	free(proof->findings);
	*proof = (struct proof){ 0 };
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

const char *proof_weight_text(enum proof_weight weight)
{
	static const char *const texts[] = {
		[PROOF_REFUSAL] = "refusal",
		[PROOF_DOUBT] = "doubt",
		[PROOF_NOTE] = "note",
	};

	return texts[weight];
}

char *proof_finding_line(const struct proof_finding *finding)
{
	char *line = NULL;

	if (asprintf(&line, "%s%s%s", finding->text, *finding->cure ? ": " : "", finding->cure) < 0)
		return NULL;
	return line;
}

/* ---- names, as the kernel compares them */

void proof_exporter_name(const char *path, char name[PROOF_NAME_SIZE])
{
	module_name_copy(path, strlen(path), name, PROOF_NAME_SIZE);
}

bool proof_same_chars(const char *left, const char *right, size_t length)
{
	for (size_t i = 0; i < length; i++)
		if ((left[i] == '-' ? '_' : left[i]) != (right[i] == '-' ? '_' : right[i]))
			return false;
	return true;
}

bool proof_same_module(const char *left, const char *right)
{
	const char *slash = strrchr(left, '/');

	left = slash ? slash + 1 : left;
	slash = strrchr(right, '/');
	right = slash ? slash + 1 : right;
	return strlen(left) == strlen(right) && proof_same_chars(left, right, strlen(left));
}

bool proof_is_module_name_space(const char *name_space)
{
	return strncmp(name_space, MODULE_NAME_SPACE, strlen(MODULE_NAME_SPACE)) == 0;
}

/* Before 6.4 the kernel sees .modinfo only where the section takes memory. */
static bool info_is_seen(const struct proof_trial *trial)
{
	return !trial->version || trial->module->info_allocated ||
	       trial->version >= PROOF_VERSION(6, 4);
}

const char *proof_info(const struct proof_trial *trial, const char *key, const char *previous)
{
	return info_is_seen(trial) ? elf_module_info_next(trial->module, key, previous) : NULL;
}

/* ---- the file itself: what elf.h finds, and the machine */

uint16_t proof_machine(const char *uname)
{
	const struct arch *arch = arch_find(uname);

	return arch ? arch->machine : 0;
}

static const char *machine_text(uint16_t machine, char number[16])
{
	for (const struct arch *arch = archs; arch->uname; arch++)
		if (arch->machine == machine)
			return arch->uname;
	(void) snprintf(number, 16, "machine %u", machine);
	return number;
}

/* @text without "@name: " in front, which the finding has there anyway. */
static const char *without_prefix(const char *text, const char *name)
{
	size_t length = strlen(name);

	return strncmp(text, name, length) == 0 && strncmp(text + length, ": ", 2) == 0
		       ? text + length + 2
		       : text;
}

/*
 * Adds a finding for the answer of elf_module_check_format() and the like; -EFAULT: this version
 * does not check.
 */
static int add_defect(
	struct proof_trial *trial, int code, const char *prefix, const struct error *error)
{
	int answer = -code;

	if (code == -ENOMEM)
		return code;
	if (code == -EAGAIN)
		return proof_add(trial, PROOF_DOUBT, "format", ENOEXEC,
			trial->version ? BACKPORT_CURE : VERSION_CURE, NULL, "%s",
			without_prefix(error->text, elf_module_path(trial->module)));
	if (code == -E2BIG)
		answer = ENOMEM;
	else if (code == -EFAULT || code == -ERANGE)
		answer = ENOEXEC;
	return proof_add(trial, PROOF_REFUSAL, "format", answer, FORMAT_CURE, NULL, "%s%s%s",
		prefix, without_prefix(error->text, elf_module_path(trial->module)),
		code == -EFAULT ? ": this kernel does not check it and may crash" : "");
}

static int judge_stage(struct proof_trial *trial, enum elf_stage stage)
{
	struct error error = { 0 };
	int r = elf_defects_find(&trial->module->defects, &trial->rules, stage, NULL, &error);

	return r < 0 ? add_defect(trial, r, "", &error) : 0;
}

/* layout_and_allocate() and find_module_sections(), behind check_modinfo(). */
static int judge_memory(struct proof_trial *trial)
{
	return judge_stage(trial, ELF_STAGE_LAYOUT);
}

/* mod_sysfs_setup(), behind all others. */
static int judge_sysfs(struct proof_trial *trial)
{
	return judge_stage(trial, ELF_STAGE_SYSFS);
}

int proof_judge_places(struct proof_trial *trial, uint32_t before, uint32_t *next)
{
	while (*next < before) {
		struct error error = { 0 };
		int r = elf_defects_find(
			&trial->module->defects, &trial->rules, ELF_STAGE_SYMBOLS, next, &error);

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
static int judge_relocations(struct proof_trial *trial)
{
	struct error error = { 0 };
	int r = judge_stage(trial, ELF_STAGE_RELOCATIONS);

	if (r < 0 || !trial->whole)
		return r;
	r = elf_module_try_relocations(trial->module, trial->version, &trial->absent, &error);
	return r < 0 ? add_defect(trial, r, "damaged: ", &error) : 0;
}

/* post_relocation(), behind these. */
static int judge_finalize(struct proof_trial *trial)
{
	return judge_stage(trial, ELF_STAGE_FINALIZE);
}

/* 1: no file that this kernel looks into. */
static int judge_file(struct proof_trial *trial)
{
	uint16_t machine = elf_module_machine(trial->module);
	uint16_t wanted = trial->kernel->machine;
	uint64_t ours = elf_module_struct_size(trial->module);
	uint64_t theirs = trial->kernel->struct_size;
	bool looks = trial->version >= PROOF_VERSION(6, 4); /* elf_validity_cache_index_mod() */
	enum proof_weight weight = PROOF_REFUSAL;
	char our_machine[16], their_machine[16];
	struct error error = { 0 };
	int r;

	if (wanted && wanted != machine)
		return proof_add(trial, PROOF_REFUSAL, "machine", ENOEXEC,
			       "build it for the kernel's architecture", NULL,
			       "built for %s, but the kernel is for %s",
			       machine_text(machine, our_machine),
			       machine_text(wanted, their_machine)) < 0
			       ? -ENOMEM
			       : 1;
	/* A kernel of the module's own architecture may well take it. */
	if (!trial->module->readable)
		return proof_add(trial, PROOF_DOUBT, "machine", ENOEXEC,
			       "try it on a node with that kernel: 64-bit little-endian ones are "
			       "read",
			       NULL, "built for %s, whose modules are not read here",
			       machine_text(machine, our_machine)) < 0
			       ? -ENOMEM
			       : 1;
	r = elf_defects_find(&trial->module->defects, &trial->rules, ELF_STAGE_FILE, NULL, &error);
	if (r < 0 && add_defect(trial, r, "", &error) < 0)
		return -ENOMEM;
	/* After a doubt the kernel may look on. */
	if (r < 0 && r != -EAGAIN)
		return 1;
	if (!theirs || !ours || ours == theirs)
		return 0;
	if (!trial->version)
		weight = PROOF_DOUBT;
	else if (!looks && ours > theirs)
		weight = PROOF_NOTE;
	return proof_add(trial, weight, "struct-size", ENOEXEC, proof_rebuild(trial), NULL,
		"its struct module has %llu bytes, but the kernel's has %llu%s", ull(ours),
		ull(theirs),
		!looks && ours < theirs ? ": this kernel does not check it and writes beyond the "
					  "end"
					: "");
}

/* ---- what its .modinfo says: check_modinfo(), setup_modinfo(), module_augment_kernel_taints() */

static int judge_modules(struct proof_trial *trial)
{
	if (trial->kernel->options.modules != PROOF_NO)
		return 0;
	return proof_add(trial, PROOF_REFUSAL, "modules", ENOSYS,
		"use a kernel with CONFIG_MODULES", NULL, "this kernel cannot load modules");
}

static int judge_blacklist(struct proof_trial *trial)
{
	const struct strv *names = trial->kernel->blacklist;

	if (!names || !strv_contains(names, trial->name))
		return 0;
	return proof_add(trial, PROOF_REFUSAL, "blacklisted", EPERM,
		"remove its name from module_blacklist= on the kernel's command line", NULL,
		"the kernel's command line forbids it (module_blacklist=)");
}

static bool releases_differ(
	const struct proof_kernel *kernel, const char *ours, const char **ret_theirs)
{
	const char *theirs = kernel->vermagic ? kernel->vermagic : kernel->krel;
	size_t length;

	*ret_theirs = theirs;
	if (!ours || !theirs)
		return false;
	length = strcspn(ours, " ");
	return length != strcspn(theirs, " ") || strncmp(ours, theirs, length) != 0;
}

bool proof_foreign_release(
	const struct proof_trial *trial, const char **ret_ours, const char **ret_theirs)
{
	*ret_ours = proof_info(trial, "vermagic", NULL);
	return releases_differ(trial->kernel, *ret_ours, ret_theirs);
}

bool proof_of_other_release(const struct elf_module *module, const struct proof_kernel *kernel)
{
	const char *theirs;

	return module && releases_differ(kernel, elf_module_info(module, "vermagic"), &theirs);
}

/* No user builds the kernel's own modules against its headers. */
const char *proof_rebuild(const struct proof_trial *trial)
{
	if (trial->set && set_is_kernels(trial->set, trial->name) &&
		proof_info(trial, "intree", NULL))
		return "take this kernel's own";
	return "rebuild it against the headers of this kernel";
}

/* Length without the spaces at the end: readers often cut the one that ends the kernel's own. */
static size_t trimmed(const char *text)
{
	size_t length = strlen(text);

	while (length && text[length - 1] == ' ')
		length--;
	return length;
}

/* Whether @text ends with the word by which asm/vermagic.h of the machine ends it. */
static bool ends_with_machine(const char *text, uint16_t machine)
{
	size_t length = strlen(text);

	for (const struct arch *arch = archs; arch->uname; arch++) {
		size_t size = strlen(arch->vermagic);

		if (arch->machine == machine && size && length > size &&
			text[length - size - 1] == ' ' &&
			strcmp(text + length - size, arch->vermagic) == 0)
			return true;
	}
	return false;
}

/* same_magic() of kernel/module/version.c. */
static bool same_magic(const char *ours, const char *theirs, uint16_t machine, bool skip_release)
{
	size_t length;

	if (skip_release) {
		ours += strcspn(ours, " ");
		theirs += strcspn(theirs, " ");
	}
	/*
	 * A kernel's own string ends with a space, with its machine, or with the hash of a
	 * randomised layout. Of one that does not the reader cut the end, and that says nothing
	 * then.
	 */
	length = strlen(theirs);
	if ((length && theirs[length - 1] == ' ') || strstr(theirs, " RANDSTRUCT_") ||
		ends_with_machine(theirs, machine))
		return strcmp(ours, theirs) == 0;
	return trimmed(ours) == trimmed(theirs) && strncmp(ours, theirs, trimmed(ours)) == 0;
}

static int judge_vermagic(struct proof_trial *trial)
{
	static const char unknown[] = "vermagic-unknown";
	static const char cure[] = "give one of the kernel's own modules, or its record";
	const char *ours = proof_info(trial, "vermagic", NULL);
	const char *theirs = trial->kernel->vermagic;

	if (!ours)
		return proof_add(trial, proof_weight_without(trial->kernel->options.force_load),
			"no-vermagic", ENOEXEC,
			"build it with the kernel's own Makefile (make -C <headers> M=…)", NULL,
			"it has no vermagic: only a kernel with CONFIG_MODULE_FORCE_LOAD loads it");
	if (!theirs && !proof_foreign_release(trial, &ours, &theirs))
		return proof_add(trial, PROOF_DOUBT, unknown, ENOEXEC, cure, NULL,
			"the kernel's vermagic is not known");
	if (!trial->kernel->vermagic)
		return proof_add(trial, PROOF_DOUBT, unknown, ENOEXEC, cure, NULL,
			"the kernel's vermagic is not known: the module was built for %.*s, not "
			"for %.*s, and loads only if the kernel has CONFIG_MODVERSIONS and every "
			"symbol version agrees",
			(int) strcspn(ours, " "), ours, (int) strcspn(theirs, " "), theirs);
	/* The extended form alone does not excuse another release. */
	if (!same_magic(ours, theirs, elf_module_machine(trial->module),
		    trial->modversions && trial->module->has_basic)) {
		trial->said_release = true;
		return proof_add(trial, PROOF_REFUSAL, "vermagic", ENOEXEC, proof_rebuild(trial),
			NULL, "built for vermagic \"%.*s\", but the kernel's is \"%.*s\"",
			(int) trimmed(ours), ours, (int) trimmed(theirs), theirs);
	}
	if (trial->modversions)
		return 0;
	return proof_add_note(trial, "vermagic-only",
		"only vermagic was checked: the kernel has no CONFIG_MODVERSIONS, so nothing shows "
		"whether its symbols are those that the module was built for");
}

/* After the symbols, which decide: where they do not agree a refusal has said so already. */
static int note_release(struct proof_trial *trial)
{
	const char *ours, *theirs;
	bool agree = trial->exports_known && !trial->unknown_crcs;

	if (!trial->modversions || trial->version_differs || !trial->kernel->vermagic ||
		!proof_foreign_release(trial, &ours, &theirs))
		return 0;
	return proof_add_note(trial, "release",
		agree ? "built for release %.*s instead of %.*s, which is allowed because all "
			"symbol versions agree"
		      : "built for release %.*s, not for %.*s: it loads only if all symbol "
			"versions agree",
		(int) strcspn(ours, " "), ours, (int) strcspn(theirs, " "), theirs);
}

static int judge_livepatch(struct proof_trial *trial)
{
	if (!proof_info(trial, "livepatch", NULL))
		return 0;
	return proof_add(trial, proof_weight_without(trial->kernel->options.livepatch), "livepatch",
		ENOEXEC, "use a kernel with CONFIG_LIVEPATCH", NULL,
		"it is a live patch: only a kernel with CONFIG_LIVEPATCH loads it, and becomes "
		"tainted");
}

/* check_export_symbol_versions(): exports without CRCs would undo the others' checks. */
static int judge_own_exports(struct proof_trial *trial)
{
	size_t count;
	const struct elf_module_export *exports = elf_module_exports(trial->module, &count);

	for (size_t i = 0; trial->modversions && i < count; i++)
		if (!exports[i].has_crc)
			return proof_add(trial,
				proof_weight_without(trial->kernel->options.force_load),
				"exports-without-versions", ENOEXEC, proof_rebuild(trial),
				&(struct proof_about){ .symbol = exports[i].symbol },
				"exports %s without a version: only a kernel with "
				"CONFIG_MODULE_FORCE_LOAD loads it, and becomes tainted",
				exports[i].symbol);
	return 0;
}

/* setup_modinfo(), since 6.16: which modules may use such a name space is stated at the export. */
static int judge_imports(struct proof_trial *trial)
{
	const char *import = NULL;

	if (trial->version && trial->version < PROOF_VERSION(6, 16))
		return 0;
	while ((import = proof_info(trial, "import_ns", import)))
		if (proof_is_module_name_space(import))
			return proof_add(trial, trial->version ? PROOF_REFUSAL : PROOF_DOUBT,
				"module-import", EPERM,
				"remove that MODULE_IMPORT_NS() from its source", NULL,
				"imports name space %s, which kernels since 6.16 refuse", import);
	return 0;
}

/* mod_sysfs_init(): the name is that of a folder in /sys/module. */
static int judge_built_in(struct proof_trial *trial)
{
	const struct proof_kernel *kernel = trial->kernel;
	const char *cure = "check whether the running kernel has that folder";
	enum proof_weight weight = PROOF_DOUBT;

	if (trial->set ? !set_is_built_in(trial->set, trial->struct_name)
		       : !kernel->builtin || !strv_contains(kernel->builtin, trial->struct_name))
		return 0;
	if (kernel->builtin_shown) {
		weight = strv_contains(kernel->builtin_shown, trial->struct_name) ? PROOF_REFUSAL
										  : PROOF_NOTE;
		cure = "use a kernel that has it as a module";
	}
	return proof_add(trial, weight, "built-in", EINVAL, cure, NULL,
		"the kernel has %s built in, and refuses the module if that has a folder in "
		"/sys/module",
		trial->struct_name);
}

/* Modules that the kernel knows by name to claim a licence that is not theirs. */
static bool is_license_offender(const char *name)
{
	return strcmp(name, "driverloader") == 0 || strcmp(name, "lve") == 0;
}

bool proof_is_proprietary(const struct elf_module *module)
{
	/* license_is_gpl_compatible() of Linux include/linux/license.h. */
	static const char *const compatible[] = { "GPL", "GPL v2", "GPL and additional rights",
		"Dual BSD/GPL", "Dual MIT/GPL", "Dual MPL/GPL" };
	const char *license = elf_module_info(module, "license");
	const char *name = elf_module_name(module);

	if (name && is_license_offender(name))
		return true;
	for (size_t i = 0; license && i < ARRAY_SIZE(compatible); i++)
		if (strcmp(license, compatible[i]) == 0)
			return false;
	return true;
}

static int note_taints(struct proof_trial *trial)
{
	static const struct {
		const char *key;
		bool when_absent;
		const char *id;
		const char *text;
	} taints[] = {
		{ "intree", true, "out-of-tree",
			"built out of the kernel's tree: it taints the kernel (O)" },
		{ "staging", false, "staging",
			"from the kernel's staging tree: it taints the kernel (C)" },
		{ "test", false, "test", "a test module: it taints the kernel (N)" },
		{ "retpoline", true, "retpoline",
			"compiled without retpolines: the kernel logs a warning" },
	};
	const char *license = proof_info(trial, "license", NULL);

	for (size_t i = 0; i < ARRAY_SIZE(taints); i++) {
		if (strcmp(taints[i].id, "retpoline") == 0 &&
			trial->kernel->options.retpoline != PROOF_YES)
			continue;
		if (!proof_info(trial, taints[i].key, NULL) == taints[i].when_absent &&
			proof_add_note(trial, taints[i].id, "%s", taints[i].text) < 0)
			return -ENOMEM;
	}
	if (!trial->proprietary)
		return 0;
	return proof_add_note(trial, "proprietary",
		"its licence \"%s\" is not GPL-compatible: it taints the kernel (P)",
		license ? license : "unspecified");
}

/* ---- the kernel */

unsigned int proof_version(const char *krel)
{
	unsigned long major, minor;
	char *end;

	if (!krel || *krel < '0' || *krel > '9')
		return 0;
	major = strtoul(krel, &end, 10);
	if (*end != '.' || end[1] < '0' || end[1] > '9' || major > 255)
		return 0;
	minor = strtoul(end + 1, NULL, 10);
	return minor > 255 ? 0 : PROOF_VERSION(major, minor);
}

bool proof_kernel_has_modversions(const struct proof_kernel *kernel)
{
	static const char word[] = "modversions";
	const char *text = kernel->vermagic;

	if (!text)
		return kernel->symvers && symvers_find(kernel->symvers, ELF_LAYOUT_SYMBOL);
	for (text += strspn(text, " "); *text; text += strspn(text, " ")) {
		size_t length = strcspn(text, " ");

		if (length == sizeof(word) - 1 && strncmp(text, word, length) == 0)
			return true;
		text += length;
	}
	return false;
}

/* Files that --with names, or what is loaded, tell of modules only. */
bool proof_exports_known(const struct proof_kernel *kernel)
{
	const struct symvers *symvers = kernel->symvers;

	if (!symvers)
		return false;
	if (symvers_find_hashed(symvers, ELF_LAYOUT_SYMBOL, PROOF_LAYOUT_HASH))
		return true;
	if (proof_kernel_has_modversions(kernel))
		return false;
	for (size_t i = 0; i < symvers_count(symvers); i++)
		if (strcmp(symvers_at(symvers, i)->module, "vmlinux") == 0)
			return true;
	return false;
}

static unsigned int version_of(const struct proof_kernel *kernel)
{
	if (kernel->version)
		return kernel->version;
	return proof_version(kernel->krel ? kernel->krel : kernel->vermagic);
}

/* ---- one module */

/*
 * Sets what depends on the kernel: which symbol versions it reads, and which name it sees if that
 * was changed after the build.
 */
static void look_at_file(struct proof_trial *trial)
{
	const struct elf_module *module = trial->module;
	/* Kernels before 6.14 know nothing of the extended form. */
	bool reads_extended = !trial->version || trial->version >= PROOF_VERSION(6, 14);

	trial->has_extended = reads_extended && module->has_extended;
	trial->has_versions = module->has_basic || trial->has_extended;
	if (module->has_basic && module->has_extended && !reads_extended)
		trial->basic = &module->basic_versions;
	/* When the whole file is read anyway, the name in struct module counts. */
	trial->struct_name =
		trial->whole && *module->struct_name ? module->struct_name : trial->name;
	/* A licence that the kernel does not see is "unspecified" to it. */
	if (!info_is_seen(trial) || is_license_offender(trial->struct_name))
		trial->proprietary = true;
}

static int judge(struct proof_trial *trial)
{
	/* In the order of load_module(). */
	static int (*const parts[])(struct proof_trial *) = {
		judge_modules,
		proof_judge_signature,
		judge_file,
		judge_blacklist,
		proof_judge_layout,
		judge_vermagic,
		judge_livepatch,
		judge_memory,
		note_taints,
		judge_own_exports,
		judge_imports,
		proof_judge_symbols,
		note_release,
		judge_relocations,
		judge_finalize,
		proof_judge_duplicates,
		judge_built_in,
		judge_sysfs,
	};
	struct proof *proof = &trial->proof;
	size_t kept = 0;
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(parts); i++)
		r = parts[i](trial);
	if (r <= 0)
		return r;
	/* A file that is no module for this kernel taints nothing. */
	for (size_t i = 0; i < proof->count; i++)
		if (proof->findings[i].weight == PROOF_NOTE)
			finding_free(&proof->findings[i]);
		else
			proof->findings[kept++] = proof->findings[i];
	proof->count = kept;
	proof->unchecked = false;
	return 0;
}

static int finish(struct proof_trial *trial, int r, struct proof *ret)
{
	free(trial->absent.items);
	if (r < 0) {
		proof_free(&trial->proof);
		return r;
	}
	proof_conclude(&trial->proof);
	*ret = trial->proof;
	return 0;
}

int proof_module_among(const struct elf_module *module, const struct proof_kernel *kernel,
	struct set_view *set, struct proof *ret)
{
	const char *slash = strrchr(elf_module_path(module), '/');
	struct proof_trial trial = {
		.module = module,
		.kernel = kernel,
		.set = set,
		.whole = !set || set_reads_whole(set),
		.name = elf_module_name(module),
		.version = version_of(kernel),
		.rules = { .version = version_of(kernel), .options = &kernel->options },
		.modversions = proof_kernel_has_modversions(kernel),
		.exports_known = proof_exports_known(kernel),
		.proprietary = proof_is_proprietary(module),
	};

	/* One that is too old to state its name has its file's. */
	if (!trial.name)
		trial.name = slash ? slash + 1 : elf_module_path(module);
	look_at_file(&trial);
	return finish(&trial, judge(&trial), ret);
}

int proof_module(
	const struct elf_module *module, const struct proof_kernel *kernel, struct proof *ret)
{
	return proof_module_among(module, kernel, NULL, ret);
}

int proof_unreadable_bytes(const char *name, const void *data, size_t size,
	const struct proof_kernel *kernel, int code, const struct error *open_error,
	struct proof *ret)
{
	struct proof_trial trial = { .name = name, .data = data, .data_size = size };
	/* elf_module_open() objected to the file itself, rather than failed to read it. */
	bool refused = code == -EINVAL || code == -ENOEXEC || code == -EBADMSG ||
		       code == -ENODATA || code == -EFBIG;
	bool is_empty = code == -ENODATA || (data && !size);
	int r = 0;

	if (kernel && size) {
		trial.kernel = kernel;
		trial.version = version_of(kernel);
		r = proof_judge_signature(&trial);
	}
	if (r == 0)
		r = proof_add(&trial, refused ? PROOF_REFUSAL : PROOF_DOUBT,
			refused ? "format" : "unreadable",
			is_empty ? EINVAL : ENOEXEC, /* kernel_read_file() */
			refused ? FORMAT_CURE : UNREADABLE_CURE, NULL, "%s",
			without_prefix(open_error->text, name));
	return finish(&trial, r, ret);
}

int proof_unreadable(const char *name, int code, const struct error *open_error, struct proof *ret)
{
	return proof_unreadable_bytes(name, NULL, 0, NULL, code, open_error, ret);
}
