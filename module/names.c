/* SPDX-License-Identifier: Apache-2.0 */
/* Names of modules and of their files, and tables of names. */
#include "module/elf_internal.h"

#include <string.h>

#include "common/hash.h"
#include "common/strv.h"

const char *module_suffix(const char *path)
{
	static const char *const suffixes[] = { ".ko", ".ko.xz", ".ko.zst", ".ko.gz" };
	const char *slash = strrchr(path, '/');
	const char *base = slash ? slash + 1 : path;
	size_t length = strlen(base);

	for (size_t i = 0; i < ARRAY_SIZE(suffixes); i++)
		if (length > strlen(suffixes[i]) && str_ends_with(base, suffixes[i]))
			return base + length - strlen(suffixes[i]);
	return NULL;
}

void module_name_copy(const char *path, size_t length, char *name, size_t size)
{
	const char *slash = memrchr(path, '/', length);
	const char *base = slash ? slash + 1 : path;
	size_t count = length - (size_t) (base - path);

	if (count >= size)
		count = size - 1;
	for (size_t i = 0; i < count; i++)
		name[i] = base[i] == '-' ? '_' : base[i];
	name[count] = '\0';
}

bool module_name_of_file(const char *path, char *name, size_t size)
{
	const char *slash = strrchr(path, '/');
	const char *base = slash ? slash + 1 : path;
	/* As kmod's modname_normalize(): "a.b.ko" is the file of a. */
	size_t length = strcspn(base, ".");

	if (!module_suffix(path) || length == 0 || length >= size)
		return false;
	module_name_copy(base, length, name, size);
	return true;
}

/* ---- tables of names */

/* The slot that holds @name, or the free one where it belongs. */
static struct name_slot *find_slot(const struct name_table *table, const char *name, uint32_t hash)
{
	size_t mask = table->slot_count - 1;
	size_t place = hash & mask;

	while (table->slots[place].name &&
		(table->slots[place].hash != hash || strcmp(table->slots[place].name, name) != 0))
		place = (place + 1) & mask;
	return &table->slots[place];
}

int name_table_reserve(struct name_table *table, size_t count)
{
	struct name_table larger = { .slot_count = 16 };

	if (table->slot_count && table->slot_count >= count * 2)
		return 0;
	while (larger.slot_count < count * 2)
		larger.slot_count *= 2;
	larger.slots = calloc(larger.slot_count, sizeof(*larger.slots));
	if (!larger.slots)
		return -ENOMEM;
	for (size_t i = 0; i < table->slot_count; i++)
		if (table->slots[i].name)
			*find_slot(&larger, table->slots[i].name, table->slots[i].hash) =
				table->slots[i];
	free(table->slots);
	*table = larger;
	return 0;
}

uint32_t *name_table_put_hashed(
	struct name_table *table, const char *name, uint32_t hash, uint32_t number)
{
	struct name_slot *slot = find_slot(table, name, hash);

	if (!slot->name)
		*slot = (struct name_slot){ name, hash, number };
	return &slot->number;
}

uint32_t *name_table_put(struct name_table *table, const char *name, uint32_t number)
{
	return name_table_put_hashed(table, name, name_hash(name), number);
}

uint32_t name_table_find_hashed(const struct name_table *table, const char *name, uint32_t hash)
{
	const struct name_slot *slot = table->slots ? find_slot(table, name, hash) : NULL;

	return slot && slot->name ? slot->number : NAME_NONE;
}

uint32_t name_table_find(const struct name_table *table, const char *name)
{
	return name_table_find_hashed(table, name, name_hash(name));
}

void name_table_free(struct name_table *table)
{
	free(table->slots);
	*table = (struct name_table){ 0 };
}
