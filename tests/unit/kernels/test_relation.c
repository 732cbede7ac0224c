/* SPDX-License-Identifier: Apache-2.0 */
/* Tests single fields of a package: its version, its dependencies, its compiler. */
#include "tests/unit/support.h"

#include "kernels/repo/package.h"
#include "kernels/resolve/resolve.h"
#include "kernels/krel.h"

static void versions_are_ordered_as_dpkg_orders_them(void **state)
{
	(void) state;
	assert_true(version_compare("1.0~rc1", "1.0", false) < 0);
	assert_true(version_compare("1.0", "1.0+b1", false) < 0);
	assert_true(version_compare("1.0a", "1.0+", false) < 0);
	assert_true(version_compare("1.00", "1.0", false) == 0);
	assert_true(version_compare("", "~", false) > 0);
	assert_true(version_compare("99999999999999999999", "100000000000000000000", false) < 0);
	assert_true(version_compare("1:1.0", "2.0", false) > 0);
	assert_true(version_compare("0:1.0", "1.0", false) == 0);
	assert_true(version_compare("1.0+dfsg-1", "1.0-2", false) > 0);
	assert_true(version_compare("1.0a-1", "1.0-2", false) > 0);
	assert_true(version_compare("1.0-2", "1.0-10", false) < 0);
	assert_true(version_compare("1.0.dfsg-1", "1.0.1-1", false) > 0);
}

static void versions_are_ordered_as_rpm_orders_them(void **state)
{
	(void) state;
	assert_true(version_compare("4.18.0-553.el8_10", "4.18.0-553.97.1.el8_10", true) < 0);
	assert_true(version_compare("8.5.0-28.1.el8", "8.5.0-28.el8", true) > 0);
	assert_true(version_compare("1.0a-1.el8", "1.0.1-1.el8", true) < 0);
	assert_true(version_compare("1:1.0-1.el8", "2.0-1.el8", true) > 0);
	assert_true(version_compare("2.0~rc1-1", "2.0-1", true) < 0);
}

static void releases_are_ordered_as_people_order_them(void **state)
{
	static const char *const ascending[] = { "4.18.0-348.el8.x86_64",
		"4.18.0-553.el8_10.x86_64", "4.18.0-553.5.1.el8_10.x86_64",
		"4.18.0-553.97.1.el8_10.x86_64", "5.14.0-362.8.1.el9_3.x86_64",
		"5.15.0-300.163.18.el9uek.x86_64", "5.15.0-300.163.18.1.el9uek.x86_64",
		"6.1.0-9-amd64", "6.1.0-56-amd64", "6.12~rc1-amd64", "6.12.107+deb12-amd64" };

	(void) state;
	for (size_t i = 1; i < ARRAY_SIZE(ascending); i++) {
		assert_true(krel_compare(ascending[i - 1], ascending[i]) < 0);
		assert_true(krel_compare(ascending[i], ascending[i - 1]) > 0);
	}
}

static void upstream_versions_lose_epoch_and_revision(void **state)
{
	_cleanup_free_ char *full = resolve_upstream("1:535.261.03-1~deb12u1");
	_cleanup_free_ char *native = resolve_upstream("12.4");
	_cleanup_free_ char *dashes = resolve_upstream("24.07-0.6-3");

	(void) state;
	assert_string_equal(full, "535.261.03");
	assert_string_equal(native, "12.4");
	assert_string_equal(dashes, "24.07-0.6");
}

static void relations_are_read_one_by_one(void **state)
{
	static const char *const wanted[] = { "a", "b >= 1.2", "|c", "d = 1", "e" };
	const char *cursor = "a:any, b (>=1.2) [amd64] | c,d(= 1) , , e <!nodoc>";

	(void) state;
	for (size_t i = 0; i <= ARRAY_SIZE(wanted); i++) {
		_cleanup_(relation_free) struct relation relation = { 0 };
		_cleanup_free_ char *text = NULL;

		assert_int_equal(relation_next(&cursor, &relation), i < ARRAY_SIZE(wanted));
		if (i == ARRAY_SIZE(wanted))
			break;
		assert_true(asprintf(&text, "%s%s%s%s%s%s", relation.alternative ? "|" : "",
				    relation.name, *relation.sign ? " " : "", relation.sign,
				    *relation.sign ? " " : "", relation.version) > 0);
		assert_string_equal(text, wanted[i]);
	}
}

static void compilers_are_told_by_their_names(void **state)
{
	static const struct {
		const char *package, *compiler;
	} cases[] = { { "gcc-12", "gcc-12" }, { "gcc-14-for-host", "gcc-14" },
		{ "clang-16", "clang-16" }, { "gcc", NULL }, { "gcc-", NULL }, { "gcc-12x", NULL },
		{ "libgcc-12-dev", NULL } };

	(void) state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_free_ char *name = resolve_compiler_name(cases[i].package);

		if (cases[i].compiler)
			assert_string_equal(name, cases[i].compiler);
		else
			assert_null(name);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(versions_are_ordered_as_dpkg_orders_them),
		cmocka_unit_test(versions_are_ordered_as_rpm_orders_them),
		cmocka_unit_test(releases_are_ordered_as_people_order_them),
		cmocka_unit_test(upstream_versions_lose_epoch_and_revision),
		cmocka_unit_test(relations_are_read_one_by_one),
		cmocka_unit_test(compilers_are_told_by_their_names),
	};

	return cmocka_run_group_tests_name("relation", tests, NULL, NULL);
}
