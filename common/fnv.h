/* SPDX-License-Identifier: Apache-2.0 */
/*
 * FNV-1a: 32 bits for tables of names, 64 to tell a changed text. It has no key: whoever makes the
 * names can make them collide, so what such a table takes has to be limited.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define FNV_START 2166136261U

static inline uint32_t fnv_byte(uint32_t hash, char byte)
{
	return (hash ^ (unsigned char) byte) * 16777619U;
}

static inline uint32_t fnv_text(const char *text)
{
	uint32_t hash = FNV_START;

	while (*text)
		hash = fnv_byte(hash, *text++);
	return hash;
}

#define FNV64_START 14695981039346656037ULL

static inline uint64_t fnv64_bytes(uint64_t hash, const void *data, size_t size)
{
	const unsigned char *bytes = data;

	for (size_t i = 0; i < size; i++)
		hash = (hash ^ bytes[i]) * 1099511628211ULL;
	return hash;
}
