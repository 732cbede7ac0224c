/* SPDX-License-Identifier: Apache-2.0 */
/* slipway-init status: what the roles of this node say, beside what the kernel says. */
#pragma once

#include <stdbool.h>

/* Prints it for people, or as one JSON object. Returns 0 when every role on the node is ready,
 * else 1. */
int status_main(int root_fd, bool json);
