/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/support.h"

#include "common/strv.h"

static void push_copies_and_keeps_the_array_terminated(void **state)
{
	_cleanup_strv_ struct strv list = { 0 };
	char text[] = "one";

	(void) state;
	assert_int_equal(strv_push(&list, text), 0);
	text[0] = 'X';
	assert_string_equal(list.items[0], "one");
	for (int i = 0; i < 100; i++) {
		assert_int_equal(strv_pushf(&list, "%d", i), 0);
		assert_null(list.items[list.count]);
	}
	assert_int_equal(list.count, 101);
	assert_string_equal(list.items[100], "99");
}

static void push_unique_adds_a_text_once(void **state)
{
	_cleanup_strv_ struct strv list = { 0 };

	(void) state;
	assert_int_equal(strv_push_unique(&list, "a"), 0);
	assert_int_equal(strv_push_unique(&list, "b"), 0);
	assert_int_equal(strv_push_unique(&list, "a"), 0);
	assert_int_equal(list.count, 2);
}

static void split_passes_over_empty_fields(void **state)
{
	_cleanup_strv_ struct strv list = { 0 };

	(void) state;
	assert_int_equal(strv_split(&list, ",,a,b;;c;", ",;"), 0);
	assert_int_equal(list.count, 3);
	assert_string_equal(list.items[0], "a");
	assert_string_equal(list.items[2], "c");
	assert_int_equal(strv_split(&list, "", ","), 0);
	assert_int_equal(list.count, 3);
}

static void remove_keeps_order_and_terminator(void **state)
{
	_cleanup_strv_ struct strv list = { 0 };

	(void) state;
	assert_int_equal(strv_split(&list, "a b c", " "), 0);
	strv_remove(&list, 1);
	assert_int_equal(list.count, 2);
	assert_string_equal(list.items[1], "c");
	assert_null(list.items[2]);
	strv_remove(&list, 1);
	strv_remove(&list, 0);
	assert_int_equal(list.count, 0);
	assert_null(list.items[0]);
}

static void sort_goes_by_byte_value(void **state)
{
	_cleanup_strv_ struct strv list = { 0 };

	(void) state;
	strv_sort(&list);
	assert_int_equal(strv_split(&list, "b a B 10 9", " "), 0);
	strv_sort(&list);
	assert_string_equal(list.items[0], "10");
	assert_string_equal(list.items[1], "9");
	assert_string_equal(list.items[2], "B");
	assert_string_equal(list.items[4], "b");
}

static void join_puts_the_separator_between_items_only(void **state)
{
	_cleanup_strv_ struct strv list = { 0 };
	_cleanup_free_ char *empty = strv_join(&list, ", ");
	_cleanup_free_ char *joined = NULL;

	(void) state;
	assert_string_equal(empty, "");
	assert_int_equal(strv_split(&list, "a b c", " "), 0);
	joined = strv_join(&list, ", ");
	assert_string_equal(joined, "a, b, c");
}

static void free_leaves_a_list_that_can_be_used_again(void **state)
{
	struct strv list = { 0 };

	(void) state;
	assert_int_equal(strv_push(&list, "a"), 0);
	strv_free(&list);
	assert_int_equal(list.count, 0);
	assert_false(strv_contains(&list, "a"));
	assert_int_equal(strv_push(&list, "b"), 0);
	assert_true(strv_contains(&list, "b"));
	strv_free(&list);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(push_copies_and_keeps_the_array_terminated),
		cmocka_unit_test(push_unique_adds_a_text_once),
		cmocka_unit_test(split_passes_over_empty_fields),
		cmocka_unit_test(remove_keeps_order_and_terminator),
		cmocka_unit_test(sort_goes_by_byte_value),
		cmocka_unit_test(join_puts_the_separator_between_items_only),
		cmocka_unit_test(free_leaves_a_list_that_can_be_used_again),
	};

	return cmocka_run_group_tests_name("strv", tests, NULL, NULL);
}
