/* SPDX-License-Identifier: Apache-2.0 */
/* The names of gdrdrv's and nvidia-fs' images, of words that may be another's. */
#include "tests/unit/support.h"

#include "cli/image/addons.h"

static void a_module_has_its_names_once(void **state)
{
	struct image_addons addons = { .count = 0 };
	_cleanup_strv_ struct strv versions = { 0 };

	(void) state;
	assert_int_equal(strv_push(&versions, "12"), 0);
	image_addons_add(&addons, "gdrcopy", "", NULL, "debian", &versions);
	image_addons_add(&addons, "gdrcopy", "2.5.1", "3", "debian", &versions);
	image_addons_add(&addons, "gdrcopy", "2.6", NULL, "debian", &versions);
	image_addons_add(&addons, "unknown", "1", NULL, "debian", &versions);
	image_addons_add(&addons, "nvidia-fs", "2.17.5", NULL, "debian", &versions);
	image_addons_add(&addons, "nvidia-fs", "2.17.5", NULL, "debian", &versions);
	assert_int_equal(addons.count, 2);
	assert_string_equal(addons.used[0].names->version, "2.5.1-3");
	assert_string_equal(addons.used[1].names->version, "2.17.5");
	image_addons_free(&addons);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_module_has_its_names_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
