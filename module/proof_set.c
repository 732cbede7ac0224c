/* SPDX-License-Identifier: Apache-2.0 */
#include "module/proof_set.h"

#include "module/proof_internal.h"

int proof_set_run(struct proof_set *set, struct error *error)
{
	for (size_t i = 0; i < set->member_count; i++) {
		struct proof_member *member = &set->members[i];

		if (member->module && proof_module(member->module, set->kernel, &member->proof) < 0)
			return error_set_errno(error, -ENOMEM, "proof");
	}
	return 0;
}

void proof_set_free(struct proof_set *set)
{
	for (size_t i = 0; i < set->member_count; i++)
		proof_free(&set->members[i].proof);
	strv_free(&set->order);
	proof_free(&set->findings);
}
