/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads what a kernel module file says of itself: .modinfo, symbol versions, exported and needed
 * symbols, build id and signature. Sources: Linux include/linux/module.h,
 * include/linux/moduleparam.h, scripts/mod/modpost.c, and kernel/module/main.c for how the kernel
 * interprets it.
 *
 * A file that no kernel takes for a module is an error (-EINVAL with the offset in the message). A
 * file that some kernel takes opens, and elf_module_check_format() tells which kernels refuse it.
 * Files for other than 64-bit little-endian machines open too, but only elf_module_machine() is
 * known of them.
 *
 * No descriptor is held and nothing is mapped. Functions that read a file again say so; they need
 * the @dir_fd of elf_module_open() to be still open.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/strv.h"
#include "module/sign.h"

#define BUILD_ID_HEX_SIZE 65 /* up to 32 bytes in hex, and the NUL */

struct elf_module;
struct elf_pool;

/*
 * Opens a plain, .xz, .gz or .zst .ko file relative to @dir_fd. The caller closes it with
 * elf_module_close().
 */
int elf_module_open(int dir_fd, const char *path, struct elf_module **ret, struct error *error);
/*
 * Only .modinfo (elf_module_info() and what stands on it) and the build id: a few hundred bytes of
 * a file of megabytes are read.
 */
int elf_module_open_brief(
	int dir_fd, const char *path, struct elf_module **ret, struct error *error);
/*
 * Maps the file, which spares copying a driver's megabytes of symbols. Only for a process that may
 * die by SIGBUS: the file may shrink meanwhile, or its disk fail.
 */
int elf_module_open_mapped(
	int dir_fd, const char *path, struct elf_module **ret, struct error *error);
/* From a buffer, packed or not, which the caller keeps as long. @name is for messages. */
int elf_module_open_memory(const void *data, size_t size, const char *name, struct elf_module **ret,
	struct error *error);
void elf_module_close(struct elf_module **module);

/*
 * Memory that is shared by modules that one thread opens one after the other, thousands of them:
 * the memory that they lie in, and the buffer into which files are read. The modules are closed
 * before elf_pool_free().
 */
int elf_pool_new(struct elf_pool **ret) _must_check_;
void elf_pool_free(struct elf_pool **pool);
int elf_module_open_pooled(struct elf_pool *pool, int dir_fd, const char *path,
	struct elf_module **ret, struct error *error) _must_check_;

/* ---- what all that follows returns is borrowed from the module */

/* The module's name as the kernel knows it ('-' is '_'), or NULL when it states none. */
const char *elf_module_name(const struct elf_module *module);
/* The path that it was opened by, for messages. */
const char *elf_module_path(const struct elf_module *module);

/* First value of a .modinfo key ("vermagic", "version", "license", …), or NULL. */
const char *elf_module_info(const struct elf_module *module, const char *key);
/* The value of @key after @previous, the first for NULL; NULL at the end. */
const char *elf_module_info_next(
	const struct elf_module *module, const char *key, const char *previous);
/* Appends copies of every value of a .modinfo key ("firmware", "alias", "parm", …). */
int elf_module_info_all(const struct elf_module *module, const char *key, struct strv *values);
/* Appends the names in "depends", with '-' as '_'. */
int elf_module_depends(const struct elf_module *module, struct strv *names);

/* The GNU build id in lower-case hex; "" when there is none. */
void elf_module_build_id(const struct elf_module *module, char hex[BUILD_ID_HEX_SIZE]);

struct elf_symbol_version {
	const char *name;
	uint32_t crc; /* what the module was compiled against */
	bool wide;    /* damaged: more than 32 bits, which no kernel's CRC is equal to */
};

/*
 * The symbol versions that the module demands, in the file's order, each name once: the extended
 * form where the file has both, as kernels since 6.14 take it.
 */
const struct elf_symbol_version *elf_module_versions(
	const struct elf_module *module, size_t *ret_count);

/*
 * The record for the layout of struct module, whose symbol no symbol table names:
 * scripts/mod/modpost.c writes one for every module.
 */
#define ELF_LAYOUT_SYMBOL "module_layout"

/* Finds one of them, by name. */
bool elf_module_version(const struct elf_module *module, const char *symbol, uint32_t *ret_crc);

struct elf_undefined {
	const char *name;
	const struct elf_symbol_version *version; /* what it demands of it, or NULL */
	uint32_t hash;       /* of the name, as symvers_find_hashed() wants it */
	uint32_t index : 31; /* in the table of symbols */
	bool weak : 1;       /* may stay unresolved */
};

/* Undefined symbols that the kernel resolves, in the file's order. */
const struct elf_undefined *elf_module_undefined_symbols(
	const struct elf_module *module, size_t *ret_count);

struct elf_module_export {
	const char *symbol;
	const char *name_space; /* "" for none */
	uint32_t crc;
	uint32_t hash; /* of the symbol, as symvers_find_hashed() wants it */
	bool has_crc;
	bool gpl;
};

/* The symbols that the module exports, sorted by name. */
const struct elf_module_export *elf_module_exports(
	const struct elf_module *module, size_t *ret_count);

/* The ELF header's e_machine: EM_X86_64 and others of <elf.h>. */
uint16_t elf_module_machine(const struct elf_module *module);

#define ELF_STRUCT_NAME_SIZE 56 /* of struct module's, with the NUL, on 64-bit machines */

/*
 * Bytes of .gnu.linkonce.this_module, sizeof(struct module) of the kernel that it was made for; 0
 * when there is no such section.
 */
uint64_t elf_module_struct_size(const struct elf_module *module);

/*
 * Reads the whole unpacked file again, for those who check signatures. The caller frees it. It need
 * not be what was opened, where the file was written to since.
 */
int elf_module_bytes(const struct elf_module *module, char **ret_data, size_t *ret_size,
	struct error *error) _must_check_;

/*
 * The signature at the end of the file: whether there is one, and what it states of its signer
 * (signers is 0 where there is none). -EBADMSG and -ENOPKG as module_trailer_read() and cms_read()
 * have them.
 */
int elf_module_trailer(const struct elf_module *module, struct cms_facts *ret_cms,
	bool *ret_present, struct error *error) _must_check_;

/*
 * Checks what the kernel demands of the file's format: headers, sections, symbol tables and
 * exports. The demands differ by kernel version: @version is major << 8 | minor, such as 0x0601, or
 * 0 if it is not known; the kernel's options are not known. Reads nothing. Returns 0 when the file
 * meets them; else @error says what the kernel objects to and where, and the code tells the
 * kernel's answer: -ENOEXEC, -EINVAL, -EEXIST: exactly this; -EAGAIN: ENOEXEC, or the module loads:
 * that depends on the version or an option, which is not known, or on what the kernel's
 * distribution backported; -E2BIG: ENOMEM, because no machine has the memory that the file asks
 * for; -EFAULT: this version does not check it, would read or write what is not there, and may load
 *   the module or crash.
 */
int elf_module_check_format(
	const struct elf_module *module, unsigned int version, struct error *error) _must_check_;

/*
 * The same for the relocations of a module for x86-64 or arm64; the whole file is read again.
 * -ERANGE: ENOEXEC, or the module loads, by where the kernel puts it. Returns 0 for other machines,
 * and another negative errno (-EIO, -ENOMEM …) when the file cannot be read.
 */
int elf_module_check_relocations(
	const struct elf_module *module, unsigned int version, struct error *error) _must_check_;

/* ---- names of modules and of their files */

/*
 * Finds the ".ko", ".ko.xz", ".ko.zst" or ".ko.gz" that @path ends in; NULL when @path does not
 * name a module file.
 */
const char *module_suffix(const char *path);

/*
 * The name ('_') of the module in such a file, which ends at the first dot as in kmod; false for
 * others, and for a name beyond @size.
 */
bool module_name_of_file(const char *path, char *name, size_t size);

/*
 * Copies what follows the last '/' of the @length bytes at @path, '-' as '_', into @name of @size
 * bytes; what does not fit is cut.
 */
void module_name_copy(const char *path, size_t length, char *name, size_t size);

/*
 * ---- the compressed forms in which kernels ship modules: .xz, .gz (RFC 1952) and .zst (RFC 8878),
 * recognised by their first bytes, because names lie more often than content does
 */

enum decompress_format {
	DECOMPRESS_NONE, /* none of the three */
	DECOMPRESS_XZ,
	DECOMPRESS_GZIP,
	DECOMPRESS_ZSTD,
};

#define DECOMPRESS_MAGIC_SIZE 6 /* bytes that decompress_detect() wants to see */

enum decompress_format decompress_detect(const void *data, size_t size);

/*
 * Unpacks @data, exactly one stream of @format (not DECOMPRESS_NONE), into a new buffer that the
 * caller frees, with a NUL behind what @ret_size counts. -EFBIG when the result is larger than
 * @limit bytes, -EINVAL when the stream is damaged, cut short or has bytes after its end, -ENOMEM,
 * -ELIBACC and -ELIBBAD where the library that unpacks it is missing; each with a message in
 * @error.
 */
int decompress(enum decompress_format format, const void *data, size_t size, size_t limit,
	char **ret_data, size_t *ret_size, struct error *error) _must_check_;
