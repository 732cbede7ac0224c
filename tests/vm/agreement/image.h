/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A module file in memory that can be changed, for making mutants. It knows ELF by <elf.h> alone
 * and shares nothing with module/, so that a mistake there does not hide itself. What it opens are
 * modules that a kernel build made: it trusts their layout. Failures to allocate end the program.
 */
#pragma once

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct image {
	unsigned char *data;
	size_t size;
};

/* Ends the program with a message when @path cannot be read, or is no 64-bit ELF file. */
void image_load(struct image *image, const char *path);
void image_copy(struct image *image, const struct image *from);
void image_save(const struct image *image, const char *path);
void image_free(struct image *image);

/* Pointers below are borrowed until the next function that grows the image. */
Elf64_Ehdr *image_header(struct image *image);
Elf64_Shdr *image_section(struct image *image, unsigned int index);
unsigned int image_section_count(struct image *image);
const char *image_section_name(struct image *image, unsigned int index);
/* Index of the first section of that name, or of that type; 0: there is none. */
unsigned int image_find(struct image *image, const char *name);
unsigned int image_find_type(struct image *image, uint32_t type);
unsigned char *image_content(struct image *image, unsigned int index);

/* Makes room of @size bytes at the end of the file and returns its offset. */
size_t image_append(struct image *image, const void *bytes, size_t size);
/* Gives a section other content, at the end of the file when it has become longer. */
void image_replace(struct image *image, unsigned int index, const void *bytes, size_t size);
/* Moves a section's content to the end of the file, with @extra zeros behind it. */
void image_move_to_end(struct image *image, unsigned int index, size_t extra);
/* Appends a copy of section header @index, in a new table at the end; returns the new one's index.
 */
unsigned int image_add_section(struct image *image, unsigned int index);
/* Gives a section a name of its own. */
void image_rename(struct image *image, unsigned int index, const char *name);
/* Appends a string to the symbol names, and returns its st_name. */
uint32_t image_add_string(struct image *image, const char *string);

Elf64_Sym *image_symbols(struct image *image, size_t *ret_count);
const char *image_symbol_name(struct image *image, const Elf64_Sym *symbol);

/* Cuts off the signature, if there is one. */
void image_strip_signature(struct image *image);
/*
 * Takes the entries out of .rela.gnu.linkonce.this_module that fill init and exit: the kernel then
 * finds NULL there, runs nothing and lets the module go again.
 */
void image_neutralise(struct image *image);
/* The name in struct module, which is what the kernel goes by; NULL: it has none. */
char *image_module_name(struct image *image);
/* Gives it another one there, of up to 55 bytes. */
void image_set_module_name(struct image *image, const char *name);
