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
#include "entrypoint/netstate/state_internal.h"

#define KIND    "away"
#define CURE    "restart that pod, or drain the node before the next swap"
#define UNKNOWN "a pod's"

/* ---- interfaces in namespaces that have a number */

struct numbers {
	uint32_t *items;
	size_t count;
};

static int keep_number(void *context, const struct nlmsghdr *message)
{
	struct numbers *numbers = context;
	const struct nlattr *number =
		netlink_attribute(message, sizeof(struct rtgenmsg), NETNSA_NSID);
	uint32_t *items;

	if (message->nlmsg_type != RTM_NEWNSID || !number || (int32_t) netlink_number(number) < 0)
		return 0;
	items = reallocarray(numbers->items, numbers->count + 1, sizeof(*items));
	if (!items)
		return -ENOMEM;
	numbers->items = items;
	items[numbers->count++] = netlink_number(number);
	return 0;
}

void netns_links_free(struct netns_links *links)
{
	free(links->items);
	*links = (struct netns_links){ 0 };
}

int netns_take(struct netns_links *links, const struct nlmsghdr *message)
{
	const size_t header = sizeof(struct ifinfomsg);
	const char *bus, *device, *name;
	struct netns_link *link;

	/* A kernel that does not know the question answers for this namespace. */
	if (message->nlmsg_type != RTM_NEWLINK ||
		!netlink_attribute(message, header, IFLA_TARGET_NETNSID))
		return 0;
	bus = netlink_text(netlink_attribute(message, header, IFLA_PARENT_DEV_BUS_NAME));
	device = netlink_text(netlink_attribute(message, header, IFLA_PARENT_DEV_NAME));
	name = netlink_text(netlink_attribute(message, header, IFLA_IFNAME));
	if (!bus || !device || !name)
		return 0;
	link = reallocarray(links->items, links->count + 1, sizeof(*link));
	if (!link)
		return -ENOMEM;
	links->items = link;
	link = &links->items[links->count];
	if (snprintf(link->device, sizeof(link->device), "%s/%s", bus, device) >=
		(int) sizeof(link->device))
		return 0;
	(void) snprintf(link->name, sizeof(link->name), "%s", name);
	links->count++;
	return 0;
}

static int keep_link(void *context, const struct nlmsghdr *message)
{
	return netns_take(context, message);
}

/* What cannot be seen is left out. -ENOMEM. */
static int list_links(struct netlink *netlink, struct netns_links *links)
{
	struct nlmsghdr *request = netlink_request(netlink, RTM_GETNSID, NLM_F_DUMP);
	struct numbers numbers = { 0 };
	struct error ignored;
	int r;

	(void) netlink_extra(request, sizeof(struct rtgenmsg));
	r = netlink_talk(netlink, request, keep_number, &numbers, &ignored);
	for (size_t i = 0; r != -ENOMEM && i < numbers.count; i++) {
		request = netlink_request(netlink, RTM_GETLINK, NLM_F_DUMP);
		(void) netlink_extra(request, sizeof(struct ifinfomsg));
		mnl_attr_put_u32(request, IFLA_TARGET_NETNSID, numbers.items[i]);
		mnl_attr_put_u32(request, IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS);
		/* It may have ended meanwhile, or be forbidden to look into. */
		r = netlink_talk(netlink, request, keep_link, links, &ignored);
	}
	free(numbers.items);
	return r == -ENOMEM ? r : 0;
}

/* ---- which functions */

/* A subfunction is a device of the auxiliary bus below its PF. */
static int add_subfunctions(int root_fd, const char *name, struct strv *functions)
{
	_cleanup_strv_ struct strv entries = { 0 };
	char path[PATH_MAX];
	int r;

	device_path(name, "", path, sizeof(path));
	r = fs_list(root_fd, path, &entries);
	if (r < 0)
		return r == -ENOMEM ? r : 0;
	for (size_t i = 0; i < entries.count; i++) {
		char file[NAME_MAX + 16];

		(void) snprintf(file, sizeof(file), "%s/sfnum", entries.items[i]);
		if (!device_has_file(root_fd, name, file))
			continue;
		r = strv_pushf(functions, "auxiliary/%s", entries.items[i]);
		if (r < 0)
			return r;
	}
	return 0;
}

static int add_vfs(int root_fd, const char *name, struct strv *functions)
{
	_cleanup_(device_free) struct device device = { 0 };
	int r = device_read_sysfs(root_fd, name, &device);

	for (size_t i = 0; r == 0 && i < device.vf_count; i++)
		if (*device.vfs[i].function)
			r = strv_pushf(functions, "pci/%s", device.vfs[i].function);
	return r;
}

/* The devices of the drivers that go, and all that goes with them. */
static int list_functions(const struct netstate *netstate, struct strv *functions)
{
	_cleanup_strv_ struct strv names = { 0 };
	int r = device_names(netstate->root_fd, netstate->modules, &names);

	for (size_t i = 0; r == 0 && i < names.count; i++) {
		r = strv_push(functions, names.items[i]);
		if (r == 0)
			r = add_vfs(netstate->root_fd, names.items[i], functions);
		if (r == 0)
			r = add_subfunctions(netstate->root_fd, names.items[i], functions);
	}
	return r;
}

/*
 * The folder "net" is made with a device's first interface and goes with the last; an interface in
 * another namespace is not shown in it (Linux drivers/base/core.c, get_device_parent(), and
 * net/core/net-sysfs.c, net_class). Representors do not count.
 */
static bool is_hidden(int root_fd, const char *name)
{
	_cleanup_(device_free) struct device device = { 0 };

	return device_has_file(root_fd, name, "driver") && device_has_file(root_fd, name, "net") &&
	       device_read_sysfs(root_fd, name, &device) == 0 && !device.ifindex;
}

static int add_record(struct statefile *records, const char *device, const char *name)
{
	struct record *record = statefile_add(records, KIND);
	int r = record ? record_set(record, "device", device) : -ENOMEM;

	return r == 0 && *name ? record_set(record, "name", name) : r;
}

/* One record for each that is elsewhere now. -ENOMEM. */
static int find(const struct netstate *netstate, struct statefile *records)
{
	_cleanup_(netlink_close) struct netlink *netlink = NULL;
	_cleanup_(netns_links_free) struct netns_links links = { 0 };
	_cleanup_strv_ struct strv functions = { 0 };
	struct error ignored;
	int r = list_functions(netstate, &functions);

	if (r == 0 && functions.count && netlink_open(NETLINK_ROUTE, &netlink, &ignored) == 0)
		r = list_links(netlink, &links);
	for (size_t i = 0; r == 0 && i < functions.count; i++) {
		const char *function = functions.items[i];
		bool is_found = false;

		for (size_t k = 0; r == 0 && k < links.count; k++)
			if (strcmp(links.items[k].device, function) == 0) {
				r = add_record(records, function, links.items[k].name);
				is_found = true;
			}
		if (r == 0 && !is_found && is_hidden(netstate->root_fd, function))
			r = add_record(records, function, "");
	}
	return r == -ENOMEM ? r : 0;
}

/* ---- reports */

static const char *field(const struct record *record, const char *name)
{
	const char *value = record_get(record, name);

	return value ? value : "";
}

static bool has(const struct statefile *records, const struct record *record)
{
	for (size_t i = 0; i < records->count; i++) {
		const struct record *other = &records->items[i];

		if (strcmp(other->kind, KIND) == 0 &&
			strcmp(field(other, "device"), field(record, "device")) == 0 &&
			strcmp(field(other, "name"), field(record, "name")) == 0)
			return true;
	}
	return false;
}

/* What an earlier run has recorded was reported then, and did not go. */
int netns_save(const struct netstate *netstate, struct statefile *records)
{
	_cleanup_(statefile_free) struct statefile found = { 0 };
	int r = find(netstate, &found);

	for (size_t i = 0; r == 0 && i < found.count; i++) {
		const char *device = field(&found.items[i], "device");
		const char *name = field(&found.items[i], "name");

		if (has(records, &found.items[i]))
			continue;
		netstate_note(netstate,
			"%s: its interface%s%s is in another network namespace (" UNKNOWN
			"), and goes with the driver: " CURE,
			device, *name ? " " : "", name);
		r = add_record(records, device, name);
	}
	return r;
}

static bool is_other(const struct record *record)
{
	return strcmp(record->kind, KIND) != 0;
}

void netns_forget(struct statefile *records)
{
	statefile_keep(records, is_other);
}

void netns_restore(
	const struct netstate *netstate, struct statefile *records, struct netstate_result *result)
{
	_cleanup_(statefile_free) struct statefile now = { 0 };

	/* Without memory none is: then all are reported. */
	if (find(netstate, &now) < 0)
		statefile_free(&now);
	for (size_t i = 0; i < records->count; i++) {
		const struct record *record = &records->items[i];
		const char *name = field(record, "name");
		/* Earlier versions knew whose it was. */
		const char *where = field(record, "where");

		if (!is_other(record) && !has(&now, record))
			netstate_failure(netstate, result,
				"%s: its interface%s%s was in another network namespace (%s) and "
				"went with the driver: " CURE,
				field(record, "device"), *name ? " " : "", name,
				*where ? where : UNKNOWN);
	}
	netns_forget(records);
}
