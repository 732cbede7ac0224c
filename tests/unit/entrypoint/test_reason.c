/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "common/reason_text.h"
#include "entrypoint/engine/reason.h"

/* The page is what people look a code up in, and slipway-init explain has it. */
static void the_page_and_the_table_agree(void **state)
{
	bool found[REASON_COUNT] = { false };
	struct reason_text text;
	size_t position = 0;

	(void) state;
	while (reason_text_next(&position, &text) == 1) {
		size_t reason = 0;

		while (reason < REASON_COUNT &&
			strcmp(reason_entry((enum reason) reason)->code, text.code) != 0)
			reason++;
		if (reason == REASON_COUNT)
			fail_msg("docs/reasons.md has %s, the table has not", text.code);
		assert_int_equal(text.exit_code, reason_entry((enum reason) reason)->exit_code);
		assert_true(*text.because || text.details.count);
		found[reason] = true;
		reason_text_free(&text);
	}
	for (size_t reason = 0; reason < REASON_COUNT; reason++)
		if (!found[reason])
			fail_msg("docs/reasons.md has no heading for %s",
				reason_entry((enum reason) reason)->code);
}

static void a_section_is_cut_into_plain_texts(void **state)
{
	_cleanup_reason_text_ struct reason_text text = { 0 };
	size_t position = 0;

	(void) state;
	while (reason_text_next(&position, &text) == 1 &&
		strcmp(text.code, "NO_NVIDIA_DEVICE") != 0)
		reason_text_free(&text);
	assert_string_equal(text.because,
		"There is no GPU that the image's driver can drive. Nothing was unloaded, unless "
		"nvidia itself found none. By the message:");
	assert_null(text.cure);
	assert_int_equal(text.details.count, 4);
	/* Code, strong and links lose their marks. */
	for (size_t i = 0; i < text.details.count; i++)
		assert_null(strpbrk(text.details.items[i], "`*[]\n"));
	assert_non_null(strstr(text.details.items[1], "(docs/build.md)"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_page_and_the_table_agree),
		cmocka_unit_test(a_section_is_cut_into_plain_texts),
	};

	return cmocka_run_group_tests_name("reason", tests, NULL, NULL);
}
