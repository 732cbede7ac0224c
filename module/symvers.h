/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Module.symvers: who exports which symbol with which CRC. Format: Linux Documentation/kbuild/
 * modules.rst, "CRC<TAB>symbol<TAB>module<TAB>export type<TAB>namespace", the last field since 5.4.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "module/elf.h"

struct symvers;

struct symvers_entry {
	const char *symbol;
	const char *module;     /* "vmlinux", a module's name, or the path of the .ko as the build
				   saw it, without ".ko" */
	const char *export;     /* "EXPORT_SYMBOL" or "EXPORT_SYMBOL_GPL"; "" where not known */
	const char *name_space; /* "" for none */
	uint32_t crc;           /* 0 where the kernel has no MODVERSIONS */
	bool has_crc;           /* false where the source of the entry tells none */
	bool partial;           /* of a System.map: the name space is not known either */
};

/* An empty one. */
int symvers_new(struct symvers **ret) _must_check_;
/*
 * Reads a file, also one packed as .gz, .xz or .zst. A malformed line is -EINVAL with path, line
 * number and what is wrong in @error. Symbols stay in file order.
 */
int symvers_open(int dir_fd, const char *path, struct symvers **ret, struct error *error);
/* Adds another file. What is added wins over what is there, here and below, as with modpost -e. */
int symvers_add(struct symvers *symvers, int dir_fd, const char *path, struct error *error);
/* Adds what a module file exports, under its own name. Copies. -ENOMEM. */
int symvers_add_module(struct symvers *symvers, const struct elf_module *module) _must_check_;
/*
 * Adds what vmlinux exports by its System.map (nm -n, "ADDRESS TYPE NAME" a line: Linux
 * scripts/mksysmap), where no entry names it yet: a Module.symvers knows more. Copies. -EINVAL with
 * path, line number and what is wrong in @error; -ENODATA for the line that Debian ships in its
 * place, which names the package that has the real one; -ENOMEM.
 */
int symvers_add_system_map(
	struct symvers *symvers, int dir_fd, const char *path, struct error *error) _must_check_;
/* Adds one entry. Copies. -ENOMEM. */
int symvers_put(struct symvers *symvers, const struct symvers_entry *entry) _must_check_;
/* The same, its strings borrowed until symvers_close(). */
int symvers_put_borrowed(struct symvers *symvers, const struct symvers_entry *entry) _must_check_;
/* NULL when nothing exports it. Borrowed until the next symvers_add() or symvers_close(). */
const struct symvers_entry *symvers_find(const struct symvers *symvers, const char *symbol);
/* The same with the symbol's hash, by name_hash(). */
const struct symvers_entry *symvers_find_hashed(
	const struct symvers *symvers, const char *symbol, uint32_t hash);
/* Room for @count entries in all, so that they need not move as they come. -ENOMEM. */
int symvers_reserve(struct symvers *symvers, size_t count) _must_check_;
size_t symvers_count(const struct symvers *symvers);
/* The entry at @index, below symvers_count(), in the order in which they came. Borrowed alike. */
const struct symvers_entry *symvers_at(const struct symvers *symvers, size_t index);
void symvers_close(struct symvers **symvers);

/* The last path component of an entry's module, as a module name ('-' is '_'). @size: of @name. */
void symvers_module_name(const struct symvers_entry *entry, char *name, size_t size);
