/* SPDX-License-Identifier: Apache-2.0 */
#include "module/modinfo.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "module/elf_module.h"

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

static int add_entry(struct modinfo *info, size_t offset, size_t length)
{
	size_t count = info->count;

	/* Grows at powers of two; most modules have some 20. */
	if (count >= 32 ? (count & (count - 1)) == 0 : !count) {
		struct modinfo_entry *entries =
			reallocarray(info->entries, count ? count * 2 : 32, sizeof(*entries));

		if (!entries)
			return -ENOMEM;
		info->entries = entries;
	}
	info->entries[info->count++] = make_entry(info, offset, length);
	return 0;
}

/* Moves the aliases behind the others; both keep the file's order. */
static int part_aliases(struct modinfo *info)
{
	uint32_t alias = mark_of(ALIAS, strlen(ALIAS) - 1);
	struct modinfo_entry *parted = malloc((info->count + 1) * sizeof(*parted));
	size_t others = 0, aliases = 0;

	if (!parted)
		return -ENOMEM;
	for (size_t i = 0; i < info->count; i++) {
		struct modinfo_entry entry = info->entries[i];

		if (entry.mark == alias &&
			memcmp(info->text + entry.offset, ALIAS, strlen(ALIAS)) == 0)
			parted[info->count - ++aliases] = entry;
		else
			parted[others++] = entry;
	}
	for (size_t i = 0; i < aliases / 2; i++) {
		struct modinfo_entry swap = parted[others + i];

		parted[others + i] = parted[info->count - 1 - i];
		parted[info->count - 1 - i] = swap;
	}
	free(info->entries);
	info->entries = parted;
	info->alias_count = aliases;
	return 0;
}

static int index_entries(struct modinfo *info, size_t size)
{
	size_t offset = skip_padding(info, 0, size);

	while (offset < size) {
		size_t length = strlen(info->text + offset);

		if (add_entry(info, offset, length) < 0)
			return -ENOMEM;
		offset = skip_padding(info, offset + length + 1, size);
	}
	return part_aliases(info);
}

int modinfo_read(struct modinfo *info, const char *data, size_t size, size_t more)
{
	size_t tail = 0;

	*info = (struct modinfo){ 0 };
	if (size > UINT32_MAX - 1)
		return -EFBIG;
	if (size && data[size - 1])
		tail = strnlen(data + size, more);
	info->text = malloc(size + tail + 1);
	if (!info->text)
		return -ENOMEM;
	if (size)
		memcpy(info->text, data, size + tail);
	info->text[size + tail] = '\0';
	if (index_entries(info, size) < 0) {
		modinfo_free(info);
		return -ENOMEM;
	}
	return 0;
}

void modinfo_free(struct modinfo *info)
{
	free(info->text);
	free(info->entries);
	*info = (struct modinfo){ 0 };
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
	bool alias = length == strlen(ALIAS) - 1 && strncmp(key, ALIAS, length) == 0;
	uint32_t mark = mark_of(key, length);
	size_t end = alias ? info->count : others;

	for (size_t i = find_after(info, alias ? others : 0, end, previous); i < end; i++) {
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
