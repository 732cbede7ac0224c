/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What becomes of a swap that a killed container left pending, and of one that this container gives
 * up. A start goes on by the phase in the journal and by what is loaded:
 *
 *   phase        all of the image's runs                 something else runs, or nothing
 *   none         nothing to do                           a swap of its own
 *   unloading  \
 *   loading     | dependents come, the network is        the swap again; what the journal says
 *   dependents  | restored, the swap is committed        was there before stays pending
 *   rollback   /
 *   restoring    the network is restored, commit         the same
 *   committed    copies are kept for the next image      a swap of its own
 *
 * Where nothing of the network is to be restored a pending swap of which all runs is committed
 * before anything can fail. Where a start does not come that far, is stopped or fails, a pending
 * swap is rolled back, whatever its phase: ours go (unless they are what was there before), then
 * what was there before comes. What of that is done already is seen by what is loaded. A rollback
 * that was killed is a pending swap to the next start.
 */
#include <string.h>

#include "common/fs.h"
#include "entrypoint/contract.h"
#include "entrypoint/engine/kill_point.h"
#include "entrypoint/nic/host_files_internal.h"
#include "entrypoint/nic/nic_internal.h"
#include "entrypoint/rdma/ofed.h"
#include "entrypoint/rdma/peermem.h"
#include "entrypoint/role/prove.h"
#include "entrypoint/role/parameters.h"
#include "entrypoint/role/modset.h"
#include "module/sysmodule.h"

enum recovery {
	RECOVERY_NONE,       /* nothing is pending: what runs is right */
	RECOVERY_SWAP,       /* modules go and come: a swap, or once more the pending one */
	RECOVERY_DEPENDENTS, /* all of ours run: what depended on the old ones comes first */
	RECOVERY_NETWORK,    /* the network gets its state */
	RECOVERY_COMMIT,     /* only the end is not written */
};

/* The table above. */
static enum recovery recovery_of(enum phase phase, bool same, bool network_is_whole)
{
	if (!same)
		return RECOVERY_SWAP;
	if (phase == PHASE_NONE || phase == PHASE_COMMITTED)
		return network_is_whole ? RECOVERY_NONE : RECOVERY_NETWORK;
	if (network_is_whole)
		return RECOVERY_COMMIT;
	return phase == PHASE_RESTORING ? RECOVERY_NETWORK : RECOVERY_DEPENDENTS;
}

static enum recovery recovery(const struct nic *nic)
{
	return recovery_of(
		journal_phase(nic->role.root_fd), nic->swap.same, nic_network_is_whole(nic));
}

void nic_open_journal(struct nic *nic)
{
	_cleanup_journal_ struct journal journal = { 0 };
	struct log *log = &nic->role.log;
	struct error why = { "" };

	if (journal_adopt_old(nic->role.root_fd, &why) < 0)
		log_event(log, "note", log->step, 0, REASON_NONE, why.text);
	if (journal_read(nic->role.root_fd, &journal, &why) == -EBADMSG) {
		log_event(log, "note", log->step, 0, REASON_NONE, why.text);
		(void) unlinkat(nic->role.root_fd, JOURNAL_PATH, 0);
	}
	/* For the exit message of a container that was killed before it could say it. */
	(void) !journal_set_list(nic->role.root_fd, JOURNAL_OUTCOME, NULL, &why);
}

bool nic_is_unfinished(const void *role)
{
	return journal_is_pending(nic_of_const(role)->role.root_fd) || !nic_network_is_whole(role);
}

int nic_tell_unfinished(struct action *action)
{
	const struct nic *nic = nic_of(action->role);

	nic_note(action, "%s",
		!journal_is_pending(nic->role.root_fd) && nic_network_is_for_next_start(nic)
			? "devices or interfaces were not back when an earlier start was done: "
			  "this one tries them once more"
			: "an earlier life of this container was killed in the middle of a swap: "
			  "this one ends it, or goes back");
	return 0;
}

bool nic_is_swapped(const void *role)
{
	return recovery(nic_of_const(role)) != RECOVERY_SWAP;
}

bool nic_has_dependents(const void *role)
{
	enum recovery what = recovery(nic_of_const(role));

	return what != RECOVERY_SWAP && what != RECOVERY_DEPENDENTS;
}

bool nic_is_all_but_committed(const void *role)
{
	return recovery(nic_of_const(role)) == RECOVERY_COMMIT;
}

int nic_commit_earlier(struct action *action)
{
	int root_fd = nic_of(action->role)->role.root_fd;
	int r = journal_phase(root_fd) == PHASE_RESTORING ? 0 : nic_swap_dependents(action);

	if (r == 0)
		journal_commit(root_fd);
	return r;
}

bool nic_stays(const struct role *role)
{
	return !journal_is_pending(role->root_fd) &&
	       (role->plan.start_failed || !role->options.restore_inbox);
}

static int no_memory(struct action *action)
{
	return action_fail(action, REASON_INTERNAL, -ENOMEM, "out of memory");
}

/* ---- ours go */

/*
 * Is the module, loaded under a name that we loaded, one of the set: not one of the kernel's own
 * that came along, which others may use by now?
 */
static bool is_of_set(struct swap_context *swap, const char *name)
{
	char build_id[BUILD_ID_HEX_SIZE];
	struct error ignored;
	struct loader *own;

	if (strv_contains(&swap->role->driver_modules, name))
		return true;
	/* What else the image has is of the kernel; what it lacks is of an image before it. */
	own = swap_own_tree(swap, &ignored);
	if (own && swap_tree_has(own, name))
		return false;
	sysmodule_build_id(swap->role->root_fd, name, build_id);
	return !module_is_on_host(&swap->lookup, name, build_id);
}

/* Is what is loaded under that name the very build that was there before? */
static bool is_build_before(
	const struct swap_context *swap, const struct swap_plan *pending, const char *name)
{
	const struct swap_module *module = swap_plan_find(pending, name);
	char loaded[BUILD_ID_HEX_SIZE];

	sysmodule_build_id(swap->role->root_fd, name, loaded);
	return *loaded && module && strcmp(module->build_id, loaded) == 0;
}

/* Those of pending->load that are there, ours, or at least not what was there before. */
static int list_ours(struct swap_context *swap, const struct swap_plan *pending, struct strv *set,
	struct strv *along)
{
	int root_fd = swap->role->root_fd;

	for (size_t i = 0; i < pending->load.count; i++) {
		const char *name = pending->load.items[i];

		if (!sysmodule_exists(root_fd, name) || sysmodule_is_built_in(root_fd, name) ||
			(!swap_is_ours(swap, name) && is_build_before(swap, pending, name)))
			continue;
		if (strv_push(is_of_set(swap, name) ? set : along, name) < 0)
			return -ENOMEM;
	}
	return 0;
}

/* What depends on ours by now goes with them, and comes back too. */
static int add_holders(struct action *action, const struct swap_plan *removal)
{
	_cleanup_journal_ struct journal journal = { 0 };
	const struct strv nothing = { 0 };
	int root_fd = nic_of(action->role)->role.root_fd;
	size_t before;
	int r = journal_read(root_fd, &journal, &action->error);

	if (r < 0)
		return action_reason(action, REASON_INTERNAL, r);
	before = journal.pending.go_count;
	if (journal_merge_pending(&journal.pending, removal, &nothing) < 0)
		return no_memory(action);
	if (journal.pending.go_count == before)
		return 0;
	return action_reason(
		action, REASON_MOUNT_FAILED, journal_write(root_fd, &journal, &action->error));
}

/* @set: of the image's; all or none, as far as it can be known before. */
static int unload_set(struct swap_context *swap, const struct strv *set, struct strv *removed)
{
	struct action *action = swap->action;
	_cleanup_(swap_plan_free) struct swap_plan removal = { 0 };
	_cleanup_strv_ struct strv going = { 0 };
	int r = swap_plan_removal(action, set, &removal);

	if (r == 0)
		r = add_holders(action, &removal);
	if (r < 0)
		return r;
	for (size_t i = 0; i < removal.go_count; i++)
		if (removal.go[i].part != SWAP_PEERMEM && strv_push(&going, removal.go[i].name) < 0)
			return no_memory(action);
	r = peermem_make_way(action, &going);
	kill_point("swap:undo:peermem");
	return r < 0 ? r : swap_unload(swap, &going, removed);
}

/* One by one, for someone else may use one by now: that one then stays. */
static void unload_along(struct swap_context *swap, const struct strv *along)
{
	for (size_t i = along->count; i-- > 0;) {
		const struct strv one = { .items = &along->items[i], .count = 1 };
		const struct unload unload = { .root_fd = swap->role->root_fd, .modules = &one };
		_cleanup_strv_ struct strv removed = { 0 };
		struct error ignored;

		if (sysmodule_references(swap->role->root_fd, along->items[i]) == 0)
			(void) unload_modules(&unload, swap->action->worker, &removed, &ignored);
	}
}

static int unload_ours(struct swap_context *swap, struct strv *removed)
{
	struct action *action = swap->action;
	_cleanup_journal_ struct journal journal = { 0 };
	_cleanup_strv_ struct strv along = { 0 };
	_cleanup_strv_ struct strv set = { 0 };
	int r = journal_read(swap->role->root_fd, &journal, &action->error);

	if (r < 0)
		return action_reason(action, REASON_INTERNAL, r);
	if (list_ours(swap, &journal.pending, &set, &along) < 0)
		return no_memory(action);
	r = unload_set(swap, &set, removed);
	if (r == 0)
		unload_along(swap, &along);
	return r;
}

/* ---- RESTORE_DRIVER_ON_POD_TERMINATION: the node's own modules become what is pending */

struct restoring {
	struct swap_context *swap;
	struct journal journal;
	bool is_guessed;   /* journal.own is */
	struct strv set;   /* ours that are there */
	struct strv names; /* the node's own that will come */
};

static void restoring_done(struct restoring *restoring)
{
	journal_free(&restoring->journal);
	strv_free(&restoring->set);
	strv_free(&restoring->names);
}

/* Nobody recorded what was there: the host's modules of the names of ours are it. */
static int guess_own(struct restoring *restoring)
{
	const struct strv *set = &restoring->swap->role->driver_modules;
	struct swap_plan *own = &restoring->journal.own;

	restoring->is_guessed = true;
	for (size_t i = 0; i < set->count; i++) {
		struct swap_module module = { .part = SWAP_OURS };

		if (!swap_is_ours(restoring->swap, set->items[i]))
			continue;
		(void) snprintf(module.name, sizeof(module.name), "%s", set->items[i]);
		if (swap_plan_add(own, &module) < 0 || strv_push(&own->load, module.name) < 0)
			return -ENOMEM;
	}
	return 0;
}

/* Ours that are there, with what came along: all that containers loaded in this boot. */
static int list_inserted(struct restoring *restoring)
{
	struct swap_context *swap = restoring->swap;
	const struct strv *inserted = &restoring->journal.own.load;

	for (size_t i = 0; i < inserted->count; i++) {
		const char *name = inserted->items[i];

		if (!sysmodule_exists(swap->role->root_fd, name) ||
			sysmodule_is_built_in(swap->role->root_fd, name))
			continue;
		if (strv_push(&restoring->journal.pending.load, name) < 0 ||
			(is_of_set(swap, name) && strv_push(&restoring->set, name) < 0))
			return -ENOMEM;
	}
	return 0;
}

/* One that the host's tree has in another build (a kernel's update, say) comes in that build. */
static int list_own(struct restoring *restoring, struct loader *host)
{
	const struct swap_plan *own = &restoring->journal.own;
	struct swap_context *swap = restoring->swap;
	_cleanup_strv_ struct strv lacking = { 0 };
	_cleanup_free_ char *text = NULL;

	for (size_t i = 0; i < own->go_count; i++) {
		struct swap_module module = own->go[i];

		if (!swap_tree_has(host, module.name)) {
			if (strv_push(&lacking, module.name) < 0)
				return -ENOMEM;
			continue;
		}
		if (!module_is_on_host(&swap->lookup, module.name, module.build_id))
			module.build_id[0] = '\0';
		if (swap_plan_add(&restoring->journal.pending, &module) < 0 ||
			(module.part == SWAP_OURS && strv_push(&restoring->names, module.name) < 0))
			return -ENOMEM;
	}
	text = lacking.count ? strv_join(&lacking, ", ") : NULL;
	if (text)
		nic_note(swap->action, "the host has no %.600s: not part of what comes back", text);
	return 0;
}

static int refuse_without_host(struct restoring *restoring)
{
	const struct role *role = restoring->swap->role;

	return action_fail(restoring->swap->action, REASON_WILL_NOT_LOAD, -ENOENT,
		"%s is set, but %s/lib/modules/%s has none of the modules that were there before: "
		"OFED stays loaded; mount the host's /lib/modules there, or reboot the node",
		CONTRACT_ENV_RESTORE, role->host_root, role->krel);
}

/* What goes, in order, is ours and whatever holds them. Refused as for a start. */
static int prove_own(struct restoring *restoring)
{
	struct swap_context *swap = restoring->swap;
	struct action *action = swap->action;
	struct journal *journal = &restoring->journal;
	_cleanup_(swap_plan_free) struct swap_plan removal = { 0 };
	_cleanup_strv_ struct strv gone = { 0 };
	const struct strv nothing = { 0 };
	const struct prove_request request = {
		.prefix = swap->role->host_root, .modules = &restoring->names, .gone = &gone
	};
	int r = swap_plan_removal(action, &restoring->set, &removal);

	if (r < 0)
		return r;
	if (swap_plan_going(&removal, &gone) < 0)
		return no_memory(action);
	r = restoring->names.count ? prove_tree(action, &request) : 0;
	if (r < 0)
		return error_prefix(&action->error, r,
			"the node's own modules would not come back, so OFED stays");
	if (journal_merge_pending(&journal->pending, &removal, &nothing) < 0)
		return no_memory(action);
	if (restoring->is_guessed)
		swap_plan_free(&journal->own);
	journal->phase = PHASE_ROLLBACK;
	r = journal_write(swap->role->root_fd, journal, &action->error);
	kill_point("phase:%s", phase_name(PHASE_ROLLBACK));
	return action_reason(action, REASON_MOUNT_FAILED, r);
}

/* 1: what was there before is pending, ours may go. 0: there is nothing to do. Nothing is touched.
 */
static int prepare_restore(struct restoring *restoring)
{
	struct swap_context *swap = restoring->swap;
	struct action *action = swap->action;
	struct loader *host = swap_host_tree(swap, &action->error);
	const struct swap_plan *own = &restoring->journal.own;
	int r = journal_read(swap->role->root_fd, &restoring->journal, &action->error);

	if (r < 0)
		return action_reason(action, REASON_INTERNAL, r);
	if (!journal_knows_own(&restoring->journal) && guess_own(restoring) < 0)
		return no_memory(action);
	if (!host && own->go_count)
		return refuse_without_host(restoring);
	if (list_inserted(restoring) < 0 || list_own(restoring, host) < 0)
		return no_memory(action);
	if (!restoring->set.count)
		return 0; /* what runs is the host's already */
	if (!restoring->names.count && swap_plan_has_driver(own))
		return refuse_without_host(restoring);
	r = prove_own(restoring);
	return r < 0 ? r : 1;
}

static int restore_own(struct swap_context *swap)
{
	_cleanup_(restoring_done) struct restoring restoring = { .swap = swap };
	_cleanup_strv_ struct strv removed = { 0 };
	int r = prepare_restore(&restoring);

	if (r <= 0)
		return r;
	r = unload_ours(swap, &removed);
	/* None left: then ours are the node's driver, and nothing is pending. */
	if (r < 0 && !removed.count) {
		journal_end(swap->role->root_fd, false);
		peermem_allow(swap->role->root_fd);
	}
	return r;
}

int nic_swap_in_undo(struct action *action)
{
	_cleanup_(swap_close) struct swap_context swap = { 0 };
	_cleanup_strv_ struct strv removed = { 0 };
	const struct role *role = action->role;
	struct error ignored;
	int r = swap_open(&swap, action);

	if (r < 0)
		return r;
	if (nic_network_is_at_risk(role)) {
		nic_note(action, "the network's state is not saved: OFED stays loaded");
		return 0;
	}
	if (!journal_is_pending(role->root_fd))
		return role->plan.start_failed || !role->options.restore_inbox ? 0
									       : restore_own(&swap);
	/* A phase that cannot be written keeps nothing from coming back: all of them are pending.
	 */
	(void) !journal_enter(role->root_fd, PHASE_ROLLBACK, &ignored);
	return unload_ours(&swap, &removed);
}

/* ---- what was there before comes back: the very builds, else the host's, and at worst ours */

struct rollback {
	struct swap_context swap;
	struct journal journal;
	struct strv missing;
	const char *outcome; /* for the exit message */
};

static void rollback_done(struct rollback *rollback)
{
	journal_free(&rollback->journal);
	strv_free(&rollback->missing);
	swap_close(&rollback->swap);
}

/* Of these names the NIC driver is made; the others follow when they are back. */
static bool is_driver(const struct swap_module *module)
{
	return module->part == SWAP_OURS;
}

static bool is_there(const struct rollback *rollback, const char *name)
{
	return sysmodule_exists(rollback->swap.role->root_fd, name);
}

/* False when one of the driver's builds is known, gone, and nowhere to be found. */
static bool can_be_exact(struct rollback *rollback)
{
	const struct swap_plan *pending = &rollback->journal.pending;

	for (size_t i = 0; i < pending->go_count; i++) {
		const struct swap_module *module = &pending->go[i];
		_cleanup_free_ char *path = NULL;

		if (is_driver(module) && *module->build_id &&
			!is_build_before(&rollback->swap, pending, module->name) &&
			module_find(&rollback->swap.lookup, module->name, module->build_id, &path) <
				0)
			return false;
	}
	return true;
}

/*
 * Unloads those of the driver's names that are loaded in another build: than was there before, or
 * (@of_host) than the host's tree has.
 */
static int unload_other_builds(struct rollback *rollback, bool of_host)
{
	struct swap_context *swap = &rollback->swap;
	_cleanup_strv_ struct strv removed = { 0 };
	_cleanup_strv_ struct strv others = { 0 };

	for (size_t i = 0; i < rollback->journal.pending.go_count; i++) {
		const struct swap_module *module = &rollback->journal.pending.go[i];
		char loaded[BUILD_ID_HEX_SIZE];
		bool is_other;

		sysmodule_build_id(swap->role->root_fd, module->name, loaded);
		is_other = of_host ? is_there(rollback, module->name) &&
					     !module_is_on_host(&swap->lookup, module->name, loaded)
				   : *module->build_id && *loaded &&
					     strcmp(loaded, module->build_id) != 0;
		if (is_driver(module) && is_other && strv_push(&others, module->name) < 0)
			return no_memory(swap->action);
	}
	return others.count ? swap_unload(swap, &others, &removed) : 0;
}

static int load_of_host(
	struct rollback *rollback, const struct swap_module *module, struct error *why)
{
	struct loader *host = swap_host_tree(&rollback->swap, why);

	return host ? swap_load(&rollback->swap, host, module, why) : -ENOENT;
}

/* Last gone first. Returns the first failure; *ret_progress: something came. */
static int load_each(struct rollback *rollback, bool *ret_progress, struct error *why)
{
	int first_failure = 0;

	*ret_progress = false;
	for (size_t i = rollback->journal.pending.go_count; i-- > 0;) {
		const struct swap_module *module = &rollback->journal.pending.go[i];
		bool was_there = is_there(rollback, module->name);
		struct error text = { "" };
		int r = 0;

		if (!is_driver(module))
			continue;
		if (*module->build_id)
			r = swap_load_build(&rollback->swap, module, &text);
		else if (!was_there) /* nothing but its name is known */
			r = load_of_host(rollback, module, &text);
		*ret_progress |= !was_there && is_there(rollback, module->name);
		if (r < 0 && !first_failure) {
			first_failure = r;
			*why = text;
		}
	}
	return first_failure;
}

static int load_exact(struct rollback *rollback, struct error *why)
{
	bool progress = true;
	int r;

	if (!can_be_exact(rollback))
		return error_set(why, -ENOENT, "their own files are not all at hand");
	/* What the host's udev loaded meanwhile. */
	r = unload_other_builds(rollback, false);
	if (r < 0) {
		*why = rollback->swap.action->error;
		return r;
	}
	/* What came since that container was killed may need what stands before it in the order. */
	do
		r = load_each(rollback, &progress, why);
	while (r < 0 && progress);
	return r;
}

/* As many as come, with the parameters of the node's own set where that is known. */
static int load_hosts(struct rollback *rollback)
{
	const struct swap_plan *own = &rollback->journal.own;
	const struct swap_plan *set = swap_plan_has_driver(own) ? own : &rollback->journal.pending;

	/* Half of another set would be in the way. */
	if (unload_other_builds(rollback, true) < 0)
		nic_note(rollback->swap.action, "%s", rollback->swap.action->error.text);
	for (size_t i = set->go_count; i-- > 0;) {
		const struct swap_module *module = &set->go[i];
		struct error why = { "" };

		if (is_driver(module) && !is_there(rollback, module->name) &&
			load_of_host(rollback, module, &why) < 0 &&
			strv_pushf(&rollback->missing, "%s: %s", module->name, why.text) < 0)
			return -ENOMEM;
	}
	return 0;
}

static bool has_driver(const struct rollback *rollback)
{
	const struct swap_plan *sets[] = { &rollback->journal.pending, &rollback->journal.own };

	for (size_t i = 0; i < ARRAY_SIZE(sets); i++)
		for (size_t j = 0; j < sets[i]->go_count; j++)
			if (is_driver(&sets[i]->go[j]) && is_there(rollback, sets[i]->go[j].name))
				return true;
	return false;
}

/* A node with a driver that is not the one it had is better off than one with none. */
static void load_ours_at_worst(struct rollback *rollback)
{
	struct action *action = rollback->swap.action;
	const struct strv *load = &rollback->journal.pending.load;
	struct error why = { "" };
	struct loader *own = swap_own_tree(&rollback->swap, &why);

	for (size_t i = 0; own && i < load->count; i++) {
		enum reason ignored;

		if (loader_load(own, action->worker, load->items[i], &ignored, &why) < 0)
			nic_note(action, "%s", why.text);
	}
}

static int load_driver(struct rollback *rollback)
{
	struct action *action = rollback->swap.action;
	bool had_driver = swap_plan_has_driver(&rollback->journal.pending);
	struct error why = { "" };
	int r = load_exact(rollback, &why);

	rollback->outcome = had_driver ? "what was loaded before is loaded again"
				       : "no driver was loaded before, and none is now";
	if (r == 0)
		return 0;
	rollback->outcome = "instead of what was loaded before, the host's own modules are loaded";
	nic_note(action,
		"the modules that were there do not all come back (%.600s): the host's own come "
		"instead",
		why.text);
	r = load_hosts(rollback);
	if (r < 0 || has_driver(rollback) || !had_driver)
		return r;
	nic_note(action, "nothing of what was there comes back: what the image has of it is loaded "
			 "again, so that the node has a driver at all");
	load_ours_at_worst(rollback);
	rollback->outcome = "nothing of what was loaded before came back: reboot the node to have "
			    "its own driver again";
	return action_fail(action, REASON_LOAD_FAILED, -ENOENT,
		"no module that was there before could be loaded again: %.600s; what the image has "
		"was loaded as far as it goes: reboot the node to have its own driver back",
		rollback->missing.count ? rollback->missing.items[0] : why.text);
}

/* All of the driver that is there is the node's own: no container's is left. */
static bool is_own_back(struct rollback *rollback)
{
	for (size_t i = 0; i < rollback->journal.pending.go_count; i++) {
		const struct swap_module *module = &rollback->journal.pending.go[i];
		char loaded[BUILD_ID_HEX_SIZE];

		sysmodule_build_id(rollback->swap.role->root_fd, module->name, loaded);
		if (is_driver(module) && *loaded &&
			!module_is_on_host(&rollback->swap.lookup, module->name, loaded))
			return false;
	}
	return true;
}

/* The init reads it when all is undone. */
static void record_outcome(const struct rollback *rollback)
{
	_cleanup_strv_ struct strv lines = { 0 };
	struct error ignored;

	if (!rollback->outcome || strv_push(&lines, rollback->outcome) < 0)
		return;
	for (size_t i = 0; i < rollback->missing.count; i++)
		if (strv_pushf(&lines, "not back: %s", rollback->missing.items[i]) < 0)
			return;
	(void) !journal_set_list(rollback->swap.role->root_fd, JOURNAL_OUTCOME, &lines, &ignored);
}

void nic_tell_outcome(struct role *role)
{
	struct plan *plan = &role->plan;
	_cleanup_journal_ struct journal journal = { 0 };
	_cleanup_free_ char *text = NULL;
	const struct strv *lines = &journal.lists[JOURNAL_OUTCOME];
	struct error ignored;

	if (journal_read(role->root_fd, &journal, &ignored) < 0 || !lines->count)
		return;
	text = plan->start_failed ? strv_join(lines, "; ") : NULL;
	if (text) {
		struct error why = plan->error;

		(void) error_set(&plan->error, 0, "%.700s; %s", why.text, text);
	}
	(void) !journal_set_list(role->root_fd, JOURNAL_OUTCOME, NULL, &ignored);
}

static int roll_back(struct rollback *rollback)
{
	struct swap_context *swap = &rollback->swap;
	int root_fd = swap->role->root_fd;
	int r = load_driver(rollback);

	if (r < 0) {
		record_outcome(rollback);
		return action_reason(swap->action, REASON_LOAD_FAILED, r);
	}
	if (swap_load_dependents(swap, &rollback->journal.pending, false, &rollback->missing) < 0)
		return no_memory(swap->action);
	record_outcome(rollback);
	role_list_remove(swap->role, ROLE_PARAMETERS_LIST);
	kill_point("swap:back");
	journal_end(root_fd, is_own_back(rollback));
	/* A process that waits for OFED finds what was there. */
	peermem_allow(root_fd);
	return 0;
}

/* Does a module that we loaded stand where another build was before? */
static bool ours_remain(struct rollback *rollback)
{
	struct swap_context *swap = &rollback->swap;
	const struct swap_plan *pending = &rollback->journal.pending;

	for (size_t i = 0; i < pending->load.count; i++) {
		const char *name = pending->load.items[i];

		if (swap_is_ours(swap, name) && is_of_set(swap, name) &&
			!is_build_before(swap, pending, name))
			return true;
	}
	return false;
}

int nic_swap_out_undo(struct action *action)
{
	_cleanup_(rollback_done) struct rollback rollback = { 0 };
	int root_fd = nic_of(action->role)->role.root_fd;
	struct error ignored;
	int r;

	if (!journal_is_pending(root_fd))
		return 0;
	(void) !journal_enter(root_fd, PHASE_ROLLBACK, &ignored);
	r = swap_open(&rollback.swap, action);
	if (r == 0)
		r = journal_read(root_fd, &rollback.journal, &action->error);
	if (r < 0)
		return action_reason(action, REASON_INTERNAL, r);
	if (!ours_remain(&rollback))
		return roll_back(&rollback);
	/* Then they are the node's driver; what went of them comes again. */
	nic_note(action, "the image's modules could not all go: they stay");
	load_ours_at_worst(&rollback);
	peermem_allow(root_fd);
	return 0;
}

/* ---- a start that does not come to its own steps */

/* No plan was made: the pending swap's is used, in this worker only. */
static void adopt_pending(struct nic *nic)
{
	_cleanup_journal_ struct journal journal = { 0 };
	struct error ignored;

	if (nic->swap.load.count || journal_read(nic->role.root_fd, &journal, &ignored) < 0)
		return;
	swap_plan_free(&nic->swap);
	nic->swap = journal.pending;
	journal.pending = (struct swap_plan){ .same = false };
}

int nic_unfinished_out(struct action *action)
{
	struct nic *nic = nic_of(action->role);
	int r;

	if (!journal_is_pending(nic->role.root_fd))
		return 0;
	adopt_pending(nic);
	r = nic_network_is_whole(nic) ? nic_network_save_again(action) : 0;
	if (r < 0)
		return r;
	(void) nic_block_again(action);
	(void) fingerprint_remove(action);
	return nic_swap_in_undo(action);
}

int nic_unfinished_back(struct action *action)
{
	struct nic *nic = nic_of(action->role);
	bool was_pending = journal_is_pending(nic->role.root_fd);
	struct action network = *action;
	int r = 0;
	int n;

	adopt_pending(nic);
	if (was_pending) {
		r = nic_swap_out_undo(action);
		(void) nic_unblock(action);
	}
	/* Nobody knows when there will be a next start, or one that comes so far. */
	n = was_pending || nic->role.plan.start_failed ? nic_network_give_back(&network)
						       : nic_network_save_undo(&network);
	if (r < 0 || n == 0)
		return r;
	*action = network;
	return n;
}
