/* SPDX-License-Identifier: Apache-2.0 */
/* Where the headers for a build on the node come from. */
#pragma once

#include "entrypoint/node_build/run.h"

/*
 * The first that has them: the host; the container itself (a driver toolkit's, or mounts); what was
 * fetched before and is in the node's cache; the distribution, asked now, where the image has the
 * tool for that (fetch.h) and SLIPWAY_NODE_HEADERS allows it, and kept in the cache. In a worker:
 * the last takes a minute or more, and tells what it does. Kept headers of another
 * build of the kernel than the one that runs are fetched anew, once, or told. Sets @run's tree and
 * tree_fd; its host and cache are open, and the cache may become another one
 * (node_run_leave_read_only()). Else what host_tree_find() says of the host, and what the
 * distribution did.
 */
int headers_find(struct node_run *run, struct error *error);
