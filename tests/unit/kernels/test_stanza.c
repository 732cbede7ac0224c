/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/support.h"

#include "common/strv.h"
#include "kernels/repo/repo_internal.h"

/* Writes down all fields as "name=value|", stanzas ended by ";". */
static int note(void *context, const struct stanza *stanza, struct error *error)
{
	(void) error;
	for (size_t i = 0; i < stanza->count; i++)
		fprintf(context, "%s=%s|", stanza->fields[i].name, stanza->fields[i].value);
	fprintf(context, "@%u;", (unsigned int) stanza->offset);
	return 0;
}

/* Reads @text in chunks of @step bytes. */
static int read_text(
	const char *text, size_t size, size_t step, char **ret_notes, struct error *error)
{
	size_t length;
	FILE *notes = open_memstream(ret_notes, &length);
	struct stanza_reader *reader = stanza_reader_new("list", note, notes);
	int r = 0;

	assert_non_null(reader);
	for (size_t at = 0; at < size && r == 0; at += step)
		r = stanza_reader_feed(
			reader, text + at, size - at < step ? size - at : step, error);
	if (r == 0)
		r = stanza_reader_finish(reader, error);
	stanza_reader_free(&reader);
	(void) fclose(notes);
	return r;
}

static void chunks_of_any_size_give_the_same(void **state)
{
	static const char text[] =
		"\n\nPackage: linux-headers-6.12.9+deb13~rc1-amd64\r\nDepends: a (= 1~2+3),\n"
		" b [amd64],\n\t c\nDescription:\n  indented\n .\n\n \t\nPackage:b\nEmpty:\n";
	static const char expected[] =
		"Package=linux-headers-6.12.9+deb13~rc1-amd64|Depends=a (= 1~2+3),\nb [amd64],\nc|"
		"Description=\nindented\n.|@2;Package=b|Empty=|@118;";

	(void) state;
	for (size_t step = 1; step < sizeof(text); step++) {
		_cleanup_free_ char *notes = NULL;
		struct error error = { 0 };

		assert_int_equal(read_text(text, strlen(text), step, &notes, &error), 0);
		assert_string_equal(notes, expected);
	}
}

static void fields_are_found_whatever_their_case(void **state)
{
	static const struct stanza_field fields[] = { { "Package", "a" }, { "SHA256", "1" },
		{ "sha256", "2" } };
	const struct stanza stanza = { .fields = fields, .count = 3 };

	(void) state;
	assert_string_equal(stanza_value(&stanza, "package"), "a");
	assert_string_equal(stanza_value(&stanza, "Sha256"), "1");
	assert_null(stanza_value(&stanza, "Pack"));
}

static void what_is_no_stanza_is_named_with_its_place(void **state)
{
	static const struct {
		const char *text;
		size_t size;
		const char *part;
	} cases[] = {
		{ "Package: a\nnothing\n", 19, "list: malformed at byte 11: a line is not" },
		{ " folded\n", 8, "byte 0: a folded line without a field" },
		{ "a: b\n\n folded\n", 14, "byte 6: a folded line without a field" },
		{ "Package: a\nA\0: b\n", 17, "byte 11: a NUL byte" },
		{ ": value\n", 8, "not \"Field: value\"" },
		{ "two words: value\n", 17, "a field name with a blank" },
		{ "Package: a\nVersion: 1", 21, "ends in the middle of a line, at byte 21" },
		{ "<html>\n", 7, "malformed at byte 0" },
	};

	(void) state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_free_ char *notes = NULL;
		struct error error = { 0 };

		assert_int_equal(
			read_text(cases[i].text, cases[i].size, 3, &notes, &error), -EPROTO);
		assert_contains(error.text, cases[i].part);
	}
}

static void endless_lines_and_stanzas_are_refused(void **state)
{
	const size_t size = STANZA_LIMIT + STANZA_LINE_LIMIT;
	char *text = malloc(size);
	_cleanup_free_ char *notes = NULL;
	_cleanup_free_ char *more_notes = NULL;
	struct error error = { 0 };

	(void) state;
	assert_non_null(text);
	memset(text, 'x', size);
	text[1] = ':';
	assert_int_equal(read_text(text, size, 65536, &notes, &error), -EFBIG);
	assert_contains(error.text, "a line of more than 1048576 bytes at byte 0");
	for (size_t at = 0; at + 2 < size; at += 1000) {
		text[at] = '\n';
		text[at + 1] = 'x';
		text[at + 2] = ':';
	}
	assert_int_equal(read_text(text, size, 65536, &more_notes, &error), -EFBIG);
	assert_contains(error.text, "a stanza of more than");
	free(text);
}

static int stop(void *context, const struct stanza *stanza, struct error *error)
{
	(void) stanza;
	++*(int *) context;
	return error_set(error, -ENOSPC, "enough");
}

static void the_handler_can_end_it(void **state)
{
	int calls = 0;
	struct error error = { 0 };
	struct stanza_reader *reader = stanza_reader_new("list", stop, &calls);

	(void) state;
	assert_int_equal(stanza_reader_feed(reader, "a: b\n\nc: d\n\n", 12, &error), -ENOSPC);
	assert_string_equal(error.text, "enough");
	assert_int_equal(calls, 1);
	stanza_reader_free(&reader);
}

#define HEX "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static int take_package(void *context, const struct stanza *stanza, struct error *error)
{
	return package_from_stanza(stanza, "list", context, error);
}

static int read_package(const char *text, struct package *ret, struct error *error)
{
	struct stanza_reader *reader = stanza_reader_new("list", take_package, ret);
	int r = stanza_reader_feed(reader, text, strlen(text), error);

	if (r == 0)
		r = stanza_reader_finish(reader, error);
	stanza_reader_free(&reader);
	return r;
}

static void packages_are_written_as_they_were_read(void **state)
{
	static const char text[] =
		"Package: linux-image-6.1.0-47-amd64\nVersion: 6.1.170-3\nArchitecture: amd64\n"
		"Source: linux-signed-amd64 (6.1.170+3)\nDepends: kmod,\n linux-base (>= 4.3~)\n"
		"Filename: ./pool/main/l/a_1%3a2+b~c.deb\nSize: 12345678901\nSHA256: " HEX "\n";
	static const char again[] =
		"Package: linux-image-6.1.0-47-amd64\nVersion: 6.1.170-3\nArchitecture: amd64\n"
		"Source: linux-signed-amd64\nDepends: kmod, linux-base (>= 4.3~)\n"
		"Filename: pool/main/l/a_1%3a2+b~c.deb\nSize: 12345678901\nSHA256: " HEX "\n\n";
	struct package package = { 0 };
	struct error error = { 0 };
	char *written = NULL;
	size_t size;
	FILE *file = open_memstream(&written, &size);

	(void) state;
	assert_int_equal(read_package(text, &package, &error), 0);
	package_write(&package, file);
	(void) fclose(file);
	assert_string_equal(written, again);
	package_free(&package);
	free(written);
}

static void packages_that_no_list_has_are_refused(void **state)
{
	static const struct {
		const char *name, *version, *path, *size, *sha256, *part;
	} cases[] = {
		{ "a b", "1", "p", "1", HEX, "a name that no package" },
		{ "../a", "1", "p", "1", HEX, "a name that no package" },
		{ "-oAPT::x", "1", "p", "1", HEX, "a name that no package" },
		{ "a", "1/2", "p", "1", HEX, "a version that no package" },
		{ "a", "1", "/etc/passwd", "1", HEX, "a path that no package" },
		{ "a", "1", "pool/../../x", "1", HEX, "a path that no package" },
		{ "a", "1", "pool//x", "1", HEX, "a path that no package" },
		{ "a", "1", "p", "1", "abc", "a SHA-256 that no package" },
		{ "a", "1", "p", "-1", HEX, "has no numeric Size" },
		{ "a", "1", "p", "99999999999999999999", HEX, "has no numeric Size" },
		{ "a", "1", "p", "0", HEX, "a size that no package" },
		{ "a", "1", "p", "34359738369", HEX, "a size that no package" },
	};

	(void) state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_free_ char *text = NULL;
		struct package package = { 0 };
		struct error error = { 0 };

		assert_true(asprintf(&text,
				    "Package: %s\nVersion: %s\nArchitecture: all\nFilename: %s\n"
				    "Size: %s\nSHA256: %s\n",
				    cases[i].name, cases[i].version, cases[i].path, cases[i].size,
				    cases[i].sha256) > 0);
		assert_int_equal(read_package(text, &package, &error), -EPROTO);
		assert_contains(error.text, cases[i].part);
	}
}

static void lists_are_sorted_and_lose_what_is_there_twice(void **state)
{
	static const char *const versions[] = { "6.1.9-1", "6.1.10-1", "6.1.9-1", "6.1.9~rc1-1" };
	struct package_list list = { 0 };
	struct error error = { 0 };

	(void) state;
	for (size_t i = 0; i < ARRAY_SIZE(versions); i++) {
		struct package package = { .name = strdup("linux"),
			.version = strdup(versions[i]),
			.architecture = strdup("all"),
			.sha256 = strdup(HEX) };

		assert_int_equal(package_list_push(&list, &package, "list", &error), 0);
	}
	package_list_sort(&list);
	assert_int_equal(list.count, 3);
	assert_string_equal(list.items[0].version, "6.1.9~rc1-1");
	assert_string_equal(list.items[1].version, "6.1.9-1");
	assert_string_equal(list.items[2].version, "6.1.10-1");
	package_list_free(&list);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(chunks_of_any_size_give_the_same),
		cmocka_unit_test(fields_are_found_whatever_their_case),
		cmocka_unit_test(what_is_no_stanza_is_named_with_its_place),
		cmocka_unit_test(endless_lines_and_stanzas_are_refused),
		cmocka_unit_test(the_handler_can_end_it),
		cmocka_unit_test(packages_are_written_as_they_were_read),
		cmocka_unit_test(packages_that_no_list_has_are_refused),
		cmocka_unit_test(lists_are_sorted_and_lose_what_is_there_twice),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
