/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Interfaces that stand on a driver's interfaces. Some go with the driver: VLANs, macvlans,
 * ipvlans, VXLANs that are bound to one, partitions of InfiniBand, and bonds of InfiniBand, which
 * go with their last port (drivers/net/bonding/bond_main.c, bond_slave_netdev_event()); they are
 * made again as their IFLA_LINKINFO was. Bonds, bridges and VRFs stay without their ports, which
 * join them again.
 */
#include <linux/if_vlan.h>
#include <linux/rtnetlink.h>
#include <string.h>

#include "entrypoint/netstate/link_internal.h"

#define BRPORT_MCAST_N_GROUPS 41 /* IFLA_BRPORT_MCAST_N_GROUPS, since Linux 6.3 */

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
	const struct ifla_vlan_flags *saved = netlink_payload(attribute, sizeof(*saved));
	struct ifla_vlan_flags flags;

	if (!saved)
		return;
	flags = *saved;
	flags.mask = flags.flags | VLAN_FLAG_REORDER_HDR;
	netlink_put(request, IFLA_VLAN_FLAGS, sizeof(flags), &flags);
}

/* Is it put? What the kernel answers otherwise than it takes it (8021q, macvlan, vxlan). */
static bool put_translated(
	struct nlmsghdr *request, const char *kind, const struct nlattr *attribute, uint32_t lower)
{
	const uint32_t macvlan_set = MACVLAN_MACADDR_SET;
	uint16_t type = mnl_attr_get_type(attribute);

	if (strcmp(kind, "vlan") == 0 && type == IFLA_VLAN_FLAGS) {
		put_vlan_flags(request, attribute);
		return true;
	}
	if (strcmp(kind, "macvlan") == 0 || strcmp(kind, "macvtap") == 0) {
		if (type == IFLA_MACVLAN_MACADDR_DATA && mnl_attr_get_payload_len(attribute))
			netlink_put(request, IFLA_MACVLAN_MACADDR_MODE, sizeof(macvlan_set),
				&macvlan_set);
		return type == IFLA_MACVLAN_BC_QUEUE_LEN_USED || type == IFLA_MACVLAN_MACADDR_COUNT;
	}
	if (strcmp(kind, "vxlan") == 0 && type == IFLA_VXLAN_TTL_INHERIT) {
		if (netlink_number(attribute))
			netlink_put(request, type, 0, "");
		return true;
	}
	/* Since Linux 6.14 its presence alone claims a bit that is reserved by default. */
	if (strcmp(kind, "vxlan") == 0 && type == IFLA_VXLAN_REMCSUM_RX)
		return !netlink_number(attribute);
	if (strcmp(kind, "vxlan") == 0 && type == IFLA_VXLAN_LINK) {
		netlink_put(request, type, sizeof(lower), &lower);
		return true;
	}
	return false;
}

static int make(struct links_restore *restore, const struct restored_link *link, const char *kind,
	struct error *error)
{
	uint32_t lower = link->lower ? link->lower->now->index : 0;
	_cleanup_free_ struct nlmsghdr *data = record_message(link->record, "data", 0);
	struct nlmsghdr *request =
		netlink_link_request(restore->netlink, RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, 0);
	uint8_t address[LINK_ADDRESS_SIZE];
	int size = record_get_hex(link->record, "mac", address, sizeof(address));
	const struct nlattr *attribute;
	struct nlattr *info;
	struct nlattr *nest;

	netlink_put_text(request, IFLA_IFNAME, link->name);
	if (lower && strcmp(kind, "vxlan") != 0)
		mnl_attr_put_u32(request, IFLA_LINK, lower);
	if (size > 0)
		mnl_attr_put(request, IFLA_ADDRESS, (size_t) size, address);
	info = mnl_attr_nest_start(request, IFLA_LINKINFO);
	netlink_put_text(request, IFLA_INFO_KIND, kind);
	nest = mnl_attr_nest_start(request, IFLA_INFO_DATA);
	/* A bond takes its settings one by one: which of them go together depends on its mode. */
	if (data && strcmp(kind, "bond") != 0)
		mnl_attr_for_each(attribute, data, 0)
		{
			if (!put_translated(request, kind, attribute, lower))
				netlink_put_copy(request, attribute);
		}
	mnl_attr_nest_end(request, nest);
	mnl_attr_nest_end(request, info);
	return netlink_talk(restore->netlink, request, NULL, NULL, error);
}

static bool is_lower_there(const struct restored_link *link)
{
	return !link->over || (link->lower && link->lower->now);
}

/*
 * The kernel takes those away that stand on something, and bonds of InfiniBand; a bridge that is
 * not there any more was removed on purpose.
 */
static void make_one(struct links_restore *restore, struct restored_link *link)
{
	const char *kind = record_text(link->record, "kind");
	struct error error = { 0 };

	link->is_tried = true;
	if (!is_lower_there(link))
		run_failure(restore->run, "%s: its lower interface %s is missing", link->name,
			link->over);
	else if (!*kind || (!link->over && strcmp(kind, "bond") != 0) ||
		 strcmp(kind, "macsec") == 0)
		run_failure(restore->run, "%s%s%s is gone and cannot be created from here", kind,
			*kind ? " " : "", link->name);
	else if (make(restore, link, kind, &error) < 0)
		run_failure(restore->run, "%s %s: %s", kind, link->name, error.text);
}

/*
 * All that are missing and stand on what is there, or (@is_last) the others. Those on these are
 * next: how many were tried.
 */
static size_t make_missing(struct links_restore *restore, bool is_last)
{
	size_t tried = 0;

	for (size_t i = 0; i < restore->count; i++) {
		struct restored_link *link = &restore->links[i];

		if (link->device || link->now || link->is_hosts || link->is_tried ||
			!(is_last || is_lower_there(link)))
			continue;
		make_one(restore, link);
		tried++;
	}
	if (tried && !is_last)
		links_look(restore);
	return tried;
}

static void report_tunnels(const struct links_restore *restore)
{
	for (size_t i = 0; i < restore->count; i++) {
		const struct restored_link *link = &restore->links[i];
		const struct restored_link *lower = link->lower;
		const char *kind = record_text(link->record, "kind");

		if (!link->device && link->now && !link->is_tried && is_tunnel(kind) && lower &&
			lower->now && lower->now->index != lower->old_index)
			run_failure(restore->run,
				"%s %s was bound to %s, which was replaced: bind it again (ip "
				"link set %s type %s dev %s)",
				kind, link->name, lower->name, link->name, kind, lower->name);
	}
}

void links_make(struct links_restore *restore)
{
	while (make_missing(restore, false))
		;
	(void) make_missing(restore, true);
	report_tunnels(restore);
}

/* ---- settings of masters and ports */

/*
 * Read-only attributes of a bridge port: its state and what it learned about its neighbours; and
 * an interface's index, which is chosen later.
 */
static const uint64_t shown_of_bridge_port =
	BIT(IFLA_BRPORT_STATE) | BIT(IFLA_BRPORT_ROOT_ID) | BIT(IFLA_BRPORT_BRIDGE_ID) |
	BIT(IFLA_BRPORT_DESIGNATED_PORT) | BIT(IFLA_BRPORT_DESIGNATED_COST) | BIT(IFLA_BRPORT_ID) |
	BIT(IFLA_BRPORT_NO) | BIT(IFLA_BRPORT_TOPOLOGY_CHANGE_ACK) |
	BIT(IFLA_BRPORT_CONFIG_PENDING) | BIT(IFLA_BRPORT_MESSAGE_AGE_TIMER) |
	BIT(IFLA_BRPORT_FORWARD_DELAY_TIMER) | BIT(IFLA_BRPORT_HOLD_TIMER) |
	BIT(IFLA_BRPORT_FLUSH) | BIT(IFLA_BRPORT_PAD) | BIT(IFLA_BRPORT_BACKUP_PORT) |
	BIT(IFLA_BRPORT_MRP_RING_OPEN) | BIT(IFLA_BRPORT_MRP_IN_OPEN) |
	BIT(IFLA_BRPORT_MCAST_EHT_HOSTS_CNT) | BIT(BRPORT_MCAST_N_GROUPS);

static bool is_set(bool is_port, const char *kind, uint16_t type)
{
	if (is_port && strcmp(kind, "bridge") == 0)
		return type >= 64 || !(shown_of_bridge_port & BIT(type));
	if (is_port)
		return strcmp(kind, "bond") == 0 &&
		       (type == IFLA_BOND_SLAVE_QUEUE_ID || type == IFLA_BOND_SLAVE_PRIO);
	if (strcmp(kind, "ipoib") == 0)
		return type != IFLA_IPOIB_PKEY;
	/* Interfaces' indexes, which are chosen later, and what a bond only shows. */
	return type != IFLA_BOND_ACTIVE_SLAVE && type != IFLA_BOND_PRIMARY &&
	       type != IFLA_BOND_AD_INFO;
}

static void set_one(const struct links_restore *restore, const struct restored_link *link,
	bool is_port, const char *kind, uint16_t type, const void *data, size_t size,
	const char *what)
{
	struct nlmsghdr *request = link_change(restore, link->now);
	struct nlattr *info = mnl_attr_nest_start(request, IFLA_LINKINFO);
	struct nlattr *nest;

	netlink_put_text(request, is_port ? IFLA_INFO_SLAVE_KIND : IFLA_INFO_KIND, kind);
	nest = mnl_attr_nest_start(request, is_port ? IFLA_INFO_SLAVE_DATA : IFLA_INFO_DATA);
	netlink_put(request, type, size, data);
	mnl_attr_nest_end(request, nest);
	mnl_attr_nest_end(request, info);
	link_do(restore, link, request, what);
}

/* One by one: what a kernel refuses is then but what it was. */
void link_set_differences(const struct links_restore *restore, const struct restored_link *link,
	bool is_port, const char *kind, uint16_t only)
{
	_cleanup_free_ struct nlmsghdr *saved =
		record_message(link->record, is_port ? "port_data" : "data", 0);
	const struct nlattr *attribute;
	const struct nlattr *data;

	if (!link->now || !saved)
		return;
	data = link_info_attribute(link->now, is_port ? IFLA_INFO_SLAVE_DATA : IFLA_INFO_DATA);
	mnl_attr_for_each(attribute, saved, 0)
	{
		uint16_t type = mnl_attr_get_type(attribute);
		char what[64];

		if ((only && type != only) || !is_set(is_port, kind, type) ||
			netlink_is(netlink_nested(data, type), mnl_attr_get_payload(attribute),
				mnl_attr_get_payload_len(attribute)))
			continue;
		(void) snprintf(what, sizeof(what), "setting %u of a %s", type, kind);
		set_one(restore, link, is_port, kind, attribute->nla_type,
			mnl_attr_get_payload(attribute), mnl_attr_get_payload_len(attribute),
			strcmp(kind, "ipoib") == 0 ? "the mode of IP over InfiniBand" : what);
	}
}

/* A bond takes only what is down. */
static void join(struct links_restore *restore, const struct restored_link *link)
{
	const char *name = record_text(link->record, "master");
	const struct link *master = *name ? link_by_name(&restore->now, name) : NULL;
	struct nlmsghdr *request;

	if (!*name || !link->now || link->is_hosts ||
		(master && link->now->master == master->index))
		return;
	if (!master) {
		run_failure(restore->run, "%s: its master %s is missing", link->name, name);
		return;
	}
	if (strcmp(master->kind, "openvswitch") == 0) {
		run_note(restore->run, "%s: Open vSwitch adds it by itself", link->name);
		return;
	}
	if (strcmp(master->kind, "bond") == 0)
		link_set_flags(restore, link, 0, IFF_UP, "down");
	request = link_change(restore, link->now);
	mnl_attr_put_u32(request, IFLA_MASTER, master->index);
	link_do(restore, link, request, "its master");
}

static bool is_bond(const struct restored_link *link)
{
	return !link->is_hosts && strcmp(record_text(link->record, "kind"), "bond") == 0;
}

void masters_restore(struct links_restore *restore)
{
	for (size_t i = 0; i < restore->count; i++) {
		if (!is_bond(&restore->links[i]))
			continue;
		/* The mode first: what else can be set depends on it. */
		link_set_differences(restore, &restore->links[i], false, "bond", IFLA_BOND_MODE);
		links_look(restore);
		link_set_differences(restore, &restore->links[i], false, "bond", 0);
	}
	for (size_t i = 0; i < restore->count; i++)
		join(restore, &restore->links[i]);
	links_look(restore);
	for (size_t i = 0; i < restore->count; i++) {
		const struct restored_link *link = &restore->links[i];

		/* One that could not join its master has no settings of a port. */
		if (!link->is_hosts && link->now && link->now->master)
			link_set_differences(
				restore, link, true, record_text(link->record, "port_kind"), 0);
	}
}

/* ---- the port that a bond uses, or a bridge's port falls back to */

static bool is_bridge_port(const struct restored_link *link)
{
	return strcmp(record_text(link->record, "port_kind"), "bridge") == 0;
}

/* These are forgotten when a port goes, for they are indexes. */
static void choose(struct links_restore *restore, const struct restored_link *link, bool is_port,
	uint16_t type, const char *what)
{
	_cleanup_free_ struct nlmsghdr *saved =
		record_message(link->record, is_port ? "port_data" : "data", 0);
	uint32_t port = restored_index(
		restore, link->record, netlink_number(netlink_attribute(saved, 0, type)));
	const struct nlattr *data;

	if (!link->now || !port)
		return;
	data = link_info_attribute(link->now, is_port ? IFLA_INFO_SLAVE_DATA : IFLA_INFO_DATA);
	if (netlink_number(netlink_nested(data, type)) != port)
		set_one(restore, link, is_port, is_port ? "bridge" : "bond", type, &port,
			sizeof(port), what);
}

/* Modes that know such a port: active-backup, balance-tlb, balance-alb. */
static bool has_active_port(const struct restored_link *link)
{
	_cleanup_free_ struct nlmsghdr *saved = record_message(link->record, "data", 0);
	uint32_t mode = netlink_number(netlink_attribute(saved, 0, IFLA_BOND_MODE));

	return is_bond(link) && (mode == 1 || mode == 5 || mode == 6);
}

void masters_choose_ports(struct links_restore *restore)
{
	for (size_t i = 0; i < restore->count; i++) {
		const struct restored_link *link = &restore->links[i];

		if (has_active_port(link)) {
			choose(restore, link, false, IFLA_BOND_PRIMARY, "its primary port");
			choose(restore, link, false, IFLA_BOND_ACTIVE_SLAVE, "its active port");
		}
		if (!link->is_hosts && is_bridge_port(link) && link->now && link->now->master)
			choose(restore, link, true, IFLA_BRPORT_BACKUP_PORT, "its backup port");
	}
}
