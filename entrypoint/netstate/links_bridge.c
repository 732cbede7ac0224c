/* SPDX-License-Identifier: Apache-2.0 */
/* VLANs of bridge ports, and what a person entered in a forwarding table (bridge vlan, bridge fdb).
 */
#include <linux/if_bridge.h>
#include <linux/if_link.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <string.h>

#include "entrypoint/netstate/links_parts.h"

static const struct nlattr *vlans_of(const struct nlmsghdr *message)
{
	return links_attribute(message, sizeof(struct ifinfomsg), IFLA_AF_SPEC);
}

static int save_vlans(void *context, const struct nlmsghdr *message)
{
	const struct saved_links *saved = context;
	const struct ifinfomsg *header = mnl_nlmsg_get_payload(message);
	const struct nlattr *vlans = vlans_of(message);
	const struct link *link = link_by_index(&saved->table, (uint32_t) header->ifi_index);
	struct record *record;

	/* A bridge without the filter tells none; the bridge itself keeps its own. */
	if (message->nlmsg_type != RTM_NEWLINK || !vlans || !link || !link->master ||
		!saved_links_has(saved, link->index))
		return 0;
	record = statefile_add(saved->records, "bridge-vlans");
	if (!record || record_set(record, "link", link->name) < 0 ||
		record_set_hex(record, "vlans", mnl_attr_get_payload(vlans),
			mnl_attr_get_payload_len(vlans)) < 0)
		return -ENOMEM;
	return 0;
}

/* What a person set: not what the bridge learned, nor an interface's own address. */
static bool is_persons(const struct nlmsghdr *message)
{
	const struct ndmsg *header = mnl_nlmsg_get_payload(message);

	if (header->ndm_flags & NTF_EXT_LEARNED)
		return false;
	/* Of a VXLAN: where an address is. */
	if (links_attribute(message, sizeof(*header), NDA_DST))
		return header->ndm_state & (NUD_PERMANENT | NUD_NOARP);
	return (header->ndm_state & NUD_NOARP) &&
	       links_attribute(message, sizeof(*header), NDA_MASTER);
}

static int save_entry(void *context, const struct nlmsghdr *message)
{
	const struct saved_links *saved = context;
	const struct ndmsg *header = mnl_nlmsg_get_payload(message);
	const struct link *link = link_by_index(&saved->table, (uint32_t) header->ndm_ifindex);
	struct record *record;

	if (message->nlmsg_type != RTM_NEWNEIGH || header->ndm_family != AF_BRIDGE || !link ||
		!saved_links_has(saved, link->index) || !is_persons(message))
		return 0;
	record = links_raw_record(saved, "bridge-entry", message);
	return record ? record_set(record, "link", link->name) : -ENOMEM;
}

int bridge_ports_save(const struct saved_links *saved, struct error *error)
{
	struct nlmsghdr *request = netlink_request(saved->netlink, RTM_GETLINK, NLM_F_DUMP);
	struct ifinfomsg *header = netlink_extra(request, sizeof(*header));
	uintptr_t context = (uintptr_t) saved;
	int r;

	header->ifi_family = AF_BRIDGE;
	mnl_attr_put_u32(request, IFLA_EXT_MASK, RTEXT_FILTER_BRVLAN);
	r = netlink_talk(saved->netlink, request, save_vlans, (void *) context, error);
	/* Without the bridge module the kernel has nobody to ask. */
	if (r < 0 && r != -EOPNOTSUPP)
		return error_prefix(error, r, "VLANs of bridges");
	request = netlink_request(saved->netlink, RTM_GETNEIGH, NLM_F_DUMP);
	header = netlink_extra(request, sizeof(*header));
	header->ifi_family = AF_BRIDGE;
	r = netlink_talk(saved->netlink, request, save_entry, (void *) context, error);
	if (r < 0 && r != -EOPNOTSUPP)
		return error_prefix(error, r, "forwarding tables of bridges");
	return 0;
}

/* ---- restoring */

static struct nlmsghdr *vlan_request(struct links_restore *restore, uint32_t index, uint16_t type,
	const void *vlans, size_t size)
{
	struct nlmsghdr *request = netlink_request(restore->netlink, type, 0);
	struct ifinfomsg *header = netlink_extra(request, sizeof(*header));

	header->ifi_family = AF_BRIDGE;
	header->ifi_index = (int) index;
	netlink_put(request, IFLA_AF_SPEC | NLA_F_NESTED, size, vlans);
	return request;
}

static bool has_vlan(const struct attributes *vlans, uint16_t number)
{
	const struct nlattr *attribute;

	attributes_for_each(attribute, vlans)
	{
		const struct bridge_vlan_info *vlan = mnl_attr_get_payload(attribute);

		if (mnl_attr_get_type(attribute) == IFLA_BRIDGE_VLAN_INFO &&
			mnl_attr_get_payload_len(attribute) >= sizeof(*vlan) && vlan->vid == number)
			return true;
	}
	return false;
}

/* The VLAN that the bridge puts a new port into. */
static uint16_t default_vlan(const struct links_restore *restore, uint32_t bridge)
{
	const struct link *master = link_by_index(&restore->now, bridge);
	const struct nlattr *data = master ? link_info_attribute(master, IFLA_INFO_DATA) : NULL;
	const struct nlattr *attribute;

	if (!data)
		return 1;
	mnl_attr_for_each_nested(attribute, data)
	{
		if (mnl_attr_get_type(attribute) == IFLA_BR_VLAN_DEFAULT_PVID &&
			mnl_attr_get_payload_len(attribute) >= 2)
			return mnl_attr_get_u16(attribute);
	}
	return 1;
}

/* A new port is in that VLAN, until somebody takes it out. */
static void leave_default(struct links_restore *restore, const struct restored_link *link,
	const struct attributes *vlans, uint16_t number)
{
	struct {
		struct nlattr header;
		struct bridge_vlan_info vlan;
	} only = { { sizeof(only), IFLA_BRIDGE_VLAN_INFO }, { .vid = number } };
	struct error error;

	if (!number || has_vlan(vlans, number))
		return;
	(void) netlink_talk(restore->netlink,
		vlan_request(restore, link->index, RTM_DELLINK, &only, sizeof(only)), NULL, NULL,
		&error);
}

static void restore_vlans(struct links_restore *restore, const struct record *record)
{
	_cleanup_(attributes_free) struct attributes vlans = record_attributes(record, "vlans");
	const char *name = record_get(record, "link");
	const struct restored_link *link = name ? restored_by_name(restore, name) : NULL;
	const struct link *now = link ? restored_now(restore, link) : NULL;

	if (!now || !now->master || link->is_hosts || !vlans.data)
		return;
	leave_default(restore, link, &vlans, default_vlan(restore, now->master));
	(void) links_do(restore, link,
		vlan_request(restore, link->index, RTM_SETLINK, vlans.data, vlans.size),
		"its VLANs in the bridge");
}

static void restore_entry(struct links_restore *restore, const struct record *record)
{
	const char *name = record_get(record, "link");
	const struct restored_link *link = name ? restored_by_name(restore, name) : NULL;
	_cleanup_free_ struct nlmsghdr *message = links_raw_message(record, sizeof(struct ndmsg));
	const struct nlattr *attribute;
	struct nlmsghdr *request;
	struct ndmsg *header;
	struct error error = { 0 };
	int r;

	if (!link || !restored_now(restore, link))
		return;
	if (!message) {
		links_damaged(restore, record);
		return;
	}
	request = netlink_request(restore->netlink, RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_APPEND);
	header = netlink_extra(request, sizeof(*header));
	*header = *(const struct ndmsg *) mnl_nlmsg_get_payload(message);
	header->ndm_ifindex = (int) link->index;
	header->ndm_flags |=
		links_attribute(message, sizeof(*header), NDA_MASTER) ? NTF_MASTER : NTF_SELF;
	mnl_attr_for_each(attribute, message, sizeof(*header))
	{
		uint16_t type = mnl_attr_get_type(attribute);

		if (type == NDA_LLADDR || type == NDA_VLAN || type == NDA_DST || type == NDA_PORT ||
			type == NDA_VNI || type == NDA_SRC_VNI)
			(void) links_copy(request, attribute);
	}
	r = netlink_talk(restore->netlink, request, NULL, NULL, &error);
	if (r < 0 && r != -EEXIST)
		network_failure(restore->network, restore->result,
			"%s: an entry of its forwarding table: %s", name, error.text);
}

void bridge_ports_restore(struct links_restore *restore)
{
	for (size_t i = 0; i < restore->records->count; i++) {
		const struct record *record = &restore->records->items[i];

		if (strcmp(record->kind, "bridge-vlans") == 0)
			restore_vlans(restore, record);
		else if (strcmp(record->kind, "bridge-entry") == 0)
			restore_entry(restore, record);
	}
}
