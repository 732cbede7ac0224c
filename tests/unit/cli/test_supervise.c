/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/support.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include "cli/exit_code.h"
#include "cli/image/output_place.h"
#include "cli/message.h"
#include "cli/supervise.h"
#include "common/fs.h"

static int die(void *context)
{
	return raise(*(const int *) context);
}

static int leave(void *context)
{
	return *(const int *) context;
}

static void a_killed_work_is_an_internal_error_for_every_verb(void **state)
{
	static const char *const verbs[] = { "build", "lint", "bundle" };
	int signal_number = SIGKILL;

	(void) state;
	for (size_t i = 0; i < ARRAY_SIZE(verbs); i++) {
		int r = supervise(die, &signal_number);

		assert_int_equal(r, 128 + SIGKILL);
		assert_int_equal(supervise_report(r, verbs[i], true, ""), EXIT_CODE_INTERNAL);
	}
}

static void an_interrupted_one_ends_as_a_shell_expects(void **state)
{
	(void) state;
	assert_int_equal(supervise_report(128 + SIGTERM, "lint", true, "x"), 128 + SIGTERM);
}

static void its_own_exit_code_stays(void **state)
{
	int code = 12;

	(void) state;
	assert_int_equal(supervise_report(supervise(leave, &code), "lint", true, "x"), 12);
	assert_int_equal(supervise_report(-EAGAIN, "lint", true, "x"), EXIT_CODE_INTERNAL);
}

static int is_blocked(void *context)
{
	sigset_t mask;

	(void) sigprocmask(SIG_SETMASK, NULL, &mask);
	return sigismember(&mask, *(const int *) context);
}

/* verify and build supervise one work after another. */
static void a_second_work_can_be_interrupted_like_the_first(void **state)
{
	int signals[] = { SIGINT, SIGTERM, SIGHUP };

	(void) state;
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
		assert_int_equal(supervise(is_blocked, &signals[i]), 0);
}

/* Fails, and leaves a process behind that ends half a second later; its id goes to the pipe. */
static int fail_with_orphan(void *context)
{
	const int *ends = context;
	pid_t pid = fork();

	if (pid == 0) {
		(void) usleep(500000);
		_exit(0);
	}
	return write(ends[1], &pid, sizeof(pid)) == sizeof(pid) ? 7 : 1;
}

static void nothing_of_a_failed_one_runs_on(void **state)
{
	int ends[2];
	pid_t orphan = 0;

	(void) state;
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(supervise(fail_with_orphan, ends), 7);
	assert_int_equal(read(ends[0], &orphan, sizeof(orphan)), sizeof(orphan));
	assert_true(orphan > 0);
	assert_int_equal(kill(orphan, 0), -1);
	assert_int_equal(errno, ESRCH);
	(void) close(ends[0]);
	(void) close(ends[1]);
}

static int die_while_writing(void *context)
{
	_cleanup_free_ char *temporary = output_temporary(context);
	FILE *file = fopen(temporary, "w");

	assert_non_null(file);
	assert_int_equal(fclose(file), 0);
	return raise(SIGTERM);
}

static void what_an_interrupted_one_wrote_in_part_is_removed(void **state)
{
	const struct folder *folder = *state;
	_cleanup_free_ char *path = NULL;
	_cleanup_strv_ struct strv names = { 0 };

	assert_true(asprintf(&path, "%s/gpu.oci.tar", folder->path) > 0);
	assert_int_equal(supervise(die_while_writing, path), 128 + SIGTERM);
	assert_int_equal(fs_list(folder->fd, ".", &names), 0);
	assert_int_equal(names.count, 0);
}

static int finish_writing(void *context)
{
	_cleanup_free_ char *temporary = output_temporary(context);
	FILE *file = fopen(temporary, "w");

	assert_non_null(file);
	return fclose(file);
}

static void the_next_one_removes_nothing_of_an_earlier_one(void **state)
{
	const struct folder *folder = *state;
	_cleanup_free_ char *path = NULL;
	_cleanup_strv_ struct strv names = { 0 };
	int code = 7;

	assert_true(asprintf(&path, "%s/gpu.oci.tar", folder->path) > 0);
	assert_int_equal(supervise(finish_writing, path), 0);
	assert_int_equal(supervise(leave, &code), 7);
	assert_int_equal(fs_list(folder->fd, ".", &names), 0);
	assert_int_equal(names.count, 1);
}

/* Writes an answer to a full disk. */
static int answer(void *context)
{
	assert_non_null(freopen("/dev/full", "w", stdout));
	(void) puts("{}");
	/* A failed flush leaves nothing that a second one could fail for. */
	(void) message_flush();
	return *(const int *) context;
}

static void an_answer_that_cannot_be_written_is_none(void **state)
{
	int code = EXIT_CODE_OK;

	(void) state;
	assert_int_equal(supervise(answer, &code), EXIT_CODE_DISK_FULL);
	code = EXIT_CODE_NETWORK;
	assert_int_equal(supervise(answer, &code), EXIT_CODE_NETWORK);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_killed_work_is_an_internal_error_for_every_verb),
		cmocka_unit_test(an_interrupted_one_ends_as_a_shell_expects),
		cmocka_unit_test(its_own_exit_code_stays),
		cmocka_unit_test(a_second_work_can_be_interrupted_like_the_first),
		cmocka_unit_test(nothing_of_a_failed_one_runs_on),
		folder_test(what_an_interrupted_one_wrote_in_part_is_removed),
		folder_test(the_next_one_removes_nothing_of_an_earlier_one),
		cmocka_unit_test(an_answer_that_cannot_be_written_is_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
