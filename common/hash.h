/* SPDX-License-Identifier: Apache-2.0 */
/* Hashes: SHA-256 for what is kept, others for tables and for noticing a changed text; and hex. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "common/cleanup.h"

/*
 * ---- SHA-256 (FIPS 180-4, through libcrypto: sha256.c, which slipway-init does not link) of
 * texts, files and folders, as cache keys and in locks
 */

#define HASH_HEX_SIZE 65 /* 64 digits and the NUL */

struct hash;

struct hash *hash_new(void);
void hash_add(struct hash *hash, const void *data, size_t size);
/* Adds the text with its NUL, so that ("ab", "c") and ("a", "bc") differ. */
void hash_add_text(struct hash *hash, const char *text);
/* Adds the file's content. Negative errno when it cannot be read. */
int hash_add_file(struct hash *hash, int dir_fd, const char *path) _must_check_;
/*
 * Adds a file, or a folder with the name, kind, execute bit and content of all below it in sorted
 * order. Times and owners do not count; a link counts as its target text; ".git" is skipped.
 */
int hash_add_tree(struct hash *hash, int dir_fd, const char *path) _must_check_;
/* Writes the digest in lower-case hex and frees @hash. */
void hash_finish(struct hash *hash, char hex[HASH_HEX_SIZE]);

/* All at once, of bytes and of a file. */
void hash_bytes(const void *data, size_t size, char hex[HASH_HEX_SIZE]);
int hash_file(int dir_fd, const char *path, char hex[HASH_HEX_SIZE]) _must_check_;

/* Is it what hash_finish() writes: 64 lower-case hex digits and nothing else? */
bool hash_is_hex(const char *text);

/*
 * ---- FNV-1a of 64 bits, to see a changed text. It has no key: the author of the texts can make
 * two collide.
 */

#define FNV64_START 14695981039346656037ULL

static inline uint64_t fnv64_bytes(uint64_t hash, const void *data, size_t size)
{
	const unsigned char *bytes = data;

	for (size_t i = 0; i < size; i++)
		hash = (hash ^ bytes[i]) * 1099511628211ULL;
	return hash;
}

/* ---- bytes as lower-case hex */

/* @hex has room for two digits a byte and the NUL. */
static inline void hex_copy(const void *bytes, size_t count, char *hex)
{
	static const char digits[] = "0123456789abcdef";
	const unsigned char *byte = bytes;

	/* NOLINTBEGIN(clang-analyzer-core.NullDereference): no byte is read where there is none */
	for (size_t i = 0; i < count; i++) {
		*hex++ = digits[byte[i] >> 4];
		*hex++ = digits[byte[i] & 15];
	}
	/* NOLINTEND(clang-analyzer-core.NullDereference) */
	*hex = '\0';
}

/*
 * ---- a hash for tables of names, eight bytes at a time. It begins with a number that each process
 * draws anew, so that the author of the names cannot make them collide; it is nothing to be
 * written down, and no order may come of it.
 */

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
