/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the kernel demands of a module file as such, version by version, in the order in which it
 * looks: Linux kernel/module/main.c, load_module() and what it calls. What all versions demand and
 * nothing can be read without is in elf_sections.c, what comes behind check_modinfo() is in
 * elf_layout.c, relocations are in elf_relocations.c.
 *
 * Facts are of the sources of 6.1, 6.12, 7.2 and 7.3. Where a rule came in between two of them, it
 * is taken to hold from the release that its history names, as said at each; else from the later.
 *
 * Some things no kernel checks, and would read what is not there: those are noted as -EFAULT.
 */
#include "module/elf_examination.h"

static int examine_name(struct examination *test, unsigned int index)
{
	const struct elf_parts *parts = test->parts;
	const Elf64_Shdr *section = &parts->sections[index];
	uint64_t names = parts->sections[parts->header.e_shstrndx].sh_offset;
	bool in_file = section->sh_name < parts->size - names;
	bool has_bytes = section->sh_type != SHT_NULL && section->sh_type != SHT_NOBITS;
	int r = 0;

	if (section->sh_name < parts->names_size)
		return 0;
	if (has_bytes && section->sh_flags & SHF_ALLOC)
		return elf_defect_add(test->defects, 0, 0, -ENOEXEC,
			"the name of section %u is at %u of %llu bytes of names", index,
			section->sh_name, ull(parts->names_size));
	if (section->sh_type != SHT_NULL)
		r = elf_defect_add(test->defects, SINCE_SPLIT, 0, -ENOEXEC,
			"the name of section %u is at %u of %llu bytes of names", index,
			section->sh_name, ull(parts->names_size));
	if (r < 0 || in_file)
		return r;
	return elf_defect_add(test->defects, 0, section->sh_type == SHT_NULL ? 0 : SINCE_SPLIT,
		-EFAULT, "the name of section %u is at %u of %llu bytes of names; " NOT_CHECKED,
		index, section->sh_name, ull(parts->names_size));
}

static int examine_names(struct examination *test)
{
	const struct elf_parts *parts = test->parts;
	const Elf64_Shdr *names = &parts->sections[parts->header.e_shstrndx];
	int r = 0;

	if (names->sh_type != SHT_STRTAB)
		r = elf_defect_add(test->defects, SINCE_SPLIT, 0, -ENOEXEC,
			"the names of sections are in section %u, which has type %u and is no "
			"string table",
			parts->header.e_shstrndx, names->sh_type);
	if (parts->section_facts.largest_name < parts->names_size)
		return r;
	for (unsigned int i = 0; r == 0 && i < parts->header.e_shnum; i++)
		r = examine_name(test, i);
	return r;
}

static int examine_info(struct examination *test)
{
	const struct elf_parts *parts = test->parts;
	const struct elf_found *found = &parts->found[ELF_MODINFO];
	const Elf64_Shdr *section = &parts->sections[found->any];
	int r = 0;

	if (found->count > 1)
		r = elf_defect_add(test->defects, SINCE_UNIQUE, 0, -ENOEXEC,
			"it has %u sections .modinfo where the kernel wants one", found->count);
	if (r == 0 && found->any && !section->sh_size)
		r = elf_defect_add(test->defects, 0, 0, -EFAULT,
			"its section .modinfo at offset %llu is empty; " NOT_CHECKED,
			ull(section->sh_offset));
	if (r == 0 && found->any && !elf_section_in_file(parts, section))
		r = elf_defect_add(test->defects, 0, 0, -EFAULT,
			"its section .modinfo at offset %llu, %llu bytes, goes beyond the file's "
			"%llu; " NOT_CHECKED,
			ull(section->sh_offset), ull(section->sh_size), ull(parts->size));
	return r;
}

static int examine_module_section(struct examination *test)
{
	const struct elf_parts *parts = test->parts;
	const struct elf_found *found = &parts->found[ELF_THIS_MODULE];
	bool no_bytes = found->any && parts->sections[found->any].sh_type == SHT_NOBITS;
	int r = 0;

	if (found->count != 1)
		r = elf_defect_add(test->defects, SINCE_UNIQUE, 0, -ENOEXEC,
			"it has %u sections .gnu.linkonce.this_module where the kernel wants one",
			found->count);
	if (r == 0 && !found->allocated)
		r = elf_defect_add(test->defects, 0, 0, -ENOEXEC,
			"it has no section .gnu.linkonce.this_module that takes memory");
	if (r == 0 && no_bytes)
		r = elf_defect_add(test->defects, SINCE_UNIQUE, 0, -ENOEXEC,
			"its section .gnu.linkonce.this_module has no bytes in the file");
	if (r == 0 && no_bytes)
		r = elf_defect_add(test->defects, 0, SINCE_UNIQUE, -EFAULT,
			"its section .gnu.linkonce.this_module has no bytes in the file; " NOT_CHECKED);
	return r;
}

static int examine_symbol_tables(struct examination *test)
{
	const struct elf_parts *parts = test->parts;
	const Elf64_Shdr *strings = &parts->sections[parts->strtab];
	int r = 0;

	if (parts->symtab_count != 1)
		r = elf_defect_add(test->defects, SINCE_UNIQUE, 0, -ENOEXEC,
			"it has %u symbol tables where the kernel wants one", parts->symtab_count);
	for (unsigned int i = parts->symtab + 1; r == 0 && i < parts->header.e_shnum; i++)
		if (parts->sections[i].sh_type == SHT_SYMTAB &&
			(parts->sections[i].sh_link == SHN_UNDEF ||
				parts->sections[i].sh_link >= parts->header.e_shnum))
			r = elf_defect_add(test->defects, 0, SINCE_SPLIT, -ENOEXEC,
				"the names of symbols of section %u are in section %u, of %u", i,
				parts->sections[i].sh_link, parts->header.e_shnum);
	if (r == 0 && strings->sh_type != SHT_STRTAB)
		r = elf_defect_add(test->defects, SINCE_SPLIT, 0, -ENOEXEC,
			"the names of symbols are in section %u, which has type %u and is no "
			"string table",
			parts->strtab, strings->sh_type);
	if (r == 0 && !elf_section_in_file(parts, strings))
		r = elf_defect_add(test->defects, 0, SINCE_SPLIT, -EFAULT,
			"the names of symbols at offset %llu, %llu bytes, go beyond the file's "
			"%llu; " NOT_CHECKED,
			ull(strings->sh_offset), ull(strings->sh_size), ull(parts->size));
	return r;
}

/* Whether there are as many names as CRCs, which are counted in whole ones. */
static bool has_enough_names(const struct elf_span *crcs, const struct elf_span *names)
{
	const char *next = names->data;
	size_t left = names->size;

	for (size_t i = 0; i < crcs->size / CRC_SIZE; i++) {
		size_t used = strnlen(next, left) + 1;

		if (used > left)
			return false;
		next += used;
		left -= used;
	}
	return true;
}

static int examine_extended(struct examination *test)
{
	const struct elf_parts *parts = test->parts;
	unsigned int crcs_index = parts->found[ELF_VERSION_CRCS].allocated;
	unsigned int names_index = parts->found[ELF_VERSION_NAMES].allocated;
	struct elf_span crcs, names;
	struct error ignored;

	if (!crcs_index && !names_index)
		return 0;
	if (!crcs_index || !names_index)
		return elf_defect_add(test->defects, SINCE_EXTENDED, 0, -ENOEXEC,
			"it has only one of the sections __version_ext_crcs and "
			"__version_ext_names");
	if (!elf_section_in_file(parts, &parts->sections[crcs_index]) ||
		!elf_section_in_file(parts, &parts->sections[names_index]))
		return elf_defect_add(test->defects, SINCE_EXTENDED, 0, -EFAULT,
			"its extended symbol versions go beyond the file's %llu bytes; " NOT_CHECKED,
			ull(parts->size));
	if (elf_section_map(parts, crcs_index, &crcs, &ignored) < 0 ||
		elf_section_map(parts, names_index, &names, &ignored) < 0 ||
		has_enough_names(&crcs, &names))
		return 0;
	return elf_defect_add(test->defects, SINCE_EXTENDED, 0, -ENOEXEC,
		"it has %zu extended symbol versions but fewer names at offset %llu, %zu bytes",
		crcs.size / CRC_SIZE, ull(parts->sections[names_index].sh_offset), names.size);
}

static int examine_versions(struct examination *test)
{
	const struct elf_parts *parts = test->parts;
	unsigned int index = parts->found[ELF_VERSIONS].allocated;
	const Elf64_Shdr *section = &parts->sections[index];

	if (!index || elf_section_in_file(parts, section))
		return 0;
	return elf_defect_add(test->defects, 0, 0, -EFAULT,
		"its symbol versions at offset %llu, %llu bytes, go beyond the file's %llu; " NOT_CHECKED,
		ull(section->sh_offset), ull(section->sh_size), ull(parts->size));
}

static int examine_strings(struct examination *test)
{
	const struct elf_parts *parts = test->parts;
	uint64_t offset = parts->sections[parts->strtab].sh_offset;
	const char *wrong = NULL;
	int r = 0;

	if (!parts->strings_size)
		wrong = "is empty";
	else if (parts->strings[0])
		wrong = "does not begin with a NUL";
	else if (parts->strings[parts->strings_size - 1])
		wrong = "does not end with a NUL";
	if (!wrong)
		return 0;
	r = elf_defect_add(test->defects, SINCE_STRTAB, 0, -ENOEXEC,
		"the table of symbols' names at offset %llu %s", ull(offset), wrong);
	if (r < 0 || (parts->strings_size && !parts->strings[parts->strings_size - 1]))
		return r;
	return elf_defect_add(test->defects, 0, SINCE_STRTAB, -EFAULT,
		"the table of symbols' names at offset %llu %s; " NOT_CHECKED, ull(offset), wrong);
}

static int examine_symbol_name(struct examination *test, size_t index, uint32_t name)
{
	const struct elf_parts *parts = test->parts;
	int r = elf_defect_add(test->defects, SINCE_STRTAB, 0, -ENOEXEC,
		"the name of symbol %zu is at %u of %llu bytes of names", index, name,
		ull(parts->strings_size));

	if (r < 0)
		return r;
	return elf_defect_add(test->defects, 0, SINCE_STRTAB, -EFAULT,
		"the name of symbol %zu is at %u of %llu bytes of names; " NOT_CHECKED, index, name,
		ull(parts->strings_size));
}

static int examine_symbols(struct examination *test)
{
	const struct elf_parts *parts = test->parts;
	Elf64_Sym symbol;
	int r = 0;

	if (!parts->strings_size || parts->symbol_facts.largest_name < parts->strings_size)
		return 0;
	for (size_t i = 0; r == 0 && i < parts->symbol_count; i++) {
		elf_symbol_at(parts, i, &symbol);
		if (symbol.st_name >= parts->strings_size)
			r = examine_symbol_name(test, i, symbol.st_name);
	}
	return r;
}

int elf_format_examine(const struct elf_parts *parts, struct elf_defects *defects)
{
	static int (*const steps[])(struct examination * test) = {
		examine_names,
		examine_info,
		examine_module_section,
		examine_symbol_tables,
		examine_extended,
		examine_strings,
		examine_symbols,
		examine_versions,
	};
	struct examination test = { parts, defects };

	defects->stage = ELF_STAGE_FILE;
	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		int r = steps[i](&test);

		if (r < 0)
			return r;
	}
	return elf_layout_examine(&test);
}
