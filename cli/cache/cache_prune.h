/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `slipway cache prune` removes: entries by age or until the rest fits, and with an output the
 * image in the local storage that it stands for. Nothing that a living run has used goes.
 */
#pragma once

#include "cli/cache/cache_entry.h"

struct prune_request {
	bool all;
	bool by_age;
	time_t age_s; /* unused for longer */
	bool by_size;
	uint64_t keep_bytes; /* the longest unused go until no more than this is left */
	bool dry_run;
};

struct prune_result {
	size_t removed;
	uint64_t removed_bytes;
	size_t in_use; /* would have gone, had no living run used them */
};

struct prune_listener {
	void (*on_entry)(void *context, const struct cache_entry *entry);
	void (*on_image)(void *context, const char *name);
	void *context;
};

int cache_prune(const struct cache *cache, const struct prune_request *request,
	const struct prune_listener *listener, struct prune_result *ret,
	struct error *error) _must_check_;
