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

static void what_is_formatted_is_one_line(void **state)
{
	struct error error = { 0 };

	(void) state;
	(void) error_set(&error, -EINVAL, "%s", "a\nb\033[2J");
	(void) error_prefix(&error, -EINVAL, "%s", "c\nd");
	assert_string_equal(error.text, "c?d: a?b?[2J");
}

static void lines_follow_until_a_new_message(void **state)
{
	struct error error = { 0 }, other = { 0 };

	(void) state;
	(void) error_set(&error, -ENOENT, "x.ko: no such file");
	assert_int_equal(error_line(&error, -ENOENT, "looked for in %s", "/a\n/b"), -ENOENT);
	assert_int_equal(error_try(&error, -ENOENT, "name another"), -ENOENT);
	(void) error_prefix(&error, -ENOENT, "--with");
	assert_string_equal(error.text, "--with: x.ko: no such file");
	assert_string_equal(error.lines, "looked for in /a?/b\n" ERROR_TRY "name another\n");

	(void) error_set(&other, -EINVAL, "rocky9: %s", error.text);
	assert_string_equal(other.lines, "");
	(void) error_take_lines(&other, -EINVAL, &error);
	assert_string_equal(other.lines, error.lines);
	(void) error_set(&error, -EINVAL, "%s, again", error.text);
	assert_string_equal(error.text, "--with: x.ko: no such file, again");
	assert_string_equal(error.lines, "");
}

static void a_line_without_room_is_cut_and_ends(void **state)
{
	char text[ERROR_TEXT_SIZE];
	struct error error = { 0 };

	(void) state;
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	(void) error_set(&error, -EINVAL, "a");
	for (int i = 0; i < 3; i++)
		(void) error_line(&error, -EINVAL, "%s", text);
	(void) error_try(&error, -EINVAL, "no room");
	assert_int_equal(strlen(error.lines), ERROR_LINES_SIZE - 1);
	assert_string_equal(error.lines + ERROR_LINES_SIZE - 3, "x\n");
}

static void what_is_cut_has_whole_characters(void **state)
{
	char text[ERROR_TEXT_SIZE];
	struct error error = { 0 };

	(void) state;
	for (size_t i = 0; i < sizeof(text); i += 2)
		memcpy(text + i, "\xc3\xa4", 2);
	text[sizeof(text) - 2] = '\0';
	(void) error_set(&error, -EINVAL, "%s", text);
	(void) error_prefix(&error, -EINVAL, "xx");
	assert_int_equal(error.text[strlen(error.text) - 1], '?');
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
		cmocka_unit_test(what_is_formatted_is_one_line),
		cmocka_unit_test(lines_follow_until_a_new_message),
		cmocka_unit_test(a_line_without_room_is_cut_and_ends),
		cmocka_unit_test(what_is_cut_has_whole_characters),
		cmocka_unit_test(long_messages_are_cut_and_terminated),
	};

	return cmocka_run_group_tests_name("error", tests, NULL, NULL);
}
