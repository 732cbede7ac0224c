/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for OFED: for its ready flag and for the peer-memory symbols in the running kernel. */
#pragma once

#include "entrypoint/engine/plan.h"

/*
 * STEP_WAIT: 0 once OFED is there, 1 with what is missing. Watches the folder of the flag; modules
 * that come are told by uevents. Host OFED (USE_HOST_MOFED) has no flag.
 */
int ofed_wait(struct action *action);
