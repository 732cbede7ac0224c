/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/support.h"

#include "common/text.h"

static void cleaning_makes_one_harmless_line(void **state)
{
	static const struct {
		const char *from, *to;
	} texts[] = {
		{ "", "" },
		{ "nvidia.ko", "nvidia.ko" },
		{ "x\n  will load", "x?  will load" },
		{ "a\tb\r\033[2Jc\x7f", "a b??[2Jc?" },
		/* C1 as UTF-8, and as a byte of its own */
		{ "a\xc2\x9b"
		  "31mb\x9b"
		  "c",
			"a?31mb?c" },
		/* NOLINTBEGIN(misc-misleading-bidirectional): they are what is tested */
		/* RIGHT-TO-LEFT OVERRIDE, ISOLATE, ARABIC LETTER MARK, LINE SEPARATOR */
		{ "a\xe2\x80\xae"
		  "b\xe2\x81\xa6"
		  "c\xd8\x9c"
		  "d\xe2\x80\xa8"
		  "e",
			"a?b?c?d?e" },
		/* NOLINTEND(misc-misleading-bidirectional) */
		{ "\xc3\xa4\xe2\x80\xa6\xf0\x9f\x9a\xa2", "\xc3\xa4\xe2\x80\xa6\xf0\x9f\x9a\xa2" },
		/* longer than needed, a surrogate, above U+10FFFF, cut short, a stray continuation
		 */
		{ "\xc0\x8a|\xe0\x80\x8a", "??|???" },
		{ "\xed\xa0\x80|\xf4\x90\x80\x80", "???|????" },
		{ "\xe2\x80", "??" },
		{ "\xbf\xff", "??" },
	};

	(void) state;
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		char text[64];

		(void) snprintf(text, sizeof(text), "%s", texts[i].from);
		text_clean(text);
		assert_string_equal(text, texts[i].to);
	}
}

static void a_printed_argument_makes_no_line_of_its_own(void **state)
{
	_cleanup_free_ char *text = NULL;
	size_t size = 0;
	FILE *file = open_memstream(&text, &size);

	(void) state;
	assert_non_null(file);
	text_print(file, "\n%-6s  %s\n", "x\n", "y  will load\n\033[2J");
	text_print(file, "%s", "a\n");
	text_print(file, "\n");
	text_print(file, "%zu of %zu\n\n", (size_t) 1, (size_t) 2);
	assert_int_equal(fclose(file), 0);
	assert_string_equal(text, "\nx?      y  will load??[2J\na?\n1 of 2\n\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cleaning_makes_one_harmless_line),
		cmocka_unit_test(a_printed_argument_makes_no_line_of_its_own),
	};

	return cmocka_run_group_tests_name("text", tests, NULL, NULL);
}
