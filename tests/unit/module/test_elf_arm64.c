/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rules of kernels for arm64, on a module file made by hand. tests/vm/agreement asks the same
 * of kernels.
 */
#include "tests/unit/mutant.h"

#include <elf.h>
#include <stdlib.h>

#include "module/elf_internal.h"

#define V(major, minor) ELF_VERSION(major, minor)
#define VERMAGIC        "6.1.0-1-test SMP mod_unload aarch64"
#define PRINTK          "0x00000000\tprintk\tvmlinux\tEXPORT_SYMBOL\t\n"
#define MIB             ((int64_t) 1 << 20)
#define GIB             ((int64_t) 1 << 30)

/* Types that elf.h lacks, or that no kernel knows. */
#define R_GOT_PAGE 311
#define R_GOT_LO12 312
#define R_TLS      513
#define R_UNKNOWN  500

enum section {
	NO_SECTION,
	TEXT,
	TEXT_RELA,
	INIT_TEXT,
	INIT_RELA,
	DATA,
	DATA_RELA,
	COLD,
	PLT,
	INIT_PLT,
	TRAMPOLINE,
	ROOM_FOR_INIT,
	PERCPU,
	UNWIND,
	NOTE,
	MODINFO,
	THIS_MODULE,
	SYMTAB,
	STRTAB,
	SHSTRTAB,
	SECTIONS,
};

enum symbol {
	NO_SYMBOL,
	IN_TEXT,
	IN_INIT,
	IN_DATA,
	IN_COLD,
	IN_NOTE,
	NUMBER,
	KERNEL,
	WEAK,
	SYMBOLS
};

/* The bytes of the file. */
struct file {
	Elf64_Ehdr header;
	Elf64_Shdr sections[SECTIONS];
	Elf64_Sym symbols[SYMBOLS];
	Elf64_Rela text_rela[2], init_rela[1], data_rela[1];
	char bytes[128]; /* of all sections whose content is of no interest */
	char this_module[896];
	char modinfo[96];
	char strings[32];
	char names[SECTIONS][32];
};

#define AT(member) offsetof(struct file, member), sizeof(((struct file *) NULL)->member)
#define CODE       (SHF_ALLOC | SHF_EXECINSTR)
#define WRITABLE   (SHF_ALLOC | SHF_WRITE)

static const struct {
	const char *name;
	uint32_t type;
	uint64_t flags;
	uint64_t offset, size;
	uint32_t link, info;
} sections[SECTIONS] = {
	[TEXT] = { ".text", SHT_PROGBITS, CODE, AT(bytes), 0, 0 },
	[TEXT_RELA] = { ".rela.text", SHT_RELA, 0, AT(text_rela), SYMTAB, TEXT },
	[INIT_TEXT] = { ".init.text", SHT_PROGBITS, CODE, AT(bytes), 0, 0 },
	[INIT_RELA] = { ".rela.init.text", SHT_RELA, 0, AT(init_rela), SYMTAB, INIT_TEXT },
	[DATA] = { ".data", SHT_PROGBITS, WRITABLE, AT(bytes), 0, 0 },
	[DATA_RELA] = { ".rela.data", SHT_RELA, 0, AT(data_rela), SYMTAB, DATA },
	[COLD] = { ".text.unlikely", SHT_PROGBITS, CODE, AT(bytes), 0, 0 },
	[PLT] = { ".plt", SHT_PROGBITS, CODE, offsetof(struct file, bytes), 1, 0, 0 },
	[INIT_PLT] = { ".init.plt", SHT_PROGBITS, CODE, offsetof(struct file, bytes), 1, 0, 0 },
	[TRAMPOLINE] = { ".text.ftrace_trampoline", SHT_PROGBITS, CODE,
		offsetof(struct file, bytes), 1, 0, 0 },
	[ROOM_FOR_INIT] = { ".init.text.ftrace_trampoline", SHT_PROGBITS, CODE,
		offsetof(struct file, bytes), 1, 0, 0 },
	[PERCPU] = { ".data..percpu", SHT_PROGBITS, WRITABLE, AT(bytes), 0, 0 },
	[UNWIND] = { ".eh_frame", SHT_PROGBITS, 0, AT(bytes), 0, 0 },
	[NOTE] = { ".comment", SHT_PROGBITS, 0, AT(bytes), 0, 0 },
	[MODINFO] = { ".modinfo", SHT_PROGBITS, SHF_ALLOC, AT(modinfo), 0, 0 },
	[THIS_MODULE] = { ".gnu.linkonce.this_module", SHT_PROGBITS, WRITABLE, AT(this_module), 0,
		0 },
	[SYMTAB] = { ".symtab", SHT_SYMTAB, 0, AT(symbols), STRTAB, 0 },
	[STRTAB] = { ".strtab", SHT_STRTAB, 0, AT(strings), 0, 0 },
	[SHSTRTAB] = { ".shstrtab", SHT_STRTAB, 0, AT(names), 0, 0 },
};

static void set_symbol(Elf64_Sym *symbol, uint32_t name, unsigned int bind, unsigned int section)
{
	*symbol = (Elf64_Sym){ .st_name = name,
		.st_info = (unsigned char) ELF64_ST_INFO(bind, STT_NOTYPE),
		.st_shndx = (uint16_t) section };
}

/* One that every kernel takes. */
static struct file *make_file(void)
{
	static const char strings[] = "\0printk\0maybe\0_alloc_tag_cntr.2";
	static const char modinfo[] = "name=hand\0license=GPL\0vermagic=" VERMAGIC;
	struct file *file = calloc(1, sizeof(*file));

	assert_non_null(file);
	file->header = (Elf64_Ehdr){ .e_ident = ELFMAG,
		.e_type = ET_REL,
		.e_machine = EM_AARCH64,
		.e_shoff = offsetof(struct file, sections),
		.e_shentsize = sizeof(Elf64_Shdr),
		.e_shnum = SECTIONS,
		.e_shstrndx = SHSTRTAB };
	file->header.e_ident[EI_CLASS] = ELFCLASS64;
	file->header.e_ident[EI_DATA] = ELFDATA2LSB;
	for (size_t i = 1; i < SECTIONS; i++) {
		file->sections[i] =
			(Elf64_Shdr){ .sh_name = (uint32_t) (i * sizeof(file->names[0])),
				.sh_type = sections[i].type,
				.sh_flags = sections[i].flags,
				.sh_offset = sections[i].offset,
				.sh_size = sections[i].size,
				.sh_link = sections[i].link,
				.sh_info = sections[i].info,
				.sh_addralign = 8 };
		(void) snprintf(file->names[i], sizeof(file->names[i]), "%s", sections[i].name);
	}
	memcpy(file->strings, strings, sizeof(strings));
	memcpy(file->modinfo, modinfo, sizeof(modinfo));
	memcpy(file->this_module + STRUCT_NAME_OFFSET, "hand", sizeof("hand"));
	memset(file->bytes, 0x1f, sizeof(file->bytes)); /* places need not be zero */
	set_symbol(&file->symbols[IN_TEXT], 0, STB_LOCAL, TEXT);
	set_symbol(&file->symbols[IN_INIT], 0, STB_LOCAL, INIT_TEXT);
	set_symbol(&file->symbols[IN_DATA], 0, STB_LOCAL, DATA);
	set_symbol(&file->symbols[IN_COLD], 0, STB_LOCAL, COLD);
	set_symbol(&file->symbols[IN_NOTE], 0, STB_LOCAL, NOTE);
	set_symbol(&file->symbols[NUMBER], 0, STB_LOCAL, SHN_ABS);
	set_symbol(&file->symbols[KERNEL], 1, STB_GLOBAL, SHN_UNDEF);
	set_symbol(&file->symbols[WEAK], 8, STB_WEAK, SHN_UNDEF);
	file->text_rela[0].r_info = ELF64_R_INFO(KERNEL, R_AARCH64_CALL26);
	file->text_rela[1].r_info = ELF64_R_INFO(IN_DATA, R_AARCH64_ADR_PREL_PG_HI21);
	file->init_rela[0].r_info = ELF64_R_INFO(WEAK, R_AARCH64_ABS64);
	file->data_rela[0].r_info = ELF64_R_INFO(KERNEL, R_AARCH64_ABS64);
	return file;
}

static void free_file(struct file **file)
{
	free(*file);
}

#define _cleanup_file_   _cleanup_(free_file)
#define _cleanup_module_ _cleanup_(elf_module_close)

static struct elf_module *open_made(const struct file *file)
{
	struct elf_module *module = NULL;
	struct error error = { 0 };

	if (elf_module_open_memory(file, sizeof(*file), "hand.ko", &module, &error) < 0)
		fail_msg("%s", error.text);
	return module;
}

/* ---- the proof's word about a file */

/* Debian's, 6.1: all that a rule may hang on is known. */
static struct proof_kernel debian(const char *krel)
{
	return (struct proof_kernel){ .krel = krel,
		.vermagic = VERMAGIC,
		.machine = EM_AARCH64,
		.options = { .module_plts = PROOF_YES,
			.dynamic_ftrace = PROOF_YES,
			.shadow_stacks = PROOF_NO,
			.page_kib = 4 } };
}

static void assert_proof_by(const struct folder *folder, const struct file *file,
	struct proof_kernel kernel, enum proof_verdict verdict, int answer, const char *why)
{
	_cleanup_module_ struct elf_module *module = open_made(file);
	_cleanup_(symvers_close) struct symvers *symvers = symvers_of(folder, PRINTK);
	_cleanup_(proof_free) struct proof proof = { 0 };
	const char *text;

	kernel.symvers = symvers;
	assert_int_equal(proof_module(module, &kernel, &proof), 0);
	text = proof.count ? proof.findings[0].text : "";
	if (proof.verdict != verdict || proof.answer != answer)
		fail_msg("%s, %d: %s", proof_verdict_text(proof.verdict), proof.answer, text);
	assert_contains(text, why);
}

static void assert_proof(
	const struct folder *folder, const struct file *file, int answer, const char *why)
{
	assert_proof_by(folder, file, debian("6.1.0-1-test"),
		answer ? PROOF_WILL_NOT_LOAD : PROOF_WILL_LOAD, answer, why);
}

static void assert_doubt(const struct folder *folder, const struct file *file,
	struct proof_kernel kernel, const char *why)
{
	assert_proof_by(folder, file, kernel, PROOF_CANNOT_TELL, ENOEXEC, why);
}

static void name_section(struct file *file, enum section section, const char *name)
{
	(void) snprintf(file->names[section], sizeof(file->names[section]), "%s", name);
}

/* Gives a section a name that no kernel looks for. */
static void hide(struct file *file, enum section section)
{
	file->names[section][0] = '_';
}

/* ---- relocations */

static void assert_relocation(
	struct file *file, uint32_t type, enum symbol symbol, int64_t addend, int code)
{
	static uint32_t weak = WEAK;
	const struct elf_absent absent = { &weak, 1 };
	_cleanup_module_ struct elf_module *module = NULL;
	struct error error = { 0 };

	file->text_rela[1].r_info = ELF64_R_INFO(symbol, type);
	file->text_rela[1].r_addend = addend;
	module = open_made(file);
	if (elf_module_try_relocations(module, V(6, 1), &absent, &error) != code)
		fail_msg("type %u, symbol %d, %lld: not %d: %s", type, (int) symbol,
			(long long) addend, code, error.text);
}

static void a_module_of_arm64_is_fine(void **state)
{
	static const char *const krels[] = { "6.1.0-1-test", "6.12.0-1-test", "7.3.0-1-test" };
	_cleanup_file_ struct file *file = make_file();

	for (size_t i = 0; i < ARRAY_SIZE(krels); i++) {
		struct proof_kernel kernel = debian(krels[i]);

		assert_proof_by(*state, file, kernel, PROOF_WILL_LOAD, 0, "vermagic");
		kernel.options = (struct kernel_options){ 0 };
		assert_proof_by(*state, file, kernel, PROOF_WILL_LOAD, 0, "vermagic");
	}
}

static void types_are_those_of_the_kernel(void **state)
{
	static const uint32_t unknown[] = { 1, 9, 12, 42, 200, 281, 294, 300, R_GOT_PAGE,
		R_GOT_LO12, R_TLS, R_UNKNOWN, UINT32_MAX };
	static const uint32_t known[] = { 0, 256, R_AARCH64_ABS64, R_AARCH64_PREL32,
		R_AARCH64_PREL64, R_AARCH64_MOVW_UABS_G3, R_AARCH64_MOVW_SABS_G2,
		R_AARCH64_MOVW_PREL_G3, R_AARCH64_ADR_PREL_PG_HI21, R_AARCH64_ADR_PREL_PG_HI21_NC,
		R_AARCH64_ADD_ABS_LO12_NC, R_AARCH64_LDST8_ABS_LO12_NC,
		R_AARCH64_LDST16_ABS_LO12_NC, R_AARCH64_LDST32_ABS_LO12_NC,
		R_AARCH64_LDST64_ABS_LO12_NC, R_AARCH64_LDST128_ABS_LO12_NC, R_AARCH64_JUMP26,
		R_AARCH64_CALL26 };
	_cleanup_file_ struct file *file = make_file();

	(void) state;
	for (size_t i = 0; i < ARRAY_SIZE(unknown); i++)
		assert_relocation(file, unknown[i], KERNEL, 0, -ENOEXEC);
	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		assert_relocation(file, known[i], KERNEL, 0, 0);
}

/* Symbols of the kernel and of other sections lie above 2^63, and within 2 GiB of the place. */
static void values_have_to_fit(void **state)
{
	static const struct {
		uint32_t type;
		enum symbol symbol;
		int64_t addend;
		int code;
	} rows[] = {
		{ R_AARCH64_ABS16, KERNEL, 0, -ENOEXEC }, { R_AARCH64_ABS32, IN_DATA, 0, -ENOEXEC },
		{ R_AARCH64_ABS32, NUMBER, UINT32_MAX, 0 },
		{ R_AARCH64_ABS32, NUMBER, (int64_t) UINT32_MAX + 1, -ENOEXEC },
		{ R_AARCH64_ABS32, NUMBER, -1, -ENOEXEC },
		{ R_AARCH64_ABS16, NO_SYMBOL, UINT16_MAX, 0 },
		{ R_AARCH64_ABS16, NO_SYMBOL, UINT16_MAX + 1, -ENOEXEC },
		{ R_AARCH64_PREL32, KERNEL, 16, 0 }, { R_AARCH64_PREL32, IN_DATA, 16, 0 },
		{ R_AARCH64_PREL32, KERNEL, 8 * GIB, -ENOEXEC },
		{ R_AARCH64_PREL32, KERNEL, GIB, -ERANGE },
		{ R_AARCH64_PREL32, NUMBER, 0, -ENOEXEC },
		{ R_AARCH64_PREL16, IN_TEXT, INT16_MAX, 0 },
		{ R_AARCH64_PREL16, IN_TEXT, INT16_MAX + 1, -ENOEXEC },
		{ R_AARCH64_MOVW_UABS_G0, KERNEL, 0, -ENOEXEC },
		{ R_AARCH64_MOVW_UABS_G0_NC, KERNEL, 0, 0 },
		{ R_AARCH64_MOVW_UABS_G0, NUMBER, UINT16_MAX, 0 },
		{ R_AARCH64_MOVW_UABS_G1, NUMBER, (int64_t) 1 << 32, -ENOEXEC },
		{ R_AARCH64_MOVW_UABS_G2, IN_TEXT, 0, -ENOEXEC },
		{ R_AARCH64_MOVW_UABS_G2, IN_TEXT, (int64_t) 1 << 48, 0 },
		{ R_AARCH64_MOVW_UABS_G2, IN_TEXT, (int64_t) 1 << 49, -ENOEXEC },
		{ R_AARCH64_MOVW_SABS_G0, NUMBER, -65536, 0 },
		{ R_AARCH64_MOVW_SABS_G0, NUMBER, -65537, -ENOEXEC },
		{ R_AARCH64_MOVW_SABS_G1, KERNEL, 0, -ENOEXEC },
		{ R_AARCH64_MOVW_PREL_G0, IN_TEXT, -65536, 0 },
		{ R_AARCH64_MOVW_PREL_G0, IN_TEXT, 65536, -ENOEXEC },
		{ R_AARCH64_MOVW_PREL_G1, KERNEL, 0, 0 },
		{ R_AARCH64_ADR_PREL_LO21, IN_TEXT, MIB - 1, 0 },
		{ R_AARCH64_ADR_PREL_LO21, IN_TEXT, MIB, -ENOEXEC },
		{ R_AARCH64_ADR_PREL_LO21, KERNEL, 0, -ERANGE },
		{ R_AARCH64_ADR_PREL_LO21, IN_DATA, 0, -ERANGE },
		{ R_AARCH64_LD_PREL_LO19, IN_TEXT, -MIB, 0 },
		{ R_AARCH64_LD_PREL_LO19, IN_TEXT, -MIB - 1, -ENOEXEC },
		{ R_AARCH64_CONDBR19, IN_TEXT, MIB, -ENOEXEC },
		{ R_AARCH64_CONDBR19, KERNEL, 0, -ERANGE },
		{ R_AARCH64_CONDBR19, IN_COLD, 0, 0 }, /* in the same memory, some bytes away */
		{ R_AARCH64_CONDBR19, IN_COLD, 2 * MIB, -ENOEXEC },
		{ R_AARCH64_CONDBR19, IN_INIT, 0, -ERANGE },
		{ R_AARCH64_TSTBR14, IN_TEXT, 32764, 0 },
		{ R_AARCH64_TSTBR14, IN_TEXT, 32768, -ENOEXEC },
		{ R_AARCH64_ADR_PREL_PG_HI21, KERNEL, 0, 0 },
		{ R_AARCH64_ADR_PREL_PG_HI21, NUMBER, 0, -ENOEXEC },
		{ R_AARCH64_ADR_PREL_PG_HI21_NC, NUMBER, 0, 0 },
		{ R_AARCH64_ADR_PREL_PG_HI21, IN_NOTE, 0, -ERANGE }, /* in the copy of the file */
		{ R_AARCH64_CALL26, KERNEL, GIB, 0 },                /* by a PLT */
		{ R_AARCH64_CALL26, NUMBER, 0, -EFAULT },            /* which does not reach it */
		{ R_AARCH64_JUMP26, NUMBER, GIB, -EFAULT }, { R_AARCH64_CALL26, 0, 0, -EFAULT },
		{ R_AARCH64_CALL26, IN_TEXT, 256 * MIB, -ERANGE }, /* for which none is counted */
	};
	_cleanup_file_ struct file *file = make_file();

	(void) state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		assert_relocation(file, rows[i].type, rows[i].symbol, rows[i].addend, rows[i].code);
}

/* Its value is 0, which no distance reaches. */
static void an_absent_weak_symbol_is_at_zero(void **state)
{
	_cleanup_file_ struct file *file = make_file();

	assert_relocation(file, R_AARCH64_ADR_PREL_PG_HI21, WEAK, 0, -ENOEXEC);
	assert_relocation(file, R_AARCH64_PREL32, WEAK, 0, -ENOEXEC);
	assert_relocation(file, R_AARCH64_ABS32, WEAK, 0, 0);
	assert_relocation(file, R_AARCH64_CALL26, WEAK, 0, -EFAULT);
	assert_relocation(file, R_AARCH64_ABS64, WEAK, 0, 0);
	assert_proof(*state, file, 0, "");
	file->text_rela[1].r_info = ELF64_R_INFO(WEAK, R_AARCH64_ADR_PREL_PG_HI21);
	assert_proof(*state, file, ENOEXEC, "of type 275, has a value that is too large");
	memcpy(file->strings + 8, "printk", sizeof("printk")); /* is there */
	assert_proof(*state, file, 0, "");
}

static void what_is_not_there_is_not_checked(void **state)
{
	_cleanup_file_ struct file *file = make_file();

	(void) state;
	assert_relocation(file, R_AARCH64_CALL26, SYMBOLS, 0, -EFAULT);
	assert_relocation(file, 256, SYMBOLS, 0, -EFAULT);
	file->text_rela[1].r_offset = sizeof(file->bytes) - 2;
	assert_relocation(file, R_AARCH64_CALL26, KERNEL, 0, -EFAULT);
	assert_relocation(file, R_AARCH64_ABS16, NUMBER, 0, 0);
	file->text_rela[1].r_offset = 0;
	/* Relocations of code that is not loaded are counted all the same. */
	file->sections[TEXT].sh_flags = SHF_EXECINSTR;
	assert_relocation(file, R_AARCH64_CALL26, SYMBOLS, 0, -EFAULT);
	assert_relocation(file, R_AARCH64_ABS32, SYMBOLS, 0, 0);
	file->sections[TEXT].sh_flags = 0;
	assert_relocation(file, R_AARCH64_CALL26, SYMBOLS, 0, 0);
}

/* ---- sections */

static void plts_have_to_be_there(void **state)
{
	static const enum section plts[] = { PLT, INIT_PLT };

	for (size_t i = 0; i < ARRAY_SIZE(plts); i++) {
		_cleanup_file_ struct file *file = make_file();
		struct proof_kernel kernel = debian("6.1.0-1-test");

		hide(file, plts[i]);
		assert_proof(*state, file, ENOEXEC, "has no section ");
		kernel.options.module_plts = PROOF_UNKNOWN;
		assert_doubt(*state, file, kernel, sections[plts[i]].name);
		kernel.options.module_plts = PROOF_NO;
		assert_proof_by(*state, file, kernel, PROOF_WILL_LOAD, 0, "");
		kernel.krel = "6.5.0-1-test"; /* has PLTS always */
		assert_proof_by(
			*state, file, kernel, PROOF_WILL_NOT_LOAD, ENOEXEC, "has no section");
	}
}

static void trampolines_have_to_be_there_for_a_tracer(void **state)
{
	_cleanup_file_ struct file *file = make_file();
	_cleanup_file_ struct file *older = make_file();
	struct proof_kernel kernel = debian("6.1.0-1-test");

	hide(file, TRAMPOLINE);
	assert_proof(*state, file, ENOEXEC, "has no section .text.ftrace_trampoline");
	kernel.options.dynamic_ftrace = PROOF_NO;
	assert_proof_by(*state, file, kernel, PROOF_WILL_LOAD, 0, "");
	kernel.options.dynamic_ftrace = PROOF_UNKNOWN;
	assert_doubt(*state, file, kernel, ".text.ftrace_trampoline");
	hide(older, ROOM_FOR_INIT);
	assert_proof(*state, older, 0, "");
	kernel = debian("6.12.0-1-test");
	assert_doubt(*state, older, kernel, "has no section .init.text.ftrace_trampoline");
	kernel.options.init_trampoline = PROOF_NO;
	assert_proof_by(*state, older, kernel, PROOF_WILL_LOAD, 0, "");
	kernel.options.init_trampoline = PROOF_YES;
	assert_proof_by(*state, older, kernel, PROOF_WILL_NOT_LOAD, ENOEXEC, "has no section");
	assert_proof_by(*state, older, debian("6.17.0-1-test"), PROOF_WILL_NOT_LOAD, ENOEXEC,
		"has no section .init.text.ftrace_trampoline");
	name_section(older, ROOM_FOR_INIT, ".text.ftrace_trampoline");
	assert_proof(*state, older, ENOEXEC, "has 2 sections .text.ftrace_trampoline");
}

/* The kernel gives them other flags and types before it looks. */
static void flags_that_the_kernel_sets_may_be_any(void **state)
{
	static const enum section set[] = { PLT, INIT_PLT, TRAMPOLINE };
	_cleanup_file_ struct file *file = make_file();
	struct proof_kernel kernel = debian("6.12.0-1-test");

	for (size_t i = 0; i < ARRAY_SIZE(set); i++) {
		file->sections[set[i]].sh_flags = SHF_WRITE | SHF_EXECINSTR;
		file->sections[set[i]].sh_addralign = 3;
		assert_proof(*state, file, 0, "");
	}
	file->sections[ROOM_FOR_INIT].sh_flags |= SHF_WRITE;
	assert_proof(*state, file, ENOEXEC, "can be written and executed");
	assert_doubt(*state, file, kernel, "can be written and executed");
	kernel.options.init_trampoline = PROOF_NO;
	assert_proof_by(*state, file, kernel, PROOF_WILL_NOT_LOAD, ENOEXEC, "can be written");
	kernel.options.init_trampoline = PROOF_YES;
	assert_proof_by(*state, file, kernel, PROOF_WILL_LOAD, 0, "");
	assert_proof_by(*state, file, debian("6.17.0-1-test"), PROOF_WILL_LOAD, 0, "");
	file->sections[COLD].sh_flags |= SHF_WRITE;
	assert_proof_by(*state, file, debian("6.17.0-1-test"), PROOF_WILL_NOT_LOAD, ENOEXEC,
		".text.unlikely");
}

/* module_frob_arch_sections() follows both without a look. */
static void indexes_are_followed_before_they_are_checked(void **state)
{
	_cleanup_file_ struct file *file = make_file();
	struct proof_kernel kernel = debian("6.1.0-1-test");

	file->sections[DATA_RELA].sh_info = SECTIONS;
	assert_proof(*state, file, ENOEXEC, "may crash");
	file->sections[DATA_RELA].sh_info = UINT32_MAX;
	assert_proof(*state, file, ENOEXEC, "has relocations of section 4294967295");
	kernel.options.module_plts = PROOF_NO;
	assert_proof_by(*state, file, kernel, PROOF_WILL_LOAD, 0, "");
	file->sections[DATA_RELA].sh_info = DATA;
	file->sections[UNWIND] = file->sections[SHSTRTAB];
	file->header.e_shstrndx = UNWIND;
	file->sections[SHSTRTAB] = file->sections[SYMTAB]; /* behind it */
	assert_proof(*state, file, 0, "");
	file->sections[SHSTRTAB].sh_size -= sizeof(Elf64_Sym);
	assert_proof(*state, file, ENOEXEC, "a further symbol table, and a shorter one");
}

/* ---- the rest */

/* The kernel's own modules tell what no version does. */
static void a_module_of_the_kernels_tells_of_trampolines(void **state)
{
	_cleanup_file_ struct file *file = make_file();
	_cleanup_module_ struct elf_module *newer = open_made(file);
	_cleanup_module_ struct elf_module *older = NULL;
	_cleanup_module_ struct elf_module *other = NULL;
	struct kernel_options options = { 0 };

	(void) state;
	kernel_options_of_module(newer, &options);
	assert_int_equal(options.init_trampoline, PROOF_YES);
	hide(file, ROOM_FOR_INIT);
	older = open_made(file);
	kernel_options_of_module(older, &options);
	assert_int_equal(options.init_trampoline, PROOF_NO);
	file->header.e_machine = EM_X86_64;
	other = open_made(file);
	options.init_trampoline = PROOF_UNKNOWN;
	kernel_options_of_module(other, &options);
	assert_int_equal(options.init_trampoline, PROOF_UNKNOWN);
}

static void e_ident_says_nothing(void **state)
{
	_cleanup_file_ struct file *file = make_file();

	file->header.e_ident[EI_CLASS] = ELFCLASS32;
	assert_proof(*state, file, 0, "");
	file->header.e_ident[EI_DATA] = ELFDATA2MSB;
	assert_proof(*state, file, 0, "");
	file->header.e_machine = EM_X86_64;
	assert_proof(*state, file, ENOEXEC, "built for x86_64, but the kernel is for aarch64");
}

/* It ends with the machine, not with a space. */
static void the_vermagic_is_compared_to_its_end(void **state)
{
	_cleanup_file_ struct file *file = make_file();
	char *end = (char *) memmem(file->modinfo, sizeof(file->modinfo), "aarch64", 7) + 7;

	*end = ' ';
	assert_proof(*state, file, ENOEXEC, "built for vermagic");
	*end = '\0';
	end[-1] = '3';
	assert_proof(*state, file, ENOEXEC, "built for vermagic");
}

static void modules_have_two_gib(void **state)
{
	_cleanup_file_ struct file *file = make_file();

	file->sections[COLD].sh_type = SHT_NOBITS;
	file->sections[COLD].sh_size = (uint64_t) GIB + GIB / 2;
	assert_proof(*state, file, 0, "");
	file->sections[COLD].sh_size = 2 * (uint64_t) GIB;
	assert_proof(*state, file, ENOMEM, "more than modules can have");
}

static void alignments_are_cut_to_a_page(void **state)
{
	static const struct {
		uint64_t align;
		unsigned int page_kib;
		int answer;
	} rows[] = { { 3, 4, ENOMEM }, { 4097, 4, 0 }, { 4097, 16, ENOMEM }, { 16385, 16, 0 },
		{ 16385, 64, ENOMEM }, { 65537, 64, 0 }, { 8192, 16, 0 } };
	_cleanup_file_ struct file *file = make_file();

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct proof_kernel kernel = debian("6.12.0-1-test");

		kernel.options.page_kib = rows[i].page_kib;
		file->sections[PERCPU].sh_addralign = rows[i].align;
		assert_proof_by(*state, file, kernel,
			rows[i].answer ? PROOF_WILL_NOT_LOAD : PROOF_WILL_LOAD, rows[i].answer, "");
	}
}

static void profiled_allocations_have_more_space(void **state)
{
	_cleanup_file_ struct file *file = make_file();
	Elf64_Sym *counter = &file->symbols[IN_NOTE];

	file->sections[PERCPU].sh_type = SHT_NOBITS;
	file->sections[PERCPU].sh_size = 9 << 10;
	assert_proof(*state, file, ENOMEM, "has 9216 bytes and alignment 8, more than modules");
	set_symbol(counter, 14, STB_LOCAL, PERCPU);
	assert_proof(*state, file, 0, "");
	set_symbol(counter, 14, STB_LOCAL, DATA);
	assert_proof(*state, file, ENOMEM, "has 9216 bytes");
	set_symbol(counter, 14, STB_LOCAL, PERCPU);
	file->sections[PERCPU].sh_size = 65 << 10;
	assert_proof(*state, file, ENOMEM, "has 66560 bytes");
}

static void shadow_stacks_are_a_doubt(void **state)
{
	_cleanup_file_ struct file *file = make_file();
	struct proof_kernel kernel = debian("6.12.0-1-test");

	kernel.options.shadow_stacks = PROOF_YES;
	assert_proof_by(*state, file, kernel, PROOF_WILL_LOAD, 0, "");
	name_section(file, UNWIND, ".init.eh_frame");
	assert_doubt(*state, file, kernel, "CONFIG_UNWIND_PATCH_PAC_INTO_SCS");
	kernel.krel = "6.1.0-1-test";
	assert_proof_by(*state, file, kernel, PROOF_WILL_LOAD, 0, "");
	kernel = debian("6.12.0-1-test");
	assert_proof_by(*state, file, kernel, PROOF_WILL_LOAD, 0, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(a_module_of_arm64_is_fine),
		cmocka_unit_test(types_are_those_of_the_kernel),
		cmocka_unit_test(values_have_to_fit),
		folder_test(an_absent_weak_symbol_is_at_zero),
		cmocka_unit_test(what_is_not_there_is_not_checked),
		folder_test(plts_have_to_be_there),
		folder_test(trampolines_have_to_be_there_for_a_tracer),
		folder_test(flags_that_the_kernel_sets_may_be_any),
		folder_test(indexes_are_followed_before_they_are_checked),
		cmocka_unit_test(a_module_of_the_kernels_tells_of_trampolines),
		folder_test(e_ident_says_nothing),
		folder_test(the_vermagic_is_compared_to_its_end),
		folder_test(modules_have_two_gib),
		folder_test(alignments_are_cut_to_a_page),
		folder_test(profiled_allocations_have_more_space),
		folder_test(shadow_stacks_are_a_doubt),
	};

	return cmocka_run_group_tests_name("elf_arm64", tests, NULL, NULL);
}
