/* SPDX-License-Identifier: Apache-2.0 */
/* What was there before comes back: the very builds, else the host's, and at worst ours again. */
#include <string.h>

#include "entrypoint/engine/kill_point.h"
#include "entrypoint/nic/debt.h"
#include "entrypoint/nic/others.h"
#include "entrypoint/nic/swap.h"
#include "entrypoint/nic/swap_undo.h"
#include "entrypoint/nic/swapper.h"
#include "entrypoint/rdma/release.h"
#include "entrypoint/role/role_list.h"
#include "entrypoint/role/role_parameters.h"
#include "module/sysmodule.h"

/* One line and more for the last word, from the worker to the init. */
#define LAST_WORD_LIST "way-back"

struct payment {
	struct swapper swapper;
	struct swap_plan debt;
	struct swap_plan inbox; /* the node's own, where somebody wrote that down */
	struct strv missing;
	const char *word; /* how it ended, for the last word */
};

static void payment_done(struct payment *payment)
{
	swap_plan_free(&payment->debt);
	swap_plan_free(&payment->inbox);
	strv_free(&payment->missing);
	swapper_close(&payment->swapper);
}

/* Of these names the NIC driver is made; the others follow when they are back. */
static bool is_driver(const struct swap_module *module)
{
	return module->part == SWAP_OURS;
}

static bool is_there(const struct payment *payment, const char *name)
{
	return sysmodule_exists(payment->swapper.role->root_fd, name);
}

/* False when one of the driver's builds is known, gone, and nowhere at hand. */
static bool is_exact(struct payment *payment)
{
	struct swapper *swapper = &payment->swapper;

	for (size_t i = 0; i < payment->debt.go_count; i++) {
		const struct swap_module *module = &payment->debt.go[i];
		_cleanup_free_ char *path = NULL;

		if (is_driver(module) && *module->build_id &&
			!undo_is_owed_build(swapper, &payment->debt, module->name) &&
			at_hand_find(&swapper->at_hand, module->name, module->build_id, &path) < 0)
			return false;
	}
	return true;
}

/* What the host's udev brought meanwhile under the names that are owed. */
static int take_rivals_out(struct payment *payment)
{
	_cleanup_strv_ struct strv removed = { 0 };
	_cleanup_strv_ struct strv rivals = { 0 };
	int r = 0;

	for (size_t i = 0; r == 0 && i < payment->debt.go_count; i++) {
		const struct swap_module *module = &payment->debt.go[i];
		char loaded[BUILD_ID_HEX_SIZE];

		sysmodule_build_id(payment->swapper.role->root_fd, module->name, loaded);
		if (is_driver(module) && *module->build_id && *loaded &&
			strcmp(loaded, module->build_id) != 0)
			r = strv_push(&rivals, module->name);
	}
	return r < 0 || !rivals.count ? r : swapper_remove(&payment->swapper, &rivals, &removed);
}

static int bring_of_host(
	struct payment *payment, const struct swap_module *module, struct error *why)
{
	struct loader *host = swapper_host(&payment->swapper, why);

	return host ? swapper_bring(&payment->swapper, host, module->name, module->options, why)
		    : -ENOENT;
}

/* Of one without an id nothing but the name is known. */
static int bring_one(struct payment *payment, const struct swap_module *module, struct error *why)
{
	if (*module->build_id)
		return swapper_bring_build(&payment->swapper, module, why);
	return is_there(payment, module->name) ? 0 : bring_of_host(payment, module, why);
}

/* Last gone first. Returns the first failure; *ret_progress: something came. */
static int bring_each(struct payment *payment, bool *ret_progress, struct error *why)
{
	int first_failure = 0;

	*ret_progress = false;
	for (size_t i = payment->debt.go_count; i-- > 0;) {
		const struct swap_module *module = &payment->debt.go[i];
		bool was_there = is_there(payment, module->name);
		struct error text = { "" };
		int r = is_driver(module) ? bring_one(payment, module, &text) : 0;

		*ret_progress |= !was_there && is_there(payment, module->name);
		if (r < 0 && !first_failure) {
			first_failure = r;
			*why = text;
		}
	}
	return first_failure;
}

/* What came since an earlier life was killed may need what stands before it in the order. */
static int bring_builds(struct payment *payment, struct error *why)
{
	bool progress = true;
	int r = take_rivals_out(payment);

	if (r < 0) {
		*why = payment->swapper.action->error;
		return r;
	}
	do
		r = bring_each(payment, &progress, why);
	while (r < 0 && progress);
	return r;
}

/* Half of another set would be in the way of the host's. */
static int clear_way_for_host(struct payment *payment)
{
	_cleanup_strv_ struct strv removed = { 0 };
	_cleanup_strv_ struct strv there = { 0 };
	int r = 0;

	for (size_t i = 0; r == 0 && i < payment->debt.go_count; i++) {
		const char *name = payment->debt.go[i].name;
		char loaded[BUILD_ID_HEX_SIZE];

		sysmodule_build_id(payment->swapper.role->root_fd, name, loaded);
		if (is_driver(&payment->debt.go[i]) && is_there(payment, name) &&
			!at_hand_on_host(&payment->swapper.at_hand, name, loaded))
			r = strv_push(&there, name);
	}
	return r < 0 || !there.count ? r : swapper_remove(&payment->swapper, &there, &removed);
}

static bool has_driver_in(const struct swap_plan *plan)
{
	for (size_t i = 0; i < plan->go_count; i++)
		if (is_driver(&plan->go[i]))
			return true;
	return false;
}

/* The node's own set, with its parameters, and not that of a container whose builds are lost. */
static const struct swap_plan *hosts_set(struct payment *payment)
{
	struct error ignored;

	(void) inbox_read(payment->swapper.role, &payment->inbox, &ignored);
	return has_driver_in(&payment->inbox) ? &payment->inbox : &payment->debt;
}

/* As many as come. Returns -ENOMEM or 0. */
static int bring_hosts(struct payment *payment)
{
	const struct swap_plan *set = hosts_set(payment);
	int r = 0;

	if (clear_way_for_host(payment) < 0)
		swapper_tell(&payment->swapper, "%s", payment->swapper.action->error.text);
	for (size_t i = set->go_count; r == 0 && i-- > 0;) {
		const struct swap_module *module = &set->go[i];
		struct error why = { "" };

		if (is_driver(module) && !is_there(payment, module->name) &&
			bring_of_host(payment, module, &why) < 0)
			r = strv_pushf(&payment->missing, "%s: %s", module->name, why.text);
	}
	return r;
}

/* Is any of the driver there? */
static bool has_driver(const struct payment *payment)
{
	const struct swap_plan *sets[] = { &payment->debt, &payment->inbox };

	for (size_t i = 0; i < ARRAY_SIZE(sets); i++)
		for (size_t j = 0; j < sets[i]->go_count; j++)
			if (is_driver(&sets[i]->go[j]) && is_there(payment, sets[i]->go[j].name))
				return true;
	return false;
}

/* A node with a driver that is not the one it had is better off than one with none. */
static void bring_ours_at_worst(struct payment *payment)
{
	struct swapper *swapper = &payment->swapper;
	struct error why = { "" };
	struct loader *own = swapper_own(swapper, &why);

	for (size_t i = 0; own && i < payment->debt.load.count; i++) {
		enum reason ignored;

		if (loader_load(own, swapper->action->worker, payment->debt.load.items[i], &ignored,
			    &why) < 0)
			swapper_tell(swapper, "%s", why.text);
	}
}

static int bring_driver(struct payment *payment)
{
	struct swapper *swapper = &payment->swapper;
	struct error why = { "" };
	int r = -ENOENT;

	if (is_exact(payment))
		r = bring_builds(payment, &why);
	else
		(void) error_set(&why, r, "their own files are not all at hand");
	payment->word = has_driver_in(&payment->debt)
				? "what was loaded before is loaded again"
				: "no driver was loaded before, and none is now";
	if (r == 0)
		return 0;
	payment->word = "instead of what was loaded before, the host's own modules are loaded";
	swapper_tell(swapper,
		"the modules that were there do not all come back (%.600s): the host's own come "
		"instead",
		why.text);
	r = bring_hosts(payment);
	if (r < 0 || has_driver(payment) || !has_driver_in(&payment->debt))
		return r;
	swapper_tell(swapper, "nothing of what was there comes back: what the image has of it is "
			      "loaded again, so that the node has a driver at all");
	bring_ours_at_worst(payment);
	payment->word = "nothing of what was loaded before came back: reboot the node to have its "
			"own driver again";
	return action_fail(swapper->action, REASON_LOAD_FAILED, -ENOENT,
		"no module that was there before could be loaded again: %.600s; what the image has "
		"was loaded as far as it goes: reboot the node to have its own driver back",
		payment->missing.count ? payment->missing.items[0] : why.text);
}

/* All of the driver that is there is the node's own: no container's is left. */
static bool is_hosts_own(struct payment *payment)
{
	for (size_t i = 0; i < payment->debt.go_count; i++) {
		char loaded[BUILD_ID_HEX_SIZE];

		sysmodule_build_id(
			payment->swapper.role->root_fd, payment->debt.go[i].name, loaded);
		if (is_driver(&payment->debt.go[i]) && *loaded &&
			!at_hand_on_host(
				&payment->swapper.at_hand, payment->debt.go[i].name, loaded))
			return false;
	}
	return true;
}

static void settle(struct payment *payment)
{
	const struct role *role = payment->swapper.role;

	role_parameters_forget(role);
	if (is_hosts_own(payment))
		inbox_forget(role);
	kill_point("swap:back:settle");
	debt_forget(role);
	/* Whoever waits for OFED finds what was there. */
	peermem_allow(role->root_fd);
}

/* The init reads it when all is undone. */
static void leave_word(const struct payment *payment)
{
	_cleanup_strv_ struct strv lines = { 0 };
	struct error ignored;
	int r = payment->word ? strv_push(&lines, payment->word) : 0;

	for (size_t i = 0; r == 0 && i < payment->missing.count; i++)
		r = strv_pushf(&lines, "not back: %s", payment->missing.items[i]);
	if (r == 0 && lines.count)
		(void) role_list_write(payment->swapper.role, LAST_WORD_LIST, &lines, &ignored);
}

int swap_last_word(struct action *action)
{
	struct role *role = action->role;
	struct plan *plan = &role->plan;
	_cleanup_strv_ struct strv lines = { 0 };
	_cleanup_free_ char *text = NULL;

	if (role_list_read(role, LAST_WORD_LIST, &lines) < 0)
		return 0;
	role_list_remove(role, LAST_WORD_LIST);
	text = plan->start_failed && lines.count ? strv_join(&lines, "; ") : NULL;
	if (text) {
		struct error why = plan->error;

		(void) error_set(&plan->error, 0, "%.700s; %s", why.text, text);
	}
	return 0;
}

void swap_forget_word(const struct role *role)
{
	role_list_remove(role, LAST_WORD_LIST);
}

static int pay(struct payment *payment)
{
	struct swapper *swapper = &payment->swapper;
	struct action *action = swapper->action;
	int r = bring_driver(payment);

	if (r < 0) {
		leave_word(payment);
		return action_reason(action, REASON_LOAD_FAILED, r);
	}
	if (others_bring(swapper, &payment->debt, false, &payment->missing) < 0)
		return action_fail(action, REASON_INTERNAL, -ENOMEM, "out of memory");
	others_tell_missing(swapper, &payment->missing);
	leave_word(payment);
	settle(payment);
	return 0;
}

/* Ours that could not be unloaded are the node's driver; what went of them comes again. */
static int keep_ours(struct payment *payment)
{
	swapper_tell(&payment->swapper, "the image's modules could not all go: they stay");
	bring_ours_at_worst(payment);
	peermem_allow(payment->swapper.role->root_fd);
	return 0;
}

/* Does a module that we loaded stand where another build is owed? */
static bool ours_remain(struct payment *payment)
{
	struct swapper *swapper = &payment->swapper;

	for (size_t i = 0; i < payment->debt.load.count; i++) {
		const char *name = payment->debt.load.items[i];

		if (swapper_is_ours(swapper, name) && undo_is_of_set(swapper, name) &&
			!undo_is_owed_build(swapper, &payment->debt, name))
			return true;
	}
	return false;
}

int swap_back(struct action *action)
{
	_cleanup_(payment_done) struct payment payment = { 0 };
	int r;

	if (!swap_is_owed(action->role))
		return 0;
	r = swapper_open(&payment.swapper, action);
	if (r == 0)
		r = debt_read(action->role, &payment.debt, &action->error);
	if (r < 0)
		return action_reason(action, REASON_INTERNAL, r);
	return ours_remain(&payment) ? keep_ours(&payment) : pay(&payment);
}
