/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/support.h"

#include "kernels/lock.h"

#define _cleanup_lock_ _cleanup_(lock_free)

static void add(struct lock *lock, const char *name, const char *version)
{
	struct lock_package package = {
		.name = strdup(name),
		.version = strdup(version),
		.architecture = strdup("amd64"),
		.purpose = strdup(LOCK_HEADERS),
		.url = strdup("http://mirror.example/a+b.deb"),
		.sha256 = strdup("00ff"),
		.size_bytes = 5000000000,
	};

	assert_int_equal(lock_add(lock, &package), 0);
	assert_null(package.name);
}

static void make_lock(struct lock *lock)
{
	lock->krel = strdup("6.1.0-56-amd64");
	lock->os = strdup("debian12");
	lock->arch = strdup("amd64");
	lock->compiler = strdup("gcc-12");
	add(lock, "linux-kbuild-6.1", "6.1.192-2");
	add(lock, "linux-headers-6.1.0-56-amd64", "6.1.192-2");
}

static void packages_are_sorted_by_name(void **state)
{
	_cleanup_lock_ struct lock lock = { 0 };

	(void) state;
	make_lock(&lock);
	assert_string_equal(lock.packages[0].name, "linux-headers-6.1.0-56-amd64");
	assert_string_equal(lock_find(&lock, LOCK_HEADERS)->name, lock.packages[0].name);
	assert_null(lock_find(&lock, LOCK_MODULES));
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
	assert_int_equal(again.count, 2);
	assert_int_equal(again.packages[1].size_bytes, 5000000000);
	second = lock_write(&again);
	assert_string_equal(second, text);
}

static void expect_refusal(const char *text, const char *why)
{
	struct lock lock = { 0 };
	struct error error = { 0 };

	assert_int_equal(lock_read(text, &lock, &error), -EBADMSG);
	assert_contains(error.text, why);
	assert_null(lock.krel);
}

static void a_broken_lock_is_refused_with_the_field(void **state)
{
	(void) state;
	expect_refusal("", "no JSON");
	expect_refusal("{\"schema\":2,\"packages\":[]}", "\"schema\" is not 1");
	expect_refusal("{\"schema\":1}", "\"packages\"");
	expect_refusal("{\"schema\":1,\"packages\":[]}", "\"arch\"");
	expect_refusal("{\"schema\":1,\"packages\":[{\"name\":\"a\"}],\"arch\":\"amd64\","
		       "\"compiler\":\"gcc\",\"krel\":\"6\",\"os\":\"x\"}",
		"\"architecture\"");
	expect_refusal("{\"schema\":1,\"packages\":[7],\"arch\":\"amd64\","
		       "\"compiler\":\"gcc\",\"krel\":\"6\",\"os\":\"x\"}",
		"\"architecture\"");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(packages_are_sorted_by_name),
		cmocka_unit_test(what_is_written_is_read_back),
		cmocka_unit_test(a_broken_lock_is_refused_with_the_field),
	};

	return cmocka_run_group_tests_name("lock", tests, NULL, NULL);
}
