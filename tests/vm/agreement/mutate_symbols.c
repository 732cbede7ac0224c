// SPDX-License-Identifier: Apache-2.0
/* The symbol table and the relocations. */
#include <stdio.h>
#include <string.h>

#include "mutation.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define SYMBOLS_MAX   8192

/* The kernel follows these while it loads and unloads: it patches code by them (calls through
 * pv_ops since 6.8), or calls them for parameters. */
static bool is_patched(const char *name)
{
	return strncmp(name, "__fentry__", 10) == 0 || strncmp(name, "__x86_", 6) == 0 ||
	       strncmp(name, "__SCT__", 7) == 0 || strncmp(name, "__SCK__", 7) == 0 ||
	       strncmp(name, "alt_cb_", 7) == 0 || strcmp(name, "pv_ops") == 0 ||
	       strncmp(name, "__tracepoint", 12) == 0 || strncmp(name, "param_", 6) == 0;
}

/* One of the undefined symbols, or NULL. */
static Elf64_Sym *any_undefined(struct image *image, struct dice *dice)
{
	static size_t found[SYMBOLS_MAX];
	size_t count, undefined = 0;
	Elf64_Sym *symbols = image_symbols(image, &count);

	for (size_t i = 1; i < count && undefined < SYMBOLS_MAX; i++)
		if (symbols[i].st_shndx == SHN_UNDEF && symbols[i].st_name &&
			!is_patched(image_symbol_name(image, &symbols[i])))
			found[undefined++] = i;
	return undefined ? symbols + found[dice_choose(dice, undefined)] : NULL;
}

static void set_symbol_name(struct image *image, const Elf64_Sym *symbol, const char *name)
{
	size_t count, index = (size_t) (symbol - image_symbols(image, &count));
	uint32_t place = image_add_string(image, name);

	image_symbols(image, &count)[index].st_name = place;
}

static bool rename_undefined(
	struct image *image, struct dice *dice, char *detail, const char *name, unsigned int bind)
{
	Elf64_Sym *symbol = any_undefined(image, dice);
	char other[128];

	if (!symbol)
		return false;
	/* Where no name is given it is the old one with something behind it. */
	(void) snprintf(other, sizeof(other), "%.100s%s",
		name ? name : image_symbol_name(image, symbol), name ? "" : "_missing");
	(void) snprintf(
		detail, DETAIL_SIZE, "%.60s to %.60s", image_symbol_name(image, symbol), other);
	symbol->st_info = (unsigned char) ELF64_ST_INFO(bind, ELF64_ST_TYPE(symbol->st_info));
	set_symbol_name(image, symbol, other);
	return true;
}

static bool missing(struct image *image, struct dice *dice, char *detail)
{
	return rename_undefined(image, dice, detail, NULL, STB_GLOBAL);
}

static bool missing_weak(struct image *image, struct dice *dice, char *detail)
{
	return rename_undefined(image, dice, detail, NULL, STB_WEAK);
}

static bool missing_local(struct image *image, struct dice *dice, char *detail)
{
	return rename_undefined(image, dice, detail, NULL, STB_LOCAL);
}

static bool nameless(struct image *image, struct dice *dice, char *detail)
{
	static const unsigned int binds[] = { STB_GLOBAL, STB_WEAK, STB_LOCAL };

	return rename_undefined(
		image, dice, detail, "", binds[dice_choose(dice, ARRAY_SIZE(binds))]);
}

static bool retargeted(struct image *image, struct dice *dice, char *detail)
{
	/* GPL-only, for all, in a name space, and one that is there and not exported. */
	static const char *const names[] = { "ktime_get", "vfree", "dma_buf_put", "start_kernel" };

	return rename_undefined(
		image, dice, detail, names[dice_choose(dice, ARRAY_SIZE(names))], STB_GLOBAL);
}

static bool made_weak(struct image *image, struct dice *dice, char *detail)
{
	static const unsigned int binds[] = { STB_WEAK, STB_LOCAL, 10 };
	unsigned int bind = binds[dice_choose(dice, ARRAY_SIZE(binds))];
	Elf64_Sym *symbol = any_undefined(image, dice);

	if (!symbol)
		return false;
	symbol->st_info = (unsigned char) ELF64_ST_INFO(bind, ELF64_ST_TYPE(symbol->st_info));
	(void) snprintf(detail, DETAIL_SIZE, "%.60s with binding %u",
		image_symbol_name(image, symbol), bind);
	return true;
}

/* No section at all, by the special indexes. */
static bool special_section(struct image *image, struct dice *dice, char *detail)
{
	static const Elf64_Half indexes[] = { SHN_COMMON, SHN_ABS, 0xff20 };
	Elf64_Half index = indexes[dice_choose(dice, ARRAY_SIZE(indexes))];
	Elf64_Sym *symbol = any_undefined(image, dice);

	if (!symbol)
		return false;
	symbol->st_shndx = index;
	(void) snprintf(detail, DETAIL_SIZE, "%.60s with st_shndx %#x",
		image_symbol_name(image, symbol), index);
	return true;
}

static bool common_lto(struct image *image, struct dice *dice, char *detail)
{
	Elf64_Sym *symbol = any_undefined(image, dice);

	if (!symbol)
		return false;
	(void) snprintf(detail, DETAIL_SIZE, "%.60s as common __gnu_lto_slim",
		image_symbol_name(image, symbol));
	symbol->st_shndx = SHN_COMMON;
	set_symbol_name(image, symbol, "__gnu_lto_slim");
	return true;
}

/* Nothing asks what symbol 0 is. */
static bool first_symbol(struct image *image, struct dice *dice, char *detail)
{
	size_t count;
	Elf64_Sym *symbols = image_symbols(image, &count);

	(void) dice;
	symbols[0].st_shndx = SHN_COMMON;
	symbols[0].st_value = 1;
	(void) snprintf(detail, DETAIL_SIZE, "symbol 0 is common");
	return true;
}

/* Older kernels read whatever lies behind the table of sections. */
static bool section_beyond(struct image *image, struct dice *dice, char *detail)
{
	Elf64_Half indexes[] = { (Elf64_Half) image_section_count(image), 0xfe00 };
	Elf64_Half index = indexes[dice_choose(dice, ARRAY_SIZE(indexes))];
	Elf64_Sym *symbol = any_undefined(image, dice);

	if (!symbol)
		return false;
	symbol->st_shndx = index;
	(void) snprintf(detail, DETAIL_SIZE, "%.60s in section %u",
		image_symbol_name(image, symbol), index);
	return true;
}

static bool name_beyond(struct image *image, struct dice *dice, char *detail)
{
	static const uint32_t places[] = { 0x7fffffff, UINT32_MAX };
	uint32_t place = places[dice_choose(dice, ARRAY_SIZE(places))];
	Elf64_Sym *symbol = any_undefined(image, dice);

	if (!symbol)
		return false;
	(void) snprintf(detail, DETAIL_SIZE, "%.60s with st_name %u",
		image_symbol_name(image, symbol), place);
	symbol->st_name = place;
	return true;
}

/* ---- relocations */

/* A relocation of a section that no code is in and that the kernel does not read while it loads. */
static Elf64_Rela *any_relocation(struct image *image, struct dice *dice, unsigned int *ret_section)
{
	static const char *const names[] = { ".rodata", ".data", ".init.text", ".exit.text" };
	unsigned int target = image_find(image, names[dice_choose(dice, ARRAY_SIZE(names))]);

	for (unsigned int i = 1; target && i < image_section_count(image); i++) {
		const Elf64_Shdr *section = image_section(image, i);
		size_t count = section->sh_size / sizeof(Elf64_Rela);

		if (section->sh_type != SHT_RELA || section->sh_info != target || !count)
			continue;
		*ret_section = target;
		return (Elf64_Rela *) (void *) image_content(image, i) + dice_choose(dice, count);
	}
	return NULL;
}

static bool relocation_type(struct image *image, struct dice *dice, char *detail)
{
	/* Some that no kernel knows, and what does nothing. On arm64: of GOTs and thread's data. */
	static const struct {
		Elf64_Half machine;
		unsigned int types[10];
		size_t count;
	} rows[] = {
		{ EM_X86_64, { R_X86_64_GOTPCREL, R_X86_64_16, 42, 200, R_X86_64_NONE }, 5 },
		{ EM_AARCH64,
			{ R_AARCH64_ADR_GOT_PAGE, R_AARCH64_LD64_GOT_LO12_NC,
				R_AARCH64_TLSGD_ADR_PAGE21, 500, 9, 12, 42, 200, 256, 0 },
			10 },
	};
	size_t row = image_header(image)->e_machine == rows[1].machine;
	unsigned int section, type = rows[row].types[dice_choose(dice, rows[row].count)];
	Elf64_Rela *entry = any_relocation(image, dice, &section);

	if (!entry)
		return false;
	entry->r_info = ELF64_R_INFO(ELF64_R_SYM(entry->r_info), type);
	(void) snprintf(detail, DETAIL_SIZE, "%s + %#llx: type %u",
		image_section_name(image, section), (unsigned long long) entry->r_offset, type);
	return true;
}

/* x86 kernels fill only what is zero. */
static bool relocation_target(struct image *image, struct dice *dice, char *detail)
{
	unsigned int section;
	const Elf64_Rela *entry = any_relocation(image, dice, &section);

	if (!entry || ELF64_R_TYPE(entry->r_info) == 0)
		return false;
	image_content(image, section)[entry->r_offset + dice_choose(dice, 4)] = 1;
	(void) snprintf(detail, DETAIL_SIZE, "%s + %#llx: not zero",
		image_section_name(image, section), (unsigned long long) entry->r_offset);
	return true;
}

static bool relocation_offset(struct image *image, struct dice *dice, char *detail)
{
	unsigned int section;
	Elf64_Rela *entry = any_relocation(image, dice, &section);

	if (!entry)
		return false;
	entry->r_offset = image_section(image, section)->sh_size + 1000000;
	(void) snprintf(detail, DETAIL_SIZE, "%s: beyond it", image_section_name(image, section));
	return true;
}

static bool relocation_symbol(struct image *image, struct dice *dice, char *detail)
{
	unsigned int section;
	Elf64_Rela *entry = any_relocation(image, dice, &section);

	if (!entry)
		return false;
	entry->r_info = ELF64_R_INFO(0x7fffffffULL, ELF64_R_TYPE(entry->r_info));
	(void) snprintf(detail, DETAIL_SIZE, "%s: a symbol beyond the table",
		image_section_name(image, section));
	return true;
}

/* ---- the module's own name */

static bool other_name(struct image *image, struct dice *dice, char *detail)
{
	static const char *const names[] = { "another_name", "ndiswrapper", "driverloader", "lve",
		"a-b" };
	char *name = image_module_name(image);

	if (!name)
		return false;
	(void) snprintf(detail, DETAIL_SIZE, "%s", names[dice_choose(dice, ARRAY_SIZE(names))]);
	image_set_module_name(image, detail);
	return true;
}

const struct mutation symbol_mutations[] = {
	{ "symbol-missing", missing, true, 0, 0 },
	{ "symbol-missing-weak", missing_weak, false, 0, 0 },
	{ "symbol-missing-local", missing_local, false, 0, 0 },
	{ "symbol-nameless", nameless, true, 0, 0 },
	{ "symbol-retargeted", retargeted, true, 0, 0 },
	{ "symbol-weak", made_weak, true, 0, 0 },
	{ "symbol-special", special_section, true, 0, 0 },
	{ "symbol-common-lto", common_lto, false, 0, 0 },
	{ "symbol-zero", first_symbol, false, 0, 0 },
	{ "symbol-section-beyond", section_beyond, true, VERSION(7, 0), 0 },
	{ "symbol-name-beyond", name_beyond, true, VERSION(6, 14), 0 },
	{ "relocation-type", relocation_type, true, 0, 0 },
	{ "relocation-target", relocation_target, true, 0, 0 },
	{ "relocation-offset", relocation_offset, true, NEVER, 0 },
	{ "relocation-symbol", relocation_symbol, true, NEVER, 0 },
	{ "struct-name", other_name, true, 0, 0 },
	{ 0 },
};
