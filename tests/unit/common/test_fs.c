/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/support.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "common/error.h"
#include "common/fs.h"

static void read_gives_content_size_and_terminator(void **state)
{
	const struct folder *folder = *state;
	_cleanup_free_ char *text = NULL;
	char data[10000];
	size_t size = 0;

	memset(data, 'x', sizeof(data));
	folder_write(folder, "file", data, sizeof(data));
	assert_int_equal(fs_read(folder->fd, "file", 0, &text, &size), 0);
	assert_int_equal(size, sizeof(data));
	assert_memory_equal(text, data, sizeof(data));
	assert_int_equal(text[size], '\0');
}

static void read_refuses_more_than_the_limit(void **state)
{
	const struct folder *folder = *state;
	_cleanup_free_ char *text = NULL;

	folder_write_text(folder, "file", "12345");
	assert_int_equal(fs_read(folder->fd, "file", 4, &text, NULL), -EFBIG);
	assert_null(text);
	assert_int_equal(fs_read(folder->fd, "file", 5, &text, NULL), 0);
}

static void read_works_for_files_without_a_size(void **state)
{
	_cleanup_free_ char *text = NULL;

	(void) state;
	assert_int_equal(fs_read(AT_FDCWD, "/proc/self/status", 0, &text, NULL), 0);
	assert_contains(text, "Pid:");
}

static void read_reports_what_is_missing(void **state)
{
	const struct folder *folder = *state;
	char *text = NULL;

	assert_int_equal(fs_read(folder->fd, "absent", 0, &text, NULL), -ENOENT);
	assert_int_equal(fs_read(folder->fd, ".", 0, &text, NULL), -EISDIR);
	assert_null(text);
}

/* Nobody writes to the FIFO: a test that hangs here has failed. */
static void what_is_no_file_is_refused_and_not_waited_for(void **state)
{
	const struct folder *folder = *state;
	_cleanup_close_ int socket_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_un named = { .sun_family = AF_UNIX };
	struct error error = { 0 };
	char *text = NULL;

	assert_int_equal(mkfifoat(folder->fd, "fifo", 0600), 0);
	assert_int_equal(symlinkat("fifo", folder->fd, "link"), 0);
	(void) snprintf(
		named.sun_path, sizeof(named.sun_path), "/proc/self/fd/%d/socket", folder->fd);
	assert_int_equal(bind(socket_fd, (struct sockaddr *) &named, sizeof(named)), 0);
	assert_int_equal(fs_open(folder->fd, "fifo", O_RDONLY), -ESPIPE);
	assert_int_equal(fs_open(folder->fd, "socket", O_RDONLY), -ESPIPE);
	assert_int_equal(fs_open(folder->fd, "/dev/zero", O_RDONLY), -ESPIPE);
	assert_int_equal(fs_open(folder->fd, ".", O_RDONLY), -EISDIR);
	assert_int_equal(fs_open(folder->fd, "absent", O_RDONLY), -ENOENT);
	assert_int_equal(fs_read(folder->fd, "link", 0, &text, NULL), -ESPIPE);
	assert_int_equal(fs_read_line(folder->fd, "link", &text), -ESPIPE);
	assert_int_equal(copy_apart(folder->fd, "fifo", folder->fd, "copy"), -ESPIPE);
	assert_null(text);
	(void) error_set_errno(&error, -ESPIPE, "x");
	assert_string_equal(error.text, "x: a FIFO, device or socket, not a file");
}

/* As an administrator empties a file of configuration. */
static void the_null_device_is_an_empty_file(void **state)
{
	_cleanup_free_ char *text = NULL;

	(void) state;
	assert_int_equal(fs_read(AT_FDCWD, "/dev/null", 0, &text, NULL), 0);
	assert_string_equal(text, "");
}

static void what_is_closed_by_hand_is_not_closed_again(void **state)
{
	const struct folder *folder = *state;
	int fd = openat(folder->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fdopendir(dup(fd));
	FILE *file = fdopen(dup(fd), "r");

	assert_true(fd >= 0 && dir && file);
	errno = EXDEV;
	cleanup_close(&fd);
	cleanup_closedir(&dir);
	cleanup_fclose(&file);
	assert_int_equal(errno, EXDEV);
	assert_int_equal(fd, -1);
	assert_null(dir);
	assert_null(file);
	cleanup_close(&fd);
	cleanup_closedir(&dir);
	cleanup_fclose(&file);
}

static void read_line_cuts_white_space_at_the_end_only(void **state)
{
	const struct folder *folder = *state;
	_cleanup_free_ char *line = NULL;
	_cleanup_free_ char *empty = NULL;

	folder_write_text(folder, "file", "  live \t\r\n\n");
	assert_int_equal(fs_read_line(folder->fd, "file", &line), 0);
	assert_string_equal(line, "  live");
	folder_write_text(folder, "empty", "\n");
	assert_int_equal(fs_read_line(folder->fd, "empty", &empty), 0);
	assert_string_equal(empty, "");
}

static void write_atomic_replaces_and_leaves_nothing_beside(void **state)
{
	const struct folder *folder = *state;
	_cleanup_strv_ struct strv names = { 0 };
	_cleanup_free_ char *text = NULL;
	struct stat status;

	folder_write_text(folder, "file", "a longer old content");
	assert_int_equal(fs_write_atomic(folder->fd, "file", "new", 3, 0600), 0);
	text = folder_read_text(folder, "file");
	assert_string_equal(text, "new");
	assert_int_equal(fstatat(folder->fd, "file", &status, 0), 0);
	assert_int_equal(status.st_mode & 0777, 0600);
	assert_int_equal(fs_list(folder->fd, ".", &names), 0);
	assert_int_equal(names.count, 1);
}

/* Another container's run may have our process ID: what it is writing is not ours. */
static void write_atomic_leaves_anothers_temporary_file_alone(void **state)
{
	const struct folder *folder = *state;
	_cleanup_free_ char *text = NULL;
	char name[64];

	(void) snprintf(name, sizeof(name), "file.%d.tmp", (int) getpid());
	folder_write_text(folder, name, "another's");
	assert_int_equal(fs_write_atomic(folder->fd, "file", "new", 3, 0600), 0);
	text = folder_read_text(folder, name);
	assert_string_equal(text, "another's");
}

static void write_atomic_replaces_a_link_not_its_target(void **state)
{
	const struct folder *folder = *state;
	_cleanup_free_ char *text = NULL;

	folder_write_text(folder, "target", "kept");
	assert_int_equal(symlinkat("target", folder->fd, "link"), 0);
	assert_int_equal(fs_write_atomic(folder->fd, "link", "new", 3, 0644), 0);
	text = folder_read_text(folder, "target");
	assert_string_equal(text, "kept");
}

static void write_atomic_fails_without_leaving_a_temporary_file(void **state)
{
	const struct folder *folder = *state;
	_cleanup_strv_ struct strv names = { 0 };

	assert_int_equal(mkdirat(folder->fd, "folder", 0755), 0);
	assert_int_equal(fs_write_atomic(folder->fd, "folder", "x", 1, 0644), -EISDIR);
	assert_int_equal(fs_write_atomic(folder->fd, "absent/file", "x", 1, 0644), -ENOENT);
	assert_int_equal(fs_list(folder->fd, ".", &names), 0);
	assert_int_equal(names.count, 1);
}

static void mkdir_parents_makes_the_chain_and_accepts_it(void **state)
{
	const struct folder *folder = *state;
	_cleanup_free_ char *absolute = NULL;

	assert_int_equal(fs_mkdir_parents(folder->fd, "a/b/c", 0755), 0);
	assert_int_equal(fs_mkdir_parents(folder->fd, "a/b/c", 0755), 0);
	assert_true(fs_exists(folder->fd, "a/b/c"));
	assert_true(asprintf(&absolute, "%s/x/y", folder->path) > 0);
	assert_int_equal(fs_mkdir_parents(AT_FDCWD, absolute, 0755), 0);
	assert_true(fs_exists(folder->fd, "x/y"));
}

static void mkdir_parents_does_not_go_through_a_file(void **state)
{
	const struct folder *folder = *state;

	folder_write_text(folder, "file", "");
	assert_int_equal(fs_mkdir_parents(folder->fd, "file/b", 0755), -ENOTDIR);
}

static void remove_tree_takes_all_but_what_links_point_to(void **state)
{
	const struct folder *folder = *state;

	assert_int_equal(fs_mkdir_parents(folder->fd, "outside", 0755), 0);
	folder_write_text(folder, "outside/kept", "");
	assert_int_equal(fs_mkdir_parents(folder->fd, "tree/a/b", 0755), 0);
	folder_write_text(folder, "tree/a/b/file", "");
	assert_int_equal(symlinkat("../outside", folder->fd, "tree/link"), 0);
	assert_int_equal(symlinkat("nowhere", folder->fd, "tree/dangling"), 0);
	assert_int_equal(fs_remove_tree(folder->fd, "tree"), 0);
	assert_false(fs_exists(folder->fd, "tree"));
	assert_true(fs_exists(folder->fd, "outside/kept"));
}

static void remove_tree_accepts_absence_and_removes_a_link_itself(void **state)
{
	const struct folder *folder = *state;

	assert_int_equal(fs_remove_tree(folder->fd, "absent"), 0);
	assert_int_equal(fs_mkdir_parents(folder->fd, "kept", 0755), 0);
	assert_int_equal(symlinkat("kept", folder->fd, "link"), 0);
	assert_int_equal(fs_remove_tree(folder->fd, "link"), 0);
	assert_false(fs_exists(folder->fd, "link"));
	assert_true(fs_exists(folder->fd, "kept"));
}

static void remove_tree_keeps_what_is_mounted_in_it(void **state)
{
	const struct folder *folder = *state;

	assert_int_equal(fs_mkdir_parents(folder->fd, "tree/mounted", 0755), 0);
	/* A user name space where we are not allowed to mount as we are. */
	assert_true(unshare(CLONE_NEWNS) == 0 || unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0);
	/* From here on by the path: the descriptor shows the old name space's mounts. */
	assert_int_equal(chdir(folder->path), 0);
	assert_int_equal(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
	assert_int_equal(mount("test", "tree/mounted", "tmpfs", 0, NULL), 0);
	assert_int_equal(fs_mkdir_parents(AT_FDCWD, "tree/mounted/kept", 0755), 0);
	assert_int_equal(fs_remove_tree(AT_FDCWD, "tree"), -EBUSY);
	assert_true(fs_exists(AT_FDCWD, "tree/mounted/kept"));
	assert_int_equal(umount("tree/mounted"), 0);
	assert_int_equal(fs_remove_tree(AT_FDCWD, "tree"), 0);
	assert_int_equal(chdir("/"), 0);
}

static void exists_sees_a_dangling_link(void **state)
{
	const struct folder *folder = *state;

	assert_int_equal(symlinkat("nowhere", folder->fd, "dangling"), 0);
	assert_true(fs_exists(folder->fd, "dangling"));
	assert_false(fs_exists(folder->fd, "nowhere"));
}

static void list_is_sorted_and_appends(void **state)
{
	const struct folder *folder = *state;
	_cleanup_strv_ struct strv names = { 0 };

	folder_write_text(folder, "b", "");
	folder_write_text(folder, "a", "");
	folder_write_text(folder, ".hidden", "");
	assert_int_equal(fs_list(folder->fd, ".", &names), 0);
	assert_int_equal(names.count, 3);
	assert_string_equal(names.items[0], ".hidden");
	assert_string_equal(names.items[1], "a");
	assert_int_equal(fs_list(folder->fd, "absent", &names), -ENOENT);
	assert_int_equal(fs_list(folder->fd, "a", &names), -ENOTDIR);
}

static void sync_takes_files_and_folders(void **state)
{
	const struct folder *folder = *state;

	folder_write_text(folder, "a/b", "text");
	assert_int_equal(fs_sync(folder->fd, "a/b"), 0);
	assert_int_equal(fs_sync(folder->fd, "a"), 0);
	assert_int_equal(fs_sync(folder->fd, "."), 0);
	assert_int_equal(fs_sync(folder->fd, "absent"), -ENOENT);
}

static void list_tree_has_all_but_folders(void **state)
{
	const struct folder *folder = *state;
	_cleanup_strv_ struct strv paths = { 0 };

	assert_int_equal(fs_mkdir_parents(folder->fd, "tree/b/empty", 0755), 0);
	folder_write_text(folder, "tree/c", "");
	folder_write_text(folder, "tree/b/file", "");
	assert_int_equal(symlinkat("../tree", folder->fd, "tree/a"), 0);
	assert_int_equal(fs_list_tree(folder->fd, "tree", &paths), 0);
	assert_int_equal(paths.count, 3);
	assert_string_equal(paths.items[0], "tree/a");
	assert_string_equal(paths.items[1], "tree/b/file");
	assert_string_equal(paths.items[2], "tree/c");
	assert_int_equal(fs_list_tree(folder->fd, "absent", &paths), -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(read_gives_content_size_and_terminator),
		folder_test(read_refuses_more_than_the_limit),
		cmocka_unit_test(read_works_for_files_without_a_size),
		folder_test(read_reports_what_is_missing),
		folder_test(what_is_no_file_is_refused_and_not_waited_for),
		cmocka_unit_test(the_null_device_is_an_empty_file),
		folder_test(what_is_closed_by_hand_is_not_closed_again),
		folder_test(read_line_cuts_white_space_at_the_end_only),
		folder_test(write_atomic_replaces_and_leaves_nothing_beside),
		folder_test(write_atomic_leaves_anothers_temporary_file_alone),
		folder_test(write_atomic_replaces_a_link_not_its_target),
		folder_test(write_atomic_fails_without_leaving_a_temporary_file),
		folder_test(mkdir_parents_makes_the_chain_and_accepts_it),
		folder_test(mkdir_parents_does_not_go_through_a_file),
		folder_test(remove_tree_takes_all_but_what_links_point_to),
		folder_test(remove_tree_accepts_absence_and_removes_a_link_itself),
		folder_test(remove_tree_keeps_what_is_mounted_in_it),
		folder_test(exists_sees_a_dangling_link),
		folder_test(list_is_sorted_and_appends),
		folder_test(list_tree_has_all_but_folders),
		folder_test(sync_takes_files_and_folders),
	};

	return cmocka_run_group_tests_name("fs", tests, NULL, NULL);
}
