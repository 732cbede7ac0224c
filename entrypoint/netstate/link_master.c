/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What stands on a driver's interfaces. Some go with it: VLANs, macvlans, ipvlans, VXLANs that are
 * bound to one, partitions of InfiniBand, and bonds of InfiniBand, which go with their last port
 * (drivers/net/bonding/bond_main.c, bond_slave_netdev_event()); they are made again as their
 * IFLA_LINKINFO was. Bonds, bridges and VRFs stay without their ports, which join them again.
 */
#include <linux/if_vlan.h>
#include <linux/rtnetlink.h>
#include <string.h>

#include "entrypoint/netstate/link_internal.h"

/* ---- made again */

/* They stay without what they were bound to, but bound to its old index. */
static bool is_tunnel(const char *kind)
{
	static const char *const kinds[] = { "gre", "gretap", "erspan", "ipip", "sit", "vti",
		"ip6tnl", "ip6gre", "ip6gretap", "ip6erspan", "vti6" };

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (strcmp(kind, kinds[i]) == 0)
			return true;
	return false;
}

/* The kernel answers a mask of all ones, and takes none with a flag that it does not know. */
static void put_vlan_flags(struct nlmsghdr *request, const struct nlattr *attribute)
{
	struct ifla_vlan_flags flags;

	if (mnl_attr_get_payload_len(attribute) < sizeof(flags))
		return;
	memcpy(&flags, mnl_attr_get_payload(attribute), sizeof(flags));
	flags.mask = flags.flags | VLAN_FLAG_REORDER_HDR;
	mnl_attr_put(request, IFLA_VLAN_FLAGS, sizeof(flags), &flags);
}

/* What the kernel answers otherwise than it takes it (8021q, macvlan.c, vxlan_core.c): true, done.
 */
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
		if (strcmp(kind, "vxlan") == 0 && type == IFLA_VXLAN_LINK)
			mnl_attr_put_u32(request, type, lower);
		else
			(void) netlink_copy(request, attribute);
	}
	mnl_attr_nest_end(request, nest);
}

static int make(struct links_restore *restore, const struct restored_link *link, const char *kind,
	uint32_t lower, struct error *error)
{
	struct nlmsghdr *request =
		netlink_request(restore->netlink, RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL);
	uint8_t address[LINK_ADDRESS_SIZE];
	int size = record_get_hex(link->record, "mac", address, sizeof(address));
	struct nlattr *info;

	(void) netlink_extra(request, sizeof(struct ifinfomsg));
	netlink_put_text(request, IFLA_IFNAME, link->name);
	if (lower && strcmp(kind, "vxlan") != 0)
		mnl_attr_put_u32(request, IFLA_LINK, lower);
	if (size > 0)
		mnl_attr_put(request, IFLA_ADDRESS, (size_t) size, address);
	info = mnl_attr_nest_start(request, IFLA_LINKINFO);
	netlink_put_text(request, IFLA_INFO_KIND, kind);
	/* A bond takes its settings one by one: which of them go together is its mode's business.
	 */
	if (strcmp(kind, "bond") != 0)
		put_data(request, link->record, kind, lower);
	mnl_attr_nest_end(request, info);
	return netlink_talk(restore->netlink, request, NULL, NULL, error);
}

static const struct restored_link *lower_of(
	const struct links_restore *restore, const struct restored_link *link)
{
	return restored_by_name(restore, record_get(link->record, "over"));
}

/*
 * The kernel takes those away that stand on something, and bonds of InfiniBand; a bridge that is
 * not there any more was taken away by somebody.
 */
static void make_one(struct links_restore *restore, struct restored_link *link)
{
	const char *kind = record_get(link->record, "kind");
	const char *over = record_get(link->record, "over");
	const struct restored_link *lower = lower_of(restore, link);
	struct error error = { 0 };

	if (over && (!lower || !lower->index)) {
		netstate_failure(restore->netstate, restore->result,
			"%s: %s, on which it stands, is not there", link->name, over);
		return;
	}
	if (!kind || (!over && strcmp(kind, "bond") != 0) || strcmp(kind, "macsec") == 0) {
		netstate_failure(restore->netstate, restore->result,
			"%s%s%s: it is not there any more, and cannot be made again from here",
			kind ? kind : "", kind ? " " : "", link->name);
		return;
	}
	if (make(restore, link, kind, lower ? lower->index : 0, &error) < 0)
		netstate_failure(restore->netstate, restore->result, "%s %s: %s", kind, link->name,
			error.text);
}

static bool is_missing(const struct restored_link *link)
{
	return !link->device && !link->index && !link->is_tried;
}

/* All that stand on what is there; those on these are next. Returns how many were tried. */
static size_t make_ready(struct links_restore *restore)
{
	size_t tried = 0;

	for (size_t i = 0; i < restore->count; i++) {
		struct restored_link *link = &restore->links[i];
		const struct restored_link *lower = lower_of(restore, link);

		if (!is_missing(link) ||
			(record_get(link->record, "over") && (!lower || !lower->index)))
			continue;
		link->is_tried = true;
		make_one(restore, link);
		tried++;
	}
	if (tried)
		(void) links_look(restore);
	return tried;
}

void links_make(struct links_restore *restore)
{
	while (make_ready(restore))
		;
	for (size_t i = 0; i < restore->count; i++) {
		struct restored_link *link = &restore->links[i];
		const struct restored_link *lower = lower_of(restore, link);
		const char *kind = record_get(link->record, "kind");

		if (is_missing(link))
			make_one(restore, link);
		else if (!link->device && link->index && !link->is_tried && kind &&
			 is_tunnel(kind) && lower && lower->index &&
			 lower->index != lower->old_index)
			netstate_failure(restore->netstate, restore->result,
				"%s %s: it stayed without %s, to which it was bound: bind it again "
				"(ip link set %s type %s dev %s)",
				kind, link->name, lower->name, link->name, kind, lower->name);
	}
}

/* ---- settings of masters and ports */

/* Settings of a master or a port of it. */
struct settings {
	const char *field;  /* of the record */
	const char *kind;   /* of the master or the interface */
	uint16_t kind_type; /* IFLA_INFO_KIND, IFLA_INFO_SLAVE_KIND */
	uint16_t data_type; /* IFLA_INFO_DATA, IFLA_INFO_SLAVE_DATA */
	bool (*is_skipped)(const char *kind, uint16_t type);
};

static bool is_same(const struct nlattr *a, const struct nlattr *b)
{
	return b && mnl_attr_get_payload_len(a) == mnl_attr_get_payload_len(b) &&
	       memcmp(mnl_attr_get_payload(a), mnl_attr_get_payload(b),
		       mnl_attr_get_payload_len(a)) == 0;
}

static void set_one(struct links_restore *restore, const struct restored_link *link,
	const struct settings *settings, const struct nlattr *attribute)
{
	struct link_info info = link_begin_info(link_change(restore, link->index),
		settings->kind_type, settings->kind, settings->data_type);
	char what[64];

	(void) netlink_copy(info.request, attribute);
	(void) snprintf(what, sizeof(what), "setting %u of a %s", mnl_attr_get_type(attribute),
		settings->kind);
	(void) link_do(restore, link, link_end_info(&info), what);
}

/* One by one, and only what is not so already: what a kernel refuses is then but what it was. */
static void set_differences(struct links_restore *restore, const struct restored_link *link,
	const struct settings *settings)
{
	_cleanup_(attributes_free) struct attributes saved =
		record_attributes(link->record, settings->field);
	const struct link *now = restored_now(restore, link);
	const struct nlattr *data = now ? link_info_attribute(now, settings->data_type) : NULL;
	const struct nlattr *attribute;

	if (!now)
		return;
	attributes_for_each(attribute, &saved)
	{
		uint16_t type = mnl_attr_get_type(attribute);

		if (!settings->is_skipped(settings->kind, type) &&
			!is_same(attribute, netlink_nested(data, type)))
			set_one(restore, link, settings, attribute);
	}
}

/* ---- masters that were made again */

/* Interfaces' indexes, which are chosen later, and what a bond only shows. */
static bool bond_skips(const char *kind, uint16_t type)
{
	(void) kind;
	return type == IFLA_BOND_ACTIVE_SLAVE || type == IFLA_BOND_PRIMARY ||
	       type == IFLA_BOND_AD_INFO;
}

/* The mode first: what else can be set depends on it. */
static void set_bond_mode(struct links_restore *restore, const struct restored_link *link,
	const struct settings *settings)
{
	_cleanup_(attributes_free) struct attributes saved =
		record_attributes(link->record, "data");
	const struct nlattr *mode = attributes_find(&saved, IFLA_BOND_MODE);
	const struct link *now = restored_now(restore, link);

	if (!mode || !now ||
		is_same(mode,
			netlink_nested(link_info_attribute(now, IFLA_INFO_DATA), IFLA_BOND_MODE)))
		return;
	set_one(restore, link, settings, mode);
	(void) links_look(restore);
}

static void restore_bond(struct links_restore *restore, const struct restored_link *link)
{
	static const struct settings settings = { .field = "data",
		.kind = "bond",
		.kind_type = IFLA_INFO_KIND,
		.data_type = IFLA_INFO_DATA,
		.is_skipped = bond_skips };

	set_bond_mode(restore, link, &settings);
	set_differences(restore, link, &settings);
}

/* ---- ports */

/* What a bridge shows of a port and nobody sets: its state and what it learned of its neighbours.
 */
static bool port_skips(const char *kind, uint16_t type)
{
	if (strcmp(kind, "bond") == 0)
		return type != IFLA_BOND_SLAVE_QUEUE_ID;
	if (strcmp(kind, "bridge") != 0)
		return true;
	switch (type) {
	case IFLA_BRPORT_STATE:
	case IFLA_BRPORT_ROOT_ID:
	case IFLA_BRPORT_BRIDGE_ID:
	case IFLA_BRPORT_DESIGNATED_PORT:
	case IFLA_BRPORT_DESIGNATED_COST:
	case IFLA_BRPORT_ID:
	case IFLA_BRPORT_NO:
	case IFLA_BRPORT_TOPOLOGY_CHANGE_ACK:
	case IFLA_BRPORT_CONFIG_PENDING:
	case IFLA_BRPORT_MESSAGE_AGE_TIMER:
	case IFLA_BRPORT_FORWARD_DELAY_TIMER:
	case IFLA_BRPORT_HOLD_TIMER:
	case IFLA_BRPORT_FLUSH:
	case IFLA_BRPORT_PAD:
	case IFLA_BRPORT_BACKUP_PORT:
	case IFLA_BRPORT_MRP_RING_OPEN:
	case IFLA_BRPORT_MRP_IN_OPEN:
	case IFLA_BRPORT_MCAST_EHT_HOSTS_CNT:
		return true;
	default:
		return false;
	}
}

static bool set_master(
	struct links_restore *restore, const struct restored_link *link, uint32_t master)
{
	struct nlmsghdr *request = link_change(restore, link->index);

	mnl_attr_put_u32(request, IFLA_MASTER, master);
	return link_do(restore, link, request, "its master") == 0;
}

/* A bond takes only what is down. */
static void join(struct links_restore *restore, const struct restored_link *link, const char *name)
{
	const struct link *now = restored_now(restore, link);
	const struct link *master = link_by_name(&restore->now, name);

	if (!now || link->is_hosts)
		return;
	if (!master) {
		netstate_failure(restore->netstate, restore->result,
			"%s: its master %s is not there", link->name, name);
		return;
	}
	if (now->master == master->index)
		return;
	if (strcmp(master->kind, "openvswitch") == 0) {
		netstate_note(restore->netstate, "%s: Open vSwitch takes it by itself", link->name);
		return;
	}
	if (strcmp(master->kind, "bond") == 0)
		(void) link_set_flags(restore, link, 0, IFF_UP, "down");
	(void) set_master(restore, link, master->index);
}

/* One that could not join its master has no settings of a port: that was reported. */
static void set_port(struct links_restore *restore, const struct restored_link *link)
{
	const char *kind = record_get(link->record, "port_kind");
	const struct link *now = restored_now(restore, link);
	const struct settings settings = { .field = "port_data",
		.kind = kind,
		.kind_type = IFLA_INFO_SLAVE_KIND,
		.data_type = IFLA_INFO_SLAVE_DATA,
		.is_skipped = port_skips };

	if (kind && !link->is_hosts && now && now->master)
		set_differences(restore, link, &settings);
}

static bool is_bond(const struct restored_link *link)
{
	const char *kind = record_get(link->record, "kind");

	return kind && strcmp(kind, "bond") == 0;
}

void masters_restore(struct links_restore *restore)
{
	for (size_t i = 0; i < restore->count; i++)
		if (is_bond(&restore->links[i]) && !restore->links[i].is_hosts)
			restore_bond(restore, &restore->links[i]);
	for (size_t i = 0; i < restore->count; i++) {
		const char *name = record_get(restore->links[i].record, "master");

		if (name)
			join(restore, &restore->links[i], name);
	}
	(void) links_look(restore);
	for (size_t i = 0; i < restore->count; i++)
		set_port(restore, &restore->links[i]);
}

/* ---- the port that a bond uses */

/* Modes that know such a port: active-backup, balance-tlb, balance-alb. */
static bool has_active_port(const struct attributes *saved)
{
	const struct nlattr *attribute = attributes_find(saved, IFLA_BOND_MODE);
	uint8_t mode = attribute && mnl_attr_get_payload_len(attribute) >= 1
			       ? mnl_attr_get_u8(attribute)
			       : 0;

	return mode == 1 || mode == 5 || mode == 6;
}

/* A bond forgets nothing but these two when a port goes, for they are indexes. */
static void choose(struct links_restore *restore, const struct restored_link *link, uint16_t type,
	const char *what)
{
	_cleanup_(attributes_free) struct attributes saved =
		record_attributes(link->record, "data");
	const struct nlattr *attribute = attributes_find(&saved, type);
	const struct link *now = restored_now(restore, link);
	const struct nlattr *current =
		now ? netlink_nested(link_info_attribute(now, IFLA_INFO_DATA), type) : NULL;
	struct link_info info;
	uint32_t port;

	if (!now || !attribute || mnl_attr_get_payload_len(attribute) < 4 ||
		!has_active_port(&saved))
		return;
	port = restored_index(restore, link->generation, mnl_attr_get_u32(attribute));
	if (!port || (current && mnl_attr_get_u32(current) == port))
		return;
	info = link_begin_info(
		link_change(restore, link->index), IFLA_INFO_KIND, "bond", IFLA_INFO_DATA);
	mnl_attr_put_u32(info.request, type, port);
	(void) link_do(restore, link, link_end_info(&info), what);
}

void masters_choose_active(struct links_restore *restore)
{
	for (size_t i = 0; i < restore->count; i++) {
		const struct restored_link *link = &restore->links[i];

		if (!is_bond(link) || link->is_hosts)
			continue;
		choose(restore, link, IFLA_BOND_PRIMARY, "its primary port");
		choose(restore, link, IFLA_BOND_ACTIVE_SLAVE, "its active port");
	}
}
