/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/support.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>

#include "common/process.h"
#include "common/xalloc.h"

/* Runs words split at '|' with @process filled by the caller but for its argv. */
static int run(struct process process, const char *words, char **ret_output, struct error *error)
{
	_cleanup_strv_ struct strv argv = { 0 };

	assert_int_equal(strv_split(&argv, words, "|"), 0);
	process.argv = &argv;
	return process_run(&process, ret_output, error);
}

static const struct process plain = { .stdin_fd = -1, .log_fd = -1 };

static void exit_status_is_returned(void **state)
{
	struct error error = { 0 };

	(void) state;
	assert_int_equal(run(plain, "true", NULL, &error), 0);
	assert_int_equal(run(plain, "sh|-c|exit 7", NULL, &error), 7);
	assert_string_equal(error.text, "");
}

static void a_signal_is_128_and_its_number(void **state)
{
	struct error error = { 0 };

	(void) state;
	assert_int_equal(run(plain, "sh|-c|kill -KILL $$", NULL, &error), 128 + SIGKILL);
}

static void a_program_that_is_not_there_is_named(void **state)
{
	struct error error = { 0 };

	(void) state;
	assert_int_equal(run(plain, "slipway-no-such-program", NULL, &error), -ENOPKG);
	assert_contains(error.text, "slipway-no-such-program");
}

static void output_is_stdout_alone(void **state)
{
	const struct folder *folder = *state;
	struct process process = plain;
	_cleanup_free_ char *output = NULL;
	_cleanup_free_ char *log = NULL;
	struct error error = { 0 };

	process.log_fd = openat(folder->fd, "log", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	assert_int_equal(run(process, "sh|-c|echo out; echo err >&2", &output, &error), 0);
	cleanup_close(&process.log_fd);
	assert_string_equal(output, "out\n");
	log = folder_read_text(folder, "log");
	assert_string_equal(log, "err\n");
}

static void empty_output_is_an_empty_text(void **state)
{
	_cleanup_free_ char *output = NULL;
	struct error error = { 0 };

	(void) state;
	assert_int_equal(run(plain, "true", &output, &error), 0);
	assert_string_equal(output, "");
}

static void push_line(void *context, const char *line)
{
	assert_int_equal(strv_push(context, line), 0);
}

static void lines_come_from_both_streams_and_reach_the_log(void **state)
{
	const struct folder *folder = *state;
	_cleanup_strv_ struct strv lines = { 0 };
	struct process process = plain;
	_cleanup_free_ char *log = NULL;
	struct error error = { 0 };

	process.on_line = push_line;
	process.context = &lines;
	process.log_fd = openat(folder->fd, "log", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	assert_int_equal(
		run(process, "sh|-c|echo one; echo two >&2; printf last; exit 3", NULL, &error), 3);
	cleanup_close(&process.log_fd);
	assert_int_equal(lines.count, 3);
	assert_string_equal(lines.items[0], "one");
	assert_string_equal(lines.items[1], "two");
	assert_string_equal(lines.items[2], "last");
	log = folder_read_text(folder, "log");
	assert_string_equal(log, "one\ntwo\nlast");
}

static void count_call(void *context)
{
	++*(unsigned int *) context;
}

static void ignore_line(void *context, const char *line)
{
	(void) context;
	(void) line;
}

static void silence_is_noticed(void **state)
{
	struct process process = plain;
	struct error error = { 0 };
	unsigned int calls = 0;

	(void) state;
	process.on_line = ignore_line;
	process.on_quiet = count_call;
	process.context = &calls;
	assert_int_equal(run(process, "sleep|2.5", NULL, &error), 0);
	assert_true(calls >= 1);
}

static void of_a_long_line_nothing_is_lost(void **state)
{
	_cleanup_strv_ struct strv lines = { 0 };
	struct process process = plain;
	struct error error = { 0 };
	size_t length = 0;

	(void) state;
	process.on_line = push_line;
	process.context = &lines;
	assert_int_equal(run(process, "sh|-c|printf %040000d 7; echo; echo next", NULL, &error), 0);
	assert_true(lines.count > 2);
	for (size_t i = 0; i < lines.count - 1; i++)
		length += strlen(lines.items[i]);
	assert_int_equal(length, 40000);
	assert_string_equal(lines.items[lines.count - 1], "next");
}

static void folder_and_environment_are_the_childs(void **state)
{
	const struct folder *folder = *state;
	_cleanup_strv_ struct strv extra = { 0 };
	struct process process = plain;
	_cleanup_free_ char *output = NULL;
	_cleanup_free_ char *expected = NULL;
	struct error error = { 0 };

	assert_int_equal(setenv("SLIPWAY_TEST", "ours", 1), 0);
	assert_int_equal(setenv("SLIPWAY_TEST_KEPT", "kept", 1), 0);
	assert_int_equal(strv_push(&extra, "SLIPWAY_TEST=theirs"), 0);
	process.extra_env = &extra;
	process.folder = folder->path;
	assert_int_equal(
		run(process, "sh|-c|pwd; echo $SLIPWAY_TEST $SLIPWAY_TEST_KEPT", &output, &error),
		0);
	assert_true(asprintf(&expected, "%s\ntheirs kept\n", folder->path) > 0);
	assert_string_equal(output, expected);
	assert_string_equal(getenv("SLIPWAY_TEST"), "ours");
}

static void stdin_is_empty_unless_given(void **state)
{
	const struct folder *folder = *state;
	struct process process = plain;
	_cleanup_free_ char *nothing = NULL;
	_cleanup_free_ char *given = NULL;
	struct error error = { 0 };

	assert_int_equal(run(plain, "cat", &nothing, &error), 0);
	assert_string_equal(nothing, "");
	folder_write_text(folder, "in", "text");
	process.stdin_fd = openat(folder->fd, "in", O_RDONLY | O_CLOEXEC);
	assert_int_equal(run(process, "cat", &given, &error), 0);
	cleanup_close(&process.stdin_fd);
	assert_string_equal(given, "text");
}

static int print_and_leave(void *context)
{
	(void) context;
	(void) puts("out");
	(void) fputs("err\n", stderr);
	/* Process 1 of its name space, where the machine lets it have one. */
	return getpid() == 1 ? 7 : 8;
}

static int sleep_on(void *context)
{
	(void) context;
	return pause();
}

static void a_function_of_ours_is_run_as_a_program_is(void **state)
{
	struct process process = plain;
	_cleanup_strv_ struct strv lines = { 0 };
	struct error error = { 0 };
	int r;

	(void) state;
	process.work = print_and_leave;
	process.on_line = push_line;
	process.context = &lines;
	r = process_run(&process, NULL, &error);
	if (r == -EPERM) /* not as root */
		skip();
	assert_int_equal(r, 7);
	assert_int_equal(lines.count, 2);
	assert_true(strv_contains(&lines, "out"));
	assert_true(strv_contains(&lines, "err"));
}

static void a_fifo_brings_what_was_written_before_the_end(void **state)
{
	const struct folder *folder = *state;
	_cleanup_free_ char *fifo = xasprintf("%s/lines", folder->path);
	_cleanup_free_ char *words =
		xasprintf("sh|-c|echo out; seq 20000 >%s; echo last >%s", fifo, fifo);
	_cleanup_strv_ struct strv lines = { 0 };
	struct process process = plain;
	struct error error = { 0 };

	assert_int_equal(mkfifo(fifo, 0600), 0);
	process.on_line = push_line;
	process.fifo = fifo;
	process.context = &lines;
	assert_int_equal(run(process, words, NULL, &error), 0);
	assert_int_equal(lines.count, 20002);
	assert_true(strv_contains(&lines, "out"));
	assert_true(strv_contains(&lines, "20000"));
	assert_true(strv_contains(&lines, "last"));
	/* A log that cannot be written ends the writer. */
	free(words);
	words = xasprintf("sh|-c|exec 3<>%s >%s 3<&-; exec seq 1000000", fifo, fifo);
	process.log_fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
	assert_int_equal(run(process, words, NULL, &error), -ENOSPC);
	(void) close(process.log_fd);
	process.log_fd = -1;
	assert_int_equal(unlink(fifo), 0);
	assert_int_equal(run(process, "true", NULL, &error), -ENOENT);
	assert_contains(error.text, fifo);
}

static void what_takes_too_long_is_killed(void **state)
{
	struct process process = plain;
	_cleanup_strv_ struct strv lines = { 0 };
	struct error error = { 0 };

	(void) state;
	process.on_line = push_line;
	process.context = &lines;
	process.timeout_ms = 50;
	assert_int_equal(run(process, "sleep|600", NULL, &error), -ETIMEDOUT);
	process.work = sleep_on;
	if (process_run(&process, NULL, &error) == -EPERM)
		skip();
	assert_int_equal(process_run(&process, NULL, &error), -ETIMEDOUT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(exit_status_is_returned),
		cmocka_unit_test(a_signal_is_128_and_its_number),
		cmocka_unit_test(a_program_that_is_not_there_is_named),
		folder_test(output_is_stdout_alone),
		cmocka_unit_test(empty_output_is_an_empty_text),
		folder_test(lines_come_from_both_streams_and_reach_the_log),
		folder_test(silence_is_noticed),
		folder_test(of_a_long_line_nothing_is_lost),
		folder_test(folder_and_environment_are_the_childs),
		folder_test(stdin_is_empty_unless_given),
		cmocka_unit_test(a_function_of_ours_is_run_as_a_program_is),
		folder_test(a_fifo_brings_what_was_written_before_the_end),
		cmocka_unit_test(what_takes_too_long_is_killed),
	};

	return cmocka_run_group_tests_name("process", tests, NULL, NULL);
}
