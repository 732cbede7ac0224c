/* SPDX-License-Identifier: Apache-2.0 */
/* Tests whether programs start, on small programs and libraries that the compiler makes here. */
#include "tests/unit/support.h"

#include <elf.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cli/programs/programs.h"
#include "cli/stage/stage_internal.h"
#include "common/fs.h"
#include "kernels/tool.h"

#define LIBRARIES "root/usr/lib/x86_64-linux-gnu/"
#define LOADER    "/lib64/ld-test.so"

/* gcc with these words, in the folder; what it makes uses no library but those named. */
static void compile(const struct folder *folder, const char *words)
{
	_cleanup_strv_ struct strv argv = { 0 };
	struct error error = { 0 };

	folder_write_text(folder, "program.c", "void start(void) {}\n");
	assert_int_equal(strv_push(&argv, "env"), 0);
	assert_int_equal(strv_pushf(&argv, "--chdir=%s", folder->path), 0);
	assert_int_equal(strv_split(&argv,
				 "gcc -nostdlib -Wl,--no-as-needed "
				 "-Wl,--allow-shlib-undefined -Wl,-rpath-link=" LIBRARIES,
				 " "),
		0);
	assert_int_equal(strv_split(&argv, words, " "), 0);
	if (tool_run(&argv, NULL, &error) < 0)
		fail_msg("%s %s", error.text, error.lines);
}

/* A library of versions A_1 and A_2, with a program that asks for A_2 of it, and its loader. */
static void make_root(const struct folder *folder)
{
	folder_subfolder(folder, "root/usr/bin");
	folder_subfolder(folder, LIBRARIES);
	folder_subfolder(folder, "root/usr/lib64");
	assert_int_equal(symlinkat("usr/lib", folder->fd, "root/lib"), 0);
	assert_int_equal(symlinkat("/usr/lib64", folder->fd, "root/lib64"), 0);
	folder_write_text(folder, "a.c", "void one(void) {}\nvoid two(void) {}\n");
	folder_write_text(folder, "a.map", "A_1 { one; };\nA_2 { two; } A_1;\n");
	folder_write_text(folder, "use.c", "void two(void);\nvoid start(void) { two(); }\n");
	compile(folder, "-shared -o root/usr/lib64/ld-test.so program.c");
	compile(folder, "-shared -Wl,-soname,liba.so.1 -Wl,--version-script=a.map -o " LIBRARIES
			"liba.so.1.2 a.c");
	assert_int_equal(symlinkat("liba.so.1.2", folder->fd, LIBRARIES "liba.so.1"), 0);
	compile(folder, "-Wl,-e,start -Wl,--dynamic-linker=" LOADER
			" -o root/usr/bin/prog use.c " LIBRARIES "liba.so.1");
}

static void gather(const struct folder *folder, struct image_files *files)
{
	_cleanup_free_ char *root = NULL;
	struct error error = { 0 };

	assert_true(asprintf(&root, "%s/root", folder->path) > 0);
	if (image_files_add_folder(files, root, &error) < 0)
		fail_msg("%s", error.text);
}

/* The verdict on the root with @cached. The caller frees it. */
static struct programs judge_as(const struct folder *folder, bool cached)
{
	_cleanup_(image_files_free) struct image_files files = { 0 };
	struct programs programs;

	gather(folder, &files);
	image_files_settle(&files);
	programs_judge(&files, "gpu", arch_find("x86_64"), cached, &programs);
	return programs;
}

static struct programs judge(const struct folder *folder)
{
	return judge_as(folder, false);
}

static void assert_starts(const struct folder *folder, unsigned int count)
{
	_cleanup_(programs_free) struct programs programs = judge(folder);

	if (programs.finding_count)
		fail_msg("%s", programs.findings[0].text);
	assert_true(programs_start(&programs));
	assert_int_equal(programs.count, count);
	assert_int_equal(programs.starting, count);
}

/* The first finding has this id and text, and is a refusal. */
static void assert_refused(const struct folder *folder, const char *id, const char *text)
{
	_cleanup_(programs_free) struct programs programs = judge(folder);

	assert_false(programs_start(&programs));
	assert_true(programs.starting < programs.count);
	assert_string_equal(programs.findings[0].id, id);
	assert_string_equal(programs.findings[0].text, text);
	assert_true(*programs.findings[0].cure);
}

static void all_that_a_program_needs_is_there(void **state)
{
	make_root(*state);
	folder_write_text(*state, "root/usr/bin/script", "#!/bin/sh\n");
	assert_starts(*state, 1);
}

static void a_library_that_is_taken_away_is_missing(void **state)
{
	const struct folder *folder = *state;

	make_root(folder);
	assert_int_equal(unlinkat(folder->fd, LIBRARIES "liba.so.1", 0), 0);
	assert_refused(
		folder, "program-library", "liba.so.1, which prog needs, is not in the image");
}

static void a_version_that_is_too_new_is_missing(void **state)
{
	const struct folder *folder = *state;

	make_root(folder);
	folder_write_text(folder, "a.map", "A_1 { one; two; };\n");
	compile(folder, "-shared -Wl,-soname,liba.so.1 -Wl,--version-script=a.map -o " LIBRARIES
			"liba.so.1.2 a.c");
	assert_refused(
		folder, "program-version", "prog asks for A_2, liba.so.1 of the image has A_1");
	/* One without any versions is taken, as the loader does. */
	compile(folder, "-shared -Wl,-soname,liba.so.1 -o " LIBRARIES "liba.so.1.2 a.c");
	assert_starts(folder, 1);
}

static void what_libraries_need_counts_with_them(void **state)
{
	const struct folder *folder = *state;

	make_root(folder);
	compile(folder, "-shared -Wl,-soname,libb.so.1 -o " LIBRARIES "libb.so.1 program.c");
	compile(folder, "-shared -Wl,-soname,liba.so.1 -Wl,--version-script=a.map -o " LIBRARIES
			"liba.so.1.2 a.c " LIBRARIES "libb.so.1");
	assert_starts(folder, 1);
	assert_int_equal(unlinkat(folder->fd, LIBRARIES "libb.so.1", 0), 0);
	assert_refused(folder, "program-library",
		"libb.so.1, which liba.so.1 of prog needs, is not in the image");
}

static void the_loader_has_to_be_there(void **state)
{
	const struct folder *folder = *state;

	make_root(folder);
	assert_int_equal(unlinkat(folder->fd, "root/usr/lib64/ld-test.so", 0), 0);
	assert_refused(
		folder, "program-loader", LOADER ", the loader of prog, is not in the image");
}

/* The library moves; @link: words for the linker of the program. */
static void move_library(const struct folder *folder, const char *to, const char *link)
{
	_cleanup_free_ char *words = NULL;

	assert_true(asprintf(&words,
			    "-Wl,-e,start -Wl,--dynamic-linker=" LOADER
			    " %s -o root/usr/bin/prog use.c " LIBRARIES "liba.so.1",
			    link) > 0);
	compile(folder, words);
	assert_int_equal(unlinkat(folder->fd, LIBRARIES "liba.so.1", 0), 0);
	assert_int_equal(renameat(folder->fd, LIBRARIES "liba.so.1.2", folder->fd, to), 0);
}

static void folders_of_a_program_are_searched(void **state)
{
	const struct folder *folder = *state;

	make_root(folder);
	folder_subfolder(folder, "root/opt/own");
	move_library(folder, "root/opt/own/liba.so.1",
		"-Wl,--enable-new-dtags -Wl,-rpath=/nowhere:$ORIGIN/../../opt/own");
	assert_starts(folder, 1);
	assert_int_equal(unlinkat(folder->fd, "root/opt/own/liba.so.1", 0), 0);
	assert_refused(
		folder, "program-library", "liba.so.1, which prog needs, is not in the image");
}

static void the_rpath_of_a_program_counts_for_its_libraries(void **state)
{
	const struct folder *folder = *state;

	make_root(folder);
	folder_subfolder(folder, "root/opt/own");
	compile(folder, "-shared -Wl,-soname,libb.so.1 -o root/opt/own/libb.so.1 program.c");
	compile(folder, "-shared -Wl,-soname,liba.so.1 -Wl,--version-script=a.map -o " LIBRARIES
			"liba.so.1.2 a.c root/opt/own/libb.so.1");
	move_library(folder, "root/opt/own/liba.so.1",
		"-Wl,--disable-new-dtags -Wl,-rpath=${ORIGIN}/../../opt/own");
	assert_starts(folder, 1);
}

static void folders_of_ld_so_conf_count_with_a_cache(void **state)
{
	const struct folder *folder = *state;
	_cleanup_(programs_free) struct programs without = { 0 };
	_cleanup_(programs_free) struct programs with = { 0 };

	make_root(folder);
	folder_subfolder(folder, "root/opt/own");
	folder_write_text(folder, "root/etc/ld.so.conf",
		"include /etc/ld.so.conf.d/*.conf\ninclude /etc/ld.so.conf\n");
	folder_write_text(folder, "root/etc/ld.so.conf.d/own.conf", "# ours\n/opt/own\n");
	move_library(folder, "root/opt/own/liba.so.1", "");
	without = judge_as(folder, false);
	assert_false(programs_start(&without));
	with = judge_as(folder, true);
	assert_true(programs_start(&with));
	folder_write_text(folder, "root/etc/ld.so.cache", "");
	assert_starts(folder, 1);
}

/* An absolute link starts at the root of the image, not of this machine. */
static void links_do_not_lead_out_of_the_image(void **state)
{
	const struct folder *folder = *state;
	_cleanup_free_ char *outside = NULL;

	make_root(folder);
	assert_true(asprintf(&outside, "%s/outside.so", folder->path) > 0);
	assert_int_equal(
		renameat(folder->fd, LIBRARIES "liba.so.1.2", folder->fd, "outside.so"), 0);
	assert_int_equal(unlinkat(folder->fd, LIBRARIES "liba.so.1", 0), 0);
	assert_int_equal(symlinkat(outside, folder->fd, LIBRARIES "liba.so.1"), 0);
	assert_refused(
		folder, "program-library", "liba.so.1, which prog needs, is not in the image");
	assert_int_equal(unlinkat(folder->fd, LIBRARIES "liba.so.1", 0), 0);
	assert_int_equal(symlinkat("../../../../outside.so", folder->fd, LIBRARIES "liba.so.1"), 0);
	assert_refused(
		folder, "program-library", "liba.so.1, which prog needs, is not in the image");
	/* Round and round. */
	assert_int_equal(unlinkat(folder->fd, LIBRARIES "liba.so.1", 0), 0);
	assert_int_equal(symlinkat("liba.so.1", folder->fd, LIBRARIES "liba.so.1"), 0);
	assert_refused(
		folder, "program-library", "liba.so.1, which prog needs, is not in the image");
}

static void set_machine(const struct folder *folder, const char *path, unsigned short machine)
{
	_cleanup_close_ int fd = openat(folder->fd, path, O_WRONLY | O_CLOEXEC);

	assert_int_equal(pwrite(fd, &machine, sizeof(machine), offsetof(Elf64_Ehdr, e_machine)),
		sizeof(machine));
}

static void files_of_another_machine_do_not_count(void **state)
{
	const struct folder *folder = *state;

	make_root(folder);
	set_machine(folder, LIBRARIES "liba.so.1.2", EM_AARCH64);
	assert_refused(
		folder, "program-library", "liba.so.1, which prog needs, is not in the image");
	set_machine(folder, "root/usr/bin/prog", EM_AARCH64);
	assert_refused(folder, "program-machine", "prog is for aarch64, the image for x86_64");
}

/* It goes to other containers, which have what it needs. */
static void a_library_that_no_program_loads_is_a_note(void **state)
{
	const struct folder *folder = *state;
	_cleanup_(programs_free) struct programs programs = { 0 };

	make_root(folder);
	compile(folder, "-shared -Wl,-soname,libX.so.1 -o x.so program.c");
	compile(folder,
		"-shared -Wl,-soname,libGLX.so.0 -o " LIBRARIES "libGLX.so.0 program.c x.so");
	programs = judge(folder);
	assert_true(programs_start(&programs));
	assert_int_equal(programs.finding_count, 1);
	assert_string_equal(programs.findings[0].weight, "note");
	assert_string_equal(programs.findings[0].text,
		"libX.so.1, which libGLX.so.0 needs, is not in the image");
}

/* Nothing starts it in a driver container. */
static void a_program_of_a_desktop_is_a_note_too(void **state)
{
	const struct folder *folder = *state;
	_cleanup_(programs_free) struct programs programs = { 0 };

	make_root(folder);
	assert_int_equal(unlinkat(folder->fd, LIBRARIES "liba.so.1", 0), 0);
	assert_int_equal(renameat(folder->fd, "root/usr/bin/prog", folder->fd,
				 "root/usr/bin/nvidia-settings"),
		0);
	programs = judge(folder);
	assert_true(programs_start(&programs));
	assert_int_equal(programs.count, 0);
	assert_string_equal(programs.findings[0].weight, "note");
}

static void what_programs_are_known_to_open_counts(void **state)
{
	const struct folder *folder = *state;
	_cleanup_(programs_free) struct programs programs = { 0 };

	make_root(folder);
	assert_int_equal(
		renameat(folder->fd, "root/usr/bin/prog", folder->fd, "root/usr/bin/nvidia-smi"),
		0);
	assert_refused(folder, "program-library",
		"libnvidia-ml.so.1, which nvidia-smi opens, is not in the image");
	compile(folder, "-shared -Wl,-soname,libnvidia-ml.so.1 -o " LIBRARIES
			"libnvidia-ml.so.1 program.c");
	assert_starts(folder, 1);
	/* JIT is of a few callers. */
	assert_int_equal(renameat(folder->fd, "root/usr/bin/nvidia-smi", folder->fd,
				 "root/usr/bin/nvidia-cuda-mps-server"),
		0);
	compile(folder, "-shared -Wl,-soname,libcuda.so.1 -o " LIBRARIES "libcuda.so.1 program.c");
	programs = judge(folder);
	assert_true(programs_start(&programs));
	assert_int_equal(programs.finding_count, 2);
	assert_string_equal(programs.findings[0].library, "libnvidia-nvvm.so.4");
}

/* ---- damage */

static int read_bytes(const char *bytes, size_t size, struct elf_program *ret)
{
	_cleanup_close_ int fd = memfd_create("program", MFD_CLOEXEC);
	struct error error = { 0 };
	int r;

	assert_int_equal(write(fd, bytes, size), size);
	r = elf_program_read(fd, ret, &error);
	assert_true(r == 0 || r == -ENOEXEC || (r == -EBADMSG && *error.text));
	return r;
}

static void damaged_files_are_reported_and_do_no_harm(void **state)
{
	static const unsigned char values[] = { 0, 1, 0x7f, 0x80, 0xff };
	const struct folder *folder = *state;
	_cleanup_free_ char *bytes = NULL;
	size_t size = 0;

	make_root(folder);
	assert_int_equal(fs_read(folder->fd, LIBRARIES "liba.so.1.2", 0, &bytes, &size), 0);
	for (size_t length = 0; length < size; length += 61) {
		struct elf_program program = { 0 };

		if (read_bytes(bytes, length, &program) == 0)
			elf_program_free(&program);
	}
	/* All that the loader reads is in the first pages, and where the dynamic section is. */
	for (size_t i = 0; i < size; i += 3) {
		char before = bytes[i];

		for (size_t k = 0; k < ARRAY_SIZE(values); k++) {
			struct elf_program program = { 0 };

			bytes[i] = (char) values[k];
			if (read_bytes(bytes, size, &program) == 0)
				elf_program_free(&program);
		}
		bytes[i] = before;
	}
	folder_write(folder, LIBRARIES "liba.so.1.2", bytes, 700);
	assert_refused(folder, "program-damaged",
		"liba.so.1, which prog needs, is cut short or damaged: its dynamic section is not "
		"in the file");
	folder_write(folder, "root/usr/bin/prog", bytes, 700);
	assert_refused(folder, "program-damaged",
		"prog is cut short or damaged: its dynamic section is not in the file");
}

/* ---- layers */

static void add(struct image_files *files, const char *path, unsigned int type, const char *link)
{
	struct error error = { 0 };

	assert_int_equal(image_files_add(files, path, type, link, -1, &error), 0);
}

static void assert_at(const struct image_files *files, const char *path, const char *where)
{
	const struct image_file *file = image_files_find(files, path);

	if (!where)
		assert_null(file);
	else if (!file)
		fail_msg("%s is not there", path);
	else
		assert_string_equal(file->path, where);
}

static void layers_hide_what_is_below(void **state)
{
	_cleanup_(image_files_free) struct image_files files = { 0 };

	(void) state;
	add(&files, "lib", S_IFLNK, "usr/lib");
	add(&files, "usr/lib/gone.so", S_IFREG, NULL);
	add(&files, "usr/lib/old", S_IFDIR, NULL);
	add(&files, "usr/lib/old/a.so", S_IFREG, NULL);
	add(&files, "usr/lib/stays.so", S_IFREG, NULL);
	add(&files, "usr/lib/link.so", S_IFLNK, "/lib/../lib/stays.so");
	add(&files, "usr/lib/opaque/a.so", S_IFREG, NULL);
	add(&files, "opt", S_IFLNK, "usr/lib");
	image_files_next_layer(&files);
	image_files_remove(&files, "usr/lib/gone.so");
	image_files_remove(&files, "usr/lib/opaque");
	add(&files, "usr/lib/opaque/b.so", S_IFREG, NULL);
	add(&files, "usr/lib/old", S_IFREG, NULL);
	add(&files, "opt", S_IFDIR, NULL);
	image_files_settle(&files);
	assert_at(&files, "/lib/gone.so", NULL);
	assert_at(&files, "/lib/stays.so", "usr/lib/stays.so");
	assert_at(&files, "lib/link.so", "usr/lib/stays.so");
	assert_at(&files, "/usr/lib/old/a.so", NULL);
	assert_at(&files, "/usr/lib/old", "usr/lib/old");
	assert_at(&files, "/usr/lib/opaque/a.so", NULL);
	assert_at(&files, "/lib/opaque/b.so", "usr/lib/opaque/b.so");
	assert_at(&files, "/opt/stays.so", NULL);
	assert_at(&files, "/../../lib//./stays.so", "usr/lib/stays.so");
}

static void a_layer_is_the_same_as_text(void **state)
{
	const struct folder *folder = *state;
	_cleanup_(image_files_free) struct image_files files = { 0 };
	_cleanup_(image_files_free) struct image_files read = { 0 };
	_cleanup_(programs_free) struct programs programs = { 0 };
	_cleanup_free_ char *text = NULL;
	struct error error = { 0 };

	make_root(folder);
	gather(folder, &files);
	text = image_files_text(&files);
	assert_int_equal(image_files_parse(&read, text, strlen(text), &error), 0);
	assert_int_equal(read.count, files.count);
	image_files_settle(&read);
	programs_judge(&read, "gpu", arch_find("x86_64"), false, &programs);
	assert_int_equal(programs.count, 1);
	assert_true(programs_start(&programs));
	assert_int_equal(image_files_parse(&read, "[{}]", 4, &error), -EBADMSG);
}

static void only_what_programs_need_is_looked_at(void **state)
{
	(void) state;
	assert_true(image_files_want("usr/bin/nvidia-smi"));
	assert_true(image_files_want("opt/nvidia/nvlsm/sbin/nvlsm"));
	assert_true(image_files_want("etc/ld.so.conf.d/x.conf"));
	assert_true(image_files_want("lib"));
	assert_false(image_files_want("usr/lib/slipway/kit/root/usr/bin/gcc"));
	assert_false(image_files_want("lib/modules/6.1.0/kernel/a.ko"));
	assert_false(image_files_want("usr/lib/firmware/nvidia/1/gsp.bin"));
	assert_false(image_files_want("etc/passwd"));
	assert_false(image_files_want("var/lib/x"));
}

/* ---- the names of a driver's libraries, by the same reader */

static void libraries_get_links_with_their_sonames(void **state)
{
	const struct folder *folder = *state;
	_cleanup_free_ char *path = NULL;
	char target[64] = "";
	struct error error = { 0 };

	folder_subfolder(folder, "driver");
	assert_true(asprintf(&path, "%s/driver", folder->path) > 0);
	compile(folder, "-shared -Wl,-soname,libcuda.so.1 -o driver/libcuda.so.4.0 program.c");
	assert_int_equal(userspace_link_libraries(path, &error), -EINVAL);
	assert_contains(error.text, "SONAME libnvidia-ml.so.1");
	compile(folder, "-shared -Wl,-soname,libnvidia-ml.so.1 -o driver/libnvidia-ml.so.4.0 "
			"program.c");
	compile(folder, "-shared -Wl,-soname,../x -o driver/libnvidia-x.so.4.0 program.c");
	folder_write_text(folder, "driver/libno.so.4.0", "no library");
	if (userspace_link_libraries(path, &error) < 0)
		fail_msg("%s", error.text);
	assert_true(readlinkat(folder->fd, "driver/libcuda.so.1", target, sizeof(target) - 1) > 0);
	assert_string_equal(target, "libcuda.so.4.0");
	assert_false(fs_exists(folder->fd, "x"));
	/* Again: nothing is new. */
	assert_int_equal(userspace_link_libraries(path, &error), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(all_that_a_program_needs_is_there),
		folder_test(a_library_that_is_taken_away_is_missing),
		folder_test(a_version_that_is_too_new_is_missing),
		folder_test(what_libraries_need_counts_with_them),
		folder_test(the_loader_has_to_be_there),
		folder_test(folders_of_a_program_are_searched),
		folder_test(the_rpath_of_a_program_counts_for_its_libraries),
		folder_test(folders_of_ld_so_conf_count_with_a_cache),
		folder_test(links_do_not_lead_out_of_the_image),
		folder_test(files_of_another_machine_do_not_count),
		folder_test(a_library_that_no_program_loads_is_a_note),
		folder_test(a_program_of_a_desktop_is_a_note_too),
		folder_test(what_programs_are_known_to_open_counts),
		folder_test(damaged_files_are_reported_and_do_no_harm),
		cmocka_unit_test(layers_hide_what_is_below),
		folder_test(a_layer_is_the_same_as_text),
		cmocka_unit_test(only_what_programs_need_is_looked_at),
		folder_test(libraries_get_links_with_their_sonames),
	};

	return cmocka_run_group_tests_name("programs", tests, NULL, NULL);
}
