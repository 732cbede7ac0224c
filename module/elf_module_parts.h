/* SPDX-License-Identifier: Apache-2.0 */
/* What a module is while it is open: what the files module/elf_module*.c share. */
#pragma once

#include "common/arena.h"
#include "module/cms_memo.h"
#include "module/elf_module.h"
#include "module/elf_parts.h"
#include "module/trailer.h"

struct elf_pool {
	struct arena kept;
	struct arena passing; /* what is read of a file, and only of use while it is opened */
	const struct symvers *known;
	struct cms_memo memo; /* of signatures */
};

struct elf_module {
	const char *path;
	struct elf_pool *pool; /* or NULL */
	struct arena *memory;  /* the pool's, or own */
	struct arena own;
	const struct symvers *known; /* the pool's, or NULL */
	int dir_fd;                  /* the caller's */
	const char *data;            /* the caller's buffer, or NULL */
	size_t data_size;
	uint16_t machine;
	bool readable; /* 64-bit little-endian: the rest is filled in */
	bool brief;    /* of the rest only info and build_id are */
	bool mapped;   /* the file is, while it is read */
	bool has_basic;
	bool has_extended;
	uint64_t struct_size;
	uint64_t content_size; /* without a signature */
	struct modinfo info;
	bool info_allocated; /* its section is marked as one that takes memory */
	struct elf_versions versions;
	const struct elf_symbol_version *layout; /* of these, or NULL */
	struct elf_undefined *undefined;
	size_t undefined_count;
	struct elf_module_export *exports;
	size_t export_count;
	unsigned char build_id[BUILD_ID_SIZE_LIMIT];
	size_t build_id_size;
	struct elf_defects defects;
	struct module_trailer trailer; /* of a signature; without what it borrows */
	int trailer_code;              /* what is wrong with it, as elf_module_trailer() says it */
	const char *trailer_error;
	const char *signature;       /* its CMS bytes; NULL when there are none or too many */
	const struct cms_facts *cms; /* what these say, in place of them; or NULL */
};

/* elf_module_open.c: opens the file again, into memory of its own. */
int elf_module_open_file(
	const struct elf_module *module, struct elf_file *file, struct error *error) _must_check_;
/* elf_module_reread.c: as elf_module_trailer(). */
int elf_module_read_large_cms(const struct elf_module *module, struct cms_facts *ret_cms,
	struct error *error) _must_check_;
