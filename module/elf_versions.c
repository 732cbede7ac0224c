/* SPDX-License-Identifier: Apache-2.0 */
#include "common/fnv.h"
#include "module/elf_versions.h"

#include <stdlib.h>
#include <string.h>

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

uint32_t elf_versions_hash(const char *name)
{
	return fnv_text(name);
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

/* All arrays in one piece, for at most @count records with @names_size bytes of names. */
static int allocate(struct elf_versions *versions, size_t count, size_t names_size)
{
	size_t slot_count = 8;
	size_t items_size = count * sizeof(*versions->items);
	char *bytes;

	while (slot_count < count * 2)
		slot_count *= 2;
	bytes = malloc(items_size + (count + slot_count) * sizeof(uint32_t) + names_size);
	if (!bytes)
		return -ENOMEM;
	versions->items = (void *) bytes;
	versions->hashes = (void *) (bytes + items_size);
	versions->slots = versions->hashes + count;
	versions->names = (char *) (versions->slots + slot_count);
	versions->mask = slot_count - 1;
	versions->count = 0;
	memset(versions->slots, 0, slot_count * sizeof(uint32_t));
	return 0;
}

/* Adds what lies at @name in versions->names, unless there is a record of that name. */
static bool add(
	struct elf_versions *versions, const char *name, uint32_t hash, uint32_t crc, bool wide)
{
	uint32_t *slot = find_slot(versions, name, hash);

	if (*slot)
		return false;
	versions->hashes[versions->count] = hash;
	versions->items[versions->count++] = (struct elf_symbol_version){ name, crc, wide };
	*slot = (uint32_t) versions->count;
	return true;
}

/* A name that has no end in its record runs on into the next one's CRC: no symbol is called that.
 */
static size_t basic_name_length(const char *record)
{
	return strnlen(record + BASIC_NAME_OFFSET, BASIC_NAME_SIZE);
}

int elf_versions_read_basic(struct elf_versions *versions, const struct elf_span *basic)
{
	size_t count = basic->size / BASIC_RECORD_SIZE;
	size_t names_size = 0;
	char *next;

	for (size_t i = 0; i < count; i++)
		names_size += basic_name_length(basic->data + i * BASIC_RECORD_SIZE) + 1;
	if (allocate(versions, count, names_size) < 0)
		return -ENOMEM;
	next = versions->names;
	for (size_t i = 0; i < count; i++) {
		const char *record = basic->data + i * BASIC_RECORD_SIZE;
		const char *name = record + BASIC_NAME_OFFSET;
		uint32_t hash = FNV_START;
		size_t length = 0;

		for (; length < BASIC_NAME_SIZE && name[length]; length++) {
			next[length] = name[length];
			hash = fnv_byte(hash, name[length]);
		}
		next[length] = '\0';
		if (length < BASIC_NAME_SIZE &&
			add(versions, next, hash, read_u32(record), read_u32(record + 4) != 0))
			next += length + 1;
	}
	return 0;
}

int elf_versions_read_extended(
	struct elf_versions *versions, const struct elf_span *crcs, const struct elf_span *names)
{
	size_t count = crcs->size / EXT_CRC_SIZE;
	size_t offset = 0;

	if (count > names->size)
		count = names->size; /* of which each takes a byte at least */
	if (allocate(versions, count, names->size + 1) < 0)
		return -ENOMEM;
	if (names->size)
		memcpy(versions->names, names->data, names->size);
	versions->names[names->size] = '\0';
	for (size_t i = 0; i < count && offset < names->size; i++) {
		const char *name = versions->names + offset;

		(void) add(versions, name, elf_versions_hash(name),
			read_u32(crcs->data + i * EXT_CRC_SIZE), false);
		offset += strlen(name) + 1;
	}
	return 0;
}

void elf_versions_free(struct elf_versions *versions)
{
	free(versions->items);
	*versions = (struct elf_versions){ 0 };
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
