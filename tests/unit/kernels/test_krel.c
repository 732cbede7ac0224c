/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/support.h"

#include "common/arch.h"
#include "kernels/krel.h"

static void what_uname_prints_is_valid(void **state)
{
	static const char *const names[] = { "6.1.0-56-amd64", "6.12.107+deb13-cloud-amd64",
		"5.14.0-427.13.1.el9_4.x86_64+64k", "3.10.0-1160.el7.x86_64.debug", "6.1.10-11.ph5",
		"5.14.21-150500.55.19-default", "6.8.0-31-generic", "7",
		"5.15.0-0.30.19.el8uek.x86_64", "6.10~rc1" };

	(void) state;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		assert_true(krel_is_valid(names[i]));
}

static void anything_else_is_refused_with_the_place(void **state)
{
	static const struct {
		const char *krel, *why;
	} cases[] = {
		{ "", "it is empty" },
		{ "amd64", "does not start with a digit" },
		{ "6.1.0 amd64", "' ' at character 6" },
		{ "6.1.0-$(reboot)", "'$' at character 7" },
		{ "6.1.*", "'*' at character 5" },
		{ "6.1/../x", "'/' at character 4" },
		{ "6.1\n", "0x0a at character 4" },
		{ "6.1\xc3\xa4", "0xc3 at character 4" },
		{ "-o", "does not start with a digit" },
		{ "6.1.0;true", "';' at character 6" },
		{ "6123456789012345678901234567890123456789012345678901234567890.1.0", "longer" },
	};

	(void) state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct error error = { 0 };

		assert_int_equal(krel_check(cases[i].krel, &error), -EILSEQ);
		assert_contains(error.text, cases[i].why);
	}
}

static void the_release_in_a_packages_name_is_the_cure(void **state)
{
	static const struct {
		const char *name, *release;
	} cases[] = {
		{ "linux-image-6.1.0-56-amd64", "give only the release: 6.1.0-56-amd64\n" },
		{ "kernel-5.14.0-427.13.1.el9_4.x86_64",
			"give only the release: 5.14.0-427.13.1.el9_4.x86_64\n" },
		{ "vmlinuz-6.8.0-45-generic", "give only the release: 6.8.0-45-generic\n" },
		{ "linux-image-6.1.0-56-amd64_6.1.140-1_amd64.deb", NULL },
		{ "linux-image-amd64", NULL },
		{ "gcc-12", NULL },
	};

	(void) state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct error error = { 0 };

		assert_int_equal(krel_check(cases[i].name, &error), -EILSEQ);
		assert_contains(error.lines, "try: give what uname -r prints on the node\n");
		if (cases[i].release)
			assert_contains(error.lines, cases[i].release);
		else
			assert_null(strstr(error.lines, "give only the release"));
	}
}

static void a_machines_name_with_one_slip_is_set_right(void **state)
{
	static const struct {
		const char *krel, *right;
	} cases[] = {
		{ "6.1.0-56-amd46", "6.1.0-56-amd64" },
		{ "6.1.0-56-cloud-arm46", "6.1.0-56-cloud-arm64" },
		{ "5.14.0-427.el9.x86_46", "5.14.0-427.el9.x86_64" },
		{ "6.1.0-56-amd64", NULL },
		{ "6.8.0-45-generic", NULL },
		{ "", NULL },
	};

	(void) state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_free_ char *right = krel_with_arch(cases[i].krel);

		if (cases[i].right)
			assert_string_equal(right, cases[i].right);
		else
			assert_null(right);
	}
}

static void another_machine_has_the_same_build_by_its_own_name(void **state)
{
	static const struct {
		const char *krel, *uname, *other;
	} cases[] = {
		{ "6.1.0-57-amd64", "aarch64", "6.1.0-57-arm64" },
		{ "6.12.117+deb12-arm64-16k", "x86_64", "6.12.117+deb12-amd64-16k" },
		{ "5.14.0-427.el9.x86_64+rt", "aarch64", "5.14.0-427.el9.aarch64+rt" },
		{ "6.8.0-45-generic", "aarch64", NULL },
	};

	(void) state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_free_ char *other = krel_for_arch(cases[i].krel, cases[i].uname);

		if (cases[i].other)
			assert_string_equal(other, cases[i].other);
		else
			assert_null(other);
	}
}

static void a_flavour_follows_the_last_number(void **state)
{
	(void) state;
	assert_string_equal(krel_flavour("6.1.0-56-cloud-amd64"), "cloud-amd64");
	assert_string_equal(krel_flavour("6.12.107+deb12-amd64"), "amd64");
	assert_string_equal(krel_flavour("6.8.0-31-generic"), "generic");
	assert_string_equal(krel_flavour("6.1.0"), "");
	assert_string_equal(krel_flavour("5.14.0-427.el9.x86_64"), "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_uname_prints_is_valid),
		cmocka_unit_test(anything_else_is_refused_with_the_place),
		cmocka_unit_test(the_release_in_a_packages_name_is_the_cure),
		cmocka_unit_test(a_machines_name_with_one_slip_is_set_right),
		cmocka_unit_test(another_machine_has_the_same_build_by_its_own_name),
		cmocka_unit_test(a_flavour_follows_the_last_number),
	};

	return cmocka_run_group_tests_name("krel", tests, NULL, NULL);
}
