/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What only the driver's own library tells: whether each GPU has joined its NVLink fabric. Asked in
 * a child that is given five seconds: the library opens the GPUs, and one that is not in use has to
 * be started for that.
 */
#pragma once

#include <stddef.h>

#define NVML_GPUS 64

/* nvmlGpuFabricState_t of NVIDIA's nvml.h (github.com/NVIDIA/go-nvml, gen/nvml/nvml.h). */
enum nvml_fabric_state {
	NVML_FABRIC_NOT_SUPPORTED,
	NVML_FABRIC_NOT_STARTED,
	NVML_FABRIC_IN_PROGRESS,
	NVML_FABRIC_COMPLETED,
	NVML_FABRIC_STATES,
};

struct nvml_gpu {
	char uuid[96]; /* as in /proc/driver/nvidia/gpus */
	unsigned state;
	int status;       /* nvmlReturn_t: 0 is success; only when the state is "completed" */
	unsigned clique;  /* id within the cluster */
	char cluster[37]; /* UUID; all zero where there is none */
	char error[96];   /* why the above is not known, or "" */
};

/*
 * Returns how many GPUs it knows of, or -1 with the reason in @why. Asks nothing, and makes
 * nothing, where the driver is not loaded or has no node in /dev: the library would make one.
 */
int nvml_fabric(int root_fd, struct nvml_gpu gpus[NVML_GPUS], char why[256]);

const char *nvml_fabric_state_name(unsigned state);
