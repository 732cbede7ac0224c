/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/support.h"

#include <archive.h>
#include <archive_entry.h>

#include "cli/bundle/bundle.h"
#include "common/fs.h"
#include "common/hash.h"

#define SHA256 "84d89877f0d4041efb6bf91a16f0248f2fd573e6af05c19f96bedb9f882f7882"

/* One target with a lock and a download, whose contents are "0123456789". */
#define FILE_LIST                                                                                  \
	"[{\"path\":\"locks/a.json\",\"sha256\":\"" SHA256 "\",\"size_bytes\":10},"                \
	"{\"path\":\"blobs/sha256/" SHA256 "\",\"sha256\":\"" SHA256 "\",\"size_bytes\":10}]"

static const char manifest_text[] =
	"{\"schema\":4,\"slipway\":\"1.2\",\"files\":" FILE_LIST ",\"targets\":[{\"krel\":"
	"\"6.1.0-9-amd64\",\"os\":\"debian12\",\"arch\":\"x86_64\",\"lock\":\"locks/a.json\","
	"\"args\":[],\"downloads\":[],\"outputs\":[],"
	"\"root\":\"debian12\",\"root_stamp\":\"\",\"runtime_stamp\":\"\",\"unsigned_lists\":false,"
	"\"images\":[],\"base\":{\"file\":\"\",\"id\":\"\"},\"sources\":[{\"option\":\"nvidia\","
	"\"kind\":\"package\",\"name\":\"\",\"file\":\"\"}]}]}";

static void make_manifest(struct bundle_manifest *ret)
{
	struct error error = { 0 };

	if (bundle_manifest_read(manifest_text, ret, &error) < 0)
		fail_msg("%s", error.text);
}

static char *path_in(const struct folder *folder, const char *name)
{
	char *path;

	assert_true(asprintf(&path, "%s/%s", folder->path, name) > 0);
	return path;
}

static void make_bundle(const struct folder *folder)
{
	_cleanup_(bundle_manifest_free) struct bundle_manifest manifest;
	_cleanup_free_ char *path = path_in(folder, "bundle");
	_cleanup_free_ char *from = path_in(folder, "from");
	struct error error = { 0 };
	char hex[HASH_HEX_SIZE];

	make_manifest(&manifest);
	folder_write_text(folder, "from/locks/a.json", "0123456789");
	folder_write_text(folder, "from/blobs/sha256/" SHA256, "0123456789");
	if (bundle_pack(&manifest, from, path, NULL, hex, &error) < 0)
		fail_msg("%s", error.text);
	assert_int_equal(strlen(hex), 64);
}

/* Unpacks the file "bundle" into the new folder "to". */
static int unpack(const struct folder *folder, struct error *error)
{
	_cleanup_(bundle_manifest_free) struct bundle_manifest manifest;
	_cleanup_free_ char *path = path_in(folder, "bundle");
	_cleanup_free_ char *to = path_in(folder, "to");
	int r;

	assert_int_equal(fs_remove_tree(folder->fd, "to"), 0);
	folder_subfolder(folder, "to");
	r = bundle_open(path, &manifest, error);
	return r < 0 ? r : bundle_unpack(path, &manifest, NULL, to, NULL, error);
}

static void what_was_packed_comes_out(void **state)
{
	_cleanup_free_ char *text = NULL;
	struct error error = { 0 };

	make_bundle(*state);
	if (unpack(*state, &error) < 0)
		fail_msg("%s", error.text);
	text = folder_read_text(*state, "to/blobs/sha256/" SHA256);
	assert_string_equal(text, "0123456789");
}

static void a_manifest_is_read_as_it_was_written(void **state)
{
	struct bundle_image image = { .file = "locks/a.json",
		.id = SHA256,
		.key = SHA256,
		.name = "localhost/slipway/build:1",
		.stage = "toolchain" };
	struct bundle_source sources[] = {
		{ .option = "gdrcopy", .kind = "tree", .name = "g", .file = "locks/a.json" },
		{ .option = "of-tomorrow", .kind = "package" },
	};
	struct bundle_manifest written, read;
	_cleanup_free_ char *text = NULL;
	struct error error = { 0 };

	(void) state;
	written = (struct bundle_manifest){ .slipway = "1",
		.files = &(struct bundle_file){ "locks/a.json", SHA256, 10 },
		.file_count = 1,
		.targets = &(struct bundle_target){ .krel = "6.1.0-9-amd64",
			.os = "debian12",
			.arch = "x86_64",
			.lock = "locks/a.json",
			.root = "debian12",
			.root_stamp = "stamp",
			.unsigned_lists = true,
			.images = &image,
			.image_count = 1,
			.sources = sources,
			.source_count = ARRAY_SIZE(sources) },
		.target_count = 1 };
	text = bundle_manifest_write(&written);
	if (bundle_manifest_read(text, &read, &error) < 0)
		fail_msg("%s", error.text);
	assert_int_equal(read.file_count, 1);
	assert_int_equal(read.files[0].size_bytes, 10);
	assert_string_equal(read.targets[0].root_stamp, "stamp");
	assert_string_equal(read.targets[0].runtime_stamp, "");
	assert_string_equal(read.targets[0].base_id, "");
	assert_true(read.targets[0].unsigned_lists);
	assert_string_equal(read.targets[0].images[0].name, image.name);
	assert_int_equal(read.targets[0].source_count, 2);
	assert_string_equal(read.targets[0].sources[0].file, "locks/a.json");
	assert_string_equal(read.targets[0].sources[1].option, "of-tomorrow");
	bundle_manifest_free(&read);
	sources[0].file = "sources/none";
	free(text);
	text = bundle_manifest_write(&written);
	assert_int_equal(bundle_manifest_read(text, &read, &error), -EBADMSG);
	assert_contains(error.text, "the file \"sources/none\", which is not in the list");
}

static void the_same_things_make_the_same_bundle(void **state)
{
	_cleanup_free_ char *first = NULL;
	_cleanup_free_ char *second = NULL;
	const struct folder *folder = *state;
	size_t first_size, second_size;

	make_bundle(folder);
	assert_int_equal(fs_read(folder->fd, "bundle", 0, &first, &first_size), 0);
	make_bundle(folder);
	assert_int_equal(fs_read(folder->fd, "bundle", 0, &second, &second_size), 0);
	assert_int_equal(first_size, second_size);
	assert_memory_equal(first, second, first_size);
}

static void one_that_is_cut_short_is_refused_wherever_it_ends(void **state)
{
	const struct folder *folder = *state;
	_cleanup_free_ char *whole = NULL;
	size_t size;

	make_bundle(folder);
	assert_int_equal(fs_read(folder->fd, "bundle", 0, &whole, &size), 0);
	for (size_t length = 0; length < size; length += 7) {
		struct error error = { 0 };

		folder_write(folder, "bundle", whole, length);
		assert_int_equal(unpack(folder, &error), -EBADMSG);
		assert_true(error.text[0]);
	}
}

static void put_entry(struct archive *archive, const char *path, const char *text, mode_t type)
{
	struct archive_entry *entry = archive_entry_new();

	archive_entry_set_pathname(entry, path);
	archive_entry_set_filetype(entry, type);
	archive_entry_set_perm(entry, 0644);
	if (type == AE_IFLNK)
		archive_entry_set_symlink(entry, text);
	archive_entry_set_size(entry, type == AE_IFREG ? (la_int64_t) strlen(text) : 0);
	assert_int_equal(archive_write_header(archive, entry), ARCHIVE_OK);
	if (type == AE_IFREG)
		assert_true(archive_write_data(archive, text, strlen(text)) >= 0);
	archive_entry_free(entry);
}

struct made_entry {
	const char *path; /* NULL: the end */
	const char *text;
	mode_t type; /* 0: a plain file */
};

/* A bundle with an honest manifest, or @text, and these entries after it. */
static void make_crooked(
	const struct folder *folder, const char *text, const struct made_entry *entries)
{
	_cleanup_free_ char *path = path_in(folder, "bundle");
	struct archive *archive = archive_write_new();

	(void) archive_write_set_format_pax_restricted(archive);
	(void) archive_write_add_filter_zstd(archive);
	assert_int_equal(archive_write_open_filename(archive, path), ARCHIVE_OK);
	put_entry(archive, BUNDLE_MANIFEST, text ? text : manifest_text, AE_IFREG);
	for (; entries->path; entries++)
		put_entry(archive, entries->path, entries->text,
			entries->type ? entries->type : AE_IFREG);
	assert_int_equal(archive_write_free(archive), ARCHIVE_OK);
}

static void assert_refused(const struct folder *folder, int result, const char *part)
{
	struct error error = { 0 };

	assert_int_equal(unpack(folder, &error), result);
	assert_contains(error.text, part);
}

#define LOCK                                                                                       \
	{                                                                                          \
		"locks/a.json", "0123456789", 0                                                    \
	}
#define BLOB                                                                                       \
	{                                                                                          \
		"blobs/sha256/" SHA256, "0123456789", 0                                            \
	}

static void one_that_was_altered_is_refused(void **state)
{
	static const struct made_entry other[] = { LOCK,
		{ "blobs/sha256/" SHA256, "012345678x", 0 }, { 0 } };
	static const struct made_entry shorter[] = { { "locks/a.json", "012", 0 }, BLOB, { 0 } };
	static const struct made_entry longer[] = { { "locks/a.json", "0123456789x", 0 }, BLOB,
		{ 0 } };
	static const struct made_entry extra[] = { LOCK, BLOB, { "more", "x", 0 }, { 0 } };
	static const struct made_entry twice[] = { LOCK, LOCK, BLOB, { 0 } };
	static const struct made_entry less[] = { LOCK, { 0 } };

	make_crooked(*state, NULL, other);
	assert_refused(*state, -EBADMSG, "altered: blobs/sha256/" SHA256);
	make_crooked(*state, NULL, shorter);
	assert_refused(*state, -EBADMSG, "has not the 10 bytes");
	make_crooked(*state, NULL, longer);
	assert_refused(*state, -EBADMSG, "has not the 10 bytes");
	make_crooked(*state, NULL, extra);
	assert_refused(*state, -EBADMSG, "an entry that its manifest does not");
	make_crooked(*state, NULL, twice);
	assert_refused(*state, -EBADMSG, "an entry twice");
	make_crooked(*state, NULL, less);
	assert_refused(*state, -EBADMSG, "cut short: blobs/sha256/" SHA256 " is missing");
}

static void one_that_leads_out_is_refused(void **state)
{
	static const struct made_entry absolute[] = { { "/tmp/x", "x", 0 }, { 0 } };
	static const struct made_entry parent[] = { { "locks/../../x", "x", 0 }, { 0 } };
	static const struct made_entry link[] = { { "locks/a.json", "/etc/passwd", AE_IFLNK },
		{ 0 } };
	static const struct made_entry folder_link[] = { { "locks", "/etc", AE_IFLNK }, { 0 } };
	static const struct made_entry none[] = { { 0 } };

	make_crooked(*state, NULL, absolute);
	assert_refused(*state, -EXDEV, "/tmp/x leads out");
	make_crooked(*state, NULL, parent);
	assert_refused(*state, -EXDEV, "locks/../../x leads out");
	make_crooked(*state, NULL, link);
	assert_refused(*state, -EXDEV, "locks/a.json is no plain file");
	make_crooked(*state, NULL, folder_link);
	assert_refused(*state, -EBADMSG, "an entry that its manifest does not");
	make_crooked(*state,
		"{\"schema\":4,\"slipway\":\"1\",\"files\":[{\"path\":\"../x\",\"sha256\":\"" SHA256
		"\",\"size_bytes\":1}],\"targets\":[]}",
		none);
	assert_refused(*state, -EXDEV, "../x leads out");
}

static void what_is_no_bundle_is_told_so(void **state)
{
	static const struct made_entry none[] = { { 0 } };

	folder_write_text(*state, "bundle", "just a text");
	assert_refused(*state, -EBADMSG, "no bundle");
	make_crooked(*state, "{\"schema\":99}", none);
	assert_refused(*state, -EBADMSG, "schema 99");
	make_crooked(*state, "[]", none);
	assert_refused(*state, -EBADMSG, "no JSON object");
	make_crooked(*state, "{\"schema\":4,\"slipway\":\"1\",\"files\":[],\"targets\":[]}", none);
	assert_refused(*state, -EBADMSG, "no target");
	make_crooked(*state, "{\"schema\":4,\"slipway\":\"1\",\"files\":{},\"targets\":[]}", none);
	assert_refused(*state, -EBADMSG, "\"files\"");
}

static void a_file_that_cannot_be_packed_leaves_no_bundle(void **state)
{
	_cleanup_(bundle_manifest_free) struct bundle_manifest manifest;
	_cleanup_strv_ struct strv names = { 0 };
	_cleanup_free_ char *path = path_in(*state, "bundle");
	const struct folder *folder = *state;
	struct error error = { 0 };
	char hex[HASH_HEX_SIZE];

	make_manifest(&manifest);
	assert_int_equal(bundle_pack(&manifest, folder->path, path, NULL, hex, &error), -ENOENT);
	assert_int_equal(fs_list(folder->fd, ".", &names), 0);
	assert_int_equal(names.count, 0);
}

static void one_that_cannot_be_made_is_an_error(void **state)
{
	_cleanup_(bundle_manifest_free) struct bundle_manifest manifest;
	_cleanup_free_ char *path = path_in(*state, "there/is/none");
	const struct folder *folder = *state;
	struct error error = { 0 };
	char hex[HASH_HEX_SIZE];

	make_manifest(&manifest);
	assert_int_equal(bundle_pack(&manifest, folder->path, path, NULL, hex, &error), -ENOENT);
	assert_non_null(strstr(error.text, "there/is/none"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(what_was_packed_comes_out),
		cmocka_unit_test(a_manifest_is_read_as_it_was_written),
		folder_test(the_same_things_make_the_same_bundle),
		folder_test(one_that_is_cut_short_is_refused_wherever_it_ends),
		folder_test(one_that_was_altered_is_refused),
		folder_test(one_that_leads_out_is_refused),
		folder_test(what_is_no_bundle_is_told_so),
		folder_test(a_file_that_cannot_be_packed_leaves_no_bundle),
		folder_test(one_that_cannot_be_made_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
