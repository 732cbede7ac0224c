/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The symbol versions that a module demands, in both forms that Linux scripts/mod/modpost.c writes:
 * __versions (struct modversion_info in include/linux/module.h: an unsigned long, then the name, 64
 * bytes together) and, since 6.14, the pair __version_ext_crcs (32-bit numbers) and
 * __version_ext_names (NUL-terminated names in the same order).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/error.h"
#include "module/elf_module.h"

/* Bytes of a section, borrowed. */
struct elf_span {
	const char *data;
	size_t size;
	bool present; /* false: the file has no such section */
};

struct elf_versions_layout {
	size_t long_size; /* bytes of the kernel's unsigned long: 4 or 8 */
	bool big_endian;
};

struct elf_versions {
	struct elf_symbol_version
		*items; /* sorted by name; the names are borrowed from the spans */
	size_t count;
};

/*
 * Reads either form, the extended one where the file has both, as the kernel does. The caller frees
 * @versions with elf_versions_free() and keeps the spans until then. -EINVAL with the offset within
 * the section for a malformed one, or -ENOMEM.
 */
int elf_versions_read(struct elf_versions *versions, const struct elf_versions_layout *layout,
	const struct elf_span *basic, const struct elf_span *ext_crcs,
	const struct elf_span *ext_names, struct error *error) _must_check_;
void elf_versions_free(struct elf_versions *versions);

/* NULL when the module demands no version of @symbol. */
const struct elf_symbol_version *elf_versions_find(
	const struct elf_versions *versions, const char *symbol);
