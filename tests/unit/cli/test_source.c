/* SPDX-License-Identifier: Apache-2.0 */
/* The drivers' sources: what of them is in keys. */
#include "tests/unit/support.h"

#include "cli/stage/stage_internal.h"
#include "common/hash.h"

static void kit_key_of(const char *kind, char hex[HASH_HEX_SIZE])
{
	const struct stage stage = { .driver = DRIVER_NVIDIA };
	struct error error = { 0 };
	struct build build = {
		.context.data = "/nowhere",
		.sources[DRIVER_NVIDIA].form = SOURCE_ARCHIVE,
		.options.kernel_module_type = kind,
	};
	struct key key = { .build = &build, .hash = hash_new(), .error = &error };

	assert_int_equal(nvidia_modules_parse(kind, &build.modules, &error), 0);
	kit_key(&stage, &key);
	assert_int_equal(key.result, 0);
	hash_finish(key.hash, hex);
}

/* It holds one kind's source only: a node would compile the other kind's modules. */
static void a_kit_of_each_kind_of_modules_has_a_key_of_its_own(void **state)
{
	char unsaid[HASH_HEX_SIZE], open[HASH_HEX_SIZE], proprietary[HASH_HEX_SIZE];
	char again[HASH_HEX_SIZE];

	(void) state;
	kit_key_of(NULL, unsaid);
	kit_key_of("open", open);
	kit_key_of("proprietary", proprietary);
	kit_key_of("proprietary", again);
	assert_string_equal(proprietary, again);
	assert_string_not_equal(proprietary, open);
	assert_string_not_equal(proprietary, unsaid);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_kit_of_each_kind_of_modules_has_a_key_of_its_own),
	};

	return cmocka_run_group_tests_name("source", tests, NULL, NULL);
}
