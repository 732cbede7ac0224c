// SPDX-License-Identifier: Apache-2.0
/* The ELF header, and files that are cut short. */
#include <stdio.h>
#include <string.h>

#include "mutation.h"

/* What kernel/module/main.c compares, and what it does not look at. */
static bool wrong_magic(struct image *image, struct dice *dice, char *detail)
{
	size_t place = dice_choose(dice, SELFMAG);

	image->data[place] ^= 0x20;
	(void) snprintf(detail, DETAIL_SIZE, "byte %zu of the magic", place);
	return true;
}

static bool other_ident(struct image *image, struct dice *dice, char *detail)
{
	static const struct {
		unsigned int place, value;
		const char *text;
	} choices[] = {
		{ EI_CLASS, ELFCLASS32, "32 bits" },
		{ EI_DATA, ELFDATA2MSB, "big endian" },
		{ EI_CLASS, 0, "no class" },
		{ EI_VERSION, 7, "version 7" },
		{ EI_OSABI, ELFOSABI_FREEBSD, "ABI of FreeBSD" },
	};
	size_t choice = dice_choose(dice, sizeof(choices) / sizeof(choices[0]));

	image->data[choices[choice].place] = (unsigned char) choices[choice].value;
	(void) snprintf(detail, DETAIL_SIZE, "%s, by e_ident alone", choices[choice].text);
	return true;
}

static bool other_type(struct image *image, struct dice *dice, char *detail)
{
	static const Elf64_Half types[] = { ET_EXEC, ET_DYN, ET_CORE, ET_NONE, 0xff00 };
	size_t choice = dice_choose(dice, sizeof(types) / sizeof(types[0]));

	image_header(image)->e_type = types[choice];
	(void) snprintf(detail, DETAIL_SIZE, "e_type %u", types[choice]);
	return true;
}

static bool other_machine(struct image *image, struct dice *dice, char *detail)
{
	static const Elf64_Half machines[] = { EM_386, EM_AARCH64, EM_PPC64, EM_S390, EM_RISCV,
		EM_NONE, EM_IA_64 };
	size_t choice = dice_choose(dice, sizeof(machines) / sizeof(machines[0]));

	if (machines[choice] == image_header(image)->e_machine)
		image_header(image)->e_machine = EM_X86_64;
	else
		image_header(image)->e_machine = machines[choice];
	(void) snprintf(detail, DETAIL_SIZE, "e_machine %u", image_header(image)->e_machine);
	return true;
}

/* Fields that the kernel has no use for. */
static bool unused_field(struct image *image, struct dice *dice, char *detail)
{
	static const char *const names[] = { "e_version", "e_entry", "e_phoff", "e_flags",
		"e_ehsize", "e_phnum" };
	Elf64_Ehdr *header = image_header(image);
	size_t choice = dice_choose(dice, sizeof(names) / sizeof(names[0]));
	uint32_t value = (uint32_t) dice_number(dice) | 1;

	switch (choice) {
	case 0:
		header->e_version = value;
		break;
	case 1:
		header->e_entry = value;
		break;
	case 2:
		header->e_phoff = value;
		break;
	case 3:
		header->e_flags = value;
		break;
	case 4:
		header->e_ehsize = (Elf64_Half) value;
		break;
	default:
		header->e_phnum = (Elf64_Half) value;
	}
	(void) snprintf(detail, DETAIL_SIZE, "%s %u", names[choice], value);
	return true;
}

static bool section_entry_size(struct image *image, struct dice *dice, char *detail)
{
	static const Elf64_Half sizes[] = { 0, 40, 63, 65, 128, 0xffff };
	size_t choice = dice_choose(dice, sizeof(sizes) / sizeof(sizes[0]));

	image_header(image)->e_shentsize = sizes[choice];
	(void) snprintf(detail, DETAIL_SIZE, "e_shentsize %u", sizes[choice]);
	return true;
}

static bool section_number(struct image *image, struct dice *dice, char *detail)
{
	Elf64_Ehdr *header = image_header(image);
	const Elf64_Half numbers[] = { 0, 1, 2, (Elf64_Half) (header->e_shnum - 1),
		(Elf64_Half) (header->e_shnum / 2), 0xffff, 0xff00 };
	size_t choice = dice_choose(dice, sizeof(numbers) / sizeof(numbers[0]));

	header->e_shnum = numbers[choice];
	(void) snprintf(detail, DETAIL_SIZE, "e_shnum %u", numbers[choice]);
	return true;
}

/* One section more than there are names for: all zeros, which is SHT_NULL. */
static bool section_more(struct image *image, struct dice *dice, char *detail)
{
	unsigned int added = image_add_section(image, 0);
	bool cut = dice_choose(dice, 2);

	if (cut)
		image->size--;
	(void) snprintf(detail, DETAIL_SIZE, "section %u of zeros%s", added,
		cut ? ", its last byte missing" : "");
	return true;
}

static bool section_table_place(struct image *image, struct dice *dice, char *detail)
{
	Elf64_Ehdr *header = image_header(image);
	const uint64_t places[] = { 0, header->e_shoff + 64, header->e_shoff - 64,
		header->e_shoff + 1, image->size, image->size - 1, image->size + 1, UINT64_MAX - 63,
		(uint64_t) 1 << 63, 16 };
	size_t choice = dice_choose(dice, sizeof(places) / sizeof(places[0]));

	header->e_shoff = places[choice];
	(void) snprintf(detail, DETAIL_SIZE, "e_shoff %#llx of %#zx",
		(unsigned long long) places[choice], image->size);
	return true;
}

static bool names_index(struct image *image, struct dice *dice, char *detail)
{
	Elf64_Ehdr *header = image_header(image);
	const Elf64_Half indexes[] = { 0, header->e_shnum, 0xffff, 0xff00, 1,
		(Elf64_Half) image_find(image, ".strtab"),
		(Elf64_Half) image_find(image, ".modinfo"),
		(Elf64_Half) image_find(image, ".symtab"), (Elf64_Half) (header->e_shnum / 2) };
	size_t choice = dice_choose(dice, sizeof(indexes) / sizeof(indexes[0]));

	header->e_shstrndx = indexes[choice];
	(void) snprintf(detail, DETAIL_SIZE, "e_shstrndx %u", indexes[choice]);
	return true;
}

static bool cut_at(struct image *image, size_t size, char *detail, const char *where)
{
	if (size >= image->size)
		return false;
	(void) snprintf(detail, DETAIL_SIZE, "%zu of %zu bytes, %s", size, image->size, where);
	image->size = size;
	return true;
}

static bool cut_part(struct image *image, struct dice *dice, char *detail)
{
	return cut_at(image, image->size / 16 * dice_choose(dice, 16), detail, "sixteenths");
}

static bool cut_header(struct image *image, struct dice *dice, char *detail)
{
	static const size_t sizes[] = { 1, 4, 15, 16, 18, 40, 62, 63, 64, 65 };

	return cut_at(image, sizes[dice_choose(dice, sizeof(sizes) / sizeof(sizes[0]))], detail,
		"at the header");
}

static bool cut_section(struct image *image, struct dice *dice, char *detail)
{
	size_t choice = dice_choose(dice, 3 * (size_t) image_section_count(image));
	const Elf64_Shdr *section = image_section(image, (unsigned int) (choice / 3));

	return cut_at(image, section->sh_offset + choice % 3 - (section->sh_offset ? 1 : 0), detail,
		"at a section's begin");
}

/* Bytes behind the last one that a header names belong to no part. */
static bool appended(struct image *image, struct dice *dice, char *detail)
{
	static const size_t sizes[] = { 1, 7, 28, 40, 4096 };
	size_t size = sizes[dice_choose(dice, sizeof(sizes) / sizeof(sizes[0]))];

	(void) image_append(image, NULL, size);
	(void) snprintf(detail, DETAIL_SIZE, "%zu zeros", size);
	return true;
}

const struct mutation header_mutations[] = {
	{ "elf-magic", wrong_magic, true, 0, 0 },
	{ "elf-ident", other_ident, true, 0, 0 },
	{ "elf-type", other_type, true, 0, 0 },
	{ "elf-machine", other_machine, true, 0, 0 },
	{ "elf-unused-field", unused_field, true, 0, 0 },
	{ "elf-shentsize", section_entry_size, true, 0, 0 },
	{ "elf-shnum", section_number, true, 0, 0 },
	{ "elf-shnum-more", section_more, true, 0, 0 },
	{ "elf-shoff", section_table_place, true, 0, 0 },
	{ "elf-shstrndx", names_index, true, 0, 0 },
	{ "cut-sixteenth", cut_part, true, 0, 0 },
	{ "cut-header", cut_header, true, 0, 0 },
	{ "cut-section", cut_section, true, 0, 0 },
	{ "appended", appended, true, 0, 0 },
	{ 0 },
};
