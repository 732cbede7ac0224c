/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a module exports. Source: struct kernel_symbol of Linux include/linux/export-internal.h and
 * kernel/module/internal.h: three 32-bit numbers, each the distance from itself to the symbol, its
 * name and its name space. They are made by relocations, which say what they point to. The CRCs are
 * in a table of the same order: numbers, before 5.19 made by relocations against __crc_ symbols.
 * Until 7.1 GPL-only symbols have a table of their own; later a table of flags tells them.
 */
#include <string.h>

#include "module/elf_parts.h"

#define ENTRY_SIZE       12
#define NAME_FIELD       4
#define NAME_SPACE_FIELD 8
#define CRC_SIZE         4
#define FLAG_GPL_ONLY    1 /* KSYM_FLAG_GPL_ONLY of include/linux/module_symbol.h */

/* One table of exports, and the part of the list that it fills. */
struct table {
	unsigned int entries; /* sections; 0: none */
	unsigned int crcs;
	unsigned int flags;
	bool gpl;
	struct elf_module_export *items;
	size_t count;
};

typedef void relocated(const struct elf_parts *parts, const struct table *table,
	const Elf64_Rela *relocation, const Elf64_Sym *symbol);

/* The string that symbol and addend point to, or NULL. */
static const char *pointed_string(
	const struct elf_parts *parts, const Elf64_Sym *symbol, const Elf64_Rela *relocation)
{
	uint64_t offset = symbol->st_value + (uint64_t) relocation->r_addend;
	struct elf_span span;
	struct error ignored;

	if (symbol->st_shndx == SHN_UNDEF || symbol->st_shndx >= parts->header.e_shnum ||
		parts->sections[symbol->st_shndx].sh_type == SHT_NOBITS)
		return NULL;
	if (elf_section_map(parts, symbol->st_shndx, &span, &ignored) < 0 || offset >= span.size)
		return NULL;
	return memchr(span.data + offset, '\0', span.size - offset) ? span.data + offset : NULL;
}

static void note_string(const struct elf_parts *parts, const struct table *table,
	const Elf64_Rela *relocation, const Elf64_Sym *symbol)
{
	uint64_t entry = relocation->r_offset / ENTRY_SIZE;
	uint64_t field = relocation->r_offset % ENTRY_SIZE;
	const char *text;

	if (entry >= table->count || (field != NAME_FIELD && field != NAME_SPACE_FIELD))
		return;
	text = pointed_string(parts, symbol, relocation);
	if (field == NAME_FIELD)
		table->items[entry].symbol = text;
	else if (text)
		table->items[entry].name_space = text;
}

static void note_crc(const struct elf_parts *parts, const struct table *table,
	const Elf64_Rela *relocation, const Elf64_Sym *symbol)
{
	uint64_t entry = relocation->r_offset / CRC_SIZE;

	(void) parts;
	if (entry < table->count && symbol->st_shndx == SHN_ABS)
		table->items[entry].crc =
			(uint32_t) (symbol->st_value + (uint64_t) relocation->r_addend);
}

static int relocate_by(const struct elf_parts *parts, const struct table *table,
	unsigned int section, relocated *note, struct error *error)
{
	struct elf_span span;
	int r = elf_section_map(parts, section, &span, error);

	for (size_t i = 0; r == 0 && i < span.size / sizeof(Elf64_Rela); i++) {
		Elf64_Rela relocation;
		Elf64_Sym symbol;

		memcpy(&relocation, span.data + i * sizeof(relocation), sizeof(relocation));
		if (ELF64_R_SYM(relocation.r_info) >= parts->symbol_count)
			continue;
		elf_symbol_at(parts, ELF64_R_SYM(relocation.r_info), &symbol);
		note(parts, table, &relocation, &symbol);
	}
	return r;
}

/* Calls @note for each relocation of section @target. */
static int relocate(const struct elf_parts *parts, const struct table *table, unsigned int target,
	relocated *note, struct error *error)
{
	int r = 0;

	for (unsigned int i = 1; r == 0 && i < parts->header.e_shnum; i++)
		if (parts->sections[i].sh_type == SHT_RELA && parts->sections[i].sh_info == target)
			r = relocate_by(parts, table, i, note, error);
	return r;
}

static int read_crcs(const struct elf_parts *parts, const struct table *table, struct error *error)
{
	struct elf_span span;
	int r;

	if (!table->crcs)
		return 0;
	r = elf_section_map(parts, table->crcs, &span, error);
	if (r < 0)
		return r;
	for (size_t i = 0; i < table->count && i < span.size / CRC_SIZE; i++) {
		memcpy(&table->items[i].crc, span.data + i * CRC_SIZE, CRC_SIZE);
		table->items[i].has_crc = true;
	}
	return relocate(parts, table, table->crcs, note_crc, error);
}

static int read_flags(const struct elf_parts *parts, const struct table *table, struct error *error)
{
	struct elf_span span;
	int r;

	if (!table->flags)
		return 0;
	r = elf_section_map(parts, table->flags, &span, error);
	for (size_t i = 0; r == 0 && i < table->count && i < span.size; i++)
		table->items[i].gpl = span.data[i] & FLAG_GPL_ONLY;
	return r;
}

static int read_table(const struct elf_parts *parts, const struct table *table, struct error *error)
{
	int r;

	for (size_t i = 0; i < table->count; i++)
		table->items[i] = (struct elf_module_export){ .name_space = "", .gpl = table->gpl };
	if (!table->count)
		return 0;
	r = relocate(parts, table, table->entries, note_string, error);
	if (r == 0)
		r = read_crcs(parts, table, error);
	if (r == 0)
		r = read_flags(parts, table, error);
	return r;
}

static int compare_exports(const void *a, const void *b)
{
	const struct elf_module_export *left = a;
	const struct elf_module_export *right = b;

	return strcmp(left->symbol, right->symbol);
}

/* Drops the ones without a name, copies the strings of the others, and sorts. */
static int keep(struct elf_module_export *items, size_t *count, char **ret_strings)
{
	size_t kept = 0, size = 1;
	char *next;

	for (size_t i = 0; i < *count; i++) {
		if (!items[i].symbol)
			continue;
		size += strlen(items[i].symbol) + strlen(items[i].name_space) + 2;
		items[kept++] = items[i];
	}
	next = malloc(size);
	if (!next)
		return -ENOMEM;
	*ret_strings = next;
	for (size_t i = 0; i < kept; i++) {
		const char *symbol = items[i].symbol;
		const char *name_space = items[i].name_space;

		items[i].symbol = next;
		next = stpcpy(next, symbol) + 1;
		items[i].name_space = next;
		next = stpcpy(next, name_space) + 1;
	}
	qsort(items, kept, sizeof(*items), compare_exports);
	*count = kept;
	return 0;
}

static size_t entry_count(const struct elf_parts *parts, unsigned int section)
{
	const Elf64_Shdr *header = &parts->sections[section];

	return section && elf_section_in_file(parts, header) ? header->sh_size / ENTRY_SIZE : 0;
}

int elf_exports_read(const struct elf_parts *parts, struct elf_module_export **ret,
	size_t *ret_count, char **ret_strings, struct error *error)
{
	const struct elf_found *found = parts->found;
	struct table plain = { found[ELF_KSYMTAB].allocated, found[ELF_KCRCTAB].allocated,
		found[ELF_KFLAGSTAB].allocated, false, NULL, 0 };
	struct table gpl = { found[ELF_KSYMTAB_GPL].allocated, found[ELF_KCRCTAB_GPL].allocated, 0,
		true, NULL, 0 };
	size_t count;
	int r;

	plain.count = entry_count(parts, plain.entries);
	gpl.count = entry_count(parts, gpl.entries);
	count = plain.count + gpl.count;
	*ret = NULL;
	*ret_count = 0;
	*ret_strings = NULL;
	if (!count)
		return 0;
	*ret = calloc(count, sizeof(**ret));
	if (!*ret)
		return error_set_errno(error, -ENOMEM, "%zu exports", count);
	plain.items = *ret;
	gpl.items = *ret + plain.count;
	r = read_table(parts, &plain, error);
	if (r == 0)
		r = read_table(parts, &gpl, error);
	if (r < 0)
		return r;
	if (keep(*ret, &count, ret_strings) < 0)
		return error_set_errno(error, -ENOMEM, "%zu exports", count);
	*ret_count = count;
	return 0;
}
