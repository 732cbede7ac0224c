/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/support.h"

#include <stdlib.h>

#include "common/fs.h"
#include "entrypoint/contract.h"
#include "entrypoint/nic/nic_internal.h"

/* Every variable of the network operator's container (research/operator-nic.md, 1.4). */
static const char *const known[] = { "UNLOAD_STORAGE_MODULES", "CREATE_IFNAMES_UDEV",
	"ENABLE_NFSRDMA", "UBUNTU_PRO_TOKEN", "DRIVER_READY_PATH", "MLX_UDEV_RULES_FILE",
	"LOCK_FILE_PATH", "MLX_DRIVERS_MOUNT", "SHARED_KERNEL_HEADERS_DIR",
	"NVIDIA_NIC_DRIVER_PATH", "NVIDIA_NIC_DRIVERS_INVENTORY_PATH", "DTK_OCP_DRIVER_BUILD",
	"DTK_OCP_NIC_SHARED_DIR", "DTK_OCP_COMPILED_DRIVER_VER", "DTK_OCP_START_COMPILE_FLAG",
	"DTK_OCP_DONE_COMPILE_FLAG", "APPEND_DRIVER_BUILD_FLAGS", "OFED_BLACKLIST_MODULES_FILE",
	"OFED_BLACKLIST_MODULES", "MLX5_AUXILIARY_MODULES", "STORAGE_MODULES",
	"UNLOAD_THIRD_PARTY_RDMA_MODULES", "THIRD_PARTY_RDMA_MODULES", "USE_DKMS",
	"ENTRYPOINT_DEBUG", "DEBUG_LOG_FILE", "DEBUG_SLEEP_SEC_ON_EXIT", "BIND_DELAY_SEC",
	"USE_NEW_ENTRYPOINT", "SKIP_PREFLIGHT_CHECKS", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY",
	"http_proxy", "https_proxy", "no_proxy" };

#define _cleanup_inputs_ _cleanup_(nic_inputs_free)

static int forget_environment(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		(void) unsetenv(known[i]);
	return folder_remove(state);
}

#define inputs_test(function)                                                                      \
	cmocka_unit_test_setup_teardown(function, folder_make, forget_environment)

static int read_all(
	const struct folder *folder, struct nic_inputs *inputs, char *mode, struct error *error)
{
	char *const arguments[] = { mode, NULL };

	*inputs = (struct nic_inputs){ .unload_storage = true };
	*error = (struct error){ 0 };
	return nic_inputs_read(inputs, folder->fd, arguments, error);
}

static void assert_list(const struct strv *list, const char *expected)
{
	_cleanup_free_ char *text = strv_join(list, " ");

	assert_string_equal(text, expected);
}

static void without_any_it_is_as_the_stock_image(void **state)
{
	_cleanup_inputs_ struct nic_inputs inputs;
	struct error error;

	assert_int_equal(read_all(*state, &inputs, NULL, &error), 0);
	assert_int_equal(inputs.mode, NIC_PRECOMPILED);
	assert_false(inputs.unload_storage || inputs.unload_third_party || inputs.ifnames_rule ||
		     inputs.nfsrdma);
	assert_list(&inputs.storage,
		"ib_iser ib_isert ib_srp ib_srpt nvme_rdma nvmet_rdma rpcrdma xprtrdma");
	assert_list(&inputs.third_party,
		"bnxt_re efa erdma iw_cxgb4 hfi1 hns_roce ionic_rdma irdma ib_qib mana_ib ocrdma "
		"qedr rdma_rxe siw vmw_pvrdma");
	assert_list(&inputs.auxiliary, "mlx5_vdpa mlx5_fwctl mlx5_dpll");
	assert_list(&inputs.blacklist,
		"mlx5_core mlx5_ib ib_umad ib_uverbs ib_ipoib rdma_cm rdma_ucm ib_core ib_cm");
	assert_string_equal(inputs.ready_file, "run/mellanox/drivers/.driver-ready");
	assert_string_equal(inputs.lock_file, "run/mellanox/drivers/.lock");
	assert_string_equal(inputs.drivers_mount, "run/mellanox/drivers");
	assert_string_equal(inputs.sources, "usr/src");
	assert_string_equal(inputs.shown_sources, "run/mellanox/drivers/usr/src");
	assert_string_equal(inputs.udev_rules, "host/etc/udev/rules.d/77-mlnx-net-names.rules");
	assert_string_equal(
		inputs.blacklist_file, "host/etc/modprobe.d/blacklist-ofed-modules.conf");
	assert_string_equal(inputs.inventory, "");
	assert_int_equal(inputs.bind_ms, 4000);
	assert_string_equal(inputs.journal_folder, NIC_STATE_FOLDER);
	assert_string_not_equal(inputs.unused, "");
}

static void every_flag_and_list_is_read(void **state)
{
	_cleanup_inputs_ struct nic_inputs inputs;
	char mode[] = "sources";
	struct error error;

	(void) setenv("UNLOAD_STORAGE_MODULES", "true", 1);
	(void) setenv("UNLOAD_THIRD_PARTY_RDMA_MODULES", "1", 1);
	(void) setenv("CREATE_IFNAMES_UDEV", "True", 1);
	(void) setenv("ENABLE_NFSRDMA", "yes", 1);
	(void) setenv("ENTRYPOINT_DEBUG", "true", 1);
	(void) setenv("STORAGE_MODULES", "ib-iser,nvme_rdma", 1);
	(void) setenv("THIRD_PARTY_RDMA_MODULES", " irdma  siw ", 1);
	(void) setenv("MLX5_AUXILIARY_MODULES", "", 1); /* the documented way to have none */
	(void) setenv("OFED_BLACKLIST_MODULES", "mlx5_core:ib-core", 1);
	(void) setenv("BIND_DELAY_SEC", "9", 1);
	assert_int_equal(read_all(*state, &inputs, mode, &error), 0);
	assert_int_equal(inputs.mode, NIC_SOURCES);
	assert_true(inputs.unload_storage && inputs.unload_third_party && inputs.ifnames_rule &&
		    inputs.nfsrdma);
	assert_list(&inputs.storage, "ib_iser nvme_rdma");
	assert_list(&inputs.third_party, "irdma siw");
	assert_int_equal(inputs.auxiliary.count, 0);
	assert_list(&inputs.blacklist, "mlx5_core ib_core");
	assert_int_equal(inputs.bind_ms, 9000);
}

/* Upstream's config.go: else storage over RDMA would be no reason to refuse. */
static void a_guard_that_is_set_to_nothing_is_the_usual_one(void **state)
{
	_cleanup_inputs_ struct nic_inputs inputs;
	struct error error;

	(void) setenv("STORAGE_MODULES", "", 1);
	(void) setenv("THIRD_PARTY_RDMA_MODULES", " ", 1);
	assert_int_equal(read_all(*state, &inputs, NULL, &error), 0);
	assert_true(strv_contains(&inputs.storage, "nvme_rdma"));
	assert_true(strv_contains(&inputs.third_party, "irdma"));
}

static void paths_are_taken_wherever_they_are(void **state)
{
	const struct folder *folder = *state;
	_cleanup_inputs_ struct nic_inputs inputs;
	struct error error;

	(void) setenv("DRIVER_READY_PATH", "/somewhere/ready", 1);
	(void) setenv("LOCK_FILE_PATH", "//somewhere/lock", 1);
	(void) setenv("MLX_DRIVERS_MOUNT", "/opt/mlnx/", 1);
	(void) setenv("SHARED_KERNEL_HEADERS_DIR", "/usr/lib/src/", 1);
	(void) setenv("MLX_UDEV_RULES_FILE", "/host/etc/udev/rules.d/1.rules", 1);
	(void) setenv("OFED_BLACKLIST_MODULES_FILE", "/host/etc/modprobe.d/1.conf", 1);
	(void) setenv("NVIDIA_NIC_DRIVERS_INVENTORY_PATH", "/mnt/drivers-inventory", 1);
	folder_subfolder(folder, "mnt/drivers-inventory");
	assert_int_equal(read_all(folder, &inputs, NULL, &error), 0);
	assert_string_equal(inputs.ready_file, "somewhere/ready");
	assert_string_equal(inputs.lock_file, "somewhere/lock");
	assert_string_equal(inputs.drivers_mount, "opt/mlnx");
	assert_string_equal(inputs.sources, "usr/lib/src");
	assert_string_equal(inputs.shown_sources, "opt/mlnx/usr/lib/src");
	assert_string_equal(inputs.udev_rules, "host/etc/udev/rules.d/1.rules");
	assert_string_equal(inputs.blacklist_file, "host/etc/modprobe.d/1.conf");
	assert_string_equal(inputs.inventory, "mnt/drivers-inventory");
	assert_string_equal(inputs.journal_folder, "mnt/drivers-inventory/.slipway");
	assert_string_equal(inputs.unused, "");
}

static void an_inventory_that_is_no_mount_keeps_no_journal(void **state)
{
	const struct folder *folder = *state;
	_cleanup_inputs_ struct nic_inputs inputs;
	struct error error;

	(void) setenv("NVIDIA_NIC_DRIVERS_INVENTORY_PATH", "/mnt/drivers-inventory", 1);
	assert_int_equal(read_all(folder, &inputs, NULL, &error), 0);
	assert_string_equal(inputs.journal_folder, NIC_STATE_FOLDER);
	nic_inputs_free(&inputs);
	/* The image's own folder goes with the container. */
	folder_subfolder(folder, "mnt/drivers-inventory");
	folder_write_text(
		folder, "proc/self/mountinfo", "1 0 0:1 / / rw,relatime - overlay overlay rw\n");
	assert_int_equal(read_all(folder, &inputs, NULL, &error), 0);
	assert_string_not_equal(inputs.unused, "");
	nic_inputs_free(&inputs);
	folder_write_text(folder, "proc/self/mountinfo",
		"1 0 0:1 / / rw,relatime - overlay overlay rw\n"
		"2 1 8:1 /var/opt /mnt/drivers-inventory rw,relatime - ext4 /dev/sda1 rw\n");
	assert_int_equal(read_all(folder, &inputs, NULL, &error), 0);
	assert_string_equal(inputs.unused, "");
}

static void an_inventory_that_others_can_write_to_keeps_no_journal(void **state)
{
	static const char *const parts[] = { "mnt/drivers-inventory/.slipway",
		"mnt/drivers-inventory" };
	const struct folder *folder = *state;
	_cleanup_inputs_ struct nic_inputs inputs;
	struct error error;

	(void) setenv("NVIDIA_NIC_DRIVERS_INVENTORY_PATH", "/mnt/drivers-inventory", 1);
	folder_subfolder(folder, parts[0]);
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		assert_int_equal(fchmodat(folder->fd, parts[i], 0775, 0), 0);
		assert_int_equal(read_all(folder, &inputs, NULL, &error), 0);
		assert_string_not_equal(inputs.unused, "");
		assert_string_equal(inputs.journal_folder, NIC_STATE_FOLDER);
		assert_contains(inputs.unused, "others than root may write");
		nic_inputs_free(&inputs);
		assert_int_equal(fchmodat(folder->fd, parts[i], 0755, 0), 0);
	}
	assert_int_equal(read_all(folder, &inputs, NULL, &error), 0);
	assert_string_equal(inputs.unused, "");
}

/* A folder that is made at the first look is root's: no other user can make it after that. */
static void an_inventorys_own_folder_is_made_at_once(void **state)
{
	const struct folder *folder = *state;
	_cleanup_inputs_ struct nic_inputs inputs;
	struct error error;
	struct stat own;

	(void) setenv("NVIDIA_NIC_DRIVERS_INVENTORY_PATH", "/mnt/drivers-inventory", 1);
	folder_subfolder(folder, "mnt/drivers-inventory");
	assert_int_equal(fchmodat(folder->fd, "mnt/drivers-inventory", 01777, 0), 0);
	assert_int_equal(read_all(folder, &inputs, NULL, &error), 0);
	assert_string_equal(inputs.unused, "");
	assert_int_equal(fstatat(folder->fd, "mnt/drivers-inventory/.slipway", &own, 0), 0);
	assert_int_equal(own.st_mode & 07777, 0700);
	assert_int_equal(own.st_uid, geteuid());
	assert_false(inputs.is_inventory_roots);
	nic_inputs_free(&inputs);
	assert_int_equal(fchmodat(folder->fd, "mnt/drivers-inventory", 0755, 0), 0);
	assert_int_equal(read_all(folder, &inputs, NULL, &error), 0);
	assert_string_equal(inputs.unused, "");
	assert_true(inputs.is_inventory_roots);
}

/* Whatever it is that hinders the look. */
static void an_inventory_that_cannot_be_judged_keeps_no_journal(void **state)
{
	const struct folder *folder = *state;
	_cleanup_inputs_ struct nic_inputs inputs;
	struct error error;

	(void) setenv("NVIDIA_NIC_DRIVERS_INVENTORY_PATH", "/mnt/drivers-inventory", 1);
	folder_write_text(folder, "mnt/drivers-inventory/.slipway", "a file");
	assert_int_equal(read_all(folder, &inputs, NULL, &error), 0);
	assert_string_not_equal(inputs.unused, "");
	assert_contains(inputs.unused, ".slipway");
	nic_inputs_free(&inputs);
	assert_int_equal(fs_remove_tree(folder->fd, "mnt/drivers-inventory"), 0);
	folder_write_text(folder, "mnt/drivers-inventory", "a file");
	assert_int_equal(read_all(folder, &inputs, NULL, &error), 0);
	assert_string_not_equal(inputs.unused, "");
	assert_contains(inputs.unused, "it cannot be opened");
}

static void assert_refused(
	const struct folder *folder, const char *name, const char *value, const char *part)
{
	_cleanup_inputs_ struct nic_inputs inputs;
	struct error error;

	(void) setenv(name, value, 1);
	assert_int_equal(read_all(folder, &inputs, NULL, &error), -EINVAL);
	assert_contains(error.text, part);
	assert_contains(error.text, name);
	(void) unsetenv(name);
}

static void what_cannot_be_is_refused_by_name(void **state)
{
	_cleanup_inputs_ struct nic_inputs inputs;
	char *const two[] = { (char[]){ "sources" }, (char[]){ "now" }, NULL };
	char mode[] = "compile";
	struct error error;

	assert_refused(*state, "UNLOAD_STORAGE_MODULES", "maybe", "give true");
	assert_refused(*state, "STORAGE_MODULES", "ib_iser;ib_srp", "not a module name");
	assert_refused(*state, "THIRD_PARTY_RDMA_MODULES", "../irdma", "not a module name");
	assert_refused(*state, "DRIVER_READY_PATH", "ready", "give a path from the root");
	assert_refused(*state, "LOCK_FILE_PATH", "/run/../etc/passwd", "without ..");
	assert_refused(*state, "MLX_DRIVERS_MOUNT", "/", "below the root");
	assert_refused(*state, "BIND_DELAY_SEC", "4s", "whole seconds from 0");
	assert_int_equal(read_all(*state, &inputs, mode, &error), -EINVAL);
	assert_contains(error.text, "precompiled or sources");
	nic_inputs_free(&inputs);
	inputs = (struct nic_inputs){ .unload_storage = false };
	assert_int_equal(
		nic_inputs_read(&inputs, ((const struct folder *) *state)->fd, two, &error),
		-EINVAL);
	assert_contains(error.text, "\"now\" is a second one");
}

static char *logged(const struct folder *folder, const struct nic_inputs *inputs)
{
	struct log log;

	log_prepare(&log, folder->fd, "nic", NIC_STATE_FOLDER);
	log_open(&log);
	nic_inputs_log(inputs, &log);
	log_close(&log);
	return folder_read_text(folder, NIC_STATE_FOLDER "/nic.events.jsonl");
}

static void an_auxiliary_word_that_is_no_name_is_skipped(void **state)
{
	_cleanup_inputs_ struct nic_inputs inputs;
	_cleanup_free_ char *text = NULL;
	struct error error;

	(void) setenv("MLX5_AUXILIARY_MODULES", "mlx5-vdpa ../evil mlx5_dpll", 1);
	assert_int_equal(read_all(*state, &inputs, NULL, &error), 0);
	assert_list(&inputs.auxiliary, "mlx5_vdpa mlx5_dpll");
	text = logged(*state, &inputs);
	assert_contains(text, "which is not a module name: skipped");
}

static bool changes_something(const struct folder *folder, const char *name)
{
	/* Something that is a value of each kind. */
	static const char *const values[] = { "true", "/elsewhere", "7" };
	_cleanup_inputs_ struct nic_inputs usual;
	struct error error;
	bool changes = false;

	assert_int_equal(read_all(folder, &usual, NULL, &error), 0);
	for (size_t i = 0; !changes && i < ARRAY_SIZE(values); i++) {
		_cleanup_inputs_ struct nic_inputs inputs;

		(void) setenv(name, values[i], 1);
		if (read_all(folder, &inputs, NULL, &error) < 0)
			continue;
		changes = inputs.unload_storage || inputs.unload_third_party ||
			  inputs.ifnames_rule || inputs.nfsrdma || inputs.bind_ms != 4000 ||
			  inputs.storage.count != usual.storage.count ||
			  inputs.third_party.count != usual.third_party.count ||
			  inputs.auxiliary.count != usual.auxiliary.count ||
			  inputs.blacklist.count != usual.blacklist.count ||
			  strcmp(inputs.ready_file, usual.ready_file) != 0 ||
			  strcmp(inputs.lock_file, usual.lock_file) != 0 ||
			  strcmp(inputs.shown_sources, usual.shown_sources) != 0 ||
			  strcmp(inputs.udev_rules, usual.udev_rules) != 0 ||
			  strcmp(inputs.blacklist_file, usual.blacklist_file) != 0 ||
			  strcmp(inputs.inventory, usual.inventory) != 0;
	}
	return changes;
}

static void every_variable_is_honoured_or_logged_as_unused(void **state)
{
	const struct folder *folder = *state;

	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		_cleanup_inputs_ struct nic_inputs inputs;
		_cleanup_free_ char *text = NULL;
		struct error error;

		if (!changes_something(folder, known[i])) {
			/* Whatever its value, no start is refused for it. */
			(void) setenv(known[i], "../neither: nor", 1);
			assert_int_equal(read_all(folder, &inputs, NULL, &error), 0);
			text = logged(folder, &inputs);
			/* … and why. */
			assert_contains(text, known[i]);
			assert_null(strstr(text, "neither: nor"));
		} else {
			inputs = (struct nic_inputs){ .nfsrdma = false };
		}
		(void) unsetenv(known[i]);
	}
}

static void what_is_not_set_is_not_logged(void **state)
{
	_cleanup_inputs_ struct nic_inputs inputs;
	_cleanup_free_ char *text = NULL;
	struct error error;

	assert_int_equal(read_all(*state, &inputs, NULL, &error), 0);
	text = logged(*state, &inputs);
	assert_null(strstr(text, "environment"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		inputs_test(without_any_it_is_as_the_stock_image),
		inputs_test(every_flag_and_list_is_read),
		inputs_test(a_guard_that_is_set_to_nothing_is_the_usual_one),
		inputs_test(paths_are_taken_wherever_they_are),
		inputs_test(an_inventory_that_is_no_mount_keeps_no_journal),
		inputs_test(an_inventory_that_others_can_write_to_keeps_no_journal),
		inputs_test(an_inventorys_own_folder_is_made_at_once),
		inputs_test(an_inventory_that_cannot_be_judged_keeps_no_journal),
		inputs_test(what_cannot_be_is_refused_by_name),
		inputs_test(an_auxiliary_word_that_is_no_name_is_skipped),
		inputs_test(every_variable_is_honoured_or_logged_as_unused),
		inputs_test(what_is_not_set_is_not_logged),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
