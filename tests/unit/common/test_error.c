/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/support.h"

#include "common/error.h"

static void set_formats_and_returns_the_code(void **state)
{
	struct error error = { 0 };

	(void) state;
	assert_int_equal(error_set(&error, -EINVAL, "%s: line %d", "sources.list", 3), -EINVAL);
	assert_string_equal(error.text, "sources.list: line 3");
}

static void set_errno_adds_what_the_code_means(void **state)
{
	struct error error = { 0 };

	(void) state;
	assert_int_equal(error_set_errno(&error, -ENOENT, "%s", "/lib"), -ENOENT);
	assert_string_equal(error.text, "/lib: No such file or directory");
}

static void prefix_keeps_the_message(void **state)
{
	struct error error = { 0 };

	(void) state;
	(void) error_set(&error, -EINVAL, "line 3");
	assert_int_equal(error_prefix(&error, -EINVAL, "%s", "sources.list"), -EINVAL);
	assert_string_equal(error.text, "sources.list: line 3");
}

static void long_messages_are_cut_and_terminated(void **state)
{
	char text[2 * ERROR_TEXT_SIZE];
	struct error error = { 0 };

	(void) state;
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	(void) error_set(&error, -EINVAL, "%s", text);
	assert_int_equal(strlen(error.text), ERROR_TEXT_SIZE - 1);
	(void) error_prefix(&error, -EINVAL, "front");
	assert_int_equal(strlen(error.text), ERROR_TEXT_SIZE - 1);
	assert_memory_equal(error.text, "front: xxx", 10);
	(void) error_set_errno(&error, -ENOENT, "%s", text);
	assert_int_equal(strlen(error.text), ERROR_TEXT_SIZE - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(set_formats_and_returns_the_code),
		cmocka_unit_test(set_errno_adds_what_the_code_means),
		cmocka_unit_test(prefix_keeps_the_message),
		cmocka_unit_test(long_messages_are_cut_and_terminated),
	};

	return cmocka_run_group_tests_name("error", tests, NULL, NULL);
}
