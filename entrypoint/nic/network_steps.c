/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/nic/network_steps.h"

#include <string.h>

#include "entrypoint/network/network.h"
#include "entrypoint/nic/debt.h"
#include "entrypoint/nic/nic.h"
#include "entrypoint/nic/swap.h"
#include "entrypoint/role_list.h"

/* How network_failure() begins what it tells (network/tell.c). */
#define FAILURE "could not be restored: "

/* A card with 512 VFs that does not come back is one fault, not 512. */
#define UNRESTORED_MAX 200

/* One saving or restoring, and what of it is told. */
struct call {
	struct action *action;
	char *journal;
	struct strv modules;
	struct strv unrestored;
	struct network network;
};

static void hear(void *context, const char *text)
{
	struct call *call = context;

	worker_tell(call->action->worker, WORKER_NOTE, 0, "%s", text);
	if (strncmp(text, FAILURE, strlen(FAILURE)) == 0 && call->unrestored.count < UNRESTORED_MAX)
		(void) !strv_push(&call->unrestored, text + strlen(FAILURE));
}

static void call_done(struct call *call)
{
	free(call->journal);
	strv_free(&call->modules);
	strv_free(&call->unrestored);
}

static char *journal_path(const struct nic *nic)
{
	char *path;

	return asprintf(&path, "%s/network.journal", nic->inputs.journal_folder) < 0 ? NULL : path;
}

static bool has_journal(const struct nic *nic)
{
	_cleanup_free_ char *path = journal_path(nic);

	return path && network_is_saved(nic->role.root_fd, path);
}

/* @also_ours: what is loaded now is among those that go. */
static int begin(struct call *call, struct action *action, bool also_ours)
{
	const struct nic *nic = nic_of(action->role);
	int r;

	*call = (struct call){ .action = action, .journal = journal_path(nic) };
	r = call->journal ? swap_plan_going(&nic->swap, &call->modules) : -ENOMEM;
	for (size_t i = 0; r == 0 && also_ours && i < nic->swap.load.count; i++)
		r = strv_push_unique(&call->modules, nic->swap.load.items[i]);
	call->network = (struct network){
		.root_fd = nic->role.root_fd,
		.journal = call->journal,
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

	return r < 0 ? r
		     : action_reason(action, REASON_NETWORK_INCOMPLETE,
			       network_save(&call.network, &action->error));
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
	if (r < 0)
		return action_reason(action, REASON_NETWORK_INCOMPLETE, r);
	keep_unrestored(&call);
	worker_tell(action->worker, WORKER_NOTE, 0,
		"restored: %u device(s) with %u VF(s), %u interface(s); %u thing(s) could not be",
		result.devices, result.vfs, result.links, result.failures);
	return 0;
}

bool nic_network_stays(const void *role)
{
	return nic_is_same(role) || !nic_of_const(role)->swap.go_count;
}

int nic_network_save(struct action *action)
{
	role_list_remove(action->role, NIC_UNRESTORED_LIST);
	return save(action, false);
}

int nic_network_return(struct action *action)
{
	return has_journal(nic_of(action->role)) ? restore(action) : 0;
}

bool nic_network_is_whole(const void *role)
{
	return !has_journal(nic_of_const(role));
}

int nic_network_restore(struct action *action)
{
	return restore(action);
}

/* Where nothing was before us, nothing comes that could be given anything. */
static bool others_come(const struct nic *nic)
{
	const struct role *role = &nic->role;
	_cleanup_(swap_plan_free) struct swap_plan inbox = { .same = false };
	struct error ignored;

	if (swap_is_owed(role))
		return nic->swap.go_count != 0;
	return !role->plan.start_failed && role->options.restore_inbox &&
	       inbox_read(role, &inbox, &ignored) == 0 && inbox.go_count;
}

int nic_network_save_again(struct action *action)
{
	return others_come(nic_of(action->role)) ? save(action, true) : 0;
}
