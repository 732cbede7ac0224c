/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares the modules that run with the image's: which have to go so that the image's can come,
 * and what keeps them from going. It uses what the kernel shows, before anything is touched.
 */
#include <glob.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "common/fs.h"
#include "entrypoint/contract.h"
#include "entrypoint/nic/nic_internal.h"
#include "entrypoint/rdma/peermem.h"
#include "entrypoint/role/modset.h"
#include "entrypoint/role/parameters.h"
#include "entrypoint/role/processes.h"
#include "module/running.h"

struct comparison {
	struct action *action;
	const struct nic *nic;
	int root_fd;
	struct loader *loader;       /* of the image's tree */
	const struct strv *recorded; /* what an earlier start loaded its modules with */
	struct swap_plan *plan;
};

/* ---- one module */

/* bool parameters show Y or N for whatever they were given (Linux kernel/params.c). */
static int bool_value(const char *value)
{
	if (strcasecmp(value, "y") == 0 || strcmp(value, "1") == 0 || strcasecmp(value, "on") == 0)
		return 1;
	if (strcasecmp(value, "n") == 0 || strcmp(value, "0") == 0 || strcasecmp(value, "off") == 0)
		return 0;
	return -1;
}

static bool is_same_value(const char *wanted, const char *shown)
{
	size_t length = strlen(wanted);
	char *wanted_end, *shown_end;
	long long wanted_number = strtoll(wanted, &wanted_end, 0);
	long long shown_number = strtoll(shown, &shown_end, 0);

	if (length >= 2 && wanted[0] == '"' && wanted[length - 1] == '"')
		return strlen(shown) == length - 2 && strncmp(wanted + 1, shown, length - 2) == 0;
	if (*wanted && *shown && !*wanted_end && !*shown_end && wanted_number == shown_number)
		return true;
	return strcmp(wanted, shown) == 0 ||
	       (bool_value(wanted) >= 0 && bool_value(wanted) == bool_value(shown));
}

/* Parameters that the kernel does not show count as the same. @fixed: so do writable ones. */
static bool shows_parameter(
	const struct comparison *comparison, const char *module, const char *word, bool fixed)
{
	const char *value = strchr(word, '=');
	_cleanup_free_ char *shown = NULL;
	struct stat status;
	char path[PATH_MAX];

	(void) snprintf(path, sizeof(path), "sys/module/%s/parameters/%.*s", module,
		(int) strcspn(word, "="), word);
	for (char *dash = path + strlen("sys/module/"); (dash = strchr(dash, '-'));)
		*dash = '_';
	if (fstatat(comparison->root_fd, path, &status, 0) < 0 ||
		(fixed && status.st_mode & 0222) ||
		fs_read_line(comparison->root_fd, path, &shown) < 0 ||
		is_same_value(value ? value + 1 : "1", shown))
		return true;
	nic_note(comparison->action, "%s runs with %.*s=%.64s, but modprobe.d has \"%.200s\"",
		module, (int) strcspn(word, "="), word, shown, word);
	return false;
}

/*
 * 1 when they differ: it was loaded with other words than modprobe.d has now, or where that was not
 * recorded, the kernel shows other values. What a person wrote into /sys since does not count.
 */
static int compare_parameters(const struct comparison *comparison, const char *module)
{
	const char *then = role_parameters_find(comparison->recorded, module);
	struct action *action = comparison->action;
	_cleanup_strv_ struct strv words = { 0 };
	_cleanup_free_ char *now = NULL;
	struct error ignored;
	int r = loader_options(comparison->loader, module, &now, &action->error);

	if (r < 0)
		return action_reason(action, REASON_INTERNAL, r);
	if (then && strcmp(then, now) != 0) {
		nic_note(action, "%s: parameters changed from \"%.300s\" to \"%.300s\"", module,
			then, now);
		return 1;
	}
	/* Words that are none: the kernel judges them when it comes to that. */
	if (parameter_split(now, module, &words, &ignored) == -ENOMEM)
		return nic_no_memory(action);
	for (size_t i = 0; i < words.count; i++)
		if (!shows_parameter(comparison, module, words.items[i], then != NULL))
			return 1;
	return 0;
}

/*
 * 1 when another build of it is loaded than the image's, or the image's with other parameters,
 * which is reported. Where the builds cannot be compared it is another one.
 */
static int compare_module(const struct comparison *comparison, const char *module)
{
	struct action *action = comparison->action;
	enum loaded build = LOADED_OTHER;
	struct error why = { 0 };
	int r = 0;

	if (!sysmodule_exists(comparison->root_fd, module))
		return 0;
	if (!sysmodule_is_built_in(comparison->root_fd, module))
		r = loader_compare(comparison->loader, module, &build, &why);
	if (r == -ENOMEM)
		return nic_no_memory(action);
	if (r == 0 && build == LOADED_SAME)
		return compare_parameters(comparison, module);
	/* A file that cannot be read: the load proof judges it. */
	if (r < 0)
		nic_note(action, "%s", why.text);
	else
		nic_note(action, "the loaded %s is not the image's build", module);
	return 1;
}

/* ---- the plan */

/*
 * Lists the modules to load, as far as the image has them: those that its image.conf names, else
 * those that OFED's own start script loads; and those of ENABLE_NFSRDMA. Every driver needs the
 * first of them.
 */
static int list_load(struct comparison *comparison)
{
	const struct role *role = &comparison->nic->role;
	const struct strv *set = &role->driver_modules;
	struct action *action = comparison->action;
	_cleanup_strv_ struct strv names = { 0 };

	if (strv_split(&names, *role->image.modules ? role->image.modules : IMAGE_CONF_NIC_MODULES,
		    " ") < 0)
		return nic_no_memory(action);
	if (names.count && !strv_contains(set, names.items[0]))
		return action_fail(action, REASON_WILL_NOT_LOAD, -ENOENT,
			"the image has no module %s for %s: build it again with slipway build "
			"--kernel %s",
			names.items[0], role->krel, role->krel);
	if (comparison->nic->inputs.nfsrdma && strv_push(&names, NIC_NFSRDMA_MODULE) < 0)
		return nic_no_memory(action);
	if (comparison->nic->inputs.nfsrdma && !strv_contains(set, NIC_NFSRDMA_MODULE))
		nic_note(action, "%s is set, but the image has no %s for this kernel: %s",
			CONTRACT_ENV_NFSRDMA, NIC_NFSRDMA_MODULE,
			comparison->nic->inputs.mode == NIC_SOURCES
				? "its OFED source has no NFS over RDMA"
				: "slipway build --nfsrdma makes one that has it");
	for (size_t i = 0; i < names.count; i++) {
		int r = 0;

		if (strv_contains(set, names.items[i]))
			r = loader_resolve(comparison->loader, names.items[i],
				&comparison->plan->load, &action->error);
		if (r < 0)
			return action_reason(action, REASON_INTERNAL, r);
	}
	return 0;
}

static enum swap_part part_of(const struct comparison *comparison, const char *module)
{
	const struct nic_inputs *inputs = &comparison->nic->inputs;

	if (strcmp(module, PEERMEM_MODULE) == 0)
		return SWAP_PEERMEM;
	if (strv_contains(&comparison->plan->load, module))
		return SWAP_DRIVER;
	if (strv_contains(&inputs->storage, module))
		return SWAP_STORAGE;
	if (strv_contains(&inputs->third_party, module))
		return SWAP_THIRD_PARTY;
	if (strv_contains(&inputs->auxiliary, module))
		return SWAP_AUXILIARY;
	return strv_contains(&comparison->nic->role.driver_modules, module) ? SWAP_DRIVER
									    : SWAP_OTHER;
}

static int list_holders(struct action *action, const char *module, struct strv *holders)
{
	const struct role *role = action->role;
	int r = sysmodule_holders(role->root_fd, module, holders);

	return r < 0 ? action_fail(action, REASON_INTERNAL, r, "/sys/module/%s/holders: %s", module,
			       strerror(-r))
		     : 0;
}

/*
 * Compares only the modules of the set that are to be loaded, or that hold one of those. A set may
 * contain more: NVMe's own driver, say, which the node's root disk may run on. That is not replaced
 * unasked.
 */
static int list_differing(struct comparison *comparison, struct strv *differ)
{
	const struct nic_inputs *inputs = &comparison->nic->inputs;
	const struct strv *set = &comparison->nic->role.driver_modules;
	const struct strv *load = &comparison->plan->load;
	struct action *action = comparison->action;
	_cleanup_strv_ struct strv concerned = { 0 };

	if (nic_push_all(&concerned, load) < 0)
		return nic_no_memory(action);
	for (size_t i = 0; i < load->count; i++)
		if (strv_contains(set, load->items[i])) {
			int r = list_holders(action, load->items[i], &concerned);

			if (r < 0)
				return r;
		}
	for (size_t i = 0; i < set->count; i++) {
		const char *module = set->items[i];
		enum swap_part part;
		int r;

		if (!strv_contains(&concerned, module))
			continue;
		r = compare_module(comparison, module);
		if (r < 0)
			return r;
		/* A module that may not be unloaded, and differs, does not fail the start: it keeps
		 * running unless a module that it depends on is replaced (nic_refuse()). */
		part = part_of(comparison, module);
		if (r == 0 || (part == SWAP_STORAGE && !inputs->unload_storage) ||
			(part == SWAP_THIRD_PARTY && !inputs->unload_third_party))
			continue;
		if (strv_push(differ, module) < 0)
			return nic_no_memory(action);
	}
	return 0;
}

/*
 * Appends the module to plan->go. nvidia_peermem, which holds OFED, and is asked before anything
 * else goes, comes first.
 */
static int add_going(struct comparison *comparison, const char *module, enum swap_part part)
{
	struct swap_plan *plan = comparison->plan;
	struct swap_module one = { .part = part };
	_cleanup_free_ char *options = NULL;

	if (parameters_now(comparison->root_fd, module, &options) < 0)
		return nic_no_memory(comparison->action);
	(void) snprintf(one.name, sizeof(one.name), "%s", module);
	sysmodule_build_id(comparison->root_fd, module, one.build_id);
	one.options = options;
	if (swap_plan_insert(plan, one.part == SWAP_PEERMEM ? 0 : plan->go_count, &one) < 0)
		return nic_no_memory(comparison->action);
	return 0;
}

static int list_with_holders(struct comparison *comparison, const char *module)
{
	_cleanup_strv_ struct strv holders = { 0 };
	int r;

	if (swap_plan_find(comparison->plan, module) ||
		!sysmodule_exists(comparison->root_fd, module))
		return 0;
	r = list_holders(comparison->action, module, &holders);
	for (size_t i = 0; r == 0 && i < holders.count; i++)
		r = list_with_holders(comparison, holders.items[i]);
	return r < 0 ? r : add_going(comparison, module, part_of(comparison, module));
}

static int list_going(struct comparison *comparison, const struct strv *modules)
{
	for (size_t i = 0; i < modules->count; i++) {
		int r = list_with_holders(comparison, modules->items[i]);

		if (r < 0)
			return r;
	}
	return 0;
}

/* Is it loaded, and in no use once plan->go is gone? */
static bool is_left_over(const struct comparison *comparison, const char *module)
{
	_cleanup_strv_ struct strv holders = { 0 };

	if (sysmodule_holders(comparison->root_fd, module, &holders) < 0 ||
		sysmodule_references(comparison->root_fd, module) != (int) holders.count)
		return false;
	for (size_t i = 0; i < holders.count; i++)
		if (!swap_plan_find(comparison->plan, holders.items[i]))
			return false;
	return true;
}

/*
 * Lists modules of the set, other than the driver's, on which the auxiliary modules and those of
 * storage that go depend. The image's would not load on another build, so these go, too, if nothing
 * else uses them: the stock image's modprobe -r removes them as well. Like the auxiliary modules,
 * they need not come back.
 */
static int list_left_over(struct comparison *comparison)
{
	const struct strv *set = &comparison->nic->role.driver_modules;
	const struct swap_plan *plan = comparison->plan;
	struct action *action = comparison->action;
	_cleanup_strv_ struct strv names = { 0 };

	if (nic_resolve_auxiliary(comparison->nic, comparison->loader, &names) < 0)
		return nic_no_memory(action);
	for (size_t i = 0; i < plan->go_count; i++)
		if (plan->go[i].part == SWAP_STORAGE && strv_contains(set, plan->go[i].name) &&
			loader_resolve(
				comparison->loader, plan->go[i].name, &names, &action->error) < 0)
			return action_reason(action, REASON_INTERNAL, -EIO);
	/* From what is loaded last on: the others may be in use by it. */
	for (size_t i = names.count; i-- > 0;) {
		const char *module = names.items[i];
		enum swap_part part = part_of(comparison, module);
		int r;

		if (!strv_contains(set, module) || strv_contains(&plan->load, module) ||
			(part != SWAP_DRIVER && part != SWAP_AUXILIARY) ||
			swap_plan_find(plan, module) || !is_left_over(comparison, module))
			continue;
		r = compare_module(comparison, module);
		if (r > 0)
			r = add_going(comparison, module, SWAP_AUXILIARY);
		if (r < 0)
			return r;
	}
	return 0;
}

int swap_plan_make(struct action *action, struct loader *loader, struct swap_plan *plan)
{
	const struct role *role = action->role;
	_cleanup_strv_ struct strv recorded = { 0 };
	_cleanup_strv_ struct strv differ = { 0 };
	struct comparison comparison = {
		.action = action,
		.nic = action->role,
		.root_fd = role->root_fd,
		.loader = loader,
		.recorded = &recorded,
		.plan = plan,
	};
	bool is_all_live = true;
	int r = role_list_read(role, ROLE_PARAMETERS_LIST, &recorded);

	if (r < 0 && r != -ENOENT)
		return action_fail(action, REASON_MOUNT_FAILED, r,
			"/%s/%s." ROLE_PARAMETERS_LIST ": %s", role->state_folder, role->name,
			strerror(-r));
	r = list_load(&comparison);
	if (r == 0)
		r = list_differing(&comparison, &differ);
	if (r < 0)
		return r;
	for (size_t i = 0; i < plan->load.count; i++)
		is_all_live &= sysmodule_is_live(role->root_fd, plan->load.items[i]);
	plan->same = !differ.count && is_all_live;
	if (plan->same)
		return 0;
	r = list_going(&comparison, &differ);
	if (r == 0)
		r = list_left_over(&comparison);
	if (r < 0)
		return r;
	/* The driver's modules that go without being asked for come again from the image, too: no
	 * other process loads them. */
	for (size_t i = 0; i < plan->go_count; i++) {
		if (plan->go[i].part == SWAP_DRIVER)
			r = loader_resolve(loader, plan->go[i].name, &plan->load, &action->error);
		if (r < 0)
			return action_reason(action, REASON_INTERNAL, r);
	}
	return nic_refuse(action, plan);
}

int swap_plan_removal(struct action *action, const struct strv *modules, struct swap_plan *plan)
{
	const struct nic *nic = action->role;
	struct comparison comparison = {
		.action = action, .nic = nic, .root_fd = nic->role.root_fd, .plan = plan
	};
	int r;

	if (nic_push_all(&plan->load, modules) < 0)
		return nic_no_memory(action);
	r = list_going(&comparison, modules);
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
	if (r < 0)
		return r;
	return action_reason(action, REASON_MOUNT_FAILED,
		journal_write(role->root_fd, &journal, &action->error));
}

int nic_adopt_plan(struct action *action)
{
	_cleanup_journal_ struct journal journal = { 0 };
	struct nic *nic = action->role;

	if (journal_read(nic->role.root_fd, &journal, &action->error) < 0)
		return action_reason(action, REASON_INTERNAL, -EIO);
	swap_plan_free(&nic->swap);
	nic->swap = journal.plan;
	journal.plan = (struct swap_plan){ .same = false };
	if (nic->swap.same)
		role_note(&nic->role,
			"the image's modules are loaded already, with the same parameters: "
			"nothing is touched");
	return 0;
}

/*
 * ---- what keeps modules from going. The container does not see the node's processes (no hostPID),
 * so the kernel's reference counts are the evidence, and whatever processes are seen give them a
 * name. Functions append to refusals->texts what stands against it; -ENOMEM.
 */

#define USERS_NAMED 4

struct refusals {
	const struct swap_plan *plan;
	int root_fd;
	const char *users; /* who has an RDMA device open, as far as it can be seen, or "" */
	struct strv *texts;
};

static int name_users(int root_fd, char **ret_users)
{
	_cleanup_strv_ struct strv patterns = { 0 };
	_cleanup_strv_ struct strv names = { 0 };
	struct process_seen users[USERS_NAMED];
	int count;

	if (strv_push(&patterns, "/dev/infiniband/*") < 0)
		return -ENOMEM;
	count = users_of_devices(root_fd, &patterns, users, USERS_NAMED);
	for (int i = 0; i < count && i < USERS_NAMED; i++) {
		char user[USER_TEXT_SIZE];

		user_text(&users[i], user);
		if (strv_push(&names, user) < 0)
			return -ENOMEM;
	}
	*ret_users = strv_join(&names, ", ");
	return *ret_users ? 0 : -ENOMEM;
}

/* Refuses modules for whose removal the operator has a variable. */
static int refuse_part(
	struct refusals *refusals, enum swap_part part, const char *what, const char *variable)
{
	const struct swap_plan *plan = refusals->plan;
	_cleanup_strv_ struct strv names = { 0 };
	_cleanup_free_ char *text = NULL;

	for (size_t i = 0; i < plan->go_count; i++)
		if (plan->go[i].part == part && strv_push(&names, plan->go[i].name) < 0)
			return -ENOMEM;
	if (!names.count)
		return 0;
	text = strv_join(&names, ", ");
	return !text ? -ENOMEM
		     : strv_pushf(refusals->texts,
			       "%.400s (%s) must be unloaded: set %s=true to have it unloaded "
			       "and reloaded, or unload it first",
			       text, what, variable);
}

static bool drives_devices(int root_fd, const char *module)
{
	_cleanup_strv_ struct strv drivers = { 0 };
	char path[PATH_MAX];

	(void) snprintf(path, sizeof(path), "sys/module/%s/drivers", module);
	return fs_list(root_fd, path, &drivers) == 0 && drivers.count;
}

/* References that no module explains; 0 for one that is not there. */
static int own_references(int root_fd, const char *module)
{
	_cleanup_strv_ struct strv holders = { 0 };
	int references = sysmodule_references(root_fd, module);

	if (sysmodule_holders(root_fd, module, &holders) < 0 || references < (int) holders.count)
		return 0;
	return references - (int) holders.count;
}

static int refuse_module(struct refusals *refusals, const struct swap_module *module)
{
	int references = sysmodule_references(refusals->root_fd, module->name);

	/* It was unloaded since the plan was made: nvidia_peermem goes when its pod stops. */
	if (references < 0 && !sysmodule_exists(refusals->root_fd, module->name))
		return 0;
	/* A driver of devices that the image does not bring would leave them without one. */
	if (module->part == SWAP_OTHER && drives_devices(refusals->root_fd, module->name) &&
		strv_pushf(refusals->texts,
			"%s drives devices and must be unloaded, but the image has no build of "
			"it: unload it first, name it in %s, or use an image that has it",
			module->name, CONTRACT_ENV_THIRD_PARTY) < 0)
		return -ENOMEM;
	if (references < 0)
		return strv_pushf(refusals->texts,
			"%s cannot be unloaded: it is built in, or the kernel has no module "
			"unloading (CONFIG_MODULE_UNLOAD): use a kernel that has it as a module",
			module->name);
	/* Its users are the GPU side's to name, which is asked to let it go. */
	references = own_references(refusals->root_fd, module->name);
	if (!references || module->part == SWAP_PEERMEM)
		return 0;
	if (*refusals->users)
		return strv_pushf(refusals->texts,
			"%s is in use by %.400s: stop it, then try again", module->name,
			refusals->users);
	return strv_pushf(refusals->texts,
		"%s is in use: %d reference(s) that belong to no other module and to no process "
		"seen from here: stop the workload that uses it, then try again",
		module->name, references);
}

/*
 * If only a driver goes and the RDMA core stays, the driver's devices are removed while processes
 * have them open: the kernel allows that (Linux drivers/infiniband/core/uverbs_main.c,
 * disassociate_ucontext), so only the core's own references show such processes.
 */
static int refuse_core_users(struct refusals *refusals)
{
	static const char *const evidence[] = { "ib_uverbs", "ib_umad", "rdma_ucm" };
	const struct swap_plan *plan = refusals->plan;
	_cleanup_strv_ struct strv holders = { 0 };
	const char *driver = NULL;

	if (sysmodule_holders(refusals->root_fd, "ib_core", &holders) < 0)
		return 0;
	for (size_t i = 0; !driver && i < plan->go_count; i++)
		if (strv_contains(&holders, plan->go[i].name) &&
			drives_devices(refusals->root_fd, plan->go[i].name))
			driver = plan->go[i].name;
	for (size_t i = 0; driver && i < ARRAY_SIZE(evidence); i++) {
		int references = own_references(refusals->root_fd, evidence[i]);

		if (references && !swap_plan_find(plan, evidence[i]) &&
			strv_pushf(refusals->texts,
				"%s must be unloaded, but RDMA devices are open: %s has %d "
				"reference(s)%s%.400s: stop the workload that uses them",
				driver, evidence[i], references, *refusals->users ? ", by " : "",
				refusals->users) < 0)
			return -ENOMEM;
	}
	return 0;
}

/*
 * A virtual function that a process has open through vfio-pci keeps the removal of its device
 * waiting without an end (Linux drivers/vfio/vfio_main.c, vfio_unregister_group_dev()). @reported:
 * such modules, each once.
 */
static int refuse_passed_through(
	struct refusals *refusals, const char *driver, struct strv *reported)
{
	_cleanup_(globfree) glob_t found = { .gl_pathc = 0 };
	char pattern[512], target[PATH_MAX];

	/* Links to the modules of virtual functions' drivers. */
	(void) snprintf(pattern, sizeof(pattern),
		"/proc/self/fd/%d/sys/module/%s/drivers/pci:%s/*:*/virtfn*/driver/module",
		refusals->root_fd, driver, driver);
	if (glob(pattern, 0, NULL, &found) == GLOB_NOSPACE)
		return -ENOMEM;
	for (size_t i = 0; i < found.gl_pathc; i++) {
		const char *device = strchr(strstr(found.gl_pathv[i], "/pci:") + 1, '/') + 1;
		ssize_t size = readlink(found.gl_pathv[i], target, sizeof(target) - 1);
		const char *module;

		target[size < 0 ? 0 : size] = '\0';
		module = strrchr(target, '/') ? strrchr(target, '/') + 1 : target;
		if (!*module || swap_plan_find(refusals->plan, module) ||
			own_references(refusals->root_fd, module) == 0 ||
			strv_contains(reported, module))
			continue;
		if (strv_push(reported, module) < 0 ||
			strv_pushf(refusals->texts,
				"a virtual function of %.*s is passed through by %s, which is in "
				"use: stop the virtual machine that has it",
				(int) strcspn(device, "/"), device, module) < 0)
			return -ENOMEM;
	}
	return 0;
}

static int list_refusals(struct refusals *refusals, const struct nic_inputs *inputs)
{
	const struct swap_plan *plan = refusals->plan;
	_cleanup_strv_ struct strv reported = { 0 };

	if ((!inputs->unload_storage && refuse_part(refusals, SWAP_STORAGE, "storage over RDMA",
						CONTRACT_ENV_UNLOAD_STORAGE) < 0) ||
		(!inputs->unload_third_party &&
			refuse_part(refusals, SWAP_THIRD_PARTY, "third-party RDMA",
				CONTRACT_ENV_UNLOAD_THIRD_PARTY) < 0))
		return -ENOMEM;
	for (size_t i = 0; i < plan->go_count; i++)
		if (refuse_module(refusals, &plan->go[i]) < 0)
			return -ENOMEM;
	if (refuse_core_users(refusals) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < plan->go_count; i++)
		if (refuse_passed_through(refusals, plan->go[i].name, &reported) < 0)
			return -ENOMEM;
	return 0;
}

int nic_refuse(struct action *action, const struct swap_plan *plan)
{
	const struct nic *nic = action->role;
	_cleanup_strv_ struct strv texts = { 0 };
	_cleanup_free_ char *users = NULL;
	_cleanup_free_ char *text = NULL;
	struct refusals refusals = { .plan = plan, .root_fd = nic->role.root_fd, .texts = &texts };

	if (!plan->go_count)
		return 0;
	if (name_users(nic->role.root_fd, &users) < 0)
		return nic_no_memory(action);
	refusals.users = users;
	if (list_refusals(&refusals, &nic->inputs) < 0)
		return nic_no_memory(action);
	if (!texts.count)
		return 0;
	for (size_t i = 0; i < texts.count; i++)
		nic_note(action, "%s", texts.items[i]);
	text = strv_join(&texts, "; ");
	return text ? action_fail(
			      action, REASON_MODULE_IN_USE, -EBUSY, "nothing was touched: %s", text)
		    : nic_no_memory(action);
}
