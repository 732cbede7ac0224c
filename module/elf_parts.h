/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A module file while it is opened: its headers and tables, checked and found, before what is kept
 * of them is copied into struct elf_module. Internal to the reader (module/elf_*.c).
 *
 * 64-bit little-endian files only. Sections are found as Linux kernel/module/main.c finds them: the
 * first of the name that is SHF_ALLOC (find_sec()).
 */
#pragma once

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "common/error.h"
#include "module/elf_file.h"
#include "module/elf_module.h"
#include "module/elf_versions.h"
#include "module/modinfo.h"

/* A kernel's version, as elf_module_check_format() has it. */
#define V(major, minor) ((major) << 8 | (minor))

#define SHF_RELA_LIVEPATCH 0x00100000 /* include/uapi/linux/elf.h */

/* struct module of 64-bit machines begins with an enum and a list_head. */
#define STRUCT_NAME_OFFSET 24

/* Sections that the kernel or we look for by name. */
enum elf_known {
	ELF_MODINFO,
	ELF_THIS_MODULE,
	ELF_VERSIONS,
	ELF_VERSION_CRCS,
	ELF_VERSION_NAMES,
	ELF_BUILD_ID,
	ELF_KSYMTAB,
	ELF_KSYMTAB_GPL,
	ELF_KCRCTAB,
	ELF_KCRCTAB_GPL,
	ELF_KFLAGSTAB,
	ELF_KSYMTAB_STRINGS,
	ELF_PERCPU,
	ELF_KNOWN_COUNT,
};

struct elf_found {
	unsigned int allocated; /* index of the first with SHF_ALLOC; 0: none */
	unsigned int any;       /* index of the first; 0: none */
	unsigned int count;     /* how many of the name there are */
};

/* What a range of kernel versions minds; see elf_format.c. */
struct elf_defect {
	struct elf_defect *next;
	unsigned int from;   /* the first version, major << 8 | minor */
	unsigned int before; /* the first later one that does not mind; 0: all later ones do */
	int code;            /* as elf_module_check_format() returns it */
	enum elf_stage stage;
	uint32_t symbol; /* index, in ELF_STAGE_SYMBOLS */
	char text[];
};

struct elf_defects {
	struct elf_defect *first;
	struct elf_defect *last;
	enum elf_stage stage; /* of what is added next */
	uint32_t symbol;
};

struct elf_parts {
	struct elf_file *file;
	uint64_t size; /* of the content that the kernel looks at, without a signature */
	Elf64_Ehdr header;
	const Elf64_Shdr *sections; /* header.e_shnum of them */
	Elf64_Shdr *copied;         /* where they do not lie aligned in the file; or NULL */
	const char *names;          /* of sections; ends with a NUL */
	uint64_t names_size;
	struct elf_found found[ELF_KNOWN_COUNT];
	unsigned int symtab;
	unsigned int symtab_count; /* how many such sections there are */
	unsigned int strtab;
	const char *symbols; /* as in the file: maybe not aligned */
	size_t symbol_count;
	struct {
		uint64_t flags;        /* sh_flags of all in one */
		uint32_t largest_name; /* sh_name */
		bool beyond;           /* in its place, which may be not in the file */
		bool has_rel;          /* of type SHT_REL */
		bool odd;        /* in a size or alignment: none that the kernel lays out right */
		uint64_t memory; /* that they take at most, unless they are odd */
	} section_facts;
	struct {
		size_t undefined; /* how many have no section; the first in the table is none */
		size_t first_undefined; /* its index; not below the count when there is none */
		uint32_t largest_name;  /* st_name */
		bool misplaced;         /* any lies in no section of the file, nor is it absolute */
	} symbol_facts;
	const char *strings; /* of symbols; maybe without a NUL at its end */
	uint64_t strings_size;
};

/*
 * elf_sections.c: reads and checks what every kernel checks, headers, then the tables of symbols;
 * elf_parts_read() does both. -EINVAL with the offset.
 */
int elf_parts_read_headers(struct elf_parts *parts, struct error *error) _must_check_;
int elf_parts_read_tables(struct elf_parts *parts, struct error *error) _must_check_;
int elf_parts_read(struct elf_parts *parts, struct error *error) _must_check_;
void elf_parts_done(struct elf_parts *parts);

/* The name of a section; "" where its place is not within the names. */
const char *elf_section_name(const struct elf_parts *parts, unsigned int index);
/* Maps a section's bytes. One that has none in the file, or not all, gives an empty span. */
int elf_section_map(const struct elf_parts *parts, unsigned int index, struct elf_span *ret,
	struct error *error) _must_check_;
/* Whether the kernel gives it memory of the module's own. */
static inline bool elf_section_is_loaded(const struct elf_parts *parts, unsigned int index)
{
	return parts->sections[index].sh_flags & SHF_ALLOC &&
	       index != parts->found[ELF_MODINFO].allocated &&
	       index != parts->found[ELF_VERSIONS].allocated;
}
/* Whether its bytes lie in the file, whatever its type says. */
bool elf_section_in_file(const struct elf_parts *parts, const Elf64_Shdr *section);

static inline void elf_symbol_at(const struct elf_parts *parts, size_t index, Elf64_Sym *ret)
{
	memcpy(ret, parts->symbols + index * sizeof(*ret), sizeof(*ret));
}

/* "" where it is not within the strings; *@ret_size is without the NUL. */
const char *elf_symbol_name(const struct elf_parts *parts, const Elf64_Sym *symbol);

#define BUILD_ID_SIZE_LIMIT ((BUILD_ID_HEX_SIZE - 1) / 2)

/* elf_note.c: the bytes of the build id, and how many there are; 0: none. */
size_t elf_note_build_id(const struct elf_span *note, unsigned char id[BUILD_ID_SIZE_LIMIT]);

/* elf_exports.c */
int elf_exports_read(const struct elf_parts *parts, const struct elf_memory *memory,
	struct elf_module_export **ret, size_t *ret_count, struct error *error) _must_check_;

/* elf_undefined.c: names that @versions have are borrowed from there; these are kept, too. */
int elf_undefined_read(const struct elf_parts *parts, struct elf_versions *versions,
	const struct elf_memory *memory, struct elf_undefined **ret,
	size_t *ret_count) _must_check_;

/* elf_format.c: what versions of the kernel mind beyond that. Never fails but with -ENOMEM. */
int elf_format_examine(const struct elf_parts *parts, struct elf_defects *defects) _must_check_;

/* Notes that versions from @from on and before @before (0: and all later ones) mind something. */
int elf_defect_add(struct elf_defects *defects, unsigned int from, unsigned int before, int code,
	const char *format, ...) _printf_(5, 6) _must_check_;
void elf_defects_free(struct elf_defects *defects);
/* As elf_module_check_stage(). */
int elf_defects_check(const struct elf_defects *defects, unsigned int version, enum elf_stage stage,
	uint32_t *symbol, struct error *error) _must_check_;

/* elf_relocations.c: 0, or what the kernel minds; reads the whole file. */
int elf_relocations_check(
	const struct elf_parts *parts, unsigned int version, struct error *error) _must_check_;
