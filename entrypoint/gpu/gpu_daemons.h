/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The vendor's daemons of the GPU role: which, in which order, with which configuration.
 * nvidia-imex is none of them: ComputeDomains run their own, and a second one breaks it.
 */
#pragma once

#include "entrypoint/gpu/fabric.h"
#include "entrypoint/gpu/supervisor.h"
#include "entrypoint/engine/plan.h"

struct role;

/* The GPU role's, in struct gpu. */
struct gpu_daemons {
	struct fabric fabric;
	struct supervisor supervisor;
	bool open;             /* the supervisor is */
	bool told_ready;       /* what .driver-daemons-status says */
	uint64_t port_late_ms; /* when the wait for the NVLink bridge's port is given up; 0: not
				  begun */
};

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
int gpu_daemons_tell(struct action *action);
/* A watch: starts again what ended, and keeps .driver-daemons-status true. */
void gpu_daemons_watch(struct role *role, unsigned happened, uint64_t *wake_ms);
