/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 32-bit FNV-1a, for tables of names. It has no key: whoever makes the names can make
 * them collide, so what such a table takes has to be limited.
 */
#pragma once

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
