/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/support.h"

#include <archive.h>
#include <archive_entry.h>

#include "common/fs.h"
#include "kernels/unpack.h"

static void add_entry(struct archive *archive, const char *path, mode_t type, const char *target,
	const char *content)
{
	struct archive_entry *entry = archive_entry_new();
	size_t size = content ? strlen(content) : 0;

	archive_entry_set_pathname(entry, path);
	archive_entry_set_filetype(entry, type);
	archive_entry_set_perm(entry, type == AE_IFDIR ? 0755 : 04755);
	archive_entry_set_size(entry, (la_int64_t) size);
	if (type == AE_IFLNK)
		archive_entry_set_symlink(entry, target);
	else if (target)
		archive_entry_set_hardlink(entry, target);
	assert_int_equal(archive_write_header(archive, entry), ARCHIVE_OK);
	if (size)
		assert_int_equal(archive_write_data(archive, content, size), size);
	archive_entry_free(entry);
}

static struct archive *new_tar(const struct folder *folder, const char *name)
{
	struct archive *archive = archive_write_new();
	_cleanup_free_ char *path = NULL;

	assert_true(asprintf(&path, "%s/%s", folder->path, name) > 0);
	assert_int_equal(archive_write_set_format_pax_restricted(archive), ARCHIVE_OK);
	assert_int_equal(archive_write_open_filename(archive, path), ARCHIVE_OK);
	return archive;
}

static int unpack_into(
	const struct folder *folder, const char *name, uint64_t limit_bytes, struct error *error)
{
	_cleanup_free_ char *out = NULL;
	struct unpack unpack = { .limit_bytes = limit_bytes };

	assert_true(asprintf(&out, "%s/out", folder->path) > 0);
	(void) mkdir(out, 0755);
	unpack.folder = out;
	return unpack_tar(&unpack, folder->fd, name, error);
}

static void files_come_out_without_set_id_bits(void **state)
{
	const struct folder *folder = *state;
	struct archive *archive = new_tar(folder, "a.tar");
	_cleanup_free_ char *text = NULL;
	struct error error = { 0 };
	struct stat status;

	add_entry(archive, "./usr/", AE_IFDIR, NULL, NULL);
	add_entry(archive, "./usr/file", AE_IFREG, NULL, "hello");
	archive_write_free(archive);
	assert_int_equal(unpack_into(folder, "a.tar", 0, &error), 0);
	text = folder_read_text(folder, "out/usr/file");
	assert_string_equal(text, "hello");
	assert_int_equal(fstatat(folder->fd, "out/usr/file", &status, 0), 0);
	assert_int_equal(status.st_mode & 07777, 0755);
}

static void absolute_links_become_relative(void **state)
{
	const struct folder *folder = *state;
	struct archive *archive = new_tar(folder, "a.tar");
	struct error error = { 0 };
	char target[64] = "";

	add_entry(archive, "./lib/modules/6.1/build", AE_IFLNK, "/usr/src/headers", NULL);
	archive_write_free(archive);
	assert_int_equal(unpack_into(folder, "a.tar", 0, &error), 0);
	assert_true(readlinkat(folder->fd, "out/lib/modules/6.1/build", target,
			    sizeof(target) - 1) > 0);
	assert_string_equal(target, "../../../usr/src/headers");
}

static void expect_refusal(
	const struct folder *folder, const char *path, mode_t type, const char *target)
{
	struct archive *archive = new_tar(folder, "bad.tar");
	struct error error = { 0 };

	add_entry(archive, path, type, target, type == AE_IFREG && !target ? "x" : NULL);
	archive_write_free(archive);
	assert_int_equal(unpack_into(folder, "bad.tar", 0, &error), -EXDEV);
	assert_contains(error.text, "leads out");
	assert_false(fs_exists(folder->fd, "escaped"));
}

static void whatever_leads_out_is_refused(void **state)
{
	const struct folder *folder = *state;

	expect_refusal(folder, "/escaped", AE_IFREG, NULL);
	expect_refusal(folder, "../escaped", AE_IFREG, NULL);
	expect_refusal(folder, "a/../../escaped", AE_IFREG, NULL);
	expect_refusal(folder, "link", AE_IFLNK, "../escaped");
	expect_refusal(folder, "a/link", AE_IFLNK, "b/../../../escaped");
	expect_refusal(folder, "hard", AE_IFREG, "../escaped");
}

static void nothing_is_written_through_a_link(void **state)
{
	const struct folder *folder = *state;
	struct archive *archive = new_tar(folder, "a.tar");
	struct error error = { 0 };

	folder_subfolder(folder, "outside");
	folder_subfolder(folder, "out");
	assert_int_equal(symlinkat("../outside", folder->fd, "out/through"), 0);
	add_entry(archive, "through/file", AE_IFREG, NULL, "x");
	archive_write_free(archive);
	(void) unpack_into(folder, "a.tar", 0, &error);
	assert_false(fs_exists(folder->fd, "outside/file"));
}

static void more_than_the_limit_is_refused(void **state)
{
	const struct folder *folder = *state;
	struct archive *archive = new_tar(folder, "a.tar");
	struct error error = { 0 };

	add_entry(archive, "file", AE_IFREG, NULL, "0123456789");
	archive_write_free(archive);
	assert_int_equal(unpack_into(folder, "a.tar", 9, &error), -EFBIG);
}

static void garbage_is_no_archive(void **state)
{
	const struct folder *folder = *state;
	struct unpack unpack = { .folder = folder->path };
	struct error error = { 0 };

	folder_write_text(folder, "bad.deb", "this is no archive at all, whatever its name");
	assert_int_equal(unpack_tar(&unpack, folder->fd, "bad.deb", &error), -EBADMSG);
	assert_int_equal(unpack_deb(&unpack, folder->fd, "bad.deb", &error), -EBADMSG);
	assert_contains(error.text, "bad.deb");
}

static void expect_link(const char *path, const char *target, const char *wanted)
{
	_cleanup_free_ char *link = unpack_relative_link(path, target);

	assert_string_equal(link, wanted);
}

static void relative_links_take_the_shortest_way(void **state)
{
	(void) state;
	expect_link("a/b", "/c", "../c");
	expect_link("a", "/c", "c");
	expect_link("a/b/c", "/a/d", "../d");
	expect_link("a/b", "/a", ".");
	expect_link("a/b", "/", "..");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(files_come_out_without_set_id_bits),
		folder_test(absolute_links_become_relative),
		folder_test(whatever_leads_out_is_refused),
		folder_test(nothing_is_written_through_a_link),
		folder_test(more_than_the_limit_is_refused),
		folder_test(garbage_is_no_archive),
		cmocka_unit_test(relative_links_take_the_shortest_way),
	};

	return cmocka_run_group_tests_name("unpack", tests, NULL, NULL);
}
