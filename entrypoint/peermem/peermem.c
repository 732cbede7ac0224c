/* SPDX-License-Identifier: Apache-2.0 */
/* The GPU pod's second container: nvidia-peermem, for as long as OFED and nvidia are there. */
#include <stdio.h>

#include "entrypoint/contract.h"
#include "entrypoint/ofed/ofed_wait.h"
#include "entrypoint/modules/prove.h"
#include "entrypoint/role.h"
#include "entrypoint/roles.h"
#include "module/sysmodule.h"

static int wait_nvidia(struct action *action)
{
	const struct role *role = action->role;

	if (sysmodule_is_live(role->root_fd, "nvidia"))
		return 0;
	return action_missing(action, REASON_DEADLINE,
		"the module nvidia is not loaded: the driver container has not come that far");
}

static const char *const peermem_modules[] = { "nvidia_peermem" };

static int prove(struct action *action)
{
	return prove_modules(
		action, peermem_modules, ARRAY_SIZE(peermem_modules), ARRAY_SIZE(peermem_modules));
}

static int load(struct action *action)
{
	const struct role *role = action->role;

	if (sysmodule_is_live(role->root_fd, peermem_modules[0]))
		return 0; /* the driver container loaded it, and will unload it */
	return role_load(
		action, peermem_modules, ARRAY_SIZE(peermem_modules), ARRAY_SIZE(peermem_modules));
}

/* The driver container unloads all of its modules itself: this one only waits, proves and loads. */
static const struct step peermem_steps[] = {
	{ .name = "identify-kernel", .perform = role_identify },
	{ .name = "wait-ofed", .kind = STEP_WAIT, .perform = ofed_wait },
	{ .name = "wait-nvidia", .kind = STEP_WAIT, .perform = wait_nvidia },
	{ .name = "prove", .kind = STEP_WORKER, .perform = prove, .deadline_ms = 60 * 1000 },
	{ .name = "load", .kind = STEP_WORKER, .perform = load, .deadline_ms = 60 * 1000 },
};

int peermem_main(int root_fd, char *const *arguments)
{
	struct role role = {
		.name = "peermem",
		.state_folder = GPU_STATE_FOLDER,
		.host_root = "/" CONTRACT_GPU_HOST_ROOT,
		.root_fd = root_fd,
	};

	(void) arguments;
	return role_run(&role, peermem_steps, ARRAY_SIZE(peermem_steps));
}

int peermem_probe(int root_fd, char *const *arguments)
{
	(void) arguments;
	if (!sysmodule_exists(root_fd, "mlx5_core")) {
		/* A restart of this container would not bring OFED back. */
		(void) puts("OFED is not loaded: nothing to probe");
		return 0;
	}
	if (sysmodule_is_live(root_fd, "nvidia_peermem"))
		return 0;
	(void) puts("nvidia_peermem is not loaded");
	return 1;
}
