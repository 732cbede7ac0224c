/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <unistd.h>

#include "entrypoint/role/modset.h"
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

static void absent_modules_are_skipped(void **state)
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
	const struct unload unload = {
		.root_fd = folder->fd, .modules = &modules, .device_prefixes = devices
	};
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

static int order_with_holders(
	const struct folder *folder, const char *set, struct strv *order, struct error *error)
{
	_cleanup_strv_ struct strv modules = names(set);
	const struct unload unload = {
		.root_fd = folder->fd, .modules = &modules, .holders_too = true
	};

	return unload_order(&unload, NULL, order, error);
}

static void a_holder_outside_the_set_goes_too_where_it_may(void **state)
{
	static const char *const on_drm[] = { "foreign_display", NULL };
	static const char *const on_nvidia[] = { "gdrdrv", "nvidia_drm", NULL };
	const struct folder *folder = *state;
	_cleanup_strv_ struct strv order = { 0 };
	_cleanup_free_ char *text = NULL;
	struct error error;

	folder_module(folder, "nvidia", "2\n", on_nvidia);
	folder_module(folder, "nvidia_drm", "1\n", on_drm);
	folder_module(folder, "foreign_display", "0\n", NULL);
	folder_module(folder, "gdrdrv", "0\n", NULL);
	assert_int_equal(order_with_holders(folder, "nvidia", &order, &error), 0);
	text = strv_join(&order, " ");
	assert_string_equal(text, "gdrdrv foreign_display nvidia_drm nvidia");
}

static void a_holder_outside_the_set_that_is_used_is_named_with_its_user(void **state)
{
	const struct folder *folder = *state;
	_cleanup_strv_ struct strv order = { 0 };
	struct error error;

	folder_module(folder, "nvidia", "1\n", foreign);
	folder_module(folder, "gdrdrv", "1\n", NULL);
	folder_write_text(folder, "proc/12/comm", "copybw\n");
	folder_subfolder(folder, "proc/12/fd");
	assert_int_equal(symlinkat("/dev/gdrdrv (deleted)", folder->fd, "proc/12/fd/3"), 0);
	/* Not gdrdrv's. */
	folder_subfolder(folder, "proc/13/fd");
	assert_int_equal(symlinkat("/dev/nvidia0", folder->fd, "proc/13/fd/3"), 0);
	assert_int_equal(order_with_holders(folder, "nvidia", &order, &error), -EBUSY);
	assert_contains(error.text, "gdrdrv is in use by process 12 (copybw, /dev/gdrdrv): stop");
}

static void a_mapping_without_a_descriptor_is_a_use(void **state)
{
	const struct folder *folder = *state;
	_cleanup_strv_ struct strv order = { 0 };
	struct error error;

	folder_module(folder, "nvidia", "1\n", NULL);
	folder_write_text(folder, "proc/12/comm", "x\n");
	folder_subfolder(folder, "proc/12/fd");
	folder_write_text(folder, "proc/12/maps",
		"55d0-55d1 r--p 00000000 08:01 12 /usr/bin/x\n"
		"7f00-7f01 rw-s 00000000 00:05 99                         /dev/nvidia0\n");
	assert_int_equal(order_with_holders(folder, "nvidia", &order, &error), -EBUSY);
	assert_contains(error.text, "nvidia is in use by process 12 (x, /dev/nvidia0)");
}

static void of_many_users_the_first_are_named_and_all_counted(void **state)
{
	const struct folder *folder = *state;
	_cleanup_strv_ struct strv order = { 0 };
	struct error error;

	folder_module(folder, "nvidia", "11\n", NULL);
	for (int pid = 101; pid <= 111; pid++) {
		char path[64];

		(void) snprintf(path, sizeof(path), "proc/%d/comm", pid);
		folder_write_text(folder, path, "python3\n");
		(void) snprintf(path, sizeof(path), "proc/%d/fd", pid);
		folder_subfolder(folder, path);
		(void) snprintf(path, sizeof(path), "proc/%d/fd/4", pid);
		assert_int_equal(symlinkat("/dev/nvidia3", folder->fd, path), 0);
	}
	assert_int_equal(order_with_holders(folder, "nvidia", &order, &error), -EBUSY);
	assert_contains(error.text, "(python3, /dev/nvidia3) and 3 more: stop");
}

/* Its attributes go first, then its folder. */
static void one_that_another_process_unloads_is_busy(void **state)
{
	const struct folder *folder = *state;
	_cleanup_strv_ struct strv order = { 0 };
	struct error error;

	folder_module(folder, "nvidia", "-1\n", NULL);
	folder_write_text(folder, "sys/module/nvidia/initstate", "going\n");
	folder_write_text(folder, "proc/modules", "nvidia 1 -1 - Unloading 0x0\n");
	assert_int_equal(order_of(folder, "nvidia", &order, &error), -EBUSY);
	assert_contains(error.text, "nvidia is being unloaded by another process");
	assert_int_equal(unlinkat(folder->fd, "sys/module/nvidia/initstate", 0), 0);
	assert_int_equal(unlinkat(folder->fd, "sys/module/nvidia/refcnt", 0), 0);
	assert_int_equal(order_of(folder, "nvidia", &order, &error), -EBUSY);
	/* A built-in one has but the folder, and no line. */
	folder_write_text(folder, "proc/modules", "");
	assert_int_equal(order_of(folder, "nvidia", &order, &error), -EOPNOTSUPP);
}

static void a_kernel_without_unloading_is_reported(void **state)
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
		folder_test(absent_modules_are_skipped),
		folder_test(a_holder_outside_the_set_is_named),
		folder_test(a_reference_without_a_holder_is_refused),
		folder_test(the_process_behind_a_reference_is_named),
		folder_test(a_holder_outside_the_set_goes_too_where_it_may),
		folder_test(a_holder_outside_the_set_that_is_used_is_named_with_its_user),
		folder_test(a_mapping_without_a_descriptor_is_a_use),
		folder_test(of_many_users_the_first_are_named_and_all_counted),
		folder_test(one_that_another_process_unloads_is_busy),
		folder_test(a_kernel_without_unloading_is_reported),
	};

	return cmocka_run_group_tests_name("unload", tests, NULL, NULL);
}
