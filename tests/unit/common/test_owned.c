/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/support.h"

#include "common/path.h"

#define NOBODY 65534

static int open_it(const struct folder *folder, const char *path, struct error *error)
{
	int fd = open_owned(folder->fd, path, O_RDONLY, error);

	if (fd >= 0)
		(void) close(fd);
	return fd < 0 ? fd : 0;
}

static void refuses(const struct folder *folder, const char *path, const char *why)
{
	struct error error = { 0 };

	assert_int_equal(open_it(folder, path, &error), -EPERM);
	assert_contains(error.text, why);
	assert_contains(error.text, path);
}

static void what_is_roots_is_opened(void **state)
{
	const struct folder *folder = *state;
	struct error error = { 0 };
	_cleanup_close_ int fd = -1;
	char text[8] = "";

	folder_write_text(folder, "a/b/file", "text");
	assert_int_equal(open_it(folder, "a/b", &error), 0);
	assert_int_equal(open_it(folder, "a/none", &error), -ENOENT);
	fd = open_owned(folder->fd, "a/b/file", O_RDONLY, &error);
	assert_true(fd >= 0);
	assert_int_equal(read(fd, text, sizeof(text) - 1), 4);
	assert_string_equal(text, "text");
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
}

static void no_link_is_followed(void **state)
{
	const struct folder *folder = *state;
	struct error error = { 0 };

	folder_write_text(folder, "a/b/file", "text");
	assert_int_equal(symlinkat("file", folder->fd, "a/b/link"), 0);
	assert_int_equal(symlinkat("b", folder->fd, "a/c"), 0);
	refuses(folder, "a/b/link", "symbolic link");
	refuses(folder, "a/c/file", "symbolic link");
	assert_int_equal(open_it(folder, "a/../a/b/file", &error), -EINVAL);
	assert_int_equal(open_it(folder, "", &error), -EINVAL);
}

static void what_others_may_write_to_is_refused_wherever_on_the_way(void **state)
{
	static const char *const parts[] = { ".", "a", "a/b", "a/b/file" };
	const struct folder *folder = *state;
	struct error error = { 0 };

	folder_write_text(folder, "a/b/file", "text");
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		struct stat before;

		assert_int_equal(fstatat(folder->fd, parts[i], &before, 0), 0);
		assert_int_equal(fchmodat(folder->fd, parts[i], 0775, 0), 0);
		refuses(folder, "a/b/file", "others than root may write");
		assert_int_equal(fchmodat(folder->fd, parts[i], 0757, 0), 0);
		refuses(folder, "a/b/file", "others than root may write");
		assert_int_equal(fchmodat(folder->fd, parts[i], before.st_mode & 07777, 0), 0);
	}
	/* As /tmp: who may add to it cannot replace what is root's. */
	assert_int_equal(fchmodat(folder->fd, "a", 01777, 0), 0);
	assert_int_equal(open_it(folder, "a/b/file", &error), 0);
	assert_int_equal(fchmodat(folder->fd, "a/b/file", 01666, 0), 0);
	refuses(folder, "a/b/file", "others than root may write");
}

static void what_is_anothers_is_refused(void **state)
{
	static const char *const parts[] = { "a", "a/file" };
	const struct folder *folder = *state;

	if (geteuid() != 0)
		skip(); /* only root can give files away */
	folder_write_text(folder, "a/file", "text");
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		assert_int_equal(fchownat(folder->fd, parts[i], NOBODY, 0, 0), 0);
		refuses(folder, "a/file", "belongs to the user 65534");
		assert_int_equal(fchownat(folder->fd, parts[i], 0, 0, 0), 0);
	}
}

static void pipes_are_not_opened(void **state)
{
	const struct folder *folder = *state;

	assert_int_equal(mkfifoat(folder->fd, "pipe", 0600), 0);
	refuses(folder, "pipe", "no regular file");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(what_is_roots_is_opened),
		folder_test(no_link_is_followed),
		folder_test(what_others_may_write_to_is_refused_wherever_on_the_way),
		folder_test(what_is_anothers_is_refused),
		folder_test(pipes_are_not_opened),
	};

	return cmocka_run_group_tests_name("owned", tests, NULL, NULL);
}
