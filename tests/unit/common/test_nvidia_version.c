/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/support.h"

#include "common/nvidia_version.h"

static void versions_are_compared_number_by_number(void **state)
{
	static const char *const ascending[] = { "470.256.02", "565", "565.57.01", "570.86.15",
		"570.133.20", "570.158.01", "570.158.02", "595.58.03", "1000.1" };

	(void) state;
	for (size_t i = 0; i < ARRAY_SIZE(ascending); i++)
		for (size_t j = 0; j < ARRAY_SIZE(ascending); j++) {
			int order = nvidia_version_compare(ascending[i], ascending[j]);

			assert_int_equal((order > 0) - (order < 0), (i > j) - (i < j));
		}
}

static void leading_zeros_and_other_text_are_no_difference(void **state)
{
	(void) state;
	assert_int_equal(nvidia_version_compare("570.158.01", "570.158.1"), 0);
	assert_true(nvidia_version_compare("", "565") < 0);
	assert_true(nvidia_version_compare("x.y", "565") < 0);
	assert_true(nvidia_version_compare("565.", "565") >= 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(versions_are_compared_number_by_number),
		cmocka_unit_test(leading_zeros_and_other_text_are_no_difference),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
