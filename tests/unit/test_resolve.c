/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/support.h"

#include "kernels/apt.h"
#include "kernels/resolve_apt.h"
#include "kernels/version.h"

static char debian[] = "Debian", bookworm[] = "bookworm", no_keyring[] = "/nonexistent",
	    components[] = "main contrib", series[] = "6.1", flavour[] = "amd64",
	    os_name[] = "debian12";

static const struct catalogue catalogue = {
	.os = os_name,
	.origin = debian,
	.codename = bookworm,
	.keyring = no_keyring,
	.components = components,
	.series = series,
	.flavour = flavour,
};

static void fill(struct strv *names)
{
	static const char *const all[] = { "linux-headers-6.1.0-9-amd64",
		"linux-headers-6.1.0-47-amd64", "linux-headers-6.1.0-56-amd64",
		"linux-headers-6.1.0-57-cloud-amd64", "linux-headers-6.1.0-58-rt-amd64",
		"linux-headers-6.1.0-59-common", "linux-headers-6.12.107+deb12-amd64",
		"linux-headers-6.12-amd64", "linux-headers-amd64",
		"linux-headers-6.1.0-60-common-rt", "other" };

	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		assert_int_equal(strv_push(names, all[i]), 0);
}

static void newest_is_of_the_series_and_the_plain_flavour(void **state)
{
	_cleanup_strv_ struct strv names = { 0 };
	_cleanup_strv_ struct strv none = { 0 };

	(void) state;
	fill(&names);
	assert_string_equal(resolve_newest(&names, &catalogue), "6.1.0-56-amd64");
	assert_null(resolve_newest(&none, &catalogue));
}

static void the_nearest_are_of_the_same_flavour_and_in_order(void **state)
{
	_cleanup_strv_ struct strv names = { 0 };
	_cleanup_strv_ struct strv near_plain = { 0 };
	_cleanup_strv_ struct strv near_cloud = { 0 };
	_cleanup_strv_ struct strv near_none = { 0 };
	_cleanup_free_ char *joined = NULL;

	(void) state;
	fill(&names);
	assert_int_equal(resolve_nearest(&names, "6.1.0-50-amd64", &near_plain), 0);
	joined = strv_join(&near_plain, " ");
	assert_string_equal(
		joined, "6.1.0-9-amd64 6.1.0-47-amd64 6.1.0-56-amd64 6.12.107+deb12-amd64");
	assert_int_equal(resolve_nearest(&names, "6.1.0-1-cloud-amd64", &near_cloud), 0);
	assert_int_equal(near_cloud.count, 1);
	assert_string_equal(near_cloud.items[0], "6.1.0-57-cloud-amd64");
	assert_int_equal(resolve_nearest(&names, "$(reboot).*", &near_none), 0);
	assert_true(near_none.count > 0);
}

static void versions_are_ordered_as_dpkg_orders_them(void **state)
{
	(void) state;
	assert_true(version_compare("6.1.0-9-amd64", "6.1.0-56-amd64") < 0);
	assert_true(version_compare("6.12.107+deb12", "6.1.0-56") > 0);
	assert_true(version_compare("1.0~rc1", "1.0") < 0);
	assert_true(version_compare("1.0", "1.0+b1") < 0);
	assert_true(version_compare("1.0a", "1.0+") < 0);
	assert_true(version_compare("1.00", "1.0") == 0);
	assert_true(version_compare("", "~") > 0);
	assert_true(version_compare("99999999999999999999", "100000000000000000000") < 0);
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

static void only_the_distributions_own_repositories_are_taken(void **state)
{
	_cleanup_free_ char *text = NULL;
	struct error error = { 0 };

	(void) state;
	assert_int_equal(
		apt_sources_text("http://m.example/debian/|stable|bookworm|Debian\n"
				 "http://m.example/debian/|stable|bookworm|Debian\n"
				 "http://m.example/sec/|bookworm-security|$(CODENAME)|$(ORIGIN)\n"
				 "http://other.example/|bookworm|bookworm|Somebody\n"
				 "http://m.example/debian/|trixie|trixie|Debian\nbroken line\n",
			&catalogue, &text, &error),
		0);
	assert_string_equal(text, "deb http://m.example/debian/ stable main contrib\n"
				  "deb http://m.example/sec/ bookworm-security main contrib\n");
}

static void no_repository_of_the_distribution_is_an_error(void **state)
{
	char *text = NULL;
	struct error error = { 0 };

	(void) state;
	assert_int_equal(apt_sources_text("http://m.example/|trixie|trixie|Debian\n", &catalogue,
				 &text, &error),
		-ENODATA);
	assert_contains(error.text, "Debian bookworm");
	assert_null(text);
}

static void a_stanza_gives_its_fields(void **state)
{
	_cleanup_(apt_package_free) struct apt_package package = { 0 };
	struct error error = { 0 };

	(void) state;
	assert_int_equal(apt_package_parse("Package: linux-image-6.1.0-56-amd64\n"
					   "Source: linux-signed-amd64 (6.1.192+2)\n"
					   "Version: 6.1.192-2\nArchitecture: amd64\n"
					   "Description: x\n more\nSize: 70550672\nSHA256: a86e\n\n"
					   "Package: another\n",
				 &package, &error),
		0);
	assert_string_equal(package.source, "linux-signed-amd64");
	assert_string_equal(package.depends, "");
	assert_int_equal(package.size_bytes, 70550672);
}

static void a_stanza_without_a_digest_is_refused(void **state)
{
	struct apt_package package = { 0 };
	struct error error = { 0 };

	(void) state;
	assert_int_equal(apt_package_parse("Package: a\nVersion: 1\nArchitecture: all\nSize: 1\n\n"
					   "SHA256: of-another\n",
				 &package, &error),
		-EBADMSG);
	assert_contains(error.text, "SHA256");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(newest_is_of_the_series_and_the_plain_flavour),
		cmocka_unit_test(the_nearest_are_of_the_same_flavour_and_in_order),
		cmocka_unit_test(versions_are_ordered_as_dpkg_orders_them),
		cmocka_unit_test(upstream_versions_lose_epoch_and_revision),
		cmocka_unit_test(only_the_distributions_own_repositories_are_taken),
		cmocka_unit_test(no_repository_of_the_distribution_is_an_error),
		cmocka_unit_test(a_stanza_gives_its_fields),
		cmocka_unit_test(a_stanza_without_a_digest_is_refused),
	};

	return cmocka_run_group_tests_name("resolve", tests, NULL, NULL);
}
