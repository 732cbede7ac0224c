/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/support.h"

#include "cli/progress.h"
#include "common/clock.h"

static void compiled_files_are_told_now_and_then(void **state)
{
	struct progress progress = { .stage = "nvidia", .to_compile = 3 };
	char *text = NULL;
	size_t size = 0;

	(void) state;
	progress.text = open_memstream(&text, &size);
	assert_non_null(progress.text);
	progress_compiled(&progress, "nvidia/nv.o");
	assert_int_equal(fflush(progress.text), 0);
	assert_int_equal(size, 0);
	progress.reported_ms = clock_monotonic_ms() - 31000;
	progress_compiled(&progress, "nvidia/nv-pci.o");
	progress_compiled(&progress, "nvidia/nv-acpi.o");
	assert_int_equal(fclose(progress.text), 0);
	assert_contains(text, "2 of about 3 files compiled: nvidia/nv-pci.o\n");
	assert_null(strstr(text, "nv-acpi"));
	progress.terminal = true;
	progress.drawn_ms = clock_monotonic_ms() + 60000;
	progress.stage = NULL;
	progress_compiled(&progress, "nvidia/nv-cray.o");
	assert_string_equal(progress.step, "4 files compiled: nvidia/nv-cray.o");
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(compiled_files_are_told_now_and_then),
	};

	return cmocka_run_group_tests_name("progress", tests, NULL, NULL);
}
