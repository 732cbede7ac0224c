/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Interfaces in another network namespace (a pod's) when the driver goes: of functions that a CNI
 * has moved there, and those that it has made on an interface that stays here (macvlan, ipvlan,
 * VLAN). They go with the driver. A function's comes back into this namespace, the others do not,
 * for only the CNI knows how the pod was set up. So that is reported, before and after. In the
 * state file: "away device=… [name=… [kind=…] netns=…]"; with a kind @device is the interface that
 * it is made on.
 *
 * Names are known of namespaces that have a number here, which any pod with a veth pair to this one
 * has. Source: Linux net/core/net_namespace.c (RTM_GETNSID), rtnetlink.c (IFLA_TARGET_NETNSID,
 * since 4.20, IFLA_LINK_NETNSID, and IFLA_PARENT_DEV_NAME, since 5.14: before that no name of a
 * function's is known).
 */
#include <limits.h>
#include <linux/if_link.h>
#include <linux/net_namespace.h>
#include <linux/rtnetlink.h>
#include <string.h>
#include <unistd.h>

#include "common/fs.h"
#include "entrypoint/netstate/device_internal.h"
#include "entrypoint/netstate/link_internal.h"

#define CURE    "restart that pod, or drain the node before the next swap"
#define UNKNOWN "a pod's"

#define TEXT_SIZE 300

/* In the list of interfaces elsewhere: one that is made on another, in whichever namespace. */
#define CHILD_KIND "child"

/* ---- interfaces in namespaces that have a number */

int netns_take(void *found, const struct nlmsghdr *message)
{
	const size_t header = sizeof(struct ifinfomsg);
	const struct nlattr *netns = netlink_attribute(message, header, IFLA_TARGET_NETNSID);
	const struct nlattr *lower_netns = netlink_attribute(message, header, IFLA_LINK_NETNSID);
	const char *bus, *device, *name, *kind;
	struct record *record;
	char path[DEVICE_NAME_SIZE];

	/* A kernel that does not know the question answers for this namespace. */
	if (message->nlmsg_type != RTM_NEWLINK || !netns)
		return 0;
	bus = netlink_text(netlink_attribute(message, header, IFLA_PARENT_DEV_BUS_NAME));
	device = netlink_text(netlink_attribute(message, header, IFLA_PARENT_DEV_NAME));
	name = netlink_text(netlink_attribute(message, header, IFLA_IFNAME));
	kind = netlink_text(
		netlink_nested(netlink_attribute(message, header, IFLA_LINKINFO), IFLA_INFO_KIND));
	if (!name)
		return 0;
	if (bus && device) {
		if (snprintf(path, sizeof(path), "%s/%s", bus, device) >= (int) sizeof(path))
			return 0;
		record = records_add(found, NETNS_KIND, "device", path, "name", name);
	} else if (lower_netns && kind) {
		record = records_add(found, CHILD_KIND, "kind", kind, "name", name);
		if (!record ||
			record_setf(record, "lower", "%u",
				netlink_number(netlink_attribute(message, header, IFLA_LINK))) <
				0 ||
			record_setf(record, "lower_netns", "%u", netlink_number(lower_netns)) < 0)
			return -ENOMEM;
	} else {
		return 0;
	}
	return record && record_setf(record, "netns", "%u", netlink_number(netns)) == 0 ? 0
											: -ENOMEM;
}

struct listing {
	struct netlink *netlink;
	struct statefile *links;
	uint32_t here;
};

static int take_number(void *context, const struct nlmsghdr *message)
{
	uint32_t *number = context;

	*number = netlink_number(netlink_attribute(message, sizeof(struct rtgenmsg), NETNSA_NSID));
	return 0;
}

/* The number that this namespace has for itself, once an answer of the kernel needed one. */
static uint32_t number_of_this(struct netlink *netlink)
{
	struct nlmsghdr *request =
		netlink_request(netlink, RTM_GETNSID, 0, sizeof(struct rtgenmsg));
	uint32_t number = (uint32_t) NETNSA_NSID_NOT_ASSIGNED;
	struct error ignored;

	mnl_attr_put_u32(request, NETNSA_PID, (uint32_t) getpid());
	(void) netlink_talk(netlink, request, take_number, &number, &ignored);
	return number;
}

/* The interfaces of one, which may have ended meanwhile, or be forbidden to look into. */
static int list_namespace(void *context, const struct nlmsghdr *message)
{
	const struct listing *listing = context;
	uint32_t number =
		netlink_number(netlink_attribute(message, sizeof(struct rtgenmsg), NETNSA_NSID));
	struct nlmsghdr *request;
	struct error ignored;
	int r;

	if (message->nlmsg_type != RTM_NEWNSID || (int32_t) number < 0 || number == listing->here)
		return 0;
	request = netlink_link_request(listing->netlink, RTM_GETLINK, NLM_F_DUMP, 0);
	mnl_attr_put_u32(request, IFLA_TARGET_NETNSID, number);
	mnl_attr_put_u32(request, IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS);
	r = netlink_talk(listing->netlink, request, netns_take, listing->links, &ignored);
	return r == -ENOMEM ? r : 0;
}

/* Lists the interfaces of other namespaces and leaves out those that cannot be seen. -ENOMEM. */
static int list_links(struct netlink *netlink, struct statefile *links)
{
	struct listing listing = { netlink, links, number_of_this(netlink) };
	struct nlmsghdr *request;
	struct error ignored;
	int r;

	request = netlink_request(netlink, RTM_GETNSID, NLM_F_DUMP, sizeof(struct rtgenmsg));
	r = netlink_talk(netlink, request, list_namespace, &listing, &ignored);
	return r == -ENOMEM ? r : 0;
}

/* A record of what @link has. -ENOMEM. */
static int add(struct statefile *records, const char *device, const struct record *link)
{
	struct record *record = records_add(
		records, NETNS_KIND, "device", device, "name", record_text(link, "name"));

	return record && record_set_text(record, "kind", record_text(link, "kind")) == 0
		       ? record_set_text(record, "netns", record_text(link, "netns"))
		       : -ENOMEM;
}

/* Finds interfaces made on one of this namespace that goes with the modules. -ENOMEM. */
static int find_children(const struct netstate *netstate, struct netlink *netlink,
	const struct statefile *links, struct statefile *found)
{
	_cleanup_(link_table_free) struct link_table table = { 0 };
	const struct record *child = NULL;
	struct error ignored;
	uint32_t here;

	if (!records_next(links, CHILD_KIND, NULL) ||
		link_table_read(netstate->root_fd, netlink, &table, &ignored) < 0)
		return 0;
	here = number_of_this(netlink);
	while ((child = records_next(links, CHILD_KIND, child))) {
		const struct link *lower =
			link_by_index(&table, (uint32_t) record_number(child, "lower"));

		if (record_number(child, "lower_netns") != here ||
			!link_goes(netstate->modules, &table, lower))
			continue;
		if (add(found, lower->name, child) < 0)
			return -ENOMEM;
	}
	return 0;
}

/* ---- which functions */

/* A device of the drivers that go, its VFs, and its subfunctions, which are below it. -ENOMEM. */
static int add_functions(int root_fd, const char *name, struct strv *functions)
{
	_cleanup_close_ int fd = device_open(root_fd, name);
	_cleanup_(device_free) struct device device = { 0 };
	_cleanup_strv_ struct strv entries = { 0 };

	if (strv_push(functions, name) < 0 || device_read_sysfs(root_fd, name, &device) < 0 ||
		fs_list(fd, ".", &entries) == -ENOMEM)
		return -ENOMEM;
	for (size_t i = 0; i < device.vf_count; i++)
		if (*device.vfs[i].function &&
			strv_pushf(functions, "pci/%s", device.vfs[i].function) < 0)
			return -ENOMEM;
	for (size_t i = 0; i < entries.count; i++) {
		char file[NAME_MAX + 16];

		(void) snprintf(file, sizeof(file), "%s/sfnum", entries.items[i]);
		if (fs_exists(fd, file) &&
			strv_pushf(functions, "auxiliary/%s", entries.items[i]) < 0)
			return -ENOMEM;
	}
	return 0;
}

/*
 * The folder "net" is made with a device's first interface and goes with the last; an interface in
 * another namespace is not shown in it (Linux drivers/base/core.c, get_device_parent(), and
 * net/core/net-sysfs.c, net_class). Representors do not count.
 */
static bool is_hidden(int root_fd, const char *name)
{
	_cleanup_close_ int fd = device_open(root_fd, name);
	_cleanup_(device_free) struct device device = { 0 };

	return fs_exists(fd, "driver") && fs_exists(fd, "net") &&
	       device_read_sysfs(root_fd, name, &device) == 0 && !device.ifindex;
}

/* One record for each that is elsewhere now. -ENOMEM. */
static int find(const struct netstate *netstate, struct statefile *found)
{
	_cleanup_(netlink_close) struct netlink *netlink = NULL;
	_cleanup_(statefile_free) struct statefile links = { 0 };
	_cleanup_strv_ struct strv functions = { 0 };
	_cleanup_strv_ struct strv names = { 0 };
	struct error ignored;
	int root_fd = netstate->root_fd;
	int r = device_names(root_fd, netstate->modules, &names);

	/* Folders that cannot be read have no devices. */
	if (r < 0)
		return r == -ENOMEM ? r : 0;
	for (size_t i = 0; i < names.count; i++)
		if (add_functions(root_fd, names.items[i], &functions) < 0)
			return -ENOMEM;
	if (functions.count && netlink_open(NETLINK_ROUTE, &netlink, &ignored) == 0 &&
		(list_links(netlink, &links) < 0 ||
			find_children(netstate, netlink, &links, found) < 0))
		return -ENOMEM;
	for (size_t i = 0; i < functions.count; i++) {
		const char *function = functions.items[i];
		const struct record *link = NULL;
		bool is_known = false;

		while ((link = records_next(&links, NETNS_KIND, link))) {
			if (strcmp(record_text(link, "device"), function) != 0)
				continue;
			is_known = true;
			if (add(found, function, link) < 0)
				return -ENOMEM;
		}
		if (!is_known && is_hidden(root_fd, function) &&
			!records_add(found, NETNS_KIND, "device", function, NULL, NULL))
			return -ENOMEM;
	}
	return 0;
}

/* ---- reports */

/* The number of its namespace is not in the records of earlier versions. */
static bool has(const struct statefile *records, const struct record *wanted)
{
	const char *netns = record_text(wanted, "netns");
	const struct record *record = NULL;

	while ((record = records_next(records, NETNS_KIND, record))) {
		const char *other = record_text(record, "netns");

		if (strcmp(record_text(record, "device"), record_text(wanted, "device")) == 0 &&
			strcmp(record_text(record, "name"), record_text(wanted, "name")) == 0 &&
			(!*netns || !*other || strcmp(netns, other) == 0))
			return true;
	}
	return false;
}

/* "ens1f0: its macvlan net1 was in another network namespace (a pod's, …)". */
static void describe(const struct record *record, const char *verb, char text[TEXT_SIZE])
{
	const char *netns = record_text(record, "netns");
	/* Earlier versions knew whose it was. */
	const char *where = record_text(record, "where");
	const char *kind = record_text(record, "kind");
	const char *name = record_text(record, "name");

	(void) snprintf(text, TEXT_SIZE,
		"%s: its %s%s%s %s in another network namespace (%s%s%s%s)",
		record_text(record, "device"), *kind ? kind : "interface", *name ? " " : "", name,
		verb, *where ? where : UNKNOWN, *netns ? ", NETNSID " : "", netns,
		*netns ? " of lsns -t net" : "");
}

int netstate_list_in_pods(int root_fd, const struct strv *modules, struct strv *lines)
{
	const struct netstate netstate = { .root_fd = root_fd, .modules = modules };
	_cleanup_(statefile_free) struct statefile found = { 0 };
	const struct record *record = NULL;
	int r = find(&netstate, &found);

	while (r == 0 && (record = records_next(&found, NETNS_KIND, record))) {
		char text[TEXT_SIZE];

		describe(record, "is", text);
		r = strv_push(lines, text);
	}
	return r;
}

/* Skips interfaces that an earlier run has recorded: it reported them then, and they did not go. */
int netns_save(const struct run *run)
{
	_cleanup_(statefile_free) struct statefile found = { 0 };
	const struct record *record = NULL;
	int r = find(run->netstate, &found);

	while (r == 0 && (record = records_next(&found, NETNS_KIND, record))) {
		char text[TEXT_SIZE];

		if (has(run->records, record))
			continue;
		describe(record, "is", text);
		run_note(run, "%s, and is removed with the driver: " CURE, text);
		r = add(run->records, record_text(record, "device"), record);
	}
	return r;
}

void netns_restore(const struct run *run)
{
	_cleanup_(statefile_free) struct statefile now = { 0 };
	const struct record *record = NULL;

	/* Without memory none is: then all are reported. */
	if (find(run->netstate, &now) < 0)
		statefile_free(&now);
	while ((record = records_next(run->records, NETNS_KIND, record))) {
		char text[TEXT_SIZE];

		if (has(&now, record))
			continue;
		describe(record, "was", text);
		run_failure(run, "%s and was removed with the driver: " CURE, text);
	}
	records_forget(run->records, (const char *const[]){ NETNS_KIND, NULL }, NULL, NULL);
}
