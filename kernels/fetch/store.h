/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files by their content: each lies under its SHA-256 and appears there by a rename, when it is
 * whole and right. Several runs may share a store: what one fetches, the others wait for and use.
 *
 *     sha256/<digest>         whole and right
 *     partial/<digest>.part   what has come so far of one, to go on from
 *     partial/<digest>.lock   held while it is fetched
 *     damaged/<digest>        was in sha256/ and had another content
 */
#pragma once

#include <stdbool.h>

#include "common/error.h"
#include "common/strv.h"
#include "kernels/fetch/download.h"

struct store {
	int fd;
	char *path; /* for messages */
};

/* The wanted file. The texts are borrowed. */
struct store_file {
	const char *name; /* for people */
	const char *sha256;
	uint64_t size_bytes;
	const char *url;
	struct mirror_credentials credentials; /* for the URL's own server alone */
};

/* Opens the folder @path below @dir_fd and makes what is missing. The caller closes it. */
int store_open(int dir_fd, const char *path, struct store *ret, struct error *error) _must_check_;
void store_close(struct store *store);

/*
 * Is it there, with this content? 1 or 0, -EUCLEAN when what is there has another content,
 * negative errno when that cannot be read. @size_bytes 0: not known.
 */
int store_verify(const struct store *store, const char *sha256, uint64_t size_bytes,
	struct error *error) _must_check_;

/* The same, and it counts as used now: what a run uses is not pruned while it runs. */
int store_check(const struct store *store, const char *sha256, uint64_t size_bytes,
	struct error *error) _must_check_;

/*
 * Moves a damaged file out of the way, so that it is fetched anew: waits for its lock, looks again,
 * and lets a right one stay, which another run may have put there. 1 when it was moved, 0 when
 * there is nothing damaged.
 */
int store_set_aside_damaged(const struct store *store, const char *sha256, uint64_t size_bytes,
	struct error *error) _must_check_;

/*
 * Makes all @files present, checking the content also of those that are there: a damaged one is set
 * aside and fetched again. Codes are download_run()'s, and -EUCLEAN for a damaged file where
 * nothing can be fetched. @on_missing (may be NULL) is called before the first download with how
 * many files and bytes are to come.
 */
int store_fetch(const struct store *store, struct download *download,
	const struct store_file *files, size_t count,
	void (*on_missing)(void *context, size_t count, uint64_t size_bytes), void *context,
	struct error *error) _must_check_;

/*
 * Moves the file @name of @dir_fd, whose content has been checked by the caller, into the store;
 * one that is there already stays and wins.
 */
int store_take(
	const struct store *store, int dir_fd, const char *name, const char *sha256) _must_check_;
