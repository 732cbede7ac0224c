/* SPDX-License-Identifier: Apache-2.0 */
/* The journal of hostfiles.h in memory: a record for each file that was put and is not undone. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

struct entry {
	char *path;
	uint64_t hash; /* FNV-1a of what we put */
	bool made;     /* its folder was made for it */
};

struct entries {
	struct entry *items;
	size_t count;
};

void entries_free(struct entries *entries);
#define _cleanup_entries_ _cleanup_(entries_free)

/* 0 also when there is no journal. -EBADMSG: it is damaged, @error says how. */
int entries_read(int root_fd, const char *log, struct entries *entries, struct error *error);
/* Written and synced; a journal without entries is removed. */
int entries_write(int root_fd, const char *log, const struct entries *entries, struct error *error);

/* NULL when there is none. */
struct entry *entries_find(const struct entries *entries, const char *path);
/* The entry of @path, which is added when there is none; NULL without memory. */
struct entry *entries_add(struct entries *entries, const char *path);
void entries_remove(struct entries *entries, struct entry *entry);
