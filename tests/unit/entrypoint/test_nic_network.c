/* SPDX-License-Identifier: Apache-2.0 */
/* Tests where the network's state is found, and when modules may not go without it. */
#include "tests/unit/support.h"

#include <sys/stat.h>
#include <unistd.h>

#include "common/fs.h"
#include "entrypoint/netstate/netstate.h"
#include "entrypoint/nic/nic_internal.h"

#define THERE "inventory/.slipway/network.journal"
#define HERE  "elsewhere/network.journal"
/* The journal's place beside the folder: the stock image removes folders from its inventory. */
#define BESIDE "inventory/.slipway-network.journal"

static char here[] = "elsewhere", there[] = "inventory/.slipway";

static struct nic container(const struct folder *folder, char *journal_folder)
{
	return (struct nic){ .role = { .root_fd = folder->fd },
		.inputs = { .journal_folder = journal_folder } };
}

static void expect_path(const struct nic *nic, const char *path)
{
	bool saved;
	_cleanup_free_ char *found = nic_network_path(nic, &saved);

	assert_string_equal(found, path);
}

/* Another pod of the same boot may have another inventory. */
static void an_earlier_containers_state_is_found_where_that_one_had_it(void **state)
{
	const struct folder *folder = *state;
	struct nic first = container(folder, there), second = container(folder, here);
	struct error error = { 0 };

	folder_subfolder(folder, NIC_STATE_FOLDER);
	expect_path(&first, THERE);
	assert_int_equal(nic_network_begin(&first, THERE, &error), 0);
	expect_path(&second, HERE);
	assert_true(nic_network_is_whole(&second));
	folder_write_text(folder, THERE, "state");
	expect_path(&second, THERE);
	assert_false(nic_network_is_whole(&second));
	assert_int_equal(unlinkat(folder->fd, THERE, 0), 0);
	assert_int_equal(nic_network_end(&second, THERE, &error), 0);
	expect_path(&second, HERE);
}

static void one_that_is_done_but_cannot_be_removed_is_done(void **state)
{
	const struct folder *folder = *state;
	struct nic nic = container(folder, there);
	struct error error = { 0 };

	folder_subfolder(folder, NIC_STATE_FOLDER);
	folder_write_text(folder, THERE, "state");
	assert_false(nic_network_is_whole(&nic));
	assert_int_equal(nic_network_end(&nic, THERE, &error), 0);
	assert_true(nic_network_is_whole(&nic));
	/* The next save must not take it for an unfinished save's. */
	assert_int_equal(nic_network_begin(&nic, THERE, &error), 0);
	assert_false(fs_exists(folder->fd, THERE));
	folder_write_text(folder, THERE, "new");
	assert_false(nic_network_is_whole(&nic));
}

/* The folder was root's alone when that container began; who could write to it since is seen now.
 */
static void a_state_that_others_can_have_written_is_skipped(void **state)
{
	static const char *const parts[] = { THERE, "inventory/.slipway", "inventory" };
	const struct folder *folder = *state;
	struct nic first = container(folder, there), second = container(folder, here);
	struct error error = { 0 };

	folder_subfolder(folder, NIC_STATE_FOLDER);
	folder_write_text(folder, THERE, "state");
	assert_int_equal(nic_network_begin(&first, THERE, &error), 0);
	expect_path(&second, THERE);
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		mode_t usual = i ? 0755 : 0644;

		assert_int_equal(fchmodat(folder->fd, parts[i], 0777, 0), 0);
		expect_path(&second, HERE);
		assert_true(nic_network_is_whole(&first));
		assert_true(nic_network_is_distrusted(folder->fd, &error));
		assert_contains(error.text, "others than root may write");
		assert_int_equal(fchmodat(folder->fd, parts[i], usual, 0), 0);
		assert_false(nic_network_is_distrusted(folder->fd, &error));
	}
	expect_path(&second, THERE);
	assert_int_equal(renameat(folder->fd, THERE, folder->fd, "planted"), 0);
	assert_int_equal(symlinkat("../../planted", folder->fd, THERE), 0);
	expect_path(&second, HERE);
	/* The next save's is not what was left there. */
	assert_int_equal(nic_network_begin(&first, THERE, &error), 0);
	assert_false(fs_exists(folder->fd, THERE));
	assert_true(fs_exists(folder->fd, "planted"));
}

static void the_state_lies_beside_the_folder_where_the_inventory_is_roots(void **state)
{
	const struct folder *folder = *state;
	struct nic nic = container(folder, there), other = container(folder, here);
	struct error error = { 0 };

	folder_subfolder(folder, NIC_STATE_FOLDER);
	folder_subfolder(folder, there);
	expect_path(&nic, THERE);
	nic.inputs.is_inventory_roots = true;
	expect_path(&nic, BESIDE);
	assert_true(nic_network_is_whole(&nic));
	/* An older image's, of before the node booted. */
	folder_write_text(folder, THERE, "state");
	expect_path(&nic, THERE);
	assert_false(nic_network_is_whole(&nic));
	assert_int_equal(unlinkat(folder->fd, THERE, 0), 0);
	assert_int_equal(nic_network_begin(&nic, BESIDE, &error), 0);
	folder_write_text(folder, BESIDE, "state");
	expect_path(&nic, BESIDE);
	assert_false(nic_network_is_whole(&nic));
	expect_path(&other, BESIDE);
	assert_int_equal(fchmodat(folder->fd, BESIDE, 0666, 0), 0);
	assert_true(nic_network_is_whole(&nic));
	assert_int_equal(fchmodat(folder->fd, BESIDE, 0644, 0), 0);
	assert_int_equal(fchmodat(folder->fd, "inventory", 0777, 0), 0);
	assert_true(nic_network_is_whole(&nic));
	assert_true(nic_network_is_distrusted(folder->fd, &error));
}

/* Nothing is cut off a path that is not below the folder. */
static void what_is_beside_the_folder_is_not_opened(void **state)
{
	const struct folder *folder = *state;
	struct error error = { 0 };

	folder_write_text(folder, "inventory2/network.journal", "state");
	folder_write_text(folder, "inventory/network.journal", "state");
	assert_int_equal(
		nic_open_owned(folder->fd, there, "inventory2/network.journal", &error), -EINVAL);
	assert_contains(error.text, "/inventory2/network.journal is not below /inventory");
}

static void begin_swap(const struct nic *nic, const char *name)
{
	_cleanup_journal_ struct journal journal = { .phase = PHASE_LOADING };
	struct swap_module module = { .part = SWAP_DRIVER };
	struct error error = { 0 };

	(void) snprintf(module.name, sizeof(module.name), "%s", name);
	assert_int_equal(swap_plan_add(&journal.pending, &module), 0);
	assert_int_equal(journal_write(nic->role.root_fd, &journal, &error), 0);
}

static void a_failed_save_keeps_modules_where_they_are(void **state)
{
	const struct folder *folder = *state;
	struct nic nic = container(folder, there);

	folder_subfolder(folder, NIC_STATE_FOLDER);
	nic.role.plan.stop_failed = true;
	/* Nothing is pending, nothing is asked for. */
	assert_false(nic_network_is_at_risk(&nic.role));
	/* RESTORE guesses what was there when it was not recorded. */
	nic.role.options.restore_inbox = true;
	assert_true(nic_network_is_at_risk(&nic.role));
	nic.role.options.restore_inbox = false;
	/* The pending swap counts, not this start's plan. */
	nic.swap.same = true;
	begin_swap(&nic, "mlx5_core");
	assert_true(nic_network_is_at_risk(&nic.role));
	folder_write_text(folder, THERE, "state");
	assert_false(nic_network_is_at_risk(&nic.role));
	assert_int_equal(unlinkat(folder->fd, THERE, 0), 0);
	nic.role.plan.stop_failed = false;
	assert_false(nic_network_is_at_risk(&nic.role));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(an_earlier_containers_state_is_found_where_that_one_had_it),
		folder_test(one_that_is_done_but_cannot_be_removed_is_done),
		folder_test(a_state_that_others_can_have_written_is_skipped),
		folder_test(the_state_lies_beside_the_folder_where_the_inventory_is_roots),
		folder_test(what_is_beside_the_folder_is_not_opened),
		folder_test(a_failed_save_keeps_modules_where_they_are),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
