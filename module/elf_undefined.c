/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a module needs of others: the symbols that simplify_symbols() of Linux kernel/module/main.c
 * resolves. It does so for local ones too, should a file have undefined ones.
 */
#include <string.h>

#include "module/elf_parts.h"

/*
 * All names together, with what they share: many symbols may be named by one string of a megabyte,
 * which would be copied for each.
 */
#define NAMES_LIMIT ((size_t) 64 * 1024 * 1024)

/* modpost writes versions in the order of the symbols: *@next is where the one meant mostly is. */
static void find_version(
	const struct elf_versions *versions, struct elf_undefined *item, size_t *next)
{
	if (*next >= versions->count || strcmp(versions->items[*next].name, item->name) != 0) {
		item->hash = elf_versions_hash(item->name);
		item->version = elf_versions_find(versions, item->name, item->hash);
		if (!item->version)
			return;
		*next = (size_t) (item->version - versions->items);
	}
	item->version = &versions->items[*next];
	item->hash = versions->hashes[(*next)++];
	item->name = item->version->name;
}

/* The bytes of the names that have to be copied; SIZE_MAX when the names are beyond the limit. */
static size_t list_undefined(const struct elf_parts *parts, const struct elf_versions *versions,
	struct elf_undefined *items)
{
	size_t count = 0, copy_size = 0, names_size = 0, next = 0;
	Elf64_Sym symbol;

	for (size_t i = parts->symbol_facts.first_undefined; count < parts->symbol_facts.undefined;
		i++) {
		struct elf_undefined *item = &items[count];
		size_t size;

		elf_symbol_at(parts, i, &symbol);
		if (symbol.st_shndx != SHN_UNDEF)
			continue;
		item->name = elf_symbol_name(parts, &symbol);
		size = strlen(item->name) + 1;
		names_size += size;
		if (names_size > NAMES_LIMIT)
			return SIZE_MAX;
		item->index = (uint32_t) i & 0x7fffffff;
		item->weak = ELF64_ST_BIND(symbol.st_info) == STB_WEAK;
		find_version(versions, item, &next);
		if (!item->version)
			copy_size += size;
		count++;
	}
	return copy_size;
}

int elf_undefined_read(const struct elf_parts *parts, const struct elf_versions *versions,
	struct elf_undefined **ret, size_t *ret_count, char **ret_strings)
{
	size_t count = parts->symbol_facts.undefined;
	struct elf_undefined *items = calloc(count + 1, sizeof(*items));
	size_t copy_size;
	char *next;

	if (!items)
		return -ENOMEM;
	copy_size = list_undefined(parts, versions, items);
	next = copy_size < SIZE_MAX ? malloc(copy_size + 1) : NULL;
	*ret = items;
	*ret_count = next ? count : 0;
	*ret_strings = next;
	if (!next)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++)
		if (!items[i].version) {
			char *copy = next;

			next = stpcpy(next, items[i].name) + 1;
			items[i].name = copy;
		}
	return 0;
}
