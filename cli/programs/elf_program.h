/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program or shared library, as the dynamic loader sees it: read by libelf from its program
 * headers (elf(5); System V ABI, "Dynamic Section"; versions: LSB Core, "Symbol Versioning"), for
 * the loader reads no section either. Any bytes may be given: all offsets are checked.
 */
#pragma once

#include <stdbool.h>

#include "common/error.h"
#include "common/strv.h"
#include "kernels/json_fields.h"

/* A version of a symbol that is asked of another library. */
struct elf_demand {
	char *library; /* as DT_NEEDED has it: "libc.so.6" */
	char *version; /* "GLIBC_2.36" */
};

struct elf_program {
	unsigned int machine; /* e_machine */
	unsigned int class;   /* EI_CLASS */
	unsigned int data; /* EI_DATA; what follows is read of this machine's own class and data */
	bool is_program;   /* it is started, not loaded by others: ET_EXEC, PT_INTERP or DF_1_PIE */
	char *interpreter; /* PT_INTERP: the loader; or NULL, as all texts here */
	char *soname;
	char *rpath;
	char *runpath;
	bool no_default;      /* DF_1_NODEFLIB: the loader's own folders are not searched */
	bool has_versions;    /* it says which versions it has */
	struct strv needed;   /* DT_NEEDED, in order */
	struct strv versions; /* that it has, without the one that is the library's own name */
	struct elf_demand *demands; /* but for weak ones, which the loader does not insist on */
	size_t demand_count;
};

/* As JSON, for a cache. */
extern const struct json_fields elf_program_fields;

/*
 * Reads the file behind @fd, at any position. -ENOEXEC for what is neither a program nor a shared
 * library of ELF (a script, an object), -EBADMSG with a message for one that is damaged or cut
 * short, another errno if it cannot be read. The caller frees @ret with elf_program_free().
 */
int elf_program_read(int fd, struct elf_program *ret, struct error *error) _must_check_;
void elf_program_free(struct elf_program *program);
