/* SPDX-License-Identifier: Apache-2.0 */
/* The GPU driver container. */
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>

#include "common/fs.h"
#include "entrypoint/contract.h"
#include "entrypoint/gpu/gpu_daemons.h"
#include "entrypoint/gpu/gpu_programs.h"
#include "entrypoint/gpu/devices.h"
#include "entrypoint/gpu/driver_root.h"
#include "entrypoint/gpu/fast_path.h"
#include "entrypoint/gpu/firmware.h"
#include "entrypoint/gpu/gpu.h"
#include "entrypoint/gpu/module_list.h"
#include "entrypoint/gpu/parameters.h"
#include "entrypoint/gpu/gpu_ignored_env.h"
#include "entrypoint/node_build/nodebuild.h"
#include "entrypoint/rdma/fingerprint.h"
#include "entrypoint/rdma/follow.h"
#include "entrypoint/rdma/peermem_load.h"
#include "entrypoint/status/metrics.h"
#include "entrypoint/rdma/ofed_wait.h"
#include "entrypoint/role/prove.h"
#include "entrypoint/rdma/state.h"
#include "entrypoint/role/role.h"
#include "entrypoint/role/roles.h"
#include "module/sysmodule.h"

/* A build on the node: the largest driver with one job takes some 20 minutes. */
#define BUILD_DEADLINE_MS (3600 * 1000)

/* A module that is loading nvidia.ko's GSP or probing several GPUs is given this long. */
#define LOAD_DEADLINE_MS (300 * 1000)

/* All daemons, one after the other: fabric manager alone takes a minute on a large machine. */
#define DAEMONS_DEADLINE_MS (600 * 1000)

/* One try at unloading; a pod that has less grace time is killed before. */
#define UNLOAD_DEADLINE_MS (120 * 1000)

static const char *const gpu_devices[] = { "/dev/nvidia", NULL };

/*
 * Flags of an earlier life would tell others that we are ready. Its root stays until ours takes its
 * place, or until the modules that it fits go (the step retire-root).
 */
static int clear_stale(struct action *action)
{
	const struct role *role = action->role;
	int r = role_expect_shared(action, CONTRACT_NVIDIA_RUN);

	if (r < 0)
		return r;
	(void) unlinkat(role->root_fd, CONTRACT_DRIVER_CTR_READY, 0);
	r = fs_mkdir_parents(role->root_fd, CONTRACT_VALIDATIONS, 0755);
	if (r < 0)
		return action_fail(action, REASON_MOUNT_FAILED, r, "/%s: %s", CONTRACT_VALIDATIONS,
			strerror(-r));
	return action_write(action, CONTRACT_DAEMONS_STATUS, "NotReady");
}

static int clear_flags(struct action *action)
{
	const struct role *role = action->role;

	(void) unlinkat(role->root_fd, CONTRACT_DRIVER_CTR_READY, 0);
	(void) unlinkat(role->root_fd, CONTRACT_DAEMONS_STATUS, 0);
	return 0;
}

static bool wants_rdma(const void *context)
{
	const struct role *role = context;

	return role->options.rdma;
}

static int identify(struct action *action)
{
	int r = role_identify(action);

	gpu_ignored_env_tell(action->role);
	gpu_tell_missing_modules(action->role);
	return r;
}

static int adopt(struct action *action)
{
	int r = nodebuild_adopt(action);

	gpu_tell_missing_modules(action->role);
	return r;
}

bool gpu_takes_full_path(const void *role)
{
	return !gpu_of_const(role)->keep;
}

bool gpu_keeps(const void *role)
{
	return gpu_of_const(role)->keep;
}

static bool keeps_or_devices_are_free(const void *role)
{
	return gpu_keeps(role) || gpu_devices_are_free(role);
}

/* Then no worker is needed to find out. */
static bool keeps_or_nothing_is_there(const void *role)
{
	return gpu_keeps(role) || !role_has_loaded(role);
}

/* On the full path the worker that proves writes them: it has the modules open already. */
static bool wants_parameters_alone(const void *role)
{
	return gpu_keeps(role) && !fast_path_has_parameters(role);
}

/*
 * Up to v25.3 the operator's startup probe is nvidia-smi, which loads nvidia when it is not: while
 * OFED is waited for, that has to find the parameters.
 */
static bool waits_for_ofed(const void *role)
{
	return wants_rdma(role) && !gpu_keeps(role) && !ofed_is_up(role);
}

static int prove(struct action *action)
{
	const struct role *role = action->role;
	struct module_list list;
	int r = gpu_parameters(action);

	if (r == 0 && role->peermem->due)
		r = peermem_prepare(action);
	gpu_module_list(role, &list);
	return r < 0 ? r : prove_modules(action, list.names, list.count, list.required);
}

static int load(struct action *action)
{
	struct module_list list;

	gpu_module_list(action->role, &list);
	return role_load(action, list.names, list.count, list.required);
}

/* What fits the driver goes after it, and stays with one that is in use. */
static int withdraw(struct action *action)
{
	const struct role *role = action->role;
	int r = sysmodule_exists(role->root_fd, "nvidia") ? 0 : gpu_detach_root(action);

	return r < 0 ? r : gpu_clear_firmware_path(action);
}

/* The flag of a driver that goes would let a probe find it ready. */
static int tell_not_ready(struct action *action)
{
	const struct role *role = action->role;

	(void) unlinkat(role->root_fd, CONTRACT_DRIVER_CTR_READY, 0);
	return action_write(action, CONTRACT_DAEMONS_STATUS, "NotReady");
}

/*
 * The undo of the last step runs first: whoever looks stops relying on the driver before it goes.
 * Nothing is unloaded or loaded before "prove" holds.
 */
static const struct step gpu_steps[] = {
	{ .name = "clear-stale", .perform = clear_stale, .undo = clear_flags },
	{ .name = "identify-kernel", .perform = identify },
	{ .name = "find-device", .perform = gpu_find_device },
	{ .name = "build-on-node",
		.wanted = nodebuild_wanted,
		.kind = STEP_WORKER,
		.perform = nodebuild_run,
		.deadline_ms = BUILD_DEADLINE_MS,
		.stoppable = true,
		.undo_kind = STEP_WORKER,
		.undo = nodebuild_clear,
		.undo_deadline_ms = UNLOAD_DEADLINE_MS },
	{ .name = "read-build", .wanted = nodebuild_unread, .perform = adopt },
	{ .name = "recognise", .perform = fast_path_recognise, .undo = fast_path_forget_gone },
	{ .name = "early-parameters",
		.wanted = waits_for_ofed,
		.kind = STEP_WORKER,
		.perform = gpu_parameters,
		.deadline_ms = 60 * 1000 },
	{ .name = "wait-ofed", .wanted = wants_rdma, .kind = STEP_WAIT, .perform = ofed_wait },
	{ .name = "parameters",
		.wanted = wants_parameters_alone,
		.kind = STEP_WORKER,
		.perform = gpu_parameters,
		.deadline_ms = 60 * 1000 },
	{ .name = "configure-daemons", .perform = gpu_daemons_configure },
	{ .name = "prove",
		.wanted = gpu_takes_full_path,
		.kind = STEP_WORKER,
		.perform = prove,
		.stoppable = true, /* it may compile nvidia-peermem */
		.deadline_ms = 600 * 1000 },
	{ .name = "forget", .wanted = gpu_takes_full_path, .perform = fast_path_forget },
	{ .name = "free-devices",
		.is_done = keeps_or_devices_are_free, /* not .wanted: the undo runs */
		.kind = STEP_WORKER,
		.perform = gpu_free_devices,
		.deadline_ms = LOAD_DEADLINE_MS,
		.undo_kind = STEP_WORKER,
		.undo = gpu_return_devices,
		.undo_deadline_ms = LOAD_DEADLINE_MS },
	{ .name = "make-room",
		.is_done = keeps_or_nothing_is_there,
		.kind = STEP_WORKER,
		.perform = role_unload_conflicting,
		.deadline_ms = LOAD_DEADLINE_MS,
		.undo_kind = STEP_WORKER,
		.undo = role_reload_replaced,
		.undo_deadline_ms = LOAD_DEADLINE_MS },
	/*
	 * The programs of an old root fit the modules that are gone now. A driver that could not go
	 * keeps its root: here as in the undo of "firmware-path", which comes after the unloading.
	 */
	{ .name = "retire-root", .wanted = gpu_takes_full_path, .perform = gpu_detach_root },
	{ .name = "firmware-path", .perform = gpu_set_firmware_path, .undo = withdraw },
	{ .name = "load",
		.is_done = gpu_keeps,
		.kind = STEP_WORKER,
		.perform = load,
		.deadline_ms = LOAD_DEADLINE_MS,
		.undo_kind = STEP_WORKER,
		.undo = role_unload,
		.undo_deadline_ms = UNLOAD_DEADLINE_MS },
	{ .name = "fabric-modules",
		.wanted = gpu_daemons_want_modules,
		.kind = STEP_WORKER,
		.perform = gpu_daemons_load_modules,
		.deadline_ms = 60 * 1000 },
	{ .name = "export-root", .perform = gpu_export_root }, /* undone by withdraw() */
	{ .name = "start-daemons",
		.kind = STEP_WAIT,
		.perform = gpu_daemons_start,
		.deadline_ms = DAEMONS_DEADLINE_MS,
		.undo_kind = STEP_WAIT,
		.undo = gpu_daemons_stop,
		.undo_deadline_ms = GPU_PROGRAMS_STOP_ALL_MS },
	{ .name = "remember", .perform = fast_path_remember },
	{ .name = "tell-ready", .perform = gpu_daemons_tell, .undo = tell_not_ready },
};

static const struct watch gpu_watches[] = {
	{ "peermem", peermem_follow },
	{ "daemons", gpu_daemons_watch },
	{ "fingerprint", fast_path_watch },
	{ "metrics", metrics_watch },
};

int gpu_main(int root_fd, char *const *arguments)
{
	struct gpu gpu = { .role = {
				   .name = "gpu",
				   .state_folder = GPU_STATE_FOLDER,
				   .lock_path = CONTRACT_GPU_PID_FILE,
				   .host_root = "/" CONTRACT_GPU_HOST_ROOT,
				   .unloads_conflicting = true,
				   .unloads_holders = true,
				   .devices = gpu_devices,
				   .build = &nodebuild_gpu,
				   .is_built_here = nodebuild_wanted,
				   .on_change = metrics_changed,
				   .prove_peer = fingerprint_for_proof,
				   .peermem = &gpu.peermem,
				   .root_fd = root_fd,
				   .arguments = arguments,
				   .watches = gpu_watches,
				   .watch_count = ARRAY_SIZE(gpu_watches),
			   } };

	return role_run(&gpu.role, gpu_steps, ARRAY_SIZE(gpu_steps));
}
