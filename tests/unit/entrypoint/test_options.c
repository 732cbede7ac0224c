/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/support.h"

#include <stdlib.h>

#include "entrypoint/options.h"

static int read_all(struct options *options, struct error *error, char *const *arguments)
{
	*options = (struct options){ 0 };
	*error = (struct error){ 0 };
	return options_read(options, arguments, error);
}

static void takes_what_the_stock_image_takes(void **state)
{
	char *const given[] = { "-a", "--max-threads=8", "-k", "6.1.0-1-x", "--tag", "builtin",
		"-sKEY", NULL };
	struct options options;
	struct error error;

	(void) state;
	assert_int_equal(read_all(&options, &error, given), 0);
	assert_true(options.accept_license);
	assert_int_equal(options.max_threads, 8);
	assert_string_equal(options.kernel, "6.1.0-1-x");
	assert_string_equal(options.tag, "builtin");
	assert_string_equal(options.sign, "KEY");
}

static void reads_every_command_line_anew(void **state)
{
	char *const first[] = { "-m", "3", NULL };
	char *const second[] = { "-am4", NULL };
	char *const none[] = { NULL };
	struct options options;
	struct error error;

	(void) state;
	assert_int_equal(read_all(&options, &error, first), 0);
	assert_int_equal(options.max_threads, 3);
	assert_int_equal(read_all(&options, &error, second), 0);
	assert_int_equal(options.max_threads, 4);
	assert_true(options.accept_license);
	assert_int_equal(read_all(&options, &error, none), 0);
	assert_int_equal(options.max_threads, 0);
	assert_int_equal(read_all(&options, &error, NULL), 0);
}

static void assert_refused(char *const *arguments, const char *part)
{
	struct options options;
	struct error error;

	assert_int_equal(read_all(&options, &error, arguments), -EINVAL);
	assert_contains(error.text, part);
}

static void names_an_argument_that_it_does_not_take(void **state)
{
	(void) state;
	assert_refused((char *const[]){ "--frob", NULL }, "no such argument \"--frob\"");
	assert_refused((char *const[]){ "-a", "-m", NULL }, "no value after \"-m\"");
	assert_refused((char *const[]){ "-m", "0", NULL }, "--max-threads 0: give a whole number");
	assert_refused((char *const[]){ "-m", "many", NULL }, "--max-threads many");
	assert_refused((char *const[]){ "-a", "load", NULL }, "init takes no \"load\"");
}

static void assert_environment(const char *name, const char *value, const char *part)
{
	struct options options;
	struct error error;
	int r;

	(void) setenv(name, value, 1);
	r = read_all(&options, &error, NULL);
	(void) unsetenv(name);
	assert_int_equal(r, part ? -EINVAL : 0);
	if (part)
		assert_contains(error.text, part);
}

static void takes_words_of_yes_and_no_and_refuses_others(void **state)
{
	static const char *const yes[] = { "true", "TRUE", "True", "1", "yes", "on" };
	static const char *const no[] = { "false", "FALSE", "0", "no", "off", "" };
	struct options options;
	struct error error;

	(void) state;
	for (size_t i = 0; i < ARRAY_SIZE(yes); i++) {
		(void) setenv("USE_HOST_MOFED", yes[i], 1);
		assert_int_equal(read_all(&options, &error, NULL), 0);
		assert_true(options.host_ofed);
		(void) setenv("USE_HOST_MOFED", no[i], 1);
		assert_int_equal(read_all(&options, &error, NULL), 0);
		assert_false(options.host_ofed);
	}
	(void) unsetenv("USE_HOST_MOFED");
	assert_environment("GPU_DIRECT_RDMA_ENABLED", "ture",
		"GPU_DIRECT_RDMA_ENABLED=ture: give true (also 1, yes, on) or false");
	assert_environment("GDS_ENABLED", "truely", "GDS_ENABLED=truely");
	assert_environment(
		"DRIVER_TYPE", "pasthrough", "DRIVER_TYPE=pasthrough: give passthrough or vgpu");
	assert_environment("DRIVER_TYPE", "", NULL);
	assert_environment("DRIVER_TYPE", "vgpu", NULL);
}

static void names_the_verb_whose_arguments_they_are(void **state)
{
	struct options options = { .verb = "build" };
	struct error error;

	(void) state;
	assert_int_equal(options_read(&options, (char *const[]){ "-k", NULL }, &error), -EINVAL);
	assert_contains(error.text, "build: no value after \"-k\"");
	assert_int_equal(options_read(&options, (char *const[]){ "now", NULL }, &error), -EINVAL);
	assert_contains(error.text, "build takes no \"now\"");
}

static void notes_a_mistyped_variable_of_its_own(void **state)
{
	struct error note = { 0 };

	(void) state;
	assert_true(variables_is_unknown("SLIPWAY_OFED_DEADLINE_SECOND=3", &note));
	assert_contains(note.text,
		"SLIPWAY_OFED_DEADLINE_SECOND is not a variable of slipway-init: did you mean "
		"SLIPWAY_OFED_DEADLINE_SECONDS?");
	assert_true(variables_is_unknown("SLIPWAY_FOO=", &note));
	assert_contains(note.text, "SLIPWAY_FOO is not a variable of slipway-init");
	assert_contains(note.text, "SLIPWAY_NODE_CACHE");
	assert_false(variables_is_unknown("SLIPWAY_NVIDIA_DRM=true", &note));
	assert_false(variables_is_unknown("SLIPWAY_DATADIR=/x", &note));
	assert_false(variables_is_unknown("SLIPWAYS=1", &note));
}

static void notes_a_mistyped_variable_of_an_operator(void **state)
{
	struct error note = { 0 };

	(void) state;
	assert_true(variables_is_unknown("UNLOAD_STORAGE_MODULE=true", &note));
	assert_string_equal(note.text,
		"UNLOAD_STORAGE_MODULE is not read: did you mean UNLOAD_STORAGE_MODULES?");
	assert_true(variables_is_unknown("GPU_DIRECT_RDMA_ENABLE=true", &note));
	assert_true(variables_is_unknown("RESTORE_DRIVERS_ON_POD_TERMINATION=true", &note));
	assert_false(variables_is_unknown("UNLOAD_STORAGE_MODULES=true", &note));
	assert_false(variables_is_unknown("NODE_NAME=n", &note));
	assert_false(variables_is_unknown("KUBERNETES_SERVICE_HOST=n", &note));
}

static void reads_the_environment(void **state)
{
	struct options options;
	struct error error;

	(void) state;
	assert_int_equal(read_all(&options, &error, NULL), 0);
	assert_string_equal(options.digest, "");
	assert_false(options.gds || options.gdrcopy || options.drm || options.rdma);
	(void) setenv("DRIVER_CONFIG_DIGEST", "3271748789", 1);
	(void) setenv("GDS_ENABLED", "true", 1);
	(void) setenv("GDRCOPY_ENABLED", "True", 1);
	(void) setenv("SLIPWAY_OFED_DEADLINE_SECONDS", "2", 1);
	assert_int_equal(read_all(&options, &error, NULL), 0);
	assert_string_equal(options.digest, "3271748789");
	assert_true(options.gds && options.gdrcopy);
	assert_int_equal(options.ofed_ms, 2000);
	(void) setenv("SLIPWAY_OFED_DEADLINE_SECONDS", "soon", 1);
	assert_int_equal(read_all(&options, &error, NULL), -EINVAL);
	assert_contains(error.text, "SLIPWAY_OFED_DEADLINE_SECONDS=soon");
}

static void headers_are_the_hosts_or_any(void **state)
{
	static const char name[] = "SLIPWAY_NODE_HEADERS";
	struct options options;
	struct error error;

	(void) state;
	assert_int_equal(read_all(&options, &error, NULL), 0);
	assert_false(options.host_headers);
	assert_int_equal(setenv(name, "host", 1), 0);
	assert_int_equal(read_all(&options, &error, NULL), 0);
	assert_true(options.host_headers);
	assert_int_equal(setenv(name, "any", 1), 0);
	assert_int_equal(read_all(&options, &error, NULL), 0);
	assert_false(options.host_headers);
	assert_int_equal(setenv(name, "never", 1), 0);
	assert_int_equal(read_all(&options, &error, NULL), -EINVAL);
	assert_contains(error.text, "SLIPWAY_NODE_HEADERS=never: give any or host");
	assert_int_equal(unsetenv(name), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(takes_what_the_stock_image_takes),
		cmocka_unit_test(reads_every_command_line_anew),
		cmocka_unit_test(names_an_argument_that_it_does_not_take),
		cmocka_unit_test(takes_words_of_yes_and_no_and_refuses_others),
		cmocka_unit_test(names_the_verb_whose_arguments_they_are),
		cmocka_unit_test(notes_a_mistyped_variable_of_its_own),
		cmocka_unit_test(notes_a_mistyped_variable_of_an_operator),
		cmocka_unit_test(headers_are_the_hosts_or_any),
		cmocka_unit_test(reads_the_environment),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
