/* SPDX-License-Identifier: Apache-2.0 */
/* Daemons that are shell scripts in a folder: started, started again, stopped. */
#include "tests/unit/support.h"

#include <signal.h>

#include "common/clock.h"
#include "common/fs.h"
#include "entrypoint/gpu/supervisor_internal.h"

/* All of a test has to be over by then: a wait that hangs fails instead. */
#define PATIENCE_MS 20000

struct scene {
	struct folder *folder;
	struct events events;
	struct log log;
	struct supervisor supervisor;
};

static int set_up(void **state)
{
	struct scene *scene = calloc(1, sizeof(*scene));
	struct error error;

	assert_int_equal(folder_make((void **) &scene->folder), 0);
	assert_int_equal(events_open(&scene->events, &error), 0);
	log_prepare(&scene->log, scene->folder->fd, "test", "run");
	log_open(&scene->log);
	scene->supervisor = (struct supervisor){
		.root_fd = scene->folder->fd,
		.state_file = "run/test.daemons",
		.events = &scene->events,
		.log = &scene->log,
	};
	supervisor_open(&scene->supervisor);
	*state = scene;
	return 0;
}

static void stop_all(struct scene *scene)
{
	uint64_t give_up_ms = clock_monotonic_ms() + PATIENCE_MS;
	struct error error;

	while (supervisor_stop(&scene->supervisor, &error) > 0)
		assert_false(events_wait(&scene->events, give_up_ms) & EVENT_TIME);
}

static int tear_down(void **state)
{
	struct scene *scene = *state;
	sigset_t none;

	stop_all(scene);
	supervisor_close(&scene->supervisor);
	log_close(&scene->log);
	events_close(&scene->events);
	assert_int_equal(folder_remove((void **) &scene->folder), 0);
	free(scene);
	(void) sigemptyset(&none);
	return sigprocmask(SIG_SETMASK, &none, NULL);
}

/* A daemon whose program is a script with these lines; it runs in the test's folder. */
static struct daemon *add(struct scene *scene, const char *name, const char *script)
{
	struct daemon *daemon = supervisor_add(&scene->supervisor, name);
	_cleanup_free_ char *text = NULL;
	char path[128];

	assert_non_null(daemon);
	assert_true(asprintf(&text, "#!/bin/sh\ncd %s\n%s\n", scene->folder->path, script) > 0);
	folder_write_text(scene->folder, name, text);
	assert_int_equal(fchmodat(scene->folder->fd, name, 0755, 0), 0);
	(void) snprintf(path, sizeof(path), "%s/%s", scene->folder->path, name);
	assert_int_equal(strv_push(&daemon->argv, path), 0);
	daemon->start_ms = 5000;
	daemon->settle_ms = 100;
	daemon->stop_ms = 5000;
	return daemon;
}

static int start_all(struct scene *scene, struct error *error)
{
	uint64_t give_up_ms = clock_monotonic_ms() + PATIENCE_MS;
	int r;

	while ((r = supervisor_start(&scene->supervisor, error)) > 0)
		assert_false(events_wait(&scene->events, give_up_ms) & EVENT_TIME);
	return r;
}

/* And until the last one, which a start does not wait for, has come up or failed. */
static int start_whole(struct scene *scene, struct error *error)
{
	const struct daemon *last = &scene->supervisor.daemons[scene->supervisor.count - 1];
	uint64_t give_up_ms = clock_monotonic_ms() + PATIENCE_MS;
	int r = start_all(scene, error);

	while (r == 0 && last->state == DAEMON_STARTING) {
		uint64_t wake_ms = give_up_ms;

		supervisor_look(&scene->supervisor, &wake_ms);
		assert_true(clock_monotonic_ms() < give_up_ms);
		if (last->state == DAEMON_STARTING)
			(void) events_wait(&scene->events, wake_ms);
	}
	return r;
}

/* Serves until the daemon is in @wanted, as a role does. */
static void serve_until(struct scene *scene, const struct daemon *daemon, enum daemon_state wanted)
{
	uint64_t give_up_ms = clock_monotonic_ms() + PATIENCE_MS;

	for (;;) {
		uint64_t wake_ms = give_up_ms;

		supervisor_look(&scene->supervisor, &wake_ms);
		if (daemon->state == wanted)
			return;
		assert_true(clock_monotonic_ms() < give_up_ms);
		(void) events_wait(&scene->events, wake_ms);
	}
}

static void expect_line(const struct scene *scene, const char *line)
{
	_cleanup_free_ char *text = folder_read_text(scene->folder, "run/test.daemons");

	assert_contains(text, line);
}

static const char stays[] = "exec sleep 1000";
/* In the background, with a pid file; the test's folder is the root. */
static const char forks[] = "sleep 1000 >&- 2>&- & echo $! >x.new; mv x.new run/x.pid";

static void the_backoff_doubles_up_to_a_minute(void **state)
{
	static const uint32_t seconds[] = { 1, 1, 2, 4, 8, 16, 32, 60, 60 };

	(void) state;
	for (unsigned i = 0; i < ARRAY_SIZE(seconds); i++)
		assert_int_equal(supervisor_backoff_ms(i), seconds[i] * 1000);
	assert_int_equal(supervisor_backoff_ms(100000), 60000);
}

static void one_that_stays_in_the_foreground_is_up_when_it_settled(void **state)
{
	struct scene *scene = *state;
	const struct daemon *daemon = add(scene, "a", stays);
	struct error error;
	char line[64];

	assert_int_equal(start_whole(scene, &error), 0);
	assert_int_equal(daemon->state, DAEMON_UP);
	(void) snprintf(line, sizeof(line), "a %d up 0 ", (int) daemon->pid);
	expect_line(scene, line);
	stop_all(scene);
	expect_line(scene, "a 0 off 0 ");
}

static void one_that_forks_is_found_by_its_pid_file(void **state)
{
	struct scene *scene = *state;
	struct daemon *daemon = add(scene, "a", forks);
	struct error error;
	uint64_t waits_ms;
	char line[128];
	pid_t pid;

	daemon->forks = true;
	daemon->pid_file = "run/x.pid";
	assert_int_equal(start_whole(scene, &error), 0);
	pid = daemon->pid;
	assert_int_equal(daemon->program, 0);
	assert_int_equal(kill(pid, 0), 0);
	assert_int_equal(kill(pid, SIGKILL), 0);
	serve_until(scene, daemon, DAEMON_WAITING);
	assert_string_equal(daemon->last_exit, "signal:9");
	(void) snprintf(line, sizeof(line), " signal:9 %lld a ended with signal 9 (Killed)",
		(long long) daemon->since + 1);
	expect_line(scene, line);
	waits_ms = daemon->since_ms;
	serve_until(scene, daemon, DAEMON_UP);
	assert_int_not_equal(daemon->pid, pid);
	assert_int_equal(daemon->restarts, 1);
	assert_true(daemon->since_ms >= waits_ms + 1000);
	expect_line(scene, " up 1 ");
	expect_line(scene, " signal:9 0 ");
}

static void a_pid_file_that_names_another_process_is_not_believed(void **state)
{
	struct scene *scene = *state;
	struct daemon *daemon = add(scene, "a", "echo 1 >run/x.pid");
	struct error error;

	daemon->forks = true;
	daemon->needed = true;
	daemon->pid_file = "run/x.pid";
	assert_int_equal(start_whole(scene, &error), -ECHILD);
	assert_int_equal(daemon->pid, 0);
}

static void the_next_starts_when_the_one_before_serves(void **state)
{
	struct scene *scene = *state;
	struct daemon *first = add(scene, "a", "sleep 0.3; : >run/socket; exec sleep 1000");
	struct error error;

	first->socket = "run/socket";
	first->settle_ms = 5000;
	(void) add(scene, "b", "[ -e run/socket ] || exit 1; exec sleep 1000");
	scene->supervisor.daemons[1].needed = true;
	assert_int_equal(start_whole(scene, &error), 0);
	assert_int_equal(scene->supervisor.daemons[1].failures, 0);
}

static void a_needed_one_that_fails_ends_the_start_with_its_last_line(void **state)
{
	struct scene *scene = *state;
	struct daemon *daemon = add(scene, "a", "echo first; echo the switch is broken; exit 3");
	struct error error = { 0 };

	daemon->needed = true;
	daemon->settle_ms = 5000; /* a busy machine may not come to "exit" before 100 ms */
	assert_int_equal(start_whole(scene, &error), -ECHILD);
	assert_contains(error.text, "exit code 3");
	/* Waiting for a next try that does not come any more: when, and for what. */
	expect_line(scene, " exit:3 ");
	expect_line(
		scene, " a ended while it started, with exit code 3: \"the switch is broken\"\n");
	assert_contains(error.text, "\"the switch is broken\"");
	assert_contains(error.text, DAEMON_LOG_FOLDER "/a.log");
	assert_int_equal(scene->supervisor.daemons[0].failures, SUPERVISOR_TRIES);
	assert_ptr_equal(supervisor_lacks(&scene->supervisor), &scene->supervisor.daemons[0]);
}

static void one_that_is_not_needed_holds_nothing_up(void **state)
{
	struct scene *scene = *state;
	const struct daemon *broken = add(scene, "a", "exit 3");
	const struct daemon *next = add(scene, "b", stays);
	struct error error;

	assert_int_equal(start_whole(scene, &error), 0);
	assert_int_equal(next->state, DAEMON_UP);
	assert_null(supervisor_lacks(&scene->supervisor));
	folder_write_text(scene->folder, "a", "#!/bin/sh\nexec sleep 1000\n");
	assert_int_equal(fchmodat(scene->folder->fd, "a", 0755, 0), 0);
	serve_until(scene, broken, DAEMON_UP);
}

static void one_that_never_gets_ready_is_late(void **state)
{
	struct scene *scene = *state;
	struct daemon *daemon = add(scene, "a", stays);
	struct error error;

	daemon->forks = true; /* its program does not return */
	daemon->pid_file = "run/x.pid";
	daemon->start_ms = 300;
	assert_int_equal(start_whole(scene, &error), 0);
	assert_string_equal(daemon->last_exit, "late");
	assert_int_equal(daemon->program, 0);
}

static void a_program_that_cannot_run_is_reported(void **state)
{
	struct scene *scene = *state;
	const struct daemon *daemon = add(scene, "a", stays);
	struct error error;

	assert_int_equal(unlinkat(scene->folder->fd, "a", 0), 0);
	assert_int_equal(start_whole(scene, &error), 0);
	assert_string_equal(daemon->last_exit, "unable");
	assert_int_equal(daemon->state, DAEMON_WAITING);
}

static void a_folder_that_cannot_be_made_is_named(void **state)
{
	struct scene *scene = *state;
	struct daemon *daemon = add(scene, "a", stays);
	struct error error;

	folder_write_text(scene->folder, "file", "");
	daemon->pid_file = "run/a.pid";
	daemon->socket = "file/below/a.socket";
	assert_int_equal(supervisor_start(&scene->supervisor, &error), 0);
	assert_string_equal(daemon->last_exit, "unable");
	assert_contains(daemon->why, "folder of /file/below/a.socket");
}

static void one_of_another_container_is_named_and_not_doubled(void **state)
{
	struct scene *scene = *state;
	struct daemon *daemon = add(scene, "a", stays);
	struct error error = { 0 };
	char path[64];
	char pid[16];

	daemon->needed = true;
	daemon->pid_file = "run/x.pid";
	(void) snprintf(pid, sizeof(pid), "%d\n", (int) getppid());
	folder_write_text(scene->folder, "run/x.pid", pid);
	(void) snprintf(path, sizeof(path), "proc/%d", (int) getppid());
	folder_subfolder(scene->folder, path);
	(void) snprintf(path, sizeof(path), "proc/%d/exe", (int) getppid());
	assert_int_equal(symlinkat("/usr/bin/a", scene->folder->fd, path), 0);
	assert_int_equal(start_whole(scene, &error), -ECHILD);
	assert_contains(error.text, "a already runs on this node as process ");
	assert_string_equal(daemon->last_exit, "unable");
	assert_true(fs_exists(scene->folder->fd, "run/x.pid"));
}

static void an_alarm_ends_one_wait_and_is_no_deadline(void **state)
{
	struct scene *scene = *state;
	uint64_t begun_ms = clock_monotonic_ms();

	events_alarm(&scene->events, begun_ms + 30);
	events_alarm(&scene->events, begun_ms + 10000);
	assert_int_equal(events_wait(&scene->events, begun_ms + 10000), 0);
	assert_in_range(clock_monotonic_ms() - begun_ms, 30, 5000);
	assert_int_equal(events_wait(&scene->events, begun_ms + 60), EVENT_TIME);
}

static void a_command_runs_once(void **state)
{
	struct scene *scene = *state;
	struct daemon *command = add(scene, "a", "echo ran >>count");
	_cleanup_free_ char *count = NULL;
	uint64_t wake_ms = EVENTS_NEVER;
	struct error error;

	command->once = true;
	assert_int_equal(start_whole(scene, &error), 0);
	assert_int_equal(command->state, DAEMON_DONE);
	supervisor_look(&scene->supervisor, &wake_ms);
	assert_int_equal(wake_ms, EVENTS_NEVER);
	count = folder_read_text(scene->folder, "count");
	assert_string_equal(count, "ran\n");
}

/* It does not settle: there is nothing to look at before it ends. */
static void a_command_that_runs_is_left_alone(void **state)
{
	struct scene *scene = *state;
	struct daemon *command = add(scene, "a", "sleep 60");
	uint64_t now_ms = clock_monotonic_ms();
	uint64_t wake_ms = EVENTS_NEVER;
	struct error error;

	command->once = true;
	command->settle_ms = 0;
	assert_int_equal(supervisor_start(&scene->supervisor, &error), 1);
	supervisor_look(&scene->supervisor, &wake_ms);
	assert_int_equal(command->state, DAEMON_STARTING);
	assert_true(wake_ms >= now_ms + command->start_ms);
}

static void a_command_that_fails_and_is_not_needed_is_not_repeated(void **state)
{
	struct scene *scene = *state;
	struct daemon *command = add(scene, "a", "exit 4");
	uint64_t wake_ms = EVENTS_NEVER;
	struct error error;

	command->once = true;
	assert_int_equal(start_whole(scene, &error), 0);
	assert_int_equal(command->state, DAEMON_DONE);
	assert_string_equal(command->last_exit, "exit:4");
	supervisor_look(&scene->supervisor, &wake_ms);
	assert_int_equal(wake_ms, EVENTS_NEVER);
}

/* Each says when it ends. The second ignores SIGTERM. */
static void the_last_ends_first_and_a_deaf_one_is_killed(void **state)
{
	static const char script[] =
		"trap 'echo %s >>order; exit 0' TERM; : >run/%s; while :; do sleep 0.05; done";
	struct scene *scene = *state;
	_cleanup_free_ char *order = NULL;
	struct daemon *daemon;
	struct error error;
	char text[256];

	(void) snprintf(text, sizeof(text), script, "a", "a");
	daemon = add(scene, "a", text);
	daemon->socket = "run/a";
	daemon = add(scene, "b", "trap '' TERM; : >run/b; while :; do sleep 0.05; done");
	daemon->socket = "run/b";
	daemon->stop_ms = 300;
	(void) snprintf(text, sizeof(text), script, "c", "c");
	daemon = add(scene, "c", text);
	daemon->socket = "run/c";
	for (size_t i = 0; i < 3; i++)
		scene->supervisor.daemons[i].settle_ms = 5000;
	assert_int_equal(start_whole(scene, &error), 0);
	assert_int_equal(supervisor_stop(&scene->supervisor, &error), 1);
	assert_contains(error.text, ") got SIGTERM and has not ended yet: SIGKILL after 5 s");
	stop_all(scene);
	order = folder_read_text(scene->folder, "order");
	assert_string_equal(order, "c\na\n");
	assert_true(scene->supervisor.daemons[1].killed);
	assert_false(scene->supervisor.daemons[0].killed);
}

static void a_stop_in_mid_start_leaves_no_process(void **state)
{
	struct scene *scene = *state;
	struct daemon *daemon =
		add(scene, "a", "sleep 1000 & echo $! >run/x.pid; : >run/there; sleep 1000");
	_cleanup_free_ char *text = NULL;
	struct error error;

	daemon->forks = true;
	daemon->needed = true;
	daemon->pid_file = "run/x.pid";
	assert_int_equal(supervisor_start(&scene->supervisor, &error), 1);
	while (!fs_exists(scene->folder->fd, "run/there"))
		(void) usleep(1000);
	stop_all(scene);
	text = folder_read_text(scene->folder, "run/x.pid");
	assert_int_equal(kill((pid_t) strtol(text, NULL, 10), 0), -1);
}

/* As nvidia-persistenced between its fork and its pid file, with the device open already. */
static void a_stop_waits_for_what_forked_away_unnamed(void **state)
{
	struct scene *scene = *state;
	struct daemon *daemon = add(scene, "a",
		"setsid sh -c 'trap \"sleep 0.3; exit\" TERM; echo $$ >run/new; mv run/new run/child; "
		"while :; do sleep 0.01; done' &\nsleep 1000");
	_cleanup_free_ char *text = NULL;
	struct error error;

	daemon->forks = true;
	daemon->needed = true;
	daemon->pid_file = "run/x.pid";
	assert_int_equal(supervisor_start(&scene->supervisor, &error), 1);
	while (!fs_exists(scene->folder->fd, "run/child"))
		(void) usleep(1000);
	text = folder_read_text(scene->folder, "run/child");
	stop_all(scene);
	assert_int_equal(kill((pid_t) strtol(text, NULL, 10), 0), -1);
}

static void one_that_forked_away_unnamed_and_is_deaf_is_killed(void **state)
{
	struct scene *scene = *state;
	struct daemon *daemon = add(scene, "a",
		"setsid sh -c 'trap \"\" TERM; echo $$ >run/new; mv run/new run/child; "
		"while :; do sleep 0.01; done' &\nsleep 1000");
	uint64_t give_up_ms = clock_monotonic_ms() + PATIENCE_MS;
	_cleanup_free_ char *text = NULL;
	struct error error;

	daemon->forks = true;
	assert_int_equal(supervisor_start(&scene->supervisor, &error), 0);
	while (!fs_exists(scene->folder->fd, "run/child"))
		(void) usleep(1000);
	text = folder_read_text(scene->folder, "run/child");
	while (supervisor_stop(&scene->supervisor, &error) == 1 &&
		!scene->supervisor.orphans_since_ms)
		assert_false(events_wait(&scene->events, give_up_ms) & EVENT_TIME);
	assert_contains(error.text, "that a daemon left behind");
	assert_int_equal(kill((pid_t) strtol(text, NULL, 10), 0), 0);
	scene->supervisor.orphans_since_ms -= SUPERVISOR_ORPHANS_MS;
	stop_all(scene);
	assert_int_equal(kill((pid_t) strtol(text, NULL, 10), 0), -1);
}

/* It takes its time over GPUs, and nothing comes after it. */
static void the_last_one_is_waited_for_only_if_it_is_needed(void **state)
{
	struct scene *scene = *state;
	struct daemon *daemon = add(scene, "a", "sleep 1000");
	struct error error;

	daemon->socket = "run/a";
	daemon->settle_ms = 60000;
	assert_int_equal(supervisor_start(&scene->supervisor, &error), 0);
	assert_int_equal(daemon->state, DAEMON_STARTING);
	daemon->needed = true;
	assert_int_equal(supervisor_start(&scene->supervisor, &error), 1);
	assert_ptr_equal(supervisor_lacks(&scene->supervisor), daemon);
	daemon->needed = false;
	assert_null(supervisor_lacks(&scene->supervisor));
	(void) add(scene, "b", "sleep 1000");
	assert_int_equal(supervisor_start(&scene->supervisor, &error), 1);
	stop_all(scene);
}

#define scene_test(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_backoff_doubles_up_to_a_minute),
		scene_test(one_that_stays_in_the_foreground_is_up_when_it_settled),
		scene_test(one_that_forks_is_found_by_its_pid_file),
		scene_test(a_pid_file_that_names_another_process_is_not_believed),
		scene_test(the_next_starts_when_the_one_before_serves),
		scene_test(a_needed_one_that_fails_ends_the_start_with_its_last_line),
		scene_test(one_that_is_not_needed_holds_nothing_up),
		scene_test(one_that_never_gets_ready_is_late),
		scene_test(a_program_that_cannot_run_is_reported),
		scene_test(a_folder_that_cannot_be_made_is_named),
		scene_test(one_of_another_container_is_named_and_not_doubled),
		scene_test(an_alarm_ends_one_wait_and_is_no_deadline),
		scene_test(a_command_runs_once),
		scene_test(a_command_that_runs_is_left_alone),
		scene_test(a_command_that_fails_and_is_not_needed_is_not_repeated),
		scene_test(the_last_ends_first_and_a_deaf_one_is_killed),
		scene_test(a_stop_in_mid_start_leaves_no_process),
		scene_test(a_stop_waits_for_what_forked_away_unnamed),
		scene_test(one_that_forked_away_unnamed_and_is_deaf_is_killed),
		scene_test(the_last_one_is_waited_for_only_if_it_is_needed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
