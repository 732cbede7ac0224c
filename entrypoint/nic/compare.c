/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What runs beside what the image has, and what has to go so that the image's modules can come:
 * worked out from what the kernel says, before anything is touched.
 */
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "common/fs.h"
#include "entrypoint/contract.h"
#include "entrypoint/nic/nic_internal.h"
#include "entrypoint/rdma/peermem.h"
#include "entrypoint/role/modset.h"
#include "entrypoint/role/parameters.h"
#include "entrypoint/role/role.h"
#include "module/elf.h"
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
	int root_fd;
	struct loader *loader; /* of the image's tree */
	struct strv recorded;  /* what an earlier start loaded its modules with; may be empty */
	struct strv differ;    /* of the image's set, loaded, and to be replaced */
	struct strv going;     /* those and their holders, in order of removal */
	struct swap_plan *plan;
};

static void making_done(struct making *making)
{
	strv_free(&making->recorded);
	strv_free(&making->differ);
	strv_free(&making->going);
}

/* The failure of what a helper returns @code for, with its message where it has left one. */
static int fail(struct action *action, int code)
{
	return code < 0 && !*action->error.text
		       ? action_fail(action, REASON_INTERNAL, code, "%s", strerror(-code))
		       : action_reason(action, REASON_INTERNAL, code);
}

/* ---- one module */

static int compare_builds(
	const struct making *making, const char *module, bool *ret_same, struct error *why)
{
	_cleanup_(elf_module_close) struct elf_module *file = NULL;
	_cleanup_free_ char *path = NULL;
	int r = loader_file(making->loader, module, &path, why);

	if (r == 0)
		r = elf_module_open_brief(making->root_fd, path, &file, why);
	if (r == 0)
		*ret_same = loaded_compare(making->root_fd, module, file) == LOADED_SAME;
	return r;
}

/* bool parameters show Y or N for whatever they were given (Linux kernel/params.c). */
static int truth(const char *value)
{
	if (strcasecmp(value, "y") == 0 || strcmp(value, "1") == 0 || strcasecmp(value, "on") == 0)
		return 1;
	if (strcasecmp(value, "n") == 0 || strcmp(value, "0") == 0 || strcasecmp(value, "off") == 0)
		return 0;
	return -1;
}

static bool is_same_number(const char *one, const char *other)
{
	char *one_end;
	char *other_end;
	long long one_value = strtoll(one, &one_end, 0);
	long long other_value = strtoll(other, &other_end, 0);

	return *one && *other && !*one_end && !*other_end && one_value == other_value;
}

static bool is_same_value(const char *wanted, const char *shown)
{
	size_t length = strlen(wanted);

	if (length >= 2 && wanted[0] == '"' && wanted[length - 1] == '"')
		return strlen(shown) == length - 2 && strncmp(wanted + 1, shown, length - 2) == 0;
	return strcmp(wanted, shown) == 0 || is_same_number(wanted, shown) ||
	       (truth(wanted) >= 0 && truth(wanted) == truth(shown));
}

/* What the kernel does not show is taken for the same. @fixed: only what nobody can have written.
 */
static bool shows(const struct making *making, const char *module, const char *word, bool fixed,
	struct error *why)
{
	const char *value = strchr(word, '=');
	_cleanup_free_ char *shown = NULL;
	struct stat status;
	char path[PATH_MAX];

	(void) snprintf(path, sizeof(path), "sys/module/%s/parameters/%.*s", module,
		(int) strcspn(word, "="), word);
	for (char *dash = path + strlen("sys/module/"); (dash = strchr(dash, '-'));)
		*dash = '_';
	if (fstatat(making->root_fd, path, &status, 0) < 0 || (fixed && status.st_mode & 0222))
		return true;
	if (fs_read_line(making->root_fd, path, &shown) < 0 ||
		is_same_value(value ? value + 1 : "1", shown))
		return true;
	(void) error_set(why, 0, "%s runs with %.*s=%.64s and shall have \"%.200s\"", module,
		(int) strcspn(word, "="), word, shown, word);
	return false;
}

static int compare_shown(const struct making *making, const char *module, const char *options,
	bool fixed, bool *ret_same, struct error *why)
{
	_cleanup_strv_ struct strv words = { 0 };
	struct error ignored;

	*ret_same = true;
	/* Words that are none: the kernel judges them when it comes to that. */
	if (parameter_split(options, module, &words, &ignored) == -ENOMEM)
		return error_set_errno(why, -ENOMEM, "%s", module);
	for (size_t i = 0; *ret_same && i < words.count; i++)
		*ret_same = shows(making, module, words.items[i], fixed, why);
	return 0;
}

static int compare_parameters(
	const struct making *making, const char *module, bool *ret_same, struct error *why)
{
	const char *then = role_parameters_find(&making->recorded, module);
	_cleanup_free_ char *now = NULL;
	int r = loader_options(making->loader, module, &now, why);

	if (r < 0)
		return r;
	if (then && strcmp(then, now) != 0) {
		*ret_same = false;
		(void) error_set(why, 0, "%s was loaded with \"%.300s\" and shall have \"%.300s\"",
			module, then, now);
		return 0;
	}
	return compare_shown(making, module, now, then != NULL, ret_same, why);
}

/*
 * Is another build of it loaded than the image's, or the image's with other parameters? A module is
 * known by its build id; where the running one or the file has none, by its srcversion; where
 * neither can be compared it is another one. Its parameters are the same when it was loaded with
 * the words that modprobe.d has now, or where nobody recorded that, when the kernel shows those
 * values. What a person wrote into /sys since does not count. @why says what differs.
 */
static int compare_module(
	const struct making *making, const char *module, bool *ret_differs, struct error *why)
{
	bool same = false;
	int r = 0;

	*ret_differs = false;
	if (!sysmodule_exists(making->root_fd, module))
		return 0;
	*ret_differs = true;
	if (!sysmodule_is_built_in(making->root_fd, module))
		r = compare_builds(making, module, &same, why);
	if (r < 0) /* a file that cannot be read: the load proof judges it */
		return r == -ENOMEM ? r : 0;
	if (!same) {
		(void) error_set(
			why, 0, "the %s that runs is another build than the image's", module);
		return 0;
	}
	r = compare_parameters(making, module, &same, why);
	*ret_differs = !same;
	return r;
}

/* ---- the plan */

static int push_nfsrdma(struct action *action, struct strv *names)
{
	const struct nic *nic = nic_of_const(action->role);

	if (!nic->inputs.nfsrdma)
		return 0;
	if (strv_contains(&nic->role.driver_modules, NIC_NFSRDMA_MODULE))
		return strv_push_unique(names, NIC_NFSRDMA_MODULE);
	nic_note(action,
		"%s is asked for, but the image has no %s for this kernel: build it with an OFED "
		"that has it",
		CONTRACT_ENV_NFSRDMA, NIC_NFSRDMA_MODULE);
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
	return fail(action, r);
}

static int list_load(struct making *making)
{
	struct action *action = making->action;
	_cleanup_strv_ struct strv names = { 0 };
	int r = nic_module_list(action, &names);

	if (r < 0)
		return r;
	for (size_t i = 0; r == 0 && i < names.count; i++)
		r = loader_resolve(
			making->loader, names.items[i], &making->plan->load, &action->error);
	return fail(action, r);
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
		r = sysmodule_holders(making->root_fd, load->items[i], &holders);
		*ret = r == 0 && strv_contains(&holders, module);
	}
	return r;
}

static int compare_one(struct making *making, const char *module)
{
	struct error why = { "" };
	bool concerned = false;
	bool differs = false;
	int r = concerns(making, module, &concerned);

	if (r < 0 || !concerned)
		return r;
	r = compare_module(making, module, &differs, &why);
	if (r < 0 || !differs)
		return r;
	if (*why.text)
		nic_note(making->action, "%s", why.text);
	return may_stay(making, module) ? 0 : strv_push(&making->differ, module);
}

/* Holders first: depth-first over them. */
static int visit(struct making *making, const char *module)
{
	int root_fd = making->root_fd;
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
	int r = parameters_now(making->root_fd, module, &options);

	(void) snprintf(one.name, sizeof(one.name), "%s", module);
	sysmodule_build_id(making->root_fd, module, one.build_id);
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
	return fail(making->action, r);
}

static bool is_all_live(const struct making *making)
{
	const struct strv *load = &making->plan->load;

	for (size_t i = 0; i < load->count; i++)
		if (!sysmodule_is_live(making->root_fd, load->items[i]))
			return false;
	return true;
}

static int make(struct making *making)
{
	const struct strv *set = &making->nic->role.driver_modules;
	struct action *action = making->action;
	struct swap_plan *plan = making->plan;
	int r = list_load(making);

	if (r < 0)
		return r;
	/* Every module of the set, not only what is to be loaded. */
	for (size_t i = 0; i < set->count; i++) {
		r = compare_one(making, set->items[i]);
		if (r < 0)
			return fail(action, r);
	}
	plan->same = !making->differ.count && is_all_live(making);
	if (plan->same)
		return 0;
	r = list_going(making);
	if (r < 0)
		return r;
	/* Of the image's set, and loaded until now by whomever: nobody else brings it back. */
	for (size_t i = 0; i < plan->go_count; i++) {
		if (plan->go[i].part != SWAP_OURS)
			continue;
		r = loader_resolve(making->loader, plan->go[i].name, &plan->load, &action->error);
		if (r < 0)
			return fail(action, r);
	}
	return nic_refuse(action, plan);
}

int swap_plan_make(struct action *action, struct loader *loader, struct swap_plan *plan)
{
	const struct role *role = action->role;
	_cleanup_(making_done) struct making making = {
		.action = action,
		.nic = nic_of_const(role),
		.root_fd = role->root_fd,
		.loader = loader,
		.plan = plan,
	};
	int r = role_list_read(role, ROLE_PARAMETERS_LIST, &making.recorded);

	if (r < 0 && r != -ENOENT)
		return action_fail(action, REASON_MOUNT_FAILED, r,
			"/%s/%s." ROLE_PARAMETERS_LIST ": %s", role->state_folder, role->name,
			strerror(-r));
	return make(&making);
}

int swap_plan_removal(struct action *action, const struct strv *modules, struct swap_plan *plan)
{
	const struct role *role = action->role;
	_cleanup_(making_done) struct making making = {
		.action = action,
		.nic = nic_of_const(role),
		.root_fd = role->root_fd,
		.plan = plan,
	};
	int r;

	for (size_t i = 0; i < modules->count; i++)
		if (strv_push(&making.differ, modules->items[i]) < 0 ||
			strv_push(&plan->load, modules->items[i]) < 0)
			return fail(action, -ENOMEM);
	r = list_going(&making);
	return r < 0 ? r : nic_refuse(action, plan);
}

int nic_compare(struct action *action)
{
	const struct role *role = action->role;
	_cleanup_journal_ struct journal journal = { 0 };
	_cleanup_(loader_close) struct loader *loader = NULL;
	int r = journal_read(role->root_fd, &journal, &action->error);

	if (r == 0)
		r = loader_open(role->root_fd, "", role->krel, &loader, &action->error);
	if (r < 0)
		return action_reason(action, REASON_INTERNAL, r);
	swap_plan_free(&journal.plan);
	r = swap_plan_make(action, loader, &journal.plan);
	return r < 0 ? r
		     : action_reason(action, REASON_MOUNT_FAILED,
			       journal_write(role->root_fd, &journal, &action->error));
}

int nic_adopt_plan(struct action *action)
{
	_cleanup_journal_ struct journal journal = { 0 };
	struct nic *nic = nic_of(action->role);
	struct log *log = &nic->role.log;

	if (journal_read(nic->role.root_fd, &journal, &action->error) < 0)
		return action_reason(action, REASON_INTERNAL, -EIO);
	swap_plan_free(&nic->swap);
	nic->swap = journal.plan;
	journal.plan = (struct swap_plan){ .same = false };
	if (nic->swap.same)
		log_event(log, "note", log->step, 0, REASON_NONE,
			"what runs is what this image would load, with the same parameters: nothing "
			"is touched");
	return 0;
}
