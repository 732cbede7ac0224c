/* SPDX-License-Identifier: Apache-2.0 */
/* Which interfaces go with a driver, and the record of each. */
#include <net/if_arp.h>
#include <linux/if_link.h>
#include <linux/netdevice.h>
#include <linux/rtnetlink.h>
#include <string.h>

#include "entrypoint/netstate/link_internal.h"

/* ---- which interfaces */

bool links_save_has(const struct links_save *save, uint32_t index)
{
	for (size_t i = 0; index && i < save->count; i++)
		if (save->order[i] == index)
			return true;
	return false;
}

/*
 * Is it a driver's that goes? IP over InfiniBand's interfaces belong to the adapter's device, and
 * go also when ib_ipoib alone does.
 */
static bool is_drivers(const struct links_save *save, const struct link *link)
{
	const struct strv *modules = save->netstate->modules;

	if (!link_is_port(&save->table, link))
		return false;
	return strv_contains(modules, link->module) ||
	       (link->type == ARPHRD_INFINIBAND && strv_contains(modules, "ib_ipoib"));
}

static bool has_port(const struct links_save *save, uint32_t index)
{
	for (size_t i = 0; i < save->count; i++) {
		const struct link *port = link_by_index(&save->table, save->order[i]);

		if (port && port->master == index)
			return true;
	}
	return false;
}

/* One more round of what stands on those that are chosen, or has them as ports. Returns how many.
 */
static size_t choose_above(struct links_save *save)
{
	size_t before = save->count;
	size_t chosen = before;

	for (size_t i = 0; i < save->table.count; i++) {
		const struct link *link = &save->table.items[i];
		bool is_above;

		save->count = before;
		is_above = !links_save_has(save, link->index) &&
			   (links_save_has(save, link->lower) || has_port(save, link->index));
		if (is_above)
			save->order[chosen++] = link->index;
	}
	save->count = chosen;
	return chosen - before;
}

static int choose(struct links_save *save)
{
	save->order = calloc(save->table.count + 1, sizeof(*save->order));
	if (!save->order)
		return -ENOMEM;
	for (size_t i = 0; i < save->table.count; i++)
		if (is_drivers(save, &save->table.items[i]))
			save->order[save->count++] = save->table.items[i].index;
	while (choose_above(save))
		;
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

static int set_text(struct record *record, const char *name, const struct nlattr *attribute)
{
	const char *text = netlink_text(attribute);

	return text ? record_set(record, name, text) : 0;
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

/* A bond gives its ports its own address; what a port had before it keeps in mind. */
static struct link_address own_address(const struct link *link)
{
	const char *kind = netlink_text(link_info_attribute(link, IFLA_INFO_SLAVE_KIND));
	const struct nlattr *attribute = netlink_nested(
		link_info_attribute(link, IFLA_INFO_SLAVE_DATA), IFLA_BOND_SLAVE_PERM_HWADDR);
	struct link_address address = link->address;
	size_t size = attribute ? mnl_attr_get_payload_len(attribute) : 0;

	if (!kind || strcmp(kind, "bond") != 0 || !size || size > sizeof(address.bytes))
		return address;
	address.size = size;
	memcpy(address.bytes, mnl_attr_get_payload(attribute), size);
	return address;
}

/*
 * An address that the driver will not have again by itself: a person's, or one that it drew. That
 * of InfiniBand is made of the port's GUID.
 */
static int set_address(struct record *record, const struct link *link, bool is_drivers_own)
{
	struct link_address own = own_address(link);
	const struct link_address *permanent = &link->permanent;
	bool is_permanent =
		permanent->size == own.size && memcmp(permanent->bytes, own.bytes, own.size) == 0;

	if (link->type != ARPHRD_ETHER || !own.size)
		return 0;
	if (is_drivers_own && link->address_origin == NET_ADDR_PERM &&
		(is_permanent || !permanent->size))
		return 0;
	if (is_drivers_own && is_permanent && link->address_origin != NET_ADDR_RANDOM)
		return 0;
	return record_set_hex(record, "mac", own.bytes, own.size);
}

static int set_place(struct record *record, const struct link *link)
{
	if (record_set(record, "device", link->device) < 0 ||
		(link->port[0] && record_set(record, "port", link->port) < 0) ||
		record_setf(record, "dev_port", "%u", link->dev_port) < 0)
		return -ENOMEM;
	return record_setf(record, "nth", "%u", link->nth);
}

static int set_kind(const struct links_save *save, struct record *record, const struct link *link)
{
	if ((link->kind[0] && record_set(record, "kind", link->kind) < 0) ||
		(links_save_has(save, link->lower) &&
			record_set(record, "over", name_of(save, link->lower)) < 0))
		return -ENOMEM;
	return set_bytes(record, "data", link_info_attribute(link, IFLA_INFO_DATA));
}

static int set_master(const struct links_save *save, struct record *record, const struct link *link)
{
	if (!link->master)
		return 0;
	if (record_set(record, "master", name_of(save, link->master)) < 0 ||
		set_text(record, "port_kind", link_info_attribute(link, IFLA_INFO_SLAVE_KIND)) < 0)
		return -ENOMEM;
	return set_bytes(record, "port_data", link_info_attribute(link, IFLA_INFO_SLAVE_DATA));
}

static int set_settings(struct record *record, const struct link *link)
{
	if (set_number(record, "mtu", link_attribute(link, IFLA_MTU)) < 0 ||
		set_number(record, "queue", link_attribute(link, IFLA_TXQLEN)) < 0 ||
		set_number(record, "group", link_attribute(link, IFLA_GROUP)) < 0 ||
		record_setf(record, "flags", "0x%x", link->flags & LINK_FLAGS) < 0 ||
		((link->flags & IFF_LOWER_UP) && record_set(record, "carrier", "1") < 0) ||
		set_text(record, "alias", link_attribute(link, IFLA_IFALIAS)) < 0)
		return -ENOMEM;
	return set_altnames(record, link);
}

static int add_link(const struct links_save *save, const struct link *link)
{
	struct record *record = statefile_add(save->records, "link");
	bool is_own = is_drivers(save, link);

	if (!record || record_set(record, "name", link->name) < 0 ||
		record_setf(record, "life", "%llu", (unsigned long long) save->generation) < 0 ||
		record_setf(record, "index", "%u", link->index) < 0 ||
		(is_own && set_place(record, link) < 0) || set_kind(save, record, link) < 0 ||
		set_settings(record, link) < 0 || set_address(record, link, is_own) < 0)
		return -ENOMEM;
	return set_master(save, record, link);
}

/* ---- all of them */

/* Of another driver than the record is, a port may have a label that it had not, or none. */
static bool is_of_port(const struct record *record, const struct link *link)
{
	const char *port = record_get(record, "port");
	uint64_t dev_port = 0;

	port = port ? port : "";
	(void) record_get_u64(record, "dev_port", &dev_port);
	return strcmp(port, link->port) == 0 ||
	       (dev_port == link->dev_port && link_port_is_relabelled(port, link->port));
}

static bool is_known(
	const struct statefile *records, const struct links_save *save, const struct link *link)
{
	for (size_t i = 0; i < records->count; i++) {
		const struct record *record = &records->items[i];
		const char *device = record_get(record, "device");
		const char *name = record_get(record, "name");

		if (strcmp(record->kind, "link") != 0)
			continue;
		if (device && is_drivers(save, link) && strcmp(device, link->device) == 0 &&
			is_of_port(record, link))
			return true;
		if (!device && name && !is_drivers(save, link) && strcmp(name, link->name) == 0)
			return true;
	}
	return false;
}

/* Leaves out what an earlier run has saved already: what that says is older, and holds. */
static void drop_known(struct links_save *save)
{
	size_t kept = 0;

	for (size_t i = 0; i < save->count; i++) {
		const struct link *link = link_by_index(&save->table, save->order[i]);

		if (!is_known(save->records, save, link))
			save->order[kept++] = save->order[i];
	}
	save->count = kept;
}

static uint64_t next_generation(const struct statefile *records)
{
	uint64_t next = 0;

	for (size_t i = 0; i < records->count; i++) {
		uint64_t generation;

		if (strcmp(records->items[i].kind, "link") == 0 &&
			record_get_u64(&records->items[i], "life", &generation) == 0 &&
			generation >= next)
			next = generation + 1;
	}
	return next;
}

/*
 * IPv6 tokens (ip token) are not saved, but reported: the kernel names them when asked for the
 * family's own part of interfaces only (Linux net/ipv6/addrconf.c, inet6_fill_ifla6_attrs()).
 */
static int see_token(void *context, const struct nlmsghdr *message)
{
	static const uint8_t none[16];
	struct links_save *save = context;
	const struct ifinfomsg *header = mnl_nlmsg_get_payload(message);
	const struct nlattr *token = netlink_nested(
		netlink_attribute(message, sizeof(*header), IFLA_PROTINFO), IFLA_INET6_TOKEN);
	uint32_t index = (uint32_t) header->ifi_index;

	if (message->nlmsg_type != RTM_NEWLINK || !token || !links_save_has(save, index) ||
		mnl_attr_get_payload_len(token) != sizeof(none) ||
		memcmp(mnl_attr_get_payload(token), none, sizeof(none)) == 0)
		return 0;
	return netstate_unsaved(save->records, name_of(save, index), "its IPv6 token (ip token)");
}

static int see_tokens(struct links_save *save, struct error *error)
{
	struct nlmsghdr *request = netlink_request(save->netlink, RTM_GETLINK, NLM_F_DUMP);
	struct ifinfomsg *header = netlink_extra(request, sizeof(*header));
	int r;

	header->ifi_family = AF_INET6;
	r = netlink_talk(save->netlink, request, see_token, save, error);
	/* A kernel without IPv6. */
	return r == -EOPNOTSUPP ? 0 : r;
}

static int save_all(struct links_save *save, struct error *error)
{
	int r;

	for (size_t i = 0; i < save->count; i++) {
		const struct link *link = link_by_index(&save->table, save->order[i]);

		r = add_link(save, link);
		if (r == 0)
			r = sysctls_save(save, link);
		if (r < 0)
			return error_set_errno(error, r, "%s", link->name);
	}
	r = see_tokens(save, error);
	if (r == 0)
		r = ethtool_save(save, error);
	return r < 0 ? r : replay_save(save, error);
}

static void links_save_free(struct links_save *save)
{
	link_table_free(&save->table);
	statefile_free(&save->usual);
	netlink_close(&save->netlink);
	free(save->order);
}

int links_save(const struct netstate *netstate, struct statefile *records, struct error *error)
{
	_cleanup_(links_save_free) struct links_save save = {
		.netstate = netstate, .records = records, .generation = next_generation(records)
	};
	int r = netlink_open(NETLINK_ROUTE, &save.netlink, error);

	if (r == 0)
		r = link_table_read(netstate->root_fd, save.netlink, &save.table, error);
	if (r < 0)
		return r;
	if (choose(&save) < 0)
		return error_set_errno(error, -ENOMEM, "interfaces");
	drop_known(&save);
	return save_all(&save, error);
}

static bool is_others(const struct record *record)
{
	static const char *const kinds[] = { "link", "ethtool", "sysctls", "address", "neighbour",
		"nexthop", "route", "rule", "bridge-vlans", "bridge-entry" };

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (strcmp(record->kind, kinds[i]) == 0)
			return false;
	return true;
}

void links_forget(struct statefile *records)
{
	statefile_keep(records, is_others);
}

bool links_are_untouched(
	const struct netstate *netstate, const struct statefile *records, struct error *error)
{
	_cleanup_(netlink_close) struct netlink *netlink = NULL;
	_cleanup_(link_table_free) struct link_table table = { 0 };
	bool is_any = false;

	if (netlink_open(NETLINK_ROUTE, &netlink, error) < 0 ||
		link_table_read(netstate->root_fd, netlink, &table, error) < 0)
		return false;
	for (size_t i = 0; i < records->count; i++) {
		const struct record *record = &records->items[i];
		const char *device = record_get(record, "device");
		const struct link *link;
		uint64_t index;

		if (strcmp(record->kind, "link") != 0 || !device)
			continue;
		if (record_get_u64(record, "index", &index) < 0)
			return false;
		link = link_by_index(&table, (uint32_t) index);
		if (!link || strcmp(link->device, device) != 0)
			return false;
		is_any = true;
	}
	return is_any;
}
