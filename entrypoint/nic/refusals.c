/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/nic/refusals.h"

#include <limits.h>
#include <stdarg.h>
#include <string.h>

#include "common/fs.h"
#include "entrypoint/contract.h"
#include "entrypoint/modules/users.h"
#include "entrypoint/nic/nic.h"
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

static int refuse(struct refusals *refusals, const char *format, ...) _printf_(2, 3);

static int refuse(struct refusals *refusals, const char *format, ...)
{
	char text[REFUSAL_SIZE * 2];
	va_list arguments;

	va_start(arguments, format);
	(void) vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	if (refusals->action->worker)
		worker_tell(refusals->action->worker, WORKER_NOTE, 0, "%s", text);
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

static int check_references(struct refusals *refusals, const struct swap_module *module)
{
	_cleanup_strv_ struct strv holders = { 0 };
	int references = sysmodule_references(refusals->root_fd, module->name);
	int r = sysmodule_holders(refusals->root_fd, module->name, &holders);

	if (r < 0)
		return r;
	if (references < 0)
		return refuse(refusals,
			"%s cannot be unloaded: it is built in, or the kernel has no module "
			"unloading (CONFIG_MODULE_UNLOAD): use a kernel that has it as a module",
			module->name);
	/* Its users are the GPU side's to name, which is asked to let it go. */
	if ((size_t) references <= holders.count || module->part == SWAP_PEERMEM)
		return 0;
	if (*refusals->users)
		return refuse(refusals, "%s is in use by %s: stop it, then try again", module->name,
			refusals->users);
	return refuse(refusals,
		"%s is in use: %d reference(s) that belong to no other module and to no process "
		"seen from here: stop the workload that uses it, then try again",
		module->name, references - (int) holders.count);
}

static int check_modules(struct refusals *refusals)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < refusals->plan->go_count; i++) {
		r = check_driver(refusals, &refusals->plan->go[i]);
		if (r == 0)
			r = check_references(refusals, &refusals->plan->go[i]);
	}
	return r;
}

static int conclude(struct refusals *refusals)
{
	_cleanup_free_ char *text = NULL;

	if (!refusals->texts.count)
		return 0;
	text = strv_join(&refusals->texts, "; ");
	if (!text)
		return -ENOMEM;
	return action_fail(
		refusals->action, REASON_MODULE_IN_USE, -EBUSY, "nothing was touched: %s", text);
}

int refusals_check(struct action *action, const struct swap_plan *plan)
{
	const struct nic *nic = nic_of_const(action->role);
	const struct nic_inputs *inputs = &nic->inputs;
	struct refusals refusals = { .action = action, .plan = plan, .root_fd = nic->role.root_fd };
	int r;

	if (!plan->go_count)
		return 0;
	find_users(&refusals);
	r = check_part(&refusals, SWAP_STORAGE, inputs->unload_storage, "storage over RDMA",
		CONTRACT_ENV_UNLOAD_STORAGE);
	if (r == 0)
		r = check_part(&refusals, SWAP_THIRD_PARTY, inputs->unload_third_party,
			"third-party RDMA", CONTRACT_ENV_UNLOAD_THIRD_PARTY);
	if (r == 0)
		r = check_modules(&refusals);
	if (r == 0)
		r = conclude(&refusals);
	strv_free(&refusals.texts);
	return r == -ENOMEM ? action_fail(action, REASON_INTERNAL, r, "out of memory") : r;
}
