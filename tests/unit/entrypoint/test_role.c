/* SPDX-License-Identifier: Apache-2.0 */
/* What a role does while it serves. */
#include "tests/unit/support.h"

#include <signal.h>

#include "common/clock.h"
#include "common/fs.h"
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

/* A signal of nobody's comes first, and a time later: the second call of all ends the role. */
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

static void a_signal_of_nobodys_is_no_new_beginning(void **state)
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(a_signal_of_nobodys_is_no_new_beginning),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
