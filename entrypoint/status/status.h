/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reports the state of a node's roles and drivers to people, programs and Prometheus
 * (docs/status.md).
 */
#pragma once

#include "entrypoint/role/role.h"

#define STATUS_EXIT_FINDINGS 3

struct status_options {
	bool json;
	bool strict; /* a finding decides about the exit code */
};

extern const char status_usage[];

/* Returns the first argument that is no option, or NULL. */
const char *status_parse(char *const *arguments, struct status_options *options);

/*
 * slipway-init status: text or one JSON object on stdout. 0 when every role on the node is ready,
 * else 1; STATUS_EXIT_FINDINGS if something is wrong and the options say so; 70 (INTERNAL) without
 * memory.
 */
int status_main(int root_fd, const struct status_options *options);

/*
 * A role's metrics, <state folder>/metrics/<role>.prom: when the log changes, and as a watch while
 * the role serves. A failure is not reported: nothing depends on the file.
 */
void metrics_changed(const struct log *log);
void metrics_watch(struct role *role, unsigned happened, uint64_t *wake_ms);

/* The text itself, which the caller frees; NULL without memory. */
char *metrics_text(const struct log *log);
