/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/support.h"

#include "common/nearest.h"

static char *names[] = { "debian12", "debian13", "rhel9", "ubuntu24.04", "resolve" };
static const struct strv words = { .items = names, .count = 5 };

static void the_nearest_word_is_found(void **state)
{
	(void) state;
	assert_string_equal(nearest_word(&words, "debain12"), "debian12");
	assert_string_equal(nearest_word(&words, "reslove"), "resolve");
	assert_string_equal(nearest_word(&words, "debian"), "debian13");
	assert_string_equal(nearest_word(&words, "rhel"), "rhel9");
}

static void what_is_near_nothing_is_left_alone(void **state)
{
	char longer[200];

	(void) state;
	memset(longer, 'd', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = '\0';
	assert_null(nearest_word(&words, "windows"));
	assert_null(nearest_word(&words, ""));
	assert_null(nearest_word(&words, longer));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_nearest_word_is_found),
		cmocka_unit_test(what_is_near_nothing_is_left_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
