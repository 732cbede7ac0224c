/* SPDX-License-Identifier: Apache-2.0 */
/* The environment, read once: the only getenv() of the program. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"

struct options {
	bool rdma;          /* GPU_DIRECT_RDMA_ENABLED */
	bool host_ofed;     /* USE_HOST_MOFED: no NIC container, no ready flag */
	bool restore_inbox; /* RESTORE_DRIVER_ON_POD_TERMINATION */
	uint32_t ofed_ms;   /* SLIPWAY_OFED_DEADLINE_SECONDS: how long to wait for OFED */
	uint32_t unload_ms; /* SLIPWAY_UNLOAD_DEADLINE_SECONDS: how long to wait for users to end */
};

/* -EINVAL for a value that is none, naming variable and value. */
int options_read(struct options *options, struct error *error);
