/* SPDX-License-Identifier: Apache-2.0 */
/*
 * FNV-1a of 64 bits, to tell a changed text. It has no key: whoever makes the texts can make two
 * collide.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define FNV64_START 14695981039346656037ULL

static inline uint64_t fnv64_bytes(uint64_t hash, const void *data, size_t size)
{
	const unsigned char *bytes = data;

	for (size_t i = 0; i < size; i++)
		hash = (hash ^ bytes[i]) * 1099511628211ULL;
	return hash;
}
