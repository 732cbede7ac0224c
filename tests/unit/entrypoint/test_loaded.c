/* SPDX-License-Identifier: Apache-2.0 */
/* Is what is loaded the build that a file is? */
#include "tests/unit/node_folder.h"

#include "entrypoint/role/loaded.h"

#define MODULE     "ib_uverbs"
#define SRCVERSION "sys/module/" MODULE "/srcversion"

/* The last byte of the fixtures' build id (tests.mk). */
#define LAST 0x67

static enum loaded verdict(const struct folder *folder, const char *fixture)
{
	_cleanup_module_ struct elf_module *file = NULL;
	struct error error;

	copy_fixture(folder, fixture, "file.ko");
	assert_int_equal(elf_module_open_brief(folder->fd, "file.ko", &file, &error), 0);
	return loaded_compare(folder->fd, MODULE, file);
}

static void the_build_id_decides_where_both_have_one(void **state)
{
	const struct folder *folder = *state;

	folder_module(folder, MODULE, "0\n", NULL);
	write_note(folder, MODULE, LAST);
	assert_int_equal(verdict(folder, "exporter"), LOADED_SAME);
	folder_write_text(folder, SRCVERSION, "0123456789ABCDEF0123456\n");
	write_note(folder, MODULE, LAST + 1);
	assert_int_equal(verdict(folder, "exporter"), LOADED_OTHER);
}

static void else_srcversion_does(void **state)
{
	const struct folder *folder = *state;

	folder_module(folder, MODULE, "0\n", NULL);
	folder_write_text(folder, SRCVERSION, "0123456789ABCDEF0123456\n");
	assert_int_equal(verdict(folder, "exporter"), LOADED_SAME);
	/* A file without one cannot be what was loaded with one. */
	assert_int_equal(verdict(folder, "extended"), LOADED_OTHER);
	folder_write_text(folder, SRCVERSION, "AAAA456789ABCDEF0123456\n");
	assert_int_equal(verdict(folder, "exporter"), LOADED_OTHER);
}

/* It is no other build: nobody may be blamed for having loaded it. */
static void where_the_kernel_shows_neither_nothing_is_known(void **state)
{
	const struct folder *folder = *state;

	folder_module(folder, MODULE, "0\n", NULL);
	assert_int_equal(verdict(folder, "exporter"), LOADED_UNKNOWN);
	assert_int_equal(verdict(folder, "extended"), LOADED_UNKNOWN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(the_build_id_decides_where_both_have_one),
		folder_test(else_srcversion_does),
		folder_test(where_the_kernel_shows_neither_nothing_is_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
