/* SPDX-License-Identifier: Apache-2.0 */
/* Ours go: before what was there comes back. */
#include "entrypoint/nic/swap_undo.h"

#include <string.h>

#include "entrypoint/engine/kill_point.h"
#include "entrypoint/role/unload.h"
#include "entrypoint/nic/debt.h"
#include "entrypoint/nic/network_steps.h"
#include "entrypoint/nic/swap.h"
#include "entrypoint/nic/swap_make.h"
#include "entrypoint/rdma/release.h"
#include "module/sysmodule.h"

bool undo_is_of_set(struct swapper *swapper, const char *name)
{
	char build_id[BUILD_ID_HEX_SIZE];
	struct error ignored;
	struct loader *own;

	if (strv_contains(&swapper->role->driver_modules, name))
		return true;
	/* What else the image has is of the kernel; what it lacks is of an image before it. */
	own = swapper_own(swapper, &ignored);
	if (own && swapper_tree_has(own, name))
		return false;
	sysmodule_build_id(swapper->role->root_fd, name, build_id);
	return !at_hand_on_host(&swapper->at_hand, name, build_id);
}

bool undo_is_owed_build(
	const struct swapper *swapper, const struct swap_plan *debt, const char *name)
{
	char loaded[BUILD_ID_HEX_SIZE];

	sysmodule_build_id(swapper->role->root_fd, name, loaded);
	for (size_t i = 0; *loaded && i < debt->go_count; i++)
		if (strcmp(debt->go[i].name, name) == 0)
			return strcmp(debt->go[i].build_id, loaded) == 0;
	return false;
}

int undo_list_ours(struct swapper *swapper, const struct swap_plan *debt, struct strv *ours)
{
	int root_fd = swapper->role->root_fd;
	int r = 0;

	for (size_t i = 0; r == 0 && i < debt->load.count; i++) {
		const char *name = debt->load.items[i];

		if (sysmodule_exists(root_fd, name) && !sysmodule_is_built_in(root_fd, name) &&
			(swapper_is_ours(swapper, name) ||
				!undo_is_owed_build(swapper, debt, name)))
			r = strv_push(ours, name);
	}
	return r;
}

/* What leans on ours by now goes with them, and is owed too. */
static int owe_holders(
	struct swapper *swapper, struct swap_plan *debt, const struct swap_plan *removal)
{
	struct action *action = swapper->action;
	const struct strv nothing = { 0 };
	size_t before = debt->go_count;
	int r = debt_merge(debt, removal, &nothing);

	if (r < 0)
		return action_fail(action, REASON_INTERNAL, r, "out of memory");
	if (debt->go_count == before)
		return 0;
	r = debt_write(swapper->role, debt, &action->error);
	return action_reason(action, REASON_MOUNT_FAILED, r);
}

/* @set: of the image's; all or none, as far as it can be known before. */
static int take_set_out(struct swapper *swapper, struct swap_plan *debt, const struct strv *set,
	struct strv *removed)
{
	struct action *action = swapper->action;
	_cleanup_(swap_plan_free) struct swap_plan removal = { 0 };
	_cleanup_strv_ struct strv going = { 0 };
	int r = swap_plan_removal(action, set, &removal);

	if (r == 0)
		r = owe_holders(swapper, debt, &removal);
	for (size_t i = 0; r == 0 && i < removal.go_count; i++)
		if (removal.go[i].part != SWAP_PEERMEM)
			r = strv_push(&going, removal.go[i].name);
	if (r == 0)
		r = peermem_make_way(action, &going);
	kill_point("swap:undo:peermem");
	return r < 0 ? r : swapper_remove(swapper, &going, removed);
}

/* One by one, for someone else may use one by now: that one then stays. */
static void take_along_out(struct swapper *swapper, const struct strv *along)
{
	for (size_t i = along->count; i-- > 0;) {
		const struct strv one = { .items = &along->items[i], .count = 1 };
		const struct unload unload = { .root_fd = swapper->role->root_fd, .modules = &one };
		_cleanup_strv_ struct strv removed = { 0 };
		struct error ignored;

		if (sysmodule_references(swapper->role->root_fd, along->items[i]) == 0)
			(void) unload_modules(&unload, swapper->action->worker, &removed, &ignored);
	}
}

static int take_ours_out(struct swapper *swapper, struct strv *removed)
{
	struct action *action = swapper->action;
	_cleanup_(swap_plan_free) struct swap_plan debt = { 0 };
	_cleanup_strv_ struct strv along = { 0 };
	_cleanup_strv_ struct strv ours = { 0 };
	_cleanup_strv_ struct strv set = { 0 };
	int r = debt_read(swapper->role, &debt, &action->error);

	if (r < 0)
		return action_reason(action, REASON_INTERNAL, r);
	r = undo_list_ours(swapper, &debt, &ours);
	for (size_t i = 0; r == 0 && i < ours.count; i++)
		r = strv_push(
			undo_is_of_set(swapper, ours.items[i]) ? &set : &along, ours.items[i]);
	if (r < 0)
		return action_fail(action, REASON_INTERNAL, r, "out of memory");
	r = take_set_out(swapper, &debt, &set, removed);
	if (r == 0)
		take_along_out(swapper, &along);
	return r;
}

static int restore(struct swapper *swapper)
{
	_cleanup_strv_ struct strv removed = { 0 };
	int r = restore_prepare(swapper);

	if (r <= 0)
		return r;
	kill_point("swap:restore:debt");
	r = take_ours_out(swapper, &removed);
	/* Nothing left: then nothing is owed, and ours are the node's driver. */
	if (r < 0 && !removed.count) {
		debt_forget(swapper->role);
		peermem_allow(swapper->role->root_fd);
	}
	return r;
}

int swap_in_undo(struct action *action)
{
	_cleanup_(swapper_close) struct swapper swapper = { 0 };
	_cleanup_strv_ struct strv removed = { 0 };
	const struct role *role = action->role;
	int r = swapper_open(&swapper, action);

	if (r < 0)
		return r;
	if (nic_network_is_at_risk(role)) {
		swapper_tell(&swapper, "the network's state is not saved: OFED stays loaded");
		return 0;
	}
	if (swap_is_owed(role))
		return take_ours_out(&swapper, &removed);
	if (role->plan.start_failed || !role->options.restore_inbox)
		return 0;
	return restore(&swapper);
}
