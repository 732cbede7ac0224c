/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/netstate/vf.h"

#include <arpa/inet.h>
#include <linux/if_arp.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"

#define UNTOLD UINT32_MAX /* what rtnetlink says where a driver has no answer */

const char *vf_attribute_words(enum vf_attribute attribute)
{
	static const char *const words[VF_ATTRIBUTES] = {
		[VF_MAC] = "its MAC address",
		[VF_NODE_GUID] = "its node GUID",
		[VF_PORT_GUID] = "its port GUID",
		[VF_VLAN] = "its VLAN",
		[VF_RATE] = "its rates",
		[VF_TRUST] = "its trust",
		[VF_SPOOF_CHECK] = "its spoof check",
		[VF_LINK_STATE] = "its link state",
		[VF_RSS_QUERY] = "its RSS query",
	};

	return words[attribute];
}

static bool has_same_value(
	const struct vf_settings *one, const struct vf_settings *other, enum vf_attribute attribute)
{
	switch (attribute) {
	case VF_MAC:
		return memcmp(one->mac, other->mac, sizeof(one->mac)) == 0;
	case VF_NODE_GUID:
		return one->node_guid == other->node_guid;
	case VF_PORT_GUID:
		return one->port_guid == other->port_guid;
	case VF_VLAN:
		return one->vlan == other->vlan && one->qos == other->qos &&
		       one->vlan_protocol == other->vlan_protocol;
	case VF_RATE:
		return one->min_rate == other->min_rate && one->max_rate == other->max_rate;
	case VF_TRUST:
		return one->trust == other->trust;
	case VF_SPOOF_CHECK:
		return one->spoof_check == other->spoof_check;
	case VF_LINK_STATE:
		return one->link_state == other->link_state;
	case VF_RSS_QUERY:
		return one->rss_query == other->rss_query;
	default:
		return false;
	}
}

bool vf_is_same(
	const struct vf_settings *one, const struct vf_settings *other, enum vf_attribute attribute)
{
	return vf_knows(one, attribute) && vf_knows(other, attribute) &&
	       has_same_value(one, other, attribute);
}

/* ---- reading */

/* Copies what the kernel's structure has into ours, which may be the larger one. */
static bool take(const struct nlattr *attribute, void *data, size_t size)
{
	size_t has = mnl_attr_get_payload_len(attribute);

	memset(data, 0, size);
	memcpy(data, mnl_attr_get_payload(attribute), has < size ? has : size);
	return has >= size;
}

static void tell(struct vf_settings *vf, enum vf_attribute attribute)
{
	vf->known |= 1u << attribute;
}

/* Trust, spoof check and RSS query have one shape: a VF and a number. */
static void read_switch(const struct nlattr *attribute, struct vf_settings *vf,
	enum vf_attribute which, bool *value)
{
	struct ifla_vf_trust setting;

	if (!take(attribute, &setting, sizeof(setting)) || setting.setting == UNTOLD)
		return;
	*value = setting.setting != 0;
	tell(vf, which);
}

static void read_guid(const struct nlattr *attribute, struct vf_settings *vf,
	enum vf_attribute which, uint64_t *value)
{
	struct ifla_vf_guid guid;

	if (!take(attribute, &guid, sizeof(guid)))
		return;
	*value = guid.guid;
	tell(vf, which);
}

/* Kernels before 4.9 have no list, only the plain one. */
static void read_plain_vlan(const struct nlattr *attribute, struct vf_settings *vf)
{
	struct ifla_vf_vlan vlan;

	if (vf_knows(vf, VF_VLAN) || !take(attribute, &vlan, sizeof(vlan)))
		return;
	vf->vlan = (uint16_t) vlan.vlan;
	vf->qos = (uint8_t) vlan.qos;
	vf->vlan_protocol = 0x8100;
	tell(vf, VF_VLAN);
}

static void read_vlans(const struct nlattr *nest, struct vf_settings *vf)
{
	const struct nlattr *attribute;

	mnl_attr_for_each_nested(attribute, nest)
	{
		struct ifla_vf_vlan_info vlan;

		if (mnl_attr_get_type(attribute) != IFLA_VF_VLAN_INFO ||
			!take(attribute, &vlan, sizeof(vlan)))
			continue;
		vf->vlan = (uint16_t) vlan.vlan;
		vf->qos = (uint8_t) vlan.qos;
		vf->vlan_protocol = ntohs(vlan.vlan_proto);
		tell(vf, VF_VLAN);
		return;
	}
}

static void read_mac(const struct nlattr *attribute, struct vf_settings *vf)
{
	struct ifla_vf_mac mac;

	if (!take(attribute, &mac, sizeof(mac)))
		return;
	vf->index = mac.vf;
	memcpy(vf->mac, mac.mac, sizeof(vf->mac));
	tell(vf, VF_MAC);
}

static void read_rate(const struct nlattr *attribute, struct vf_settings *vf)
{
	struct ifla_vf_rate rate;

	if (!take(attribute, &rate, sizeof(rate)))
		return;
	vf->min_rate = rate.min_tx_rate;
	vf->max_rate = rate.max_tx_rate;
	tell(vf, VF_RATE);
}

static void read_link_state(const struct nlattr *attribute, struct vf_settings *vf)
{
	struct ifla_vf_link_state state;

	if (!take(attribute, &state, sizeof(state)))
		return;
	vf->link_state = (uint8_t) state.link_state;
	tell(vf, VF_LINK_STATE);
}

static void read_attribute(const struct nlattr *attribute, struct vf_settings *vf)
{
	switch (mnl_attr_get_type(attribute)) {
	case IFLA_VF_MAC:
		read_mac(attribute, vf);
		break;
	case IFLA_VF_VLAN:
		read_plain_vlan(attribute, vf);
		break;
	case IFLA_VF_VLAN_LIST:
		read_vlans(attribute, vf);
		break;
	case IFLA_VF_RATE:
		read_rate(attribute, vf);
		break;
	case IFLA_VF_SPOOFCHK:
		read_switch(attribute, vf, VF_SPOOF_CHECK, &vf->spoof_check);
		break;
	case IFLA_VF_TRUST:
		read_switch(attribute, vf, VF_TRUST, &vf->trust);
		break;
	case IFLA_VF_RSS_QUERY_EN:
		read_switch(attribute, vf, VF_RSS_QUERY, &vf->rss_query);
		break;
	case IFLA_VF_LINK_STATE:
		read_link_state(attribute, vf);
		break;
	case IFLA_VF_IB_NODE_GUID:
		read_guid(attribute, vf, VF_NODE_GUID, &vf->node_guid);
		break;
	case IFLA_VF_IB_PORT_GUID:
		read_guid(attribute, vf, VF_PORT_GUID, &vf->port_guid);
		break;
	default:
		break;
	}
}

static int read_vf(const struct nlattr *nest, bool is_infiniband, struct vf_list *list)
{
	struct vf_settings vf = { 0 };
	const struct nlattr *attribute;
	struct vf_settings *items = reallocarray(list->items, list->count + 1, sizeof(vf));

	if (!items)
		return -ENOMEM;
	list->items = items;
	mnl_attr_for_each_nested(attribute, nest)
	{
		read_attribute(attribute, &vf);
	}
	/* InfiniBand has GUIDs; what stands in the address's place cannot be set. */
	if (is_infiniband)
		vf.known &= ~((1u << VF_MAC) | (1u << VF_VLAN));
	list->items[list->count++] = vf;
	return 0;
}

int vf_read(const struct nlmsghdr *message, struct vf_list *list)
{
	const struct ifinfomsg *link = mnl_nlmsg_get_payload(message);
	const struct nlattr *attribute;
	const struct nlattr *nest;

	mnl_attr_for_each(attribute, message, sizeof(*link))
	{
		if (mnl_attr_get_type(attribute) == IFLA_NUM_VF)
			list->number = mnl_attr_get_u32(attribute);
		if (mnl_attr_get_type(attribute) != IFLA_VFINFO_LIST)
			continue;
		mnl_attr_for_each_nested(nest, attribute)
		{
			int r = read_vf(nest, link->ifi_type == ARPHRD_INFINIBAND, list);

			if (r < 0)
				return r;
		}
	}
	return 0;
}

static int keep_vfs(void *context, const struct nlmsghdr *message)
{
	return vf_read(message, context);
}

int vf_ask(struct netlink *route, int ifindex, struct vf_list *list, struct error *error)
{
	struct nlmsghdr *message = netlink_request(route, RTM_GETLINK, 0);
	struct ifinfomsg *link = netlink_extra(message, sizeof(*link));

	*list = (struct vf_list){ 0 };
	link->ifi_family = AF_UNSPEC;
	link->ifi_index = ifindex;
	/* Without statistics: 64 KiB, the most of an attribute, are then enough for 300 VFs. */
	mnl_attr_put_u32(message, IFLA_EXT_MASK, RTEXT_FILTER_VF | RTEXT_FILTER_SKIP_STATS);
	return netlink_talk(route, message, keep_vfs, list, error);
}

/* ---- writing */

static void put_mac(struct nlmsghdr *message, const struct vf_settings *vf)
{
	struct ifla_vf_mac mac = { .vf = vf->index };

	memcpy(mac.mac, vf->mac, sizeof(vf->mac));
	mnl_attr_put(message, IFLA_VF_MAC, sizeof(mac), &mac);
}

static void put_guid(struct nlmsghdr *message, uint16_t type, uint32_t index, uint64_t value)
{
	struct ifla_vf_guid guid = { .vf = index, .guid = value };

	mnl_attr_put(message, type, sizeof(guid), &guid);
}

static void put_vlan(struct nlmsghdr *message, const struct vf_settings *vf)
{
	struct ifla_vf_vlan_info vlan = { .vf = vf->index,
		.vlan = vf->vlan,
		.qos = vf->qos,
		.vlan_proto = htons(vf->vlan_protocol) };
	struct nlattr *list = mnl_attr_nest_start(message, IFLA_VF_VLAN_LIST);

	mnl_attr_put(message, IFLA_VF_VLAN_INFO, sizeof(vlan), &vlan);
	mnl_attr_nest_end(message, list);
}

static void put_rate(struct nlmsghdr *message, const struct vf_settings *vf)
{
	struct ifla_vf_rate rate = {
		.vf = vf->index, .min_tx_rate = vf->min_rate, .max_tx_rate = vf->max_rate
	};

	mnl_attr_put(message, IFLA_VF_RATE, sizeof(rate), &rate);
}

/* Trust, spoof check, RSS query and link state have one shape. */
static void put_number(struct nlmsghdr *message, uint16_t type, uint32_t index, uint32_t value)
{
	struct ifla_vf_trust setting = { .vf = index, .setting = value };

	mnl_attr_put(message, type, sizeof(setting), &setting);
}

void vf_put(struct nlmsghdr *message, const struct vf_settings *vf, enum vf_attribute attribute)
{
	switch (attribute) {
	case VF_MAC:
		put_mac(message, vf);
		break;
	case VF_NODE_GUID:
		put_guid(message, IFLA_VF_IB_NODE_GUID, vf->index, vf->node_guid);
		break;
	case VF_PORT_GUID:
		put_guid(message, IFLA_VF_IB_PORT_GUID, vf->index, vf->port_guid);
		break;
	case VF_VLAN:
		put_vlan(message, vf);
		break;
	case VF_RATE:
		put_rate(message, vf);
		break;
	case VF_TRUST:
		put_number(message, IFLA_VF_TRUST, vf->index, vf->trust);
		break;
	case VF_SPOOF_CHECK:
		put_number(message, IFLA_VF_SPOOFCHK, vf->index, vf->spoof_check);
		break;
	case VF_LINK_STATE:
		put_number(message, IFLA_VF_LINK_STATE, vf->index, vf->link_state);
		break;
	case VF_RSS_QUERY:
		put_number(message, IFLA_VF_RSS_QUERY_EN, vf->index, vf->rss_query);
		break;
	default:
		break;
	}
}

/* One attribute a message: the kernel stops at the first that it refuses, and says not which. */
int vf_set(struct netlink *route, int ifindex, const struct vf_settings *vf,
	enum vf_attribute attribute, struct error *error)
{
	struct nlmsghdr *message = netlink_request(route, RTM_SETLINK, 0);
	struct ifinfomsg *link = netlink_extra(message, sizeof(*link));
	struct nlattr *list;
	struct nlattr *info;

	link->ifi_family = AF_UNSPEC;
	link->ifi_index = ifindex;
	list = mnl_attr_nest_start(message, IFLA_VFINFO_LIST);
	info = mnl_attr_nest_start(message, IFLA_VF_INFO);
	vf_put(message, vf, attribute);
	mnl_attr_nest_end(message, info);
	mnl_attr_nest_end(message, list);
	return netlink_talk(route, message, NULL, NULL, error);
}
