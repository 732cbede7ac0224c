/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/support.h"

#include <sys/wait.h>

#include "common/fs.h"
#include "kernels/fetch/store.h"

#define CONTENT "0123456789"
#define SHA256  "84d89877f0d4041efb6bf91a16f0248f2fd573e6af05c19f96bedb9f882f7882"
#define BLOB    "blobs/sha256/" SHA256

static void open_store(const struct folder *folder, struct store *store)
{
	struct error error = { 0 };

	assert_int_equal(store_open(folder->fd, "blobs", store, &error), 0);
}

/* Fetches CONTENT from the file "a" of the folder. */
static int fetch(const struct folder *folder, bool offline, struct error *error)
{
	const struct download_options options = { .offline = offline, .attempts = 1 };
	_cleanup_(download_close) struct download *download = NULL;
	_cleanup_(store_close) struct store store = { .fd = -1 };
	_cleanup_free_ char *url = NULL;
	struct store_file files[] = {
		{ .name = "package", .sha256 = SHA256, .size_bytes = 10 },
		{ .name = "twice", .sha256 = SHA256, .size_bytes = 10 },
	};

	open_store(folder, &store);
	download = download_open(&options);
	assert_true(asprintf(&url, "file:%s/a", folder->path) > 0);
	files[0].url = url;
	files[1].url = url;
	return store_fetch(&store, download, files, ARRAY_SIZE(files), NULL, NULL, error);
}

static void assert_there(const struct folder *folder)
{
	_cleanup_free_ char *text = folder_read_text(folder, BLOB);

	assert_string_equal(text, CONTENT);
}

static void what_is_missing_is_fetched(void **state)
{
	struct error error = { 0 };

	folder_write_text(*state, "a", CONTENT);
	assert_int_equal(fetch(*state, true, &error), 0);
	assert_there(*state);
}

static void other_content_is_refused_and_asked_for_again(void **state)
{
	struct error error = { 0 };

	folder_write_text(*state, "a", "something else");
	assert_int_equal(fetch(*state, true, &error), -EBADMSG);
	assert_contains(error.text, "package: ");
	folder_write_text(*state, "a", CONTENT);
	assert_int_equal(fetch(*state, true, &error), 0);
	assert_there(*state);
}

static void a_damaged_file_is_set_aside_and_fetched_again(void **state)
{
	const struct folder *folder = *state;
	_cleanup_free_ char *aside = NULL;
	struct error error = { 0 };

	folder_write_text(folder, "a", CONTENT);
	folder_write_text(folder, BLOB, "01234x6789");
	assert_int_equal(fetch(folder, true, &error), 0);
	assert_there(folder);
	aside = folder_read_text(folder, "blobs/damaged/" SHA256);
	assert_string_equal(aside, "01234x6789");
}

static void a_damaged_file_that_cannot_be_fetched_is_named(void **state)
{
	const struct download_options options = { .offline = true };
	_cleanup_(download_close) struct download *download = NULL;
	_cleanup_(store_close) struct store store = { .fd = -1 };
	const struct store_file file = {
		.name = "package", .sha256 = SHA256, .url = "http://127.0.0.1:1/x"
	};
	struct error error = { 0 };

	folder_write_text(*state, BLOB, "01234x6789");
	open_store(*state, &store);
	download = download_open(&options);
	assert_int_equal(store_fetch(&store, download, &file, 1, NULL, NULL, &error), -EUCLEAN);
	assert_contains(error.text, SHA256);
	assert_contains(error.text, "--offline");
	assert_int_equal(unlinkat(store.fd, "sha256/" SHA256, 0), 0);
	assert_int_equal(store_fetch(&store, download, &file, 1, NULL, NULL, &error), -ENETDOWN);
}

static void a_digest_is_no_path(void **state)
{
	_cleanup_(store_close) struct store store = { .fd = -1 };
	struct error error = { 0 };

	open_store(*state, &store);
	assert_int_equal(store_check(&store, "../../etc/passwd", 0, &error), -EINVAL);
	assert_int_equal(store_set_aside_damaged(&store, "../x", 0, &error), -EINVAL);
	assert_int_equal(store_check(&store, SHA256, 0, &error), 0);
}

static void runs_at_the_same_time_share_what_comes(void **state)
{
	const struct folder *folder = *state;
	pid_t children[4];

	folder_write_text(folder, "a", CONTENT);
	for (size_t i = 0; i < ARRAY_SIZE(children); i++) {
		children[i] = fork();
		if (children[i] == 0) {
			struct error error = { 0 };

			_exit(fetch(folder, false, &error) != 0);
		}
	}
	for (size_t i = 0; i < ARRAY_SIZE(children); i++) {
		int status;

		assert_int_equal(waitpid(children[i], &status, 0), children[i]);
		assert_int_equal(status, 0);
	}
	assert_there(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(what_is_missing_is_fetched),
		folder_test(other_content_is_refused_and_asked_for_again),
		folder_test(a_damaged_file_is_set_aside_and_fetched_again),
		folder_test(a_damaged_file_that_cannot_be_fetched_is_named),
		folder_test(a_digest_is_no_path),
		folder_test(runs_at_the_same_time_share_what_comes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
