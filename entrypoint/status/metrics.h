/* SPDX-License-Identifier: Apache-2.0 */
/* Prometheus text of a role, for node_exporter's textfile collector or anyone who reads the host's
 * files. */
#pragma once

#include "entrypoint/role.h"

/* A watch: writes <state_folder>/metrics/<role>.prom anew when something changed. */
void metrics_watch(struct role *role, unsigned happened, uint64_t *wake_ms);
