/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nic-driver build: only what "sources" does before it touches the kernel. For a node that is to be
 * ready before its kernel is booted (--kernel).
 */
#include "entrypoint/contract.h"
#include "entrypoint/nic/nic_internal.h"
#include "entrypoint/role/roles.h"

static int identify(struct action *action)
{
	struct role *role = action->role;
	struct error text;
	int r = nodebuild_identify(action);

	if (r < 0 || nodebuild_wanted(role))
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
		.deadline_ms = NIC_BUILD_DEADLINE_MS,
		.stoppable = true,
		.undo_kind = STEP_WORKER,
		.undo = nodebuild_clear,
		.undo_deadline_ms = 60 * 1000,
		.undo_share_ms = 3 * 1000 },
	{ .name = "read-build", .wanted = nodebuild_unread, .perform = nodebuild_adopt },
};

static int read_inputs(struct role *role, struct error *error)
{
	struct nic *nic = nic_of(role);
	char *const mode[] = { (char[]){ "sources" }, NULL };
	int r = nic_inputs_read(&nic->inputs, role->root_fd, mode, error);

	return r < 0 ? r
		     : nic_build_read(
			       &nic->build, role->root_fd, &nic->inputs, &role->build, error);
}

int nic_build_main(int root_fd, char *const *arguments, const struct role_hooks *hooks)
{
	struct nic nic = {
		.role = {
			.name = "nic",
			.state_folder = NIC_STATE_FOLDER "/build",
			.host_root = "/" CONTRACT_NIC_HOST_ROOT,
			.root_fd = root_fd,
			.arguments = arguments,
			.options = { .verb = "build" },
			.read_inputs = read_inputs,
			.is_built_here = nodebuild_wanted,
			.hooks = hooks,
			.once = true,
		},
		.lock_fd = -1,
	};
	int code = role_run(&nic.role, build_steps, ARRAY_SIZE(build_steps));

	nic_build_free(&nic.build);
	nic_inputs_free(&nic.inputs);
	return code;
}
