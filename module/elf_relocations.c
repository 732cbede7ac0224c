/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Relocations are tried as the kernel applies them: Linux kernel/module/main.c
 * (apply_relocations()) and the machine's apply_relocate_add(), by the rows of elf_machines.c. They
 * have to be of known types and without overflow; on x86-64 their places have to be zero. No kernel
 * checks that symbols exist and that places lie within their section: -EFAULT.
 *
 * A kernel whose version is not known is taken for a new one here: the unknown version is a doubt
 * of its own, and every module that a compiler makes today has what only kernels before 4.19 object
 * to.
 */
#include "module/elf_internal.h"

#include <limits.h>

/* .data..percpu is relocated before it is copied; 7.2 does it, 6.12 does not. */
#define SINCE_PERCPU ELF_VERSION(7, 2)

/* No sum of offsets in a file comes near this, and no distance between addresses is more. */
#define OFFSET_LIMIT ((int64_t) 1 << 48)
/* Beyond this it fits nowhere, whatever address is added. */
#define SUM_LIMIT ((int64_t) 1 << 52)

/*
 * The kernel and all modules lie in one range of 2 GiB where a machine has distances of 32 bits, so
 * that what lies within its section, or a little beyond, is in reach.
 */
#define NEAR_LIMIT ((int64_t) 1 << 31)
#define NEAR_SLACK ((int64_t) 1 << 24)

/* Pages by which ELF_TO_PAGE counts, whatever the kernel's are. */
#define PAGE_SIZE_4K ((int64_t) 4096)

/* All of what is relocated: no kernel has room for more. */
#define TARGET_LIMIT ((uint64_t) 1 << 30)

/*
 * How many more relocations and bytes a file may ask for. Only a file whose sections share their
 * bytes asks for more.
 */
struct budget {
	uint64_t relocations;
	uint64_t bytes;     /* of sections that are relocated */
	struct error doubt; /* the first type that this kernel may not know; "" */
};

struct target {
	const struct elf_parts *parts;
	const struct elf_machine *machine;
	const struct elf_absent *absent;
	unsigned int relocations; /* section */
	unsigned int section;
	uint64_t size;
	const char *bytes;      /* or NULL: no bytes in the file, all zero */
	unsigned char *written; /* a bit for each byte; NULL: places need not be zero */
	int64_t memory; /* bytes of all code that lies with the section's; -1: not counted */
	unsigned int version;
	struct budget *budget;
};

/* ---- values */

/* Where a symbol's value comes from. */
enum origin {
	ORIGIN_NUMBER, /* it is the one in the file */
	ORIGIN_KERNEL, /* the kernel's, of another module, or of each CPU */
	ORIGIN_OWN,    /* a section of the module in its memory */
	ORIGIN_COPY,   /* a section that is not loaded: it lies in the kernel's copy of the file */
};

static bool is_absent(const struct elf_absent *absent, uint64_t index)
{
	size_t low = 0, high = absent ? absent->count : 0;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (absent->items[middle] == index)
			return true;
		if (absent->items[middle] < index)
			low = middle + 1;
		else
			high = middle;
	}
	return false;
}

/* simplify_symbols() */
static enum origin origin_of(const struct target *target, uint64_t index, const Elf64_Sym *symbol)
{
	const struct elf_parts *parts = target->parts;
	unsigned int section = symbol->st_shndx;

	if (section == SHN_ABS)
		return ORIGIN_NUMBER;
	/* It resolves no symbol 0, and none that is common or a live patch's. */
	if (!index || section >= parts->header.e_shnum)
		return target->machine->kernel_fits ? ORIGIN_KERNEL : ORIGIN_NUMBER;
	if (section == SHN_UNDEF)
		return is_absent(target->absent, index) ? ORIGIN_NUMBER : ORIGIN_KERNEL;
	if (section == parts->found[ELF_PERCPU].allocated)
		return ORIGIN_KERNEL;
	return elf_section_is_loaded(parts, section) || section == parts->symtab ||
			       section == parts->strtab
		       ? ORIGIN_OWN
		       : ORIGIN_COPY;
}

/* Code that is freed after the init function, or not loaded at all, lies apart. */
static bool is_lasting_code(const struct elf_parts *parts, unsigned int index)
{
	const uint64_t flags = SHF_ALLOC | SHF_EXECINSTR;
	const char *name = elf_section_name(parts, index);

	return (parts->sections[index].sh_flags & (flags | SHF_WRITE)) == flags &&
	       strncmp(name, ".init", 5) != 0 && strncmp(name, ".exit", 5) != 0;
}

/* At most so much lies between two sections of code: layout_sections() puts them together. */
static int64_t code_size(struct target *target)
{
	const struct elf_parts *parts = target->parts;

	if (target->memory < 0) {
		target->memory = 0;
		for (unsigned int i = 1; i < parts->header.e_shnum; i++)
			if (is_lasting_code(parts, i) && target->memory < NEAR_LIMIT)
				target->memory +=
					(int64_t) (parts->sections[i].sh_size % NEAR_LIMIT +
						   parts->sections[i].sh_addralign % NEAR_LIMIT);
	}
	return target->memory;
}

/* The distances from a place of something that lies @beyond what is known to be near. */
static struct elf_range near_range(int64_t beyond)
{
	return (struct elf_range){ beyond - NEAR_LIMIT, beyond + NEAR_LIMIT - 1 };
}

/* How far @offset is from lying within @size bytes, or a little beyond. */
static int64_t beyond_of(int64_t offset, uint64_t size)
{
	int64_t end = size > (uint64_t) OFFSET_LIMIT ? OFFSET_LIMIT : (int64_t) size;

	if (offset < -NEAR_SLACK)
		return offset + NEAR_SLACK;
	return offset > end + NEAR_SLACK ? offset - end - NEAR_SLACK : 0;
}

/* Distances from the place to where @sum leads in a section of the module. */
static struct elf_range own_distance(
	struct target *target, const Elf64_Rela *relocation, unsigned int section, int64_t sum)
{
	const struct elf_parts *parts = target->parts;
	int64_t distance = sum - (int64_t) relocation->r_offset;

	if (section == target->section)
		return (struct elf_range){ distance, distance };
	if (is_lasting_code(parts, section) && is_lasting_code(parts, target->section))
		return (struct elf_range){ distance - code_size(target),
			distance + code_size(target) };
	return near_range(beyond_of(sum, parts->sections[section].sh_size));
}

static struct elf_range value_range(struct target *target, const Elf64_Rela *relocation,
	const Elf64_Sym *symbol, enum origin origin, int64_t sum)
{
	const struct elf_machine *machine = target->machine;
	const struct elf_range *at = origin == ORIGIN_COPY ? &machine->copy : &machine->modules;
	bool absolute = elf_machine_type(machine, ELF64_R_TYPE(relocation->r_info))->relative ==
			ELF_ABSOLUTE;

	if (origin == ORIGIN_NUMBER)
		return absolute ? (struct elf_range){ sum, sum }
				: (struct elf_range){ sum - at->high, sum - at->low };
	if (absolute)
		return (struct elf_range){ at->low + sum, at->high + sum };
	if (origin == ORIGIN_OWN)
		return own_distance(target, relocation, symbol->st_shndx, sum);
	if (origin == ORIGIN_KERNEL)
		return near_range(beyond_of(sum, 0));
	return (struct elf_range){ sum - OFFSET_LIMIT, sum + OFFSET_LIMIT };
}

enum fit { FITS, FITS_NEVER, FITS_SOMETIMES };

static enum fit compare_range(const struct elf_relocation_type *type, struct elf_range value)
{
	int64_t least = type->is_signed ? -((int64_t) 1 << (type->bits - 1)) : 0;
	int64_t most = ((int64_t) 1 << (type->is_signed ? type->bits - 1 : type->bits)) - 1;
	int64_t low, high;

	/* (S + A) and the place are each cut to their page. */
	if (type->relative == ELF_TO_PAGE) {
		value.low -= PAGE_SIZE_4K - 1;
		value.high += PAGE_SIZE_4K - 1;
	}
	low = value.low >> type->shift;
	high = value.high >> type->shift;
	if (low >= least && high <= most)
		return FITS;
	return high < least || low > most ? FITS_NEVER : FITS_SOMETIMES;
}

/* Does every value, none or some of them fit? */
static enum fit fit_value(
	struct target *target, const Elf64_Rela *relocation, const Elf64_Sym *symbol)
{
	const struct elf_relocation_type *type =
		elf_machine_type(target->machine, ELF64_R_TYPE(relocation->r_info));
	enum origin origin = origin_of(target, ELF64_R_SYM(relocation->r_info), symbol);
	bool resolved = origin == ORIGIN_KERNEL && symbol->st_shndx == SHN_UNDEF;
	int64_t sum =
		(int64_t) ((resolved ? 0 : symbol->st_value) + (uint64_t) relocation->r_addend);
	enum fit fit;

	if (!type->bits || (type->has_plt && symbol->st_shndx != target->section))
		return FITS;
	if (origin == ORIGIN_NUMBER && type->relative == ELF_ABSOLUTE)
		return compare_range(type, (struct elf_range){ sum, sum });
	if (sum > SUM_LIMIT || sum < -SUM_LIMIT)
		return FITS_NEVER;
	if (origin == ORIGIN_KERNEL && target->machine->kernel_fits)
		return sum > OFFSET_LIMIT || sum < -OFFSET_LIMIT ? FITS_NEVER : FITS;
	fit = compare_range(type, value_range(target, relocation, symbol, origin, sum));
	/* No PLT is counted for a jump within its section: it takes that of another, if any. */
	return type->has_plt && fit == FITS_NEVER ? FITS_SOMETIMES : fit;
}

/* ---- places */

/* The bits for up to 8 bytes; they reach into two bytes of target.written. */
static unsigned int bits_of(uint64_t offset, size_t size)
{
	return ((1u << size) - 1) << offset % 8;
}

static bool is_zero(const struct target *target, uint64_t offset, size_t size)
{
	static const char zeros[8];
	unsigned int bits = bits_of(offset, size);

	return (!target->bytes || memcmp(target->bytes + offset, zeros, size) == 0) &&
	       !(target->written[offset / 8] & bits) &&
	       !(target->written[offset / 8 + 1] & bits >> 8);
}

/* The offset of a relocation in the file, for messages. */
static unsigned long long place_of(const struct target *target, size_t index)
{
	return target->parts->sections[target->relocations].sh_offset + index * sizeof(Elf64_Rela);
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

/*
 * A PLT's ADRP reaches 4 GiB, and no number lies so near: it becomes a BRK. The kernel loads that,
 * or stops (BUG) where it compares it with another PLT whose target has the same low bits:
 * plt_entries_equal() of arch/arm64/kernel/module-plts.c, seen with 6.12.
 */
static bool is_beyond_plts(
	const struct target *target, const Elf64_Rela *relocation, const Elf64_Sym *symbol)
{
	return elf_machine_type(target->machine, ELF64_R_TYPE(relocation->r_info))->has_plt &&
	       origin_of(target, ELF64_R_SYM(relocation->r_info), symbol) == ORIGIN_NUMBER;
}

static int check_value(
	struct target *target, size_t index, const Elf64_Rela *relocation, struct error *error)
{
	uint64_t type = ELF64_R_TYPE(relocation->r_info);
	Elf64_Sym symbol;
	int r = check_index(target, index, relocation, error);

	if (r < 0)
		return r;
	elf_symbol_at(target->parts, ELF64_R_SYM(relocation->r_info), &symbol);
	if (is_beyond_plts(target, relocation, &symbol))
		return error_set(error, -EFAULT,
			"the relocation at offset %llu, of type %llu, jumps to a number or to a "
			"symbol that nothing exports, which no PLT reaches",
			place_of(target, index), ull(type));
	switch (fit_value(target, relocation, &symbol)) {
	case FITS_NEVER:
		return error_set(error, -ENOEXEC,
			"the relocation at offset %llu, of type %llu, has a value that is too "
			"large for it",
			place_of(target, index), ull(type));
	case FITS_SOMETIMES:
		return error_set(error, -ERANGE,
			"the relocation at offset %llu, of type %llu, has a value that may be too "
			"large for it: it depends on where the kernel puts the module",
			place_of(target, index), ull(type));
	default:
		return 0;
	}
}

static int check_zero(
	struct target *target, size_t index, uint64_t offset, size_t size, struct error *error)
{
	if (!target->written)
		return 0;
	if (!is_zero(target, offset, size))
		return error_set(error,
			target->version < target->machine->zero_since ? -EFAULT : -ENOEXEC,
			"the relocation at offset %llu is for place %llu of section %u, which is "
			"not zero",
			place_of(target, index), ull(offset), target->section);
	target->written[offset / 8] |= (unsigned char) bits_of(offset, size);
	target->written[offset / 8 + 1] |= (unsigned char) (bits_of(offset, size) >> 8);
	return 0;
}

static int check_relocation(
	struct target *target, size_t index, const Elf64_Rela *relocation, struct error *error)
{
	uint64_t number = ELF64_R_TYPE(relocation->r_info);
	uint64_t offset = relocation->r_offset;
	const struct elf_relocation_type *type = elf_machine_type(target->machine, number);
	int r;

	if (!type)
		return error_set(error, -ENOEXEC,
			"the relocation at offset %llu is of type %llu, which the kernel does not "
			"know",
			place_of(target, index), ull(number));
	if (!type->size)
		return check_index(target, index, relocation, error);
	if (offset > target->size || type->size > target->size - offset)
		return error_set(error, -EFAULT,
			"the relocation at offset %llu is for place %llu of section %u, which has "
			"%llu bytes; this kernel does not check it and would write elsewhere",
			place_of(target, index), ull(offset), target->section, ull(target->size));
	if (target->version < type->since && !*target->budget->doubt.text)
		(void) error_set(&target->budget->doubt, -EAGAIN,
			"the relocation at offset %llu is of type %llu, which Linux takes since "
			"%u.%u, and an older kernel only where its distribution backported that",
			place_of(target, index), ull(number), type->since >> 8, type->since & 0xff);
	r = check_value(target, index, relocation, error);
	return r < 0 ? r : check_zero(target, index, offset, type->size, error);
}

/* ---- sections */

typedef int check_function(
	struct target *target, size_t index, const Elf64_Rela *relocation, struct error *error);

static int check_each(struct target *target, check_function *check, struct error *error)
{
	struct budget *budget = target->budget;
	struct elf_span relocations;
	size_t count;
	int r = elf_section_map(target->parts, target->relocations, &relocations, error);

	if (r < 0)
		return r;
	count = relocations.size / sizeof(Elf64_Rela);
	/* Linkers give each section one of relocations; a thousand for one would take minutes. */
	if (count > budget->relocations || (count && target->size > budget->bytes))
		return error_set(error, -EFAULT,
			"its relocations at offset %llu lie upon others or relocate what others "
			"do: they are not looked at",
			place_of(target, 0));
	budget->relocations -= count;
	budget->bytes -= count ? target->size : 0;
	for (size_t i = 0; i < count; i++) {
		Elf64_Rela relocation;

		memcpy(&relocation, relocations.data + i * sizeof(relocation), sizeof(relocation));
		r = check(target, i, &relocation, error);
		if (r < 0)
			return r;
	}
	return 0;
}

static int check_relocated(struct target *target, struct error *error)
{
	_cleanup_free_ unsigned char *written = NULL;
	const Elf64_Shdr *section = &target->parts->sections[target->section];
	uint64_t relocations_size = target->parts->sections[target->relocations].sh_size;
	struct elf_span bytes;
	int r = elf_section_map(target->parts, target->section, &bytes, error);

	if (r < 0)
		return r;
	target->size = section->sh_size;
	if (target->size > TARGET_LIMIT || relocations_size < sizeof(Elf64_Rela))
		return 0;
	if (section->sh_type != SHT_NOBITS)
		target->bytes = bytes.size == target->size ? bytes.data : NULL;
	if (target->machine->zero_since && target->size <= target->budget->bytes) {
		written = calloc(target->size / 8 + 2, 1);
		if (!written)
			return error_set_errno(error, -ENOMEM, "%llu bytes of section %u",
				ull(target->size), target->section);
		target->written = written;
	}
	return check_each(target, check_relocation, error);
}

/* count_plts() of arch/arm64/kernel/module-plts.c reads the symbols of jumps, and no others. */
static int check_counted(
	struct target *target, size_t index, const Elf64_Rela *relocation, struct error *error)
{
	const struct elf_relocation_type *type =
		elf_machine_type(target->machine, ELF64_R_TYPE(relocation->r_info));

	return type && type->has_plt ? check_index(target, index, relocation, error) : 0;
}

/* Whether apply_relocations() skips it. */
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

/* Whether module_frob_arch_sections() reads what is skipped then. */
static bool is_counted(
	const struct elf_parts *parts, const struct elf_machine *machine, unsigned int section)
{
	const Elf64_Shdr *header = &parts->sections[section];

	return machine->counts_branches && header->sh_type == SHT_RELA &&
	       header->sh_info < parts->header.e_shnum &&
	       parts->sections[header->sh_info].sh_flags & SHF_EXECINSTR;
}

static int check_all(const struct elf_parts *parts, const struct elf_machine *machine,
	unsigned int version, const struct elf_absent *absent, struct error *error)
{
	struct budget budget = { parts->size / sizeof(Elf64_Rela), TARGET_LIMIT, { "", "" } };

	for (unsigned int i = 1; i < parts->header.e_shnum; i++) {
		struct target target = { .parts = parts,
			.machine = machine,
			.absent = absent,
			.relocations = i,
			.section = parts->sections[i].sh_info,
			.memory = -1,
			.version = version,
			.budget = &budget };
		int r = 0;

		if (!is_skipped(parts, i, version))
			r = check_relocated(&target, error);
		else if (is_counted(parts, machine, i))
			r = check_each(&target, check_counted, error);
		if (r < 0)
			return r;
	}
	/* Nothing worse was found. */
	return *budget.doubt.text ? error_set(error, -EAGAIN, "%s", budget.doubt.text) : 0;
}

int elf_relocations_check(const struct elf_parts *parts, unsigned int known,
	const struct elf_absent *absent, struct error *error)
{
	const struct elf_machine *machine = elf_machine_find(parts->header.e_machine);
	struct elf_parts seen;
	int r;

	if (!machine)
		return 0;
	if (elf_parts_frob(parts, &seen) < 0)
		return error_set_errno(error, -ENOMEM, "%u sections", parts->header.e_shnum);
	r = check_all(&seen, machine, known ? known : UINT_MAX, absent, error);
	free(seen.copied);
	return r;
}
