/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/support.h"

#include "kernels/repo/repo_internal.h"

#define HEX_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define HEX_B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

static int parse(const char *text, struct release *ret, struct error *error)
{
	return release_parse(text, strlen(text), "Release", ret, error);
}

static void what_a_suite_says_of_itself(void **state)
{
	static const char text[] =
		"Origin: Debian Backports\nLabel: Debian Backports\nSuite: stable-backports\n"
		"Codename: trixie-backports\nDate: Thu, 19 Nov 2026 02:12:54 UTC\n"
		"Valid-Until: Thu, 26 Nov 2026 02:12:54 UTC\nNotAutomatic: yes\n"
		"Acquire-By-Hash: yes\nMD5Sum:\n d41d8cd98f00b204e9800998ecf8427e 0 x\nSHA256:\n " HEX_B
		"  9 main/binary-amd64/Packages.xz\n " HEX_A
		" 12345678901 main/binary-amd64/Packages\n";
	struct release release;
	struct error error = { 0 };

	(void) state;
	assert_int_equal(parse(text, &release, &error), 0);
	assert_string_equal(release.date, "Thu, 19 Nov 2026 02:12:54 UTC");
	assert_string_equal(release.suite, "stable-backports");
	assert_string_equal(release.codename, "trixie-backports");
	assert_int_equal(release.valid_until_s, 1795659174);
	assert_true(release.by_hash);
	assert_true(release.not_automatic);
	assert_int_equal(release.count, 2);
	assert_string_equal(release_find(&release, "main/binary-amd64/Packages.xz")->sha256, HEX_B);
	assert_true(
		release_find(&release, "main/binary-amd64/Packages")->size_bytes == 12345678901);
	assert_null(release_find(&release, "main/binary-arm64/Packages"));
	release_free(&release);
}

/* The text that a clear signature covers ends before the last line's end. */
static void a_small_one_without_the_last_line_end(void **state)
{
	struct release release;
	struct error error = { 0 };

	(void) state;
	assert_int_equal(parse("Suite: a\nSHA256:\n " HEX_A " 1 x", &release, &error), 0);
	assert_int_equal(release.count, 1);
	assert_int_equal(release.valid_until_s, 0);
	assert_false(release.by_hash);
	assert_string_equal(release.date, "");
	release_free(&release);
}

static void what_is_wrong_with_others(void **state)
{
	static const struct {
		const char *text;
		int code;
		const char *part;
	} cases[] = {
		{ "", -EPROTO, "is empty" },
		{ "<html>\n", -EPROTO, "malformed at byte 0" },
		{ "Suite: a\n", -EPROTO, "has no SHA256 field" },
		{ "Suite: a\nMD5Sum:\n x 1 y\nSHA1:\n x 1 y\n", -EKEYREJECTED,
			"which can be forged" },
		{ "SHA256:\n abc 1 x\n", -EPROTO, "is not \"hash size path\"" },
		{ "SHA256:\n " HEX_A " 1\n", -EPROTO, "is not \"hash size path\"" },
		{ "SHA256:\n " HEX_A " -1 x\n", -EPROTO, "is not \"hash size path\"" },
		{ "SHA256:\n " HEX_A " 1 x y\n", -EPROTO, "is not \"hash size path\"" },
		{ "SHA256:\n " HEX_A " 1 ../../x\n", -EPROTO, "not below the suite's folder" },
		{ "SHA256:\n " HEX_A " 1 /etc/x\n", -EPROTO, "not below the suite's folder" },
		{ "SHA256:\n " HEX_A " 1 x\nValid-Until: tomorrow\n", -EPROTO, "is not a date" },
		{ "SHA256:\n " HEX_A " 1 x\n\nSHA256:\n " HEX_A " 1 x\n", -EPROTO,
			"there is more after its end" },
	};

	(void) state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct release release;
		struct error error = { 0 };

		assert_int_equal(parse(cases[i].text, &release, &error), cases[i].code);
		assert_contains(error.text, cases[i].part);
	}
}

static void dates_are_read_whatever_the_language(void **state)
{
	static const char *const wrong[] = { "", "Thu, 26 Nov 2026", "26 Nov 2026 02:12:54 CET",
		"26 Foo 2026 02:12:54 UTC", "32 Nov 2026 02:12:54 UTC", "26 Nov 2026 24:12:54 UTC",
		"26 Nov 2026 02:12:54 UTC x" };
	int64_t seconds;

	(void) state;
	assert_int_equal(release_date("Thu, 01 Jan 1970 00:00:01 UTC", &seconds), 0);
	assert_int_equal(seconds, 1);
	assert_int_equal(release_date("26 Nov 2026  2:12:54 +0000", &seconds), 0);
	assert_int_equal(seconds, 1795659174);
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
		assert_int_equal(release_date(wrong[i], &seconds), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_a_suite_says_of_itself),
		cmocka_unit_test(a_small_one_without_the_last_line_end),
		cmocka_unit_test(what_is_wrong_with_others),
		cmocka_unit_test(dates_are_read_whatever_the_language),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
