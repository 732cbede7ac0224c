/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that is given back all at once: pieces lie one behind the other in large chunks, for what
 * is made of thousands of small pieces that live and end together. Not for several threads at once.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct arena_chunk {
	struct arena_chunk *next;
	size_t size; /* of what follows */
};

/*
 * A chunk and its head together fill a huge page of x86-64 and arm64, which takes one page fault
 * instead of 512. Page faults are most of the cost of memory that is written once.
 */
#define ARENA_HUGE_PAGE  ((size_t) 2 * 1024 * 1024)
#define ARENA_HUGE_CHUNK (ARENA_HUGE_PAGE - sizeof(struct arena_chunk))

/* Zeroed, it is empty, and each piece becomes a chunk of its own: for few of them. */
struct arena {
	struct arena_chunk *chunks;
	size_t chunk_size; /* bytes that are got at once; set before the first piece */
	bool huge;         /* and may be huge pages: chunk_size is ARENA_HUGE_CHUNK then */
	char *next;        /* what is left of the chunk in use */
	size_t left;
};

/* A piece for pointers and numbers of any size; NULL where there is no memory. */
void *arena_alloc(struct arena *arena, size_t size);
/* The same, all zero. */
void *arena_zalloc(struct arena *arena, size_t count, size_t size);
/* Takes all pieces back and keeps the chunk in use for the next ones. */
void arena_reset(struct arena *arena);
/* Gives all of it back; the arena is empty then. */
void arena_free(struct arena *arena);
