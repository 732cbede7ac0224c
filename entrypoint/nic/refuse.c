/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What keeps a swap from being done, found before the first module leaves. The container does not
 * see the node's processes (no hostPID), so the kernel's reference counts are the evidence, and
 * whatever processes are seen give them a name.
 */
#include <stdarg.h>
#include <string.h>

#include "common/fs.h"
#include "entrypoint/contract.h"
#include "entrypoint/role/users.h"
#include "entrypoint/nic/nic_internal.h"
#include "module/sysmodule.h"

#define USERS_NAMED 4

/* One refusal of many has to leave room for the others. */
#define REFUSAL_SIZE 400

struct refusals {
	struct action *action;
	const struct swap_plan *plan;
	int root_fd;
	struct strv texts;
	char users[REFUSAL_SIZE]; /* who has an RDMA device open, as far as it can be seen, or "" */
};

static _printf_(2, 3) int refuse(struct refusals *refusals, const char *format, ...)
{
	char text[REFUSAL_SIZE * 2];
	va_list arguments;

	va_start(arguments, format);
	(void) vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	nic_note(refusals->action, "%s", text);
	return strv_push(&refusals->texts, text);
}

static void find_users(struct refusals *refusals)
{
	_cleanup_strv_ struct strv patterns = { 0 };
	struct user users[USERS_NAMED];
	size_t used = 0;
	int count;

	if (strv_push(&patterns, "/dev/infiniband/*") < 0)
		return;
	count = users_of_devices(refusals->root_fd, &patterns, users, USERS_NAMED);
	for (int i = 0; i < count && i < USERS_NAMED && used < sizeof(refusals->users); i++) {
		char text[USER_TEXT_SIZE];

		user_text(&users[i], text);
		used += (size_t) snprintf(refusals->users + used, sizeof(refusals->users) - used,
			"%s%s", i ? ", " : "", text);
	}
}

static void join_names(const struct swap_plan *plan, enum swap_part part, char *text, size_t size)
{
	size_t used = 0;

	*text = '\0';
	for (size_t i = 0; i < plan->go_count && used < size; i++)
		if (plan->go[i].part == part)
			used += (size_t) snprintf(text + used, size - used, "%s%s",
				used ? ", " : "", plan->go[i].name);
}

/* What the operator has a variable for. */
static int check_part(struct refusals *refusals, enum swap_part part, bool allowed,
	const char *what, const char *variable)
{
	char names[REFUSAL_SIZE];

	join_names(refusals->plan, part, names, sizeof(names));
	if (allowed || !*names)
		return 0;
	return refuse(refusals,
		"%s (%s) would have to go: set %s=true, and what goes is loaded again afterwards; "
		"or unload it first",
		names, what, variable);
}

/* A driver of devices that the image does not bring would leave them without one. */
static int check_driver(struct refusals *refusals, const struct swap_module *module)
{
	_cleanup_strv_ struct strv drivers = { 0 };
	char path[PATH_MAX];

	(void) snprintf(path, sizeof(path), "sys/module/%s/drivers", module->name);
	if (module->part != SWAP_OTHER || fs_list(refusals->root_fd, path, &drivers) < 0 ||
		!drivers.count)
		return 0;
	return refuse(refusals,
		"%s drives devices, would have to go, and is not in the image, whose modules it "
		"does not fit: unload it first, name it in %s, or use an image that has it",
		module->name, CONTRACT_ENV_THIRD_PARTY);
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

static int check_references(struct refusals *refusals, const struct swap_module *module)
{
	int references = sysmodule_references(refusals->root_fd, module->name);

	if (references < 0)
		return refuse(refusals,
			"%s cannot be unloaded: it is built in, or the kernel has no module "
			"unloading (CONFIG_MODULE_UNLOAD): use a kernel that has it as a module",
			module->name);
	/* Its users are the GPU side's to name, which is asked to let it go. */
	references = own_references(refusals->root_fd, module->name);
	if (!references || module->part == SWAP_PEERMEM)
		return 0;
	if (*refusals->users)
		return refuse(refusals, "%s is in use by %s: stop it, then try again", module->name,
			refusals->users);
	return refuse(refusals,
		"%s is in use: %d reference(s) that belong to no other module and to no process "
		"seen from here: stop the workload that uses it, then try again",
		module->name, references);
}

static bool is_rdma_driver(int root_fd, const char *module)
{
	_cleanup_strv_ struct strv holders = { 0 };
	_cleanup_strv_ struct strv drivers = { 0 };
	char path[PATH_MAX];

	(void) snprintf(path, sizeof(path), "sys/module/%s/drivers", module);
	return sysmodule_holders(root_fd, "ib_core", &holders) == 0 &&
	       strv_contains(&holders, module) && fs_list(root_fd, path, &drivers) == 0 &&
	       drivers.count;
}

/*
 * Where only a driver goes and the RDMA core stays, its devices are taken from under the processes
 * that have them open: the kernel allows that (Linux drivers/infiniband/core/uverbs_main.c,
 * disassociate_ucontext), so nothing but the core's own references tells.
 */
static int check_core_users(struct refusals *refusals)
{
	static const char *const evidence[] = { "ib_uverbs", "ib_umad", "rdma_ucm" };
	const char *driver = NULL;
	int r = 0;

	for (size_t i = 0; !driver && i < refusals->plan->go_count; i++)
		if (is_rdma_driver(refusals->root_fd, refusals->plan->go[i].name))
			driver = refusals->plan->go[i].name;
	for (size_t i = 0; driver && r == 0 && i < ARRAY_SIZE(evidence); i++) {
		int references = own_references(refusals->root_fd, evidence[i]);

		if (references && !swap_plan_find(refusals->plan, evidence[i]))
			r = refuse(refusals,
				"%s would have to go while RDMA devices are open: %s has %d "
				"reference(s) of its own%s%s: stop the workload that uses them",
				driver, evidence[i], references, *refusals->users ? ", by " : "",
				refusals->users);
	}
	return r;
}

/* "…/drivers/vfio-pci/module" leads to a folder with the module's name. */
static bool module_of_driver(int root_fd, const char *device, char module[64])
{
	char path[PATH_MAX];
	char target[PATH_MAX];
	const char *slash;
	ssize_t length;

	if (snprintf(path, sizeof(path), "%s/driver/module", device) >= (int) sizeof(path))
		return false;
	length = readlinkat(root_fd, path, target, sizeof(target) - 1);
	if (length < 0)
		return false;
	target[length] = '\0';
	slash = strrchr(target, '/');
	(void) snprintf(module, 64, "%.63s", slash ? slash + 1 : target);
	return true;
}

/* @device: a PF, as a path of /sys. */
static int check_functions(
	struct refusals *refusals, const char *device, const char *name, struct strv *reported)
{
	_cleanup_strv_ struct strv entries = { 0 };
	int r = 0;

	if (fs_list(refusals->root_fd, device, &entries) < 0)
		return 0;
	for (size_t i = 0; r == 0 && i < entries.count; i++) {
		char path[PATH_MAX];
		char module[64];

		if (strncmp(entries.items[i], "virtfn", 6) != 0 ||
			snprintf(path, sizeof(path), "%s/%s", device, entries.items[i]) >=
				(int) sizeof(path) ||
			!module_of_driver(refusals->root_fd, path, module) ||
			swap_plan_find(refusals->plan, module) ||
			own_references(refusals->root_fd, module) == 0 ||
			strv_contains(reported, module))
			continue;
		r = strv_push(reported, module);
		if (r == 0)
			r = refuse(refusals,
				"a virtual function of %s is passed through by %s, which is in "
				"use: stop the virtual machine that has it",
				name, module);
	}
	return r;
}

/*
 * A virtual function that somebody has open through vfio-pci keeps the removal of its device
 * waiting without an end (Linux drivers/vfio/vfio_main.c, vfio_unregister_group_dev()).
 */
static int check_passed_through(struct refusals *refusals)
{
	_cleanup_strv_ struct strv reported = { 0 };
	int r = 0;

	for (size_t i = 0; r == 0 && i < refusals->plan->go_count; i++) {
		_cleanup_strv_ struct strv devices = { 0 };
		char drivers[PATH_MAX];

		(void) snprintf(drivers, sizeof(drivers), "sys/module/%s/drivers/pci:%s",
			refusals->plan->go[i].name, refusals->plan->go[i].name);
		if (fs_list(refusals->root_fd, drivers, &devices) < 0)
			continue;
		for (size_t j = 0; r == 0 && j < devices.count; j++) {
			char device[PATH_MAX];

			/* Devices have a ':' in their names, the driver's own files have none. */
			if (strchr(devices.items[j], ':') &&
				snprintf(device, sizeof(device), "%s/%s", drivers,
					devices.items[j]) < (int) sizeof(device))
				r = check_functions(refusals, device, devices.items[j], &reported);
		}
	}
	return r;
}

/* Each a reason of its own. */
static int check_all(struct refusals *refusals, const struct nic_inputs *inputs)
{
	const struct swap_plan *plan = refusals->plan;
	int r = check_part(refusals, SWAP_STORAGE, inputs->unload_storage, "storage over RDMA",
		CONTRACT_ENV_UNLOAD_STORAGE);

	if (r == 0)
		r = check_part(refusals, SWAP_THIRD_PARTY, inputs->unload_third_party,
			"third-party RDMA", CONTRACT_ENV_UNLOAD_THIRD_PARTY);
	for (size_t i = 0; r == 0 && i < plan->go_count; i++) {
		r = check_driver(refusals, &plan->go[i]);
		if (r == 0)
			r = check_references(refusals, &plan->go[i]);
	}
	if (r == 0)
		r = check_core_users(refusals);
	return r < 0 ? r : check_passed_through(refusals);
}

int nic_refuse(struct action *action, const struct swap_plan *plan)
{
	const struct nic *nic = nic_of_const(action->role);
	struct refusals refusals = { .action = action, .plan = plan, .root_fd = nic->role.root_fd };
	_cleanup_free_ char *text = NULL;
	int r;

	if (!plan->go_count)
		return 0;
	find_users(&refusals);
	r = check_all(&refusals, &nic->inputs);
	if (r == 0 && refusals.texts.count) {
		text = strv_join(&refusals.texts, "; ");
		r = text ? -EBUSY : -ENOMEM;
	}
	strv_free(&refusals.texts);
	if (r == -ENOMEM)
		return action_fail(action, REASON_INTERNAL, r, "out of memory");
	return r < 0 ? action_fail(action, REASON_MODULE_IN_USE, r, "nothing was touched: %s", text)
		     : 0;
}
