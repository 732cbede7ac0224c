/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/nic/network_steps.h"

#include <string.h>

#include "entrypoint/netstate/network.h"
#include "entrypoint/nic/debt.h"
#include "entrypoint/nic/network_journal.h"
#include "entrypoint/nic/nic.h"
#include "entrypoint/nic/swap.h"
#include "entrypoint/role/role_list.h"

/* How network_failure() begins what it tells (network/tell.c). */
#define FAILURE "could not be restored: "

/* A card with 512 VFs that does not come back is one fault, not 512. */
#define UNRESTORED_MAX 200

/* One saving or restoring, and what of it is told. */
struct call {
	struct action *action;
	char *log;
	struct strv modules;
	struct strv unrestored;
	struct network network;
};

static void hear(void *context, const char *text)
{
	struct call *call = context;

	worker_report(call->action->worker, WORKER_NOTE, 0, "%s", text);
	if (strncmp(text, FAILURE, strlen(FAILURE)) == 0 && call->unrestored.count < UNRESTORED_MAX)
		(void) !strv_push(&call->unrestored, text + strlen(FAILURE));
}

static void call_done(struct call *call)
{
	free(call->log);
	strv_free(&call->modules);
	strv_free(&call->unrestored);
}

static int push_loads(struct strv *modules, const struct strv *load)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < load->count; i++)
		r = strv_push_unique(modules, load->items[i]);
	return r;
}

/* What an earlier life owes names the drivers that go and come, also where the plan says "same". */
static int push_owed(struct strv *modules, const struct role *role)
{
	_cleanup_(swap_plan_free) struct swap_plan debt = { .same = false };
	struct error ignored;
	int r = debt_read(role, &debt, &ignored);

	if (r < 0)
		return r == -ENOMEM ? r : 0;
	for (size_t i = 0; r == 0 && i < debt.go_count; i++)
		r = strv_push_unique(modules, debt.go[i].name);
	return r < 0 ? r : push_loads(modules, &debt.load);
}

/* @also_ours: what is loaded now is among those that go. */
static int begin(struct call *call, struct action *action, bool also_ours)
{
	const struct nic *nic = nic_of(action->role);
	int r;

	*call = (struct call){ .action = action, .log = nic_journal_path(nic) };
	r = call->log ? swap_plan_going(&nic->swap, &call->modules) : -ENOMEM;
	if (r == 0 && also_ours)
		r = push_loads(&call->modules, &nic->swap.load);
	if (r == 0 && also_ours)
		r = push_owed(&call->modules, &nic->role);
	call->network = (struct network){
		.root_fd = nic->role.root_fd,
		.log = call->log,
		.modules = &call->modules,
		.bind_ms = nic->inputs.bind_ms,
		.tell = hear,
		.context = call,
	};
	return r < 0 ? action_fail(action, REASON_INTERNAL, r, "out of memory") : 0;
}

static int save(struct action *action, bool also_ours)
{
	_cleanup_(call_done) struct call call;
	int r = begin(&call, action, also_ours);

	if (r < 0)
		return r;
	r = nic_journal_begin(nic_of(action->role), call.log, &action->error);
	if (r == 0)
		r = network_save(&call.network, &action->error);
	return action_reason(action, REASON_NETWORK_INCOMPLETE, r);
}

static void keep_unrestored(const struct call *call)
{
	const struct role *role = call->action->role;
	struct error ignored;

	if (call->unrestored.count)
		(void) role_list_write(role, NIC_UNRESTORED_LIST, &call->unrestored, &ignored);
	else
		role_list_remove(role, NIC_UNRESTORED_LIST);
}

/*
 * No start will ever read it: one that fails for it would fail again and again. Where the disk is
 * read only it even stays in its place.
 */
static int give_up_damaged(struct call *call)
{
	struct action *action = call->action;

	worker_report(action->worker, WORKER_NOTE, 0, FAILURE "%s", action->error.text);
	if (strv_push(&call->unrestored, action->error.text) < 0)
		return action_fail(action, REASON_INTERNAL, -ENOMEM, "out of memory");
	keep_unrestored(call);
	return action_reason(action, REASON_NETWORK_INCOMPLETE,
		nic_journal_end(nic_of(action->role), call->log, &action->error));
}

static int restore(struct action *action)
{
	struct network_result result = { 0 };
	_cleanup_(call_done) struct call call;
	int r = begin(&call, action, true);

	if (r < 0)
		return r;
	r = network_restore(&call.network, &result, &action->error);
	if (r == -ENOENT)
		return 0;
	if (r == -EBADMSG)
		return give_up_damaged(&call);
	if (r < 0)
		return action_reason(action, REASON_NETWORK_INCOMPLETE, r);
	keep_unrestored(&call);
	network_forget(&call.network, &result);
	if (!result.is_owed)
		r = nic_journal_end(nic_of(action->role), call.log, &action->error);
	worker_report(action->worker, WORKER_NOTE, 0,
		"restored: %u device(s) with %u VF(s), %u interface(s); %u thing(s) could not be",
		result.devices, result.vfs, result.links, result.failures);
	return action_reason(action, REASON_NETWORK_INCOMPLETE, r);
}

bool nic_network_stays(const void *role)
{
	return nic_is_same(role) || !nic_of_const(role)->swap.go_count;
}

int nic_network_save(struct action *action)
{
	int r = save(action, false);

	if (r == 0)
		role_list_remove(action->role, NIC_UNRESTORED_LIST);
	return r;
}

int nic_network_give_back(struct action *action)
{
	const struct nic *nic = nic_of(action->role);
	_cleanup_free_ char *log = nic_journal_path(nic);

	if (!nic_journal_is_there(nic))
		return 0;
	if (!log || network_can_restore(nic->role.root_fd, log))
		return restore(action);
	worker_report(action->worker, WORKER_NOTE, 0,
		"none of the devices has a driver: the network's state is kept for the next start");
	return 0;
}

int nic_network_return(struct action *action)
{
	return nic_journal_is_for_next_start(nic_of(action->role)) ? 0
								   : nic_network_give_back(action);
}

bool nic_network_is_whole(const void *role)
{
	return !nic_journal_is_there(nic_of_const(role));
}

int nic_network_restore(struct action *action)
{
	return restore(action);
}

/* What is owed; one that nobody can read may owe anything. */
static bool others_are_owed(const struct role *role)
{
	_cleanup_(swap_plan_free) struct swap_plan debt = { .same = false };
	struct error ignored;

	return debt_read(role, &debt, &ignored) < 0 || debt.go_count;
}

/* What RESTORE brings: where nobody wrote it down it is guessed (swap_restore.c). */
static bool inbox_comes(const struct role *role)
{
	_cleanup_(swap_plan_free) struct swap_plan inbox = { .same = false };
	struct error ignored;
	int r = inbox_read(role, &inbox, &ignored);

	return r == -ENOENT || (r == 0 && inbox.go_count);
}

/* Where nothing was before us, nothing comes that could be given anything. */
static bool others_come(const struct role *role)
{
	if (swap_is_owed(role))
		return others_are_owed(role);
	return !role->plan.start_failed && role->options.restore_inbox && inbox_comes(role);
}

int nic_network_save_again(struct action *action)
{
	return others_come(action->role) ? save(action, true) : 0;
}

int nic_network_save_owed(struct action *action)
{
	const struct nic *nic = nic_of(action->role);

	return nic_journal_is_there(nic) ? 0 : nic_network_save_again(action);
}

bool nic_network_is_at_risk(const struct role *role)
{
	return role->plan.stop_failed && others_come(role) && nic_network_is_whole(role);
}
