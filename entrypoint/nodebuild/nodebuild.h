/* SPDX-License-Identifier: Apache-2.0 */
/* Compiling on the node, where the image has no modules for the kernel that runs but carries the
 * kit for it. */
#pragma once

#include "entrypoint/role.h"

/* Has the image no modules for the running kernel, and the means to make them? */
bool nodebuild_wanted(const void *role);
/* STEP_WORKER: takes the modules from the node's cache, or compiles them and keeps them there. */
int nodebuild_run(struct action *action);
