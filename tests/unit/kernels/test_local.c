/* SPDX-License-Identifier: Apache-2.0 */
/* Folders that --kernel-from may name; archives are in tests/cli/custom.bats. */
#include "tests/unit/support.h"

#include <limits.h>
#include <stdlib.h>

#include "common/fs.h"
#include "kernels/local/local.h"
#include "kernels/local/local_image.h"
#include "kernels/local/scan.h"

#define KREL "6.6.9-own"

static void make_prepared(const struct folder *folder, const char *tree, const char *krel)
{
	_cleanup_free_ char *path = NULL;
	_cleanup_free_ char *text = NULL;
	static const char *const files[] = { "Module.symvers", ".config", "scripts/mod/modpost",
		"scripts/Kbuild.include", "include/config/auto.conf",
		"arch/x86/include/generated/asm/x.h" };

	assert_true(asprintf(&path, "%s/include/generated/utsrelease.h", tree) > 0);
	assert_true(asprintf(&text, "#define UTS_RELEASE \"%s\"\n", krel) > 0);
	folder_write_text(folder, path, text);
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		_cleanup_free_ char *file = NULL;

		assert_true(asprintf(&file, "%s/%s", tree, files[i]) > 0);
		folder_write_text(folder, file, "generated\n");
	}
}

static void make_files(const struct folder *folder, const char *tree, const char *const *files)
{
	for (; *files; files++) {
		_cleanup_free_ char *file = NULL;

		assert_true(asprintf(&file, "%s/%s", tree, *files) > 0);
		folder_write_text(folder, file, "source\n");
	}
}

static void make_source(const struct folder *folder, const char *tree)
{
	static const char *const files[] = { "Makefile", "Kbuild", "init/main.c",
		"include/linux/module.h", "arch/x86/Makefile", "arch/x86/include/asm/a.h",
		"arch/x86/kernel/cpu.c", "arch/arm64/Makefile", "scripts/Kbuild.include",
		"certs/signing_key.pem", "drivers/big/big.c", NULL };

	make_files(folder, tree, files);
}

static int try_open(const struct folder *folder, const char *path, const char *krel,
	struct local_kernel *kernel, struct error *error)
{
	_cleanup_strv_ struct strv paths = { 0 };

	assert_int_equal(strv_pushf(&paths, "%s/%s", folder->path, path), 0);
	return local_open(&paths, krel, kernel, error);
}

static void open_local(const struct folder *folder, const char *path, struct local_kernel *kernel)
{
	struct error error = { 0 };

	if (try_open(folder, path, NULL, kernel, &error) < 0)
		fail_msg("%s", error.text);
	assert_string_equal(kernel->krel, KREL);
}

static void make_output(
	const struct folder *folder, const struct local_kernel *kernel, bool modules)
{
	_cleanup_free_ char *scratch = NULL;
	_cleanup_free_ char *out = NULL;
	struct error error = { 0 };
	int r;

	folder_subfolder(folder, "scratch");
	folder_subfolder(folder, "out");
	assert_true(asprintf(&scratch, "%s/scratch", folder->path) > 0);
	assert_true(asprintf(&out, "%s/out", folder->path) > 0);
	r = local_make(kernel, modules, scratch, out, &error);
	if (r < 0)
		fail_msg("%s", error.text);
}

static void expect_there(
	const struct folder *folder, const char *tree, const char *file, bool there)
{
	_cleanup_free_ char *path = NULL;

	assert_true(asprintf(&path, "out/%s/%s", tree, file) > 0);
	if ((faccessat(folder->fd, path, F_OK, 0) == 0) != there)
		fail_msg("%s is %s", path, there ? "not there" : "there");
}

#define BUILD "lib/modules/" KREL "/build"

/* Files that only a build folder has stay out, and both halves of an O= build come together. */
static void expect_build_folder(const struct folder *folder)
{
	static const char *const there[] = { "Makefile", "include/linux/module.h",
		"include/generated/utsrelease.h", "arch/x86/Makefile", "arch/x86/include/asm/a.h",
		"arch/x86/include/generated/asm/x.h", "scripts/mod/modpost", "Module.symvers",
		".config" };
	static const char *const absent[] = { "init/main.c", "drivers", "certs",
		"arch/arm64/Makefile", "arch/x86/kernel/cpu.c", "source" };

	for (size_t i = 0; i < ARRAY_SIZE(there); i++)
		expect_there(folder, BUILD, there[i], true);
	for (size_t i = 0; i < ARRAY_SIZE(absent); i++)
		expect_there(folder, BUILD, absent[i], false);
}

/* User Mode Linux is an architecture that takes its headers from the processor's folders. */
static void a_build_folder_of_user_mode_linux_has_the_headers_of_both(void **state)
{
	static const char *const files[] = { "arch/um/Makefile", "arch/um/include/asm/a.h",
		"arch/um/include/generated/asm/x.h", "arch/um/kernel/cpu.c", "arch/x86/Makefile.um",
		"arch/x86/um/asm/elf.h", "arch/x86/um/shared/sysdep/ptrace.h",
		"arch/x86/um/ptrace.c", "arch/x86/kernel/cpu.h", NULL };
	const struct folder *folder = *state;
	_cleanup_(local_free) struct local_kernel kernel = { 0 };

	make_source(folder, "linux");
	make_prepared(folder, "linux", KREL);
	make_files(folder, "linux", files);
	open_local(folder, "linux", &kernel);
	make_output(folder, &kernel, false);
	expect_build_folder(folder);
	for (size_t i = 0; files[i]; i++)
		expect_there(folder, BUILD, files[i],
			!strstr(files[i], ".c") && !strstr(files[i], "cpu.h"));
}

static void a_build_folder_is_filtered(void **state)
{
	const struct folder *folder = *state;
	_cleanup_(local_free) struct local_kernel kernel = { 0 };

	make_source(folder, "linux");
	make_prepared(folder, "linux", KREL);
	folder_write_text(folder, "linux/scripts/mod/modpost.o", "");
	open_local(folder, "linux", &kernel);
	assert_true(kernel.has_headers);
	assert_false(kernel.has_modules);
	make_output(folder, &kernel, false);
	expect_build_folder(folder);
	expect_there(folder, BUILD, "scripts/mod/modpost.o", false);
}

static void source_and_output_of_o_come_together(void **state)
{
	const struct folder *folder = *state;
	_cleanup_(local_free) struct local_kernel kernel = { 0 };
	_cleanup_free_ char *text = NULL;
	_cleanup_free_ char *source = NULL;

	make_source(folder, "linux");
	make_prepared(folder, "out-of-tree", KREL);
	assert_true(asprintf(&source, "%s/linux", folder->path) > 0);
	assert_int_equal(symlinkat(source, folder->fd, "out-of-tree/source"), 0);
	folder_write_text(folder, "out-of-tree/Makefile", "include ../linux/Makefile\n");
	open_local(folder, "out-of-tree", &kernel);
	make_output(folder, &kernel, false);
	expect_build_folder(folder);
	text = folder_read_text(folder, "out/" BUILD "/Makefile");
	assert_string_equal(text, "source\n");
}

static void an_output_without_its_source_is_refused(void **state)
{
	const struct folder *folder = *state;
	struct local_kernel kernel;
	struct error error = { 0 };

	make_prepared(folder, "out-of-tree", KREL);
	assert_int_equal(symlinkat("/gone", folder->fd, "out-of-tree/source"), 0);
	assert_int_equal(try_open(folder, "out-of-tree", NULL, &kernel, &error), -EINVAL);
	assert_contains(error.text, "include/linux/module.h");
}

static void expect_modules(const struct folder *folder, const char *const *lines)
{
	_cleanup_free_ char *text = NULL;
	_cleanup_(local_free) struct local_kernel kernel = { 0 };

	folder_write_text(folder, "linux/modules.order", lines[0]);
	open_local(folder, "linux", &kernel);
	assert_true(kernel.has_modules);
	make_output(folder, &kernel, true);
	text = folder_read_text(folder, "out/lib/modules/" KREL "/modules.order");
	assert_string_equal(text, "kernel/drivers/a.ko\nkernel/kernel/b.ko\n");
	expect_there(folder, "lib/modules/" KREL, "kernel/drivers/a.ko", true);
	expect_there(folder, "lib/modules/" KREL, "kernel/kernel/b.ko", true);
	expect_there(folder, "lib/modules/" KREL, "modules.builtin", true);
	assert_int_equal(fs_remove_tree(folder->fd, "out"), 0);
}

/* modules.order has had three forms. */
static void the_modules_of_a_build_folder_are_the_kernels(void **state)
{
	const struct folder *folder = *state;
	static const char *const files[] = { "drivers/a.ko", "kernel/b.ko", "modules.builtin",
		NULL };
	static const char *const orders[] = { "kernel/drivers/a.ko\nkernel/kernel/b.ko\n",
		"drivers/a.ko\nkernel/b.ko\n", "drivers/a.o\nkernel/b.o\n" };

	make_source(folder, "linux");
	make_prepared(folder, "linux", KREL);
	make_files(folder, "linux", files);
	for (size_t i = 0; i < ARRAY_SIZE(orders); i++)
		expect_modules(folder, &orders[i]);
}

static void a_module_that_was_not_compiled_is_named(void **state)
{
	const struct folder *folder = *state;
	static const char *const files[] = { "modules.builtin", NULL };
	struct local_kernel kernel;
	struct error error = { 0 };

	make_source(folder, "linux");
	make_prepared(folder, "linux", KREL);
	make_files(folder, "linux", files);
	folder_write_text(folder, "linux/modules.order", "drivers/a.o\n");
	assert_int_equal(try_open(folder, "linux", NULL, &kernel, &error), -EINVAL);
	assert_contains(error.text, "modules.order names drivers/a.ko, which is missing");
}

/* A whole tree was copied to usr/src, with the key that its make left there. */
static void no_key_is_taken_along(void **state)
{
	static const char *const keys[] = { "certs/signing_key.pem", "certs/x509.genkey",
		"certs/own.der", "scripts/MOK.priv", "MOK.der.key", "include/db.p12",
		"include/db.PFX", "signing_key.x509", "module.pem", NULL };
	static const char *const links[] = { "linked", "scripts/also" };
	static const char *const files[] = { "include/linux/module.h", "include/linux/key.h",
		"Makefile", NULL };
	const struct folder *folder = *state;
	_cleanup_(local_free) struct local_kernel kernel = { 0 };

	make_prepared(folder, "headers", KREL);
	make_files(folder, "headers", files);
	make_files(folder, "headers", keys);
	assert_int_equal(symlinkat("certs/own.der", folder->fd, "headers/linked"), 0);
	assert_int_equal(symlinkat("../certs", folder->fd, "headers/scripts/also"), 0);
	open_local(folder, "headers", &kernel);
	make_output(folder, &kernel, false);
	for (size_t i = 0; keys[i]; i++)
		expect_there(folder, BUILD, keys[i], false);
	for (size_t i = 0; i < ARRAY_SIZE(links); i++)
		expect_there(folder, BUILD, links[i], false);
	expect_there(folder, BUILD, "certs", false);
	expect_there(folder, BUILD, "include/linux/key.h", true);
}

/* A line of modules.order must not name a file outside, whether read or written. */
static void no_line_of_modules_order_leads_out(void **state)
{
	static const char *const lines[] = { "fs/../../victim/h.o", "../victim/h.o", "/etc/h.o",
		"drivers/a.o\n..", "kernel/../../victim/h.ko" };
	const struct folder *folder = *state;
	static const char *const files[] = { "modules.builtin", "drivers/a.ko", "fs/b.ko", NULL };

	make_source(folder, "linux");
	make_prepared(folder, "linux", KREL);
	make_files(folder, "linux", files);
	folder_write_text(folder, "victim/h.ko", "secret");
	for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
		struct local_kernel kernel;
		struct error error = { 0 };

		folder_write_text(folder, "linux/modules.order", lines[i]);
		assert_int_equal(try_open(folder, "linux", NULL, &kernel, &error), -EXDEV);
		assert_contains(error.text, "leads out of the folder");
	}
}

static void no_place_leads_out_of_the_output(void **state)
{
	_cleanup_(local_files_free) struct local_files files = { 0 };

	(void) state;
	assert_int_equal(local_files_add(&files, "/f", "lib/../../f", NULL), -EXDEV);
	assert_int_equal(local_files_add(&files, "/f", "/f", NULL), -EXDEV);
	assert_int_equal(local_files_add(&files, "/f", "..", "link"), -EXDEV);
	assert_int_equal(files.count, 0);
	assert_int_equal(local_files_add(&files, "/f", "lib/..f/f", NULL), 0);
}

/* A folder of a foreign root may be a link to one of ours. */
static void foreign_modules_are_not_read_by_way_of_links(void **state)
{
	const struct folder *folder = *state;
	_cleanup_(local_files_free) struct local_files files = { 0 };
	_cleanup_free_ char *root = NULL;
	char krel[] = KREL, path[] = "tree";
	const struct local_place tree = { .path = path, .krel = krel };
	struct error error = { 0 };

	folder_write_text(folder, "victim/h.ko", "secret");
	folder_write_text(folder, "root/tree/modules.order", "fs/h.o\n");
	assert_int_equal(symlinkat("../../victim", folder->fd, "root/tree/fs"), 0);
	assert_true(asprintf(&root, "%s/root", folder->path) > 0);
	assert_int_equal(local_files_add_built(&files, root, &tree, true, &error), -EXDEV);
	assert_contains(error.text, "fs/h.ko, which leads out of");
	assert_int_equal(files.count, 0);
	assert_int_equal(local_files_add_built(&files, root, &tree, false, &error), 0);
}

/* A root as Debian's packages leave it, with absolute links. */
static void make_debian_root(const struct folder *folder, const char *root)
{
	static const char *const common[] = { "include/linux/module.h", "Makefile", NULL };
	_cleanup_free_ char *path = NULL;

	assert_true(asprintf(&path, "%s/usr/src/linux-headers-common", root) > 0);
	make_files(folder, path, common);
	free(TAKE_PTR(path));
	assert_true(asprintf(&path, "%s/usr/src/linux-headers-own", root) > 0);
	make_prepared(folder, path, KREL);
	free(TAKE_PTR(path));
	assert_true(asprintf(&path, "%s/usr/src/linux-headers-own/Makefile", root) > 0);
	folder_write_text(folder, path, "include /usr/src/linux-headers-common/Makefile\n");
	free(TAKE_PTR(path));
	assert_true(asprintf(&path, "%s/usr/lib/linux-kbuild/tools/t", root) > 0);
	folder_write_text(folder, path, "");
	free(TAKE_PTR(path));
	assert_true(asprintf(&path, "%s/usr/src/linux-headers-own/tools", root) > 0);
	assert_int_equal(symlinkat("../../lib/linux-kbuild/tools", folder->fd, path), 0);
}

static void a_root_is_taken_with_all_that_belongs_together(void **state)
{
	const struct folder *folder = *state;
	_cleanup_(local_free) struct local_kernel kernel = { 0 };

	make_debian_root(folder, "root");
	folder_write_text(folder, "root/etc/os-release", "ID=debian\nVERSION_ID=\"12\"\n");
	folder_write_text(folder, "root/usr/src/unrelated/file", "");
	folder_write_text(folder, "root/lib/modules/" KREL "/kernel/drivers/a.ko", "");
	folder_write_text(folder, "root/lib/modules/" KREL "/modules.builtin", "");
	assert_int_equal(symlinkat("/usr/src/linux-headers-own", folder->fd, "root/" BUILD), 0);
	open_local(folder, "root", &kernel);
	assert_true(kernel.has_headers && kernel.has_modules);
	assert_string_equal(kernel.os, "debian");
	assert_string_equal(kernel.os_version, "12");
	make_output(folder, &kernel, false);
	expect_there(folder, BUILD, "include/generated/utsrelease.h", true);
	expect_there(folder, BUILD, "tools/t", true);
	expect_there(folder, "lib/modules/" KREL "/source", "include/linux/module.h", true);
	expect_there(folder, "usr/src", "unrelated", false);
	expect_there(folder, "lib/modules/" KREL, "kernel", false);
	make_output(folder, &kernel, true);
	expect_there(folder, "lib/modules/" KREL, "kernel/drivers/a.ko", true);
}

/* Debian from 7.2 on has modules.builtin in a package of its own. */
static void modules_without_their_lists_are_there_for_who_asks(void **state)
{
	const struct folder *folder = *state;
	_cleanup_(local_free) struct local_kernel kernel = { 0 };

	make_debian_root(folder, "root");
	folder_write_text(folder, "root/lib/modules/" KREL "/kernel/drivers/a.ko", "");
	assert_int_equal(symlinkat("/usr/src/linux-headers-own", folder->fd, "root/" BUILD), 0);
	open_local(folder, "root", &kernel);
	assert_true(kernel.modules_unlisted && !kernel.has_modules);
	make_output(folder, &kernel, true);
	expect_there(folder, "lib/modules/" KREL, "kernel/drivers/a.ko", true);
}

static void a_headers_folder_finds_what_lies_beside_it(void **state)
{
	const struct folder *folder = *state;
	_cleanup_(local_free) struct local_kernel kernel = { 0 };

	make_debian_root(folder, "elsewhere");
	open_local(folder, "elsewhere/usr/src/linux-headers-own", &kernel);
	make_output(folder, &kernel, false);
	expect_there(folder, BUILD, "tools/t", true);
	expect_there(folder, BUILD, "../linux-headers-common/include/linux/module.h", true);
}

/* INSTALL_MOD_PATH: the link "build" leads out of it, to the build folder. */
static void modules_install_leads_to_the_build_folder(void **state)
{
	const struct folder *folder = *state;
	_cleanup_(local_free) struct local_kernel kernel = { 0 };
	_cleanup_free_ char *target = NULL;

	make_source(folder, "linux");
	make_prepared(folder, "linux", KREL);
	folder_write_text(folder, "root/lib/modules/" KREL "/modules.builtin", "");
	assert_true(asprintf(&target, "%s/linux", folder->path) > 0);
	assert_int_equal(symlinkat(target, folder->fd, "root/" BUILD), 0);
	open_local(folder, "root", &kernel);
	assert_true(kernel.has_headers && kernel.has_modules);
	make_output(folder, &kernel, false);
	expect_build_folder(folder);
}

static void of_several_kernels_one_has_to_be_named(void **state)
{
	const struct folder *folder = *state;
	struct local_kernel kernel = { 0 };
	struct error error = { 0 };
	static const char *const files[] = { "include/linux/module.h", NULL };

	make_prepared(folder, "src/a", KREL);
	make_prepared(folder, "src/b", "6.6.9-other");
	make_files(folder, "src/a", files);
	make_files(folder, "src/b", files);
	assert_int_equal(try_open(folder, "src", NULL, &kernel, &error), -ENOTUNIQ);
	assert_contains(error.text, "6.6.9-other, 6.6.9-own");
	assert_int_equal(try_open(folder, "src", "6.6.8", &kernel, &error), -ENODATA);
	assert_contains(error.text,
		"the given files belong to kernel 6.6.9-other, 6.6.9-own, not to 6.6.8");
	assert_int_equal(try_open(folder, "src", "6.6.9-other", &kernel, &error), 0);
	assert_string_equal(kernel.krel, "6.6.9-other");
	local_free(&kernel);
}

static void expect_refusal(const struct folder *folder, const char *path, const char *why)
{
	struct local_kernel kernel;
	struct error error = { 0 };

	assert_int_equal(try_open(folder, path, NULL, &kernel, &error), -EINVAL);
	assert_contains(error.text, why);
	/* verify has them by --kernel. */
	assert_null(strstr(error.text, "--kernel-from"));
}

static void what_is_no_kernel_is_refused_with_the_reason(void **state)
{
	const struct folder *folder = *state;

	expect_refusal(folder, "nothing", "No such file");
	folder_subfolder(folder, "empty");
	expect_refusal(folder, "empty", "no kernel files in this folder");
	folder_write_text(folder, "text", "this is no archive");
	expect_refusal(folder, "text", "not a known kind of archive");
	folder_write_text(folder, "x.deb", "<html>Sign in</html>");
	expect_refusal(folder, "x.deb", "x.deb: this is a web page");
	make_source(folder, "linux");
	expect_refusal(folder, "linux", "a kernel source that is not built");
	make_prepared(folder, "linux", KREL);
	assert_int_equal(unlinkat(folder->fd, "linux/Module.symvers", 0), 0);
	expect_refusal(folder, "linux", "have no Module.symvers");
}

static void the_key_is_of_what_is_copied_only(void **state)
{
	const struct folder *folder = *state;
	struct local_kernel kernel = { 0 };
	char first[HASH_HEX_SIZE];

	make_source(folder, "linux");
	make_prepared(folder, "linux", KREL);
	open_local(folder, "linux", &kernel);
	(void) snprintf(first, sizeof(first), "%s", kernel.inputs[0].sha256);
	local_free(&kernel);
	folder_write_text(folder, "linux/drivers/big/big.c", "changed");
	open_local(folder, "linux", &kernel);
	assert_string_equal(kernel.inputs[0].sha256, first);
	local_free(&kernel);
	folder_write_text(folder, "linux/include/linux/module.h", "changed");
	open_local(folder, "linux", &kernel);
	assert_string_not_equal(kernel.inputs[0].sha256, first);
	local_free(&kernel);
}

/* Links of several layers may lead out together: nothing is removed or written through one. */
static void a_layer_changes_nothing_through_links(void **state)
{
	static const char whiteouts[] = "x/up/victim\0gone";
	const struct folder *folder = *state;
	_cleanup_free_ char *layer = NULL;
	_cleanup_close_ int out_fd = -1;
	struct error error = { 0 };

	assert_true(asprintf(&layer, "%s/layer", folder->path) > 0);
	folder_write_text(folder, "victim", "stays");
	folder_write_text(folder, "out/gone", "goes");
	folder_subfolder(folder, "out/x");
	assert_int_equal(symlinkat("../..", folder->fd, "out/x/up"), 0);
	assert_int_equal(symlinkat("..", folder->fd, "out/dir"), 0);
	folder_write(folder, "layer/whiteouts", whiteouts, sizeof(whiteouts));
	folder_write_text(folder, "layer/root/dir/new", "below");
	out_fd = openat(folder->fd, "out", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(local_image_merge(layer, out_fd, &error), 0);
	assert_true(fs_exists(folder->fd, "victim"));
	assert_false(fs_exists(folder->fd, "out/gone"));
	assert_false(fs_exists(folder->fd, "new"));
	assert_true(fs_exists(folder->fd, "out/dir/new"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(a_layer_changes_nothing_through_links),
		folder_test(a_build_folder_is_filtered),
		folder_test(a_build_folder_of_user_mode_linux_has_the_headers_of_both),
		folder_test(source_and_output_of_o_come_together),
		folder_test(an_output_without_its_source_is_refused),
		folder_test(the_modules_of_a_build_folder_are_the_kernels),
		folder_test(a_module_that_was_not_compiled_is_named),
		folder_test(no_key_is_taken_along),
		folder_test(no_line_of_modules_order_leads_out),
		cmocka_unit_test(no_place_leads_out_of_the_output),
		folder_test(foreign_modules_are_not_read_by_way_of_links),
		folder_test(a_root_is_taken_with_all_that_belongs_together),
		folder_test(modules_without_their_lists_are_there_for_who_asks),
		folder_test(a_headers_folder_finds_what_lies_beside_it),
		folder_test(modules_install_leads_to_the_build_folder),
		folder_test(of_several_kernels_one_has_to_be_named),
		folder_test(what_is_no_kernel_is_refused_with_the_reason),
		folder_test(the_key_is_of_what_is_copied_only),
	};

	return cmocka_run_group_tests_name("local", tests, NULL, NULL);
}
