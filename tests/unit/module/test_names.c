/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/support.h"

#include "module/elf_internal.h"

static void a_modules_file_is_known_by_its_ending(void **state)
{
	(void) state;
	assert_string_equal(module_suffix("a.ko"), ".ko");
	assert_string_equal(module_suffix("x.ko/y/a.ko.zst"), ".ko.zst");
	assert_string_equal(module_suffix("a.ko.xz"), ".ko.xz");
	assert_string_equal(module_suffix("a.ko.gz"), ".ko.gz");
	assert_string_equal(module_suffix("a.kontron.ko"), ".ko");
	assert_string_equal(module_suffix("a.ko.ko.xz"), ".ko.xz");
	assert_null(module_suffix(".ko"));
	assert_null(module_suffix("x/.ko.gz"));
	assert_null(module_suffix("a.ko.debug"));
	assert_null(module_suffix("a.ko.gz.sig"));
	assert_null(module_suffix("ib_core.kopf"));
	assert_null(module_suffix("a.ko/b"));
	assert_null(module_suffix("ko"));
	assert_null(module_suffix(""));
}

static void a_name_is_that_of_the_file(void **state)
{
	char name[10];

	(void) state;
	assert_true(module_name_of_file("kernel/a/mlx5-core.ko", name, sizeof(name)));
	assert_string_equal(name, "mlx5_core");
	assert_true(module_name_of_file("ib_core.ko.xz", name, sizeof(name)));
	assert_string_equal(name, "ib_core");
	/* As depmod and modprobe call them. */
	assert_true(module_name_of_file("x/b-1.kontron.ko", name, sizeof(name)));
	assert_string_equal(name, "b_1");
	assert_true(module_name_of_file("c.ko.ko", name, sizeof(name)));
	assert_string_equal(name, "c");
	assert_false(module_name_of_file("modules.dep", name, sizeof(name)));
	assert_false(module_name_of_file("kernel/a/mlx5_core_.ko", name, sizeof(name)));
}

static void a_table_keeps_what_it_has_as_it_grows(void **state)
{
	static char names[1000][8];
	struct name_table table = { .slots = NULL };

	(void) state;
	assert_int_equal(name_table_find(&table, "0"), NAME_NONE);
	for (uint32_t i = 0; i < ARRAY_SIZE(names); i++) {
		(void) snprintf(names[i], sizeof(names[i]), "%u", i);
		assert_int_equal(name_table_reserve(&table, i + 1), 0);
		assert_int_equal(*name_table_put(&table, names[i], i), i);
		assert_int_equal(*name_table_put(&table, names[i], i + 1), i);
	}
	for (uint32_t i = 0; i < ARRAY_SIZE(names); i++)
		assert_int_equal(name_table_find(&table, names[i]), i);
	assert_int_equal(name_table_find(&table, "1000"), NAME_NONE);
	name_table_free(&table);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_modules_file_is_known_by_its_ending),
		cmocka_unit_test(a_name_is_that_of_the_file),
		cmocka_unit_test(a_table_keeps_what_it_has_as_it_grows),
	};

	return cmocka_run_group_tests_name("names", tests, NULL, NULL);
}
