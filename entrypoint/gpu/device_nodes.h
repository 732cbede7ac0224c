/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The NVIDIA driver's device nodes in the container's /dev, which is part of the exported root. The
 * driver does not make them, and a container's /dev is filled when it starts: without this they
 * would be missing in a new root until somebody runs nvidia-smi, and where the host had some of an
 * earlier driver, their numbers would be the old ones. Names, numbers and modes are those of
 * NVIDIA's nvidia-modprobe (modprobe-utils/nvidia-modprobe-utils.c).
 */
#pragma once

#include "common/error.h"

/*
 * Makes the nodes of what /proc/devices and /proc/driver/nvidia list now: GPUs, the control device,
 * modesetting, unified memory, and the MIG capabilities. One that is right already is left alone.
 * Nothing is made where the driver was told not to have its files modified
 * (NVreg_ModifyDeviceFiles=0).
 */
int device_nodes_make(int root_fd, struct error *error);
