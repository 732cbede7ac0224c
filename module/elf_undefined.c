/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a module needs of others: the symbols that simplify_symbols() of Linux kernel/module/main.c
 * resolves. It does so for local ones too, should a file have undefined ones.
 */
#include <string.h>

#include "common/name_hash.h"
#include "module/elf_parts.h"
#include "module/symvers.h"

/*
 * All names together, with what they share: many symbols may be named by one string of a megabyte,
 * which would be copied for each.
 */
#define NAMES_LIMIT ((size_t) 64 * 1024 * 1024)

/*
 * Mostly modpost writes versions in the order of the symbols: *@next is where the one meant may be.
 */
static void find_version(
	const struct elf_versions *versions, struct elf_undefined *item, size_t size, size_t *next)
{
	if (*next >= versions->count || strcmp(versions->items[*next].name, item->name) != 0) {
		item->number = name_hash_sized(item->name, size - 1);
		item->version = elf_versions_find(versions, item->name, item->number);
		if (!item->version)
			return;
		*next = (size_t) (item->version - versions->items);
	}
	item->version = &versions->items[*next];
	item->number = versions->hashes[(*next)++];
}

/* The bytes of the names that no version has; SIZE_MAX when the names are beyond the limit. */
static size_t list_undefined(const struct elf_parts *parts, const struct elf_versions *versions,
	struct elf_undefined *items)
{
	size_t count = 0, rest = 0, names_size = 0, next = 0;
	Elf64_Sym symbol;

	for (size_t i = parts->symbol_facts.first_undefined; count < parts->symbol_facts.undefined;
		i++) {
		struct elf_undefined *item = &items[count];
		size_t size;

		elf_symbol_at(parts, i, &symbol);
		if (symbol.st_shndx != SHN_UNDEF)
			continue;
		*item = (struct elf_undefined){ .name = elf_symbol_name(parts, &symbol) };
		size = strlen(item->name) + 1;
		names_size += size;
		if (names_size > NAMES_LIMIT)
			return SIZE_MAX;
		item->index = (uint32_t) i & 0x3fffffff;
		item->weak = ELF64_ST_BIND(symbol.st_info) == STB_WEAK;
		find_version(versions, item, size, &next);
		if (!item->version)
			rest += size;
		count++;
	}
	return rest;
}

/* What @known has of it, whose place stands for the hash then; or NULL. */
static void note_known(
	struct elf_undefined *item, const struct symvers *known, const struct symvers_entry *entry)
{
	if (!entry)
		return;
	item->known = true;
	item->number = (uint32_t) (entry - symvers_at(known, 0));
}

/* Names as their versions have them. */
static void share_names(const struct elf_versions *versions, const struct symvers *known,
	struct elf_undefined *items, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct elf_undefined *item = &items[i];

		if (!item->version)
			continue;
		item->name = item->version->name;
		if (known)
			note_known(item, known, versions->known[item->version - versions->items]);
	}
}

/* Those of which no version is demanded are copied. */
static int copy_names(
	const struct elf_memory *memory, struct elf_undefined *items, size_t count, size_t size)
{
	char *next = arena_alloc(memory->kept, size);

	for (size_t i = 0; next && i < count; i++) {
		struct elf_undefined *item = &items[i];
		const char *name = item->name;

		if (item->version)
			continue;
		if (memory->known)
			note_known(item, memory->known,
				symvers_find_hashed(memory->known, name, item->number));
		item->name = next;
		next = stpcpy(next, name) + 1;
	}
	return next ? 0 : -ENOMEM;
}

int elf_undefined_read(const struct elf_parts *parts, struct elf_versions *versions,
	const struct elf_memory *memory, struct elf_undefined **ret, size_t *ret_count)
{
	size_t count = parts->symbol_facts.undefined;
	struct elf_undefined *items = arena_alloc(memory->kept, count * sizeof(*items));
	size_t rest = items ? list_undefined(parts, versions, items) : SIZE_MAX;

	if (rest == SIZE_MAX || elf_versions_keep(versions, memory) < 0)
		return -ENOMEM;
	share_names(versions, memory->known, items, count);
	if (rest && copy_names(memory, items, count, rest) < 0)
		return -ENOMEM;
	*ret = items;
	*ret_count = count;
	return 0;
}
