/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The export of the driver root, in a mount name space of the test's own: a shared folder, a peer
 * of it as the host is one, and a slave as an operand's container has it. The kernel that the test
 * runs on is the one that is tried; tests/vm tries others.
 */
#include "tests/unit/support.h"

#include <limits.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/fs.h"
#include "entrypoint/role/mounts.h"

#define TARGET "run/nvidia/driver"

/* Checks in the child, where cmocka's own checks would not be heard. */
#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			(void) fprintf(stderr, "%s:%d: %s (%s)\n", __FILE__, __LINE__, #condition, \
				strerror(errno));                                                  \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

static void put(const char *path, const char *text)
{
	CHECK(fs_write_atomic(AT_FDCWD, path, text, strlen(text), 0644) == 0);
}

static void expect_text(const char *path, const char *expected)
{
	char *text = NULL;

	CHECK(fs_read(AT_FDCWD, path, 0, &text, NULL) == 0);
	if (strcmp(text, expected) != 0)
		(void) fprintf(stderr, "%s: \"%s\", not \"%s\"\n", path, text, expected);
	CHECK(strcmp(text, expected) == 0);
	free(text);
}

/* A user name space where we are not allowed to mount as we are. */
static void enter_name_space(void)
{
	if (unshare(CLONE_NEWNS) < 0)
		CHECK(unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0);
	CHECK(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
}

/*
 * Below @folder: "host" is the node, with the shared folder run; "root1" and "root2" are the roots
 * of a container that is started twice; "operand" gets what comes to the shared folder.
 */
static void make_node(const char *folder)
{
	static const char *const folders[] = { "host/run/nvidia", "operand", "root1/run/nvidia",
		"root2/run/nvidia", "root1/dev", "root2/dev", "root1/proc", "root2/proc",
		"root1/sys", "root2/sys", "root1/etc", "root2/etc" };

	CHECK(mount("node", folder, "tmpfs", 0, NULL) == 0);
	CHECK(chdir(folder) == 0);
	for (size_t i = 0; i < ARRAY_SIZE(folders); i++)
		CHECK(fs_mkdir_parents(AT_FDCWD, folders[i], 0755) == 0);
	CHECK(mount("host/run/nvidia", "host/run/nvidia", NULL, MS_BIND, NULL) == 0);
	CHECK(mount(NULL, "host/run/nvidia", NULL, MS_SHARED, NULL) == 0);
	CHECK(mount("host/run/nvidia", "operand", NULL, MS_BIND, NULL) == 0);
	CHECK(mount(NULL, "operand", NULL, MS_SLAVE, NULL) == 0);
	for (int number = 1; number <= 2; number++) {
		char root[16], path[64];

		(void) snprintf(root, sizeof(root), "root%d", number);
		/* A container's root is a mount of its own; that it is shared is the harder case.
		 */
		CHECK(mount(root, root, "tmpfs", 0, NULL) == 0);
		CHECK(mount(NULL, root, NULL, MS_SHARED, NULL) == 0);
		for (size_t i = 2; i < ARRAY_SIZE(folders); i++)
			if (strncmp(folders[i], root, strlen(root)) == 0)
				CHECK(fs_mkdir_parents(AT_FDCWD, folders[i], 0755) == 0);
		(void) snprintf(path, sizeof(path), "%s/etc/who", root);
		put(path, root);
		(void) snprintf(path, sizeof(path), "%s/dev", root);
		CHECK(mount("dev", path, "tmpfs", 0, NULL) == 0);
		(void) snprintf(path, sizeof(path), "%s/dev/null", root);
		put(path, root);
		(void) snprintf(path, sizeof(path), "%s/proc", root);
		CHECK(mount("/proc", path, NULL, MS_BIND | MS_REC, NULL) == 0);
		(void) snprintf(path, sizeof(path), "%s/run/nvidia", root);
		CHECK(mount("host/run/nvidia", path, NULL, MS_BIND | MS_REC, NULL) == 0);
	}
}

/* Acts as a container in its root; in a process of its own, which cannot leave that root again. */
static void live(const char *root, void (*act)(int root_fd))
{
	pid_t pid = fork();
	int status;

	CHECK(pid >= 0);
	if (pid == 0) {
		CHECK(chdir(root) == 0 && chroot(".") == 0);
		act(open("/", O_PATH | O_DIRECTORY));
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

static void export_it(int root_fd)
{
	struct error error = { 0 };
	int r = rootfs_export(root_fd, TARGET, &error);

	if (r < 0)
		(void) fprintf(stderr, "%s\n", error.text);
	CHECK(r == 0);
	CHECK(mountinfo_count(root_fd, TARGET) == 1);
	CHECK(mountinfo_count(root_fd, TARGET "/etc") == 1);
	CHECK(!fs_exists(root_fd, "run/slipway-stage"));
}

/* A folder of the container's in the place of its root: it has what readers look for. */
static void bind_it(int root_fd)
{
	struct error error = { 0 };
	char *who = NULL;

	CHECK(fs_mkdir_parents(AT_FDCWD, "/usr/src/dev", 0755) == 0);
	CHECK(fs_mkdir_parents(AT_FDCWD, "/usr/src/etc", 0755) == 0);
	CHECK(fs_read(root_fd, "etc/who", 0, &who, NULL) == 0);
	put("/usr/src/etc/who", who);
	put("/usr/src/dev/null", who);
	free(who);
	if (rootfs_bind_over(root_fd, "/usr/src", TARGET, &error) < 0)
		(void) fprintf(stderr, "%s\n", error.text);
	CHECK(mountinfo_count(root_fd, TARGET) == 1);
	CHECK(!fs_exists(root_fd, "run/slipway-stage"));
}

static void detach_it(int root_fd)
{
	struct error error;

	CHECK(rootfs_detach(TARGET, &error) == 0);
	CHECK(mountinfo_count(root_fd, TARGET) == 0);
}

/* Everywhere the same root, with its /dev, once, and without what is mounted beside it. */
static void expect_root(const char *name)
{
	expect_text("host/run/nvidia/driver/etc/who", name);
	expect_text("operand/driver/etc/who", name);
	expect_text("operand/driver/dev/null", name);
	expect_text("root1/run/nvidia/driver/etc/who", name);
	expect_text("root2/run/nvidia/driver/dev/null", name);
	CHECK(!fs_exists(AT_FDCWD, "operand/driver/run/nvidia/driver"));
}

/* Looks at the root, over and over, until a byte comes through the pipe; exit code 2 for a gap. */
static pid_t start_reader(const char *place, int *ret_end)
{
	int ends[2];
	pid_t pid;

	CHECK(pipe2(ends, O_NONBLOCK) == 0);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		unsigned long looks = 0;
		char byte, who[64], null[64];

		(void) snprintf(who, sizeof(who), "%s/etc/who", place);
		(void) snprintf(null, sizeof(null), "%s/dev/null", place);
		while (read(ends[0], &byte, 1) < 0) {
			if (!fs_exists(AT_FDCWD, who) || !fs_exists(AT_FDCWD, null))
				_exit(2);
			looks++;
		}
		_exit(looks ? 0 : 3);
	}
	*ret_end = ends[1];
	return pid;
}

static void end_reader(pid_t pid, int end)
{
	int status;

	CHECK(write(end, "", 1) == 1);
	CHECK(waitpid(pid, &status, 0) == pid);
	if (status)
		(void) fprintf(stderr, "a reader ended with %d\n", WEXITSTATUS(status));
	CHECK(status == 0);
}

static void swap_under_readers(void (*show)(int root_fd))
{
	static const char *const places[] = { "host/run/nvidia/driver", "operand/driver" };
	pid_t readers[ARRAY_SIZE(places)];
	int ends[ARRAY_SIZE(places)];

	live("root1", show);
	expect_root("root1");
	for (size_t i = 0; i < ARRAY_SIZE(places); i++)
		readers[i] = start_reader(places[i], &ends[i]);
	for (int round = 0; round < 50; round++) {
		live("root2", show);
		live("root1", show);
	}
	live("root2", show);
	for (size_t i = 0; i < ARRAY_SIZE(places); i++)
		end_reader(readers[i], ends[i]);
	expect_root("root2");
	live("root1", detach_it);
	CHECK(!fs_exists(AT_FDCWD, "host/run/nvidia/driver/etc/who"));
	CHECK(!fs_exists(AT_FDCWD, "operand/driver/etc/who"));
}

static void swap_roots(void)
{
	swap_under_readers(export_it);
}

static void swap_folders(void)
{
	swap_under_readers(bind_it);
}

static void show_it(int root_fd)
{
	struct error error = { 0 };
	bool shown;

	(void) root_fd;
	CHECK(rootfs_show("lib/firmware", TARGET "/lib/firmware", &shown, &error) == 0 && shown);
	CHECK(rootfs_show("lib/nothing", TARGET "/lib/nothing", &shown, &error) == 0 && !shown);
}

/* A container that starts now and mounts the export itself: a slave of it, or a copy. */
static void mount_export(const char *place, unsigned long propagation)
{
	CHECK(fs_mkdir_parents(AT_FDCWD, place, 0755) == 0);
	CHECK(mount("host/run/nvidia/driver", place, NULL, MS_BIND | MS_REC, NULL) == 0);
	CHECK(mount(NULL, place, NULL, MS_REC | propagation, NULL) == 0);
}

/* A start that was killed while it mounted its folders, and its mount name space with it. */
static void killed_in_export(void)
{
	pid_t pid = fork();
	int status;

	CHECK(pid >= 0);
	if (pid == 0) {
		CHECK(unshare(CLONE_NEWNS) == 0);
		CHECK(mount("host/run/nvidia/driver", "stage", NULL, MS_BIND, NULL) == 0);
		CHECK(mount("root2/etc", "stage/etc", NULL, MS_BIND, NULL) == 0);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

static void expect_both(int root_fd)
{
	CHECK(mountinfo_count(root_fd, TARGET "/etc") == 2);
}

static void empty_it(int root_fd)
{
	struct error error;

	CHECK(rootfs_empty(root_fd, TARGET, &error) == 0);
	CHECK(mountinfo_count(root_fd, TARGET) == 1);
}

static void retire_it(int root_fd)
{
	struct error error;

	CHECK(rootfs_empty(root_fd, TARGET, &error) == 0);
	CHECK(mountinfo_count(root_fd, TARGET) == 0);
}

static void replace_under_operands(void)
{
	int end;
	pid_t reader;

	CHECK(symlink("usr/lib", "root1/lib") == 0 && symlink("usr/lib", "root2/lib") == 0);
	CHECK(fs_mkdir_parents(AT_FDCWD, "root1/usr/lib/firmware", 0755) == 0);
	CHECK(fs_mkdir_parents(AT_FDCWD, "root2/usr/lib/second", 0755) == 0);
	CHECK(fs_mkdir_parents(AT_FDCWD, "root2/more/folder", 0755) == 0);
	put("root1/usr/lib/firmware/gsp.bin", "image");
	put("root1/file", "left out");

	live("root1", export_it);
	mount_export("slave", MS_SLAVE);
	mount_export("copy", MS_PRIVATE);
	expect_text("slave/lib/firmware/gsp.bin", "image");
	CHECK(!fs_exists(AT_FDCWD, "slave/file"));
	reader = start_reader("slave", &end);
	live("root2", export_it);
	mount_export("later", MS_SLAVE);
	CHECK(mkdir("stage", 0755) == 0);
	killed_in_export();
	live("root2", expect_both);
	live("root2", export_it);
	end_reader(reader, end);
	expect_root("root2");
	expect_text("slave/etc/who", "root2");
	expect_text("slave/dev/null", "root2");
	CHECK(fs_exists(AT_FDCWD, "slave/lib/second") && fs_exists(AT_FDCWD, "slave/more/folder"));
	expect_text("copy/etc/who", "root1");
	expect_text("copy/dev/null", "root1");

	/* The first has no folder "more", which is empty then, whether or not it was before. */
	live("root1", empty_it);
	CHECK(!fs_exists(AT_FDCWD, "slave/etc/who") && !fs_exists(AT_FDCWD, "later/dev/null"));
	live("root1", show_it);
	expect_text("later/lib/firmware/gsp.bin", "image");
	expect_text("host/run/nvidia/driver/lib/firmware/gsp.bin", "image");
	live("root1", export_it);
	expect_root("root1");
	expect_text("slave/etc/who", "root1");
	expect_text("later/etc/who", "root1");
	expect_text("later/dev/null", "root1");
	CHECK(!fs_exists(AT_FDCWD, "later/more/folder"));

	live("root2", export_it);
	live("root1", export_it);
	expect_root("root1");
	CHECK(!fs_exists(AT_FDCWD, "host/run/nvidia/driver/more/folder"));
	CHECK(!fs_exists(AT_FDCWD, "later/more/folder"));
	expect_text("later/etc/who", "root1");
	live("root1", detach_it);
}

/* An older version of this program, or another vendor, mounts the root itself. */
static void replace_what_is_no_skeleton(void)
{
	live("root1", bind_it);
	live("root2", export_it);
	expect_root("root2");
	live("root2", detach_it);
	live("root1", bind_it);
	live("root2", retire_it);
	CHECK(!fs_exists(AT_FDCWD, "operand/driver/etc/who"));
}

/*
 * If the folder is not shared, no other process can see a gap, but there is one root all the same.
 */
static void replace_what_is_not_shared(void)
{
	CHECK(mount(NULL, "root1/run/nvidia", NULL, MS_PRIVATE, NULL) == 0);
	live("root1", export_it);
	live("root1", export_it);
	expect_text("root1/run/nvidia/driver/etc/who", "root1");
	CHECK(!fs_exists(AT_FDCWD, "host/run/nvidia/driver/etc/who"));
	live("root1", detach_it);
}

static void unshow_it(int root_fd)
{
	struct error error;

	(void) root_fd;
	CHECK(rootfs_detach(TARGET "/lib/firmware", &error) == 0);
}

/* As the operator has it: a folder of the host is mounted over the image's own. */
static void show_what_is_hidden(void)
{
	CHECK(fs_mkdir_parents(AT_FDCWD, "root1/lib/firmware", 0755) == 0);
	put("root1/lib/firmware/gsp.bin", "image");
	CHECK(fs_mkdir_parents(AT_FDCWD, "host/run/nvidia/driver/lib/firmware", 0755) == 0);
	CHECK(mount("host/run/nvidia/driver/lib/firmware", "root1/lib/firmware", NULL, MS_BIND,
		      NULL) == 0);
	CHECK(!fs_exists(AT_FDCWD, "root1/lib/firmware/gsp.bin"));
	live("root1", show_it);
	expect_text("host/run/nvidia/driver/lib/firmware/gsp.bin", "image");
	/* The root covers it, and has the same. */
	live("root1", export_it);
	expect_text("host/run/nvidia/driver/lib/firmware/gsp.bin", "image");
	live("root1", detach_it);
	live("root1", unshow_it);
	CHECK(fs_exists(AT_FDCWD, "host/run/nvidia/driver/lib/firmware"));
	CHECK(!fs_exists(AT_FDCWD, "host/run/nvidia/driver/lib/firmware/gsp.bin"));
}

static void in_a_node(void **state, void (*test)(void))
{
	const struct folder *folder = *state;
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0) {
		enter_name_space();
		make_node(folder->path);
		test();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void a_root_takes_the_place_of_another_without_a_gap(void **state)
{
	in_a_node(state, swap_roots);
}

static void a_folder_takes_the_place_of_another_without_a_gap(void **state)
{
	in_a_node(state, swap_folders);
}

static void those_who_mount_the_export_itself_see_the_next(void **state)
{
	in_a_node(state, replace_under_operands);
}

static void a_root_of_another_form_is_replaced(void **state)
{
	in_a_node(state, replace_what_is_no_skeleton);
}

static void a_folder_that_is_not_shared(void **state)
{
	in_a_node(state, replace_what_is_not_shared);
}

static void the_images_firmware_is_shown_although_it_is_hidden(void **state)
{
	in_a_node(state, show_what_is_hidden);
}

static bool is_shared(const struct folder *folder, const char *path)
{
	struct mountinfo mount;

	assert_int_equal(mountinfo_find(folder->fd, path, &mount), 0);
	return mount.shared;
}

static void reads_mountinfo(void **state)
{
	const struct folder *folder = *state;
	struct mountinfo mount;

	folder_write_text(folder, "proc/self/mountinfo",
		"22 1 0:20 / / rw,relatime - overlay overlay rw,lowerdir=/a - b\n"
		"30 22 0:25 /nvidia /run/nvidia rw,relatime shared:9 master:2 - tmpfs tmpfs rw\n"
		"31 30 0:32 / /run/nvidia/driver rw master:36 - overlay overlay rw\n"
		"32 31 0:33 / /run/nvidia/driver rw - overlay overlay rw\n"
		"33 32 0:34 / /run/nvidia/driver/dev rw shared:3 - tmpfs tmpfs rw");
	assert_int_equal(mountinfo_count(folder->fd, "run/nvidia/driver"), 2);
	assert_int_equal(mountinfo_count(folder->fd, "run/nvidia/driver/dev"), 1);
	assert_int_equal(mountinfo_count(folder->fd, "run/nvidia/drive"), 0);
	assert_int_equal(mountinfo_find(folder->fd, "run/nvidia/driver/usr", &mount), 0);
	assert_string_equal(mount.source, "overlay");
	assert_true(is_shared(folder, "run/nvidia"));
	assert_true(is_shared(folder, "run/nvidia/validations"));
	assert_false(is_shared(folder, "run/nvidia/driver/usr"));
	assert_false(is_shared(folder, "run/nvidia2"));
	assert_int_equal(mountinfo_count(AT_FDCWD, "run/nvidia/driver"), -ENOENT);
}

/*
 * Another Bidirectional mount makes the container's own root shared too, but with no other mount.
 */
static void distinguishes_the_hosts_folder_from_the_containers_own(void **state)
{
	const struct folder *folder = *state;
	struct mountinfo mount;

	assert_int_equal(mountinfo_find(folder->fd, "run/nvidia", &mount), -ENOENT);
	folder_write_text(folder, "proc/self/mountinfo",
		"22 1 0:20 / / rw shared:7 - overlay overlay rw\n"
		"30 22 0:25 /nvidia /run/nvidia rw master:2 - tmpfs tmpfs rw\n"
		"31 22 0:26 / /var/run rw shared:3 - tmpfs tmpfs rw\n");
	assert_int_equal(mountinfo_find(folder->fd, "run/mellanox/drivers", &mount), 0);
	assert_true(mount.of_root);
	assert_int_equal(mountinfo_find(folder->fd, "run/nvidia", &mount), 0);
	assert_false(mount.of_root || mount.shared);
	assert_int_equal(mountinfo_find(folder->fd, "var/run/nvidia", &mount), 0);
	assert_true(!mount.of_root && mount.shared);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(a_root_takes_the_place_of_another_without_a_gap),
		folder_test(a_folder_takes_the_place_of_another_without_a_gap),
		folder_test(those_who_mount_the_export_itself_see_the_next),
		folder_test(a_root_of_another_form_is_replaced),
		folder_test(a_folder_that_is_not_shared),
		folder_test(the_images_firmware_is_shown_although_it_is_hidden),
		folder_test(reads_mountinfo),
		folder_test(distinguishes_the_hosts_folder_from_the_containers_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
