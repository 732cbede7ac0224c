/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/nic/debt.h"

#include <string.h>

#include "common/fs.h"
#include "entrypoint/engine/kill_point.h"
#include "entrypoint/role/roles.h"
#include "module/sysmodule.h"

#define INBOX_PATH   NIC_STATE_FOLDER "/nic.inbox"
#define SETTLED_PATH NIC_STATE_FOLDER "/nic.settled"

int debt_read(const struct role *role, struct swap_plan *debt, struct error *error)
{
	return swap_plan_read(role->root_fd, NIC_SWAP_PATH, debt, error);
}

int debt_write(const struct role *role, const struct swap_plan *debt, struct error *error)
{
	return swap_plan_write(role->root_fd, NIC_SWAP_PATH, debt, error);
}

void debt_forget(const struct role *role)
{
	(void) unlinkat(role->root_fd, NIC_SWAP_PATH, 0);
}

void debt_settle(const struct role *role)
{
	if (renameat(role->root_fd, NIC_SWAP_PATH, role->root_fd, SETTLED_PATH) < 0)
		debt_forget(role);
}

bool debt_is_settled(const struct role *role)
{
	return fs_exists(role->root_fd, SETTLED_PATH);
}

void debt_settled_forget(const struct role *role)
{
	(void) unlinkat(role->root_fd, SETTLED_PATH, 0);
}

int inbox_read(const struct role *role, struct swap_plan *inbox, struct error *error)
{
	return swap_plan_read(role->root_fd, INBOX_PATH, inbox, error);
}

void inbox_forget(const struct role *role)
{
	(void) unlinkat(role->root_fd, INBOX_PATH, 0);
}

static struct swap_module *find(const struct swap_plan *plan, const char *name)
{
	for (size_t i = 0; i < plan->go_count; i++)
		if (strcmp(plan->go[i].name, name) == 0)
			return &plan->go[i];
	return NULL;
}

int swap_insert(struct swap_plan *plan, size_t index, const struct swap_module *module)
{
	int r = swap_plan_add(plan, module);
	struct swap_module last;

	if (r < 0)
		return r;
	last = plan->go[plan->go_count - 1];
	memmove(&plan->go[index + 1], &plan->go[index],
		(plan->go_count - 1 - index) * sizeof(*plan->go));
	plan->go[index] = last;
	return 0;
}

static int replace(struct swap_module *there, const struct swap_module *module)
{
	char *options = strdup(module->options ? module->options : "");

	if (!options)
		return -ENOMEM;
	free(there->options);
	*there = *module;
	there->options = options;
	return 0;
}

/*
 * What came since leans on what was there, if on anything: it goes first and comes last. What an
 * earlier life loaded itself is owed to nobody.
 */
int debt_merge(struct swap_plan *debt, const struct swap_plan *plan, const struct strv *coming)
{
	size_t added = 0;
	int r = 0;

	for (size_t i = 0; r == 0 && i < plan->go_count; i++)
		if (!find(debt, plan->go[i].name) && !strv_contains(&debt->load, plan->go[i].name))
			r = swap_insert(debt, added++, &plan->go[i]);
	for (size_t i = 0; r == 0 && i < coming->count; i++)
		r = strv_push_unique(&debt->load, coming->items[i]);
	return r;
}

/*
 * A module whose file the host's tree has is the node's own, whatever was known; of one that
 * another container brought the old entry stays.
 */
int inbox_merge(
	struct swap_plan *inbox, const struct swap_plan *plan, bool known, struct at_hand *at_hand)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < plan->go_count; i++) {
		const struct swap_module *module = &plan->go[i];
		struct swap_module *there = find(inbox, module->name);

		if (module->part == SWAP_PEERMEM ||
			(known && !at_hand_on_host(at_hand, module->name, module->build_id)))
			continue;
		r = there ? replace(there, module) : swap_plan_add(inbox, module);
	}
	return r;
}

/* What this start will insert itself: all of the plan's that is not there, or goes first. */
static int list_coming(const struct role *role, const struct swap_plan *plan, struct strv *coming)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < plan->load.count; i++)
		if (swap_plan_goes(plan, plan->load.items[i]) ||
			!sysmodule_exists(role->root_fd, plan->load.items[i]))
			r = strv_push(coming, plan->load.items[i]);
	return r;
}

/* With what came of ours, so that a later life knows it from what the node had. */
static int remember_inbox(const struct role *role, const struct swap_plan *plan,
	const struct strv *coming, struct at_hand *at_hand, struct error *error)
{
	_cleanup_(swap_plan_free) struct swap_plan inbox = { 0 };
	int r = inbox_read(role, &inbox, error);
	bool known = r == 0;

	if (r < 0) { /* there is none, or one that nobody can read */
		swap_plan_free(&inbox);
		inbox = (struct swap_plan){ 0 };
	}
	r = inbox_merge(&inbox, plan, known, at_hand);
	for (size_t i = 0; r == 0 && i < coming->count; i++)
		r = strv_push_unique(&inbox.load, coming->items[i]);
	if (r < 0)
		return error_set_errno(error, r, "/%s", INBOX_PATH);
	return swap_plan_write(role->root_fd, INBOX_PATH, &inbox, error);
}

int debt_enter(const struct role *role, const struct swap_plan *plan, struct at_hand *at_hand,
	struct error *error)
{
	_cleanup_(swap_plan_free) struct swap_plan debt = { 0 };
	_cleanup_strv_ struct strv coming = { 0 };
	int r = list_coming(role, plan, &coming);

	if (r < 0)
		return error_set_errno(error, r, "/%s", NIC_SWAP_PATH);
	/* One that nobody can read says nothing, and a start must not hang on it. */
	r = debt_read(role, &debt, error);
	if (r < 0 && r != -ENOENT && r != -EBADMSG)
		return r;
	/* What runs is what an earlier life left half done: the node's own is what that one found.
	 */
	r = remember_inbox(role, r < 0 ? plan : &debt, &coming, at_hand, error);
	kill_point("swap:inbox");
	if (r < 0)
		return r;
	r = debt_merge(&debt, plan, &coming);
	if (r < 0)
		return error_set_errno(error, r, "/%s", NIC_SWAP_PATH);
	r = debt_write(role, &debt, error);
	kill_point("swap:debt");
	return r;
}
