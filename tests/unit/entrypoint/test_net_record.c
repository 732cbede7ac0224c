/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "entrypoint/engine/statefile.h"
#include "tests/unit/support.h"

#define _cleanup_statefile_ _cleanup_(statefile_free)

static int read_text(void **state, const char *text, struct statefile *records, struct error *error)
{
	const struct folder *folder = *state;

	folder_write_text(folder, "journal", text);
	return statefile_read(folder->fd, "journal", records, error);
}

static void what_is_written_is_read(void **state)
{
	const struct folder *folder = *state;
	_cleanup_statefile_ struct statefile out = { 0 };
	_cleanup_statefile_ struct statefile in = { 0 };
	struct record *record = statefile_add(&out, "link");
	static const unsigned char bytes[] = { 0, 1, 0xfe, 0xff };
	unsigned char back[4];
	struct error error = { 0 };
	uint64_t number = 0;

	assert_int_equal(record_set(record, "device", "pci/0000:3b:00.0"), 0);
	assert_int_equal(record_set(record, "alias", "a b=100%\nß"), 0);
	assert_int_equal(record_set(record, "empty", ""), 0);
	assert_int_equal(record_setf(record, "mtu", "%u", 9000u), 0);
	assert_int_equal(record_setf(record, "flags", "0x%x", 0x1043u), 0);
	assert_int_equal(record_set_hex(record, "raw", bytes, sizeof(bytes)), 0);
	record = statefile_add(&out, "vf");
	assert_non_null(record);
	for (int i = 0; i < 100; i++) {
		char name[16];

		(void) snprintf(name, sizeof(name), "f%d", i);
		assert_int_equal(record_setf(record, name, "%d", i), 0);
	}
	assert_int_equal(statefile_write(folder->fd, "a/b/journal", &out, &error), 0);
	assert_int_equal(statefile_read(folder->fd, "a/b/journal", &in, &error), 0);
	assert_int_equal(in.count, 2);
	assert_string_equal(in.items[0].kind, "link");
	assert_string_equal(record_get(&in.items[0], "device"), "pci/0000:3b:00.0");
	assert_string_equal(record_get(&in.items[0], "alias"), "a b=100%\nß");
	assert_string_equal(record_get(&in.items[0], "empty"), "");
	assert_null(record_get(&in.items[0], "none"));
	assert_int_equal(record_get_u64(&in.items[0], "mtu", &number), 0);
	assert_int_equal(number, 9000);
	assert_int_equal(record_get_u64(&in.items[0], "flags", &number), 0);
	assert_int_equal(number, 0x1043);
	assert_int_equal(record_get_hex(&in.items[0], "raw", back, sizeof(back)), 4);
	assert_memory_equal(back, bytes, 4);
	assert_string_equal(record_get(&in.items[1], "f99"), "99");
}

static void the_file_is_text(void **state)
{
	const struct folder *folder = *state;
	_cleanup_statefile_ struct statefile out = { 0 };
	_cleanup_free_ char *text = NULL;
	struct record *record = statefile_add(&out, "link");
	struct error error = { 0 };

	assert_int_equal(record_set(record, "name", "ens 1%\x7f"), 0);
	assert_int_equal(statefile_write(folder->fd, "journal", &out, &error), 0);
	text = folder_read_text(folder, "journal");
	assert_string_equal(text, "slipway-network 1\nlink name=ens%201%25%7f\nend\n");
}

static void a_field_that_is_set_again_is_replaced(void **state)
{
	_cleanup_statefile_ struct statefile records = { 0 };
	struct record *record = statefile_add(&records, "link");

	(void) state;
	assert_int_equal(record_set(record, "name", "a"), 0);
	assert_int_equal(record_set(record, "name", "b"), 0);
	assert_int_equal(record->count, 1);
	assert_string_equal(record_get(record, "name"), "b");
}

static void numbers_are_checked(void **state)
{
	static const char *const bad[] = { "", "x", "1x", "-1", " 1", "+1", "0x", "0xg", "1 ",
		"18446744073709551616" };
	_cleanup_statefile_ struct statefile records = { 0 };
	struct record *record = statefile_add(&records, "link");
	uint64_t number = 7;

	(void) state;
	assert_int_equal(record_get_u64(record, "n", &number), -ENOENT);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		assert_int_equal(record_set(record, "n", bad[i]), 0);
		assert_int_equal(record_get_u64(record, "n", &number), -EINVAL);
	}
	assert_int_equal(number, 7);
	assert_int_equal(record_set(record, "n", "010"), 0);
	assert_int_equal(record_get_u64(record, "n", &number), 0);
	assert_int_equal(number, 10);
	assert_int_equal(record_set(record, "n", "0xffffffffffffffff"), 0);
	assert_int_equal(record_get_u64(record, "n", &number), 0);
	assert_true(number == UINT64_MAX);
}

static void bytes_are_checked(void **state)
{
	_cleanup_statefile_ struct statefile records = { 0 };
	struct record *record = statefile_add(&records, "link");
	unsigned char bytes[2];

	(void) state;
	assert_int_equal(record_get_hex(record, "x", bytes, 2), -ENOENT);
	assert_int_equal(record_set(record, "x", "abc"), 0);
	assert_int_equal(record_get_hex(record, "x", bytes, 2), -EINVAL);
	assert_int_equal(record_set(record, "x", "ag"), 0);
	assert_int_equal(record_get_hex(record, "x", bytes, 2), -EINVAL);
	assert_int_equal(record_set(record, "x", "aBcdEf"), 0);
	assert_int_equal(record_get_hex(record, "x", bytes, 2), -EOVERFLOW);
	assert_int_equal(record_set(record, "x", ""), 0);
	assert_int_equal(record_get_hex(record, "x", bytes, 2), 0);
}

static void a_damaged_file_says_nothing(void **state)
{
	static const struct {
		const char *text;
		const char *line;
	} bad[] = {
		{ "", "line 1 " },
		{ "slipway-network 2\nend\n", "line 1 " },
		{ "slipway-network 1\n", "line 2 " },
		{ "slipway-network 1\nlink a=1\n", "line 3 " },
		{ "slipway-network 1\nlink a=1\nend", "line 3 " },
		{ "slipway-network 1\nend\nmore\n", "line 2 " },
		{ "slipway-network 1\n\nend\n", "line 2 " },
		{ "slipway-network 1\nlink a\nend\n", "line 2 " },
		{ "slipway-network 1\nlink =1\nend\n", "line 2 " },
		{ "slipway-network 1\nlink  a=1\nend\n", "line 2 " },
		{ "slipway-network 1\nlink a=1 a=2\nend\n", "line 2 " },
		{ "slipway-network 1\nlink a=%2\nend\n", "line 2 " },
		{ "slipway-network 1\nlink a=%00\nend\n", "line 2 " },
		{ "slipway-network 1\nlink a=%zz\nend\n", "line 2 " },
		{ "slipway-network 1\nlink a=\t\nend\n", "line 2 " },
		{ "slipway-network 1\nl?nk\nend\n", "line 2 " },
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct statefile records = { 0 };
		struct error error = { 0 };

		assert_int_equal(read_text(state, bad[i].text, &records, &error), -EBADMSG);
		assert_contains(error.text, bad[i].line);
		assert_int_equal(records.count, 0);
	}
}

static void no_file_is_told_apart(void **state)
{
	const struct folder *folder = *state;
	struct statefile records = { 0 };
	struct error error = { 0 };

	assert_int_equal(statefile_read(folder->fd, "journal", &records, &error), -ENOENT);
	assert_contains(error.text, "journal");
}

static void an_empty_journal_is_one(void **state)
{
	_cleanup_statefile_ struct statefile records = { 0 };
	struct error error = { 0 };

	assert_int_equal(read_text(state, "slipway-network 1\nend\n", &records, &error), 0);
	assert_int_equal(records.count, 0);
	assert_int_equal(read_text(state, "slipway-network 1\nboot\nend\n", &records, &error), 0);
	assert_int_equal(records.count, 1);
	assert_int_equal(records.items[0].count, 0);
}

static void names_that_could_not_be_read_are_not_written(void **state)
{
	const struct folder *folder = *state;
	_cleanup_statefile_ struct statefile records = { 0 };
	struct error error = { 0 };

	assert_int_equal(record_set(statefile_add(&records, "link"), "a b", "1"), 0);
	assert_int_equal(statefile_write(folder->fd, "journal", &records, &error), -EINVAL);
	assert_int_equal(faccessat(folder->fd, "journal", F_OK, 0), -1);
}

/* A journal's reader does not accept the word of another journal. */
static void another_journals_word_is_refused(void **state)
{
	const struct folder *folder = *state;
	_cleanup_statefile_ struct statefile out = { .word = "slipway-one" };
	_cleanup_statefile_ struct statefile in = { .word = "slipway-one" };
	_cleanup_statefile_ struct statefile other = { .word = "slipway-other" };
	_cleanup_statefile_ struct statefile longer = { .word = "slipway-one-more" };
	_cleanup_free_ char *text = NULL;
	struct error error = { 0 };

	assert_non_null(statefile_add(&out, "link"));
	assert_int_equal(statefile_write(folder->fd, "journal", &out, &error), 0);
	text = folder_read_text(folder, "journal");
	assert_string_equal(text, "slipway-one 1\nlink\nend\n");
	assert_int_equal(statefile_read(folder->fd, "journal", &in, &error), 0);
	assert_int_equal(in.count, 1);
	assert_int_equal(statefile_read(folder->fd, "journal", &other, &error), -EBADMSG);
	assert_contains(error.text, "line 1");
	assert_int_equal(statefile_read(folder->fd, "journal", &longer, &error), -EBADMSG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(another_journals_word_is_refused),
		folder_test(what_is_written_is_read),
		folder_test(the_file_is_text),
		cmocka_unit_test(a_field_that_is_set_again_is_replaced),
		cmocka_unit_test(numbers_are_checked),
		cmocka_unit_test(bytes_are_checked),
		folder_test(a_damaged_file_says_nothing),
		folder_test(no_file_is_told_apart),
		folder_test(an_empty_journal_is_one),
		folder_test(names_that_could_not_be_read_are_not_written),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
