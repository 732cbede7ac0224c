/* SPDX-License-Identifier: Apache-2.0 */
#include "common/hash.h"

#include <sys/auxv.h>

uint64_t name_hash_start;

/* The kernel gives each process 16 random bytes: AT_RANDOM of getauxval(3). */
__attribute__((constructor)) static void draw(void)
{
	const char *random = (const char *) (uintptr_t) getauxval(AT_RANDOM);
	uint64_t words[2] = { 0 };

	if (random)
		memcpy(words, random, sizeof(words));
	name_hash_start = name_hash_mix(words[0] ^ NAME_HASH_FACTOR, words[1]);
}
