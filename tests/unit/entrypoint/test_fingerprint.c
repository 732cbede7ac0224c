/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/node_folder.h"

#include "entrypoint/contract.h"
#include "entrypoint/rdma/ofed.h"
#include "entrypoint/role/role.h"
#include "entrypoint/role/roles.h"

#define PATH NIC_STATE_FOLDER "/ofed.fingerprint"

static void load(const struct folder *folder, const char *name, unsigned char id)
{
	const unsigned char note[] = { 4, 0, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0, 'G', 'N', 'U', 0, id };
	char path[128];

	(void) snprintf(path, sizeof(path), "sys/module/%s/notes/.note.gnu.build-id", name);
	folder_write(folder, path, note, sizeof(note));
}

static void describes_the_module_that_is_loaded(void **state)
{
	const struct folder *folder = *state;
	struct fingerprint found;

	load(folder, "ib_uverbs", 0xab);
	folder_write_text(folder, PATH, "exporter=ib_uverbs\nbuild_id=ab\ncrc=0x8e6daf35\n");
	assert_true(fingerprint_read(folder->fd, &found));
	assert_string_equal(found.exporter, "ib_uverbs");
	assert_int_equal(found.crc, 0x8e6daf35);
	assert_int_equal(found.builds.count, 0); /* an older image's */
}

static void lists_which_builds_were_loaded(void **state)
{
	const struct folder *folder = *state;
	_cleanup_(fingerprint_free) struct fingerprint found = { .crc = 0 };

	load(folder, "ib_uverbs", 0xab);
	folder_write_text(folder, PATH,
		"exporter=ib_uverbs\nbuild_id=ab\ncrc=0x8e6daf35\n"
		"modules=ib_core cd ib_uverbs ab torn\n");
	assert_true(fingerprint_read(folder->fd, &found));
	assert_int_equal(found.builds.count, 2);
	assert_string_equal(found.builds.items[0], "ib_core cd");
	assert_string_equal(found.builds.items[1], "ib_uverbs ab");
}

static void the_loaded_version_is_the_fingerprints_or_mlx5_cores_own(void **state)
{
	const struct folder *folder = *state;
	char version[64];

	fingerprint_version(folder->fd, version);
	assert_string_equal(version, "unknown");
	folder_write_text(folder, "sys/module/mlx5_core/version", "24.10-0.7.0\n");
	fingerprint_version(folder->fd, version);
	assert_string_equal(version, "24.10-0.7.0");
	load(folder, "ib_uverbs", 0xab);
	folder_write_text(folder, PATH,
		"exporter=ib_uverbs\nbuild_id=ab\ncrc=0x8e6daf35\nversion=25.01-0.6.0\n");
	fingerprint_version(folder->fd, version);
	assert_string_equal(version, "25.01-0.6.0");
	load(folder, "ib_uverbs", 0xac); /* another NIC container's */
	fingerprint_version(folder->fd, version);
	assert_string_equal(version, "24.10-0.7.0");
}

static void another_build_of_the_module_voids_it(void **state)
{
	const struct folder *folder = *state;
	struct fingerprint found;

	load(folder, "ib_uverbs", 0xac);
	folder_write_text(folder, PATH, "exporter=ib_uverbs\nbuild_id=ab\ncrc=0x8e6daf35\n");
	assert_false(fingerprint_read(folder->fd, &found));
}

static void without_file_module_or_build_id_there_is_none(void **state)
{
	const struct folder *folder = *state;
	struct fingerprint found;

	assert_false(fingerprint_read(folder->fd, &found));
	folder_write_text(folder, PATH, "exporter=ib_uverbs\nbuild_id=ab\ncrc=0x1\n");
	assert_false(fingerprint_read(folder->fd, &found));
	folder_write_text(folder, PATH, "exporter=ib_uverbs\nbuild_id=\ncrc=0x1\n");
	assert_false(fingerprint_read(folder->fd, &found));
	folder_write_text(folder, PATH, "exporter=../../etc\nbuild_id=ab\ncrc=0x1\n");
	assert_false(fingerprint_read(folder->fd, &found));
}

/* The last byte of the fixtures' build id. */
#define OWN 0x67

static void lists_what_is_the_images_and_not_the_hosts_own(void **state)
{
	static const char *const names[] = { "ib_core", "ib_uverbs", "nvme", "ib_iser" };
	const struct folder *folder = *state;
	_cleanup_(fingerprint_free) struct fingerprint found = { .crc = 0 };
	_cleanup_strv_ struct strv set = { 0 };
	struct role role = { .root_fd = folder->fd, .krel = KREL };
	struct action action = { .role = &role };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		char path[128];

		(void) snprintf(path, sizeof(path), "lib/modules/" KREL "/updates/%s.ko", names[i]);
		copy_fixture(folder, "exporter", path);
		assert_int_equal(strv_push(&set, names[i]), 0);
	}
	run_depmod(folder, "");
	folder_write_text(folder, "usr/src/ofa_kernel/default/Module.symvers",
		"0x8e6daf35\t" CONTRACT_PEER_REGISTER "\tib_uverbs\tEXPORT_SYMBOL\t\n");
	write_note(folder, "ib_core", OWN);
	write_note(folder, "ib_uverbs", OWN);
	write_note(folder, "nvme", OWN + 1); /* the root disk's, which was not replaced */
	role.driver_modules = set;
	folder_subfolder(folder, NIC_STATE_FOLDER);
	assert_int_equal(fingerprint_write(&action), 0);
	assert_true(fingerprint_read(folder->fd, &found));
	assert_string_equal(found.exporter, "ib_uverbs");
	assert_int_equal(found.builds.count, 2);
	assert_string_equal(found.builds.items[0], "ib_core " BUILD_ID);
	assert_string_equal(found.builds.items[1], "ib_uverbs " BUILD_ID);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(describes_the_module_that_is_loaded),
		folder_test(lists_which_builds_were_loaded),
		folder_test(the_loaded_version_is_the_fingerprints_or_mlx5_cores_own),
		folder_test(lists_what_is_the_images_and_not_the_hosts_own),
		folder_test(another_build_of_the_module_voids_it),
		folder_test(without_file_module_or_build_id_there_is_none),
	};

	return cmocka_run_group_tests_name("fingerprint", tests, NULL, NULL);
}
