/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256 (FIPS 180-4, through libcrypto) of texts, files and folders, as cache keys and in locks.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/cleanup.h"

#define HASH_HEX_SIZE 65 /* 64 digits and the NUL */

struct hash;

/* NULL without memory. */
struct hash *hash_new(void);
void hash_add(struct hash *hash, const void *data, size_t size);
/* Adds the text with its NUL, so that ("ab", "c") and ("a", "bc") differ. */
void hash_add_text(struct hash *hash, const char *text);
/* Adds the file's content. Negative errno when it cannot be read. */
int hash_add_file(struct hash *hash, int dir_fd, const char *path) _must_check_;
/*
 * Adds a file, or a folder with the name, kind, execute bit and content of all below it in sorted
 * order. Times and owners do not count; a link counts as its target text; ".git" is passed over.
 */
int hash_add_tree(struct hash *hash, int dir_fd, const char *path) _must_check_;
/* Writes the digest in lower-case hex and frees @hash. */
void hash_finish(struct hash *hash, char hex[HASH_HEX_SIZE]);

/* Is it what hash_finish() writes: 64 lower-case hex digits and nothing else? */
bool hash_is_hex(const char *text);
