/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The GPU pod's containers for GPUDirect Storage and GDRCopy, when their image is ours: their
 * module is loaded as soon as the driver is there, and again when the driver was loaded anew. The
 * driver container loads both itself when its image has them. In either case the module's device
 * nodes are made in the driver root.
 * Their probes ask `lsmod` (gpu-operator manifests/state-driver/0500_daemonset.yaml).
 */
#include <fcntl.h>

#include "common/fs.h"
#include "entrypoint/contract.h"
#include "entrypoint/gpu/gpu_internal.h"
#include "entrypoint/node_build/run_node_build.h"
#include "entrypoint/role/module_kind.h"
#include "entrypoint/role/modset.h"
#include "entrypoint/role/prove.h"
#include "entrypoint/rdma/ofed.h"
#include "entrypoint/role/role.h"
#include "entrypoint/role/roles.h"
#include "module/running.h"

/* The manifests' `until` waits for this before it starts us; other modules compile against it. */
#define DRIVER_SOURCES CONTRACT_DRIVER_ROOT "/usr/src"

#define LOAD_DEADLINE_MS (60 * 1000)

struct sidecar {
	struct role role; /* first: an action's role points to it */
	const struct gpu_module *module;
	bool tried; /* since the driver last said that it is ready */
};

static bool is_loaded(const struct sidecar *sidecar)
{
	return sysmodule_is_live(sidecar->role.root_fd, sidecar->module->name);
}

/* Then the driver container, of the same image, compiled the module and loaded it. */
static bool has_kit(const void *role)
{
	return nodebuild_has_kit(role);
}

static int wait_driver(struct action *action)
{
	struct role *role = action->role;

	/* Watch first, look then: what comes in between is an event. */
	(void) events_watch_file(&role->events, "/" DRIVER_SOURCES);
	/* A mount is no event of inotify's: the driver container writes this file right after. */
	(void) events_watch_file(&role->events, "/" CONTRACT_DAEMONS_STATUS);
	if (!sysmodule_is_live(role->root_fd, "nvidia"))
		return action_missing(action, REASON_DEADLINE,
			"the driver container has not loaded the module nvidia yet");
	if (!fs_exists(role->root_fd, DRIVER_SOURCES))
		return action_missing(action, REASON_DEADLINE,
			"the driver container has not exported /%s", DRIVER_SOURCES);
	return 0;
}

static int prove(struct action *action)
{
	const struct sidecar *sidecar = action->role;
	const struct role *role = &sidecar->role;

	int r;

	if (is_loaded(sidecar))
		return 0;
	r = module_kind_choose(action);
	if (r < 0)
		return r;
	if (!strv_contains(&role->driver_modules, sidecar->module->name))
		return action_fail(action, REASON_WILL_NOT_LOAD, -ENOENT,
			"this image has no module %s for %s, and the driver container did not load it: build the image with slipway build %s SOURCE, or use the vendor's image for this container; if the driver was compiled on the node, the log of that build says whether this module was too",
			sidecar->module->name, role->krel, sidecar->module->build_option);
	return prove_modules(action, &sidecar->module->name, 1, 1);
}

/* In the driver root, where others look for them, not in this container's own /dev. */
static int make_nodes(struct action *action)
{
	const struct sidecar *sidecar = action->role;
	const struct role *role = &sidecar->role;
	_cleanup_close_ int fd =
		openat(role->root_fd, CONTRACT_DRIVER_ROOT, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r;

	if (fd < 0)
		r = error_set_errno(&action->error, -errno, "/" CONTRACT_DRIVER_ROOT);
	else
		r = gpu_make_addon_nodes(role->root_fd, sidecar->module, fd, &action->error);
	return action_reason(action, REASON_MOUNT_FAILED, r);
}

static int load(struct action *action)
{
	const struct sidecar *sidecar = action->role;
	int r = 0;

	if (is_loaded(sidecar))
		worker_report(action->worker, WORKER_NOTE, 0, "%s is already loaded",
			sidecar->module->name);
	else
		r = role_load(action, &sidecar->module->name, 1, 1);
	return r < 0 ? r : make_nodes(action);
}

/* The driver container unloads what holds its modules itself: nothing here is undone. */
static const struct step sidecar_steps[] = {
	{ .name = "identify-kernel", .perform = role_identify },
	{ .name = "wait-driver",
		.kind = STEP_WAIT,
		.perform = wait_driver,
		.deadline = role_ofed_deadline },
	{ .name = "prove", .kind = STEP_WORKER, .perform = prove, .deadline_ms = LOAD_DEADLINE_MS },
	{ .name = "load", .kind = STEP_WORKER, .perform = load, .deadline_ms = LOAD_DEADLINE_MS },
};

/*
 * The driver was loaded anew, and our module went with the old one. Only once the driver is said to
 * be ready: one that is just being unloaded must not be held by us.
 */
static void follow_driver(struct role *role, unsigned happened, uint64_t *wake_ms)
{
	static const struct step again = {
		.name = "load",
		.kind = STEP_WORKER,
		.perform = load,
		.deadline_ms = LOAD_DEADLINE_MS,
	};
	struct sidecar *sidecar = (struct sidecar *) role;
	struct action action;

	(void) happened, (void) wake_ms;
	(void) events_watch_file(&role->events, "/" CONTRACT_DRIVER_CTR_READY);
	if (!fs_exists(role->root_fd, CONTRACT_DRIVER_CTR_READY))
		sidecar->tried = false;
	else if (!sidecar->tried && !role->events.worker_pid &&
		 sysmodule_is_live(role->root_fd, "nvidia")) {
		sidecar->tried = true; /* what fails once would fail at every event */
		(void) plan_do(&role->plan, &again, &action);
	}
}

static const struct watch sidecar_watches[] = {
	{ "driver", follow_driver },
};

static int run(int root_fd, const struct role_hooks *hooks, const char *name)
{
	struct sidecar sidecar = {
		.role = {
			.name = name,
			.state_folder = GPU_STATE_FOLDER,
			.host_root = "/" CONTRACT_GPU_HOST_ROOT,
			.root_fd = root_fd,
			.hooks = hooks,
			.prove_peer = fingerprint_for_proof,
			.build = &nodebuild_gpu,
			.is_built_here = has_kit,
			.watches = sidecar_watches,
			.watch_count = ARRAY_SIZE(sidecar_watches),
		},
		.module = gpu_module_of_sidecar(name),
	};

	return role_run(&sidecar.role, sidecar_steps, ARRAY_SIZE(sidecar_steps));
}

int gds_main(int root_fd, char *const *arguments, const struct role_hooks *hooks)
{
	(void) arguments;
	return run(root_fd, hooks, "gds");
}

int gdrcopy_main(int root_fd, char *const *arguments, const struct role_hooks *hooks)
{
	(void) arguments;
	return run(root_fd, hooks, "gdrcopy");
}
