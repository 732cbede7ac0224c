/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/support.h"

#include <fcntl.h>

#include "common/fs.h"
#include "common/path.h"

typedef int (*opener)(int dir_fd, const char *path, int flags);

static void make_links(const struct folder *folder)
{
	folder_write_text(folder, "in/here/file", "inside");
	folder_write_text(folder, "secret", "outside");
	assert_int_equal(symlinkat("here/file", folder->fd, "in/good"), 0);
	assert_int_equal(symlinkat(".", folder->fd, "in/dot"), 0);
	assert_int_equal(symlinkat("dot/dot/../../secret", folder->fd, "in/up"), 0);
	assert_int_equal(symlinkat("/here/file", folder->fd, "in/absolute"), 0);
	assert_int_equal(symlinkat("gone", folder->fd, "in/dangling"), 0);
	assert_int_equal(symlinkat("round", folder->fd, "in/round"), 0);
}

static void expect(opener open_it, int fd, const char *path, int wanted)
{
	_cleanup_close_ int got = open_it(fd, path, O_RDONLY);
	char text[16] = "";

	if (got < 0 || wanted < 0) {
		if (got != wanted)
			fail_msg("%s: %d, not %d", path, got, wanted);
		return;
	}
	assert_int_equal(read(got, text, sizeof(text) - 1), 6);
	assert_string_equal(text, "inside");
}

/* Both the kernel and the walk refuse. */
static void nothing_is_opened_outside(void **state)
{
	static const opener beneath[] = { open_beneath, open_beneath_by_walk };
	const struct folder *folder = *state;
	_cleanup_close_ int fd = -1;

	make_links(folder);
	fd = openat(folder->fd, "in", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (size_t i = 0; i < ARRAY_SIZE(beneath); i++) {
		expect(beneath[i], fd, "good", 0);
		expect(beneath[i], fd, "dot/dot/here/../good", 0);
		expect(beneath[i], fd, "up", -EXDEV);
		expect(beneath[i], fd, "../secret", -EXDEV);
		expect(beneath[i], fd, "here/../../secret", -EXDEV);
		expect(beneath[i], fd, "absolute", -EXDEV);
		expect(beneath[i], fd, "/here/file", -EXDEV);
		expect(beneath[i], fd, "dangling", -ENOENT);
		expect(beneath[i], fd, "round", -ELOOP);
	}
}

static void a_root_is_the_top_of_all_paths(void **state)
{
	static const opener in_root[] = { open_in_root, open_in_root_by_walk };
	const struct folder *folder = *state;
	_cleanup_close_ int fd = -1;

	make_links(folder);
	fd = openat(folder->fd, "in", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (size_t i = 0; i < ARRAY_SIZE(in_root); i++) {
		expect(in_root[i], fd, "absolute", 0);
		expect(in_root[i], fd, "../../here/file", 0);
		expect(in_root[i], fd, "up", -ENOENT);
		expect(in_root[i], fd, "dangling", -ENOENT);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(nothing_is_opened_outside),
		folder_test(a_root_is_the_top_of_all_paths),
	};

	return cmocka_run_group_tests_name("within", tests, NULL, NULL);
}
