/* SPDX-License-Identifier: Apache-2.0 */
#include "module/elf_internal.h"

#include <fcntl.h>
#include <string.h>

#include "common/hash.h"

/* Signatures have some 700 bytes; no kernel reads more, and cms_read() refuses it by its size. */
#define SIGNATURE_SIZE_LIMIT ((size_t) 64 * 1024)

/* The chunk size of a pool: twice what is read of most modules. */
#define PASSING_CHUNK ((size_t) 1024 * 1024)

/* The class and byte order that e_ident states are nothing that the kernel looks at. */
static int read_ident(struct elf_module *module, struct elf_parts *parts, struct error *error)
{
	size_t size = parts->file->size < sizeof(parts->header) ? (size_t) parts->file->size
								: sizeof(parts->header);
	const unsigned char *ident = parts->header.e_ident;
	const char *bytes = NULL;
	bool known;
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
	known = elf_machine_find(module->machine);
	if (ident[EI_DATA] == ELFDATA2MSB && !known)
		module->machine = __builtin_bswap16(module->machine);
	module->readable =
		known || (ident[EI_CLASS] == ELFCLASS64 && ident[EI_DATA] == ELFDATA2LSB);
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
	const char *end = NULL, *bytes = NULL;
	struct module_trailer trailer;
	struct error why = { 0 };
	char *text;
	int r = elf_file_map(parts->file, size - end_size, end_size, &end, error);

	if (r < 0)
		return r;
	r = module_trailer_parse(end, end_size, size, &trailer, &why);
	module->content_size = parts->size = trailer.content_size;
	module->is_signed = trailer.present;
	if (r == 0 && !trailer.present)
		return 0;
	if (r == 0 && trailer.signature_size <= SIGNATURE_SIZE_LIMIT) {
		r = elf_file_map(parts->file, trailer.signature_offset, trailer.signature_size,
			&bytes, error);
		if (r < 0)
			return r;
	}
	if (r == 0)
		r = cms_read(bytes, trailer.signature_size, trailer.signature_offset, &module->cms,
			&why);
	if (r == 0)
		return 0;
	/* Kept for those who ask: the module itself may be fine. */
	text = arena_alloc(module->memory, strlen(why.text) + 1);
	if (!text)
		return error_set_errno(error, -ENOMEM, "cannot read");
	module->signature_code = r;
	module->signature_error = memcpy(text, why.text, strlen(why.text) + 1);
	return 0;
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

	if (r < 0)
		return r;
	if (span.size && span.data[span.size - 1]) {
		end = section->sh_offset + section->sh_size;
		more = parts->size - end < 4096 ? parts->size - end : 4096;
		r = elf_file_map(parts->file, section->sh_offset, section->sh_size + more,
			&span.data, error);
		if (r < 0)
			return r;
	}
	r = modinfo_read(&module->info, span.data, span.size, (size_t) more, module->memory);
	return r < 0 ? error_set_errno(error, r, "cannot read .modinfo") : 0;
}

static int read_versions(
	struct elf_module *module, const struct elf_parts *parts, struct error *error)
{
	struct elf_span basic, crcs, names;
	int r = elf_section_map(parts, parts->found[ELF_VERSIONS].allocated, &basic, error);

	if (r < 0)
		return r;
	r = elf_section_map(parts, parts->found[ELF_VERSION_CRCS].allocated, &crcs, error);
	if (r < 0)
		return r;
	r = elf_section_map(parts, parts->found[ELF_VERSION_NAMES].allocated, &names, error);
	if (r < 0)
		return r;
	module->has_basic = basic.present;
	module->has_extended = crcs.present;
	if (basic.present && crcs.present)
		r = elf_versions_read_basic(&module->basic_versions, &basic, module->memory);
	if (r == 0 && crcs.present && names.present)
		r = elf_versions_read_extended(&module->versions, &crcs, &names, module->memory);
	else if (r == 0)
		r = elf_versions_read_basic(&module->versions, &basic, module->memory);
	return r < 0 ? error_set_errno(error, r, "cannot read symbol versions") : 0;
}

static int read_struct_name(
	struct elf_module *module, const struct elf_parts *parts, struct error *error)
{
	const size_t limit = sizeof(module->struct_name) - 1;
	struct elf_span span;
	int r = elf_section_map(parts, found_or_any(parts, ELF_THIS_MODULE), &span, error);

	if (r < 0 || span.size <= STRUCT_NAME_OFFSET)
		return r;
	span.data += STRUCT_NAME_OFFSET;
	span.size -= STRUCT_NAME_OFFSET;
	memcpy(module->struct_name, span.data,
		strnlen(span.data, span.size < limit ? span.size : limit));
	return 0;
}

static int read_content(
	struct elf_module *module, const struct elf_parts *parts, struct error *error)
{
	int r = read_versions(module, parts, error);

	if (r == 0)
		r = read_struct_name(module, parts, error);
	if (r < 0)
		return r;
	module->info_allocated =
		parts->found[ELF_MODINFO].allocated || !parts->found[ELF_MODINFO].any;
	module->has_init_trampoline = parts->found[ELF_INIT_TRAMPOLINE].any;
	module->struct_size = parts->sections[found_or_any(parts, ELF_THIS_MODULE)].sh_size;
	if (elf_undefined_read(parts, &module->versions, module->memory, &module->undefined,
		    &module->undefined_count) < 0)
		return error_set_errno(error, -ENOMEM, "cannot read symbols");
	module->layout = elf_versions_find(
		&module->versions, ELF_LAYOUT_SYMBOL, name_hash(ELF_LAYOUT_SYMBOL));
	/*
	 * For thousands of modules the index would be most of their memory, and it is hardly used.
	 */
	if (module->pool)
		name_table_free(&module->versions.index);
	r = elf_exports_read(parts, module->memory, &module->exports, &module->export_count, error);
	if (r < 0)
		return r;
	if (elf_check(parts, &module->defects) < 0)
		return error_set_errno(error, -ENOMEM, "cannot read");
	return 0;
}

static int read_module(struct elf_module *module, struct elf_file *file, struct error *error)
{
	_cleanup_(elf_parts_done) struct elf_parts parts = { .file = file, .size = file->size };
	struct elf_span note;
	int r = read_trailer(module, &parts, error);

	if (r < 0)
		return r;
	r = read_ident(module, &parts, error);
	if (r < 0 || !module->readable)
		return r;
	r = module->brief ? elf_parts_read_headers(&parts, error) : elf_parts_read(&parts, error);
	if (r < 0)
		return r;
	r = elf_section_map(&parts, parts.found[ELF_BUILD_ID].any, &note, error);
	if (r < 0)
		return r;
	module->build_id_size = build_id_of_notes(note.data, note.size, module->build_id);
	r = read_info(module, &parts, error);
	return r < 0 || module->brief ? r : read_content(module, &parts, error);
}

static int open_file(const struct elf_module *module, struct elf_file *file, struct arena *memory,
	struct error *error)
{
	if (module->data)
		return elf_file_open_memory(file, module->data, module->data_size, error);
	return elf_file_open(file, module->dir_fd, module->path, module->mapped, memory, error);
}

static struct elf_module *new_module(const struct elf_module *source)
{
	struct elf_pool *pool = source->pool;
	struct elf_module *module =
		pool ? arena_alloc(&pool->kept, sizeof(*module)) : malloc(sizeof(*module));
	size_t size = strlen(source->path) + 1;
	char *path;

	if (!module)
		return NULL;
	*module = *source;
	module->memory = pool ? &pool->kept : &module->own;
	path = arena_alloc(module->memory, size);
	if (path)
		module->path = memcpy(path, source->path, size);
	else
		elf_module_close(&module);
	return module;
}

static int open_any(const struct elf_module *source, struct elf_module **ret, struct error *error)
{
	_cleanup_(elf_module_close) struct elf_module *module = new_module(source);
	_cleanup_(elf_file_close) struct elf_file file = { .fd = -1 };
	int r;

	if (!module)
		return error_set_errno(error, -ENOMEM, "%s", source->path);
	r = open_file(module, &file, module->pool ? &module->pool->passing : NULL, error);
	if (r == 0)
		r = read_module(module, &file, error);
	if (module->pool)
		arena_reset(&module->pool->passing);
	if (r < 0)
		return error_prefix(error, r, "%s", module->path);
	*ret = TAKE_PTR(module);
	return 0;
}

int elf_module_open(int dir_fd, const char *path, struct elf_module **ret, struct error *error)
{
	return open_any(&(struct elf_module){ .path = path, .dir_fd = dir_fd }, ret, error);
}

int elf_module_open_mapped(
	int dir_fd, const char *path, struct elf_module **ret, struct error *error)
{
	return open_any(
		&(struct elf_module){ .path = path, .dir_fd = dir_fd, .mapped = true }, ret, error);
}

int elf_module_open_brief(
	int dir_fd, const char *path, struct elf_module **ret, struct error *error)
{
	return open_any(
		&(struct elf_module){ .path = path, .dir_fd = dir_fd, .brief = true }, ret, error);
}

int elf_module_open_memory(const void *data, size_t size, const char *name, struct elf_module **ret,
	struct error *error)
{
	return open_any(&(struct elf_module){ .path = name,
				.dir_fd = AT_FDCWD,
				.data = data ? data : "",
				.data_size = size },
		ret, error);
}

int elf_module_open_pooled(struct elf_pool *pool, int dir_fd, const char *path,
	struct elf_module **ret, struct error *error)
{
	return open_any(
		&(struct elf_module){ .path = path, .dir_fd = dir_fd, .pool = pool }, ret, error);
}

void elf_module_close(struct elf_module **module)
{
	struct elf_module *closing = TAKE_PTR(*module);

	if (!closing)
		return;
	elf_defects_free(&closing->defects);
	name_table_free(&closing->versions.index);
	name_table_free(&closing->basic_versions.index);
	if (closing->pool)
		return;
	arena_free(&closing->own);
	free(closing);
}

int elf_pool_new(struct elf_pool **ret)
{
	struct elf_pool *pool = malloc(sizeof(*pool));

	if (!pool)
		return -ENOMEM;
	*pool = (struct elf_pool){ .kept = { .chunk_size = ARENA_HUGE_CHUNK, .huge = true },
		.passing = { .chunk_size = PASSING_CHUNK } };
	*ret = pool;
	return 0;
}

void elf_pool_free(struct elf_pool **pool)
{
	struct elf_pool *freeing = TAKE_PTR(*pool);

	if (!freeing)
		return;
	arena_free(&freeing->kept);
	arena_free(&freeing->passing);
	free(freeing);
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

const struct elf_symbol_version *elf_module_versions(
	const struct elf_module *module, size_t *ret_count)
{
	*ret_count = module->versions.count;
	return module->versions.items;
}

bool elf_module_version(const struct elf_module *module, const char *symbol, uint32_t *ret_crc)
{
	const struct elf_symbol_version *found =
		elf_versions_find(&module->versions, symbol, name_hash(symbol));

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

uint64_t elf_module_struct_size(const struct elf_module *module)
{
	return module->struct_size;
}

int elf_module_trailer(const struct elf_module *module, struct cms_facts *ret_cms,
	bool *ret_present, struct error *error)
{
	*ret_cms = module->cms;
	*ret_present = module->is_signed;
	return module->signature_code < 0
		       ? error_set(error, module->signature_code, "%s", module->signature_error)
		       : 0;
}

int elf_module_check_format(
	const struct elf_module *module, unsigned int version, struct error *error)
{
	const struct elf_kernel kernel = { .version = version };

	if (!module->readable)
		return error_set(error, -ENOEXEC, "not a 64-bit little-endian module");
	for (enum elf_stage stage = ELF_STAGE_FILE; stage < ELF_STAGE_COUNT; stage++) {
		int r = elf_defects_find(&module->defects, &kernel, stage, NULL, error);

		if (r < 0)
			return r;
	}
	return 0;
}

int elf_module_try_relocations(const struct elf_module *module, unsigned int version,
	const struct elf_absent *absent, struct error *error)
{
	_cleanup_(elf_file_close) struct elf_file file = { .fd = -1 };
	_cleanup_(elf_parts_done) struct elf_parts parts = { .file = &file,
		.size = module->content_size };
	const char *bytes;
	int r;

	if (!module->readable)
		return 0;
	r = open_file(module, &file, NULL, error);
	if (r < 0)
		return r;
	if (parts.size > file.size)
		return error_set(error, -EINVAL, "changed while it was read");
	r = elf_file_map(&file, 0, file.size, &bytes, error);
	if (r < 0)
		return r;
	memcpy(&parts.header, bytes, sizeof(parts.header));
	r = elf_parts_read(&parts, error);
	return r < 0 ? r : elf_relocations_check(&parts, version, absent, error);
}

int elf_module_check_relocations(
	const struct elf_module *module, unsigned int version, struct error *error)
{
	return elf_module_try_relocations(module, version, NULL, error);
}

int elf_module_bytes(
	const struct elf_module *module, char **ret_data, size_t *ret_size, struct error *error)
{
	_cleanup_(elf_file_close) struct elf_file file = { .fd = -1 };
	const char *bytes = NULL;
	int r = open_file(module, &file, NULL, error);

	if (r < 0)
		return error_prefix(error, r, "%s", module->path);
	*ret_size = (size_t) file.size;
	if (file.unpacked) {
		*ret_data = TAKE_PTR(file.unpacked);
		return 0;
	}
	r = elf_file_map(&file, 0, file.size, &bytes, error);
	if (r < 0)
		return error_prefix(error, r, "%s", module->path);
	*ret_data = malloc((size_t) file.size + 1);
	if (!*ret_data)
		return error_set_errno(error, -ENOMEM, "%s: cannot read", module->path);
	memcpy(*ret_data, bytes, (size_t) file.size);
	return 0;
}
