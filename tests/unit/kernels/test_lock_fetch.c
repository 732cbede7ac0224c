/* SPDX-License-Identifier: Apache-2.0 */
/* Tests which packages have to carry a signature of their own, and that caches do not forget it. */
#include "tests/unit/support.h"

#include <fcntl.h>

#include "kernels/resolve/lock_fetch.h"

#define CONTENT "0123456789"
#define SHA256  "84d89877f0d4041efb6bf91a16f0248f2fd573e6af05c19f96bedb9f882f7882"

static struct repository repositories[] = {
	{ .name = (char[]){ "signed-list" }, .trust = TRUST_INDEX },
	{ .name = (char[]){ "signed-packages" }, .trust = TRUST_PACKAGES },
};
static const struct catalogue os = {
	.os = (char[]){ "rocky9" },
	.repositories = repositories,
	.repository_count = ARRAY_SIZE(repositories),
};
static const struct mirrors no_mirrors = { 0 };

struct question {
	char repository[32];
	char file[32];
	bool trusted;
	bool allow_unsigned;
};

static struct lock_package package_of(const struct question *question, char *url)
{
	static char name[] = "kernel-devel", version[] = "1-1", arch[] = "x86_64",
		    purpose[] = LOCK_HEADERS, sha256[] = SHA256;

	return (struct lock_package){ .name = name,
		.version = version,
		.architecture = arch,
		.purpose = purpose,
		.repository = (char *) (uintptr_t) question->repository,
		.url = url,
		.sha256 = sha256,
		.size_bytes = 10 };
}

static int fetch(const struct folder *folder, const struct question *question, struct error *error)
{
	const struct download_options options = { .offline = true, .attempts = 1 };
	_cleanup_(download_close) struct download *download = NULL;
	_cleanup_(store_close) struct store store = { .fd = -1 };
	_cleanup_free_ char *url = NULL;
	struct lock_package package;
	const struct lock lock = { .packages = &package, .count = 1 };
	struct fetch request = { .store = &store,
		.os = &os,
		.mirrors = &no_mirrors,
		.scratch_fd = folder->fd,
		.trusted = question->trusted,
		.allow_unsigned = question->allow_unsigned };

	folder_write_text(folder, question->file, CONTENT);
	assert_int_equal(store_open(folder->fd, "blobs", &store, error), 0);
	download = download_open(&options);
	assert_true(asprintf(&url, "file:%s/%s", folder->path, question->file) > 0);
	package = package_of(question, url);
	request.download = download;
	return fetch_packages(&request, &lock, NULL, NULL, NULL, error);
}

static void the_repository_is_unknown(void **state)
{
	static const char *const names[] = { "", "appstream2", "SIGNED-PACKAGES" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		struct question question = { .file = "a.rpm" };
		struct error error = { 0 };

		(void) snprintf(question.repository, sizeof(question.repository), "%s", names[i]);
		assert_int_equal(fetch(*state, &question, &error), -EKEYREJECTED);
		assert_contains(error.text, "which is not in the catalogue of rocky9");
		assert_contains(error.text, "--keyring");
		question.trusted = true;
		assert_int_equal(fetch(*state, &question, &error), 0);
	}
}

static void only_where_the_list_is_not_signed(void **state)
{
	const struct question list = { .repository = "signed-list", .file = "a.rpm" };
	const struct question packages = { .repository = "signed-packages", .file = "a.rpm" };
	const struct question deb = { .repository = "", .file = "a.deb" };
	struct error error = { 0 };

	assert_int_equal(fetch(*state, &list, &error), 0);
	assert_int_equal(fetch(*state, &deb, &error), 0);
	assert_int_equal(fetch(*state, &packages, &error), -EBADMSG);
}

static void key_of(const struct question *question, char hex[HASH_HEX_SIZE])
{
	char url[] = "http://x.example/a.rpm";
	const struct lock_package package = package_of(question, url);
	const struct fetch request = {
		.os = &os, .trusted = question->trusted, .allow_unsigned = question->allow_unsigned
	};
	struct hash *hash = hash_new();

	assert_non_null(hash);
	fetch_add_trust(&request, &package, hash);
	hash_finish(hash, hex);
}

static void what_was_not_checked_has_another_key(void **state)
{
	struct question question = { .repository = "signed-packages" };
	char strict[HASH_HEX_SIZE], loose[HASH_HEX_SIZE], bundle[HASH_HEX_SIZE];

	(void) state;
	key_of(&question, strict);
	question.allow_unsigned = true;
	key_of(&question, loose);
	question.trusted = true;
	key_of(&question, bundle);
	assert_string_not_equal(strict, loose);
	assert_string_not_equal(strict, bundle);
	assert_string_not_equal(loose, bundle);
	(void) snprintf(question.repository, sizeof(question.repository), "signed-list");
	key_of(&question, strict);
	question.trusted = question.allow_unsigned = false;
	key_of(&question, loose);
	assert_string_equal(strict, loose);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(the_repository_is_unknown),
		folder_test(only_where_the_list_is_not_signed),
		cmocka_unit_test(what_was_not_checked_has_another_key),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
