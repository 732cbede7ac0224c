/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/support.h"

#include "kernels/resolve/lock.h"

#define _cleanup_lock_ _cleanup_(lock_free)

#define SHA "00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff"

static void add(struct lock *lock, const char *name, const char *version)
{
	struct lock_package package = {
		.name = strdup(name),
		.version = strdup(version),
		.architecture = strdup("amd64"),
		.purpose = strdup(LOCK_HEADERS),
		.repository = strdup("main"),
		.url = strdup("http://mirror.example/a+b.deb"),
		.sha256 = strdup(SHA),
		.size_bytes = 5000000000,
	};

	lock_add(lock, &package);
	assert_null(package.name);
}

static void add_repository(struct lock *lock, const char *name)
{
	struct lock_repository repository = {
		.name = strdup(name),
		.url = strdup("http://mirror.example"),
		.suite = strdup("bookworm"),
		.release_sha256 = strdup(SHA),
		.date = strdup("Sat, 10 Oct 2026 10:00:00 UTC"),
		.signer = strdup("0123456789ABCDEF"),
	};

	lock_add_repository(lock, &repository);
	assert_null(repository.name);
}

static void make_lock(struct lock *lock)
{
	struct lock_local local = {
		.kind = strdup("tarball"),
		.name = strdup("headers.tar.xz"),
		.sha256 = strdup(SHA),
	};

	lock->krel = strdup("6.1.0-56-amd64");
	lock->os = strdup("debian12");
	lock->arch = strdup("x86_64");
	lock->compiler = strdup("gcc-12");
	lock->compiler_evidence = strdup("a package says so");
	add(lock, "linux-kbuild-6.1", "6.1.192-2");
	add(lock, "linux-headers-6.1.0-56-amd64", "6.1.192-2");
	add_repository(lock, "security");
	add_repository(lock, "main");
	add_repository(lock, "main");
	lock_add_local(lock, &local);
}

static void lists_are_sorted_by_name(void **state)
{
	_cleanup_lock_ struct lock lock = { 0 };

	(void) state;
	make_lock(&lock);
	assert_string_equal(lock.packages[0].name, "linux-headers-6.1.0-56-amd64");
	assert_string_equal(lock_find(&lock, LOCK_HEADERS)->name, lock.packages[0].name);
	assert_null(lock_find(&lock, LOCK_MODULES));
	assert_string_equal(lock_find_name(&lock, "linux-kbuild-6.1")->version, "6.1.192-2");
	assert_null(lock_find_name(&lock, "linux-kbuild"));
	assert_int_equal(lock.repository_count, 2);
	assert_string_equal(lock.repositories[0].name, "main");
}

static void what_is_written_is_read_back(void **state)
{
	_cleanup_lock_ struct lock lock = { 0 };
	_cleanup_lock_ struct lock again = { 0 };
	_cleanup_free_ char *text = NULL;
	_cleanup_free_ char *second = NULL;
	struct error error = { 0 };

	(void) state;
	make_lock(&lock);
	text = lock_write(&lock);
	assert_non_null(text);
	assert_contains(text, "\"url\":\"http://mirror.example/a+b.deb\"");
	assert_int_equal(lock_read(text, &again, &error), 0);
	assert_string_equal(again.compiler, "gcc-12");
	assert_string_equal(again.compiler_evidence, "a package says so");
	assert_int_equal(again.count, 2);
	assert_int_equal(again.packages[1].size_bytes, 5000000000);
	assert_string_equal(again.kernel_from[0].name, "headers.tar.xz");
	assert_string_equal(again.repositories[1].signer, "0123456789ABCDEF");
	second = lock_write(&again);
	assert_string_equal(second, text);
}

/* As a user may have changed it: in another order, with a repository twice, one without a URL. */
static void what_is_read_is_sorted(void **state)
{
	_cleanup_lock_ struct lock lock = { 0 };
	_cleanup_lock_ struct lock again = { 0 };
	_cleanup_free_ char *text = NULL;
	struct lock_package package;
	struct lock_repository repository;
	struct error error = { 0 };

	(void) state;
	make_lock(&lock);
	add_repository(&lock, "z");
	free(lock.repositories[0].url);
	lock.repositories[0].url = strdup("");
	free(lock.repositories[2].name);
	lock.repositories[2].name = strdup("security");
	free(lock.repositories[2].suite);
	lock.repositories[2].suite = strdup("the second");
	repository = lock.repositories[0];
	lock.repositories[0] = lock.repositories[1];
	lock.repositories[1] = repository;
	package = lock.packages[0];
	lock.packages[0] = lock.packages[1];
	lock.packages[1] = package;
	text = lock_write(&lock);
	assert_int_equal(lock_read(text, &again, &error), 0);
	assert_string_equal(again.packages[0].name, "linux-headers-6.1.0-56-amd64");
	assert_int_equal(again.repository_count, 2);
	assert_string_equal(again.repositories[0].name, "main");
	assert_string_equal(again.repositories[0].url, "");
	assert_string_equal(again.repositories[1].suite, "bookworm");
}

static void expect_refusal(const char *text, const char *why)
{
	struct lock lock = { 0 };
	struct error error = { 0 };

	assert_int_equal(lock_read(text, &lock, &error), -EBADMSG);
	assert_contains(error.text, why);
	assert_null(lock.krel);
}

/* A good lock with its first @old replaced. */
static void expect_refusal_of(const char *old, const char *new, const char *why)
{
	_cleanup_lock_ struct lock lock = { 0 };
	_cleanup_free_ char *text = NULL;
	_cleanup_free_ char *changed = NULL;
	char *place;

	make_lock(&lock);
	text = lock_write(&lock);
	place = strstr(text, old);
	assert_non_null(place);
	assert_true(asprintf(&changed, "%.*s%s%s", (int) (place - text), text, new,
			    place + strlen(old)) > 0);
	expect_refusal(changed, why);
}

static void a_lock_of_another_schema_has_a_cure(void **state)
{
	struct lock lock = { 0 };
	struct error error = { 0 };

	(void) state;
	assert_int_equal(lock_read("{\"schema\":1}", &lock, &error), -EBADMSG);
	assert_string_equal(error.text, "\"schema\" is not 2");
	assert_string_equal(error.lines, "try: make a new lock: slipway resolve -o FILE\n");
}

static void a_broken_lock_is_refused_with_the_field(void **state)
{
	(void) state;
	expect_refusal("", "no JSON");
	expect_refusal("null", "no JSON: it is null");
	expect_refusal("[]", "not an object");
	expect_refusal("{\"schema\":1,\"packages\":[]}", "\"schema\" is not 2");
	expect_refusal("{\"schema\":2}", "\"arch\"");
	expect_refusal_of("\"krel\":\"6.1.0", "\"krel\":\"$(reboot)", "not a kernel release");
	expect_refusal_of("\"os\":\"debian12\"", "\"os\":\"../x\"", "without a slash");
	expect_refusal_of("\"compiler\":{", "\"other\":{", "compiler: \"evidence\" is missing");
	expect_refusal_of("\"sha256\":\"00ff", "\"sha256\":\"../f", "hex digits");
	expect_refusal_of("\"sha256\":\"00ff", "\"sha256\":\"00FF", "hex digits");
	expect_refusal_of("5000000000", "-1", "\"size_bytes\"");
	expect_refusal_of("5000000000", "\"7\"", "\"size_bytes\"");
	expect_refusal_of("\"packages\":[", "\"packages\":[7,", "\"packages\"[0] is no object");
	expect_refusal_of("\"repositories\":[", "\"else\":[", "\"repositories\"");
	expect_refusal_of("\"kind\":\"tarball\",", "", "\"kind\"");
	expect_refusal_of("linux-headers", "a\\u0000b", "zero byte");
}

static void a_file_is_named_in_messages(void **state)
{
	struct folder *folder = *state;
	struct lock lock = { 0 };
	struct error error = { 0 };

	folder_write_text(folder, "lock.json", "{");
	assert_int_equal(lock_read_file(folder->fd, "lock.json", &lock, &error), -EBADMSG);
	assert_contains(error.text, "lock lock.json: no JSON");
	assert_int_equal(lock_read_file(folder->fd, "none.json", &lock, &error), -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lists_are_sorted_by_name),
		cmocka_unit_test(what_is_written_is_read_back),
		cmocka_unit_test(what_is_read_is_sorted),
		cmocka_unit_test(a_lock_of_another_schema_has_a_cure),
		cmocka_unit_test(a_broken_lock_is_refused_with_the_field),
		folder_test(a_file_is_named_in_messages),
	};

	return cmocka_run_group_tests_name("lock", tests, NULL, NULL);
}
