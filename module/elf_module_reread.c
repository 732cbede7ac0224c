/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What differs from what elf_module_open() keeps only in files that somebody changed after the
 * build, or that were built for two kinds of kernels: the file is read again for it.
 */
#include <string.h>

#include "module/elf_parts.h"

struct again {
	char *data;
	struct elf_file file;
	struct elf_parts parts;
};

static void again_done(struct again *again)
{
	elf_parts_done(&again->parts);
	elf_file_close(&again->file);
	free(again->data);
}

static int read_again(const struct elf_module *module, struct again *again, struct error *error)
{
	const char *header;
	size_t size;
	int r = elf_module_bytes(module, &again->data, &size, error);

	if (r == 0)
		r = elf_file_open_memory(&again->file, again->data, size, error);
	if (r < 0)
		return r;
	again->parts = (struct elf_parts){ .file = &again->file, .size = size };
	r = elf_file_map(&again->file, 0, sizeof(again->parts.header), &header, error);
	if (r < 0)
		return r;
	memcpy(&again->parts.header, header, sizeof(again->parts.header));
	return elf_parts_read(&again->parts, error);
}

int elf_module_struct_name(
	const struct elf_module *module, char name[ELF_STRUCT_NAME_SIZE], struct error *error)
{
	_cleanup_(again_done) struct again again = { .file = { .fd = -1 } };
	const struct elf_found *found = &again.parts.found[ELF_THIS_MODULE];
	struct elf_span span = { 0 };
	int r = read_again(module, &again, error);

	name[0] = '\0';
	if (r == 0)
		r = elf_section_map(&again.parts, found->allocated ? found->allocated : found->any,
			&span, error);
	if (r < 0)
		return r;
	if (span.size > STRUCT_NAME_OFFSET)
		(void) snprintf(name, ELF_STRUCT_NAME_SIZE, "%.*s",
			(int) strnlen(
				span.data + STRUCT_NAME_OFFSET, span.size - STRUCT_NAME_OFFSET),
			span.data + STRUCT_NAME_OFFSET);
	return 0;
}

int elf_module_basic_versions(
	const struct elf_module *module, struct elf_versions *ret, struct error *error)
{
	_cleanup_(again_done) struct again again = { .file = { .fd = -1 } };
	struct elf_span span = { 0 };
	int r = read_again(module, &again, error);

	if (r == 0)
		r = elf_section_map(
			&again.parts, again.parts.found[ELF_VERSIONS].allocated, &span, error);
	return r < 0 ? r : elf_versions_read_basic(ret, &span);
}
