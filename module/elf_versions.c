/* SPDX-License-Identifier: Apache-2.0 */
#include "module/elf_versions.h"

#include <stdlib.h>
#include <string.h>

#define BASIC_RECORD_SIZE 64 /* sizeof(struct modversion_info) */
#define EXT_CRC_SIZE      4

/* The low 32 bits of a number of @size bytes: CRCs have no more. */
static uint32_t read_number(const char *bytes, size_t size, bool big_endian)
{
	uint64_t number = 0;

	for (size_t i = 0; i < size; i++) {
		size_t place = big_endian ? i : size - 1 - i;

		number = number << 8 | (unsigned char) bytes[place];
	}
	return (uint32_t) number;
}

static int compare_versions(const void *a, const void *b)
{
	const struct elf_symbol_version *left = a;
	const struct elf_symbol_version *right = b;

	return strcmp(left->name, right->name);
}

static int allocate(struct elf_versions *versions, size_t count, struct error *error)
{
	versions->items = calloc(count ? count : 1, sizeof(*versions->items));
	if (!versions->items)
		return error_set_errno(error, -ENOMEM, "%zu symbol versions", count);
	versions->count = count;
	return 0;
}

static int read_basic(struct elf_versions *versions, const struct elf_versions_layout *layout,
	const struct elf_span *basic, struct error *error)
{
	size_t count = basic->size / BASIC_RECORD_SIZE;
	size_t name_size = BASIC_RECORD_SIZE - layout->long_size;
	int r;

	if (basic->size % BASIC_RECORD_SIZE)
		return error_set(error, -EINVAL,
			"damaged: its __versions section of %zu bytes is no whole number of "
			"%d-byte records",
			basic->size, BASIC_RECORD_SIZE);
	r = allocate(versions, count, error);
	if (r < 0)
		return r;
	for (size_t i = 0; i < count; i++) {
		const char *record = basic->data + i * BASIC_RECORD_SIZE;
		const char *name = record + layout->long_size;

		if (!memchr(name, '\0', name_size))
			return error_set(error, -EINVAL,
				"damaged: the symbol name in __versions at offset %zu has no end",
				i * BASIC_RECORD_SIZE);
		versions->items[i] = (struct elf_symbol_version){ name,
			read_number(record, layout->long_size, layout->big_endian) };
	}
	return 0;
}

static int read_extended(struct elf_versions *versions, const struct elf_versions_layout *layout,
	const struct elf_span *crcs, const struct elf_span *names, struct error *error)
{
	size_t count = crcs->size / EXT_CRC_SIZE;
	size_t offset = 0;
	int r = 0;

	if (crcs->size % EXT_CRC_SIZE)
		return error_set(error, -EINVAL,
			"damaged: its __version_ext_crcs section of %zu bytes is no whole number "
			"of CRCs",
			crcs->size);
	r = allocate(versions, count, error);
	if (r < 0)
		return r;
	for (size_t i = 0; i < count; i++) {
		size_t left = names->size - offset;
		const char *name;

		if (!left || !memchr(names->data + offset, '\0', left))
			return error_set(error, -EINVAL,
				"damaged: __version_ext_names ends at offset %zu, before name %zu "
				"of %zu",
				names->size, i + 1, count);
		name = names->data + offset;
		versions->items[i] = (struct elf_symbol_version){ name,
			read_number(
				crcs->data + i * EXT_CRC_SIZE, EXT_CRC_SIZE, layout->big_endian) };
		offset += strlen(name) + 1;
	}
	return 0;
}

int elf_versions_read(struct elf_versions *versions, const struct elf_versions_layout *layout,
	const struct elf_span *basic, const struct elf_span *ext_crcs,
	const struct elf_span *ext_names, struct error *error)
{
	int r;

	if (ext_crcs->present)
		r = read_extended(versions, layout, ext_crcs, ext_names, error);
	else
		r = read_basic(versions, layout, basic, error);
	if (r < 0)
		return r;
	qsort(versions->items, versions->count, sizeof(*versions->items), compare_versions);
	return 0;
}

void elf_versions_free(struct elf_versions *versions)
{
	free(versions->items);
	*versions = (struct elf_versions){ 0 };
}

const struct elf_symbol_version *elf_versions_find(
	const struct elf_versions *versions, const char *symbol)
{
	const struct elf_symbol_version key = { .name = symbol };

	if (!versions->count)
		return NULL;
	return bsearch(
		&key, versions->items, versions->count, sizeof(*versions->items), compare_versions);
}
