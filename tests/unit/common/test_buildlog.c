/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/support.h"

#include "common/buildlog.h"

#define _cleanup_found_ _cleanup_(buildlog_error_free)

static void a_compiler_error_has_file_line_and_step(void **state)
{
	_cleanup_found_ struct buildlog_error found = { 0 };
	const char *log = "==> copy the source\n"
			  "==> compile with gcc-12\n"
			  "  CC [M]  nvidia/nv-pci.o\n"
			  "nvidia/nv-pci.c:195:20: warning: unused variable\n"
			  "nvidia/nv-pci.c:200:9: error: too few arguments to function "
			  "'pci_resize_resource'\n"
			  "nvidia/os.c:1:1: error: a later one\n"
			  "make[2]: *** [Makefile:1: nvidia/nv-pci.o] Error 1\n";

	(void) state;
	assert_int_equal(buildlog_first_error(log, &found), 0);
	assert_string_equal(found.file, "nvidia/nv-pci.c");
	assert_int_equal(found.line, 200);
	assert_string_equal(found.message, "too few arguments to function 'pci_resize_resource'");
	assert_string_equal(found.step, "compile with gcc-12");
	assert_contains(buildlog_hint(&found), "does not support this kernel");
}

static void feature_tests_of_earlier_steps_do_not_count(void **state)
{
	_cleanup_found_ struct buildlog_error found = { 0 };
	const char *log =
		"==> configure\n"
		"conftest.c:3:1: error: unknown type name 'x'\n"
		"==> compile\n"
		"core/device.c:12:10: fatal error: linux/gone.h: No such file or directory\n";

	(void) state;
	assert_int_equal(buildlog_first_error(log, &found), 0);
	assert_string_equal(found.file, "core/device.c");
	assert_int_equal(found.line, 12);
	assert_contains(found.message, "linux/gone.h");
	assert_contains(buildlog_hint(&found), "a header that this kernel does not have");
}

static void a_recipe_says_what_to_try(void **state)
{
	_cleanup_found_ struct buildlog_error found = { 0 };
	_cleanup_found_ struct buildlog_error full = { 0 };

	(void) state;
	assert_int_equal(
		buildlog_first_error("try: of an earlier step\n"
				     "==> compile\n"
				     "core/device.c:12:10: fatal error: linux/gone.h: No such file "
				     "or directory\n"
				     "make: *** [makefile:1: kernel] Error 2\n"
				     "try: a newer OFED\n",
			&found),
		0);
	assert_string_equal(buildlog_hint(&found), "a newer OFED");
	assert_int_equal(buildlog_first_error("core/a.c:1:1: error: No space left on device\n"
					      "try: a newer OFED\n",
				 &full),
		0);
	assert_contains(buildlog_hint(&full), "disk space");
}

static void a_full_disk_is_told_from_a_source_that_does_not_compile(void **state)
{
	_cleanup_found_ struct buildlog_error assembler = { 0 };
	_cleanup_found_ struct buildlog_error recipe = { 0 };
	_cleanup_found_ struct buildlog_error source = { 0 };
	_cleanup_found_ struct buildlog_error storage = { 0 };

	(void) state;
	assert_int_equal(
		buildlog_first_error("level=error msg=\"write /x: no space left on device\"\n"
				     "Error: exit status 125\n",
			&storage),
		0);
	assert_int_equal(buildlog_error_number(&storage), -ENOSPC);
	assert_contains(buildlog_hint(&storage), "free some disk space");
	assert_int_equal(
		buildlog_first_error("==> compile\n"
				     "{standard input}: Assembler messages:\n"
				     "{standard input}: Fatal error: can't write 4096 bytes to "
				     "section .rodata of a.o: 'No space left on device'\n"
				     "make[2]: *** [Makefile.build:255: a.o] Error 1\n"
				     "try: a newer OFED\n",
			&assembler),
		0);
	assert_contains(assembler.message, "of a.o: 'No space left on device'");
	assert_contains(buildlog_hint(&assembler), "free some disk space");
	assert_int_equal(buildlog_error_number(&assembler), -ENOSPC);
	assert_int_equal(buildlog_first_error("==> copy the source\n"
					      "cp: error writing 'a': No space left on device\n",
				 &recipe),
		0);
	assert_int_equal(buildlog_error_number(&recipe), -ENOSPC);
	assert_int_equal(buildlog_first_error("a.c:1:1: error: no such type\n", &source), 0);
	assert_int_equal(buildlog_error_number(&source), -EIO);
}

static void a_compiler_that_was_killed_has_its_file(void **state)
{
	_cleanup_found_ struct buildlog_error found = { 0 };
	_cleanup_found_ struct buildlog_error cut = { 0 };

	(void) state;
	assert_int_equal(
		buildlog_first_error("==> compile\n"
				     "  CC [M]  core/main.o\n"
				     "  CC [M]  core/other.o\n"
				     "gcc-12: fatal error: Killed signal terminated program cc1\n"
				     "compilation terminated.\n"
				     "make[2]: *** [scripts/Makefile.build:255: core/main.o] Error "
				     "1\n"
				     "make: *** [makefile:10: kernel] Error 2\n"
				     "try: a newer OFED\n",
			&found),
		0);
	assert_contains(found.message, "terminated program cc1, making core/main.o");
	assert_contains(buildlog_hint(&found), "a smaller --jobs, or more memory");
	assert_int_equal(buildlog_error_number(&found), -ENOMEM);
	assert_int_equal(
		buildlog_first_error(
			"gcc-12: fatal error: Killed signal terminated program cc1\n", &cut),
		0);
	assert_string_equal(
		cut.message, "gcc-12: fatal error: Killed signal terminated program cc1");
}

static void modpost_errors_have_no_place(void **state)
{
	_cleanup_found_ struct buildlog_error found = { 0 };
	const char *log = "==> compile\n"
			  "ERROR: modpost: \"ib_register_peer_memory_client\" "
			  "[nvidia-peermem.ko] undefined!\n"
			  "make: *** [Makefile:1: modules] Error 2\n";

	(void) state;
	assert_int_equal(buildlog_first_error(log, &found), 0);
	assert_null(found.file);
	assert_contains(found.message, "ib_register_peer_memory_client");
	assert_contains(buildlog_hint(&found), "exports the symbol");
}

static void the_recipes_own_words_win_over_makes(void **state)
{
	_cleanup_found_ struct buildlog_error found = { 0 };

	(void) state;
	assert_int_equal(buildlog_first_error("==> copy the source\n"
					      "make: *** [x] Error 2\n"
					      "ofed.sh: no version in debian/changelog\n",
				 &found),
		0);
	assert_string_equal(found.message, "ofed.sh: no version in debian/changelog");
}

static void the_recipes_own_words_win_over_buildahs(void **state)
{
	_cleanup_found_ struct buildlog_error found = { 0 };

	(void) state;
	assert_int_equal(buildlog_first_error("==> copy the source\n"
					      "nvidia.sh: OFED 1.0 exports no interface\n"
					      "subprocess exited with status 1\n"
					      "Error: exit status 1\n",
				 &found),
		0);
	assert_string_equal(found.message, "nvidia.sh: OFED 1.0 exports no interface");
	assert_null(buildlog_hint(&found));
}

static void an_assemblers_error_is_one(void **state)
{
	_cleanup_found_ struct buildlog_error found = { 0 };

	(void) state;
	assert_int_equal(buildlog_first_error("/tmp/cc.s:12: Error: no such instruction\n"
					      "Error: exit status 1\n",
				 &found),
		0);
	assert_contains(found.message, "no such instruction");
	buildlog_error_free(&found);
	assert_int_equal(buildlog_first_error("Error: can't open x.s for reading\n"
					      "make: *** [x.o] Error 1\n"
					      "Error: exit status 2\n",
				 &found),
		0);
	assert_contains(found.message, "can't open x.s");
}

static void make_is_the_last_resort(void **state)
{
	_cleanup_found_ struct buildlog_error found = { 0 };

	(void) state;
	assert_int_equal(buildlog_first_error(
				 "a\nmake[1]: *** No rule to make target 'x'.  Stop.\n", &found),
		0);
	assert_contains(found.message, "No rule to make target");
	assert_null(found.step);
}

static void a_tool_that_died_is_named_before_make(void **state)
{
	_cleanup_found_ struct buildlog_error found = { 0 };

	(void) state;
	assert_int_equal(
		buildlog_first_error("==> compile\nCannot create temporary file in /tmp/: No such "
				     "file or directory\nAborted\nmake[3]: *** [x.o] Error 134\n",
			&found),
		0);
	assert_contains(found.message, "Cannot create temporary file");
}

static void a_missing_program_is_named(void **state)
{
	static const char *const lines[] = {
		"make[2]: g++: No such file or directory\n",
		"/bin/sh: 1: g++: not found\n",
		"bash: line 1: g++: command not found\n",
		"/slipway/work/x/conftest.bash: line 12: g++: command not found\n",
	};
	static const char *const others[] = {
		"Makefile:3: flavours.mk: No such file or directory\n",
		"make[1]: ./scripts/Makefile.build: No such file or directory\n",
		"make: Makefile: No such file or directory\n",
		"checking for bison... not found\n",
		"make[1]: *** No rule to make target 'x'.  Stop.\n",
	};

	(void) state;
	for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
		_cleanup_found_ struct buildlog_error found = { 0 };
		_cleanup_free_ char *log = NULL;

		assert_true(
			asprintf(&log, "==> compile\n%smake: *** [x] Error 127\n", lines[i]) > 0);
		assert_int_equal(buildlog_first_error(log, &found), 0);
		assert_string_equal(found.message, "the build container lacks the program g++");
		assert_contains(buildlog_hint(&found), "[root]");
	}
	for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
		_cleanup_found_ struct buildlog_error found = { 0 };
		_cleanup_free_ char *log = NULL;

		assert_true(asprintf(&log, "%smake: *** [x] Error 1\n", others[i]) > 0);
		assert_int_equal(buildlog_first_error(log, &found), 0);
		assert_contains(found.message, "make");
	}
}

static void a_log_without_errors_says_so(void **state)
{
	struct buildlog_error found = { 0 };

	(void) state;
	assert_int_equal(buildlog_first_error("==> compile\nall is well\n", &found), -ENODATA);
	assert_int_equal(buildlog_first_error("", &found), -ENODATA);
	assert_null(found.message);
}

static void a_killed_recipe_is_told_from_one_that_names_a_kill(void **state)
{
	(void) state;
	assert_true(
		buildlog_says_killed("==> compile\nsubprocess exited on killed\n"
				     "subprocess exited with status 1\nError: exit status 1\n"));
	assert_false(buildlog_says_killed("==> compile\necho subprocess exited on killed\n"));
	assert_false(buildlog_says_killed("==> compile\nsubprocess exited with status 2\n"));
}

static void compiled_files_are_counted(void **state)
{
	(void) state;
	assert_string_equal(buildlog_compiled("  CC [M]  /w/nvidia/nv.o"), "/w/nvidia/nv.o");
	assert_string_equal(buildlog_compiled("  CXX [M]  a.o"), "a.o");
	assert_string_equal(
		buildlog_compiled(" [ nvidia-modeset    ]  CC           ../x.c"), "../x.c");
	assert_null(buildlog_compiled(" [ nvidia            ]  LD           _out/x.o"));
	assert_null(buildlog_compiled("[x]"));
	assert_null(buildlog_compiled("  CC [M]  "));
	assert_null(buildlog_compiled("  CC      scripts/mod/modpost.o"));
	assert_null(buildlog_compiled("  LD [M]  nvidia.o"));
	assert_null(buildlog_compiled("CCC [M] x"));
	assert_int_equal(
		buildlog_count_compiled("a\n  CC [M]  a.o\n  LD [M]  m.o\n  CC [M]  b.o"), 2);
	assert_int_equal(buildlog_count_compiled(""), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_compiler_error_has_file_line_and_step),
		cmocka_unit_test(feature_tests_of_earlier_steps_do_not_count),
		cmocka_unit_test(a_recipe_says_what_to_try),
		cmocka_unit_test(a_full_disk_is_told_from_a_source_that_does_not_compile),
		cmocka_unit_test(a_compiler_that_was_killed_has_its_file),
		cmocka_unit_test(modpost_errors_have_no_place),
		cmocka_unit_test(the_recipes_own_words_win_over_makes),
		cmocka_unit_test(the_recipes_own_words_win_over_buildahs),
		cmocka_unit_test(an_assemblers_error_is_one),
		cmocka_unit_test(make_is_the_last_resort),
		cmocka_unit_test(a_tool_that_died_is_named_before_make),
		cmocka_unit_test(a_missing_program_is_named),
		cmocka_unit_test(a_log_without_errors_says_so),
		cmocka_unit_test(compiled_files_are_counted),
		cmocka_unit_test(a_killed_recipe_is_told_from_one_that_names_a_kill),
	};

	return cmocka_run_group_tests_name("buildlog", tests, NULL, NULL);
}
