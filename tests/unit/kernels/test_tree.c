/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/support.h"

#include "common/path.h"
#include "kernels/tree/tree.h"

#define KREL  "6.1.0-56-amd64"
#define BUILD "lib/modules/" KREL "/build"

static void release_header(const struct folder *folder, const char *tree, const char *krel)
{
	_cleanup_free_ char *path = NULL;
	_cleanup_free_ char *define = NULL;

	assert_true(asprintf(&path, "%s/include/generated/utsrelease.h", tree) > 0);
	assert_true(asprintf(&define, "#define UTS_RELEASE \"%s\"\n", krel) > 0);
	folder_write_text(folder, path, define);
}

static void link_at(const struct folder *folder, const char *target, const char *path)
{
	_cleanup_free_ char *parent = strndup(path, (size_t) (strrchr(path, '/') - path));

	folder_subfolder(folder, parent);
	assert_int_equal(symlinkat(target, folder->fd, path), 0);
}

/* Twice: a second time must change nothing. Then "build" must hold the release's header. */
static void relocate(const struct folder *folder, const char *krel)
{
	struct error error = { 0 };

	for (int i = 0; i < 2; i++) {
		_cleanup_close_ int fd = -1;
		_cleanup_free_ char *release = NULL;

		assert_int_equal(kernel_tree_relocate(folder->fd, krel, &error), 0);
		assert_int_equal(kernel_tree_open(folder->fd, krel, &fd, &error), 0);
		release = kernel_tree_release(fd);
		assert_string_equal(release, krel);
	}
}

static void expect_link(const struct folder *folder, const char *path, const char *wanted)
{
	char target[256] = "";

	assert_true(readlinkat(folder->fd, path, target, sizeof(target) - 1) > 0);
	assert_string_equal(target, wanted);
}

static void expect_text(const struct folder *folder, const char *path, const char *wanted)
{
	_cleanup_free_ char *text = folder_read_text(folder, path);

	assert_string_equal(text, wanted);
}

#define HERE "$(dir $(lastword $(MAKEFILE_LIST)))"

static void debians_absolute_paths_become_relative(void **state)
{
	static const char flavour[] = "usr/src/linux-headers-7.3.4+deb13-amd64";
	static const char krel[] = "7.3.4+deb13-amd64";
	const struct folder *folder = *state;

	release_header(folder, flavour, krel);
	folder_write_text(folder, "usr/src/linux-headers-7.3.4+deb13-common/Makefile", "all:\n");
	folder_write_text(folder, "usr/src/linux-headers-7.3.4+deb13-amd64/Makefile",
		"KBUILD_OUTPUT=/usr/src/linux-headers-7.3.4+deb13-amd64\n"
		"include /usr/src/linux-headers-7.3.4+deb13-common/Makefile\n");
	/* A merged /usr: there is no lib/modules in these packages. */
	link_at(folder, "../../../src/linux-headers-7.3.4+deb13-amd64",
		"usr/lib/modules/7.3.4+deb13-amd64/build");
	link_at(folder, "/usr/src/linux-headers-7.3.4+deb13-common",
		"usr/lib/modules/7.3.4+deb13-amd64/source");
	relocate(folder, krel);
	expect_link(folder, "lib", "usr/lib");
	expect_link(folder, "lib/modules/7.3.4+deb13-amd64/source",
		"../../../src/linux-headers-7.3.4+deb13-common");
	expect_text(folder, "usr/src/linux-headers-7.3.4+deb13-amd64/Makefile",
		"KBUILD_OUTPUT := $(realpath " HERE ")\n"
		"include " HERE "../linux-headers-7.3.4+deb13-common/Makefile\n");
}

static void a_merged_usr_beside_a_lib_folder_is_found(void **state)
{
	const struct folder *folder = *state;

	release_header(folder, "usr/lib/modules/6.1.0/build", "6.1.0");
	folder_write_text(folder, "usr/lib/modules/6.1.0/build/Makefile", "all:\n");
	folder_subfolder(folder, "lib/firmware");
	relocate(folder, "6.1.0");
	expect_link(folder, "lib/modules/6.1.0", "../../usr/lib/modules/6.1.0");
}

static void ubuntus_headers_are_found_without_a_link(void **state)
{
	static const char krel[] = "5.15.0-91-generic";
	const struct folder *folder = *state;

	release_header(folder, "usr/src/linux-headers-5.15.0-91-generic", krel);
	release_header(folder, "usr/src/linux-headers-5.15.0-92-generic", "5.15.0-92-generic");
	folder_write_text(folder, "usr/src/linux-headers-5.15.0-91/Makefile", "all:\n");
	link_at(folder, "../linux-headers-5.15.0-91/Makefile",
		"usr/src/linux-headers-5.15.0-91-generic/Makefile");
	relocate(folder, krel);
	expect_link(folder, "lib/modules/5.15.0-91-generic/build",
		"../../../usr/src/linux-headers-5.15.0-91-generic");
}

static void enterprise_linux_has_its_tree_below_kernels(void **state)
{
	static const char krel[] = "5.14.0-427.13.1.el9_4.x86_64+rt";
	const struct folder *folder = *state;

	release_header(folder, "usr/src/kernels/5.14.0-427.13.1.el9_4.x86_64+rt", krel);
	folder_write_text(
		folder, "usr/src/kernels/5.14.0-427.13.1.el9_4.x86_64+rt/Makefile", "all:\n");
	/* kernel-core's links, as a package without kernel-devel leaves them. */
	link_at(folder, "/usr/src/kernels/elsewhere",
		"lib/modules/5.14.0-427.13.1.el9_4.x86_64+rt/build");
	link_at(folder, "/nowhere", "lib/modules/5.14.0-427.13.1.el9_4.x86_64+rt/source");
	relocate(folder, krel);
	expect_link(folder, "lib/modules/5.14.0-427.13.1.el9_4.x86_64+rt/build",
		"../../../usr/src/kernels/5.14.0-427.13.1.el9_4.x86_64+rt");
	assert_true(faccessat(folder->fd, "lib/modules/5.14.0-427.13.1.el9_4.x86_64+rt/source",
			    F_OK, AT_SYMLINK_NOFOLLOW) < 0);
}

static void suses_build_folder_keeps_its_way_to_the_sources(void **state)
{
	static const char krel[] = "6.4.0-150600.23.7-default";
	static const char makefile[] =
		"usr/src/linux-6.4.0-150600.23.7-obj/x86_64/default/Makefile";
	const struct folder *folder = *state;

	release_header(folder, "usr/src/linux-6.4.0-150600.23.7-obj/x86_64/default", krel);
	folder_write_text(folder, "usr/src/linux-6.4.0-150600.23.7/Makefile", "all:\n");
	folder_write_text(folder, makefile,
		"# Automatically generated by a program: don't edit\n"
		"export KBUILD_OUTPUT = /usr/src/linux-6.4.0-150600.23.7-obj/x86_64/default\n"
		"include /usr/src/linux-6.4.0-150600.23.7/Makefile\n");
	relocate(folder, krel);
	expect_text(folder, makefile,
		"# Automatically generated by a program: don't edit\n"
		"export KBUILD_OUTPUT := $(realpath " HERE ")\n"
		"include " HERE "../../../linux-6.4.0-150600.23.7/Makefile\n");
}

static void an_older_kernels_makeargs_become_relative(void **state)
{
	const struct folder *folder = *state;

	release_header(folder, "usr/src/linux-obj/x86_64/default", "4.12.14-122-default");
	folder_write_text(folder, "usr/src/linux/Makefile", "all:\n");
	folder_write_text(folder, "usr/src/linux-obj/x86_64/default/Makefile",
		"VERSION = 4\nMAKEARGS := -C /usr/src/linux\nMAKEARGS += O=.\n");
	relocate(folder, "4.12.14-122-default");
	expect_text(folder, "usr/src/linux-obj/x86_64/default/Makefile",
		"VERSION = 4\nMAKEARGS := -C " HERE "../../../linux\nMAKEARGS += O=.\n");
}

/* A user's own make O=: the sources lie beside, packed at another place than they were. */
static void a_build_folder_finds_its_sources_by_the_source_link(void **state)
{
	const struct folder *folder = *state;

	release_header(folder, BUILD, KREL);
	folder_write_text(folder, "usr/src/mine/Makefile", "all:\n");
	link_at(folder, "/usr/src/mine", "lib/modules/" KREL "/source");
	folder_write_text(folder, BUILD "/Makefile",
		"export KBUILD_OUTPUT = .\ninclude /home/me/linux/Makefile\n");
	relocate(folder, KREL);
	expect_text(folder, BUILD "/Makefile",
		"export KBUILD_OUTPUT = .\ninclude " HERE "../../../../usr/src/mine/Makefile\n");
}

static void expect_no_relocation(const struct folder *folder, int code, const char *why)
{
	struct error error = { 0 };

	assert_int_equal(kernel_tree_relocate(folder->fd, KREL, &error), code);
	assert_contains(error.text, why);
}

static void what_cannot_be_relocated_is_named(void **state)
{
	const struct folder *folder = *state;

	release_header(folder, "usr/src/other", "6.1.0-47-amd64");
	expect_no_relocation(folder, -ENOENT, "is a tree of kernel");
	release_header(folder, BUILD, KREL);
	folder_write_text(folder, BUILD "/Makefile", "include /usr/src/gone/Makefile\n");
	expect_no_relocation(folder, -EINVAL, "/usr/src/gone/Makefile");
}

/* A link of the tree never opens what lies beside it on this machine. */
static void links_stay_below_the_root(void **state)
{
	const struct folder *folder = *state;
	struct error error = { 0 };
	int fd = -1;

	folder_subfolder(folder, "lib/modules/" KREL);
	assert_int_equal(symlinkat("/etc", folder->fd, BUILD), 0);
	assert_true(kernel_tree_open(folder->fd, KREL, &fd, &error) < 0);
	assert_int_equal(open_in_root(folder->fd, BUILD "/passwd", O_RDONLY), -ENOENT);
	assert_int_equal(open_in_root(folder->fd, "../../../etc/passwd", O_RDONLY), -ENOENT);
}

static void expect_tools(const struct folder *folder, const char *wanted)
{
	assert_string_equal(kernel_tree_tools_arch(folder->fd, KREL), wanted);
}

static void host_tools_have_an_architecture(void **state)
{
	const struct folder *folder = *state;
	unsigned char header[64] = { 0x7f, 'E', 'L', 'F', 2, 1, 1 };

	folder_subfolder(folder, BUILD);
	expect_tools(folder, "");
	folder_write_text(folder, BUILD "/scripts/basic/fixdep", "#!/bin/sh\n");
	expect_tools(folder, "");
	header[18] = 183;
	folder_write(folder, BUILD "/scripts/mod/modpost", header, sizeof(header));
	expect_tools(folder, "aarch64");
	header[18] = 62;
	folder_write(folder, BUILD "/scripts/basic/fixdep", header, sizeof(header));
	expect_tools(folder, "x86_64");
	header[18] = 99;
	folder_write(folder, BUILD "/scripts/basic/fixdep", header, sizeof(header));
	expect_tools(folder, "an unknown machine");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(debians_absolute_paths_become_relative),
		folder_test(a_merged_usr_beside_a_lib_folder_is_found),
		folder_test(ubuntus_headers_are_found_without_a_link),
		folder_test(enterprise_linux_has_its_tree_below_kernels),
		folder_test(suses_build_folder_keeps_its_way_to_the_sources),
		folder_test(an_older_kernels_makeargs_become_relative),
		folder_test(a_build_folder_finds_its_sources_by_the_source_link),
		folder_test(what_cannot_be_relocated_is_named),
		folder_test(links_stay_below_the_root),
		folder_test(host_tools_have_an_architecture),
	};

	return cmocka_run_group_tests_name("tree", tests, NULL, NULL);
}
