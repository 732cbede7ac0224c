/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/support.h"

#include <signal.h>

#include "kernels/tool.h"

static int run(const char *script, char **ret_output, struct error *error)
{
	_cleanup_strv_ struct strv argv = { 0 };

	assert_int_equal(strv_push(&argv, "sh"), 0);
	assert_int_equal(strv_push(&argv, "-c"), 0);
	assert_int_equal(strv_push(&argv, script), 0);
	return tool_run(&argv, ret_output, error);
}

static void the_answer_is_stdout(void **state)
{
	_cleanup_free_ char *output = NULL;
	struct error error = { 0 };

	(void) state;
	assert_int_equal(run("echo out; echo err >&2", &output, &error), 0);
	assert_string_equal(output, "out\n");
}

static void a_failure_has_the_reason_that_was_marked_as_one(void **state)
{
	struct error error = { 0 };

	(void) state;
	assert_int_equal(run("echo 'E: no disk' >&2; echo bye >&2; exit 3", NULL, &error), -EIO);
	assert_contains(error.text, "exit status 3: no disk");
	/* As dnf prints it. */
	assert_int_equal(
		run("echo 'Error: ' >&2; echo ' Problem: no package x' >&2; exit 1", NULL, &error),
		-EIO);
	assert_contains(error.text, "exit status 1: Problem: no package x");
	/* As Buildah prints several, of any length: the last one's end has the cause. */
	assert_int_equal(run("printf 'Error: adding: 2 errors occurred:\\n\\t* pipe\\n\\t* %0999d: "
			     "put: not permitted\\n\\n' 0 >&2; exit 125",
				 NULL, &error),
		-EIO);
	assert_string_equal(strrchr(error.text, '5'), "5: put: not permitted");
}

static void a_full_disk_is_one_in_the_words_of_every_program(void **state)
{
	struct error error = { 0 };

	(void) state;
	assert_int_equal(run("echo 'tar: x: Cannot write: No space left on device' >&2; exit 2",
				 NULL, &error),
		-ENOSPC);
	assert_int_equal(
		run("echo 'Error: write /var/lib/containers/x: no space left on device' >&2; "
		    "exit 125",
			NULL, &error),
		-ENOSPC);
	assert_int_equal(
		run("echo 'Error: disk quota exceeded' >&2; exit 125", NULL, &error), -EDQUOT);
	assert_contains(error.text, "exit status 125: disk quota exceeded");
	assert_int_equal(run("echo '  installing package gcc-8.5.0 needs 12MB more space on the / "
			     "filesystem' >&2; exit 1",
				 NULL, &error),
		-ENOSPC);
	assert_int_equal(run("echo \"E: You don't have enough free space in "
			     "/var/cache/apt/archives/.\" >&2; exit 100",
				 NULL, &error),
		-ENOSPC);
	assert_int_equal(tool_failed("buildah build", 1, -1, 0, &error), -EIO);
	assert_contains(error.text, "buildah build: exit status 1: no reason given");
}

static void only_what_was_told_to_stop_is_interrupted(void **state)
{
	static const struct {
		const char *script;
		int result;
		const char *text;
	} cases[] = {
		{ "kill -INT $$", -EINTR, "ended by signal 2" },
		{ "kill -TERM $$", -EINTR, "ended by signal 15" },
		{ "kill -HUP $$", -EINTR, "ended by signal 1" },
		{ "kill -KILL $$", -ENOMEM, "memory" },
		{ "kill -SEGV $$", -ENOTRECOVERABLE, "ended by signal 11" },
	};

	(void) state;
	/* A user who runs this under nohup wants that for slipway's children too, and not here. */
	(void) signal(SIGHUP, SIG_DFL);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct error error = { 0 };

		assert_int_equal(run(cases[i].script, NULL, &error), cases[i].result);
		assert_contains(error.text, cases[i].text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_answer_is_stdout),
		cmocka_unit_test(a_failure_has_the_reason_that_was_marked_as_one),
		cmocka_unit_test(a_full_disk_is_one_in_the_words_of_every_program),
		cmocka_unit_test(only_what_was_told_to_stop_is_interrupted),
	};

	return cmocka_run_group_tests_name("tool", tests, NULL, NULL);
}
