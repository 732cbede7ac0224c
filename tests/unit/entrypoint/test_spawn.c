/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "entrypoint/engine/ask.h"
#include "entrypoint/engine/spawn.h"

static void a_program_writes_where_it_is_told_to(void **state)
{
	char *argv[] = { "sh", "-c", "echo $NAME; echo two >&2; cat; exit 3", NULL };
	struct spawn spawn = { .program = "/bin/sh", .argv = argv, .variable = "NAME=one" };
	char text[64] = "";
	int ends[2];
	pid_t pid;

	(void) state;
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	spawn.output_fd = ends[1];
	assert_int_equal(spawn_start(&spawn, &pid), 0);
	(void) close(ends[1]);
	assert_int_equal(spawn_wait(pid), 3);
	assert_int_equal(read(ends[0], text, sizeof(text) - 1), 8);
	assert_string_equal(text, "one\ntwo\n");
	(void) close(ends[0]);
}

static void a_program_that_is_not_there_is_an_errno(void **state)
{
	char *argv[] = { "absent", NULL };
	const struct spawn spawn = { .program = "/absent", .argv = argv, .output_fd = -1 };
	pid_t pid = 0;

	(void) state;
	assert_int_equal(spawn_start(&spawn, &pid), -ENOENT);
	assert_int_equal(pid, 0);
	assert_int_equal(spawn_wait(-1), -ECHILD); /* nothing is left */
}

static void signals_that_are_blocked_here_end_a_program(void **state)
{
	char *argv[] = { "sleep", "60", NULL };
	const struct spawn spawn = {
		.program = "/bin/sleep", .argv = argv, .output_fd = -1, .detached = true
	};
	sigset_t all, before;
	pid_t pid;

	(void) state;
	(void) sigfillset(&all);
	assert_int_equal(sigprocmask(SIG_SETMASK, &all, &before), 0);
	assert_int_equal(spawn_start(&spawn, &pid), 0);
	assert_int_equal(getpgid(pid), pid);
	assert_int_equal(kill(pid, SIGTERM), 0);
	assert_int_equal(spawn_wait(pid), 128 + SIGTERM);
	assert_int_equal(sigprocmask(SIG_SETMASK, &before, NULL), 0);
}

static void say_and_end(void *context)
{
	(void) !write(*(const int *) context, "x", 1);
}

static void a_function_runs_in_a_child(void **state)
{
	int ends[2];
	const struct spawn spawn = { .run = say_and_end, .context = &ends[1] };
	pid_t pid;
	char c;

	(void) state;
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	assert_int_equal(spawn_start(&spawn, &pid), 0);
	assert_int_equal(spawn_wait(pid), 0);
	assert_int_equal(read(ends[0], &c, 1), 1);
	assert_int_equal(c, 'x');
	(void) close(ends[0]);
	(void) close(ends[1]);
}

static void answer_one_of_two(int root_fd, void *answer)
{
	int *numbers = answer;

	(void) root_fd;
	numbers[0]++;
	(void) pause();
	numbers[1]++;
}

static void what_was_answered_before_it_hung_is_there(void **state)
{
	int numbers[] = { 1, 1 };

	(void) state;
	assert_int_equal(
		ask_in_child(answer_one_of_two, -1, numbers, sizeof(numbers), 1000), -ETIMEDOUT);
	assert_int_equal(numbers[0], 2);
	assert_int_equal(numbers[1], 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_program_writes_where_it_is_told_to),
		cmocka_unit_test(a_program_that_is_not_there_is_an_errno),
		cmocka_unit_test(signals_that_are_blocked_here_end_a_program),
		cmocka_unit_test(a_function_runs_in_a_child),
		cmocka_unit_test(what_was_answered_before_it_hung_is_there),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
