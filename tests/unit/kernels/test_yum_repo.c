/* SPDX-License-Identifier: Apache-2.0 */
/* *.repo files of dnf and zypper, good and hostile. */
#include "tests/unit/support.h"

#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "kernels/repo/yum_repo.h"

/* "id: key=value key=value\n" of each section. */
static void write_repo(void *context, const struct yum_repo *repo)
{
	struct strv *lines = context;
	_cleanup_strv_ struct strv words = { 0 };
	_cleanup_free_ char *line = NULL;

	for (size_t i = 0; i < YUM_KEY_COUNT; i++)
		if (repo->values[i])
			xstrv_pushf(&words, "%zu=%s", i, repo->values[i]);
	line = xstrv_join(&words, " ");
	xstrv_pushf(lines, "%s: %s", repo->id, line);
}

static void expect(const char *text, const char *wanted)
{
	_cleanup_strv_ struct strv lines = { 0 };
	_cleanup_free_ char *found = NULL;

	yum_repo_parse(text, write_repo, &lines);
	found = xstrv_join(&lines, "|");
	assert_string_equal(found, wanted);
}

static void sections_and_their_options(void **state)
{
	(void) state;
	expect("", "");
	expect("baseurl=http://none\n", "");
	expect("[main]\nsslcacert=/x\n[a]\nname=A b\nbaseurl=http://a\n", "a: 0=http://a");
	/* Blanks around the sign, comments, a file of Windows, no end of line. */
	expect("# [no]\n[a]\r\n; x\r\nbaseurl \t=  http://a/?x=y  \r\nenabled = 0",
		"a: 0=http://a/?x=y 4=0");
	/* Further lines; the last of two counts; an empty value is one. */
	expect("[a]\nbaseurl=http://a\n  http://b\n\n\thttp://c\ngpgkey=\n[b]\nenabled=1\nenabled=0\n",
		"a: 0=http://a\nhttp://b\nhttp://c 3=|b: 4=0");
	/* Lines that go on belong to the option before them, or to none that is read. */
	expect("  x\n[a]\n  x\npriority=1\n  baseurl=http://b\nsslclientcert=/c\n", "a: 9=/c");
}

static void what_is_malformed_is_skipped(void **state)
{
	(void) state;
	expect("[]\nbaseurl=http://a\n", "");
	expect("[a\nbaseurl=http://a\n[b]\nbaseurl=http://b\n", "b: 0=http://b");
	expect("[a] junk\n=http://a\nbaseurl\nbaseurl: http://a\nBaseURL=http://b\n", "a: ");
	expect("[[a]]\nbaseurl=\001\377\n", "[a: 0=\001\377");
	expect("[a]\n[a]\nenabled=0\n", "a: |a: 4=0");
}

/* A text of a megabyte whose reading is not quadratic: this ends within seconds also under ASan. */
static void many_lines_take_no_more_than_their_size(void **state)
{
	size_t size = 1 << 20;
	_cleanup_free_ char *text = xcalloc(size + 1, 1);
	_cleanup_strv_ struct strv lines = { 0 };
	char *end = stpcpy(text, "[a]\nbaseurl=x\n");

	(void) state;
	while (end + 3 <= text + size)
		end = stpcpy(end, " x\n");
	yum_repo_parse(text, write_repo, &lines);
	assert_int_equal(lines.count, 1);
	assert_true(strlen(lines.items[0]) > size / 2);
}

static void flag_of(void *context, const struct yum_repo *repo)
{
	strv_free(context);
	xstrv_push(context, yum_repo_flag(repo, YUM_ENABLED, true) ? "on" : "off");
	xstrv_push(context, yum_repo_flag(repo, YUM_ENABLED, false) ? "on" : "off");
}

static void booleans_are_dnfs(void **state)
{
	static const struct {
		const char *text;
		const char *unless_off, *unless_on;
	} cases[] = {
		{ "enabled=1", "on", "on" },
		{ "enabled=YES", "on", "on" },
		{ "enabled=on", "on", "on" },
		{ "enabled=True", "on", "on" },
		{ "enabled=0", "off", "off" },
		{ "enabled=False", "off", "off" },
		{ "enabled=no", "off", "off" },
		{ "enabled=OFF", "off", "off" },
		{ "enabled=perhaps", "on", "off" },
		{ "enabled=", "on", "off" },
		{ "", "on", "off" },
	};

	(void) state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_free_ char *text = xasprintf("[a]\n%s\n", cases[i].text);
		_cleanup_strv_ struct strv found = { 0 };

		yum_repo_parse(text, flag_of, &found);
		assert_string_equal(found.items[0], cases[i].unless_off);
		assert_string_equal(found.items[1], cases[i].unless_on);
	}
}

static void variables_stand_for_their_values(void **state)
{
	static const struct {
		const char *text, *wanted;
	} cases[] = {
		{ "http://a/$releasever/$basearch/os", "http://a/9/x86_64/os" },
		{ "$releasever-${basearch}x", "9-x86_64x" },
		{ "$RELEASEVER", "9" },
		{ "yum$ociregion.$ocidomain", "yum.oracle.com" },
		{ "$releaseverx ${releasever ${} $ $$basearch",
			"$releaseverx ${releasever ${} $ $x86_64" },
		{ "$unknown/${other}", "$unknown/${other}" },
		{ "$dollar", "$basearch" },
		{ "", "" },
	};
	_cleanup_strv_ struct strv variables = { 0 };

	(void) state;
	xstrv_split(&variables,
		"releasever=9 basearch=x86_64 ociregion= ocidomain=oracle.com dollar=$basearch "
		"releasever=8",
		" ");
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_free_ char *found = yum_expand(cases[i].text, &variables);

		assert_string_equal(found, cases[i].wanted);
	}
}

static void an_expanded_text_has_a_limit(void **state)
{
	_cleanup_strv_ struct strv variables = { 0 };
	_cleanup_free_ char *whole = NULL;
	char value[YUM_VARIABLE_LIMIT + 1] = "";
	char text[2 * YUM_EXPANDED_LIMIT / YUM_VARIABLE_LIMIT + 3] = "";
	char *end = text;

	(void) state;
	(void) memset(value, 'v', YUM_VARIABLE_LIMIT);
	xstrv_pushf(&variables, "v=%s", value);
	for (size_t i = 0; i < YUM_EXPANDED_LIMIT / YUM_VARIABLE_LIMIT; i++)
		end = stpcpy(end, "$v");
	whole = yum_expand(text, &variables);
	assert_int_equal(strlen(whole), YUM_EXPANDED_LIMIT);
	(void) stpcpy(end, "/");
	assert_null(yum_expand(text, &variables));
	(void) stpcpy(end, "$v");
	assert_null(yum_expand(text, &variables));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sections_and_their_options),
		cmocka_unit_test(what_is_malformed_is_skipped),
		cmocka_unit_test(many_lines_take_no_more_than_their_size),
		cmocka_unit_test(booleans_are_dnfs),
		cmocka_unit_test(variables_stand_for_their_values),
		cmocka_unit_test(an_expanded_text_has_a_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
