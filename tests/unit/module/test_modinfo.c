/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/support.h"

#include <time.h>

#include "module/elf_internal.h"

/* Walked as the proof walks import_ns: each step begins where the last one ended. */
static void a_key_that_stands_100_000_times_is_walked_soon(void **state)
{
	enum { COUNT = 100000 };

	static const char entry[] = "import_ns=A";
	_cleanup_free_ char *data = malloc(COUNT * sizeof(entry));
	struct arena memory = { 0 };
	struct modinfo info;
	const char *value = NULL;
	size_t count = 0;
	clock_t begin = clock();

	(void) state;
	assert_non_null(data);
	for (size_t i = 0; i < COUNT; i++)
		memcpy(data + i * sizeof(entry), entry, sizeof(entry));
	assert_int_equal(modinfo_read(&info, data, COUNT * sizeof(entry), 0, &memory), 0);
	while ((value = modinfo_next(&info, "import_ns", value)))
		count++;
	arena_free(&memory);
	assert_int_equal(count, COUNT);
	assert_true(clock() - begin < 5 * CLOCKS_PER_SEC);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_key_that_stands_100_000_times_is_walked_soon),
	};

	return cmocka_run_group_tests_name("modinfo", tests, NULL, NULL);
}
