/* SPDX-License-Identifier: Apache-2.0 */
/* What an open module says: elf_module_open.c has filled it in. */
#include "module/elf_module.h"

#include <string.h>

#include "common/hex.h"
#include "common/name_hash.h"
#include "module/elf_module_parts.h"

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

const struct elf_symbol_version *elf_module_layout(const struct elf_module *module)
{
	return module->layout;
}

bool elf_module_version(const struct elf_module *module, const char *symbol, uint32_t *ret_crc)
{
	const struct elf_versions *versions = &module->versions;
	const struct elf_symbol_version *found =
		versions->slots ? elf_versions_find(versions, symbol, name_hash(symbol))
				: elf_versions_search(versions, symbol);

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

uint32_t elf_undefined_hash(const struct elf_undefined *undefined)
{
	return undefined->known ? name_hash(undefined->name) : undefined->number;
}

const struct elf_module_export *elf_module_exports(
	const struct elf_module *module, size_t *ret_count)
{
	*ret_count = module->export_count;
	return module->exports;
}

const struct symvers *elf_module_known(const struct elf_module *module)
{
	return module->known;
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
	if (module->cms) {
		*ret_cms = *module->cms;
		return 0;
	}
	if (!module->signature)
		return elf_module_read_large_cms(module, ret_cms, error);
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
