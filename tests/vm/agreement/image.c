// SPDX-License-Identifier: Apache-2.0
#include "image.h"

#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THIS_MODULE ".gnu.linkonce.this_module"

/* Linux include/linux/module.h: an enum and a list head lie before the name on 64-bit machines. */
#define MODULE_NAME_OFFSET 24
#define MODULE_NAME_SIZE   56

/* R_X86_64_NONE, and R_ARM_NONE of Linux arch/arm64/kernel/module.c. */
#define NO_RELOCATION 0

/* include/linux/module_signature.h: struct module_signature, its sig_len, and the marker. */
#define SIGNATURE_MARKER    "~Module signature appended~\n"
#define SIGNATURE_INFO_SIZE 12

static void *must(void *memory)
{
	if (!memory)
		err(1, "out of memory");
	return memory;
}

void image_load(struct image *image, const char *path)
{
	FILE *file = fopen(path, "rb");
	long size;

	if (!file || fseek(file, 0, SEEK_END) < 0 || (size = ftell(file)) < 0)
		err(1, "%s", path);
	rewind(file);
	image->size = (size_t) size;
	image->data = must(malloc(image->size + 1));
	if (fread(image->data, 1, image->size, file) != image->size)
		err(1, "%s", path);
	(void) fclose(file);
	if (image->size < sizeof(Elf64_Ehdr) || memcmp(image->data, ELFMAG, SELFMAG) != 0 ||
		image->data[EI_CLASS] != ELFCLASS64)
		errx(1, "%s: not a 64-bit ELF file", path);
}

void image_copy(struct image *image, const struct image *from)
{
	image->size = from->size;
	image->data = must(malloc(from->size + 1));
	memcpy(image->data, from->data, from->size);
}

void image_save(const struct image *image, const char *path)
{
	FILE *file = fopen(path, "wb");

	if (!file || fwrite(image->data, 1, image->size, file) != image->size ||
		fclose(file) == EOF)
		err(1, "%s", path);
}

void image_free(struct image *image)
{
	free(image->data);
	*image = (struct image){ 0 };
}

Elf64_Ehdr *image_header(struct image *image)
{
	return (Elf64_Ehdr *) (void *) image->data;
}

Elf64_Shdr *image_section(struct image *image, unsigned int index)
{
	return (Elf64_Shdr *) (void *) (image->data + image_header(image)->e_shoff) + index;
}

unsigned int image_section_count(struct image *image)
{
	return image_header(image)->e_shnum;
}

unsigned char *image_content(struct image *image, unsigned int index)
{
	return image->data + image_section(image, index)->sh_offset;
}

const char *image_section_name(struct image *image, unsigned int index)
{
	const unsigned char *names = image_content(image, image_header(image)->e_shstrndx);

	return (const char *) names + image_section(image, index)->sh_name;
}

unsigned int image_find(struct image *image, const char *name)
{
	for (unsigned int i = 1; i < image_section_count(image); i++)
		if (strcmp(image_section_name(image, i), name) == 0)
			return i;
	return 0;
}

unsigned int image_find_type(struct image *image, uint32_t type)
{
	for (unsigned int i = 1; i < image_section_count(image); i++)
		if (image_section(image, i)->sh_type == type)
			return i;
	return 0;
}

size_t image_append(struct image *image, const void *bytes, size_t size)
{
	size_t offset = (image->size + 15) & ~(size_t) 15;

	image->data = must(realloc(image->data, offset + size + 1));
	memset(image->data + image->size, 0, offset - image->size);
	if (bytes)
		memcpy(image->data + offset, bytes, size);
	else
		memset(image->data + offset, 0, size);
	image->size = offset + size;
	return offset;
}

void image_replace(struct image *image, unsigned int index, const void *bytes, size_t size)
{
	Elf64_Shdr *section = image_section(image, index);

	if (size <= section->sh_size) {
		memcpy(image_content(image, index), bytes, size);
	} else {
		size_t offset = image_append(image, bytes, size);

		section = image_section(image, index);
		section->sh_offset = offset;
	}
	section->sh_size = size;
}

void image_move_to_end(struct image *image, unsigned int index, size_t extra)
{
	size_t size = image_section(image, index)->sh_size;
	unsigned char *bytes = must(calloc(1, size + extra + 1));
	size_t offset;

	memcpy(bytes, image_content(image, index), size);
	offset = image_append(image, bytes, size + extra);
	image_section(image, index)->sh_offset = offset;
	image_section(image, index)->sh_size = size + extra;
	free(bytes);
}

unsigned int image_add_section(struct image *image, unsigned int index)
{
	unsigned int count = image_section_count(image);
	size_t size = count * sizeof(Elf64_Shdr);
	Elf64_Shdr *table = must(malloc(size + sizeof(Elf64_Shdr)));
	size_t offset;

	memcpy(table, image_section(image, 0), size);
	table[count] = table[index];
	offset = image_append(image, table, size + sizeof(Elf64_Shdr));
	free(table);
	image_header(image)->e_shoff = offset;
	image_header(image)->e_shnum = (Elf64_Half) (count + 1);
	return count;
}

void image_rename(struct image *image, unsigned int index, const char *name)
{
	unsigned int names = image_header(image)->e_shstrndx;
	size_t place = image_section(image, names)->sh_size;

	image_move_to_end(image, names, strlen(name) + 1);
	memcpy(image_content(image, names) + place, name, strlen(name));
	image_section(image, index)->sh_name = (Elf64_Word) place;
}

uint32_t image_add_string(struct image *image, const char *string)
{
	unsigned int symbols = image_find_type(image, SHT_SYMTAB);
	unsigned int names = image_section(image, symbols)->sh_link;
	size_t place = image_section(image, names)->sh_size;

	image_move_to_end(image, names, strlen(string) + 1);
	memcpy(image_content(image, names) + place, string, strlen(string));
	return (uint32_t) place;
}

Elf64_Sym *image_symbols(struct image *image, size_t *ret_count)
{
	unsigned int index = image_find_type(image, SHT_SYMTAB);

	*ret_count = index ? image_section(image, index)->sh_size / sizeof(Elf64_Sym) : 0;
	return (Elf64_Sym *) (void *) image_content(image, index);
}

const char *image_symbol_name(struct image *image, const Elf64_Sym *symbol)
{
	unsigned int symbols = image_find_type(image, SHT_SYMTAB);
	unsigned int names = image_section(image, symbols)->sh_link;

	return (const char *) image_content(image, names) + symbol->st_name;
}

void image_strip_signature(struct image *image)
{
	size_t marker = strlen(SIGNATURE_MARKER);
	const unsigned char *end = image->data + image->size - marker;
	size_t length;

	if (image->size < marker + SIGNATURE_INFO_SIZE ||
		memcmp(end, SIGNATURE_MARKER, marker) != 0)
		return;
	length = (size_t) end[-4] << 24 | (size_t) end[-3] << 16 | (size_t) end[-2] << 8 | end[-1];
	image->size -= marker + SIGNATURE_INFO_SIZE + length;
}

void image_neutralise(struct image *image)
{
	unsigned int index = image_find(image, ".rela" THIS_MODULE);
	Elf64_Rela *entries;

	image_strip_signature(image);
	if (!index)
		return;
	entries = (Elf64_Rela *) (void *) image_content(image, index);
	for (size_t i = 0; i < image_section(image, index)->sh_size / sizeof(*entries); i++)
		entries[i].r_info = ELF64_R_INFO(0, NO_RELOCATION);
}

char *image_module_name(struct image *image)
{
	unsigned int index = image_find(image, THIS_MODULE);

	if (!index || image_section(image, index)->sh_type != SHT_PROGBITS)
		return NULL;
	return (char *) image_content(image, index) + MODULE_NAME_OFFSET;
}

void image_set_module_name(struct image *image, const char *name)
{
	(void) strncpy(image_module_name(image), name, MODULE_NAME_SIZE);
}
