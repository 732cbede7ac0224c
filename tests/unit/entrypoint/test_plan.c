/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <linux/netlink.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "common/clock.h"
#include "common/fs.h"
#include "entrypoint/engine/plan.h"
#include "entrypoint/role/role.h"

/* A trace of a test's steps, in order: "a b !b !a". */
struct trace {
	char text[256];
	struct events events;
	struct log log;
	int folder_fd;
	char folder[64];
};

static void note(struct trace *trace, const char *word)
{
	size_t used = strlen(trace->text);

	(void) snprintf(
		trace->text + used, sizeof(trace->text) - used, "%s%s", used ? " " : "", word);
}

static int set_up(void **state)
{
	struct trace *trace = calloc(1, sizeof(*trace));
	struct error error;

	(void) snprintf(trace->folder, sizeof(trace->folder), "/tmp/slipway-plan.XXXXXX");
	assert_non_null(mkdtemp(trace->folder));
	trace->folder_fd = open(trace->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(events_open(&trace->events, &error), 0);
	log_prepare(&trace->log, trace->folder_fd, "test", "run");
	log_open(&trace->log);
	*state = trace;
	return 0;
}

static int tear_down(void **state)
{
	struct trace *trace = *state;
	sigset_t none;

	log_close(&trace->log);
	events_close(&trace->events);
	(void) close(trace->folder_fd);
	assert_int_equal(fs_remove_tree(AT_FDCWD, trace->folder), 0);
	free(trace);
	(void) sigemptyset(&none);
	return sigprocmask(SIG_SETMASK, &none, NULL);
}

static void hear(void *role, const struct worker_message *message)
{
	note(role, message->text.text);
}

static struct plan plan_of(struct trace *trace, const struct step *steps, size_t count)
{
	return (struct plan){
		.steps = steps,
		.step_count = count,
		.role = trace,
		.events = &trace->events,
		.log = &trace->log,
		.listener = hear,
	};
}

static int do_a(struct action *action)
{
	note(action->role, "a");
	return 0;
}

static int undo_a(struct action *action)
{
	note(action->role, "!a");
	return 0;
}

static int do_b(struct action *action)
{
	note(action->role, "b");
	return 0;
}

static int undo_b(struct action *action)
{
	note(action->role, "!b");
	return 0;
}

static int fail_b(struct action *action)
{
	note(action->role, "b-fails");
	return action_fail(action, REASON_LOAD_FAILED, -ENODEV, "b is broken");
}

static int undo_b_fails(struct action *action)
{
	note(action->role, "!b-fails");
	return action_fail(action, REASON_UNLOAD_FAILED, -EIO, "b stays");
}

static int work_b(struct action *action)
{
	worker_report(action->worker, WORKER_LOADED, 1, "from-child");
	return 0;
}

static int work_dies(struct action *action)
{
	(void) action;
	(void) raise(SIGKILL);
	return 0;
}

static int work_hangs(struct action *action)
{
	(void) action;
	(void) pause();
	return 0;
}

static int never(struct action *action)
{
	return action_missing(action, REASON_OFED_NOT_READY, "the thing is missing");
}

static void undoes_in_reverse(void **state)
{
	static const struct step steps[] = {
		{ .name = "a", .perform = do_a, .undo = undo_a },
		{ .name = "b", .perform = do_b, .undo = undo_b },
	};
	struct plan plan = plan_of(*state, steps, 2);

	assert_int_equal(plan_start(&plan), 0);
	assert_int_equal(plan_stop(&plan), 0);
	assert_string_equal(((struct trace *) *state)->text, "a b !b !a");
	assert_int_equal(plan.reason, REASON_NONE);
}

static void undoes_the_failed_step_too(void **state)
{
	static const struct step steps[] = {
		{ .name = "a", .perform = do_a, .undo = undo_a },
		{ .name = "b", .perform = fail_b, .undo = undo_b },
		{ .name = "c", .perform = do_a, .undo = undo_a },
	};
	struct plan plan = plan_of(*state, steps, 3);

	assert_int_equal(plan_start(&plan), -ENODEV);
	assert_int_equal(plan.reason, REASON_LOAD_FAILED);
	assert_string_equal(plan.error.text, "b is broken");
	assert_int_equal(plan_stop(&plan), 0);
	assert_string_equal(((struct trace *) *state)->text, "a b-fails !b !a");
}

static void a_failing_undo_does_not_stop_the_others(void **state)
{
	static const struct step steps[] = {
		{ .name = "a", .perform = do_a, .undo = undo_a },
		{ .name = "b", .perform = do_b, .undo = undo_b_fails },
	};
	struct plan plan = plan_of(*state, steps, 2);

	assert_int_equal(plan_start(&plan), 0);
	assert_int_equal(plan_stop(&plan), -EIO);
	assert_string_equal(((struct trace *) *state)->text, "a b !b-fails !a");
	assert_int_equal(plan.reason, REASON_UNLOAD_FAILED);
}

static void the_second_half_of_an_undo_runs_when_the_first_failed(void **state)
{
	static const struct step steps[] = {
		{ .name = "a", .perform = do_a, .undo_first = undo_b_fails, .undo = undo_a },
	};
	struct plan plan = plan_of(*state, steps, 1);

	assert_int_equal(plan_start(&plan), 0);
	assert_int_equal(plan_stop(&plan), -EIO);
	assert_string_equal(((struct trace *) *state)->text, "a !b-fails !a");
	assert_int_equal(plan.reason, REASON_UNLOAD_FAILED);
	assert_true(plan.stop_failed);
}

/* As for recovery: what a start finds is not what its stop finds. */
static bool is_undone_by_half(const void *role)
{
	return !strstr(((const struct trace *) role)->text, "!b");
}

static void each_half_of_an_undo_is_asked_for(void **state)
{
	static const struct step steps[] = {
		{ .name = "a",
			.wanted = is_undone_by_half,
			.perform = do_a,
			.undo_first = undo_b,
			.undo = undo_a },
	};
	struct plan plan = plan_of(*state, steps, 1);

	assert_int_equal(plan_start(&plan), 0);
	assert_int_equal(plan_stop(&plan), 0);
	assert_string_equal(((struct trace *) *state)->text, "a !b");
}

static void hears_what_a_worker_did(void **state)
{
	static const struct step steps[] = {
		{ .name = "b", .kind = STEP_WORKER, .perform = work_b },
	};
	struct plan plan = plan_of(*state, steps, 1);

	assert_int_equal(plan_start(&plan), 0);
	assert_string_equal(((struct trace *) *state)->text, "from-child");
}

static void survives_a_worker_that_dies(void **state)
{
	static const struct step steps[] = {
		{ .name = "b", .kind = STEP_WORKER, .perform = work_dies, .undo = undo_b },
	};
	struct plan plan = plan_of(*state, steps, 1);

	assert_int_equal(plan_start(&plan), -ECHILD);
	assert_int_equal(plan.reason, REASON_INTERNAL);
	assert_non_null(strstr(plan.error.text, "signal 9"));
	assert_int_equal(plan_stop(&plan), 0);
	assert_string_equal(((struct trace *) *state)->text, "!b");
}

static void gives_up_on_a_worker_at_its_deadline(void **state)
{
	static const struct step steps[] = {
		{ .name = "b", .kind = STEP_WORKER, .perform = work_hangs, .deadline_ms = 30 },
	};
	struct trace *trace = *state;
	struct plan plan = plan_of(trace, steps, 1);

	assert_int_equal(plan_start(&plan), -ETIMEDOUT);
	assert_int_equal(plan.reason, REASON_DEADLINE);
	/* It was killed and reaped: nothing of it runs beside the undos. */
	assert_int_equal(trace->events.worker_pid, 0);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

static uint32_t deadline_of_the_user(const void *role)
{
	(void) role;
	return 20;
}

static void a_deadline_may_be_the_users(void **state)
{
	static const struct step steps[] = {
		{ .name = "w",
			.kind = STEP_WAIT,
			.perform = never,
			.deadline = deadline_of_the_user },
	};
	struct plan plan = plan_of(*state, steps, 1);

	assert_int_equal(plan_start(&plan), -ETIMEDOUT);
}

static void reports_what_was_missing_at_the_deadline(void **state)
{
	static const struct step steps[] = {
		{ .name = "w", .kind = STEP_WAIT, .perform = never, .deadline_ms = 20 },
	};
	struct plan plan = plan_of(*state, steps, 1);

	assert_int_equal(plan_start(&plan), -ETIMEDOUT);
	assert_int_equal(plan.reason, REASON_OFED_NOT_READY);
	assert_non_null(strstr(plan.error.text, "the thing is missing"));
}

static int hangs(struct action *action)
{
	(void) action;
	(void) pause();
	return 0;
}

static void a_step_that_may_fail_costs_nothing_else(void **state)
{
	static const struct step steps[] = {
		{ .name = "undo only", .undo = undo_a },
		{ .name = "hangs",
			.kind = STEP_WORKER,
			.perform = hangs,
			.deadline_ms = 20,
			.may_fail = true },
		{ .name = "b", .perform = do_b, .undo = undo_b },
	};
	struct trace *trace = *state;
	struct plan plan = plan_of(trace, steps, 3);

	assert_int_equal(plan_start(&plan), 0);
	assert_false(plan.start_failed);
	assert_int_equal(plan.reason, REASON_NONE);
	assert_int_equal(plan_stop(&plan), 0);
	assert_string_equal(trace->text, "b !b !a");
}

static void a_signal_ends_a_wait(void **state)
{
	static const struct step steps[] = {
		{ .name = "a", .perform = do_a, .undo = undo_a },
		{ .name = "w", .kind = STEP_WAIT, .perform = never },
	};
	struct plan plan = plan_of(*state, steps, 2);

	assert_int_equal(kill(getpid(), SIGTERM), 0);
	assert_int_equal(plan_start(&plan), 0 - EINTR);
	assert_int_equal(plan.reason, REASON_NONE);
}

static void a_file_ends_a_wait(void **state)
{
	struct trace *trace = *state;
	char path[128];

	(void) snprintf(path, sizeof(path), "%s/deep/flag", trace->folder);
	assert_int_equal(events_watch_file(&trace->events, path), 0);
	(void) snprintf(path, sizeof(path), "%s/deep", trace->folder);
	assert_int_equal(mkdir(path, 0700), 0);
	assert_int_equal(events_wait(&trace->events, clock_monotonic_ms() + 5000), EVENT_FILE);
}

static void every_event_is_one_json_object_a_line(void **state)
{
	static const struct step steps[] = {
		{ .name = "b", .perform = fail_b },
	};
	struct trace *trace = *state;
	struct plan plan = plan_of(trace, steps, 1);
	_cleanup_free_ char *text = NULL;

	assert_int_equal(plan_start(&plan), -ENODEV);
	assert_int_equal(fs_read(trace->folder_fd, "run/test.events.jsonl", 0, &text, NULL), 0);
	assert_non_null(strstr(text, "\"event\":\"begin\",\"step\":\"b\""));
	assert_non_null(strstr(text, "\"event\":\"failed\",\"step\":\"b\""));
	assert_non_null(strstr(text, "\"reason\":\"LOAD_FAILED\",\"message\":\"b is broken\"}\n"));
}

static int undo_hangs(struct action *action)
{
	(void) action;
	(void) sleep(60);
	return 0;
}

static int undo_takes_a_second(struct action *action)
{
	worker_report(action->worker, WORKER_NOTE, 0, "!whole");
	(void) sleep(1);
	return 0;
}

/* The first of two signals counts: the orchestrator kills @grace_ms after it. */
static uint64_t stop_with_grace(
	struct trace *trace, const struct step *steps, size_t count, uint32_t grace_ms)
{
	struct plan plan = plan_of(trace, steps, count);
	uint64_t stopped_ms;

	plan.grace_ms = grace_ms;
	assert_int_equal(plan_start(&plan), 0);
	assert_int_equal(raise(SIGTERM), 0);
	while (!trace->events.stop_count)
		(void) events_wait(&trace->events, EVENTS_NEVER);
	stopped_ms = trace->events.stopped_ms;
	while (clock_monotonic_ms() < stopped_ms + 2)
		;
	assert_int_equal(raise(SIGTERM), 0);
	while (trace->events.stop_count < 2)
		(void) events_wait(&trace->events, EVENTS_NEVER);
	assert_int_equal(trace->events.stopped_ms, stopped_ms);
	assert_int_equal(plan_stop(&plan), -ETIMEDOUT);
	assert_int_equal(plan.reason, REASON_DEADLINE);
	return clock_monotonic_ms() - stopped_ms;
}

static void an_undo_ends_where_the_shares_of_those_after_it_begin(void **state)
{
	static const struct step steps[] = {
		{ "first", .perform = do_a, .undo = undo_a, .undo_share_ms = 8000 },
		{ "whole", .perform = do_b, .undo_kind = STEP_WORKER, .undo = undo_takes_a_second,
			.undo_deadline_ms = 50000, .undo_share_ms = 1500, .undo_is_whole = true },
		{ "hangs", .perform = do_b, .undo_kind = STEP_WORKER, .undo = undo_hangs,
			.undo_deadline_ms = 50000, .undo_share_ms = 100 },
	};
	uint64_t took_ms = stop_with_grace(*state, steps, 3, 10000);
	const struct trace *trace = *state;

	assert_string_equal(trace->text, "a b b !whole !a");
	assert_in_range(took_ms, 1500, 9000);
}

/* Its share is its own, though what was before it has eaten the grace. */
static void what_is_whole_is_never_cut(void **state)
{
	static const struct step steps[] = {
		{ "whole", .perform = do_a, .undo_kind = STEP_WORKER, .undo = undo_takes_a_second,
			.undo_deadline_ms = 50000, .undo_is_whole = true },
		{ "hangs", .perform = do_b, .undo_kind = STEP_WORKER, .undo = undo_hangs,
			.undo_deadline_ms = 50000, .undo_share_ms = 300 },
	};
	const struct trace *trace = *state;

	(void) stop_with_grace(*state, steps, 2, 1);
	assert_string_equal(trace->text, "a b !whole");
	assert_int_equal(trace->events.worker_pid, 0);
}

/* The first half leaves the second its share, and those after it theirs. */
static void only_the_second_half_of_an_undo_is_whole(void **state)
{
	static const struct step steps[] = {
		{ "last", .perform = do_a, .undo = undo_a, .undo_share_ms = 13000 },
		{ "halves", .perform = do_b, .undo_kind = STEP_WORKER, .undo_first = undo_hangs,
			.undo = undo_takes_a_second, .undo_deadline_ms = 50000,
			.undo_share_ms = 200, .undo_is_whole = true },
	};
	uint64_t took_ms = stop_with_grace(*state, steps, 2, 14000);
	const struct trace *trace = *state;

	assert_string_equal(trace->text, "a b !whole !a");
	assert_in_range(took_ms, 1700, 13900);
}

static int undo_is_busy(struct action *action)
{
	return error_set(&action->error, -EBUSY, "it is used");
}

static void waiting_for_users_is_part_of_the_grace(void **state)
{
	static const struct step steps[] = {
		{ "a", .perform = do_a, .undo = undo_a, .undo_share_ms = 60000 },
		{ "busy", .perform = do_b, .undo = undo_is_busy, .undo_share_ms = 500 },
	};
	struct trace *trace = *state;
	struct plan plan = plan_of(trace, steps, 2);
	uint64_t begun_ms;

	plan.busy_ms = 50000;
	plan.grace_ms = 60500;
	assert_int_equal(plan_start(&plan), 0);
	assert_int_equal(raise(SIGTERM), 0);
	while (!trace->events.stop_count)
		(void) events_wait(&trace->events, EVENTS_NEVER);
	begun_ms = clock_monotonic_ms();
	assert_int_equal(plan_stop(&plan), -EBUSY);
	assert_in_range(clock_monotonic_ms() - begun_ms, 300, 20000);
	assert_string_equal(trace->text, "a b !a");
}

/* In a network namespace of its own root is heard as the kernel is, and by nothing else. */
static void a_queue_of_kernel_events_that_ran_over_is_an_event(void **state)
{
	static const char message[] = "change@/devices/x";
	const struct sockaddr_nl group = { .nl_family = AF_NETLINK, .nl_groups = 1 };
	const int least = 0;
	struct events events;
	struct error error;
	int sender;

	(void) state;
	assert_true(unshare(CLONE_NEWNET) == 0 || unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0);
	assert_int_equal(events_open(&events, &error), 0);
	sender = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_KOBJECT_UEVENT);
	assert_true(sendto(sender, message, sizeof(message), 0, (const struct sockaddr *) &group,
			    sizeof(group)) >= 0);
	assert_false(events_wait(&events, clock_monotonic_ms() + 200) & EVENT_KERNEL);
	assert_int_equal(
		setsockopt(events.uevent_fd, SOL_SOCKET, SO_RCVBUF, &least, sizeof(least)), 0);
	for (int i = 0; i < 100; i++)
		(void) sendto(sender, message, sizeof(message), 0, (const struct sockaddr *) &group,
			sizeof(group));
	assert_true(events_wait(&events, clock_monotonic_ms() + 20000) & EVENT_KERNEL);
	(void) close(sender);
	events_close(&events);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(undoes_in_reverse, set_up, tear_down),
		cmocka_unit_test_setup_teardown(undoes_the_failed_step_too, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			a_failing_undo_does_not_stop_the_others, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			the_second_half_of_an_undo_runs_when_the_first_failed, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			each_half_of_an_undo_is_asked_for, set_up, tear_down),
		cmocka_unit_test_setup_teardown(hears_what_a_worker_did, set_up, tear_down),
		cmocka_unit_test_setup_teardown(survives_a_worker_that_dies, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			gives_up_on_a_worker_at_its_deadline, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_deadline_may_be_the_users, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			reports_what_was_missing_at_the_deadline, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			an_undo_ends_where_the_shares_of_those_after_it_begin, set_up, tear_down),
		cmocka_unit_test_setup_teardown(what_is_whole_is_never_cut, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			only_the_second_half_of_an_undo_is_whole, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			waiting_for_users_is_part_of_the_grace, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			a_step_that_may_fail_costs_nothing_else, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_signal_ends_a_wait, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_file_ends_a_wait, set_up, tear_down),
		cmocka_unit_test(a_queue_of_kernel_events_that_ran_over_is_an_event),
		cmocka_unit_test_setup_teardown(
			every_event_is_one_json_object_a_line, set_up, tear_down),
	};

	return cmocka_run_group_tests_name("plan", tests, NULL, NULL);
}
