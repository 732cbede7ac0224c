/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/support.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/cache/cache.h"
#include "common/fs.h"

#define KEY "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static void open_cache(const struct folder *folder, struct cache *cache)
{
	struct error error = { 0 };

	assert_int_equal(cache_open(folder->path, cache, &error), 0);
}

/* The list in a run's folder clears what the run left outside, so the folder must still exist. */
static void clear(const char *run_path)
{
	_cleanup_free_ char *path = NULL;

	assert_true(fs_exists(AT_FDCWD, run_path));
	assert_true(asprintf(&path, "%s/../../cleared", run_path) > 0);
	assert_int_equal(fs_write_atomic(AT_FDCWD, path, "", 0, 0644), 0);
}

static void start(struct cache *cache)
{
	struct error error = { 0 };

	assert_int_equal(cache_start_run(cache, clear, &error), 0);
}

static void each_run_has_a_folder_that_lives_as_long_as_it(void **state)
{
	const struct folder *folder = *state;
	_cleanup_(cache_close) struct cache first = { .fd = -1, .run_lock_fd = -1 };
	_cleanup_(cache_close) struct cache second = { .fd = -1, .run_lock_fd = -1 };
	_cleanup_(cache_close) struct cache third = { .fd = -1, .run_lock_fd = -1 };

	open_cache(folder, &first);
	open_cache(folder, &second);
	open_cache(folder, &third);
	start(&first);
	start(&second);
	assert_string_not_equal(first.run_path, second.run_path);
	assert_true(fs_exists(AT_FDCWD, first.run_path));
	assert_false(fs_exists(folder->fd, "cleared"));

	/* A killed run's lock goes with its process. */
	cleanup_close(&first.run_lock_fd);
	first.run_lock_fd = -1;
	start(&third);
	assert_true(fs_exists(folder->fd, "cleared"));
	assert_false(fs_exists(AT_FDCWD, first.run_path));
	assert_true(fs_exists(AT_FDCWD, second.run_path));
	cache_end_run(&second);
	assert_false(fs_exists(AT_FDCWD, second.run_path));
}

static char *make_output(const struct cache *cache, const char *text)
{
	_cleanup_free_ char *file = NULL;
	char *path = NULL;

	assert_int_equal(cache_new_folder(cache, "kernel", &path), 0);
	assert_true(asprintf(&file, "%s/file", path) > 0);
	assert_int_equal(fs_write_atomic(AT_FDCWD, file, text, strlen(text), 0644), 0);
	return path;
}

static void expect_output(const char *output, const char *text)
{
	_cleanup_free_ char *file = NULL;
	_cleanup_free_ char *found = NULL;

	assert_true(asprintf(&file, "%s/file", output) > 0);
	assert_int_equal(fs_read(AT_FDCWD, file, 0, &found, NULL), 0);
	assert_string_equal(found, text);
}

static void an_output_that_is_there_stays_unless_it_is_set_aside(void **state)
{
	const struct folder *folder = *state;
	_cleanup_(cache_close) struct cache cache = { .fd = -1, .run_lock_fd = -1 };
	_cleanup_free_ char *output = NULL;
	_cleanup_free_ char *first = NULL;
	_cleanup_free_ char *second = NULL;

	open_cache(folder, &cache);
	start(&cache);
	output = cache_output_path(&cache, "kernel", KEY);
	assert_int_equal(cache_set_aside(&cache, output), 0);
	first = make_output(&cache, "first");
	assert_int_equal(cache_keep(first, output), 0);
	second = make_output(&cache, "second");
	assert_int_equal(cache_keep(second, output), 0);
	expect_output(output, "first");
	assert_int_equal(cache_set_aside(&cache, output), 0);
	assert_false(fs_exists(AT_FDCWD, output));
	assert_int_equal(cache_keep(second, output), 0);
	expect_output(output, "second");
	/* Or it is replaced, and there at each moment. */
	free(first);
	first = make_output(&cache, "first");
	assert_int_equal(cache_replace(&cache, first, output), 0);
	expect_output(output, "first");
	assert_int_equal(cache_set_aside(&cache, output), 0);
	free(second);
	second = make_output(&cache, "second");
	assert_int_equal(cache_replace(&cache, second, output), 0);
	expect_output(output, "second");
}

/* Scripts that make reproducible trees date all of them, also the folder that they were given. */
static void an_output_counts_as_used_when_it_is_kept(void **state)
{
	const struct folder *folder = *state;
	_cleanup_(cache_close) struct cache cache = { .fd = -1, .run_lock_fd = -1 };
	const struct timespec epoch[2] = { { 0 }, { 0 } };
	_cleanup_free_ char *output = NULL;
	_cleanup_free_ char *made = NULL;
	struct stat status;

	open_cache(folder, &cache);
	start(&cache);
	output = cache_output_path(&cache, "ofed-source", KEY);
	made = make_output(&cache, "source");
	assert_int_equal(utimensat(AT_FDCWD, made, epoch, 0), 0);
	assert_int_equal(cache_keep(made, output), 0);
	assert_int_equal(stat(output, &status), 0);
	assert_true(status.st_mtime + 60 > time(NULL));
}

/* A prune that has found it unused holds the lock until it is renamed: it is marked afterwards. */
static void what_ccache_keeps_is_marked_as_used_when_no_prune_is_at_it(void **state)
{
	const struct folder *folder = *state;
	_cleanup_(cache_close) struct cache cache = { .fd = -1, .run_lock_fd = -1 };
	const struct timespec while_it_waits = { .tv_nsec = 200000000 };
	_cleanup_free_ char *path = NULL;
	int status = -1;
	int fd;
	pid_t pid;

	open_cache(folder, &cache);
	fd = openat(cache.fd, "locks/tidy", O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	assert_true(fd >= 0 && flock(fd, LOCK_EX) == 0);
	pid = fork();
	if (pid == 0)
		_exit(cache_compiled_folder(&cache, &path) == 0 ? 0 : 1);
	(void) nanosleep(&while_it_waits, NULL);
	assert_false(fs_exists(cache.fd, "compiled"));
	assert_int_equal(flock(fd, LOCK_UN), 0);
	(void) close(fd);
	assert_true(waitpid(pid, &status, 0) == pid && status == 0);
	assert_true(fs_exists(cache.fd, "compiled/ccache"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(each_run_has_a_folder_that_lives_as_long_as_it),
		folder_test(an_output_that_is_there_stays_unless_it_is_set_aside),
		folder_test(an_output_counts_as_used_when_it_is_kept),
		folder_test(what_ccache_keeps_is_marked_as_used_when_no_prune_is_at_it),
	};

	return cmocka_run_group_tests_name("cache", tests, NULL, NULL);
}
