/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/support.h"

#include "common/fs.h"
#include "common/hash.h"

static void tree_digest(const struct folder *folder, const char *path, char hex[HASH_HEX_SIZE])
{
	struct hash *hash = hash_new();

	assert_non_null(hash);
	assert_int_equal(hash_add_tree(hash, folder->fd, path), 0);
	hash_finish(hash, hex);
}

static void assert_differ(const char *left, const char *right)
{
	assert_int_equal(strlen(left), HASH_HEX_SIZE - 1);
	assert_string_not_equal(left, right);
}

static void digests_are_those_of_fips_180(void **state)
{
	struct hash *hash = hash_new();
	char hex[HASH_HEX_SIZE];

	(void) state;
	hash_finish(hash, hex);
	assert_string_equal(
		hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
	hash = hash_new();
	hash_add(hash, "a", 1);
	hash_add(hash, "bc", 2);
	hash_finish(hash, hex);
	assert_string_equal(
		hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

static void texts_do_not_run_into_each_other(void **state)
{
	char first[HASH_HEX_SIZE], second[HASH_HEX_SIZE];
	struct hash *hash = hash_new();

	(void) state;
	hash_add_text(hash, "ab");
	hash_add_text(hash, "c");
	hash_finish(hash, first);
	hash = hash_new();
	hash_add_text(hash, "a");
	hash_add_text(hash, "bc");
	hash_finish(hash, second);
	assert_differ(first, second);
}

static void a_file_counts_by_its_content(void **state)
{
	const struct folder *folder = *state;
	_cleanup_free_ char *data = calloc(1, 1000000);
	struct hash *hash = hash_new();
	char hex[HASH_HEX_SIZE];

	assert_non_null(data);
	memset(data, 'a', 1000000);
	folder_write(folder, "million", data, 1000000);
	assert_int_equal(hash_add_file(hash, folder->fd, "million"), 0);
	assert_int_equal(hash_add_file(hash, folder->fd, "absent"), -ENOENT);
	hash_finish(hash, hex);
	assert_string_equal(
		hex, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

static void a_tree_counts_by_names_kinds_and_execute_bits(void **state)
{
	const struct folder *folder = *state;
	char first[HASH_HEX_SIZE], second[HASH_HEX_SIZE];

	assert_int_equal(fs_mkdir_parents(folder->fd, "tree/sub", 0755), 0);
	folder_write_text(folder, "tree/sub/a", "x");
	tree_digest(folder, "tree", first);
	tree_digest(folder, "tree", second);
	assert_string_equal(first, second);
	assert_int_equal(fchmodat(folder->fd, "tree/sub/a", 0755, 0), 0);
	tree_digest(folder, "tree", second);
	assert_differ(first, second);
	assert_int_equal(fchmodat(folder->fd, "tree/sub/a", 0600, 0), 0);
	tree_digest(folder, "tree", second);
	assert_string_equal(first, second);
	assert_int_equal(renameat(folder->fd, "tree/sub/a", folder->fd, "tree/a"), 0);
	tree_digest(folder, "tree", second);
	assert_differ(first, second);
}

static void a_link_counts_as_its_target_text(void **state)
{
	const struct folder *folder = *state;
	char first[HASH_HEX_SIZE], second[HASH_HEX_SIZE];

	assert_int_equal(mkdirat(folder->fd, "tree", 0755), 0);
	assert_int_equal(symlinkat("x", folder->fd, "tree/link"), 0);
	tree_digest(folder, "tree", first);
	assert_int_equal(unlinkat(folder->fd, "tree/link", 0), 0);
	assert_int_equal(symlinkat("y", folder->fd, "tree/link"), 0);
	tree_digest(folder, "tree", second);
	assert_differ(first, second);
}

static void a_link_does_not_run_into_the_next_name(void **state)
{
	const struct folder *folder = *state;
	char first[HASH_HEX_SIZE], second[HASH_HEX_SIZE];

	assert_int_equal(mkdirat(folder->fd, "one", 0755), 0);
	assert_int_equal(symlinkat("x", folder->fd, "one/a"), 0);
	folder_write_text(folder, "one/yz", "");
	assert_int_equal(mkdirat(folder->fd, "two", 0755), 0);
	assert_int_equal(symlinkat("xy", folder->fd, "two/a"), 0);
	folder_write_text(folder, "two/z", "");
	tree_digest(folder, "one", first);
	tree_digest(folder, "two", second);
	assert_differ(first, second);
}

static void version_control_folders_do_not_count(void **state)
{
	const struct folder *folder = *state;
	char first[HASH_HEX_SIZE], second[HASH_HEX_SIZE];

	assert_int_equal(mkdirat(folder->fd, "tree", 0755), 0);
	tree_digest(folder, "tree", first);
	assert_int_equal(fs_mkdir_parents(folder->fd, "tree/.git", 0755), 0);
	folder_write_text(folder, "tree/.git/HEAD", "main");
	tree_digest(folder, "tree", second);
	assert_string_equal(first, second);
}

static void a_digest_is_64_lower_case_digits(void **state)
{
	static const char *const wrong[] = { "", "..",
		"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde",
		"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0",
		"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdeF",
		"0123456789abcdef0123456789abcdef/123456789abcdef0123456789abcdef" };

	(void) state;
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
		assert_false(hash_is_hex(wrong[i]));
	assert_true(
		hash_is_hex("0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(digests_are_those_of_fips_180),
		cmocka_unit_test(a_digest_is_64_lower_case_digits),
		cmocka_unit_test(texts_do_not_run_into_each_other),
		folder_test(a_file_counts_by_its_content),
		folder_test(a_tree_counts_by_names_kinds_and_execute_bits),
		folder_test(a_link_counts_as_its_target_text),
		folder_test(a_link_does_not_run_into_the_next_name),
		folder_test(version_control_folders_do_not_count),
	};

	return cmocka_run_group_tests_name("hash", tests, NULL, NULL);
}
