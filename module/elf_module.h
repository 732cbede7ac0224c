/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a kernel module file says of itself: .modinfo, __versions, its symbol tables and build id.
 * Sources: Linux include/linux/module.h, include/linux/moduleparam.h, scripts/mod/modpost.c.
 * Malformed files are errors (-EINVAL with the offset in the message), never crashes.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/strv.h"

#define BUILD_ID_HEX_SIZE 65 /* up to 32 bytes in hex, and the NUL */

struct elf_module;

/*
 * Opens a plain, .xz, .gz or .zst .ko file relative to @dir_fd. The caller closes it with
 * elf_module_close().
 */
int elf_module_open(int dir_fd, const char *path, struct elf_module **ret, struct error *error);
void elf_module_close(struct elf_module **module);

/* The module's name as the kernel knows it ('-' is '_'), or NULL when it states none. */
const char *elf_module_name(const struct elf_module *module);

/* First value of a .modinfo key ("vermagic", "version", "license", …), or NULL. Borrowed. */
const char *elf_module_info(const struct elf_module *module, const char *key);
/* Appends every value of a .modinfo key ("firmware", "alias", "parm", …). */
int elf_module_info_all(const struct elf_module *module, const char *key, struct strv *values);
/* Appends the names in "depends", with '-' as '_'. */
int elf_module_depends(const struct elf_module *module, struct strv *names);

/* The GNU build id in lower-case hex; "" when there is none. */
void elf_module_build_id(const struct elf_module *module, char hex[BUILD_ID_HEX_SIZE]);

struct elf_symbol_version {
	const char *name; /* borrowed from the module */
	uint32_t crc;     /* what the module was compiled against */
};

/* The symbol versions that the module demands (both section forms), sorted by name. Borrowed. */
const struct elf_symbol_version *elf_module_versions(
	const struct elf_module *module, size_t *ret_count);

/* Finds one of them, by name. */
bool elf_module_version(const struct elf_module *module, const char *symbol, uint32_t *ret_crc);

/*
 * Whether the file has a section of symbol versions at all: an empty one differs from none, because
 * the kernel then compares only the part of vermagic after the first space. The extended form alone
 * (CONFIG_EXTENDED_MODVERSIONS, since 6.14) does not count for that: see @ret_basic, may be NULL.
 */
bool elf_module_has_versions(const struct elf_module *module, bool *ret_basic);

/* The path that elf_module_open() was given, for messages. Borrowed. */
const char *elf_module_path(const struct elf_module *module);

/* Appends the names of undefined global symbols; weak ones too when @with_weak. */
int elf_module_undefined(const struct elf_module *module, bool with_weak, struct strv *names);
