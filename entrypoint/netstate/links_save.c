/* SPDX-License-Identifier: Apache-2.0 */
#include <net/if_arp.h>
#include <linux/if_link.h>
#include <linux/netdevice.h>
#include <linux/rtnetlink.h>
#include <string.h>

#include "entrypoint/netstate/links_parts.h"

/* ---- which interfaces */

bool saved_links_has(const struct saved_links *saved, uint32_t index)
{
	for (size_t i = 0; index && i < saved->count; i++)
		if (saved->order[i] == index)
			return true;
	return false;
}

/*
 * Is it a driver's that goes? IP over InfiniBand's interfaces belong to the adapter's device, and
 * go also when ib_ipoib alone does.
 */
static bool is_drivers(const struct saved_links *saved, const struct link *link)
{
	const struct strv *modules = saved->network->modules;

	if (!link->device[0] || (link->kind[0] && link_by_index(&saved->table, link->lower)))
		return false;
	return strv_contains(modules, link->module) ||
	       (link->type == ARPHRD_INFINIBAND && strv_contains(modules, "ib_ipoib"));
}

static bool has_port(const struct saved_links *saved, uint32_t index)
{
	for (size_t i = 0; i < saved->count; i++) {
		const struct link *port = link_by_index(&saved->table, saved->order[i]);

		if (port && port->master == index)
			return true;
	}
	return false;
}

/* One more round of what stands on those that are chosen, or has them as ports. Returns how many.
 */
static size_t choose_above(struct saved_links *saved)
{
	size_t before = saved->count;
	size_t chosen = before;

	for (size_t i = 0; i < saved->table.count; i++) {
		const struct link *link = &saved->table.items[i];
		bool is_above;

		saved->count = before;
		is_above = !saved_links_has(saved, link->index) &&
			   (saved_links_has(saved, link->lower) || has_port(saved, link->index));
		if (is_above)
			saved->order[chosen++] = link->index;
	}
	saved->count = chosen;
	return chosen - before;
}

static int choose(struct saved_links *saved)
{
	saved->order = calloc(saved->table.count + 1, sizeof(*saved->order));
	if (!saved->order)
		return -ENOMEM;
	for (size_t i = 0; i < saved->table.count; i++)
		if (is_drivers(saved, &saved->table.items[i]))
			saved->order[saved->count++] = saved->table.items[i].index;
	while (choose_above(saved))
		;
	return 0;
}

/* ---- the record of one */

static const char *name_of(const struct saved_links *saved, uint32_t index)
{
	const struct link *link = link_by_index(&saved->table, index);

	return link ? link->name : "";
}

static int set_attribute(
	struct record *record, const char *name, const struct nlattr *attribute, bool is_text)
{
	if (!attribute)
		return 0;
	if (!is_text)
		return record_set_hex(record, name, mnl_attr_get_payload(attribute),
			mnl_attr_get_payload_len(attribute));
	if (mnl_attr_validate(attribute, MNL_TYPE_NUL_STRING) < 0)
		return 0;
	return record_set(record, name, mnl_attr_get_str(attribute));
}

static int set_number(struct record *record, const char *name, const struct nlattr *attribute)
{
	if (!attribute || mnl_attr_validate(attribute, MNL_TYPE_U32) < 0)
		return 0;
	return record_setf(record, name, "%u", mnl_attr_get_u32(attribute));
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
		if (mnl_attr_get_type(attribute) == IFLA_ALT_IFNAME &&
			mnl_attr_validate(attribute, MNL_TYPE_NUL_STRING) >= 0 &&
			strv_push(&names, mnl_attr_get_str(attribute)) < 0)
			return -ENOMEM;
	}
	joined = strv_join(&names, " ");
	return joined ? record_set(record, "altnames", joined) : -ENOMEM;
}

/* A bond gives its ports its own address; what a port had before it keeps in mind. */
static struct link_address own_address(const struct link *link)
{
	const struct nlattr *kind = link_info_attribute(link, IFLA_INFO_SLAVE_KIND);
	const struct nlattr *data = link_info_attribute(link, IFLA_INFO_SLAVE_DATA);
	struct link_address address = link->address;
	const struct nlattr *attribute;

	if (!kind || !data || strcmp(mnl_attr_get_str(kind), "bond") != 0)
		return address;
	mnl_attr_for_each_nested(attribute, data)
	{
		size_t size = mnl_attr_get_payload_len(attribute);

		if (mnl_attr_get_type(attribute) != IFLA_BOND_SLAVE_PERM_HWADDR ||
			size > sizeof(address.bytes))
			continue;
		address.size = size;
		memcpy(address.bytes, mnl_attr_get_payload(attribute), size);
	}
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
	int r = record_set(record, "device", link->device);

	if (r == 0 && link->port[0])
		r = record_set(record, "port", link->port);
	if (r == 0)
		r = record_setf(record, "dev_port", "%u", link->dev_port);
	if (r == 0)
		r = record_setf(record, "nth", "%u", link->nth);
	return r;
}

static int set_kind(const struct saved_links *saved, struct record *record, const struct link *link)
{
	int r = 0;

	if (link->kind[0])
		r = record_set(record, "kind", link->kind);
	if (r == 0 && saved_links_has(saved, link->lower))
		r = record_set(record, "over", name_of(saved, link->lower));
	if (r == 0)
		r = set_attribute(record, "data", link_info_attribute(link, IFLA_INFO_DATA), false);
	return r;
}

static int set_master(
	const struct saved_links *saved, struct record *record, const struct link *link)
{
	int r;

	if (!link->master)
		return 0;
	r = record_set(record, "master", name_of(saved, link->master));
	if (r == 0)
		r = set_attribute(
			record, "port_kind", link_info_attribute(link, IFLA_INFO_SLAVE_KIND), true);
	if (r == 0)
		r = set_attribute(record, "port_data",
			link_info_attribute(link, IFLA_INFO_SLAVE_DATA), false);
	return r;
}

static int set_settings(struct record *record, const struct link *link)
{
	int r = set_number(record, "mtu", link_attribute(link, IFLA_MTU));

	if (r == 0)
		r = set_number(record, "queue", link_attribute(link, IFLA_TXQLEN));
	if (r == 0)
		r = set_number(record, "group", link_attribute(link, IFLA_GROUP));
	if (r == 0)
		r = record_setf(record, "flags", "0x%x", link->flags & LINKS_FLAGS);
	if (r == 0 && (link->flags & IFF_LOWER_UP))
		r = record_set(record, "carrier", "1");
	if (r == 0)
		r = set_attribute(record, "alias", link_attribute(link, IFLA_IFALIAS), true);
	if (r == 0)
		r = set_altnames(record, link);
	return r;
}

int link_record_add(const struct saved_links *saved, const struct link *link, struct error *error)
{
	struct record *record = statefile_add(saved->records, "link");
	bool is_own = is_drivers(saved, link);
	int r = record ? record_set(record, "name", link->name) : -ENOMEM;

	if (r == 0)
		r = record_setf(record, "life", "%llu", (unsigned long long) saved->life);
	if (r == 0)
		r = record_setf(record, "index", "%u", link->index);
	if (r == 0 && is_own)
		r = set_place(record, link);
	if (r == 0)
		r = set_kind(saved, record, link);
	if (r == 0)
		r = set_settings(record, link);
	if (r == 0)
		r = set_address(record, link, is_own);
	if (r == 0)
		r = set_master(saved, record, link);
	return r < 0 ? error_set_errno(error, r, "%s", link->name) : 0;
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
	const struct statefile *records, const struct saved_links *saved, const struct link *link)
{
	for (size_t i = 0; i < records->count; i++) {
		const struct record *record = &records->items[i];
		const char *device = record_get(record, "device");
		const char *name = record_get(record, "name");

		if (strcmp(record->kind, "link") != 0)
			continue;
		if (device && is_drivers(saved, link) && strcmp(device, link->device) == 0 &&
			is_of_port(record, link))
			return true;
		if (!device && name && !is_drivers(saved, link) && strcmp(name, link->name) == 0)
			return true;
	}
	return false;
}

/* Forgets what an earlier life has saved already: what that says is older, and holds. */
static void drop_known(struct saved_links *saved)
{
	size_t kept = 0;

	for (size_t i = 0; i < saved->count; i++) {
		const struct link *link = link_by_index(&saved->table, saved->order[i]);

		if (!is_known(saved->records, saved, link))
			saved->order[kept++] = saved->order[i];
	}
	saved->count = kept;
}

static uint64_t next_life(const struct statefile *records)
{
	uint64_t next = 0;

	for (size_t i = 0; i < records->count; i++) {
		uint64_t life;

		if (strcmp(records->items[i].kind, "link") == 0 &&
			record_get_u64(&records->items[i], "life", &life) == 0 && life >= next)
			next = life + 1;
	}
	return next;
}

static int save_all(struct saved_links *saved, struct error *error)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < saved->count; i++) {
		const struct link *link = link_by_index(&saved->table, saved->order[i]);

		r = link_record_add(saved, link, error);
		if (r == 0)
			r = sysctls_save(saved, link, error);
	}
	if (r == 0)
		r = tokens_save(saved, error);
	if (r == 0)
		r = ethtool_save(saved, error);
	if (r == 0)
		r = bridge_ports_save(saved, error);
	if (r == 0)
		r = addresses_save(saved, error);
	if (r == 0)
		r = neighbours_save(saved, error);
	if (r == 0)
		r = routes_save(saved, error);
	return r;
}

static void saved_links_free(struct saved_links *saved)
{
	link_table_free(&saved->table);
	statefile_free(&saved->usual);
	sysctl_groups_free(&saved->groups);
	netlink_close(&saved->netlink);
	free(saved->order);
}

int links_save(const struct network *network, struct statefile *records, struct error *error)
{
	_cleanup_(saved_links_free) struct saved_links saved = {
		.network = network, .records = records, .life = next_life(records)
	};
	int r = netlink_open(NETLINK_ROUTE, &saved.netlink, error);

	if (r == 0)
		r = link_table_read(network->root_fd, saved.netlink, &saved.table, error);
	if (r < 0)
		return r;
	if (choose(&saved) < 0)
		return error_set_errno(error, -ENOMEM, "interfaces");
	drop_known(&saved);
	return save_all(&saved, error);
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
	const struct network *network, const struct statefile *records, struct error *error)
{
	_cleanup_(netlink_close) struct netlink *netlink = NULL;
	_cleanup_(link_table_free) struct link_table table = { 0 };
	bool is_any = false;

	if (netlink_open(NETLINK_ROUTE, &netlink, error) < 0 ||
		link_table_read(network->root_fd, netlink, &table, error) < 0)
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
