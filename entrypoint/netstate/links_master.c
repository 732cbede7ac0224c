/* SPDX-License-Identifier: Apache-2.0 */
/* Ports of bonds, bridges and VRFs: who their master was, and what it keeps of each. */
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <string.h>

#include "entrypoint/netstate/links_parts.h"

/* Settings of a master or a port of it. */
struct settings {
	const char *field;  /* of the record */
	const char *kind;   /* of the master or the interface */
	uint16_t kind_type; /* IFLA_INFO_KIND, IFLA_INFO_SLAVE_KIND */
	uint16_t data_type; /* IFLA_INFO_DATA, IFLA_INFO_SLAVE_DATA */
	bool (*is_passed_over)(const char *kind, uint16_t type);
};

static bool is_same(const struct nlattr *a, const struct nlattr *b)
{
	return b && mnl_attr_get_payload_len(a) == mnl_attr_get_payload_len(b) &&
	       memcmp(mnl_attr_get_payload(a), mnl_attr_get_payload(b),
		       mnl_attr_get_payload_len(a)) == 0;
}

static const struct nlattr *nested(const struct nlattr *nest, uint16_t type)
{
	const struct nlattr *attribute;

	if (!nest)
		return NULL;
	mnl_attr_for_each_nested(attribute, nest)
	{
		if (mnl_attr_get_type(attribute) == type)
			return attribute;
	}
	return NULL;
}

static void set_one(struct links_restore *restore, const struct restored_link *link,
	const struct settings *settings, const struct nlattr *attribute)
{
	struct nlmsghdr *request = links_change(restore, link->index);
	struct nlattr *info = mnl_attr_nest_start(request, IFLA_LINKINFO);
	struct nlattr *data;
	char what[64];

	netlink_put_text(request, settings->kind_type, settings->kind);
	data = mnl_attr_nest_start(request, settings->data_type);
	(void) links_copy(request, attribute);
	mnl_attr_nest_end(request, data);
	mnl_attr_nest_end(request, info);
	(void) snprintf(what, sizeof(what), "setting %u of a %s", mnl_attr_get_type(attribute),
		settings->kind);
	(void) links_do(restore, link, request, what);
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

		if (!settings->is_passed_over(settings->kind, type) &&
			!is_same(attribute, nested(data, type)))
			set_one(restore, link, settings, attribute);
	}
}

/* ---- masters that were made again */

/* Interfaces' indexes, which are chosen later, and what a bond only tells. */
static bool bond_passes_over(const char *kind, uint16_t type)
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
	struct error error = { 0 };

	if (!mode || !now ||
		is_same(mode, nested(link_info_attribute(now, IFLA_INFO_DATA), IFLA_BOND_MODE)))
		return;
	set_one(restore, link, settings, mode);
	if (restore_look(restore, &error) < 0)
		network_failure(restore->network, restore->result, "%s", error.text);
}

static void restore_bond(struct links_restore *restore, const struct restored_link *link)
{
	static const struct settings settings = { .field = "data",
		.kind = "bond",
		.kind_type = IFLA_INFO_KIND,
		.data_type = IFLA_INFO_DATA,
		.is_passed_over = bond_passes_over };

	set_bond_mode(restore, link, &settings);
	set_differences(restore, link, &settings);
}

/* ---- ports */

/* What a bridge tells of a port and nobody sets: its state and what it learned of its neighbours.
 */
static bool port_passes_over(const char *kind, uint16_t type)
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
	struct nlmsghdr *request = links_change(restore, link->index);

	mnl_attr_put_u32(request, IFLA_MASTER, master);
	return links_do(restore, link, request, "its master") == 0;
}

/* A bond takes only what is down. */
static void join(struct links_restore *restore, const struct restored_link *link, const char *name)
{
	const struct link *now = restored_now(restore, link);
	const struct link *master = link_by_name(&restore->now, name);

	if (!now || link->is_hosts)
		return;
	if (!master) {
		network_failure(restore->network, restore->result, "%s: its master %s is not there",
			link->name, name);
		return;
	}
	if (now->master == master->index)
		return;
	if (strcmp(master->kind, "openvswitch") == 0) {
		network_note(restore->network, "%s: Open vSwitch takes it by itself", link->name);
		return;
	}
	if (strcmp(master->kind, "bond") == 0)
		(void) link_set_flags(restore, link, 0, IFF_UP, "down");
	(void) set_master(restore, link, master->index);
}

/* One that could not join its master has no settings of a port: that was told. */
static void set_port(struct links_restore *restore, const struct restored_link *link)
{
	const char *kind = record_get(link->record, "port_kind");
	const struct link *now = restored_now(restore, link);
	const struct settings settings = { .field = "port_data",
		.kind = kind,
		.kind_type = IFLA_INFO_SLAVE_KIND,
		.data_type = IFLA_INFO_SLAVE_DATA,
		.is_passed_over = port_passes_over };

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
	struct error error = { 0 };

	for (size_t i = 0; i < restore->count; i++)
		if (is_bond(&restore->links[i]) && !restore->links[i].is_hosts)
			restore_bond(restore, &restore->links[i]);
	for (size_t i = 0; i < restore->count; i++) {
		const char *name = record_get(restore->links[i].record, "master");

		if (name)
			join(restore, &restore->links[i], name);
	}
	if (restore_look(restore, &error) < 0)
		network_failure(restore->network, restore->result, "%s", error.text);
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
		now ? nested(link_info_attribute(now, IFLA_INFO_DATA), type) : NULL;
	struct nlmsghdr *request;
	struct nlattr *info;
	struct nlattr *data;
	uint32_t port;

	if (!now || !attribute || mnl_attr_get_payload_len(attribute) < 4 ||
		!has_active_port(&saved))
		return;
	port = restored_index(restore, link->life, mnl_attr_get_u32(attribute));
	if (!port || (current && mnl_attr_get_u32(current) == port))
		return;
	request = links_change(restore, link->index);
	info = mnl_attr_nest_start(request, IFLA_LINKINFO);
	netlink_put_text(request, IFLA_INFO_KIND, "bond");
	data = mnl_attr_nest_start(request, IFLA_INFO_DATA);
	mnl_attr_put_u32(request, type, port);
	mnl_attr_nest_end(request, data);
	mnl_attr_nest_end(request, info);
	(void) links_do(restore, link, request, what);
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
