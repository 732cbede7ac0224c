/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The programs of the vendor's daemons: where the image has them, and how each is called. Sources:
 * gpu-driver-container's ubuntu24.04/nvidia-driver and rhel9/nvidia-driver (which, order, files of
 * nvidia-persistenced, nvidia-gridd, nvidia-topologyd, nv-fabricmanager), nvidia-persistenced's own
 * source (it returns once it serves), NVIDIA's fabric manager guide and siderolabs/extensions'
 * nvidia-fabricmanager-wrapper (what nvidia-fabricmanager-start.sh does on NVLink 5: nvlsm with a
 * GUID, its socket, then nv-fabricmanager with the same GUID). That script needs bash, ibstat and
 * lspci; the same two commands need none of them.
 */
#pragma once

#include "entrypoint/gpu/fabric.h"
#include "entrypoint/gpu/supervisor.h"

/*
 * From SIGTERM to SIGKILL, of each. Five of them fit into a pod's 30 s of grace only if they end by
 * themselves, as they do.
 */
#define GPU_PROGRAMS_STOP_MS 5000u

/* All of them, one after the other, each deaf and then held by the kernel; and a second. */
#define GPU_PROGRAMS_STOP_ALL_MS                                                                   \
	(SUPERVISOR_DAEMONS * (GPU_PROGRAMS_STOP_MS + SUPERVISOR_KILL_MS) + 1000u)

/*
 * 0 when the image has what a node with this fabric, or a vGPU guest, cannot do without; -ENOENT
 * with what is missing and where it comes from.
 */
int gpu_programs_check(int root_fd, const struct fabric *fabric, bool vgpu, struct error *error);

/*
 * Declares the daemons in their order: nvidia-persistenced where the image has it; of a vGPU guest
 * nvidia-gridd, and nvidia-topologyd where there is one; the fabric's.
 */
int gpu_programs_declare(
	struct supervisor *supervisor, const struct fabric *fabric, bool vgpu, struct error *error);
