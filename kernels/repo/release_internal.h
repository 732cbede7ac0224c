/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Release text of an apt suite: what InRelease holds between its signature's lines, or what
 * Release.gpg signs. https://wiki.debian.org/DebianRepository/Format
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "common/hash.h"

struct release_file {
	char *path; /* below the folder of the suite: "main/binary-amd64/Packages.xz" */
	char sha256[HASH_HEX_SIZE];
	uint64_t size_bytes;
};

/* Strings are "" where the text has none. */
struct release {
	char *origin;
	char *label;
	char *suite;
	char *codename;
	char *date;            /* as it stands: RFC 2822 */
	char *valid_until;     /* likewise */
	int64_t valid_until_s; /* seconds since 1970, or 0 for none */
	bool by_hash;          /* lists are also served below by-hash/SHA256 */
	bool not_automatic;    /* its packages are only wanted by who asks for them: backports */
	struct release_file *files; /* sorted by path */
	size_t count;
};

/*
 * -EPROTO for what is no Release text or names a file outside the suite; -EKEYREJECTED when it has
 * no SHA-256, because older hashes can be forged. The caller frees it with release_free().
 */
int release_parse(const char *text, size_t size, const char *name, struct release *ret,
	struct error *error) _must_check_;
void release_free(struct release *release);

const struct release_file *release_find(const struct release *release, const char *path);

/* "Sat, 11 Jul 2026 10:16:37 UTC" in seconds since 1970; -EINVAL for anything else. */
int release_date(const char *text, int64_t *ret_s) _must_check_;
