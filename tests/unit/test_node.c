/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "common/fs.h"
#include "entrypoint/image.h"
#include "entrypoint/conf.h"
#include "entrypoint/symbols.h"
#include "entrypoint/sysmodule.h"
#include "tests/unit/tree.h"

static void names_the_kernels_that_it_has(void **state)
{
	const struct tree *tree = *state;
	struct image image;
	struct error error;

	tree_write(tree, IMAGE_CONF, "role=gpu\nversion=535.261.03\nos=debian12\n");
	tree_write(tree, "lib/modules/6.1.0-50-amd64/modules.dep", "");
	tree_write(tree, "lib/modules/6.1.0-56-amd64/modules.dep", "");
	tree_folder(tree, "lib/modules/6.1.0-99-amd64");
	image_read(tree->fd, &image);
	assert_int_equal(image_has_kernel(tree->fd, &image, "6.1.0-50-amd64", &error), 0);
	assert_int_equal(image_has_kernel(tree->fd, &image, "6.1.0-99-amd64", &error), -ENOENT);
	assert_non_null(strstr(error.text, "the running kernel is 6.1.0-99-amd64"));
	assert_non_null(strstr(error.text, "has modules for: 6.1.0-50-amd64, 6.1.0-56-amd64"));
	assert_non_null(strstr(error.text, "slipway build --kernel 6.1.0-99-amd64 --os debian12"));
}

static void lists_the_drivers_own_modules(void **state)
{
	const struct tree *tree = *state;
	_cleanup_strv_ struct strv names = { 0 };
	_cleanup_free_ char *text = NULL;
	struct error error;

	tree_write(tree, "lib/modules/6.1/modules.dep",
		"kernel/drivers/gpu/drm/drm.ko:\n"
		"updates/nvidia/nvidia.ko: kernel/drivers/gpu/drm/drm.ko\n"
		"updates/nvidia/nvidia-uvm.ko.xz: updates/nvidia/nvidia.ko\n");
	assert_int_equal(image_driver_modules(tree->fd, "6.1", &names, &error), 0);
	text = strv_join(&names, " ");
	assert_string_equal(text, "nvidia nvidia_uvm");
}

static void reads_values_of_whole_keys_only(void **state)
{
	char value[8];

	(void) state;
	conf_value("krelx=1\nkrel=6.1.0-56-amd64\n", "krel", value, sizeof(value));
	assert_string_equal(value, "6.1.0-5");
	conf_value("a=1\nb=\nc=3", "b", value, sizeof(value));
	assert_string_equal(value, "");
	conf_value("a=1\nb=\nc=3", "c", value, sizeof(value));
	assert_string_equal(value, "3");
}

static void finds_the_exporting_module(void **state)
{
	const struct tree *tree = *state;
	char owner[32];

	tree_write(tree, "proc/kallsyms",
		"0000000000000000 T register_netdev\n"
		"0000000000000000 t ib_register_peer_memory_client\t[impostor]\n"
		"0000000000000000 T ib_register_peer_memory_client_ex\t[other]\n"
		"0000000000000000 T ib_register_peer_memory_client\t[ib_uverbs]\n");
	assert_int_equal(
		symbols_exporter(tree->fd, "ib_register_peer_memory_client", owner, sizeof(owner)),
		0);
	assert_string_equal(owner, "ib_uverbs");
	assert_int_equal(symbols_exporter(tree->fd, "register_netdev", owner, sizeof(owner)), 0);
	assert_string_equal(owner, "vmlinux");
	assert_int_equal(
		symbols_exporter(tree->fd, "no_such_symbol", owner, sizeof(owner)), -ENOENT);
}

static void tells_coming_from_live_and_built_in(void **state)
{
	const struct tree *tree = *state;

	tree_write(tree, "sys/module/coming/initstate", "coming\n");
	tree_write(tree, "sys/module/live/initstate", "live\n");
	tree_folder(tree, "sys/module/built_in/parameters");
	assert_false(sysmodule_is_live(tree->fd, "coming"));
	assert_true(sysmodule_exists(tree->fd, "coming"));
	assert_true(sysmodule_is_live(tree->fd, "live"));
	assert_true(sysmodule_is_live(tree->fd, "built_in"));
	assert_false(sysmodule_is_live(tree->fd, "absent"));
}

static void reads_a_build_id_from_the_notes(void **state)
{
	static const unsigned char note[] = { 4, 0, 0, 0, 3, 0, 0, 0, 3, 0, 0, 0, 'G', 'N', 'U', 0,
		0xab, 0x01, 0xff };
	const struct tree *tree = *state;
	char hex[BUILD_ID_HEX_SIZE];

	tree_folder(tree, "sys/module/m/notes");
	assert_int_equal(fs_write_atomic(tree->fd, "sys/module/m/notes/.note.gnu.build-id", note,
				 sizeof(note), 0644),
		0);
	sysmodule_build_id(tree->fd, "m", hex);
	assert_string_equal(hex, "ab01ff");
	assert_int_equal(fs_write_atomic(tree->fd, "sys/module/m/notes/.note.gnu.build-id", note,
				 sizeof(note) - 1, 0644),
		0);
	sysmodule_build_id(tree->fd, "m", hex);
	assert_string_equal(hex, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			names_the_kernels_that_it_has, tree_set_up, tree_tear_down),
		cmocka_unit_test_setup_teardown(
			lists_the_drivers_own_modules, tree_set_up, tree_tear_down),
		cmocka_unit_test(reads_values_of_whole_keys_only),
		cmocka_unit_test_setup_teardown(
			finds_the_exporting_module, tree_set_up, tree_tear_down),
		cmocka_unit_test_setup_teardown(
			tells_coming_from_live_and_built_in, tree_set_up, tree_tear_down),
		cmocka_unit_test_setup_teardown(
			reads_a_build_id_from_the_notes, tree_set_up, tree_tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
