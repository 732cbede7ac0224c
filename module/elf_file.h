/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the bytes of a module file come from: a plain file of which only some parts are read, a
 * packed file, which is unpacked, or a buffer, packed or not. Nothing is mapped, unless the caller
 * asks for that: a file that shrinks meanwhile is an error and no SIGBUS.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/arena.h"
#include "common/error.h"

struct elf_window;

struct elf_file {
	int fd;            /* of a file, plain or packed; or -1 */
	const char *image; /* the whole content, of a buffer or unpacked; or NULL */
	char *unpacked;    /* what of it is ours to free */
	void *mapped;      /* the file's own bytes, to be unmapped; or NULL */
	uint64_t mapped_size;
	uint64_t size; /* of the unpacked content */
	struct elf_window *windows;
	struct arena *memory; /* that these lie in */
	struct arena own;     /* where the caller has none for them */
};

/*
 * All leave @file empty on failure; messages do not name the file. @memory, or NULL: where what is
 * read lies; it is the caller's to take back after elf_file_close().
 */
int elf_file_open(struct elf_file *file, int dir_fd, const char *path, struct arena *memory,
	struct error *error) _must_check_;
/*
 * The same, mapped: for a process that can do with its death by SIGBUS should the file shrink. What
 * elf_file_map() gives is neither copied nor read before somebody looks at it.
 */
int elf_file_open_mapped(
	struct elf_file *file, int dir_fd, const char *path, struct error *error) _must_check_;
int elf_file_open_memory(
	struct elf_file *file, const void *data, size_t size, struct error *error) _must_check_;
void elf_file_close(struct elf_file *file);

/*
 * Gives the @size bytes at @offset, which have to lie within the file, until elf_file_close(). They
 * are read in one piece; what lies in a piece that was read before is not read again.
 */
int elf_file_map(struct elf_file *file, uint64_t offset, uint64_t size, const char **ret,
	struct error *error) _must_check_;

/* Hands over the whole content in a buffer of its own, which the caller frees. */
int elf_file_take(
	struct elf_file *file, char **ret_data, size_t *ret_size, struct error *error) _must_check_;
