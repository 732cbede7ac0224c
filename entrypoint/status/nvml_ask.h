/* SPDX-License-Identifier: Apache-2.0 */
/* The part of nvml.h that runs in the child. */
#pragma once

#include "entrypoint/status/nvml.h"

struct nvml_answer {
	int count; /* -1: why */
	char why[256];
	struct nvml_gpu gpus[NVML_GPUS];
};

/* Opens the driver's library, that of the driver root first, and asks it. */
void nvml_ask(int root_fd, struct nvml_answer *answer);
