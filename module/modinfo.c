/* SPDX-License-Identifier: Apache-2.0 */
#include "module/elf_internal.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define ALIAS "alias="

/* Length, first and last character of a key; never 0. */
static uint32_t mark_of(const char *key, size_t length)
{
	const unsigned char *bytes = (const unsigned char *) key;

	if (!length)
		return 1;
	return (uint32_t) (length & 0xffff) << 16 | (uint32_t) bytes[0] << 8 |
	       (uint32_t) bytes[length - 1] | 1u << 31;
}

static struct modinfo_entry make_entry(const struct modinfo *info, size_t offset, size_t length)
{
	const char *text = info->text + offset;
	const char *equals = memchr(text, '=', length);

	return (struct modinfo_entry){ (uint32_t) offset,
		equals ? mark_of(text, (size_t) (equals - text)) : 0 };
}

/* The next string that begins before @size, at or after @offset; @size at the end. */
static size_t skip_padding(const struct modinfo *info, size_t offset, size_t size)
{
	while (offset < size && !info->text[offset])
		offset++;
	return offset;
}

/* Lists the strings, as far as there is @room; returns how many there are. */
static size_t list_strings(
	const struct modinfo *info, size_t size, struct modinfo_entry *entries, size_t room)
{
	size_t offset = skip_padding(info, 0, size);
	size_t count = 0;

	while (offset < size) {
		size_t length = strlen(info->text + offset);

		if (count < room)
			entries[count] = make_entry(info, offset, length);
		count++;
		offset = skip_padding(info, offset + length + 1, size);
	}
	return count;
}

static bool is_alias(const struct modinfo *info, const struct modinfo_entry *entry)
{
	return entry->mark == mark_of(ALIAS, strlen(ALIAS) - 1) &&
	       memcmp(info->text + entry->offset, ALIAS, strlen(ALIAS)) == 0;
}

/* Which of modinfo.first[] is of a mark. */
static size_t class_of(uint32_t mark)
{
	return (mark * 0x9e3779b1U) >> 26;
}

static void note_first(struct modinfo *info, size_t place)
{
	uint8_t *first = &info->first[class_of(info->entries[place].mark)];

	if (!*first)
		*first = place < UINT8_MAX ? (uint8_t) (place + 1) : UINT8_MAX;
}

/* Keeps the aliases behind the others; both in the file's order. */
static int keep_entries(struct modinfo *info, const struct modinfo_entry *entries, size_t count,
	struct arena *memory)
{
	size_t others = 0, aliases = 0;

	info->entries = arena_alloc(memory, count * sizeof(*entries));
	if (!info->entries)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		if (is_alias(info, &entries[i])) {
			info->alias_count++;
			continue;
		}
		info->entries[others] = entries[i];
		note_first(info, others++);
	}
	for (size_t i = 0; i < count && aliases < info->alias_count; i++)
		if (is_alias(info, &entries[i]))
			info->entries[others + aliases++] = entries[i];
	info->count = count;
	return 0;
}

/* Most modules have some 20 strings: more are walked twice. */
static int index_strings(struct modinfo *info, size_t size, struct arena *memory)
{
	struct modinfo_entry few[128];
	_cleanup_free_ struct modinfo_entry *many = NULL;
	size_t count = list_strings(info, size, few, ARRAY_SIZE(few));

	if (count <= ARRAY_SIZE(few))
		return keep_entries(info, few, count, memory);
	many = calloc(count, sizeof(*many));
	if (!many)
		return -ENOMEM;
	(void) list_strings(info, size, many, count);
	return keep_entries(info, many, count, memory);
}

int modinfo_read(
	struct modinfo *info, const char *data, size_t size, size_t more, struct arena *memory)
{
	size_t tail = 0;

	*info = (struct modinfo){ 0 };
	if (size > UINT32_MAX - 1)
		return -EFBIG;
	if (size && data[size - 1])
		tail = strnlen(data + size, more);
	info->text = arena_alloc(memory, size + tail + 1);
	if (!info->text)
		return -ENOMEM;
	if (size)
		memcpy(info->text, data, size + tail);
	info->text[size + tail] = '\0';
	return index_strings(info, size, memory);
}

/* The first entry of those from @start to before @end that lies behind @previous. */
static size_t find_after(const struct modinfo *info, size_t start, size_t end, const char *previous)
{
	while (previous && start < end) {
		size_t middle = start + (end - start) / 2;

		if (info->text + info->entries[middle].offset < previous)
			start = middle + 1;
		else
			end = middle;
	}
	return start;
}

const char *modinfo_next(const struct modinfo *info, const char *key, const char *previous)
{
	size_t length = strlen(key);
	size_t others = info->count - info->alias_count;
	uint32_t mark = mark_of(key, length);
	bool alias = mark == mark_of(ALIAS, strlen(ALIAS) - 1) && strncmp(key, ALIAS, length) == 0;
	size_t end = alias ? info->count : others;
	size_t start = others;

	if (!alias) {
		start = info->first[class_of(mark)];
		if (!start--)
			return NULL;
	}
	for (size_t i = find_after(info, start, end, previous); i < end; i++) {
		const char *entry = info->text + info->entries[i].offset;

		if (info->entries[i].mark == mark && strncmp(entry, key, length) == 0 &&
			entry[length] == '=')
			return entry + length + 1;
	}
	return NULL;
}

int elf_module_depends(const struct elf_module *module, struct strv *names)
{
	const char *depends = elf_module_info(module, "depends");
	size_t first = names->count;

	if (depends && strv_split(names, depends, ",") < 0)
		return -ENOMEM;
	for (size_t i = first; i < names->count; i++)
		for (char *dash = names->items[i]; (dash = strchr(dash, '-'));)
			*dash = '_';
	return 0;
}
