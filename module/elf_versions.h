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

#include "common/arena.h"
#include "common/error.h"
#include "module/elf_module.h"

/* Bytes of a section, borrowed. */
struct elf_span {
	const char *data;
	size_t size;
	bool present; /* false: the file has no such section */
};

/* Where what is kept of a module lies. */
struct elf_memory {
	struct arena *kept;
	struct arena *index;         /* what finds names, which may go when the module is open */
	const struct symvers *known; /* names that need not be copied, or NULL */
};

/* The record for the layout of struct module, scripts/mod/modpost.c writes one for every module. */
#define ELF_LAYOUT_SYMBOL "module_layout"

struct elf_versions {
	struct elf_symbol_version *items; /* in the file's order, each name once */
	size_t count;
	size_t names_size;                  /* bytes of all names, with their NULs */
	uint32_t *hashes;                   /* of the names, by name_hash() */
	uint32_t *slots;                    /* open-addressed index: 0 is free, else place + 1 */
	size_t mask;                        /* a power of two, less one */
	const struct symvers_entry **known; /* of the names, where memory.known has them; or NULL */
};

/*
 * Reads one form; until elf_versions_keep() the names lie in the section that was read. -ENOMEM,
 * and nothing else: what is malformed no symbol's name can be equal to.
 */
int elf_versions_read_basic(struct elf_versions *versions, const struct elf_span *basic,
	const struct elf_memory *memory) _must_check_;
int elf_versions_read_extended(struct elf_versions *versions, const struct elf_span *crcs,
	const struct elf_span *names, const struct elf_memory *memory) _must_check_;
/* Looks which names are known, and copies the others. */
int elf_versions_keep(struct elf_versions *versions, const struct elf_memory *memory) _must_check_;

/* NULL when the module demands no version of @symbol. @hash: of that, by name_hash(). */
const struct elf_symbol_version *elf_versions_find(
	const struct elf_versions *versions, const char *symbol, uint32_t hash);
/* The same by comparing all names, which needs no index. */
const struct elf_symbol_version *elf_versions_search(
	const struct elf_versions *versions, const char *symbol);

/*
 * The basic form of a file that has both, which kernels before 6.14 look at; elf_module_versions()
 * has the extended one then. Reads the file again. What @ret has lies in @memory, the caller's.
 */
int elf_module_basic_versions(const struct elf_module *module, struct arena *memory,
	struct elf_versions *ret, struct error *error) _must_check_;
