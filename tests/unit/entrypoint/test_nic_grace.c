/* SPDX-License-Identifier: Apache-2.0 */
/* The NIC role's way out fits into the time that the operator gives its pod. */
#include "tests/unit/support.h"

#include "entrypoint/contract.h"
#include "entrypoint/nic/nic_internal.h"

/* For the undos that are a few system calls, and for ending the workers that hang. */
#define SPARE_MS (15 * 1000)

static void the_shares_of_all_undos_fit_into_the_grace(void **state)
{
	size_t count;
	const struct step *steps = nic_plan(&count);
	uint32_t sum_ms = 0;

	(void) state;
	for (size_t i = 0; i < count; i++) {
		if (!steps[i].undo || steps[i].undo_kind == STEP_DIRECT) {
			assert_int_equal(steps[i].undo_share_ms, 0);
			continue;
		}
		if (!steps[i].undo_share_ms || steps[i].undo_share_ms > steps[i].undo_deadline_ms)
			fail_msg("%s: its undo's share of the grace", steps[i].name);
		sum_ms += (steps[i].undo_first ? 2 : 1) * steps[i].undo_share_ms;
	}
	assert_true(sum_ms > 0);
	assert_true(sum_ms + SPARE_MS <= CONTRACT_NIC_GRACE_MS);
}

static const struct step *step_of(const char *name)
{
	size_t count;
	const struct step *steps = nic_plan(&count);

	for (size_t i = 0; i < count; i++)
		if (strcmp(steps[i].name, name) == 0)
			return &steps[i];
	fail_msg("there is no step %s", name);
	return NULL;
}

/* The modules that were there before. */
static void the_rollback_has_the_most_and_is_never_cut(void **state)
{
	size_t count;
	const struct step *steps = nic_plan(&count);
	const struct step *back = step_of("swap-out");

	(void) state;
	assert_true(back->undo_is_whole);
	assert_true(step_of("recover")->undo_is_whole);
	assert_non_null(step_of("recover")->undo_first);
	for (size_t i = 0; i < count; i++)
		assert_true(steps[i].undo_share_ms <= back->undo_share_ms);
}

/* Also by a start that ends before it comes to its own host files, after the rollback. */
static void every_start_undoes_the_host_files(void **state)
{
	const struct step *clear = step_of("clear-host-files");

	(void) state;
	assert_true(clear->undo == nic_host_files_undo);
	assert_true(clear < step_of("recover"));
	assert_true(step_of("clear-stale")->undo_first == nic_report_outcome);
	assert_true(step_of("clear-stale") < clear);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_shares_of_all_undos_fit_into_the_grace),
		cmocka_unit_test(the_rollback_has_the_most_and_is_never_cut),
		cmocka_unit_test(every_start_undoes_the_host_files),
	};

	return cmocka_run_group_tests_name("nic_grace", tests, NULL, NULL);
}
