/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/mirror.h"

#include "kernels/repo/repo_internal.h"

static const char *const forms[] = { "a.xz", "a.gz", "a.zst", "a.bz2", "a" };

static int gather(void *context, const char *data, size_t size, struct error *error)
{
	(void) error;
	return fwrite(data, 1, size, context) == size ? 0 : -EIO;
}

static int run(const struct folder *folder, const char *path, struct stream stream, char **ret_text,
	struct error *error)
{
	size_t size;
	FILE *file = open_memstream(ret_text, &size);
	int r;

	stream.dir_fd = folder->fd;
	stream.path = stream.name = path;
	stream.on_block = gather;
	stream.context = file;
	r = stream_run(&stream, error);
	(void) fclose(file);
	return r;
}

/* Text that packing does not make much smaller. */
static void noise(char *text, size_t size)
{
	uint32_t number = 1;

	for (size_t i = 0; i + 1 < size; i++) {
		number = number * 1103515245 + 12345;
		text[i] = (char) ('!' + number / 65536 % 90);
	}
	text[size - 1] = '\0';
}

static void each_form_is_read_whole(void **state)
{
	const struct folder *folder = *state;
	char *text = malloc(300000);

	assert_non_null(text);
	noise(text, 300000);
	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		_cleanup_free_ char *read_text = NULL;
		struct stream stream = { 0 };
		struct error error = { 0 };
		char packed[65], unpacked[65];
		size_t size;

		mirror_pack(folder, forms[i], text);
		folder_write_text(folder, "text", text);
		mirror_hash(folder, forms[i], packed, &size);
		mirror_hash(folder, "text", unpacked, &size);
		stream.packed = packed;
		stream.unpacked = unpacked;
		stream.limit_bytes = size;
		if (run(folder, forms[i], stream, &read_text, &error) < 0)
			fail_msg("%s", error.text);
		assert_string_equal(read_text, text);
	}
	free(text);
}

static void cut_files_are_malformed(void **state)
{
	const struct folder *folder = *state;
	char *text = malloc(300000);

	assert_non_null(text);
	noise(text, 300000);
	for (size_t i = 0; i + 1 < ARRAY_SIZE(forms); i++) {
		for (off_t size = 6; size < 200000; size += size < 40 ? 1 : size) {
			_cleanup_free_ char *read_text = NULL;
			const struct stream stream = { .unpacked = MIRROR_HEX };
			_cleanup_close_ int fd = -1;
			struct error error = { 0 };
			int r;

			mirror_pack(folder, forms[i], text);
			fd = openat(folder->fd, forms[i], O_WRONLY | O_CLOEXEC);
			assert_int_equal(ftruncate(fd, size), 0);
			r = run(folder, forms[i], stream, &read_text, &error);
			if (r != -EPROTO && r != -EBADMSG)
				fail_msg("%s cut to %ld bytes: %d", forms[i], (long) size, r);
		}
	}
	free(text);
}

static void empty_files_are_empty(void **state)
{
	const struct folder *folder = *state;

	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		_cleanup_free_ char *text = NULL;
		struct error error = { 0 };

		mirror_pack(folder, forms[i], "");
		if (run(folder, forms[i], (struct stream){ 0 }, &text, &error) < 0)
			fail_msg("%s", error.text);
		assert_string_equal(text, "");
	}
}

static void bombs_are_refused(void **state)
{
	const struct folder *folder = *state;
	char *text = calloc(1, (size_t) 4 << 20);

	assert_non_null(text);
	memset(text, 'a', ((size_t) 4 << 20) - 1);
	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		const struct stream stream = { .limit_bytes = 1 << 20 };
		_cleanup_free_ char *read_text = NULL;
		struct error error = { 0 };

		mirror_pack(folder, forms[i], text);
		assert_int_equal(run(folder, forms[i], stream, &read_text, &error), -EFBIG);
		assert_contains(error.text, "larger than the 1048576 bytes");
	}
	free(text);
}

static void hashes_are_compared(void **state)
{
	const struct folder *folder = *state;
	struct stream stream = { .packed = MIRROR_HEX };
	_cleanup_free_ char *text = NULL;
	_cleanup_free_ char *again = NULL;
	struct error error = { 0 };

	mirror_pack(folder, "a.xz", "text");
	assert_int_equal(run(folder, "a.xz", stream, &text, &error), -EBADMSG);
	assert_contains(error.text, "it has the hash");
	stream = (struct stream){ .unpacked = MIRROR_HEX MIRROR_HEX };
	assert_int_equal(run(folder, "a.xz", stream, &again, &error), -EBADMSG);
	assert_contains(error.text, "what it holds has the hash");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(each_form_is_read_whole),
		folder_test(cut_files_are_malformed),
		folder_test(empty_files_are_empty),
		folder_test(bombs_are_refused),
		folder_test(hashes_are_compared),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
