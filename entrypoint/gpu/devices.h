/* SPDX-License-Identifier: Apache-2.0 */
/* The node's NVIDIA PCI devices, and who else drives them. */
#pragma once

#include "entrypoint/gpu/gpu.h"

/* STEP_DIRECT: REASON_NO_NVIDIA_DEVICE when there is none. Sees whether one has to be freed. */
int gpu_find_device(struct action *action);

/* Whether gpu_free_devices() has nothing to do, so that no worker need be started for it. */
bool gpu_devices_are_free(const void *role);

/*
 * STEP_WORKER: takes the GPUs and NVSwitches from nouveau, nova_core and nova_drm, whose modules
 * go, and from vfio-pci. REASON_DEVICE_HELD, naming device, driver and processes, when one of them
 * does not let go, or when another driver (pci-stub, say) leaves no device for us: what somebody
 * parked there on purpose stays there. What was taken stands in <state_folder>/gpu.freed.
 */
int gpu_free_devices(struct action *action);

/*
 * STEP_WORKER, its undo: gives back what was taken, when the start failed or the operator wants
 * the old drivers back.
 */
int gpu_return_devices(struct action *action);
