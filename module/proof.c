/* SPDX-License-Identifier: Apache-2.0 */
#include "module/proof_internal.h"

#include <elf.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "module/symvers.h"

#define MODULE_NAME_SPACE "module:"

/* ---- how the kernel compares the strings that modules and kernels state */

/* license_is_gpl_compatible() of Linux include/linux/license.h. */
bool proof_license_is_gpl(const char *license)
{
	static const char *const compatible[] = { "GPL", "GPL v2", "GPL and additional rights",
		"Dual BSD/GPL", "Dual MIT/GPL", "Dual MPL/GPL" };

	for (size_t i = 0; license && i < ARRAY_SIZE(compatible); i++)
		if (strcmp(license, compatible[i]) == 0)
			return true;
	return false;
}

size_t proof_trimmed(const char *text)
{
	size_t length = strlen(text);

	while (length && text[length - 1] == ' ')
		length--;
	return length;
}

bool proof_has_word(const char *text, const char *word)
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

/*
 * A kernel's own string ends with a space, or with the hash of a randomised layout. One that does
 * not was cut by who read it, and then the end says nothing.
 */
static bool is_whole(const char *vermagic)
{
	size_t length = strlen(vermagic);

	return (length && vermagic[length - 1] == ' ') || strstr(vermagic, " RANDSTRUCT_");
}

/* same_magic() of kernel/module/version.c. */
bool proof_same_magic(const char *ours, const char *theirs, bool skip_release)
{
	if (skip_release) {
		ours += strcspn(ours, " ");
		theirs += strcspn(theirs, " ");
	}
	if (is_whole(theirs))
		return strcmp(ours, theirs) == 0;
	return proof_trimmed(ours) == proof_trimmed(theirs) &&
	       strncmp(ours, theirs, proof_trimmed(ours)) == 0;
}

bool proof_same_release(const char *ours, const char *theirs)
{
	size_t length = strcspn(ours, " ");

	return length == strcspn(theirs, " ") && strncmp(ours, theirs, length) == 0;
}

static bool ends_with(const char *text, size_t length, const char *end)
{
	size_t size = strlen(end);

	return length > size && strncmp(text + length - size, end, size) == 0;
}

/* "6.1.0-56-cloud-amd64", "6.12.48+deb13-arm64", with a vermagic's rest behind it or not. */
bool proof_is_debian(const char *release)
{
	size_t length = release ? strcspn(release, " ") : 0;
	const char *mark = release ? strstr(release, "+deb") : NULL;

	return ends_with(release, length, "-amd64") || ends_with(release, length, "-arm64") ||
	       (mark && mark < release + length);
}

bool proof_is_module_name_space(const char *name_space)
{
	return strncmp(name_space, MODULE_NAME_SPACE, strlen(MODULE_NAME_SPACE)) == 0;
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

/* verify_module_namespace(): a star stands for any end. */
bool proof_name_space_names(const char *name_space, const char *module)
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

void proof_exporter_name(const char *path, char name[PROOF_NAME_SIZE])
{
	module_name_copy(path, strlen(path), name, PROOF_NAME_SIZE);
}

bool proof_same_module(const char *left, const char *right)
{
	const char *slash = strrchr(left, '/');

	left = slash ? slash + 1 : left;
	slash = strrchr(right, '/');
	right = slash ? slash + 1 : right;
	return strlen(left) == strlen(right) && same_module_name(left, right, strlen(left));
}

const char *proof_machine_text(uint16_t machine, char number[16])
{
	static const struct {
		uint16_t machine;
		const char *text;
	} known[] = { { EM_X86_64, "x86-64" }, { EM_AARCH64, "arm64" }, { EM_386, "i386" },
		{ EM_ARM, "arm" }, { EM_PPC64, "ppc64" }, { EM_S390, "s390" },
		{ EM_RISCV, "riscv" }, { EM_MIPS, "mips" } };

	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (known[i].machine == machine)
			return known[i].text;
	(void) snprintf(number, 16, "machine %u", machine);
	return number;
}

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

/* ---- findings */

static char *copy_or_null(const char *text)
{
	return text ? strdup(text) : NULL;
}

static void finding_free(struct proof_finding *finding)
{
	free(finding->symbol);
	free(finding->exporter);
	free(finding->text);
	free(finding->cure);
}

static struct proof_finding *new_finding(struct proof *proof)
{
	struct proof_finding *findings = proof->findings;

	/* Grows at powers of two, so that the count alone tells the capacity. */
	if (proof->count >= 2 && (proof->count & (proof->count - 1)))
		return &findings[proof->count];
	findings =
		reallocarray(findings, proof->count < 2 ? 2 : proof->count * 2, sizeof(*findings));
	if (!findings)
		return NULL;
	proof->findings = findings;
	return &findings[proof->count];
}

static int fill_finding(struct proof_finding *finding, const char *name,
	const struct proof_draft *draft, const char *text)
{
	*finding = (struct proof_finding){
		.id = draft->id,
		.weight = draft->weight,
		.answer = draft->weight == PROOF_NOTE ? 0 : draft->answer,
		.symbol = copy_or_null(draft->symbol),
		.exporter = copy_or_null(draft->exporter),
		.has_crcs = draft->has_crcs,
		.wanted_crc = draft->wanted_crc,
		.found_crc = draft->found_crc,
		.cure = strdup(draft->cure && draft->weight != PROOF_NOTE ? draft->cure : ""),
	};
	if (asprintf(&finding->text, "%s%s%s", name, *name ? ": " : "", text) < 0)
		finding->text = NULL;
	if (!finding->text || !finding->cure || (draft->symbol && !finding->symbol) ||
		(draft->exporter && !finding->exporter))
		return -ENOMEM;
	return 0;
}

_printf_(4, 0) static int append(struct proof *proof, const char *name,
	const struct proof_draft *draft, const char *format, va_list arguments)
{
	struct proof_finding *finding = new_finding(proof);
	_cleanup_free_ char *text = NULL;

	if (!finding)
		return -ENOMEM;
	if (vasprintf(&text, format, arguments) < 0) {
		text = NULL;
		return -ENOMEM;
	}
	proof->count++; /* what it has, also of a half-filled one, is freed with the others */
	return fill_finding(finding, name, draft, text);
}

int proof_append(struct proof *proof, const char *name, const struct proof_draft *draft,
	const char *format, ...)
{
	va_list arguments;
	int r;

	if (draft->weight == PROOF_REFUSAL && proof->verdict != PROOF_WILL_NOT_LOAD) {
		proof->verdict = PROOF_WILL_NOT_LOAD;
		proof->answer = draft->answer;
	}
	va_start(arguments, format);
	r = append(proof, name, draft, format, arguments);
	va_end(arguments);
	return r;
}

int proof_add(struct proof_trial *trial, const struct proof_draft *draft, const char *format, ...)
{
	va_list arguments;
	int r;

	/* The first refusal is the kernel's answer, but simplify_symbols() keeps the last. */
	if (draft->weight == PROOF_REFUSAL &&
		(!trial->proof.answer || (trial->among_symbols && trial->answered_symbols))) {
		trial->proof.answer = draft->answer;
		trial->answered_symbols = trial->among_symbols;
	}
	va_start(arguments, format);
	r = append(&trial->proof, trial->name, draft, format, arguments);
	va_end(arguments);
	return r;
}

/* Stable, and linear where nothing is out of place: findings are few. */
static void sort_findings(struct proof *proof)
{
	for (size_t i = 1; i < proof->count; i++) {
		struct proof_finding moved = proof->findings[i];
		size_t place = i;

		for (; place && proof->findings[place - 1].weight > moved.weight; place--)
			proof->findings[place] = proof->findings[place - 1];
		proof->findings[place] = moved;
	}
}

void proof_conclude(struct proof *proof)
{
	sort_findings(proof);
	proof->verdict = PROOF_WILL_LOAD;
	if (proof->count && proof->findings[0].weight == PROOF_REFUSAL)
		proof->verdict = PROOF_WILL_NOT_LOAD;
	else if (proof->count && proof->findings[0].weight == PROOF_DOUBT)
		proof->verdict = PROOF_CANNOT_TELL;
	/* A refusal's is there already; of doubts the first one's counts. */
	if (!proof->answer && proof->count)
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

const char *proof_module_label(const struct elf_module *module)
{
	const char *name = elf_module_name(module);
	const char *slash = strrchr(elf_module_path(module), '/');

	if (name)
		return name;
	return slash ? slash + 1 : elf_module_path(module);
}

bool proof_kernel_has_modversions(const struct proof_kernel *kernel)
{
	if (kernel->vermagic)
		return proof_has_word(kernel->vermagic, "modversions");
	return kernel->symvers && symvers_find(kernel->symvers, PROOF_LAYOUT);
}

/* Files that --with names, or what is loaded, tell of modules only. */
bool proof_exports_known(const struct proof_kernel *kernel)
{
	const struct symvers *symvers = kernel->symvers;

	if (!symvers)
		return false;
	if (symvers_find_hashed(symvers, PROOF_LAYOUT, PROOF_LAYOUT_HASH))
		return true;
	for (size_t i = 0; !proof_kernel_has_modversions(kernel) && i < symvers_count(symvers); i++)
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

static int doubt_reading(struct proof_trial *trial, int code, const struct error *error)
{
	const struct proof_draft draft = { .id = "unreadable",
		.weight = PROOF_DOUBT,
		.answer = ENOEXEC,
		.cure = "make it readable and try again" };

	return code == -ENOMEM ? code : proof_add(trial, &draft, "%s", error->text);
}

/* Kernels before 6.14 know nothing of the extended form. */
static int look_at_versions(struct proof_trial *trial)
{
	bool reads_extended = !trial->version || trial->version >= PROOF_VERSION(6, 14);
	bool extended = elf_module_has_extended_versions(trial->module);
	struct error error = { 0 };
	bool basic = false;
	int r;

	(void) elf_module_has_versions(trial->module, &basic);
	trial->has_extended = reads_extended && extended;
	trial->has_versions = basic || trial->has_extended;
	trial->reads_basic = basic && extended && !reads_extended;
	if (!trial->reads_basic)
		return 0;
	r = elf_module_basic_versions(trial->module, &trial->basic_memory, &trial->basic, &error);
	return r < 0 ? doubt_reading(trial, r, &error) : 0;
}

/* Where the whole file is read anyway, what was changed after the build counts. */
static int look_at_name(struct proof_trial *trial, char name[ELF_STRUCT_NAME_SIZE])
{
	struct error error = { 0 };
	int r;

	trial->struct_name = trial->name;
	if (trial->kernel->relocations && elf_module_struct_size(trial->module)) {
		r = elf_module_struct_name(trial->module, name, &error);
		if (r < 0)
			return doubt_reading(trial, r, &error);
		if (*name)
			trial->struct_name = name;
	}
	trial->proprietary = trial->proprietary || proof_is_license_offender(trial->struct_name);
	return 0;
}

static int no_modules_at_all(struct proof_trial *trial)
{
	const struct proof_draft draft = { .id = "modules",
		.weight = PROOF_REFUSAL,
		.answer = ENOSYS,
		.cure = "use a kernel with CONFIG_MODULES" };

	return trial->kernel->modules == PROOF_NO
		       ? proof_add(trial, &draft, "this kernel takes no modules at all")
		       : 0;
}

/* What is no module for this kernel taints nothing. */
static void drop_notes(struct proof *proof)
{
	size_t kept = 0;

	for (size_t i = 0; i < proof->count; i++) {
		struct proof_finding finding = proof->findings[i];

		if (finding.weight == PROOF_NOTE)
			finding_free(&finding);
		else
			proof->findings[kept++] = finding;
	}
	proof->count = kept;
	proof->unchecked = false;
}

static int judge(struct proof_trial *trial)
{
	/* In the order of load_module(). */
	static int (*const parts[])(struct proof_trial *) = {
		no_modules_at_all,
		proof_judge_signature,
		proof_judge_file,
		proof_judge_blacklist,
		proof_judge_layout,
		proof_judge_vermagic,
		proof_judge_livepatch,
		proof_judge_memory,
		proof_note_taints,
		proof_judge_own_exports,
		proof_judge_imports,
		proof_judge_symbols,
		proof_note_release,
		proof_judge_relocations,
		proof_judge_duplicates,
		proof_judge_built_in,
		proof_judge_sysfs,
	};

	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		int r = parts[i](trial);

		if (r < 0)
			return r;
		/* Of a file that is no module for this kernel the rest says nothing. */
		if (parts[i] == proof_judge_file && trial->unfit) {
			drop_notes(&trial->proof);
			break;
		}
	}
	return 0;
}

int proof_module_among(const struct elf_module *module, const struct proof_kernel *kernel,
	const struct proof_overlay *overlay, struct proof *ret)
{
	struct proof_trial trial = {
		.module = module,
		.kernel = kernel,
		.overlay = overlay,
		.name = proof_module_label(module),
		.version = version_of(kernel),
		.machine = elf_module_machine(module),
		.modversions = proof_kernel_has_modversions(kernel),
		.exports_known = proof_exports_known(kernel),
		.proprietary = proof_is_proprietary(module),
		.finds_known = overlay && overlay->find_known && kernel->symvers &&
			       elf_module_known(module) == kernel->symvers,
	};
	char name[ELF_STRUCT_NAME_SIZE];
	int r = look_at_versions(&trial);

	if (r == 0)
		r = look_at_name(&trial, name);
	/* A licence that the kernel does not see is "unspecified" to it. */
	if (trial.version && !elf_module_info_is_seen(module, trial.version))
		trial.proprietary = true;
	if (r == 0)
		r = judge(&trial);
	arena_free(&trial.basic_memory);
	if (r < 0) {
		proof_free(&trial.proof);
		return r;
	}
	proof_conclude(&trial.proof);
	*ret = trial.proof;
	return 0;
}

int proof_module(
	const struct elf_module *module, const struct proof_kernel *kernel, struct proof *ret)
{
	return proof_module_among(module, kernel, NULL, ret);
}

static int judge_unreadable(struct proof_trial *trial, int code, const struct error *open_error)
{
	/* What elf_module_open() minds of the file itself, not what kept it from reading it. */
	bool refused = code == -EINVAL || code == -ENOEXEC || code == -EBADMSG ||
		       code == -ENODATA || code == -EFBIG;
	bool is_empty = code == -ENODATA || (trial->data && !trial->data_size);
	const struct proof_draft draft = {
		.id = refused ? "format" : "unreadable",
		.weight = refused ? PROOF_REFUSAL : PROOF_DOUBT,
		.answer = is_empty ? EINVAL : ENOEXEC, /* kernel_read_file() */
		.cure = refused ? "build it, or copy it, anew" : "make it readable and try again",
	};
	const char *text = open_error->text;
	size_t length = strlen(trial->name);

	/* Most messages begin with the name that we put in front. */
	if (strncmp(text, trial->name, length) == 0 && strncmp(text + length, ": ", 2) == 0)
		text += length + 2;
	return proof_add(trial, &draft, "%s", text);
}

int proof_unreadable_bytes(const char *name, const void *data, size_t size,
	const struct proof_kernel *kernel, int code, const struct error *open_error,
	struct proof *ret)
{
	struct proof_trial trial = { .name = name, .data = data, .data_size = size };
	int r = 0;

	if (kernel && size) {
		trial.kernel = kernel;
		trial.version = version_of(kernel);
		r = proof_judge_signature(&trial);
	}
	if (r == 0)
		r = judge_unreadable(&trial, code, open_error);
	if (r < 0) {
		proof_free(&trial.proof);
		return r;
	}
	proof_conclude(&trial.proof);
	*ret = trial.proof;
	return 0;
}

int proof_unreadable(const char *name, int code, const struct error *open_error, struct proof *ret)
{
	return proof_unreadable_bytes(name, NULL, 0, NULL, code, open_error, ret);
}

int proof_answer(const struct proof *proof)
{
	return proof->answer;
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
