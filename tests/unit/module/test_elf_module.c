/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/support.h"
#include "tests/unit/packed.h"

#include <elf.h>
#include <sys/stat.h>

#include "common/fs.h"
#include "module/elf_internal.h"

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

static void expect_refusal(int dir_fd, const char *path, const char *why)
{
	struct elf_module *module = NULL;
	struct error error = { 0 };

	assert_int_equal(elf_module_open(dir_fd, path, &module, &error), -EINVAL);
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

static void versions_are_listed_and_found(void **state)
{
	_cleanup_module_ struct elf_module *module = open_fixture(PEER);
	const struct elf_symbol_version *versions;
	uint32_t crc = 0;
	size_t count;

	(void) state;
	versions = elf_module_versions(module, &count);
	assert_int_equal(count, 4);
	assert_string_equal(versions[0].name, "module_layout");
	assert_string_equal(versions[3].name, "maybe");
	assert_false(module->has_extended);
	assert_true(elf_module_version(module, "ib_register_peer_memory_client", &crc));
	assert_int_equal(crc, 0x8e6daf35);
	assert_false(elf_module_version(module, "ib_register", &crc));
	assert_int_equal(crc, 0x8e6daf35);
	assert_true(module->has_basic);
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
	assert_true(module->has_extended);
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
	assert_false(module->has_basic || module->has_extended);
}

static void an_undefined_symbol_knows_the_version_it_demands(void **state)
{
	_cleanup_module_ struct elf_module *module = open_fixture(PEER);
	_cleanup_module_ struct elf_module *none = open_fixture(FIXTURES "/unversioned.ko");
	const struct elf_undefined *undefined;
	size_t count;

	(void) state;
	undefined = elf_module_undefined_symbols(module, &count);
	assert_int_equal(count, 3);
	for (size_t i = 0; i < count; i++) {
		assert_non_null(undefined[i].version);
		assert_string_equal(undefined[i].version->name, undefined[i].name);
		assert_int_equal(undefined[i].weak, strcmp(undefined[i].name, "maybe") == 0);
	}
	undefined = elf_module_undefined_symbols(none, &count);
	assert_int_equal(count, 1);
	assert_string_equal(undefined[0].name, "printk");
	assert_null(undefined[0].version);
}

static void exports_have_crc_and_mark(void **state)
{
	_cleanup_module_ struct elf_module *module = open_fixture(FIXTURES "/exporter.ko");
	_cleanup_module_ struct elf_module *none = open_fixture(PEER);
	const struct elf_module_export *exports;
	size_t count;

	(void) state;
	assert_null(elf_module_exports(none, &count));
	assert_int_equal(count, 0);
	exports = elf_module_exports(module, &count);
	assert_int_equal(count, 1);
	assert_string_equal(exports[0].symbol, "ib_register_peer_memory_client");
	assert_string_equal(exports[0].name_space, "");
	assert_true(exports[0].has_crc);
	assert_int_equal(exports[0].crc, 0x8e6daf35);
	assert_false(exports[0].gpl);
}

/* One GPL-only by its flag, one in a name space, in the order of names. */
static void exports_of_newer_kernels_have_flags_and_name_spaces(void **state)
{
	_cleanup_module_ struct elf_module *module = open_fixture(FIXTURES "/flagged.ko");
	const struct elf_module_export *exports;
	size_t count;

	(void) state;
	exports = elf_module_exports(module, &count);
	assert_int_equal(count, 2);
	assert_string_equal(exports[0].symbol, "alpha");
	assert_true(exports[0].gpl);
	assert_string_equal(exports[0].name_space, "");
	assert_string_equal(exports[1].symbol, "beta");
	assert_false(exports[1].gpl);
	assert_string_equal(exports[1].name_space, "SPACE");
	assert_int_equal(exports[1].crc, 0x22222222);
}

static void headers_tell_machine_and_struct_size(void **state)
{
	_cleanup_module_ struct elf_module *module = open_fixture(PEER);

	(void) state;
	assert_int_equal(elf_module_machine(module), EM_X86_64);
	assert_int_equal(elf_module_struct_size(module), 896);
}

/* The kernel looks at e_machine, and for x86-64 at nothing else of that kind. */
static void other_machines_open_with_nothing_but_that(void **state)
{
	size_t size, count;
	_cleanup_free_ char *data = read_fixture(PEER, &size);
	_cleanup_module_ struct elf_module *odd = NULL;
	_cleanup_module_ struct elf_module *other = NULL;
	struct error error = { 0 };

	(void) state;
	data[EI_CLASS] = ELFCLASS32;
	data[EI_DATA] = ELFDATA2MSB;
	assert_int_equal(elf_module_open_memory(data, size, "odd.ko", &odd, &error), 0);
	assert_string_equal(elf_module_name(odd), "peer");
	data[offsetof(Elf64_Ehdr, e_machine)] = 0;
	data[offsetof(Elf64_Ehdr, e_machine) + 1] = EM_PPC64;
	assert_int_equal(elf_module_open_memory(data, size, "other.ko", &other, &error), 0);
	assert_int_equal(elf_module_machine(other), EM_PPC64);
	assert_null(elf_module_name(other));
	(void) elf_module_undefined_symbols(other, &count);
	assert_int_equal(count, 0);
	assert_int_equal(elf_module_check_format(other, 0x0601, &error), -ENOEXEC);
	assert_int_equal(elf_module_check_relocations(other, 0x0601, &error), 0);
}

static void a_buffer_is_read_as_a_file_is(void **state)
{
	size_t size, packed_size, again_size;
	_cleanup_free_ char *data = read_fixture(PEER, &size);
	_cleanup_free_ char *packed = pack(DECOMPRESS_ZSTD, data, size, &packed_size);
	_cleanup_free_ char *again = NULL;
	_cleanup_module_ struct elf_module *module = NULL;
	struct error error = { 0 };

	(void) state;
	assert_int_equal(
		elf_module_open_memory(packed, packed_size, "packed.ko", &module, &error), 0);
	assert_string_equal(elf_module_name(module), "peer");
	assert_string_equal(elf_module_path(module), "packed.ko");
	assert_int_equal(elf_module_bytes(module, &again, &again_size, &error), 0);
	assert_int_equal(again_size, size);
	assert_memory_equal(again, data, size);
}

static void an_unsigned_module_and_a_damaged_signature_are_told_apart(void **state)
{
	const struct folder *folder = *state;
	size_t size;
	_cleanup_free_ char *data = read_fixture(PEER, &size);
	_cleanup_free_ char *signed_data = malloc(size + 4 + MODULE_TRAILER_SIZE);
	_cleanup_module_ struct elf_module *plain = open_fixture(PEER);
	_cleanup_module_ struct elf_module *module = NULL;
	struct error error = { 0 };
	struct cms_facts cms;
	bool present = true;

	assert_non_null(signed_data);
	assert_int_equal(elf_module_trailer(plain, &cms, &present, &error), 0);
	assert_false(present);
	memcpy(signed_data, data, size);
	memset(signed_data + size, 1, 4); /* no CMS */
	module_trailer_write(4, (unsigned char *) signed_data + size + 4);
	folder_write(folder, "signed.ko", signed_data, size + 4 + MODULE_TRAILER_SIZE);
	assert_int_equal(elf_module_open(folder->fd, "signed.ko", &module, &error), 0);
	assert_string_equal(elf_module_name(module), "peer");
	assert_int_equal(elf_module_trailer(module, &cms, &present, &error), -EBADMSG);
	assert_true(present);
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
		expect_refusal(folder->fd, "damaged", "damaged or cut short");
	}
}

static void what_is_no_module_is_named_as_such(void **state)
{
	const struct folder *folder = *state;
	struct elf_module *module = NULL;
	struct error error = { 0 };

	folder_write_text(folder, "text", "#!/bin/sh\n");
	expect_refusal(folder->fd, "text", "not an ELF file");
	folder_write_text(folder, "empty", "");
	expect_refusal(folder->fd, "empty", "not an ELF file");
	expect_refusal(folder->fd, ".", "Is a directory");
	assert_int_equal(mkfifoat(folder->fd, "fifo", 0600), 0);
	expect_refusal(folder->fd, "fifo", "a FIFO, device or socket, not a file");
	expect_refusal(folder->fd, "/proc/self/exe", "not a kernel module");
	expect_refusal(AT_FDCWD, FIXTURES "/plain.ko", "no .modinfo");
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
		expect_refusal(folder->fd, "cut.ko", "");
	}
}

/* Reads all that there is to read, for the sanitisers to watch. */
static void read_everything(const struct elf_module *module)
{
	_cleanup_strv_ struct strv list = { 0 };
	const struct elf_module_export *exports;
	char hex[BUILD_ID_HEX_SIZE];
	struct cms_facts cms;
	struct error error;
	bool present;
	uint32_t crc;
	size_t count;
	const struct elf_symbol_version *versions = elf_module_versions(module, &count);

	for (size_t i = 0; i < count; i++)
		assert_true(elf_module_version(module, versions[i].name, &crc));
	elf_module_build_id(module, hex);
	(void) elf_module_name(module);
	assert_int_equal(elf_module_info_all(module, "alias", &list), 0);
	assert_int_equal(elf_module_depends(module, &list), 0);
	exports = elf_module_exports(module, &count);
	for (size_t i = 0; i < count; i++)
		assert_non_null(strchr(exports[i].name_space, '\0'));
	for (unsigned int version = 0x0601; version < 0x0610; version++) {
		assert_true(elf_module_check_format(module, version, &error) <= 0);
		assert_true(elf_module_check_relocations(module, version, &error) <= 0);
	}
	assert_true(elf_module_trailer(module, &cms, &present, &error) <= 0);
}

static void damage_everywhere(const struct folder *folder, const char *fixture)
{
	size_t size;
	_cleanup_free_ char *data = read_fixture(fixture, &size);
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

static void a_file_damaged_anywhere_is_an_error_or_harmless(void **state)
{
	damage_everywhere(*state, PEER);
	damage_everywhere(*state, FIXTURES "/flagged.ko");
	damage_everywhere(*state, FIXTURES "/extended.ko");
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

static struct elf_module *open_changed(const struct folder *folder)
{
	struct elf_module *module = NULL;
	struct error error = { 0 };

	if (elf_module_open(folder->fd, "changed.ko", &module, &error) < 0)
		fail_msg("%s", error.text);
	return module;
}

/* The kernel compares it with names, and it is equal to none. */
static void a_version_name_without_an_end_is_no_symbols(void **state)
{
	const struct folder *folder = *state;
	_cleanup_module_ struct elf_module *module = NULL;
	char name[64 - sizeof(long)] = "module_layout";
	uint32_t crc;

	write_changed(folder, PEER, name, sizeof(name), 'x');
	module = open_changed(folder);
	assert_false(elf_module_version(module, "module_layout", &crc));
	assert_true(elf_module_version(module, "printk", &crc));
}

static void a_crc_of_more_than_32_bits_is_marked(void **state)
{
	const struct folder *folder = *state;
	const struct elf_symbol_version *versions;
	_cleanup_module_ struct elf_module *module = NULL;
	const char record[] = "\x3f\x32\x60\x90\0\0\0\0module_layout";
	size_t count;

	write_changed(folder, PEER, record, 8, 'x');
	module = open_changed(folder);
	versions = elf_module_versions(module, &count);
	assert_string_equal(versions[0].name, "module_layout");
	assert_true(versions[0].wide);
	assert_false(versions[1].wide);
}

static void fewer_extended_names_than_crcs_are_minded_since_6_14(void **state)
{
	const struct folder *folder = *state;
	const char *extended = FIXTURES "/extended.ko";
	_cleanup_module_ struct elf_module *one = NULL;
	_cleanup_module_ struct elf_module *fewer = NULL;
	struct error error = { 0 };

	write_changed(folder, extended, "__version_ext_names", strlen("__version_ext_names"), 'x');
	one = open_changed(folder);
	assert_int_equal(elf_module_check_format(one, 0x060d, &error), 0);
	assert_int_equal(elf_module_check_format(one, 0x060e, &error), -ENOEXEC);
	assert_contains(error.text, "only one of the sections");
	write_changed(folder, extended, "module_layout", sizeof("module_layout"), 'x');
	fewer = open_changed(folder);
	assert_int_equal(elf_module_check_format(fewer, 0x060d, &error), 0);
	assert_int_equal(elf_module_check_format(fewer, 0x060e, &error), -ENOEXEC);
	assert_contains(error.text, "2 extended symbol versions but fewer names");
}

/* The last string goes on in what follows, up to a NUL; the others are found as ever. */
static void modinfo_without_an_end_goes_on_behind_it(void **state)
{
	const struct folder *folder = *state;
	_cleanup_module_ struct elf_module *module = NULL;

	/* GCC puts the strings in reverse order, so the first one in the source ends the section.
	 */
	write_changed(folder, PEER, "license=Dual MIT/GPL", sizeof("license=Dual MIT/GPL"), 'x');
	module = open_changed(folder);
	assert_null(elf_module_info(module, "license"));
	assert_string_equal(elf_module_name(module), "peer");
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
	expect_refusal(folder->fd, "stripped.ko", "--strip-debug");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(modinfo_gives_first_value_all_values_or_none),
		cmocka_unit_test(a_module_without_a_name_has_none),
		cmocka_unit_test(depends_are_module_names),
		cmocka_unit_test(the_build_id_is_lower_case_hex),
		cmocka_unit_test(versions_are_listed_and_found),
		cmocka_unit_test(extended_versions_win_over_basic_ones),
		cmocka_unit_test(a_module_without_versions_says_so),
		cmocka_unit_test(an_undefined_symbol_knows_the_version_it_demands),
		cmocka_unit_test(exports_have_crc_and_mark),
		cmocka_unit_test(exports_of_newer_kernels_have_flags_and_name_spaces),
		cmocka_unit_test(headers_tell_machine_and_struct_size),
		cmocka_unit_test(other_machines_open_with_nothing_but_that),
		cmocka_unit_test(a_buffer_is_read_as_a_file_is),
		folder_test(an_unsigned_module_and_a_damaged_signature_are_told_apart),
		folder_test(packed_modules_are_read_whatever_their_name),
		folder_test(what_is_no_module_is_named_as_such),
		folder_test(a_file_cut_anywhere_is_an_error),
		folder_test(a_file_damaged_anywhere_is_an_error_or_harmless),
		folder_test(a_version_name_without_an_end_is_no_symbols),
		folder_test(a_crc_of_more_than_32_bits_is_marked),
		folder_test(fewer_extended_names_than_crcs_are_minded_since_6_14),
		folder_test(modinfo_without_an_end_goes_on_behind_it),
		folder_test(a_stripped_module_is_refused_with_the_right_advice),
	};

	return cmocka_run_group_tests_name("elf_module", tests, NULL, NULL);
}
