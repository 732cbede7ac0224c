/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/support.h"

#include "module/symvers.h"

#define _cleanup_symvers_ _cleanup_(symvers_close)

/* As a kernel before 5.19 has it: CRCs are absolute symbols. */
static const char old_map[] = "0000000008d1a2b3 A __crc_printk\n"
			      "ffffffff81000000 T _text\n"
			      "ffffffff81000010 T printk\n"
			      "ffffffff82000000 R __start___ksymtab\n"
			      "ffffffff82000000 r __ksymtab_printk\n"
			      "ffffffff8200000c R __stop___ksymtab\n"
			      "ffffffff8200000c R __start___ksymtab_gpl\n"
			      "ffffffff8200000c r __ksymtab_kobject_get\n"
			      "ffffffff82000018 R __stop___ksymtab_gpl\n";

static struct symvers *open_map(const struct folder *folder, const char *text)
{
	struct symvers *symvers = NULL;
	struct error error = { 0 };

	folder_write_text(folder, "System.map", text);
	assert_int_equal(symvers_new(&symvers), 0);
	if (symvers_add_system_map(symvers, folder->fd, "System.map", &error) < 0)
		fail_msg("%s", error.text);
	return symvers;
}

static void expect_failure(const struct folder *folder, const char *text, int code, const char *why)
{
	_cleanup_symvers_ struct symvers *symvers = NULL;
	struct error error = { 0 };

	folder_write_text(folder, "System.map", text);
	assert_int_equal(symvers_new(&symvers), 0);
	assert_int_equal(symvers_add_system_map(symvers, folder->fd, "System.map", &error), code);
	assert_int_equal(symvers_count(symvers), 0);
	assert_contains(error.text, "System.map: ");
	assert_contains(error.text, why);
}

static void names_are_found_and_exports_listed(void **state)
{
	_cleanup_symvers_ struct symvers *symvers = open_map(*state, old_map);
	const struct symvers_entry *entry;

	assert_int_equal(symvers_count(symvers), 2);
	entry = symvers_at(symvers, 0);
	assert_string_equal(entry->symbol, "printk");
	assert_string_equal(entry->export, "EXPORT_SYMBOL");
	assert_true(entry->has_crc);
	assert_int_equal(entry->crc, 0x08d1a2b3);
	entry = symvers_at(symvers, 1);
	assert_string_equal(entry->symbol, "kobject_get");
	assert_string_equal(entry->export, "EXPORT_SYMBOL_GPL");
	assert_false(entry->has_crc);
}

static void newer_kernels_do_not_show_mark_and_crc(void **state)
{
	_cleanup_symvers_ struct symvers *symvers = open_map(
		*state, "ffffffff82000000 r __ksymtab_printk\nffffffff82000010 r __crc_printk\n");

	assert_int_equal(symvers_count(symvers), 1);
	assert_string_equal(symvers_at(symvers, 0)->export, "");
	assert_false(symvers_at(symvers, 0)->has_crc);
}

static void what_is_no_map_is_an_error(void **state)
{
	expect_failure(*state, "", -EINVAL, "empty");
	expect_failure(*state, "ffffffff81000000 T _text\nand so on\n", -EINVAL, "line 2");
	expect_failure(*state, "ffffffff81000000 T \n", -EINVAL, "line 1");
	expect_failure(*state, "ffffffff8100000000 T _text\n", -EINVAL, "line 1");
	expect_failure(*state, "T _text\n", -EINVAL, "line 1");
	expect_failure(*state,
		"ffffffffffffffff B The real System.map is in the linux-image-<version>-dbg "
		"package\n",
		-ENODATA, "linux-image-<version>-dbg");
}

static void its_exports_become_symvers_but_do_not_win(void **state)
{
	const struct folder *folder = *state;
	_cleanup_symvers_ struct symvers *symvers = NULL;
	const struct symvers_entry *entry;
	struct error error = { 0 };

	folder_write_text(folder, "symvers", "0x00000007\tprintk\tvmlinux\tEXPORT_SYMBOL\tSPACE\n");
	assert_int_equal(symvers_open(folder->fd, "symvers", &symvers, &error), 0);
	folder_write_text(folder, "System.map", old_map);
	assert_int_equal(symvers_add_system_map(symvers, folder->fd, "System.map", &error), 0);
	assert_int_equal(symvers_count(symvers), 2);
	entry = symvers_find(symvers, "printk");
	assert_int_equal(entry->crc, 7);
	assert_false(entry->partial);
	entry = symvers_at(symvers, 1);
	assert_string_equal(entry->symbol, "kobject_get");
	assert_string_equal(entry->module, "vmlinux");
	assert_string_equal(entry->export, "EXPORT_SYMBOL_GPL");
	assert_true(entry->partial);
	assert_false(entry->has_crc);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(names_are_found_and_exports_listed),
		folder_test(newer_kernels_do_not_show_mark_and_crc),
		folder_test(what_is_no_map_is_an_error),
		folder_test(its_exports_become_symvers_but_do_not_win),
	};

	return cmocka_run_group_tests_name("system_map", tests, NULL, NULL);
}
