/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions whose interface is in a pod's network namespace, of a /sys in a folder, where such a
 * one has an empty folder "net".
 */
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <string.h>

#include "entrypoint/netstate/netlink_internal.h"
#include "entrypoint/netstate/netstate_internal.h"
#include "tests/unit/support.h"

#define PCI "sys/bus/pci/devices/"
#define PF  "0000:3b:00.0"
#define VF  "0000:3b:00.2"

struct bench {
	const struct folder *folder;
	struct netstate netstate;
	struct strv modules;
	struct statefile records;
	struct netstate_result result;
	struct run run;
	char reported[2048];
};

static void receive(void *context, const char *text)
{
	struct bench *bench = context;
	size_t length = strlen(bench->reported);

	(void) snprintf(bench->reported + length, sizeof(bench->reported) - length, "%s\n", text);
}

static void put_link(const struct folder *folder, const char *target, const char *path)
{
	assert_int_equal(symlinkat(target, folder->fd, path), 0);
}

static void make_function(const struct folder *folder, const char *name, const char *driver)
{
	char path[256];

	(void) snprintf(path, sizeof(path), PCI "%s/net", name);
	folder_subfolder(folder, path);
	(void) snprintf(path, sizeof(path), PCI "%s/driver", name);
	put_link(folder, driver, path);
}

static void begin(struct bench *bench, const struct folder *folder)
{
	*bench = (struct bench){ .folder = folder };
	assert_int_equal(strv_push(&bench->modules, "mlx5_core"), 0);
	bench->netstate = (struct netstate){ .root_fd = folder->fd,
		.modules = &bench->modules,
		.report = receive,
		.context = bench };
	bench->run = (struct run){ &bench->netstate, &bench->records, &bench->result };
	folder_subfolder(folder, "sys/module/mlx5_core/drivers");
	folder_subfolder(folder, "sys/bus/pci/drivers/mlx5_core");
	put_link(folder, "../../../bus/pci/drivers/mlx5_core",
		"sys/module/mlx5_core/drivers/pci:mlx5_core");
	make_function(folder, PF, "../../drivers/mlx5_core");
	put_link(folder, "../../devices/" PF, "sys/bus/pci/drivers/mlx5_core/" PF);
	folder_write_text(folder, PCI PF "/net/ens1f0/ifindex", "4\n");
	folder_write_text(folder, PCI PF "/sriov_numvfs", "1\n");
	make_function(folder, VF, "../../drivers/mlx5_core");
	put_link(folder, "../" PF, PCI VF "/physfn");
	put_link(folder, "../" VF, PCI PF "/virtfn0");
	folder_write_text(folder, PCI VF "/net/ens1f0v0/ifindex", "5\n");
}

static void end(struct bench *bench)
{
	strv_free(&bench->modules);
	statefile_free(&bench->records);
}

#define _cleanup_bench_ _cleanup_(end)

static void take_away(const struct folder *folder, const char *path)
{
	char file[256];

	(void) snprintf(file, sizeof(file), "%s/ifindex", path);
	assert_int_equal(unlinkat(folder->fd, file, 0), 0);
	assert_int_equal(unlinkat(folder->fd, path, AT_REMOVEDIR), 0);
}

static void expect_away(struct bench *bench, const char *device)
{
	assert_int_equal(netns_save(&bench->run), 0);
	assert_int_equal(bench->records.count, 1);
	assert_string_equal(bench->records.items[0].kind, "away");
	assert_string_equal(record_get(&bench->records.items[0], "device"), device);
	assert_contains(bench->reported, device);
	assert_contains(bench->reported, "and is removed with the driver: restart that pod");
}

static void what_is_here_is_not_away(void **state)
{
	_cleanup_bench_ struct bench bench;

	begin(&bench, *state);
	assert_int_equal(netns_save(&bench.run), 0);
	assert_int_equal(bench.records.count, 0);
	assert_string_equal(bench.reported, "");
}

static void a_vf_in_a_pod_is_reported_and_written_down(void **state)
{
	_cleanup_bench_ struct bench bench;

	begin(&bench, *state);
	take_away(*state, PCI VF "/net/ens1f0v0");
	expect_away(&bench, "pci/" VF);
	/* A later run has it in the state file. */
	*bench.reported = '\0';
	assert_int_equal(netns_save(&bench.run), 0);
	assert_int_equal(bench.records.count, 1);
	assert_string_equal(bench.reported, "");
}

static void a_vf_without_an_interface_or_a_driver_is_not_away(void **state)
{
	_cleanup_bench_ struct bench bench;

	begin(&bench, *state);
	take_away(*state, PCI VF "/net/ens1f0v0");
	assert_int_equal(unlinkat(bench.folder->fd, PCI VF "/driver", 0), 0);
	assert_int_equal(netns_save(&bench.run), 0);
	assert_int_equal(bench.records.count, 0);
	put_link(*state, "../../drivers/mlx5_core", PCI VF "/driver");
	/* InfiniBand without IPoIB. */
	assert_int_equal(unlinkat(bench.folder->fd, PCI VF "/net", AT_REMOVEDIR), 0);
	assert_int_equal(netns_save(&bench.run), 0);
	assert_int_equal(bench.records.count, 0);
}

static void a_pf_of_which_only_representors_are_here_is_away(void **state)
{
	_cleanup_bench_ struct bench bench;

	begin(&bench, *state);
	folder_write_text(*state, PCI PF "/net/rep0/ifindex", "9\n");
	folder_write_text(*state, PCI PF "/net/rep0/phys_port_name", "pf0vf0\n");
	take_away(*state, PCI PF "/net/ens1f0");
	expect_away(&bench, "pci/" PF);
}

static void a_subfunction_in_a_pod_is_reported(void **state)
{
	_cleanup_bench_ struct bench bench;

	begin(&bench, *state);
	folder_write_text(*state, PCI PF "/mlx5_core.sf.2/sfnum", "88\n");
	folder_subfolder(*state, PCI PF "/mlx5_core.sf.2/net");
	folder_subfolder(*state, "sys/bus/auxiliary/devices");
	put_link(*state, "../../pci/devices/" PF "/mlx5_core.sf.2",
		"sys/bus/auxiliary/devices/mlx5_core.sf.2");
	put_link(*state, "../../../../auxiliary/drivers/mlx5_core.sf",
		PCI PF "/mlx5_core.sf.2/driver");
	folder_subfolder(*state, "sys/bus/auxiliary/drivers/mlx5_core.sf");
	expect_away(&bench, "auxiliary/mlx5_core.sf.2");
}

static void what_went_from_a_pod_is_listed(void **state)
{
	_cleanup_bench_ struct bench bench;
	struct record *record;

	begin(&bench, *state);
	take_away(*state, PCI VF "/net/ens1f0v0");
	assert_int_equal(netns_save(&bench.run), 0);
	record = &bench.records.items[0];
	assert_int_equal(record_set(record, "where", "pod jobs/trainer-0"), 0);
	/* The driver has gone and come. */
	folder_write_text(*state, PCI VF "/net/ens1f0v0/ifindex", "25\n");
	netns_restore(&bench.run);
	assert_int_equal(bench.records.count, 0);
	assert_int_equal(bench.result.failures, 1);
	assert_contains(bench.reported,
		"could not be restored: pci/" VF ": its interface was in another "
		"network namespace (pod jobs/trainer-0) and was removed");
}

static void what_never_went_is_not_listed(void **state)
{
	_cleanup_bench_ struct bench bench;

	begin(&bench, *state);
	take_away(*state, PCI VF "/net/ens1f0v0");
	assert_int_equal(netns_save(&bench.run), 0);
	netns_restore(&bench.run);
	assert_int_equal(bench.records.count, 0);
	assert_int_equal(bench.result.failures, 0);
}

/* ---- what the kernel says of another namespace */

static struct nlmsghdr *new_link(char *buffer, bool is_of_another)
{
	struct nlmsghdr *message = mnl_nlmsg_put_header(buffer);

	message->nlmsg_type = RTM_NEWLINK;
	(void) mnl_nlmsg_put_extra_header(message, sizeof(struct ifinfomsg));
	if (is_of_another)
		mnl_attr_put_u32(message, IFLA_TARGET_NETNSID, 3);
	mnl_attr_put_strz(message, IFLA_IFNAME, "net1");
	return message;
}

static void an_interface_elsewhere_is_known_by_its_device(void **state)
{
	struct statefile links = { 0 };
	char buffer[1024];
	struct nlmsghdr *message = new_link(buffer, true);

	(void) state;
	assert_int_equal(netns_take(&links, message), 0); /* a veth */
	assert_int_equal(links.count, 0);
	mnl_attr_put_strz(message, IFLA_PARENT_DEV_NAME, VF);
	mnl_attr_put_strz(message, IFLA_PARENT_DEV_BUS_NAME, "pci");
	assert_int_equal(netns_take(&links, message), 0);
	assert_int_equal(links.count, 1);
	assert_string_equal(record_get(&links.items[0], "device"), "pci/" VF);
	assert_string_equal(record_get(&links.items[0], "name"), "net1");
	/* The message of an older kernel about this link. */
	message = new_link(buffer, false);
	mnl_attr_put_strz(message, IFLA_PARENT_DEV_NAME, VF);
	mnl_attr_put_strz(message, IFLA_PARENT_DEV_BUS_NAME, "pci");
	assert_int_equal(netns_take(&links, message), 0);
	assert_int_equal(links.count, 1);
	statefile_free(&links);
}

static void an_interface_made_on_another_is_known_by_that(void **state)
{
	struct statefile links = { 0 };
	struct nlmsghdr *message;
	struct nlattr *info;
	char buffer[1024];

	(void) state;
	message = new_link(buffer, true);
	mnl_attr_put_u32(message, IFLA_LINK, 7);
	info = mnl_attr_nest_start(message, IFLA_LINKINFO);
	mnl_attr_put_strz(message, IFLA_INFO_KIND, "macvlan");
	mnl_attr_nest_end(message, info);
	assert_int_equal(netns_take(&links, message), 0); /* of an interface in that namespace */
	assert_int_equal(links.count, 0);
	mnl_attr_put_u32(message, IFLA_LINK_NETNSID, 0);
	assert_int_equal(netns_take(&links, message), 0);
	assert_int_equal(links.count, 1);
	assert_string_equal(record_get(&links.items[0], "kind"), "macvlan");
	assert_string_equal(record_get(&links.items[0], "lower"), "7");
	assert_string_equal(record_get(&links.items[0], "lower_netns"), "0");
	assert_string_equal(record_get(&links.items[0], "netns"), "3");
	statefile_free(&links);
}

static void status_can_list_them(void **state)
{
	_cleanup_strv_ struct strv lines = { 0 };
	_cleanup_bench_ struct bench bench;

	begin(&bench, *state);
	take_away(*state, PCI VF "/net/ens1f0v0");
	assert_int_equal(netstate_list_in_pods(bench.folder->fd, &bench.modules, &lines), 0);
	assert_int_equal(lines.count, 1);
	assert_string_equal(lines.items[0],
		"pci/" VF ": its interface is in another network namespace (a pod's)");
}

/* A state file that another version wrote. */
static void a_record_without_a_number_is_of_any_namespace(void **state)
{
	_cleanup_bench_ struct bench bench;

	begin(&bench, *state);
	take_away(*state, PCI VF "/net/ens1f0v0");
	assert_non_null(records_add(&bench.records, NETNS_KIND, "device", "pci/" VF, "netns", "3"));
	netns_restore(&bench.run);
	assert_int_equal(bench.result.failures, 0);
	/* The other way round: what is found has no number, and the record has. */
	assert_int_equal(bench.records.count, 0);
	assert_non_null(records_add(&bench.records, NETNS_KIND, "device", "pci/" VF, "netns", "3"));
	assert_int_equal(netns_save(&bench.run), 0);
	assert_int_equal(bench.records.count, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(what_is_here_is_not_away),
		folder_test(a_vf_in_a_pod_is_reported_and_written_down),
		folder_test(a_vf_without_an_interface_or_a_driver_is_not_away),
		folder_test(a_pf_of_which_only_representors_are_here_is_away),
		folder_test(a_subfunction_in_a_pod_is_reported),
		folder_test(what_went_from_a_pod_is_listed),
		folder_test(what_never_went_is_not_listed),
		cmocka_unit_test(an_interface_elsewhere_is_known_by_its_device),
		cmocka_unit_test(an_interface_made_on_another_is_known_by_that),
		folder_test(status_can_list_them),
		folder_test(a_record_without_a_number_is_of_any_namespace),
	};

	return cmocka_run_group_tests_name("netns", tests, NULL, NULL);
}
