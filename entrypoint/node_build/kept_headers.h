/* SPDX-License-Identifier: Apache-2.0 */
/* The headers that were fetched for a kernel, as the node's cache keeps them, and for which build.
 */
#pragma once

#include "entrypoint/node_build/run.h"

/* Takes the headers that lie below @dir_fd for the run; else what host_tree_find() says. */
int headers_take(struct node_run *run, int dir_fd, struct error *error);
void headers_let_go(struct node_run *run);

/* Takes the kept ones. -ENOENT when there are none, or none that are believed, which is told. */
int kept_headers_find(struct node_run *run);

/*
 * Those that were taken: are they of another build of the kernel than the one that runs, and were
 * not what the distribution had for that one?
 */
bool kept_headers_outdated(const struct node_run *run);
/* Tells when they are of another build than the one that runs. */
void kept_headers_tell_build(const struct node_run *run);

/*
 * Keeps the tree that is @folder/output of @scratch, in the place of an outdated one. Good ones
 * that are there stay: another container was quicker, and may be compiling with them.
 */
int kept_headers_keep(struct node_run *run, const struct node_cache *scratch, const char *folder);
