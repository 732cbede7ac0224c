/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host's modprobe options for the modules that we load in its stead: an administrator who gave
 * mlx5_core or ib_core an option wants it whichever build is loaded.
 */
#pragma once

#include "entrypoint/engine/plan.h"

/* Where libkmod finds them in the container. */
#define HOST_OPTIONS_PATH "etc/modprobe.d/slipway-host.conf"

/*
 * STEP_WORKER: takes them from /host/etc/modprobe.d, /host/usr/{local/,}lib/modprobe.d and
 * /host/lib/modprobe.d; what the operator mounted into the container's own /etc/modprobe.d comes
 * before them, and libkmod reads that by itself. REASON_BAD_PARAMETER when the kernel would refuse
 * a value; one that our module does not know is left out with a note, as the kernel would do. Of
 * the role it wants krel and driver_modules.
 */
int nic_host_options(struct action *action);
