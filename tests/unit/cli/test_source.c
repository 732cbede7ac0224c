/* SPDX-License-Identifier: Apache-2.0 */
/* The drivers' sources: what of them is in keys. */
#include "tests/unit/support.h"

#include "cli/stage/stage_internal.h"
#include "common/hash.h"

static void kit_key_of(const char *kind, char hex[HASH_HEX_SIZE])
{
	const struct stage stage = { .kind = STAGE_KIT, .of = IMAGE_GPU };
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

static void set_key_of(const struct folder *folder, char hex[HASH_HEX_SIZE])
{
	static char krel[] = "6.1.0-1-test";
	_cleanup_free_ char *data = strdup(folder->path);
	const struct stage stage = { .kind = STAGE_SET, .of = DRIVER_OFED };
	struct error error = { 0 };
	struct build build = {
		.context.data = data,
		.target.krel = krel,
		.sources[DRIVER_OFED].form = SOURCE_ARCHIVE,
	};
	struct key key = { .build = &build, .hash = hash_new(), .error = &error };

	set_key(&stage, &key);
	assert_int_equal(key.result, 0);
	hash_finish(key.hash, hex);
}

static void all_that_a_recipe_reads_is_in_its_sets_key(void **state)
{
	static const char *const files[] = { "recipes/ofed.sh", "recipes/lib.sh",
		"recipes/ofed-tree.sh", "patches/ofed/24.07/one.patch" };
	const struct folder *folder = *state;
	char before[HASH_HEX_SIZE], after[HASH_HEX_SIZE];

	set_key_of(folder, before);
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		char path[64];

		(void) snprintf(path, sizeof(path), "containers/%s", files[i]);
		folder_write_text(folder, path, "new");
		set_key_of(folder, after);
		assert_string_not_equal(before, after);
		(void) snprintf(before, sizeof(before), "%s", after);
	}
	folder_write_text(folder, "containers/patches/nvidia/one.patch", "another driver's");
	set_key_of(folder, after);
	assert_string_equal(before, after);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_kit_of_each_kind_of_modules_has_a_key_of_its_own),
		folder_test(all_that_a_recipe_reads_is_in_its_sets_key),
	};

	return cmocka_run_group_tests_name("source", tests, NULL, NULL);
}
