/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What runs beside what the image has, what has to go so that the image's modules can come, and
 * what keeps it from going: worked out from what the kernel shows, before anything is touched.
 */
#include <glob.h>
#include <stdarg.h>
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
#include "module/elf.h"
#include "module/running.h"

/*
 * What OFED's own start script loads; libkmod adds what they depend on. The RDMA core comes before
 * mlx5_core, whose devices make udev ask for mlx5_ib: it would bring the host's core otherwise.
 */
static const char nic_modules[] = "ib_uverbs ib_umad rdma_ucm mlx5_core mlx5_ib ib_ipoib rdma_cm";

struct comparison {
	struct action *action;
	const struct nic *nic;
	int root_fd;
	struct loader *loader; /* of the image's tree */
	struct strv recorded;  /* what an earlier start loaded its modules with; may be empty */
	struct strv differ;    /* of the image's set, loaded, and to be replaced */
	struct swap_plan *plan;
};

static void comparison_done(struct comparison *comparison)
{
	strv_free(&comparison->recorded);
	strv_free(&comparison->differ);
}

/* The failure of what a helper returns @code for, with its message where it has left one. */
static int fail_comparison(struct action *action, int code)
{
	return code < 0 && !*action->error.text
		       ? action_fail(action, REASON_INTERNAL, code, "%s", strerror(-code))
		       : action_reason(action, REASON_INTERNAL, code);
}

/* ---- one module */

/* bool parameters show Y or N for whatever they were given (Linux kernel/params.c). */
static int truth(const char *value)
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
	return strcmp(wanted, shown) == 0 || (truth(wanted) >= 0 && truth(wanted) == truth(shown));
}

/* What the kernel does not show is taken for the same. @fixed: only what cannot be written to. */
static bool shows_parameter(const struct comparison *comparison, const char *module,
	const char *word, bool fixed, struct error *why)
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
	(void) error_set(why, 0, "%s runs with %.*s=%.64s and shall have \"%.200s\"", module,
		(int) strcspn(word, "="), word, shown, word);
	return false;
}

/*
 * They are the same when it was loaded with the words that modprobe.d has now, or where that was
 * not recorded, when the kernel shows those values. What a person wrote into /sys since does not
 * count.
 */
static int compare_parameters(const struct comparison *comparison, const char *module,
	bool *ret_differs, struct error *why)
{
	const char *then = role_parameters_find(&comparison->recorded, module);
	_cleanup_strv_ struct strv words = { 0 };
	_cleanup_free_ char *now = NULL;
	struct error ignored;
	int r = loader_options(comparison->loader, module, &now, why);

	if (r < 0)
		return r;
	*ret_differs = then && strcmp(then, now) != 0;
	if (*ret_differs) {
		(void) error_set(why, 0, "%s was loaded with \"%.300s\" and shall have \"%.300s\"",
			module, then, now);
		return 0;
	}
	/* Words that are none: the kernel judges them when it comes to that. */
	if (parameter_split(now, module, &words, &ignored) == -ENOMEM)
		return error_set_errno(why, -ENOMEM, "%s", module);
	for (size_t i = 0; !*ret_differs && i < words.count; i++)
		*ret_differs =
			!shows_parameter(comparison, module, words.items[i], then != NULL, why);
	return 0;
}

/*
 * Is another build of it loaded than the image's, or the image's with other parameters? A module is
 * known by its build id; where the running one or the file has none, by its srcversion; where
 * neither can be compared it is another one. @why says what differs.
 */
static int compare_module(const struct comparison *comparison, const char *module,
	bool *ret_differs, struct error *why)
{
	_cleanup_(elf_module_close) struct elf_module *file = NULL;
	_cleanup_free_ char *path = NULL;
	int root_fd = comparison->root_fd;
	int r = 0;

	*ret_differs = sysmodule_exists(root_fd, module);
	if (!*ret_differs)
		return 0;
	if (!sysmodule_is_built_in(root_fd, module)) {
		r = loader_file(comparison->loader, module, &path, why);
		if (r == 0)
			r = elf_module_open_brief(root_fd, path, &file, why);
		if (r < 0) /* a file that cannot be read: the load proof judges it */
			return r == -ENOMEM ? r : 0;
	}
	if (file && loaded_compare(root_fd, module, file) == LOADED_SAME)
		return compare_parameters(comparison, module, ret_differs, why);
	(void) error_set(why, 0, "the %s that runs is another build than the image's", module);
	return 0;
}

/* ---- the plan */

/*
 * Appends the modules that the image is asked to load: what its image.conf names, else what OFED's
 * own start script loads, of those that it has; and with ENABLE_NFSRDMA what that brings. -ENOENT
 * when it lacks the first of them, which no driver does without.
 */
static int list_modules(struct action *action, struct strv *names)
{
	const struct nic *nic = action->role;
	const struct role *role = &nic->role;
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
	if (r == 0 && nic->inputs.nfsrdma) {
		if (strv_contains(&role->driver_modules, NIC_NFSRDMA_MODULE))
			r = strv_push_unique(names, NIC_NFSRDMA_MODULE);
		else
			nic_note(action,
				"%s is asked for, but the image has no %s for this kernel: build "
				"it with an OFED that has it",
				CONTRACT_ENV_NFSRDMA, NIC_NFSRDMA_MODULE);
	}
	return fail_comparison(action, r);
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

/*
 * Is it to be loaded, or does it hold what is? A set may bring more: NVMe's own driver, say, which
 * the node's root disk may run on. That is not replaced unasked.
 */
static int is_concerned(const struct comparison *comparison, const char *module, bool *ret)
{
	const struct strv *load = &comparison->plan->load;
	int r;

	*ret = strv_contains(load, module);
	for (size_t i = 0; !*ret && i < load->count; i++) {
		_cleanup_strv_ struct strv holders = { 0 };

		if (!strv_contains(&comparison->nic->role.driver_modules, load->items[i]))
			continue;
		r = sysmodule_holders(comparison->root_fd, load->items[i], &holders);
		if (r < 0)
			return r;
		*ret = strv_contains(&holders, module);
	}
	return 0;
}

static int compare_one(struct comparison *comparison, const char *module)
{
	const struct nic_inputs *inputs = &comparison->nic->inputs;
	struct error why = { "" };
	bool yes = false;
	enum swap_part part;
	int r = is_concerned(comparison, module, &yes);

	if (r < 0 || !yes)
		return r;
	r = compare_module(comparison, module, &yes, &why);
	if (r < 0 || !yes)
		return r;
	if (*why.text)
		nic_note(comparison->action, "%s", why.text);
	/* A module that may not be unloaded, and differs, does not fail the start: it keeps running
	 * unless a module that it depends on is replaced (nic_refuse()). */
	part = part_of(comparison, module);
	if ((part == SWAP_STORAGE && !inputs->unload_storage) ||
		(part == SWAP_THIRD_PARTY && !inputs->unload_third_party))
		return 0;
	return strv_push(&comparison->differ, module);
}

/*
 * Appends the module to plan->go after its holders. nvidia_peermem, which holds OFED, and is asked
 * before anything else goes, comes first.
 */
static int list_with_holders(struct comparison *comparison, const char *module)
{
	struct swap_plan *plan = comparison->plan;
	struct swap_module one = { .part = part_of(comparison, module) };
	_cleanup_strv_ struct strv holders = { 0 };
	_cleanup_free_ char *options = NULL;
	int r;

	if (swap_plan_find(plan, module) || !sysmodule_exists(comparison->root_fd, module))
		return 0;
	r = sysmodule_holders(comparison->root_fd, module, &holders);
	for (size_t i = 0; r == 0 && i < holders.count; i++)
		r = list_with_holders(comparison, holders.items[i]);
	if (r == 0)
		r = parameters_now(comparison->root_fd, module, &options);
	if (r < 0)
		return r;
	(void) snprintf(one.name, sizeof(one.name), "%s", module);
	sysmodule_build_id(comparison->root_fd, module, one.build_id);
	one.options = options;
	return swap_plan_insert(plan, one.part == SWAP_PEERMEM ? 0 : plan->go_count, &one);
}

static int list_going(struct comparison *comparison, const struct strv *modules)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < modules->count; i++)
		r = list_with_holders(comparison, modules->items[i]);
	return fail_comparison(comparison->action, r);
}

int swap_plan_make(struct action *action, struct loader *loader, struct swap_plan *plan)
{
	const struct role *role = action->role;
	const struct strv *set = &role->driver_modules;
	_cleanup_(comparison_done) struct comparison comparison = {
		.action = action,
		.nic = action->role,
		.root_fd = role->root_fd,
		.loader = loader,
		.plan = plan,
	};
	_cleanup_strv_ struct strv names = { 0 };
	bool is_all_live = true;
	int r = role_list_read(role, ROLE_PARAMETERS_LIST, &comparison.recorded);

	if (r < 0 && r != -ENOENT)
		return action_fail(action, REASON_MOUNT_FAILED, r,
			"/%s/%s." ROLE_PARAMETERS_LIST ": %s", role->state_folder, role->name,
			strerror(-r));
	r = list_modules(action, &names);
	if (r < 0)
		return r;
	for (size_t i = 0; r == 0 && i < names.count; i++)
		r = loader_resolve(loader, names.items[i], &plan->load, &action->error);
	/* Every module of the set, not only what is to be loaded. */
	for (size_t i = 0; r == 0 && i < set->count; i++)
		r = compare_one(&comparison, set->items[i]);
	if (r < 0)
		return fail_comparison(action, r);
	for (size_t i = 0; i < plan->load.count; i++)
		is_all_live &= sysmodule_is_live(role->root_fd, plan->load.items[i]);
	plan->same = !comparison.differ.count && is_all_live;
	if (plan->same)
		return 0;
	r = list_going(&comparison, &comparison.differ);
	if (r < 0)
		return r;
	/* The driver's modules that go without being asked for come again from the image, too: no
	 * other process loads them. */
	for (size_t i = 0; r == 0 && i < plan->go_count; i++)
		if (plan->go[i].part == SWAP_DRIVER)
			r = loader_resolve(loader, plan->go[i].name, &plan->load, &action->error);
	return r < 0 ? fail_comparison(action, r) : nic_refuse(action, plan);
}

int swap_plan_removal(struct action *action, const struct strv *modules, struct swap_plan *plan)
{
	const struct role *role = action->role;
	struct comparison comparison = {
		.action = action,
		.nic = action->role,
		.root_fd = role->root_fd,
		.plan = plan,
	};
	int r;

	if (nic_push_all(&plan->load, modules) < 0)
		return fail_comparison(action, -ENOMEM);
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
			"what runs is what this image would load, with the same parameters: nothing "
			"is touched");
	return 0;
}

/*
 * ---- what keeps modules from going. The container does not see the node's processes (no hostPID),
 * so the kernel's reference counts are the evidence, and whatever processes are seen give them a
 * name.
 */

#define USERS_NAMED 4

/* One refusal of many has to leave room for the others. */
#define REFUSAL_SIZE 400

struct refusals {
	struct action *action;
	const struct swap_plan *plan;
	int root_fd;
	struct strv texts;
	struct strv passed_through; /* modules that are reported already */
	char users[REFUSAL_SIZE]; /* who has an RDMA device open, as far as it can be seen, or "" */
};

static _printf_(2, 3) int add_refusal(struct refusals *refusals, const char *format, ...)
{
	char text[REFUSAL_SIZE * 2];
	va_list arguments;

	va_start(arguments, format);
	(void) vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	nic_note(refusals->action, "%s", text);
	return strv_push(&refusals->texts, text);
}

/* What the operator has a variable for. */
static int check_part(struct refusals *refusals, enum swap_part part, bool allowed,
	const char *what, const char *variable)
{
	const struct swap_plan *plan = refusals->plan;
	char names[REFUSAL_SIZE] = "";
	size_t used = 0;

	for (size_t i = 0; i < plan->go_count && used < sizeof(names); i++)
		if (plan->go[i].part == part)
			used += (size_t) snprintf(names + used, sizeof(names) - used, "%s%s",
				used ? ", " : "", plan->go[i].name);
	if (allowed || !*names)
		return 0;
	return add_refusal(refusals,
		"%s (%s) would have to go: set %s=true, and what goes is loaded again afterwards; "
		"or unload it first",
		names, what, variable);
}

/* Does it have a driver of devices? */
static bool drives(int root_fd, const char *module)
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

static int check_module(struct refusals *refusals, const struct swap_module *module)
{
	int references = sysmodule_references(refusals->root_fd, module->name);
	int r = 0;

	/* It was unloaded since the plan was made: nvidia_peermem goes when its pod stops. */
	if (references < 0 && !sysmodule_exists(refusals->root_fd, module->name))
		return 0;
	/* A driver of devices that the image does not bring would leave them without one. */
	if (module->part == SWAP_OTHER && drives(refusals->root_fd, module->name))
		r = add_refusal(refusals,
			"%s drives devices, would have to go, and is not in the image, whose "
			"modules it does not fit: unload it first, name it in %s, or use an image "
			"that has it",
			module->name, CONTRACT_ENV_THIRD_PARTY);
	if (r < 0)
		return r;
	if (references < 0)
		return add_refusal(refusals,
			"%s cannot be unloaded: it is built in, or the kernel has no module "
			"unloading (CONFIG_MODULE_UNLOAD): use a kernel that has it as a module",
			module->name);
	/* Its users are the GPU side's to name, which is asked to let it go. */
	references = own_references(refusals->root_fd, module->name);
	if (!references || module->part == SWAP_PEERMEM)
		return 0;
	if (*refusals->users)
		return add_refusal(refusals, "%s is in use by %s: stop it, then try again",
			module->name, refusals->users);
	return add_refusal(refusals,
		"%s is in use: %d reference(s) that belong to no other module and to no process "
		"seen from here: stop the workload that uses it, then try again",
		module->name, references);
}

/*
 * Where only a driver goes and the RDMA core stays, its devices are taken from under the processes
 * that have them open: the kernel allows that (Linux drivers/infiniband/core/uverbs_main.c,
 * disassociate_ucontext), so only the core's own references show it.
 */
static int check_core_users(struct refusals *refusals)
{
	static const char *const evidence[] = { "ib_uverbs", "ib_umad", "rdma_ucm" };
	const struct swap_plan *plan = refusals->plan;
	_cleanup_strv_ struct strv holders = { 0 };
	const char *driver = NULL;
	int r = 0;

	if (sysmodule_holders(refusals->root_fd, "ib_core", &holders) < 0)
		return 0;
	for (size_t i = 0; !driver && i < plan->go_count; i++)
		if (strv_contains(&holders, plan->go[i].name) &&
			drives(refusals->root_fd, plan->go[i].name))
			driver = plan->go[i].name;
	for (size_t i = 0; driver && r == 0 && i < ARRAY_SIZE(evidence); i++) {
		int references = own_references(refusals->root_fd, evidence[i]);

		if (references && !swap_plan_find(plan, evidence[i]))
			r = add_refusal(refusals,
				"%s would have to go while RDMA devices are open: %s has %d "
				"reference(s) of its own%s%s: stop the workload that uses them",
				driver, evidence[i], references, *refusals->users ? ", by " : "",
				refusals->users);
	}
	return r;
}

/*
 * A virtual function that a process has open through vfio-pci keeps the removal of its device
 * waiting without an end (Linux drivers/vfio/vfio_main.c, vfio_unregister_group_dev()).
 */
static int check_passed_through(struct refusals *refusals, const char *driver)
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
			strv_contains(&refusals->passed_through, module))
			continue;
		if (strv_push(&refusals->passed_through, module) < 0 ||
			add_refusal(refusals,
				"a virtual function of %.*s is passed through by %s, which is in "
				"use: stop the virtual machine that has it",
				(int) strcspn(device, "/"), device, module) < 0)
			return -ENOMEM;
	}
	return 0;
}

int nic_refuse(struct action *action, const struct swap_plan *plan)
{
	const struct nic *nic = action->role;
	struct refusals refusals = { .action = action, .plan = plan, .root_fd = nic->role.root_fd };
	_cleanup_strv_ struct strv patterns = { 0 };
	_cleanup_free_ char *text = NULL;
	struct process_seen users[USERS_NAMED];
	size_t used = 0;
	int count, r;

	if (!plan->go_count)
		return 0;
	r = strv_push(&patterns, "/dev/infiniband/*");
	count = r < 0 ? 0 : users_of_devices(refusals.root_fd, &patterns, users, USERS_NAMED);
	for (int i = 0; i < count && i < USERS_NAMED && used < sizeof(refusals.users); i++) {
		char user[USER_TEXT_SIZE];

		user_text(&users[i], user);
		used += (size_t) snprintf(refusals.users + used, sizeof(refusals.users) - used,
			"%s%s", i ? ", " : "", user);
	}
	if (r == 0)
		r = check_part(&refusals, SWAP_STORAGE, nic->inputs.unload_storage,
			"storage over RDMA", CONTRACT_ENV_UNLOAD_STORAGE);
	if (r == 0)
		r = check_part(&refusals, SWAP_THIRD_PARTY, nic->inputs.unload_third_party,
			"third-party RDMA", CONTRACT_ENV_UNLOAD_THIRD_PARTY);
	for (size_t i = 0; r == 0 && i < plan->go_count; i++)
		r = check_module(&refusals, &plan->go[i]);
	if (r == 0)
		r = check_core_users(&refusals);
	for (size_t i = 0; r == 0 && i < plan->go_count; i++)
		r = check_passed_through(&refusals, plan->go[i].name);
	if (r == 0 && refusals.texts.count) {
		text = strv_join(&refusals.texts, "; ");
		r = text ? -EBUSY : -ENOMEM;
	}
	strv_free(&refusals.passed_through);
	strv_free(&refusals.texts);
	if (r == -ENOMEM)
		return nic_no_memory(action);
	return r < 0 ? action_fail(action, REASON_MODULE_IN_USE, r, "nothing was touched: %s", text)
		     : 0;
}
