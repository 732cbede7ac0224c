/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <sys/utsname.h>

#include "common/fs.h"
#include "entrypoint/image.h"
#include "common/conf.h"
#include "module/running.h"
#include "tests/unit/support.h"

static void names_the_kernels_that_it_has(void **state)
{
	const struct folder *folder = *state;
	struct image_conf image;
	struct error error;

	folder_write_text(folder, IMAGE_CONF,
		"role=gpu\nversion=535.261.03\nos=debian12\nos_id=debian\nos_version=12\n");
	folder_write_text(folder, "lib/modules/6.1.0-50-amd64/modules.dep", "");
	folder_write_text(folder, "lib/modules/6.1.0-56-amd64/modules.dep", "");
	folder_subfolder(folder, "lib/modules/6.1.0-99-amd64");
	image_read(folder->fd, "6.1.0-99-amd64", &image);
	assert_int_equal(image_has_kernel(folder->fd, &image, "6.1.0-50-amd64", &error), 0);
	assert_int_equal(image_has_kernel(folder->fd, &image, "6.1.0-99-amd64", &error), -ENOENT);
	assert_contains(error.text, "the kernel asked for is 6.1.0-99-amd64");
	assert_contains(error.text, "has modules for: 6.1.0-50-amd64, 6.1.0-56-amd64");
	assert_contains(error.text, "asks for: 535-6.1.0-99-amd64-debian12)");
	assert_contains(error.text, "slipway build --kernel 6.1.0-99-amd64 --os debian12 (a");
	assert_null(strstr(error.text, "--ofed"));
	assert_contains(error.text, "slipway build --sources-image");
	assert_int_equal(image_has_kernel(folder->fd, &image, "6.1.0-amd64fips", &error), -ENOENT);
	assert_contains(error.text, "--kernel 6.1.0-amd64fips --os debian12 --arch x86_64 (a");
}

static void assert_cure(const struct folder *folder, const char *conf, const char *part)
{
	struct image_conf image;
	struct error error;

	folder_write_text(folder, IMAGE_CONF, conf);
	image_read(folder->fd, "6.1", &image);
	assert_int_equal(image_has_kernel(folder->fd, &image, "6.1", &error), -ENOENT);
	assert_contains(error.text, part);
	assert_contains(error.text, "--kernel-from");
}

static void names_the_ofed_that_a_build_needs(void **state)
{
	const struct folder *folder = *state;
	struct utsname running;
	struct image_conf image = { .role = "gpu" };
	struct error error;

	assert_cure(folder, "role=nic\nversion=24.10\nos=debian12\n",
		"--os debian12 --arch x86_64 --ofed <the source of OFED 24.10>");
	assert_cure(folder,
		"role=gpu\nversion=535.1\nrevision=7\nos=debian12\nos_id=debian\nos_version=12\n",
		"asks for: 535-7-6.1-debian12)");
	assert_cure(folder, "role=gpu\nversion=535.1\nos=oracle9\nos_id=ol\nos_version=9.4\n",
		"asks for: 535-6.1-ol9), or build one: slipway build --kernel 6.1 --os oracle9 --arch x86_64");
	assert_cure(folder, "role=nic\nversion=24.10\nos=oracle9\nos_id=ol\nos_version=9.4\n",
		"asks for: 24.10-6.1-ol9.4-amd64)");
	assert_cure(folder, "role=gpu\nversion=535.1\nofed_version=24.10\n",
		"--kernel 6.1 --arch x86_64 --ofed <the OFED of the NIC image: 24.10>");
	assert_cure(folder, "role=gpu\nversion=535.1\nofed_exporter=ib_uverbs\n",
		"--ofed <the OFED of the NIC image>");
	(void) uname(&running);
	assert_int_equal(image_has_kernel(folder->fd, &image, running.release, &error), -ENOENT);
	assert_contains(error.text, "the running kernel is ");
}

static void an_image_of_another_role_is_refused(void **state)
{
	const struct image_conf gpu = { .role = "gpu", .version = "535.1" },
				nic = { .role = "nic" };
	const struct image_conf unknown = { .role = "" };
	struct error error;

	(void) state;
	assert_int_equal(image_expect_role(&gpu, "nic", &error), -EINVAL);
	assert_contains(error.text, "this is a GPU image (driver 535.1)");
	assert_int_equal(image_expect_role(&nic, "peermem", &error), -EINVAL);
	assert_contains(error.text, "this is a NIC image");
	assert_int_equal(image_expect_role(&nic, "nic", &error), 0);
	assert_int_equal(image_expect_role(&gpu, "build", &error), 0);
	assert_int_equal(image_expect_role(&unknown, "nic", &error), 0);
}

static void lists_the_drivers_own_modules(void **state)
{
	const struct folder *folder = *state;
	_cleanup_strv_ struct strv names = { 0 };
	_cleanup_free_ char *text = NULL;
	struct error error;

	folder_write_text(folder, "lib/modules/6.1/modules.dep",
		"kernel/drivers/gpu/drm/drm.ko:\n"
		"updates/nvidia/nvidia.ko: kernel/drivers/gpu/drm/drm.ko\n"
		"updates/nvidia/nvidia-uvm.ko.xz: updates/nvidia/nvidia.ko\n");
	assert_int_equal(image_driver_modules(folder->fd, "6.1", &names, &error), 0);
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
	const struct folder *folder = *state;
	char owner[32];

	folder_write_text(folder, "proc/kallsyms",
		"0000000000000000 T register_netdev\n"
		"0000000000000000 t ib_register_peer_memory_client\t[impostor]\n"
		"0000000000000000 T ib_register_peer_memory_client_ex\t[other]\n"
		"0000000000000000 T ib_register_peer_memory_client\t[ib_uverbs]\n");
	assert_int_equal(kallsyms_exporter(folder->fd, "ib_register_peer_memory_client", owner,
				 sizeof(owner)),
		0);
	assert_string_equal(owner, "ib_uverbs");
	assert_int_equal(kallsyms_exporter(folder->fd, "register_netdev", owner, sizeof(owner)), 0);
	assert_string_equal(owner, "vmlinux");
	assert_int_equal(
		kallsyms_exporter(folder->fd, "no_such_symbol", owner, sizeof(owner)), -ENOENT);
}

static void distinguishes_coming_from_live_and_built_in(void **state)
{
	const struct folder *folder = *state;

	folder_write_text(folder, "sys/module/coming/initstate", "coming\n");
	folder_write_text(folder, "sys/module/live/initstate", "live\n");
	folder_subfolder(folder, "sys/module/built_in/parameters");
	assert_false(sysmodule_is_live(folder->fd, "coming"));
	assert_true(sysmodule_exists(folder->fd, "coming"));
	assert_true(sysmodule_is_live(folder->fd, "live"));
	assert_true(sysmodule_is_live(folder->fd, "built_in"));
	assert_false(sysmodule_is_live(folder->fd, "absent"));
}

static void reads_a_build_id_from_the_notes(void **state)
{
	static const unsigned char note[] = { 4, 0, 0, 0, 3, 0, 0, 0, 3, 0, 0, 0, 'G', 'N', 'U', 0,
		0xab, 0x01, 0xff };
	const struct folder *folder = *state;
	char hex[BUILD_ID_HEX_SIZE];

	folder_subfolder(folder, "sys/module/m/notes");
	assert_int_equal(fs_write_atomic(folder->fd, "sys/module/m/notes/.note.gnu.build-id", note,
				 sizeof(note), 0644),
		0);
	sysmodule_build_id(folder->fd, "m", hex);
	assert_string_equal(hex, "ab01ff");
	assert_int_equal(fs_write_atomic(folder->fd, "sys/module/m/notes/.note.gnu.build-id", note,
				 sizeof(note) - 1, 0644),
		0);
	sysmodule_build_id(folder->fd, "m", hex);
	assert_string_equal(hex, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(names_the_kernels_that_it_has),
		folder_test(names_the_ofed_that_a_build_needs),
		cmocka_unit_test(an_image_of_another_role_is_refused),
		folder_test(lists_the_drivers_own_modules),
		cmocka_unit_test(reads_values_of_whole_keys_only),
		folder_test(finds_the_exporting_module),
		folder_test(distinguishes_coming_from_live_and_built_in),
		folder_test(reads_a_build_id_from_the_notes),
	};

	return cmocka_run_group_tests_name("node", tests, NULL, NULL);
}
