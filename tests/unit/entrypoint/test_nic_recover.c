/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A swap, killed before and after each module that comes or goes and each write of the journal;
 * then a start that goes on, or one that rolls back and is killed as often. On a kernel of our own:
 * finit_module() and delete_module() are what this file says, in a folder that is the root.
 */
#include "tests/unit/mutant.h"
#include "tests/unit/node_folder.h"

#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "entrypoint/nic/nic_internal.h"
#include "module/running.h"

#define IMAGE_TREE "lib/modules/" KREL "/updates/ofed/"
#define HOST_TREE  "host/lib/modules/" KREL "/kernel/"

#define OURS 0x67 /* the last byte of the fixtures' own build id */
#define HOST 0x11

#define KILLED 99
#define FAILED 1

/* Each second one depends on the one before it. The last is an auxiliary module; the node has
 * neither it nor what it depends on. */
static const char *const names[] = { "ib_uverbs", "mlx5_core", "fwctl", "mlx5_fwctl" };

#define OF_NODE 2

static unsigned places_left; /* until this process is killed; 0: it is not */
static struct folder root = { .fd = -1 };
static bool is_fwctl_refused;

static void place(void)
{
	if (places_left && --places_left == 0)
		_exit(KILLED);
}

/* ---- the kernel */

static void change_holders(size_t held, const char *references, bool is_held)
{
	char path[128];

	(void) snprintf(path, sizeof(path), "sys/module/%s/refcnt", names[held]);
	folder_write_text(&root, path, references);
	(void) snprintf(
		path, sizeof(path), "sys/module/%s/holders/%s", names[held], names[held + 1]);
	if (is_held)
		folder_subfolder(&root, path);
	else
		(void) unlinkat(root.fd, path, AT_REMOVEDIR);
}

static void show_loaded(size_t i, unsigned char build)
{
	folder_module(&root, names[i], "0\n", NULL);
	write_note(&root, names[i], build);
	if (i % 2)
		change_holders(i - 1, "1\n", true);
}

static bool is_loaded(const char *name)
{
	char path[64];

	(void) snprintf(path, sizeof(path), "sys/module/%s", name);
	return fs_exists(root.fd, path);
}

static int kernel_inserts(int fd)
{
	static const char *const trees[] = { IMAGE_TREE, HOST_TREE };
	struct stat file, there;

	assert_int_equal(fstat(fd, &file), 0);
	for (size_t i = 0; i < 2 * ARRAY_SIZE(names); i++) {
		size_t module = i % ARRAY_SIZE(names);
		bool is_hosts = i >= ARRAY_SIZE(names);
		char path[128];

		(void) snprintf(path, sizeof(path), "%s%s.ko", trees[is_hosts], names[module]);
		if (fstatat(root.fd, path, &there, 0) < 0 || there.st_ino != file.st_ino)
			continue;
		if (is_loaded(names[module]))
			return -EEXIST;
		if (module % 2 && !is_loaded(names[module - 1]))
			return -ENOENT;
		if (module == OF_NODE && is_fwctl_refused)
			return -ENOEXEC;
		place();
		show_loaded(module, is_hosts ? HOST : OURS);
		place();
		return 0;
	}
	return -ENOEXEC;
}

static int kernel_removes(const char *name)
{
	char path[64];
	size_t i = 0;

	(void) snprintf(path, sizeof(path), "sys/module/%s", name);
	if (!is_loaded(name))
		return -ENOENT;
	while (strcmp(name, names[i]) != 0)
		i++;
	if (i % 2 == 0 && is_loaded(names[i + 1]))
		return -EWOULDBLOCK;
	place();
	assert_int_equal(fs_remove_tree(root.fd, path), 0);
	if (i % 2)
		change_holders(i - 1, "0\n", false);
	place();
	return 0;
}

static long answer(int r)
{
	errno = -r;
	return r < 0 ? -1 : 0;
}

/* Nothing else of the init needs a call by its number. */
long syscall(long number, ...)
{
	va_list arguments;
	long first;

	va_start(arguments, number);
	first = va_arg(arguments, long);
	va_end(arguments);
	if (number == SYS_finit_module)
		return answer(kernel_inserts((int) first));
	if (number == SYS_delete_module)
		return answer(kernel_removes((const char *) first));
	return answer(-ENOSYS);
}

/* libkmod calls this. */
int delete_module(const char *name, unsigned flags);
int delete_module(const char *name, unsigned flags)
{
	(void) flags;
	return (int) answer(kernel_removes(name));
}

/* Each write of the journal is a place to die, before and after it. */
int renameat(int old_fd, const char *old_path, int new_fd, const char *new_path)
{
	bool is_journal = strstr(new_path, "swap.journal") != NULL;
	int r;

	if (is_journal)
		place();
	r = renameat2(old_fd, old_path, new_fd, new_path, 0);
	if (is_journal)
		place();
	return r;
}

/* ---- a node */

static void make_module(
	const struct folder *folder, const char *fixture, const char *path, unsigned char last)
{
	static const char name[] = { 3, 0, 0, 0, 'G', 'N', 'U', 0 };
	_cleanup_free_ char *data = NULL;
	char from[256];
	char *note;
	size_t size;

	(void) snprintf(from, sizeof(from), "%s/%s.ko", FIXTURES, fixture);
	assert_int_equal(fs_read(AT_FDCWD, from, 0, &data, &size), 0);
	note = memmem(data, size, name, sizeof(name));
	assert_non_null(note);
	note[sizeof(name) + 19] = (char) last;
	folder_write(folder, path, data, size);
}

/* Makes a mutant with another symbol than the fixture's exporter has. */
static void make_mutant(const struct folder *folder, const char *fixture, const char *path)
{
	static const char *const changes[] = { "ib_register_peer", "fw_register_peer", NULL };
	_cleanup_mutant_ struct mutant mutant = { 0 };

	mutant_make(&mutant, fixture, changes, NULL, 0);
	folder_write(folder, path, mutant.data, mutant.size);
}

static void make_tree(
	const struct folder *folder, const char *top, const char *tree, unsigned char last)
{
	char path[256];
	pid_t pid;
	int status;

	if (last == OURS) {
		make_mutant(folder, "exporter", IMAGE_TREE "fwctl.ko");
		make_mutant(folder, "peer", IMAGE_TREE "mlx5_fwctl.ko");
	}
	(void) snprintf(path, sizeof(path), "%sib_uverbs.ko", tree);
	make_module(folder, "exporter", path, last);
	(void) snprintf(path, sizeof(path), "%smlx5_core.ko", tree);
	make_module(folder, "peer", path, last);
	(void) snprintf(path, sizeof(path), "%slib/modules/" KREL "/modules.order", top);
	folder_write_text(folder, path, "");
	(void) snprintf(path, sizeof(path), "%slib/modules/" KREL "/modules.builtin", top);
	folder_write_text(folder, path, "");
	(void) snprintf(path, sizeof(path), "%s/%s", folder->path, top);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		(void) freopen("/dev/null", "w", stderr); /* of fixtures it has much to say */
		(void) execl("/sbin/depmod", "depmod", "-b", path, KREL, (char *) NULL);
		_exit(127);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void expect_loaded(const struct folder *folder, unsigned char last)
{
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		char id[BUILD_ID_HEX_SIZE], expected[BUILD_ID_HEX_SIZE] = "";

		if (i < OF_NODE || last == OURS)
			(void) snprintf(expected, sizeof(expected), "%.38s%02x", BUILD_ID, last);
		sysmodule_build_id(folder->fd, names[i], id);
		assert_string_equal(id, expected);
	}
}

/* ---- containers, each a process whose root is the folder */

struct container {
	struct nic nic;
	struct worker worker;
	struct action action;
};

static void open_container(struct container *container)
{
	struct role *role = &container->nic.role;

	*container = (struct container){ .worker = { .fd = -1 } };
	role->name = "nic";
	role->state_folder = NIC_STATE_FOLDER;
	role->host_root = "/host";
	role->root_fd = root.fd;
	(void) snprintf(role->krel, sizeof(role->krel), "%s", KREL);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		assert_int_equal(strv_push(&role->driver_modules, names[i]), 0);
	assert_int_equal(
		nic_inputs_read(&container->nic.inputs, root.fd, NULL, &container->action.error),
		0);
	log_prepare(&role->log, root.fd, "nic", NIC_STATE_FOLDER);
	container->action.role = role;
	container->action.worker = &container->worker;
	nic_open_journal(&container->nic);
}

static int do_step(struct container *container, action_function *function)
{
	int r = function(&container->action);

	if (r < 0)
		(void) fprintf(stderr, "%s\n", container->action.error.text);
	return r;
}

/* As the steps of nic.c. */
static int start(struct container *container)
{
	struct nic *nic = &container->nic;

	if (do_step(container, nic_compare) < 0 || do_step(container, nic_adopt_plan) < 0)
		return FAILED;
	if (nic_is_all_but_committed(nic) && do_step(container, nic_commit_earlier) < 0)
		return FAILED;
	if (!nic_is_swapped(nic) &&
		(do_step(container, nic_swap_out) < 0 || do_step(container, nic_swap_in) < 0))
		return FAILED;
	if (!nic_dependents_are_done(nic) && do_step(container, nic_swap_dependents) < 0)
		return FAILED;
	journal_commit(root.fd);
	return nic_is_committed(nic) && do_step(container, nic_keep_modules) < 0 ? FAILED : 0;
}

/* A start that fails before its own swap. */
static int roll_back(struct container *container)
{
	container->nic.role.plan.start_failed = true;
	if (do_step(container, nic_swap_in_undo) < 0 || do_step(container, nic_swap_out_undo) < 0)
		return FAILED;
	return 0;
}

/* Returns the exit code. @places: how many it comes to before it is killed; 0: it is not. */
static int run(const struct folder *folder, int (*what)(struct container *), unsigned places)
{
	struct container container;
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		if (chroot(folder->path) < 0 &&
			(unshare(CLONE_NEWUSER) < 0 || chroot(folder->path) < 0))
			_exit(77);
		root.fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		places_left = places;
		(void) freopen("/stderr", "a", stderr);
		open_container(&container);
		_exit(what(&container));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77)
		skip();
	return WEXITSTATUS(status);
}

/* The trees stay as they are. */
static void clear_node(const struct folder *folder)
{
	static const char *const tops[] = { "sys", "run", "stderr" };

	if (!fs_exists(folder->fd, "lib")) {
		make_tree(folder, "", IMAGE_TREE, OURS);
		make_tree(folder, "host/", HOST_TREE, HOST);
	}
	for (size_t i = 0; i < ARRAY_SIZE(tops); i++)
		assert_int_equal(fs_remove_tree(folder->fd, tops[i]), 0);
	folder_write_text(folder, "proc/modules", "");
	folder_write_text(folder, "dev/infiniband/issm0", "");
	root = *folder;
	for (size_t i = 0; i < OF_NODE; i++)
		show_loaded(i, HOST);
	root.fd = -1;
}

/* A start that is killed there; false when it has no such place. */
static bool is_killed(const struct folder *folder, unsigned places)
{
	int code = run(folder, start, places);

	assert_true(code == KILLED || code == 0);
	return code == KILLED;
}

/* The kernel's own alone: nothing of the swap's is left among them. */
static void expect_own_nodes(const struct folder *folder)
{
	_cleanup_strv_ struct strv files = { 0 };
	_cleanup_close_ int fd = openat(folder->fd, "dev/infiniband", O_RDONLY | O_DIRECTORY);

	assert_int_equal(fs_list(fd, ".", &files), 0);
	assert_int_equal(files.count, 1);
}

static void expect_ours(const struct folder *folder)
{
	_cleanup_journal_ struct journal journal = { 0 };
	struct error error;

	expect_loaded(folder, OURS);
	expect_own_nodes(folder);
	assert_int_equal(journal_read(folder->fd, &journal, &error), 0);
	assert_int_equal(journal.phase, PHASE_NONE);
	assert_int_equal(journal.own.go_count, 2);
	assert_string_equal(journal.own.go[0].name, "mlx5_core");
}

static void expect_hosts(const struct folder *folder)
{
	_cleanup_journal_ struct journal journal = { 0 };
	struct error error;

	expect_loaded(folder, HOST);
	expect_own_nodes(folder);
	assert_int_equal(journal_read(folder->fd, &journal, &error), 0);
	assert_int_equal(journal.phase, PHASE_NONE);
	assert_int_equal(journal.own.go_count, 0);
}

static void a_start_that_was_killed_anywhere_is_finished_by_the_next(void **state)
{
	const struct folder *folder = *state;
	unsigned places = 1;
	bool was_killed;

	for (;; places++) {
		clear_node(folder);
		was_killed = is_killed(folder, places);
		assert_int_equal(run(folder, start, 0), 0);
		expect_ours(folder);
		/* Once more: nothing is left to do. */
		assert_int_equal(run(folder, start, 0), 0);
		expect_ours(folder);
		if (!was_killed)
			break;
	}
	print_message("%u places\n", places - 1);
	assert_true(places > 15);
}

static void a_start_that_was_killed_anywhere_is_rolled_back_by_one_that_fails(void **state)
{
	const struct folder *folder = *state;
	bool was_kept = false;

	for (unsigned places = 1;; places++) {
		bool was_pending;

		clear_node(folder);
		if (!is_killed(folder, places))
			break;
		was_kept |= fs_exists(folder->fd, "dev/infiniband/slipway");
		was_pending = journal_is_pending(folder->fd);
		assert_int_equal(run(folder, roll_back, 0), 0);
		if (was_pending)
			expect_hosts(folder);
		assert_false(journal_is_pending(folder->fd));
	}
	assert_true(was_kept);
}

static void a_rollback_that_was_killed_anywhere_is_gone_on_with(void **state)
{
	const struct folder *folder = *state;
	unsigned rounds = 0;

	for (unsigned places = 1;; places += 3)
		for (unsigned back = 1;; back++) {
			int code;

			clear_node(folder);
			if (!is_killed(folder, places))
				goto done;
			if (!journal_is_pending(folder->fd))
				break;
			code = run(folder, roll_back, back);
			assert_true(code == KILLED || code == 0);
			rounds++;
			/* One after the other: the next start of either kind. */
			if (rounds % 2) {
				assert_int_equal(run(folder, roll_back, 0), 0);
				expect_hosts(folder);
			} else {
				assert_int_equal(run(folder, start, 0), 0);
				expect_loaded(folder, OURS);
				assert_int_equal(journal_phase(folder->fd), PHASE_NONE);
			}
			if (code != KILLED)
				break;
		}
done:
	print_message("%u pairs\n", rounds);
	assert_true(rounds > 30);
}

/* A module that the host loads for itself later must stay when the node's own driver comes back. */
static void what_was_not_inserted_is_not_in_the_journal(void **state)
{
	const struct folder *folder = *state;
	_cleanup_journal_ struct journal journal = { 0 };
	struct error error = { 0 };

	clear_node(folder);
	is_fwctl_refused = true;
	assert_int_equal(run(folder, start, 0), 0);
	is_fwctl_refused = false;
	assert_int_equal(journal_read(folder->fd, &journal, &error), 0);
	assert_true(strv_contains(&journal.own.load, "mlx5_core"));
	assert_false(strv_contains(&journal.own.load, "fwctl"));
	assert_false(strv_contains(&journal.own.load, "mlx5_fwctl"));
}

/* The journal was damaged after the start: an undo leaves the driver that works. */
static int undo_without_journal(struct container *container)
{
	folder_write_text(&root, JOURNAL_PATH, "?\n");
	if (do_step(container, nic_swap_dependents) < 0 || roll_back(container) < 0)
		return FAILED;
	container->nic.role.plan.start_failed = false;
	container->nic.role.options.restore_inbox = true;
	return nic_swap_in_undo(&container->action) == -EBADMSG ? 0 : FAILED;
}

static void a_damaged_journal_has_nothing_pending(void **state)
{
	const struct folder *folder = *state;

	clear_node(folder);
	assert_int_equal(run(folder, start, 0), 0);
	expect_ours(folder);
	assert_int_equal(run(folder, undo_without_journal, 0), 0);
	expect_loaded(folder, OURS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(a_start_that_was_killed_anywhere_is_finished_by_the_next),
		folder_test(a_start_that_was_killed_anywhere_is_rolled_back_by_one_that_fails),
		folder_test(a_rollback_that_was_killed_anywhere_is_gone_on_with),
		folder_test(what_was_not_inserted_is_not_in_the_journal),
		folder_test(a_damaged_journal_has_nothing_pending),
	};

	/* Inside the folder it is not to be found. */
	(void) dlopen("libkmod.so.2", RTLD_NOW | RTLD_GLOBAL);
	return cmocka_run_group_tests_name("nic_recover", tests, NULL, NULL);
}
