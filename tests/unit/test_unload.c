/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>
#include <unistd.h>

#include "entrypoint/unload.h"
#include "tests/unit/tree.h"

static const char *const nvidia_holders[] = { "nvidia_peermem", "nvidia_uvm", NULL };
static const char *const uvm_only[] = { "nvidia_uvm", NULL };
static const char *const foreign[] = { "gdrdrv", NULL };

static struct strv names(const char *text)
{
	struct strv list = { 0 };

	assert_int_equal(strv_split(&list, text, " "), 0);
	return list;
}

static int order_of(
	const struct tree *tree, const char *set, struct strv *order, struct error *error)
{
	_cleanup_strv_ struct strv modules = names(set);
	const struct unload unload = { tree->fd, &modules, NULL };

	return unload_order(&unload, NULL, order, error);
}

static void holders_go_first(void **state)
{
	const struct tree *tree = *state;
	_cleanup_strv_ struct strv order = { 0 };
	_cleanup_free_ char *text = NULL;
	struct error error;

	tree_module(tree, "nvidia", "2\n", nvidia_holders);
	tree_module(tree, "nvidia_uvm", "0\n", NULL);
	tree_module(tree, "nvidia_peermem", "0\n", NULL);
	assert_int_equal(order_of(tree, "nvidia nvidia_uvm nvidia_peermem", &order, &error), 0);
	text = strv_join(&order, " ");
	assert_string_equal(text, "nvidia_peermem nvidia_uvm nvidia");
}

static void absent_modules_are_passed_over(void **state)
{
	_cleanup_strv_ struct strv order = { 0 };
	struct error error;

	tree_folder(*state, "sys/module");
	assert_int_equal(order_of(*state, "nvidia nvidia_uvm", &order, &error), 0);
	assert_int_equal(order.count, 0);
}

static void a_holder_outside_the_set_is_named(void **state)
{
	const struct tree *tree = *state;
	_cleanup_strv_ struct strv order = { 0 };
	struct error error;

	tree_module(tree, "nvidia", "1\n", foreign);
	tree_module(tree, "gdrdrv", "0\n", NULL);
	assert_int_equal(order_of(tree, "nvidia", &order, &error), -EBUSY);
	assert_non_null(strstr(error.text, "nvidia is held by the module gdrdrv"));
}

static void a_reference_without_a_holder_is_refused(void **state)
{
	const struct tree *tree = *state;
	_cleanup_strv_ struct strv order = { 0 };
	struct error error;

	tree_module(tree, "nvidia", "1\n", uvm_only);
	tree_module(tree, "nvidia_uvm", "3\n", NULL);
	assert_int_equal(order_of(tree, "nvidia nvidia_uvm", &order, &error), -EBUSY);
	assert_non_null(strstr(error.text, "nvidia_uvm is in use: 3 reference(s)"));
}

static void the_process_behind_a_reference_is_named(void **state)
{
	static const char *const devices[] = { "/dev/nvidia", NULL };
	const struct tree *tree = *state;
	_cleanup_strv_ struct strv modules = names("nvidia_uvm");
	const struct unload unload = { tree->fd, &modules, devices };
	_cleanup_strv_ struct strv order = { 0 };
	struct error error;

	tree_module(tree, "nvidia_uvm", "1\n", NULL);
	tree_write(tree, "proc/4711/comm", "trainer\n");
	tree_folder(tree, "proc/4711/fd");
	assert_int_equal(symlinkat("/dev/nvidia-uvm", tree->fd, "proc/4711/fd/7"), 0);
	assert_int_equal(unload_order(&unload, NULL, &order, &error), -EBUSY);
	assert_non_null(strstr(
		error.text, "nvidia_uvm is in use by process 4711 (trainer, /dev/nvidia-uvm)"));
}

static void a_kernel_without_unloading_is_told(void **state)
{
	const struct tree *tree = *state;
	_cleanup_strv_ struct strv order = { 0 };
	struct error error;

	tree_write(tree, "sys/module/nvidia/initstate", "live\n");
	assert_int_equal(order_of(tree, "nvidia", &order, &error), -EOPNOTSUPP);
	assert_non_null(strstr(error.text, "CONFIG_MODULE_UNLOAD"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(holders_go_first, tree_set_up, tree_tear_down),
		cmocka_unit_test_setup_teardown(
			absent_modules_are_passed_over, tree_set_up, tree_tear_down),
		cmocka_unit_test_setup_teardown(
			a_holder_outside_the_set_is_named, tree_set_up, tree_tear_down),
		cmocka_unit_test_setup_teardown(
			a_reference_without_a_holder_is_refused, tree_set_up, tree_tear_down),
		cmocka_unit_test_setup_teardown(
			the_process_behind_a_reference_is_named, tree_set_up, tree_tear_down),
		cmocka_unit_test_setup_teardown(
			a_kernel_without_unloading_is_told, tree_set_up, tree_tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
