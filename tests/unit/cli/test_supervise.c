/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/support.h"

#include <signal.h>

#include "cli/supervise.h"
#include "cli/exit_code.h"

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_killed_work_is_an_internal_error_for_every_verb),
		cmocka_unit_test(an_interrupted_one_ends_as_a_shell_expects),
		cmocka_unit_test(its_own_exit_code_stays),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
