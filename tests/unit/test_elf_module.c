/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/support.h"
#include "tests/unit/packed.h"

#include <elf.h>

#include "common/fs.h"
#include "module/elf_module.h"

#define PEER FIXTURES "/peer.ko"

#define _cleanup_module_ _cleanup_(elf_module_close)

static struct elf_module *open_fixture(const char *path)
{
	struct elf_module *module = NULL;
	struct error error = { 0 };

	if (elf_module_open(AT_FDCWD, path, &module, &error) < 0)
		fail_msg("%s", error.text);
	return module;
}

static char *read_fixture(const char *path, size_t *ret_size)
{
	char *data = NULL;

	assert_int_equal(fs_read(AT_FDCWD, path, 0, &data, ret_size), 0);
	return data;
}

static void expect_refusal(const struct folder *folder, const char *path, const char *why)
{
	struct elf_module *module = NULL;
	struct error error = { 0 };

	assert_int_equal(elf_module_open(folder->fd, path, &module, &error), -EINVAL);
	assert_null(module);
	assert_contains(error.text, path);
	assert_contains(error.text, why);
}

static void modinfo_gives_first_value_all_values_or_none(void **state)
{
	_cleanup_module_ struct elf_module *module = open_fixture(PEER);
	_cleanup_strv_ struct strv aliases = { 0 };

	(void) state;
	assert_string_equal(elf_module_name(module), "peer");
	assert_string_equal(elf_module_info(module, "version"), "535.261.03");
	assert_null(elf_module_info(module, "vers"));
	assert_null(elf_module_info(module, "firmware"));
	assert_int_equal(elf_module_info_all(module, "alias", &aliases), 0);
	strv_sort(&aliases);
	assert_int_equal(aliases.count, 2);
	assert_string_equal(aliases.items[0], "first");
	assert_string_equal(aliases.items[1], "second=third");
	assert_string_equal(elf_module_path(module), PEER);
}

static void a_module_without_a_name_has_none(void **state)
{
	_cleanup_module_ struct elf_module *module = open_fixture(FIXTURES "/unversioned.ko");

	(void) state;
	assert_null(elf_module_name(module));
}

static void depends_are_module_names(void **state)
{
	_cleanup_module_ struct elf_module *module = open_fixture(PEER);
	_cleanup_module_ struct elf_module *none = open_fixture(FIXTURES "/proprietary.ko");
	_cleanup_module_ struct elf_module *unstated = open_fixture(FIXTURES "/unversioned.ko");
	_cleanup_strv_ struct strv names = { 0 };

	(void) state;
	assert_int_equal(elf_module_depends(none, &names), 0);
	assert_int_equal(elf_module_depends(unstated, &names), 0);
	assert_int_equal(names.count, 0);
	assert_int_equal(elf_module_depends(module, &names), 0);
	assert_int_equal(names.count, 2);
	assert_string_equal(names.items[0], "ib_uverbs");
	assert_string_equal(names.items[1], "nvidia_core");
}

static void the_build_id_is_lower_case_hex(void **state)
{
	_cleanup_module_ struct elf_module *module = open_fixture(PEER);
	char hex[BUILD_ID_HEX_SIZE];

	(void) state;
	elf_module_build_id(module, hex);
	assert_string_equal(hex, "0123456789abcdef0123456789abcdef01234567");
}

static void versions_are_sorted_and_found(void **state)
{
	_cleanup_module_ struct elf_module *module = open_fixture(PEER);
	const struct elf_symbol_version *versions;
	bool basic = false;
	uint32_t crc = 0;
	size_t count;

	(void) state;
	versions = elf_module_versions(module, &count);
	assert_int_equal(count, 4);
	for (size_t i = 1; i < count; i++)
		assert_true(strcmp(versions[i - 1].name, versions[i].name) < 0);
	assert_true(elf_module_version(module, "ib_register_peer_memory_client", &crc));
	assert_int_equal(crc, 0x8e6daf35);
	assert_false(elf_module_version(module, "ib_register", &crc));
	assert_int_equal(crc, 0x8e6daf35);
	assert_true(elf_module_has_versions(module, &basic));
	assert_true(basic);
}

static void extended_versions_win_over_basic_ones(void **state)
{
	_cleanup_module_ struct elf_module *module = open_fixture(FIXTURES "/extended.ko");
	uint32_t crc = 0;
	size_t count;

	(void) state;
	(void) elf_module_versions(module, &count);
	assert_int_equal(count, 2);
	assert_true(elf_module_version(module, "printk", &crc));
	assert_int_equal(crc, 7);
}

static void a_module_without_versions_says_so(void **state)
{
	_cleanup_module_ struct elf_module *module = open_fixture(FIXTURES "/unversioned.ko");
	uint32_t crc;
	size_t count;

	(void) state;
	(void) elf_module_versions(module, &count);
	assert_int_equal(count, 0);
	assert_false(elf_module_version(module, "printk", &crc));
	assert_false(elf_module_has_versions(module, NULL));
}

static void undefined_symbols_come_with_or_without_weak_ones(void **state)
{
	_cleanup_module_ struct elf_module *module = open_fixture(PEER);
	_cleanup_strv_ struct strv strong = { 0 };
	_cleanup_strv_ struct strv all = { 0 };

	(void) state;
	assert_int_equal(elf_module_undefined(module, false, &strong), 0);
	assert_int_equal(strong.count, 2);
	assert_true(strv_contains(&strong, "printk"));
	assert_true(strv_contains(&strong, "ib_register_peer_memory_client"));
	assert_int_equal(elf_module_undefined(module, true, &all), 0);
	assert_int_equal(all.count, 3);
	assert_true(strv_contains(&all, "maybe"));
}

static void packed_modules_are_read_whatever_their_name(void **state)
{
	const struct folder *folder = *state;
	size_t size;
	_cleanup_free_ char *data = read_fixture(PEER, &size);

	for (int format = DECOMPRESS_XZ; format <= DECOMPRESS_ZSTD; format++) {
		_cleanup_module_ struct elf_module *module = NULL;
		struct error error = { 0 };
		char hex[BUILD_ID_HEX_SIZE];
		size_t packed_size;
		_cleanup_free_ char *packed =
			pack((enum decompress_format) format, data, size, &packed_size);

		folder_write(folder, "peer.ko.packed", packed, packed_size);
		assert_int_equal(elf_module_open(folder->fd, "peer.ko.packed", &module, &error), 0);
		assert_string_equal(elf_module_name(module), "peer");
		elf_module_build_id(module, hex);
		assert_string_equal(hex, "0123456789abcdef0123456789abcdef01234567");
		packed[packed_size / 2] ^= 0x55;
		folder_write(folder, "damaged", packed, packed_size / 2 + 1);
		expect_refusal(folder, "damaged", "damaged or cut short");
	}
}

static void what_is_no_module_is_named_as_such(void **state)
{
	const struct folder *folder = *state;
	struct elf_module *module = NULL;
	struct error error = { 0 };

	folder_write_text(folder, "text", "#!/bin/sh\n");
	expect_refusal(folder, "text", "not an ELF file");
	folder_write_text(folder, "empty", "");
	expect_refusal(folder, "empty", "not an ELF file");
	expect_refusal(folder, ".", "not a regular file");
	expect_refusal(folder, "/proc/self/exe", "not a kernel module");
	expect_refusal(folder, FIXTURES "/plain.ko", "no .modinfo");
	assert_int_equal(elf_module_open(folder->fd, "absent.ko", &module, &error), -ENOENT);
	assert_contains(error.text, "absent.ko");
}

static void a_file_cut_anywhere_is_an_error(void **state)
{
	const struct folder *folder = *state;
	size_t size;
	_cleanup_free_ char *data = read_fixture(PEER, &size);

	for (size_t cut = 0; cut < size; cut++) {
		folder_write(folder, "cut.ko", data, cut);
		expect_refusal(folder, "cut.ko", "");
	}
}

/* Reads all that there is to read, for the sanitisers to watch. */
static void read_everything(const struct elf_module *module)
{
	_cleanup_strv_ struct strv list = { 0 };
	char hex[BUILD_ID_HEX_SIZE];
	uint32_t crc;
	size_t count;
	const struct elf_symbol_version *versions = elf_module_versions(module, &count);

	for (size_t i = 0; i < count; i++)
		assert_true(elf_module_version(module, versions[i].name, &crc));
	elf_module_build_id(module, hex);
	(void) elf_module_name(module);
	assert_int_equal(elf_module_info_all(module, "alias", &list), 0);
	assert_int_equal(elf_module_depends(module, &list), 0);
	assert_int_equal(elf_module_undefined(module, true, &list), 0);
}

static void a_file_damaged_anywhere_is_an_error_or_harmless(void **state)
{
	const struct folder *folder = *state;
	size_t size;
	_cleanup_free_ char *data = read_fixture(PEER, &size);
	size_t refused = 0;

	for (size_t place = 0; place < size; place++) {
		_cleanup_module_ struct elf_module *module = NULL;
		struct error error = { 0 };
		char was = data[place];

		data[place] = (char) (was ^ 0xff);
		folder_write(folder, "damaged.ko", data, size);
		data[place] = was;
		if (elf_module_open(folder->fd, "damaged.ko", &module, &error) == 0) {
			read_everything(module);
		} else {
			assert_contains(error.text, "damaged.ko: ");
			refused++;
		}
	}
	assert_true(refused > 0 && refused < size);
}

/* Puts bytes into a copy of a fixture at the place where @needle stands. */
static void write_changed(const struct folder *folder, const char *fixture, const char *needle,
	size_t needle_size, char with)
{
	size_t size;
	_cleanup_free_ char *data = read_fixture(fixture, &size);
	char *place = memmem(data, size, needle, needle_size);

	assert_non_null(place);
	memset(place, with, needle_size);
	folder_write(folder, "changed.ko", data, size);
}

static void a_version_name_without_an_end_is_an_error(void **state)
{
	const struct folder *folder = *state;
	char name[64 - sizeof(long)] = "module_layout";

	write_changed(folder, PEER, name, sizeof(name), 'x');
	expect_refusal(folder, "changed.ko", "in __versions at offset 0 has no end");
}

static void fewer_extended_names_than_crcs_are_an_error(void **state)
{
	const struct folder *folder = *state;
	const char *extended = FIXTURES "/extended.ko";

	write_changed(folder, extended, "__version_ext_names", strlen("__version_ext_names"), 'x');
	expect_refusal(folder, "changed.ko", "__version_ext_names ends at offset 0, before name 1");
	write_changed(folder, extended, "printk", sizeof("printk"), 'x');
	expect_refusal(folder, "changed.ko", "ends at offset 21, before name 2 of 2");
}

static void modinfo_without_an_end_is_an_error(void **state)
{
	const struct folder *folder = *state;

	/* GCC puts the strings in reverse order, so the first one in the source ends the section.
	 */
	write_changed(folder, PEER, "license=Dual MIT/GPL", sizeof("license=Dual MIT/GPL"), 'x');
	expect_refusal(folder, "changed.ko", ".modinfo section of 169 bytes does not end");
}

static void a_stripped_module_is_refused_with_the_right_advice(void **state)
{
	const struct folder *folder = *state;
	size_t size;
	_cleanup_free_ char *data = read_fixture(PEER, &size);
	const Elf64_Ehdr *header = (const Elf64_Ehdr *) (const void *) data;
	Elf64_Shdr *sections = (Elf64_Shdr *) (void *) (data + header->e_shoff);

	for (size_t i = 0; i < header->e_shnum; i++)
		if (sections[i].sh_type == SHT_SYMTAB)
			sections[i].sh_type = SHT_PROGBITS;
	folder_write(folder, "stripped.ko", data, size);
	expect_refusal(folder, "stripped.ko", "--strip-debug");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(modinfo_gives_first_value_all_values_or_none),
		cmocka_unit_test(a_module_without_a_name_has_none),
		cmocka_unit_test(depends_are_module_names),
		cmocka_unit_test(the_build_id_is_lower_case_hex),
		cmocka_unit_test(versions_are_sorted_and_found),
		cmocka_unit_test(extended_versions_win_over_basic_ones),
		cmocka_unit_test(a_module_without_versions_says_so),
		cmocka_unit_test(undefined_symbols_come_with_or_without_weak_ones),
		folder_test(packed_modules_are_read_whatever_their_name),
		folder_test(what_is_no_module_is_named_as_such),
		folder_test(a_file_cut_anywhere_is_an_error),
		folder_test(a_file_damaged_anywhere_is_an_error_or_harmless),
		folder_test(a_version_name_without_an_end_is_an_error),
		folder_test(fewer_extended_names_than_crcs_are_an_error),
		folder_test(modinfo_without_an_end_is_an_error),
		folder_test(a_stripped_module_is_refused_with_the_right_advice),
	};

	return cmocka_run_group_tests_name("elf_module", tests, NULL, NULL);
}
