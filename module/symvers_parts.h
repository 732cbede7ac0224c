/* SPDX-License-Identifier: Apache-2.0 */
/* What symvers.c and symvers_add.c share. */
#pragma once

#include "module/symvers.h"

/* The text of one file, cut into the strings that entries point to. */
struct symvers_text {
	struct symvers_text *next;
	char *bytes;
};

struct symvers_entries {
	struct symvers_entry *items;
	size_t count;
	size_t capacity;
};

/* Of the index: the hash lies beside, so that most of what is not meant needs no look at the entry.
 */
struct symvers_slot {
	uint32_t place; /* of the entry, plus 1; 0: free */
	uint32_t hash;
};

/* Entries in file order, and an open-addressed index of them by symbol. */
struct symvers {
	struct symvers_text *texts;
	struct symvers_entries entries;
	struct symvers_slot *slots;
	size_t slot_count; /* a power of two, at least twice entries.count */
};

/* Room for @capacity entries in all. 0 or -ENOMEM. */
int symvers_entries_reserve(struct symvers_entries *entries, size_t capacity) _must_check_;
void symvers_entries_free(struct symvers_entries *entries);

/*
 * Adds the entries of one source, where each wins over what is there; may take them over. 0, or
 * -ENOMEM, and then nothing has changed.
 */
int symvers_merge(struct symvers *symvers, struct symvers_entries *added) _must_check_;
