/* SPDX-License-Identifier: Apache-2.0 */
/* libarchive, which did not write it, reads back what kernels/archive/pack.c writes. */
#include "tests/unit/support.h"

#include "common/fs.h"
#include "kernels/archive/unpack.h"
#include "kernels/archive/pack.h"

#define LONG_NAME                                                                                  \
	"root/usr/src/linux-headers-6.1.0-56-common/include/a-rather-long-folder-name/"            \
	"another-rather-long-folder-name/and-a-file-name-that-makes-it-more-than-a-hundred.h"

static void pack_archive(const struct folder *folder)
{
	_cleanup_close_ int fd = openat(folder->fd, "a.tar.zst", O_WRONLY | O_CREAT, 0644);
	struct pack *pack = pack_new(fd);
	_cleanup_free_ char *from = NULL;

	folder_write_text(folder, "program", "#!/bin/sh\n");
	assert_int_equal(fchmodat(folder->fd, "program", 0700, 0), 0);
	assert_true(asprintf(&from, "%s/program", folder->path) > 0);
	assert_int_equal(pack_text(pack, "empty", "", 0), 0);
	assert_int_equal(pack_text(pack, LONG_NAME, "text", 4), 0);
	assert_int_equal(pack_link(pack, "link", LONG_NAME), 0);
	assert_int_equal(pack_file(pack, "bin/program", from), 0);
	assert_int_equal(pack_file(pack, "gone", "/nowhere/at/all"), -ENOENT);
	assert_int_equal(pack_finish(pack), 0);
	assert_true(pack_size(pack) > 0);
	pack_free(&pack);
}

static struct archive_entry *next(struct archive_input *input)
{
	struct archive_entry *entry;

	assert_int_equal(archive_read_next_header(input->reader, &entry), ARCHIVE_OK);
	return entry;
}

static void another_program_reads_it(void **state)
{
	const struct folder *folder = *state;
	struct archive_input input;
	struct archive_entry *entry;
	struct error error = { 0 };
	char text[8] = "";

	pack_archive(folder);
	assert_int_equal(
		archive_input_open(&input, ARCHIVE_KIND_TAR, folder->fd, "a.tar.zst", NULL, &error),
		0);
	assert_string_equal(archive_entry_pathname(next(&input)), "empty");
	entry = next(&input);
	assert_string_equal(archive_entry_pathname(entry), LONG_NAME);
	assert_int_equal(archive_entry_size(entry), 4);
	assert_int_equal(archive_entry_mtime(entry), 0);
	assert_int_equal(archive_read_data(input.reader, text, sizeof(text)), 4);
	assert_string_equal(text, "text");
	entry = next(&input);
	assert_string_equal(archive_entry_symlink(entry), LONG_NAME);
	entry = next(&input);
	assert_string_equal(archive_entry_pathname(entry), "bin/program");
	assert_int_equal(archive_entry_perm(entry), 0755);
	assert_int_equal(archive_read_next_header(input.reader, &entry), ARCHIVE_EOF);
	archive_input_close(&input);
}

struct seen {
	char bytes[65536];
	size_t size;
};

static void see(void *context, const void *data, size_t size)
{
	struct seen *seen = context;

	assert_true(seen->size + size <= sizeof(seen->bytes));
	memcpy(seen->bytes + seen->size, data, size);
	seen->size += size;
}

/* Writes a folder and a file, compressed or not. */
static void write_watched(
	const struct folder *folder, const char *name, bool plain, struct seen *seen)
{
	_cleanup_close_ int fd = openat(folder->fd, name, O_WRONLY | O_CREAT, 0644);
	struct pack *pack = plain ? pack_new_plain(fd) : pack_new(fd);

	pack_watch(pack, see, seen);
	assert_int_equal(pack_folder(pack, "usr"), 0);
	assert_int_equal(pack_text(pack, "usr/file", "text", 4), 0);
	assert_int_equal(pack_finish(pack), 0);
	pack_free(&pack);
}

static void a_watcher_gets_the_plain_bytes(void **state)
{
	const struct folder *folder = *state;
	struct seen plain = { 0 }, packed = { 0 };
	struct archive_input input;
	struct archive_entry *entry;
	struct error error = { 0 };
	_cleanup_free_ char *text = NULL;
	size_t size;

	write_watched(folder, "a.tar", true, &plain);
	write_watched(folder, "a.tar.zst", false, &packed);
	assert_int_equal(fs_read(folder->fd, "a.tar", 0, &text, &size), 0);
	assert_int_equal(size, 5 * 512);
	assert_int_equal(plain.size, size);
	assert_memory_equal(plain.bytes, text, size);
	assert_int_equal(packed.size, size);
	assert_memory_equal(packed.bytes, text, size);
	assert_int_equal(
		archive_input_open(&input, ARCHIVE_KIND_TAR, folder->fd, "a.tar", NULL, &error), 0);
	entry = next(&input);
	assert_string_equal(archive_entry_pathname(entry), "usr/");
	assert_int_equal(archive_entry_filetype(entry), AE_IFDIR);
	assert_int_equal(archive_entry_perm(entry), 0755);
	archive_input_close(&input);
}

static ssize_t read_one(void *context, void *buffer, size_t size)
{
	int *left = context;

	if (*left == 0)
		return -ENODATA;
	--*left;
	memset(buffer, 'x', size < 3 ? size : 3);
	return size < 3 ? (ssize_t) size : 3;
}

static ssize_t read_nothing(void *context, void *buffer, size_t size)
{
	(void) context;
	(void) buffer;
	(void) size;
	return 0;
}

/* A layer may have more than the 8 GiB of ustar's field. */
static void a_stream_of_any_size(void **state)
{
	const uint64_t large = UINT64_C(9) << 30;
	const struct folder *folder = *state;
	_cleanup_close_ int fd = openat(folder->fd, "a.tar", O_WRONLY | O_CREAT, 0644);
	struct pack *pack = pack_new_plain(fd);
	struct archive_input input;
	struct archive_entry *entry;
	struct error error = { 0 };
	char text[8] = "";
	int left = 2;

	assert_int_equal(pack_stream(pack, "small", 4, read_one, &left), 0);
	assert_int_equal(pack_stream(pack, "large", large, read_one, &left), -ENODATA);
	assert_int_equal(pack_stream(pack, "short", 4, read_nothing, NULL), -EIO);
	pack_free(&pack);
	assert_int_equal(
		archive_input_open(&input, ARCHIVE_KIND_TAR, folder->fd, "a.tar", NULL, &error), 0);
	(void) next(&input);
	assert_int_equal(archive_read_data(input.reader, text, sizeof(text)), 4);
	assert_string_equal(text, "xxxx");
	entry = next(&input);
	assert_string_equal(archive_entry_pathname(entry), "large");
	assert_true((uint64_t) archive_entry_size(entry) == large);
	archive_input_close(&input);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(another_program_reads_it),
		folder_test(a_stream_of_any_size),
		folder_test(a_watcher_gets_the_plain_bytes),
	};

	return cmocka_run_group_tests_name("pack", tests, NULL, NULL);
}
