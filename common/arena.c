/* SPDX-License-Identifier: Apache-2.0 */
#include "common/arena.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define ALIGNMENT 8

/* A kernel that has no huge page to give gives small ones. */
static void *get_huge_page(void)
{
	void *page = aligned_alloc(ARENA_HUGE_PAGE, ARENA_HUGE_PAGE);

	if (page)
		(void) madvise(page, ARENA_HUGE_PAGE, MADV_HUGEPAGE);
	return page;
}

static void *add_chunk(struct arena *arena, size_t size)
{
	struct arena_chunk *chunk;

	if (size > SIZE_MAX - sizeof(*chunk))
		return NULL;
	chunk = arena->huge && size == ARENA_HUGE_CHUNK ? get_huge_page()
							: malloc(sizeof(*chunk) + size);
	if (!chunk)
		return NULL;
	*chunk = (struct arena_chunk){ arena->chunks, size };
	arena->chunks = chunk;
	return chunk + 1;
}

/* Large ones do not make what is left of the chunk in use go to waste. */
void *arena_alloc(struct arena *arena, size_t size)
{
	void *piece;

	if (size > SIZE_MAX - ALIGNMENT)
		return NULL;
	size = size ? (size + ALIGNMENT - 1) & ~(size_t) (ALIGNMENT - 1) : ALIGNMENT;
	if (size > arena->left) {
		if (size > arena->chunk_size / 4)
			return add_chunk(arena, size);
		arena->next = add_chunk(arena, arena->chunk_size);
		arena->left = arena->next ? arena->chunk_size : 0;
		if (!arena->next)
			return NULL;
	}
	piece = arena->next;
	arena->next += size;
	arena->left -= size;
	return piece;
}

void *arena_zalloc(struct arena *arena, size_t count, size_t size)
{
	void *piece = size && count > SIZE_MAX / size ? NULL : arena_alloc(arena, count * size);

	return piece ? memset(piece, 0, count * size) : NULL;
}

/* The chunk that stays is one of those that pieces share. */
void arena_reset(struct arena *arena)
{
	struct arena_chunk *kept = NULL;

	while (arena->chunks) {
		struct arena_chunk *chunk = arena->chunks;

		arena->chunks = chunk->next;
		if (!kept && arena->chunk_size && chunk->size == arena->chunk_size)
			kept = chunk;
		else
			free(chunk);
	}
	if (kept)
		kept->next = NULL;
	arena->chunks = kept;
	arena->next = kept ? (char *) (kept + 1) : NULL;
	arena->left = kept ? kept->size : 0;
}

void arena_free(struct arena *arena)
{
	while (arena->chunks) {
		struct arena_chunk *chunk = arena->chunks;

		arena->chunks = chunk->next;
		free(chunk);
	}
	*arena = (struct arena){ .chunk_size = arena->chunk_size, .huge = arena->huge };
}
