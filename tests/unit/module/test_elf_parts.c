/* SPDX-License-Identifier: Apache-2.0 */
/* A file that is read in parts, mapped, in memory and in brief: all have to see the same, whatever
 * it holds. */
#include "tests/unit/support.h"

#include "common/fs.h"
#include "module/elf.h"

#define _cleanup_module_ _cleanup_(elf_module_close)

static void expect_equal_content(const struct elf_module *left, const struct elf_module *right)
{
	const struct elf_module_export *left_exports, *right_exports;
	const struct elf_undefined *left_used, *right_used;
	char left_id[BUILD_ID_HEX_SIZE], right_id[BUILD_ID_HEX_SIZE];
	struct error left_why = { 0 }, right_why = { 0 };
	size_t left_count, right_count;

	elf_module_build_id(left, left_id);
	elf_module_build_id(right, right_id);
	assert_string_equal(left_id, right_id);
	left_exports = elf_module_exports(left, &left_count);
	right_exports = elf_module_exports(right, &right_count);
	assert_int_equal(left_count, right_count);
	for (size_t i = 0; i < left_count; i++) {
		assert_string_equal(left_exports[i].symbol, right_exports[i].symbol);
		assert_int_equal(left_exports[i].crc, right_exports[i].crc);
	}
	left_used = elf_module_undefined_symbols(left, &left_count);
	right_used = elf_module_undefined_symbols(right, &right_count);
	assert_int_equal(left_count, right_count);
	for (size_t i = 0; i < left_count; i++) {
		assert_string_equal(left_used[i].name, right_used[i].name);
		assert_int_equal(!left_used[i].version, !right_used[i].version);
		if (left_used[i].version && right_used[i].version)
			assert_int_equal(left_used[i].version->crc, right_used[i].version->crc);
	}
	for (unsigned int version = 0x0601; version <= 0x0703; version += 0x0102) {
		assert_int_equal(elf_module_check_format(left, version, &left_why),
			elf_module_check_format(right, version, &right_why));
		assert_string_equal(left_why.text, right_why.text);
		assert_int_equal(elf_module_check_relocations(left, version, &left_why),
			elf_module_check_relocations(right, version, &right_why));
	}
}

/* Returns whether it opens. */
static bool expect_same(const struct folder *folder, const char *data, size_t size)
{
	static const char path[] = "m.ko";
	_cleanup_module_ struct elf_module *memory = NULL;
	_cleanup_module_ struct elf_module *read = NULL;
	_cleanup_module_ struct elf_module *mapped = NULL;
	_cleanup_module_ struct elf_module *brief = NULL;
	struct error memory_why = { 0 }, read_why = { 0 }, brief_why = { 0 }, mapped_why = { 0 };
	int r;

	folder_write(folder, path, data, size);
	r = elf_module_open(folder->fd, path, &read, &read_why);
	assert_int_equal(elf_module_open_memory(data, size, path, &memory, &memory_why), r);
	assert_string_equal(memory_why.text, read_why.text);
	assert_int_equal(elf_module_open_mapped(folder->fd, path, &mapped, &mapped_why), r);
	assert_string_equal(mapped_why.text, read_why.text);
	if (r < 0)
		return false;
	expect_equal_content(read, memory);
	expect_equal_content(read, mapped);
	assert_int_equal(elf_module_open_brief(folder->fd, path, &brief, &brief_why), 0);
	for (const char *const *key = (const char *const[]){ "name", "vermagic", "depends", NULL };
		*key; key++) {
		const char *whole = elf_module_info(read, *key);
		const char *part = elf_module_info(brief, *key);

		assert_int_equal(!whole, !part);
		if (whole)
			assert_string_equal(whole, part);
	}
	return true;
}

static void each_byte_changed_is_seen_alike(void **state)
{
	static const char *const fixtures[] = { "peer", "exporter", "extended", "flagged" };
	const struct folder *folder = *state;
	size_t opened = 0, refused = 0;

	for (size_t i = 0; i < ARRAY_SIZE(fixtures); i++) {
		_cleanup_free_ char *data = NULL;
		char path[256];
		size_t size;

		(void) snprintf(path, sizeof(path), FIXTURES "/%s.ko", fixtures[i]);
		assert_int_equal(fs_read(AT_FDCWD, path, 0, &data, &size), 0);
		for (size_t at = 0; at < size; at += at < 128 ? 1 : 37) {
			char was = data[at];

			data[at] = (char) ~was;
			if (expect_same(folder, data, size))
				opened++;
			else
				refused++;
			data[at] = was;
		}
	}
	assert_true(opened > 20);
	assert_true(refused > 20);
}

static void each_length_is_seen_alike(void **state)
{
	const struct folder *folder = *state;
	_cleanup_free_ char *data = NULL;
	size_t size;

	assert_int_equal(fs_read(AT_FDCWD, FIXTURES "/peer.ko", 0, &data, &size), 0);
	for (size_t length = 0; length < size; length += 61)
		assert_false(expect_same(folder, data, length));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(each_byte_changed_is_seen_alike),
		folder_test(each_length_is_seen_alike),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
