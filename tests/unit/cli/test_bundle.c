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
#define SOURCE(kind) "{\"kind\":\"" kind "\",\"name\":\"\",\"file\":\"\"}"

static const char manifest_text[] =
	"{\"schema\":2,\"slipway\":\"1.2\",\"files\":" FILE_LIST ",\"targets\":[{\"krel\":"
	"\"6.1.0-9-amd64\",\"os\":\"debian12\",\"arch\":\"x86_64\",\"lock\":\"locks/a.json\","
	"\"root\":\"debian12\",\"root_stamp\":\"\",\"runtime_stamp\":\"\",\"unsigned_lists\":\"no\",\"images\":[],\"kernel_from\":[],\"ofed\":" SOURCE(
		BUNDLE_SOURCE_NONE) ",\"nvidia\":" SOURCE(BUNDLE_SOURCE_WORD) ",\"base\":" SOURCE(BUNDLE_SOURCE_NONE) "}]}";

static void put_manifest(json_object **manifest)
{
	(void) json_object_put(*manifest);
}

static json_object *make_manifest(void)
{
	json_object *manifest;
	struct error error = { 0 };

	if (bundle_manifest_read(manifest_text, &manifest, &error) < 0)
		fail_msg("%s", error.text);
	return manifest;
}

static char *path_in(const struct folder *folder, const char *name)
{
	char *path;

	assert_true(asprintf(&path, "%s/%s", folder->path, name) > 0);
	return path;
}

static void make_bundle(const struct folder *folder)
{
	_cleanup_(put_manifest) json_object *manifest = make_manifest();
	_cleanup_free_ char *path = path_in(folder, "bundle");
	_cleanup_free_ char *from = path_in(folder, "from");
	struct error error = { 0 };
	char hex[HASH_HEX_SIZE];

	folder_write_text(folder, "from/locks/a.json", "0123456789");
	folder_write_text(folder, "from/blobs/sha256/" SHA256, "0123456789");
	if (bundle_pack(manifest, from, path, NULL, hex, &error) < 0)
		fail_msg("%s", error.text);
	assert_int_equal(strlen(hex), 64);
}

/* Unpacks the file "bundle" into the new folder "to". */
static int unpack(const struct folder *folder, struct error *error)
{
	_cleanup_(put_manifest) json_object *manifest = NULL;
	_cleanup_free_ char *path = path_in(folder, "bundle");
	_cleanup_free_ char *to = path_in(folder, "to");

	assert_int_equal(fs_remove_tree(folder->fd, "to"), 0);
	folder_subfolder(folder, "to");
	return bundle_unpack(path, to, NULL, &manifest, error);
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
		"{\"schema\":2,\"slipway\":\"1\",\"files\":[{\"path\":\"../x\",\"sha256\":\"" SHA256
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
	assert_refused(*state, -EINVAL, "schema 99");
	make_crooked(*state, "[]", none);
	assert_refused(*state, -EBADMSG, "no JSON object");
	make_crooked(*state, "{\"schema\":2,\"slipway\":\"1\",\"files\":[],\"targets\":[]}", none);
	assert_refused(*state, -EBADMSG, "no target");
	make_crooked(*state, "{\"schema\":2,\"slipway\":\"1\",\"files\":{},\"targets\":[]}", none);
	assert_refused(*state, -EBADMSG, "\"files\"");
}

static void a_file_that_cannot_be_packed_leaves_no_bundle(void **state)
{
	_cleanup_(put_manifest) json_object *manifest = make_manifest();
	_cleanup_strv_ struct strv names = { 0 };
	_cleanup_free_ char *path = path_in(*state, "bundle");
	const struct folder *folder = *state;
	struct error error = { 0 };
	char hex[HASH_HEX_SIZE];

	assert_int_equal(bundle_pack(manifest, folder->path, path, NULL, hex, &error), -ENOENT);
	assert_int_equal(fs_list(folder->fd, ".", &names), 0);
	assert_int_equal(names.count, 0);
}

static void one_that_cannot_be_made_is_an_error(void **state)
{
	_cleanup_(put_manifest) json_object *manifest = make_manifest();
	_cleanup_free_ char *path = path_in(*state, "there/is/none");
	const struct folder *folder = *state;
	struct error error = { 0 };
	char hex[HASH_HEX_SIZE];

	assert_int_equal(bundle_pack(manifest, folder->path, path, NULL, hex, &error), -ENOENT);
	assert_non_null(strstr(error.text, "there/is/none"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(what_was_packed_comes_out),
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
