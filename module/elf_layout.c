/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the kernel minds of a module file once it has looked at .modinfo: as elf_format.c, from
 * layout_and_allocate() to mod_sysfs_setup(), each at its stage.
 */
#include "common/name_hash.h"
#include "module/elf_examination.h"

/* MODULES_LEN of arch/x86/include/asm/pgtable_64_types.h with KASLR is 1008 MiB. */
#define MODULE_SPACE ((uint64_t) 1008 << 20)
/* PERCPU_MODULE_RESERVE of include/linux/percpu.h, and the largest alignment there. */
#define PERCPU_SPACE ((uint64_t) 8 << 10)
#define PAGE_SIZE_4K ((uint64_t) 4096)

#define SHN_LIVEPATCH    0xff20
#define EXPORT_SIZE      12 /* struct kernel_symbol since SINCE_NAME_SPACES */
#define STRUCT_NAME_SIZE 56
#define NAME_LIMIT       1024 /* bytes of a section's name that are compared */
#define SEEN_BITS        4096 /* so many that the names of most modules have one each */

static const char *shown_name(const struct elf_parts *parts, unsigned int index)
{
	const char *name = elf_section_name(parts, index);

	return *name ? name : "without a name";
}

/* How many of @size bytes are zero before the first that is not. */
static size_t count_zeros(const char *bytes, size_t size)
{
	size_t count = 0;

	/* Each is equal to the one behind it, and the first is zero. */
	if (size && !bytes[0] && memcmp(bytes, bytes + 1, size - 1) == 0)
		return size;
	while (count < size && !bytes[count])
		count++;
	return count;
}

/* modpost fills in the name; init and exit come by relocation, and the rest the kernel fills in. */
static int examine_struct(struct examination *test)
{
	const struct elf_parts *parts = test->parts;
	unsigned int index = parts->found[ELF_THIS_MODULE].allocated;
	struct error ignored;
	struct elf_span span;
	size_t place;

	if (parts->header.e_machine != EM_X86_64 ||
		elf_section_map(parts, index, &span, &ignored) < 0 ||
		span.size < STRUCT_NAME_OFFSET + STRUCT_NAME_SIZE)
		return 0;
	if (!memchr(span.data + STRUCT_NAME_OFFSET, '\0', STRUCT_NAME_SIZE))
		return elf_defect_add(test->defects, 0, 0, -EFAULT,
			"its name in struct module at offset %llu has no end; " NOT_CHECKED,
			ull(parts->sections[index].sh_offset + STRUCT_NAME_OFFSET));
	place = count_zeros(span.data, STRUCT_NAME_OFFSET);
	if (place == STRUCT_NAME_OFFSET) {
		place += STRUCT_NAME_SIZE;
		place += count_zeros(span.data + place, span.size - place);
	}
	if (place >= span.size)
		return 0;
	return elf_defect_add(test->defects, 0, 0, -EFAULT,
		"the byte at offset %llu of its struct module is not zero; this kernel takes it "
		"as it is",
		ull(parts->sections[index].sh_offset + place));
}

static int examine_flags(struct examination *test)
{
	const struct elf_parts *parts = test->parts;
	const uint64_t both = SHF_WRITE | SHF_EXECINSTR;
	unsigned int i = 0;
	int r;

	if ((parts->section_facts.flags & both) != both)
		return 0;
	while (i < parts->header.e_shnum && (parts->sections[i].sh_flags & both) != both)
		i++;
	if (i == parts->header.e_shnum)
		return 0;
	r = elf_defect_add(test->defects, SINCE_RWX, 0, -ENOEXEC,
		"section %u (%s) can be written and executed", i, shown_name(parts, i));
	if (r < 0)
		return r;
	return elf_defect_add(test->defects, 0, SINCE_RWX, -EFAULT,
		"section %u (%s) can be written and executed, which kernels before 5.7 refuse only "
		"where that check was brought back to them",
		i, shown_name(parts, i));
}

/* layout_sections(): sizes are added up in 32 bits, alignments are taken for powers of two. */
static int examine_layout_of(struct examination *test, unsigned int index, uint64_t *total)
{
	const struct elf_parts *parts = test->parts;
	const Elf64_Shdr *section = &parts->sections[index];
	uint64_t align = section->sh_addralign ? section->sh_addralign : 1;

	if (section->sh_type == SHT_NULL && !elf_section_in_file(parts, section))
		return elf_defect_add(test->defects, 0, 0, -EFAULT,
			"section %u without a type, at offset %llu, %llu bytes, goes beyond the "
			"file's %llu; " NOT_CHECKED,
			index, ull(section->sh_offset), ull(section->sh_size), ull(parts->size));
	if (align & (align - 1) || align > UINT32_MAX)
		return elf_defect_add(test->defects, 0, 0, -EFAULT,
			"section %u (%s) has alignment %llu; this kernel does not check it, and "
			"sections may come to lie on each other",
			index, shown_name(parts, index), ull(align));
	if (section->sh_size > UINT32_MAX)
		return elf_defect_add(test->defects, 0, 0, -EFAULT,
			"section %u (%s) has %llu bytes, of which this kernel sees the lower 32 "
			"bits",
			index, shown_name(parts, index), ull(section->sh_size));
	*total = ((*total + align - 1) & ~(align - 1)) + section->sh_size;
	return 0;
}

static int examine_layout(struct examination *test)
{
	const struct elf_parts *parts = test->parts;
	uint64_t total = 0;

	if (!parts->section_facts.odd && parts->section_facts.memory <= MODULE_SPACE)
		return 0;
	for (unsigned int i = 0; i < parts->header.e_shnum; i++) {
		int r;

		if (!elf_section_is_loaded(parts, i) || i == parts->found[ELF_PERCPU].allocated)
			continue;
		r = examine_layout_of(test, i, &total);
		if (r < 0)
			return r;
	}
	if (total <= MODULE_SPACE)
		return 0;
	return elf_defect_add(test->defects, 0, 0, -E2BIG,
		"it takes %llu MiB of memory, more than modules can have", ull(total >> 20));
}

/* percpu_modalloc(), and pcpu_alloc() of mm/percpu.c. */
static int examine_percpu(struct examination *test)
{
	const struct elf_parts *parts = test->parts;
	unsigned int index = parts->found[ELF_PERCPU].allocated;
	const Elf64_Shdr *section = &parts->sections[index];
	uint64_t align = section->sh_addralign;

	if (!index || !section->sh_size)
		return 0;
	if (align > PAGE_SIZE_4K)
		align = PAGE_SIZE_4K;
	if (section->sh_size > PERCPU_SPACE || (align && align & (align - 1)))
		return elf_defect_add(test->defects, 0, 0, -E2BIG,
			"its section .data..percpu has %llu bytes and alignment %llu, more than "
			"modules can have",
			ull(section->sh_size), ull(section->sh_addralign));
	if (section->sh_type == SHT_NOBITS || elf_section_in_file(parts, section))
		return 0;
	return elf_defect_add(test->defects, 0, 0, -EFAULT,
		"its section .data..percpu at offset %llu, %llu bytes, goes beyond the file's "
		"%llu; " NOT_CHECKED,
		ull(section->sh_offset), ull(section->sh_size), ull(parts->size));
}

static int examine_export_table(struct examination *test, enum elf_known exports,
	enum elf_known others, uint64_t other_size, unsigned int from, unsigned int before)
{
	const struct elf_parts *parts = test->parts;
	unsigned int index = parts->found[exports].allocated;
	unsigned int other = parts->found[others].allocated;
	uint64_t count = parts->sections[index].sh_size / EXPORT_SIZE;

	if (!index || !other || parts->sections[other].sh_size / other_size >= count)
		return 0;
	return elf_defect_add(test->defects, from, before, -EFAULT,
		"%s has fewer entries than %s, which has %llu; " NOT_CHECKED,
		shown_name(parts, other), shown_name(parts, index), ull(count));
}

static int examine_exports(struct examination *test)
{
	const struct elf_parts *parts = test->parts;
	unsigned int exports = parts->found[ELF_KSYMTAB].allocated;
	int r = 0;

	if (exports && parts->sections[exports].sh_size >= EXPORT_SIZE &&
		!parts->found[ELF_KFLAGSTAB].allocated)
		r = elf_defect_add(test->defects, SINCE_FLAGS, 0, -ENOEXEC,
			"it exports symbols but has no section __kflagstab, which tells the "
			"GPL-only ones: it was made for an older kernel");
	if (r == 0)
		r = examine_export_table(test, ELF_KSYMTAB, ELF_KFLAGSTAB, 1, SINCE_FLAGS, 0);
	if (r == 0)
		r = examine_export_table(
			test, ELF_KSYMTAB, ELF_KCRCTAB, CRC_SIZE, SINCE_NAME_SPACES, 0);
	if (r == 0)
		r = examine_export_table(test, ELF_KSYMTAB_GPL, ELF_KCRCTAB_GPL, CRC_SIZE,
			SINCE_NAME_SPACES, SINCE_FLAGS);
	return r;
}

/* Of which elf_exports.c reads the first. */
static int examine_export_relocations(struct examination *test)
{
	static const enum elf_known tables[] = { ELF_KSYMTAB, ELF_KSYMTAB_GPL, ELF_KCRCTAB,
		ELF_KCRCTAB_GPL };
	const struct elf_parts *parts = test->parts;
	unsigned int counts[ARRAY_SIZE(tables)] = { 0 };
	bool exports = false;

	for (size_t i = 0; i < ARRAY_SIZE(tables); i++)
		exports = exports || parts->found[tables[i]].allocated;
	if (!exports)
		return 0;
	for (unsigned int i = 1; i < parts->header.e_shnum; i++)
		for (size_t j = 0; j < ARRAY_SIZE(tables); j++)
			if (parts->sections[i].sh_type == SHT_RELA && parts->sections[i].sh_info &&
				parts->sections[i].sh_info == parts->found[tables[j]].allocated &&
				++counts[j] == 2)
				return elf_defect_add(test->defects, 0, 0, -EFAULT,
					"section %u has further relocations of %s, so that what it "
					"exports is not known",
					i, shown_name(parts, parts->sections[i].sh_info));
	return 0;
}

static int examine_place(struct examination *test, size_t index, const Elf64_Sym *symbol)
{
	const char *name = elf_symbol_name(test->parts, symbol);

	if (symbol->st_shndx == SHN_ABS || symbol->st_shndx == SHN_LIVEPATCH)
		return 0;
	if (symbol->st_shndx != SHN_COMMON)
		return elf_defect_add(test->defects, 0, 0, -ENOEXEC,
			"symbol %zu (%s) lies in section %u, of %u", index, name, symbol->st_shndx,
			test->parts->header.e_shnum);
	if (strncmp(name, "__gnu_lto", strlen("__gnu_lto")) == 0)
		return 0;
	return elf_defect_add(test->defects, 0, 0, -ENOEXEC,
		"symbol %zu (%s) is a common one: compile with -fno-common", index, name);
}

static int examine_places(struct examination *test)
{
	const struct elf_parts *parts = test->parts;
	Elf64_Sym symbol;
	int r = 0;

	if (!parts->symbol_facts.misplaced)
		return 0;
	for (size_t i = 1; r == 0 && i < parts->symbol_count; i++) {
		elf_symbol_at(parts, i, &symbol);
		test->defects->symbol = (uint32_t) i & 0x7fffffff;
		if (symbol.st_shndx >= parts->header.e_shnum)
			r = examine_place(test, i, &symbol);
	}
	return r;
}

/* apply_relocations(): x86-64 and arm64 take no relocations without addends. */
static int examine_relocation_sections(struct examination *test)
{
	const struct elf_parts *parts = test->parts;

	if (!parts->section_facts.has_rel && !(parts->section_facts.flags & SHF_RELA_LIVEPATCH))
		return 0;
	for (unsigned int i = 1; i < parts->header.e_shnum; i++) {
		const Elf64_Shdr *section = &parts->sections[i];

		if (section->sh_info >= parts->header.e_shnum ||
			!elf_section_is_loaded(parts, section->sh_info))
			continue;
		if (section->sh_flags & SHF_RELA_LIVEPATCH &&
			strncmp(elf_section_name(parts, i), ".klp.rela.", 10) != 0)
			return elf_defect_add(test->defects, 0, 0, -EINVAL,
				"section %u (%s) is marked as a live patch's relocations", i,
				shown_name(parts, i));
		if (section->sh_type == SHT_REL)
			return elf_defect_add(test->defects, 0, 0, -ENOEXEC,
				"section %u (%s) has relocations without addends", i,
				shown_name(parts, i));
	}
	return 0;
}

/* Whether /sys/module/NAME/sections has a file for it: sect_empty() of kernel/module/internal.h. */
static bool is_shown(const struct elf_parts *parts, unsigned int index)
{
	if (!parts->sections[index].sh_size || index == parts->found[ELF_PERCPU].allocated ||
		index == parts->found[ELF_VERSION_CRCS].allocated ||
		index == parts->found[ELF_VERSION_NAMES].allocated)
		return false;
	return elf_section_is_loaded(parts, index) || index == parts->symtab ||
	       index == parts->strtab;
}

static uint32_t hash_of(const struct elf_parts *parts, unsigned int index)
{
	const char *name = elf_section_name(parts, index);

	return name_hash_sized(name, strnlen(name, NAME_LIMIT));
}

/* Whether two may have one name: then it is worth to compare them. */
static bool may_be_named_twice(const struct elf_parts *parts)
{
	uint64_t seen[SEEN_BITS / 64] = { 0 };

	for (unsigned int i = 1; i < parts->header.e_shnum; i++) {
		uint32_t bit;

		if (!is_shown(parts, i))
			continue;
		bit = hash_of(parts, i) % SEEN_BITS;
		if (seen[bit / 64] >> bit % 64 & 1)
			return true;
		seen[bit / 64] |= UINT64_C(1) << bit % 64;
	}
	return false;
}

/* Names that were seen: open addressing, by section. */
struct seen {
	struct {
		uint32_t hash;
		uint32_t index; /* of the section; 0: free */
	} * slots;
	size_t mask; /* a power of two, less one */
};

/* Whether a section before it has the name; else it is seen now. */
static bool see(const struct elf_parts *parts, struct seen *seen, unsigned int index)
{
	const char *name = elf_section_name(parts, index);
	uint32_t hash = hash_of(parts, index);
	size_t place = hash & seen->mask;

	for (; seen->slots[place].index; place = (place + 1) & seen->mask)
		if (seen->slots[place].hash == hash &&
			strncmp(elf_section_name(parts, seen->slots[place].index), name,
				NAME_LIMIT) == 0)
			return true;
	seen->slots[place].hash = hash;
	seen->slots[place].index = index;
	return false;
}

/* Sets *@ret to the first section with the name of one before it, or to 0. */
static int find_named_twice(const struct elf_parts *parts, unsigned int *ret)
{
	_cleanup_free_ void *slots = NULL;
	struct seen seen = { .mask = 127 };

	*ret = 0;
	while (seen.mask < (size_t) parts->header.e_shnum * 2)
		seen.mask = seen.mask * 2 + 1;
	slots = calloc(seen.mask + 1, sizeof(*seen.slots));
	if (!slots)
		return -ENOMEM;
	seen.slots = slots;
	for (unsigned int i = 1; !*ret && i < parts->header.e_shnum; i++)
		if (is_shown(parts, i) && see(parts, &seen, i))
			*ret = i;
	return 0;
}

/* add_sect_attrs() of kernel/module/sysfs.c; before 6.12 its failures were passed over. */
static int examine_shown_names(struct examination *test)
{
	const struct elf_parts *parts = test->parts;
	unsigned int twice;

	if (!may_be_named_twice(parts))
		return 0;
	if (find_named_twice(parts, &twice) < 0)
		return -ENOMEM;
	if (!twice)
		return 0;
	return elf_defect_add(test->defects, SINCE_SPLIT, 0, -EEXIST,
		"section %u has the name %s, as one before it", twice, shown_name(parts, twice));
}

int elf_layout_examine(struct examination *test)
{
	static const struct {
		int (*examine)(struct examination *test);
		enum elf_stage stage;
	} steps[] = {
		{ examine_flags, ELF_STAGE_LAYOUT },
		{ examine_layout, ELF_STAGE_LAYOUT },
		{ examine_struct, ELF_STAGE_LAYOUT },
		{ examine_percpu, ELF_STAGE_LAYOUT },
		{ examine_exports, ELF_STAGE_LAYOUT },
		{ examine_export_relocations, ELF_STAGE_LAYOUT },
		{ examine_places, ELF_STAGE_SYMBOLS },
		{ examine_relocation_sections, ELF_STAGE_RELOCATIONS },
		{ examine_shown_names, ELF_STAGE_SYSFS },
	};

	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		int r;

		test->defects->stage = steps[i].stage;
		r = steps[i].examine(test);
		if (r < 0)
			return r;
	}
	return 0;
}
