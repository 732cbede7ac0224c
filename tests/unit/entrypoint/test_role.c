/* SPDX-License-Identifier: Apache-2.0 */
/* Tests what a role does while it serves. */
#include "tests/unit/support.h"

#include <signal.h>

#include "common/clock.h"
#include "common/fs.h"
#include "entrypoint/engine/lock_file.h"
#include "entrypoint/role/modset.h"
#include "entrypoint/role/role.h"

#define QUIET_MS 50

static int nothing(struct action *action)
{
	(void) action;
	return 0;
}

static const struct step steps[] = { { .name = "nothing", .perform = nothing } };

/* In words, what the watch was told: its calls have no room for more. */
static void note(const struct role *role, const char *word)
{
	_cleanup_free_ char *before = NULL;
	_cleanup_free_ char *text = NULL;

	if (fs_read(role->root_fd, "told", 0, &before, NULL) < 0)
		before = strdup("");
	assert_true(asprintf(&text, "%s%s ", before, word) > 0);
	assert_int_equal(fs_write_atomic(role->root_fd, "told", text, strlen(text), 0644), 0);
}

/* A signal that is for no watch comes first, and a time later: the second call of all ends the
 * role. */
static void look(struct role *role, unsigned happened, uint64_t *wake_ms)
{
	note(role, !happened ? "begins" : happened & EVENT_TIME ? "time" : "other");
	if (fs_exists(role->root_fd, "called")) {
		assert_int_equal(kill(getpid(), SIGTERM), 0);
		return;
	}
	assert_int_equal(fs_write_atomic(role->root_fd, "called", "", 0, 0644), 0);
	*wake_ms = clock_monotonic_ms() + QUIET_MS;
	assert_int_equal(kill(getpid(), SIGHUP), 0);
}

static void a_signal_that_is_for_no_watch_is_no_new_beginning(void **state)
{
	static const struct watch watches[] = { { "test", look } };
	const struct folder *folder = *state;
	_cleanup_free_ char *told = NULL;
	struct role role = {
		.name = "nic",
		.state_folder = "run",
		.root_fd = folder->fd,
		.watches = watches,
		.watch_count = 1,
	};
	sigset_t before;

	assert_int_equal(sigprocmask(SIG_SETMASK, NULL, &before), 0);
	assert_int_equal(role_run(&role, steps, ARRAY_SIZE(steps)), 0);
	told = folder_read_text(folder, "told");
	/* The stop signal ends the loop before the watch is asked again. */
	assert_string_equal(told, "begins time ");
	assert_int_equal(sigprocmask(SIG_SETMASK, &before, NULL), 0);
}

static void look_at_reports(const struct log *log)
{
	bool is_there = fs_exists(log->root_fd, "run/gpu.daemons") ||
			fs_exists(log->root_fd, "run/gpu.report");

	assert_false(is_there);
	assert_int_equal(fs_write_atomic(log->root_fd, "looked", "", 0, 0644), 0);
}

static void end_at_once(struct role *role, unsigned happened, uint64_t *wake_ms)
{
	(void) role, (void) happened, (void) wake_ms;
	assert_int_equal(kill(getpid(), SIGTERM), 0);
}

/* Metrics are written before the first step. */
static void what_a_killed_run_said_of_itself_goes_first(void **state)
{
	static const struct role_hooks hooks = { .changed = look_at_reports, .look = end_at_once };
	const struct folder *folder = *state;
	struct role role = {
		.name = "gpu", .state_folder = "run", .root_fd = folder->fd, .hooks = &hooks
	};
	sigset_t before;

	folder_write_text(folder, "run/gpu.daemons", "nvidia-persistenced 501 up 0 1 -\n");
	folder_write_text(folder, "run/gpu.report", "mode=precompiled\n");
	assert_int_equal(sigprocmask(SIG_SETMASK, NULL, &before), 0);
	assert_int_equal(role_run(&role, steps, ARRAY_SIZE(steps)), 0);
	assert_true(fs_exists(folder->fd, "looked"));
	assert_int_equal(sigprocmask(SIG_SETMASK, &before, NULL), 0);
}

static void a_list_is_read_as_it_was_written(void **state)
{
	const struct folder *folder = *state;
	const struct role role = { .name = "gpu", .state_folder = "run", .root_fd = folder->fd };
	_cleanup_strv_ struct strv items = { 0 };
	_cleanup_strv_ struct strv again = { 0 };
	struct error error = { 0 };

	assert_int_equal(role_list_read(&role, "parameters", &again), -ENOENT);
	assert_int_equal(strv_push(&items, "nvidia_uvm "), 0);
	assert_int_equal(strv_push(&items, "nvidia NVreg_RegistryDwords=\"a=1; b=%\""), 0);
	assert_int_equal(role_list_write(&role, "parameters", &items, &error), 0);
	assert_int_equal(role_list_read(&role, "parameters", &again), 0);
	assert_int_equal(again.count, 2);
	assert_string_equal(again.items[0], items.items[0]);
	assert_string_equal(again.items[1], items.items[1]);
	role_list_remove(&role, "parameters");
	assert_false(fs_exists(folder->fd, "run/gpu.parameters"));
}

static int read_inputs(struct role *role, struct error *error)
{
	/* Its folder is a file. */
	return lock_take(role->root_fd, "file/lock", &role->lock_fd, error);
}

static void a_lock_of_ones_own_that_cannot_be_made_is_no_usage(void **state)
{
	const struct folder *folder = *state;
	struct role role = {
		.name = "nic",
		.state_folder = "run",
		.root_fd = folder->fd,
		.read_inputs = read_inputs,
	};
	sigset_t before;

	folder_write_text(folder, "file", "");
	assert_int_equal(sigprocmask(SIG_SETMASK, NULL, &before), 0);
	assert_int_equal(role_run(&role, steps, ARRAY_SIZE(steps)),
		reason_entry(REASON_MOUNT_FAILED)->exit_code);
	assert_int_equal(sigprocmask(SIG_SETMASK, &before, NULL), 0);
}

static void a_list_that_is_cut_off_is_damaged(void **state)
{
	const struct folder *folder = *state;
	const struct role role = { .name = "gpu", .state_folder = "run", .root_fd = folder->fd };
	_cleanup_strv_ struct strv items = { 0 };

	folder_write_text(folder, "run/gpu.before", "slipway-list 1\nitem text=ext4\n");
	assert_int_equal(role_list_read(&role, "before", &items), -EBADMSG);
	assert_int_equal(items.count, 0);
}

static void expect_damage(int (*step)(struct action *action), const struct folder *folder,
	const char *path, const char *text)
{
	struct role role = { .name = "gpu", .state_folder = "run", .root_fd = folder->fd };
	struct action action = { .role = &role };

	role.plan.start_failed = true;
	folder_write_text(folder, path, "slipway-list 1\nitem text=ext4\n");
	assert_int_equal(step(&action), -EBADMSG);
	assert_contains(action.error.text, text);
}

static void what_cannot_be_read_is_named_by_the_step_that_needs_it(void **state)
{
	expect_damage(role_unload, *state, "run/gpu.before", "the list of modules /run/gpu.before");
	expect_damage(role_reload_replaced, *state, "run/gpu.replaced",
		"the list of modules /run/gpu.replaced");
}

static int reload_after_a_failed_undo(const struct folder *folder)
{
	struct role role = { .name = "gpu", .state_folder = "run", .root_fd = folder->fd };
	struct action action = { .role = &role };
	int r;

	role.plan.stop_failed = true;
	role.options.restore_inbox = true;
	assert_int_equal(strv_push(&role.driver_modules, "nvidia"), 0);
	r = role_reload_replaced(&action);
	strv_free(&role.driver_modules);
	return r;
}

/* A daemon that did not end is a failed undo, too; the node's own driver comes back all the same.
 */
static void a_driver_that_stays_is_one_that_is_loaded(void **state)
{
	const struct folder *folder = *state;

	/* The error of an unreadable list shows that the list was asked. */
	folder_write_text(folder, "run/gpu.replaced", "slipway-list 1\n");
	assert_int_equal(reload_after_a_failed_undo(folder), -EBADMSG);
	folder_module(folder, "nvidia", "1\n", NULL);
	assert_int_equal(reload_after_a_failed_undo(folder), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(a_signal_that_is_for_no_watch_is_no_new_beginning),
		folder_test(what_a_killed_run_said_of_itself_goes_first),
		folder_test(a_list_is_read_as_it_was_written),
		folder_test(a_list_that_is_cut_off_is_damaged),
		folder_test(what_cannot_be_read_is_named_by_the_step_that_needs_it),
		folder_test(a_driver_that_stays_is_one_that_is_loaded),
		folder_test(a_lock_of_ones_own_that_cannot_be_made_is_no_usage),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
