/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/support.h"
#include "tests/unit/packed.h"

#include "module/elf.h"

#define TEXT_SIZE  ((size_t) 3 * 1024 * 1024)
#define ROOMY      ((size_t) 16 * 1024 * 1024)
#define SMALL_SIZE ((size_t) 1000)

/* Text that repeats, but not so evenly that a whole format fits into one symbol. */
static char *sample(size_t size)
{
	char *text = malloc(size);

	assert_non_null(text);
	for (size_t i = 0; i < size; i++)
		text[i] = (char) ('a' + (i * i / 7 + i / 1000) % 26);
	return text;
}

static void round_trip(enum decompress_format format)
{
	_cleanup_free_ char *text = sample(TEXT_SIZE);
	_cleanup_free_ char *unpacked = NULL;
	struct error error = { 0 };
	size_t packed_size, size;
	_cleanup_free_ char *packed = pack(format, text, TEXT_SIZE, &packed_size);

	assert_int_equal(decompress_detect(packed, packed_size), format);
	assert_int_equal(
		decompress(format, packed, packed_size, TEXT_SIZE, &unpacked, &size, &error), 0);
	assert_int_equal(size, TEXT_SIZE);
	assert_memory_equal(unpacked, text, TEXT_SIZE);
}

static void every_format_gives_back_what_went_in(void **state)
{
	(void) state;
	round_trip(DECOMPRESS_XZ);
	round_trip(DECOMPRESS_GZIP);
	round_trip(DECOMPRESS_ZSTD);
}

static void formats_are_told_by_their_first_bytes(void **state)
{
	(void) state;
	assert_int_equal(decompress_detect("\x7f"
					   "ELF..",
				 6),
		DECOMPRESS_NONE);
	assert_int_equal(decompress_detect("\xfd"
					   "7zXZ",
				 5),
		DECOMPRESS_NONE);
	assert_int_equal(decompress_detect("\x1f\x8b", 2), DECOMPRESS_GZIP);
	assert_int_equal(decompress_detect("", 0), DECOMPRESS_NONE);
}

static void more_than_the_limit_is_refused(void **state)
{
	_cleanup_free_ char *text = sample(TEXT_SIZE);

	(void) state;
	for (int format = DECOMPRESS_XZ; format <= DECOMPRESS_ZSTD; format++) {
		struct error error = { 0 };
		char *unpacked = NULL;
		size_t packed_size, size;
		_cleanup_free_ char *packed =
			pack((enum decompress_format) format, text, TEXT_SIZE, &packed_size);

		assert_int_equal(decompress((enum decompress_format) format, packed, packed_size,
					 TEXT_SIZE - 1, &unpacked, &size, &error),
			-EFBIG);
		assert_contains(error.text, "larger than 2 MiB");
		assert_null(unpacked);
	}
}

static void a_stream_cut_anywhere_is_an_error(void **state)
{
	_cleanup_free_ char *text = sample(SMALL_SIZE);

	(void) state;
	for (int format = DECOMPRESS_XZ; format <= DECOMPRESS_ZSTD; format++) {
		size_t packed_size, size;
		_cleanup_free_ char *packed =
			pack((enum decompress_format) format, text, SMALL_SIZE, &packed_size);

		for (size_t cut = 0; cut < packed_size; cut++) {
			/* A copy of the exact size, so that ASan sees a read beyond it. */
			_cleanup_free_ char *part = malloc(cut ? cut : 1);
			struct error error = { 0 };
			char *unpacked = NULL;

			assert_non_null(part);
			memcpy(part, packed, cut);
			assert_int_equal(decompress((enum decompress_format) format, part, cut,
						 ROOMY, &unpacked, &size, &error),
				-EINVAL);
			assert_contains(error.text, "damaged or cut short");
			assert_null(unpacked);
		}
	}
}

static void bytes_after_the_end_are_an_error(void **state)
{
	_cleanup_free_ char *text = sample(SMALL_SIZE);

	(void) state;
	for (int format = DECOMPRESS_XZ; format <= DECOMPRESS_ZSTD; format++) {
		struct error error = { 0 };
		char *unpacked = NULL;
		size_t packed_size, size;
		_cleanup_free_ char *packed =
			pack((enum decompress_format) format, text, SMALL_SIZE, &packed_size);
		_cleanup_free_ char *longer = calloc(1, packed_size + 4);

		assert_non_null(longer);
		memcpy(longer, packed, packed_size);
		assert_int_equal(decompress((enum decompress_format) format, longer,
					 packed_size + 4, ROOMY, &unpacked, &size, &error),
			-EINVAL);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_format_gives_back_what_went_in),
		cmocka_unit_test(formats_are_told_by_their_first_bytes),
		cmocka_unit_test(more_than_the_limit_is_refused),
		cmocka_unit_test(a_stream_cut_anywhere_is_an_error),
		cmocka_unit_test(bytes_after_the_end_are_an_error),
	};

	return cmocka_run_group_tests_name("decompress", tests, NULL, NULL);
}
