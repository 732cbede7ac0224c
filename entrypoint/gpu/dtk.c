/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OpenShift: the driver container and the driver toolkit's container, which has headers and
 * compiler of the node's kernel, as a pair. They meet in a folder that both have mounted. Source:
 * NVIDIA gpu-driver-container, rhel9/ocp_dtk_entrypoint, whose flags these are; gpu-operator
 * manifests/state-driver/0500_daemonset.yaml, which waits for the first of them.
 */
#include <fcntl.h>
#include <string.h>

#include "common/fs.h"
#include "entrypoint/contract.h"
#include "entrypoint/node_build/install.h"
#include "entrypoint/node_build/kit.h"
#include "entrypoint/node_build/node_cache.h"
#include "entrypoint/node_build/nodebuild.h"
#include "entrypoint/role/roles.h"

#define SHARED   "mnt/shared-nvidia-driver-toolkit"
#define KIT      SHARED "/kit"
#define PREPARED SHARED "/dir_prepared"
#define STARTED  SHARED "/driver_build_started"
#define BUILT    SHARED "/driver_built"
/* With the reason in it; the original's is empty. */
#define BROKEN  SHARED "/driver_toolkit_broken"
#define MODULES SHARED "/modules"
#define PROGRAM SHARED "/ocp_dtk_entrypoint"

/*
 * The toolkit's container looks for the folder every 10 s; its image may have to be pulled. The
 * operator's startup probe ends a container after 1260 s.
 */
#define START_DEADLINE_MS (600 * 1000)
#define BUILD_DEADLINE_MS (1200 * 1000)

/* ---- the driver's container */

static int shared_failed(struct action *action, enum reason reason, int code, const char *cure)
{
	return action_fail(action, reason, code, "/" SHARED ": %s%s", strerror(-code), cure);
}

/*
 * The toolkit's container is started again when it fails, and tries again: what it said last is old
 * by then. What it has built is still good, for the folder goes with the pod.
 */
static int clear(struct action *action)
{
	const struct role *role = action->role;
	int r = fs_mkdir_parents(role->root_fd, SHARED, 0755);
	char modules[256];

	/* An emptyDir outlives a reboot of the node, after which the kernel may be another. */
	(void) snprintf(modules, sizeof(modules), MODULES "/lib/modules/%s", role->krel);
	if (r == 0 && fs_exists(role->root_fd, BUILT) && !fs_exists(role->root_fd, modules)) {
		(void) unlinkat(role->root_fd, BUILT, 0);
		(void) unlinkat(role->root_fd, STARTED, 0);
	}
	if (r == 0 && unlinkat(role->root_fd, BROKEN, 0) < 0 && errno != ENOENT)
		r = -errno;
	if (r == 0)
		return 0;
	return shared_failed(action, REASON_MOUNT_FAILED, r,
		": the operator's emptyDir has to be mounted there");
}

static int prepare(struct action *action)
{
	const struct role *role = action->role;
	struct kit kit;
	int r = kit_read(role->root_fd, KIT_FOLDER, &kit, &action->error);

	if (r < 0)
		return action_reason(action, REASON_NO_MODULES_FOR_KERNEL, r);
	r = kit_copy(role->root_fd, &kit, KIT);
	if (r == 0)
		r = fs_copy(role->root_fd, "proc/self/exe", PROGRAM, 0, 0755);
	if (r == 0)
		r = fs_write_atomic(role->root_fd, PREPARED, "", 0, 0644);
	return r < 0 ? shared_failed(action, REASON_BUILD_FAILED, r, "") : 0;
}

/* 1 while nothing is there; what the toolkit says when it failed. */
static int look_for(struct action *action, const char *flag, const char *what)
{
	struct role *role = action->role;
	_cleanup_free_ char *why = NULL;

	/* Watch first, look then: what comes in between is an event. */
	(void) events_watch_file(&role->events, "/" BUILT);
	if (fs_exists(role->root_fd, flag) || fs_exists(role->root_fd, BUILT))
		return 0;
	if (fs_read(role->root_fd, BROKEN, ERROR_TEXT_SIZE, &why, NULL) < 0)
		return action_missing(action, REASON_BUILD_FAILED, "%s", what);
	return action_fail(action, REASON_BUILD_FAILED, -EIO,
		"in the driver toolkit's container: %.900s",
		*why ? why : "it says no more than that it cannot (see its log)");
}

static int wait_start(struct action *action)
{
	return look_for(action, STARTED,
		"the driver toolkit's container (openshift-driver-toolkit-ctr) has not begun to "
		"compile");
}

static int wait_build(struct action *action)
{
	return look_for(action, BUILT, "the driver toolkit's container is compiling");
}

static int take(struct action *action)
{
	const struct role *role = action->role;
	_cleanup_strv_ struct strv missing = { 0 };
	_cleanup_close_ int set_fd =
		openat(role->root_fd, MODULES, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_close_ int host_fd =
		openat(role->root_fd, CONTRACT_GPU_HOST_ROOT, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (set_fd < 0 || host_fd < 0)
		return action_fail(action, REASON_BUILD_FAILED, -errno, "/%s: %s",
			set_fd < 0 ? MODULES : CONTRACT_GPU_HOST_ROOT, strerror(errno));
	return action_reason(action, REASON_BUILD_FAILED,
		install_set(role->root_fd, host_fd, set_fd, role->krel, role->build->recipe,
			&missing, &action->error));
}

/* The operator says when the node's release has no toolkit: this container compiles then. */
static bool uses_toolkit(const void *context)
{
	const struct role *role = context;

	return !role->options.toolkit_missing && nodebuild_wanted(role);
}

static const struct step driver_steps[] = {
	{ .name = "identify-kernel", .perform = nodebuild_identify },
	{ .name = "clear-toolkit", .wanted = uses_toolkit, .perform = clear },
	{ .name = "prepare-toolkit",
		.wanted = uses_toolkit,
		.kind = STEP_WORKER,
		.perform = prepare,
		.deadline_ms = 300 * 1000,
		.stoppable = true },
	{ .name = "wait-toolkit",
		.wanted = uses_toolkit,
		.kind = STEP_WAIT,
		.perform = wait_start,
		.deadline_ms = START_DEADLINE_MS },
	{ .name = "wait-modules",
		.wanted = uses_toolkit,
		.kind = STEP_WAIT,
		.perform = wait_build,
		.deadline_ms = BUILD_DEADLINE_MS },
	{ .name = "take-modules",
		.wanted = uses_toolkit,
		.kind = STEP_WORKER,
		.perform = take,
		.deadline_ms = 300 * 1000 },
};

int dtk_driver_main(int root_fd, char *const *arguments, const struct role_hooks *hooks)
{
	struct role role = {
		.build = &nodebuild_gpu,
		.is_built_here = nodebuild_wanted,
		.hooks = hooks,
		.name = "toolkit",
		.state_folder = GPU_STATE_FOLDER,
		.host_root = "/" CONTRACT_GPU_HOST_ROOT,
		.root_fd = root_fd,
		.arguments = arguments,
		.once = true,
	};
	int code = role_run(&role, driver_steps, ARRAY_SIZE(driver_steps));

	/* A signal ends it here, with everything undone. */
	return code != 0 || role.events.stop_count ? code : gpu_main(root_fd, arguments, hooks);
}

/* ---- the toolkit's container */

static int write_started(struct action *action)
{
	return action_write(action, STARTED, "");
}

/* The modules first, the flag then. */
static int give(struct action *action)
{
	const struct role *role = action->role;
	int r = nodebuild_compile(action, MODULES);

	if (r == 0)
		return action_write(action, BUILT, "");
	if (fs_write_atomic(role->root_fd, BROKEN, action->error.text, strlen(action->error.text),
		    0644) < 0)
		worker_report(action->worker, WORKER_NOTE, 0,
			"/" BROKEN " cannot be written: the driver's container does not know");
	return r;
}

static const struct step toolkit_steps[] = {
	{ .name = "identify-kernel", .perform = nodebuild_identify },
	{ .name = "tell-started", .perform = write_started },
	{ .name = "build-on-node",
		.kind = STEP_WORKER,
		.perform = give,
		.deadline_ms = BUILD_DEADLINE_MS,
		.stoppable = true,
		.undo_kind = STEP_WORKER,
		.undo = nodebuild_clear,
		.undo_deadline_ms = 60 * 1000 },
};

int dtk_build_main(int root_fd, char *const *arguments, const struct role_hooks *hooks)
{
	static const struct nodebuild toolkit = {
		.recipe = "nvidia",
		.role = "gpu",
		.kit = KIT,
		.cache = NODE_CACHE_DEFAULT,
	};
	struct role role = {
		.build = &toolkit,
		.is_built_here = nodebuild_wanted,
		.hooks = hooks,
		.name = "toolkit-build",
		.state_folder = SHARED "/slipway",
		.host_root = "/" CONTRACT_GPU_HOST_ROOT,
		.root_fd = root_fd,
		.arguments = arguments,
	};

	/* It has no clients, and stays: a container that ends is started again. */
	return role_run(&role, toolkit_steps, ARRAY_SIZE(toolkit_steps));
}
