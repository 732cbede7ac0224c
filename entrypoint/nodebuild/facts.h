/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "entrypoint/nodebuild/run.h"

/*
 * Writes what the load proof wants to know of the kernel (module/kernel_facts.h), from the host's
 * headers, and image.conf of this kernel, whose set is the one in the node's cache.
 */
int facts_write(const struct node_run *run);
