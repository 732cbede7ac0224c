/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvidia-driver build: only what "init" does before it touches the kernel. For a node that is to be
 * ready before its kernel is booted (--kernel), and for the driver-toolkit container of OpenShift.
 */
#include "common/fs.h"
#include "entrypoint/contract.h"
#include "entrypoint/node_build/nodebuild.h"
#include "entrypoint/role/roles.h"

/* For an OFED whose headers are here already, and that no nvidia-peermem was made for. */
static bool wants_peermem(const void *context)
{
	const struct role *role = context;

	return role->options.rdma && nodebuild_can_peermem(role) &&
	       !strv_contains(&role->driver_modules, "nvidia_peermem") &&
	       fs_exists(role->root_fd, CONTRACT_OFED_SOURCES "/ofa_kernel");
}

static int identify(struct action *action)
{
	struct role *role = action->role;
	struct error text;
	int r = nodebuild_identify(action);

	if (r < 0 || image_has_kernel(role->root_fd, &role->image, role->krel, &text) < 0)
		return r;
	(void) error_set(
		&text, 0, "the image has modules for %s: there is nothing to compile", role->krel);
	log_event(&role->log, "note", role->log.step, 0, REASON_NONE, text.text);
	return r;
}

static const struct step build_steps[] = {
	{ .name = "identify-kernel", .perform = identify },
	{ .name = "build-on-node",
		.wanted = nodebuild_wanted,
		.kind = STEP_WORKER,
		.perform = nodebuild_run,
		.deadline_ms = 3600 * 1000,
		.stoppable = true,
		.undo_kind = STEP_WORKER,
		.undo = nodebuild_clear,
		.undo_deadline_ms = 60 * 1000 },
	{ .name = "read-build", .wanted = nodebuild_unread, .perform = nodebuild_adopt },
	{ .name = "build-peermem",
		.wanted = wants_peermem,
		.kind = STEP_WORKER,
		.perform = nodebuild_peermem,
		.deadline_ms = 600 * 1000,
		.stoppable = true,
		.undo_kind = STEP_WORKER,
		.undo = nodebuild_clear,
		.undo_deadline_ms = 60 * 1000 },
};

int build_main(int root_fd, char *const *arguments, const struct role_hooks *hooks)
{
	struct role role = {
		.name = "build",
		.state_folder = GPU_STATE_FOLDER,
		.host_root = "/" CONTRACT_GPU_HOST_ROOT,
		.build = &nodebuild_gpu,
		.is_built_here = nodebuild_wanted,
		.hooks = hooks,
		.root_fd = root_fd,
		.arguments = arguments,
		.options = { .verb = "build" },
		.once = true,
	};

	return role_run(&role, build_steps, ARRAY_SIZE(build_steps));
}
