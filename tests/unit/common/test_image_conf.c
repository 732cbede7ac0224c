/* SPDX-License-Identifier: Apache-2.0 */
/* image.conf: what is written is what is read, in the order of the file. */
#include "tests/unit/support.h"

#include <string.h>

#include "common/image_conf.h"

static void what_is_written_is_read(void **state)
{
	struct image_conf conf = { .role = "gpu", .krel = "6.1.0-1-a 6.1.0-2-a" }, read;
	_cleanup_free_ char *text = NULL;

	(void) state;
	image_conf_set(conf.version, "535.261.03");
	image_conf_set(conf.signed_by, "a key = of ours");
	text = image_conf_text(&conf);
	assert_non_null(text);
	assert_string_equal(text,
		"role=gpu\nversion=535.261.03\nkrel=6.1.0-1-a 6.1.0-2-a\nsigned_by=a key = of "
		"ours\n");
	image_conf_parse(text, &read);
	assert_memory_equal(&conf, &read, sizeof(conf));
}

static void what_it_does_not_know_or_cannot_hold_is_left_out(void **state)
{
	struct image_conf conf;

	(void) state;
	image_conf_parse("later=1\nrole=gpu-of-another-name\nos=debian12\n", &conf);
	assert_string_equal(conf.role, "gpu-of-");
	assert_string_equal(conf.os, "debian12");
	assert_string_equal(conf.version, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_written_is_read),
		cmocka_unit_test(what_it_does_not_know_or_cannot_hold_is_left_out),
	};

	return cmocka_run_group_tests_name("image_conf", tests, NULL, NULL);
}
