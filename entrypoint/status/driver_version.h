/* SPDX-License-Identifier: Apache-2.0 */
/* Which NVIDIA kernel driver is loaded, by /proc/driver/nvidia/version. */
#pragma once

#include <stdbool.h>

struct driver_version {
	bool loaded;   /* the module nvidia is live */
	bool open;     /* the open kernel modules */
	char text[64]; /* "580.159.04", or "" where it cannot be told */
};

void driver_version(int root_fd, struct driver_version *version);
