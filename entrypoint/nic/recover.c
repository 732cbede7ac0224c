/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finishes or rolls back a swap that a killed container left pending, or that this container gives
 * up. A start goes on according to the phase in the journal and the modules that are loaded:
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
 * If no network state has to be restored, a pending swap whose modules all run is committed before
 * anything can fail. If a start does not come that far, is stopped or fails, a pending swap is
 * rolled back, whatever its phase: our modules go (unless they were there before), then those that
 * were there before come. The loaded modules show which of that is done already. A rollback that
 * was killed is a pending swap to the next start.
 *
 * The step "recover" (nic.c) is asked again at the stop whether it is wanted. So where a start that
 * found nothing unfinished fails, and its own rollback fails, too, the undo of "recover" tries that
 * rollback a second time.
 */
#include <string.h>

#include "common/fs.h"
#include "entrypoint/contract.h"
#include "entrypoint/engine/kill_point.h"
#include "entrypoint/nic/nic_internal.h"
#include "entrypoint/rdma/ofed.h"
#include "entrypoint/rdma/peermem.h"
#include "entrypoint/role/modset.h"
#include "entrypoint/role/prove.h"
#include "module/running.h"

void nic_open_journal(struct nic *nic)
{
	_cleanup_journal_ struct journal journal = { 0 };
	int root_fd = nic->role.root_fd;
	struct error why = { 0 };

	if (journal_read(root_fd, &journal, &why) == -EBADMSG) {
		role_note(&nic->role, "%s: moved to /" JOURNAL_PATH ".damaged", why.text);
		if (renameat(root_fd, JOURNAL_PATH, root_fd, JOURNAL_PATH ".damaged") < 0)
			(void) unlinkat(root_fd, JOURNAL_PATH, 0);
	}
	/* For the exit message of a container that was killed before it could write it. */
	(void) !journal_set_list(root_fd, JOURNAL_OUTCOME, NULL, &why);
}

bool nic_is_unfinished(const void *role)
{
	const struct nic *nic = role;

	return journal_is_pending(nic->role.root_fd) || !nic_network_is_whole(role);
}

int nic_note_unfinished(struct action *action)
{
	const struct nic *nic = action->role;

	nic_note(action, "%s",
		!journal_is_pending(nic->role.root_fd) && nic_network_is_for_next_start(nic)
			? "devices or interfaces were still missing when an earlier start ended: "
			  "this one retries them"
			: "a previous run of this container was killed in the middle of a swap: "
			  "this one finishes it, or rolls it back");
	return 0;
}

bool nic_is_swapped(const void *role)
{
	const struct nic *nic = role;

	return nic->swap.same;
}

bool nic_dependents_are_done(const void *role)
{
	const struct nic *nic = role;
	enum phase phase = journal_phase(nic->role.root_fd);

	return nic->swap.same && (phase == PHASE_NONE || phase == PHASE_COMMITTED ||
					 phase == PHASE_RESTORING || nic_network_is_whole(nic));
}

bool nic_is_all_but_committed(const void *role)
{
	const struct nic *nic = role;

	return nic->swap.same && journal_is_pending(nic->role.root_fd) && nic_network_is_whole(nic);
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

/* ---- ours go */

/* Is what is loaded under that name a build that the host's own tree has? */
static bool is_hosts_build(struct swap_context *swap, const char *name)
{
	char build_id[BUILD_ID_HEX_SIZE];

	sysmodule_build_id(swap->root_fd, name, build_id);
	return module_is_on_host(&swap->lookup, name, build_id);
}

/*
 * Does a loaded module of that name belong to the driver? The kernel's own modules, which were
 * loaded along with it, do not: other processes may use them by now.
 */
static bool is_of_set(struct swap_context *swap, const char *name)
{
	if (strv_contains(&swap->role->driver_modules, name))
		return true;
	/*
	 * The image's other modules are the kernel's; those that it lacks are an earlier image's.
	 */
	return !swap_tree_has(swap, SWAP_IMAGE, name) && !is_hosts_build(swap, name);
}

/* Is any of the driver itself among what goes by the plan; @loaded: and is it there? */
static bool has_driver(const struct swap_context *swap, const struct swap_plan *plan, bool loaded)
{
	for (size_t i = 0; i < plan->go_count; i++)
		if (plan->go[i].part == SWAP_DRIVER &&
			(!loaded || sysmodule_exists(swap->root_fd, plan->go[i].name)))
			return true;
	return false;
}

/* Is what is loaded under that name the very build that was there before? */
static bool is_build_before(const struct swap_context *swap, const char *name)
{
	const struct swap_module *module = swap_plan_find(&swap->journal.pending, name);

	return module && swap_is_build(swap, module);
}

/*
 * Unloads those of the pending modules that are there and are ours, or at least not the build that
 * was there before: all of the image's set or none, as far as that can be known beforehand, with
 * all modules that hold them; then those that were loaded along with them.
 */
static int unload_ours(struct swap_context *swap, struct strv *removed)
{
	struct action *action = swap->action;
	struct swap_plan *pending = &swap->journal.pending;
	_cleanup_(swap_plan_free) struct swap_plan removal = { 0 };
	_cleanup_strv_ struct strv along = { 0 };
	_cleanup_strv_ struct strv set = { 0 };
	int root_fd = swap->root_fd;
	size_t before = pending->go_count;
	int r;

	for (size_t i = 0; i < pending->load.count; i++) {
		const char *name = pending->load.items[i];

		if (!swap_is_loaded(swap, name) ||
			(!swap_is_ours(swap, name) && is_build_before(swap, name)))
			continue;
		if (strv_push(is_of_set(swap, name) ? &set : &along, name) < 0)
			return nic_no_memory(action);
	}
	r = swap_plan_removal(action, &set, &removal);
	if (r < 0)
		return r;
	/* Modules that depend on ours by now go with them, and come back, too. */
	if (journal_merge_pending(pending, &removal, NULL) < 0)
		return nic_no_memory(action);
	if (pending->go_count > before) {
		r = journal_write(root_fd, &swap->journal, &action->error);
		if (r < 0)
			return action_reason(action, REASON_MOUNT_FAILED, r);
	}
	r = swap_unload_plan(swap, &removal, true, removed);
	/* One by one, for another process may use one by now: that one then stays. */
	for (size_t i = along.count; r == 0 && i-- > 0;) {
		const struct strv one = { .items = &along.items[i], .count = 1 };
		const struct unload unload = { .root_fd = root_fd, .modules = &one };
		struct error ignored;

		if (sysmodule_references(root_fd, along.items[i]) == 0)
			(void) unload_modules(&unload, action->worker, removed, &ignored);
	}
	return r;
}

/* ---- RESTORE_DRIVER_ON_POD_TERMINATION: the node's own modules become what is pending */

/* Not recorded: the host's modules of the names of ours are what was there. */
static int guess_own(struct swap_context *swap)
{
	const struct strv *set = &swap->role->driver_modules;
	struct swap_plan *own = &swap->journal.own;

	for (size_t i = 0; i < set->count; i++) {
		struct swap_module module = { .part = SWAP_DRIVER };

		if (!swap_is_ours(swap, set->items[i]))
			continue;
		(void) snprintf(module.name, sizeof(module.name), "%s", set->items[i]);
		if (swap_plan_add(own, &module) < 0 || strv_push(&own->load, module.name) < 0)
			return -ENOMEM;
	}
	return 0;
}

/*
 * Fills the pending swap. pending.load: every module that containers inserted in this boot and that
 * is loaded. pending.go: the node's own modules, which will come back; one that the host's tree has
 * in another build only (after a kernel's update, say) comes in that build. @set: the driver's of
 * the first; @names: the driver's of the second.
 */
static int list_restore(struct swap_context *swap, struct strv *set, struct strv *names)
{
	struct swap_plan *pending = &swap->journal.pending;
	const struct swap_plan *own = &swap->journal.own;
	_cleanup_strv_ struct strv lacking = { 0 };
	_cleanup_free_ char *text = NULL;

	for (size_t i = 0; i < own->load.count; i++) {
		const char *name = own->load.items[i];

		if (swap_is_loaded(swap, name) &&
			(strv_push(&pending->load, name) < 0 ||
				(is_of_set(swap, name) && strv_push(set, name) < 0)))
			return -ENOMEM;
	}
	for (size_t i = 0; i < own->go_count; i++) {
		struct swap_module module = own->go[i];

		if (!swap_tree_has(swap, SWAP_HOST, module.name)) {
			if (strv_push(&lacking, module.name) < 0)
				return -ENOMEM;
			continue;
		}
		if (!module_is_on_host(&swap->lookup, module.name, module.build_id))
			module.build_id[0] = '\0';
		if (swap_plan_add(pending, &module) < 0 ||
			(module.part == SWAP_DRIVER && strv_push(names, module.name) < 0))
			return -ENOMEM;
	}
	text = lacking.count ? strv_join(&lacking, ", ") : NULL;
	if (text)
		nic_note(swap->action, "the host has no %.600s: not reloaded", text);
	return 0;
}

/* Nothing is touched before the node's own modules are proven and entered as pending. */
static int restore_own(struct swap_context *swap)
{
	struct action *action = swap->action;
	const struct role *role = swap->role;
	struct journal *journal = &swap->journal;
	_cleanup_(swap_plan_free) struct swap_plan removal = { 0 };
	_cleanup_strv_ struct strv removed = { 0 };
	_cleanup_strv_ struct strv names = { 0 };
	_cleanup_strv_ struct strv gone = { 0 };
	_cleanup_strv_ struct strv set = { 0 };
	const struct prove_request request = {
		.prefix = role->host_root, .modules = &names, .gone = &gone
	};
	bool is_guessed = !journal_knows_own(journal);
	bool has_host = swap_tree(swap, SWAP_HOST, &action->error) != NULL;
	int r;

	if (is_guessed && guess_own(swap) < 0)
		return nic_no_memory(action);
	has_host |= !journal->own.go_count; /* then nothing of it is to come */
	if (has_host && list_restore(swap, &set, &names) < 0)
		return nic_no_memory(action);
	if (has_host && !set.count)
		return 0; /* what runs is the host's already */
	if (!has_host || (!names.count && has_driver(swap, &journal->own, false)))
		return action_fail(action, REASON_WILL_NOT_LOAD, -ENOENT,
			"%s is set, but %s/lib/modules/%s has none of the modules that were "
			"loaded before: OFED stays loaded; mount the host's /lib/modules there, "
			"or reboot the node",
			CONTRACT_ENV_RESTORE, role->host_root, role->krel);
	/* Ours go, and all modules that hold them, in order. Refused as for a start. */
	r = swap_plan_removal(action, &set, &removal);
	if (r < 0)
		return r;
	if (swap_plan_going(&removal, &gone) < 0)
		return nic_no_memory(action);
	r = names.count ? prove_tree(action, &request) : 0;
	if (r < 0)
		return error_prefix(&action->error, r,
			"the node's own modules could not be reloaded, so OFED stays loaded");
	if (journal_merge_pending(&journal->pending, &removal, NULL) < 0)
		return nic_no_memory(action);
	if (is_guessed)
		swap_plan_free(&journal->own);
	r = journal_write_phase(role->root_fd, journal, PHASE_ROLLBACK, &action->error);
	if (r < 0)
		return action_reason(action, REASON_MOUNT_FAILED, r);
	r = unload_ours(swap, &removed);
	/* No module could be unloaded: OFED stays the node's driver, and no swap is pending. */
	if (r < 0 && !removed.count) {
		journal_end(role->root_fd, false);
		peermem_allow(role->root_fd);
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
	if (nic_stays(role))
		return 0;
	/* Damaged: what was the node's own cannot be read, so ours stay. */
	if (swap.is_damaged)
		return action_reason(action, REASON_INTERNAL, -EBADMSG);
	if (!journal_is_pending(role->root_fd))
		return restore_own(&swap);
	/* Should the phase not be written, the journal has an earlier one, pending as well. */
	if (swap.journal.phase != PHASE_ROLLBACK)
		(void) !journal_write_phase(role->root_fd, &swap.journal, PHASE_ROLLBACK, &ignored);
	return unload_ours(&swap, &removed);
}

/*
 * ---- what was there before comes back: the very builds, else the host's, and at worst ours. First
 * the driver itself (SWAP_DRIVER), the others when that is back.
 */

/*
 * Unloads those of the driver's names that are loaded in another build: than was there before, or
 * (@of_host) than the host's tree has.
 */
static int unload_other_builds(struct swap_context *swap, bool of_host)
{
	const struct swap_plan *pending = &swap->journal.pending;
	_cleanup_strv_ struct strv removed = { 0 };
	_cleanup_strv_ struct strv others = { 0 };

	for (size_t i = 0; i < pending->go_count; i++) {
		const struct swap_module *module = &pending->go[i];
		char loaded[BUILD_ID_HEX_SIZE];
		bool is_other;

		if (module->part != SWAP_DRIVER || !sysmodule_exists(swap->root_fd, module->name))
			continue;
		sysmodule_build_id(swap->root_fd, module->name, loaded);
		is_other = of_host ? !module_is_on_host(&swap->lookup, module->name, loaded)
				   : *module->build_id && *loaded &&
					     strcmp(loaded, module->build_id) != 0;
		if (is_other && strv_push(&others, module->name) < 0)
			return nic_no_memory(swap->action);
	}
	return others.count ? swap_unload(swap, &others, true, &removed) : 0;
}

/* The very builds, last gone first. */
static int load_driver_exact(struct swap_context *swap, struct error *why)
{
	const struct swap_plan *pending = &swap->journal.pending;
	int first_failure;
	bool progress;
	int r;

	for (size_t i = 0; i < pending->go_count; i++) {
		const struct swap_module *module = &pending->go[i];
		_cleanup_free_ char *path = NULL;

		if (module->part == SWAP_DRIVER && *module->build_id &&
			!swap_is_build(swap, module) &&
			module_find(&swap->lookup, module->name, module->build_id, &path) < 0)
			return error_set(why, -ENOENT, "not all of their files were found");
	}
	/* Unload builds that the host's udev loaded meanwhile. */
	r = unload_other_builds(swap, false);
	if (r < 0) {
		*why = swap->action->error;
		return r;
	}
	/* Repeat: a module loaded since that kill may need one that comes later in this loop. */
	do {
		first_failure = 0;
		progress = false;
		for (size_t i = pending->go_count; i-- > 0;) {
			const struct swap_module *module = &pending->go[i];
			bool was_there = sysmodule_exists(swap->root_fd, module->name);
			struct error text = { 0 };

			if (module->part != SWAP_DRIVER)
				continue;
			r = 0;
			if (*module->build_id)
				r = swap_load(swap, SWAP_EXACT, module, &text);
			else if (!was_there) /* nothing but its name is known */
				r = swap_load(swap, SWAP_HOST, module, &text);
			progress |= !was_there && sysmodule_exists(swap->root_fd, module->name);
			if (r < 0 && !first_failure) {
				first_failure = r;
				*why = text;
			}
		}
	} while (first_failure && progress);
	return first_failure;
}

/* As many as come, with the parameters of the node's own set where that is known. */
static int load_driver_of_host(struct swap_context *swap, struct strv *missing)
{
	const struct swap_plan *own = &swap->journal.own;
	const struct swap_plan *set = has_driver(swap, own, false) ? own : &swap->journal.pending;

	/* Half of another set would be in the way. */
	if (unload_other_builds(swap, true) < 0)
		nic_note(swap->action, "%s", swap->action->error.text);
	for (size_t i = set->go_count; i-- > 0;) {
		const struct swap_module *module = &set->go[i];
		struct error why = { 0 };

		if (module->part == SWAP_DRIVER && !sysmodule_exists(swap->root_fd, module->name) &&
			swap_load(swap, SWAP_HOST, module, &why) < 0 &&
			strv_pushf(missing, "%s: %s", module->name, why.text) < 0)
			return -ENOMEM;
	}
	return 0;
}

/* A node with a driver that is not the one it had is better off than one with none. */
static void load_image_at_worst(struct swap_context *swap)
{
	const struct strv *load = &swap->journal.pending.load;
	struct error why = { 0 };
	struct loader *image = swap_tree(swap, SWAP_IMAGE, &why);

	for (size_t i = 0; image && i < load->count; i++) {
		enum reason ignored;

		if (loader_load(image, swap->action->worker, load->items[i], &ignored, &why) < 0)
			nic_note(swap->action, "%s", why.text);
	}
}

/* @outcome: for the exit message. */
static int load_driver(struct swap_context *swap, struct strv *missing, const char **outcome)
{
	struct action *action = swap->action;
	const struct journal *journal = &swap->journal;
	bool had_driver = has_driver(swap, &journal->pending, false);
	struct error why = { 0 };
	int r = load_driver_exact(swap, &why);

	*outcome = had_driver ? "the previous modules are loaded again"
			      : "no driver was loaded before, and none is now";
	if (r == 0)
		return 0;
	*outcome = "the host's own modules are loaded instead of the previous ones";
	nic_note(action,
		"not all previous modules could be reloaded (%.600s): loading the host's own "
		"instead",
		why.text);
	r = load_driver_of_host(swap, missing);
	if (r < 0 || !had_driver || has_driver(swap, &journal->pending, true) ||
		has_driver(swap, &journal->own, true))
		return r;
	nic_note(action,
		"none of the previous modules could be reloaded: loading the image's again, so "
		"that the node has a driver");
	load_image_at_worst(swap);
	*outcome = "none of the previous modules could be reloaded: reboot the node to get its own "
		   "driver back";
	return action_fail(action, REASON_LOAD_FAILED, -ENOENT,
		"none of the previous modules could be reloaded: %.600s; the image's were loaded "
		"as far as possible: reboot the node to get its own driver back",
		missing->count ? missing->items[0] : why.text);
}

/* The init reads it when all is undone. */
static void record_outcome(
	struct swap_context *swap, const char *outcome, const struct strv *missing)
{
	_cleanup_strv_ struct strv lines = { 0 };
	struct error ignored;

	if (strv_push(&lines, outcome) < 0)
		return;
	for (size_t i = 0; i < missing->count; i++)
		if (strv_pushf(&lines, "not reloaded: %s", missing->items[i]) < 0)
			return;
	(void) !journal_set_list(swap->root_fd, JOURNAL_OUTCOME, &lines, &ignored);
}

/* An OFED without the peer-memory interface has no fingerprint: then the journal knows. */
static bool is_ofed_loaded(const struct role *role, const struct journal *journal)
{
	const struct strv *inserted = &journal->own.load;
	int root_fd = role->root_fd;

	for (size_t i = 0; i < inserted->count; i++) {
		const char *name = inserted->items[i];

		/* Not what came along of the kernel's own. */
		if ((strv_contains(&role->driver_modules, name) ||
			    swap_plan_find(&journal->own, name)) &&
			sysmodule_exists(root_fd, name) && !sysmodule_is_built_in(root_fd, name))
			return true;
	}
	return fingerprint_is_there(root_fd);
}

int nic_report_outcome(struct action *action)
{
	struct role *role = action->role;
	_cleanup_journal_ struct journal journal = { 0 };
	_cleanup_free_ char *text = NULL;
	const struct strv *lines = &journal.lists[JOURNAL_OUTCOME];
	struct error why = role->plan.error;
	struct error ignored;

	(void) !journal_read(role->root_fd, &journal, &ignored);
	if (is_ofed_loaded(role, &journal))
		role->left_so = role->options.restore_inbox
					? "OFED is still loaded, although " CONTRACT_ENV_RESTORE
					  " is set: see the notes of this stop for the reason"
					: "OFED stays loaded, as " CONTRACT_ENV_RESTORE
					  " is not set; everything else is undone";
	if (!lines->count)
		return 0;
	text = role->plan.start_failed ? strv_join(lines, "; ") : NULL;
	if (text)
		(void) error_set(&role->plan.error, 0, "%.700s; %s", why.text, text);
	(void) !journal_set_list(role->root_fd, JOURNAL_OUTCOME, NULL, &action->error);
	return 0;
}

static int roll_back(struct swap_context *swap)
{
	const struct swap_plan *pending = &swap->journal.pending;
	_cleanup_strv_ struct strv missing = { 0 };
	int root_fd = swap->root_fd;
	bool own_is_back = true;
	const char *outcome;
	int r = load_driver(swap, &missing, &outcome);

	if (r < 0) {
		record_outcome(swap, outcome, &missing);
		return action_reason(swap->action, REASON_LOAD_FAILED, r);
	}
	if (swap_load_dependents(swap, false, &missing) < 0)
		return nic_no_memory(swap->action);
	record_outcome(swap, outcome, &missing);
	role_list_remove(swap->role, ROLE_PARAMETERS_LIST);
	swap_release_device_folder(swap);
	kill_point("swap:back");
	/* All of the driver that is there is the node's own: no container's is left. */
	for (size_t i = 0; i < pending->go_count; i++) {
		const struct swap_module *module = &pending->go[i];
		char loaded[BUILD_ID_HEX_SIZE];

		sysmodule_build_id(root_fd, module->name, loaded);
		if (module->part == SWAP_DRIVER && *loaded &&
			!module_is_on_host(&swap->lookup, module->name, loaded))
			own_is_back = false;
	}
	journal_end(root_fd, own_is_back);
	/* A process that waits for OFED finds what was there. */
	peermem_allow(root_fd);
	return 0;
}

int nic_swap_out_undo(struct action *action)
{
	_cleanup_(swap_close) struct swap_context swap = { 0 };
	const struct strv *load = &swap.journal.pending.load;
	int root_fd = nic_of(action->role)->role.root_fd;
	bool ours_remain = false;
	struct error ignored;
	int r;

	if (!journal_is_pending(root_fd))
		return 0;
	(void) !journal_enter(root_fd, PHASE_ROLLBACK, NULL, &ignored);
	r = swap_open(&swap, action);
	if (r < 0)
		return r;
	/* Does a module that we loaded stand where another build was before? */
	for (size_t i = 0; !ours_remain && i < load->count; i++)
		ours_remain = swap_is_ours(&swap, load->items[i]) &&
			      is_of_set(&swap, load->items[i]) &&
			      !is_build_before(&swap, load->items[i]);
	if (!ours_remain)
		return roll_back(&swap);
	/* They could not be unloaded, or were not because the network is not saved. */
	nic_note(action, "some or all of the image's modules are still loaded: they stay, and the "
			 "unloaded ones are loaded again");
	load_image_at_worst(&swap);
	swap_release_device_folder(&swap);
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

int nic_recover_unload(struct action *action)
{
	struct nic *nic = action->role;
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

int nic_recover_load(struct action *action)
{
	struct nic *nic = action->role;
	bool was_pending = journal_is_pending(nic->role.root_fd);
	struct action network = *action;
	int r = 0;
	int n;

	adopt_pending(nic);
	if (was_pending) {
		r = nic_swap_out_undo(action);
		(void) nic_unblock(action);
	}
	/* It is not known when there will be a next start, or one that comes so far. */
	n = was_pending || nic->role.plan.start_failed ? nic_network_give_back(&network)
						       : nic_network_save_undo(&network);
	if (r == 0 && n < 0) {
		*action = network;
		r = n;
	}
	return r;
}
