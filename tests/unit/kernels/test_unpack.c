/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/support.h"

#include <archive.h>
#include <archive_entry.h>

#include "common/fs.h"
#include "common/strv.h"
#include "kernels/archive/unpack.h"

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
	return unpack_run(&unpack, folder->fd, name, error);
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

/* "here" is the folder itself, so that each ".." after it counts, and each "here" does not. */
static void links_that_lead_out_by_way_of_others_are_refused(void **state)
{
	const struct folder *folder = *state;
	struct archive *archive = new_tar(folder, "a.tar");
	struct error error = { 0 };

	add_entry(archive, "here", AE_IFLNK, ".", NULL);
	add_entry(archive, "out", AE_IFLNK, "here/here/../..", NULL);
	archive_write_free(archive);
	assert_int_equal(unpack_into(folder, "a.tar", 0, &error), -EXDEV);
	assert_contains(error.text, "through other links");
}

static void links_that_stay_may_go_by_way_of_others(void **state)
{
	const struct folder *folder = *state;
	struct archive *archive = new_tar(folder, "a.tar");
	struct error error = { 0 };

	add_entry(archive, "a/here", AE_IFLNK, ".", NULL);
	add_entry(archive, "a/up", AE_IFLNK, "here/../b", NULL);
	add_entry(archive, "a/nowhere", AE_IFLNK, "gone/../b", NULL);
	archive_write_free(archive);
	assert_int_equal(unpack_into(folder, "a.tar", 0, &error), 0);
}

/* A hard link to what is outside would be written through by the entry after it. */
static void no_hard_link_is_made_through_a_link(void **state)
{
	const struct folder *folder = *state;
	struct archive *archive = new_tar(folder, "a.tar");
	_cleanup_free_ char *text = NULL;
	struct error error = { 0 };

	folder_write_text(folder, "victim", "as it was");
	add_entry(archive, "here", AE_IFLNK, ".", NULL);
	add_entry(archive, "out", AE_IFLNK, "here/here/../..", NULL);
	add_entry(archive, "hard", AE_IFREG, "out/victim", NULL);
	add_entry(archive, "hard", AE_IFREG, NULL, "overwritten");
	add_entry(archive, "out/victim", AE_IFREG, NULL, "overwritten");
	archive_write_free(archive);
	assert_true(unpack_into(folder, "a.tar", 0, &error) < 0);
	text = folder_read_text(folder, "victim");
	assert_string_equal(text, "as it was");
}

static bool ends_with_ko(void *context, const char *path)
{
	(void) context;
	return str_ends_with(path, ".ko");
}

static bool is_firmware(void *context, const char *path)
{
	(void) context;
	return strncmp(path, "firmware", 8) == 0;
}

static int unpack_modules(const struct folder *folder, struct error *error)
{
	_cleanup_free_ char *out = NULL;
	struct unpack unpack = { .wanted = ends_with_ko, .name_only = is_firmware };

	assert_true(asprintf(&out, "%s/out", folder->path) > 0);
	unpack.folder = out;
	return unpack_run(&unpack, folder->fd, "a.tar", error);
}

/* As in an image that was made from an OSTree commit. */
static void hard_links_bring_what_they_lead_to(void **state)
{
	const struct folder *folder = *state;
	struct archive *archive = new_tar(folder, "a.tar");
	_cleanup_free_ char *text = NULL;
	struct error error = { 0 };

	add_entry(archive, "./objects/ab.file", AE_IFREG, NULL, "module");
	add_entry(archive, "objects/cd.file", AE_IFREG, NULL, "nobody's");
	add_entry(archive, "objects/ef.file", AE_IFREG, NULL, "firmware");
	add_entry(archive, "modules/a.ko", AE_IFREG, "./objects/ab.file", NULL);
	add_entry(archive, "modules/b.ko", AE_IFREG, "objects/ab.file", NULL);
	add_entry(archive, "firmware.ko", AE_IFREG, "objects/ef.file", NULL);
	archive_write_free(archive);
	folder_subfolder(folder, "out");
	assert_int_equal(unpack_modules(folder, &error), 0);
	text = folder_read_text(folder, "out/modules/a.ko");
	assert_string_equal(text, "module");
	free(TAKE_PTR(text));
	text = folder_read_text(folder, "out/modules/b.ko");
	assert_string_equal(text, "module");
	free(TAKE_PTR(text));
	/* The name is enough. */
	text = folder_read_text(folder, "out/firmware.ko");
	assert_string_equal(text, "");
	assert_false(fs_exists(folder->fd, "out/objects/cd.file"));
	assert_false(fs_exists(folder->fd, "out/objects/ef.file"));
}

static void hard_links_to_nowhere_or_beyond_are_refused(void **state)
{
	static const struct {
		const char *target;
		int code;
	} links[] = { { "objects/absent", -EBADMSG }, { "../victim", -EXDEV },
		{ "/victim", -EXDEV } };
	const struct folder *folder = *state;

	folder_write_text(folder, "victim", "");
	folder_subfolder(folder, "out");
	for (size_t i = 0; i < ARRAY_SIZE(links); i++) {
		struct archive *archive = new_tar(folder, "a.tar");
		struct error error = { 0 };

		add_entry(archive, "a.ko", AE_IFREG, links[i].target, NULL);
		archive_write_free(archive);
		assert_int_equal(unpack_modules(folder, &error), links[i].code);
	}
}

static void devices_are_refused(void **state)
{
	static const mode_t types[] = { AE_IFCHR, AE_IFBLK, AE_IFIFO };
	const struct folder *folder = *state;

	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		struct archive *archive = new_tar(folder, "a.tar");
		struct error error = { 0 };

		add_entry(archive, "dev/mem", types[i], NULL, NULL);
		archive_write_free(archive);
		assert_int_equal(unpack_into(folder, "a.tar", 0, &error), -EXDEV);
		assert_contains(error.text, "dev/mem is a device");
	}
	assert_false(fs_exists(folder->fd, "out/dev/mem"));
}

static void too_many_entries_are_refused(void **state)
{
	const struct folder *folder = *state;
	struct archive *archive = new_tar(folder, "a.tar");
	struct unpack unpack = { .folder = folder->path, .limit_entries = 2 };
	struct error error = { 0 };

	add_entry(archive, "a", AE_IFREG, NULL, "1");
	add_entry(archive, "b", AE_IFREG, NULL, "2");
	add_entry(archive, "c", AE_IFREG, NULL, "3");
	archive_write_free(archive);
	assert_int_equal(unpack_run(&unpack, folder->fd, "a.tar", &error), -EFBIG);
	assert_contains(error.text, "more than 2 entries");
	assert_false(fs_exists(folder->fd, "c"));
}

static int truncate_at(const struct folder *folder, const char *name, off_t size)
{
	_cleanup_close_ int fd = openat(folder->fd, name, O_WRONLY | O_CLOEXEC);

	return ftruncate(fd, size);
}

/* A packed tarball of @size_mb MB of zeros, or of noise that does not shrink. */
static void write_packed(
	const struct folder *folder, const char *filter, size_t size_mb, bool noise)
{
	struct archive *archive = archive_write_new();
	struct archive_entry *entry = archive_entry_new();
	_cleanup_free_ char *path = NULL;
	char *block = calloc(1, 1 << 20);

	assert_true(asprintf(&path, "%s/a.tar", folder->path) > 0);
	assert_non_null(block);
	for (size_t i = 0; noise && i < 1 << 20; i++)
		block[i] = (char) (i * i * 2654435761u >> 13);
	if (filter)
		assert_int_equal(archive_write_add_filter_by_name(archive, filter), ARCHIVE_OK);
	assert_int_equal(archive_write_set_format_pax_restricted(archive), ARCHIVE_OK);
	assert_int_equal(archive_write_open_filename(archive, path), ARCHIVE_OK);
	archive_entry_set_pathname(entry, "file");
	archive_entry_set_filetype(entry, AE_IFREG);
	archive_entry_set_perm(entry, 0644);
	archive_entry_set_size(entry, (la_int64_t) size_mb << 20);
	assert_int_equal(archive_write_header(archive, entry), ARCHIVE_OK);
	for (size_t i = 0; i < size_mb; i++)
		assert_int_equal(archive_write_data(archive, block, 1 << 20), 1 << 20);
	archive_entry_free(entry);
	archive_write_free(archive);
	free(block);
}

static bool want_nothing(void *context, const char *path)
{
	(void) context;
	(void) path;
	return false;
}

static void a_bomb_is_refused_before_it_fills_the_disk(void **state)
{
	const struct folder *folder = *state;
	struct error error = { 0 };
	struct stat status;

	write_packed(folder, "zstd", 100, false);
	assert_int_equal(unpack_into(folder, "a.tar", 0, &error), -EFBIG);
	assert_contains(error.text, "too much for a kernel");
	assert_int_equal(fstatat(folder->fd, "out/file", &status, 0), 0);
	assert_true(status.st_blocks * 512 < 80 << 20);
}

static void a_bomb_that_nobody_wants_is_refused_too(void **state)
{
	const struct folder *folder = *state;
	struct unpack unpack = {
		.folder = folder->path, .wanted = want_nothing, .limit_bytes = 1 << 20
	};
	struct error error = { 0 };

	write_packed(folder, "gzip", 4, false);
	assert_int_equal(unpack_run(&unpack, folder->fd, "a.tar", &error), -EFBIG);
}

static void a_cut_archive_is_damaged(void **state)
{
	static const char *const filters[] = { "gzip", "xz", "zstd", "bzip2", NULL };
	const struct folder *folder = *state;

	for (size_t i = 0; i < ARRAY_SIZE(filters); i++) {
		struct error error = { 0 };
		struct stat status;

		write_packed(folder, filters[i], 1, true);
		assert_int_equal(unpack_into(folder, "a.tar", 0, &error), 0);
		assert_int_equal(fstatat(folder->fd, "a.tar", &status, 0), 0);
		assert_int_equal(truncate_at(folder, "a.tar", status.st_size / 2), 0);
		assert_int_equal(unpack_into(folder, "a.tar", 0, &error), -EBADMSG);
		assert_contains(error.text, "a.tar");
	}
}

/* A link's target has to be known; only a link that leads nowhere yet may stay unresolved. */
static void a_link_that_cannot_be_followed_is_refused(void **state)
{
	const struct folder *folder = *state;
	struct archive *archive = new_tar(folder, "a.tar");
	struct error error = { 0 };

	add_entry(archive, "round", AE_IFLNK, "round", NULL);
	assert_int_equal(archive_write_free(archive), ARCHIVE_OK);
	assert_int_equal(unpack_into(folder, "a.tar", 0, &error), -ELOOP);
	assert_contains(error.text, "cannot find out where round leads");
}

static void garbage_is_no_archive(void **state)
{
	const struct folder *folder = *state;
	struct unpack unpack = { .folder = folder->path };
	struct error error = { 0 };

	folder_write_text(folder, "bad.deb", "this is no archive at all, whatever its name");
	assert_int_equal(unpack_run(&unpack, folder->fd, "bad.deb", &error), -EBADMSG);
	unpack.kind = ARCHIVE_KIND_DEB;
	assert_int_equal(unpack_run(&unpack, folder->fd, "bad.deb", &error), -EBADMSG);
	assert_contains(error.text, "bad.deb");
}

static void a_web_page_is_called_one(void **state)
{
	static const char *const pages[] = { "<!DOCTYPE html>\n<html>Sign in</html>\n",
		"\xef\xbb\xbf\n <!-- x -->\n<HTML><body>",
		"<?xml version=\"1.0\"?><html xmlns=\"x\">" };
	const struct folder *folder = *state;
	struct unpack unpack = { .folder = folder->path };

	for (size_t i = 0; i < ARRAY_SIZE(pages); i++) {
		struct error error = { 0 };

		folder_write_text(folder, "x.deb", pages[i]);
		assert_int_equal(unpack_run(&unpack, folder->fd, "x.deb", &error), -EBADMSG);
		assert_string_equal(error.text, "x.deb: this is a web page, not the file");
		assert_contains(error.lines, "try: open the URL in a browser");
		error.text[0] = '\0';
		assert_int_equal(unpack_package(&unpack, folder->fd, "x.deb", &error), -EBADMSG);
		assert_contains(error.text, "a web page");
	}
}

/* It is one of the run's, and gone when the message is read. */
static void no_message_names_the_folder(void **state)
{
	const struct folder *folder = *state;
	struct archive *archive = new_tar(folder, "a.tar");
	struct error error = { 0 };
	char name[300];

	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	add_entry(archive, name, AE_IFREG, NULL, "x");
	archive_write_free(archive);
	assert_int_equal(unpack_into(folder, "a.tar", 0, &error), -EBADMSG);
	assert_contains(error.text, "a.tar: cut short or damaged: ");
	assert_null(strstr(error.text, folder->path));
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

static bool is_named_empty(void *context, const char *path)
{
	(void) context;
	return strcmp(path, "lib/firmware/big.bin") == 0;
}

/* A mounted image's files are somebody else's, as an archive's are. */
static void a_folder_is_read_as_an_archive_is(void **state)
{
	const struct folder *folder = *state;
	_cleanup_free_ char *from = NULL, *to = NULL, *text = NULL;
	struct unpack unpack = { .kind = ARCHIVE_KIND_FOLDER, .name_only = is_named_empty };
	struct error error = { 0 };
	char target[64] = "";
	struct stat status;

	assert_true(asprintf(&from, "%s/image", folder->path) > 0);
	assert_true(asprintf(&to, "%s/out", folder->path) > 0);
	folder_write_text(folder, "image/usr/lib/m.ko", "module");
	folder_write_text(folder, "image/lib/firmware/big.bin", "firmware");
	assert_int_equal(symlinkat("/usr/lib/m.ko", folder->fd, "image/lib/link.ko"), 0);
	assert_int_equal(mkdir(to, 0755), 0);
	unpack.folder = to;
	assert_int_equal(unpack_run(&unpack, AT_FDCWD, from, &error), 0);
	text = folder_read_text(folder, "out/usr/lib/m.ko");
	assert_string_equal(text, "module");
	assert_int_equal(fstatat(folder->fd, "out/lib/firmware/big.bin", &status, 0), 0);
	assert_int_equal(status.st_size, 0);
	assert_true(readlinkat(folder->fd, "out/lib/link.ko", target, sizeof(target) - 1) > 0);
	assert_string_equal(target, "../usr/lib/m.ko");
	assert_int_equal(symlinkat("../../escaped", folder->fd, "image/lib/out.ko"), 0);
	assert_int_equal(unpack_run(&unpack, AT_FDCWD, from, &error), -EXDEV);
	assert_contains(error.text, "leads out");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(files_come_out_without_set_id_bits),
		folder_test(absolute_links_become_relative),
		folder_test(whatever_leads_out_is_refused),
		folder_test(nothing_is_written_through_a_link),
		folder_test(more_than_the_limit_is_refused),
		folder_test(links_that_lead_out_by_way_of_others_are_refused),
		folder_test(links_that_stay_may_go_by_way_of_others),
		folder_test(a_link_that_cannot_be_followed_is_refused),
		folder_test(no_hard_link_is_made_through_a_link),
		folder_test(hard_links_bring_what_they_lead_to),
		folder_test(hard_links_to_nowhere_or_beyond_are_refused),
		folder_test(devices_are_refused),
		folder_test(too_many_entries_are_refused),
		folder_test(a_bomb_is_refused_before_it_fills_the_disk),
		folder_test(a_bomb_that_nobody_wants_is_refused_too),
		folder_test(a_cut_archive_is_damaged),
		folder_test(garbage_is_no_archive),
		folder_test(a_web_page_is_called_one),
		folder_test(no_message_names_the_folder),
		folder_test(a_folder_is_read_as_an_archive_is),
		cmocka_unit_test(relative_links_take_the_shortest_way),
	};

	return cmocka_run_group_tests_name("unpack", tests, NULL, NULL);
}
