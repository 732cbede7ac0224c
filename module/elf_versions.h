/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The symbol versions that a module demands, in both forms that Linux scripts/mod/modpost.c writes:
 * __versions (struct modversion_info in include/linux/module.h: an unsigned long, then the name, 64
 * bytes together) and, since 6.14, the pair __version_ext_crcs (32-bit numbers) and
 * __version_ext_names (NUL-terminated names in the same order). Read as kernel/module/version.c
 * reads them: the first record of a name counts, a rest that makes no record is passed over.
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

struct elf_versions {
	struct elf_symbol_version *items; /* in the file's order, each name once */
	size_t count;
	uint32_t *hashes; /* of the names, by elf_versions_hash() */
	uint32_t *slots;  /* open-addressed index by name: 0 is free, else place + 1 */
	size_t mask;      /* a power of two, less one */
	char *names;
};

/*
 * Reads one form; both copy. -ENOMEM, and nothing else: what is malformed no symbol's name can be
 * equal to. The caller frees @versions with elf_versions_free().
 */
int elf_versions_read_basic(
	struct elf_versions *versions, const struct elf_span *basic) _must_check_;
int elf_versions_read_extended(struct elf_versions *versions, const struct elf_span *crcs,
	const struct elf_span *names) _must_check_;
void elf_versions_free(struct elf_versions *versions);

/* 32-bit FNV-1a. */
uint32_t elf_versions_hash(const char *name);

/* NULL when the module demands no version of @symbol. */
const struct elf_symbol_version *elf_versions_find(
	const struct elf_versions *versions, const char *symbol, uint32_t hash);

/*
 * The basic form of a file that has both, which kernels before 6.14 look at; elf_module_versions()
 * has the extended one then. Reads the file again. The caller frees @ret.
 */
int elf_module_basic_versions(const struct elf_module *module, struct elf_versions *ret,
	struct error *error) _must_check_;
