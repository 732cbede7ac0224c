/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Interfaces that stood on a driver's and went with it: VLANs, macvlans, ipvlans, VXLANs that are
 * bound to one, partitions of InfiniBand, and bonds of InfiniBand, which go with their last port
 * (drivers/net/bonding/bond_main.c, bond_slave_netdev_event()). Made again as their IFLA_LINKINFO
 * was.
 */
#include <linux/if_link.h>
#include <linux/if_vlan.h>
#include <linux/rtnetlink.h>
#include <string.h>

#include "entrypoint/netstate/links_parts.h"

static bool is_one_of(const char *kind, const char *const *kinds, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(kind, kinds[i]) == 0)
			return true;
	return false;
}

/* They stay without what they were bound to, but by its old index: all of them say it first. */
static bool is_tunnel(const char *kind)
{
	static const char *const kinds[] = { "gre", "gretap", "erspan", "ipip", "sit", "vti",
		"ip6tnl", "ip6gre", "ip6gretap", "ip6erspan", "vti6" };

	return is_one_of(kind, kinds, ARRAY_SIZE(kinds));
}

/* The attribute of a kind's settings that is the index of what it stands on, or 0. */
static uint16_t index_attribute(const char *kind)
{
	if (strcmp(kind, "vxlan") == 0)
		return IFLA_VXLAN_LINK;
	return is_tunnel(kind) ? 1 : 0;
}

/* The kernel tells a mask of all ones, and takes none with a flag that it does not know. */
static void put_vlan_flags(struct nlmsghdr *request, const struct nlattr *attribute)
{
	struct ifla_vlan_flags flags;

	if (mnl_attr_get_payload_len(attribute) < sizeof(flags))
		return;
	memcpy(&flags, mnl_attr_get_payload(attribute), sizeof(flags));
	flags.mask = flags.flags | VLAN_FLAG_REORDER_HDR;
	mnl_attr_put(request, IFLA_VLAN_FLAGS, sizeof(flags), &flags);
}

/* What the kernel tells otherwise than it takes it (8021q, macvlan.c, vxlan_core.c): true, done. */
static bool put_translated(
	struct nlmsghdr *request, const char *kind, const struct nlattr *attribute)
{
	uint16_t type = mnl_attr_get_type(attribute);

	if (strcmp(kind, "vlan") == 0 && type == IFLA_VLAN_FLAGS) {
		put_vlan_flags(request, attribute);
		return true;
	}
	if (strcmp(kind, "macvlan") == 0 || strcmp(kind, "macvtap") == 0) {
		if (type == IFLA_MACVLAN_MACADDR_DATA && mnl_attr_get_payload_len(attribute))
			mnl_attr_put_u32(request, IFLA_MACVLAN_MACADDR_MODE, MACVLAN_MACADDR_SET);
		return type == IFLA_MACVLAN_BC_QUEUE_LEN_USED || type == IFLA_MACVLAN_MACADDR_COUNT;
	}
	if (strcmp(kind, "vxlan") == 0 && type == IFLA_VXLAN_TTL_INHERIT) {
		if (mnl_attr_get_payload_len(attribute) && mnl_attr_get_u8(attribute))
			mnl_attr_put(request, type, 0, NULL);
		return true;
	}
	return false;
}

static void put_data(
	struct nlmsghdr *request, const struct record *record, const char *kind, uint32_t lower)
{
	_cleanup_(attributes_free) struct attributes data = record_attributes(record, "data");
	struct nlattr *nest = mnl_attr_nest_start(request, IFLA_INFO_DATA);
	const struct nlattr *attribute;

	attributes_for_each(attribute, &data)
	{
		uint16_t type = mnl_attr_get_type(attribute);

		if (put_translated(request, kind, attribute))
			continue;
		if (type == index_attribute(kind))
			mnl_attr_put_u32(request, type, lower);
		else
			(void) links_copy(request, attribute);
	}
	mnl_attr_nest_end(request, nest);
}

static void put_info(
	struct nlmsghdr *request, const struct record *record, const char *kind, uint32_t lower)
{
	struct nlattr *info = mnl_attr_nest_start(request, IFLA_LINKINFO);

	netlink_put_text(request, IFLA_INFO_KIND, kind);
	/* A bond takes its settings one by one: which of them go together is its mode's business.
	 */
	if (strcmp(kind, "bond") != 0)
		put_data(request, record, kind, lower);
	mnl_attr_nest_end(request, info);
}

static void put_address(struct nlmsghdr *request, const struct record *record)
{
	uint8_t address[LINK_ADDRESS_SIZE];
	int size = record_get_hex(record, "mac", address, sizeof(address));

	if (size > 0)
		mnl_attr_put(request, IFLA_ADDRESS, (size_t) size, address);
}

static int make(struct links_restore *restore, const struct restored_link *link, const char *kind,
	uint32_t lower, struct error *error)
{
	struct nlmsghdr *request =
		netlink_request(restore->netlink, RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL);

	(void) netlink_extra(request, sizeof(struct ifinfomsg));
	netlink_put_text(request, IFLA_IFNAME, link->name);
	if (lower && strcmp(kind, "vxlan") != 0)
		mnl_attr_put_u32(request, IFLA_LINK, lower);
	put_address(request, link->record);
	put_info(request, link->record, kind, lower);
	return netlink_talk(restore->netlink, request, NULL, NULL, error);
}

/* Binds a tunnel that stayed to the interface's new index. */
static void bind_tunnel(struct links_restore *restore, const struct restored_link *link,
	const char *kind, uint32_t lower)
{
	struct nlmsghdr *request = links_change(restore, link->index);

	put_info(request, link->record, kind, lower);
	(void) links_do(restore, link, request, "what it is bound to");
}

/*
 * The kernel takes those away that stand on something, and bonds of InfiniBand; a bridge that is
 * not there any more was taken away by somebody.
 */
static void make_one(struct links_restore *restore, struct restored_link *link)
{
	const char *kind = record_get(link->record, "kind");
	const char *over = record_get(link->record, "over");
	const struct restored_link *lower = over ? restored_by_name(restore, over) : NULL;
	struct error error = { 0 };

	if (over && (!lower || !lower->index)) {
		network_failure(restore->network, restore->result,
			"%s: %s, on which it stands, is not there", link->name, over);
		return;
	}
	if (!kind || (!over && strcmp(kind, "bond") != 0) || strcmp(kind, "macsec") == 0) {
		network_failure(restore->network, restore->result,
			"%s%s%s: it is not there any more, and cannot be made again from here",
			kind ? kind : "", kind ? " " : "", link->name);
		return;
	}
	if (make(restore, link, kind, lower ? lower->index : 0, &error) < 0)
		network_failure(restore->network, restore->result, "%s %s: %s", kind, link->name,
			error.text);
}

/* Did it stand on something that was unloaded, and live on? */
static bool is_loose(
	const struct links_restore *restore, const struct restored_link *link, const char *kind)
{
	const char *over = record_get(link->record, "over");
	const struct restored_link *lower = over ? restored_by_name(restore, over) : NULL;

	return lower && lower->index && lower->index != lower->old_index && kind && is_tunnel(kind);
}

static bool is_missing(const struct restored_link *link)
{
	return !link->device && !link->index && !link->is_tried;
}

/* Is what it stands on there? */
static bool is_ready(const struct links_restore *restore, const struct restored_link *link)
{
	const char *over = record_get(link->record, "over");
	const struct restored_link *lower = over ? restored_by_name(restore, over) : NULL;

	return !over || (lower && lower->index);
}

/* All that stand on what is there; those on these are next. Returns how many were tried. */
static size_t make_ready(struct links_restore *restore)
{
	struct error error = { 0 };
	size_t tried = 0;

	for (size_t i = 0; i < restore->count; i++) {
		struct restored_link *link = &restore->links[i];

		if (!is_missing(link) || !is_ready(restore, link))
			continue;
		link->is_tried = true;
		make_one(restore, link);
		tried++;
	}
	if (tried && restore_look(restore, &error) < 0)
		network_failure(restore->network, restore->result, "%s", error.text);
	return tried;
}

void links_make(struct links_restore *restore)
{
	while (make_ready(restore))
		;
	for (size_t i = 0; i < restore->count; i++) {
		struct restored_link *link = &restore->links[i];
		const char *kind = record_get(link->record, "kind");

		if (is_missing(link))
			make_one(restore, link);
		else if (!link->device && link->index && !link->is_tried &&
			 is_loose(restore, link, kind))
			bind_tunnel(restore, link, kind,
				restored_by_name(restore, record_get(link->record, "over"))->index);
	}
}
