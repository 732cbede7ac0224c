/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions whose interface is in another network namespace (a pod's, into which a CNI has moved
 * it) when their driver goes: it goes with it, and what comes back comes into this one, for only
 * the CNI knows how the other was set up. So that is reported, before and after. In the state file:
 * "away device=… [name=…]".
 *
 * Names are known of namespaces that have a number here, which any pod with a veth pair to this one
 * has. Source: Linux net/core/net_namespace.c (RTM_GETNSID), rtnetlink.c (IFLA_TARGET_NETNSID,
 * since 4.20, and IFLA_PARENT_DEV_NAME, since 5.14: before those no name is known).
 */
#include <limits.h>
#include <linux/if_link.h>
#include <linux/net_namespace.h>
#include <linux/rtnetlink.h>
#include <string.h>

#include "common/fs.h"
#include "entrypoint/netstate/device_internal.h"

#define CURE    "restart that pod, or drain the node before the next swap"
#define UNKNOWN "a pod's"

/* ---- interfaces in namespaces that have a number */

int netns_take(void *found, const struct nlmsghdr *message)
{
	const size_t header = sizeof(struct ifinfomsg);
	const char *bus, *device, *name;
	char path[DEVICE_NAME_SIZE];

	/* A kernel that does not know the question answers for this namespace. */
	if (message->nlmsg_type != RTM_NEWLINK ||
		!netlink_attribute(message, header, IFLA_TARGET_NETNSID))
		return 0;
	bus = netlink_text(netlink_attribute(message, header, IFLA_PARENT_DEV_BUS_NAME));
	device = netlink_text(netlink_attribute(message, header, IFLA_PARENT_DEV_NAME));
	name = netlink_text(netlink_attribute(message, header, IFLA_IFNAME));
	if (!bus || !device || !name ||
		snprintf(path, sizeof(path), "%s/%s", bus, device) >= (int) sizeof(path))
		return 0;
	return records_add(found, NETNS_KIND, "device", path, "name", name) ? 0 : -ENOMEM;
}

struct listing {
	struct netlink *netlink;
	struct statefile *links;
};

/* The interfaces of one, which may have ended meanwhile, or be forbidden to look into. */
static int list_namespace(void *context, const struct nlmsghdr *message)
{
	const struct listing *listing = context;
	uint32_t number =
		netlink_number(netlink_attribute(message, sizeof(struct rtgenmsg), NETNSA_NSID));
	struct nlmsghdr *request;
	struct error ignored;
	int r;

	if (message->nlmsg_type != RTM_NEWNSID || (int32_t) number < 0)
		return 0;
	request = netlink_link_request(listing->netlink, RTM_GETLINK, NLM_F_DUMP, 0);
	mnl_attr_put_u32(request, IFLA_TARGET_NETNSID, number);
	mnl_attr_put_u32(request, IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS);
	r = netlink_talk(listing->netlink, request, netns_take, listing->links, &ignored);
	return r == -ENOMEM ? r : 0;
}

/* What cannot be seen is left out. -ENOMEM. */
static int list_links(struct statefile *links)
{
	_cleanup_(netlink_close) struct netlink *netlink = NULL;
	struct nlmsghdr *request;
	struct listing listing;
	struct error ignored;
	int r;

	if (netlink_open(NETLINK_ROUTE, &netlink, &ignored) < 0)
		return 0;
	listing = (struct listing){ netlink, links };
	request = netlink_request(netlink, RTM_GETNSID, NLM_F_DUMP, sizeof(struct rtgenmsg));
	r = netlink_talk(netlink, request, list_namespace, &listing, &ignored);
	return r == -ENOMEM ? r : 0;
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
	_cleanup_(statefile_free) struct statefile links = { 0 };
	_cleanup_strv_ struct strv functions = { 0 };
	_cleanup_strv_ struct strv names = { 0 };
	int root_fd = netstate->root_fd;
	int r = device_names(root_fd, netstate->modules, &names);

	/* Folders that cannot be read have no devices. */
	if (r < 0)
		return r == -ENOMEM ? r : 0;
	for (size_t i = 0; i < names.count; i++)
		if (add_functions(root_fd, names.items[i], &functions) < 0)
			return -ENOMEM;
	if (functions.count && list_links(&links) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < functions.count; i++) {
		const char *function = functions.items[i];
		const struct record *link = NULL;
		bool is_known = false;

		while ((link = records_next(&links, NETNS_KIND, link))) {
			if (strcmp(record_text(link, "device"), function) != 0)
				continue;
			is_known = true;
			if (!records_add(found, NETNS_KIND, "device", function, "name",
				    record_text(link, "name")))
				return -ENOMEM;
		}
		if (!is_known && is_hidden(root_fd, function) &&
			!records_add(found, NETNS_KIND, "device", function, NULL, NULL))
			return -ENOMEM;
	}
	return 0;
}

/* ---- reports */

static bool has(const struct statefile *records, const struct record *wanted)
{
	const struct record *record = NULL;

	while ((record = records_next(records, NETNS_KIND, record)))
		if (strcmp(record_text(record, "device"), record_text(wanted, "device")) == 0 &&
			strcmp(record_text(record, "name"), record_text(wanted, "name")) == 0)
			return true;
	return false;
}

/* What an earlier run has recorded was reported then, and did not go. */
int netns_save(const struct run *run)
{
	_cleanup_(statefile_free) struct statefile found = { 0 };
	const struct record *record = NULL;
	int r = find(run->netstate, &found);

	while (r == 0 && (record = records_next(&found, NETNS_KIND, record))) {
		const char *device = record_text(record, "device");
		const char *name = record_text(record, "name");

		if (has(run->records, record))
			continue;
		run_note(run,
			"%s: its interface%s%s is in another network namespace (" UNKNOWN
			"), and goes with the driver: " CURE,
			device, *name ? " " : "", name);
		if (!records_add(run->records, NETNS_KIND, "device", device, "name", name))
			return -ENOMEM;
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
		const char *name = record_text(record, "name");
		/* Earlier versions knew whose it was. */
		const char *where = record_text(record, "where");

		if (!has(&now, record))
			run_failure(run,
				"%s: its interface%s%s was in another network namespace (%s) and "
				"went with the driver: " CURE,
				record_text(record, "device"), *name ? " " : "", name,
				*where ? where : UNKNOWN);
	}
	records_forget(run->records, (const char *const[]){ NETNS_KIND, NULL }, NULL, NULL);
}
