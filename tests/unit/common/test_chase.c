/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/support.h"

#include <fcntl.h>
#include <limits.h>

#include "common/path.h"

static void expect(const struct folder *folder, const char *path, const char *wanted)
{
	_cleanup_free_ char *real = NULL;

	assert_int_equal(chase(folder->fd, path, &real), 0);
	assert_string_equal(real, wanted);
}

static void absolute_links_start_at_the_root(void **state)
{
	const struct folder *folder = *state;

	folder_write_text(folder, "usr/src/headers/Makefile", "");
	folder_subfolder(folder, "lib/modules/6.1");
	assert_int_equal(symlinkat("/usr/src/headers", folder->fd, "lib/modules/6.1/build"), 0);
	expect(folder, "lib/modules/6.1/build/Makefile", "usr/src/headers/Makefile");
	expect(folder, "/lib//modules/./6.1/build/", "usr/src/headers");
}

static void a_folder_is_a_root_of_its_own(void **state)
{
	const struct folder *folder = *state;
	_cleanup_free_ char *relative = NULL;
	_cleanup_free_ char *absolute = NULL;
	_cleanup_free_ char *own = NULL;
	_cleanup_free_ char *wanted = NULL;
	char top[PATH_MAX];
	char *none;

	folder_write_text(folder, "host/etc/file", "");
	assert_int_equal(symlinkat("/../etc/file", folder->fd, "host/link"), 0);
	assert_int_equal(chase_in(folder->fd, "host", "/link", &relative), 0);
	assert_string_equal(relative, "host/etc/file");
	(void) snprintf(top, sizeof(top), "%s/host", folder->path);
	assert_int_equal(chase_in(AT_FDCWD, top, "link", &absolute), 0);
	assert_true(asprintf(&wanted, "%s/etc/file", top) > 0);
	assert_string_equal(absolute, wanted);
	assert_int_equal(chase_in(folder->fd, "", "host/etc", &own), 0);
	assert_string_equal(own, "host/etc");
	assert_int_equal(chase_in(folder->fd, "none", "link", &none), -ENOENT);
}

static void nothing_leads_out(void **state)
{
	const struct folder *folder = *state;

	folder_write_text(folder, "file", "");
	assert_int_equal(symlinkat("../../../../file", folder->fd, "up"), 0);
	expect(folder, "up", "file");
	expect(folder, "../..", ".");
}

static void what_is_missing_or_goes_round_is_an_error(void **state)
{
	const struct folder *folder = *state;
	char *real;

	assert_int_equal(symlinkat("b", folder->fd, "a"), 0);
	assert_int_equal(symlinkat("a", folder->fd, "b"), 0);
	assert_int_equal(symlinkat("gone", folder->fd, "dangling"), 0);
	assert_int_equal(chase(folder->fd, "a", &real), -ELOOP);
	assert_int_equal(chase(folder->fd, "dangling", &real), -ENOENT);
	assert_int_equal(chase(folder->fd, "nothing", &real), -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(absolute_links_start_at_the_root),
		folder_test(a_folder_is_a_root_of_its_own),
		folder_test(nothing_leads_out),
		folder_test(what_is_missing_or_goes_round_is_an_error),
	};

	return cmocka_run_group_tests_name("chase", tests, NULL, NULL);
}
