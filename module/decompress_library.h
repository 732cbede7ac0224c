/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The libraries that unpack, opened when something is to be unpacked: slipway-init mostly meets
 * plain files, and three libraries that nobody calls would be a good part of what it takes to start
 * and of the memory of a process that stays for months. They stay open until the program ends.
 */
#pragma once

#include <lzma.h>
#define ZLIB_CONST /* next_in then points to const */
#include <zlib.h>
#include <zstd.h>

#include "common/error.h"

#define XZ_CALLS(X)                                                                                \
	X(lzma_stream_decoder)                                                                     \
	X(lzma_code)                                                                               \
	X(lzma_end)

#define GZIP_CALLS(X)                                                                              \
	X(inflateInit2_)                                                                           \
	X(inflate)                                                                                 \
	X(inflateEnd)

#define ZSTD_CALLS(X)                                                                              \
	X(ZSTD_createDCtx)                                                                         \
	X(ZSTD_decompressStream)                                                                   \
	X(ZSTD_isError)                                                                            \
	X(ZSTD_freeDCtx)

/* NOLINTNEXTLINE(bugprone-macro-parentheses): the name of a member takes none */
#define DECOMPRESS_MEMBER(name) __typeof__(&name) name;

struct xz_calls {
	XZ_CALLS(DECOMPRESS_MEMBER)
};

struct gzip_calls {
	GZIP_CALLS(DECOMPRESS_MEMBER)
};

struct zstd_calls {
	ZSTD_CALLS(DECOMPRESS_MEMBER)
};

#undef DECOMPRESS_MEMBER

/* -ELIBACC when the library is not there, -ELIBBAD when it lacks a function. */
int xz_calls_open(struct xz_calls *ret, struct error *error) _must_check_;
int gzip_calls_open(struct gzip_calls *ret, struct error *error) _must_check_;
int zstd_calls_open(struct zstd_calls *ret, struct error *error) _must_check_;
