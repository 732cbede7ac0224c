/* SPDX-License-Identifier: Apache-2.0 */
/* Packs data in one of the forms that decompress() of module/elf.h unpacks. Include support.h
 * first. */
#pragma once

#include <lzma.h>
#include <zlib.h>
#include <zstd.h>

#include "module/elf.h"

static inline size_t pack_gzip(const char *data, size_t size, char *packed, size_t capacity)
{
	z_stream stream = { 0 };
	size_t packed_size;

	assert_int_equal(deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, MAX_WBITS + 16, 8,
				 Z_DEFAULT_STRATEGY),
		Z_OK);
	stream.next_in = (Bytef *) (uintptr_t) data;
	stream.avail_in = (unsigned int) size;
	stream.next_out = (Bytef *) packed;
	stream.avail_out = (unsigned int) capacity;
	assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
	packed_size = stream.total_out;
	assert_int_equal(deflateEnd(&stream), Z_OK);
	return packed_size;
}

/* The caller frees what it returns; the test fails where packing does. */
static inline char *pack(
	enum decompress_format format, const char *data, size_t size, size_t *ret_size)
{
	size_t capacity = size * 2 + 4096;
	char *packed = malloc(capacity);
	size_t packed_size = 0;

	assert_non_null(packed);
	if (format == DECOMPRESS_XZ)
		assert_int_equal(
			lzma_easy_buffer_encode(0, LZMA_CHECK_CRC32, NULL, (const uint8_t *) data,
				size, (uint8_t *) packed, &packed_size, capacity),
			LZMA_OK);
	else if (format == DECOMPRESS_GZIP)
		packed_size = pack_gzip(data, size, packed, capacity);
	else
		packed_size = ZSTD_compress(packed, capacity, data, size, 1);
	assert_false(ZSTD_isError(packed_size));
	*ret_size = packed_size;
	return packed;
}
