/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What differs from what elf_module_open() keeps only in files that somebody changed after the
 * build, or that were built for two kinds of kernels: the file is read again for it.
 */
#include <string.h>

#include "module/elf_module_parts.h"

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
	size_t size = 0;
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

int elf_module_basic_versions(const struct elf_module *module, struct arena *memory,
	struct elf_versions *ret, struct error *error)
{
	const struct elf_memory all = { .kept = memory, .index = memory };
	_cleanup_(again_done) struct again again = { .file = { .fd = -1 } };
	struct elf_span span = { 0 };
	int r = read_again(module, &again, error);

	if (r == 0)
		r = elf_section_map(
			&again.parts, again.parts.found[ELF_VERSIONS].allocated, &span, error);
	if (r == 0)
		r = elf_versions_read_basic(ret, &span, &all);
	return r < 0 ? r : elf_versions_keep(ret, &all);
}

int elf_module_bytes(
	const struct elf_module *module, char **ret_data, size_t *ret_size, struct error *error)
{
	_cleanup_(elf_file_close) struct elf_file file = { .fd = -1 };
	int r = elf_module_open_file(module, &file, error);

	if (r == 0)
		r = elf_file_take(&file, ret_data, ret_size, error);
	return r < 0 ? error_prefix(error, r, "%s", module->path) : 0;
}

/* A signature that is too large to be kept. */
int elf_module_read_large_cms(
	const struct elf_module *module, struct cms_facts *ret_cms, struct error *error)
{
	const struct module_trailer *trailer = &module->trailer;
	_cleanup_(elf_file_close) struct elf_file file = { .fd = -1 };
	const char *bytes = NULL;
	int r = elf_module_open_file(module, &file, error);

	if (r == 0)
		r = elf_file_map(
			&file, trailer->signature_offset, trailer->signature_size, &bytes, error);
	if (r < 0)
		return error_prefix(error, r, "%s", module->path);
	return cms_read(bytes, trailer->signature_size, trailer->signature_offset, ret_cms, error);
}

int elf_module_check_relocations(
	const struct elf_module *module, unsigned int version, struct error *error)
{
	_cleanup_(elf_file_close) struct elf_file file = { .fd = -1 };
	_cleanup_(elf_parts_done) struct elf_parts parts = { .file = &file,
		.size = module->content_size };
	const char *bytes;
	int r;

	if (!module->readable)
		return 0;
	r = elf_module_open_file(module, &file, error);
	if (r == 0 && module->content_size > file.size)
		r = error_set(error, -EINVAL, "changed while it was read");
	if (r == 0)
		r = elf_file_map(&file, 0, file.size, &bytes, error);
	if (r == 0)
		memcpy(&parts.header, bytes, sizeof(parts.header));
	if (r == 0)
		r = elf_parts_read(&parts, error);
	return r < 0 ? r : elf_relocations_check(&parts, version, error);
}
