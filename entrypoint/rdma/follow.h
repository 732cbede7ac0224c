/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvidia-peermem follows OFED as it comes and goes: it is unloaded when the NIC container asks
 * (release.h), before OFED is unloaded, and loaded again as soon as OFED is ready and nvidia
 * serves. One container on a node does so: whoever has the lock, and another takes over when that
 * one ends.
 */
#pragma once

#include "entrypoint/role/role.h"

/* A watch of the GPU and of the peermem role. */
void peermem_follow(struct role *role, unsigned happened, uint64_t *wake_ms);
