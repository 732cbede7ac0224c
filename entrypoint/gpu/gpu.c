/* SPDX-License-Identifier: Apache-2.0 */
/* The GPU driver container. */
#include <stdbool.h>
#include <string.h>

#include "common/fs.h"
#include "entrypoint/contract.h"
#include "entrypoint/gpu/gpu_internal.h"
#include "entrypoint/node_build/run_node_build.h"
#include "entrypoint/rdma/ofed.h"
#include "entrypoint/rdma/peermem.h"
#include "entrypoint/role/module_kind.h"
#include "entrypoint/role/modset.h"
#include "entrypoint/role/mounts.h"
#include "entrypoint/role/prove.h"
#include "entrypoint/role/roles.h"
#include "module/running.h"

/* A build on the node: the largest driver with one job takes some 20 minutes. */
#define BUILD_DEADLINE_MS (3600 * 1000)

/* A module that is loading nvidia.ko's GSP or probing several GPUs is given this long. */
#define LOAD_DEADLINE_MS (300 * 1000)

/* All daemons, one after the other: fabric manager alone takes a minute on a large machine. */
#define DAEMONS_DEADLINE_MS (600 * 1000)

/* One try at unloading; a pod that has less grace time is killed before. */
#define UNLOAD_DEADLINE_MS (120 * 1000)

static const char *const gpu_devices[] = { "/dev/nvidia", NULL };

/* The flag of a driver that goes would let a probe find it ready. */
static int report_not_ready(struct action *action)
{
	const struct role *role = action->role;

	(void) unlinkat(role->root_fd, CONTRACT_DRIVER_CTR_READY, 0);
	return action_write(action, CONTRACT_DAEMONS_STATUS, "NotReady");
}

/*
 * Flags of a previous run would say that we are ready. Its root stays until ours takes its
 * place, or until the modules that it fits go (the step retire-root).
 */
static int clear_stale(struct action *action)
{
	struct role *role = action->role;
	struct error why = { 0 };
	int r = role_expect_shared(action, CONTRACT_NVIDIA_RUN);

	if (r < 0)
		return r;
	/* The operator mounts OFED's sources by themselves and the folder above them, too. */
	if (rootfs_uncover(role->root_fd, CONTRACT_OFED_SOURCES, &why) < 0)
		role_note(role, "%s", why.text);
	r = fs_mkdir_parents(role->root_fd, CONTRACT_VALIDATIONS, 0755);
	if (r < 0)
		return action_fail(action, REASON_MOUNT_FAILED, r, "/%s: %s", CONTRACT_VALIDATIONS,
			strerror(-r));
	return report_not_ready(action);
}

static int clear_flags(struct action *action)
{
	struct role *role = action->role;

	/* A stop that comes before this start's own load. */
	if (role_has_inserted(role) && sysmodule_is_live(role->root_fd, "nvidia"))
		role->left_so = "the nvidia driver that was loaded before this start stays: it was "
				"stopped before its own load";
	(void) unlinkat(role->root_fd, CONTRACT_DRIVER_CTR_READY, 0);
	(void) unlinkat(role->root_fd, CONTRACT_DAEMONS_STATUS, 0);
	return 0;
}

static int identify(struct action *action)
{
	int r = role_identify(action);

	gpu_report_ignored_env(action->role);
	gpu_report_missing_modules(action->role);
	return r;
}

static int adopt(struct action *action)
{
	int r = role_read_image(action);

	gpu_report_missing_modules(action->role);
	return r;
}

static bool keeps(const void *role)
{
	return gpu_of_const(role)->keep;
}

static bool takes_full_path(const void *role)
{
	return !keeps(role);
}

static bool keeps_or_devices_are_free(const void *role)
{
	return keeps(role) || gpu_of_const(role)->devices_are_free;
}

/* Then no worker is needed to find out. */
static bool keeps_or_nothing_is_loaded(const void *role)
{
	return keeps(role) || !role_has_loaded(role);
}

/* On the full path the worker that proves writes them: it has the modules open already. */
static bool wants_parameters_alone(const void *role)
{
	return keeps(role) && !gpu_of_const(role)->fast_path.parameters;
}

static bool wants_rdma(const void *role)
{
	return gpu_of_const(role)->role.options.rdma;
}

/*
 * Up to v25.3 the operator's startup probe is nvidia-smi, which loads nvidia when it is not: while
 * OFED is waited for, that has to find the parameters.
 */
static bool waits_for_ofed(const void *role)
{
	return wants_rdma(role) && !keeps(role) && !ofed_is_up(role);
}

static int prove(struct action *action)
{
	const struct gpu *gpu = gpu_of(action->role);
	struct module_list list;
	int r = gpu_check_devices(action);

	if (r == 0)
		r = gpu_parameters(action);
	if (r == 0)
		r = fast_path_avoid_refused(action);
	if (r == 0 && gpu->peermem.due)
		r = peermem_prepare(action);
	if (r < 0)
		return r;
	gpu_module_list(&gpu->role, gpu->peermem.due, &list);
	return prove_modules(action, list.names, list.count, list.required);
}

static int load_all(struct action *action)
{
	const struct gpu *gpu = gpu_of(action->role);
	struct module_list list;
	int r;

	gpu_module_list(&gpu->role, false, &list);
	r = role_load(action, list.names, list.count, list.required);
	if (r == 0)
		gpu_take_devices(action);
	return r < 0 || !gpu->peermem.due ? r : peermem_load(action);
}

/* Did the kernel, or the module itself, refuse one? -EEXIST: the host's modules are there. */
static bool is_refused(const struct action *action, int r)
{
	return r != -EEXIST &&
	       (action->reason == REASON_LOAD_FAILED || action->reason == REASON_NO_NVIDIA_DEVICE);
}

/* @text: what PARAMETERS_PATH had. @why: the kernel's words on the other parameters, for status. */
static int load_as_before(struct action *action, const char *text, const struct error *why)
{
	const struct role *role = action->role;
	_cleanup_strv_ struct strv refused = { 0 };
	struct error ignored;
	int r = role_unload(action);

	if (r == 0) {
		fast_path_note_refused(role);
		r = fs_write_atomic(role->root_fd, PARAMETERS_PATH, text, strlen(text), 0644);
		r = action_reason(action, REASON_MOUNT_FAILED, r);
	}
	if (r == 0)
		r = load_all(action);
	if (r == 0 && strv_push(&refused, why->text) == 0)
		(void) !role_list_write(role, ROLE_REFUSED_LIST, &refused, &ignored);
	return r;
}

static int load(struct action *action)
{
	struct worker *worker = action->worker;
	const struct role *role = action->role;
	_cleanup_free_ char *earlier = NULL;
	int r = load_all(action);
	const struct error error = action->error;
	const enum reason reason = action->reason;

	if (r == 0)
		fast_path_forget_refused(role);
	else if (is_refused(action, r))
		earlier = fast_path_earlier_parameters(role);
	if (!earlier)
		return r;
	worker_report(worker, WORKER_NOTE, 0,
		"the driver does not load with other parameters in /" CONTRACT_MODULE_CONF
		", the operator's kernelModuleConfig, than before, and gets the earlier ones: %s",
		error.text);
	if (load_as_before(action, earlier, &error) == 0)
		return 0;
	worker_report(worker, WORKER_NOTE, 0, "nor does it load with its earlier parameters: %s",
		action->error.text);
	action->error = error;
	action->reason = reason;
	return r;
}

/*
 * The undo of the last step runs first: others stop relying on the driver before it goes.
 * Nothing is unloaded or loaded before "prove" holds. It judges what is to be inserted where
 * nothing is, or in place of another build. Modules of the image that are loaded with other
 * parameters than they are to have are not judged again, although "unload-conflicting" unloads
 * them: the kernel that runs has taken these very files, gpu_parameters(), a part of "prove", has
 * checked the new parameters, and what the modules then refuse "load" takes back.
 */
static const struct step gpu_steps[] = {
	{ .name = "clear-stale", .perform = clear_stale, .undo = clear_flags },
	/*
	 * Every start begins these two. Their undos bring back what a start took from the node,
	 * also one that was killed, when the next one fails before it takes anything itself.
	 */
	{ .name = "identify-kernel",
		.perform = identify,
		.undo_kind = STEP_WORKER,
		.undo = gpu_return_devices,
		.undo_deadline_ms = LOAD_DEADLINE_MS },
	{ .name = "find-device",
		.perform = gpu_find_device,
		.undo_kind = STEP_WORKER,
		.undo_first = gpu_return_early,
		.undo = role_reload_replaced,
		.undo_deadline_ms = LOAD_DEADLINE_MS },
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
	{ .name = "choose-modules",
		.wanted = module_kind_has_both,
		.kind = STEP_WORKER,
		.perform = module_kind_choose,
		.deadline_ms = 60 * 1000 },
	{ .name = "read-modules", .wanted = module_kind_has_both, .perform = role_read_image },
	{ .name = "recognise", .perform = fast_path_recognise, .undo = fast_path_forget_gone },
	{ .name = "early-parameters",
		.wanted = waits_for_ofed,
		.kind = STEP_WORKER,
		.perform = gpu_early_parameters,
		.deadline_ms = 60 * 1000 },
	{ .name = "wait-ofed",
		.wanted = wants_rdma,
		.kind = STEP_WAIT,
		.perform = ofed_wait,
		.deadline = role_ofed_deadline },
	{ .name = "parameters",
		.wanted = wants_parameters_alone,
		.kind = STEP_WORKER,
		.perform = gpu_parameters,
		.deadline_ms = 60 * 1000 },
	{ .name = "configure-daemons", .perform = gpu_daemons_configure },
	{ .name = "prove",
		.wanted = takes_full_path,
		.kind = STEP_WORKER,
		.perform = prove,
		.stoppable = true, /* it may compile nvidia-peermem */
		.deadline_ms = 600 * 1000 },
	{ .name = "forget", .wanted = takes_full_path, .perform = fast_path_forget },
	{ .name = "free-devices",
		.is_done = keeps_or_devices_are_free,
		.kind = STEP_WORKER,
		.perform = gpu_free_devices,
		.deadline_ms =
			LOAD_DEADLINE_MS }, /* undone with "find-device", "identify-kernel" */
	{ .name = "unload-conflicting",
		.is_done = keeps_or_nothing_is_loaded,
		.kind = STEP_WORKER,
		.perform = role_unload_conflicting,
		.deadline_ms = LOAD_DEADLINE_MS }, /* undone with "find-device" */
	/*
	 * The programs of an old root fit the modules that are gone now. A driver that stays keeps
	 * its root: here as in the undo of "firmware-path", which comes after the unloading.
	 */
	{ .name = "retire-root", .wanted = takes_full_path, .perform = gpu_retire_root },
	{ .name = "firmware-path", .perform = gpu_set_firmware_path, .undo = gpu_withdraw_root },
	{ .name = "load",
		.is_done = keeps,
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
	/* Longer than PROCFS_GPUS_MS. */
	{ .name = "device-nodes",
		.kind = STEP_WORKER,
		.perform = gpu_make_nodes,
		.deadline_ms = 20 * 1000,
		.stoppable = true,
		.may_fail = true },
	{ .name = "export-root", .perform = gpu_export_root }, /* undone by gpu_withdraw_root() */
	{ .name = "start-daemons",
		.kind = STEP_WAIT,
		.perform = gpu_daemons_start,
		.deadline_ms = DAEMONS_DEADLINE_MS,
		.undo_kind = STEP_WAIT,
		.undo = gpu_daemons_stop,
		.undo_deadline_ms = DAEMONS_STOP_ALL_MS },
	{ .name = "remember", .perform = fast_path_remember },
	{ .name = "report-ready", .perform = gpu_daemons_report, .undo = report_not_ready },
};

static const struct watch gpu_watches[] = {
	{ "peermem", peermem_follow },
	{ "daemons", gpu_daemons_watch },
	{ "fingerprint", fast_path_watch },
};

int gpu_main(int root_fd, char *const *arguments, const struct role_hooks *hooks)
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
				   .hooks = hooks,
				   .prove_peer = fingerprint_for_proof,
				   .peermem = &gpu.peermem,
				   .root_fd = root_fd,
				   .arguments = arguments,
				   .watches = gpu_watches,
				   .watch_count = ARRAY_SIZE(gpu_watches),
			   } };

	return role_run(&gpu.role, gpu_steps, ARRAY_SIZE(gpu_steps));
}
