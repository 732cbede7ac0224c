/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/support.h"

#include "kernels/tree.h"

#define KREL  "6.1.0-56-amd64"
#define BUILD "lib/modules/" KREL "/build"

static void make_tree(const struct folder *folder, const char *release, const char *config)
{
	_cleanup_free_ char *define = NULL;

	assert_true(asprintf(&define, "#define UTS_RELEASE \"%s\"\n", release) > 0);
	folder_write_text(folder, BUILD "/include/generated/utsrelease.h", define);
	folder_write_text(folder, BUILD "/Module.symvers", "");
	folder_write_text(folder, BUILD "/.config", config);
}

static void the_compiler_is_named_by_the_config(void **state)
{
	const struct folder *folder = *state;
	_cleanup_(kernel_tree_free) struct kernel_tree tree = { 0 };
	struct error error = { 0 };

	make_tree(folder, KREL,
		"CONFIG_CC_VERSION_TEXT=\"gcc-12 (Debian 12.2.0-14+deb12u1) 12.2.0\"\n"
		"CONFIG_CC_IS_GCC=y\nCONFIG_GCC_VERSION=120200\nCONFIG_CLANG_VERSION=0\n"
		"# CONFIG_MODVERSIONS_X is not set\nCONFIG_MODVERSIONS=y\n");
	assert_int_equal(kernel_tree_read(folder->fd, KREL, &tree, &error), 0);
	assert_string_equal(tree.compiler, "gcc-12");
	assert_string_equal(tree.compiler_text, "gcc-12 (Debian 12.2.0-14+deb12u1) 12.2.0");
	assert_true(tree.modversions);
	assert_false(tree.module_unload);
}

static void a_kernel_of_clang_wants_clang(void **state)
{
	const struct folder *folder = *state;
	_cleanup_(kernel_tree_free) struct kernel_tree tree = { 0 };
	struct error error = { 0 };

	make_tree(folder, KREL,
		"CONFIG_CC_IS_CLANG=y\nCONFIG_GCC_VERSION=0\nCONFIG_CLANG_VERSION=160006\n");
	assert_int_equal(kernel_tree_read(folder->fd, KREL, &tree, &error), 0);
	assert_string_equal(tree.compiler, "clang-16");
}

static void expect_refusal(const struct folder *folder, const char *why)
{
	struct kernel_tree tree = { 0 };
	struct error error = { 0 };

	assert_true(kernel_tree_read(folder->fd, KREL, &tree, &error) < 0);
	assert_contains(error.text, why);
	assert_null(tree.krel);
}

static void what_is_no_tree_of_this_kernel_is_refused(void **state)
{
	const struct folder *folder = *state;

	expect_refusal(folder, BUILD);
	folder_subfolder(folder, BUILD);
	expect_refusal(folder, "not prepared");
	make_tree(folder, "6.1.0-47-amd64", "");
	expect_refusal(folder, "it is of kernel 6.1.0-47-amd64");
	make_tree(folder, KREL, "CONFIG_X=y\n");
	expect_refusal(folder, "no CONFIG_GCC_VERSION");
}

static void debians_absolute_include_becomes_relative(void **state)
{
	const struct folder *folder = *state;
	_cleanup_free_ char *text = NULL;
	struct error error = { 0 };

	folder_write_text(folder, BUILD "/Makefile",
		"include /usr/src/linux-headers-6.1.0-56-common/Makefile\n");
	assert_int_equal(kernel_tree_relocate(folder->fd, KREL, &error), 0);
	text = folder_read_text(folder, BUILD "/Makefile");
	assert_string_equal(text, "include $(dir $(lastword $(MAKEFILE_LIST)))../"
				  "linux-headers-6.1.0-56-common/Makefile\n");
	/* A second time changes nothing more. */
	assert_int_equal(kernel_tree_relocate(folder->fd, KREL, &error), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(the_compiler_is_named_by_the_config),
		folder_test(a_kernel_of_clang_wants_clang),
		folder_test(what_is_no_tree_of_this_kernel_is_refused),
		folder_test(debians_absolute_include_becomes_relative),
	};

	return cmocka_run_group_tests_name("tree", tests, NULL, NULL);
}
