/* SPDX-License-Identifier: Apache-2.0 */
#include "module/elf_versions.h"

#include <string.h>

#include "common/name_hash.h"
#include "module/symvers.h"

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

static uint32_t *find_slot(const struct elf_versions *versions, const char *name, uint32_t hash)
{
	size_t place = hash & versions->mask;

	for (; versions->slots[place]; place = (place + 1) & versions->mask) {
		size_t item = versions->slots[place] - 1;

		if (versions->hashes[item] == hash && strcmp(versions->items[item].name, name) == 0)
			break;
	}
	return &versions->slots[place];
}

/* For at most @count records. */
static int allocate(struct elf_versions *versions, size_t count, const struct elf_memory *memory)
{
	size_t slot_count = 8;

	while (slot_count < count * 2)
		slot_count *= 2;
	*versions = (struct elf_versions){ .mask = slot_count - 1 };
	versions->items = arena_alloc(memory->kept, count * sizeof(*versions->items));
	versions->slots = arena_zalloc(memory->index, slot_count + count, sizeof(uint32_t));
	if (memory->known)
		versions->known =
			arena_alloc(memory->index, count * sizeof(const struct symvers_entry *));
	if (!versions->items || !versions->slots || (memory->known && !versions->known))
		return -ENOMEM;
	versions->hashes = versions->slots + slot_count;
	return 0;
}

/* Adds a record, unless there is one of that name. */
static void add(
	struct elf_versions *versions, const char *name, size_t length, uint32_t crc, bool wide)
{
	uint32_t hash = name_hash_sized(name, length);
	uint32_t *slot = find_slot(versions, name, hash);

	if (*slot)
		return;
	versions->hashes[versions->count] = hash;
	versions->items[versions->count++] = (struct elf_symbol_version){ name, crc, wide };
	versions->names_size += length + 1;
	*slot = (uint32_t) versions->count;
}

/* A name that has no end in its record runs on into the next one's CRC: no symbol is called that.
 */
int elf_versions_read_basic(struct elf_versions *versions, const struct elf_span *basic,
	const struct elf_memory *memory)
{
	size_t count = basic->size / BASIC_RECORD_SIZE;

	if (allocate(versions, count, memory) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		const char *record = basic->data + i * BASIC_RECORD_SIZE;
		const char *name = record + BASIC_NAME_OFFSET;
		size_t length = strnlen(name, BASIC_NAME_SIZE);

		if (length < BASIC_NAME_SIZE)
			add(versions, name, length, read_u32(record), read_u32(record + 4) != 0);
	}
	return 0;
}

/* The names, of which the last one has an end, too. */
static const char *end_names(const struct elf_span *names, const struct elf_memory *memory)
{
	char *copy;

	if (names->size && !names->data[names->size - 1])
		return names->data;
	copy = arena_alloc(memory->index, names->size + 1);
	if (copy && names->size)
		memcpy(copy, names->data, names->size);
	if (copy)
		copy[names->size] = '\0';
	return copy;
}

int elf_versions_read_extended(struct elf_versions *versions, const struct elf_span *crcs,
	const struct elf_span *names, const struct elf_memory *memory)
{
	size_t count = crcs->size / EXT_CRC_SIZE;
	const char *text = end_names(names, memory);
	size_t offset = 0;

	if (count > names->size)
		count = names->size; /* of which each takes a byte at least */
	if (!text || allocate(versions, count, memory) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < count && offset < names->size; i++) {
		const char *name = text + offset;
		size_t length = strlen(name);

		add(versions, name, length, read_u32(crcs->data + i * EXT_CRC_SIZE), false);
		offset += length + 1;
	}
	return 0;
}

static const char *name_of(const void *versions, size_t i)
{
	return ((const struct elf_versions *) versions)->items[i].name;
}

/* Returns how many bytes the names have that are not known. */
static size_t look_up(struct elf_versions *versions, const struct symvers *known)
{
	size_t size = versions->names_size;

	symvers_find_many(
		known, versions->count, versions->hashes, name_of, versions, versions->known);
	for (size_t i = 0; i < versions->count; i++) {
		struct elf_symbol_version *item = &versions->items[i];

		if (!versions->known[i])
			continue;
		size -= strlen(item->name) + 1;
		item->name = versions->known[i]->symbol;
	}
	return size;
}

int elf_versions_keep(struct elf_versions *versions, const struct elf_memory *memory)
{
	size_t size = memory->known ? look_up(versions, memory->known) : versions->names_size;
	char *next = size ? arena_alloc(memory->kept, size) : NULL;

	if (size && !next)
		return -ENOMEM;
	for (size_t i = 0; size && i < versions->count; i++) {
		const char *name = versions->items[i].name;

		if (versions->known && versions->known[i])
			continue;
		versions->items[i].name = next;
		next = stpcpy(next, name) + 1;
	}
	return 0;
}

const struct elf_symbol_version *elf_versions_find(
	const struct elf_versions *versions, const char *symbol, uint32_t hash)
{
	uint32_t place;

	if (!versions->count)
		return NULL;
	place = *find_slot(versions, symbol, hash);
	return place ? &versions->items[place - 1] : NULL;
}

const struct elf_symbol_version *elf_versions_search(
	const struct elf_versions *versions, const char *symbol)
{
	for (size_t i = 0; i < versions->count; i++)
		if (strcmp(versions->items[i].name, symbol) == 0)
			return &versions->items[i];
	return NULL;
}
