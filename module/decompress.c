/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The libraries that unpack, opened when something is to be unpacked: slipway-init mostly meets
 * plain files, and three libraries that nothing calls would be a good part of what it takes to
 * start and of the memory of a process that stays for months. They stay open until the program
 * ends.
 */
#include "module/elf.h"

#include <dlfcn.h>
#include <limits.h>
#include <lzma.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#define ZLIB_CONST /* next_in then points to const */
#include <zlib.h>
#include <zstd.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "common/library.h"

/* A function of a library; in a static program it is linked in (Makefile: slipway-look). */
struct call {
	const char *name;
	void (*linked)(void);
};
#ifdef DECOMPRESS_LINKED
#define CALL(function)                                                                             \
	{                                                                                          \
#function, (void (*)(void))(function)                                              \
	}
#else
#define CALL(function)                                                                             \
	{                                                                                          \
#function, NULL                                                                    \
	}
#endif

/* Opens a library, and puts the addresses of @wanted into @calls, which has as many members. */
static int open_calls(const char *library, const struct call *wanted, size_t count, void *calls,
	struct error *error)
{
	const char *why = "";
	void *handle = wanted->linked ? NULL : library_open(library, RTLD_LAZY, &why);
	void **place = calls;

	if (!handle && !wanted->linked)
		return error_set(
			error, -ELIBACC, "cannot be unpacked without %s: %s", library, why);
	for (size_t i = 0; i < count; i++) {
		place[i] =
			handle ? dlsym(handle, wanted[i].name) : *(void *const *) &wanted[i].linked;
		if (!place[i])
			return error_set(error, -ELIBBAD, "cannot be unpacked: %s has no %s",
				library, wanted[i].name);
	}
	return 0;
}

#define FIRST_CAPACITY ((size_t) 256 * 1024)

/* xz -9 needs half of this; a header may ask for 4 GiB. */
#define XZ_MEMORY_LIMIT ((uint64_t) 128 * 1024 * 1024)

/*
 * The packed input, and a growing output buffer that never holds more than limit + 1 bytes: one
 * more tells "too large". Behind the capacity is room for a NUL.
 */
struct unpacking {
	const unsigned char *in;
	size_t in_size, in_used;
	char *out;
	size_t size, capacity, limit;
};

/* One step of a decoder: 1 at the end of the stream, 0 to go on, or a negative errno. */
typedef int decoder_step(void *state, struct unpacking *unpacking);

enum decompress_format decompress_detect(const void *data, size_t size)
{
	static const struct {
		enum decompress_format format;
		size_t length;
		unsigned char bytes[DECOMPRESS_MAGIC_SIZE];
	} magics[] = {
		{ DECOMPRESS_XZ, 6, { 0xfd, '7', 'z', 'X', 'Z', 0x00 } },
		{ DECOMPRESS_GZIP, 2, { 0x1f, 0x8b } },
		{ DECOMPRESS_ZSTD, 4, { 0x28, 0xb5, 0x2f, 0xfd } },
	};

	for (size_t i = 0; i < ARRAY_SIZE(magics); i++)
		if (size >= magics[i].length &&
			memcmp(data, magics[i].bytes, magics[i].length) == 0)
			return magics[i].format;
	return DECOMPRESS_NONE;
}

/* Makes room for at least one more byte. */
static int grow(struct unpacking *unpacking)
{
	size_t capacity = unpacking->capacity ? unpacking->capacity * 2 : FIRST_CAPACITY;
	char *out;

	if (unpacking->size > unpacking->limit)
		return -EFBIG;
	if (unpacking->size < unpacking->capacity)
		return 0;
	if (capacity > unpacking->limit + 1)
		capacity = unpacking->limit + 1;
	out = realloc(unpacking->out, capacity + 1);
	if (!out)
		return -ENOMEM;
	unpacking->out = out;
	unpacking->capacity = capacity;
	return 0;
}

/* Calls the decoder until its stream ends. One that neither reads nor writes has no data left. */
static int decode(decoder_step *step, void *state, struct unpacking *unpacking)
{
	int r;

	do {
		size_t used = unpacking->in_used, size = unpacking->size;

		r = grow(unpacking);
		if (r == 0)
			r = step(state, unpacking);
		if (r == 0 && unpacking->in_used == used && unpacking->size == size)
			r = -EINVAL;
	} while (r == 0);
	if (r < 0)
		return r;
	if (unpacking->size > unpacking->limit)
		return -EFBIG;
	return unpacking->in_used == unpacking->in_size ? 0 : -EINVAL;
}

struct xz_state {
	struct {
		__typeof__(&lzma_stream_decoder) start;
		__typeof__(&lzma_code) code;
		__typeof__(&lzma_end) end;
	} calls;
	lzma_stream stream;
};

static int xz_step(void *state, struct unpacking *unpacking)
{
	struct xz_state *xz = state;
	lzma_stream *stream = &xz->stream;
	lzma_ret r;

	stream->next_in = unpacking->in + unpacking->in_used;
	stream->avail_in = unpacking->in_size - unpacking->in_used;
	stream->next_out = (uint8_t *) unpacking->out + unpacking->size;
	stream->avail_out = unpacking->capacity - unpacking->size;
	r = xz->calls.code(stream, LZMA_RUN);
	unpacking->in_used = unpacking->in_size - stream->avail_in;
	unpacking->size = unpacking->capacity - stream->avail_out;
	if (r == LZMA_STREAM_END)
		return 1;
	if (r == LZMA_MEM_ERROR)
		return -ENOMEM;
	return r == LZMA_OK ? 0 : -EINVAL;
}

static int unpack_xz(struct unpacking *unpacking, struct error *error)
{
	struct xz_state xz = { .stream = LZMA_STREAM_INIT };
	static const struct call wanted[] = { CALL(lzma_stream_decoder), CALL(lzma_code),
		CALL(lzma_end) };
	int r = open_calls("liblzma.so.5", wanted, ARRAY_SIZE(wanted), &xz.calls, error);

	if (r < 0)
		return r;
	if (xz.calls.start(&xz.stream, XZ_MEMORY_LIMIT, 0) != LZMA_OK)
		return -ENOMEM;
	r = decode(xz_step, &xz, unpacking);
	xz.calls.end(&xz.stream);
	return r;
}

struct gzip_state {
	struct {
		__typeof__(&inflateInit2_) start;
		__typeof__(&inflate) inflate;
		__typeof__(&inflateEnd) end;
	} calls;
	z_stream stream;
};

static int gzip_step(void *state, struct unpacking *unpacking)
{
	struct gzip_state *gzip = state;
	z_stream *stream = &gzip->stream;
	size_t left = unpacking->in_size - unpacking->in_used;
	size_t room = unpacking->capacity - unpacking->size;
	unsigned int in = left < UINT_MAX ? (unsigned int) left : UINT_MAX;
	unsigned int out = room < UINT_MAX ? (unsigned int) room : UINT_MAX;
	int r;

	stream->next_in = unpacking->in + unpacking->in_used;
	stream->avail_in = in;
	stream->next_out = (Bytef *) unpacking->out + unpacking->size;
	stream->avail_out = out;
	r = gzip->calls.inflate(stream, Z_NO_FLUSH);
	unpacking->in_used += in - stream->avail_in;
	unpacking->size += out - stream->avail_out;
	if (r == Z_STREAM_END)
		return 1;
	if (r == Z_MEM_ERROR)
		return -ENOMEM;
	return r == Z_OK || r == Z_BUF_ERROR ? 0 : -EINVAL;
}

static int unpack_gzip(struct unpacking *unpacking, struct error *error)
{
	struct gzip_state gzip = { .stream = { 0 } };
	static const struct call wanted[] = { CALL(inflateInit2_), CALL(inflate),
		CALL(inflateEnd) };
	int r = open_calls("libz.so.1", wanted, ARRAY_SIZE(wanted), &gzip.calls, error);

	if (r < 0)
		return r;
	/* inflateInit2() of zlib.h calls this; 16 on top of the window bits: gzip framing only. */
	if (gzip.calls.start(&gzip.stream, MAX_WBITS + 16, ZLIB_VERSION, (int) sizeof(z_stream)) !=
		Z_OK)
		return -ENOMEM;
	r = decode(gzip_step, &gzip, unpacking);
	(void) gzip.calls.end(&gzip.stream);
	return r;
}

struct zstd_state {
	struct {
		__typeof__(&ZSTD_createDCtx) start;
		__typeof__(&ZSTD_decompressStream) decompress;
		__typeof__(&ZSTD_isError) is_error;
		__typeof__(&ZSTD_freeDCtx) end;
	} calls;
	ZSTD_DCtx *context;
};

static int zstd_step(void *state, struct unpacking *unpacking)
{
	const struct zstd_state *zstd = state;
	ZSTD_inBuffer in = { unpacking->in, unpacking->in_size, unpacking->in_used };
	ZSTD_outBuffer out = { unpacking->out, unpacking->capacity, unpacking->size };
	size_t left = zstd->calls.decompress(zstd->context, &out, &in);

	if (zstd->calls.is_error(left))
		return -EINVAL;
	unpacking->in_used = in.pos;
	unpacking->size = out.pos;
	return left == 0;
}

static int unpack_zstd(struct unpacking *unpacking, struct error *error)
{
	struct zstd_state zstd = { .context = NULL };
	static const struct call wanted[] = { CALL(ZSTD_createDCtx), CALL(ZSTD_decompressStream),
		CALL(ZSTD_isError), CALL(ZSTD_freeDCtx) };
	int r = open_calls("libzstd.so.1", wanted, ARRAY_SIZE(wanted), &zstd.calls, error);

	if (r < 0)
		return r;
	/* NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage): open_calls() sets all of them */
	zstd.context = zstd.calls.start();
	if (!zstd.context)
		return -ENOMEM;
	r = decode(zstd_step, &zstd, unpacking);
	/* NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage): open_calls() sets all of them */
	(void) zstd.calls.end(zstd.context);
	return r;
}

static const struct {
	const char *name;
	int (*unpack)(struct unpacking *unpacking, struct error *error);
} formats[] = {
	[DECOMPRESS_XZ] = { "xz", unpack_xz },
	[DECOMPRESS_GZIP] = { "gzip", unpack_gzip },
	[DECOMPRESS_ZSTD] = { "zstd", unpack_zstd },
};

int decompress(enum decompress_format format, const void *data, size_t size, size_t limit,
	char **ret_data, size_t *ret_size, struct error *error)
{
	struct unpacking unpacking = { .in = data, .in_size = size, .limit = limit };
	int r = formats[format].unpack(&unpacking, error);

	if (r == 0) {
		unpacking.out[unpacking.size] = '\0';
		*ret_data = unpacking.out;
		*ret_size = unpacking.size;
		return 0;
	}
	free(unpacking.out);
	if (r == -ELIBACC || r == -ELIBBAD)
		return r;
	if (r == -EFBIG)
		return error_set(error, r, "larger than %zu MiB when unpacked: not a kernel module",
			limit >> 20);
	if (r == -ENOMEM)
		return error_set_errno(error, r, "cannot unpack %s data", formats[format].name);
	return error_set(error, r, "damaged or cut short: its %s data ends at offset %zu of %zu",
		formats[format].name, unpacking.in_used, size);
}
