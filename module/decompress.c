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

/* Opens a library, and puts the addresses of @names into @calls, which has as many members. */
static int open_calls(const char *library, const char *const *names, size_t count, void *calls,
	struct error *error)
{
	void *handle = dlopen(library, RTLD_LAZY | RTLD_LOCAL);
	void **place = calls;

	if (!handle)
		return error_set(
			error, -ELIBACC, "cannot be unpacked without %s: %s", library, dlerror());
	for (size_t i = 0; i < count; i++) {
		place[i] = dlsym(handle, names[i]);
		if (!place[i])
			return error_set(error, -ELIBBAD, "cannot be unpacked: %s has no %s",
				library, names[i]);
	}
	return 0;
}

#define FIRST_CAPACITY ((size_t) 256 * 1024)

/* What xz -9 needs is half of this; a header may ask for 4 GiB. */
#define XZ_MEMORY_LIMIT ((uint64_t) 128 * 1024 * 1024)

/*
 * A growing buffer that never holds more than limit + 1 bytes: one more tells "too large". Behind
 * the capacity is room for a NUL.
 */
struct output {
	char *data;
	size_t size;
	size_t capacity;
	size_t limit;
};

struct input {
	const unsigned char *data;
	size_t size;
	size_t used;
};

/* One step of a decoder: 1 at the end of the stream, 0 to go on, or a negative errno. */
typedef int decoder_step(void *state, struct input *input, struct output *output);

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
static int output_grow(struct output *output)
{
	size_t capacity = output->capacity ? output->capacity * 2 : FIRST_CAPACITY;
	char *data;

	if (output->size > output->limit)
		return -EFBIG;
	if (output->size < output->capacity)
		return 0;
	if (capacity > output->limit + 1)
		capacity = output->limit + 1;
	data = realloc(output->data, capacity + 1);
	if (!data)
		return -ENOMEM;
	output->data = data;
	output->capacity = capacity;
	return 0;
}

/* Calls the decoder until its stream ends. One that neither reads nor writes has no data left. */
static int decode(decoder_step *step, void *state, struct input *input, struct output *output)
{
	for (;;) {
		size_t used = input->used;
		size_t size = output->size;
		int r = output_grow(output);

		if (r == 0)
			r = step(state, input, output);
		if (r < 0)
			return r;
		if (r > 0)
			break;
		if (input->used == used && output->size == size)
			return -EINVAL;
	}
	if (output->size > output->limit)
		return -EFBIG;
	return input->used == input->size ? 0 : -EINVAL;
}

struct xz_state {
	struct {
		__typeof__(&lzma_stream_decoder) start;
		__typeof__(&lzma_code) code;
		__typeof__(&lzma_end) end;
	} calls;
	lzma_stream stream;
};

static int xz_step(void *state, struct input *input, struct output *output)
{
	struct xz_state *xz = state;
	lzma_stream *stream = &xz->stream;
	lzma_ret r;

	stream->next_in = input->data + input->used;
	stream->avail_in = input->size - input->used;
	stream->next_out = (uint8_t *) output->data + output->size;
	stream->avail_out = output->capacity - output->size;
	r = xz->calls.code(stream, LZMA_RUN);
	input->used = input->size - stream->avail_in;
	output->size = output->capacity - stream->avail_out;
	if (r == LZMA_STREAM_END)
		return 1;
	if (r == LZMA_MEM_ERROR)
		return -ENOMEM;
	return r == LZMA_OK ? 0 : -EINVAL;
}

static int unpack_xz(struct input *input, struct output *output, struct error *error)
{
	struct xz_state xz = { .stream = LZMA_STREAM_INIT };
	static const char *const names[] = { "lzma_stream_decoder", "lzma_code", "lzma_end" };
	int r = open_calls("liblzma.so.5", names, ARRAY_SIZE(names), &xz.calls, error);

	if (r < 0)
		return r;
	if (xz.calls.start(&xz.stream, XZ_MEMORY_LIMIT, 0) != LZMA_OK)
		return -ENOMEM;
	r = decode(xz_step, &xz, input, output);
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

static int gzip_step(void *state, struct input *input, struct output *output)
{
	struct gzip_state *gzip = state;
	z_stream *stream = &gzip->stream;
	size_t left = input->size - input->used, room = output->capacity - output->size;
	unsigned int in = left < UINT_MAX ? (unsigned int) left : UINT_MAX;
	unsigned int out = room < UINT_MAX ? (unsigned int) room : UINT_MAX;
	int r;

	stream->next_in = input->data + input->used;
	stream->avail_in = in;
	stream->next_out = (Bytef *) output->data + output->size;
	stream->avail_out = out;
	r = gzip->calls.inflate(stream, Z_NO_FLUSH);
	input->used += in - stream->avail_in;
	output->size += out - stream->avail_out;
	if (r == Z_STREAM_END)
		return 1;
	if (r == Z_MEM_ERROR)
		return -ENOMEM;
	return r == Z_OK || r == Z_BUF_ERROR ? 0 : -EINVAL;
}

static int unpack_gzip(struct input *input, struct output *output, struct error *error)
{
	struct gzip_state gzip = { .stream = { 0 } };
	static const char *const names[] = { "inflateInit2_", "inflate", "inflateEnd" };
	int r = open_calls("libz.so.1", names, ARRAY_SIZE(names), &gzip.calls, error);

	if (r < 0)
		return r;
	/* What inflateInit2() of zlib.h calls; 16 on top of the window bits: gzip framing only. */
	if (gzip.calls.start(&gzip.stream, MAX_WBITS + 16, ZLIB_VERSION, (int) sizeof(z_stream)) !=
		Z_OK)
		return -ENOMEM;
	r = decode(gzip_step, &gzip, input, output);
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

static int zstd_step(void *state, struct input *input, struct output *output)
{
	const struct zstd_state *zstd = state;
	ZSTD_inBuffer in = { input->data, input->size, input->used };
	ZSTD_outBuffer out = { output->data, output->capacity, output->size };
	size_t left = zstd->calls.decompress(zstd->context, &out, &in);

	if (zstd->calls.is_error(left))
		return -EINVAL;
	input->used = in.pos;
	output->size = out.pos;
	return left == 0;
}

static int unpack_zstd(struct input *input, struct output *output, struct error *error)
{
	struct zstd_state zstd = { .context = NULL };
	static const char *const names[] = { "ZSTD_createDCtx", "ZSTD_decompressStream",
		"ZSTD_isError", "ZSTD_freeDCtx" };
	int r = open_calls("libzstd.so.1", names, ARRAY_SIZE(names), &zstd.calls, error);

	if (r < 0)
		return r;
	/* NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage): open_calls() sets all of them */
	zstd.context = zstd.calls.start();
	if (!zstd.context)
		return -ENOMEM;
	r = decode(zstd_step, &zstd, input, output);
	/* NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage): open_calls() sets all of them */
	(void) zstd.calls.end(zstd.context);
	return r;
}

static const struct {
	const char *name;
	int (*unpack)(struct input *input, struct output *output, struct error *error);
} formats[] = {
	[DECOMPRESS_XZ] = { "xz", unpack_xz },
	[DECOMPRESS_GZIP] = { "gzip", unpack_gzip },
	[DECOMPRESS_ZSTD] = { "zstd", unpack_zstd },
};

int decompress(enum decompress_format format, const void *data, size_t size, size_t limit,
	char **ret_data, size_t *ret_size, struct error *error)
{
	struct input input = { .data = data, .size = size };
	struct output output = { .limit = limit };
	int r = formats[format].unpack(&input, &output, error);

	if (r == 0) {
		output.data[output.size] = '\0';
		*ret_data = output.data;
		*ret_size = output.size;
		return 0;
	}
	free(output.data);
	if (r == -ELIBACC || r == -ELIBBAD)
		return r;
	if (r == -EFBIG)
		return error_set(error, r, "larger than %zu MiB when unpacked: not a kernel module",
			limit >> 20);
	if (r == -ENOMEM)
		return error_set_errno(error, r, "cannot unpack %s data", formats[format].name);
	return error_set(error, r, "damaged or cut short: its %s data ends at offset %zu of %zu",
		formats[format].name, input.used, size);
}
