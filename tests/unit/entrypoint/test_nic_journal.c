/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The NIC role's journal: what is pending, whose modules are the node's own, what a start does in
 * each phase, and that what an older Slipway left says the same.
 */
#include "tests/unit/node_folder.h"

#include <sys/stat.h>

#include "tests/unit/entrypoint/nic_bench.h"

#define HOST_TREE "host/lib/modules/" KREL
#define STATE     NIC_STATE_FOLDER "/"

/* The words of the file. */
static const char *const phases[PHASES] = { "none", "unloading", "loading", "dependents",
	"restoring", "committed", "rollback" };

/* A module file whose build id ends in @last. */
static void write_build(const struct folder *folder, const char *path, unsigned char last)
{
	static const char name[] = { 3, 0, 0, 0, 'G', 'N', 'U', 0 };
	_cleanup_free_ char *data = NULL;
	char *note;
	size_t size;

	assert_int_equal(fs_read(AT_FDCWD, FIXTURES "/parameters.ko", 0, &data, &size), 0);
	note = memmem(data, size, name, sizeof(name));
	assert_non_null(note);
	note[sizeof(name) + 19] = (char) last;
	folder_write(folder, path, data, size);
}

static void add(struct swap_plan *plan, const char *name, unsigned char last, enum swap_part part,
	char *options)
{
	struct swap_module module = { .part = part, .options = options };

	(void) snprintf(module.name, sizeof(module.name), "%s", name);
	(void) snprintf(module.build_id, BUILD_ID_HEX_SIZE, "%.38s%02x", BUILD_ID, last);
	assert_int_equal(swap_plan_add(plan, &module), 0);
}

static void expect_going(const struct swap_plan *plan, const char *names)
{
	_cleanup_strv_ struct strv going = { 0 };
	_cleanup_free_ char *text = NULL;

	assert_int_equal(swap_plan_going(plan, &going), 0);
	text = going.count ? strv_join(&going, " ") : strdup("");
	assert_string_equal(text, names);
}

static void expect_list(const struct strv *list, const char *names)
{
	_cleanup_free_ char *text = list->count ? strv_join(list, " ") : strdup("");

	assert_string_equal(text, names);
}

static void read_journal(const struct folder *folder, struct journal *journal)
{
	struct error error = { 0 };

	journal_free(journal);
	assert_int_equal(journal_read(folder->fd, journal, &error), 0);
}

static void begin(const struct folder *folder, const struct swap_plan *plan)
{
	_cleanup_(close_bench) struct bench bench;
	struct error error = { 0 };

	open_bench(&bench, folder);
	assert_int_equal(journal_begin(plan, &bench.lookup, &error), 0);
	assert_int_equal(journal_phase(folder->fd), PHASE_UNLOADING);
}

static void what_a_killed_container_had_pending_stays_pending(void **state)
{
	_cleanup_(swap_plan_free) struct swap_plan pending = { 0 };
	_cleanup_(swap_plan_free) struct swap_plan plan = { 0 };
	_cleanup_strv_ struct strv coming = { 0 };
	char was[] = "prof_sel=1";
	char is[] = "prof_sel=2";

	(void) state;
	add(&pending, "mlx5_core", 1, SWAP_DRIVER, was);
	assert_int_equal(strv_push(&pending.load, "mlx_compat"), 0);
	/* Half of what that one loaded is there, and a module that came since. */
	add(&plan, "irdma", 7, SWAP_THIRD_PARTY, NULL);
	add(&plan, "mlx5_core", 2, SWAP_DRIVER, is);
	add(&plan, "mlx_compat", 2, SWAP_DRIVER, NULL);
	assert_int_equal(strv_push(&coming, "mlx5_core"), 0);
	for (int again = 0; again < 2; again++) {
		assert_int_equal(journal_merge_pending(&pending, &plan, &coming), 0);
		expect_going(&pending, "irdma mlx5_core");
		assert_string_equal(pending.go[1].options, "prof_sel=1");
		expect_list(&pending.load, "mlx_compat mlx5_core");
	}
}

static void the_nodes_own_is_what_the_hosts_tree_has(void **state)
{
	const struct folder *folder = *state;
	_cleanup_journal_ struct journal journal = { .phase = PHASE_NONE };
	_cleanup_(swap_plan_free) struct swap_plan plan = { 0 };
	struct error error = { 0 };
	char was[] = "prof_sel=1";
	char is[] = "prof_sel=2";

	write_build(folder, HOST_TREE "/kernel/ib_core.ko", 1);
	add(&journal.own, "ib_core", 1, SWAP_DRIVER, NULL);
	add(&journal.own, "mlx5_core", 1, SWAP_DRIVER, was);
	assert_int_equal(journal_write(folder->fd, &journal, &error), 0);
	/* Another OFED's is no news; the host's own, with other parameters, is. */
	add(&plan, "nvidia_peermem", 3, SWAP_PEERMEM, NULL);
	add(&plan, "mlx5_core", 2, SWAP_DRIVER, NULL);
	add(&plan, "ib_core", 1, SWAP_DRIVER, is);
	begin(folder, &plan);
	read_journal(folder, &journal);
	expect_going(&journal.own, "ib_core mlx5_core");
	assert_string_equal(journal.own.go[0].options, "prof_sel=2");
	assert_string_equal(journal.own.go[1].options, "prof_sel=1");
	/* When nothing is known all of it is. */
	assert_int_equal(unlinkat(folder->fd, JOURNAL_PATH, 0), 0);
	begin(folder, &plan);
	read_journal(folder, &journal);
	expect_going(&journal.own, "mlx5_core ib_core");
}

static void a_swap_of_which_nothing_goes_is_pending_too(void **state)
{
	const struct folder *folder = *state;
	_cleanup_(swap_plan_free) struct swap_plan plan = { 0 };
	_cleanup_journal_ struct journal journal = { 0 };

	assert_int_equal(strv_push(&plan.load, "ib_core"), 0);
	assert_int_equal(strv_push(&plan.load, "psample"), 0);
	folder_module(folder, "psample", "0\n", NULL);
	assert_false(journal_is_pending(folder->fd));
	begin(folder, &plan);
	assert_true(journal_is_pending(folder->fd));
	read_journal(folder, &journal);
	assert_int_equal(journal.pending.go_count, 0);
	assert_int_equal(journal.own.go_count, 0);
	assert_true(journal_knows_own(&journal));
	/* Modules that were there before are not ours to remove again. */
	expect_list(&journal.pending.load, "ib_core");
	journal_end(folder->fd, false);
	assert_false(journal_is_pending(folder->fd));
	journal_end(folder->fd, true);
	assert_false(fs_exists(folder->fd, JOURNAL_PATH));
}

static void the_second_swap_of_a_boot_knows_the_nodes_own_still(void **state)
{
	const struct folder *folder = *state;
	_cleanup_(swap_plan_free) struct swap_plan first = { 0 };
	_cleanup_(swap_plan_free) struct swap_plan second = { 0 };
	_cleanup_journal_ struct journal journal = { 0 };
	char own[] = "prof_sel=1";

	write_build(folder, HOST_TREE "/kernel/mlx5_core.ko", 1);
	add(&first, "mlx5_core", 1, SWAP_DRIVER, own);
	assert_int_equal(strv_push(&first.load, "mlx5_core"), 0);
	begin(folder, &first);
	journal_commit(folder->fd);
	assert_int_equal(journal_phase(folder->fd), PHASE_COMMITTED);
	add(&second, "mlx5_core", 2, SWAP_DRIVER, NULL);
	assert_int_equal(strv_push(&second.load, "mlx5_core"), 0);
	begin(folder, &second);
	read_journal(folder, &journal);
	expect_going(&journal.own, "mlx5_core");
	assert_string_equal(journal.own.go[0].options, "prof_sel=1");
	assert_string_equal(journal.pending.go[0].options, "");
}

/* An older Slipway was killed between its two files. */
static void what_is_pending_shows_what_the_node_had(void **state)
{
	const struct folder *folder = *state;
	_cleanup_journal_ struct journal journal = { .phase = PHASE_LOADING };
	_cleanup_(swap_plan_free) struct swap_plan plan = { 0 };
	struct error error = { 0 };

	add(&journal.pending, "mlx5_core", 1, SWAP_DRIVER, NULL);
	assert_int_equal(journal_write(folder->fd, &journal, &error), 0);
	assert_int_equal(strv_push(&plan.load, "mlx5_core"), 0);
	begin(folder, &plan);
	read_journal(folder, &journal);
	expect_going(&journal.own, "mlx5_core");
}

static void a_damaged_journal_keeps_no_start_from_going_on(void **state)
{
	const struct folder *folder = *state;
	struct nic nic = { .role = { .root_fd = folder->fd } };
	_cleanup_(swap_plan_free) struct swap_plan plan = { 0 };
	_cleanup_journal_ struct journal journal = { 0 };
	struct error error = { 0 };

	folder_write_text(folder, JOURNAL_PATH, "go name=ib_core\n");
	assert_int_equal(journal_read(folder->fd, &journal, &error), -EBADMSG);
	assert_false(journal_is_pending(folder->fd));
	add(&plan, "mlx5_core", 1, SWAP_DRIVER, NULL);
	begin(folder, &plan);
	read_journal(folder, &journal);
	expect_going(&journal.pending, "mlx5_core");
	folder_write_text(folder, JOURNAL_PATH, "go name=ib_core\n");
	log_prepare(&nic.role.log, folder->fd, "nic", NIC_STATE_FOLDER);
	nic_open_journal(&nic);
	assert_false(fs_exists(folder->fd, JOURNAL_PATH));
	/* For a person to look at. */
	assert_true(fs_exists(folder->fd, JOURNAL_PATH ".damaged"));
}

/* An OFED without the peer-memory interface has no fingerprint. */
static void what_stays_loaded_is_seen_by_the_journal_and_the_kernel(void **state)
{
	const struct folder *folder = *state;
	struct nic nic = { .role = { .root_fd = folder->fd } };
	struct action action = { .role = &nic.role };
	_cleanup_journal_ struct journal journal = { 0 };
	struct error error;

	assert_int_equal(nic_report_outcome(&action), 0);
	assert_null(nic.role.left_so);
	assert_int_equal(strv_push(&journal.own.load, "mlxfw"), 0);
	assert_int_equal(strv_push(&journal.own.load, "mlx5_core"), 0);
	assert_int_equal(strv_push(&nic.role.driver_modules, "mlx5_core"), 0);
	assert_int_equal(journal_write(folder->fd, &journal, &error), 0);
	/* One of the kernel's own that came along is no OFED. */
	folder_module(folder, "mlxfw", "0\n", NULL);
	assert_int_equal(nic_report_outcome(&action), 0);
	assert_null(nic.role.left_so);
	folder_module(folder, "mlx5_core", "0\n", NULL);
	assert_int_equal(nic_report_outcome(&action), 0);
	assert_contains(nic.role.left_so ? nic.role.left_so : "", "OFED stays loaded");
	strv_free(&nic.role.driver_modules);
}

static void every_phase_is_read_as_it_was_written(void **state)
{
	const struct folder *folder = *state;
	struct error error = { 0 };

	for (enum phase phase = PHASE_UNLOADING; phase < PHASES; phase++) {
		_cleanup_free_ char *text = NULL;
		char line[64];

		assert_int_equal(journal_enter(folder->fd, phase, NULL, &error), 0);
		text = folder_read_text(folder, JOURNAL_PATH);
		(void) snprintf(line, sizeof(line), "phase name=%s\n", phases[phase]);
		assert_contains(text, line);
		assert_int_equal(journal_phase(folder->fd), phase);
		assert_int_equal(journal_is_pending(folder->fd), phase != PHASE_COMMITTED);
	}
	/* One of a later Slipway is pending: it is recovered from the first on. */
	folder_write_text(folder, JOURNAL_PATH, "slipway-swap 1\nphase name=dancing\nend\n");
	assert_int_equal(journal_phase(folder->fd), PHASE_UNLOADING);
}

/* This holds for a start that goes on in the same phase, too; each module is listed once. */
static void what_an_action_inserts_besides_is_known_before_it(void **state)
{
	const struct folder *folder = *state;
	_cleanup_journal_ struct journal journal = { .phase = PHASE_LOADING };
	_cleanup_strv_ struct strv coming = { 0 };
	struct error error = { 0 };

	assert_int_equal(strv_push(&journal.pending.load, "mlx5_core"), 0);
	assert_int_equal(strv_push(&journal.own.load, "mlx5_core"), 0);
	assert_int_equal(journal_write(folder->fd, &journal, &error), 0);
	assert_int_equal(strv_split(&coming, "mlx5_core fwctl", " "), 0);
	assert_int_equal(journal_enter(folder->fd, PHASE_DEPENDENTS, &coming, &error), 0);
	read_journal(folder, &journal);
	assert_int_equal(journal.phase, PHASE_DEPENDENTS);
	expect_list(&journal.pending.load, "mlx5_core fwctl");
	expect_list(&journal.own.load, "mlx5_core fwctl");
	assert_int_equal(strv_push(&coming, "mlx5_fwctl"), 0);
	assert_int_equal(journal_enter(folder->fd, PHASE_DEPENDENTS, &coming, &error), 0);
	assert_int_equal(journal_enter(folder->fd, PHASE_DEPENDENTS, NULL, &error), 0);
	read_journal(folder, &journal);
	expect_list(&journal.pending.load, "mlx5_core fwctl mlx5_fwctl");
	expect_list(&journal.own.load, "mlx5_core fwctl mlx5_fwctl");
}

static void lists_and_the_networks_state_are_beside_the_phase(void **state)
{
	const struct folder *folder = *state;
	_cleanup_journal_ struct journal journal = { 0 };
	_cleanup_strv_ struct strv lines = { 0 };
	struct error error = { 0 };

	assert_int_equal(journal_enter(folder->fd, PHASE_RESTORING, NULL, &error), 0);
	assert_int_equal(strv_push(&lines, "ens1f0: mtu 9000%"), 0);
	assert_int_equal(journal_set_list(folder->fd, JOURNAL_UNRESTORED, &lines, &error), 0);
	assert_int_equal(journal_set_network(folder->fd, "a b/network.journal", "1 2", &error), 0);
	read_journal(folder, &journal);
	assert_int_equal(journal.phase, PHASE_RESTORING);
	assert_string_equal(journal.network, "a b/network.journal");
	assert_string_equal(journal.network_done, "1 2");
	assert_string_equal(journal.lists[JOURNAL_UNRESTORED].items[0], "ens1f0: mtu 9000%");
	assert_int_equal(journal_set_list(folder->fd, JOURNAL_UNRESTORED, NULL, &error), 0);
	assert_int_equal(journal_set_network(folder->fd, NULL, NULL, &error), 0);
	journal_commit(folder->fd);
	journal_end(folder->fd, false);
	assert_false(fs_exists(folder->fd, JOURNAL_PATH));
}

/* The table of recover.c. */
static void a_start_goes_on_by_the_phase_and_by_what_is_loaded(void **state)
{
	static const struct {
		enum phase phase;
		bool same, is_saved;
		bool is_swapped, dependents_are_done, is_committed_early;
	} rows[] = {
		{ PHASE_NONE, true, false, true, true, false },
		{ PHASE_NONE, true, true, true, true, false },
		{ PHASE_NONE, false, false, false, false, false },
		{ PHASE_UNLOADING, true, true, true, false, false },
		{ PHASE_UNLOADING, true, false, true, true, true },
		{ PHASE_UNLOADING, false, true, false, false, false },
		{ PHASE_LOADING, true, true, true, false, false },
		{ PHASE_LOADING, true, false, true, true, true },
		{ PHASE_LOADING, false, true, false, false, false },
		{ PHASE_DEPENDENTS, true, true, true, false, false },
		{ PHASE_DEPENDENTS, true, false, true, true, true },
		{ PHASE_DEPENDENTS, false, true, false, false, false },
		{ PHASE_RESTORING, true, true, true, true, false },
		{ PHASE_RESTORING, true, false, true, true, true },
		{ PHASE_RESTORING, false, true, false, false, false },
		{ PHASE_COMMITTED, true, false, true, true, false },
		{ PHASE_COMMITTED, true, true, true, true, false },
		{ PHASE_COMMITTED, false, false, false, false, false },
		{ PHASE_ROLLBACK, true, true, true, false, false },
		{ PHASE_ROLLBACK, true, false, true, true, true },
		{ PHASE_ROLLBACK, false, true, false, false, false },
	};
	static char inventory[] = "inventory/.slipway";
	const struct folder *folder = *state;
	struct nic nic = { .role = { .root_fd = folder->fd },
		.inputs = { .journal_folder = inventory } };
	struct error error = { 0 };

	folder_subfolder(folder, "inventory/.slipway");
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		assert_int_equal(journal_enter(folder->fd, rows[i].phase, NULL, &error), 0);
		nic.swap.same = rows[i].same;
		if (rows[i].is_saved)
			folder_write_text(folder, "inventory/.slipway/network.journal", "state");
		assert_int_equal(nic_is_swapped(&nic), rows[i].is_swapped);
		assert_int_equal(nic_dependents_are_done(&nic), rows[i].dependents_are_done);
		assert_int_equal(nic_is_all_but_committed(&nic), rows[i].is_committed_early);
		(void) unlinkat(folder->fd, "inventory/.slipway/network.journal", 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_a_killed_container_had_pending_stays_pending),
		folder_test(the_nodes_own_is_what_the_hosts_tree_has),
		folder_test(a_swap_of_which_nothing_goes_is_pending_too),
		folder_test(the_second_swap_of_a_boot_knows_the_nodes_own_still),
		folder_test(what_is_pending_shows_what_the_node_had),
		folder_test(a_damaged_journal_keeps_no_start_from_going_on),
		folder_test(what_stays_loaded_is_seen_by_the_journal_and_the_kernel),
		folder_test(every_phase_is_read_as_it_was_written),
		folder_test(what_an_action_inserts_besides_is_known_before_it),
		folder_test(lists_and_the_networks_state_are_beside_the_phase),
		folder_test(a_start_goes_on_by_the_phase_and_by_what_is_loaded),
	};

	return cmocka_run_group_tests_name("nic_journal", tests, NULL, NULL);
}
