/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prometheus text of a role (docs/status.md), for node_exporter's textfile collector or another
 * reader that reads the host's files: <state folder>/metrics/<role>.prom, replaced whole.
 */
#pragma once

#include "entrypoint/role/role.h"

/* The journal's "changed": writes the file. A failure is not reported: nothing depends on it. */
void metrics_changed(const struct log *log);

/* A watch: writes the file anew when something in it changed (a daemon, peermem). */
void metrics_watch(struct role *role, unsigned happened, uint64_t *wake_ms);

/* The text itself, which the caller frees; NULL without memory. */
char *metrics_text(const struct log *log);
