/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cache folder: finished outputs, each under its key, and the unfinished ones of each run in a
 * folder of its own, which goes when the run ends in whatever way. An output appears by a rename.
 *
 *     stages/<name>-<key>/    finished outputs
 *     blobs/sha256/<digest>   downloads
 *     indexes/                package lists
 *     logs/<name>-<key>.log   one a recipe, and one a combine that failed
 *     failed/<name>/          the work folder of the last failure
 *     compiled/ccache/        what compilers made, for the next recipe that runs them
 *     locks/                  held while an output is made
 *     runs/<pid>-XXXXXX/      unfinished; "lock" in it is locked while the run lives
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "common/error.h"
#include "common/hash.h"

#define CACHE_RUN_LOCK "lock"

struct cache {
	char *path; /* absolute */
	int fd;
	char *run_path; /* this run's folder, absolute; NULL until cache_start_run() */
	/* Where this process makes its files: run_path, or a folder of its own below it. */
	char *scratch_path;
	int run_lock_fd;
};

/*
 * Opens @path, or where it is NULL $SLIPWAY_CACHE, $XDG_CACHE_HOME/slipway or ~/.cache/slipway, and
 * creates what is missing.
 */
int cache_open(const char *path, struct cache *ret, struct error *error) _must_check_;
void cache_close(struct cache *cache);

/* Is there a cache in the folder @path? None is made. */
bool cache_is_there(const char *path);

/*
 * Makes this run's own folder, with a name that no other run has, also none in another container
 * that shares the cache. Folders of runs that were killed are removed, after @clear has had them.
 */
int cache_start_run(
	struct cache *cache, void (*clear)(const char *run_path), struct error *error) _must_check_;
void cache_end_run(struct cache *cache);

/*
 * For one of several processes that work at once: its files get the folder @name of the run to
 * themselves. -errno where that cannot be made.
 */
int cache_split_run(struct cache *cache, const char *name) _must_check_;

/* Paths that the caller frees. */
char *cache_output_path(const struct cache *cache, const char *name, const char *key);
char *cache_log_path(const struct cache *cache, const char *name, const char *key);

/*
 * Is @entry, a name in stages/ or logs/, of the stage @name, under whatever key? "nvidia-source-…"
 * is not of "nvidia".
 */
bool cache_entry_is_of(const char *entry, const char *name);

/* Is the output there? Then it counts as used now, and no prune removes it before this run ends. */
bool cache_use(const struct cache *cache, const char *output_path);

/*
 * Keeps other runs from making this output until the descriptor is closed. While another run makes
 * it, this one waits; with @waits false, -EWOULDBLOCK.
 */
int cache_lock(const struct cache *cache, const char *name, const char *key, bool waits,
	int *ret_fd) _must_check_;

/* After a failure: of a full disk (-ENOSPC) a line with the cache's folder. Returns @r. */
int cache_name_full(const struct cache *cache, int r, struct error *error);

/* An empty folder of this run, absolute; the caller frees the path. */
int cache_new_folder(const struct cache *cache, const char *name, char **ret_path) _must_check_;

/* ccache's folder, absolute, which counts as used now; the caller frees the path. */
int cache_compiled_folder(const struct cache *cache, char **ret_path) _must_check_;

/* Moves an output that is to be replaced, if there is one, to this run's folder. */
int cache_set_aside(const struct cache *cache, const char *output_path) _must_check_;

/*
 * Moves a finished folder to its place, after its file system is synced: a power failure leaves no
 * half output that counts as made. One that is there already stays and wins. -errno.
 */
int cache_keep(const char *folder, const char *output_path) _must_check_;

/* The same in the place of one that is there, which other runs may read: it is not gone meanwhile.
 */
int cache_replace(
	const struct cache *cache, const char *folder, const char *output_path) _must_check_;

/* Moves a work folder to failed/<name>, replacing the one before. The path, or NULL. */
char *cache_keep_failed(const struct cache *cache, const char *folder, const char *name);

/* ---- entries.c: what lies in a cache, entry by entry, for `slipway cache` */

enum cache_kind {
	CACHE_DOWNLOAD, /* whole and right when it came */
	CACHE_PARTIAL,
	CACHE_DAMAGED, /* set aside */
	CACHE_OUTPUT,  /* of a stage */
	CACHE_LIST,    /* digest of a package list */
	CACHE_LOG,
	CACHE_FAILED,   /* work folder of a failure */
	CACHE_COMPILED, /* ccache's */
	CACHE_KIND_COUNT,
};

struct cache_entry {
	enum cache_kind kind;
	const char *kind_text; /* "download", "output" … */
	char *path;            /* below the cache */
	char *name;            /* of a download's package, or of an output's image; or NULL */
	bool has_driver;       /* the output is a driver image: pruning leaves it in the storage */
	bool in_use;           /* another run that is alive may have used it */
	uint64_t size_bytes;   /* on disk; what several entries share is split between them */
	time_t used_s;         /* last time, since the epoch */
};

struct cache_entries {
	struct cache_entry *items; /* the longest unused first */
	size_t count;
	bool is_shared; /* another run is alive */
};

int cache_entries_read(
	const struct cache *cache, struct cache_entries *ret, struct error *error) _must_check_;
void cache_entries_free(struct cache_entries *entries);

/* Removes it: 1; 0 when it was used since it was listed, or is used now. */
int cache_entry_remove(const struct cache *cache, const struct cache_entry *entry) _must_check_;

/*
 * Hashes a download, or every blob of an image's archive (OCI image layout: named by their
 * SHA-256). 1: right; 0: nothing beside it says what it was; -EUCLEAN: damaged, -EINVAL: a download
 * under a name that is no digest.
 */
int cache_entry_check(const struct cache *cache, const struct cache_entry *entry,
	struct error *error) _must_check_;
/*
 * Moves what is damaged out of the way, so that the next run fetches or makes it again; a right one
 * that has come meanwhile stays.
 */
int cache_entry_set_aside(const struct cache *cache, const struct cache_entry *entry) _must_check_;

/* Remembers the name of what lies under a digest, for people; without it nothing is lost. */
void cache_name_download(const struct cache *cache, const char *sha256, const char *name);
