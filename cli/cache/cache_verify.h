/* SPDX-License-Identifier: Apache-2.0 */
/* `slipway cache verify`: is everything in the cache still what it was when it came? */
#pragma once

#include "cli/cache/cache_entry.h"

struct verify_result {
	size_t checked;
	uint64_t checked_bytes;
	size_t damaged;
	size_t in_use;    /* of these: outputs that stay, for a living run may be reading them */
	size_t unchecked; /* nothing beside them says what they were: outputs that are no image … */
};

/*
 * Hashes every download, and every blob of the images' archives (OCI image layout: named by their
 * SHA-256). Damaged ones are moved out of the way, so that the next run fetches or makes them
 * again, and told to @on_damaged with what is wrong. An output that a living run may have used
 * stays where it is.
 */
int cache_verify(const struct cache *cache,
	void (*on_damaged)(void *context, const struct cache_entry *entry, const char *what),
	void *context, struct verify_result *ret, struct error *error) _must_check_;
