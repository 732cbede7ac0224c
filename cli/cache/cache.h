/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cache folder: finished outputs, each under its key, and the unfinished ones of each run in a
 * folder of its own, which goes when the run ends in whatever way. An output appears by a rename.
 *
 *     stages/<name>-<key>/    finished outputs
 *     blobs/sha256/<digest>   downloads
 *     indexes/                package lists
 *     logs/<name>-<key>.log   one a recipe
 *     failed/<name>/          the work folder of the last failure
 *     locks/                  held while an output is made
 *     refreshed/<os>          the package lists that the last --refresh found
 *     runs/<pid>-XXXXXX/      unfinished
 */
#pragma once

#include <stdbool.h>

#include "common/error.h"
#include "common/hash.h"

struct cache {
	char *path; /* absolute */
	int fd;
	char *run_path; /* this run's folder, absolute; NULL until cache_start_run() */
	int run_lock_fd;
};

/*
 * Opens @path, or where it is NULL $SLIPWAY_CACHE, $XDG_CACHE_HOME/slipway or ~/.cache/slipway, and
 * creates what is missing. The caller closes it.
 */
int cache_open(const char *path, struct cache *ret, struct error *error) _must_check_;
void cache_close(struct cache *cache);

/*
 * Makes this run's own folder, with a name that no other run has, also none in another container
 * that shares the cache. Folders of runs that were killed are removed, after @clear has had them.
 */
int cache_start_run(
	struct cache *cache, void (*clear)(const char *run_path), struct error *error) _must_check_;
/* Removes this run's folder. */
void cache_end_run(struct cache *cache);

/* "<cache>/stages/<name>-<key>", freed by the caller; NULL without memory. */
char *cache_output_path(const struct cache *cache, const char *name, const char *key);
char *cache_log_path(const struct cache *cache, const char *name, const char *key);

/*
 * Is the output there? Then it counts as used now: `slipway cache prune` removes the longest unused
 * first, and nothing that was used since the oldest living run began.
 */
bool cache_use(const struct cache *cache, const char *output_path);

/*
 * Waits until no other run makes this output, and keeps others from it until the descriptor is
 * closed.
 */
int cache_lock(
	const struct cache *cache, const char *name, const char *key, int *ret_fd) _must_check_;

/*
 * The stamp of the package lists that the last --refresh of @os found, "" before the first; the
 * caller frees it. The base images have it in their keys, so that --refresh brings the updates of
 * the distribution into them.
 */
int cache_refreshed(const struct cache *cache, const char *os, char **ret_stamp) _must_check_;
int cache_set_refreshed(const struct cache *cache, const char *os, const char *stamp) _must_check_;

/* An empty folder of this run, absolute; the caller frees the path. */
int cache_new_folder(const struct cache *cache, const char *name, char **ret_path) _must_check_;

/* Moves an output that is to be replaced, if there is one, to this run's folder. */
int cache_set_aside(const struct cache *cache, const char *output_path) _must_check_;

/* Moves a finished folder to its place. One that is there already stays and wins. */
int cache_keep(const struct cache *cache, const char *folder, const char *output_path) _must_check_;

/* Moves a work folder to failed/<name>, replacing the one before. The path, or NULL. */
char *cache_keep_failed(const struct cache *cache, const char *folder, const char *name);
