/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <unistd.h>

#include "entrypoint/modules/unload.h"
#include "tests/unit/support.h"

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
	const struct folder *folder, const char *set, struct strv *order, struct error *error)
{
	_cleanup_strv_ struct strv modules = names(set);
	const struct unload unload = { .root_fd = folder->fd, .modules = &modules };

	return unload_order(&unload, NULL, order, error);
}

static void holders_go_first(void **state)
{
	const struct folder *folder = *state;
	_cleanup_strv_ struct strv order = { 0 };
	_cleanup_free_ char *text = NULL;
	struct error error;

	folder_module(folder, "nvidia", "2\n", nvidia_holders);
	folder_module(folder, "nvidia_uvm", "0\n", NULL);
	folder_module(folder, "nvidia_peermem", "0\n", NULL);
	assert_int_equal(order_of(folder, "nvidia nvidia_uvm nvidia_peermem", &order, &error), 0);
	text = strv_join(&order, " ");
	assert_string_equal(text, "nvidia_peermem nvidia_uvm nvidia");
}

static void absent_modules_are_passed_over(void **state)
{
	_cleanup_strv_ struct strv order = { 0 };
	struct error error;

	folder_subfolder(*state, "sys/module");
	assert_int_equal(order_of(*state, "nvidia nvidia_uvm", &order, &error), 0);
	assert_int_equal(order.count, 0);
}

static void a_holder_outside_the_set_is_named(void **state)
{
	const struct folder *folder = *state;
	_cleanup_strv_ struct strv order = { 0 };
	struct error error;

	folder_module(folder, "nvidia", "1\n", foreign);
	folder_module(folder, "gdrdrv", "0\n", NULL);
	assert_int_equal(order_of(folder, "nvidia", &order, &error), -EBUSY);
	assert_contains(error.text, "nvidia is held by the module gdrdrv");
}

static void a_reference_without_a_holder_is_refused(void **state)
{
	const struct folder *folder = *state;
	_cleanup_strv_ struct strv order = { 0 };
	struct error error;

	folder_module(folder, "nvidia", "1\n", uvm_only);
	folder_module(folder, "nvidia_uvm", "3\n", NULL);
	assert_int_equal(order_of(folder, "nvidia nvidia_uvm", &order, &error), -EBUSY);
	assert_contains(error.text, "nvidia_uvm is in use: 3 reference(s)");
}

static void the_process_behind_a_reference_is_named(void **state)
{
	static const char *const devices[] = { "/dev/nvidia", NULL };
	const struct folder *folder = *state;
	_cleanup_strv_ struct strv modules = names("nvidia_uvm");
	const struct unload unload = { .root_fd = folder->fd,
		.modules = &modules,
		.device_prefixes = devices };
	_cleanup_strv_ struct strv order = { 0 };
	struct error error;

	folder_module(folder, "nvidia_uvm", "1\n", NULL);
	folder_write_text(folder, "proc/4711/comm", "trainer\n");
	folder_subfolder(folder, "proc/4711/fd");
	assert_int_equal(symlinkat("/dev/nvidia-uvm", folder->fd, "proc/4711/fd/7"), 0);
	assert_int_equal(unload_order(&unload, NULL, &order, &error), -EBUSY);
	assert_non_null(strstr(
		error.text, "nvidia_uvm is in use by process 4711 (trainer, /dev/nvidia-uvm)"));
}

static void a_kernel_without_unloading_is_told(void **state)
{
	const struct folder *folder = *state;
	_cleanup_strv_ struct strv order = { 0 };
	struct error error;

	folder_write_text(folder, "sys/module/nvidia/initstate", "live\n");
	assert_int_equal(order_of(folder, "nvidia", &order, &error), -EOPNOTSUPP);
	assert_contains(error.text, "CONFIG_MODULE_UNLOAD");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(holders_go_first),
		folder_test(absent_modules_are_passed_over),
		folder_test(a_holder_outside_the_set_is_named),
		folder_test(a_reference_without_a_holder_is_refused),
		folder_test(the_process_behind_a_reference_is_named),
		folder_test(a_kernel_without_unloading_is_told),
	};

	return cmocka_run_group_tests_name("unload", tests, NULL, NULL);
}
