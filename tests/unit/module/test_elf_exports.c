/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests what a module exports, in the forms of the kernels that the catalogue offers, old and new.
 */
#include "tests/unit/support.h"

#include <elf.h>

#include "module/elf.h"

static struct elf_module *open_fixture(const char *path)
{
	struct elf_module *module = NULL;
	struct error error = { 0 };

	if (elf_module_open(AT_FDCWD, path, &module, &error) < 0)
		fail_msg("%s", error.text);
	return module;
}

/* Both old forms export four symbols, of which four() is GPL-only. */
static void assert_four(const char *path)
{
	static const struct elf_module_export expected[] = {
		{ .symbol = "four", .crc = 0x44444444, .gpl = true },
		{ .symbol = "one", .crc = 0x11111111, .gpl = false },
		{ .symbol = "three", .crc = 0xf3333333, .gpl = false },
		{ .symbol = "two", .crc = 0x22222222, .gpl = false },
	};
	_cleanup_(elf_module_close) struct elf_module *module = open_fixture(path);
	size_t count;
	const struct elf_module_export *exports = elf_module_exports(module, &count);

	assert_int_equal(count, ARRAY_SIZE(expected));
	for (size_t i = 0; i < count; i++) {
		assert_string_equal(exports[i].symbol, expected[i].symbol);
		assert_string_equal(exports[i].name_space, "");
		assert_int_equal(exports[i].crc, expected[i].crc);
		assert_true(exports[i].has_crc);
		assert_int_equal(exports[i].gpl, expected[i].gpl);
	}
}

static void addresses_and_crcs_of_64_bits_are_read(void **state)
{
	(void) state;
	assert_four(FIXTURES "/old_absolute.ko");
}

static void distances_without_a_name_space_are_read(void **state)
{
	(void) state;
	assert_four(FIXTURES "/old_relative.ko");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(addresses_and_crcs_of_64_bits_are_read),
		cmocka_unit_test(distances_without_a_name_space_are_read),
	};

	return cmocka_run_group_tests_name("elf_exports", tests, NULL, NULL);
}
