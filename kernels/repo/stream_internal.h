/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a compressed file from its start to its end, block by block, checking its hash and what it
 * unpacks to on the way: xz, gzip, zstd and bzip2, told by their first bytes; anything else is read
 * as it is. Memory does not grow with the file.
 */
#pragma once

#include <stdint.h>

#include "common/error.h"

enum stream_digest { STREAM_SHA256, STREAM_SHA384, STREAM_SHA512 };

struct stream_hash {
	enum stream_digest digest;
	const char *hex; /* expected; NULL: not checked */
};

struct stream {
	int fd;               /* of a regular file; read from its start, not closed */
	const char *name;     /* for messages */
	uint64_t limit_bytes; /* what it may unpack to; 0: STREAM_LIMIT_BYTES */
	struct stream_hash packed;
	struct stream_hash unpacked;
	/* Called with each unpacked block; what is not 0 ends the reading and is returned. */
	int (*on_block)(void *context, const char *data, size_t size, struct error *error);
	void *context;
};

/* Fedora's whole list, the largest known, unpacks to a sixth of it. */
#define STREAM_LIMIT_BYTES ((uint64_t) 2 << 30)

/*
 * -EBADMSG for another hash; -EPROTO for what is cut or cannot be unpacked; -EFBIG above the
 * limit. Blocks that were handed over before an error are not to be trusted: of a wrong hash only
 * the end knows.
 */
int stream_run(const struct stream *stream, struct error *error) _must_check_;

/* "sha256", "sha384" or "sha512" (also "sha"-"512"); -ENOTSUP for what can be forged or is
 * unknown. */
int stream_digest_of(const char *name, enum stream_digest *ret) _must_check_;
