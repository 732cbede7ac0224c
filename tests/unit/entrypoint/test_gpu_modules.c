/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/support.h"

#include <fnmatch.h>
#include <stdlib.h>

#include "entrypoint/contract.h"
#include "entrypoint/gpu/gpu_internal.h"

static void expect_list(
	const struct role *role, bool with_peermem, const char *names, size_t required)
{
	struct module_list list;
	char text[256] = "";

	gpu_module_list(role, with_peermem, &list);
	assert_in_range(list.count, 1, GPU_MODULE_COUNT);
	for (size_t i = 0; i < list.count; i++) {
		size_t length = strlen(text);

		(void) snprintf(
			text + length, sizeof(text) - length, "%s%s", i ? " " : "", list.names[i]);
	}
	assert_string_equal(text, names);
	assert_int_equal(list.required, required);
}

static void the_environment_and_a_conf_ask_for_modules(void **state)
{
	const struct folder *folder = *state;
	struct role role = { .root_fd = folder->fd };

	expect_list(&role, false, "nvidia nvidia_uvm nvidia_modeset", 3);
	folder_write_text(folder, CONTRACT_MODULE_CONF "/nvidia-drm.conf", "modeset=1");
	folder_write_text(folder, CONTRACT_MODULE_CONF "/nvidia-fs.conf", "");
	expect_list(&role, true, "nvidia nvidia_uvm nvidia_modeset nvidia_peermem nvidia_drm", 4);
	role.options.drm = true;
	role.options.gds = true;
	role.options.gdrcopy = true;
	expect_list(&role, true,
		"nvidia nvidia_uvm nvidia_modeset nvidia_drm nvidia_peermem gdrdrv nvidia_fs", 5);
}

static bool has_device(const struct gpu_module *module, const char *path)
{
	for (const char *const *pattern = module->devices; *pattern; pattern++)
		if (fnmatch(*pattern, path, 0) == 0)
			return true;
	return false;
}

static void the_users_of_a_node_are_found_for_its_module_alone(void **state)
{
	(void) state;
	for (const struct gpu_module *module = gpu_modules; module->name; module++)
		for (size_t i = 0; i < GPU_MODULE_NODES && module->nodes[i].path; i++) {
			char path[80];

			(void) snprintf(path, sizeof(path), "/%s", module->nodes[i].path);
			for (const struct gpu_module *row = gpu_modules; row->name; row++)
				assert_int_equal(has_device(row, path), row == module);
		}
}

static void an_addon_has_all_that_messages_say_about_it(void **state)
{
	(void) state;
	for (const struct gpu_module *module = gpu_modules; module->name; module++) {
		bool is_addon = module->kind == GPU_MODULE_ADDON;

		assert_ptr_equal(gpu_module_find(module->name), module);
		assert_int_equal(
			module->word != NULL, is_addon || module->kind == GPU_MODULE_OPTION);
		assert_int_equal(module->variable != NULL, is_addon);
		assert_int_equal(module->build_option != NULL, is_addon);
		assert_int_equal(module->feature != NULL, is_addon);
		if (!is_addon)
			continue;
		assert_ptr_equal(gpu_module_of_sidecar(module->word), module);
		assert_true(module->nodes[0].path || module->device_class);
	}
	assert_null(gpu_module_find("nouveau"));
	assert_string_equal(gpu_module_of_sidecar("gds")->name, "nvidia_fs");
	assert_string_equal(gpu_module_of_sidecar("gdrcopy")->name, "gdrdrv");
	assert_null(gpu_module_of_sidecar("drm"));
}

static void an_addons_variable_sets_its_flag_and_no_other(void **state)
{
	struct options options;
	struct error error = { 0 };

	(void) state;
	for (const struct gpu_module *module = gpu_modules; module->name; module++) {
		if (!module->variable)
			continue;
		options = (struct options){ 0 };
		assert_int_equal(setenv(module->variable, "true", 1), 0);
		assert_int_equal(options_read(&options, NULL, &error), 0);
		assert_int_equal(unsetenv(module->variable), 0);
		for (const struct gpu_module *row = gpu_modules; row->name; row++)
			assert_int_equal(gpu_module_is_asked(row, &options), row == module);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(the_environment_and_a_conf_ask_for_modules),
		cmocka_unit_test(the_users_of_a_node_are_found_for_its_module_alone),
		cmocka_unit_test(an_addon_has_all_that_messages_say_about_it),
		cmocka_unit_test(an_addons_variable_sets_its_flag_and_no_other),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
