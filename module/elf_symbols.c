/* SPDX-License-Identifier: Apache-2.0 */
#include "module/elf_internal.h"

#include <string.h>

#include "common/hash.h"

#define BASIC_RECORD_SIZE 64 /* sizeof(struct modversion_info) */
#define BASIC_NAME_OFFSET 8  /* sizeof(unsigned long) */
#define BASIC_NAME_SIZE   (BASIC_RECORD_SIZE - BASIC_NAME_OFFSET)
#define EXT_CRC_SIZE      4

static uint32_t read_u32(const char *bytes)
{
	const unsigned char *b = (const unsigned char *) bytes;

	return (uint32_t) b[0] | (uint32_t) b[1] << 8 | (uint32_t) b[2] << 16 |
	       (uint32_t) b[3] << 24;
}

/* For at most @count records, whose names take @size bytes. */
static int allocate_versions(struct elf_versions *versions, size_t count, size_t size,
	struct arena *memory, char **ret_names)
{
	*versions = (struct elf_versions){ .items = arena_alloc(
						   memory, count * sizeof(*versions->items)) };
	*ret_names = arena_alloc(memory, size);
	if (!versions->items || !*ret_names)
		return -ENOMEM;
	return name_table_reserve(&versions->index, count);
}

/* Adds a record, unless there is one of that name. */
static void add_version(
	struct elf_versions *versions, const char *name, size_t length, uint32_t crc, bool wide)
{
	uint32_t place = (uint32_t) versions->count;

	if (*name_table_put_hashed(&versions->index, name, name_hash_sized(name, length), place) ==
		place)
		versions->items[versions->count++] = (struct elf_symbol_version){ name, crc, wide };
}

/* A name that has no end in its record runs on into the next one's CRC: no symbol is called that.
 */
int elf_versions_read_basic(
	struct elf_versions *versions, const struct elf_span *basic, struct arena *memory)
{
	size_t count = basic->size / BASIC_RECORD_SIZE, size = 0;
	char *next;

	for (size_t i = 0; i < count; i++)
		size += strnlen(basic->data + i * BASIC_RECORD_SIZE + BASIC_NAME_OFFSET,
				BASIC_NAME_SIZE) +
			1;
	if (allocate_versions(versions, count, size, memory, &next) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		const char *record = basic->data + i * BASIC_RECORD_SIZE;
		const char *name = record + BASIC_NAME_OFFSET;
		size_t length = strnlen(name, BASIC_NAME_SIZE);

		if (length == BASIC_NAME_SIZE)
			continue;
		add_version(versions, memcpy(next, name, length + 1), length, read_u32(record),
			read_u32(record + 4) != 0);
		next += length + 1;
	}
	return 0;
}

int elf_versions_read_extended(struct elf_versions *versions, const struct elf_span *crcs,
	const struct elf_span *names, struct arena *memory)
{
	size_t count = crcs->size / EXT_CRC_SIZE;
	size_t offset = 0;
	char *copy;

	if (count > names->size)
		count = names->size; /* of which each takes a byte at least */
	if (allocate_versions(versions, count, names->size + 1, memory, &copy) < 0)
		return -ENOMEM;
	memcpy(copy, names->data, names->size);
	copy[names->size] = '\0'; /* the last name may have no end */
	for (size_t i = 0; i < count && offset < names->size; i++) {
		size_t length = strlen(copy + offset);

		add_version(versions, copy + offset, length,
			read_u32(crcs->data + i * EXT_CRC_SIZE), false);
		offset += length + 1;
	}
	return 0;
}

const struct elf_symbol_version *elf_versions_find(
	const struct elf_versions *versions, const char *symbol, uint32_t hash)
{
	uint32_t place;

	if (versions->index.slots) {
		place = name_table_find_hashed(&versions->index, symbol, hash);
		return place == NAME_NONE ? NULL : &versions->items[place];
	}
	for (size_t i = 0; i < versions->count; i++)
		if (strcmp(versions->items[i].name, symbol) == 0)
			return &versions->items[i];
	return NULL;
}

/*
 * The symbols that a module needs of others: those that simplify_symbols() of Linux
 * kernel/module/main.c resolves. It resolves local ones too, should a file have undefined ones.
 */

/*
 * All names together, with what they share: many symbols may be named by one string of a megabyte,
 * which would be copied for each.
 */
#define NAMES_LIMIT ((size_t) 64 * 1024 * 1024)

static size_t count_undefined(const struct elf_parts *parts)
{
	size_t count = 0;
	Elf64_Sym symbol;

	/* The first of all is none. */
	for (size_t i = 1; i < parts->symbol_count; i++) {
		elf_symbol_at(parts, i, &symbol);
		count += symbol.st_shndx == SHN_UNDEF;
	}
	return count;
}

int elf_undefined_read(const struct elf_parts *parts, const struct elf_versions *versions,
	struct arena *memory, struct elf_undefined **ret, size_t *ret_count)
{
	size_t count = count_undefined(parts), size = 0, unversioned = 0;
	struct elf_undefined *items = arena_alloc(memory, count * sizeof(*items));
	struct elf_undefined *item = items;
	Elf64_Sym symbol;
	char *next;

	if (!items)
		return -ENOMEM;
	for (uint32_t i = 1; item < items + count; i++) {
		size_t length;

		elf_symbol_at(parts, i, &symbol);
		if (symbol.st_shndx != SHN_UNDEF)
			continue;
		*item = (struct elf_undefined){ .name = elf_symbol_name(parts, &symbol),
			.index = i & 0x7fffffff,
			.weak = ELF64_ST_BIND(symbol.st_info) == STB_WEAK };
		length = strlen(item->name);
		size += length + 1;
		if (size > NAMES_LIMIT)
			return -ENOMEM;
		item->hash = name_hash_sized(item->name, length);
		item->version = elf_versions_find(versions, item->name, item->hash);
		if (item->version)
			item->name = item->version->name;
		else
			unversioned += length + 1;
		item++;
	}
	next = arena_alloc(memory, unversioned);
	if (!next)
		return -ENOMEM;
	for (item = items; item < items + count; item++)
		if (!item->version) {
			const char *name = item->name;

			item->name = next;
			next = stpcpy(next, name) + 1;
		}
	*ret = items;
	*ret_count = count;
	return 0;
}

/*
 * The symbols that a module exports. Source: struct kernel_symbol of Linux include/linux/export.h,
 * later include/linux/export-internal.h and kernel/module/internal.h: the symbol, its name and,
 * since 5.4, its name space. Each field is a 64-bit address before 4.19 and on machines without
 * HAVE_ARCH_PREL32_RELOCATIONS, else a 32-bit distance from the field itself. Relocations fill in
 * the fields; they tell what a field points to, and so which form the table has. Distributions
 * backport forms to older releases.
 *
 * The CRCs are in a table of the same order: unsigned long before 4.10, 32 bits later. They are
 * numbers; before 5.19 relocations made them, against __crc_ symbols, which are absolute or
 * (CONFIG_MODULE_REL_CRCS) mark the place of the number.
 *
 * GPL-only symbols have a table of their own before SINCE_FLAGS; later a table of flags tells them.
 */

#define FLAG_GPL_ONLY 1   /* KSYM_FLAG_GPL_ONLY of include/linux/module_symbol.h */
#define NAME_LIMIT    512 /* KSYM_NAME_LEN of include/linux/kallsyms.h, with the NUL */
#define STRINGS       "__ksymtab_strings"

/* One table of exports, and the part of the list that it fills. */
struct table {
	unsigned int entries; /* sections; 0: none */
	unsigned int crcs;
	unsigned int flags;
	bool gpl;
	size_t field_size; /* 4 or 8 bytes */
	size_t entry_size; /* two of them, or three */
	size_t crc_size;
	struct elf_module_export *items;
	size_t count;
};

/* Signs of a table's form, counted in its relocations. */
struct signs {
	size_t odd; /* at no multiple of 8 bytes */
	size_t count;
	size_t misfits[4]; /* for entries of so many fields, of 4 and, plus 2, of 8 bytes */
};

typedef void relocated(const struct elf_parts *parts, void *context, const Elf64_Rela *relocation,
	const Elf64_Sym *symbol);

/* The string that symbol and addend point to, or NULL. */
static const char *pointed_string(
	const struct elf_parts *parts, const Elf64_Sym *symbol, const Elf64_Rela *relocation)
{
	uint64_t offset = symbol->st_value + (uint64_t) relocation->r_addend;
	struct elf_span span;
	struct error ignored;
	size_t left;

	if (symbol->st_shndx == SHN_UNDEF || symbol->st_shndx >= parts->header.e_shnum ||
		parts->sections[symbol->st_shndx].sh_type == SHT_NOBITS ||
		elf_section_map(parts, symbol->st_shndx, &span, &ignored) < 0 ||
		offset >= span.size)
		return NULL;
	left = span.size - offset;
	return memchr(span.data + offset, '\0', left < NAME_LIMIT ? left : NAME_LIMIT)
		       ? span.data + offset
		       : NULL;
}

static void note_string(const struct elf_parts *parts, void *context, const Elf64_Rela *relocation,
	const Elf64_Sym *symbol)
{
	struct table *table = context;
	uint64_t entry = relocation->r_offset / table->entry_size;
	uint64_t place = relocation->r_offset % table->entry_size;
	const char *text;

	if (entry >= table->count || (place != table->field_size && place != table->field_size * 2))
		return;
	text = pointed_string(parts, symbol, relocation);
	if (place == table->field_size)
		table->items[entry].symbol = text;
	else if (text)
		table->items[entry].name_space = text;
}

/* The number that a __crc_ symbol marks the place of. */
static uint32_t marked_crc(const struct elf_parts *parts, const Elf64_Sym *symbol)
{
	struct elf_span span;
	struct error ignored;
	uint32_t crc = 0;

	if (symbol->st_shndx >= parts->header.e_shnum ||
		elf_section_map(parts, symbol->st_shndx, &span, &ignored) < 0 ||
		span.size < sizeof(crc) || symbol->st_value > span.size - sizeof(crc))
		return 0;
	memcpy(&crc, span.data + symbol->st_value, sizeof(crc));
	return crc;
}

static void note_crc(const struct elf_parts *parts, void *context, const Elf64_Rela *relocation,
	const Elf64_Sym *symbol)
{
	struct table *table = context;
	uint64_t entry = relocation->r_offset / table->crc_size;

	if (entry >= table->count || relocation->r_offset % table->crc_size)
		return;
	if (symbol->st_shndx == SHN_ABS)
		table->items[entry].crc =
			(uint32_t) (symbol->st_value + (uint64_t) relocation->r_addend);
	else if (symbol->st_shndx != SHN_UNDEF)
		table->items[entry].crc = marked_crc(parts, symbol);
}

/* Whether in entries of @size bytes, in fields of @field, a text would not be where one has to be.
 */
static inline size_t is_misfit(uint64_t offset, size_t size, size_t field, bool text)
{
	uint64_t place = offset % size;

	return place % field != 0 || (place != 0) != text;
}

static bool has_names(const struct elf_parts *parts, unsigned int index)
{
	return index < parts->header.e_shnum &&
	       strcmp(elf_section_name(parts, index), STRINGS) == 0;
}

/* Names and name spaces lie in one section, and what is exported does not. */
static void note_sign(const struct elf_parts *parts, void *context, const Elf64_Rela *relocation,
	const Elf64_Sym *symbol)
{
	struct signs *signs = context;
	const uint64_t offset = relocation->r_offset;
	bool text = has_names(parts, symbol->st_shndx);

	signs->count++;
	signs->odd += offset % 8 != 0;
	/* Each size is a constant to the compiler, which divides by none then. */
	signs->misfits[0] += is_misfit(offset, 8, 4, text);
	signs->misfits[1] += is_misfit(offset, 12, 4, text);
	signs->misfits[2] += is_misfit(offset, 16, 8, text);
	signs->misfits[3] += is_misfit(offset, 24, 8, text);
}

static bool relocates(const struct elf_parts *parts, unsigned int section, unsigned int target)
{
	return parts->sections[section].sh_type == SHT_RELA &&
	       parts->sections[section].sh_info == target;
}

/*
 * Calls @note for each relocation of section @target. Linkers make one section of them, mostly the
 * one behind it: of more, which elf_check.c doubts, one counts, so that no file makes us read its
 * bytes a thousand times.
 */
static int relocate(const struct elf_parts *parts, unsigned int target, relocated *note,
	void *context, struct error *error)
{
	const unsigned int count = parts->header.e_shnum;
	unsigned int section = target + 1;
	struct elf_span span;
	int r;

	if (!target)
		return 0;
	if (section >= count || !relocates(parts, section, target))
		for (section = 1; section < count && !relocates(parts, section, target);)
			section++;
	if (section >= count)
		return 0;
	r = elf_section_map(parts, section, &span, error);
	if (r < 0)
		return r;
	for (size_t i = 0; i < span.size / sizeof(Elf64_Rela); i++) {
		Elf64_Rela relocation;
		Elf64_Sym symbol;

		memcpy(&relocation, span.data + i * sizeof(relocation), sizeof(relocation));
		if (ELF64_R_SYM(relocation.r_info) >= parts->symbol_count)
			continue;
		elf_symbol_at(parts, ELF64_R_SYM(relocation.r_info), &symbol);
		note(parts, context, &relocation, &symbol);
	}
	return 0;
}

static int read_crcs(const struct elf_parts *parts, struct table *table, struct error *error)
{
	struct signs signs = { 0 };
	struct elf_span span;
	int r;

	if (!table->crcs)
		return 0;
	r = elf_section_map(parts, table->crcs, &span, error);
	if (r < 0)
		return r;
	r = relocate(parts, table->crcs, note_sign, &signs, error);
	if (r < 0)
		return r;
	/*
	 * CRCs have 64 bits only beside 64-bit addresses, if the section has room for so many and
	 * none lies at an odd multiple of 32 bits.
	 */
	if (table->field_size == sizeof(uint64_t) && !signs.odd &&
		parts->sections[table->crcs].sh_size / sizeof(uint64_t) >= table->count)
		table->crc_size = sizeof(uint64_t);
	for (size_t i = 0; i < table->count && i < span.size / table->crc_size; i++) {
		memcpy(&table->items[i].crc, span.data + i * table->crc_size, sizeof(uint32_t));
		table->items[i].has_crc = true;
	}
	return relocate(parts, table->crcs, note_crc, table, error);
}

static int read_table(const struct elf_parts *parts, struct table *table, struct error *error)
{
	struct elf_span flags;
	int r;

	for (size_t i = 0; i < table->count; i++)
		table->items[i] = (struct elf_module_export){ .name_space = "", .gpl = table->gpl };
	if (!table->count)
		return 0;
	r = relocate(parts, table->entries, note_string, table, error);
	if (r < 0)
		return r;
	r = read_crcs(parts, table, error);
	if (r < 0)
		return r;
	r = elf_section_map(parts, table->flags, &flags, error);
	for (size_t i = 0; r == 0 && i < table->count && i < flags.size; i++)
		table->items[i].gpl = flags.data[i] & FLAG_GPL_ONLY;
	return r;
}

static int compare_exports(const void *a, const void *b)
{
	const struct elf_module_export *left = a;
	const struct elf_module_export *right = b;

	return strcmp(left->symbol, right->symbol);
}

/* Drops the ones without a name, copies the names and sorts by them. */
static int keep_exports(struct elf_module_export *items, size_t *count, struct arena *memory)
{
	size_t kept = 0, size = 0;
	char *next;

	for (size_t i = 0; i < *count; i++) {
		if (!items[i].symbol)
			continue;
		items[kept] = items[i];
		items[kept].hash = name_hash(items[i].symbol);
		size += strlen(items[i].symbol) + strlen(items[i].name_space) + 2;
		kept++;
	}
	*count = kept;
	next = arena_alloc(memory, size);
	if (!next)
		return -ENOMEM;
	for (size_t i = 0; i < kept; i++) {
		const char *symbol = items[i].symbol;
		const char *name_space = items[i].name_space;

		items[i].symbol = next;
		next = stpcpy(next, symbol) + 1;
		items[i].name_space = next;
		next = stpcpy(next, name_space) + 1;
	}
	qsort(items, kept, sizeof(*items), compare_exports);
	return 0;
}

/* The form that the relocations fit best; of two that they fit alike the one without a rest. */
static int find_form(const struct elf_parts *parts, struct table *table, struct error *error)
{
	const Elf64_Shdr *header = &parts->sections[table->entries];
	struct signs signs = { 0 };
	const size_t *misfits = signs.misfits;
	int r = relocate(parts, table->entries, note_sign, &signs, error);

	table->field_size = signs.odd || !signs.count ? 4 : 8;
	if (table->field_size == 8)
		misfits += 2;
	table->entry_size = table->field_size * 3;
	if (misfits[0] < misfits[1] ||
		(misfits[0] == misfits[1] && header->sh_size % table->entry_size))
		table->entry_size = table->field_size * 2;
	table->count = table->entries && elf_section_in_file(parts, header)
			       ? header->sh_size / table->entry_size
			       : 0;
	return r;
}

size_t elf_export_field(const struct elf_parts *parts, unsigned int entries)
{
	struct table table = { .entries = entries };
	struct error ignored;

	return find_form(parts, &table, &ignored) < 0 ? 4 : table.field_size;
}

int elf_exports_read(const struct elf_parts *parts, struct arena *memory,
	struct elf_module_export **ret, size_t *ret_count, struct error *error)
{
	const struct elf_found *found = parts->found;
	struct table plain = { .entries = found[ELF_KSYMTAB].allocated,
		.crcs = found[ELF_KCRCTAB].allocated,
		.flags = found[ELF_KFLAGSTAB].allocated,
		.crc_size = sizeof(uint32_t) };
	struct table gpl = { .entries = found[ELF_KSYMTAB_GPL].allocated,
		.crcs = found[ELF_KCRCTAB_GPL].allocated,
		.crc_size = sizeof(uint32_t),
		.gpl = true };
	size_t count;
	int r = find_form(parts, &plain, error);

	*ret = NULL;
	*ret_count = 0;
	if (r < 0)
		return r;
	r = find_form(parts, &gpl, error);
	count = plain.count + gpl.count;
	if (r < 0 || !count)
		return r;
	*ret = arena_zalloc(memory, count, sizeof(**ret));
	if (!*ret)
		return error_set_errno(error, -ENOMEM, "%zu exports", count);
	plain.items = *ret;
	gpl.items = *ret + plain.count;
	r = read_table(parts, &plain, error);
	if (r < 0)
		return r;
	r = read_table(parts, &gpl, error);
	if (r < 0)
		return r;
	if (keep_exports(*ret, &count, memory) < 0)
		return error_set_errno(error, -ENOMEM, "%zu exports", count);
	*ret_count = count;
	return 0;
}
