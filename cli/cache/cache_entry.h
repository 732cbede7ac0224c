/* SPDX-License-Identifier: Apache-2.0 */
/* What lies in a cache, entry by entry: for `slipway cache`. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "cli/cache/cache.h"

enum cache_kind {
	CACHE_DOWNLOAD, /* whole and right when it came */
	CACHE_PARTIAL,  /* what has come of one */
	CACHE_DAMAGED,  /* set aside */
	CACHE_OUTPUT,   /* of a stage */
	CACHE_LIST,     /* digest of a package list */
	CACHE_LOG,
	CACHE_FAILED, /* work folder of a failure */
	CACHE_KIND_COUNT,
};

struct cache_entry {
	enum cache_kind kind;
	char *path;          /* below the cache */
	char *name;          /* of a download's package, or of an output's image; NULL: not known */
	uint64_t size_bytes; /* on disk; what several entries share is split between them */
	time_t used_s;       /* last time, since the epoch */
};

struct cache_entries {
	struct cache_entry *items; /* sorted by kind, then path */
	size_t count;
};

/* Lists all. The caller frees them. */
int cache_entries_read(
	const struct cache *cache, struct cache_entries *ret, struct error *error) _must_check_;
void cache_entries_free(struct cache_entries *entries);

/* Remembers the name of what lies under a digest, for people; without it nothing is lost. */
void cache_name_download(const struct cache *cache, const char *sha256, const char *name);

/* "download", "output" … */
const char *cache_kind_text(enum cache_kind kind);

/*
 * Removes an entry: 1 when it is gone, 0 when somebody has used it since it was listed, or uses it
 * now. This run's folder must be there.
 */
int cache_entry_remove(const struct cache *cache, const struct cache_entry *entry) _must_check_;

/* When the oldest of the other runs that are alive began; 0 when there is none. */
time_t cache_oldest_run(const struct cache *cache);

/* May a run that is alive have used it? @living_since_s is cache_oldest_run()'s. */
bool cache_entry_in_use(const struct cache_entry *entry, time_t living_since_s);
