/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `slipway-init topo`: how GPUs and NICs are connected by PCI Express, from sysfs alone. It sets
 * nothing.
 */
#pragma once

#include <stdbool.h>

extern const char topo_usage[];

/* Prints to stdout, as text or as one JSON object. Returns the exit code: 0, or 70 (INTERNAL). */
int topo_main(int root_fd, bool json);
