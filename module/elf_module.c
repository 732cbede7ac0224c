/* SPDX-License-Identifier: Apache-2.0 */
#include "module/elf_module.h"

#include <fcntl.h>
#include <string.h>

#include "common/hex.h"
#include "module/elf_parts.h"
#include "module/trailer.h"

/* Signatures have some 700 bytes; with certificates in them a few thousand. */
#define SIGNATURE_SIZE_LIMIT ((size_t) 64 * 1024)

struct elf_module {
	char *path;
	int dir_fd;       /* the caller's */
	const char *data; /* the caller's buffer, or NULL */
	size_t data_size;
	uint16_t machine;
	bool readable; /* 64-bit little-endian: the rest is filled in */
	bool brief;    /* of the rest only info and build_id are */
	bool mapped;   /* the file is, while it is read */
	bool has_basic;
	bool has_extended;
	uint64_t struct_size;
	uint64_t content_size; /* without a signature */
	struct modinfo info;
	bool info_allocated; /* its section is marked as one that takes memory */
	struct elf_versions versions;
	struct elf_undefined *undefined;
	size_t undefined_count;
	char *undefined_names;
	struct elf_module_export *exports;
	size_t export_count;
	char *export_names;
	unsigned char build_id[BUILD_ID_SIZE_LIMIT];
	size_t build_id_size;
	struct elf_defects defects;
	struct module_trailer trailer; /* of a signature; without what it borrows */
	int trailer_code;              /* what is wrong with it, as elf_module_trailer() says it */
	char *trailer_error;
	char *signature; /* its CMS bytes; NULL when there are none or too many */
};

/* The class and byte order that e_ident states are nothing that the kernel looks at. */
static int read_ident(struct elf_module *module, struct elf_parts *parts, struct error *error)
{
	size_t size = parts->file->size < sizeof(parts->header) ? (size_t) parts->file->size
								: sizeof(parts->header);
	const unsigned char *ident = parts->header.e_ident;
	const char *bytes = NULL;
	int r = elf_file_map(parts->file, 0, size, &bytes, error);

	if (r < 0)
		return r;
	if (size)
		memcpy(&parts->header, bytes, size);
	if (size < SELFMAG || memcmp(ident, ELFMAG, SELFMAG) != 0)
		return error_set(error, -EINVAL, "not an ELF file: no valid header at offset 0");
	if (size < sizeof(parts->header) || parts->size < sizeof(parts->header))
		return error_set(error, -EINVAL,
			"cut short: an ELF header at offset 0 has %zu bytes, of which %zu are left",
			sizeof(parts->header), size);
	module->machine = parts->header.e_machine;
	if (ident[EI_DATA] == ELFDATA2MSB && module->machine != EM_X86_64)
		module->machine = __builtin_bswap16(module->machine);
	module->readable = module->machine == EM_X86_64 ||
			   (ident[EI_CLASS] == ELFCLASS64 && ident[EI_DATA] == ELFDATA2LSB);
	return 0;
}

/* Keeps what is wrong with a signature for those who ask: the module itself may be fine. */
static int keep_trailer_error(struct elf_module *module, int code, const struct error *why)
{
	module->trailer_code = code;
	module->trailer_error = strdup(why->text);
	return module->trailer_error ? 0 : -ENOMEM;
}

static int read_signature(struct elf_module *module, struct elf_file *file, struct error *error)
{
	const struct module_trailer *trailer = &module->trailer;
	const char *bytes;
	int r;

	if (trailer->type != MODULE_TRAILER_CMS || trailer->signature_size > SIGNATURE_SIZE_LIMIT)
		return 0;
	r = elf_file_map(file, trailer->signature_offset, trailer->signature_size, &bytes, error);
	if (r < 0)
		return r;
	module->signature = malloc(trailer->signature_size + 1);
	if (!module->signature)
		return error_set_errno(
			error, -ENOMEM, "%zu bytes of signature", trailer->signature_size);
	if (trailer->signature_size)
		memcpy(module->signature, bytes, trailer->signature_size);
	return 0;
}

/*
 * The kernel takes the signature off before it looks at anything else; of one that it cannot read
 * only the marker (mod_verify_sig() and module_sig_check() of kernel/module/signing.c).
 */
static int read_trailer(struct elf_module *module, struct elf_parts *parts, struct error *error)
{
	uint64_t size = parts->file->size;
	size_t end_size = size < MODULE_TRAILER_SIZE ? (size_t) size : MODULE_TRAILER_SIZE;
	struct error why = { 0 };
	const char *end = NULL;
	int r = elf_file_map(parts->file, size - end_size, end_size, &end, error);

	if (r < 0)
		return r;
	r = module_trailer_parse(end, end_size, size, &module->trailer, &why);
	module->content_size = module->trailer.content_size;
	parts->size = module->content_size;
	if (r < 0) {
		if (keep_trailer_error(module, r, &why) < 0)
			return error_set_errno(error, -ENOMEM, "cannot read");
		return 0;
	}
	return module->trailer.present ? read_signature(module, parts->file, error) : 0;
}

static unsigned int found_or_any(const struct elf_parts *parts, enum elf_known known)
{
	const struct elf_found *found = &parts->found[known];

	return found->allocated ? found->allocated : found->any;
}

static int read_info(struct elf_module *module, const struct elf_parts *parts, struct error *error)
{
	unsigned int index = found_or_any(parts, ELF_MODINFO);
	const Elf64_Shdr *section = &parts->sections[index];
	struct elf_span span;
	uint64_t end, more = 0;
	int r = elf_section_map(parts, index, &span, error);

	if (r == 0 && span.size && span.data[span.size - 1]) {
		end = section->sh_offset + section->sh_size;
		more = parts->size - end < 4096 ? parts->size - end : 4096;
		r = elf_file_map(parts->file, section->sh_offset, section->sh_size + more,
			&span.data, error);
	}
	if (r < 0)
		return r;
	r = modinfo_read(&module->info, span.data, span.size, (size_t) more);
	return r < 0 ? error_set_errno(error, r, "cannot read .modinfo") : 0;
}

static int read_versions(
	struct elf_module *module, const struct elf_parts *parts, struct error *error)
{
	struct elf_span basic = { 0 }, crcs = { 0 }, names = { 0 };
	int r = elf_section_map(parts, parts->found[ELF_VERSIONS].allocated, &basic, error);

	if (r == 0)
		r = elf_section_map(parts, parts->found[ELF_VERSION_CRCS].allocated, &crcs, error);
	if (r == 0)
		r = elf_section_map(
			parts, parts->found[ELF_VERSION_NAMES].allocated, &names, error);
	if (r < 0)
		return r;
	module->has_basic = basic.present;
	module->has_extended = crcs.present;
	if (crcs.present && names.present)
		r = elf_versions_read_extended(&module->versions, &crcs, &names);
	else
		r = elf_versions_read_basic(&module->versions, &basic);
	return r < 0 ? error_set_errno(error, r, "cannot read symbol versions") : 0;
}

static int read_identity(
	struct elf_module *module, const struct elf_parts *parts, struct error *error)
{
	struct elf_span note;
	int r = elf_section_map(parts, parts->found[ELF_BUILD_ID].any, &note, error);

	if (r < 0)
		return r;
	module->build_id_size = elf_note_build_id(&note, module->build_id);
	return read_info(module, parts, error);
}

static int read_content(
	struct elf_module *module, const struct elf_parts *parts, struct error *error)
{
	int r = read_versions(module, parts, error);

	if (r < 0)
		return r;
	module->info_allocated =
		parts->found[ELF_MODINFO].allocated || !parts->found[ELF_MODINFO].any;
	module->struct_size = parts->sections[found_or_any(parts, ELF_THIS_MODULE)].sh_size;
	if (elf_undefined_read(parts, &module->versions, &module->undefined,
		    &module->undefined_count, &module->undefined_names) < 0)
		return error_set_errno(error, -ENOMEM, "cannot read symbols");
	r = elf_exports_read(
		parts, &module->exports, &module->export_count, &module->export_names, error);
	if (r == 0 && elf_format_examine(parts, &module->defects) < 0)
		r = error_set_errno(error, -ENOMEM, "cannot read");
	return r;
}

static int read_module(struct elf_module *module, struct elf_file *file, struct error *error)
{
	_cleanup_(elf_parts_done) struct elf_parts parts = { .file = file, .size = file->size };
	int r = read_trailer(module, &parts, error);

	if (r == 0)
		r = read_ident(module, &parts, error);
	if (r < 0 || !module->readable)
		return r;
	r = elf_parts_read_headers(&parts, error);
	if (r == 0 && !module->brief)
		r = elf_parts_read_tables(&parts, error);
	if (r == 0)
		r = read_identity(module, &parts, error);
	return r < 0 || module->brief ? r : read_content(module, &parts, error);
}

static int open_file(const struct elf_module *module, struct elf_file *file, struct error *error)
{
	if (module->data)
		return elf_file_open_memory(file, module->data, module->data_size, error);
	if (module->mapped)
		return elf_file_open_mapped(file, module->dir_fd, module->path, error);
	return elf_file_open(file, module->dir_fd, module->path, error);
}

static int open_any(const struct elf_module *source, struct elf_module **ret, struct error *error)
{
	_cleanup_(elf_module_close) struct elf_module *module = malloc(sizeof(*module));
	_cleanup_(elf_file_close) struct elf_file file = { .fd = -1 };
	int r;

	if (!module)
		return error_set_errno(error, -ENOMEM, "%s", source->path);
	*module = *source;
	module->path = strdup(source->path);
	if (!module->path)
		return error_set_errno(error, -ENOMEM, "%s", source->path);
	r = open_file(module, &file, error);
	if (r == 0)
		r = read_module(module, &file, error);
	if (r < 0)
		return error_prefix(error, r, "%s", module->path);
	*ret = TAKE_PTR(module);
	return 0;
}

static int open_path(
	struct elf_module source, const char *path, struct elf_module **ret, struct error *error)
{
	_cleanup_free_ char *copy = strdup(path);

	source.path = copy;
	return copy ? open_any(&source, ret, error) : error_set_errno(error, -ENOMEM, "%s", path);
}

int elf_module_open(int dir_fd, const char *path, struct elf_module **ret, struct error *error)
{
	return open_path((struct elf_module){ .dir_fd = dir_fd }, path, ret, error);
}

int elf_module_open_brief(
	int dir_fd, const char *path, struct elf_module **ret, struct error *error)
{
	return open_path((struct elf_module){ .dir_fd = dir_fd, .brief = true }, path, ret, error);
}

int elf_module_open_mapped(
	int dir_fd, const char *path, struct elf_module **ret, struct error *error)
{
	return open_path((struct elf_module){ .dir_fd = dir_fd, .mapped = true }, path, ret, error);
}

int elf_module_open_memory(const void *data, size_t size, const char *name, struct elf_module **ret,
	struct error *error)
{
	_cleanup_free_ char *copy = strdup(name);
	struct elf_module source = {
		.path = copy, .dir_fd = AT_FDCWD, .data = data ? data : "", .data_size = size
	};

	if (!copy)
		return error_set_errno(error, -ENOMEM, "%s", name);
	return open_any(&source, ret, error);
}

void elf_module_close(struct elf_module **module)
{
	struct elf_module *closing = TAKE_PTR(*module);

	if (!closing)
		return;
	modinfo_free(&closing->info);
	elf_versions_free(&closing->versions);
	elf_defects_free(&closing->defects);
	free(closing->undefined);
	free(closing->undefined_names);
	free(closing->exports);
	free(closing->export_names);
	free(closing->trailer_error);
	free(closing->signature);
	free(closing->path);
	free(closing);
}

const char *elf_module_path(const struct elf_module *module)
{
	return module->path;
}

const char *elf_module_name(const struct elf_module *module)
{
	return elf_module_info(module, "name");
}

const char *elf_module_info(const struct elf_module *module, const char *key)
{
	return modinfo_next(&module->info, key, NULL);
}

const char *elf_module_info_next(
	const struct elf_module *module, const char *key, const char *previous)
{
	return modinfo_next(&module->info, key, previous);
}

int elf_module_info_all(const struct elf_module *module, const char *key, struct strv *values)
{
	const char *value = NULL;

	while ((value = modinfo_next(&module->info, key, value)))
		if (strv_push(values, value) < 0)
			return -ENOMEM;
	return 0;
}

void elf_module_build_id(const struct elf_module *module, char hex[BUILD_ID_HEX_SIZE])
{
	hex_copy(module->build_id, module->build_id_size, hex);
}

bool elf_module_has_versions(const struct elf_module *module, bool *ret_basic)
{
	if (ret_basic)
		*ret_basic = module->has_basic;
	return module->has_basic || module->has_extended;
}

bool elf_module_has_extended_versions(const struct elf_module *module)
{
	return module->has_extended;
}

const struct elf_symbol_version *elf_module_versions(
	const struct elf_module *module, size_t *ret_count)
{
	*ret_count = module->versions.count;
	return module->versions.items;
}

bool elf_module_version(const struct elf_module *module, const char *symbol, uint32_t *ret_crc)
{
	const struct elf_symbol_version *found =
		elf_versions_find(&module->versions, symbol, elf_versions_hash(symbol));

	if (found)
		*ret_crc = found->crc;
	return found;
}

const struct elf_undefined *elf_module_undefined_symbols(
	const struct elf_module *module, size_t *ret_count)
{
	*ret_count = module->undefined_count;
	return module->undefined;
}

const struct elf_module_export *elf_module_exports(
	const struct elf_module *module, size_t *ret_count)
{
	*ret_count = module->export_count;
	return module->exports;
}

uint16_t elf_module_machine(const struct elf_module *module)
{
	return module->machine;
}

bool elf_module_is_read(const struct elf_module *module)
{
	return module->readable;
}

uint64_t elf_module_struct_size(const struct elf_module *module)
{
	return module->struct_size;
}

int elf_module_bytes(
	const struct elf_module *module, char **ret_data, size_t *ret_size, struct error *error)
{
	_cleanup_(elf_file_close) struct elf_file file = { .fd = -1 };
	int r = open_file(module, &file, error);

	if (r == 0)
		r = elf_file_take(&file, ret_data, ret_size, error);
	return r < 0 ? error_prefix(error, r, "%s", module->path) : 0;
}

/* A signature that is too large to be kept is read again. */
static int read_large_cms(
	const struct elf_module *module, struct cms_facts *ret_cms, struct error *error)
{
	const struct module_trailer *trailer = &module->trailer;
	_cleanup_(elf_file_close) struct elf_file file = { .fd = -1 };
	const char *bytes = NULL;
	int r = open_file(module, &file, error);

	if (r == 0)
		r = elf_file_map(
			&file, trailer->signature_offset, trailer->signature_size, &bytes, error);
	if (r < 0)
		return error_prefix(error, r, "%s", module->path);
	return cms_read(bytes, trailer->signature_size, trailer->signature_offset, ret_cms, error);
}

int elf_module_trailer(const struct elf_module *module, struct cms_facts *ret_cms,
	bool *ret_present, struct error *error)
{
	const struct module_trailer *trailer = &module->trailer;

	memset(ret_cms, 0, sizeof(*ret_cms));
	*ret_present = trailer->present || module->trailer_code < 0;
	if (module->trailer_code < 0)
		return error_set(error, module->trailer_code, "%s", module->trailer_error);
	if (!trailer->present || trailer->type != MODULE_TRAILER_CMS)
		return 0;
	if (!module->signature)
		return read_large_cms(module, ret_cms, error);
	return cms_read(module->signature, trailer->signature_size, trailer->signature_offset,
		ret_cms, error);
}

bool elf_module_info_is_seen(const struct elf_module *module, unsigned int version)
{
	return module->info_allocated || version >= V(6, 4);
}

int elf_module_check_stage(const struct elf_module *module, unsigned int version,
	enum elf_stage stage, uint32_t *symbol, struct error *error)
{
	if (!module->readable)
		return error_set(error, -ENOEXEC, "not a 64-bit little-endian module");
	return elf_defects_check(&module->defects, version, stage, symbol, error);
}

int elf_module_check_format(
	const struct elf_module *module, unsigned int version, struct error *error)
{
	int r = 0;

	for (enum elf_stage stage = ELF_STAGE_FILE; stage < ELF_STAGE_COUNT && r == 0; stage++)
		r = elf_module_check_stage(module, version, stage, NULL, error);
	return r;
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
	r = open_file(module, &file, error);
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
