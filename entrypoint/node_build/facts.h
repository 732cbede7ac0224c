/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "entrypoint/node_build/run.h"

/*
 * Writes below @dir_fd what the load proof wants to know of the kernel (module/kernel_facts.h),
 * from the headers, and image.conf of this kernel, whose set is the one in the node's cache.
 */
int facts_write(const struct node_run *run, int dir_fd);
