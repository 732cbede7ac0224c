/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/mirror.h"

#include "common/fs.h"
#include "tests/unit/server.h"

#define PACKAGES "main/binary-amd64/Packages"
#define SUITE    "mirror/dists/stable/"
#define BY_HASH  SUITE "main/binary-amd64/by-hash/SHA256/"

/* Two packages to keep, one to pass over; the older one comes last. */
static const char packages[] =
	"Package: linux-headers-6.12.9+deb13-amd64\nVersion: 6.12.9-1~bpo12+1\nArchitecture: "
	"amd64\nSource: linux\nDepends: linux-kbuild-6.12.9+deb13\n"
	"Filename: pool/main/l/linux/h.deb\nSize: 9\nSHA256: " MIRROR_HEX "\n\n"
	"Package: hello\nVersion: 1\nArchitecture: amd64\nSize: wrong\n\n"
	"Package: linux-headers-6.12.9+deb13-amd64\nVersion: 6.12.8-1\nArchitecture: amd64\n"
	"Filename: pool/main/l/linux/i.deb\nSize: 8\nSHA256: " MIRROR_HEX "\n";

static const char *const xz_only[] = { PACKAGES ".xz", NULL };

static void prepare(const struct folder *folder, struct asking *asking)
{
	signing_make_key(folder, NULL, "never");
	signing_export(folder, "key.gpg", false);
	asking_start(folder, REPOSITORY_APT, asking);
	mirror_pack(folder, SUITE PACKAGES ".xz", packages);
}

static void move_by_hash(const struct folder *folder, const char *path)
{
	_cleanup_free_ char *target = NULL;
	char hex[65];
	size_t size;

	mirror_hash(folder, path, hex, &size);
	assert_true(asprintf(&target, BY_HASH "%s", hex) > 0);
	folder_subfolder(folder, BY_HASH);
	assert_int_equal(renameat(folder->fd, path, folder->fd, target), 0);
}

static void expect_kept(struct asking *asking, const struct folder *folder)
{
	const struct package *found;

	if (asking_run(asking, folder, false) < 0)
		fail_msg("%s", asking_error(asking));
	assert_int_equal(asking->index->listed, 3);
	assert_int_equal(asking->index->count, 2);
	found = index_find(asking->index, "linux-headers-6.12.9+deb13-amd64");
	assert_non_null(found);
	assert_string_equal(found[0].version, "6.12.8-1");
	assert_string_equal(found[0].source, "linux-headers-6.12.9+deb13-amd64");
	assert_string_equal(found[1].version, "6.12.9-1~bpo12+1");
	assert_string_equal(found[1].source, "linux");
	assert_string_equal(found[1].depends, "linux-kbuild-6.12.9+deb13");
	assert_int_equal(found[1].size_bytes, 9);
	assert_null(index_find(asking->index, "hello"));
	assert_int_equal(strlen(asking->index->signer), 40);
	assert_string_equal(asking->index->date, "Thu, 19 Nov 2026 02:12:54 UTC");
}

static void expect_failed(
	struct asking *asking, const struct folder *folder, int code, const char *part)
{
	assert_int_equal(asking_run(asking, folder, false), code);
	assert_contains(asking_error(asking), part);
	assert_int_equal(asking->index->count, 0);
}

static void lists_by_hash_and_by_name(void **state)
{
	const struct folder *folder = *state;
	const struct suite plain = { .fields = "", .lists = xz_only, .plain = packages };
	const struct suite by_hash = {
		.fields = "Acquire-By-Hash: yes\n", .lists = xz_only, .plain = packages
	};
	struct asking asking;

	prepare(folder, &asking);
	mirror_publish(folder, &plain);
	expect_kept(&asking, folder);
	/* The mirror says by-hash, but has the list by its name only. */
	mirror_publish(folder, &by_hash);
	asking.options.refresh = true;
	expect_kept(&asking, folder);
	assert_int_equal(fs_remove_tree(folder->fd, "indexes"), 0);
	folder_subfolder(folder, "indexes");
	move_by_hash(folder, SUITE PACKAGES ".xz");
	expect_kept(&asking, folder);
	asking_done(&asking);
}

static void every_packing(void **state)
{
	static const char *const endings[] = { ".gz", ".zst", ".bz2", "" };
	const struct folder *folder = *state;
	struct asking asking;

	prepare(folder, &asking);
	for (size_t i = 0; i < ARRAY_SIZE(endings); i++) {
		char list[64], path[128];
		const char *const lists[] = { list, NULL };
		const struct suite suite = { .fields = "", .lists = lists };

		(void) snprintf(list, sizeof(list), PACKAGES "%s", endings[i]);
		(void) snprintf(path, sizeof(path), SUITE "%s", list);
		mirror_pack(folder, path, packages);
		mirror_publish(folder, &suite);
		asking.options.refresh = true;
		expect_kept(&asking, folder);
	}
	asking_done(&asking);
}

static void release_with_its_signature_apart(void **state)
{
	const struct folder *folder = *state;
	const struct suite suite = { .fields = "", .lists = xz_only };
	struct asking asking;

	prepare(folder, &asking);
	mirror_publish(folder, &suite);
	assert_int_equal(unlinkat(folder->fd, SUITE "InRelease", 0), 0);
	assert_int_equal(renameat(folder->fd, "Release", folder->fd, SUITE "Release"), 0);
	expect_failed(&asking, folder, -EKEYREJECTED, "not signed");
	signing_sign(folder, NULL, "--detach-sign", SUITE "Release", SUITE "Release.gpg");
	expect_kept(&asking, folder);
	folder_write_text(folder, SUITE "Release", "Suite: stable\n");
	asking.options.refresh = true;
	expect_failed(&asking, folder, -EKEYREJECTED, "is wrong");
	asking_done(&asking);
}

static void lists_without_a_signature(void **state)
{
	const struct folder *folder = *state;
	const struct suite suite = { .fields = "", .lists = xz_only, .unsigned_one = true };
	struct asking asking;

	prepare(folder, &asking);
	mirror_publish(folder, &suite);
	expect_failed(&asking, folder, -EKEYREJECTED, "not signed");
	asking.options.allow_unsigned = true;
	if (asking_run(&asking, folder, false) < 0)
		fail_msg("%s", asking_error(&asking));
	assert_int_equal(asking.index->count, 2);
	assert_string_equal(asking.index->signer, "");
	assert_contains(asking.index->warning, "has no signature that could be checked");
	/* A stricter run does not use what that left in the cache. */
	asking.options.allow_unsigned = false;
	expect_failed(&asking, folder, -EKEYREJECTED, "not signed");
	assert_int_equal(asking_run(&asking, folder, true), -EKEYREJECTED);
	asking_done(&asking);
}

static void lists_of_another_suite_or_architecture(void **state)
{
	const struct folder *folder = *state;
	const struct suite suite = { .fields = "", .lists = xz_only };
	static char other[] = "stable/../stable";
	struct asking asking;

	prepare(folder, &asking);
	mirror_publish(folder, &suite);
	asking.repository.suite = other;
	expect_failed(&asking, folder, -EKEYREJECTED, "not of stable/../stable");
	assert_string_equal(asking.index->error.lines, "try: use another mirror: --mirror URL\n");
	asking_done(&asking);
	asking_start(folder, REPOSITORY_APT, &asking);
	asking.request.arch = "aarch64";
	expect_failed(&asking, folder, -EADDRNOTAVAIL, "has no packages for arm64");
	asking_done(&asking);
}

static void lists_that_are_past_their_time(void **state)
{
	const struct folder *folder = *state;
	const struct suite suite = { .fields = "Valid-Until: Thu, 01 Jan 2026 00:00:00 UTC\n",
		.lists = xz_only };
	struct asking asking;

	prepare(folder, &asking);
	mirror_publish(folder, &suite);
	expect_failed(&asking, folder, -EKEYREJECTED, "expired on 2026-01-01 00:00 UTC");
	asking.options.allow_expired = true;
	expect_kept(&asking, folder);
	assert_contains(asking.index->warning, "past its Valid-Until");
	asking.options.allow_expired = false;
	expect_failed(&asking, folder, -EKEYREJECTED, "expired on");
	assert_contains(asking.index->error.lines, "try: accept the expired list: --allow-expired");
	asking.repository.archive = true;
	expect_kept(&asking, folder);
	assert_null(asking.index->warning);
	asking_done(&asking);
}

static void wrong_lists(void **state)
{
	const struct folder *folder = *state;
	const struct suite suite = { .fields = "", .lists = xz_only, .plain = "other\n" };
	const struct suite plain = { .fields = "", .lists = xz_only };
	struct asking asking;

	prepare(folder, &asking);
	mirror_publish(folder, &plain);
	mirror_pack(folder, SUITE PACKAGES ".xz", "Package: other\n");
	expect_failed(&asking, folder, -EBADMSG, PACKAGES ".xz");
	/* It unpacks to more than Release says. */
	mirror_pack(folder, SUITE PACKAGES ".xz", packages);
	mirror_publish(folder, &suite);
	expect_failed(&asking, folder, -EFBIG, "larger than the 6 bytes allowed");
	assert_int_equal(unlinkat(folder->fd, SUITE PACKAGES ".xz", 0), 0);
	expect_failed(&asking, folder, -EADDRNOTAVAIL, "has none of the forms");
	asking_done(&asking);
}

static void malformed_lists(void **state)
{
	static const struct {
		const char *text;
		const char *part;
	} cases[] = {
		{ "Package: linux-a\nVersion: 1", "in the middle of a line" },
		{ "Package: linux-a\nVersion: 1\n", "(linux-a) has no Architecture" },
		{ "no list\n", "malformed at byte 0" },
	};
	const struct folder *folder = *state;
	const struct suite suite = { .fields = "", .lists = xz_only };
	struct asking asking;

	prepare(folder, &asking);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		mirror_pack(folder, SUITE PACKAGES ".xz", cases[i].text);
		mirror_publish(folder, &suite);
		expect_failed(&asking, folder, -EPROTO, cases[i].part);
	}
	asking_done(&asking);
}

static void mirrors_without_the_suite_are_not_asked_again_at_once(void **state)
{
	const struct folder *folder = *state;
	const struct suite suite = { .fields = "", .lists = xz_only };
	struct asking asking;

	prepare(folder, &asking);
	expect_failed(&asking, folder, -EADDRNOTAVAIL, "Release");
	mirror_publish(folder, &suite);
	expect_failed(&asking, folder, -EADDRNOTAVAIL, "--refresh asks it again");
	asking.options.refresh = true;
	expect_kept(&asking, folder);
	asking_done(&asking);
}

/* A response with this file of the folder; the caller frees it. */
static char *response(const struct folder *folder, const char *path)
{
	_cleanup_free_ char *text = folder_read_text(folder, path);
	char *whole = NULL;

	assert_true(asprintf(&whole,
			    "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\nConnection: "
			    "close\r\n\r\n%s",
			    strlen(text), text) > 0);
	return whole;
}

static void mirrors_in_the_middle_of_an_update_are_asked_once_more(void **state)
{
	static const char *const lists[] = { PACKAGES, NULL };
	const struct folder *folder = *state;
	const struct suite suite = { .fields = "", .lists = lists };
	_cleanup_free_ char *old_head = NULL;
	_cleanup_free_ char *head = NULL;
	_cleanup_free_ char *list = NULL;
	_cleanup_free_ char *log = NULL;
	struct asking asking;
	struct server server = { .pid = 0 };

	prepare(folder, &asking);
	folder_write_text(folder, SUITE PACKAGES, "Package: old\n");
	mirror_publish(folder, &suite);
	old_head = response(folder, SUITE "InRelease");
	folder_write_text(folder, SUITE PACKAGES, packages);
	mirror_publish(folder, &suite);
	head = response(folder, SUITE "InRelease");
	list = response(folder, SUITE PACKAGES);
	server_start(folder, (const char *const[]){ old_head, list, head, list, NULL }, &server);
	asking.request.url = server.url;
	expect_kept(&asking, folder);
	server_stop(&server);
	log = folder_read_text(folder, "log");
	assert_contains(strstr(log, "/InRelease ") + 1, "/InRelease ");
	asking_done(&asking);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(lists_by_hash_and_by_name),
		folder_test(every_packing),
		folder_test(release_with_its_signature_apart),
		folder_test(lists_without_a_signature),
		folder_test(lists_of_another_suite_or_architecture),
		folder_test(lists_that_are_past_their_time),
		folder_test(wrong_lists),
		folder_test(malformed_lists),
		folder_test(mirrors_without_the_suite_are_not_asked_again_at_once),
		folder_test(mirrors_in_the_middle_of_an_update_are_asked_once_more),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
