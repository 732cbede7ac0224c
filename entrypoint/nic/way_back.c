/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/nic/way_back.h"

#include "entrypoint/nic/debt.h"
#include "entrypoint/nic/host_files.h"
#include "entrypoint/nic/network_journal.h"
#include "entrypoint/nic/network_steps.h"
#include "entrypoint/nic/nic.h"
#include "entrypoint/nic/swap.h"
#include "entrypoint/rdma/fingerprint.h"

bool nic_is_unfinished(const void *role)
{
	return swap_is_owed(role) || !nic_network_is_whole(role);
}

int nic_tell_unfinished(struct action *action)
{
	const struct nic *nic = nic_of(action->role);

	worker_report(action->worker, WORKER_NOTE, 0, "%s",
		!swap_is_owed(&nic->role) && nic_journal_is_for_next_start(nic)
			? "devices or interfaces were not back when an earlier start was done: "
			  "this one tries them once more"
			: "an earlier life of this container was killed in the middle of a swap: "
			  "this one ends it, or goes back");
	return 0;
}

/* The plan of a start that came to none is that of what is owed; in this worker only. */
static void plan_owed(struct nic *nic)
{
	struct error ignored;

	if (!nic->swap.load.count)
		(void) debt_read(&nic->role, &nic->swap, &ignored);
}

int nic_unfinished_out(struct action *action)
{
	int r;

	if (!swap_is_owed(action->role))
		return 0;
	plan_owed(nic_of(action->role));
	r = nic_network_save_owed(action);
	if (r < 0)
		return r;
	(void) nic_block_again(action);
	(void) fingerprint_remove(action);
	return swap_in_undo(action);
}

int nic_unfinished_back(struct action *action)
{
	const struct role *role = action->role;
	bool is_owed = swap_is_owed(role);
	struct action network = *action;
	int r = 0;
	int n;

	plan_owed(nic_of(action->role));
	if (is_owed) {
		r = swap_back(action);
		(void) nic_unblock(action);
	}
	/* Nobody knows when there will be a next start, or one that comes so far. */
	n = is_owed || role->plan.start_failed ? nic_network_give_back(&network)
					       : nic_network_return(&network);
	if (r < 0 || n == 0)
		return r;
	*action = network;
	return n;
}

bool nic_is_all_but_settled(const void *role)
{
	return nic_is_same(role) && swap_is_owed(role) && nic_network_is_whole(role);
}

int nic_settle_earlier(struct action *action)
{
	int r = swap_others(action);

	if (r == 0)
		swap_settle(action->role);
	return r;
}
