/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/support.h"

#include <sys/socket.h>

#include "common/error.h"
#include "common/fs.h"
#include "common/strv.h"
#include "entrypoint/nic/nic_internal.h"

/* ---- the rules that keep names */

static const char *first(const struct strv *notes)
{
	return notes->count ? notes->items[0] : "";
}

struct netdev {
	const char *name, *device, *module, *vendor, *type, *number, *label;
};

static void write_value(
	const struct folder *folder, const char *base, const char *name, const char *value)
{
	_cleanup_free_ char *path = NULL;

	if (!value)
		return;
	assert_true(asprintf(&path, "%s/%s", base, name) > 0);
	folder_write_text(folder, path, value);
}

static void link_to(const struct folder *folder, const char *path, const char *target)
{
	assert_true(symlinkat(target, folder->fd, path) == 0 || errno == EEXIST);
}

/* As /sys has it: class/net/NAME leads to devices/…/net/NAME, whose "device" leads back up. */
static void add_netdev(const struct folder *folder, const struct netdev *netdev)
{
	char device[200], net[300], path[400], target[400];

	(void) snprintf(device, sizeof(device), "sys/devices/%s", netdev->device);
	(void) snprintf(net, sizeof(net), "%s/net/%s", device, netdev->name);
	folder_subfolder(folder, net);
	folder_subfolder(folder, "sys/class/net");
	(void) snprintf(path, sizeof(path), "sys/class/net/%s", netdev->name);
	(void) snprintf(
		target, sizeof(target), "../../devices/%s/net/%s", netdev->device, netdev->name);
	link_to(folder, path, target);
	(void) snprintf(path, sizeof(path), "%s/device", net);
	link_to(folder, path, "../..");
	write_value(folder, net, "name_assign_type", netdev->type ? netdev->type : "4\n");
	write_value(folder, net, "dev_port", netdev->number ? netdev->number : "0\n");
	write_value(folder, net, "phys_port_name", netdev->label);
	write_value(folder, device, "vendor", netdev->vendor);
	if (!netdev->module)
		return;
	(void) snprintf(path, sizeof(path), "%s/driver", device);
	folder_subfolder(folder, path);
	(void) snprintf(path, sizeof(path), "%s/driver/module", device);
	(void) snprintf(target, sizeof(target), "../../../module/%s", netdev->module);
	link_to(folder, path, target);
}

#define ADD(folder, ...) add_netdev(folder, &(struct netdev){ .name = __VA_ARGS__ })
#define PF0              "pci0000:3a/0000:3b:00.0"
#define PF1              "pci0000:3a/0000:3b:00.1"

static char *make_rules(const struct folder *folder, struct strv *notes)
{
	char *names[] = { (char[]){ "mlx5_core" }, (char[]){ "netdevsim" }, NULL };
	const struct strv modules = { .items = names, .count = 2 };
	struct error error = { 0 };
	char *text = NULL;

	assert_int_equal(udev_rules_make(folder->fd, &modules, notes, &text, &error), 0);
	return text;
}

/* The lines that give names, which are what differs; none of them may run anything. */
static void assert_names(const char *text, const char *expected)
{
	_cleanup_strv_ struct strv lines = { 0 };
	_cleanup_strv_ struct strv names = { 0 };
	_cleanup_free_ char *joined = NULL;

	assert_null(strstr(text, "PROGRAM"));
	assert_null(strstr(text, "{program}"));
	assert_int_equal(strv_split(&lines, text, "\n"), 0);
	for (size_t i = 0; i < lines.count; i++)
		if (strstr(lines.items[i], " NAME=\""))
			assert_int_equal(strv_push(&names, lines.items[i]), 0);
	joined = strv_join(&names, "\n");
	assert_string_equal(joined ? joined : "", expected);
}

#define GENERAL "ENV{ID_NET_NAME_ALLOW_PHYS_PORT_NAME}=\"0\", IMPORT{builtin}=\"net_id\""

/* The host's driver does not name ports; the one that comes may. */
static void test_names_of_ports_without_a_label(void **state)
{
	_cleanup_strv_ struct strv notes = { 0 };
	_cleanup_free_ char *text = NULL;

	ADD(*state, "ens1f0", PF0, .vendor = "0x15b3\n");
	ADD(*state, "mgmt0", PF1, .module = "mlx5_core");
	ADD(*state, "eno1", "pci0000:00/0000:01:00.0", .module = "igb", .vendor = "0x8086\n");
	ADD(*state, "br0", "virtual", .module = NULL);
	text = make_rules(*state, &notes);
	assert_names(text, "DEVPATH==\"/devices/" PF0 "/net/*\", NAME=\"ens1f0\"\n"
			   "DEVPATH==\"/devices/" PF1 "/net/*\", NAME=\"mgmt0\"");
	assert_contains(text, GENERAL);
	assert_int_equal(notes.count, 0);
}

static void test_names_with_ports(void **state)
{
	_cleanup_strv_ struct strv notes = { 0 };
	_cleanup_free_ char *text = NULL;

	ADD(*state, "ens1f0np0", PF0, .vendor = "0x15b3\n", .label = "p0\n");
	ADD(*state, "ens1f0v3", PF0 "/virtual-function", .vendor = "0x15b3\n");
	text = make_rules(*state, &notes);
	/* This host has ports in its names: one that comes later shall have it too. */
	assert_null(strstr(text, "ALLOW_PHYS_PORT_NAME"));
	assert_contains(text, "DEVPATH==\"/devices/" PF0
			      "/net/*\", ENV{.SLIPWAY_PORT}==\"p0\", NAME=\"ens1f0np0\"\n");
	/* The driver that comes may not say the port. */
	assert_contains(text, "DEVPATH==\"/devices/" PF0
			      "/net/*\", ENV{.SLIPWAY_PORT}==\"\", NAME=\"ens1f0np0\"\n");
}

/* Representors by their port, before whatever goes for the function's own interface. */
static void test_names_of_representors(void **state)
{
	_cleanup_strv_ struct strv notes = { 0 };
	_cleanup_free_ char *text = NULL;

	ADD(*state, "ens1f0", PF0, .module = "mlx5_core", .label = "p0\n");
	ADD(*state, "ens1f0_7", PF0, .module = "mlx5_core", .label = "pf0vf7\n");
	text = make_rules(*state, &notes);
	assert_names(text,
		"DEVPATH==\"/devices/" PF0
		"/net/*\", ENV{.SLIPWAY_PORT}==\"pf0vf7\", NAME=\"ens1f0_7\"\n"
		"DEVPATH==\"/devices/" PF0 "/net/*\", ENV{.SLIPWAY_PORT}==\"\", NAME=\"ens1f0\"\n"
		"DEVPATH==\"/devices/" PF0 "/net/*\", ENV{.SLIPWAY_PORT}==\"p0\", NAME=\"ens1f0\"");
	assert_true(strstr(text, "pf0vf7") < strstr(text, "GOTO=\"slipway_names_end\"\nKERNEL"));
	assert_true(
		strstr(text, "GOTO=\"slipway_names_end\"\nKERNEL") < strstr(text, "\"ens1f0\""));
}

static void test_two_ports_of_one_function(void **state)
{
	_cleanup_strv_ struct strv notes = { 0 };
	_cleanup_free_ char *text = NULL;

	ADD(*state, "ens2", PF0, .vendor = "0x15b3\n");
	ADD(*state, "ens2d1", PF0, .vendor = "0x15b3\n", .number = "1\n");
	ADD(*state, "eni1np1", "netdevsim1", .module = "netdevsim", .label = "p1\n");
	ADD(*state, "eni1np2", "netdevsim1", .module = "netdevsim", .label = "p2\n");
	text = make_rules(*state, &notes);
	assert_names(text,
		"DEVPATH==\"/devices/netdevsim1/net/*\", ENV{.SLIPWAY_PORT}==\"p1\", "
		"NAME=\"eni1np1\"\n"
		"DEVPATH==\"/devices/netdevsim1/net/*\", ENV{.SLIPWAY_PORT}==\"p2\", "
		"NAME=\"eni1np2\"\n"
		"DEVPATH==\"/devices/" PF0 "/net/*\", ATTR{dev_port}==\"0\", NAME=\"ens2\"\n"
		"DEVPATH==\"/devices/" PF0 "/net/*\", ATTR{dev_port}==\"1\", NAME=\"ens2d1\"");
}

/* A name that the kernel gives by order, and one that a rule cannot hold. */
static void test_names_that_are_left(void **state)
{
	_cleanup_strv_ struct strv notes = { 0 };
	_cleanup_free_ char *text = NULL;

	ADD(*state, "eth0", PF0, .vendor = "0x15b3\n", .type = "1\n");
	ADD(*state, "we\"ird$", PF1, .vendor = "0x15b3\n");
	text = make_rules(*state, &notes);
	assert_names(text, "");
	assert_contains(text, GENERAL);
	assert_int_equal(notes.count, 1);
	assert_contains(first(&notes), "we\"ird$");
}

/* ---- the actions */

#define RULES     "host/etc/udev/rules.d/77.rules"
#define BLACKLIST "host/etc/modprobe.d/blacklist.conf"
#define JOURNAL   "mnt/inventory/.slipway/hostfiles.journal"

/* A role in a folder, with the read end of its worker's socket. */
struct bench {
	struct nic nic;
	struct worker worker;
	int read_fd;
	struct swap_module going[2];
};

static void bench_open(struct bench *bench, const struct folder *folder)
{
	static char rules[] = RULES, blacklist[] = BLACKLIST;
	static char journal_folder[] = "mnt/inventory/.slipway";
	int fds[2];

	*bench = (struct bench){ .going = { { .name = "irdma" }, { .name = "nvidia_peermem" } } };
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
	bench->worker.fd = fds[0];
	bench->read_fd = fds[1];
	bench->nic.role.root_fd = folder->fd;
	bench->nic.role.name = "nic";
	bench->nic.role.state_folder = "run/mellanox/drivers/slipway";
	bench->nic.inputs.udev_rules = rules;
	bench->nic.inputs.blacklist_file = blacklist;
	bench->nic.inputs.journal_folder = journal_folder;
	bench->nic.inputs.ifnames_rule = true;
	bench->nic.swap.go = bench->going;
	bench->nic.swap.go_count = ARRAY_SIZE(bench->going);
	assert_int_equal(strv_push(&bench->nic.inputs.blacklist, "ib_core"), 0);
	assert_int_equal(strv_push(&bench->nic.inputs.auxiliary, "mlx5_dpll"), 0);
	assert_int_equal(strv_push(&bench->nic.role.driver_modules, "mlx5_core"), 0);
	assert_int_equal(strv_push(&bench->nic.role.driver_modules, "nvme"), 0);
	assert_int_equal(strv_push(&bench->nic.swap.load, "psample"), 0);
	assert_int_equal(strv_push(&bench->nic.swap.load, "mlx5_core"), 0);
	folder_subfolder(folder, "host/etc/udev/rules.d");
	folder_subfolder(folder, "host/etc/modprobe.d");
	ADD(folder, "ens1f0", PF0, .module = "mlx5_core");
}

static void bench_close(struct bench *bench)
{
	strv_free(&bench->nic.inputs.blacklist);
	strv_free(&bench->nic.inputs.auxiliary);
	strv_free(&bench->nic.role.driver_modules);
	strv_free(&bench->nic.swap.load);
	(void) close(bench->worker.fd);
	(void) close(bench->read_fd);
}

#define _cleanup_bench_ _cleanup_(bench_close)

static void act(struct bench *bench, action_function *function)
{
	struct action action = { .role = &bench->nic, .worker = &bench->worker };

	assert_int_equal(function(&action), 0);
}

/* Checks all that the worker has reported since, together. */
static void assert_reported(const struct bench *bench, const char *part)
{
	struct worker_message message;
	char all[4096] = "";

	while (recv(bench->read_fd, &message, sizeof(message), MSG_DONTWAIT) > 0)
		(void) snprintf(
			all + strlen(all), sizeof(all) - strlen(all), "%s\n", message.text.text);
	if (part)
		assert_contains(all, part);
	else
		assert_string_equal(all, "");
}

static char *through_link(const struct folder *folder, const char *path)
{
	char target[256] = "";

	assert_true(readlinkat(folder->fd, path, target, sizeof(target) - 1) > 0);
	assert_int_equal(target[0], '/');
	return folder_read_text(folder, target + 1);
}

static bool is_there(const struct bench *bench, const char *path)
{
	return fs_exists(bench->nic.role.root_fd, path);
}

static void test_a_swap(void **state)
{
	_cleanup_bench_ struct bench bench;
	_cleanup_free_ char *blacklist = NULL;
	_cleanup_free_ char *rules = NULL;

	bench_open(&bench, *state);
	act(&bench, nic_host_files_clear);
	act(&bench, nic_host_files_put);
	blacklist = through_link(*state, BLACKLIST);
	assert_contains(blacklist, "\nblacklist ib_core\ninstall ib_core /bin/false\n"
				   "blacklist mlx5_dpll\ninstall mlx5_dpll /bin/false\n"
				   "blacklist mlx5_core\ninstall mlx5_core /bin/false\n"
				   "blacklist irdma\ninstall irdma /bin/false\n");
	/* The set's, which is not asked for, and the kernel's own. */
	assert_null(strstr(blacklist, "nvme"));
	assert_null(strstr(blacklist, "psample"));
	assert_null(strstr(blacklist, "peermem"));
	rules = through_link(*state, RULES);
	assert_contains(rules, "NAME=\"ens1f0\"");
	act(&bench, nic_unblock);
	assert_false(is_there(&bench, BLACKLIST));
	assert_true(is_there(&bench, RULES));
	/* OFED stays: nothing has to be kept from coming. */
	act(&bench, nic_block_again);
	assert_false(is_there(&bench, BLACKLIST));
	bench.nic.role.options.restore_inbox = true;
	act(&bench, nic_block_again);
	assert_true(is_there(&bench, BLACKLIST));
	act(&bench, nic_host_files_undo);
	assert_false(is_there(&bench, BLACKLIST));
	assert_false(is_there(&bench, RULES));
	assert_false(is_there(&bench, JOURNAL));
	assert_reported(&bench, NULL);
}

static void test_a_start_that_fails(void **state)
{
	_cleanup_bench_ struct bench bench;
	struct error error;

	bench_open(&bench, *state);
	bench.nic.role.plan.start_failed = true;
	assert_int_equal(journal_enter(bench.nic.role.root_fd, PHASE_LOADING, NULL, &error), 0);
	act(&bench, nic_block_again);
	assert_true(is_there(&bench, BLACKLIST));
	act(&bench, nic_host_files_undo);
	assert_false(is_there(&bench, BLACKLIST));
	/* A pending swap is rolled back also where this start finds all as it should be. */
	bench.nic.swap.same = true;
	act(&bench, nic_block_again);
	assert_true(is_there(&bench, BLACKLIST));
	act(&bench, nic_host_files_undo);
	/* The swap is over: what ran before is what runs. */
	journal_end(bench.nic.role.root_fd, true);
	act(&bench, nic_block_again);
	assert_false(is_there(&bench, BLACKLIST));
}

/* A restart that finds all as it should be: the rules of the previous run stay as they are. */
static void test_nothing_to_swap(void **state)
{
	_cleanup_bench_ struct bench bench;
	struct stat before, after;

	bench_open(&bench, *state);
	act(&bench, nic_host_files_put);
	assert_int_equal(
		fstatat(((struct folder *) *state)->fd, RULES, &before, AT_SYMLINK_NOFOLLOW), 0);
	bench.nic.swap.same = true;
	act(&bench, nic_host_files_clear);
	assert_false(is_there(&bench, BLACKLIST));
	act(&bench, nic_host_files_put);
	assert_false(is_there(&bench, BLACKLIST));
	assert_int_equal(
		fstatat(((struct folder *) *state)->fd, RULES, &after, AT_SYMLINK_NOFOLLOW), 0);
	assert_int_equal(before.st_ino, after.st_ino);
	/* The next start is to make no names. */
	bench.nic.inputs.ifnames_rule = false;
	act(&bench, nic_host_files_clear);
	assert_false(is_there(&bench, RULES));
	act(&bench, nic_host_files_put);
	assert_false(is_there(&bench, RULES));
}

static void assert_rules(const struct folder *folder, bool has_interface)
{
	_cleanup_free_ char *rules = through_link(folder, RULES);

	assert_int_equal(strstr(rules, "NAME=\"ens1f0\"") != NULL, has_interface);
}

/* The interfaces went with their driver: rules that were made now would not have them. */
static void test_a_start_after_a_kill_in_the_middle(void **state)
{
	_cleanup_bench_ struct bench bench;
	struct error error;

	bench_open(&bench, *state);
	act(&bench, nic_host_files_put);
	assert_rules(*state, true);
	assert_int_equal(journal_enter(bench.nic.role.root_fd, PHASE_UNLOADING, NULL, &error), 0);
	assert_int_equal(unlinkat(bench.nic.role.root_fd, "sys/class/net/ens1f0", 0), 0);
	act(&bench, nic_host_files_clear);
	act(&bench, nic_host_files_put);
	assert_rules(*state, true);
	assert_true(is_there(&bench, BLACKLIST));
	/* That swap is over: the next one has the interfaces of its own time. */
	journal_commit(bench.nic.role.root_fd);
	act(&bench, nic_host_files_clear);
	act(&bench, nic_host_files_put);
	assert_rules(*state, false);
}

/* A previous run had other places. */
static void test_places_change(void **state)
{
	_cleanup_bench_ struct bench bench;
	static char other[] = "host/etc/udev/rules.d/99.rules";

	bench_open(&bench, *state);
	act(&bench, nic_host_files_put);
	bench.nic.inputs.udev_rules = other;
	act(&bench, nic_host_files_clear);
	assert_false(is_there(&bench, RULES));
	assert_false(is_there(&bench, BLACKLIST));
	assert_false(is_there(&bench, JOURNAL));
}

/* As Mellanox/doca-driver-build writes them. */
#define STOCK_BLACKLIST                                                                             \
	"# blacklist ofed-related modules on host to prevent inbox or host OFED driver loading\n\n" \
	"blacklist mlx5_core\nblacklist ib_core\n"                                                  \
	"\n# blacklist third-party RDMA modules to prevent reload conflicts\nblacklist irdma\n"     \
	"\n# blacklist mlx5 auxiliary modules to prevent reload races\nblacklist mlx5_vdpa\n"
#define STOCK_RULES                                                                                \
	"ACTION!=\"add\", GOTO=\"mlnx_ofed_name_end\"\n"                                           \
	"SUBSYSTEM!=\"net\", GOTO=\"mlnx_ofed_name_end\"\n\n"                                      \
	"# Rename physical interfaces (first case) of virtual functions (second case).\n"          \
	"DRIVERS==\"mlx5_core\", ENV{ID_NET_NAME_PATH}!=\"\", \\\n"                                \
	"PROGRAM=\"/bin/sh -c 'echo $env{ID_NET_NAME_PATH} | sed -r -e s/np[01]$//'\", \\\n"       \
	"        ENV{ID_NET_NAME_PATH}=\"$result\"\n\nLABEL=\"mlnx_ofed_name_end\"\n"

static void test_what_the_stock_container_left(void **state)
{
	_cleanup_bench_ struct bench bench;

	bench_open(&bench, *state);
	folder_write_text(*state, BLACKLIST, STOCK_BLACKLIST);
	folder_write_text(*state, RULES, STOCK_RULES);
	act(&bench, nic_host_files_clear);
	assert_false(is_there(&bench, BLACKLIST));
	assert_false(is_there(&bench, RULES));
	assert_reported(&bench, "/" BLACKLIST ", which another NIC driver container left");
}

/* Put aside while ours is there, and back after that. */
static void expect_kept(void **state, const char *path, const char *content)
{
	_cleanup_bench_ struct bench bench;
	_cleanup_free_ char *before = NULL;
	_cleanup_free_ char *after = NULL;

	bench_open(&bench, *state);
	folder_write_text(*state, path, content);
	act(&bench, nic_host_files_clear);
	before = folder_read_text(*state, path);
	assert_string_equal(before, content);
	assert_reported(&bench, "existed before and is not ours");
	act(&bench, nic_host_files_put);
	act(&bench, nic_host_files_undo);
	after = folder_read_text(*state, path);
	assert_string_equal(after, content);
}

static void test_what_an_administrator_wrote_stays(void **state)
{
	expect_kept(state, BLACKLIST, "blacklist mlx5_core\nblacklist ib_core\n");
	expect_kept(state, BLACKLIST, "# no InfiniBand here\nblacklist mlx5_core\n");
	expect_kept(state, BLACKLIST, STOCK_BLACKLIST "options ib_core netns_mode=0\n");
	expect_kept(state, BLACKLIST, "# ours\n" STOCK_BLACKLIST);
	expect_kept(state, BLACKLIST, STOCK_BLACKLIST "# ours\n");
	expect_kept(state, RULES, STOCK_RULES "SUBSYSTEM==\"net\", NAME=\"rail0\"\n");
	expect_kept(state, RULES, "GOTO=\"mlnx_ofed_name_end\"\nLABEL=\"mlnx_ofed_name_end\"\n");
}

/* A host without /etc/modprobe.d and /etc/udev, or none at all: reported, and the start goes on. */
static void test_nowhere_to_put(void **state)
{
	_cleanup_bench_ struct bench bench;

	bench_open(&bench, *state);
	assert_int_equal(fs_remove_tree(((struct folder *) *state)->fd, "host"), 0);
	act(&bench, nic_host_files_clear);
	assert_reported(&bench, NULL);
	act(&bench, nic_host_files_put);
	assert_reported(&bench, "the host may load its own modules while they are replaced");
	assert_false(is_there(&bench, "host"));
	act(&bench, nic_unblock);
	act(&bench, nic_host_files_undo);
	assert_reported(&bench, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(test_names_of_ports_without_a_label),
		folder_test(test_names_with_ports),
		folder_test(test_names_of_representors),
		folder_test(test_two_ports_of_one_function),
		folder_test(test_names_that_are_left),
		folder_test(test_a_swap),
		folder_test(test_a_start_that_fails),
		folder_test(test_nothing_to_swap),
		folder_test(test_a_start_after_a_kill_in_the_middle),
		folder_test(test_places_change),
		folder_test(test_what_the_stock_container_left),
		folder_test(test_what_an_administrator_wrote_stays),
		folder_test(test_nowhere_to_put),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
