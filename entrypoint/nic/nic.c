/* SPDX-License-Identifier: Apache-2.0 */
/* The NIC driver container, with modules for the running kernel in the image ("precompiled"). */
#include <fcntl.h>
#include <string.h>

#include "common/fs.h"
#include "entrypoint/contract.h"
#include "entrypoint/ofed/fingerprint.h"
#include "entrypoint/modules/load.h"
#include "entrypoint/modules/prove.h"
#include "entrypoint/peermem/release.h"
#include "entrypoint/role.h"
#include "entrypoint/roles.h"
#include "entrypoint/root/rootfs.h"
#include "module/sysmodule.h"

/* mlx5_core waits for each card's firmware, one after the other. */
#define LOAD_DEADLINE_MS (600 * 1000)

/* One try at unloading; a pod that has less grace time is killed before. */
#define UNLOAD_DEADLINE_MS (120 * 1000)

static const char *const nic_devices[] = { "/dev/infiniband/", NULL };

/*
 * What OFED's own start script loads; libkmod adds what they depend on. The RDMA core comes before
 * mlx5_core, whose devices make udev ask for mlx5_ib: it would bring the host's core otherwise.
 */
static const char *const nic_modules[] = { "ib_uverbs", "ib_umad", "rdma_ucm", "mlx5_core",
	"mlx5_ib", "ib_ipoib", "rdma_cm" };

static int clear_stale(struct action *action)
{
	const struct role *role = action->role;
	int r = role_expect_shared(action, CONTRACT_OFED_RUN);

	if (r < 0)
		return r;
	(void) unlinkat(role->root_fd, CONTRACT_OFED_READY, 0);
	if (rootfs_detach(CONTRACT_OFED_SOURCES, &action->error) < 0)
		return action_reason(action, REASON_MOUNT_FAILED, -EIO);
	return 0;
}

static int prove(struct action *action)
{
	return prove_modules(action, nic_modules, ARRAY_SIZE(nic_modules), 1);
}

static int load(struct action *action)
{
	return role_load(action, nic_modules, ARRAY_SIZE(nic_modules), 1);
}

/* Only where something has to go for ours does peermem have to go first. */
static int make_room(struct action *action)
{
	const struct role *role = action->role;
	_cleanup_(loader_close) struct loader *loader = NULL;
	_cleanup_strv_ struct strv present = { 0 };
	char foreign[64] = "";
	int r = 0;

	if (sysmodule_exists(role->root_fd, PEERMEM_MODULE)) {
		r = loader_open(role->root_fd, "", role->krel, &loader, &action->error);
		if (r == 0)
			r = role_compare_loaded(role, loader, &present, foreign, &action->error);
		if (r < 0)
			return action_reason(action, REASON_INTERNAL, r);
	}
	if (*foreign)
		r = peermem_make_way(action, &present);
	return r < 0 ? r : role_make_room(action);
}

static int unload(struct action *action)
{
	const struct role *role = action->role;
	int r = peermem_make_way(action, &role->driver_modules);

	if (r == 0)
		r = role_unload(action);
	/* No OFED, no request: one of the host may come and serve. */
	if (r == 0)
		peermem_allow(role->root_fd);
	return r;
}

static int export_sources(struct action *action)
{
	return action_reason(action, REASON_MOUNT_FAILED,
		rootfs_bind(CONTRACT_SOURCES, CONTRACT_OFED_SOURCES, &action->error));
}

static int detach_sources(struct action *action)
{
	return action_reason(
		action, REASON_MOUNT_FAILED, rootfs_detach(CONTRACT_OFED_SOURCES, &action->error));
}

static int tell_ready(struct action *action)
{
	const struct role *role = action->role;

	peermem_allow(role->root_fd);
	return action_write(action, CONTRACT_OFED_READY, "");
}

static int clear_flag(struct action *action)
{
	const struct role *role = action->role;

	(void) unlinkat(role->root_fd, CONTRACT_OFED_READY, 0);
	return 0;
}

/* The flag comes last and goes first. */
static const struct step nic_steps[] = {
	{ .name = "clear-stale", .perform = clear_stale },
	{ .name = "identify-kernel", .perform = role_identify },
	{ .name = "prove", .kind = STEP_WORKER, .perform = prove, .deadline_ms = 60 * 1000 },
	{ .name = "make-room",
		.kind = STEP_WORKER,
		.perform = make_room,
		.deadline_ms = LOAD_DEADLINE_MS,
		.undo_kind = STEP_WORKER,
		.undo = role_give_back,
		.undo_deadline_ms = LOAD_DEADLINE_MS },
	{ .name = "load",
		.kind = STEP_WORKER,
		.perform = load,
		.deadline_ms = LOAD_DEADLINE_MS,
		.undo_kind = STEP_WORKER,
		.undo = unload,
		.undo_deadline_ms = UNLOAD_DEADLINE_MS },
	{ .name = "export-sources", .perform = export_sources, .undo = detach_sources },
	{ .name = "fingerprint",
		.kind = STEP_WORKER,
		.perform = fingerprint_write,
		.deadline_ms = 60 * 1000,
		.undo = fingerprint_remove },
	{ .name = "tell-ready", .perform = tell_ready, .undo = clear_flag },
};

int nic_main(int root_fd, char *const *arguments)
{
	struct role role = {
		.name = "nic",
		.state_folder = NIC_STATE_FOLDER,
		.lock_path = CONTRACT_OFED_LOCK,
		.host_root = "/" CONTRACT_NIC_HOST_ROOT,
		.makes_room = true,
		.devices = nic_devices,
		.root_fd = root_fd,
	};

	(void) arguments;
	return role_run(&role, nic_steps, ARRAY_SIZE(nic_steps));
}
