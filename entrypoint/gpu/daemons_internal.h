/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The vendor's daemons of the GPU role: which, in which order, with which configuration.
 * nvidia-imex is none of them: ComputeDomains run their own, and a second one breaks it.
 */
#pragma once

#include "entrypoint/engine/plan.h"
#include "entrypoint/gpu/fabric.h"
#include "entrypoint/gpu/supervisor_internal.h"

struct role;

/* The GPU role's, in struct gpu. */
struct gpu_daemons {
	struct fabric fabric;
	struct supervisor supervisor;
	bool open;             /* the supervisor is */
	bool is_ready;         /* what .driver-daemons-status says */
	uint64_t port_late_ms; /* when the wait for the NVLink bridge's port is given up; 0: not
				  begun */
};

/* From SIGTERM to SIGKILL, of each: a pod's 30 s of grace are enough only if they end themselves.
 */
#define DAEMON_STOP_MS 5000u

/* All of them, one after the other, each deaf and then held by the kernel; what they left behind,
 * likewise; and a second. */
#define DAEMONS_STOP_ALL_MS                                                                        \
	(SUPERVISOR_DAEMONS * (DAEMON_STOP_MS + SUPERVISOR_KILL_MS) + SUPERVISOR_ORPHANS_MS +      \
		SUPERVISOR_KILL_MS + 1000u)

/*
 * STEP_DIRECT: finds which daemons the node needs, and whether the image has them; puts
 * configuration and licence files in their places.
 */
int gpu_daemons_configure(struct action *action);
/* Is the NVLink bridge without the modules that fabric manager reaches it through? */
bool gpu_daemons_want_modules(const void *role);
/* STEP_WORKER: loads mlx5_ib and ib_umad from the host's own modules. */
int gpu_daemons_load_modules(struct action *action);
/* STEP_WAIT: starts them in order, each when the one before is up. */
int gpu_daemons_start(struct action *action);
/* STEP_WAIT, its undo: stops them in reverse order. */
int gpu_daemons_stop(struct action *action);
/* Writes to .driver-daemons-status what is true of them now. */
int gpu_daemons_report(struct action *action);
/* A watch: starts again what ended, and keeps .driver-daemons-status true. */
void gpu_daemons_watch(struct role *role, unsigned happened, uint64_t *wake_ms);

/* ---- what the unit tests call by itself */

/*
 * 0 when the image has what a node with this fabric, or a vGPU guest, cannot do without; -ENOENT
 * with what is missing and where it comes from.
 */
int daemons_check(int root_fd, const struct fabric *fabric, bool vgpu, struct error *error);

/* Adds those daemons to the supervisor that the node wants and the image has, in their order. */
int daemons_declare(
	struct supervisor *supervisor, const struct fabric *fabric, bool vgpu, struct error *error);

#define FM_CONFIG "usr/share/nvidia/nvswitch/fabricmanager.cfg"

/*
 * Puts NVFM_CONFIG_<field>=<value> of @environment (NULL-terminated) as "<field>=<value>" into
 * fabric manager's configuration, in the place of lines that set the field already, else at the end
 * (source: gpu-driver-container's ubuntu24.04/nvidia-driver). *ret_set is how many there are. One
 * whose field is no name (empty, or with other bytes than letters, digits and '_'), or whose value
 * has a line break, is left out and counted in *ret_ignored. -ENOENT when there are settings and no
 * file: the image has no fabric manager.
 */
int fm_config_apply(int root_fd, char *const *environment, unsigned *ret_set, unsigned *ret_ignored,
	struct error *error);

/*
 * A vGPU guest's licence: copies gridd.conf and, @with_token, the client configuration tokens,
 * which the operator mounts below /drivers, to where nvidia-gridd looks. *ret_conf says whether
 * there was one, *ret_tokens how many: their absence is the administrator's choice, and no error.
 * Sources: gpu-driver-container's ubuntu24.04/nvidia-driver, gpu-operator's driver_volumes.go.
 */
int vgpu_licence_place(
	int root_fd, bool with_token, bool *ret_conf, unsigned *ret_tokens, struct error *error);
