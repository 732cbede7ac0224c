/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The relocations of a module for x86-64, tried as Linux kernel/module/main.c (apply_relocations())
 * and arch/x86/kernel/module.c (apply_relocate_add()) do them: of known types, onto zeros, without
 * overflow. That symbols exist and places lie within their section no kernel checks: -EFAULT.
 */
#include <string.h>

#include "module/elf_parts.h"

/* .data..percpu is relocated before it is copied; 7.2 does it, 6.12 does not. */
#define SINCE_PERCPU V(7, 2)
/* R_X86_64_PC64 came with relative kernel symbols, of 4.19. */
#define SINCE_PC64 V(4, 19)
/* R_X86_64_PLT32 is taken as R_X86_64_PC32 (b21ebf2fb4cd), of 4.16. */
#define SINCE_PLT32 V(4, 16)
/* Places have to be zero (eda9cec4c9a1), of 4.15. */
#define SINCE_ZERO V(4, 15)

/* Where modules come to lie: MODULES_VADDR to MODULES_END, as distances from 2^64. */
#define MODULES_LOWEST  (-(int64_t) 0x80000000)
#define MODULES_HIGHEST (-(int64_t) 0x1000000)

/* No sum of offsets in a file comes near this. */
#define OFFSET_LIMIT ((int64_t) 1 << 48)

/* All of what is relocated: no kernel has room for more. */
#define TARGET_LIMIT ((uint64_t) 1 << 30)

/* What is left of what a file can ask for: sections that share their bytes ask for more. */
struct budget {
	uint64_t relocations;
	uint64_t bytes; /* of sections that are relocated */
};

struct target {
	const struct elf_parts *parts;
	unsigned int relocations; /* section */
	unsigned int section;
	uint64_t size;
	const char *bytes;      /* or NULL: no bytes in the file, all zero */
	unsigned char *written; /* a bit for each byte */
	unsigned int version;
	struct budget *budget;
};

struct fit {
	bool always;
	bool never;
};

static unsigned long long ull(uint64_t number)
{
	return number;
}

static size_t size_of_type(uint64_t type)
{
	switch (type) {
	case R_X86_64_64:
	case R_X86_64_PC64:
		return 8;
	case R_X86_64_32:
	case R_X86_64_32S:
	case R_X86_64_PC32:
	case R_X86_64_PLT32:
		return 4;
	default:
		return 0;
	}
}

/* Does every value, or none, from @low to @high fit into 32 bits? */
static struct fit fit_range(uint64_t type, int64_t low, int64_t high)
{
	int64_t least = type == R_X86_64_32 ? 0 : INT32_MIN;
	int64_t most = type == R_X86_64_32 ? (int64_t) UINT32_MAX : INT32_MAX;

	return (struct fit){ low >= least && high <= most, high < least || low > most };
}

static struct fit fit_value(
	const struct elf_parts *parts, const Elf64_Rela *relocation, const Elf64_Sym *symbol)
{
	uint64_t type = ELF64_R_TYPE(relocation->r_info);
	int64_t sum = (int64_t) (symbol->st_value + (uint64_t) relocation->r_addend);

	if (type != R_X86_64_32 && type != R_X86_64_32S)
		return (struct fit){ true, false };
	if (symbol->st_shndx == SHN_ABS)
		return fit_range(type, sum, sum);
	if (sum > OFFSET_LIMIT || sum < -OFFSET_LIMIT)
		return (struct fit){ false, true };
	/* The kernel's symbols lie lower, those of CPUs may lie at 0: the addend alone is judged.
	 */
	if (symbol->st_shndx == SHN_UNDEF || symbol->st_shndx >= parts->header.e_shnum ||
		symbol->st_shndx == parts->found[ELF_PERCPU].allocated)
		return (struct fit){ true, false };
	/* What is not loaded is far away, in the kernel's copy of the file. */
	if (!elf_section_is_loaded(parts, symbol->st_shndx) && symbol->st_shndx != parts->symtab &&
		symbol->st_shndx != parts->strtab)
		return (struct fit){ false, true };
	return fit_range(type, MODULES_LOWEST + sum, MODULES_HIGHEST + sum);
}

static bool is_zero(const struct target *target, uint64_t offset, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		uint64_t place = offset + i;

		if (target->bytes && target->bytes[place])
			return false;
		if (target->written[place / 8] & 1u << place % 8)
			return false;
	}
	return true;
}

static void mark_written(const struct target *target, uint64_t offset, size_t size)
{
	for (size_t i = 0; i < size; i++)
		target->written[(offset + i) / 8] |= (unsigned char) (1u << (offset + i) % 8);
}

/* Where a relocation stands in the file, for messages. */
static unsigned long long place_of(const struct target *target, size_t index)
{
	return target->parts->sections[target->relocations].sh_offset + index * sizeof(Elf64_Rela);
}

/* What kernels do not take that are older than the type, unless it was brought back to them. */
static int check_type(const struct target *target, size_t index, uint64_t type, struct error *error)
{
	unsigned int since = type == R_X86_64_PLT32  ? SINCE_PLT32
			     : type == R_X86_64_PC64 ? SINCE_PC64
						     : 0;

	if (target->version >= since)
		return 0;
	return error_set(error, -EFAULT,
		"the relocation at offset %llu is of type %llu, which kernels before %u.%u take "
		"only where that was brought back to them",
		place_of(target, index), ull(type), since >> 8, since & 0xff);
}

/* The kernel reads the symbol whatever the type. */
static int check_index(const struct target *target, size_t index, const Elf64_Rela *relocation,
	struct error *error)
{
	if (ELF64_R_SYM(relocation->r_info) < target->parts->symbol_count)
		return 0;
	return error_set(error, -EFAULT,
		"the relocation at offset %llu is of symbol %llu, of %zu; this kernel does "
		"not check it and would read what is not there",
		place_of(target, index), ull(ELF64_R_SYM(relocation->r_info)),
		target->parts->symbol_count);
}

static int check_symbol(const struct target *target, size_t index, const Elf64_Rela *relocation,
	struct error *error)
{
	const struct elf_parts *parts = target->parts;
	struct fit fit;
	Elf64_Sym symbol;
	int r = check_index(target, index, relocation, error);

	if (r < 0)
		return r;
	elf_symbol_at(parts, ELF64_R_SYM(relocation->r_info), &symbol);
	fit = fit_value(parts, relocation, &symbol);
	if (fit.never)
		return error_set(error, -ENOEXEC,
			"the relocation at offset %llu, of type %llu, has a value that is too "
			"large for it",
			place_of(target, index), ull(ELF64_R_TYPE(relocation->r_info)));
	if (!fit.always)
		return error_set(error, -EFAULT,
			"the relocation at offset %llu, of type %llu, has a value that may be too "
			"large for it: it depends on where the kernel puts the module",
			place_of(target, index), ull(ELF64_R_TYPE(relocation->r_info)));
	return 0;
}

static int check_relocation(const struct target *target, size_t index, const Elf64_Rela *relocation,
	struct error *error)
{
	uint64_t type = ELF64_R_TYPE(relocation->r_info);
	size_t size = size_of_type(type);
	int r;

	if (type == R_X86_64_NONE)
		return check_index(target, index, relocation, error);
	if (!size)
		return error_set(error, -ENOEXEC,
			"the relocation at offset %llu is of type %llu, which the kernel does not "
			"know",
			place_of(target, index), ull(type));
	if (relocation->r_offset > target->size || size > target->size - relocation->r_offset)
		return error_set(error, -EFAULT,
			"the relocation at offset %llu is for place %llu of section %u, which has "
			"%llu bytes; this kernel does not check it and would write elsewhere",
			place_of(target, index), ull(relocation->r_offset), target->section,
			ull(target->size));
	r = check_type(target, index, type, error);
	if (r == 0)
		r = check_symbol(target, index, relocation, error);
	if (r < 0)
		return r;
	if (!is_zero(target, relocation->r_offset, size))
		return error_set(error, target->version < SINCE_ZERO ? -EFAULT : -ENOEXEC,
			"the relocation at offset %llu is for place %llu of section %u, which is "
			"not zero",
			place_of(target, index), ull(relocation->r_offset), target->section);
	mark_written(target, relocation->r_offset, size);
	return 0;
}

/* Linkers give each section one of relocations; a thousand for one would take us minutes. */
static int spend(struct target *target, uint64_t relocations, struct error *error)
{
	struct budget *budget = target->budget;

	if (relocations > budget->relocations || target->size > budget->bytes)
		return error_set(error, -EFAULT,
			"its relocations at offset %llu lie upon others or relocate what others "
			"do: they are not looked at",
			place_of(target, 0));
	budget->relocations -= relocations;
	budget->bytes -= target->size;
	return 0;
}

static int check_section(struct target *target, struct error *error)
{
	struct elf_span relocations = { 0 }, bytes = { 0 };
	int r = elf_section_map(target->parts, target->relocations, &relocations, error);

	if (r == 0)
		r = elf_section_map(target->parts, target->section, &bytes, error);
	if (r < 0)
		return r;
	target->size = target->parts->sections[target->section].sh_size;
	if (target->size > TARGET_LIMIT || relocations.size < sizeof(Elf64_Rela))
		return 0;
	r = spend(target, relocations.size / sizeof(Elf64_Rela), error);
	if (r < 0)
		return r;
	if (target->parts->sections[target->section].sh_type != SHT_NOBITS)
		target->bytes = bytes.size == target->size ? bytes.data : NULL;
	target->written = calloc(target->size / 8 + 1, 1);
	if (!target->written)
		return error_set_errno(error, -ENOMEM, "%llu bytes of section %u",
			ull(target->size), target->section);
	for (size_t i = 0; r == 0 && i < relocations.size / sizeof(Elf64_Rela); i++) {
		Elf64_Rela relocation;

		memcpy(&relocation, relocations.data + i * sizeof(relocation), sizeof(relocation));
		r = check_relocation(target, i, &relocation, error);
	}
	free(target->written);
	return r;
}

/* Whether apply_relocations() passes over it. */
static bool is_skipped(const struct elf_parts *parts, unsigned int section, unsigned int version)
{
	const Elf64_Shdr *header = &parts->sections[section];

	if (header->sh_type != SHT_RELA || header->sh_flags & SHF_RELA_LIVEPATCH ||
		header->sh_info >= parts->header.e_shnum)
		return true;
	if (header->sh_info == parts->found[ELF_PERCPU].allocated)
		return !header->sh_info || version < SINCE_PERCPU;
	return !elf_section_is_loaded(parts, header->sh_info);
}

int elf_relocations_check(const struct elf_parts *parts, unsigned int version, struct error *error)
{
	struct budget budget = { parts->size / sizeof(Elf64_Rela), TARGET_LIMIT };

	if (parts->header.e_machine != EM_X86_64)
		return 0;
	for (unsigned int i = 1; i < parts->header.e_shnum; i++) {
		struct target target = { .parts = parts,
			.relocations = i,
			.section = parts->sections[i].sh_info,
			.version = version,
			.budget = &budget };
		int r;

		if (is_skipped(parts, i, version))
			continue;
		r = check_section(&target, error);
		if (r < 0)
			return r;
	}
	return 0;
}
