/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/nic/swap_make.h"

#include <string.h>

#include "entrypoint/contract.h"
#include "entrypoint/role/parameters_now.h"
#include "entrypoint/nic/compare.h"
#include "entrypoint/nic/refusals.h"
#include "entrypoint/rdma/release.h"
#include "entrypoint/role/role_list.h"
#include "entrypoint/role/role_parameters.h"
#include "module/sysmodule.h"

/*
 * What OFED's own start script loads; libkmod adds what they depend on. The RDMA core comes before
 * mlx5_core, whose devices make udev ask for mlx5_ib: it would bring the host's core otherwise.
 */
static const char nic_modules[] = "ib_uverbs ib_umad rdma_ucm mlx5_core mlx5_ib ib_ipoib rdma_cm";

/* Everything that one comparison holds on to. */
struct making {
	struct action *action;
	const struct nic *nic;
	struct comparison comparison;
	struct strv recorded;
	struct strv differ; /* of the image's set, loaded, and to be replaced */
	struct strv going;  /* those and their holders, in order of removal */
	struct swap_plan *plan;
};

static void making_done(struct making *making)
{
	strv_free(&making->recorded);
	strv_free(&making->differ);
	strv_free(&making->going);
}

static void tell(const struct action *action, const struct error *text)
{
	if (action->worker && *text->text)
		worker_report(action->worker, WORKER_NOTE, 0, "%s", text->text);
}

static int no_memory(struct action *action, int code)
{
	return code < 0 && !*action->error.text
		       ? action_fail(action, REASON_INTERNAL, code, "%s", strerror(-code))
		       : action_reason(action, REASON_INTERNAL, code);
}

static int push_nfsrdma(struct action *action, struct strv *names)
{
	const struct nic *nic = nic_of_const(action->role);
	struct error note;

	if (!nic->inputs.nfsrdma)
		return 0;
	if (strv_contains(&nic->role.driver_modules, NIC_NFSRDMA_MODULE))
		return strv_push_unique(names, NIC_NFSRDMA_MODULE);
	(void) error_set(&note, 0,
		"%s is asked for, but the image has no %s for this kernel: build it with an OFED "
		"that has it",
		CONTRACT_ENV_NFSRDMA, NIC_NFSRDMA_MODULE);
	tell(action, &note);
	return 0;
}

int nic_module_list(struct action *action, struct strv *names)
{
	const struct role *role = action->role;
	_cleanup_strv_ struct strv all = { 0 };
	int r = strv_split(&all, *role->image.modules ? role->image.modules : nic_modules, " ");

	for (size_t i = 0; r == 0 && i < all.count; i++) {
		if (strv_contains(&role->driver_modules, all.items[i]))
			r = strv_push_unique(names, all.items[i]);
		else if (i == 0)
			return action_fail(action, REASON_WILL_NOT_LOAD, -ENOENT,
				"the image has no module %s for %s: build it again with slipway "
				"build --kernel %s",
				all.items[i], role->krel, role->krel);
	}
	if (r == 0)
		r = push_nfsrdma(action, names);
	return no_memory(action, r);
}

static int list_load(struct making *making)
{
	struct action *action = making->action;
	_cleanup_strv_ struct strv names = { 0 };
	int r = nic_module_list(action, &names);

	if (r < 0)
		return r;
	for (size_t i = 0; r == 0 && i < names.count; i++)
		r = loader_resolve(making->comparison.loader, names.items[i], &making->plan->load,
			&action->error);
	return no_memory(action, r);
}

static enum swap_part part_of(const struct making *making, const char *module)
{
	const struct nic_inputs *inputs = &making->nic->inputs;

	if (strcmp(module, PEERMEM_MODULE) == 0)
		return SWAP_PEERMEM;
	if (strv_contains(&making->plan->load, module))
		return SWAP_OURS;
	if (strv_contains(&inputs->storage, module))
		return SWAP_STORAGE;
	if (strv_contains(&inputs->third_party, module))
		return SWAP_THIRD_PARTY;
	if (strv_contains(&inputs->auxiliary, module))
		return SWAP_AUXILIARY;
	return strv_contains(&making->nic->role.driver_modules, module) ? SWAP_OURS : SWAP_OTHER;
}

/*
 * One that nobody asks for and that may not go is no reason to refuse by itself: what it runs on
 * stays.
 */
static bool may_stay(const struct making *making, const char *module)
{
	const struct nic_inputs *inputs = &making->nic->inputs;
	enum swap_part part = part_of(making, module);

	return (part == SWAP_STORAGE && !inputs->unload_storage) ||
	       (part == SWAP_THIRD_PARTY && !inputs->unload_third_party);
}

/*
 * Is it to be loaded, or does it lean on what is? A set may bring more: NVMe's own driver, say,
 * which the node's root disk may run on. That is nobody's to replace who was not asked to.
 */
static int concerns(const struct making *making, const char *module, bool *ret)
{
	const struct strv *load = &making->plan->load;
	int r = 0;

	*ret = strv_contains(load, module);
	for (size_t i = 0; r == 0 && !*ret && i < load->count; i++) {
		_cleanup_strv_ struct strv holders = { 0 };

		if (!strv_contains(&making->nic->role.driver_modules, load->items[i]))
			continue;
		r = sysmodule_holders(making->comparison.root_fd, load->items[i], &holders);
		*ret = r == 0 && strv_contains(&holders, module);
	}
	return r;
}

static int compare_one(struct making *making, const char *module)
{
	struct error why = { "" };
	enum compare verdict;
	bool concerned = false;
	int r = concerns(making, module, &concerned);

	if (r < 0 || !concerned)
		return r;
	r = compare_module(&making->comparison, module, &verdict, &why);
	if (r < 0 || verdict == COMPARE_ABSENT || verdict == COMPARE_SAME)
		return r;
	tell(making->action, &why);
	return may_stay(making, module) ? 0 : strv_push(&making->differ, module);
}

/* Every module of the set, not only what is to be loaded. */
static int list_differing(struct making *making)
{
	const struct strv *set = &making->nic->role.driver_modules;
	int r = 0;

	for (size_t i = 0; r == 0 && i < set->count; i++)
		r = compare_one(making, set->items[i]);
	return no_memory(making->action, r);
}

/* Holders first: depth-first over them. */
static int visit(struct making *making, const char *module)
{
	int root_fd = making->comparison.root_fd;
	_cleanup_strv_ struct strv holders = { 0 };
	int r;

	if (strv_contains(&making->going, module) || !sysmodule_exists(root_fd, module))
		return 0;
	r = sysmodule_holders(root_fd, module, &holders);
	for (size_t i = 0; r == 0 && i < holders.count; i++)
		r = visit(making, holders.items[i]);
	return r < 0 ? r : strv_push(&making->going, module);
}

static int add_going(struct making *making, const char *module)
{
	_cleanup_free_ char *options = NULL;
	struct swap_module one = { .part = part_of(making, module) };
	int r = parameters_now(making->comparison.root_fd, module, &options);

	(void) snprintf(one.name, sizeof(one.name), "%s", module);
	sysmodule_build_id(making->comparison.root_fd, module, one.build_id);
	one.options = options;
	return r < 0 ? r : swap_plan_add(making->plan, &one);
}

/* nvidia_peermem holds OFED, and is asked before anything else goes. */
static int list_going(struct making *making)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < making->differ.count; i++)
		r = visit(making, making->differ.items[i]);
	if (r == 0 && strv_contains(&making->going, PEERMEM_MODULE))
		r = add_going(making, PEERMEM_MODULE);
	for (size_t i = 0; r == 0 && i < making->going.count; i++)
		if (strcmp(making->going.items[i], PEERMEM_MODULE) != 0)
			r = add_going(making, making->going.items[i]);
	return no_memory(making->action, r);
}

/* Of the image's set, and loaded until now by whomever: nobody else brings it back. */
static int list_returning(struct making *making)
{
	struct action *action = making->action;
	const struct swap_plan *plan = making->plan;
	int r = 0;

	for (size_t i = 0; r == 0 && i < plan->go_count; i++)
		if (plan->go[i].part == SWAP_OURS)
			r = loader_resolve(making->comparison.loader, plan->go[i].name,
				&making->plan->load, &action->error);
	return no_memory(action, r);
}

static bool is_all_live(const struct making *making)
{
	const struct strv *load = &making->plan->load;

	for (size_t i = 0; i < load->count; i++)
		if (!sysmodule_is_live(making->comparison.root_fd, load->items[i]))
			return false;
	return true;
}

static int make(struct making *making)
{
	int r = list_load(making);

	if (r == 0)
		r = list_differing(making);
	if (r < 0)
		return r;
	making->plan->same = !making->differ.count && is_all_live(making);
	if (making->plan->same)
		return 0;
	r = list_going(making);
	if (r == 0)
		r = list_returning(making);
	return r < 0 ? r : refusals_check(making->action, making->plan);
}

int swap_plan_make(struct action *action, struct loader *loader, struct swap_plan *plan)
{
	const struct role *role = action->role;
	_cleanup_(making_done) struct making making = {
		.action = action,
		.nic = nic_of_const(role),
		.plan = plan,
	};
	int r = role_list_read(role, ROLE_PARAMETERS_LIST, &making.recorded);

	if (r < 0 && r != -ENOENT)
		return action_fail(action, REASON_MOUNT_FAILED, r,
			"/%s/%s." ROLE_PARAMETERS_LIST ": %s", role->state_folder, role->name,
			strerror(-r));
	making.comparison = (struct comparison){ role->root_fd, loader, &making.recorded };
	return make(&making);
}

int swap_plan_removal(struct action *action, const struct strv *modules, struct swap_plan *plan)
{
	const struct role *role = action->role;
	_cleanup_(making_done) struct making making = {
		.action = action,
		.nic = nic_of_const(role),
		.comparison = { .root_fd = role->root_fd },
		.plan = plan,
	};
	int r = 0;

	for (size_t i = 0; r == 0 && i < modules->count; i++) {
		r = strv_push(&making.differ, modules->items[i]);
		if (r == 0)
			r = strv_push(&plan->load, modules->items[i]);
	}
	r = r < 0 ? no_memory(action, r) : list_going(&making);
	return r < 0 ? r : refusals_check(action, plan);
}

int nic_compare(struct action *action)
{
	const struct role *role = action->role;
	_cleanup_(swap_plan_free) struct swap_plan plan = { .same = false };
	_cleanup_(loader_close) struct loader *loader = NULL;
	int r = loader_open(role->root_fd, "", role->krel, &loader, &action->error);

	if (r < 0)
		return action_reason(action, REASON_INTERNAL, r);
	r = swap_plan_make(action, loader, &plan);
	return r < 0 ? r
		     : action_reason(action, REASON_MOUNT_FAILED,
			       swap_plan_write(
				       role->root_fd, NIC_PLAN_PATH, &plan, &action->error));
}

int nic_adopt_plan(struct action *action)
{
	struct nic *nic = nic_of(action->role);
	struct log *log = &nic->role.log;

	swap_plan_free(&nic->swap);
	if (swap_plan_read(nic->role.root_fd, NIC_PLAN_PATH, &nic->swap, &action->error) < 0)
		return action_reason(action, REASON_INTERNAL, -EIO);
	if (nic->swap.same)
		log_event(log, "note", log->step, 0, REASON_NONE,
			"what runs is what this image would load, with the same parameters: nothing "
			"is touched");
	return 0;
}
