/* SPDX-License-Identifier: Apache-2.0 */
/* The GPU pod's second container: nvidia-peermem, for as long as OFED and nvidia are there. */
#include <limits.h>
#include <string.h>

#include "common/fs.h"
#include "entrypoint/contract.h"
#include "entrypoint/rdma/ofed_wait.h"
#include "entrypoint/rdma/fingerprint.h"
#include "entrypoint/rdma/follow.h"
#include "entrypoint/rdma/peermem_load.h"
#include "entrypoint/node_build/nodebuild.h"
#include "entrypoint/rdma/release.h"
#include "entrypoint/rdma/variant.h"
#include "entrypoint/rdma/state.h"
#include "entrypoint/role/role.h"
#include "entrypoint/role/roles.h"
#include "entrypoint/status/metrics.h"
#include "module/sysmodule.h"

static int wait_nvidia(struct action *action)
{
	struct role *role = action->role;
	char path[PATH_MAX];

	/* Watch first, look then: what comes in between is an event. */
	(void) events_watch_file(&role->events, "/" CONTRACT_DAEMONS_STATUS);
	if (sysmodule_is_live(role->root_fd, "nvidia") && nodebuild_wanted(role) &&
		!sysmodule_is_live(role->root_fd, PEERMEM_MODULE) &&
		peermem_path(role, path, sizeof(path)) < 0)
		return action_missing(action, REASON_DEADLINE,
			"the driver container, which compiles nvidia-peermem, has not exported it");
	if (sysmodule_is_live(role->root_fd, "nvidia"))
		return 0;
	return action_missing(action, REASON_DEADLINE,
		"the module nvidia is not loaded: the driver container has not come that far");
}

static int load(struct action *action)
{
	const struct role *role = action->role;

	if (sysmodule_is_live(role->root_fd, PEERMEM_MODULE))
		return 0; /* the driver container loaded it, and will unload it */
	return peermem_load(action);
}

static bool is_due(const void *context)
{
	const struct role *role = context;

	return role->peermem->due;
}

/* The driver container unloads all of its modules itself: this one waits, loads, and follows OFED.
 */
static const struct step peermem_steps[] = {
	{ .name = "identify-kernel", .perform = role_identify },
	{ .name = "wait-ofed", .kind = STEP_WAIT, .perform = ofed_wait },
	{ .name = "wait-nvidia", .wanted = is_due, .kind = STEP_WAIT, .perform = wait_nvidia },
	{ .name = "load",
		.wanted = is_due,
		.kind = STEP_WORKER,
		.perform = load,
		.stoppable = true, /* it may compile */
		.deadline_ms = 600 * 1000 },
};

static const struct watch peermem_watches[] = {
	{ "peermem", peermem_follow },
};

int peermem_main(int root_fd, char *const *arguments)
{
	struct peermem_state state = { .always = true };
	struct role role = {
		.name = "peermem",
		.state_folder = GPU_STATE_FOLDER,
		.host_root = "/" CONTRACT_GPU_HOST_ROOT,
		.build = &nodebuild_gpu,
		.root_fd = root_fd,
		.is_built_here = nodebuild_wanted,
		.on_change = metrics_changed,
		.prove_peer = fingerprint_for_proof,
		.peermem = &state,
		.watches = peermem_watches,
		.watch_count = ARRAY_SIZE(peermem_watches),
	};

	(void) arguments;
	return role_run(&role, peermem_steps, ARRAY_SIZE(peermem_steps));
}
