/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unpacks the compressed forms in which kernels ship modules: .xz, .gz (RFC 1952) and .zst
 * (RFC 8878), recognised by their first bytes, because names lie more often than content does.
 */
#pragma once

#include <stddef.h>

#include "common/error.h"

enum decompress_format {
	DECOMPRESS_NONE, /* none of the three */
	DECOMPRESS_XZ,
	DECOMPRESS_GZIP,
	DECOMPRESS_ZSTD,
};

#define DECOMPRESS_MAGIC_SIZE 6 /* bytes that decompress_detect() wants to see */

enum decompress_format decompress_detect(const void *data, size_t size);

/*
 * Unpacks @data, exactly one stream of @format (not DECOMPRESS_NONE), into a new buffer that the
 * caller frees, with a NUL behind what @ret_size counts. -EFBIG when the result is larger than
 * @limit bytes, -EINVAL when the stream is damaged, cut short or has bytes after its end, -ENOMEM,
 * -ELIBACC and -ELIBBAD where the library that unpacks it is missing; each with a message in
 * @error.
 */
int decompress(enum decompress_format format, const void *data, size_t size, size_t limit,
	char **ret_data, size_t *ret_size, struct error *error) _must_check_;
