/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/support.h"

#include "common/json_text.h"

static void expect(const char *text, const char *json)
{
	_cleanup_free_ char *written = NULL;
	size_t size = 0;
	FILE *file = open_memstream(&written, &size);

	assert_non_null(file);
	json_text_string(file, text);
	assert_int_equal(fclose(file), 0);
	assert_string_equal(written, json);
}

static void plain_text_is_quoted(void **state)
{
	(void) state;
	expect("", "\"\"");
	expect("nvidia-peermem: ready", "\"nvidia-peermem: ready\"");
}

static void quotes_backslashes_and_control_bytes_are_escaped(void **state)
{
	(void) state;
	expect("a\"b\\c", "\"a\\\"b\\\\c\"");
	expect("one\ntwo\t\x01\x7f", "\"one\\ntwo\\u0009\\u0001\\u007f\"");
}

static void valid_utf8_passes(void **state)
{
	(void) state;
	expect("\u00e9 \u20ac \U0001f40b", "\"\u00e9 \u20ac \U0001f40b\"");
	expect("\xed\x9f\xbf\xee\x80\x80", "\"\xed\x9f\xbf\xee\x80\x80\"");
	expect("\xf4\x8f\xbf\xbf", "\"\xf4\x8f\xbf\xbf\"");
}

static void stray_and_missing_continuation_bytes_are_replaced(void **state)
{
	(void) state;
	expect("a\x80z", "\"a\\ufffdz\"");
	expect("\xc3(", "\"\\ufffd(\"");
	expect("\xff\xfe", "\"\\ufffd\\ufffd\"");
}

static void a_sequence_cut_short_by_the_end_is_replaced(void **state)
{
	(void) state;
	expect("\xc3", "\"\\ufffd\"");
	expect("\xe2\x82", "\"\\ufffd\\ufffd\"");
	expect("\xf0\x9f\x90", "\"\\ufffd\\ufffd\\ufffd\"");
}

static void overlong_forms_are_replaced(void **state)
{
	(void) state;
	expect("\xc0\xaf", "\"\\ufffd\\ufffd\"");
	expect("\xe0\x80\xaf", "\"\\ufffd\\ufffd\\ufffd\"");
	expect("\xf0\x80\x80\xaf", "\"\\ufffd\\ufffd\\ufffd\\ufffd\"");
}

static void surrogates_and_what_is_too_large_are_replaced(void **state)
{
	(void) state;
	expect("\xed\xa0\x80", "\"\\ufffd\\ufffd\\ufffd\"");
	expect("\xf4\x90\x80\x80", "\"\\ufffd\\ufffd\\ufffd\\ufffd\"");
	expect("\xf5\x80\x80\x80", "\"\\ufffd\\ufffd\\ufffd\\ufffd\"");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(plain_text_is_quoted),
		cmocka_unit_test(quotes_backslashes_and_control_bytes_are_escaped),
		cmocka_unit_test(valid_utf8_passes),
		cmocka_unit_test(stray_and_missing_continuation_bytes_are_replaced),
		cmocka_unit_test(a_sequence_cut_short_by_the_end_is_replaced),
		cmocka_unit_test(overlong_forms_are_replaced),
		cmocka_unit_test(surrogates_and_what_is_too_large_are_replaced),
	};

	return cmocka_run_group_tests_name("json_text", tests, NULL, NULL);
}
