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

/* Where the next string begins, at or after @offset; @size at the end. */
static size_t skip_padding(const struct modinfo *info, size_t offset, size_t size)
{
	while (offset < size && !info->text[offset])
		offset++;
	return offset;
}

static size_t next_string(const struct modinfo *info, size_t offset, size_t size)
{
	return skip_padding(info, offset + strlen(info->text + offset) + 1, size);
}

static int index_strings(struct modinfo *info, size_t size, struct arena *memory)
{
	const size_t start = skip_padding(info, 0, size);
	struct modinfo_entry *entry;

	for (size_t offset = start; offset < size; offset = next_string(info, offset, size))
		info->count++;
	info->entries = arena_alloc(memory, info->count * sizeof(*info->entries));
	if (!info->entries)
		return -ENOMEM;
	entry = info->entries;
	for (size_t offset = start; offset < size; offset = next_string(info, offset, size)) {
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

/* The first entry that lies behind @previous. */
static size_t find_after(const struct modinfo *info, const char *previous)
{
	size_t start = 0, end = info->count;

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
	uint32_t mark = mark_of(key, length);

	for (size_t i = find_after(info, previous); i < info->count; i++) {
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
