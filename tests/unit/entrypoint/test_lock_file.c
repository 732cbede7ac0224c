/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/support.h"

#include <signal.h>
#include <sys/file.h>
#include <sys/time.h>
#include <unistd.h>

#include "entrypoint/engine/lock_file.h"

static void one_holder_at_a_time(void **state)
{
	const struct folder *folder = *state;
	struct error error;
	int first = -1;
	int second = -1;

	assert_int_equal(lock_take(folder->fd, "run/lock", &first, &error), 0);
	assert_true(lock_is_held(folder->fd, "run/lock"));
	assert_int_equal(lock_take(folder->fd, "run/lock", &second, &error), -EBUSY);
	assert_contains(error.text, "another driver container holds /run/lock (process ");
	lock_let_go(folder->fd, "run/lock", &first);
	assert_false(lock_is_held(folder->fd, "run/lock"));
	assert_int_equal(lock_take(folder->fd, "run/lock", &second, &error), 0);
	lock_let_go(folder->fd, "run/lock", &second);
}

static void a_killed_holder_leaves_it_free(void **state)
{
	const struct folder *folder = *state;
	struct error error;
	int fd = -1;

	assert_int_equal(lock_take(folder->fd, "lock", &fd, &error), 0);
	assert_int_equal(close(fd), 0); /* what the kernel does for a killed process */
	assert_false(lock_is_held(folder->fd, "lock"));
	assert_int_equal(lock_take(folder->fd, "lock", &fd, &error), 0);
	lock_let_go(folder->fd, "lock", &fd);
}

static void the_file_names_its_holder(void **state)
{
	const struct folder *folder = *state;
	_cleanup_free_ char *text = NULL;
	struct error error;
	char pid[16];
	int fd = -1;

	assert_int_equal(lock_take(folder->fd, "lock", &fd, &error), 0);
	text = folder_read_text(folder, "lock");
	(void) snprintf(pid, sizeof(pid), "%d\n", (int) getpid());
	assert_string_equal(text, pid);
	lock_let_go(folder->fd, "lock", &fd);
}

static void a_refusal_names_the_holder_and_its_pod(void **state)
{
	const struct folder *folder = *state;
	struct error error;
	char path[64];
	int second = -1;
	int fd = -1;

	(void) snprintf(path, sizeof(path), "proc/%d/cgroup", (int) getpid());
	folder_write_text(folder, path,
		"0::/kubepods.slice/kubepods-burstable.slice/"
		"kubepods-burstable-pod12345678_1234_1234_1234_123456789abc.slice/x\n");
	folder_subfolder(folder,
		"proc/1/root/var/log/pods/gpu-operator_driver-x_12345678-1234-1234-1234-"
		"123456789abc");
	assert_int_equal(lock_take(folder->fd, "lock", &fd, &error), 0);
	assert_int_equal(lock_take(folder->fd, "lock", &second, &error), -EBUSY);
	(void) snprintf(path, sizeof(path), "/lock (process %d, pod gpu-operator/driver-x): two",
		(int) getpid());
	assert_contains(error.text, path);
	lock_let_go(folder->fd, "lock", &fd);
}

static void a_file_that_cannot_be_written_names_the_mount(void **state)
{
	const struct folder *folder = *state;
	struct error error;
	int fd = -1;

	folder_subfolder(folder, "run/nvidia/lock");
	assert_int_equal(lock_take(folder->fd, "run/nvidia/lock", &fd, &error), -EISDIR);
	assert_contains(error.text,
		"the lock file /run/nvidia/lock cannot be written (the hostPath /run/nvidia has to "
		"be mounted there, writable");
}

static int looking_fd;

static void look_away(int number)
{
	(void) number;
	/* NOLINTNEXTLINE(bugprone-signal-handler,cert-sig30-c): a system call, and nothing else */
	(void) flock(looking_fd, LOCK_UN);
}

/*
 * A probe that looks at the wrong moment must not end a start with "another one has it". It looks
 * in this process: one of its own might be kept from looking away for longer than is waited.
 */
static void a_reader_keeps_no_process_out(void **state)
{
	static const struct itimerval soon = { .it_value = { .tv_usec = 100000 } };
	const struct folder *folder = *state;
	struct error error = { 0 };
	sighandler_t before;
	int fd = -1;

	folder_write_text(folder, "lock", "");
	looking_fd = openat(folder->fd, "lock", O_RDONLY | O_CLOEXEC);
	assert_int_equal(flock(looking_fd, LOCK_SH), 0);
	before = signal(SIGALRM, look_away);
	assert_int_equal(setitimer(ITIMER_REAL, &soon, NULL), 0);
	assert_int_equal(lock_take(folder->fd, "lock", &fd, &error), 0);
	(void) signal(SIGALRM, before);
	(void) close(looking_fd);
	lock_let_go(folder->fd, "lock", &fd);
}

/* The follower of OFED asks with a file of its own, which no one removes. */
static void an_open_file_is_locked_alone(void **state)
{
	const struct folder *folder = *state;
	int first, second;

	folder_write_text(folder, "lock", "");
	first = openat(folder->fd, "lock", O_RDWR | O_CLOEXEC);
	second = openat(folder->fd, "lock", O_RDWR | O_CLOEXEC);
	assert_true(first >= 0 && second >= 0);
	assert_true(lock_alone(first));
	assert_false(lock_alone(second));
	(void) close(first);
	assert_true(lock_alone(second));
	(void) close(second);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(one_holder_at_a_time),
		folder_test(a_killed_holder_leaves_it_free),
		folder_test(the_file_names_its_holder),
		folder_test(a_refusal_names_the_holder_and_its_pod),
		folder_test(a_file_that_cannot_be_written_names_the_mount),
		folder_test(a_reader_keeps_no_process_out),
		folder_test(an_open_file_is_locked_alone),
	};

	return cmocka_run_group_tests_name("lock_file", tests, NULL, NULL);
}
