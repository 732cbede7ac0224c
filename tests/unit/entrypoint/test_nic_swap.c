/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the basis of the NIC role's rollback: files by build id, kept copies, and parameters. */
#include "tests/unit/node_folder.h"

#include <sys/socket.h>

#include "entrypoint/role/parameters.h"
#include "tests/unit/entrypoint/nic_bench.h"

#define HOST_TREE "host/lib/modules/" KREL
#define KEPT      "inventory/.slipway/loaded"

/* A module file whose build id ends in @last. */
static void write_build(const struct folder *folder, const char *path, unsigned char last)
{
	static const char name[] = { 3, 0, 0, 0, 'G', 'N', 'U', 0 };
	_cleanup_free_ char *data = NULL;
	char fixture[256];
	char *note;
	size_t size;

	(void) snprintf(fixture, sizeof(fixture), "%s/parameters.ko", FIXTURES);
	assert_int_equal(fs_read(AT_FDCWD, fixture, 0, &data, &size), 0);
	note = memmem(data, size, name, sizeof(name));
	assert_non_null(note);
	note[sizeof(name) + 19] = (char) last;
	folder_write(folder, path, data, size);
}

/* As the fixtures have it, with another end. */
static void build_id(char id[BUILD_ID_HEX_SIZE], unsigned char last)
{
	(void) snprintf(id, BUILD_ID_HEX_SIZE, "%.38s%02x", BUILD_ID, last);
}

static void expect_at(
	const struct folder *folder, const char *name, unsigned char last, const char *where)
{
	_cleanup_(close_bench) struct bench bench;
	_cleanup_free_ char *path = NULL;
	char id[BUILD_ID_HEX_SIZE];

	open_bench(&bench, folder);
	build_id(id, last);
	assert_int_equal(module_find(&bench.lookup, name, id, &path), where ? 0 : -ENOENT);
	if (where)
		assert_string_equal(path, where);
	assert_int_equal(module_is_on_host(&bench.lookup, name, id),
		where && strncmp(where, "host/", strlen("host/")) == 0);
}

static void a_name_is_that_of_the_file(void **state)
{
	const struct folder *folder = *state;

	write_build(folder, HOST_TREE "/kernel/a/mlx5-core.ko", 1);
	write_build(folder, HOST_TREE "/kernel/ib_core.kopf", 1);
	write_build(folder, HOST_TREE "/kernel/ib_core.txt", 1);
	write_build(folder, HOST_TREE "/kernel/.ko", 1);
	expect_at(folder, "mlx5_core", 1, HOST_TREE "/kernel/a/mlx5-core.ko");
	expect_at(folder, "ib_core", 1, NULL);
	/* Its suffix says how it is packed; this one is not. */
	write_build(folder, HOST_TREE "/kernel/ib_core.ko.xz", 1);
	expect_at(folder, "ib_core", 1, HOST_TREE "/kernel/ib_core.ko.xz");
}

static void a_file_is_known_by_its_build_id_wherever_it_lies(void **state)
{
	const struct folder *folder = *state;

	write_build(folder, HOST_TREE "/kernel/drivers/ib-core.ko", 1);
	write_build(folder, HOST_TREE "/extra/ofed/ib_core.ko", 2);
	write_build(folder, KEPT "/" KREL "/ib_core.ko", 3);
	write_build(folder, "lib/modules/" KREL "/updates/ofed/ib_core.ko", 4);
	/* Headers are not looked at, another name is another module. */
	write_build(folder, HOST_TREE "/build/ib_core.ko", 5);
	write_build(folder, HOST_TREE "/kernel/ib_cm.ko", 6);
	expect_at(folder, "ib_core", 1, HOST_TREE "/kernel/drivers/ib-core.ko");
	expect_at(folder, "ib_core", 2, HOST_TREE "/extra/ofed/ib_core.ko");
	expect_at(folder, "ib_core", 3, KEPT "/" KREL "/ib_core.ko");
	expect_at(folder, "ib_core", 4, "lib/modules/" KREL "/updates/ofed/ib_core.ko");
	expect_at(folder, "ib_core", 5, NULL);
	expect_at(folder, "ib_core", 6, NULL);
}

/* The last report, and how many there were. */
struct reported {
	unsigned count;
	char text[ERROR_TEXT_SIZE];
};

static int find_kept(const struct folder *folder, struct reported *reported)
{
	_cleanup_(close_bench) struct bench bench;
	struct worker worker;
	struct worker_message message;
	char id[BUILD_ID_HEX_SIZE];
	char *path = NULL;
	int fds[2];
	int r;

	*reported = (struct reported){ .count = 0 };
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
	worker = (struct worker){ .fd = fds[0] };
	open_bench(&bench, folder);
	bench.action.worker = &worker;
	build_id(id, 3);
	for (int again = 0; again < 2; again++) {
		r = module_find(&bench.lookup, "ib_core", id, &path);
		free(path);
		path = NULL;
	}
	for (; recv(fds[1], &message, sizeof(message), MSG_DONTWAIT) > 0; reported->count++)
		(void) snprintf(reported->text, sizeof(reported->text), "%s", message.text.text);
	(void) close(fds[0]);
	(void) close(fds[1]);
	return r;
}

/* Other containers have the inventory's folder, too. */
static void what_others_could_have_kept_is_skipped(void **state)
{
	static const char *const parts[] = { "inventory", "inventory/.slipway", KEPT, KEPT "/" KREL,
		KEPT "/" KREL "/ib_core.ko" };
	const struct folder *folder = *state;
	struct reported reported;

	write_build(folder, KEPT "/" KREL "/ib_core.ko", 3);
	write_build(folder, "elsewhere/ib_core.ko", 3);
	assert_int_equal(find_kept(folder, &reported), 0);
	assert_int_equal(reported.count, 0);
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		assert_int_equal(fchmodat(folder->fd, parts[i], 0777, 0), 0);
		assert_int_equal(find_kept(folder, &reported), -ENOENT);
		assert_int_equal(reported.count, 1);
		assert_contains(reported.text, "others than root may write");
		assert_int_equal(fchmodat(folder->fd, parts[i], 0755, 0), 0);
	}
	assert_int_equal(find_kept(folder, &reported), 0);
	assert_int_equal(unlinkat(folder->fd, KEPT "/" KREL "/ib_core.ko", 0), 0);
	assert_int_equal(symlinkat("../../../../elsewhere/ib_core.ko", folder->fd,
				 KEPT "/" KREL "/ib_core.ko"),
		0);
	assert_int_equal(find_kept(folder, &reported), -ENOENT);
	assert_contains(reported.text, "symbolic link");
	/* The host's own and the image's are not asked. */
	assert_int_equal(unlinkat(folder->fd, KEPT "/" KREL "/ib_core.ko", 0), 0);
	write_build(folder, "lib/modules/" KREL "/updates/ib_core.ko", 3);
	assert_int_equal(fchmodat(folder->fd, "lib", 0777, 0), 0);
	assert_int_equal(find_kept(folder, &reported), 0);
}

static void links_of_the_host_mean_what_they_mean_there(void **state)
{
	const struct folder *folder = *state;

	write_build(folder, "host/opt/ofed/ib_core.ko", 1);
	folder_subfolder(folder, HOST_TREE "/weak-updates");
	assert_int_equal(
		symlinkat("/opt/ofed/ib_core.ko", folder->fd, HOST_TREE "/weak-updates/ib_core.ko"),
		0);
	expect_at(folder, "ib_core", 1, "host/opt/ofed/ib_core.ko");
}

static void without_an_id_nothing_is_found(void **state)
{
	_cleanup_(close_bench) struct bench bench;
	_cleanup_free_ char *path = NULL;

	open_bench(&bench, *state);
	write_build(*state, HOST_TREE "/kernel/ib_core.ko", 1);
	assert_int_equal(module_find(&bench.lookup, "ib_core", "", &path), -ENOENT);
	assert_null(path);
}

static int keep(const struct folder *folder, const char *files, const char *id)
{
	_cleanup_strv_ struct strv paths = { 0 };
	struct bench bench;
	struct error error;

	open_bench(&bench, folder);
	assert_int_equal(strv_split(&paths, files, " "), 0);
	return modules_keep(&bench.nic, &paths, id, &error);
}

static void only_the_last_set_is_kept(void **state)
{
	const struct folder *folder = *state;
	_cleanup_strv_ struct strv names = { 0 };
	_cleanup_strv_ struct strv krels = { 0 };

	folder_write_text(folder, "new/a.ko", "a");
	folder_write_text(folder, "new/b.ko", "b");
	folder_write_text(folder, "old/c.ko", "c");
	folder_write_text(folder, KEPT "/5.10.0-other/c.ko", "c");
	assert_int_equal(keep(folder, "old/c.ko", "1"), 0);
	assert_int_equal(keep(folder, "new/a.ko new/b.ko", "2"), 0);
	assert_int_equal(fs_list(folder->fd, KEPT, &krels), 0);
	assert_int_equal(krels.count, 1);
	assert_int_equal(fs_list(folder->fd, KEPT "/" KREL, &names), 0);
	assert_int_equal(names.count, 3);
	assert_string_equal(names.items[0], "a.ko");
	assert_string_equal(names.items[1], "b.ko");
	assert_string_equal(names.items[2], "set");
	assert_false(fs_exists(folder->fd, KEPT ".new"));
}

static void the_same_set_is_not_written_again(void **state)
{
	const struct folder *folder = *state;
	_cleanup_free_ char *text = NULL;

	folder_write_text(folder, "new/a.ko", "a");
	assert_int_equal(keep(folder, "new/a.ko", "1"), 0);
	folder_write_text(folder, "new/a.ko", "other");
	assert_int_equal(keep(folder, "new/a.ko", "1"), 0);
	text = folder_read_text(folder, KEPT "/" KREL "/a.ko");
	assert_string_equal(text, "a");
}

static void a_set_that_cannot_be_copied_leaves_the_old_one(void **state)
{
	const struct folder *folder = *state;
	_cleanup_free_ char *text = NULL;

	folder_write_text(folder, "new/a.ko", "a");
	assert_int_equal(keep(folder, "new/a.ko", "1"), 0);
	assert_int_equal(keep(folder, "new/a.ko new/gone.ko", "2"), -ENOENT);
	text = folder_read_text(folder, KEPT "/" KREL "/set");
	assert_string_equal(text, "1");
	assert_true(fs_exists(folder->fd, KEPT "/" KREL "/a.ko"));
	assert_false(fs_exists(folder->fd, KEPT ".new"));
}

/* A half-finished copy of a killed run is in no way. */
static void half_a_copy_is_removed(void **state)
{
	const struct folder *folder = *state;

	folder_write_text(folder, "new/a.ko", "a");
	folder_write_text(folder, KEPT ".new/" KREL "/a.ko", "half");
	assert_int_equal(keep(folder, "new/a.ko", "1"), 0);
	assert_false(fs_exists(folder->fd, KEPT ".new"));
	assert_true(fs_exists(folder->fd, KEPT "/" KREL "/a.ko"));
}

static void parameters_are_read_as_they_are_passed_back(void **state)
{
	const struct folder *folder = *state;
	_cleanup_free_ char *options = NULL;

	folder_write_text(folder, "sys/module/m/parameters/count", "12\n");
	folder_write_text(folder, "sys/module/m/parameters/list", "1,2,3\n");
	folder_write_text(folder, "sys/module/m/parameters/modeset", "Y\n");
	folder_write_text(folder, "sys/module/m/parameters/never", "(null)\n");
	folder_write_text(folder, "sys/module/m/parameters/quoted", "a \"b\"\n");
	folder_write_text(folder, "sys/module/m/parameters/words", "a b\n");
	assert_int_equal(parameters_now(folder->fd, "m", &options), 0);
	assert_string_equal(options, "count=12 list=1,2,3 modeset=Y words=\"a b\"");
}

static void a_module_without_parameters_has_none(void **state)
{
	const struct folder *folder = *state;
	_cleanup_free_ char *options = NULL;

	assert_int_equal(parameters_now(folder->fd, "m", &options), 0);
	assert_string_equal(options, "");
}

static void expect_passed(const char *options, const char *passed, const char *not_passed)
{
	_cleanup_(elf_module_close) struct elf_module *file = NULL;
	_cleanup_strv_ struct strv left_out = { 0 };
	_cleanup_free_ char *chosen = NULL;
	_cleanup_free_ char *left = NULL;
	struct error error;

	assert_int_equal(elf_module_open(AT_FDCWD, FIXTURES "/parameters.ko", &file, &error), 0);
	assert_int_equal(parameters_for_file(file, options, &chosen, &left_out), 0);
	assert_string_equal(chosen, passed);
	left = left_out.count ? strv_join(&left_out, " ") : strdup("");
	assert_string_equal(left, not_passed);
}

static void only_what_the_file_takes_is_passed_back(void **state)
{
	(void) state;
	expect_passed("count=12 list=1,2,3 modeset=Y", "count=12 list=1,2,3 modeset=Y", "");
	/* Another build has other parameters, or takes other values for them. */
	expect_passed("count=12 unknown=1", "count=12", "unknown=1");
	expect_passed("small=300 count=1", "count=1", "small=300");
	/* Who shows a value in its own way may take it in another. */
	expect_passed("own_kind=fair described=1", "", "own_kind=fair described=1");
	expect_passed("NVreg_RegistryDwords=\"a b\"", "NVreg_RegistryDwords=\"a b\"", "");
	expect_passed("count=\"1", "", "");
	expect_passed("", "", "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(a_name_is_that_of_the_file),
		folder_test(a_file_is_known_by_its_build_id_wherever_it_lies),
		folder_test(what_others_could_have_kept_is_skipped),
		folder_test(links_of_the_host_mean_what_they_mean_there),
		folder_test(without_an_id_nothing_is_found),
		folder_test(only_the_last_set_is_kept),
		folder_test(the_same_set_is_not_written_again),
		folder_test(a_set_that_cannot_be_copied_leaves_the_old_one),
		folder_test(half_a_copy_is_removed),
		folder_test(parameters_are_read_as_they_are_passed_back),
		folder_test(a_module_without_parameters_has_none),
		cmocka_unit_test(only_what_the_file_takes_is_passed_back),
	};

	return cmocka_run_group_tests_name("nic_swap", tests, NULL, NULL);
}
