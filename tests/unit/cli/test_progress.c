/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/support.h"

#include <unistd.h>

#include "cli/progress.h"
#include "common/clock.h"

static void compiled_files_are_told_now_and_then(void **state)
{
	struct progress progress = { .own = { .name = "nvidia", .to_compile = 3 } };
	char *text = NULL;
	size_t size = 0;

	(void) state;
	progress.text = open_memstream(&text, &size);
	assert_non_null(progress.text);
	progress_compiled(&progress, "nvidia/nv.o");
	assert_int_equal(fflush(progress.text), 0);
	assert_int_equal(size, 0);
	progress.own.reported_ms = clock_monotonic_ms() - 31000;
	progress_compiled(&progress, "nvidia/nv-pci.o");
	progress_compiled(&progress, "nvidia/nv-acpi.o");
	assert_int_equal(fclose(progress.text), 0);
	assert_contains(text, "2 of about 3 files compiled: nvidia/nv-pci.o\n");
	assert_null(strstr(text, "nv-acpi"));
	progress.terminal = true;
	progress.drawn_ms = clock_monotonic_ms() + 60000;
	progress.own.name[0] = '\0';
	progress_compiled(&progress, "nvidia/nv-cray.o");
	assert_string_equal(progress.own.step, "4 files compiled: nvidia/nv-cray.o");
	free(text);
}

static void verbose_tells_each_file_and_where_the_log_is(void **state)
{
	struct progress progress = { .own = { .name = "nvidia" }, .verbose = true };
	char *text = NULL;
	size_t size = 0;

	(void) state;
	progress.text = open_memstream(&text, &size);
	assert_non_null(progress.text);
	progress_compiled(&progress, "nvidia/nv.o");
	progress_compiled(&progress, "nvidia/nv-msi.o");
	progress_detail(&progress, "log /a/b");
	progress.verbose = false;
	progress_detail(&progress, "log /c/d");
	assert_int_equal(fclose(progress.text), 0);
	assert_contains(text, "1 file compiled: nvidia/nv.o\n");
	assert_contains(text, "2 files compiled: nvidia/nv-msi.o\n");
	assert_contains(text, "log /a/b\n");
	assert_null(strstr(text, "/c/d"));
	free(text);
}

static size_t count_lines(const char *text)
{
	size_t count = 0;

	for (; *text; text++)
		count += *text == '\n';
	return count;
}

static void a_minute_without_a_line_is_reported(void **state)
{
	struct progress progress = { .own = { .name = "ofed",
					     .started_ms = clock_monotonic_ms() - 61000 } };
	char *text = NULL;
	size_t size = 0;

	(void) state;
	progress.text = open_memstream(&text, &size);
	assert_non_null(progress.text);
	progress_tick(&progress);
	progress_tick(&progress);
	assert_int_equal(fflush(progress.text), 0);
	assert_contains(text, "ofed                6");
	assert_contains(text, " s  still running\n");
	assert_int_equal(count_lines(text), 1);
	progress_step(&progress, "configure for 6.1.0-56-amd64");
	progress_tick(&progress);
	progress.own.reported_ms -= 60000;
	progress_tick(&progress);
	progress_tick(&progress);
	progress.own.reported_ms -= 60000;
	progress_compiled(&progress, "core/addr.o");
	progress_tick(&progress);
	progress_note(&progress, "a\nofed  will load\033[2J");
	assert_int_equal(fclose(progress.text), 0);
	assert_contains(text, "\na?ofed  will load?[2J\n");
	assert_contains(text, "\nofed                        configure for 6.1.0-56-amd64\n");
	assert_contains(text, " s  still at: configure for 6.1.0-56-amd64\n");
	assert_contains(text, "\nofed                        1 file compiled: core/addr.o\n");
	assert_int_equal(count_lines(text), 5);
	free(text);
}

static const char *written(FILE *file, char text[4096])
{
	ssize_t size = pread(fileno(file), text, 4095, 0);

	text[size > 0 ? size : 0] = '\0';
	return text;
}

static size_t drawn_after_a_while(const char *text)
{
	size_t count = 0;

	while ((text = strstr(text, " s  ask apt"))) {
		count += strncmp(text - 3, "0.0", 3) != 0;
		text++;
	}
	return count;
}

static void a_terminals_line_moves_while_a_stage_only_waits(void **state)
{
	struct progress progress = { .text = tmpfile(), .terminal = true };
	char text[4096] = "";

	(void) state;
	assert_non_null(progress.text);
	progress_begin(&progress, "resolve");
	progress_step(&progress, "ask apt");
	assert_non_null(strstr(written(progress.text, text), " s  ask apt"));
	/* The line is drawn again, and time has passed. */
	for (int i = 0; i < 200 && drawn_after_a_while(written(progress.text, text)) == 0; i++)
		(void) usleep(50000);
	assert_int_not_equal(drawn_after_a_while(text), 0);
	progress_end(&progress, "done");
	progress_begin(&progress, "kernel");
	progress_abandon(&progress);
	assert_int_equal(fflush(progress.text), 0);
	assert_contains(written(progress.text, text), "  ask apt\n");
	assert_int_equal(text[strlen(text) - 1], '\n');
	assert_int_equal(fclose(progress.text), 0);
}

static void stages_at_once_are_counted_and_told_when_they_are_quiet(void **state)
{
	struct progress progress = { .to_make = 3 };
	struct progress_stage stages[] = {
		{ .name = "ofed", .step = "configure", .started_ms = clock_monotonic_ms() - 61000 },
		{ .name = "userspace", .started_ms = clock_monotonic_ms(), .result = "done" },
	};
	char *text = NULL;
	size_t size = 0;

	(void) state;
	progress.text = open_memstream(&text, &size);
	assert_non_null(progress.text);
	progress_table(&progress, stages, 2);
	progress_table(&progress, stages, 2);
	progress_table_end(&progress, &stages[1]);
	assert_int_equal(fclose(progress.text), 0);
	assert_contains(text, " s  still at: configure\n");
	assert_contains(text, "\nuserspace ");
	assert_contains(text, " s  done, 1 of 3\n");
	assert_int_equal(count_lines(text), 2);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(compiled_files_are_told_now_and_then),
		cmocka_unit_test(verbose_tells_each_file_and_where_the_log_is),
		cmocka_unit_test(a_minute_without_a_line_is_reported),
		cmocka_unit_test(a_terminals_line_moves_while_a_stage_only_waits),
		cmocka_unit_test(stages_at_once_are_counted_and_told_when_they_are_quiet),
	};

	return cmocka_run_group_tests_name("progress", tests, NULL, NULL);
}
