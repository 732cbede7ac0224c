/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVIDIA's modules are of two kinds, open and proprietary ones. An image of `slipway combine` may
 * have both for a kernel: one is in lib/modules, the other in KERNEL_FACTS_OTHER
 * (module/running.h), from where it takes the place of the first in the container's own root.
 */
#pragma once

#include <stdbool.h>

#include "entrypoint/role/role.h"

/* Do modules of this kind ("open", "proprietary") drive a GPU of that PCI device id? */
bool module_kind_drives(const char *kind, unsigned device);

/* A step's .wanted. */
bool module_kind_has_both(const void *role);

/*
 * In a worker: has the kind that the node wants in lib/modules. That is the one that drives its
 * GPUs, where both do the one of KERNEL_MODULE_TYPE, else what is in place; for a sidecar of the
 * driver's, the kind that is loaded. The image is to be read again afterwards.
 */
int module_kind_choose(struct action *action);
