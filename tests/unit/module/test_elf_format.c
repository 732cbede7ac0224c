/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests what each kernel version objects to in a file: one header or symbol of a fixture is
 * changed.
 */
#include "tests/unit/support.h"

#include <elf.h>
#include <stdlib.h>
#include <time.h>

#include "common/fs.h"
#include "module/elf.h"

#define V(major, minor) ((major) << 8 | (minor))
#define UNKNOWN         0

struct image {
	char *data;
	size_t size;
	Elf64_Ehdr *header;
	Elf64_Shdr *sections;
};

static void image_free(struct image *image)
{
	free(image->data);
}

#define _cleanup_image_ _cleanup_(image_free)

static struct image read_image(const char *path)
{
	struct image image = { 0 };

	assert_int_equal(fs_read(AT_FDCWD, path, 0, &image.data, &image.size), 0);
	image.header = (Elf64_Ehdr *) (void *) image.data;
	image.sections = (Elf64_Shdr *) (void *) (image.data + image.header->e_shoff);
	return image;
}

static Elf64_Shdr *section(const struct image *image, const char *name)
{
	const char *names = image->data + image->sections[image->header->e_shstrndx].sh_offset;

	for (size_t i = 1; i < image->header->e_shnum; i++)
		if (strcmp(names + image->sections[i].sh_name, name) == 0)
			return &image->sections[i];
	fail_msg("no section %s", name);
	return NULL;
}

/* Opens, or fails with -EINVAL and a word of the reason. */
static void assert_opens(const struct image *image, const char *why_not)
{
	_cleanup_(elf_module_close) struct elf_module *module = NULL;
	struct error error = { 0 };
	int r = elf_module_open_memory(image->data, image->size, "image.ko", &module, &error);

	assert_int_equal(r, why_not ? -EINVAL : 0);
	if (why_not)
		assert_contains(error.text, why_not);
}

static void assert_minds(const struct image *image, unsigned int version, int code)
{
	_cleanup_(elf_module_close) struct elf_module *module = NULL;
	struct error error = { 0 };

	if (elf_module_open_memory(image->data, image->size, "image.ko", &module, &error) < 0)
		fail_msg("%s", error.text);
	if (elf_module_check_format(module, version, &error) != code)
		fail_msg("%x: not %d: %s", version, code, error.text);
}

static void assert_relocations_by(const struct image *image, unsigned int version, int code)
{
	_cleanup_(elf_module_close) struct elf_module *module = NULL;
	struct error error = { 0 };

	if (elf_module_open_memory(image->data, image->size, "image.ko", &module, &error) < 0)
		fail_msg("%s", error.text);
	if (elf_module_check_relocations(module, version, &error) != code)
		fail_msg("not %d: %s", code, error.text);
}

static void assert_relocations(const struct image *image, int code)
{
	assert_relocations_by(image, V(6, 1), code);
}

/* Puts @size bytes behind the file, and the section table with @count more behind them. */
static Elf64_Shdr *grow(struct image *image, size_t size, unsigned int count)
{
	unsigned int was = image->header->e_shnum;
	size_t bytes = (image->size + 63) & ~(size_t) 63;
	size_t table = (bytes + size + 63) & ~(size_t) 63;
	struct image grown = { .size = table + (was + count) * sizeof(Elf64_Shdr) };

	grown.data = calloc(1, grown.size);
	assert_non_null(grown.data);
	memcpy(grown.data, image->data, image->size);
	memcpy(grown.data + table, image->sections, was * sizeof(Elf64_Shdr));
	grown.header = (Elf64_Ehdr *) (void *) grown.data;
	grown.header->e_shoff = table;
	grown.header->e_shnum = (uint16_t) (was + count);
	grown.sections = (Elf64_Shdr *) (void *) (grown.data + table);
	image_free(image);
	*image = grown;
	return grown.sections + was;
}

/* Far more than it takes with sanitizers, far less than what grows with the square. */
static void assert_soon(clock_t begin)
{
	assert_true(clock() - begin < 10 * CLOCKS_PER_SEC);
}

static void whole_fixtures_are_fine(void **state)
{
	static const char *const names[] = { FIXTURES "/peer.ko", FIXTURES "/flagged.ko",
		FIXTURES "/flagged_absolute.ko", FIXTURES "/extended.ko" };

	(void) state;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		_cleanup_image_ struct image image = read_image(names[i]);

		assert_minds(&image, UNKNOWN, 0);
		assert_relocations_by(&image, UNKNOWN, 0);
		assert_minds(&image, V(6, 1), 0);
		assert_minds(&image, V(6, 12), 0);
		assert_minds(&image, V(7, 3), 0);
		assert_relocations(&image, 0);
	}
}

static void headers_that_no_kernel_takes_do_not_open(void **state)
{
	_cleanup_image_ struct image image = read_image(FIXTURES "/peer.ko");
	Elf64_Ehdr was = *image.header;

	(void) state;
	image.header->e_shentsize++;
	assert_opens(&image, "section headers of 65 bytes");
	*image.header = was;
	image.header->e_shoff = image.size;
	assert_opens(&image, "cut short");
	*image.header = was;
	image.header->e_shstrndx = SHN_UNDEF;
	assert_opens(&image, "names of sections");
	*image.header = was;
	image.header->e_version = 7; /* no kernel looks at it */
	assert_opens(&image, NULL);
	image.sections[0].sh_size = 1;
	assert_opens(&image, "section 0");
}

static void sections_beyond_the_end_do_not_open(void **state)
{
	_cleanup_image_ struct image image = read_image(FIXTURES "/peer.ko");
	Elf64_Shdr *comment = section(&image, ".comment");
	Elf64_Shdr was = *comment;

	(void) state;
	comment->sh_size = image.size;
	assert_opens(&image, "goes beyond the file");
	*comment = was;
	comment->sh_offset = UINT64_MAX - 1;
	assert_opens(&image, "goes beyond the file");
	comment->sh_type = SHT_NOBITS; /* has no bytes, wherever */
	assert_opens(&image, NULL);
}

static void struct_module_has_to_be_there_once(void **state)
{
	_cleanup_image_ struct image image = read_image(FIXTURES "/peer.ko");
	Elf64_Shdr *comment = section(&image, ".comment");
	Elf64_Shdr *own = section(&image, ".gnu.linkonce.this_module");

	(void) state;
	comment->sh_name = own->sh_name;
	assert_minds(&image, V(6, 1), 0);
	assert_minds(&image, V(6, 4), -ENOEXEC);
	own->sh_flags = 0;
	assert_minds(&image, V(6, 1), -ENOEXEC);
}

static void what_can_be_written_and_executed_is_minded(void **state)
{
	_cleanup_image_ struct image image = read_image(FIXTURES "/peer.ko");

	(void) state;
	section(&image, ".comment")->sh_flags = SHF_WRITE | SHF_EXECINSTR;
	assert_minds(&image, V(6, 1), -ENOEXEC);
	assert_minds(&image, V(7, 3), -ENOEXEC);
}

static void sizes_and_alignments_that_no_kernel_checks_are_told_apart(void **state)
{
	_cleanup_image_ struct image image = read_image(FIXTURES "/peer.ko");
	Elf64_Shdr *data = section(&image, ".gnu.linkonce.this_module");
	Elf64_Shdr *bss = section(&image, ".comment");

	(void) state;
	bss->sh_type = SHT_NOBITS;
	bss->sh_flags = SHF_ALLOC | SHF_WRITE;
	bss->sh_size = (uint64_t) 2 << 30;
	assert_minds(&image, V(6, 1), -E2BIG);
	bss->sh_size = (uint64_t) 5 << 30;
	assert_minds(&image, V(6, 1), -EFAULT);
	bss->sh_size = 1;
	assert_minds(&image, V(6, 1), 0);
	data->sh_addralign = 48;
	assert_minds(&image, V(6, 1), -EFAULT);
}

static void the_table_of_strings_is_checked_since_6_13(void **state)
{
	_cleanup_image_ struct image image = read_image(FIXTURES "/peer.ko");
	Elf64_Shdr *strings = section(&image, ".strtab");

	(void) state;
	image.data[strings->sh_offset] = 'x';
	assert_minds(&image, V(6, 12), 0);
	assert_minds(&image, V(6, 13), -ENOEXEC);
	image.data[strings->sh_offset] = '\0';
	strings->sh_type = SHT_PROGBITS;
	assert_minds(&image, V(6, 1), 0);
	assert_minds(&image, V(6, 12), -ENOEXEC);
}

static void exports_want_flags_since_7_2(void **state)
{
	_cleanup_image_ struct image image = read_image(FIXTURES "/exporter.ko");
	_cleanup_image_ struct image flagged = read_image(FIXTURES "/flagged.ko");
	_cleanup_image_ struct image absolute = read_image(FIXTURES "/flagged_absolute.ko");

	(void) state;
	assert_minds(&image, V(6, 12), 0);
	assert_minds(&image, V(7, 3), -ENOEXEC);
	section(&flagged, "__kcrctab")->sh_size = 4;
	assert_minds(&flagged, V(7, 3), -EFAULT);
	section(&absolute, "__kflagstab")->sh_size = 2;
	assert_minds(&absolute, V(7, 3), -EFAULT);
}

static Elf64_Rela *first_relocation(const struct image *image, const char *name)
{
	return (Elf64_Rela *) (void *) (image->data + section(image, name)->sh_offset);
}

static void relocations_are_tried(void **state)
{
	_cleanup_image_ struct image image = read_image(FIXTURES "/flagged.ko");
	Elf64_Rela *relocation = first_relocation(&image, ".rela__ksymtab");
	Elf64_Rela was = *relocation;

	(void) state;
	relocation->r_info = ELF64_R_INFO(ELF64_R_SYM(was.r_info), R_X86_64_GOTPCREL);
	assert_relocations(&image, -ENOEXEC);
	relocation->r_info = ELF64_R_INFO(ELF64_R_SYM(was.r_info), R_X86_64_32);
	assert_relocations(&image, -ENOEXEC);
	relocation->r_info = ELF64_R_INFO(ELF64_R_SYM(was.r_info), R_X86_64_32S);
	assert_relocations(&image, 0);
	relocation->r_addend = (int64_t) 1 << 32;
	assert_relocations(&image, -ENOEXEC);
	*relocation = was;
	relocation->r_info = ELF64_R_INFO(99999, ELF64_R_TYPE(was.r_info));
	assert_relocations(&image, -EFAULT);
	*relocation = was;
	relocation->r_offset = 22; /* of 24 bytes */
	assert_relocations(&image, -EFAULT);
	relocation->r_offset = was.r_offset + 12; /* where another one writes, too */
	assert_relocations(&image, -ENOEXEC);
	*relocation = was;
	image.data[section(&image, "__ksymtab")->sh_offset + was.r_offset] = 1;
	assert_relocations(&image, -ENOEXEC);
}

static void rules_of_later_kernels_are_doubts_before_them(void **state)
{
	_cleanup_image_ struct image image = read_image(FIXTURES "/flagged.ko");
	Elf64_Rela *relocation = first_relocation(&image, ".rela__ksymtab");
	Elf64_Rela was = *relocation;

	(void) state;
	relocation->r_info = ELF64_R_INFO(ELF64_R_SYM(was.r_info), R_X86_64_PLT32);
	assert_relocations_by(&image, V(4, 16), 0);
	assert_relocations_by(&image, V(4, 15), -EAGAIN);
	assert_relocations_by(&image, UNKNOWN, 0);
	relocation->r_info = ELF64_R_INFO(ELF64_R_SYM(was.r_info), R_X86_64_PC64);
	/* As one of 8 bytes it writes where the next one does, which is worse. */
	assert_relocations_by(&image, V(4, 18), -ENOEXEC);
	*relocation = was;
	image.data[section(&image, "__ksymtab")->sh_offset + was.r_offset] = 1;
	assert_relocations_by(&image, V(4, 15), -ENOEXEC);
	assert_relocations_by(&image, V(4, 14), -EFAULT);
	assert_relocations_by(&image, UNKNOWN, -ENOEXEC);
	section(&image, ".comment")->sh_flags = SHF_WRITE | SHF_EXECINSTR;
	assert_minds(&image, V(5, 7), -ENOEXEC);
	assert_minds(&image, V(5, 6), -EFAULT);
	assert_minds(&image, UNKNOWN, -EAGAIN);
}

static void many_mistakes_of_one_kind_hide_no_other(void **state)
{
	_cleanup_image_ struct image image = read_image(FIXTURES "/peer.ko");
	uint32_t beyond = (uint32_t) image.sections[image.header->e_shstrndx].sh_size;
	Elf64_Shdr *added = grow(&image, 4096, 100);

	(void) state;
	for (size_t i = 0; i < 100; i++)
		added[i] = (Elf64_Shdr){ .sh_name = beyond, .sh_type = SHT_PROGBITS };
	assert_minds(&image, V(6, 1), 0);
	section(&image, ".comment")->sh_flags = SHF_WRITE | SHF_EXECINSTR;
	assert_minds(&image, V(6, 1), -ENOEXEC);
}

/* As many as a file can have, all of the same bytes: each alone takes some time. */
static void relocations_that_share_bytes_are_not_all_walked(void **state)
{
	enum { COUNT = 60000, RELOCATIONS = 10000 };

	_cleanup_image_ struct image image = read_image(FIXTURES "/flagged.ko");
	Elf64_Rela one = first_relocation(&image, ".rela__ksymtab")[1];
	Elf64_Shdr *added = grow(&image, RELOCATIONS * sizeof(Elf64_Rela), COUNT);
	Elf64_Shdr *shared = section(&image, ".rela__ksymtab");
	clock_t begin = clock();

	(void) state;
	shared->sh_offset = (uint64_t) ((char *) image.sections - image.data) -
			    RELOCATIONS * sizeof(Elf64_Rela);
	shared->sh_size = RELOCATIONS * sizeof(Elf64_Rela);
	one.r_info = ELF64_R_INFO(ELF64_R_SYM(one.r_info), R_X86_64_NONE);
	for (size_t i = 0; i < RELOCATIONS; i++)
		memcpy(image.data + shared->sh_offset + i * sizeof(one), &one, sizeof(one));
	for (size_t i = 0; i < COUNT; i++)
		added[i] = *shared;
	assert_minds(&image, V(6, 1), -EFAULT);
	assert_relocations(&image, -EFAULT);
	assert_soon(begin);
}

static void thousands_of_sections_are_compared_soon(void **state)
{
	enum { COUNT = 60000, LENGTH = 32 };

	_cleanup_image_ struct image image = read_image(FIXTURES "/peer.ko");
	Elf64_Shdr *added = grow(&image, (size_t) COUNT * LENGTH, COUNT);
	Elf64_Shdr *names = &image.sections[image.header->e_shstrndx];
	uint32_t start = (uint32_t) ((size_t) ((char *) image.sections - image.data) -
				     (size_t) COUNT * LENGTH - names->sh_offset);
	clock_t begin = clock();

	(void) state;
	names->sh_size = start + COUNT * LENGTH;
	for (uint32_t i = 0; i < COUNT; i++) {
		added[i] = (Elf64_Shdr){ .sh_name = start + i * LENGTH,
			.sh_type = SHT_PROGBITS,
			.sh_flags = SHF_ALLOC,
			.sh_offset = names->sh_offset,
			.sh_size = 1 };
		assert_int_equal(snprintf(image.data + names->sh_offset + added[i].sh_name, LENGTH,
					 "one_prefix_for_all_of_them_%04x", i & 0xffff),
			LENGTH - 1);
	}
	assert_minds(&image, V(6, 12), 0);
	added[COUNT - 1].sh_name = added[0].sh_name;
	assert_minds(&image, V(6, 12), -EEXIST);
	assert_minds(&image, V(6, 1), 0);
	assert_soon(begin);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(whole_fixtures_are_fine),
		cmocka_unit_test(headers_that_no_kernel_takes_do_not_open),
		cmocka_unit_test(sections_beyond_the_end_do_not_open),
		cmocka_unit_test(struct_module_has_to_be_there_once),
		cmocka_unit_test(what_can_be_written_and_executed_is_minded),
		cmocka_unit_test(sizes_and_alignments_that_no_kernel_checks_are_told_apart),
		cmocka_unit_test(the_table_of_strings_is_checked_since_6_13),
		cmocka_unit_test(exports_want_flags_since_7_2),
		cmocka_unit_test(relocations_are_tried),
		cmocka_unit_test(rules_of_later_kernels_are_doubts_before_them),
		cmocka_unit_test(many_mistakes_of_one_kind_hide_no_other),
		cmocka_unit_test(relocations_that_share_bytes_are_not_all_walked),
		cmocka_unit_test(thousands_of_sections_are_compared_soon),
	};

	return cmocka_run_group_tests_name("elf_format", tests, NULL, NULL);
}
