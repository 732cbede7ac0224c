/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests the message about a release that is not there: it names neighbours, or the one that was
 * meant.
 */
#include "tests/unit/support.h"

#include "kernels/resolve/resolve.h"

/* As a list of Debian 12's has them, in its order. */
static const char releases[] = "6.1.0-9-amd64 6.1.0-47-amd64 6.1.0-56-amd64 6.1.0-57-cloud-amd64 "
			       "6.12.107+deb12-amd64";

static const struct catalogue debian = {
	.os = (char[]){ "debian12" },
	.kernel = { .match = MATCH_NAME,
		.series = (char[]){ "6.1" },
		.flavour = (char[]){ "amd64" } },
};

static void assert_nearest(const char *krel, const char *wanted)
{
	_cleanup_strv_ struct strv krels = { 0 };
	_cleanup_strv_ struct strv nearest = { 0 };
	_cleanup_free_ char *joined = NULL;

	assert_int_equal(strv_split(&krels, releases, " "), 0);
	resolve_nearest(&krels, &debian, krel, &nearest);
	joined = strv_join(&nearest, " ");
	assert_string_equal(joined, wanted);
}

static void the_nearest_are_of_the_same_flavour_and_in_order(void **state)
{
	(void) state;
	assert_nearest("6.1.0-50-amd64", "6.1.0-9-amd64 6.1.0-47-amd64 6.1.0-56-amd64");
	assert_nearest("6.12.90+deb12-amd64", "6.12.107+deb12-amd64");
	assert_nearest("6.2.0-1-amd64",
		"6.1.0-9-amd64 6.1.0-47-amd64 6.1.0-56-amd64 6.12.107+deb12-amd64");
	assert_nearest("6.1.0-1-cloud-amd64", "6.1.0-57-cloud-amd64");
	assert_nearest("0", "6.1.0-9-amd64 6.1.0-47-amd64 6.1.0-56-amd64");
}

static void assert_meant(const char *krel, const char *wanted)
{
	_cleanup_strv_ struct strv krels = { 0 };
	const char *meant;

	assert_int_equal(strv_split(&krels, releases, " "), 0);
	meant = resolve_meant(&krels, &debian, krel);
	assert_string_equal(meant ? meant : "nothing", wanted);
}

static void a_mistyped_flavour_is_recognised(void **state)
{
	(void) state;
	assert_meant("6.1.0-56-amd46", "6.1.0-56-amd64");
	assert_meant("6.1.0-56-adm64", "6.1.0-56-amd64");
	assert_meant("6.1.0-57-clod-amd64", "6.1.0-57-cloud-amd64");
	assert_meant("6.1.0-56", "6.1.0-56-amd64");
}

static void a_number_that_is_not_there_is_no_slip(void **state)
{
	(void) state;
	assert_meant("6.1.0-55-amd64", "nothing");
	assert_meant("6.2.0-56-amd64", "nothing");
	assert_meant("something-else", "nothing");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_nearest_are_of_the_same_flavour_and_in_order),
		cmocka_unit_test(a_mistyped_flavour_is_recognised),
		cmocka_unit_test(a_number_that_is_not_there_is_no_slip),
	};

	return cmocka_run_group_tests_name("resolve_nearest", tests, NULL, NULL);
}
