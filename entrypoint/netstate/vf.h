/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a PF's driver holds for a virtual function, asked and set through the PF's interface by
 * rtnetlink: one question a PF, whatever the number of its VFs. Source: Linux net/core/rtnetlink.c,
 * rtnl_fill_vfinfo() and do_setvfinfo().
 */
#pragma once

#include <libmnl/libmnl.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "entrypoint/netstate/netlink.h"

/* In the order in which they are set: an address has to be there before it is checked. */
enum vf_attribute {
	VF_MAC,
	VF_NODE_GUID,
	VF_PORT_GUID,
	VF_VLAN,
	VF_RATE,
	VF_TRUST,
	VF_SPOOF_CHECK,
	VF_LINK_STATE,
	VF_RSS_QUERY,
	VF_ATTRIBUTES
};

#define VF_MAC_SIZE 6

struct vf_settings {
	uint32_t index;
	uint32_t known; /* a bit for each enum vf_attribute that the driver tells */
	uint8_t mac[VF_MAC_SIZE];
	uint64_t node_guid;
	uint64_t port_guid;
	uint16_t vlan;
	uint8_t qos;
	uint16_t vlan_protocol; /* 0x8100 or 0x88a8 */
	uint32_t min_rate;      /* Mbit/s; 0: none */
	uint32_t max_rate;
	bool trust;
	bool spoof_check;
	uint8_t link_state; /* IFLA_VF_LINK_STATE_… */
	bool rss_query;
};

static inline bool vf_knows(const struct vf_settings *vf, enum vf_attribute attribute)
{
	return (vf->known & (1u << attribute)) != 0;
}

/* "its MAC address": for messages. */
const char *vf_attribute_words(enum vf_attribute attribute);
/* Whether both tell it, and it is the same. */
bool vf_is_same(const struct vf_settings *one, const struct vf_settings *other,
	enum vf_attribute attribute);

/* Owned: free() of items. */
struct vf_list {
	struct vf_settings *items;
	size_t count;
	unsigned number; /* how many VFs the kernel says there are; it may not tell of all */
};

/* Asks the PF's interface. Settings come in the order of the index. */
int vf_ask(struct netlink *route, int ifindex, struct vf_list *list, struct error *error);
/* Sets one attribute of one VF to what @vf has. */
int vf_set(struct netlink *route, int ifindex, const struct vf_settings *vf,
	enum vf_attribute attribute, struct error *error);

/* What reads and writes the kernel's messages, for tests. */
int vf_read(const struct nlmsghdr *message, struct vf_list *list);
void vf_put(struct nlmsghdr *message, const struct vf_settings *vf, enum vf_attribute attribute);
