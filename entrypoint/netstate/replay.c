/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is saved as the kernel's own messages and sent again with the interfaces' indexes of today:
 * addresses, neighbours, forwarding tables and VLANs of bridges, nexthops, routes, rules. A table
 * says of each kind what is asked for, where indexes are, and what of an answer is no part of a
 * request. In the state file a record each:
 *
 *   address life link text raw [since]      raw: the message behind its netlink header
 *   neighbour life link text raw            bridge-entry life link raw
 *   nexthop life text raw                   route life text raw [until] [part]
 *   rule life text raw                      bridge-vlans life link vlans
 *
 * Source: struct ifaddrmsg, ndmsg, nhmsg, rtmsg, fib_rule_hdr of Linux include/uapi/linux.
 */
#include <arpa/inet.h>
#include <linux/fib_rules.h>
#include <linux/if_addr.h>
#include <linux/if_bridge.h>
#include <linux/neighbour.h>
#include <linux/nexthop.h>
#include <linux/rtnetlink.h>
#include <poll.h>
#include <string.h>
#include <time.h>

#include "common/fs.h"
#include "entrypoint/netstate/link_internal.h"

#define USER_HZ  100        /* the unit of an expiry, on every architecture of today */
#define FOR_EVER UINT32_MAX /* of a lifetime: INFINITY_LIFE_TIME of include/net/addrconf.h */
#define RETRY_MS 100

/* IFA_PROTO, since Linux 5.18 (include/uapi/linux/if_addr.h): whose work an address is. */
#define PROTO_NUMBER    11
#define PROTO_KERNEL_LO 1
#define PROTO_KERNEL_LL 3

/* What a person may say of an address; the rest the kernel finds out. */
#define ADDRESS_FLAGS                                                                              \
	(IFA_F_NODAD | IFA_F_OPTIMISTIC | IFA_F_HOMEADDRESS | IFA_F_MANAGETEMPADDR |               \
		IFA_F_NOPREFIXROUTE | IFA_F_MCAUTOJOIN)

/* Of a route that an earlier try restored without some of its paths. */
#define IN_PART "part"
/* A bridge port's VLANs, saved without the rest of the message. */
#define VLANS "vlans"

struct saving;
struct replay;
struct task;

struct object {
	const char *kind;  /* of the record */
	const char *label; /* in reports; NULL: the kind */
	uint16_t get;      /* RTM_GET…, dumped */
	uint16_t answer;   /* RTM_NEW…, the answers */
	uint16_t set;      /* RTM_NEW…, the request */
	uint16_t flags;    /* NLM_F_… of the request */
	uint8_t family;    /* what is dumped */
	uint8_t dumps;     /* in how many rounds: with proxies, or groups, in the second */
	bool is_optional;  /* old kernels, or those without a module, do not know it */
	bool is_stacked;   /* the kernel puts a new one of IPv6 in front of the others */
	bool is_late;      /* may need another one first: tried again for a while */
	uint8_t header_size;
	uint8_t index_at;    /* of the interface's index in the header; 0: none */
	uint8_t flags_at;    /* of flags in the header, of four bytes; 0: none … */
	uint32_t flags_kept; /* … that are no part of a request but for these */
	uint64_t kept;       /* a bit for each attribute that is copied */
	uint64_t indexes;    /* a bit for each attribute that is an interface's index */
	/* Is it to be saved? */
	bool (*is_wanted)(const struct saving *saving, const struct nlmsghdr *message);
	/* Adds what is not in the message, and a text for those who read. */
	int (*describe)(
		struct saving *saving, const struct nlmsghdr *message, struct record *record);
	/* Before the request is begun; false: there is nothing to do. */
	bool (*prepare)(struct replay *replay, struct task *task);
	/* Puts an attribute otherwise than by a copy: 1; 0: it is to be copied; -1: no request. */
	int (*put)(struct replay *replay, struct task *task, struct nlmsghdr *request,
		const struct nlattr *attribute);
	/* When all attributes are put; false: no request after all. */
	bool (*finish)(struct replay *replay, struct task *task, struct nlmsghdr *request);
};

#define BIT(type) (UINT64_C(1) << (type))

/* ---- saving */

struct saving {
	const struct links_save *save;
	const struct object *object;
	unsigned dump;           /* which of object->dumps */
	const struct link *link; /* that the message is about; NULL: about no single one */
	struct strv nexthops;    /* numbers of those that are saved */
};

static int save_message(void *context, const struct nlmsghdr *message)
{
	struct saving *saving = context;
	const struct object *object = saving->object;
	const char *header = mnl_nlmsg_get_payload(message);
	struct record *record;
	uint32_t index;

	if (message->nlmsg_type != object->answer ||
		mnl_nlmsg_get_payload_len(message) < object->header_size)
		return 0;
	saving->link = NULL;
	if (object->index_at) {
		memcpy(&index, header + object->index_at, sizeof(index));
		saving->link = links_save_has(saving->save, index)
				       ? link_by_index(&saving->save->table, index)
				       : NULL;
		if (!saving->link)
			return 0;
	}
	if (!object->is_wanted(saving, message))
		return 0;
	record = statefile_add(saving->save->records, object->kind);
	if (!record ||
		record_setf(record, "life", "%llu", (unsigned long long) saving->save->generation) <
			0 ||
		(saving->link && record_set(record, "link", saving->link->name) < 0))
		return -ENOMEM;
	if (object->get != RTM_GETLINK &&
		record_set_hex(record, "raw", mnl_nlmsg_get_payload(message),
			mnl_nlmsg_get_payload_len(message)) < 0)
		return -ENOMEM;
	return object->describe ? object->describe(saving, message, record) : 0;
}

static int dump(struct saving *saving, struct error *error)
{
	const struct object *object = saving->object;
	struct nlmsghdr *request = netlink_request(saving->save->netlink, object->get, NLM_F_DUMP);
	/* The kernel wants that header of all that is asked of bridges. */
	char *header = netlink_extra(request,
		object->family == AF_BRIDGE ? sizeof(struct ifinfomsg) : object->header_size);
	int r;

	*header = (char) object->family;
	if (object->get == RTM_GETNEIGH && saving->dump)
		((struct ndmsg *) (void *) header)->ndm_flags = NTF_PROXY;
	if (object->get == RTM_GETLINK)
		mnl_attr_put_u32(request, IFLA_EXT_MASK, RTEXT_FILTER_BRVLAN);
	r = netlink_talk(saving->save->netlink, request, save_message, saving, error);
	return r == -EOPNOTSUPP && object->is_optional ? 0 : r;
}

/* ---- restoring: what is still to be done, and the kernel's last answer to it */

struct task {
	const struct object *object;
	struct record *record;
	struct nlmsghdr *message;   /* the saved one again; NULL: it is damaged */
	struct restored_link *link; /* NULL: it goes with no single one */
	uint64_t generation;
	char words[160];
	bool is_done;
	unsigned left_out; /* paths or members that are not there */
	uint32_t gone;     /* the number of a nexthop whose interface is not there */
};

/* An address that an interface has. */
struct present {
	uint32_t index;
	uint8_t family;
	uint8_t prefix;
	uint8_t size;
	uint8_t bytes[16];
};

struct replay {
	struct links_restore *restore;
	struct task *tasks;
	size_t count;
	struct present *presents; /* all that there are before the first one comes back */
	size_t present_count;
};

static const char *text_of(const struct task *task)
{
	const char *text = record_get(task->record, "text");

	return text ? text : "";
}

/* ---- addresses */

static void format_address(
	uint8_t family, const struct nlattr *attribute, char text[INET6_ADDRSTRLEN])
{
	size_t size = family == AF_INET ? 4 : 16;

	text[0] = '\0';
	if (attribute && mnl_attr_get_payload_len(attribute) >= size)
		(void) inet_ntop(family, mnl_attr_get_payload(attribute), text, INET6_ADDRSTRLEN);
}

static const struct nlattr *address_attribute(const struct nlmsghdr *message, uint16_t type)
{
	return netlink_attribute(message, sizeof(struct ifaddrmsg), type);
}

/* The interface's own address: of a point-to-point one, IFA_ADDRESS is the other side's. */
static const struct nlattr *own_address(const struct nlmsghdr *message)
{
	const struct nlattr *local = address_attribute(message, IFA_LOCAL);

	return local ? local : address_attribute(message, IFA_ADDRESS);
}

static uint32_t address_flags(const struct nlmsghdr *message)
{
	const struct ifaddrmsg *header = mnl_nlmsg_get_payload(message);
	const struct nlattr *flags = address_attribute(message, IFA_FLAGS);

	return flags ? netlink_number(flags) : header->ifa_flags;
}

static const struct ifa_cacheinfo *lifetimes_of(const struct nlmsghdr *message)
{
	const struct nlattr *attribute = address_attribute(message, IFA_CACHEINFO);

	return attribute && mnl_attr_get_payload_len(attribute) >= sizeof(struct ifa_cacheinfo)
		       ? mnl_attr_get_payload(attribute)
		       : NULL;
}

/* Not temporary ones, those of router advertisements and of the link: the kernel makes them. */
static bool address_is_wanted(const struct saving *saving, const struct nlmsghdr *message)
{
	const struct ifaddrmsg *header = mnl_nlmsg_get_payload(message);
	const struct nlattr *attribute = address_attribute(message, PROTO_NUMBER);
	uint8_t proto = attribute && mnl_attr_get_payload_len(attribute) >= 1
				? mnl_attr_get_u8(attribute)
				: 0;

	(void) saving;
	return !(header->ifa_family == AF_INET6 && (address_flags(message) & IFA_F_TEMPORARY)) &&
	       (proto < PROTO_KERNEL_LO || proto > PROTO_KERNEL_LL);
}

/* Lifetimes are what is left of them: that runs on while the driver is away. */
static int describe_address(
	struct saving *saving, const struct nlmsghdr *message, struct record *record)
{
	const struct ifaddrmsg *header = mnl_nlmsg_get_payload(message);
	const struct ifa_cacheinfo *lifetimes = lifetimes_of(message);
	char address[INET6_ADDRSTRLEN];
	int r;

	(void) saving;
	format_address(header->ifa_family, own_address(message), address);
	r = record_setf(record, "text", "%s/%u", address, header->ifa_prefixlen);
	if (r < 0 || !lifetimes || lifetimes->ifa_valid == FOR_EVER)
		return r;
	return record_setf(record, "since", "%llu", (unsigned long long) link_boottime_s());
}

static bool read_present(const struct nlmsghdr *message, struct present *present)
{
	const struct ifaddrmsg *header = mnl_nlmsg_get_payload(message);
	const struct nlattr *address = own_address(message);
	size_t size = address ? mnl_attr_get_payload_len(address) : 0;

	if (!size || size > sizeof(present->bytes))
		return false;
	*present = (struct present){ .index = header->ifa_index,
		.family = header->ifa_family,
		.prefix = header->ifa_prefixlen,
		.size = (uint8_t) size };
	memcpy(present->bytes, mnl_attr_get_payload(address), size);
	return true;
}

static int keep_present(void *context, const struct nlmsghdr *message)
{
	struct replay *replay = context;
	struct present *items;

	if (message->nlmsg_type != RTM_NEWADDR)
		return 0;
	items = reallocarray(replay->presents, replay->present_count + 1, sizeof(*items));
	if (!items)
		return -ENOMEM;
	replay->presents = items;
	replay->present_count += read_present(message, &items[replay->present_count]);
	return 0;
}

static void read_presents(struct replay *replay)
{
	struct links_restore *restore = replay->restore;
	struct nlmsghdr *request = netlink_request(restore->netlink, RTM_GETADDR, NLM_F_DUMP);
	struct error error = { 0 };

	(void) netlink_extra(request, sizeof(struct ifaddrmsg));
	if (netlink_talk(restore->netlink, request, keep_present, replay, &error) < 0)
		netstate_failure(restore->netstate, restore->result, "addresses: %s", error.text);
}

/*
 * What somebody gave to another interface meanwhile is that one's. A link's address is each link's.
 */
static bool prepare_address(struct replay *replay, struct task *task)
{
	const struct ifaddrmsg *header = mnl_nlmsg_get_payload(task->message);
	bool is_elsewhere = false;
	struct present wanted;

	if (!read_present(task->message, &wanted))
		return true;
	for (size_t i = 0; i < replay->present_count; i++) {
		const struct present *present = &replay->presents[i];

		if (present->family != wanted.family || present->size != wanted.size ||
			memcmp(present->bytes, wanted.bytes, wanted.size) != 0)
			continue;
		if (present->index == task->link->index && present->prefix == wanted.prefix)
			return false;
		if (present->index != task->link->index && header->ifa_scope == RT_SCOPE_UNIVERSE)
			is_elsewhere = true;
	}
	if (is_elsewhere)
		netstate_note(replay->restore->netstate, "address %s of %s stays where it is now",
			text_of(task), task->link->name);
	return !is_elsewhere;
}

/* A label that is but the name follows the name. */
static int put_address(struct replay *replay, struct task *task, struct nlmsghdr *request,
	const struct nlattr *attribute)
{
	const struct link *now = restored_now(replay->restore, task->link);

	(void) request;
	return mnl_attr_get_type(attribute) == IFA_LABEL &&
	       strcmp(now->name, task->link->name) != 0;
}

/* False: it has run out, or will never be known again. */
static bool finish_address(struct replay *replay, struct task *task, struct nlmsghdr *request)
{
	const struct links_restore *restore = replay->restore;
	const struct ifa_cacheinfo *saved = lifetimes_of(task->message);
	struct ifaddrmsg *header = mnl_nlmsg_get_payload(request);
	struct ifa_cacheinfo left;
	uint64_t since, gone;

	header->ifa_flags = 0;
	if (!mnl_attr_put_u32_check(request, NETLINK_REQUEST_SIZE, IFA_FLAGS,
		    address_flags(task->message) & ADDRESS_FLAGS))
		return false;
	if (!saved || saved->ifa_valid == FOR_EVER)
		return true;
	if (!restore->same_boot || record_get_u64(task->record, "since", &since) < 0)
		return false;
	gone = restore->now_s > since ? restore->now_s - since : 0;
	left = *saved;
	if (left.ifa_valid <= gone)
		return false;
	left.ifa_valid -= (uint32_t) gone;
	if (left.ifa_prefered != FOR_EVER)
		left.ifa_prefered =
			left.ifa_prefered > gone ? left.ifa_prefered - (uint32_t) gone : 0;
	return mnl_attr_put_check(
		request, NETLINK_REQUEST_SIZE, IFA_CACHEINFO, sizeof(left), &left);
}

/* ---- neighbours, and what a person entered in a forwarding table (bridge fdb) */

static const struct nlattr *neighbour_attribute(const struct nlmsghdr *message, uint16_t type)
{
	return netlink_attribute(message, sizeof(struct ndmsg), type);
}

static bool neighbour_is_wanted(const struct saving *saving, const struct nlmsghdr *message)
{
	const struct ndmsg *header = mnl_nlmsg_get_payload(message);

	(void) saving;
	return (header->ndm_family == AF_INET || header->ndm_family == AF_INET6) &&
	       ((header->ndm_state & NUD_PERMANENT) || (header->ndm_flags & NTF_PROXY));
}

static int describe_neighbour(
	struct saving *saving, const struct nlmsghdr *message, struct record *record)
{
	const struct ndmsg *header = mnl_nlmsg_get_payload(message);
	char text[INET6_ADDRSTRLEN];

	(void) saving;
	format_address(header->ndm_family, neighbour_attribute(message, NDA_DST), text);
	return record_set(record, "text", text);
}

/* Not what the bridge learned, nor an interface's own address. */
static bool entry_is_wanted(const struct saving *saving, const struct nlmsghdr *message)
{
	const struct ndmsg *header = mnl_nlmsg_get_payload(message);

	(void) saving;
	if (header->ndm_family != AF_BRIDGE || (header->ndm_flags & NTF_EXT_LEARNED))
		return false;
	/* Of a VXLAN: where an address is. */
	if (neighbour_attribute(message, NDA_DST))
		return header->ndm_state & (NUD_PERMANENT | NUD_NOARP);
	return (header->ndm_state & NUD_NOARP) && neighbour_attribute(message, NDA_MASTER);
}

static bool finish_entry(struct replay *replay, struct task *task, struct nlmsghdr *request)
{
	struct ndmsg *header = mnl_nlmsg_get_payload(request);

	(void) replay;
	header->ndm_flags |= neighbour_attribute(task->message, NDA_MASTER) ? NTF_MASTER : NTF_SELF;
	return true;
}

/* ---- VLANs of a bridge's port */

static const struct nlattr *vlans_of(const struct nlmsghdr *message)
{
	return netlink_attribute(message, sizeof(struct ifinfomsg), IFLA_AF_SPEC);
}

/* A bridge without the filter has none; the bridge itself keeps its own. */
static bool vlans_are_wanted(const struct saving *saving, const struct nlmsghdr *message)
{
	return vlans_of(message) && saving->link->master;
}

static int describe_vlans(
	struct saving *saving, const struct nlmsghdr *message, struct record *record)
{
	const struct nlattr *vlans = vlans_of(message);

	(void) saving;
	return record_set_hex(
		record, VLANS, mnl_attr_get_payload(vlans), mnl_attr_get_payload_len(vlans));
}

static bool has_vlan(const struct nlattr *vlans, uint16_t number)
{
	const struct nlattr *attribute;

	mnl_attr_for_each_nested(attribute, vlans)
	{
		const struct bridge_vlan_info *vlan = mnl_attr_get_payload(attribute);

		if (mnl_attr_get_type(attribute) == IFLA_BRIDGE_VLAN_INFO &&
			mnl_attr_get_payload_len(attribute) >= sizeof(*vlan) && vlan->vid == number)
			return true;
	}
	return false;
}

/* A new port is in the bridge's default VLAN, until somebody takes it out. */
static bool prepare_vlans(struct replay *replay, struct task *task)
{
	struct links_restore *restore = replay->restore;
	const struct link *now = restored_now(restore, task->link);
	const struct link *bridge = link_by_index(&restore->now, now->master);
	const struct nlattr *vlan;
	struct bridge_vlan_info only = { .vid = 1 };
	struct nlmsghdr *request;
	struct ifinfomsg *header;
	struct nlattr *list;
	struct error ignored;

	if (!now->master || task->link->is_hosts)
		return false;
	vlan = bridge ? netlink_nested(link_info_attribute(bridge, IFLA_INFO_DATA),
				IFLA_BR_VLAN_DEFAULT_PVID)
		      : NULL;
	if (vlan && mnl_attr_get_payload_len(vlan) >= 2)
		only.vid = mnl_attr_get_u16(vlan);
	if (!only.vid || has_vlan(vlans_of(task->message), only.vid))
		return true;
	request = netlink_request(restore->netlink, RTM_DELLINK, 0);
	header = netlink_extra(request, sizeof(*header));
	header->ifi_family = AF_BRIDGE;
	header->ifi_index = (int) task->link->index;
	list = mnl_attr_nest_start(request, IFLA_AF_SPEC);
	mnl_attr_put(request, IFLA_BRIDGE_VLAN_INFO, sizeof(only), &only);
	mnl_attr_nest_end(request, list);
	(void) netlink_talk(restore->netlink, request, NULL, NULL, &ignored);
	return true;
}

/* ---- nexthops */

static const struct nlattr *nexthop_attribute(const struct nlmsghdr *message, uint16_t type)
{
	return netlink_attribute(message, sizeof(struct nhmsg), type);
}

/* The kernel lists nexthops by number: groups in a second round. */
static bool nexthop_is_wanted(const struct saving *saving, const struct nlmsghdr *message)
{
	const struct nlattr *group = nexthop_attribute(message, NHA_GROUP);
	const struct nexthop_grp *members;
	size_t count;

	if (!netlink_number(nexthop_attribute(message, NHA_ID)) || !group != !saving->dump)
		return false;
	if (!group)
		return links_save_has(
			saving->save, netlink_number(nexthop_attribute(message, NHA_OIF)));
	members = mnl_attr_get_payload(group);
	count = mnl_attr_get_payload_len(group) / sizeof(*members);
	for (size_t i = 0; i < count; i++) {
		char number[16];

		(void) snprintf(number, sizeof(number), "%u", members[i].id);
		if (strv_contains(&saving->nexthops, number))
			return true;
	}
	return false;
}

static int describe_nexthop(
	struct saving *saving, const struct nlmsghdr *message, struct record *record)
{
	uint32_t number = netlink_number(nexthop_attribute(message, NHA_ID));
	int r = strv_pushf(&saving->nexthops, "%u", number);

	return r < 0 ? r : record_setf(record, "text", "nexthop %u", number);
}

/* Is it a nexthop whose interface is not there? */
static bool is_gone(const struct replay *replay, uint32_t number)
{
	for (size_t i = 0; number && i < replay->count; i++)
		if (replay->tasks[i].gone == number)
			return true;
	return false;
}

/* A group has the members that are left, which are counted. */
static int put_nexthop(struct replay *replay, struct task *task, struct nlmsghdr *request,
	const struct nlattr *attribute)
{
	const struct nexthop_grp *member = mnl_attr_get_payload(attribute);
	size_t count = mnl_attr_get_payload_len(attribute) / sizeof(*member);
	_cleanup_free_ struct nexthop_grp *copy = NULL;
	size_t used = 0;

	if (mnl_attr_get_type(attribute) != NHA_GROUP)
		return 0;
	copy = calloc(count + 1, sizeof(*copy));
	for (size_t i = 0; copy && i < count; i++) {
		if (is_gone(replay, member[i].id))
			task->left_out++;
		else
			copy[used++] = member[i];
	}
	return used && mnl_attr_put_check(
			       request, NETLINK_REQUEST_SIZE, NHA_GROUP, used * sizeof(*copy), copy)
		       ? 1
		       : -1;
}

static bool finish_nexthop(struct replay *replay, struct task *task, struct nlmsghdr *request)
{
	struct nhmsg *header = mnl_nlmsg_get_payload(request);

	(void) replay;
	(void) task;
	header->nh_scope = 0;
	return true;
}

/* ---- routes */

static const struct nlattr *route_attribute(const struct nlmsghdr *message, uint16_t type)
{
	return netlink_attribute(message, sizeof(struct rtmsg), type);
}

static bool has_saved_path(const struct links_save *save, const struct nlattr *paths)
{
	const struct rtnexthop *path = mnl_attr_get_payload(paths);
	int left = mnl_attr_get_payload_len(paths);

	for (; left >= (int) sizeof(*path) && RTNH_OK(path, left);
		left -= (int) NLMSG_ALIGN(path->rtnh_len), path = RTNH_NEXT(path))
		if (links_save_has(save, (uint32_t) path->rtnh_ifindex))
			return true;
	return false;
}

/* A route whose source is an address that goes, goes with it, wherever it leads to. */
static bool has_saved_source(
	const struct links_save *save, uint8_t family, const struct nlattr *source)
{
	char text[INET6_ADDRSTRLEN];
	size_t length;

	format_address(family, source, text);
	length = strlen(text);
	for (size_t i = 0; length && i < save->records->count; i++) {
		const struct record *record = &save->records->items[i];
		const char *address = record_get(record, "text");

		if (strcmp(record->kind, "address") == 0 && address &&
			strncmp(address, text, length) == 0 && address[length] == '/')
			return true;
	}
	return false;
}

/* Does the kernel itself listen to routers on the interface? Its routes of theirs come anew then.
 */
static bool accepts_routers(const struct links_save *save, uint32_t index)
{
	static const char folder[] = "proc/sys/net/ipv6/conf";
	const struct link *link = link_by_index(&save->table, index);
	_cleanup_free_ char *accept = NULL;
	_cleanup_free_ char *forwarding = NULL;
	char path[128];

	(void) snprintf(path, sizeof(path), "%s/%s/accept_ra", folder, link ? link->name : "");
	if (fs_read_line(save->netstate->root_fd, path, &accept) < 0)
		return false;
	(void) snprintf(path, sizeof(path), "%s/%s/forwarding", folder, link ? link->name : "");
	if (fs_read_line(save->netstate->root_fd, path, &forwarding) < 0)
		return false;
	return accept[0] == '2' || (accept[0] == '1' && forwarding[0] == '0');
}

static bool route_is_wanted(const struct saving *saving, const struct nlmsghdr *message)
{
	const struct rtmsg *header = mnl_nlmsg_get_payload(message);
	const struct nlattr *paths = route_attribute(message, RTA_MULTIPATH);
	uint32_t out = netlink_number(route_attribute(message, RTA_OIF));
	char nexthop[16];

	if ((header->rtm_flags & RTM_F_CLONED) ||
		(header->rtm_family != AF_INET && header->rtm_family != AF_INET6) ||
		header->rtm_protocol == RTPROT_KERNEL || header->rtm_protocol == RTPROT_REDIRECT)
		return false;
	if (header->rtm_protocol == RTPROT_RA && accepts_routers(saving->save, out))
		return false;
	(void) snprintf(nexthop, sizeof(nexthop), "%u",
		netlink_number(route_attribute(message, RTA_NH_ID)));
	return links_save_has(saving->save, out) ||
	       (paths && has_saved_path(saving->save, paths)) ||
	       strv_contains(&saving->nexthops, nexthop) ||
	       has_saved_source(
		       saving->save, header->rtm_family, route_attribute(message, RTA_PREFSRC));
}

/* "10.1.0.0/16 via 10.0.0.1, table 254" */
static int describe_route(
	struct saving *saving, const struct nlmsghdr *message, struct record *record)
{
	const struct rtmsg *header = mnl_nlmsg_get_payload(message);
	const struct nlattr *to = route_attribute(message, RTA_DST);
	const struct nlattr *table = route_attribute(message, RTA_TABLE);
	const struct nlattr *times = route_attribute(message, RTA_CACHEINFO);
	const struct rta_cacheinfo *cache = times ? mnl_attr_get_payload(times) : NULL;
	char target[INET6_ADDRSTRLEN];
	char gateway[INET6_ADDRSTRLEN];
	int r;

	(void) saving;
	format_address(header->rtm_family, to, target);
	format_address(header->rtm_family, route_attribute(message, RTA_GATEWAY), gateway);
	r = record_setf(record, "text", "%s/%u%s%s, table %u", *target ? target : "default",
		header->rtm_dst_len, *gateway ? " via " : "", gateway,
		table ? netlink_number(table) : header->rtm_table);
	if (r < 0 || !cache || mnl_attr_get_payload_len(times) < sizeof(*cache) ||
		cache->rta_expires <= 0)
		return r;
	return record_setf(record, "until", "%llu",
		(unsigned long long) link_boottime_s() + (unsigned) cache->rta_expires / USER_HZ);
}

/*
 * The paths with today's indexes, and no flags but those that are a person's. Those out of
 * interfaces that are not there are left out and counted. False: all of them are.
 */
static bool put_paths(struct replay *replay, struct task *task, struct nlmsghdr *request,
	const struct nlattr *paths)
{
	const struct rtnexthop *path = mnl_attr_get_payload(paths);
	int left = mnl_attr_get_payload_len(paths);
	_cleanup_free_ char *copy = calloc(1, (size_t) left + NLMSG_ALIGNTO);
	size_t used = 0;

	for (; copy && left >= (int) sizeof(*path) && RTNH_OK(path, left);
		left -= (int) NLMSG_ALIGN(path->rtnh_len), path = RTNH_NEXT(path)) {
		uint32_t index = restored_index(
			replay->restore, task->generation, (uint32_t) path->rtnh_ifindex);
		struct rtnexthop *put = (struct rtnexthop *) (void *) (copy + used);

		if (!index) {
			task->left_out++;
			continue;
		}
		memcpy(put, path, path->rtnh_len);
		put->rtnh_ifindex = (int) index;
		put->rtnh_flags &= RTNH_F_ONLINK;
		used += NLMSG_ALIGN(path->rtnh_len);
	}
	return used && mnl_attr_put_check(request, NETLINK_REQUEST_SIZE, RTA_MULTIPATH, used, copy);
}

/* A route by a nexthop's number says what that is beside it: for those who read, not to be said. */
static bool is_said_by_nexthop(struct task *task, uint16_t type)
{
	return route_attribute(task->message, RTA_NH_ID) &&
	       (type == RTA_OIF || type == RTA_GATEWAY || type == RTA_VIA ||
		       type == RTA_MULTIPATH || type == RTA_ENCAP || type == RTA_ENCAP_TYPE);
}

static int put_route(struct replay *replay, struct task *task, struct nlmsghdr *request,
	const struct nlattr *attribute)
{
	if (is_said_by_nexthop(task, mnl_attr_get_type(attribute)))
		return 1;
	if (mnl_attr_get_type(attribute) != RTA_MULTIPATH)
		return 0;
	return put_paths(replay, task, request, attribute) ? 1 : -1;
}

/*
 * Another route of the same target stays beside it, unless that is its own part: of what an earlier
 * try restored, or of IPv6, of whose routes the kernel takes single paths away. False: its time is
 * over.
 */
static bool finish_route(struct replay *replay, struct task *task, struct nlmsghdr *request)
{
	const struct links_restore *restore = replay->restore;
	const struct rtmsg *saved = mnl_nlmsg_get_payload(task->message);
	bool is_in_part = route_attribute(task->message, RTA_MULTIPATH) &&
			  (saved->rtm_family == AF_INET6 || record_get(task->record, IN_PART));
	uint64_t until;

	request->nlmsg_flags |= is_in_part && restore->same_boot ? NLM_F_REPLACE : NLM_F_APPEND;
	if (record_get_u64(task->record, "until", &until) < 0)
		return true;
	return restore->same_boot && until > restore->now_s &&
	       mnl_attr_put_u32_check(request, NETLINK_REQUEST_SIZE, RTA_EXPIRES,
		       (uint32_t) (until - restore->now_s));
}

/* ---- rules */

static bool names_saved_link(const struct links_save *save, const struct nlattr *attribute)
{
	const char *name = netlink_text(attribute);

	for (size_t i = 0; name && i < save->count; i++)
		if (strcmp(link_by_index(&save->table, save->order[i])->name, name) == 0)
			return true;
	return false;
}

static const struct nlattr *rule_attribute(const struct nlmsghdr *message, uint16_t type)
{
	return netlink_attribute(message, sizeof(struct fib_rule_hdr), type);
}

static bool rule_is_wanted(const struct saving *saving, const struct nlmsghdr *message)
{
	return names_saved_link(saving->save, rule_attribute(message, FRA_IIFNAME)) ||
	       names_saved_link(saving->save, rule_attribute(message, FRA_OIFNAME));
}

static int describe_rule(
	struct saving *saving, const struct nlmsghdr *message, struct record *record)
{
	(void) saving;
	return record_setf(record, "text", "rule of priority %u",
		netlink_number(rule_attribute(message, FRA_PRIORITY)));
}

/* ---- the table, in the order in which it is saved and restored */

static const struct object objects[] = {
	{ .kind = "bridge-vlans",
		.label = "VLANs in the bridge",
		.get = RTM_GETLINK,
		.answer = RTM_NEWLINK,
		.set = RTM_SETLINK,
		.family = AF_BRIDGE,
		.dumps = 1,
		.is_optional = true,
		.header_size = sizeof(struct ifinfomsg),
		.index_at = offsetof(struct ifinfomsg, ifi_index),
		.kept = BIT(IFLA_AF_SPEC),
		.is_wanted = vlans_are_wanted,
		.describe = describe_vlans,
		.prepare = prepare_vlans },
	{ .kind = "bridge-entry",
		.label = "entry of the forwarding table",
		.get = RTM_GETNEIGH,
		.answer = RTM_NEWNEIGH,
		.set = RTM_NEWNEIGH,
		.flags = NLM_F_CREATE | NLM_F_APPEND,
		.family = AF_BRIDGE,
		.dumps = 1,
		.is_optional = true,
		.header_size = sizeof(struct ndmsg),
		.index_at = offsetof(struct ndmsg, ndm_ifindex),
		.kept = BIT(NDA_LLADDR) | BIT(NDA_VLAN) | BIT(NDA_DST) | BIT(NDA_PORT) |
			BIT(NDA_VNI) | BIT(NDA_SRC_VNI),
		.is_wanted = entry_is_wanted,
		.finish = finish_entry },
	{ .kind = "address",
		.get = RTM_GETADDR,
		.answer = RTM_NEWADDR,
		.set = RTM_NEWADDR,
		.flags = NLM_F_CREATE | NLM_F_EXCL,
		.dumps = 1,
		.is_stacked = true,
		.header_size = sizeof(struct ifaddrmsg),
		.index_at = offsetof(struct ifaddrmsg, ifa_index),
		.kept = ~(BIT(IFA_CACHEINFO) | BIT(IFA_FLAGS)),
		.is_wanted = address_is_wanted,
		.describe = describe_address,
		.prepare = prepare_address,
		.put = put_address,
		.finish = finish_address },
	{ .kind = "neighbour",
		.get = RTM_GETNEIGH,
		.answer = RTM_NEWNEIGH,
		.set = RTM_NEWNEIGH,
		.flags = NLM_F_CREATE | NLM_F_EXCL,
		.dumps = 2,
		.header_size = sizeof(struct ndmsg),
		.index_at = offsetof(struct ndmsg, ndm_ifindex),
		.kept = BIT(NDA_DST) | BIT(NDA_LLADDR) | BIT(NDA_PROTOCOL),
		.is_wanted = neighbour_is_wanted,
		.describe = describe_neighbour },
	/* Before the routes, which name them; kernels before 5.3 know none. */
	{ .kind = "nexthop",
		.get = RTM_GETNEXTHOP,
		.answer = RTM_NEWNEXTHOP,
		.set = RTM_NEWNEXTHOP,
		.flags = NLM_F_CREATE | NLM_F_REPLACE,
		.dumps = 2,
		.is_optional = true,
		.is_late = true,
		.header_size = sizeof(struct nhmsg),
		.flags_at = offsetof(struct nhmsg, nh_flags),
		.flags_kept = RTNH_F_ONLINK,
		.kept = BIT(NHA_FDB + 1) - 1,
		.indexes = BIT(NHA_OIF),
		.is_wanted = nexthop_is_wanted,
		.describe = describe_nexthop,
		.put = put_nexthop,
		.finish = finish_nexthop },
	{ .kind = "route",
		.get = RTM_GETROUTE,
		.answer = RTM_NEWROUTE,
		.set = RTM_NEWROUTE,
		.flags = NLM_F_CREATE,
		.dumps = 1,
		.is_late = true,
		.header_size = sizeof(struct rtmsg),
		.flags_at = offsetof(struct rtmsg, rtm_flags),
		.flags_kept = RTNH_F_ONLINK,
		.kept = ~(BIT(RTA_CACHEINFO) | BIT(RTA_IIF) | BIT(RTA_UID) | BIT(RTA_MARK)),
		.indexes = BIT(RTA_OIF),
		.is_wanted = route_is_wanted,
		.describe = describe_route,
		.put = put_route,
		.finish = finish_route },
	{ .kind = "rule",
		.get = RTM_GETRULE,
		.answer = RTM_NEWRULE,
		.set = RTM_NEWRULE,
		.flags = NLM_F_CREATE | NLM_F_EXCL,
		.dumps = 1,
		.is_late = true,
		.header_size = sizeof(struct fib_rule_hdr),
		.flags_at = offsetof(struct fib_rule_hdr, flags),
		.flags_kept = FIB_RULE_INVERT,
		.kept = ~BIT(FRA_PAD),
		.is_wanted = rule_is_wanted,
		.describe = describe_rule },
};

int replay_save(const struct links_save *save, struct error *error)
{
	struct saving saving = { .save = save };
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(objects); i++) {
		saving.object = &objects[i];
		for (saving.dump = 0; r == 0 && saving.dump < objects[i].dumps; saving.dump++)
			r = dump(&saving, error);
		if (r == -ENOMEM)
			(void) error_set_errno(error, r, "%s", objects[i].kind);
		else if (r < 0)
			(void) error_prefix(error, r, "%s", objects[i].kind);
	}
	strv_free(&saving.nexthops);
	return r;
}

/* ---- replaying */

/* A new message with the bytes of a record's field behind a header; NULL: they are damaged. */
static struct nlmsghdr *saved_message(const struct object *object, const struct record *record)
{
	bool is_vlans = object->get == RTM_GETLINK;
	const char *field = is_vlans ? VLANS : "raw";
	const char *text = record_get(record, field);
	size_t size = text ? strlen(text) / 2 : 0;
	size_t before = is_vlans ? object->header_size + MNL_ATTR_HDRLEN : 0;
	const struct nlattr *attribute;
	struct nlmsghdr *message;
	struct nlattr *vlans;
	char *payload;

	if (before + size < object->header_size || size > NETLINK_REQUEST_SIZE / 2 ||
		(is_vlans && size > UINT16_MAX - MNL_ATTR_HDRLEN))
		return NULL;
	message = calloc(1, MNL_NLMSG_HDRLEN + MNL_ALIGN(before + size));
	if (!message)
		return NULL;
	message->nlmsg_len = (uint32_t) (MNL_NLMSG_HDRLEN + before + size);
	payload = mnl_nlmsg_get_payload(message);
	if (is_vlans) {
		*payload = AF_BRIDGE;
		vlans = (struct nlattr *) (void *) (payload + object->header_size);
		vlans->nla_type = IFLA_AF_SPEC | NLA_F_NESTED;
		vlans->nla_len = (uint16_t) (MNL_ATTR_HDRLEN + size);
	}
	if (record_get_hex(record, field, payload + before, size) == (int) size) {
		const char *end = mnl_nlmsg_get_payload_tail(message);

		attribute = mnl_nlmsg_get_payload_offset(message, object->header_size);
		while (mnl_attr_ok(attribute, (int) (end - (const char *) attribute)))
			attribute = mnl_attr_next(attribute);
		/* The attributes fill it to its end, and none of them is cut. */
		if ((const char *) attribute == end)
			return message;
	}
	free(message);
	return NULL;
}

/* NULL: what it goes with is not there, or there is nothing to do. */
static struct nlmsghdr *begin_request(struct replay *replay, struct task *task)
{
	const struct object *object = task->object;
	struct links_restore *restore = replay->restore;
	const struct nlattr *attribute;
	struct nlmsghdr *request;
	uint32_t flags;
	char *header;

	if (object->prepare && !object->prepare(replay, task))
		return NULL;
	request = netlink_request(restore->netlink, object->set, object->flags);
	header = netlink_extra(request, object->header_size);
	memcpy(header, mnl_nlmsg_get_payload(task->message), object->header_size);
	if (object->index_at)
		memcpy(header + object->index_at, &task->link->index, sizeof(uint32_t));
	if (object->flags_at) {
		memcpy(&flags, header + object->flags_at, sizeof(flags));
		flags &= object->flags_kept;
		memcpy(header + object->flags_at, &flags, sizeof(flags));
	}
	mnl_attr_for_each(attribute, task->message, object->header_size)
	{
		uint16_t type = mnl_attr_get_type(attribute);
		uint32_t index;
		int r;

		if (type >= 64 || !(object->kept & BIT(type)))
			continue;
		r = object->put ? object->put(replay, task, request, attribute) : 0;
		if (r < 0)
			return NULL;
		if (r > 0)
			continue;
		if (!(object->indexes & BIT(type))) {
			if (!netlink_copy(request, attribute))
				return NULL;
			continue;
		}
		index = restored_index(restore, task->generation, netlink_number(attribute));
		if (!index || !mnl_attr_put_u32_check(request, NETLINK_REQUEST_SIZE, type, index))
			return NULL;
	}
	return !object->finish || object->finish(replay, task, request) ? request : NULL;
}

/* True: there is nothing more to do for it. */
static bool try(struct replay *replay, struct task *task)
{
	struct nlmsghdr *request;
	struct error error = { 0 };
	int r;

	/* Its interface did not come back: that was reported. */
	if (task->object->index_at && (!task->link || !restored_now(replay->restore, task->link)))
		return true;
	if (!task->message) {
		(void) snprintf(task->words, sizeof(task->words), "its record is damaged");
		return false;
	}
	task->left_out = 0;
	request = begin_request(replay, task);
	if (!request) {
		task->left_out = 0;
		if (task->object->set == RTM_NEWNEXTHOP)
			task->gone = netlink_number(nexthop_attribute(task->message, NHA_ID));
		return true;
	}
	r = netlink_talk(replay->restore->netlink, request, NULL, NULL, &error);
	if (r < 0)
		(void) snprintf(task->words, sizeof(task->words), "%.150s", error.text);
	else if (task->left_out)
		(void) !record_set(task->record, IN_PART, "1");
	return r == 0 || r == -EEXIST;
}

/* One round: a route by way of a gateway can go in when the one to the gateway is. How many did. */
static size_t try_all(struct replay *replay, size_t *left)
{
	size_t done = 0;

	*left = 0;
	for (size_t i = 0; i < replay->count; i++) {
		struct task *task = &replay->tasks[i];

		if (task->is_done)
			continue;
		task->is_done = try(replay, task);
		done += task->is_done;
		*left += !task->is_done;
	}
	return done;
}

/*
 * What is refused now may be taken in a moment: a source address of IPv6 counts when no host on the
 * link has objected to it, for which the kernel waits a second.
 */
static void try_until_done(struct replay *replay)
{
	uint32_t waited_ms = 0;
	size_t left;

	for (;;) {
		while (try_all(replay, &left) && left)
			;
		if (!left || waited_ms >= replay->restore->netstate->bind_ms)
			return;
		(void) poll(NULL, 0, RETRY_MS);
		waited_ms += RETRY_MS;
	}
}

static void add_task(struct replay *replay, const struct object *object, struct record *record)
{
	struct task *task = &replay->tasks[replay->count++];

	*task = (struct task){ .object = object,
		.record = record,
		.message = saved_message(object, record),
		.link = restored_by_name(replay->restore, record_get(record, "link")) };
	(void) record_get_u64(record, "life", &task->generation);
}

static bool is_ipv6(const struct record *record)
{
	const char *raw = record_get(record, "raw");

	return raw && strncmp(raw, "0a", 2) == 0; /* the family, AF_INET6 */
}

/*
 * In the order in which an interface has them, for the first address is the source of what it
 * sends: the kernel puts a new one behind the others, but one of IPv6 in front of them.
 */
static void add_tasks(struct replay *replay, const struct object *object)
{
	struct statefile *records = replay->restore->records;

	for (size_t i = 0; i < records->count; i++)
		if (strcmp(records->items[i].kind, object->kind) == 0 &&
			!(object->is_stacked && is_ipv6(&records->items[i])))
			add_task(replay, object, &records->items[i]);
	for (size_t i = records->count; object->is_stacked && i > 0; i--)
		if (strcmp(records->items[i - 1].kind, object->kind) == 0 &&
			is_ipv6(&records->items[i - 1]))
			add_task(replay, object, &records->items[i - 1]);
}

static void report(const struct links_restore *restore, const struct task *task)
{
	const struct object *object = task->object;
	const char *label = object->label ? object->label : object->kind;
	const char *text = text_of(task);
	const char *link = record_get(task->record, "link");

	if (!task->is_done)
		netstate_failure(restore->netstate, restore->result, "%s%s%s%s%s: %s", label,
			*text ? " " : "", text, link ? " of " : "", link ? link : "", task->words);
	else if (task->left_out)
		netstate_failure(restore->netstate, restore->result,
			"%s %s: without %u of its paths, whose interfaces are not there", label,
			text, task->left_out);
}

static void replay_all(struct links_restore *restore, bool is_late)
{
	struct replay replay = { .restore = restore };
	size_t left;

	replay.tasks = calloc(restore->records->count + 1, sizeof(*replay.tasks));
	if (!replay.tasks) {
		netstate_failure(restore->netstate, restore->result, "%s: out of memory",
			is_late ? "routes" : "addresses");
		return;
	}
	for (size_t i = 0; i < ARRAY_SIZE(objects); i++)
		if (objects[i].is_late == is_late)
			add_tasks(&replay, &objects[i]);
	if (is_late) {
		try_until_done(&replay);
	} else {
		read_presents(&replay);
		(void) try_all(&replay, &left);
	}
	for (size_t i = 0; i < replay.count; i++) {
		report(restore, &replay.tasks[i]);
		free(replay.tasks[i].message);
	}
	free(replay.tasks);
	free(replay.presents);
}

void replay_addresses(struct links_restore *restore)
{
	replay_all(restore, false);
}

void replay_routes(struct links_restore *restore)
{
	replay_all(restore, true);
}
