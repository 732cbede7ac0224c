/* SPDX-License-Identifier: Apache-2.0 */
/* The node's NVIDIA PCI devices, and who else drives them. */
#pragma once

#include "entrypoint/gpu/gpu.h"

/* STEP_DIRECT: REASON_NO_NVIDIA_DEVICE when there is none. */
int gpu_find_device(struct action *action);
/* STEP_WORKER: takes the GPUs from nouveau, nova and vfio-pci. */
int gpu_free_devices(struct action *action);
