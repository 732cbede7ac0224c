/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests what a tree says of its modules, through libkmod, and whether a loaded module is the build
 * of a file.
 */
#include "tests/unit/node_folder.h"

#include <sys/socket.h>
#include <sys/stat.h>

#include "entrypoint/role/modset.h"
#include "entrypoint/role/role.h"

#define TREE "lib/modules/" KREL "/"

#define _cleanup_loader_ _cleanup_(loader_close)

/* mlx5_core needs a symbol of ib_uverbs; ib_umad needs nothing. */
static void make_tree(const struct folder *folder, struct loader **ret)
{
	struct error error = { 0 };

	copy_fixture(folder, "exporter", "host/" TREE "kernel/ib_uverbs.ko");
	copy_fixture(folder, "peer", "host/" TREE "updates/mlx5-core.ko");
	copy_fixture(folder, "parameters", "host/" TREE "updates/ib_umad.ko");
	run_depmod(folder, "host");
	if (loader_open(folder->fd, "host", KREL, ret, &error) < 0)
		fail_msg("%s", error.text);
}

static void a_folder_without_an_index_is_no_tree(void **state)
{
	const struct folder *folder = *state;
	struct loader *loader = NULL;
	struct error error = { 0 };

	assert_int_equal(loader_open(folder->fd, "none", KREL, &loader, &error), -ENOENT);
	assert_contains(error.text, "none/" TREE "modules.dep");
}

static void a_tree_knows_order_and_files(void **state)
{
	const struct folder *folder = *state;
	_cleanup_loader_ struct loader *loader = NULL;
	_cleanup_strv_ struct strv names = { 0 };
	_cleanup_free_ char *dashes = NULL;
	_cleanup_free_ char *path = NULL;
	struct error error = { 0 };

	make_tree(folder, &loader);
	assert_int_equal(loader_resolve(loader, "mlx5_core", &names, &error), 0);
	assert_int_equal(names.count, 2);
	assert_string_equal(names.items[0], "ib_uverbs");
	assert_string_equal(names.items[1], "mlx5_core");
	assert_int_equal(loader_file(loader, "mlx5_core", &path, &error), 0);
	assert_string_equal(path, "host/" TREE "updates/mlx5-core.ko");
	assert_int_equal(loader_file(loader, "mlx5-core", &dashes, &error), 0);
	assert_string_equal(dashes, path);
	assert_int_equal(loader_resolve(loader, "mlx5", &names, &error), -ENOENT);
	assert_contains(error.text, "has no module mlx5");
	assert_int_equal(loader_file(loader, "mlx5_core_more", &path, &error), -ENOENT);
	assert_false(loader_inserted(loader, "mlx5_core"));
}

/* As weak-updates has them. The one that another depends on is no file for us. */
static void absolute_links_are_the_trees_own(void **state)
{
	const struct folder *folder = *state;
	_cleanup_loader_ struct loader *loader = NULL;
	_cleanup_strv_ struct strv names = { 0 };
	_cleanup_free_ char *path = NULL;
	struct error error = { 0 };

	make_tree(folder, &loader);
	copy_fixture(folder, "exporter", "host/lib/modules/other/extra/ib_uverbs.ko");
	assert_int_equal(unlinkat(folder->fd, "host/" TREE "kernel/ib_uverbs.ko", 0), 0);
	folder_link(folder, "host/" TREE "kernel/ib_uverbs.ko",
		"/lib/modules/other/extra/ib_uverbs.ko");
	assert_int_equal(loader_file(loader, "ib_uverbs", &path, &error), 0);
	assert_string_equal(path, "host/lib/modules/other/extra/ib_uverbs.ko");
	assert_int_equal(loader_resolve(loader, "mlx5_core", &names, &error), 0);
	assert_int_equal(names.count, 2);
	assert_int_equal(unlinkat(folder->fd, path, 0), 0);
	free(TAKE_PTR(path));
	assert_int_equal(loader_file(loader, "ib_uverbs", &path, &error), -ENOENT);
	assert_contains(error.text, "kernel/ib_uverbs.ko: No such file");
}

static void what_is_loaded_from_elsewhere_has_no_file(void **state)
{
	const struct folder *folder = *state;
	_cleanup_loader_ struct loader *loader = NULL;
	_cleanup_strv_ struct strv names = { 0 };
	struct error error = { 0 };
	char *path = NULL;

	make_tree(folder, &loader);
	folder_write_text(folder, "sys/module/elsewhere/initstate", "live\n");
	assert_int_equal(loader_resolve(loader, "elsewhere", &names, &error), 0);
	assert_int_equal(names.count, 1);
	assert_string_equal(names.items[0], "elsewhere");
	assert_int_equal(loader_file(loader, "elsewhere", &path, &error), -ENOENT);
	assert_contains(error.text, "has no file for elsewhere");
}

static void soft_dependencies_come_with_a_module(void **state)
{
	const struct folder *folder = *state;
	_cleanup_loader_ struct loader *loader = NULL;
	_cleanup_strv_ struct strv hard = { 0 };
	_cleanup_strv_ struct strv all = { 0 };
	struct error error = { 0 };

	folder_write_text(folder, "host/etc/modprobe.d/soft.conf",
		"softdep ib_umad pre: mlx5_core post: absent\nsoftdep mlx5_core post: ib_umad\n");
	make_tree(folder, &loader);
	assert_int_equal(loader_resolve(loader, "ib_umad", &hard, &error), 0);
	assert_int_equal(hard.count, 1);
	assert_int_equal(loader_resolve_all(loader, "ib_umad", &all, &error), 0);
	assert_int_equal(all.count, 3);
	assert_true(strv_contains(&all, "ib_uverbs"));
	assert_true(strv_contains(&all, "mlx5_core"));
}

static void expect_options(const struct folder *folder, const char *module, const char *expected)
{
	_cleanup_loader_ struct loader *loader = NULL;
	_cleanup_free_ char *options = NULL;
	struct error error = { 0 };

	make_tree(folder, &loader);
	assert_int_equal(loader_options(loader, module, &options, &error), 0);
	assert_string_equal(options, expected);
}

static void options_are_those_of_the_trees_own_folders(void **state)
{
	const struct folder *folder = *state;

	folder_write_text(folder, "host/etc/modprobe.d/b.conf",
		"# options m no=1\n options  m\tone=1\ttwo=\"a b\"  \noptions m-n x=1\n"
		"options nothing\nalias m n\noptionsm m y=1\ninstall m /bin/false\n");
	folder_write_text(folder, "host/etc/modprobe.d/skipped.txt", "options m no=2\n");
	folder_write_text(folder, "host/etc/modprobe.d/.hidden.conf", "options m no=3\n");
	folder_write_text(folder, "host/lib/modprobe.d/b.conf", "options m hidden=1\n");
	folder_write_text(folder, "host/lib/modprobe.d/a.conf", "options m first=1\n");
	folder_write_text(folder, "host/run/modprobe.d/c.conf", "options m last=1\n");
	expect_options(folder, "m", "first=1 one=1 two=\"a b\"   last=1");
	expect_options(folder, "m_n", "x=1");
	expect_options(folder, "nothing", "");
	expect_options(folder, "other", "");
	folder_write_text(
		folder, "host/usr/local/lib/modprobe.d/d.conf", "options long a=1 \\\n b=2\n");
	expect_options(folder, "long", "a=1  b=2");
}

static void the_hosts_own_modules_get_the_hosts_options(void **state)
{
	const struct folder *folder = *state;

	folder_write_text(folder, "etc/modprobe.d/slipway.conf", "options ib_umad ours=1\n");
	folder_write_text(folder, "host/usr/lib/modprobe.d/own.conf", "options ib_umad own=1\n");
	expect_options(folder, "ib_umad", "own=1");
	/* Debian's update-alternatives makes such links, one after another. */
	folder_subfolder(folder, "host/etc/modprobe.d");
	folder_subfolder(folder, "host/etc/alternatives");
	folder_link(folder, "host/etc/modprobe.d/nvidia.conf", "/etc/alternatives/options");
	folder_link(folder, "host/etc/alternatives/options", "/etc/nvidia/zz.conf");
	folder_write_text(folder, "host/etc/nvidia/zz.conf", "options ib_umad linked=1");
	folder_write_text(folder, "host/usr/lib/modprobe.d/nvidia.conf", "options ib_umad not=1\n");
	folder_link(folder, "host/etc/modprobe.d/off.conf", "/dev/null");
	folder_write_text(folder, "host/usr/lib/modprobe.d/off.conf", "options ib_umad off=1\n");
	folder_write_text(folder, "host/usr/lib/modprobe.d/zz.conf", "options ib_umad last=1\n");
	expect_options(folder, "ib_umad", "linked=1 own=1 last=1");
}

static void no_folders_are_no_options(void **state)
{
	expect_options(*state, "m", "");
}

/* ---- what is loaded */

#define MODULE     "ib_uverbs"
#define SRCVERSION "sys/module/" MODULE "/srcversion"

/* The last byte of the fixtures' build id (tests.mk). */
#define LAST 0x67

static enum loaded verdict_on_file(const struct folder *folder)
{
	_cleanup_module_ struct elf_module *file = NULL;
	struct error error;

	assert_int_equal(elf_module_open_brief(folder->fd, "file.ko", &file, &error), 0);
	return loaded_compare(folder->fd, MODULE, file);
}

static enum loaded verdict(const struct folder *folder, const char *fixture)
{
	copy_fixture(folder, fixture, "file.ko");
	return verdict_on_file(folder);
}

static void copy_without_build_id(const struct folder *folder, const char *fixture, const char *to)
{
	/* The head of the note: its sizes, NT_GNU_BUILD_ID (elf.h), "GNU". */
	static const char head[] = "\4\0\0\0\24\0\0\0\3\0\0\0GNU";
	_cleanup_free_ char *text = NULL;
	size_t size;
	char *note;

	copy_fixture(folder, fixture, to);
	assert_int_equal(fs_read(folder->fd, to, 1 << 20, &text, &size), 0);
	note = memmem(text, size, head, sizeof(head));
	assert_non_null(note);
	note[8] = 0;
	assert_int_equal(fs_write_atomic(folder->fd, to, text, size, 0644), 0);
}

/* Debian has nvidia.ko as nvidia-current.ko, and other branches of it beside that. */
static void a_loaded_module_is_found_under_another_file_name(void **state)
{
	static const struct {
		char *loaded;
		const char *file_name;
	} cases[] = {
		{ "ib_uverbs", "ib_current_uverbs" },
		{ "peer", "peer_tesla" }, /* the loaded one of three builds */
		{ "gap", "gap_current" }, /* another build by now */
		{ "tainted", "tainted" },
	};
	const struct folder *folder = *state;
	_cleanup_loader_ struct loader *loader = NULL;
	_cleanup_strv_ struct strv loaded = { 0 };
	_cleanup_strv_ struct strv names = { 0 };
	_cleanup_free_ char *options = NULL;
	_cleanup_free_ char *path = NULL;
	struct error error = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		folder_module(folder, cases[i].loaded, "0\n", NULL);
		write_note(folder, cases[i].loaded, LAST + (cases[i].loaded[0] == 'g'));
		assert_int_equal(strv_push(&loaded, cases[i].loaded), 0);
	}
	copy_without_build_id(folder, "peer", "host/" TREE "updates/peer-current.ko");
	copy_fixture(folder, "peer", "host/" TREE "updates/peer-tesla.ko");
	copy_without_build_id(folder, "peer", "host/" TREE "updates/peer-upstream.ko");
	copy_fixture(folder, "gap", "host/" TREE "updates/gap-current.ko");
	copy_fixture(folder, "exporter", "host/" TREE "updates/ib-current-uverbs.ko");
	folder_write_text(folder, "host/etc/modprobe.d/a.conf",
		"options peer of_module=1\noptions peer-tesla of_file=1\n");
	run_depmod(folder, "host");
	assert_int_equal(loader_open(folder->fd, "host", KREL, &loader, &error), 0);
	assert_int_equal(loader_find_renamed(loader, &loaded, &error), 0);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_string_equal(loader_file_name(loader, cases[i].loaded), cases[i].file_name);

	assert_int_equal(loader_resolve(loader, "peer", &names, &error), 0);
	assert_int_equal(names.count, 2);
	assert_string_equal(names.items[0], "ib_uverbs");
	assert_string_equal(names.items[1], "peer");
	assert_int_equal(loader_file(loader, "peer", &path, &error), 0);
	assert_string_equal(path, "host/" TREE "updates/peer-tesla.ko");
	assert_int_equal(loader_options(loader, "peer", &options, &error), 0);
	assert_string_equal(options, "of_file=1 of_module=1");
}

static void a_file_that_is_not_there_is_no_refusal_of_the_kernel(void **state)
{
	const struct folder *folder = *state;
	const struct insertion insertion = {
		.root_fd = folder->fd, .path = "lib/gone.ko", .name = "gone"
	};
	struct error error = { 0 };
	enum reason reason = REASON_NONE;

	assert_int_equal(insert_file(&insertion, NULL, &reason, &error), -ENOENT);
	assert_int_equal(reason, REASON_LOAD_FAILED);
	assert_string_equal(error.text, "/lib/gone.ko: No such file or directory");
}

static void the_build_id_decides_where_both_have_one(void **state)
{
	const struct folder *folder = *state;

	folder_module(folder, MODULE, "0\n", NULL);
	write_note(folder, MODULE, LAST);
	assert_int_equal(verdict(folder, "exporter"), LOADED_SAME);
	folder_write_text(folder, SRCVERSION, "0123456789ABCDEF0123456\n");
	write_note(folder, MODULE, LAST + 1);
	assert_int_equal(verdict(folder, "exporter"), LOADED_OTHER);
}

static void else_srcversion_does(void **state)
{
	const struct folder *folder = *state;

	folder_module(folder, MODULE, "0\n", NULL);
	folder_write_text(folder, SRCVERSION, "0123456789ABCDEF0123456\n");
	assert_int_equal(verdict(folder, "exporter"), LOADED_SAME);
	/* A file without one cannot be what was loaded with one. */
	assert_int_equal(verdict(folder, "extended"), LOADED_OTHER);
	folder_write_text(folder, SRCVERSION, "AAAA456789ABCDEF0123456\n");
	assert_int_equal(verdict(folder, "exporter"), LOADED_OTHER);
}

static void a_file_without_a_build_id_is_not_what_was_loaded_with_one(void **state)
{
	const struct folder *folder = *state;

	folder_module(folder, MODULE, "0\n", NULL);
	write_note(folder, MODULE, LAST);
	copy_without_build_id(folder, "exporter", "file.ko");
	assert_int_equal(verdict_on_file(folder), LOADED_OTHER);
}

/* It is no other build: no process may be blamed for having loaded it. */
static void where_the_kernel_shows_neither_nothing_is_known(void **state)
{
	const struct folder *folder = *state;

	folder_module(folder, MODULE, "0\n", NULL);
	assert_int_equal(verdict(folder, "exporter"), LOADED_UNKNOWN);
	assert_int_equal(verdict(folder, "extended"), LOADED_UNKNOWN);
}

/* Reloads what the list has, and gives the first thing that is said of it. */
static void reload(const struct folder *folder, const char *list, struct worker_message *ret)
{
	struct role role = { .name = "gpu",
		.state_folder = "run",
		.root_fd = folder->fd,
		.host_root = "host",
		.krel = KREL };
	struct worker worker;
	struct action action = { .role = &role, .worker = &worker };
	int fds[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
	worker.fd = fds[0];
	role.plan.start_failed = true;
	folder_write_text(folder, "run/gpu.replaced", list);
	assert_int_equal(role_reload_replaced(&action), 0);
	assert_true(recv(fds[1], ret, sizeof(*ret), MSG_DONTWAIT) > 0);
	(void) close(fds[0]);
	(void) close(fds[1]);
}

static void a_module_that_does_not_come_back_has_a_next_step(void **state)
{
	static const char list[] = "slipway-list 1\nitem text=ib_iser\nend\n";
	const struct folder *folder = *state;
	_cleanup_loader_ struct loader *loader = NULL;
	struct worker_message said;

	reload(folder, list, &said);
	assert_contains(said.text.text,
		"ib_iser could not be reloaded (try modprobe on the node, or reboot it): host/" TREE
		"modules.dep.bin");
	make_tree(folder, &loader);
	reload(folder, list, &said);
	assert_contains(said.text.text,
		"ib_iser could not be reloaded (start the container that brought it, or reboot the "
		"node): host/lib/modules/" KREL " has no module ib_iser");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(a_folder_without_an_index_is_no_tree),
		folder_test(a_tree_knows_order_and_files),
		folder_test(absolute_links_are_the_trees_own),
		folder_test(what_is_loaded_from_elsewhere_has_no_file),
		folder_test(soft_dependencies_come_with_a_module),
		folder_test(options_are_those_of_the_trees_own_folders),
		folder_test(the_hosts_own_modules_get_the_hosts_options),
		folder_test(no_folders_are_no_options),
		folder_test(a_loaded_module_is_found_under_another_file_name),
		folder_test(a_file_that_is_not_there_is_no_refusal_of_the_kernel),
		folder_test(the_build_id_decides_where_both_have_one),
		folder_test(a_file_without_a_build_id_is_not_what_was_loaded_with_one),
		folder_test(else_srcversion_does),
		folder_test(where_the_kernel_shows_neither_nothing_is_known),
		folder_test(a_module_that_does_not_come_back_has_a_next_step),
	};

	return cmocka_run_group_tests_name("modset", tests, NULL, NULL);
}
