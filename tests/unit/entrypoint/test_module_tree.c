/* SPDX-License-Identifier: Apache-2.0 */
/* modules.dep and modprobe.d as a start reads them: without libkmod, and as libkmod does. */
#include "tests/unit/support.h"

#include "entrypoint/role/kmod_api.h"
#include "entrypoint/role/load.h"
#include "entrypoint/role/modprobe_d.h"
#include "entrypoint/role/module_tree.h"

#define _cleanup_tree_ _cleanup_(module_tree_close)
#define _cleanup_conf_ _cleanup_(modprobe_d_free)

static const char index_text[] = "kernel/a/drm.ko:\n"
				 "updates/nvidia-uvm.ko.xz: updates/nvidia.ko kernel/a/drm.ko\n"
				 "updates/nvidia.ko: kernel/a/drm.ko\n";

static void a_tree_says_what_comes_first(void **state)
{
	const struct folder *folder = *state;
	_cleanup_tree_ struct module_tree tree = { NULL };
	_cleanup_strv_ struct strv paths = { 0 };
	char path[PATH_MAX];
	char name[NAME_MAX];

	folder_write_text(folder, "tree/modules.dep", index_text);
	assert_int_equal(module_tree_open(folder->fd, "tree", &tree), 0);
	assert_true(module_tree_path(&tree, "nvidia_uvm", path));
	assert_string_equal(path, "updates/nvidia-uvm.ko.xz");
	assert_true(module_tree_path(&tree, "nvidia-uvm", path));
	assert_true(module_tree_path(&tree, "nvidia", path));
	assert_string_equal(path, "updates/nvidia.ko");
	assert_false(module_tree_path(&tree, "nvid", path));
	assert_false(module_tree_path(&tree, "nvidia_uvm_more", path));
	assert_int_equal(module_tree_order(&tree, "nvidia_uvm", &paths), 0);
	assert_int_equal(paths.count, 3);
	assert_string_equal(paths.items[0], "kernel/a/drm.ko");
	assert_string_equal(paths.items[1], "updates/nvidia.ko");
	assert_string_equal(paths.items[2], "updates/nvidia-uvm.ko.xz");
	assert_int_equal(module_tree_order(&tree, "none", &paths), -ENOENT);
	module_tree_name(paths.items[2], name);
	assert_string_equal(name, "nvidia_uvm");
}

static void a_folder_without_an_index_is_no_tree(void **state)
{
	const struct folder *folder = *state;
	struct module_tree tree;

	assert_int_equal(module_tree_open(folder->fd, "tree", &tree), -ENOENT);
}

/* What libkmod makes of the same folders; it takes them by their paths. */
static char *ask_libkmod(const struct folder *folder, const char *module)
{
	const char *paths[5] = { NULL };
	char texts[4][PATH_MAX];
	static const char *const names[] = { "etc/modprobe.d", "run/modprobe.d",
		"usr/local/lib/modprobe.d", "lib/modprobe.d" };
	struct kmod_module *found = NULL;
	struct error error = { "" };
	struct kmod_ctx *context;
	struct kmod_api api;
	const char *options;
	char *copy;

	if (kmod_api_open(&api, &error) < 0)
		fail_msg("%s", error.text);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		(void) snprintf(texts[i], sizeof(texts[i]), "%s/%s", folder->path, names[i]);
		paths[i] = texts[i];
	}
	context = api.kmod_new(folder->path, paths);
	assert_non_null(context);
	assert_int_equal(api.kmod_module_new_from_name(context, module, &found), 0);
	options = api.kmod_module_get_options(found);
	copy = strdup(options ? options : "");
	(void) api.kmod_module_unref(found);
	(void) api.kmod_unref(context);
	return copy;
}

static void agree(const struct folder *folder, const char *module, const char *expected)
{
	_cleanup_conf_ struct modprobe_d conf = { .joined = false };
	_cleanup_free_ char *theirs = ask_libkmod(folder, module);
	_cleanup_free_ char *ours = NULL;

	assert_int_equal(modprobe_d_read(folder->fd, &conf), 0);
	assert_int_equal(modprobe_d_options(&conf, module, &ours), 0);
	assert_string_equal(ours, theirs);
	assert_string_equal(ours, expected);
}

static void options_are_those_that_libkmod_finds(void **state)
{
	const struct folder *folder = *state;

	folder_write_text(folder, "etc/modprobe.d/b.conf",
		"# options m no=1\n options  m\tone=1\ttwo=\"a b\"  \noptions m-n x=1\n"
		"options nothing\nalias m n\noptionsm m y=1\ninstall m /bin/false\n");
	folder_write_text(folder, "etc/modprobe.d/skipped.txt", "options m no=2\n");
	folder_write_text(folder, "etc/modprobe.d/.hidden.conf", "options m no=3\n");
	folder_write_text(folder, "lib/modprobe.d/b.conf", "options m hidden=1\n");
	folder_write_text(folder, "lib/modprobe.d/a.conf", "options m first=1\n");
	folder_write_text(folder, "run/modprobe.d/c.alias", "options m last=1");
	agree(folder, "m", "first=1 one=1 two=\"a b\"   last=1");
	agree(folder, "m_n", "x=1");
	agree(folder, "nothing", "");
	agree(folder, "other", "");
}

static void no_folders_are_no_options(void **state)
{
	agree(*state, "m", "");
}

/* Better ask than misread. */
static void what_is_beyond_the_reader_is_left_to_libkmod(void **state)
{
	const struct folder *folder = *state;
	_cleanup_conf_ struct modprobe_d conf = { .joined = false };
	_cleanup_free_ char *options = NULL;

	folder_write_text(folder, "proc/cmdline", "quiet nvidia-drm.modeset=1 ro\n");
	assert_int_equal(modprobe_d_read(folder->fd, &conf), 0);
	assert_int_equal(modprobe_d_options(&conf, "nvidia_drm", &options), -EOPNOTSUPP);
	assert_int_equal(modprobe_d_options(&conf, "nvidia", &options), 0);
	assert_string_equal(options, "");
	modprobe_d_free(&conf);
	folder_write_text(folder, "etc/modprobe.d/x.conf", "options m a=1 \\\n b=2\n");
	assert_int_equal(modprobe_d_read(folder->fd, &conf), 0);
	assert_int_equal(modprobe_d_options(&conf, "m", &options), -EOPNOTSUPP);
}

/* The loader itself: options that its reader leaves alone come from libkmod. */
static void a_loader_knows_order_and_files(void **state)
{
	const struct folder *folder = *state;
	_cleanup_(loader_close) struct loader *loader = NULL;
	_cleanup_strv_ struct strv names = { 0 };
	_cleanup_free_ char *path = NULL;
	struct error error = { "" };

	folder_write_text(folder, "host/lib/modules/1-x/modules.dep", index_text);
	assert_int_equal(loader_open(folder->fd, "none", "1-x", &loader, &error), -ENOENT);
	assert_contains(error.text, "none/lib/modules/1-x/modules.dep");
	assert_int_equal(loader_open(folder->fd, "host", "1-x", &loader, &error), 0);
	assert_int_equal(loader_resolve(loader, "nvidia_uvm", &names, &error), 0);
	assert_int_equal(names.count, 3);
	assert_string_equal(names.items[2], "nvidia_uvm");
	assert_int_equal(loader_file(loader, "nvidia", &path, &error), 0);
	assert_string_equal(path, "host/lib/modules/1-x/updates/nvidia.ko");
	assert_int_equal(loader_resolve(loader, "none", &names, &error), -ENOENT);
	assert_contains(error.text, "has no module none");
	assert_int_equal(loader_file(loader, "none", &path, &error), -ENOENT);
	assert_false(loader_inserted(loader, "nvidia"));
	assert_int_equal(mkdirat(folder->fd, "sys", 0755), 0);
	folder_write_text(folder, "sys/module/elsewhere/initstate", "live\n");
	assert_int_equal(loader_resolve(loader, "elsewhere", &names, &error), 0);
	assert_string_equal(names.items[names.count - 1], "elsewhere");
	assert_int_equal(loader_file(loader, "elsewhere", &path, &error), -ENOENT);
	assert_contains(error.text, "has no file for elsewhere");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(a_tree_says_what_comes_first),
		folder_test(a_folder_without_an_index_is_no_tree),
		folder_test(options_are_those_that_libkmod_finds),
		folder_test(no_folders_are_no_options),
		folder_test(what_is_beyond_the_reader_is_left_to_libkmod),
		folder_test(a_loader_knows_order_and_files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
