/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "entrypoint/node_build/run.h"

/*
 * Runs the recipe in @folder of the cache, open as @folder_fd, with as many compilers at once as
 * the container has room for, and keeps what it made as run->name. The compiler's first error is
 * the action's, where it fails.
 */
int node_run_compile(struct node_run *run, const char *folder, int folder_fd);
