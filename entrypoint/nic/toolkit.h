/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OpenShift, whose nodes have neither headers nor compiler: the NIC driver's container and the
 * driver toolkit's, which has both for the node's kernel, as a pair (DTK_OCP_DRIVER_BUILD). They
 * meet in a folder of the pod, <DTK_OCP_NIC_SHARED_DIR>/<kernel>/:
 *   dtk_nic_driver_build.sh  what the toolkit's container runs once dtk_start_compile is there
 *   dtk_start_compile        the name of the set that is wanted
 *   dtk.env                  what the script tells dtk-build
 *   kit/ slipway-init lib/   what compiles, and the program with the libraries that it was linked
 *                            with: the toolkit's own C library may be older
 *   work/                    the toolkit's cache and logs (nodebuild/node_cache.h)
 *   modules/                 the set
 *   dtk_done_compile_<version>   the name of the set that is there
 *   dtk_failed_compile       why there is none
 * The folder outlives both containers, and goes with the pod.
 */
#pragma once

#include "entrypoint/engine/plan.h"

/* Is the running kernel's OFED to be compiled by the toolkit's container? */
bool nic_toolkit_wanted(const void *role);

/*
 * STEP_WORKER: asks for the set, unless an earlier life did, or takes it out of the node's cache.
 */
int nic_toolkit_prepare(struct action *action);
/* STEP_WAIT: until the toolkit's container has made it. */
int nic_toolkit_wait(struct action *action);
/* STEP_WORKER: keeps it on the node, and puts it where the image's own would be. */
int nic_toolkit_take(struct action *action);
