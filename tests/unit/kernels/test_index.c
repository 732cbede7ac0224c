/* SPDX-License-Identifier: Apache-2.0 */
/* Tests what the cache remembers of lists, and when the mirror is asked again. */
#include "tests/unit/mirror.h"

#include <time.h>

#include "common/fs.h"
#include "kernels/repo/repo_internal.h"
#include "kernels/resolve/resolve.h"

#define SUITE "mirror/dists/stable/"
#define LIST  "main/binary-amd64/Packages"
/* Nothing listens there. */
#define NOWHERE "http://127.0.0.1:1/none"

static void publish_with(const struct folder *folder, const char *version, const char *fields)
{
	static const char *const lists[] = { LIST, NULL };
	const struct suite suite = { .fields = fields, .lists = lists };
	_cleanup_free_ char *text = NULL;

	assert_true(asprintf(&text,
			    "Package: linux-image-a\nVersion: %s\nArchitecture: amd64\nFilename: "
			    "a.deb\nSize: 1\nSHA256: " MIRROR_HEX "\n",
			    version) > 0);
	folder_write_text(folder, SUITE LIST, text);
	mirror_publish(folder, &suite);
}

static void publish(const struct folder *folder, const char *version)
{
	publish_with(folder, version, "");
}

static void prepare(const struct folder *folder, struct asking *asking)
{
	signing_make_key(folder, NULL, "never");
	signing_export(folder, "key.gpg", false);
	asking_start(folder, REPOSITORY_APT, asking);
	publish(folder, "1");
}

static void expect_version(
	struct asking *asking, const struct folder *folder, bool offline, const char *version)
{
	if (asking_run(asking, folder, offline) < 0)
		fail_msg("%s", asking_error(asking));
	assert_int_equal(asking->index->count, 1);
	assert_string_equal(asking->index->packages[0].version, version);
}

static char *digest_path(const struct folder *folder)
{
	_cleanup_strv_ struct strv names = { 0 };
	char *path = NULL;

	assert_int_equal(fs_list(folder->fd, "indexes", &names), 0);
	for (size_t i = 0; i < names.count && !path; i++)
		if (strstr(names.items[i], ".digest"))
			assert_true(asprintf(&path, "indexes/%s", names.items[i]) > 0);
	assert_non_null(path);
	return path;
}

/* Makes what is remembered @seconds old. */
static void grow_old(const struct folder *folder, time_t seconds)
{
	_cleanup_free_ char *path = digest_path(folder);
	const struct timespec times[2] = { { .tv_sec = time(NULL) - seconds },
		{ .tv_sec = time(NULL) - seconds } };

	assert_int_equal(utimensat(folder->fd, path, times, 0), 0);
}

static time_t age(const struct folder *folder)
{
	_cleanup_free_ char *path = digest_path(folder);
	struct stat status;

	assert_int_equal(fstatat(folder->fd, path, &status, 0), 0);
	return time(NULL) - status.st_mtime;
}

static void young_lists_are_not_asked_for(void **state)
{
	const struct folder *folder = *state;
	struct asking asking;

	prepare(folder, &asking);
	expect_version(&asking, folder, false, "1");
	publish(folder, "2");
	expect_version(&asking, folder, false, "1");
	assert_null(asking.index->warning);
	grow_old(folder, INDEX_MAX_AGE_S + 1);
	expect_version(&asking, folder, false, "2");
	publish(folder, "3");
	asking.options.refresh = true;
	expect_version(&asking, folder, false, "3");
	asking_done(&asking);
}

static void old_lists_that_have_not_changed_are_young_again(void **state)
{
	const struct folder *folder = *state;
	struct asking asking;

	prepare(folder, &asking);
	expect_version(&asking, folder, false, "1");
	/* Were it read again, it would be missed. */
	assert_int_equal(unlinkat(folder->fd, SUITE LIST, 0), 0);
	grow_old(folder, INDEX_MAX_AGE_S * 10);
	expect_version(&asking, folder, false, "1");
	assert_true(age(folder) < 1000);
	asking_done(&asking);
}

/* The same repository, whose mirror has gone: only what the cache says is left. */
static void move_digest_to(struct asking *asking, const struct folder *folder, const char *url)
{
	_cleanup_free_ char *path = digest_path(folder);
	_cleanup_free_ char *name = NULL;
	_cleanup_free_ char *moved = NULL;

	asking->request.url = url;
	name = digest_name(&asking->request, &asking->options);
	assert_true(asprintf(&moved, "indexes/%s", name) > 0);
	assert_int_equal(renameat(folder->fd, path, folder->fd, moved), 0);
}

static void mirrors_out_of_reach_leave_the_old_lists(void **state)
{
	const struct folder *folder = *state;
	struct asking asking;

	prepare(folder, &asking);
	expect_version(&asking, folder, false, "1");
	move_digest_to(&asking, folder, NOWHERE);
	grow_old(folder, 72L * 3600);
	expect_version(&asking, folder, false, "1");
	assert_contains(asking.index->warning, "the list of test is 3 days old: ");
	expect_version(&asking, folder, true, "1");
	assert_contains(asking.index->warning, "3 days old: working offline");
	/* The user who asks for a refresh wants to know that there was none. */
	asking.options.refresh = true;
	assert_int_equal(asking_run(&asking, folder, false), -EHOSTUNREACH);
	asking.options.refresh = false;
	grow_old(folder, 60);
	expect_version(&asking, folder, true, "1");
	assert_null(asking.index->warning);
	asking_done(&asking);
}

/* One who blocks the mirror must not keep a list alive that has expired. */
static void expired_lists_are_no_answer_of_an_unreachable_mirror(void **state)
{
	const struct folder *folder = *state;
	struct asking asking;

	prepare(folder, &asking);
	publish_with(folder, "1", "Valid-Until: Thu, 01 Jan 2026 00:00:00 UTC\n");
	asking.options.allow_expired = true;
	expect_version(&asking, folder, false, "1");
	move_digest_to(&asking, folder, NOWHERE);
	grow_old(folder, 72L * 3600);
	expect_version(&asking, folder, false, "1");
	asking.options.allow_expired = false;
	assert_int_equal(asking_run(&asking, folder, false), -EKEYREJECTED);
	assert_contains(asking.index->error.lines, "try: accept the expired list: --allow-expired");
	expect_version(&asking, folder, true, "1");
	asking_done(&asking);
}

static void damaged_digests_are_made_again(void **state)
{
	const struct folder *folder = *state;
	_cleanup_free_ char *path = NULL;
	_cleanup_free_ char *text = NULL;
	struct asking asking;

	prepare(folder, &asking);
	expect_version(&asking, folder, false, "1");
	path = digest_path(folder);
	text = folder_read_text(folder, path);
	strstr(text, "Version: 1")[9] = '7';
	folder_write_text(folder, path, text);
	expect_version(&asking, folder, false, "1");
	text[strlen(text) / 2] = '\0';
	folder_write_text(folder, path, text);
	expect_version(&asking, folder, true, "1"); /* a file: mirror needs no network */
	move_digest_to(&asking, folder, NOWHERE);
	free(path);
	path = digest_path(folder);
	folder_write_text(folder, path, text);
	assert_int_equal(asking_run(&asking, folder, true), -EUCLEAN);
	assert_contains(asking_error(&asking), "the cached list is damaged: its hash differs");
	asking_done(&asking);
}

static void offline_without_lists(void **state)
{
	const struct folder *folder = *state;
	struct asking asking;

	prepare(folder, &asking);
	asking.request.url = NOWHERE;
	assert_int_equal(asking_run(&asking, folder, true), -ENETDOWN);
	assert_contains(asking_error(&asking), "are not in the cache and cannot be fetched with "
					       "--offline");
	assert_int_equal(asking_run(&asking, folder, false), -EHOSTUNREACH);
	asking_done(&asking);
}

static void what_is_kept_is_part_of_the_question(void **state)
{
	const struct folder *folder = *state;
	struct asking asking;

	prepare(folder, &asking);
	expect_version(&asking, folder, false, "1");
	strv_free(&asking.keep);
	assert_int_equal(strv_push(&asking.keep, "kernel"), 0);
	assert_int_equal(asking_run(&asking, folder, false), 0);
	assert_int_equal(asking.index->count, 0);
	assert_int_equal(asking.index->listed, 1);
	asking_done(&asking);
}

/* A list that was checked once is not believed when its key has gone or is another. */
static void another_key_has_lists_checked_anew(void **state)
{
	const struct folder *folder = *state;
	struct asking asking;

	prepare(folder, &asking);
	expect_version(&asking, folder, false, "1");
	folder_write_text(folder, "key.gpg", "");
	assert_int_equal(asking_run(&asking, folder, false), -EKEYREJECTED);
	assert_int_equal(asking_run(&asking, folder, true), -EKEYREJECTED);
	assert_int_equal(unlinkat(folder->fd, "key.gpg", 0), 0);
	assert_int_equal(asking_run(&asking, folder, false), -EKEYREJECTED);
	signing_export(folder, "key.gpg", false);
	expect_version(&asking, folder, false, "1");
	/* The catalogue's keyrings count as --keyring does. */
	assert_int_equal(strv_push(&asking.repository.keyrings, asking.keyring), 0);
	asking.no_keyring = true;
	expect_version(&asking, folder, false, "1");
	folder_write_text(folder, "key.gpg", "");
	assert_int_equal(asking_run(&asking, folder, false), -EKEYREJECTED);
	strv_free(&asking.repository.keyrings);
	asking_done(&asking);
}

static void several_at_once(void **state)
{
	const struct folder *folder = *state;
	static char other_name[] = "other", other_suite[] = "none";
	struct asking asking;
	static char nothing[] = "/nonexistent/cert.pem";
	struct repository other;
	struct mirror barred;
	struct index_request requests[4];
	struct index *indexes = NULL;
	const struct download_options options = { 0 };
	struct error error = { 0 };

	prepare(folder, &asking);
	expect_version(&asking, folder, false, "1");
	asking.options.folder_fd = openat(folder->fd, "indexes", O_RDONLY | O_DIRECTORY);
	asking.options.refresh = true;
	other = asking.repository;
	other.name = other_name;
	other.suite = other_suite;
	barred = asking.mirror;
	barred.credentials.client_certificate = nothing;
	requests[0] = requests[1] = requests[2] = requests[3] = asking.request;
	requests[1].repository = &other;
	requests[2].arch = "armv7l";
	requests[3].mirror = &barred;
	requests[3].arch = "s390x";
	asking.options.download = download_open(&options);
	assert_int_equal(indexes_open(&asking.options, requests, 4, &indexes, &error), 0);
	assert_int_equal(indexes[0].result, 0);
	assert_int_equal(indexes[0].count, 1);
	assert_int_equal(indexes[1].result, -EADDRNOTAVAIL);
	assert_int_equal(indexes[2].result, -EADDRNOTAVAIL);
	assert_contains(indexes[2].error.text, "no packages for armhf");
	assert_int_equal(indexes[3].result, -EACCES);
	assert_contains(indexes[3].error.text, nothing);
	indexes_free(&indexes, 4);
	download_close(&asking.options.download);
	(void) close(asking.options.folder_fd);
	asking_done(&asking);
}

static void digests_that_are_none(void **state)
{
	static const char *const texts[] = { "", "Slipway-Index: 1 ",
		"Slipway-Index: 1 " MIRROR_HEX "\n", "Slipway-Index: 0 " MIRROR_HEX "\nListed: 1\n",
		"x" };

	(void) state;
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		_cleanup_free_ char *text = strdup(texts[i]);
		struct digest digest;
		struct error error = { 0 };

		assert_int_equal(
			digest_parse(text, strlen(text), "x.digest", &digest, &error), -EUCLEAN);
		assert_contains(error.text, "indexes/x.digest: the cached list is damaged");
	}
}

static void traces_keep_what_they_are_told(void **state)
{
	struct trace trace = { 0 };

	(void) state;
	trace_add(&trace, TRACE_FOUND, "main", "http://x", "%d packages", 2);
	trace_add(&trace, TRACE_SKIPPED, "", "", "why");
	assert_int_equal(trace.count, 2);
	assert_string_equal(trace.entries[0].text, "2 packages");
	assert_string_equal(trace.entries[1].repository, "");
	assert_string_equal(trace.entries[1].outcome, "skipped");
	trace_free(&trace);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(young_lists_are_not_asked_for),
		folder_test(old_lists_that_have_not_changed_are_young_again),
		folder_test(mirrors_out_of_reach_leave_the_old_lists),
		folder_test(expired_lists_are_no_answer_of_an_unreachable_mirror),
		folder_test(damaged_digests_are_made_again),
		folder_test(offline_without_lists),
		folder_test(what_is_kept_is_part_of_the_question),
		folder_test(another_key_has_lists_checked_anew),
		folder_test(several_at_once),
		cmocka_unit_test(digests_that_are_none),
		cmocka_unit_test(traces_keep_what_they_are_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
