/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file that is being fetched: "<path>.part", hashed and counted as it comes, and renamed when it
 * is whole and right. Where the SHA-256 is known, what has come stays for a later attempt to go on
 * from. The caller sees to it that no two runs fetch the same: the store by the digest's lock,
 * lists by that of their folder.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/hash.h"
#include "kernels/fetch/download.h"

struct partial {
	const struct download_file *file; /* borrowed */
	char *name;                       /* below its dir_fd */
	int fd;                           /* -1: it is not open */
	bool resumed;                     /* what is there was there before */
	struct hash *hash;                /* of what is there; NULL where no SHA-256 is known */
	uint64_t bytes;                   /* that are there */
};

/* Opens what has come before, or an empty file. Close it with partial_close(). */
int partial_open(
	const struct download_file *file, struct partial *ret, struct error *error) _must_check_;
/* Throws away what is there and starts at the first byte. */
int partial_restart(struct partial *partial, struct error *error) _must_check_;
/*
 * May it become so long, and has the disk the space? -EFBIG, -EBADMSG where its size is known and
 * another, -ENOSPC.
 */
int partial_reserve(struct partial *partial, uint64_t size_bytes, struct error *error) _must_check_;
/* Appends. -EFBIG or -EBADMSG when it becomes longer than it may, -ENOSPC. */
int partial_add(
	struct partial *partial, const void *data, size_t size, struct error *error) _must_check_;
/* Checks size and content and renames. -EBADMSG when they are wrong; the partial is empty then. */
int partial_finish(struct partial *partial, struct error *error) _must_check_;
/* Closes; what has come stays only where it is of use and @keep says so. */
void partial_close(struct partial *partial, bool keep);
