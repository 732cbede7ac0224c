/* SPDX-License-Identifier: Apache-2.0 */
/* nvidia-peermem follows OFED as it comes and goes. */
#pragma once

#include "entrypoint/role.h"

/* A watch of the GPU and of the peermem role. */
void peermem_follow(struct role *role, unsigned happened, uint64_t *wake_ms);
