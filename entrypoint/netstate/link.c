/* SPDX-License-Identifier: Apache-2.0 */
/* The interfaces that there are, which of them go with a driver, and the record of each. */
#include <fcntl.h>
#include <linux/if_link.h>
#include <linux/netdevice.h>
#include <linux/rtnetlink.h>
#include <net/if_arp.h>
#include <stdlib.h>
#include <string.h>

#include "common/fs.h"
#include "entrypoint/netstate/link_internal.h"
#include "entrypoint/role/pci.h"

void link_table_free(struct link_table *table)
{
	for (size_t i = 0; i < table->count; i++)
		free(table->items[i].message);
	free(table->items);
	*table = (struct link_table){ 0 };
}

const struct nlattr *link_attribute(const struct link *link, uint16_t type)
{
	return netlink_attribute(link->message, sizeof(struct ifinfomsg), type);
}

const struct nlattr *link_info_attribute(const struct link *link, uint16_t type)
{
	return netlink_nested(link_attribute(link, IFLA_LINKINFO), type);
}

/* ---- the table */

static void fill(struct link *link)
{
	const struct ifinfomsg *header = mnl_nlmsg_get_payload(link->message);

	link->index = (uint32_t) header->ifi_index;
	link->flags = header->ifi_flags;
	link->type = header->ifi_type;
	netlink_copy_text(link_attribute(link, IFLA_IFNAME), link->name, sizeof(link->name));
	netlink_copy_text(
		link_attribute(link, IFLA_PHYS_PORT_NAME), link->port, sizeof(link->port));
	netlink_copy_text(
		link_info_attribute(link, IFLA_INFO_KIND), link->kind, sizeof(link->kind));
	link->master = netlink_number(link_attribute(link, IFLA_MASTER));
	if (!link_attribute(link, IFLA_LINK_NETNSID))
		link->lower = netlink_number(link_attribute(link, IFLA_LINK));
	/* A VXLAN has what it is bound to among its own settings, and goes with that. */
	if (!link->lower && strcmp(link->kind, "vxlan") == 0)
		link->lower = netlink_number(
			netlink_nested(link_info_attribute(link, IFLA_INFO_DATA), IFLA_VXLAN_LINK));
}

static int keep_link(void *context, const struct nlmsghdr *message)
{
	struct link_table *table = context;
	struct link *link;

	if (message->nlmsg_type != RTM_NEWLINK ||
		mnl_nlmsg_get_payload_len(message) < sizeof(struct ifinfomsg))
		return 0;
	link = array_add(&table->items, &table->count, sizeof(*link));
	if (!link)
		return -ENOMEM;
	link->message = malloc(message->nlmsg_len);
	if (!link->message)
		return -ENOMEM;
	memcpy(link->message, message, message->nlmsg_len);
	fill(link);
	return 0;
}

static int by_index(const void *a, const void *b)
{
	const struct link *left = a;
	const struct link *right = b;

	return left->index < right->index ? -1 : left->index > right->index;
}

static bool is_at(const struct link *link, const char *device, const char *port, uint32_t dev_port)
{
	return strcmp(link->device, device) == 0 && strcmp(link->port, port) == 0 &&
	       link->dev_port == dev_port;
}

/* An interface that stands on another interface of the same device is no port of the device. */
static bool is_port(const struct link_table *table, const struct link *link)
{
	return link->device[0] && !(link->kind[0] && link_by_index(table, link->lower));
}

/* For an interface that was there before, copies what was read from sysfs then. */
static void read_sysfs(int net_fd, struct link *link, const struct link_table *before)
{
	const struct link *known = link_by_index(before, link->index);
	_cleanup_close_ int dir_fd = -1;
	unsigned index;

	if (known && !known->is_unread) {
		memcpy(link->device, known->device, sizeof(link->device));
		memcpy(link->module, known->module, sizeof(link->module));
		link->dev_port = known->dev_port;
		link->address_origin = known->address_origin;
		return;
	}
	dir_fd = openat(net_fd, link->name, O_PATH | O_DIRECTORY | O_CLOEXEC);
	/* It is gone, or udev has renamed it since the kernel told the name. */
	link->is_unread = !sysfs_read_number(dir_fd, "ifindex", &index) || index != link->index;
	if (link->is_unread)
		return;
	device_name_of(dir_fd, link->device);
	sysfs_link_name(dir_fd, "device/driver/module", link->module, sizeof(link->module));
	(void) sysfs_read_number(dir_fd, "dev_port", &link->dev_port);
	(void) sysfs_read_number(dir_fd, "addr_assign_type", &link->address_origin);
}

int link_table_read(
	int root_fd, struct netlink *netlink, struct link_table *table, struct error *error)
{
	_cleanup_(link_table_free) struct link_table read = { 0 };
	_cleanup_close_ int net_fd =
		openat(root_fd, "sys/class/net", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct nlmsghdr *request = netlink_link_request(netlink, RTM_GETLINK, NLM_F_DUMP, 0);
	struct link_table before;
	int r;

	if (net_fd < 0)
		return error_set_errno(error, -errno, "/sys/class/net");
	mnl_attr_put_u32(request, IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS);
	r = netlink_talk(netlink, request, keep_link, &read, error);
	if (r < 0)
		return error_prefix(error, r, "interfaces");
	for (size_t i = 0; i < read.count; i++)
		read_sysfs(net_fd, &read.items[i], table);
	if (read.count > 1)
		qsort(read.items, read.count, sizeof(*read.items), by_index);
	for (size_t i = 0; i < read.count; i++) {
		struct link *link = &read.items[i];

		for (size_t k = 0; link->device[0] && k < i; k++)
			link->nth +=
				is_at(&read.items[k], link->device, link->port, link->dev_port) &&
				is_port(&read, &read.items[k]);
	}
	before = *table;
	*table = read;
	read = before;
	return 0;
}

struct link *link_by_index(const struct link_table *table, uint32_t index)
{
	const struct link key = { .index = index };

	if (!table->count)
		return NULL;
	return bsearch(&key, table->items, table->count, sizeof(key), by_index);
}

static bool has_altname(const struct link *link, const char *name)
{
	const struct nlattr *list = link_attribute(link, IFLA_PROP_LIST);
	const struct nlattr *attribute;

	if (!list)
		return false;
	mnl_attr_for_each_nested(attribute, list)
	{
		const char *altname = netlink_text(attribute);

		if (mnl_attr_get_type(attribute) == IFLA_ALT_IFNAME && altname &&
			strcmp(altname, name) == 0)
			return true;
	}
	return false;
}

struct link *link_by_name(const struct link_table *table, const char *name)
{
	for (size_t i = 0; i < table->count; i++)
		if (strcmp(table->items[i].name, name) == 0)
			return &table->items[i];
	for (size_t i = 0; i < table->count; i++)
		if (has_altname(&table->items[i], name))
			return &table->items[i];
	return NULL;
}

struct link *link_by_device(const struct link_table *table, const char *device, const char *port,
	uint32_t dev_port, uint32_t nth)
{
	for (size_t i = 0; i < table->count; i++) {
		struct link *link = &table->items[i];

		if (is_at(link, device, port, dev_port) && link->nth == nth && is_port(table, link))
			return link;
	}
	return NULL;
}

bool link_port_is_own(const char *port)
{
	return !*port || (port[0] == 'p' && port[1] && !port[1 + strspn(port + 1, "0123456789")]);
}

bool link_has_settings(const struct link *link)
{
	return link->device[0] && !link->kind[0] && link_port_is_own(link->port);
}

/* Can two labels be one port's, of which one driver has a label for it and the other has none? */
static bool is_relabelled(const char *one, const char *other)
{
	return !*one != !*other && link_port_is_own(one) && link_port_is_own(other);
}

struct link *link_by_relabelled(const struct link_table *table, const char *device,
	const char *port, uint32_t dev_port, bool is_any)
{
	struct link *found = NULL;

	for (size_t i = 0; link_port_is_own(port) && i < table->count; i++) {
		struct link *link = &table->items[i];

		if (strcmp(link->device, device) != 0 || !link_port_is_own(link->port) ||
			!is_port(table, link) || (!is_any && link->dev_port != dev_port))
			continue;
		if (found)
			return NULL;
		found = link;
	}
	return found && (is_any || is_relabelled(port, found->port)) ? found : NULL;
}

/* ---- saving: which interfaces */

bool links_save_has(const struct links_save *save, uint32_t index)
{
	const struct link *link = link_by_index(&save->table, index);

	return link && link->is_saved;
}

/*
 * Is it a driver's that goes? IP over InfiniBand's interfaces belong to the adapter's device, and
 * go also when ib_ipoib alone does.
 */
static bool is_of_modules(
	const struct strv *modules, const struct link_table *table, const struct link *link)
{
	return is_port(table, link) &&
	       (strv_contains(modules, link->module) ||
		       (link->type == ARPHRD_INFINIBAND && strv_contains(modules, "ib_ipoib")));
}

static bool is_drivers(const struct links_save *save, const struct link *link)
{
	return is_of_modules(save->run->netstate->modules, &save->table, link);
}

bool link_goes(const struct strv *modules, const struct link_table *table, const struct link *link)
{
	/* No more stand on each other (Linux include/linux/netdevice.h, MAX_NEST_DEV), but the
	 * ends of a veth pair do so in a circle. */
	for (unsigned i = 0; link && i < 8; i++, link = link_by_index(table, link->lower))
		if (is_of_modules(modules, table, link))
			return true;
	return false;
}

/* Has an earlier run saved it? What that record has is older, and holds. */
static bool is_known(const struct links_save *save, const struct link *link)
{
	const struct record *record = NULL;
	bool is_own = is_drivers(save, link);

	while ((record = records_next(save->run->records, "link", record))) {
		const char *device = record_get(record, "device");
		const char *port = record_text(record, "port");

		if (!device == is_own)
			continue;
		if (!is_own && strcmp(record_text(record, "name"), link->name) == 0)
			return true;
		/*
		 * Under another driver than the record's, a port may have a label that it had not.
		 */
		if (is_own && strcmp(device, link->device) == 0 &&
			(strcmp(port, link->port) == 0 ||
				(record_number(record, "dev_port") == link->dev_port &&
					is_relabelled(port, link->port))))
			return true;
	}
	return false;
}

static bool has_saved_port(const struct links_save *save, uint32_t index)
{
	for (size_t i = 0; i < save->count; i++)
		if (save->order[i]->master == index)
			return true;
	return false;
}

/*
 * Chooses the interfaces of drivers, those that stand on these or have them as ports, and so on,
 * except those that are recorded already.
 */
static int choose(struct links_save *save)
{
	size_t chosen = 0;

	save->count = 0;
	save->order = calloc(save->table.count + 1, sizeof(void *));
	if (!save->order)
		return -ENOMEM;
	do {
		chosen = save->count;
		for (size_t i = 0; i < save->table.count; i++) {
			struct link *link = &save->table.items[i];

			if (link->is_saved ||
				!(is_drivers(save, link) || links_save_has(save, link->lower) ||
					has_saved_port(save, link->index)))
				continue;
			link->is_saved = true;
			save->order[save->count++] = link;
		}
	} while (save->count > chosen);
	save->count = 0;
	for (size_t i = 0; i < chosen; i++) {
		struct link *link = save->order[i];

		link->is_saved = !is_known(save, link);
		if (link->is_saved)
			save->order[save->count++] = link;
	}
	return 0;
}

/* ---- the record of one */

static const char *name_of(const struct links_save *save, uint32_t index)
{
	const struct link *link = link_by_index(&save->table, index);

	return link ? link->name : "";
}

static int set_bytes(struct record *record, const char *name, const struct nlattr *attribute)
{
	return attribute ? record_set_hex(record, name, mnl_attr_get_payload(attribute),
				   mnl_attr_get_payload_len(attribute))
			 : 0;
}

static int set_number(struct record *record, const char *name, const struct nlattr *attribute)
{
	return attribute ? record_setf(record, name, "%u", netlink_number(attribute)) : 0;
}

static int set_altnames(struct record *record, const struct link *link)
{
	const struct nlattr *list = link_attribute(link, IFLA_PROP_LIST);
	_cleanup_strv_ struct strv names = { 0 };
	_cleanup_free_ char *joined = NULL;
	const struct nlattr *attribute;

	if (!list)
		return 0;
	mnl_attr_for_each_nested(attribute, list)
	{
		const char *name = netlink_text(attribute);

		if (mnl_attr_get_type(attribute) == IFLA_ALT_IFNAME && name &&
			strv_push(&names, name) < 0)
			return -ENOMEM;
	}
	joined = strv_join(&names, " ");
	return joined ? record_set(record, "altnames", joined) : -ENOMEM;
}

/*
 * An address that the driver will not have again by itself: a person's, or one that it drew. That
 * of InfiniBand is made of the port's GUID. A bond gives its ports its own address; what a port had
 * before it keeps in mind.
 */
static int set_address(struct record *record, const struct link *link, bool is_drivers_own)
{
	const char *master = netlink_text(link_info_attribute(link, IFLA_INFO_SLAVE_KIND));
	/* None before Linux 5.6. */
	const struct nlattr *permanent = link_attribute(link, IFLA_PERM_ADDRESS);
	const struct nlattr *own = NULL;
	bool is_permanent;

	if (link->type != ARPHRD_ETHER)
		return 0;
	if (master && strcmp(master, "bond") == 0)
		own = netlink_nested(link_info_attribute(link, IFLA_INFO_SLAVE_DATA),
			IFLA_BOND_SLAVE_PERM_HWADDR);
	if (!own)
		own = link_attribute(link, IFLA_ADDRESS);
	/* A VLAN follows the address of its lower until it is given one. */
	if (!own || (!is_drivers_own && link->lower && link->address_origin == NET_ADDR_STOLEN))
		return 0;
	is_permanent =
		netlink_is(permanent, mnl_attr_get_payload(own), mnl_attr_get_payload_len(own));
	if ((is_drivers_own && is_permanent && link->address_origin != NET_ADDR_RANDOM) ||
		(is_drivers_own && !permanent && link->address_origin == NET_ADDR_PERM))
		return 0;
	return set_bytes(record, "mac", own);
}

static int add_link(const struct links_save *save, const struct link *link)
{
	const char *over = links_save_has(save, link->lower) ? name_of(save, link->lower) : NULL;
	const char *alias = netlink_text(link_attribute(link, IFLA_IFALIAS));
	struct record *record =
		records_add(save->run->records, "link", "life", save->life, "name", link->name);
	bool is_own = is_drivers(save, link);

	if (!record || record_setf(record, "index", "%u", link->index) < 0)
		return -ENOMEM;
	if (is_own && (record_set(record, "device", link->device) < 0 ||
			      record_set_text(record, "port", link->port) < 0 ||
			      record_setf(record, "dev_port", "%u", link->dev_port) < 0 ||
			      record_setf(record, "nth", "%u", link->nth) < 0))
		return -ENOMEM;
	if (record_set_text(record, "kind", link->kind) < 0 ||
		record_set_text(record, "over", over) < 0 ||
		set_bytes(record, "data", link_info_attribute(link, IFLA_INFO_DATA)) < 0 ||
		set_number(record, "mtu", link_attribute(link, IFLA_MTU)) < 0 ||
		set_number(record, "queue", link_attribute(link, IFLA_TXQLEN)) < 0 ||
		set_number(record, "group", link_attribute(link, IFLA_GROUP)) < 0 ||
		record_setf(record, "flags", "0x%x", link->flags & LINK_FLAGS) < 0 ||
		record_set_text(record, "carrier", link->flags & IFF_LOWER_UP ? "1" : NULL) < 0 ||
		record_set_text(record, "alias", alias) < 0 || set_altnames(record, link) < 0 ||
		set_address(record, link, is_own) < 0)
		return -ENOMEM;
	if (!link->master)
		return 0;
	if (record_set_text(record, "master", name_of(save, link->master)) < 0 ||
		record_set_text(record, "port_kind",
			netlink_text(link_info_attribute(link, IFLA_INFO_SLAVE_KIND))) < 0)
		return -ENOMEM;
	return set_bytes(record, "port_data", link_info_attribute(link, IFLA_INFO_SLAVE_DATA));
}

/* ---- all of them */

/*
 * IPv6 tokens (ip token) are not saved, but reported: the kernel names them when asked for the
 * family's own part of interfaces only (Linux net/ipv6/addrconf.c, inet6_fill_ifla6_attrs()).
 */
static int see_token(void *context, const struct nlmsghdr *message)
{
	static const uint8_t none[16];
	struct links_save *save = context;
	const struct ifinfomsg *header = mnl_nlmsg_get_payload(message);
	const void *token = netlink_payload(
		netlink_nested(netlink_attribute(message, sizeof(*header), IFLA_PROTINFO),
			IFLA_INET6_TOKEN),
		sizeof(none));
	uint32_t index = (uint32_t) header->ifi_index;

	if (message->nlmsg_type != RTM_NEWLINK || !token || !links_save_has(save, index) ||
		memcmp(token, none, sizeof(none)) == 0)
		return 0;
	return run_record_unsaved(save->run, name_of(save, index), "its IPv6 token (ip token)");
}

static void links_save_free(struct links_save *save)
{
	link_table_free(&save->table);
	netlink_close(&save->netlink);
	free(save->order);
}

int links_save(const struct run *run, struct error *error)
{
	_cleanup_(links_save_free) struct links_save save = { .run = run };
	const struct record *record = NULL;
	struct nlmsghdr *request;
	struct ifinfomsg *header;
	uint64_t life = 0;
	int r = netlink_open(NETLINK_ROUTE, &save.netlink, error);

	if (r == 0)
		r = link_table_read(run->netstate->root_fd, save.netlink, &save.table, error);
	if (r < 0)
		return r;
	if (choose(&save) < 0)
		return error_set_errno(error, -ENOMEM, "interfaces");
	while ((record = records_next(run->records, "link", record)))
		if (record_number(record, "life") >= life)
			life = record_number(record, "life") + 1;
	(void) snprintf(save.life, sizeof(save.life), "%llu", (unsigned long long) life);
	for (size_t i = 0; i < save.count; i++)
		if (add_link(&save, save.order[i]) < 0)
			return error_set_errno(error, -ENOMEM, "%s", save.order[i]->name);
	if (sysctls_save(&save) < 0)
		return error_set_errno(error, -ENOMEM, "sysctls");
	if (dhcp_save(&save) < 0)
		return error_set_errno(error, -ENOMEM, "DHCP clients");
	request = netlink_link_request(save.netlink, RTM_GETLINK, NLM_F_DUMP, 0);
	header = mnl_nlmsg_get_payload(request);
	header->ifi_family = AF_INET6;
	r = netlink_talk(save.netlink, request, see_token, &save, error);
	/* A kernel without IPv6. */
	if (r < 0 && r != -EOPNOTSUPP)
		return r;
	if (dcb_save(&save) < 0)
		return error_set_errno(error, -ENOMEM, "DCB");
	r = ethtool_save(&save, error);
	return r < 0 ? r : replay_save(&save, error);
}

const char *const link_kinds[] = { "link", "ethtool", "dcb", "sysctls", "address", "neighbour",
	"nexthop", "route", "rule", "bridge-vlans", "bridge-entry", NULL };

bool links_are_untouched(const struct run *run)
{
	_cleanup_(netlink_close) struct netlink *netlink = NULL;
	_cleanup_(link_table_free) struct link_table table = { 0 };
	const struct record *record = NULL;
	struct error ignored;
	bool is_any = false;

	if (netlink_open(NETLINK_ROUTE, &netlink, &ignored) < 0 ||
		link_table_read(run->netstate->root_fd, netlink, &table, &ignored) < 0)
		return false;
	while ((record = records_next(run->records, "link", record))) {
		const char *device = record_get(record, "device");
		const struct link *link;

		if (!device)
			continue;
		link = link_by_index(&table, (uint32_t) record_number(record, "index"));
		if (!link || strcmp(link->device, device) != 0)
			return false;
		is_any = true;
	}
	return is_any;
}
