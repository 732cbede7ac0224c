/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/support.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/xattr.h>

#include "common/error.h"
#include "common/fs.h"
#include "common/strv.h"
#include "entrypoint/nic/nic_internal.h"

#define PATH    "host/etc/modprobe.d/x.conf"
#define OTHER   "host/etc/udev/rules.d/7.rules"
#define JOURNAL "mnt/inventory/.slipway/hostfiles.journal"
#define MEMORY  NIC_STATE_FOLDER "/host-files"
#define CONTENT MEMORY "/host-etc-modprobe.d-x.conf"
#define KEPT    PATH ".slipway-kept"

/* A node's folder, and what hostfiles reported of it. */
struct bench {
	const struct folder *folder;
	struct hostfiles files;
};

static void bench_open(struct bench *bench, void **state)
{
	*bench = (struct bench){ .folder = *state };
	bench->files = (struct hostfiles){
		.root_fd = bench->folder->fd,
		.journal = JOURNAL,
	};
	folder_subfolder(bench->folder, "host/etc/modprobe.d");
	folder_subfolder(bench->folder, "host/etc/udev/rules.d");
}

static void bench_close(struct bench *bench)
{
	strv_free(&bench->files.notes);
}

#define _cleanup_bench_ _cleanup_(bench_close)

static const char *first_note(const struct bench *bench)
{
	return bench->files.notes.count ? bench->files.notes.items[0] : "";
}

static void put(struct bench *bench, const char *path, const char *content)
{
	struct error error = { 0 };

	assert_int_equal(hostfiles_put(&bench->files, path, content, &error), 0);
	assert_string_equal(error.text, "");
}

static int undo(struct bench *bench, const char *path)
{
	return hostfiles_undo(&bench->files, path, NULL);
}

static bool is_there(const struct bench *bench, const char *path)
{
	return fs_exists(bench->folder->fd, path);
}

/* Reads as the host would: the link's target is absolute, and this is not the host. */
static void assert_link(const struct bench *bench, const char *path, const char *content)
{
	char target[256] = "";
	_cleanup_free_ char *text = NULL;

	assert_true(readlinkat(bench->folder->fd, path, target, sizeof(target) - 1) > 0);
	assert_int_equal(target[0], '/');
	text = folder_read_text(bench->folder, target + 1);
	assert_string_equal(text, content);
}

static void assert_text(const struct bench *bench, const char *path, const char *content)
{
	_cleanup_free_ char *text = folder_read_text(bench->folder, path);

	assert_string_equal(text, content);
}

/* Nothing of ours is left anywhere. */
static void assert_clean(const struct bench *bench)
{
	_cleanup_strv_ struct strv memory = { 0 };
	_cleanup_strv_ struct strv modprobe = { 0 };

	assert_false(is_there(bench, JOURNAL));
	if (fs_exists(bench->folder->fd, MEMORY))
		assert_int_equal(fs_list(bench->folder->fd, MEMORY, &memory), 0);
	assert_int_equal(memory.count, 0);
	assert_int_equal(fs_list(bench->folder->fd, "host/etc/modprobe.d", &modprobe), 0);
	for (size_t i = 0; i < modprobe.count; i++)
		assert_null(strstr(modprobe.items[i], "slipway"));
}

static void test_comes_and_goes(void **state)
{
	_cleanup_bench_ struct bench bench;

	bench_open(&bench, state);
	put(&bench, PATH, "blacklist a\n");
	assert_true(bench.files.changed);
	assert_link(&bench, PATH, "blacklist a\n");
	assert_true(hostfiles_is_there(&bench.files, PATH));
	assert_true(is_there(&bench, JOURNAL));
	bench.files.changed = false;
	put(&bench, PATH, "blacklist a\n");
	assert_false(bench.files.changed);
	put(&bench, PATH, "blacklist b\n");
	assert_true(bench.files.changed);
	assert_link(&bench, PATH, "blacklist b\n");
	assert_int_equal(undo(&bench, PATH), 1);
	assert_false(is_there(&bench, PATH));
	assert_false(hostfiles_is_there(&bench.files, PATH));
	assert_clean(&bench);
	assert_int_equal(undo(&bench, PATH), 0);
	assert_int_equal(bench.files.notes.count, 0);
}

static void test_keeps_what_was_there(void **state)
{
	_cleanup_bench_ struct bench bench;
	struct stat before, after;

	bench_open(&bench, state);
	folder_write_text(bench.folder, PATH, "the host's\n");
	assert_int_equal(fchmodat(bench.folder->fd, PATH, 0640, 0), 0);
	assert_int_equal(fstatat(bench.folder->fd, PATH, &before, 0), 0);
	put(&bench, PATH, "ours\n");
	put(&bench, PATH, "ours, the second\n");
	assert_text(&bench, KEPT, "the host's\n");
	assert_int_equal(undo(&bench, NULL), 1);
	assert_text(&bench, PATH, "the host's\n");
	assert_int_equal(fstatat(bench.folder->fd, PATH, &after, 0), 0);
	assert_int_equal(after.st_ino, before.st_ino);
	assert_int_equal(after.st_mode & 07777, 0640);
	assert_clean(&bench);
}

static void test_keeps_a_link_that_was_there(void **state)
{
	_cleanup_bench_ struct bench bench;
	char target[64] = "";

	bench_open(&bench, state);
	assert_int_equal(symlinkat("/usr/share/x.conf", bench.folder->fd, PATH), 0);
	put(&bench, PATH, "ours\n");
	assert_link(&bench, PATH, "ours\n");
	assert_int_equal(undo(&bench, PATH), 1);
	assert_true(readlinkat(bench.folder->fd, PATH, target, sizeof(target) - 1) > 0);
	assert_string_equal(target, "/usr/share/x.conf");
	assert_clean(&bench);
}

static void test_a_mask_is_respected(void **state)
{
	_cleanup_bench_ struct bench bench;
	char target[64] = "";

	bench_open(&bench, state);
	assert_int_equal(symlinkat("/dev/null", bench.folder->fd, PATH), 0);
	put(&bench, PATH, "ours\n");
	assert_int_equal(bench.files.notes.count, 1);
	assert_contains(first_note(&bench), "/dev/null");
	assert_true(readlinkat(bench.folder->fd, PATH, target, sizeof(target) - 1) > 0);
	assert_string_equal(target, "/dev/null");
	assert_false(is_there(&bench, JOURNAL));
}

static void test_replaced_meanwhile(void **state)
{
	_cleanup_bench_ struct bench bench;

	bench_open(&bench, state);
	folder_write_text(bench.folder, PATH, "the host's\n");
	put(&bench, PATH, "ours\n");
	assert_int_equal(unlinkat(bench.folder->fd, PATH, 0), 0);
	folder_write_text(bench.folder, PATH, "another program's\n");
	assert_int_equal(undo(&bench, PATH), 0);
	assert_text(&bench, PATH, "another program's\n");
	assert_text(&bench, KEPT, "the host's\n");
	assert_int_equal(bench.files.notes.count, 1);
	assert_contains(first_note(&bench), "was replaced by another process");
	assert_contains(first_note(&bench), "beside it");
	assert_false(is_there(&bench, JOURNAL));
}

static void test_written_to_meanwhile(void **state)
{
	_cleanup_bench_ struct bench bench;

	bench_open(&bench, state);
	put(&bench, PATH, "ours\n");
	folder_write_text(bench.folder, CONTENT, "ours\nand theirs\n");
	assert_int_equal(undo(&bench, PATH), 0);
	assert_link(&bench, PATH, "ours\nand theirs\n");
	assert_int_equal(bench.files.notes.count, 1);
	assert_contains(first_note(&bench), "was changed by another process");
	/* And so at each start until the node boots. */
	strv_free(&bench.files.notes);
	assert_int_equal(undo(&bench, NULL), 0);
	assert_int_equal(bench.files.notes.count, 1);
	assert_link(&bench, PATH, "ours\nand theirs\n");
	assert_int_equal(fs_remove_tree(bench.folder->fd, "run"), 0);
	assert_int_equal(undo(&bench, NULL), 1);
	assert_clean(&bench);
}

static void test_removed_meanwhile(void **state)
{
	_cleanup_bench_ struct bench bench;

	bench_open(&bench, state);
	folder_write_text(bench.folder, PATH, "the host's\n");
	put(&bench, PATH, "ours\n");
	assert_int_equal(unlinkat(bench.folder->fd, PATH, 0), 0);
	assert_int_equal(undo(&bench, PATH), 1);
	assert_text(&bench, PATH, "the host's\n");
	assert_clean(&bench);
}

/* After a reboot nothing is in memory; after a power loss without an inventory no journal either.
 */
static void test_after_a_reboot(void **state)
{
	_cleanup_bench_ struct bench bench;

	bench_open(&bench, state);
	folder_write_text(bench.folder, PATH, "the host's\n");
	put(&bench, PATH, "ours\n");
	put(&bench, OTHER, "rules\n");
	assert_int_equal(fs_remove_tree(bench.folder->fd, "run"), 0);
	assert_false(hostfiles_is_there(&bench.files, PATH));
	assert_int_equal(undo(&bench, NULL), 2);
	assert_text(&bench, PATH, "the host's\n");
	assert_false(is_there(&bench, OTHER));
	assert_clean(&bench);

	put(&bench, PATH, "ours\n");
	assert_int_equal(fs_remove_tree(bench.folder->fd, "run"), 0);
	assert_int_equal(unlinkat(bench.folder->fd, JOURNAL, 0), 0);
	assert_int_equal(undo(&bench, PATH), 1);
	assert_text(&bench, PATH, "the host's\n");
	assert_clean(&bench);
	assert_int_equal(bench.files.notes.count, 0);
}

static void test_a_damaged_journal(void **state)
{
	_cleanup_bench_ struct bench bench;

	bench_open(&bench, state);
	put(&bench, PATH, "ours\n");
	folder_write_text(bench.folder, JOURNAL, "half a li");
	assert_int_equal(undo(&bench, PATH), 1);
	assert_int_equal(bench.files.notes.count, 1);
	assert_contains(first_note(&bench), JOURNAL);
	assert_clean(&bench);
}

/* As a disk does that is failing: it can be neither read nor removed. */
static void test_an_unreadable_journal(void **state)
{
	_cleanup_bench_ struct bench bench;

	bench_open(&bench, state);
	put(&bench, PATH, "ours\n");
	assert_int_equal(unlinkat(bench.folder->fd, JOURNAL, 0), 0);
	folder_write_text(bench.folder, JOURNAL "/in the way", "");
	assert_int_equal(undo(&bench, NULL), 0);
	assert_int_equal(undo(&bench, PATH), 1);
	assert_int_equal(bench.files.notes.count, 1);
	assert_contains(first_note(&bench), JOURNAL);
	assert_contains(first_note(&bench), "recognised by their contents");
	assert_true(bench.files.changed);
	assert_int_equal(fs_remove_tree(bench.folder->fd, JOURNAL), 0);
	assert_clean(&bench);
}

/* A disk that turned read only, or full: the undo is one all the same. */
static void test_a_journal_that_cannot_be_written(void **state)
{
	struct rlimit usual, nothing;
	_cleanup_bench_ struct bench bench;
	int undone;

	bench_open(&bench, state);
	put(&bench, PATH, "ours\n");
	put(&bench, OTHER, "rules\n");
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &usual), 0);
	nothing = (struct rlimit){ .rlim_cur = 0, .rlim_max = usual.rlim_max };
	(void) signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &nothing), 0);
	undone = hostfiles_undo(&bench.files, PATH, NULL);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &usual), 0);
	assert_int_equal(undone, 1);
	assert_false(is_there(&bench, PATH));
	assert_contains(first_note(&bench), "cannot be written");
	/* The next start finds nothing at the place that the journal still names. */
	assert_int_equal(undo(&bench, NULL), 1);
	assert_int_equal(bench.files.notes.count, 1);
	assert_clean(&bench);
}

/* Each place at which a SIGKILL can fall within a put, as what is then on the disk. */
static void test_half_a_put(void **state)
{
	_cleanup_bench_ struct bench bench;
	_cleanup_free_ char *log = NULL;
	struct folder *folder = *state;

	bench_open(&bench, state);
	put(&bench, PATH, "ours\n");
	log = folder_read_text(folder, JOURNAL);
	assert_int_equal(undo(&bench, PATH), 1);

	/* After the journal. */
	folder_write_text(folder, JOURNAL, log);
	assert_int_equal(undo(&bench, NULL), 0);
	assert_clean(&bench);
	/* After the content. */
	folder_write_text(folder, JOURNAL, log);
	folder_write_text(folder, CONTENT, "ours\n");
	assert_int_equal(undo(&bench, NULL), 0);
	assert_clean(&bench);
	/* After the second name, and the link beside it. */
	folder_write_text(folder, JOURNAL, log);
	folder_write_text(folder, CONTENT, "ours\n");
	folder_write_text(folder, PATH, "the host's\n");
	assert_int_equal(linkat(folder->fd, PATH, folder->fd, KEPT, 0), 0);
	assert_int_equal(symlinkat("/" CONTENT, folder->fd, PATH ".slipway-new"), 0);
	(void) undo(&bench, NULL);
	assert_text(&bench, PATH, "the host's\n");
	assert_clean(&bench);
	assert_int_equal(bench.files.notes.count, 0);
}

static void test_makes_a_folder(void **state)
{
	_cleanup_bench_ struct bench bench;
	struct error error = { 0 };

	bench_open(&bench, state);
	assert_int_equal(fs_remove_tree(bench.folder->fd, "host/etc/udev/rules.d"), 0);
	put(&bench, OTHER, "rules\n");
	assert_link(&bench, OTHER, "rules\n");
	assert_int_equal(undo(&bench, NULL), 1);
	assert_false(is_there(&bench, "host/etc/udev/rules.d"));
	assert_true(is_there(&bench, "host/etc/udev"));
	/* Not a whole tree: where the host's /etc is not mounted there is nothing to put. */
	assert_int_equal(fs_remove_tree(bench.folder->fd, "host/etc/udev"), 0);
	assert_int_equal(hostfiles_put(&bench.files, OTHER, "rules\n", &error), -ENOENT);
	assert_contains(error.text, "/host/etc/udev/rules.d");
	assert_false(is_there(&bench, "host/etc/udev"));
	assert_clean(&bench);
}

static void test_undo_others(void **state)
{
	_cleanup_bench_ struct bench bench;

	bench_open(&bench, state);
	put(&bench, PATH, "ours\n");
	put(&bench, OTHER, "rules\n");
	assert_int_equal(hostfiles_undo(&bench.files, NULL, OTHER), 1);
	assert_false(is_there(&bench, PATH));
	assert_link(&bench, OTHER, "rules\n");
	assert_true(is_there(&bench, JOURNAL));
	assert_int_equal(undo(&bench, OTHER), 1);
	assert_clean(&bench);
}

static void test_no_file(void **state)
{
	_cleanup_bench_ struct bench bench;
	struct error error = { 0 };

	bench_open(&bench, state);
	folder_subfolder(bench.folder, PATH);
	assert_int_equal(hostfiles_put(&bench.files, PATH, "ours\n", &error), -EEXIST);
	assert_contains(error.text, "/" PATH);
	assert_false(is_there(&bench, JOURNAL));
}

#define LABEL "system_u:object_r:modules_conf_t:s0"

static void set_label(const struct folder *folder, const char *path, const char *label)
{
	_cleanup_close_ int fd = openat(folder->fd, path, O_RDONLY | O_CLOEXEC);

	assert_int_equal(fsetxattr(fd, "security.selinux", label, strlen(label) + 1, 0), 0);
}

static void assert_label(const struct folder *folder, const char *path, const char *label)
{
	char name[512], text[128] = "";

	(void) snprintf(name, sizeof(name), "%s/%s", folder->path, path);
	assert_true(lgetxattr(name, "security.selinux", text, sizeof(text) - 1) > 0);
	assert_string_equal(text, label);
}

static void test_labels(void **state)
{
	_cleanup_bench_ struct bench bench;

	bench_open(&bench, state);
	folder_write_text(bench.folder, "host/etc/modprobe.d/a.conf", "");
	set_label(bench.folder, "host/etc/modprobe.d/a.conf", LABEL);
	set_label(bench.folder, "host/etc/udev/rules.d", "system_u:object_r:udev_rules_t:s0");
	put(&bench, PATH, "ours\n");
	put(&bench, OTHER, "rules\n");
	assert_label(bench.folder, PATH, LABEL);
	assert_label(bench.folder, CONTENT, LABEL);
	assert_label(bench.folder, OTHER, "system_u:object_r:udev_rules_t:s0");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(test_comes_and_goes),
		folder_test(test_keeps_what_was_there),
		folder_test(test_keeps_a_link_that_was_there),
		folder_test(test_a_mask_is_respected),
		folder_test(test_replaced_meanwhile),
		folder_test(test_written_to_meanwhile),
		folder_test(test_removed_meanwhile),
		folder_test(test_after_a_reboot),
		folder_test(test_a_damaged_journal),
		folder_test(test_an_unreadable_journal),
		folder_test(test_a_journal_that_cannot_be_written),
		folder_test(test_half_a_put),
		folder_test(test_makes_a_folder),
		folder_test(test_undo_others),
		folder_test(test_no_file),
		folder_test(test_labels),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
