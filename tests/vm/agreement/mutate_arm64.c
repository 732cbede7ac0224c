// SPDX-License-Identifier: Apache-2.0
/*
 * Kernels for arm64 alone: sections that they make room in, and relocations that have to fit (Linux
 * arch/arm64/kernel/module.c, module-plts.c).
 */
#include <stdio.h>
#include <string.h>

#include "mutation.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

#define MIB ((int64_t) 1 << 20)
#define GIB ((int64_t) 1 << 30)

/* ---- sections */

static const char *const room[] = { ".plt", ".init.plt", ".text.ftrace_trampoline" };
#define INIT_ROOM ".init.text.ftrace_trampoline"

static bool hide(struct image *image, const char *name, char *detail)
{
	unsigned int index = image_find(image, name);

	if (!index)
		return false;
	(void) snprintf(detail, DETAIL_SIZE, "%s under another name", name);
	image_rename(image, index, ".elsewhere");
	return true;
}

static bool no_room(struct image *image, struct dice *dice, char *detail)
{
	return hide(image, room[dice_choose(dice, ARRAY_SIZE(room))], detail);
}

static bool no_init_room(struct image *image, struct dice *dice, char *detail)
{
	(void) dice;
	return hide(image, INIT_ROOM, detail);
}

/* The kernel sets type, flags, alignment and size itself. */
static bool other_room(struct image *image, struct dice *dice, char *detail)
{
	static const char *const changes[] = { "writable", "not loaded", "SHT_NOBITS",
		"no alignment" };
	size_t choice = dice_choose(dice, ARRAY_SIZE(room) * ARRAY_SIZE(changes));
	unsigned int index = image_find(image, room[choice % ARRAY_SIZE(room)]);
	Elf64_Shdr *section = image_section(image, index);

	if (!index)
		return false;
	choice /= ARRAY_SIZE(room);
	switch (choice) {
	case 0:
		section->sh_flags |= SHF_WRITE | SHF_EXECINSTR;
		break;
	case 1:
		section->sh_flags = 0;
		break;
	case 2:
		section->sh_type = SHT_NOBITS;
		break;
	default:
		section->sh_addralign = 0;
	}
	(void) snprintf(
		detail, DETAIL_SIZE, "%s: %s", image_section_name(image, index), changes[choice]);
	return true;
}

/* ---- relocations */

/* The kernel itself exports these, and no module in its place. */
static const char *const kernels[] = { "_printk", "kfree", "memset", "memcpy", "__stack_chk_fail",
	"strcmp", "_raw_spin_lock", "mutex_lock" };

static bool is_kernels(struct image *image, const Elf64_Sym *symbol)
{
	for (size_t i = 0; symbol->st_shndx == SHN_UNDEF && i < ARRAY_SIZE(kernels); i++)
		if (strcmp(image_symbol_name(image, symbol), kernels[i]) == 0)
			return true;
	return false;
}

/* Relocations of code that does not run, and that nothing patches. */
static Elf64_Rela *code_relocations(
	struct image *image, size_t *ret_count, unsigned int *ret_target)
{
	static const char *const names[] = { ".init.text", ".exit.text", ".text.unlikely" };

	for (size_t n = 0; n < ARRAY_SIZE(names); n++) {
		unsigned int target = image_find(image, names[n]);

		for (unsigned int i = 1; target && i < image_section_count(image); i++) {
			const Elf64_Shdr *section = image_section(image, i);

			if (section->sh_type != SHT_RELA || section->sh_info != target ||
				!section->sh_size)
				continue;
			*ret_count = section->sh_size / sizeof(Elf64_Rela);
			*ret_target = target;
			return (Elf64_Rela *) (void *) image_content(image, i);
		}
	}
	return NULL;
}

/* A type, and what is added to the symbol's value. */
struct change {
	uint32_t type;
	int64_t addend;
};

static bool change_to(Elf64_Rela *entry, uint64_t symbol, const struct change *change, char *detail)
{
	entry->r_info = ELF64_R_INFO(symbol, change->type);
	entry->r_addend = change->addend;
	(void) snprintf(detail, DETAIL_SIZE, "+ %#llx: type %u, symbol %llu, %lld",
		(unsigned long long) entry->r_offset, change->type, (unsigned long long) symbol,
		(long long) change->addend);
	return true;
}

/* Symbols of the kernel: above 2^63, within 2 GiB, and farther than 1 MiB away. */
static bool of_kernel(struct image *image, struct dice *dice, char *detail)
{
	static const struct change changes[] = { { R_AARCH64_ABS16, 0 }, { R_AARCH64_ABS32, 0 },
		{ R_AARCH64_PREL16, 0 }, { R_AARCH64_PREL32, 8 * GIB }, { R_AARCH64_PREL32, 0 },
		{ R_AARCH64_MOVW_UABS_G0, 0 }, { R_AARCH64_MOVW_UABS_G0_NC, 0 },
		{ R_AARCH64_MOVW_UABS_G1, 0 }, { R_AARCH64_MOVW_UABS_G2, 0 },
		{ R_AARCH64_MOVW_UABS_G3, 0 }, { R_AARCH64_MOVW_SABS_G0, 0 },
		{ R_AARCH64_MOVW_SABS_G1, 0 }, { R_AARCH64_MOVW_SABS_G2, 0 },
		{ R_AARCH64_MOVW_PREL_G0, 0 }, { R_AARCH64_MOVW_PREL_G1, 0 },
		{ R_AARCH64_ADR_PREL_LO21, 0 }, { R_AARCH64_LD_PREL_LO19, 0 },
		{ R_AARCH64_CONDBR19, 0 }, { R_AARCH64_TSTBR14, 0 },
		{ R_AARCH64_ADR_PREL_PG_HI21, 16 * GIB },
		{ R_AARCH64_ADR_PREL_PG_HI21_NC, 16 * GIB }, { R_AARCH64_LDST128_ABS_LO12_NC, 5 },
		{ R_AARCH64_CALL26, 256 * MIB } };
	const struct change *change = &changes[dice_choose(dice, ARRAY_SIZE(changes))];
	size_t count = 0, symbols;
	unsigned int target;
	Elf64_Rela *entries = code_relocations(image, &count, &target);
	Elf64_Sym *table = image_symbols(image, &symbols);

	for (size_t i = 0; i < count; i++)
		if (is_kernels(image, &table[ELF64_R_SYM(entries[i].r_info)]))
			return change_to(
				&entries[i], ELF64_R_SYM(entries[i].r_info), change, detail);
	return false;
}

/* Symbol 0 has the value 0: the addend is all. */
static bool of_number(struct image *image, struct dice *dice, char *detail)
{
	static const struct change changes[] = { { R_AARCH64_ABS16, UINT16_MAX },
		{ R_AARCH64_ABS16, UINT16_MAX + 1 }, { R_AARCH64_ABS16, -1 },
		{ R_AARCH64_ABS32, UINT32_MAX }, { R_AARCH64_ABS32, (int64_t) UINT32_MAX + 1 },
		{ R_AARCH64_MOVW_UABS_G0, UINT16_MAX }, { R_AARCH64_MOVW_UABS_G0, UINT16_MAX + 1 },
		{ R_AARCH64_MOVW_UABS_G1, UINT32_MAX }, { R_AARCH64_MOVW_UABS_G1, 4 * GIB },
		{ R_AARCH64_MOVW_SABS_G0, -65536 }, { R_AARCH64_MOVW_SABS_G0, -65537 },
		{ R_AARCH64_MOVW_SABS_G0, 65535 }, { R_AARCH64_MOVW_SABS_G0, 65536 },
		{ R_AARCH64_MOVW_SABS_G1, -4 * GIB }, { R_AARCH64_MOVW_SABS_G1, 4 * GIB },
		{ R_AARCH64_PREL32, 0 }, { R_AARCH64_ADR_PREL_PG_HI21, 0 },
		{ R_AARCH64_ADR_PREL_PG_HI21_NC, 0 }, { R_AARCH64_CALL26, 0 } };
	const struct change *change = &changes[dice_choose(dice, ARRAY_SIZE(changes))];
	size_t count = 0;
	unsigned int target;
	Elf64_Rela *entries = code_relocations(image, &count, &target);

	return entries && change_to(&entries[dice_choose(dice, count)], 0, change, detail);
}

/* A symbol of the place's own section: how far it leads is known to the byte. */
static bool of_own(struct image *image, struct dice *dice, char *detail)
{
	static const struct change changes[] = { { R_AARCH64_ADR_PREL_LO21, MIB - 1 },
		{ R_AARCH64_ADR_PREL_LO21, MIB }, { R_AARCH64_ADR_PREL_LO21, -MIB },
		{ R_AARCH64_ADR_PREL_LO21, -MIB - 1 }, { R_AARCH64_LD_PREL_LO19, MIB - 4 },
		{ R_AARCH64_LD_PREL_LO19, MIB }, { R_AARCH64_CONDBR19, MIB - 4 },
		{ R_AARCH64_CONDBR19, MIB }, { R_AARCH64_CONDBR19, -MIB - 4 },
		{ R_AARCH64_TSTBR14, 32764 }, { R_AARCH64_TSTBR14, 32768 },
		{ R_AARCH64_PREL16, INT16_MAX }, { R_AARCH64_PREL16, INT16_MAX + 1 },
		{ R_AARCH64_PREL16, INT16_MIN - 1 }, { R_AARCH64_PREL32, INT32_MAX },
		{ R_AARCH64_PREL32, (int64_t) INT32_MAX + 1 }, { R_AARCH64_MOVW_PREL_G0, 65536 },
		{ R_AARCH64_MOVW_PREL_G0, -65536 }, { R_AARCH64_JUMP26, 128 * MIB - 4 } };
	struct change change = changes[dice_choose(dice, ARRAY_SIZE(changes))];
	size_t count = 0, symbols;
	unsigned int target;
	Elf64_Rela *entries = code_relocations(image, &count, &target);
	const Elf64_Sym *table = image_symbols(image, &symbols);
	Elf64_Rela *entry;

	if (!entries)
		return false;
	entry = &entries[dice_choose(dice, count)];
	for (size_t i = 1; i < symbols; i++)
		if (table[i].st_shndx == target) {
			change.addend += (int64_t) (entry->r_offset - table[i].st_value);
			return change_to(entry, i, &change, detail);
		}
	return false;
}

/* Nothing exports it, and it stays at 0, which only a PLT reaches. */
static bool weak_by_page(struct image *image, struct dice *dice, char *detail)
{
	static const uint32_t types[] = { R_AARCH64_ADR_PREL_PG_HI21, R_AARCH64_PREL32,
		R_AARCH64_ABS32, R_AARCH64_CALL26 };
	const struct change change = { types[dice_choose(dice, ARRAY_SIZE(types))], 0 };
	size_t count = 0, symbols;
	unsigned int target;
	Elf64_Rela *entries = code_relocations(image, &count, &target);
	Elf64_Sym *table = image_symbols(image, &symbols);
	uint32_t name;

	for (size_t i = 0; i < count; i++) {
		uint64_t index = ELF64_R_SYM(entries[i].r_info);

		if (!is_kernels(image, &table[index]))
			continue;
		(void) change_to(&entries[i], index, &change, detail);
		table[index].st_info = ELF64_ST_INFO(STB_WEAK, STT_NOTYPE);
		name = image_add_string(image, "nothing_exports_this");
		image_symbols(image, &symbols)[index].st_name = name;
		return true;
	}
	return false;
}

const struct mutation arm64_mutations[] = {
	{ "arm64-no-room", no_room, true, 0, EM_AARCH64 },
	{ "arm64-no-init-room", no_init_room, false, 0, EM_AARCH64 },
	{ "arm64-other-room", other_room, true, 0, EM_AARCH64 },
	{ "arm64-of-kernel", of_kernel, true, 0, EM_AARCH64 },
	{ "arm64-of-number", of_number, true, 0, EM_AARCH64 },
	{ "arm64-of-own", of_own, true, 0, EM_AARCH64 },
	{ "arm64-weak", weak_by_page, true, 0, EM_AARCH64 },
	{ 0 },
};
