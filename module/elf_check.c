/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel's checks of a module file's format, version by version, in the order in which the
 * kernel does them: Linux kernel/module/main.c, load_module() and what it calls. The checks that
 * all versions do, and without which nothing can be read, are in elf_file.c; relocations are in
 * elf_relocations.c, and what differs between machines in elf_machines.c.
 *
 * Facts are from the sources of 6.1, 6.12, 7.2 and 7.3. A rule that came in between two of them is
 * taken to hold from the release that its history names, as said at each; else from the later one.
 *
 * Some things no kernel checks, so that it would read what is not there: those are noted as
 * -EFAULT.
 */
#include "module/elf_internal.h"

#include <limits.h>
#include <stdarg.h>

#include "common/hash.h"

/* module_enforce_rwx_sections(), of 5.7. */
#define SINCE_RWX ELF_VERSION(5, 7)
/* struct kernel_symbol has a name space. */
#define SINCE_NAME_SPACES ELF_VERSION(5, 4)
/* Sections are counted and struct module is measured since then (elf_validity_check()). */
#define SINCE_UNIQUE ELF_VERSION(6, 4)
/* elf_validity_cache_secstrings() and the others, in place of one function. */
#define SINCE_SPLIT ELF_VERSION(6, 12)
/* elf_validity_cache_strtab(). */
#define SINCE_STRTAB ELF_VERSION(6, 13)
/* elf_validity_cache_index_versions(). */
#define SINCE_EXTENDED ELF_VERSION(6, 14)
/*
 * check_export_symbol_sections(): one table of exports, with flags that tell the GPL-only ones; 7.2
 * has it, 6.12 not, and it is younger than 7.0.
 */
#define SINCE_FLAGS ELF_VERSION(7, 2)

#define SHN_LIVEPATCH 0xff20 /* include/uapi/linux/elf.h */

/*
 * PERCPU_MODULE_RESERVE of include/linux/percpu.h. With CONFIG_MEM_ALLOC_PROFILING, of 6.10, each
 * place that allocates memory has a counter in the section, so the kernel reserves more. 7.2 does
 * neither: it makes the counters when it loads the module.
 */
#define PERCPU_SPACE          ((uint64_t) 8 << 10)
#define PERCPU_SPACE_PROFILED ((uint64_t) 64 << 10)
#define PROFILE_COUNTER       "_alloc_tag_cntr" /* DEFINE_ALLOC_TAG() of linux/alloc_tag.h */

/* scs_patch() of arch/arm64/kernel/patch-scs.c is of 6.2. */
#define SINCE_SHADOW_STACKS ELF_VERSION(6, 2)

#define CRC_SIZE         4
#define EXPORT_FIELDS    3 /* of struct kernel_symbol since SINCE_NAME_SPACES */
#define STRUCT_NAME_SIZE 56
#define NAME_LIMIT       1024 /* bytes of a section's name that are compared */

/* The most defects of symbols that are kept: any of them may be the first that is asked for. */
#define SYMBOL_LIMIT 64
#define TEXT_SIZE    512

/* ---- what was found */

/* Whether it never shows: of a stage and version the first counts, but for symbols. */
static bool is_covered(const struct elf_defects *defects, unsigned int from, unsigned int before)
{
	size_t count = 0;

	for (const struct elf_defect *earlier = defects->first; earlier; earlier = earlier->next)
		if (earlier->stage == defects->stage && earlier->from <= from &&
			(!earlier->before || (before && before <= earlier->before)) &&
			!earlier->option && !earlier->page_kib && earlier->code != -EAGAIN &&
			(defects->stage != ELF_STAGE_SYMBOLS || ++count == SYMBOL_LIMIT))
			return true;
	return false;
}

static void add_defect(
	struct elf_defects *defects, const struct elf_defect *wanted, const char *text)
{
	size_t size = strlen(text) + 1;
	struct elf_defect *defect;

	if (is_covered(defects, wanted->from, wanted->before))
		return;
	defect = malloc(sizeof(*defect) + size);
	if (!defect) {
		defects->no_memory = true;
		return;
	}
	*defect = *wanted;
	defect->stage = defects->stage;
	defect->symbol = defects->symbol;
	memcpy(defect->text, text, size);
	if (defects->last)
		defects->last->next = defect;
	else
		defects->first = defect;
	defects->last = defect;
}

/* Notes that versions from @from on and before @before (0: and all later ones) mind something. */
_printf_(5, 6) static void mind(struct elf_defects *defects, unsigned int from, unsigned int before,
	int code, const char *format, ...)
{
	const struct elf_defect wanted = { .from = from, .before = before, .code = code };
	char text[TEXT_SIZE];
	va_list arguments;

	va_start(arguments, format);
	(void) vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	add_defect(defects, &wanted, text);
}

/* As @wanted has it. */
_printf_(3, 4) static void mind_as(
	struct elf_defects *defects, const struct elf_defect *wanted, const char *format, ...)
{
	char text[TEXT_SIZE];
	va_list arguments;

	va_start(arguments, format);
	(void) vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	add_defect(defects, wanted, text);
}

/* Kernels refuse it since @since, and read it without a check before. */
_printf_(3, 4) static void mind_since(
	struct elf_defects *defects, unsigned int since, const char *format, ...)
{
	const struct elf_defect wanted = { .code = -ENOEXEC, .checked_from = since };
	char text[TEXT_SIZE];
	va_list arguments;

	va_start(arguments, format);
	(void) vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	add_defect(defects, &wanted, text);
}

/* Some kernels mind it and others do not, and it is not known which of them this one is. */
static int minds_maybe(const struct elf_defect *defect, unsigned int version, struct error *error)
{
	char from[32] = "", before[32] = "";

	if (version || !(defect->from || defect->before))
		return error_set(error, -EAGAIN, "%s", defect->text);
	if (defect->from)
		(void) snprintf(from, sizeof(from), " from %u.%u on", defect->from >> 8,
			defect->from & 0xff);
	if (defect->before)
		(void) snprintf(before, sizeof(before), " before %u.%u", defect->before >> 8,
			defect->before & 0xff);
	return error_set(error, -EAGAIN, "%s (kernels%s%s)", defect->text, from, before);
}

/* Whether such a kernel minds, as far as that is known of it. */
static enum proof_option minds(const struct elf_defect *defect, const struct elf_kernel *kernel)
{
	unsigned int page_kib = kernel->options ? kernel->options->page_kib : 0;
	enum proof_option option = elf_kernel_option(kernel, defect->option);

	if (kernel->version && (kernel->version < defect->from ||
				       (defect->before && kernel->version >= defect->before)))
		return PROOF_NO;
	if (option == PROOF_NO || (page_kib && page_kib < defect->page_kib))
		return PROOF_NO;
	if (option == PROOF_UNKNOWN || (defect->page_kib && !page_kib) || defect->code == -EAGAIN)
		return PROOF_UNKNOWN;
	return !kernel->version && (defect->from || defect->before) ? PROOF_UNKNOWN : PROOF_YES;
}

int elf_defects_find(const struct elf_defects *defects, const struct elf_kernel *kernel,
	enum elf_stage stage, uint32_t *symbol, struct error *error)
{
	const struct elf_defect *maybe = NULL;

	for (const struct elf_defect *defect = defects->first; defect; defect = defect->next) {
		enum proof_option answer;

		if (defect->stage != stage || (symbol && defect->symbol < *symbol))
			continue;
		answer = minds(defect, kernel);
		if (answer == PROOF_NO)
			continue;
		/* Each of the symbols counts, in their order; else all versions' refusal first. */
		if (answer == PROOF_UNKNOWN && !symbol) {
			maybe = maybe ? maybe : defect;
			continue;
		}
		if (symbol)
			*symbol = defect->symbol;
		if (answer == PROOF_UNKNOWN)
			return minds_maybe(defect, kernel->version, error);
		if (kernel->version && kernel->version < defect->checked_from)
			return error_set(error, -EFAULT, "%s; " ELF_NOT_CHECKED, defect->text);
		return error_set(error, defect->code, "%s", defect->text);
	}
	return maybe ? minds_maybe(maybe, kernel->version, error) : 0;
}

void elf_defects_free(struct elf_defects *defects)
{
	while (defects->first) {
		struct elf_defect *defect = defects->first;

		defects->first = defect->next;
		free(defect);
	}
	*defects = (struct elf_defects){ 0 };
}

static const char *shown_name(const struct elf_parts *parts, unsigned int index)
{
	const char *name = elf_section_name(parts, index);

	return *name ? name : "without a name";
}

/* Notes that a section goes beyond the file, but is read by versions before @before. */
static void mind_beyond(const struct elf_parts *parts, struct elf_defects *defects,
	unsigned int before, const char *what, const Elf64_Shdr *section)
{
	if (!elf_section_in_file(parts, section))
		mind(defects, 0, before, -EFAULT,
			"%s at offset %llu, %llu bytes, goes beyond the file's %llu; " ELF_NOT_CHECKED,
			what, ull(section->sh_offset), ull(section->sh_size), ull(parts->size));
}

/* ---- before the kernel looks at what .modinfo states: ELF_STAGE_FILE */

static void check_section_names(const struct elf_parts *parts, struct elf_defects *defects)
{
	const Elf64_Shdr *names = &parts->sections[parts->header.e_shstrndx];

	if (names->sh_type != SHT_STRTAB)
		mind(defects, SINCE_SPLIT, 0, -ENOEXEC,
			"the names of sections are in section %u, which has type %u and is no "
			"string table",
			parts->header.e_shstrndx, names->sh_type);
	for (unsigned int i = 0; i < parts->header.e_shnum; i++) {
		const Elf64_Shdr *section = &parts->sections[i];
		bool has_bytes = section->sh_type != SHT_NULL && section->sh_type != SHT_NOBITS;
		bool always = has_bytes && section->sh_flags & SHF_ALLOC;

		if (section->sh_name < parts->names_size)
			continue;
		if (section->sh_type != SHT_NULL)
			mind(defects, always ? 0 : SINCE_SPLIT, 0, -ENOEXEC,
				"the name of section %u is at %u of %llu bytes of names", i,
				section->sh_name, ull(parts->names_size));
		if (!always && section->sh_name >= parts->size - names->sh_offset)
			mind(defects, 0, section->sh_type == SHT_NULL ? 0 : SINCE_SPLIT, -EFAULT,
				"the name of section %u is at %u of %llu bytes of "
				"names; " ELF_NOT_CHECKED,
				i, section->sh_name, ull(parts->names_size));
	}
}

static void check_info(const struct elf_parts *parts, struct elf_defects *defects)
{
	const struct elf_found *found = &parts->found[ELF_MODINFO];
	const Elf64_Shdr *section = &parts->sections[found->any];

	if (found->count > 1)
		mind(defects, SINCE_UNIQUE, 0, -ENOEXEC,
			"it has %u sections .modinfo where the kernel wants one", found->count);
	if (found->any && !section->sh_size)
		mind(defects, 0, 0, -EFAULT,
			"its section .modinfo at offset %llu is empty; " ELF_NOT_CHECKED,
			ull(section->sh_offset));
	if (found->any)
		mind_beyond(parts, defects, 0, "its section .modinfo", section);
}

static void check_module_section(const struct elf_parts *parts, struct elf_defects *defects)
{
	const struct elf_found *found = &parts->found[ELF_THIS_MODULE];

	if (found->count != 1)
		mind(defects, SINCE_UNIQUE, 0, -ENOEXEC,
			"it has %u sections .gnu.linkonce.this_module where the kernel wants one",
			found->count);
	if (!found->allocated)
		mind(defects, 0, 0, -ENOEXEC,
			"it has no section .gnu.linkonce.this_module that takes memory");
	if (found->any && parts->sections[found->any].sh_type == SHT_NOBITS)
		mind_since(defects, SINCE_UNIQUE,
			"its section .gnu.linkonce.this_module has no bytes in the file");
}

static void check_symbol_tables(const struct elf_parts *parts, struct elf_defects *defects)
{
	const Elf64_Shdr *strings = &parts->sections[parts->strtab];

	if (parts->symtab_count != 1)
		mind(defects, SINCE_UNIQUE, 0, -ENOEXEC,
			"it has %u symbol tables where the kernel wants one", parts->symtab_count);
	for (unsigned int i = parts->symtab + 1; i < parts->header.e_shnum; i++)
		if (parts->sections[i].sh_type == SHT_SYMTAB &&
			(parts->sections[i].sh_link == SHN_UNDEF ||
				parts->sections[i].sh_link >= parts->header.e_shnum))
			mind(defects, 0, SINCE_SPLIT, -ENOEXEC,
				"the names of symbols of section %u are in section %u, of %u", i,
				parts->sections[i].sh_link, parts->header.e_shnum);
	if (strings->sh_type != SHT_STRTAB)
		mind(defects, SINCE_SPLIT, 0, -ENOEXEC,
			"the names of symbols are in section %u, which has type %u and is no "
			"string table",
			parts->strtab, strings->sh_type);
	mind_beyond(parts, defects, SINCE_SPLIT, "the table of symbols' names", strings);
}

static void check_extended_versions(const struct elf_parts *parts, struct elf_defects *defects)
{
	unsigned int crcs_index = parts->found[ELF_VERSION_CRCS].allocated;
	unsigned int names_index = parts->found[ELF_VERSION_NAMES].allocated;
	struct elf_span crcs, names;
	struct error ignored;
	const char *next;
	size_t left;

	if (!crcs_index && !names_index)
		return;
	if (!crcs_index || !names_index) {
		mind(defects, SINCE_EXTENDED, 0, -ENOEXEC,
			"it has only one of the sections __version_ext_crcs and "
			"__version_ext_names");
		return;
	}
	if (!elf_section_in_file(parts, &parts->sections[crcs_index]) ||
		!elf_section_in_file(parts, &parts->sections[names_index])) {
		mind(defects, SINCE_EXTENDED, 0, -EFAULT,
			"its extended symbol versions go beyond the file's %llu bytes; " ELF_NOT_CHECKED,
			ull(parts->size));
		return;
	}
	if (elf_section_map(parts, crcs_index, &crcs, &ignored) < 0 ||
		elf_section_map(parts, names_index, &names, &ignored) < 0)
		return;
	next = names.data;
	left = names.size;
	for (size_t i = 0; i < crcs.size / CRC_SIZE; i++) {
		size_t used = strnlen(next, left) + 1;

		if (used > left) {
			mind(defects, SINCE_EXTENDED, 0, -ENOEXEC,
				"it has %zu extended symbol versions but fewer names at offset %llu, "
				"%zu bytes",
				crcs.size / CRC_SIZE, ull(parts->sections[names_index].sh_offset),
				names.size);
			return;
		}
		next += used;
		left -= used;
	}
}

static void check_versions(const struct elf_parts *parts, struct elf_defects *defects)
{
	unsigned int basic = parts->found[ELF_VERSIONS].allocated;

	if (basic)
		mind_beyond(
			parts, defects, 0, "its table of symbol versions", &parts->sections[basic]);
}

static void check_strings(const struct elf_parts *parts, struct elf_defects *defects)
{
	uint64_t offset = parts->sections[parts->strtab].sh_offset;
	const char *wrong;

	if (!parts->strings_size)
		wrong = "is empty";
	else if (parts->strings[0])
		wrong = "does not begin with a NUL";
	else if (parts->strings[parts->strings_size - 1])
		wrong = "does not end with a NUL";
	else
		return;
	/* Without a NUL in front only the name of what has none is another. */
	if (!parts->strings_size || parts->strings[parts->strings_size - 1])
		mind_since(defects, SINCE_STRTAB, "the table of symbols' names at offset %llu %s",
			ull(offset), wrong);
	else
		mind(defects, SINCE_STRTAB, 0, -ENOEXEC,
			"the table of symbols' names at offset %llu %s", ull(offset), wrong);
}

static void check_symbol_names(const struct elf_parts *parts, struct elf_defects *defects)
{
	Elf64_Sym symbol;

	if (!parts->strings_size)
		return;
	for (size_t i = 0; i < parts->symbol_count; i++) {
		elf_symbol_at(parts, i, &symbol);
		if (symbol.st_name < parts->strings_size)
			continue;
		mind_since(defects, SINCE_STRTAB,
			"the name of symbol %zu is at %u of %llu bytes of names", i, symbol.st_name,
			ull(parts->strings_size));
	}
}

/* ---- when it lays out the module's memory: ELF_STAGE_LAYOUT */

/* module_frob_arch_sections() of arm64 needs these, and gives them flags of its own. */
static void check_machine_sections(const struct elf_parts *parts, struct elf_defects *defects)
{
	const struct elf_machine *machine = elf_machine_find(parts->header.e_machine);

	for (const struct elf_machine_section *wanted = machine ? machine->sections : NULL;
		wanted && wanted->name; wanted++) {
		unsigned int count = 0;

		if (wanted->stage != defects->stage)
			continue;
		for (unsigned int i = 1; i < parts->header.e_shnum; i++)
			count += strcmp(elf_section_name(parts, i), wanted->name) == 0;
		/* Room is made in the last one, and find_section() gives the first. */
		if (count > 1 && wanted->stage == ELF_STAGE_FINALIZE)
			mind_as(defects,
				&(struct elf_defect){ .option = wanted->option, .code = -EFAULT },
				"it has %u sections %s; this kernel does not check it and would "
				"write elsewhere",
				count, wanted->name);
		else if (!count)
			mind_as(defects,
				&(struct elf_defect){ .option = wanted->option, .code = -ENOEXEC },
				"it has no section %s, in which the kernel makes room for far "
				"jumps",
				wanted->name);
	}
}

/*
 * count_plts() of arch/arm64/kernel/module-plts.c reads sections and symbols by their indexes, the
 * symbols from the last table.
 */
static void check_counting(const struct elf_parts *parts, struct elf_defects *defects)
{
	const struct elf_machine *machine = elf_machine_find(parts->header.e_machine);
	const struct elf_defect wanted = { .option = ELF_OPTION_PLTS, .code = -EFAULT };

	if (!machine || !machine->counts_branches)
		return;
	for (unsigned int i = 1; i < parts->header.e_shnum; i++) {
		const Elf64_Shdr *section = &parts->sections[i];
		bool beyond =
			section->sh_type == SHT_RELA && section->sh_info >= parts->header.e_shnum;

		if (beyond)
			mind_as(defects, &wanted,
				"section %u (%s) has relocations of section %u, of "
				"%u; " ELF_NOT_CHECKED,
				i, shown_name(parts, i), section->sh_info, parts->header.e_shnum);
		else if (section->sh_type == SHT_SYMTAB &&
			 section->sh_size < parts->sections[parts->symtab].sh_size)
			mind_as(defects, &wanted,
				"section %u (%s) is a further symbol table, and a shorter "
				"one; " ELF_NOT_CHECKED,
				i, shown_name(parts, i));
		else
			continue;
		return;
	}
}

/* The machine may have set other flags before: those sections have them here, or count apart. */
static void check_flags(const struct elf_parts *parts, struct elf_defects *defects)
{
	const struct elf_machine *machine = elf_machine_find(parts->header.e_machine);
	const uint64_t both = SHF_WRITE | SHF_EXECINSTR;

	for (unsigned int i = 0; i < parts->header.e_shnum; i++) {
		const struct elf_machine_section *set;
		struct elf_defect wanted = { .from = SINCE_RWX, .code = -ENOEXEC };

		if ((parts->sections[i].sh_flags & both) != both)
			continue;
		set = machine ? elf_machine_section(machine, elf_section_name(parts, i)) : NULL;
		wanted.option = set ? set->no_room : ELF_OPTION_NONE;
		mind_as(defects, &wanted, "section %u (%s) can be written and executed", i,
			shown_name(parts, i));
		mind(defects, 0, SINCE_RWX, -EFAULT,
			"section %u (%s) can be written and executed, which kernels before 5.7 "
			"refuse only where that check was brought back to them",
			i, shown_name(parts, i));
		if (!wanted.option)
			return;
	}
}

/* layout_sections(): sizes are added up in 32 bits, alignments are taken for powers of two. */
static void check_layout(const struct elf_parts *parts, struct elf_defects *defects)
{
	const struct elf_machine *machine = elf_machine_find(parts->header.e_machine);
	uint64_t total = 0;

	for (unsigned int i = 0; i < parts->header.e_shnum; i++) {
		const Elf64_Shdr *section = &parts->sections[i];
		uint64_t align = section->sh_addralign ? section->sh_addralign : 1;

		if (!elf_section_is_loaded(parts, i) || i == parts->found[ELF_PERCPU].allocated)
			continue;
		if (section->sh_type == SHT_NULL && !elf_section_in_file(parts, section))
			mind(defects, 0, 0, -EFAULT,
				"section %u without a type, at offset %llu, %llu bytes, goes beyond "
				"the file's %llu; " ELF_NOT_CHECKED,
				i, ull(section->sh_offset), ull(section->sh_size),
				ull(parts->size));
		else if (align & (align - 1) || align > UINT32_MAX)
			mind(defects, 0, 0, -EFAULT,
				"section %u (%s) has alignment %llu; this kernel does not check it, "
				"and sections may come to lie on each other",
				i, shown_name(parts, i), ull(align));
		else if (section->sh_size > UINT32_MAX)
			mind(defects, 0, 0, -EFAULT,
				"section %u (%s) has %llu bytes, of which this kernel sees the lower "
				"32 bits",
				i, shown_name(parts, i), ull(section->sh_size));
		else
			total = ((total + align - 1) & ~(align - 1)) + section->sh_size;
	}
	if (machine && total > machine->space)
		mind(defects, 0, 0, -E2BIG,
			"it takes %llu MiB of memory, more than modules can have",
			ull(total >> 20));
}

/* How many of @size bytes are zero before the first that is not. */
static size_t count_zeros(const char *bytes, size_t size)
{
	size_t count = 0;

	/* As nearly all are. */
	if (size && !*bytes && memcmp(bytes, bytes + 1, size - 1) == 0)
		return size;
	while (count < size && !bytes[count])
		count++;
	return count;
}

/* modpost fills in the name; init and exit come by relocation, and the rest the kernel fills in. */
static void check_struct(const struct elf_parts *parts, struct elf_defects *defects)
{
	unsigned int index = parts->found[ELF_THIS_MODULE].allocated;
	struct error ignored;
	struct elf_span span;
	size_t place;

	if (!elf_machine_find(parts->header.e_machine) ||
		elf_section_map(parts, index, &span, &ignored) < 0 ||
		span.size < STRUCT_NAME_OFFSET + STRUCT_NAME_SIZE)
		return;
	if (!memchr(span.data + STRUCT_NAME_OFFSET, '\0', STRUCT_NAME_SIZE)) {
		mind(defects, 0, 0, -EFAULT,
			"its name in struct module at offset %llu has no end; " ELF_NOT_CHECKED,
			ull(parts->sections[index].sh_offset + STRUCT_NAME_OFFSET));
		return;
	}
	place = count_zeros(span.data, STRUCT_NAME_OFFSET);
	if (place == STRUCT_NAME_OFFSET) {
		place += STRUCT_NAME_SIZE;
		place += count_zeros(span.data + place, span.size - place);
	}
	if (place < span.size)
		mind(defects, 0, 0, -EFAULT,
			"the byte at offset %llu of its struct module is not zero; this kernel "
			"takes it as it is",
			ull(parts->sections[index].sh_offset + place));
}

static bool has_profile_counters(const struct elf_parts *parts, unsigned int section)
{
	Elf64_Sym symbol;

	for (size_t i = 0; i < parts->symbol_count; i++) {
		elf_symbol_at(parts, i, &symbol);
		/* "_alloc_tag_cntr.5" by GCC, "function._alloc_tag_cntr" by clang. */
		if (symbol.st_shndx == section &&
			strstr(elf_symbol_name(parts, &symbol), PROFILE_COUNTER))
			return true;
	}
	return false;
}

/* percpu_modalloc() cuts the alignment to a page; pcpu_alloc() of mm/percpu.c wants powers of two.
 */
static void check_percpu(const struct elf_parts *parts, struct elf_defects *defects)
{
	static const char text[] = "its section .data..percpu has %llu bytes and alignment %llu, "
				   "more than modules can have";
	const struct elf_machine *machine = elf_machine_find(parts->header.e_machine);
	unsigned int index = parts->found[ELF_PERCPU].allocated;
	const Elf64_Shdr *section = &parts->sections[index];
	uint64_t align = section->sh_addralign;
	uint64_t page_kib = !machine ? 4 : machine->page_kib ? machine->page_kib : 64;
	struct elf_defect wanted = { .code = -E2BIG };
	uint64_t space = PERCPU_SPACE;
	bool odd = align & (align - 1);

	if (!index || !section->sh_size)
		return;
	if (section->sh_size > space && has_profile_counters(parts, index))
		space = PERCPU_SPACE_PROFILED;
	if (odd && align > 4096 && align <= page_kib << 10)
		wanted.page_kib = align > 16384 ? 64 : 16;
	if (section->sh_size > space || (odd && (align < 4096 || wanted.page_kib)))
		mind_as(defects, &wanted, text, ull(section->sh_size), ull(align));
	else if (section->sh_type != SHT_NOBITS)
		mind_beyond(parts, defects, 0, "its section .data..percpu", section);
}

static uint64_t count_exports(const struct elf_parts *parts, unsigned int entries)
{
	return entries ? parts->sections[entries].sh_size /
				 (EXPORT_FIELDS * elf_export_field(parts, entries))
		       : 0;
}

static void check_exports(const struct elf_parts *parts, struct elf_defects *defects)
{
	static const struct {
		enum elf_known exports, others;
		uint64_t other_size;
		unsigned int from, before;
	} tables[] = {
		{ ELF_KSYMTAB, ELF_KFLAGSTAB, 1, SINCE_FLAGS, 0 },
		{ ELF_KSYMTAB, ELF_KCRCTAB, CRC_SIZE, SINCE_NAME_SPACES, 0 },
		{ ELF_KSYMTAB_GPL, ELF_KCRCTAB_GPL, CRC_SIZE, SINCE_NAME_SPACES, SINCE_FLAGS },
	};
	unsigned int exports = parts->found[ELF_KSYMTAB].allocated;

	if (count_exports(parts, exports) && !parts->found[ELF_KFLAGSTAB].allocated)
		mind(defects, SINCE_FLAGS, 0, -ENOEXEC,
			"it exports symbols but has no section __kflagstab, which tells the "
			"GPL-only ones: it was made for an older kernel");
	for (size_t i = 0; i < ARRAY_SIZE(tables); i++) {
		unsigned int index = parts->found[tables[i].exports].allocated;
		unsigned int other = parts->found[tables[i].others].allocated;
		uint64_t count = count_exports(parts, index);

		if (index && other && parts->sections[other].sh_size / tables[i].other_size < count)
			mind(defects, tables[i].from, tables[i].before, -EFAULT,
				"%s has fewer entries than %s, which has %llu; " ELF_NOT_CHECKED,
				shown_name(parts, other), shown_name(parts, index), ull(count));
	}
}

/*
 * Further relocations of a table are a defect: elf_exports_read() reads only the first section of
 * them.
 */
static void check_export_relocations(const struct elf_parts *parts, struct elf_defects *defects)
{
	static const enum elf_known tables[] = { ELF_KSYMTAB, ELF_KSYMTAB_GPL, ELF_KCRCTAB,
		ELF_KCRCTAB_GPL };
	unsigned int counts[ARRAY_SIZE(tables)] = { 0 };
	bool exports = false;

	for (size_t i = 0; i < ARRAY_SIZE(tables); i++)
		exports = exports || parts->found[tables[i]].allocated;
	for (unsigned int i = 1; exports && i < parts->header.e_shnum; i++) {
		const Elf64_Shdr *section = &parts->sections[i];

		if (section->sh_type != SHT_RELA || !section->sh_info)
			continue;
		for (size_t j = 0; j < ARRAY_SIZE(tables); j++)
			if (section->sh_info == parts->found[tables[j]].allocated &&
				++counts[j] == 2) {
				mind(defects, 0, 0, -EFAULT,
					"section %u has further relocations of %s, so that what it "
					"exports is not known",
					i, shown_name(parts, section->sh_info));
				return;
			}
	}
}

/* ---- among the symbols, in the order of the table: ELF_STAGE_SYMBOLS */

static void check_places(const struct elf_parts *parts, struct elf_defects *defects)
{
	Elf64_Sym symbol;

	for (size_t i = 1; i < parts->symbol_count; i++) {
		const char *name;

		elf_symbol_at(parts, i, &symbol);
		if (symbol.st_shndx < parts->header.e_shnum || symbol.st_shndx == SHN_ABS ||
			symbol.st_shndx == SHN_LIVEPATCH)
			continue;
		name = elf_symbol_name(parts, &symbol);
		defects->symbol = (uint32_t) i & 0x7fffffff;
		if (symbol.st_shndx != SHN_COMMON)
			mind(defects, 0, 0, -ENOEXEC, "symbol %zu (%s) lies in section %u, of %u",
				i, name, symbol.st_shndx, parts->header.e_shnum);
		else if (strncmp(name, "__gnu_lto", strlen("__gnu_lto")) != 0)
			mind(defects, 0, 0, -ENOEXEC,
				"symbol %zu (%s) is a common one: compile with -fno-common", i,
				name);
	}
}

/* ---- ELF_STAGE_RELOCATIONS */

/* apply_relocations(): x86-64 and arm64 take no relocations without addends. */
static void check_relocation_sections(const struct elf_parts *parts, struct elf_defects *defects)
{
	for (unsigned int i = 1; i < parts->header.e_shnum; i++) {
		const Elf64_Shdr *section = &parts->sections[i];

		if (section->sh_info >= parts->header.e_shnum ||
			!elf_section_is_loaded(parts, section->sh_info))
			continue;
		if (section->sh_flags & SHF_RELA_LIVEPATCH &&
			strncmp(elf_section_name(parts, i), ".klp.rela.", 10) != 0) {
			mind(defects, 0, 0, -EINVAL,
				"section %u (%s) is marked as a live patch's relocations", i,
				shown_name(parts, i));
			return;
		}
		if (section->sh_type == SHT_REL) {
			mind(defects, 0, 0, -ENOEXEC,
				"section %u (%s) has relocations without addends", i,
				shown_name(parts, i));
			return;
		}
	}
}

/* ---- behind the relocations: ELF_STAGE_FINALIZE */

/* module_finalize() of arch/arm64/kernel/module.c, which since 7.3 refuses what it cannot patch. */
static void check_unwind_tables(const struct elf_parts *parts, struct elf_defects *defects)
{
	const struct elf_machine *machine = elf_machine_find(parts->header.e_machine);

	for (unsigned int i = 1; machine && machine->unwind && i < parts->header.e_shnum; i++) {
		if (strcmp(elf_section_name(parts, i), machine->unwind) != 0)
			continue;
		mind_as(defects,
			&(struct elf_defect){ .from = SINCE_SHADOW_STACKS,
				.option = ELF_OPTION_SHADOW_STACKS,
				.code = -EAGAIN },
			"by its section %s a kernel with "
			"CONFIG_UNWIND_PATCH_PAC_INTO_SCS changes its code on processors "
			"without pointer authentication, and newer ones refuse what they "
			"cannot change: that is not checked here",
			machine->unwind);
		return;
	}
}

/* ---- at last: ELF_STAGE_SYSFS */

/* Whether /sys/module/NAME/sections has a file for it: sect_empty() of kernel/module/internal.h. */
static bool is_shown(const struct elf_parts *parts, unsigned int index)
{
	if (!parts->sections[index].sh_size || index == parts->found[ELF_PERCPU].allocated ||
		index == parts->found[ELF_VERSION_CRCS].allocated ||
		index == parts->found[ELF_VERSION_NAMES].allocated)
		return false;
	return elf_section_is_loaded(parts, index) || index == parts->symtab ||
	       index == parts->strtab;
}

/* add_sect_attrs() of kernel/module/sysfs.c; before 6.12 its failures were ignored. */
static void check_shown_names(const struct elf_parts *parts, struct elf_defects *defects)
{
	_cleanup_free_ uint32_t *slots = NULL; /* open addressing: a section, 0: free */
	size_t mask = 15;

	while (mask < (size_t) parts->header.e_shnum * 2)
		mask = mask * 2 + 1;
	slots = calloc(mask + 1, sizeof(*slots));
	if (!slots) {
		defects->no_memory = true;
		return;
	}
	for (unsigned int i = 1; i < parts->header.e_shnum; i++) {
		const char *name = elf_section_name(parts, i);
		size_t place;

		if (!is_shown(parts, i))
			continue;
		place = name_hash_sized(name, strnlen(name, NAME_LIMIT)) & mask;
		for (; slots[place]; place = (place + 1) & mask)
			if (strncmp(elf_section_name(parts, slots[place]), name, NAME_LIMIT) == 0) {
				mind(defects, SINCE_SPLIT, 0, -EEXIST,
					"section %u has the name %s, as one before it", i,
					shown_name(parts, i));
				return;
			}
		slots[place] = i;
	}
}

int elf_check(const struct elf_parts *parts, struct elf_defects *defects)
{
	static const struct {
		void (*check)(const struct elf_parts *parts, struct elf_defects *defects);
		enum elf_stage stage;
	} steps[] = {
		{ check_section_names, ELF_STAGE_FILE },
		{ check_info, ELF_STAGE_FILE },
		{ check_module_section, ELF_STAGE_FILE },
		{ check_symbol_tables, ELF_STAGE_FILE },
		{ check_extended_versions, ELF_STAGE_FILE },
		{ check_strings, ELF_STAGE_FILE },
		{ check_symbol_names, ELF_STAGE_FILE },
		{ check_versions, ELF_STAGE_FILE },
		{ check_machine_sections, ELF_STAGE_LAYOUT },
		{ check_counting, ELF_STAGE_LAYOUT },
		{ check_flags, ELF_STAGE_LAYOUT },
		{ check_layout, ELF_STAGE_LAYOUT },
		{ check_struct, ELF_STAGE_LAYOUT },
		{ check_percpu, ELF_STAGE_LAYOUT },
		{ check_exports, ELF_STAGE_LAYOUT },
		{ check_export_relocations, ELF_STAGE_LAYOUT },
		{ check_places, ELF_STAGE_SYMBOLS },
		{ check_relocation_sections, ELF_STAGE_RELOCATIONS },
		{ check_unwind_tables, ELF_STAGE_FINALIZE },
		{ check_machine_sections, ELF_STAGE_FINALIZE },
		{ check_shown_names, ELF_STAGE_SYSFS },
	};
	struct elf_parts seen;

	if (elf_parts_frob(parts, &seen) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		defects->stage = steps[i].stage;
		steps[i].check(steps[i].stage == ELF_STAGE_FILE ? parts : &seen, defects);
	}
	free(seen.copied);
	return defects->no_memory ? -ENOMEM : 0;
}
