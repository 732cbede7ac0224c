/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RESTORE_DRIVER_ON_POD_TERMINATION: the node's own modules are proven while ours still run, and
 * become what is owed. Nothing of the node's modules is touched here.
 */
#include <string.h>

#include "entrypoint/contract.h"
#include "entrypoint/role/prove.h"
#include "entrypoint/nic/debt.h"
#include "entrypoint/nic/swap_make.h"
#include "entrypoint/nic/swap_undo.h"
#include "module/sysmodule.h"

struct restoring {
	struct swapper *swapper;
	struct swap_plan inbox;   /* what was there before, as it is known */
	struct swap_plan debt;    /* what will be owed */
	struct swap_plan removal; /* what goes for it */
};

static void restoring_done(struct restoring *restoring)
{
	swap_plan_free(&restoring->inbox);
	swap_plan_free(&restoring->debt);
	swap_plan_free(&restoring->removal);
}

/* Nobody wrote down what was there: the host's modules of the names of ours are it. */
static int guess_inbox(struct restoring *restoring)
{
	const struct role *role = restoring->swapper->role;
	int r = 0;

	for (size_t i = 0; r == 0 && i < role->driver_modules.count; i++) {
		struct swap_module module = { .part = SWAP_OURS };

		if (!swapper_is_ours(restoring->swapper, role->driver_modules.items[i]))
			continue;
		(void) snprintf(
			module.name, sizeof(module.name), "%s", role->driver_modules.items[i]);
		r = swap_plan_add(&restoring->inbox, &module);
		if (r == 0)
			r = strv_push(&restoring->inbox.load, module.name);
	}
	return r;
}

static int find_inbox(struct restoring *restoring)
{
	struct action *action = restoring->swapper->action;
	int r = inbox_read(restoring->swapper->role, &restoring->inbox, &action->error);

	if (r == -ENOENT)
		r = guess_inbox(restoring);
	return action_reason(action, REASON_INTERNAL, r);
}

/* Ours that are there, with what came along: all that containers loaded in this boot. */
static int list_ours(struct restoring *restoring, struct strv *set)
{
	struct swapper *swapper = restoring->swapper;
	int r = 0;

	for (size_t i = 0; r == 0 && i < restoring->inbox.load.count; i++) {
		const char *name = restoring->inbox.load.items[i];

		if (!sysmodule_exists(swapper->role->root_fd, name) ||
			sysmodule_is_built_in(swapper->role->root_fd, name))
			continue;
		r = strv_push(&restoring->debt.load, name);
		if (r == 0 && undo_is_of_set(swapper, name))
			r = strv_push(set, name);
	}
	return r;
}

/* One that the host's tree has in another build (a kernel's update, say) comes in that build. */
static int owe(struct restoring *restoring, const struct swap_module *module)
{
	struct swap_module owed = *module;

	if (!at_hand_on_host(&restoring->swapper->at_hand, module->name, module->build_id))
		owed.build_id[0] = '\0';
	return swap_plan_add(&restoring->debt, &owed);
}

static int owe_inbox(struct restoring *restoring, struct loader *host, struct strv *names)
{
	_cleanup_strv_ struct strv lacking = { 0 };
	_cleanup_free_ char *text = NULL;
	int r = 0;

	for (size_t i = 0; r == 0 && i < restoring->inbox.go_count; i++) {
		const struct swap_module *module = &restoring->inbox.go[i];

		if (!swapper_tree_has(host, module->name)) {
			r = strv_push(&lacking, module->name);
			continue;
		}
		r = owe(restoring, module);
		if (r == 0 && module->part == SWAP_OURS)
			r = strv_push(names, module->name);
	}
	text = lacking.count ? strv_join(&lacking, ", ") : NULL;
	if (text)
		swapper_tell(restoring->swapper,
			"the host has no %.600s: not part of what comes back", text);
	return r;
}

static bool had_driver(const struct restoring *restoring)
{
	for (size_t i = 0; i < restoring->inbox.go_count; i++)
		if (restoring->inbox.go[i].part == SWAP_OURS)
			return true;
	return false;
}

static int refuse_without_host(struct restoring *restoring)
{
	const struct role *role = restoring->swapper->role;

	return action_fail(restoring->swapper->action, REASON_WILL_NOT_LOAD, -ENOENT,
		"%s is set, but %s/lib/modules/%s has none of the modules that were there before: "
		"OFED stays loaded; mount the host's /lib/modules there, or reboot the node",
		CONTRACT_ENV_RESTORE, role->host_root, role->krel);
}

/* What goes, in order: ours and whatever leans on them. Refused as for a start. */
static int find_removal(struct restoring *restoring, const struct strv *set, struct strv *gone)
{
	struct action *action = restoring->swapper->action;
	int r = swap_plan_removal(action, set, &restoring->removal);

	if (r < 0)
		return r;
	r = swap_plan_going(&restoring->removal, gone);
	return r < 0 ? action_fail(action, REASON_INTERNAL, r, "out of memory") : 0;
}

static int prove(struct restoring *restoring, const struct strv *names, const struct strv *set)
{
	struct swapper *swapper = restoring->swapper;
	_cleanup_strv_ struct strv gone = { 0 };
	const struct prove_request request = {
		.prefix = swapper->role->host_root, .modules = names, .gone = &gone
	};
	int r = find_removal(restoring, set, &gone);

	if (r < 0 || !names->count)
		return r;
	r = prove_tree(swapper->action, &request);
	return r < 0 ? error_prefix(&swapper->action->error, r,
			       "the node's own modules would not come back, so OFED stays")
		     : 0;
}

static int write_debt(struct restoring *restoring)
{
	struct action *action = restoring->swapper->action;
	const struct strv nothing = { 0 };
	int r = debt_merge(&restoring->debt, &restoring->removal, &nothing);

	if (r < 0)
		return action_fail(action, REASON_INTERNAL, r, "out of memory");
	r = debt_write(restoring->swapper->role, &restoring->debt, &action->error);
	return action_reason(action, REASON_MOUNT_FAILED, r);
}

static int prepare(struct restoring *restoring)
{
	struct action *action = restoring->swapper->action;
	_cleanup_strv_ struct strv names = { 0 };
	_cleanup_strv_ struct strv set = { 0 };
	struct loader *host = swapper_host(restoring->swapper, &action->error);
	int r = find_inbox(restoring);

	if (r < 0)
		return r;
	if (!host && restoring->inbox.go_count)
		return refuse_without_host(restoring);
	r = list_ours(restoring, &set);
	if (r == 0)
		r = owe_inbox(restoring, host, &names);
	if (r < 0)
		return action_fail(action, REASON_INTERNAL, r, "out of memory");
	if (!set.count)
		return 0; /* what runs is the host's already */
	if (!names.count && had_driver(restoring))
		return refuse_without_host(restoring);
	r = prove(restoring, &names, &set);
	if (r == 0)
		r = write_debt(restoring);
	return r < 0 ? r : 1;
}

int restore_prepare(struct swapper *swapper)
{
	_cleanup_(restoring_done) struct restoring restoring = { .swapper = swapper };

	return prepare(&restoring);
}
