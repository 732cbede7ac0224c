// SPDX-License-Identifier: Apache-2.0
/* Section headers, and which sections there are. */
#include <stdio.h>
#include <string.h>

#include "mutation.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

static unsigned int any_section(struct image *image, struct dice *dice)
{
	return (unsigned int) (1 + dice_choose(dice, image_section_count(image) - 1));
}

static bool has_bytes(const Elf64_Shdr *section)
{
	return section->sh_type != SHT_NULL && section->sh_type != SHT_NOBITS;
}

static bool described(struct image *image, unsigned int index, const char *what, char *detail)
{
	(void) snprintf(detail, DETAIL_SIZE, "%s: %s", image_section_name(image, index), what);
	return true;
}

static bool beyond_end(struct image *image, struct dice *dice, char *detail)
{
	unsigned int index = any_section(image, dice);
	Elf64_Shdr *section = image_section(image, index);

	if (!has_bytes(section))
		return false;
	switch (dice_choose(dice, 5)) {
	case 0:
		section->sh_size = image->size - section->sh_offset + 1;
		return described(image, index, "a byte too long", detail);
	case 1:
		section->sh_size = UINT64_MAX - section->sh_offset + 2;
		return described(image, index, "its end overflows", detail);
	case 2:
		(void) described(image, index, "begins a byte too late", detail);
		section->sh_offset = image->size - section->sh_size + 1;
		return true;
	case 3:
		(void) described(image, index, "begins at 2^63", detail);
		section->sh_offset = (uint64_t) 1 << 63;
		return true;
	default:
		(void) described(image, index, "begins at 2^64 - 1", detail);
		section->sh_offset = UINT64_MAX;
		return true;
	}
}

/* Sections that the kernel carries along and does not look into. */
static unsigned int idle_section(struct image *image, struct dice *dice)
{
	static const char *const names[] = { ".comment", ".note.GNU-stack", ".note.gnu.property",
		".note.Linux", ".rodata.str1.1", ".rodata.str1.8" };

	return image_find(image, names[dice_choose(dice, ARRAY_SIZE(names))]);
}

static bool overlapping(struct image *image, struct dice *dice, char *detail)
{
	unsigned int index = idle_section(image, dice), other = any_section(image, dice);
	Elf64_Shdr *section = image_section(image, index);

	if (!index || index == other || !has_bytes(section) ||
		!has_bytes(image_section(image, other)))
		return false;
	section->sh_offset = image_section(image, other)->sh_offset;
	section->sh_size = image_section(image, other)->sh_size;
	/* SHT_NOTE with other content has the kernel read notes that are none. */
	section->sh_type = SHT_PROGBITS;
	return described(image, index, "where another section lies", detail);
}

static bool first_section(struct image *image, struct dice *dice, char *detail)
{
	Elf64_Shdr *section = image_section(image, 0);

	switch (dice_choose(dice, 5)) {
	case 0:
		section->sh_type = SHT_PROGBITS;
		break;
	case 1:
		section->sh_size = 1;
		break;
	case 2:
		section->sh_addr = 1;
		break;
	case 3:
		section->sh_offset = UINT64_MAX; /* not asked for */
		break;
	default:
		section->sh_link = UINT32_MAX;
	}
	(void) snprintf(detail, DETAIL_SIZE, "section 0: type %u, size %llu, address %llu",
		section->sh_type, (unsigned long long) section->sh_size,
		(unsigned long long) section->sh_addr);
	return true;
}

static bool symbols_link(struct image *image, struct dice *dice, char *detail)
{
	const uint32_t links[] = { 0, image_section_count(image), image_section_count(image) + 7,
		UINT32_MAX };
	unsigned int index = image_find_type(image, SHT_SYMTAB);
	uint32_t link = links[dice_choose(dice, ARRAY_SIZE(links))];

	image_section(image, index)->sh_link = link;
	(void) snprintf(detail, DETAIL_SIZE, ".symtab's sh_link %u", link);
	return true;
}

/* Names at whatever offset of another section, and beyond it: looked at since 6.4. */
static bool symbols_link_elsewhere(struct image *image, struct dice *dice, char *detail)
{
	unsigned int index = image_find_type(image, SHT_SYMTAB), other = any_section(image, dice);

	if (image_section(image, other)->sh_type == SHT_STRTAB)
		return false;
	image_section(image, index)->sh_link = other;
	return described(image, other, "in the place of .strtab", detail);
}

/* The kernel passes over relocations of what is no section; it reads nothing itself of the ones
 * below. */
static bool relocations_of_none(struct image *image, struct dice *dice, char *detail)
{
	static const char *const names[] = { ".rela.init.data", ".rela.init.text",
		".rela.exit.text" };
	unsigned int index = image_find(image, names[dice_choose(dice, ARRAY_SIZE(names))]);
	const uint32_t infos[] = { image_section_count(image), image_section_count(image) + 100,
		UINT32_MAX };

	if (!index)
		return false;
	image_section(image, index)->sh_info = infos[dice_choose(dice, ARRAY_SIZE(infos))];
	return described(image, index, "sh_info out of range", detail);
}

static bool relocations_without_addend(struct image *image, struct dice *dice, char *detail)
{
	unsigned int index = any_section(image, dice);

	if (image_section(image, index)->sh_type != SHT_RELA)
		return false;
	image_section(image, index)->sh_type = SHT_REL;
	return described(image, index, "SHT_REL", detail);
}

static bool name_beyond(struct image *image, struct dice *dice, char *detail, bool allocated)
{
	unsigned int index = any_section(image, dice);
	unsigned int names = image_header(image)->e_shstrndx;
	Elf64_Shdr *section = image_section(image, index);
	/* An idle one right behind the names would be read within the file, and do no harm. */
	const uint64_t places[] = { UINT32_MAX, image->size + 1000000,
		image_section(image, names)->sh_size };

	if (section->sh_type == SHT_NULL || !!(section->sh_flags & SHF_ALLOC) != allocated ||
		(allocated && !has_bytes(section)))
		return false;
	(void) described(image, index, "sh_name beyond the names", detail);
	section->sh_name = (Elf64_Word) places[dice_choose(dice, allocated ? 3 : 2)];
	return true;
}

static bool allocated_name_beyond(struct image *image, struct dice *dice, char *detail)
{
	return name_beyond(image, dice, detail, true);
}

/* 6.1 looks at the names of sections with SHF_ALLOC only, and reads those of the others too. */
static bool idle_name_beyond(struct image *image, struct dice *dice, char *detail)
{
	return name_beyond(image, dice, detail, false);
}

static bool told(const char *what, char *detail)
{
	(void) snprintf(detail, DETAIL_SIZE, "%s", what);
	return true;
}

static bool names_damaged(struct image *image, struct dice *dice, char *detail)
{
	unsigned int index = image_header(image)->e_shstrndx;
	Elf64_Shdr *section = image_section(image, index);

	switch (dice_choose(dice, 4)) {
	case 0:
		image_content(image, index)[section->sh_size - 1] = 'x';
		return told(".shstrtab: no NUL at its end", detail);
	case 1:
		section->sh_size = 0;
		return told(".shstrtab: empty", detail);
	case 2:
		section->sh_type = SHT_PROGBITS;
		return told(".shstrtab: SHT_PROGBITS", detail);
	default:
		section->sh_type = SHT_NOBITS;
		return told(".shstrtab: SHT_NOBITS", detail);
	}
}

static bool strings_damaged(struct image *image, struct dice *dice, char *detail)
{
	unsigned int index = image_section(image, image_find_type(image, SHT_SYMTAB))->sh_link;
	Elf64_Shdr *section = image_section(image, index);

	if (dice_choose(dice, 2)) {
		section->sh_type = SHT_PROGBITS;
		return told(".strtab: SHT_PROGBITS", detail);
	}
	image_content(image, index)[0] = 'x';
	return told(".strtab: no NUL at its begin", detail);
}

/* The kernel reads on behind its end; of an empty one 6.1 dies in layout_symtab() or later. */
static bool strings_endless(struct image *image, struct dice *dice, char *detail)
{
	unsigned int index = image_section(image, image_find_type(image, SHT_SYMTAB))->sh_link;
	Elf64_Shdr *section = image_section(image, index);

	if (dice_choose(dice, 2)) {
		section->sh_size = 0;
		return described(image, index, "empty", detail);
	}
	image_content(image, index)[section->sh_size - 1] = 'x';
	return described(image, index, "no NUL at its end", detail);
}

/* ---- sections that the kernel looks for by name */

static const char *const wanted[] = { ".modinfo", ".gnu.linkonce.this_module", "__versions",
	"__ksymtab", "__ksymtab_gpl", "__kcrctab", "__kcrctab_gpl", "__kflagstab", "__param",
	".BTF" };

static bool renamed(struct image *image, struct dice *dice, char *detail)
{
	unsigned int index = image_find(image, wanted[dice_choose(dice, ARRAY_SIZE(wanted))]);

	if (!index)
		return false;
	(void) described(image, index, "under another name", detail);
	image_rename(image, index, ".elsewhere");
	return true;
}

/* A symbol of a section that is not there in the running module has an address in the temporary
 * copy. */
static bool not_allocated(struct image *image, struct dice *dice, char *detail)
{
	static const char *const names[] = { ".modinfo", ".gnu.linkonce.this_module",
		"__versions" };
	unsigned int index = image_find(image, names[dice_choose(dice, ARRAY_SIZE(names))]);

	if (!index)
		return false;
	image_section(image, index)->sh_flags &= ~(Elf64_Xword) SHF_ALLOC;
	return described(image, index, "without SHF_ALLOC", detail);
}

static bool doubled(struct image *image, struct dice *dice, char *detail)
{
	static const char *const names[] = { ".modinfo", ".gnu.linkonce.this_module", "__versions",
		".symtab", ".strtab", ".comment" };
	unsigned int index = image_find(image, names[dice_choose(dice, ARRAY_SIZE(names))]);

	if (!index)
		return false;
	(void) image_add_section(image, index);
	return described(image, index, "two of it", detail);
}

static bool emptied(struct image *image, struct dice *dice, char *detail)
{
	static const char *const names[] = { "__versions", ".comment" };
	unsigned int index = image_find(image, names[dice_choose(dice, ARRAY_SIZE(names))]);

	if (!index)
		return false;
	image_section(image, index)->sh_size = 0;
	return described(image, index, "empty", detail);
}

/* Its first entry is read all the same, from whatever lies there. */
static bool info_emptied(struct image *image, struct dice *dice, char *detail)
{
	unsigned int index = image_find(image, ".modinfo");

	(void) dice;
	if (!index)
		return false;
	image_section(image, index)->sh_size = 0;
	return described(image, index, "empty", detail);
}

/* Relocations then name symbols that are not there, and no kernel looks. */
static bool symbols_emptied(struct image *image, struct dice *dice, char *detail)
{
	unsigned int index = image_find_type(image, SHT_SYMTAB);

	(void) dice;
	image_section(image, index)->sh_size = 0;
	return described(image, index, "empty", detail);
}

static bool no_symbols(struct image *image, struct dice *dice, char *detail)
{
	static const uint32_t types[] = { SHT_PROGBITS, SHT_NULL, SHT_DYNSYM };
	unsigned int index = image_find_type(image, SHT_SYMTAB);

	image_section(image, index)->sh_type = types[dice_choose(dice, ARRAY_SIZE(types))];
	return described(image, index, "not SHT_SYMTAB", detail);
}

static bool struct_longer(struct image *image, struct dice *dice, char *detail)
{
	unsigned int index = image_find(image, ".gnu.linkonce.this_module");

	image_move_to_end(image, index, 64 * (1 + dice_choose(dice, 4)));
	return described(image, index, "longer", detail);
}

/* Until 6.4 the kernel works on the struct module that its own size says, whatever is there. */
static bool struct_shorter(struct image *image, struct dice *dice, char *detail)
{
	unsigned int index = image_find(image, ".gnu.linkonce.this_module");

	image_section(image, index)->sh_size -= 64 * (1 + dice_choose(dice, 4));
	return described(image, index, "shorter", detail);
}

static bool struct_nowhere(struct image *image, struct dice *dice, char *detail)
{
	unsigned int index = image_find(image, ".gnu.linkonce.this_module");

	(void) dice;
	image_section(image, index)->sh_type = SHT_NOBITS;
	return described(image, index, "SHT_NOBITS", detail);
}

static bool writable_code(struct image *image, struct dice *dice, char *detail)
{
	unsigned int index = any_section(image, dice);

	if (image_section(image, index)->sh_type == SHT_NULL)
		return false;
	image_section(image, index)->sh_flags |= SHF_WRITE | SHF_EXECINSTR;
	return described(image, index, "writable and executable", detail);
}

static bool idle_type(struct image *image, struct dice *dice, char *detail)
{
	static const uint32_t types[] = { SHT_NULL, 0x60000000, SHT_HASH, SHT_STRTAB };
	unsigned int index = image_find(image, ".comment");

	if (!index)
		return false;
	image_section(image, index)->sh_type = types[dice_choose(dice, ARRAY_SIZE(types))];
	return described(image, index, "of another type", detail);
}

const struct mutation section_mutations[] = {
	{ "section-beyond-file", beyond_end, true, 0, 0 },
	{ "section-overlap", overlapping, false, 0, 0 },
	{ "section-zero", first_section, true, 0, 0 },
	{ "symtab-link", symbols_link, true, 0, 0 },
	{ "symtab-link-elsewhere", symbols_link_elsewhere, false, VERSION(6, 12), 0 },
	{ "rela-of-no-section", relocations_of_none, true, 0, EM_X86_64 },
	/* module_frob_arch_sections() looks at the section. */
	{ "rela-of-no-section", relocations_of_none, true, NEVER, EM_AARCH64 },
	{ "rel-section", relocations_without_addend, true, 0, 0 },
	{ "section-name-beyond", allocated_name_beyond, true, 0, 0 },
	{ "section-name-beyond-idle", idle_name_beyond, true, VERSION(6, 12), 0 },
	{ "shstrtab", names_damaged, true, 0, 0 },
	{ "strtab", strings_damaged, true, 0, 0 },
	{ "strtab-endless", strings_endless, true, VERSION(6, 14), 0 },
	{ "section-renamed", renamed, true, 0, 0 },
	{ "section-not-allocated", not_allocated, true, 0, 0 },
	{ "section-doubled", doubled, true, 0, 0 },
	{ "section-empty", emptied, true, 0, 0 },
	{ "modinfo-empty", info_emptied, true, NEVER, 0 },
	{ "symtab-empty", symbols_emptied, true, NEVER, 0 },
	{ "no-symtab", no_symbols, true, 0, 0 },
	{ "struct-longer", struct_longer, true, 0, 0 },
	{ "struct-shorter", struct_shorter, true, VERSION(6, 12), 0 },
	{ "struct-nobits", struct_nowhere, true, VERSION(6, 12), 0 },
	{ "section-write-exec", writable_code, true, 0, 0 },
	{ "section-type-idle", idle_type, true, 0, 0 },
	{ 0 },
};
