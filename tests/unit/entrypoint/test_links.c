/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Against this machine's own kernel, in a network namespace that has but a loopback interface,
 * which a /sys in a folder makes a driver's.
 */
#include <arpa/inet.h>
#include <linux/fib_rules.h>
#include <linux/if.h>
#include <linux/if_addr.h>
#include <linux/neighbour.h>
#include <linux/nexthop.h>
#include <linux/rtnetlink.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "common/fs.h"
#include "entrypoint/netstate/link_internal.h"
#include "tests/unit/saved_states.h"
#include "tests/unit/support.h"

#define _cleanup_netlink_   _cleanup_(netlink_close)
#define _cleanup_statefile_ _cleanup_(statefile_free)
#define DEVICE              "sys/devices/pci0000:3a/0000:3b:00.0"
#define LOOPBACK            1

/* ---- a node */

static void put_link(const struct folder *folder, const char *target, const char *path)
{
	assert_int_equal(symlinkat(target, folder->fd, path), 0);
}

static void give_device(const struct folder *folder)
{
	put_link(folder, "../../../devices/pci0000:3a/0000:3b:00.0", "sys/class/net/lo/device");
}

static int make_node(void **state)
{
	const struct folder *folder;

	if (unshare(CLONE_NEWNET) < 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0)
		return -1;
	if (folder_make(state) < 0)
		return -1;
	folder = *state;
	folder_write_text(folder, "sys/class/net/lo/dev_port", "0\n");
	folder_write_text(folder, "sys/class/net/lo/ifindex", "1\n");
	folder_subfolder(folder, DEVICE);
	folder_subfolder(folder, "sys/bus/pci/drivers/test_nic");
	folder_subfolder(folder, "sys/module/test_nic");
	put_link(folder, "../../../bus/pci", DEVICE "/subsystem");
	put_link(folder, "../../../bus/pci/drivers/test_nic", DEVICE "/driver");
	put_link(folder, "../../../../module/test_nic", "sys/bus/pci/drivers/test_nic/module");
	give_device(folder);
	folder_write_text(folder, "proc/sys/kernel/random/boot_id", "this-boot\n");
	folder_write_text(folder, "proc/sys/net/ipv4/conf/default/rp_filter", "0\n");
	folder_write_text(folder, "proc/sys/net/ipv4/conf/lo/rp_filter", "2\n");
	folder_write_text(folder, "proc/sys/net/ipv4/conf/default/mtu", "1\n");
	folder_write_text(folder, "proc/sys/net/ipv4/conf/lo/mtu", "2\n");
	return 0;
}

#define node_test(function) cmocka_unit_test_setup_teardown(function, make_node, folder_remove)

/* ---- what a person does to it */

static struct netlink *open_route(void)
{
	struct netlink *netlink = NULL;
	struct error error = { 0 };

	if (netlink_open(NETLINK_ROUTE, &netlink, &error) < 0)
		fail_msg("%s", error.text);
	return netlink;
}

static void talk(struct netlink *netlink, struct nlmsghdr *request)
{
	struct error error = { 0 };

	if (netlink_talk(netlink, request, NULL, NULL, &error) < 0)
		fail_msg("%s", error.text);
}

static void change_link(struct netlink *netlink, unsigned flags, uint32_t mtu)
{
	struct nlmsghdr *request =
		netlink_request(netlink, RTM_NEWLINK, 0, sizeof(struct ifinfomsg));
	struct ifinfomsg *link = mnl_nlmsg_get_payload(request);

	link->ifi_index = LOOPBACK;
	link->ifi_change = IFF_UP;
	link->ifi_flags = flags;
	mnl_attr_put_u32(request, IFLA_MTU, mtu);
	talk(netlink, request);
}

static void address(
	struct netlink *netlink, uint16_t type, const char *text, uint8_t prefix, uint32_t valid_s)
{
	struct nlmsghdr *request = netlink_request(
		netlink, type, type == RTM_NEWADDR ? NLM_F_CREATE : 0, sizeof(struct ifaddrmsg));
	struct ifaddrmsg *header = mnl_nlmsg_get_payload(request);
	struct ifa_cacheinfo lifetimes = { .ifa_prefered = valid_s, .ifa_valid = valid_s };
	struct in_addr bytes;

	assert_int_equal(inet_pton(AF_INET, text, &bytes), 1);
	header->ifa_family = AF_INET;
	header->ifa_prefixlen = prefix;
	header->ifa_index = LOOPBACK;
	mnl_attr_put(request, IFA_LOCAL, sizeof(bytes), &bytes);
	mnl_attr_put(request, IFA_ADDRESS, sizeof(bytes), &bytes);
	mnl_attr_put(request, IFA_CACHEINFO, sizeof(lifetimes), &lifetimes);
	talk(netlink, request);
}

static void add_route(struct netlink *netlink, const char *to, const char *via)
{
	struct nlmsghdr *request =
		netlink_request(netlink, RTM_NEWROUTE, NLM_F_CREATE, sizeof(struct rtmsg));
	struct rtmsg *route = mnl_nlmsg_get_payload(request);
	struct in_addr bytes;

	route->rtm_family = AF_INET;
	route->rtm_dst_len = 24;
	route->rtm_table = 77;
	route->rtm_protocol = RTPROT_STATIC;
	route->rtm_type = RTN_UNICAST;
	route->rtm_scope = via ? RT_SCOPE_UNIVERSE : RT_SCOPE_LINK;
	route->rtm_flags = via ? RTNH_F_ONLINK : 0;
	assert_int_equal(inet_pton(AF_INET, to, &bytes), 1);
	mnl_attr_put(request, RTA_DST, sizeof(bytes), &bytes);
	if (via) {
		assert_int_equal(inet_pton(AF_INET, via, &bytes), 1);
		mnl_attr_put(request, RTA_GATEWAY, sizeof(bytes), &bytes);
	}
	mnl_attr_put_u32(request, RTA_OIF, LOOPBACK);
	talk(netlink, request);
}

static void rule(struct netlink *netlink, uint16_t type)
{
	struct nlmsghdr *request = netlink_request(
		netlink, type, type == RTM_NEWRULE ? NLM_F_CREATE : 0, sizeof(struct fib_rule_hdr));
	struct fib_rule_hdr *header = mnl_nlmsg_get_payload(request);

	header->family = AF_INET;
	header->action = FR_ACT_TO_TBL;
	mnl_attr_put_u32(request, FRA_TABLE, 77);
	mnl_attr_put_u32(request, FRA_PRIORITY, 1234);
	mnl_attr_put_strz(request, FRA_IIFNAME, "lo");
	talk(netlink, request);
}

static void add_proxy(struct netlink *netlink)
{
	struct nlmsghdr *request =
		netlink_request(netlink, RTM_NEWNEIGH, NLM_F_CREATE, sizeof(struct ndmsg));
	struct ndmsg *header = mnl_nlmsg_get_payload(request);
	struct in_addr bytes;

	header->ndm_family = AF_INET;
	header->ndm_ifindex = LOOPBACK;
	header->ndm_flags = NTF_PROXY;
	assert_int_equal(inet_pton(AF_INET, "10.0.0.99", &bytes), 1);
	mnl_attr_put(request, NDA_DST, sizeof(bytes), &bytes);
	talk(netlink, request);
}

static void configure(struct netlink *netlink)
{
	change_link(netlink, IFF_UP, 30000);
	address(netlink, RTM_NEWADDR, "10.0.0.1", 24, UINT32_MAX);
	address(netlink, RTM_NEWADDR, "10.0.0.2", 24, UINT32_MAX);
	address(netlink, RTM_NEWADDR, "10.0.1.1", 24, 3000);
	add_route(netlink, "10.8.0.0", NULL);
	add_route(netlink, "10.9.0.0", "10.8.0.1");
	rule(netlink, RTM_NEWRULE);
	add_proxy(netlink);
}

/* Leaves an interface as a new driver's: setting it down drops routes and neighbours. */
static void forget(struct netlink *netlink)
{
	address(netlink, RTM_DELADDR, "10.0.1.1", 24, 0);
	address(netlink, RTM_DELADDR, "10.0.0.2", 24, 0);
	address(netlink, RTM_DELADDR, "10.0.0.1", 24, 0);
	rule(netlink, RTM_DELRULE);
	change_link(netlink, 0, 65536);
}

/* ---- what is there */

static int count_message(void *context, const struct nlmsghdr *message)
{
	(void) message;
	(*(unsigned *) context)++;
	return 0;
}

static unsigned count(struct netlink *netlink, uint16_t type, size_t header_size)
{
	struct nlmsghdr *request = netlink_request(netlink, type, NLM_F_DUMP, header_size);
	struct error error = { 0 };
	unsigned messages = 0;

	*(uint8_t *) mnl_nlmsg_get_payload(request) = AF_INET;
	assert_int_equal(netlink_talk(netlink, request, count_message, &messages, &error), 0);
	return messages;
}

/* The kernel's whole word on routes, rules and addresses but for lifetimes: how many there are. */
struct counts {
	unsigned addresses, routes, rules;
};

static struct counts count_all(struct netlink *netlink)
{
	return (struct counts){ count(netlink, RTM_GETADDR, sizeof(struct ifaddrmsg)),
		count(netlink, RTM_GETROUTE, sizeof(struct rtmsg)),
		count(netlink, RTM_GETRULE, sizeof(struct fib_rule_hdr)) };
}

struct attempt {
	struct strv modules;
	struct netstate netstate;
	struct netstate_result result;
	struct run run;
	struct error error;
	struct strv reported;
	char first[256]; /* failure */
};

#define FAILURE "could not be restored: "

static void keep(void *context, const char *text)
{
	struct attempt *attempt = context;

	if (!*attempt->first && strncmp(text, FAILURE, strlen(FAILURE)) == 0)
		(void) snprintf(
			attempt->first, sizeof(attempt->first), "%s", text + strlen(FAILURE));
	assert_int_equal(strv_push(&attempt->reported, text), 0);
}

static void begin(struct attempt *attempt, const struct folder *folder, const char *module)
{
	*attempt = (struct attempt){ 0 };
	assert_int_equal(strv_push(&attempt->modules, module), 0);
	attempt->netstate = (struct netstate){ .root_fd = folder->fd,
		.modules = &attempt->modules,
		.bind_ms = 50,
		.report = keep,
		.context = attempt };
	attempt->run = (struct run){ .netstate = &attempt->netstate, .result = &attempt->result };
}

static void end(struct attempt *attempt)
{
	strv_free(&attempt->modules);
	strv_free(&attempt->reported);
}

#define _cleanup_attempt_ _cleanup_(end)

static void save(struct attempt *attempt, struct statefile *records)
{
	struct record *boot = statefile_add(records, "boot");

	assert_int_equal(record_set(boot, "id", "this-boot"), 0);
	attempt->run.records = records;
	if (links_save(&attempt->run, &attempt->error) < 0)
		fail_msg("%s", attempt->error.text);
}

static void restore(struct attempt *attempt, struct statefile *records)
{
	attempt->run.records = records;
	if (links_restore(&attempt->run, &attempt->error) < 0)
		fail_msg("%s", attempt->error.text);
}

static const struct record *find(struct statefile *records, const char *kind)
{
	for (size_t i = 0; i < records->count; i++)
		if (strcmp(records->items[i].kind, kind) == 0)
			return &records->items[i];
	return NULL;
}

/* ---- tests */

static void what_an_interface_had_comes_back(void **state)
{
	_cleanup_netlink_ struct netlink *netlink = open_route();
	_cleanup_statefile_ struct statefile records = { 0 };
	_cleanup_free_ char *filter = NULL;
	_cleanup_attempt_ struct attempt attempt;
	struct counts before;
	struct counts after;

	begin(&attempt, *state, "test_nic");
	configure(netlink);
	before = count_all(netlink);
	save(&attempt, &records);
	forget(netlink);
	folder_write_text(*state, "proc/sys/net/ipv4/conf/lo/rp_filter", "0\n");
	restore(&attempt, &records);
	assert_string_equal(attempt.first, "");
	assert_int_equal(attempt.result.failures, 0);
	assert_int_equal(attempt.result.links, 1);
	after = count_all(netlink);
	assert_int_equal(after.addresses, before.addresses);
	assert_int_equal(after.routes, before.routes);
	assert_int_equal(after.rules, before.rules);
	filter = folder_read_text(*state, "proc/sys/net/ipv4/conf/lo/rp_filter");
	assert_int_equal(filter[0], '2');
}

static void it_can_be_restored_twice(void **state)
{
	_cleanup_netlink_ struct netlink *netlink = open_route();
	_cleanup_statefile_ struct statefile records = { 0 };
	_cleanup_attempt_ struct attempt attempt;
	struct counts before;
	struct counts after;

	begin(&attempt, *state, "test_nic");
	configure(netlink);
	before = count_all(netlink);
	save(&attempt, &records);
	restore(&attempt, &records);
	assert_int_equal(attempt.result.failures, 0);
	after = count_all(netlink);
	assert_memory_equal(&after, &before, sizeof(before));
}

static void the_journal_can_be_read(void **state)
{
	_cleanup_netlink_ struct netlink *netlink = open_route();
	_cleanup_statefile_ struct statefile records = { 0 };
	_cleanup_attempt_ struct attempt attempt;
	const struct record *link;
	const struct record *sysctls;

	begin(&attempt, *state, "test_nic");
	configure(netlink);
	save(&attempt, &records);
	link = find(&records, "link");
	assert_string_equal(record_get(link, "name"), "lo");
	assert_string_equal(record_get(link, "device"), "pci/0000:3b:00.0");
	assert_string_equal(record_get(link, "mtu"), "30000");
	assert_string_equal(record_get(find(&records, "address"), "link"), "lo");
	assert_string_equal(record_get(find(&records, "route"), "text"), "10.8.0.0/24, table 77");
	assert_string_equal(record_get(find(&records, "rule"), "text"), "rule of priority 1234");
	assert_string_equal(record_get(find(&records, "neighbour"), "text"), "10.0.0.99");
	sysctls = find(&records, "sysctls");
	assert_string_equal(record_get(sysctls, "ipv4.conf.rp_filter"), "2");
	assert_null(record_get(sysctls, "ipv4.conf.mtu"));
}

static bool has_text(const struct statefile *records, const struct record *wanted)
{
	for (size_t i = 0; i < records->count; i++) {
		const char *text = record_get(&records->items[i], "text");

		if (strcmp(records->items[i].kind, wanted->kind) == 0 && text &&
			strcmp(text, record_get(wanted, "text")) == 0)
			return true;
	}
	return false;
}

static void what_an_earlier_version_saved_comes_back(void **state)
{
	_cleanup_statefile_ struct statefile records = { 0 };
	_cleanup_statefile_ struct statefile saved = { 0 };
	_cleanup_statefile_ struct statefile now = { 0 };
	_cleanup_free_ char *filter = NULL;
	_cleanup_attempt_ struct attempt attempt;
	size_t texts = 0;

	begin(&attempt, *state, "test_nic");
	folder_write_text(*state, "proc/sys/net/ipv4/conf/lo/rp_filter", "0\n");
	assert_int_equal(
		statefile_parse(SAVED_LINKS, strlen(SAVED_LINKS), "saved", &saved, &attempt.error),
		0);
	assert_int_equal(statefile_parse(SAVED_LINKS, strlen(SAVED_LINKS), "saved", &records,
				 &attempt.error),
		0);
	restore(&attempt, &records);
	assert_string_equal(attempt.first, "");
	assert_int_equal(attempt.result.links, 1);
	assert_int_equal(records.count, 1); /* the boot's */
	filter = folder_read_text(*state, "proc/sys/net/ipv4/conf/lo/rp_filter");
	assert_int_equal(filter[0], '2');
	save(&attempt, &now);
	for (size_t i = 0; i < saved.count; i++) {
		if (!record_get(&saved.items[i], "text"))
			continue;
		texts++;
		if (!has_text(&now, &saved.items[i]))
			fail_msg("%s %s is not back", saved.items[i].kind,
				record_get(&saved.items[i], "text"));
	}
	assert_int_equal(texts, 16);
	assert_string_equal(record_get(find(&now, "link"), "mtu"), "30000");
	assert_string_equal(record_get(find(&now, "link"), "alias"), "a b");
	assert_string_equal(record_get(find(&now, "link"), "altnames"), "looped");
	assert_string_equal(record_get(find(&now, "link"), "group"), "7");
}

/*
 * Overrides the library's function: each message of so many dumps is marked as interrupted by a
 * change.
 */
static int interrupted_dumps;

ssize_t mnl_socket_recvfrom(const struct mnl_socket *socket, void *data, size_t size)
{
	ssize_t got = recv(mnl_socket_get_fd(socket), data, size, 0);
	struct nlmsghdr *message = data;
	int left = (int) got;
	bool is_end = false;

	for (; interrupted_dumps > 0 && mnl_nlmsg_ok(message, left);
		message = mnl_nlmsg_next(message, &left)) {
		message->nlmsg_flags |= NLM_F_DUMP_INTR;
		is_end = is_end || message->nlmsg_type == NLMSG_DONE;
	}
	interrupted_dumps -= is_end;
	return got;
}

static void what_changes_while_it_is_read_is_read_again(void **state)
{
	_cleanup_statefile_ struct statefile records = { 0 };
	_cleanup_attempt_ struct attempt attempt;

	begin(&attempt, *state, "test_nic");
	save(&attempt, &records);
	interrupted_dumps = 8; /* netlink_talk() asks so often */
	restore(&attempt, &records);
	assert_int_equal(interrupted_dumps, 0);
	assert_string_equal(attempt.first, "");
	assert_int_equal(attempt.result.links, 1);
}

static void what_never_can_be_read_is_an_error(void **state)
{
	_cleanup_statefile_ struct statefile records = { 0 };
	_cleanup_attempt_ struct attempt attempt;

	begin(&attempt, *state, "test_nic");
	save(&attempt, &records);
	interrupted_dumps = 1000;
	attempt.run.records = &records;
	assert_int_equal(links_restore(&attempt.run, &attempt.error), -EAGAIN);
	interrupted_dumps = 0;
	assert_contains(attempt.error.text, "interfaces: netlink: the answer changed while it "
					    "was read");
	assert_int_equal(attempt.result.failures, 0);
	assert_non_null(find(&records, "link"));
}

static void another_drivers_interface_is_left_alone(void **state)
{
	_cleanup_statefile_ struct statefile records = { 0 };
	_cleanup_attempt_ struct attempt attempt;

	begin(&attempt, *state, "another");
	save(&attempt, &records);
	assert_null(find(&records, "link"));
}

static void a_lifetime_runs_on(void **state)
{
	_cleanup_netlink_ struct netlink *netlink = open_route();
	_cleanup_statefile_ struct statefile records = { 0 };
	_cleanup_attempt_ struct attempt attempt;
	unsigned before;

	begin(&attempt, *state, "test_nic");
	configure(netlink);
	before = count_all(netlink).addresses;
	save(&attempt, &records);
	forget(netlink);
	for (size_t i = 0; i < records.count; i++)
		if (record_get(&records.items[i], "since"))
			assert_int_equal(record_set(&records.items[i], "since", "0"), 0);
	/* Longer ago than this machine runs, or not at all: both are no failure. */
	restore(&attempt, &records);
	assert_int_equal(attempt.result.failures, 0);
	assert_true(count_all(netlink).addresses >= before - 1);
}

/* As /proc/net/packet has them: 4711 and 17 listen on the interface that goes, and 17 notices. */
static void a_dhcp_client_that_listens_in_vain_is_named(void **state)
{
	static const char before[] =
		"sk               RefCnt Type Proto  Iface R Rmem   User   Inode\n"
		"00000000758a89da 3      3    0003   1     1 0      0      4711\n"
		"00000000758a89db 3      3    88cc   1     1 0      0      17\n"
		"00000000758a89dc 3      3    0003   -1    0 0      0      47\n";
	static const char after[] =
		"sk               RefCnt Type Proto  Iface R Rmem   User   Inode\n"
		"00000000758a89da 2      3    0003   -1    0 0      0      4711\n"
		"00000000758a89db 3      3    88cc   1     1 0      0      17\n"
		"00000000758a89dc 3      3    0003   -1    0 0      0      47\n";
	_cleanup_netlink_ struct netlink *netlink = open_route();
	_cleanup_statefile_ struct statefile records = { 0 };
	_cleanup_attempt_ struct attempt attempt;

	begin(&attempt, *state, "test_nic");
	configure(netlink);
	folder_write_text(*state, "proc/net/packet", before);
	save(&attempt, &records);
	forget(netlink);
	folder_write_text(*state, "proc/net/packet", after);
	restore(&attempt, &records);
	assert_int_equal(attempt.result.failures, 1);
	assert_non_null(strstr(attempt.first, "lo: the lease of 10.0.1.1/24: its DHCP client"));
	assert_non_null(strstr(attempt.first, "ifdown --force lo; ifup lo"));
}

static void of_another_boot_nothing_with_a_lifetime_comes(void **state)
{
	_cleanup_netlink_ struct netlink *netlink = open_route();
	_cleanup_statefile_ struct statefile records = { 0 };
	_cleanup_attempt_ struct attempt attempt;
	unsigned before;

	begin(&attempt, *state, "test_nic");
	configure(netlink);
	before = count_all(netlink).addresses;
	save(&attempt, &records);
	forget(netlink);
	folder_write_text(*state, "proc/sys/kernel/random/boot_id", "that-boot\n");
	restore(&attempt, &records);
	assert_int_equal(attempt.result.failures, 0);
	assert_int_equal(count_all(netlink).addresses, before - 1);
}

static void what_the_host_has_up_is_the_hosts(void **state)
{
	_cleanup_netlink_ struct netlink *netlink = open_route();
	_cleanup_statefile_ struct statefile records = { 0 };
	_cleanup_free_ char *filter = NULL;
	_cleanup_attempt_ struct attempt attempt;

	begin(&attempt, *state, "test_nic");
	configure(netlink);
	save(&attempt, &records);
	folder_write_text(*state, "proc/sys/net/ipv4/conf/lo/rp_filter", "1\n");
	folder_write_text(*state, "proc/sys/kernel/random/boot_id", "that-boot\n");
	restore(&attempt, &records);
	filter = folder_read_text(*state, "proc/sys/net/ipv4/conf/lo/rp_filter");
	assert_int_equal(filter[0], '1');
}

/* An earlier run has restored it; that it went since then is not this run's. */
static void a_device_that_came_and_went_is_not_reported(void **state)
{
	const struct folder *folder = *state;
	_cleanup_statefile_ struct statefile records = { 0 };
	_cleanup_attempt_ struct attempt attempt;

	begin(&attempt, folder, "test_nic");
	save(&attempt, &records);
	assert_int_equal(record_set(&records.items[1], LINK_DONE, "1"), 0);
	assert_int_equal(unlinkat(folder->fd, "sys/class/net/lo/device", 0), 0);
	restore(&attempt, &records);
	assert_int_equal(attempt.reported.count, 0);
	assert_null(find(&records, "link"));
}

static void a_device_that_does_not_come_is_reported(void **state)
{
	const struct folder *folder = *state;
	_cleanup_statefile_ struct statefile records = { 0 };
	_cleanup_attempt_ struct attempt attempt;

	begin(&attempt, folder, "test_nic");
	save(&attempt, &records);
	assert_int_equal(unlinkat(folder->fd, "sys/class/net/lo/device", 0), 0);
	restore(&attempt, &records);
	assert_int_equal(attempt.result.failures, 1);
	assert_string_equal(
		attempt.first, "lo: no interface of pci/0000:3b:00.0 appeared within 50 ms");
	assert_int_equal(attempt.reported.count, 1);
}

/* As if udev had renamed it between the kernel's answer and the look into sysfs. */
static void what_is_renamed_while_it_is_read_is_read_again(void **state)
{
	const struct folder *folder = *state;
	_cleanup_netlink_ struct netlink *netlink = open_route();
	_cleanup_(link_table_free) struct link_table table = { 0 };
	struct error error = { 0 };

	assert_int_equal(
		renameat(folder->fd, "sys/class/net/lo", folder->fd, "sys/class/net/aside"), 0);
	assert_int_equal(link_table_read(folder->fd, netlink, &table, &error), 0);
	assert_string_equal(link_by_index(&table, LOOPBACK)->device, "");
	/* Another interface has the name. */
	folder_write_text(folder, "sys/class/net/lo/ifindex", "7\n");
	give_device(folder);
	assert_int_equal(link_table_read(folder->fd, netlink, &table, &error), 0);
	assert_string_equal(link_by_index(&table, LOOPBACK)->device, "");
	folder_write_text(folder, "sys/class/net/lo/ifindex", "1\n");
	assert_int_equal(link_table_read(folder->fd, netlink, &table, &error), 0);
	assert_string_equal(link_by_index(&table, LOOPBACK)->device, "pci/0000:3b:00.0");
}

/* ---- several ways, of which one is gone */

#define MISSING 99

static void add_raw(struct statefile *records, const char *kind, const struct nlmsghdr *message)
{
	struct record *record = statefile_add(records, kind);

	assert_int_equal(record_set(record, "life", "0"), 0);
	assert_int_equal(record_set(record, "text", "several"), 0);
	assert_int_equal(record_set_hex(record, "raw", mnl_nlmsg_get_payload(message),
				 mnl_nlmsg_get_payload_len(message)),
		0);
}

static void add_ways(struct netlink *netlink, struct statefile *records, int first, int second)
{
	struct nlmsghdr *message = netlink_request(netlink, RTM_NEWROUTE, 0, sizeof(struct rtmsg));
	struct rtmsg *route = mnl_nlmsg_get_payload(message);
	struct rtnexthop ways[2] = { { .rtnh_len = sizeof(ways[0]), .rtnh_ifindex = first },
		{ .rtnh_len = sizeof(ways[0]), .rtnh_ifindex = second } };
	struct in_addr bytes;

	route->rtm_family = AF_INET;
	route->rtm_dst_len = 24;
	route->rtm_table = 77;
	route->rtm_protocol = RTPROT_STATIC;
	route->rtm_type = RTN_UNICAST;
	route->rtm_scope = RT_SCOPE_LINK;
	assert_int_equal(inet_pton(AF_INET, "10.7.0.0", &bytes), 1);
	mnl_attr_put(message, RTA_DST, sizeof(bytes), &bytes);
	mnl_attr_put(message, RTA_MULTIPATH, sizeof(ways), ways);
	add_raw(records, "route", message);
}

static void a_route_goes_by_the_ways_that_are_left(void **state)
{
	_cleanup_netlink_ struct netlink *netlink = open_route();
	_cleanup_statefile_ struct statefile records = { 0 };
	_cleanup_attempt_ struct attempt attempt;
	unsigned before;

	begin(&attempt, *state, "test_nic");
	change_link(netlink, IFF_UP, 30000);
	save(&attempt, &records);
	before = count_all(netlink).routes;
	add_ways(netlink, &records, MISSING, LOOPBACK);
	restore(&attempt, &records);
	assert_int_equal(count_all(netlink).routes, before + 1);
	assert_int_equal(attempt.result.failures, 1);
	assert_string_equal(attempt.first,
		"route several: without 1 of its paths, whose interfaces are missing");
}

/* One that does not come, so that what is not back is pending. */
static void add_absent(struct statefile *records)
{
	struct record *other = statefile_add(records, "link");

	assert_int_equal(record_set(other, "name", "other"), 0);
	assert_int_equal(record_set(other, "device", "pci/0000:3c:00.0"), 0);
	assert_int_equal(record_set(other, "index", "99"), 0);
}

static int count_ways(void *context, const struct nlmsghdr *message)
{
	unsigned *ways = context;
	const struct nlattr *attribute;

	mnl_attr_for_each(attribute, message, sizeof(struct rtmsg))
	{
		const struct rtnexthop *way = mnl_attr_get_payload(attribute);
		int left = mnl_attr_get_payload_len(attribute);

		if (mnl_attr_get_type(attribute) != RTA_MULTIPATH)
			continue;
		for (; RTNH_OK(way, left); left -= NLMSG_ALIGN(way->rtnh_len), way = RTNH_NEXT(way))
			++*ways;
	}
	return 0;
}

/* Counts the ways of all routes together: routes with one way have no list of them. */
static unsigned ways_of_all(struct netlink *netlink)
{
	struct nlmsghdr *request =
		netlink_request(netlink, RTM_GETROUTE, NLM_F_DUMP, sizeof(struct rtmsg));
	struct error error = { 0 };
	unsigned ways = 0;

	assert_int_equal(netlink_talk(netlink, request, count_ways, &ways, &error), 0);
	return ways;
}

static unsigned rules_and_routes(struct netlink *netlink)
{
	struct counts counts = count_all(netlink);

	return counts.rules + counts.routes;
}

/* All that is not pending is the node's own: an administrator may have removed it meanwhile. */
static void the_next_start_adds_only_what_is_missing(void **state)
{
	_cleanup_netlink_ struct netlink *netlink = open_route();
	_cleanup_statefile_ struct statefile records = { 0 };
	_cleanup_attempt_ struct attempt attempt;
	struct record *vlan;
	unsigned before;

	begin(&attempt, *state, "test_nic");
	configure(netlink);
	save(&attempt, &records);
	add_absent(&records);
	vlan = statefile_add(&records, "link");
	assert_int_equal(record_set(vlan, "name", "removed"), 0);
	assert_int_equal(record_set(vlan, "kind", "vlan"), 0);
	assert_int_equal(record_set(vlan, "over", "other"), 0);
	assert_int_equal(record_set(vlan, LINK_DONE, "1"), 0);
	restore(&attempt, &records);
	assert_string_equal(
		attempt.first, "other: no interface of pci/0000:3c:00.0 appeared within 50 ms");
	assert_int_equal(attempt.result.failures, 1);
	assert_null(find(&records, "route"));
	assert_null(find(&records, "rule"));
	forget(netlink);
	before = rules_and_routes(netlink);
	restore(&attempt, &records);
	assert_int_equal(rules_and_routes(netlink), before);
}

/* Its second interface came too late for the first try. */
static void a_route_that_is_whole_again_takes_its_parts_place(void **state)
{
	_cleanup_netlink_ struct netlink *netlink = open_route();
	_cleanup_statefile_ struct statefile records = { 0 };
	_cleanup_statefile_ struct statefile whole = { 0 };
	_cleanup_attempt_ struct attempt attempt;
	unsigned before;

	begin(&attempt, *state, "test_nic");
	change_link(netlink, IFF_UP, 30000);
	save(&attempt, &records);
	before = count_all(netlink).routes;
	add_absent(&records);
	add_ways(netlink, &records, MISSING, LOOPBACK);
	add_ways(netlink, &whole, LOOPBACK, LOOPBACK);
	restore(&attempt, &records);
	assert_int_equal(count_all(netlink).routes, before + 1);
	assert_int_equal(ways_of_all(netlink), 0);
	assert_non_null(find(&records, "route"));
	for (size_t i = 0; i < records.count; i++)
		if (strcmp(records.items[i].kind, "route") == 0)
			assert_int_equal(record_set(&records.items[i], "raw",
						 record_get(&whole.items[0], "raw")),
				0);
	restore(&attempt, &records);
	assert_int_equal(count_all(netlink).routes, before + 1);
	assert_int_equal(ways_of_all(netlink), 2);
}

static void add_nexthop(struct netlink *netlink, struct statefile *records, uint32_t id,
	uint32_t oif, const struct nexthop_grp *members, size_t count)
{
	struct nlmsghdr *message =
		netlink_request(netlink, RTM_NEWNEXTHOP, 0, sizeof(struct nhmsg));
	struct nhmsg *header = mnl_nlmsg_get_payload(message);

	header->nh_family = members ? AF_UNSPEC : AF_INET;
	header->nh_protocol = RTPROT_STATIC;
	mnl_attr_put_u32(message, NHA_ID, id);
	if (members)
		mnl_attr_put(message, NHA_GROUP, count * sizeof(*members), members);
	else
		mnl_attr_put_u32(message, NHA_OIF, oif);
	add_raw(records, "nexthop", message);
}

static void a_group_has_the_members_that_are_left(void **state)
{
	static const struct nexthop_grp members[] = { { .id = 7 }, { .id = 8 } };
	_cleanup_netlink_ struct netlink *netlink = open_route();
	_cleanup_statefile_ struct statefile records = { 0 };
	_cleanup_attempt_ struct attempt attempt;

	begin(&attempt, *state, "test_nic");
	change_link(netlink, IFF_UP, 30000);
	save(&attempt, &records);
	/* The group first: the kernel tells nexthops by number. */
	add_nexthop(netlink, &records, 5, 0, members, ARRAY_SIZE(members));
	add_nexthop(netlink, &records, 7, MISSING, NULL, 0);
	add_nexthop(netlink, &records, 8, LOOPBACK, NULL, 0);
	restore(&attempt, &records);
	/* Only IPv4 nexthops are counted: a group has no family. */
	assert_int_equal(count(netlink, RTM_GETNEXTHOP, sizeof(struct nhmsg)), 1);
	assert_int_equal(attempt.result.failures, 1);
	assert_string_equal(attempt.first,
		"nexthop several: without 1 of its paths, whose interfaces are missing");
}

static int see_buckets(void *context, const struct nlmsghdr *message)
{
	const struct nlattr *group = netlink_attribute(message, sizeof(struct nhmsg), 12);

	if (group)
		*(uint32_t *) context = netlink_number(netlink_nested(group, 1));
	return 0;
}

static void a_resilient_group_has_its_buckets(void **state)
{
	static const struct nexthop_grp members[] = { { .id = 8 } };
	_cleanup_netlink_ struct netlink *netlink = open_route();
	_cleanup_statefile_ struct statefile records = { 0 };
	_cleanup_attempt_ struct attempt attempt;
	struct nlmsghdr *message;
	struct nhmsg *header;
	struct nlattr *nest;
	uint32_t buckets = 0;
	struct error error;

	begin(&attempt, *state, "test_nic");
	change_link(netlink, IFF_UP, 30000);
	save(&attempt, &records);
	add_nexthop(netlink, &records, 8, LOOPBACK, NULL, 0);
	message = netlink_request(netlink, RTM_NEWNEXTHOP, 0, sizeof(struct nhmsg));
	header = mnl_nlmsg_get_payload(message);
	header->nh_protocol = RTPROT_STATIC;
	mnl_attr_put_u32(message, NHA_ID, 5);
	mnl_attr_put(message, NHA_GROUP, sizeof(members), members);
	mnl_attr_put_u16(message, NHA_GROUP_TYPE, 1);
	/* As Linux net/ipv4/nexthop.c shows it: nla_put_nh_group_res(). */
	nest = mnl_attr_nest_start(message, 12);
	mnl_attr_put_u16(message, 1, 32);
	mnl_attr_put_u32(message, 2, 12000);
	mnl_attr_put_u32(message, 3, 0);
	mnl_attr_put_u64(message, 4, 0);
	mnl_attr_nest_end(message, nest);
	add_raw(&records, "nexthop", message);
	restore(&attempt, &records);
	assert_int_equal(attempt.result.failures, 0);
	message = netlink_request(netlink, RTM_GETNEXTHOP, NLM_F_DUMP, sizeof(struct nhmsg));
	assert_int_equal(netlink_talk(netlink, message, see_buckets, &buckets, &error), 0);
	assert_int_equal(buckets, 32);
}

static void a_damaged_record_is_reported_and_skipped(void **state)
{
	_cleanup_netlink_ struct netlink *netlink = open_route();
	_cleanup_statefile_ struct statefile records = { 0 };
	_cleanup_attempt_ struct attempt attempt;
	unsigned damaged = 0;

	begin(&attempt, *state, "test_nic");
	configure(netlink);
	save(&attempt, &records);
	forget(netlink);
	for (size_t i = 0; i < records.count; i++)
		if (record_get(&records.items[i], "raw")) {
			assert_int_equal(record_set(&records.items[i], "raw", "0bad"), 0);
			damaged++;
		}
	restore(&attempt, &records);
	/* Four addresses, of which one is any loopback interface's, two routes, a rule, a
	 * neighbour. */
	assert_int_equal(damaged, 8);
	assert_int_equal(attempt.result.failures, damaged);
	assert_int_equal(attempt.result.links, 1);
}

static void a_name_that_no_interface_can_have_is_damage(void **state)
{
	static const char text[] = "0123456789abcdef";

	_cleanup_netlink_ struct netlink *netlink = open_route();
	_cleanup_statefile_ struct statefile records = { 0 };
	_cleanup_attempt_ struct attempt attempt;

	begin(&attempt, *state, "test_nic");
	save(&attempt, &records);
	for (size_t i = 0; i < records.count; i++)
		if (strcmp(records.items[i].kind, "link") == 0)
			assert_int_equal(record_set(&records.items[i], "name", text), 0);
	restore(&attempt, &records);
	assert_int_equal(attempt.result.links, 0);
	assert_int_equal(attempt.result.failures, 1);
	assert_contains(attempt.first, ": its record is damaged");
}

static void vlans_that_no_request_has_room_for_are_refused(void **state)
{
	_cleanup_netlink_ struct netlink *netlink = open_route();
	static const char text[(size_t) 200 << 10];
	struct nlmsghdr *request =
		netlink_request(netlink, RTM_SETLINK, 0, sizeof(struct ifinfomsg));
	struct error error = { 0 };

	(void) state;
	netlink_put(request, IFLA_AF_SPEC, sizeof(text), text);
	/* Attributes that are put after it do no harm. */
	netlink_put_text(request, IFLA_IFNAME, "lo");
	mnl_attr_put_u32(request, IFLA_MTU, 1500);
	assert_int_equal(netlink_talk(netlink, request, NULL, NULL, &error), -EMSGSIZE);
}

static void interfaces_that_never_went_are_known(void **state)
{
	_cleanup_statefile_ struct statefile records = { 0 };
	_cleanup_attempt_ struct attempt attempt;

	begin(&attempt, *state, "test_nic");
	attempt.run.records = &records;
	assert_false(links_are_untouched(&attempt.run));
	save(&attempt, &records);
	assert_true(links_are_untouched(&attempt.run));
	for (size_t i = 0; i < records.count; i++)
		if (record_get(&records.items[i], "index"))
			assert_int_equal(record_set(&records.items[i], "index", "7"), 0);
	assert_false(links_are_untouched(&attempt.run));
	records_forget(&records, link_kinds, NULL, NULL);
	assert_int_equal(records.count, 1);
	assert_string_equal(records.items[0].kind, "boot");
}

#define JOURNAL "network.journal"

/* Its run was killed before anything went: what a person has changed since holds. */
static void a_state_of_interfaces_that_never_went_changes_nothing(void **state)
{
	const struct folder *folder = *state;
	_cleanup_netlink_ struct netlink *netlink = open_route();
	_cleanup_attempt_ struct attempt attempt;
	struct counts changed, after;

	begin(&attempt, folder, "test_nic");
	attempt.netstate.path = JOURNAL;
	configure(netlink);
	if (netstate_save(&attempt.netstate, &attempt.error) < 0)
		fail_msg("%s", attempt.error.text);
	forget(netlink);
	changed = count_all(netlink);
	if (netstate_restore(&attempt.netstate, &attempt.result, &attempt.error) < 0)
		fail_msg("%s", attempt.error.text);
	after = count_all(netlink);
	assert_memory_equal(&after, &changed, sizeof(after));
	assert_int_equal(attempt.result.failures, 0);
	assert_int_equal(attempt.result.links, 0);
	assert_false(attempt.result.is_pending);
	netstate_forget(&attempt.netstate, &attempt.result);
	assert_false(fs_exists(folder->fd, JOURNAL));
}

static void a_later_run_adds_what_it_does_not_know(void **state)
{
	const struct folder *folder = *state;
	_cleanup_netlink_ struct netlink *netlink = open_route();
	_cleanup_statefile_ struct statefile records = { 0 };
	_cleanup_attempt_ struct attempt attempt;
	size_t saved;

	begin(&attempt, folder, "test_nic");
	configure(netlink);
	save(&attempt, &records);
	saved = records.count;
	assert_int_equal(links_save(&attempt.run, &attempt.error), 0);
	assert_int_equal(find(&records, "link")->count, records.items[1].count);
	/* A rule names the interface, but is saved with those that are. */
	assert_int_equal(records.count, saved);
	/* The same port of a driver that has a label for it. */
	assert_int_equal(record_set(&records.items[1], "port", "p7"), 0);
	assert_int_equal(links_save(&attempt.run, &attempt.error), 0);
	assert_int_equal(records.count, saved);
	assert_int_equal(record_set(&records.items[1], "port", "pf0vf7"), 0);
	assert_int_equal(links_save(&attempt.run, &attempt.error), 0);
	assert_true(records.count > saved);
	assert_string_equal(record_get(&records.items[saved], "life"), "1");
}

/* Restores what was saved of a port with that label and number: how many came back. */
static size_t restored_as(void **state, const char *port, const char *dev_port, const char *second)
{
	_cleanup_netlink_ struct netlink *netlink = open_route();
	_cleanup_statefile_ struct statefile records = { 0 };
	_cleanup_attempt_ struct attempt attempt;
	struct record *other;

	begin(&attempt, *state, "test_nic");
	save(&attempt, &records);
	assert_string_equal(records.items[1].kind, "link");
	assert_int_equal(record_set(&records.items[1], "port", port), 0);
	assert_int_equal(record_set(&records.items[1], "dev_port", dev_port), 0);
	if (second) {
		other = statefile_add(&records, "link");
		assert_int_equal(record_set(other, "name", "other"), 0);
		assert_int_equal(record_set(other, "device", "pci/0000:3b:00.0"), 0);
		assert_int_equal(record_set(other, "port", second), 0);
		assert_int_equal(record_set(other, "dev_port", "0"), 0);
	}
	restore(&attempt, &records);
	assert_int_equal(attempt.result.failures, 1 + (second != NULL) - attempt.result.links);
	return attempt.result.links;
}

static void a_port_comes_back_under_another_label(void **state)
{
	assert_int_equal(restored_as(state, "p0", "0", NULL), 1);
	/* Its number, too: it is the device's only one. */
	assert_int_equal(restored_as(state, "p0", "1", NULL), 1);
	assert_int_equal(restored_as(state, "p1", "1", "pf0vf1"), 1);
	assert_int_equal(restored_as(state, "pf0vf1", "0", NULL), 0);
	/* It cannot be known which of two it is. */
	assert_int_equal(restored_as(state, "p0", "0", "p1"), 0);
	assert_int_equal(restored_as(state, "p1", "1", "p0"), 1);
}

static void a_new_label_is_of_the_port_with_that_number(void **state)
{
	struct link links[] = {
		{ .index = 1, .device = "pci/a", .port = "p0", .dev_port = 0 },
		{ .index = 2, .device = "pci/a", .port = "pf0vf1", .dev_port = 0 },
		{ .index = 3, .device = "pci/a", .port = "p1", .dev_port = 1 },
		{ .index = 4, .device = "pci/b", .port = "p0s0", .dev_port = 0 },
		{ .index = 5, .device = "pci/c", .port = "p0", .dev_port = 0 },
		{ .index = 6, .device = "pci/c", .port = "", .dev_port = 0 },
	};
	const struct link_table table = { links, ARRAY_SIZE(links) };

	(void) state;
	assert_int_equal(link_by_relabelled(&table, "pci/a", "", 0, false)->index, 1);
	assert_int_equal(link_by_relabelled(&table, "pci/a", "", 1, false)->index, 3);
	assert_null(link_by_relabelled(&table, "pci/a", "", 0, true));
	assert_null(link_by_relabelled(&table, "pci/a", "p4", 0, false));
	assert_null(link_by_relabelled(&table, "pci/a", "pf0vf2", 0, false));
	assert_null(link_by_relabelled(&table, "pci/b", "", 0, true));
	assert_null(link_by_relabelled(&table, "pci/c", "", 0, false));
}

static void a_subfunction_has_a_name_that_lasts(void **state)
{
	const struct folder *folder = *state;
	_cleanup_netlink_ struct netlink *netlink = open_route();
	_cleanup_(link_table_free) struct link_table table = { 0 };
	struct error error = { 0 };

	folder_write_text(folder, DEVICE "/mlx5_core.sf.4/sfnum", "88\n");
	put_link(folder, "../../../../bus/auxiliary", DEVICE "/mlx5_core.sf.4/subsystem");
	assert_int_equal(unlinkat(folder->fd, "sys/class/net/lo/device", 0), 0);
	put_link(folder, "../../../devices/pci0000:3a/0000:3b:00.0/mlx5_core.sf.4",
		"sys/class/net/lo/device");
	assert_int_equal(link_table_read(folder->fd, netlink, &table, &error), 0);
	assert_string_equal(link_by_name(&table, "lo")->device, "pci/0000:3b:00.0/sf/88");
	assert_non_null(link_by_device(&table, "pci/0000:3b:00.0/sf/88", "", 0, 0));
	assert_null(link_by_device(&table, "pci/0000:3b:00.0/sf/88", "", 1, 0));
	assert_null(link_by_device(&table, "pci/0000:3b:00.0/sf/88", "", 0, 1));
}

#define ECN "sys/class/net/lo/ecn/"

static void congestion_control_comes_back(void **state)
{
	const struct folder *folder = *state;
	_cleanup_statefile_ struct statefile records = { 0 };
	_cleanup_free_ char *enabled = NULL;
	_cleanup_free_ char *rate = NULL;
	_cleanup_attempt_ struct attempt attempt;
	const struct record *sysctls;

	begin(&attempt, folder, "test_nic");
	folder_write_text(folder, ECN "roce_np/enable/3", "1\n");
	folder_write_text(folder, ECN "roce_np/cnp_dscp", "48\n");
	folder_write_text(folder, ECN "roce_np/counter", "7\n");
	assert_int_equal(fchmodat(folder->fd, ECN "roce_np/counter", 0444, 0), 0);
	folder_write_text(folder, ECN "roce_rp/rpg_ai_rate", "5\n");
	save(&attempt, &records);
	sysctls = find(&records, "sysctls");
	assert_string_equal(record_get(sysctls, "ecn.roce_np.enable.3"), "1");
	assert_string_equal(record_get(sysctls, "ecn.roce_np.cnp_dscp"), "48");
	assert_null(record_get(sysctls, "ecn.roce_np.counter"));
	folder_write_text(folder, ECN "roce_np/enable/3", "0\n");
	folder_write_text(folder, ECN "roce_rp/rpg_ai_rate", "9\n");
	restore(&attempt, &records);
	assert_string_equal(attempt.first, "");
	enabled = folder_read_text(folder, ECN "roce_np/enable/3");
	assert_int_equal(enabled[0], '1');
	rate = folder_read_text(folder, ECN "roce_rp/rpg_ai_rate");
	assert_int_equal(rate[0], '5');
}

static void congestion_control_that_a_driver_lacks_is_noted_once(void **state)
{
	const struct folder *folder = *state;
	_cleanup_statefile_ struct statefile records = { 0 };
	_cleanup_attempt_ struct attempt attempt;

	begin(&attempt, folder, "test_nic");
	folder_write_text(folder, ECN "roce_np/enable/3", "1\n");
	folder_write_text(folder, ECN "roce_np/enable/4", "1\n");
	save(&attempt, &records);
	assert_int_equal(fs_remove_tree(folder->fd, "sys/class/net/lo/ecn"), 0);
	restore(&attempt, &records);
	assert_string_equal(attempt.first, "");
	assert_int_equal(attempt.result.failures, 0);
	assert_true(strv_contains(&attempt.reported,
		"lo: this driver lacks 2 settings of RoCE congestion control, first "
		"ecn.roce_np.enable.3=1"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		node_test(what_an_interface_had_comes_back),
		node_test(it_can_be_restored_twice),
		node_test(the_journal_can_be_read),
		node_test(what_an_earlier_version_saved_comes_back),
		node_test(what_changes_while_it_is_read_is_read_again),
		node_test(what_never_can_be_read_is_an_error),
		node_test(another_drivers_interface_is_left_alone),
		node_test(a_lifetime_runs_on),
		node_test(a_dhcp_client_that_listens_in_vain_is_named),
		node_test(of_another_boot_nothing_with_a_lifetime_comes),
		node_test(what_the_host_has_up_is_the_hosts),
		node_test(a_device_that_does_not_come_is_reported),
		node_test(a_device_that_came_and_went_is_not_reported),
		node_test(what_is_renamed_while_it_is_read_is_read_again),
		node_test(the_next_start_adds_only_what_is_missing),
		node_test(a_route_goes_by_the_ways_that_are_left),
		node_test(a_route_that_is_whole_again_takes_its_parts_place),
		node_test(a_group_has_the_members_that_are_left),
		node_test(a_resilient_group_has_its_buckets),
		node_test(a_damaged_record_is_reported_and_skipped),
		node_test(a_name_that_no_interface_can_have_is_damage),
		node_test(vlans_that_no_request_has_room_for_are_refused),
		node_test(interfaces_that_never_went_are_known),
		node_test(a_state_of_interfaces_that_never_went_changes_nothing),
		node_test(a_later_run_adds_what_it_does_not_know),
		node_test(a_port_comes_back_under_another_label),
		node_test(a_new_label_is_of_the_port_with_that_number),
		node_test(a_subfunction_has_a_name_that_lasts),
		node_test(congestion_control_comes_back),
		node_test(congestion_control_that_a_driver_lacks_is_noted_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
