/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/support.h"

#include "common/arena.h"

/* Writes all of each piece: where two overlapped, the sanitiser or the last look would show it. */
static void assert_pieces(struct arena *arena)
{
	static const size_t sizes[] = { 0, 1, 8, 9, 100, 5000, 3 };
	unsigned char *pieces[ARRAY_SIZE(sizes)];

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		pieces[i] = arena_alloc(arena, sizes[i]);
		assert_non_null(pieces[i]);
		assert_int_equal((uintptr_t) pieces[i] % 8, 0);
		memset(pieces[i], (int) i, sizes[i]);
	}
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++)
		for (size_t j = 0; j < sizes[i]; j++)
			assert_int_equal(pieces[i][j], i);
}

static void pieces_do_not_overlap(void **state)
{
	struct arena arenas[] = { { 0 }, { .chunk_size = 256 }, { .chunk_size = 65536 },
		{ .chunk_size = ARENA_HUGE_CHUNK, .huge = true } };

	(void) state;
	for (size_t i = 0; i < ARRAY_SIZE(arenas); i++) {
		for (size_t again = 0; again < 20; again++)
			assert_pieces(&arenas[i]);
		arena_reset(&arenas[i]);
		assert_pieces(&arenas[i]);
		arena_free(&arenas[i]);
		assert_pieces(&arenas[i]);
		arena_free(&arenas[i]);
	}
}

static void what_was_taken_back_is_given_again(void **state)
{
	struct arena arena = { .chunk_size = 4096 };
	void *first = arena_alloc(&arena, 16);

	(void) state;
	assert_non_null(arena_alloc(&arena, 100000));
	arena_reset(&arena);
	assert_ptr_equal(arena_alloc(&arena, 16), first);
	arena_free(&arena);
}

static void sizes_that_nobody_has_are_refused(void **state)
{
	struct arena arena = { .chunk_size = 4096 };
	unsigned char *zeros = arena_zalloc(&arena, 3, 5);

	(void) state;
	assert_null(arena_alloc(&arena, SIZE_MAX));
	assert_null(arena_alloc(&arena, SIZE_MAX - 8));
	assert_null(arena_zalloc(&arena, SIZE_MAX / 2, 3));
	assert_non_null(zeros);
	for (size_t i = 0; i < 15; i++)
		assert_int_equal(zeros[i], 0);
	arena_free(&arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pieces_do_not_overlap),
		cmocka_unit_test(what_was_taken_back_is_given_again),
		cmocka_unit_test(sizes_that_nobody_has_are_refused),
	};

	return cmocka_run_group_tests_name("arena", tests, NULL, NULL);
}
