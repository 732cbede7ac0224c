/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is remembered of a repository's lists: <key>.digest in the cache's "indexes" folder. Its
 * first line is "Slipway-Index: 1 <SHA-256 of all that follows>"; then come a stanza about the list
 * as a whole and the kept packages, as apt writes them. The file's time is when the mirror was last
 * asked.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "common/error.h"
#include "common/hash.h"
#include "kernels/repo/package.h"

struct index_request;
struct index_options;

/* Strings may be NULL where nothing is known. */
struct digest {
	char *absent; /* why the mirror has no such list; all else is empty then */
	char *release_sha256;
	char *date;
	char *signer;
	char *etag;
	char *last_modified;
	int64_t valid_until_s; /* 0 for none */
	bool not_automatic;
	uint64_t listed;
	struct package_list packages;
	time_t asked_s; /* set by reading */
};

/*
 * The file's name: a hash of all that the digest's content depends on but the lists themselves:
 * also of the keys, so that a list is checked anew when they are others.
 */
int digest_name(const struct index_request *request, const struct index_options *options,
	char **ret_name) _must_check_;

/* -ENOENT when there is none; -EUCLEAN when it is damaged. The caller frees it. */
int digest_read(
	int folder_fd, const char *name, struct digest *ret, struct error *error) _must_check_;

/* The same of a text, which it changes. */
int digest_parse(char *text, size_t size, const char *name, struct digest *ret,
	struct error *error) _must_check_;

int digest_write(int folder_fd, const char *name, const struct digest *digest,
	struct error *error) _must_check_;

/* The mirror says that nothing has changed: makes the digest young again. */
int digest_touch(int folder_fd, const char *name, struct error *error) _must_check_;

void digest_free(struct digest *digest);
