/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "common/fs.h"
#include "entrypoint/engine/reason.h"

/* The page is what people look a code up in: each heading has the code and its exit code. */
static void the_page_and_the_table_agree(void **state)
{
	_cleanup_free_ char *page = NULL;
	size_t rows = 0;

	(void) state;
	assert_int_equal(fs_read(AT_FDCWD, "docs/reasons.md", 0, &page, NULL), 0);
	for (int reason = 0; reason < REASON_COUNT; reason++) {
		const struct reason_entry *entry = reason_entry((enum reason) reason);
		char row[64];

		assert_non_null(entry->code);
		(void) snprintf(row, sizeof(row), "\n### %s (%d)\n", entry->code, entry->exit_code);
		if (!strstr(page, row))
			fail_msg("docs/reasons.md has no heading for %s with exit code %d",
				entry->code, entry->exit_code);
	}
	for (const char *line = strstr(page, "\n### "); line; line = strstr(line + 1, "\n### ")) {
		char code[64];
		int exit_code;

		rows += sscanf(line, "\n### %63[A-Z_] (%d)", code, &exit_code) == 2;
	}
	assert_int_equal(rows, REASON_COUNT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_page_and_the_table_agree),
	};

	return cmocka_run_group_tests_name("reason", tests, NULL, NULL);
}
