/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/support.h"

#include "common/error.h"
#include "common/fs.h"
#include "common/strv.h"
#include "entrypoint/nic/nic_internal.h"

static void assert_options(const struct folder *folder, const char *expected, struct strv *notes)
{
	_cleanup_(modprobe_options_free) struct modprobe_options options = { .modules = { 0 } };
	_cleanup_strv_ struct strv lines = { 0 };
	_cleanup_free_ char *joined = NULL;
	struct error error = { 0 };

	assert_int_equal(modprobe_options_read(folder->fd, &options, notes, &error), 0);
	for (size_t i = 0; i < options.words.count; i++)
		assert_int_equal(strv_pushf(&lines, "%s %s %s", options.files.items[i],
					 options.modules.items[i], options.words.items[i]),
			0);
	joined = strv_join(&lines, "\n");
	assert_string_equal(joined ? joined : "", expected);
}

static void test_options_of_all_folders(void **state)
{
	_cleanup_strv_ struct strv notes = { 0 };

	assert_options(*state, "", &notes);
	folder_write_text(*state, "etc/modprobe.d/ib_core.conf", "options ib_core netns_mode=0\n");
	folder_write_text(*state, "host/etc/modprobe.d/ib_core.conf", "options ib_core twice=1\n");
	folder_write_text(*state, "host/etc/modprobe.d/mlx.conf",
		"# options mlx5_core no=1\n  options\tmlx5-core prof_sel=2 \\\n debug_mask=0x1\n"
		"alias x y\noptions ib_ipoib\noptions ib_core name=\"two words\"");
	folder_write_text(*state, "host/etc/modprobe.d/mlx.conf.bak", "options mlx5_core bak=1\n");
	folder_write_text(
		*state, "host/usr/lib/modprobe.d/mlx.conf", "options mlx5_core masked=1\n");
	folder_write_text(*state, "host/usr/lib/modprobe.d/a.conf", "options mlx5_core first=1\n");
	assert_options(*state,
		"host/usr/lib/modprobe.d/a.conf mlx5_core first=1\n"
		"etc/modprobe.d/ib_core.conf ib_core netns_mode=0\n"
		"host/etc/modprobe.d/mlx.conf mlx5_core prof_sel=2\n"
		"host/etc/modprobe.d/mlx.conf mlx5_core debug_mask=0x1\n"
		"host/etc/modprobe.d/mlx.conf ib_core name=\"two words\"",
		&notes);
	assert_int_equal(notes.count, 0);
}

static void test_options_behind_links(void **state)
{
	_cleanup_strv_ struct strv notes = { 0 };
	const struct folder *folder = *state;

	folder_write_text(folder, "host/srv/real.conf", "options mlx5_core a=1\n");
	folder_write_text(folder, "host/usr/lib/modprobe.d/off.conf", "options mlx5_core off=1\n");
	folder_subfolder(folder, "host/etc/modprobe.d");
	folder_subfolder(folder, "host/etc/alternatives");
	folder_link(folder, "host/etc/modprobe.d/far.conf", "/etc/alternatives/far");
	folder_link(folder, "host/etc/alternatives/far", "/srv/real.conf");
	folder_link(folder, "host/etc/modprobe.d/lost.conf", "/srv/nowhere.conf");
	folder_link(folder, "host/etc/modprobe.d/off.conf", "/dev/null");
	folder_write_text(folder, "host/etc/modprobe.d/bad.conf", "options mlx5_core b=\"1\n");
	assert_options(folder, "host/etc/modprobe.d/far.conf mlx5_core a=1", &notes);
	assert_int_equal(notes.count, 1);
	assert_contains(notes.count ? notes.items[0] : "", "bad.conf");
}

/* ---- OFED's sources */

static void assert_leads(const struct folder *folder, const char *path, const char *target)
{
	char there[128] = "";

	assert_true(readlinkat(folder->fd, path, there, sizeof(there) - 1) > 0);
	assert_string_equal(there, target);
}

static void test_links_of_sources(void **state)
{
	const struct folder *folder = *state;
	struct error error = { 0 };

	assert_int_equal(sources_link(folder->fd, "usr/src", "x86_64", "6.1-a", &error), -ENOENT);
	assert_contains(error.text, "/usr/src/ofa_kernel/x86_64/6.1-a/Module.symvers");
	folder_write_text(folder, "usr/src/ofa_kernel/x86_64/6.1-a/Module.symvers", "");
	folder_write_text(folder, "usr/src/ofa_kernel/x86_64/6.1-b/Module.symvers", "");
	folder_link(folder, "usr/src/ofa_kernel/default", "/etc/alternatives/ofa_kernel");
	assert_int_equal(sources_link(folder->fd, "usr/src", "x86_64", "6.1-a", &error), 0);
	assert_leads(folder, "usr/src/ofa_kernel/default", "x86_64/6.1-a");
	assert_leads(folder, "usr/src/ofa_kernel/6.1-a", "x86_64/6.1-a");
	/* An image of several kernels; and a node that booted another one. */
	assert_int_equal(sources_link(folder->fd, "usr/src", "x86_64", "6.1-b", &error), 0);
	assert_leads(folder, "usr/src/ofa_kernel/default", "x86_64/6.1-b");
	assert_leads(folder, "usr/src/ofa_kernel/6.1-a", "x86_64/6.1-a");
	assert_leads(folder, "usr/src/ofa_kernel/6.1-b", "x86_64/6.1-b");
	/* The user's own folder stays. */
	folder_write_text(folder, "usr/src/ofa_kernel/x86_64/6.1-c/Module.symvers", "");
	folder_write_text(folder, "usr/src/ofa_kernel/6.1-c/Module.symvers", "theirs");
	assert_int_equal(sources_link(folder->fd, "usr/src", "x86_64", "6.1-c", &error), 0);
	assert_true(fs_exists(folder->fd, "usr/src/ofa_kernel/6.1-c/Module.symvers"));
	/* The machine's own folder, beside another machine's. */
	folder_write_text(folder, "usr/src/ofa_kernel/aarch64/6.1-a/Module.symvers", "");
	assert_int_equal(sources_link(folder->fd, "usr/src", "aarch64", "6.1-a", &error), 0);
	assert_leads(folder, "usr/src/ofa_kernel/default", "aarch64/6.1-a");
	assert_leads(folder, "usr/src/ofa_kernel/6.1-a", "aarch64/6.1-a");
	assert_int_equal(sources_link(folder->fd, "usr/src", "aarch64", "6.1-b", &error), -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(test_options_of_all_folders),
		folder_test(test_options_behind_links),
		folder_test(test_links_of_sources),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
