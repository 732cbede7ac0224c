/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reader of module files from inside: headers and tables while a file is open, and what is kept
 * of them. 64-bit little-endian files only. Sections are found as Linux kernel/module/main.c finds
 * them: the first of the name that is SHF_ALLOC (find_sec()).
 */
#pragma once

#include <elf.h>
#include <string.h>

#include "common/arena.h"
#include "module/elf.h"
#include "module/proof.h"

/* struct module of 64-bit machines begins with an enum and a list_head. */
#define STRUCT_NAME_OFFSET 24

/* For "%llu". */
static inline unsigned long long ull(uint64_t number)
{
	return number;
}

/* ---- names.c: names to numbers, by open addressing. Names are borrowed. Zeroed, it is empty. */

#define NAME_NONE UINT32_MAX

struct name_table {
	struct name_slot {
		const char *name; /* NULL: free */
		uint32_t hash;
		uint32_t number;
	} * slots;
	size_t slot_count; /* a power of two, at least twice what it holds */
};

/* Room for @count names in all. -ENOMEM. */
int name_table_reserve(struct name_table *table, size_t count) _must_check_;
/*
 * Puts @name, for which there has to be room, unless it is there; returns the number that it has
 * now. @hash: by name_hash().
 */
uint32_t *name_table_put(struct name_table *table, const char *name, uint32_t number);
uint32_t *name_table_put_hashed(
	struct name_table *table, const char *name, uint32_t hash, uint32_t number);
/* Or NAME_NONE. */
uint32_t name_table_find(const struct name_table *table, const char *name);
uint32_t name_table_find_hashed(const struct name_table *table, const char *name, uint32_t hash);
void name_table_free(struct name_table *table);

/* ---- the bytes of a file */

struct elf_window;

/*
 * The source of a module file's bytes: a plain file of which only some parts are read, a packed
 * file, which is unpacked, or a buffer, packed or not.
 */
struct elf_file {
	int fd;            /* or -1 */
	const char *image; /* the whole content, where there is it; or NULL */
	char *unpacked;    /* what of it is ours to free, */
	void *mapped;      /* and to unmap */
	size_t mapped_size;
	uint64_t size; /* of the unpacked content */
	struct elf_window *windows;
	struct arena *memory; /* that these lie in */
	struct arena own;     /* where the caller has none for them */
};

/*
 * Both leave @file empty on failure; messages do not name the file. @mapped: the file is mapped,
 * not read (elf_module_open_mapped()). @memory, or NULL: where what is read lies; it is the
 * caller's to take back after elf_file_close().
 */
int elf_file_open(struct elf_file *file, int dir_fd, const char *path, bool mapped,
	struct arena *memory, struct error *error) _must_check_;
int elf_file_open_memory(
	struct elf_file *file, const void *data, size_t size, struct error *error) _must_check_;
void elf_file_close(struct elf_file *file);

/*
 * Gives the @size bytes at @offset, which have to lie within the file, until elf_file_close(). They
 * are read in one piece; what lies in a piece that was read before is not read again.
 */
int elf_file_map(struct elf_file *file, uint64_t offset, uint64_t size, const char **ret,
	struct error *error) _must_check_;

/* ---- cms.c */

/* Bytes of a message, borrowed from it. */
struct cms_bytes {
	const unsigned char *data;
	size_t size;
};

/* The first signer, as the message has it. Either issuer and serial or key_id is there. */
struct cms_signer {
	struct cms_bytes issuer; /* the content of the name's SEQUENCE */
	struct cms_bytes serial, key_id, signature;
};

/* As cms_read(), and the signer, to check it. @signer may be NULL. */
int cms_read_signer(const void *data, size_t size, size_t offset, struct cms_facts *ret,
	struct cms_signer *signer, struct error *error) _must_check_;

/* ---- .modinfo: "key=value" strings, found as the kernel's get_next_modinfo() finds them */

struct modinfo {
	char *text;  /* the strings; a NUL ends the last one */
	size_t size; /* of the section: no string begins behind it */
	struct modinfo_entry {
		uint32_t offset; /* where in the text it begins */
		uint32_t mark;   /* of its key: most that differ show here already; 0: no '=' */
	} * entries;
	size_t count;
};

/*
 * Copies the @size bytes of the section at @data, of which @more follow in the file: a last string
 * without an end goes on there, as it does for the kernel. What @info has lies in @memory, the
 * caller's. -ENOMEM; -EFBIG for 4 GiB.
 */
int modinfo_read(struct modinfo *info, const char *data, size_t size, size_t more,
	struct arena *memory) _must_check_;

/* The value of @key after @previous, the first for NULL; NULL at the end. */
const char *modinfo_next(const struct modinfo *info, const char *key, const char *previous);

/* ---- build ids: sysmodule.c */

#define BUILD_ID_SIZE ((BUILD_ID_HEX_SIZE - 1) / 2)

/* The bytes of the build id in @size bytes of ELF notes, and how many there are; 0: none. */
size_t build_id_of_notes(const char *notes, size_t size, unsigned char id[BUILD_ID_SIZE]);

/* ---- symbol versions */

/* Bytes of a section, borrowed. */
struct elf_span {
	const char *data;
	size_t size;
	bool present; /* false: the file has no such section */
};

/*
 * The symbol versions that a module demands, in both forms that Linux scripts/mod/modpost.c writes:
 * __versions (struct modversion_info in include/linux/module.h: an unsigned long, then the name, 64
 * bytes together) and, since 6.14, the pair __version_ext_crcs (32-bit numbers) and
 * __version_ext_names (NUL-terminated names in the same order). They are read as
 * kernel/module/version.c reads them: the first record of a name counts, and a remainder that is no
 * full record is ignored.
 */
struct elf_versions {
	struct elf_symbol_version *items; /* in the file's order, each name once */
	size_t count;
	struct name_table index; /* of the names; once it is freed, all are compared */
};

/*
 * Reads one form. Items and names lie in @memory, the caller's. -ENOMEM, and nothing else: what is
 * malformed no symbol's name can be equal to.
 */
int elf_versions_read_basic(struct elf_versions *versions, const struct elf_span *basic,
	struct arena *memory) _must_check_;
int elf_versions_read_extended(struct elf_versions *versions, const struct elf_span *crcs,
	const struct elf_span *names, struct arena *memory) _must_check_;

/* NULL when the module demands no version of @symbol. @hash: of that, by name_hash(). */
const struct elf_symbol_version *elf_versions_find(
	const struct elf_versions *versions, const char *symbol, uint32_t hash);

/* ---- a file while it is opened: headers and tables, checked and found */

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
	ELF_INIT_TRAMPOLINE,
	ELF_KNOWN_COUNT,
};

struct elf_found {
	unsigned int allocated; /* index of the first with SHF_ALLOC; 0: none */
	unsigned int any;       /* index of the first; 0: none */
	unsigned int count;     /* how many of the name there are */
};

struct elf_parts {
	struct elf_file *file;
	uint64_t size; /* of the content that the kernel looks at, without a signature */
	Elf64_Ehdr header;
	const Elf64_Shdr *sections;
	Elf64_Shdr *copied; /* where they do not lie aligned in the file; or NULL */
	const char *names;  /* of sections; ends with a NUL */
	uint64_t names_size;
	struct elf_found found[ELF_KNOWN_COUNT];
	unsigned int symtab, symtab_count, strtab;
	const char *symbols; /* as in the file: maybe not aligned */
	size_t symbol_count;
	const char *strings; /* of symbols; maybe without a NUL at its end */
	uint64_t strings_size;
};

/*
 * Reads and checks what every kernel checks: headers, or headers and the tables of symbols. -EINVAL
 * with the offset.
 */
int elf_parts_read_headers(struct elf_parts *parts, struct error *error) _must_check_;
int elf_parts_read(struct elf_parts *parts, struct error *error) _must_check_;
void elf_parts_done(struct elf_parts *parts);

/* The name of a section; "" where its place is not within the names. */
const char *elf_section_name(const struct elf_parts *parts, unsigned int index);
/* Maps a section's bytes. One that has none in the file, or not all, gives an empty span. */
int elf_section_map(const struct elf_parts *parts, unsigned int index, struct elf_span *ret,
	struct error *error) _must_check_;
/* Whether its bytes lie in the file, whatever its type says. */
bool elf_section_in_file(const struct elf_parts *parts, const Elf64_Shdr *section);
/* Whether the kernel gives it memory of the module's own. */
static inline bool elf_section_is_loaded(const struct elf_parts *parts, unsigned int index)
{
	return parts->sections[index].sh_flags & SHF_ALLOC &&
	       index != parts->found[ELF_MODINFO].allocated &&
	       index != parts->found[ELF_VERSIONS].allocated;
}

static inline void elf_symbol_at(const struct elf_parts *parts, size_t index, Elf64_Sym *ret)
{
	memcpy(ret, parts->symbols + index * sizeof(*ret), sizeof(*ret));
}

/* "" where it is not within the strings. */
const char *elf_symbol_name(const struct elf_parts *parts, const Elf64_Sym *symbol);

/* elf_symbols.c */
/* The bytes of a field, 4 or 8, in the table of exports that is section @entries. */
size_t elf_export_field(const struct elf_parts *parts, unsigned int entries);
int elf_exports_read(const struct elf_parts *parts, struct arena *memory,
	struct elf_module_export **ret, size_t *ret_count, struct error *error) _must_check_;
/* Names that @versions have are borrowed from there. */
int elf_undefined_read(const struct elf_parts *parts, const struct elf_versions *versions,
	struct arena *memory, struct elf_undefined **ret, size_t *ret_count) _must_check_;

/* ---- elf_machines.c: the differences between machines */

/* A kernel's version, as elf_module_check_format() has it. */
#define ELF_VERSION(major, minor) ((major) << 8 | (minor))

/* A kernel, as far as its rules for a file hang on it. */
struct elf_kernel {
	unsigned int version;                 /* 0: not known */
	const struct kernel_options *options; /* NULL: not known */
};

/* Options of the kernel that a rule may hang on. */
enum elf_option {
	ELF_OPTION_NONE,
	ELF_OPTION_PLTS,          /* on arm64: it moves far calls to PLTs */
	ELF_OPTION_FTRACE,        /* and has trampolines to its tracer, */
	ELF_OPTION_INIT_FTRACE,   /* one of them for init functions, */
	ELF_OPTION_NO_INIT_ROOM,  /* or makes no room for that one; */
	ELF_OPTION_SHADOW_STACKS, /* it patches code to use them */
};

enum proof_option elf_kernel_option(const struct elf_kernel *kernel, enum elf_option which);

/* When the kernel looks: what it answers is what it minds first. */
enum elf_stage {
	ELF_STAGE_FILE,    /* before it looks at what .modinfo states */
	ELF_STAGE_LAYOUT,  /* then, when it lays out the module's memory */
	ELF_STAGE_SYMBOLS, /* among the undefined symbols, in the order of the table */
	ELF_STAGE_RELOCATIONS,
	ELF_STAGE_FINALIZE, /* what the machine does behind these */
	ELF_STAGE_SYSFS,    /* at last */
	ELF_STAGE_COUNT,
};

enum elf_relative {
	ELF_ABSOLUTE,
	ELF_TO_PLACE, /* the value is a distance from the place */
	ELF_TO_PAGE,  /* from its page of 4 KiB, in such pages */
};

/* How the kernel applies a type of relocation. */
struct elf_relocation_type {
	bool known;
	bool has_plt;     /* a place farther away in another section is reached by a PLT */
	bool is_signed;   /* these bits */
	uint8_t size;     /* bytes that are written; 0: none */
	uint8_t relative; /* enum elf_relative */
	uint8_t shift;    /* the value is moved to the right by these bits, */
	uint8_t bits;     /* and has to fit into so many; 0: it is not checked */
	uint16_t since;   /* the first version that knows it */
};

/* A section that a machine's kernel makes room in, and which therefore has to be there. */
struct elf_machine_section {
	const char *name;        /* NULL: no more */
	enum elf_stage stage;    /* in which it is missed */
	enum elf_option option;  /* with which it is */
	enum elf_option no_room; /* with which no room is made in it, and it stays as it was */
};

struct elf_range {
	int64_t low, high;
};

struct elf_machine {
	uint16_t machine; /* e_machine */
	const struct elf_relocation_type *types;
	size_t type_count;
	const struct elf_machine_section *sections;
	unsigned int zero_since; /* places have to be zero since this version; 0: not at all */
	uint64_t space;          /* bytes that modules can have */
	/* Addresses of modules, and of the kernel's copy of a file that is loaded: below 2^64. */
	struct elf_range modules, copy;
	bool kernel_fits; /* where the kernel's own symbols lie is not known: their values fit */
	/* Relocations of code are counted before anything is checked, to make room for PLTs. */
	bool counts_branches;
	const char *unwind;    /* the section by which it patches code; or NULL */
	unsigned int page_kib; /* of a page; 0: options decide */
};

/* NULL: no machine whose modules are read whatever e_ident says. */
const struct elf_machine *elf_machine_find(uint16_t machine);
/* NULL where the kernel does not know it. */
const struct elf_relocation_type *elf_machine_type(
	const struct elf_machine *machine, uint64_t type);
/* By its name; NULL: none that the machine makes room in. */
const struct elf_machine_section *elf_machine_section(
	const struct elf_machine *machine, const char *name);

/* ---- elf_check.c: what versions of the kernel mind beyond that */

#define ELF_NOT_CHECKED "this kernel does not check it and would read what is not there"

#define INIT_TRAMPOLINE ".init.text.ftrace_trampoline"

#define SHF_RELA_LIVEPATCH 0x00100000 /* include/uapi/linux/elf.h */

/* A defect that a range of kernel versions objects to. */
struct elf_defect {
	struct elf_defect *next;
	unsigned int from;   /* the first version, major << 8 | minor */
	unsigned int before; /* the first later one that does not mind; 0: all later ones do */
	unsigned int checked_from; /* before it: -EFAULT, for the kernel does not look */
	enum elf_option option;    /* only kernels with it mind */
	unsigned int page_kib;     /* only kernels whose pages are as large mind; 0: all */
	int code;                  /* as elf_module_check_format() returns it */
	enum elf_stage stage;
	uint32_t symbol; /* index, in ELF_STAGE_SYMBOLS */
	char text[];
};

struct elf_defects {
	struct elf_defect *first;
	struct elf_defect *last;
	enum elf_stage stage; /* of what is added next */
	uint32_t symbol;
	bool no_memory;
};

/* Fills in @defects. Never fails but with -ENOMEM. */
int elf_check(const struct elf_parts *parts, struct elf_defects *defects) _must_check_;
/*
 * The part of elf_module_check_format() that is looked at in @stage. Of symbols: the first from
 * index *@symbol on, which is set to its index; @symbol may be NULL.
 */
int elf_defects_find(const struct elf_defects *defects, const struct elf_kernel *kernel,
	enum elf_stage stage, uint32_t *symbol, struct error *error) _must_check_;
void elf_defects_free(struct elf_defects *defects);

/*
 * Gives @ret the parts as the kernel sees them behind module_frob_arch_sections(): sections that
 * the machine makes room in have its type, flags and size. -ENOMEM. The caller frees ret->copied;
 * the rest is borrowed from @parts.
 */
int elf_parts_frob(const struct elf_parts *parts, struct elf_parts *ret) _must_check_;

/* ---- elf_relocations.c */

/* Weak symbols that nothing exports, by their index, sorted. Their value is the one in the file. */
struct elf_absent {
	uint32_t *items;
	size_t count;
};

/* 0, or what the kernel minds; reads the whole file. */
int elf_relocations_check(const struct elf_parts *parts, unsigned int known,
	const struct elf_absent *absent, struct error *error) _must_check_;
/* elf_module_check_relocations(), knowing which symbols are absent. */
int elf_module_try_relocations(const struct elf_module *module, unsigned int version,
	const struct elf_absent *absent, struct error *error) _must_check_;

/* ---- what is kept of an open module */

struct elf_pool {
	struct arena kept;
	struct arena passing; /* what is read of a file, and only of use while it is opened */
};

struct elf_module {
	const char *path;
	struct elf_pool *pool; /* or NULL */
	struct arena *memory;  /* the pool's, or own */
	struct arena own;
	int dir_fd;       /* the caller's */
	const char *data; /* the caller's buffer, or NULL */
	size_t data_size;
	uint16_t machine;
	bool readable; /* 64-bit little-endian: the rest is filled in */
	bool brief;    /* of the rest only info and build_id are */
	bool mapped;   /* how the file is opened */
	bool has_basic;
	bool has_extended;
	uint64_t struct_size;
	uint64_t content_size; /* without a signature */
	struct modinfo info;
	bool has_init_trampoline;
	bool info_allocated; /* its section is marked as one that takes memory */
	struct elf_versions versions;
	struct elf_versions basic_versions;      /* of a file that has both forms */
	char struct_name[ELF_STRUCT_NAME_SIZE];  /* in struct module itself; "": it has none */
	const struct elf_symbol_version *layout; /* of these, or NULL */
	struct elf_undefined *undefined;
	size_t undefined_count;
	struct elf_module_export *exports;
	size_t export_count;
	unsigned char build_id[BUILD_ID_SIZE];
	size_t build_id_size;
	struct elf_defects defects;
	bool is_signed;
	int signature_code; /* what is wrong with it, as elf_module_trailer() says it */
	const char *signature_error;
	struct cms_facts cms;
};
