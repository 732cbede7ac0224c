/* SPDX-License-Identifier: Apache-2.0 */
#include "module/elf_internal.h"

#include <stdbool.h>
#include <string.h>

/* Length, first and last character of a key; never 0. */
static uint32_t mark_of(const char *key, size_t length)
{
	const unsigned char *bytes = (const unsigned char *) key;

	if (!length)
		return 1;
	return (uint32_t) (length & 0xffff) << 16 | (uint32_t) bytes[0] << 8 |
	       (uint32_t) bytes[length - 1] | 1u << 31;
}

/*
 * Returns the offset at which a string begins, at or after @offset; info->size or more at the end.
 */
static size_t skip_padding(const struct modinfo *info, size_t offset)
{
	while (offset < info->size && !info->text[offset])
		offset++;
	return offset;
}

static size_t next_string(const struct modinfo *info, size_t offset)
{
	return skip_padding(info, offset + strlen(info->text + offset) + 1);
}

static int index_strings(struct modinfo *info, struct arena *memory)
{
	const size_t start = skip_padding(info, 0);
	struct modinfo_entry *entry;

	for (size_t offset = start; offset < info->size; offset = next_string(info, offset))
		info->count++;
	info->entries = arena_alloc(memory, info->count * sizeof(*info->entries));
	if (!info->entries)
		return -ENOMEM;
	entry = info->entries;
	for (size_t offset = start; offset < info->size; offset = next_string(info, offset)) {
		const char *text = info->text + offset;
		const char *equals = strchr(text, '=');

		*entry++ = (struct modinfo_entry){ (uint32_t) offset,
			equals ? mark_of(text, (size_t) (equals - text)) : 0 };
	}
	return 0;
}

int modinfo_read(
	struct modinfo *info, const char *data, size_t size, size_t more, struct arena *memory)
{
	size_t tail = 0;

	*info = (struct modinfo){ .size = size };
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
	return index_strings(info, memory);
}

static bool is_of_key(const char *entry, const char *key, size_t length)
{
	return strncmp(entry, key, length) == 0 && entry[length] == '=';
}

/* Behind another of its key: of thousands of aliases each is asked for like that. */
static const char *next_after(
	const struct modinfo *info, const char *key, size_t length, size_t offset)
{
	while ((offset = next_string(info, offset)) < info->size)
		if (is_of_key(info->text + offset, key, length))
			return info->text + offset + length + 1;
	return NULL;
}

const char *modinfo_next(const struct modinfo *info, const char *key, const char *previous)
{
	size_t length = strlen(key);
	uint32_t mark = mark_of(key, length);

	if (previous)
		return next_after(info, key, length, (size_t) (previous - info->text));
	for (size_t i = 0; i < info->count; i++) {
		const char *entry = info->text + info->entries[i].offset;

		if (info->entries[i].mark == mark && is_of_key(entry, key, length))
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
