/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hash for tables of names, eight bytes at a time. It begins with a number that each process
 * draws anew, so that whoever makes the names cannot make them collide; it is nothing to be
 * written down, and no order may come of it.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Odd, and its bits are those of the golden ratio: what is multiplied by it spreads upwards. */
#define NAME_HASH_FACTOR UINT64_C(0x9e3779b97f4a7c15)

/* Drawn before main(), and the same from then on. */
extern uint64_t name_hash_start;

/* Both halves of the product: a bit that is flipped in a word changes bits that depend on all. */
static inline uint64_t name_hash_mix(uint64_t hash, uint64_t word)
{
	__extension__ typedef unsigned __int128 wide;
	wide product = (wide) (hash ^ word) * NAME_HASH_FACTOR;

	return (uint64_t) product ^ (uint64_t) (product >> 64);
}

/* The last bytes of @name, 1 to 7 of them; some may count twice. */
static inline uint64_t name_hash_rest(const char *name, size_t length)
{
	uint32_t first = 0, last = 0;

	if (length >= sizeof(first)) {
		memcpy(&first, name, sizeof(first));
		memcpy(&last, &name[length - sizeof(last)], sizeof(last));
		return (uint64_t) first << 32 | last;
	}
	return (uint64_t) (unsigned char) name[0] << 16 |
	       (uint64_t) (unsigned char) name[length / 2] << 8 | (unsigned char) name[length - 1];
}

static inline uint32_t name_hash_sized(const char *name, size_t length)
{
	uint64_t hash = name_hash_start ^ length;
	uint64_t word;

	for (; length >= sizeof(word); name += sizeof(word), length -= sizeof(word)) {
		memcpy(&word, name, sizeof(word));
		hash = name_hash_mix(hash, word);
	}
	return (uint32_t) name_hash_mix(hash, length ? name_hash_rest(name, length) : 0);
}

static inline uint32_t name_hash(const char *name)
{
	return name_hash_sized(name, strlen(name));
}
