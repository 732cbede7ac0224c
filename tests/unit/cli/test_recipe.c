/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/support.h"

#include "cli/stage/stage_internal.h"

static void expect(const char *text, const char *source, const char *wanted)
{
	_cleanup_free_ char *own = recipe_own_path(text, source);

	assert_string_equal(own, wanted);
}

static void a_path_in_the_container_is_the_users(void **state)
{
	(void) state;
	expect("userspace.sh: /slipway/source/run/.manifest: line 9 is no entry of a file",
		"/home/me/driver",
		"userspace.sh: /home/me/driver/run/.manifest: line 9 is no entry of a file");
	expect("cp: cannot stat '/slipway/source/a': no /slipway/source", "/b",
		"cp: cannot stat '/b/a': no /b");
	expect("/slipway/source/x", "/slipway/source", "/slipway/source/x");
	expect("no configure in the source", "/b", "no configure in the source");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_path_in_the_container_is_the_users),
	};

	return cmocka_run_group_tests_name("recipe", tests, NULL, NULL);
}
