/* SPDX-License-Identifier: Apache-2.0 */
/* The way there: old modules out, ours in, what leant on the old ones in again. */
#include "entrypoint/nic/swap.h"

#include <string.h>

#include "common/fs.h"
#include "entrypoint/engine/kill_point.h"
#include "entrypoint/role/unload.h"
#include "entrypoint/nic/debt.h"
#include "entrypoint/nic/refusals.h"
#include "entrypoint/nic/swapper.h"
#include "entrypoint/rdma/release.h"
#include "entrypoint/role/role_parameters.h"
#include "module/sysmodule.h"

/* How often modules that udev brought in the middle are taken out again. */
#define RIVALS_MAX 3

bool swap_is_owed(const struct role *role)
{
	return fs_exists(role->root_fd, NIC_SWAP_PATH);
}

bool swap_stays(const struct role *role)
{
	return !swap_is_owed(role) && (role->plan.start_failed || !role->options.restore_inbox);
}

/* Whether the way back will be the very one is told while there still is a choice. */
static int tell_not_at_hand(struct swapper *swapper, const struct swap_plan *plan)
{
	_cleanup_strv_ struct strv missing = { 0 };
	_cleanup_free_ char *names = NULL;
	int r = 0;

	for (size_t i = 0; r == 0 && i < plan->go_count; i++) {
		_cleanup_free_ char *path = NULL;
		const struct swap_module *module = &plan->go[i];

		if (module->part == SWAP_PEERMEM)
			continue;
		r = at_hand_find(&swapper->at_hand, module->name, module->build_id, &path);
		if (r == -ENOENT)
			r = strv_pushf(&missing, "%s (%.12s)", module->name, module->build_id);
	}
	if (r < 0 || !missing.count)
		return r;
	names = strv_join(&missing, ", ");
	if (!names)
		return -ENOMEM;
	swapper_tell(swapper,
		"the files of these loaded modules are nowhere at hand (by build id): %.600s: should "
		"the swap fail, the host's own modules come instead",
		names);
	return 0;
}

/* Those of the plan that are there, without nvidia_peermem, which is asked to go. */
static int list_going(const struct swapper *swapper, struct strv *going)
{
	const struct swap_plan *plan = &swapper->nic->swap;
	int r = 0;

	for (size_t i = 0; r == 0 && i < plan->go_count; i++)
		if (plan->go[i].part != SWAP_PEERMEM &&
			sysmodule_exists(swapper->role->root_fd, plan->go[i].name))
			r = strv_push(going, plan->go[i].name);
	return r;
}

static int take_out(struct swapper *swapper)
{
	struct action *action = swapper->action;
	_cleanup_strv_ struct strv removed = { 0 };
	_cleanup_strv_ struct strv going = { 0 };
	const struct unload unload = {
		.root_fd = swapper->role->root_fd,
		.modules = &going,
		.device_prefixes = swapper->role->devices,
	};
	int r = list_going(swapper, &going);

	if (r < 0)
		return action_fail(action, REASON_INTERNAL, r, "out of memory");
	if (!going.count)
		return 0;
	/* At the last moment: from here on GPUs have no direct way to the network. */
	r = peermem_make_way(action, &going);
	if (r < 0)
		return r;
	kill_point("swap:peermem");
	r = unload_modules(&unload, action->worker, &removed, &action->error);
	return action_reason(action, r == -EBUSY ? REASON_MODULE_IN_USE : REASON_UNLOAD_FAILED, r);
}

static int prepare_out(struct swapper *swapper)
{
	struct action *action = swapper->action;
	const struct swap_plan *plan = &swapper->nic->swap;
	int r = tell_not_at_hand(swapper, plan);

	if (r < 0)
		return action_fail(action, REASON_INTERNAL, r, "out of memory");
	r = debt_enter(swapper->role, plan, &swapper->at_hand, &action->error);
	return action_reason(action, REASON_MOUNT_FAILED, r);
}

int swap_out(struct action *action)
{
	_cleanup_(swapper_close) struct swapper swapper = { 0 };
	int r = swapper_open(&swapper, action);

	if (r < 0 || swapper.nic->swap.same)
		return r;
	/* Since the comparison the proof and the save took their time. */
	r = refusals_check(action, &swapper.nic->swap);
	if (r == 0)
		r = prepare_out(&swapper);
	return r < 0 ? r : take_out(&swapper);
}

/* Modules that shall be the image's and are there in another build. */
static int list_rivals(struct swapper *swapper, struct strv *rivals)
{
	const struct role *role = swapper->role;
	const struct strv *load = &swapper->nic->swap.load;
	int r = 0;

	for (size_t i = 0; r == 0 && i < load->count; i++)
		if (strv_contains(&role->driver_modules, load->items[i]) &&
			sysmodule_exists(role->root_fd, load->items[i]) &&
			!sysmodule_is_built_in(role->root_fd, load->items[i]) &&
			!swapper_is_ours(swapper, load->items[i]))
			r = strv_push(rivals, load->items[i]);
	return r;
}

static int load_ours(struct swapper *swapper)
{
	struct action *action = swapper->action;
	const struct strv *load = &swapper->nic->swap.load;
	struct loader *own = swapper_own(swapper, &action->error);
	int r = own ? 0 : -ENOENT;

	for (size_t i = 0; r == 0 && i < load->count; i++)
		r = loader_load(
			own, action->worker, load->items[i], &action->reason, &action->error);
	return r;
}

/* @code: how our own load ended. 1: they are gone, try again. */
static int take_rivals_out(struct swapper *swapper, const struct strv *rivals, int attempt)
{
	struct action *action = swapper->action;
	_cleanup_strv_ struct strv removed = { 0 };
	_cleanup_free_ char *names = strv_join(rivals, ", ");
	int r;

	if (!names)
		return action_fail(action, REASON_INTERNAL, -ENOMEM, "out of memory");
	if (attempt == RIVALS_MAX)
		return action_fail(action, REASON_LOAD_FAILED, -EEXIST,
			"something on the host (udev?) loads its own %.300s again and again while "
			"the image's modules come: keep it from that with a blacklist line in its "
			"modprobe.d",
			names);
	swapper_tell(swapper,
		"the host loaded its own %.300s in the middle of the swap: taken out again", names);
	r = swapper_remove(swapper, rivals, &removed);
	if (swapper->own)
		loader_forget(swapper->own, &removed); /* ours that held them went, too */
	return r < 0 ? r : 1;
}

/* 1: once more. */
static int try_in(struct swapper *swapper, int attempt)
{
	struct action *action = swapper->action;
	_cleanup_strv_ struct strv rivals = { 0 };
	int loaded = load_ours(swapper);
	int r = list_rivals(swapper, &rivals);

	if (r < 0)
		return action_fail(action, REASON_INTERNAL, r, "out of memory");
	if (rivals.count)
		return take_rivals_out(swapper, &rivals, attempt);
	return action_reason(action, REASON_LOAD_FAILED, loaded);
}

static int bring_ours(struct swapper *swapper)
{
	struct action *action = swapper->action;
	struct loader *own = swapper_own(swapper, &action->error);
	int r = own ? role_parameters_remember(swapper->role, own, &action->error) : -ENOENT;

	if (r < 0)
		return action_reason(action, REASON_MOUNT_FAILED, r);
	for (int attempt = 0; (r = try_in(swapper, attempt)) > 0; attempt++)
		kill_point("swap:rivals");
	return r;
}

int swap_in(struct action *action)
{
	_cleanup_(swapper_close) struct swapper swapper = { 0 };
	int r = swapper_open(&swapper, action);

	return r < 0 || swapper.nic->swap.same ? r : bring_ours(&swapper);
}
