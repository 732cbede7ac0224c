/* SPDX-License-Identifier: Apache-2.0 */
#include "module/proof_set.h"

#include "module/proof_set_parts.h"

static int judge(struct set_work *work)
{
	static int (*const parts[])(struct set_work *) = {
		set_name_members,
		set_collect_exports,
		set_prove_members,
		set_sort,
		set_judge_duplicates,
		set_spread,
		set_judge_kernel,
		set_judge_facts,
		set_judge_options,
	};

	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		if (parts[i](work) < 0)
			return -ENOMEM;
	return 0;
}

static int list_order(struct set_work *work)
{
	struct proof_set *set = work->set;

	for (size_t i = 0; i < work->order_count; i++) {
		uint32_t member = work->order[i];

		if (set->members[member].proof.verdict != PROOF_WILL_NOT_LOAD &&
			!work->nodes[member].shadowed &&
			strv_push(&set->order, set->members[member].path) < 0)
			return -ENOMEM;
	}
	return 0;
}

static void count_verdicts(struct proof_set *set)
{
	set->loading = set->refused = set->unknown = 0;
	for (size_t i = 0; i < set->member_count; i++) {
		enum proof_verdict verdict = set->members[i].proof.verdict;

		set->loading += verdict == PROOF_WILL_LOAD;
		set->refused += verdict == PROOF_WILL_NOT_LOAD;
		set->unknown += verdict == PROOF_CANNOT_TELL;
	}
	proof_conclude(&set->findings);
	set->verdict = set->findings.verdict;
	if (set->refused)
		set->verdict = PROOF_WILL_NOT_LOAD;
	else if (set->unknown && set->verdict == PROOF_WILL_LOAD)
		set->verdict = PROOF_CANNOT_TELL;
}

int proof_set_run(struct proof_set *set, struct error *error)
{
	_cleanup_(set_work_done) struct set_work work = { .set = set };

	if (set->member_count >= SET_NONE)
		return error_set(error, -E2BIG, "%zu modules are more than a set may have",
			set->member_count);
	if (judge(&work) < 0 || list_order(&work) < 0)
		return error_set_errno(error, -ENOMEM, "%zu modules", set->member_count);
	count_verdicts(set);
	return 0;
}

void proof_set_free(struct proof_set *set)
{
	for (size_t i = 0; i < set->member_count; i++)
		proof_free(&set->members[i].proof);
	strv_free(&set->order);
	strv_free(&set->relied);
	proof_free(&set->findings);
}
