/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the GPU role share. gpu.c has its steps; each part has a file of its own. */
#pragma once

#include "entrypoint/gpu/gpu_daemons.h"
#include "entrypoint/gpu/fast_path.h"
#include "entrypoint/rdma/state.h"
#include "entrypoint/role/role.h"

struct gpu {
	struct role role; /* first: a step's action->role points to it */
	/*
	 * The fast path: the driver that runs is what a full start would load, by the fingerprint
	 * (fast_path.h). Nothing is proven, unloaded or loaded then; all else is done as ever.
	 */
	bool keep;
	bool devices_are_free; /* no other driver has a device of ours (devices.h) */
	struct fast_path fast_path;
	struct gpu_daemons daemons;
	struct peermem_state peermem;
};

static inline struct gpu *gpu_of(void *role)
{
	return role;
}

static inline const struct gpu *gpu_of_const(const void *role)
{
	return role;
}

/* For steps of the full path only. */
bool gpu_takes_full_path(const void *role);
/* For steps of which the fast path runs the undo alone. */
bool gpu_keeps(const void *role);
