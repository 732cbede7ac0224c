/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as what the cache has of a list; the hash in its first line is made to fit. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "common/hash.h"
#include "kernels/repo/repo_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define HEAD ((size_t) 17)

static void make_fit(char *text, size_t size)
{
	struct hash *hash = hash_new();
	char hex[HASH_HEX_SIZE];

	hash_add(hash, text + HEAD + HASH_HEX_SIZE, size - HEAD - HASH_HEX_SIZE);
	hash_finish(hash, hex);
	memcpy(text + HEAD, hex, HASH_HEX_SIZE - 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);
	struct digest digest;
	struct error error = { 0 };

	memcpy(text, data, size);
	text[size] = '\0';
	if (size > HEAD + HASH_HEX_SIZE)
		make_fit(text, size);
	if (digest_parse(text, size, "x.digest", &digest, &error) == 0)
		digest_free(&digest);
	else if (!error.text[0])
		abort();
	free(text);
	return 0;
}
