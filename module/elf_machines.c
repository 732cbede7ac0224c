/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The differences between machines when a kernel loads a module: one row each. Sources, of
 * Linux 6.1, 6.12 and 7.3: arch/x86/kernel/module.c; arch/arm64/kernel/module.c and module-plts.c.
 */
#include "module/elf_internal.h"

#include "common/cleanup.h"

/* ---- x86-64: apply_relocate_add() of arch/x86/kernel/module.c */

/* R_X86_64_PC64 came with relative kernel symbols, of 4.19. */
#define SINCE_PC64 ELF_VERSION(4, 19)
/* R_X86_64_PLT32 is taken as R_X86_64_PC32 (b21ebf2fb4cd), of 4.16. */
#define SINCE_PLT32 ELF_VERSION(4, 16)
/* Places have to be zero (eda9cec4c9a1), of 4.15. */
#define SINCE_ZERO ELF_VERSION(4, 15)

/* Bytes that are written, what the value is relative to, and the bits that it has to fit into. */
#define WRITES(bytes)                .known = true, .size = (bytes)
#define FITS_UNSIGNED(right, number) .shift = (right), .bits = (number)
#define FITS_SIGNED(right, number)   .shift = (right), .bits = (number), .is_signed = true

static const struct elf_relocation_type x86_types[] = {
	[R_X86_64_NONE] = { WRITES(0) },
	[R_X86_64_64] = { WRITES(8) },
	[R_X86_64_PC64] = { WRITES(8), .relative = ELF_TO_PLACE, .since = SINCE_PC64 },
	[R_X86_64_32] = { WRITES(4), FITS_UNSIGNED(0, 32) },
	[R_X86_64_32S] = { WRITES(4), FITS_SIGNED(0, 32) },
	[R_X86_64_PC32] = { WRITES(4), .relative = ELF_TO_PLACE },
	[R_X86_64_PLT32] = { WRITES(4), .relative = ELF_TO_PLACE, .since = SINCE_PLT32 },
};

/* ---- arm64: apply_relocate_add() of arch/arm64/kernel/module.c */

/* reloc_data() */
#define DATA(bytes) WRITES(bytes)
/*
 * reloc_insn_movw(): 16 bits of the value, and where the instruction is made MOVZ or MOVN by its
 * sign (AARCH64_INSN_IMM_MOVNZ) as many of its complement.
 */
#define MOVW        WRITES(4)
#define MOVK(right) FITS_UNSIGNED(right, 16)
#define MOVN(right) FITS_SIGNED(right, 17)
/* reloc_insn_imm() */
#define INSTRUCTION WRITES(4)

static const struct elf_relocation_type arm64_types[] = {
	[0] = { WRITES(0) },   /* R_ARM_NONE */
	[256] = { WRITES(0) }, /* R_AARCH64_NONE; elf.h has 0, which the ABI now says */
	[R_AARCH64_ABS64] = { DATA(8) },
	[R_AARCH64_ABS32] = { DATA(4), FITS_UNSIGNED(0, 32) },
	[R_AARCH64_ABS16] = { DATA(2), FITS_UNSIGNED(0, 16) },
	[R_AARCH64_PREL64] = { DATA(8), .relative = ELF_TO_PLACE },
	[R_AARCH64_PREL32] = { DATA(4), .relative = ELF_TO_PLACE, FITS_SIGNED(0, 32) },
	[R_AARCH64_PREL16] = { DATA(2), .relative = ELF_TO_PLACE, FITS_SIGNED(0, 16) },
	[R_AARCH64_MOVW_UABS_G0] = { MOVW, MOVK(0) },
	[R_AARCH64_MOVW_UABS_G0_NC] = { MOVW },
	[R_AARCH64_MOVW_UABS_G1] = { MOVW, MOVK(16) },
	[R_AARCH64_MOVW_UABS_G1_NC] = { MOVW },
	[R_AARCH64_MOVW_UABS_G2] = { MOVW, MOVK(32) },
	[R_AARCH64_MOVW_UABS_G2_NC] = { MOVW },
	[R_AARCH64_MOVW_UABS_G3] = { MOVW },
	[R_AARCH64_MOVW_SABS_G0] = { MOVW, MOVN(0) },
	[R_AARCH64_MOVW_SABS_G1] = { MOVW, MOVN(16) },
	[R_AARCH64_MOVW_SABS_G2] = { MOVW, MOVN(32) },
	[R_AARCH64_LD_PREL_LO19] = { INSTRUCTION, .relative = ELF_TO_PLACE, FITS_SIGNED(2, 19) },
	[R_AARCH64_ADR_PREL_LO21] = { INSTRUCTION, .relative = ELF_TO_PLACE, FITS_SIGNED(0, 21) },
	/*
	 * On a processor with erratum 843419 some of these become a jump: reloc_insn_adrp(). Room
	 * for it is counted before, so that no module is refused for it.
	 */
	[R_AARCH64_ADR_PREL_PG_HI21] = { INSTRUCTION, .relative = ELF_TO_PAGE,
		FITS_SIGNED(12, 21) },
	[R_AARCH64_ADR_PREL_PG_HI21_NC] = { INSTRUCTION, .relative = ELF_TO_PAGE },
	[R_AARCH64_ADD_ABS_LO12_NC] = { INSTRUCTION },
	[R_AARCH64_LDST8_ABS_LO12_NC] = { INSTRUCTION },
	[R_AARCH64_TSTBR14] = { INSTRUCTION, .relative = ELF_TO_PLACE, FITS_SIGNED(2, 14) },
	[R_AARCH64_CONDBR19] = { INSTRUCTION, .relative = ELF_TO_PLACE, FITS_SIGNED(2, 19) },
	[R_AARCH64_JUMP26] = { INSTRUCTION, .relative = ELF_TO_PLACE, FITS_SIGNED(2, 26),
		.has_plt = true },
	[R_AARCH64_CALL26] = { INSTRUCTION, .relative = ELF_TO_PLACE, FITS_SIGNED(2, 26),
		.has_plt = true },
	[R_AARCH64_LDST16_ABS_LO12_NC] = { INSTRUCTION },
	[R_AARCH64_LDST32_ABS_LO12_NC] = { INSTRUCTION },
	[R_AARCH64_LDST64_ABS_LO12_NC] = { INSTRUCTION },
	[R_AARCH64_MOVW_PREL_G0] = { MOVW, .relative = ELF_TO_PLACE, MOVN(0) },
	[R_AARCH64_MOVW_PREL_G0_NC] = { MOVW, .relative = ELF_TO_PLACE },
	[R_AARCH64_MOVW_PREL_G1] = { MOVW, .relative = ELF_TO_PLACE, MOVN(16) },
	[R_AARCH64_MOVW_PREL_G1_NC] = { MOVW, .relative = ELF_TO_PLACE },
	[R_AARCH64_MOVW_PREL_G2] = { MOVW, .relative = ELF_TO_PLACE, MOVN(32) },
	[R_AARCH64_MOVW_PREL_G2_NC] = { MOVW, .relative = ELF_TO_PLACE },
	[R_AARCH64_MOVW_PREL_G3] = { MOVW, .relative = ELF_TO_PLACE },
	[R_AARCH64_LDST128_ABS_LO12_NC] = { INSTRUCTION },
};

/*
 * module_frob_arch_sections() makes room in these, whatever their type, flags and size were;
 * module_init_ftrace_plt() looks for the trampolines.
 */
static const struct elf_machine_section arm64_sections[] = {
	{ ".plt", ELF_STAGE_LAYOUT, ELF_OPTION_PLTS, ELF_OPTION_NONE },
	{ ".init.plt", ELF_STAGE_LAYOUT, ELF_OPTION_PLTS, ELF_OPTION_NONE },
	{ ".text.ftrace_trampoline", ELF_STAGE_FINALIZE, ELF_OPTION_FTRACE, ELF_OPTION_NONE },
	{ INIT_TRAMPOLINE, ELF_STAGE_FINALIZE, ELF_OPTION_INIT_FTRACE, ELF_OPTION_NO_INIT_ROOM },
	{ .name = NULL },
};

/* ---- the machines */

static const struct elf_machine_section no_sections[] = { { .name = NULL } };

static const struct elf_machine machines[] = {
	{
		.machine = EM_X86_64,
		.types = x86_types,
		.type_count = ARRAY_SIZE(x86_types),
		.sections = no_sections,
		.zero_since = SINCE_ZERO,
		/* MODULES_LEN of arch/x86/include/asm/pgtable_64_types.h with KASLR. */
		.space = (uint64_t) 1008 << 20,
		/* MODULES_VADDR to MODULES_END, there. */
		.modules = { -((int64_t) 1 << 31), -((int64_t) 1 << 24) },
		/* The space of vmalloc(), with tables of four and of five levels. */
		.copy = { -((int64_t) 1 << 55), -((int64_t) 1 << 44) },
		/* The kernel's own symbols lie lower, and those of CPUs may lie at 0. */
		.kernel_fits = true,
		.page_kib = 4,
	},
	{
		.machine = EM_AARCH64,
		.types = arm64_types,
		.type_count = ARRAY_SIZE(arm64_types),
		.sections = arm64_sections,
		/*
		 * Modules and the kernel lie together in 2 GiB: module_alloc() with PLTs of 6.1,
		 * module_init_limits() of 6.5 and MODULES_VSIZE of arch/arm64/include/asm/memory.h
		 * since.
		 */
		.space = (uint64_t) 2 << 30,
		/* From MODULES_VADDR of 48 bits on; with 36 bits there are 32 GiB. */
		.modules = { -((int64_t) 1 << 47), -((int64_t) 1 << 33) },
		.copy = { -((int64_t) 1 << 47), -((int64_t) 1 << 33) },
		.counts_branches = true,
		.unwind = ".init.eh_frame",
	},
};

const struct elf_machine *elf_machine_find(uint16_t machine)
{
	for (size_t i = 0; i < ARRAY_SIZE(machines); i++)
		if (machines[i].machine == machine)
			return &machines[i];
	return NULL;
}

const struct elf_relocation_type *elf_machine_type(const struct elf_machine *machine, uint64_t type)
{
	return type < machine->type_count && machine->types[type].known ? &machine->types[type]
									: NULL;
}

const struct elf_machine_section *elf_machine_section(
	const struct elf_machine *machine, const char *name)
{
	for (const struct elf_machine_section *section = machine->sections; section->name;
		section++)
		if (strcmp(section->name, name) == 0)
			return section;
	return NULL;
}

/* struct plt_entry of arch/arm64/include/asm/module.h; what room there is depends on what is
 * counted. */
#define ROOM_SIZE      12
#define ROOM_ALIGNMENT 64

int elf_parts_frob(const struct elf_parts *parts, struct elf_parts *ret)
{
	const struct elf_machine *machine = elf_machine_find(parts->header.e_machine);
	const struct elf_machine_section *wanted = machine ? machine->sections : no_sections;
	size_t size = (size_t) parts->header.e_shnum * sizeof(*parts->sections);

	*ret = *parts;
	ret->copied = NULL;
	if (!wanted->name || !size)
		return 0;
	ret->copied = malloc(size);
	if (!ret->copied)
		return -ENOMEM;
	ret->sections = memcpy(ret->copied, parts->sections, size);
	for (; wanted->name; wanted++)
		for (unsigned int i = parts->header.e_shnum; !wanted->no_room && i-- > 1;)
			if (strcmp(elf_section_name(parts, i), wanted->name) == 0) {
				ret->copied[i].sh_type = SHT_NOBITS;
				ret->copied[i].sh_flags = SHF_ALLOC | SHF_EXECINSTR;
				ret->copied[i].sh_addralign = ROOM_ALIGNMENT;
				ret->copied[i].sh_size = ROOM_SIZE;
				break;
			}
	return 0;
}

/* ---- options that decide */

/* PLTs are of every kernel for arm64 since then. */
#define SINCE_PLTS ELF_VERSION(6, 5)
/*
 * The trampoline for init functions (a7ed7b9d0ebb) is of 6.17, and of those stable releases since
 * 6.5 whose own modules have a section for it.
 */
#define SINCE_INIT_TRAMPOLINE ELF_VERSION(6, 17)

static enum proof_option has_plts(const struct elf_kernel *kernel)
{
	if (kernel->version >= SINCE_PLTS)
		return PROOF_YES;
	return kernel->options ? kernel->options->module_plts : PROOF_UNKNOWN;
}

static enum proof_option has_ftrace(const struct elf_kernel *kernel)
{
	enum proof_option plts = has_plts(kernel);

	if (plts != PROOF_YES)
		return plts;
	return kernel->options ? kernel->options->dynamic_ftrace : PROOF_UNKNOWN;
}

static enum proof_option has_init_room(const struct elf_kernel *kernel)
{
	if (kernel->version >= SINCE_INIT_TRAMPOLINE)
		return PROOF_YES;
	if (kernel->version && kernel->version < SINCE_PLTS)
		return PROOF_NO;
	return kernel->options ? kernel->options->init_trampoline : PROOF_UNKNOWN;
}

enum proof_option elf_kernel_option(const struct elf_kernel *kernel, enum elf_option which)
{
	static const enum proof_option opposite[] = {
		[PROOF_UNKNOWN] = PROOF_UNKNOWN, [PROOF_NO] = PROOF_YES, [PROOF_YES] = PROOF_NO
	};
	enum proof_option room = has_init_room(kernel);

	switch (which) {
	case ELF_OPTION_PLTS:
		return has_plts(kernel);
	case ELF_OPTION_FTRACE:
		return has_ftrace(kernel);
	case ELF_OPTION_INIT_FTRACE:
		return room == PROOF_YES ? has_ftrace(kernel) : room;
	case ELF_OPTION_NO_INIT_ROOM:
		return opposite[room];
	case ELF_OPTION_SHADOW_STACKS:
		return kernel->options ? kernel->options->shadow_stacks : PROOF_UNKNOWN;
	default:
		return PROOF_YES;
	}
}

void kernel_options_of_module(const struct elf_module *own, struct kernel_options *ret)
{
	const struct elf_machine *machine = elf_machine_find(own->machine);

	if (own->readable && machine && elf_machine_section(machine, INIT_TRAMPOLINE))
		ret->init_trampoline = own->has_init_trampoline ? PROOF_YES : PROOF_NO;
}
