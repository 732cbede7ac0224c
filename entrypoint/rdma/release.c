/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/rdma/release.h"

#include <fcntl.h>
#include <string.h>

#include "common/clock.h"
#include "common/fs.h"
#include "entrypoint/contract.h"
#include "entrypoint/engine/lock.h"
#include "entrypoint/role/modset.h"
#include "entrypoint/role/role.h"
#include "module/sysmodule.h"

/*
 * A follower answers in milliseconds. The NIC pod's stop tries again as long as its own time lasts,
 * so that one try needs not wait for a process that is about to end.
 */
#define RELEASE_WAIT_MS 5000

/* After a word of the kernel's about some module. */
#define GOING_RETRY_MS 10

#define ANSWER_SIZE 2048

/* Whose processes use RDMA devices: seen from a pod that shares the host's process ids. */
static const char *const rdma_devices[] = { "/dev/infiniband/", NULL };

void peermem_allow(int root_fd)
{
	(void) unlinkat(root_fd, PEERMEM_REQUEST, 0);
	(void) unlinkat(root_fd, PEERMEM_ANSWER, 0);
}

bool peermem_is_asked_to_go(int root_fd)
{
	/* A NIC container that was killed asks for nothing any more. */
	return fs_exists(root_fd, PEERMEM_REQUEST) && lock_is_held(root_fd, CONTRACT_OFED_LOCK);
}

static int unload_peermem(struct action *action)
{
	static char name[] = PEERMEM_MODULE;
	static char *names[] = { name, NULL };
	static const struct strv one = { .items = names, .count = 1 };
	const struct role *role = action->role;
	const struct unload unload = {
		.root_fd = role->root_fd, .modules = &one, .device_prefixes = rdma_devices
	};
	_cleanup_strv_ struct strv removed = { 0 };
	int r = unload_modules(&unload, action->worker, &removed, &action->error);

	return action_reason(action, r == -EBUSY ? REASON_MODULE_IN_USE : REASON_UNLOAD_FAILED, r);
}

int peermem_let_go(struct action *action)
{
	const struct role *role = action->role;
	int r = unload_peermem(action);

	if (r == 0)
		(void) unlinkat(role->root_fd, PEERMEM_ANSWER, 0);
	else if (fs_write_atomic(role->root_fd, PEERMEM_ANSWER, action->error.text,
			 strlen(action->error.text), 0644) < 0)
		worker_report(
			action->worker, WORKER_NOTE, 0, "/%s cannot be written", PEERMEM_ANSWER);
	return r;
}

bool peermem_has_users(int root_fd)
{
	_cleanup_strv_ struct strv holders = { 0 };
	int references = sysmodule_references(root_fd, PEERMEM_MODULE);

	return sysmodule_holders(root_fd, PEERMEM_MODULE, &holders) == 0 &&
	       references > (int) holders.count;
}

/* Peermem need not go where OFED could not go either. */
static int look_for_others(struct action *action, const struct strv *going)
{
	const struct role *role = action->role;
	_cleanup_strv_ struct strv with_peermem = { 0 };
	_cleanup_strv_ struct strv order = { 0 };
	const struct unload unload = {
		.root_fd = role->root_fd, .modules = &with_peermem, .device_prefixes = role->devices
	};
	int r = strv_push(&with_peermem, PEERMEM_MODULE);

	for (size_t i = 0; r == 0 && i < going->count; i++)
		r = strv_push(&with_peermem, going->items[i]);
	if (r < 0)
		return action_fail(action, REASON_INTERNAL, r, "out of memory");
	if (peermem_has_users(role->root_fd))
		return 0; /* the GPU side knows better who they are */
	r = unload_order(&unload, action->worker, &order, &action->error);
	return action_reason(action, r == -EBUSY ? REASON_MODULE_IN_USE : REASON_UNLOAD_FAILED, r);
}

/* True once it is gone. The worker's own descriptors: the init's are the init's. */
static bool wait_until_gone(int root_fd)
{
	uint64_t give_up_ms = clock_monotonic_ms() + RELEASE_WAIT_MS;
	uint64_t look_ms = give_up_ms;
	struct events events;
	struct error ignored;
	bool gone;

	if (events_open(&events, &ignored) < 0)
		return !sysmodule_exists(root_fd, PEERMEM_MODULE);
	while (!(gone = !sysmodule_exists(root_fd, PEERMEM_MODULE)) &&
		lock_is_held(root_fd, PEERMEM_LOCK) && clock_monotonic_ms() < give_up_ms) {
		/* The kernel tells of a module's end a moment before its folder is gone. */
		bool soon = events_wait(&events, look_ms) & EVENT_KERNEL;

		look_ms = soon ? clock_monotonic_ms() + GOING_RETRY_MS : give_up_ms;
	}
	events_close(&events);
	return gone;
}

static int refuse_in_use(struct action *action)
{
	const struct role *role = action->role;
	_cleanup_free_ char *answer = NULL;

	if (fs_read(role->root_fd, PEERMEM_ANSWER, ANSWER_SIZE, &answer, NULL) < 0 || !*answer)
		return unload_peermem(
			action); /* it says nothing: this is what can be seen from here */
	return action_fail(action, REASON_MODULE_IN_USE, -EBUSY,
		"%s uses OFED, and the GPU container cannot let it go: %.700s", PEERMEM_MODULE,
		answer);
}

static int ask(struct action *action)
{
	const struct role *role = action->role;
	uint64_t begun_us = clock_monotonic_us();
	int r;

	(void) unlinkat(role->root_fd, PEERMEM_ANSWER, 0);
	r = action_write(action, PEERMEM_REQUEST, role->name);
	if (r < 0)
		return r;
	if (!wait_until_gone(role->root_fd))
		return refuse_in_use(action);
	worker_report(action->worker, WORKER_NOTE, 0, "the GPU container let %s go in %.1f ms",
		PEERMEM_MODULE, (double) (clock_monotonic_us() - begun_us) / 1e3);
	return 0;
}

int peermem_make_way(struct action *action, const struct strv *going)
{
	const struct role *role = action->role;
	int r;

	if (!sysmodule_exists(role->root_fd, PEERMEM_MODULE))
		return 0;
	r = look_for_others(action, going);
	if (r < 0)
		return r;
	if (lock_is_held(role->root_fd, PEERMEM_LOCK))
		return ask(action);
	worker_report(action->worker, WORKER_NOTE, 0,
		"no GPU container is there to let %s go: it is unloaded from here", PEERMEM_MODULE);
	return unload_peermem(action);
}
