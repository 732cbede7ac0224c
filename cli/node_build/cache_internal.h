/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was compiled on this node, kept under a host path for the next start. Below its folder:
 *   modules/<name>/     a module set (seam 2), "inputs": all that it was made of, and "contents":
 *                       each file with its hash
 *   headers/<krel>/     a kernel's headers that were fetched, with the same two files and
 *                       "fetched-for", what uname -v printed then
 *   log/<recipe>.log    what the last run of a recipe printed; log/headers.log: of the fetching
 *   tmp-XXXXXX/         a build that runs (its folder is locked), or that was killed
 * A set is seen whole or not at all, also after a loss of power.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "common/strv.h"

/* In the container, for a host that cannot be written to: the next container compiles again. */
#define NODE_CACHE_FALLBACK "/var/lib/slipway"
#define NODE_CACHE_SETS     16
#define NODE_CACHE_HEADERS  4 /* kernels: some 80 MB each */

enum node_cache_kind { NODE_MODULES, NODE_HEADERS };

struct node_cache {
	int fd;
	char path[PATH_MAX]; /* as the host has it, for messages */
	bool lasting;        /* on the host's disk */
};

/*
 * @chosen: the folder that SLIPWAY_NODE_CACHE names, or NULL; it has to serve. Else @usual, where
 * the role keeps its sets on the host's disk; where that is NULL or cannot be written to,
 * NODE_CACHE_FALLBACK. The caller closes it.
 */
int node_cache_open(
	const char *chosen, const char *usual, struct node_cache *ret, struct error *error);
void node_cache_close(struct node_cache *cache);
/*
 * Before something new is kept: a folder whose file system cannot be written to, since a disk's
 * errors, say, but which has what was kept before, is left for NODE_CACHE_FALLBACK. Was it?
 */
bool node_cache_leave_read_only(struct node_cache *cache);

/* 64-bit FNV-1a of a file's content; 0 where it cannot be read. */
uint64_t node_cache_file_hash(int dir_fd, const char *path);
/* A name for what is made of @inputs: "<prefix>-<hash>". */
void node_cache_name(const char *prefix, const struct strv *inputs, char name[NAME_MAX]);

/*
 * The set's folder to *ret_fd when it is there, was made of these very inputs and is as it was
 * made; else -ENOENT, or -EBADMSG and what is wrong with it in @error. A file that is not root's,
 * or that others may write to, is damage, too: a user who can write here is root on the node.
 */
int node_cache_find(const struct node_cache *cache, enum node_cache_kind kind, const char *name,
	const struct strv *inputs, int *ret_fd, struct error *error);

/* A new folder with "output" and "work" in it, locked as long as *ret_fd is open. */
int node_cache_begin(const struct node_cache *cache, char folder[NAME_MAX], int *ret_fd);
/*
 * Its output becomes root's alone, and the set of that name; of the sets of its kind, those that
 * were used longest ago go, beyond NODE_CACHE_SETS or NODE_CACHE_HEADERS.
 */
int node_cache_keep(const struct node_cache *cache, enum node_cache_kind kind, const char *folder,
	int folder_fd, const char *name, const struct strv *inputs);
/* Writes the list of all that is below @set_fd, beside it. */
int node_cache_write_contents(int set_fd);
/* Removes a set, whole. */
int node_cache_remove(const struct node_cache *cache, enum node_cache_kind kind, const char *name);
/*
 * Removes the folders of builds that run no longer. One that is still locked is asked again for
 * @wait_ms: its owner may have been killed just now.
 */
void node_cache_sweep(const struct node_cache *cache, unsigned wait_ms);
