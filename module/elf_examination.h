/* SPDX-License-Identifier: Apache-2.0 */
/* What elf_format.c and elf_layout.c share. */
#pragma once

#include <string.h>

#include "module/elf_parts.h"

/* module_enforce_rwx_sections(), of 5.7. */
#define SINCE_RWX V(5, 7)
/* struct kernel_symbol has a name space. */
#define SINCE_NAME_SPACES V(5, 4)
/* Sections are counted and struct module is measured since then (elf_validity_check()). */
#define SINCE_UNIQUE V(6, 4)
/* elf_validity_cache_secstrings() and the others, in place of one function. */
#define SINCE_SPLIT V(6, 12)
/* elf_validity_cache_strtab(). */
#define SINCE_STRTAB V(6, 13)
/* elf_validity_cache_index_versions(). */
#define SINCE_EXTENDED V(6, 14)
/*
 * check_export_symbol_sections(): one table of exports, with flags that tell the GPL-only ones; 7.2
 * has it, 6.12 not, and it is younger than 7.0.
 */
#define SINCE_FLAGS V(7, 2)

#define NOT_CHECKED "this kernel does not check it and would read what is not there"

#define CRC_SIZE 4

struct examination {
	const struct elf_parts *parts;
	struct elf_defects *defects;
};

static inline unsigned long long ull(uint64_t number)
{
	return number;
}

/* elf_layout.c: what the kernel minds from layout_and_allocate() on, by stages. */
int elf_layout_examine(struct examination *test) _must_check_;
