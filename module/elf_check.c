/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel's checks of a module file's format, version by version, in the order in which the
 * kernel does them: Linux kernel/module/main.c, load_module() and what it calls. The checks that
 * all versions do, and without which nothing can be read, are in elf_file.c; relocations are at the
 * end of this file.
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

/* A kernel's version, as elf_module_check_format() has it. */
#define V(major, minor) ((major) << 8 | (minor))

/* module_enforce_rwx_sections(), of 5.7. */
#define SINCE_RWX V(5, 7)
/* struct kernel_symbol has a name space. */
#define SINCE_NAME_SPACES V(5, 4)
/* Sections are counted and struct module is measured since then (elf_validity_check()). */
#define SINCE_UNIQUE V(6, 4)
/* elf_validity_cache_secstrings() and the others, in place of one function. */
#define SINCE_SPLIT V(6, 12)
/* elf_validity_cache_strtab(). */
#define SINCE_STRTAB V(6, 13)
/* elf_validity_cache_index_versions(). */
#define SINCE_EXTENDED V(6, 14)
/*
 * check_export_symbol_sections(): one table of exports, with flags that tell the GPL-only ones; 7.2
 * has it, 6.12 not, and it is younger than 7.0.
 */
#define SINCE_FLAGS V(7, 2)

#define NOT_CHECKED "this kernel does not check it and would read what is not there"

#define SHF_RELA_LIVEPATCH 0x00100000 /* include/uapi/linux/elf.h */
#define SHN_LIVEPATCH      0xff20

/* MODULES_LEN of arch/x86/include/asm/pgtable_64_types.h with KASLR is 1008 MiB. */
#define MODULE_SPACE ((uint64_t) 1008 << 20)
/* PERCPU_MODULE_RESERVE of include/linux/percpu.h, and the largest alignment there. */
#define PERCPU_SPACE ((uint64_t) 8 << 10)
#define PAGE_SIZE_4K ((uint64_t) 4096)

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

/* Some versions mind it and others do not, and it is not known which one this kernel is. */
static int minds_maybe(const struct elf_defect *defect, struct error *error)
{
	char from[32] = "", before[32] = "";

	if (defect->from)
		(void) snprintf(from, sizeof(from), " from %u.%u on", defect->from >> 8,
			defect->from & 0xff);
	if (defect->before)
		(void) snprintf(before, sizeof(before), " before %u.%u", defect->before >> 8,
			defect->before & 0xff);
	return error_set(error, -EAGAIN, "%s (kernels%s%s)", defect->text, from, before);
}

int elf_defects_find(const struct elf_defects *defects, unsigned int version, enum elf_stage stage,
	uint32_t *symbol, struct error *error)
{
	const struct elf_defect *maybe = NULL;

	for (const struct elf_defect *defect = defects->first; defect; defect = defect->next) {
		bool hangs = !version && (defect->from || defect->before);

		if (defect->stage != stage || (symbol && defect->symbol < *symbol))
			continue;
		if (version &&
			(version < defect->from || (defect->before && version >= defect->before)))
			continue;
		/* Each of the symbols counts, in their order; else all versions' refusal first. */
		if (hangs && !symbol) {
			maybe = maybe ? maybe : defect;
			continue;
		}
		if (symbol)
			*symbol = defect->symbol;
		if (hangs)
			return minds_maybe(defect, error);
		if (version && version < defect->checked_from)
			return error_set(error, -EFAULT, "%s; " NOT_CHECKED, defect->text);
		return error_set(error, defect->code, "%s", defect->text);
	}
	return maybe ? minds_maybe(maybe, error) : 0;
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
			"%s at offset %llu, %llu bytes, goes beyond the file's %llu; " NOT_CHECKED,
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
				"names; " NOT_CHECKED,
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
			"its section .modinfo at offset %llu is empty; " NOT_CHECKED,
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
			"its extended symbol versions go beyond the file's %llu bytes; " NOT_CHECKED,
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

static void check_flags(const struct elf_parts *parts, struct elf_defects *defects)
{
	const uint64_t both = SHF_WRITE | SHF_EXECINSTR;

	for (unsigned int i = 0; i < parts->header.e_shnum; i++) {
		if ((parts->sections[i].sh_flags & both) != both)
			continue;
		mind(defects, SINCE_RWX, 0, -ENOEXEC, "section %u (%s) can be written and executed",
			i, shown_name(parts, i));
		mind(defects, 0, SINCE_RWX, -EFAULT,
			"section %u (%s) can be written and executed, which kernels before 5.7 "
			"refuse only where that check was brought back to them",
			i, shown_name(parts, i));
		return;
	}
}

/* layout_sections(): sizes are added up in 32 bits, alignments are taken for powers of two. */
static void check_layout(const struct elf_parts *parts, struct elf_defects *defects)
{
	uint64_t total = 0;

	for (unsigned int i = 0; i < parts->header.e_shnum; i++) {
		const Elf64_Shdr *section = &parts->sections[i];
		uint64_t align = section->sh_addralign ? section->sh_addralign : 1;

		if (!elf_section_is_loaded(parts, i) || i == parts->found[ELF_PERCPU].allocated)
			continue;
		if (section->sh_type == SHT_NULL && !elf_section_in_file(parts, section))
			mind(defects, 0, 0, -EFAULT,
				"section %u without a type, at offset %llu, %llu bytes, goes beyond "
				"the file's %llu; " NOT_CHECKED,
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
	if (total > MODULE_SPACE)
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

	if (parts->header.e_machine != EM_X86_64 ||
		elf_section_map(parts, index, &span, &ignored) < 0 ||
		span.size < STRUCT_NAME_OFFSET + STRUCT_NAME_SIZE)
		return;
	if (!memchr(span.data + STRUCT_NAME_OFFSET, '\0', STRUCT_NAME_SIZE)) {
		mind(defects, 0, 0, -EFAULT,
			"its name in struct module at offset %llu has no end; " NOT_CHECKED,
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

/* percpu_modalloc(), and pcpu_alloc() of mm/percpu.c. */
static void check_percpu(const struct elf_parts *parts, struct elf_defects *defects)
{
	unsigned int index = parts->found[ELF_PERCPU].allocated;
	const Elf64_Shdr *section = &parts->sections[index];
	uint64_t align = section->sh_addralign;

	if (!index || !section->sh_size)
		return;
	if (align > PAGE_SIZE_4K)
		align = PAGE_SIZE_4K;
	if (section->sh_size > PERCPU_SPACE || (align && align & (align - 1)))
		mind(defects, 0, 0, -E2BIG,
			"its section .data..percpu has %llu bytes and alignment %llu, more than "
			"modules can have",
			ull(section->sh_size), ull(section->sh_addralign));
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
				"%s has fewer entries than %s, which has %llu; " NOT_CHECKED,
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
		{ check_flags, ELF_STAGE_LAYOUT },
		{ check_layout, ELF_STAGE_LAYOUT },
		{ check_struct, ELF_STAGE_LAYOUT },
		{ check_percpu, ELF_STAGE_LAYOUT },
		{ check_exports, ELF_STAGE_LAYOUT },
		{ check_export_relocations, ELF_STAGE_LAYOUT },
		{ check_places, ELF_STAGE_SYMBOLS },
		{ check_relocation_sections, ELF_STAGE_RELOCATIONS },
		{ check_shown_names, ELF_STAGE_SYSFS },
	};

	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		defects->stage = steps[i].stage;
		steps[i].check(parts, defects);
	}
	return defects->no_memory ? -ENOMEM : 0;
}

/* ---- relocations */

/*
 * Relocations of a module for x86-64 are tried as Linux kernel/module/main.c (apply_relocations())
 * and arch/x86/kernel/module.c (apply_relocate_add()) apply them: of known types, onto zeros,
 * without overflow. No kernel checks that symbols exist and that places lie within their section:
 * -EFAULT.
 *
 * A kernel whose version is not known is taken for a new one here: the unknown version is a doubt
 * of its own, and every module that a compiler makes today has what only kernels before 4.19 object
 * to.
 */

/* .data..percpu is relocated before it is copied; 7.2 does it, 6.12 does not. */
#define SINCE_PERCPU V(7, 2)
/* R_X86_64_PC64 came with relative kernel symbols, of 4.19. */
#define SINCE_PC64 V(4, 19)
/* R_X86_64_PLT32 is taken as R_X86_64_PC32 (b21ebf2fb4cd), of 4.16. */
#define SINCE_PLT32 V(4, 16)
/* Places have to be zero (eda9cec4c9a1), of 4.15. */
#define SINCE_ZERO V(4, 15)

/* The range that modules are loaded into: MODULES_VADDR to MODULES_END, as distances from 2^64. */
#define MODULES_LOWEST  (-(int64_t) 0x80000000)
#define MODULES_HIGHEST (-(int64_t) 0x1000000)

/* No sum of offsets in a file comes near this. */
#define OFFSET_LIMIT ((int64_t) 1 << 48)

/* All of what is relocated: no kernel has room for more. */
#define TARGET_LIMIT ((uint64_t) 1 << 30)

/*
 * How many more relocations and bytes a file may ask for. Only a file whose sections share their
 * bytes asks for more.
 */
struct budget {
	uint64_t relocations;
	uint64_t bytes;     /* of sections that are relocated */
	struct error doubt; /* the first type that this kernel may not know; "" */
};

struct target {
	const struct elf_parts *parts;
	unsigned int relocations; /* section */
	unsigned int section;
	uint64_t size;
	const char *bytes;      /* or NULL: no bytes in the file, all zero */
	unsigned char *written; /* a bit for each byte */
	unsigned int version;
	struct budget *budget;
};

static size_t size_of_type(uint64_t type)
{
	switch (type) {
	case R_X86_64_64:
	case R_X86_64_PC64:
		return 8;
	case R_X86_64_32:
	case R_X86_64_32S:
	case R_X86_64_PC32:
	case R_X86_64_PLT32:
		return 4;
	default:
		return 0;
	}
}

enum fit { FITS, FITS_NEVER, FITS_SOMETIMES };

/* Does every value, none or some of them fit into 32 bits? */
static enum fit fit_value(
	const struct elf_parts *parts, const Elf64_Rela *relocation, const Elf64_Sym *symbol)
{
	uint64_t type = ELF64_R_TYPE(relocation->r_info);
	int64_t sum = (int64_t) (symbol->st_value + (uint64_t) relocation->r_addend);
	int64_t least = type == R_X86_64_32 ? 0 : INT32_MIN;
	int64_t most = type == R_X86_64_32 ? (int64_t) UINT32_MAX : INT32_MAX;
	int64_t low = sum, high = sum;

	if (type != R_X86_64_32 && type != R_X86_64_32S)
		return FITS;
	if (symbol->st_shndx != SHN_ABS) {
		if (sum > OFFSET_LIMIT || sum < -OFFSET_LIMIT)
			return FITS_NEVER;
		/*
		 * The kernel's symbols lie lower, those of CPUs may lie at 0: the addend alone is
		 * judged.
		 */
		if (symbol->st_shndx == SHN_UNDEF || symbol->st_shndx >= parts->header.e_shnum ||
			symbol->st_shndx == parts->found[ELF_PERCPU].allocated)
			return FITS;
		/* A section that is not loaded is far away, in the kernel's copy of the file. */
		if (!elf_section_is_loaded(parts, symbol->st_shndx) &&
			symbol->st_shndx != parts->symtab && symbol->st_shndx != parts->strtab)
			return FITS_NEVER;
		low += MODULES_LOWEST;
		high += MODULES_HIGHEST;
	}
	if (low >= least && high <= most)
		return FITS;
	return high < least || low > most ? FITS_NEVER : FITS_SOMETIMES;
}

/* The bits for up to 8 bytes; they reach into two bytes of target.written. */
static unsigned int bits_of(uint64_t offset, size_t size)
{
	return ((1u << size) - 1) << offset % 8;
}

static bool is_zero(const struct target *target, uint64_t offset, size_t size)
{
	static const char zeros[8];
	unsigned int bits = bits_of(offset, size);

	return (!target->bytes || memcmp(target->bytes + offset, zeros, size) == 0) &&
	       !(target->written[offset / 8] & bits) &&
	       !(target->written[offset / 8 + 1] & bits >> 8);
}

/* The offset of a relocation in the file, for messages. */
static unsigned long long place_of(const struct target *target, size_t index)
{
	return target->parts->sections[target->relocations].sh_offset + index * sizeof(Elf64_Rela);
}

/* The kernel reads the symbol whatever the type. */
static int check_index(const struct target *target, size_t index, const Elf64_Rela *relocation,
	struct error *error)
{
	if (ELF64_R_SYM(relocation->r_info) < target->parts->symbol_count)
		return 0;
	return error_set(error, -EFAULT,
		"the relocation at offset %llu is of symbol %llu, of %zu; this kernel does "
		"not check it and would read what is not there",
		place_of(target, index), ull(ELF64_R_SYM(relocation->r_info)),
		target->parts->symbol_count);
}

static int check_value(const struct target *target, size_t index, const Elf64_Rela *relocation,
	struct error *error)
{
	uint64_t type = ELF64_R_TYPE(relocation->r_info);
	Elf64_Sym symbol;
	int r = check_index(target, index, relocation, error);

	if (r < 0)
		return r;
	elf_symbol_at(target->parts, ELF64_R_SYM(relocation->r_info), &symbol);
	switch (fit_value(target->parts, relocation, &symbol)) {
	case FITS_NEVER:
		return error_set(error, -ENOEXEC,
			"the relocation at offset %llu, of type %llu, has a value that is too "
			"large for it",
			place_of(target, index), ull(type));
	case FITS_SOMETIMES:
		return error_set(error, -EFAULT,
			"the relocation at offset %llu, of type %llu, has a value that may be too "
			"large for it: it depends on where the kernel puts the module",
			place_of(target, index), ull(type));
	default:
		return 0;
	}
}

static int check_relocation(const struct target *target, size_t index, const Elf64_Rela *relocation,
	struct error *error)
{
	uint64_t type = ELF64_R_TYPE(relocation->r_info);
	uint64_t offset = relocation->r_offset;
	unsigned int since = type == R_X86_64_PLT32  ? SINCE_PLT32
			     : type == R_X86_64_PC64 ? SINCE_PC64
						     : 0;
	size_t size = size_of_type(type);
	int r;

	if (type == R_X86_64_NONE)
		return check_index(target, index, relocation, error);
	if (!size)
		return error_set(error, -ENOEXEC,
			"the relocation at offset %llu is of type %llu, which the kernel does not "
			"know",
			place_of(target, index), ull(type));
	if (offset > target->size || size > target->size - offset)
		return error_set(error, -EFAULT,
			"the relocation at offset %llu is for place %llu of section %u, which has "
			"%llu bytes; this kernel does not check it and would write elsewhere",
			place_of(target, index), ull(offset), target->section, ull(target->size));
	if (target->version < since && !*target->budget->doubt.text)
		(void) error_set(&target->budget->doubt, -EAGAIN,
			"the relocation at offset %llu is of type %llu, which Linux takes since "
			"%u.%u, and an older kernel only where its distribution backported that",
			place_of(target, index), ull(type), since >> 8, since & 0xff);
	r = check_value(target, index, relocation, error);
	if (r < 0)
		return r;
	if (!is_zero(target, offset, size))
		return error_set(error, target->version < SINCE_ZERO ? -EFAULT : -ENOEXEC,
			"the relocation at offset %llu is for place %llu of section %u, which is "
			"not zero",
			place_of(target, index), ull(offset), target->section);
	target->written[offset / 8] |= (unsigned char) bits_of(offset, size);
	target->written[offset / 8 + 1] |= (unsigned char) (bits_of(offset, size) >> 8);
	return 0;
}

static int check_relocated(struct target *target, struct error *error)
{
	_cleanup_free_ unsigned char *written = NULL;
	const Elf64_Shdr *section = &target->parts->sections[target->section];
	struct budget *budget = target->budget;
	struct elf_span relocations, bytes;
	size_t count;
	int r = elf_section_map(target->parts, target->relocations, &relocations, error);

	if (r < 0)
		return r;
	r = elf_section_map(target->parts, target->section, &bytes, error);
	if (r < 0)
		return r;
	target->size = section->sh_size;
	count = relocations.size / sizeof(Elf64_Rela);
	if (target->size > TARGET_LIMIT || !count)
		return 0;
	/* Linkers give each section one of relocations; a thousand for one would take minutes. */
	if (count > budget->relocations || target->size > budget->bytes)
		return error_set(error, -EFAULT,
			"its relocations at offset %llu lie upon others or relocate what others "
			"do: they are not looked at",
			place_of(target, 0));
	budget->relocations -= count;
	budget->bytes -= target->size;
	if (section->sh_type != SHT_NOBITS)
		target->bytes = bytes.size == target->size ? bytes.data : NULL;
	written = calloc(target->size / 8 + 2, 1);
	if (!written)
		return error_set_errno(error, -ENOMEM, "%llu bytes of section %u",
			ull(target->size), target->section);
	target->written = written;
	for (size_t i = 0; i < count; i++) {
		Elf64_Rela relocation;

		memcpy(&relocation, relocations.data + i * sizeof(relocation), sizeof(relocation));
		r = check_relocation(target, i, &relocation, error);
		if (r < 0)
			return r;
	}
	return 0;
}

/* Whether apply_relocations() skips it. */
static bool is_skipped(const struct elf_parts *parts, unsigned int section, unsigned int version)
{
	const Elf64_Shdr *header = &parts->sections[section];

	if (header->sh_type != SHT_RELA || header->sh_flags & SHF_RELA_LIVEPATCH ||
		header->sh_info >= parts->header.e_shnum)
		return true;
	if (header->sh_info == parts->found[ELF_PERCPU].allocated)
		return !header->sh_info || version < SINCE_PERCPU;
	return !elf_section_is_loaded(parts, header->sh_info);
}

int elf_relocations_check(const struct elf_parts *parts, unsigned int known, struct error *error)
{
	unsigned int version = known ? known : UINT_MAX;
	struct budget budget = { parts->size / sizeof(Elf64_Rela), TARGET_LIMIT, { "", "" } };

	if (parts->header.e_machine != EM_X86_64)
		return 0;
	for (unsigned int i = 1; i < parts->header.e_shnum; i++) {
		struct target target = { .parts = parts,
			.relocations = i,
			.section = parts->sections[i].sh_info,
			.version = version,
			.budget = &budget };
		int r;

		if (is_skipped(parts, i, version))
			continue;
		r = check_relocated(&target, error);
		if (r < 0)
			return r;
	}
	/* Nothing worse was found. */
	return *budget.doubt.text ? error_set(error, -EAGAIN, "%s", budget.doubt.text) : 0;
}
