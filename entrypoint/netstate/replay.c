/* SPDX-License-Identifier: Apache-2.0 */
/*
 * State that is saved as the kernel's own messages and sent again with the interfaces' current
 * indexes: addresses, neighbours, forwarding tables and VLANs of bridges, nexthops, routes, rules.
 * A table says for each kind what to ask for, where indexes are, and which parts of an answer do
 * not belong into a request. The state file has a record for each:
 *
 *   address life link text raw [since] [until] [shared]
 *                                           raw: the message behind its netlink header
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
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "common/fs.h"
#include "entrypoint/netstate/link_internal.h"

#define USER_HZ  100        /* the unit of an expiry, on every architecture of today */
#define FOR_EVER UINT32_MAX /* of a lifetime: INFINITY_LIFE_TIME of include/net/addrconf.h */

/* IFA_PROTO, since Linux 5.18 (include/uapi/linux/if_addr.h): whose work an address is. */
#define PROTO_NUMBER    11
#define PROTO_KERNEL_LO 1
#define PROTO_KERNEL_LL 3

/* Flags of an address that a user may set; the kernel determines the others. */
#define ADDRESS_FLAGS                                                                              \
	(IFA_F_NODAD | IFA_F_OPTIMISTIC | IFA_F_HOMEADDRESS | IFA_F_MANAGETEMPADDR |               \
		IFA_F_NOPREFIXROUTE | IFA_F_MCAUTOJOIN)

/* Marks a route that an earlier try restored without some of its paths. */
#define IN_PART "part"
/* A bridge port's VLANs, saved without the rest of the message. */
#define VLANS "vlans"
/* Marks an address that an interface had which is not saved. */
#define SHARED "shared"

#define ATTRIBUTES 64 /* of which more none is looked at */

#define IP6_RT_PRIO_ADDRCONF 256 /* Linux include/net/ip6_route.h */

#define RETRY_MS   100   /* until what was refused is tried again */
#define CARRIER_MS 30000 /* a fast port's link may take this long to come up */

/* The part of a message behind its netlink header. */
struct body {
	const void *header;
	const struct nlattr *attributes[ATTRIBUTES]; /* by type */
};

struct saving {
	const struct links_save *save;
	const struct object *object;
	bool is_second;          /* round of dumps */
	const struct link *link; /* that the message is about; NULL: about no single one */
	struct strv nexthops;    /* numbers of those that are saved */
	struct strv others;      /* addresses of interfaces that are not saved */
};

/* An object that is still to be restored, and the kernel's last answer to it. */
struct task {
	const struct object *object;
	struct record *record;
	struct nlmsghdr *message;   /* the saved one again; NULL: it is damaged */
	struct restored_link *link; /* NULL: it goes with no single one */
	char words[160];
	bool is_done;
	unsigned left_out; /* paths or members that are not there */
	uint32_t gone;     /* the number of a nexthop whose interface is not there */
};

struct replay {
	struct links_restore *restore;
	struct task *tasks;
	size_t count;
	struct body body;     /* of the task that is tried */
	struct strv presents; /* "ADDRESS INDEX" of all before the first one comes back */
};

/* The result of a hook that puts an attribute. */
enum put { PUT_COPY, PUT_DONE, PUT_NOTHING_LEFT };

struct object {
	const char *kind;     /* of the record */
	const char *label;    /* in reports */
	uint16_t get;         /* RTM_GET…, dumped */
	uint16_t answer;      /* RTM_NEW…, the answers */
	uint16_t set;         /* RTM_NEW…, the request */
	uint16_t flags;       /* NLM_F_… of the request */
	uint8_t family;       /* what is dumped */
	bool is_dumped_twice; /* with proxies, or groups, in the second round */
	bool is_optional;     /* old kernels, or those without a module, do not know it */
	bool is_stacked;      /* the kernel puts a new one of IPv6 in front of the others */
	bool is_late;         /* may need another one first: tried again for a while */
	uint8_t header_size;
	uint8_t index_at;    /* of the interface's index in the header; 0: none */
	uint8_t flags_at;    /* of flags in the header, of four bytes; 0: none … */
	uint32_t flags_kept; /* … that are no part of a request but for these */
	uint64_t kept;       /* a bit for each attribute that is copied */
	uint64_t indexes;    /* a bit for each attribute that is an interface's index */
	/* Is it to be saved? */
	bool (*is_wanted)(const struct saving *saving, const struct body *body);
	/* Adds what is not in the message, and a text for those who read. */
	int (*describe)(const struct body *body, struct record *record);
	/* Before the request is begun; false: there is nothing to do. */
	bool (*prepare)(struct replay *replay, struct task *task);
	enum put (*put)(struct replay *replay, struct task *task, struct nlmsghdr *request,
		const struct nlattr *attribute);
	/* When all attributes are put; false: no request after all. */
	bool (*finish)(struct replay *replay, struct task *task, struct nlmsghdr *request);
};

static void parse(const struct nlmsghdr *message, size_t header_size, struct body *body)
{
	const struct nlattr *attribute;

	*body = (struct body){ .header = mnl_nlmsg_get_payload(message) };
	mnl_attr_for_each(attribute, message, header_size)
	{
		uint16_t type = mnl_attr_get_type(attribute);

		if (type < ATTRIBUTES && !body->attributes[type])
			body->attributes[type] = attribute;
	}
}

/* Appends to the attribute that was put last: a request has room for more than a saved message. */
static void append(struct nlmsghdr *request, const void *data, size_t size)
{
	memcpy(mnl_nlmsg_get_payload_tail(request), data, size);
	request->nlmsg_len += (uint32_t) MNL_ALIGN(size);
}

static void format_address(
	uint8_t family, const struct nlattr *attribute, char text[INET6_ADDRSTRLEN])
{
	const void *bytes = netlink_payload(attribute, family == AF_INET ? 4 : 16);

	text[0] = '\0';
	if (bytes)
		(void) inet_ntop(family, bytes, text, INET6_ADDRSTRLEN);
}

/* ---- addresses */

/* The interface's own address: of a point-to-point one, IFA_ADDRESS is the other side's. */
static void format_own(const struct body *body, char text[INET6_ADDRSTRLEN])
{
	const struct ifaddrmsg *header = body->header;
	const struct nlattr *local = body->attributes[IFA_LOCAL];

	format_address(header->ifa_family, local ? local : body->attributes[IFA_ADDRESS], text);
}

static uint32_t address_flags(const struct body *body)
{
	const struct ifaddrmsg *header = body->header;
	const struct nlattr *flags = body->attributes[IFA_FLAGS];

	return flags ? netlink_number(flags) : header->ifa_flags;
}

/* NULL: it has no lifetime that ends. One that is valid for ever may still be deprecated. */
static const struct ifa_cacheinfo *lifetimes_of(const struct body *body)
{
	const struct ifa_cacheinfo *lifetimes =
		netlink_payload(body->attributes[IFA_CACHEINFO], sizeof(*lifetimes));

	return lifetimes && (lifetimes->ifa_valid != FOR_EVER ||
				    lifetimes->ifa_prefered != FOR_EVER)
		       ? lifetimes
		       : NULL;
}

/* Not temporary ones, those of router advertisements and of the link: the kernel makes them. */
static bool address_is_wanted(const struct saving *saving, const struct body *body)
{
	const struct ifaddrmsg *header = body->header;
	uint32_t proto = netlink_number(body->attributes[PROTO_NUMBER]);

	(void) saving;
	return !(header->ifa_family == AF_INET6 && (address_flags(body) & IFA_F_TEMPORARY)) &&
	       (proto < PROTO_KERNEL_LO || proto > PROTO_KERNEL_LL);
}

/*
 * Lifetimes are what is left of them: that runs on while the driver is gone, since that time. Of an
 * address that is valid for ever, which nobody has to prolong: until when it is preferred.
 */
static int describe_address(const struct body *body, struct record *record)
{
	const struct ifaddrmsg *header = body->header;
	const struct ifa_cacheinfo *lifetimes = lifetimes_of(body);
	unsigned long long now_s = link_boottime_s();
	char address[INET6_ADDRSTRLEN];
	int r;

	format_own(body, address);
	r = record_setf(record, "text", "%s/%u", address, header->ifa_prefixlen);
	if (r < 0 || !lifetimes)
		return r;
	return lifetimes->ifa_valid == FOR_EVER
		       ? record_setf(record, "until", "%llu", now_s + lifetimes->ifa_prefered)
		       : record_setf(record, "since", "%llu", now_s);
}

/* Marks those of this save that an interface has which is not saved: it will have them then, too.
 */
static int mark_shared(const struct saving *saving)
{
	const struct links_save *save = saving->save;

	for (size_t i = 0; i < save->run->records->count; i++) {
		struct record *record = &save->run->records->items[i];
		const char *text = record_text(record, "text");
		char address[INET6_ADDRSTRLEN];

		(void) snprintf(address, sizeof(address), "%.*s", (int) strcspn(text, "/"), text);
		if (strcmp(record->kind, "address") == 0 &&
			strcmp(record_text(record, "life"), save->life) == 0 &&
			strv_contains(&saving->others, address) &&
			record_set(record, SHARED, "1") < 0)
			return -ENOMEM;
	}
	return 0;
}

static int keep_present(void *context, const struct nlmsghdr *message)
{
	const struct ifaddrmsg *header = mnl_nlmsg_get_payload(message);
	char address[INET6_ADDRSTRLEN];
	struct body body;

	if (message->nlmsg_type != RTM_NEWADDR)
		return 0;
	parse(message, sizeof(*header), &body);
	format_own(&body, address);
	return strv_pushf(context, "%s %u", address, header->ifa_index);
}

/*
 * An address that another interface was given meanwhile stays there, unless both had it. Each link
 * has its own link-local addresses; if the link has the address already, the kernel says so.
 */
static bool prepare_address(struct replay *replay, struct task *task)
{
	const struct ifaddrmsg *header = replay->body.header;
	char address[INET6_ADDRSTRLEN];
	size_t length;

	format_own(&replay->body, address);
	length = strlen(address);
	if (!length || header->ifa_scope != RT_SCOPE_UNIVERSE || record_get(task->record, SHARED))
		return true;
	for (size_t i = 0; i < replay->presents.count; i++) {
		const char *present = replay->presents.items[i];

		if (strncmp(present, address, length) != 0 || present[length] != ' ' ||
			strtoul(present + length, NULL, 10) == task->link->now->index)
			continue;
		run_note(replay->restore->run,
			"address %s of %s is on another interface now and stays there",
			record_text(task->record, "text"), task->link->name);
		return false;
	}
	return true;
}

/* A label that is but the name follows the name. */
static enum put put_address(struct replay *replay, struct task *task, struct nlmsghdr *request,
	const struct nlattr *attribute)
{
	const struct restored_link *link = task->link;

	(void) replay;
	(void) request;
	return mnl_attr_get_type(attribute) == IFA_LABEL && strcmp(link->now->name, link->name) != 0
		       ? PUT_DONE
		       : PUT_COPY;
}

/* False: it has run out, or will never be known again. */
static bool finish_address(struct replay *replay, struct task *task, struct nlmsghdr *request)
{
	const struct links_restore *restore = replay->restore;
	const struct ifa_cacheinfo *saved = lifetimes_of(&replay->body);
	struct ifaddrmsg *header = mnl_nlmsg_get_payload(request);
	struct ifa_cacheinfo left;
	uint64_t since, gone, until;

	header->ifa_flags = 0;
	mnl_attr_put_u32(request, IFA_FLAGS, address_flags(&replay->body) & ADDRESS_FLAGS);
	if (!saved)
		return true;
	left = *saved;
	if (left.ifa_valid == FOR_EVER) {
		until = restore->same_boot ? record_number(task->record, "until") : 0;
		left.ifa_prefered =
			until > restore->now_s ? (uint32_t) (until - restore->now_s) : 0;
		mnl_attr_put(request, IFA_CACHEINFO, sizeof(left), &left);
		return true;
	}
	if (!restore->same_boot || record_get_u64(task->record, "since", &since) < 0)
		return false;
	gone = restore->now_s > since ? restore->now_s - since : 0;
	if (left.ifa_valid <= gone)
		return false;
	left.ifa_valid -= (uint32_t) gone;
	if (left.ifa_prefered != FOR_EVER)
		left.ifa_prefered =
			left.ifa_prefered > gone ? left.ifa_prefered - (uint32_t) gone : 0;
	mnl_attr_put(request, IFA_CACHEINFO, sizeof(left), &left);
	return true;
}

/* ---- neighbours, and what a person entered in a forwarding table (bridge fdb) */

static bool neighbour_is_wanted(const struct saving *saving, const struct body *body)
{
	const struct ndmsg *header = body->header;

	(void) saving;
	return (header->ndm_family == AF_INET || header->ndm_family == AF_INET6) &&
	       ((header->ndm_state & NUD_PERMANENT) || (header->ndm_flags & NTF_PROXY));
}

static int describe_neighbour(const struct body *body, struct record *record)
{
	const struct ndmsg *header = body->header;
	char text[INET6_ADDRSTRLEN];

	format_address(header->ndm_family, body->attributes[NDA_DST], text);
	return record_set(record, "text", text);
}

/* Not what the bridge learned, nor an interface's own address. */
static bool entry_is_wanted(const struct saving *saving, const struct body *body)
{
	const struct ndmsg *header = body->header;

	(void) saving;
	if (header->ndm_family != AF_BRIDGE || (header->ndm_flags & NTF_EXT_LEARNED))
		return false;
	/* A VXLAN's entry, which says where an address is. */
	if (body->attributes[NDA_DST])
		return header->ndm_state & (NUD_PERMANENT | NUD_NOARP);
	return (header->ndm_state & NUD_NOARP) && body->attributes[NDA_MASTER];
}

static bool finish_entry(struct replay *replay, struct task *task, struct nlmsghdr *request)
{
	struct ndmsg *header = mnl_nlmsg_get_payload(request);

	(void) task;
	header->ndm_flags |= replay->body.attributes[NDA_MASTER] ? NTF_MASTER : NTF_SELF;
	return true;
}

/* ---- VLANs of a bridge's port */

/*
 * A port that is in no VLAN has no list; the bridge itself keeps its own. A port's message comes
 * twice where its driver has a bridge of its own, as mlx5 with VFs: the second is the driver's,
 * which has flags and no VLANs (net/core/rtnetlink.c: rtnl_bridge_getlink(),
 * ndo_dflt_bridge_getlink()).
 */
static bool vlans_are_wanted(const struct saving *saving, const struct body *body)
{
	const struct nlattr *vlans = body->attributes[IFLA_AF_SPEC];

	return saving->link->master && !(vlans && netlink_nested(vlans, IFLA_BRIDGE_FLAGS));
}

static int describe_vlans(const struct body *body, struct record *record)
{
	const struct nlattr *vlans = body->attributes[IFLA_AF_SPEC];

	return vlans ? record_set_hex(record, VLANS, mnl_attr_get_payload(vlans),
			       mnl_attr_get_payload_len(vlans))
		     : record_set(record, VLANS, "");
}

static bool has_vlan(const struct nlattr *vlans, uint16_t number)
{
	const struct nlattr *attribute;

	mnl_attr_for_each_nested(attribute, vlans)
	{
		const struct bridge_vlan_info *vlan = netlink_payload(attribute, sizeof(*vlan));

		if (mnl_attr_get_type(attribute) == IFLA_BRIDGE_VLAN_INFO && vlan &&
			vlan->vid == number)
			return true;
	}
	return false;
}

/* A new port is in the bridge's default VLAN, until it is taken out. */
static bool prepare_vlans(struct replay *replay, struct task *task)
{
	struct links_restore *restore = replay->restore;
	const struct nlattr *saved = replay->body.attributes[IFLA_AF_SPEC];
	const struct link *now = task->link->now;
	const struct link *bridge = link_by_index(&restore->now, now->master);
	const struct nlattr *vlan;
	struct bridge_vlan_info only = { .vid = 1 };
	struct nlmsghdr *request;
	struct nlattr *list;
	struct error ignored;
	bool has_any;

	if (!now->master || task->link->is_hosts)
		return false;
	vlan = bridge ? netlink_nested(link_info_attribute(bridge, IFLA_INFO_DATA),
				IFLA_BR_VLAN_DEFAULT_PVID)
		      : NULL;
	if (vlan)
		only.vid = (uint16_t) netlink_number(vlan);
	has_any = mnl_attr_get_payload_len(saved) > 0;
	if (!only.vid || has_vlan(saved, only.vid))
		return has_any;
	request = netlink_link_request(restore->netlink, RTM_DELLINK, 0, now->index);
	*(uint8_t *) mnl_nlmsg_get_payload(request) = AF_BRIDGE;
	list = mnl_attr_nest_start(request, IFLA_AF_SPEC);
	mnl_attr_put(request, IFLA_BRIDGE_VLAN_INFO, sizeof(only), &only);
	mnl_attr_nest_end(request, list);
	(void) !netlink_talk(restore->netlink, request, NULL, NULL, &ignored);
	return has_any;
}

/* ---- nexthops */

static bool is_saved_nexthop(const struct saving *saving, uint32_t number)
{
	char text[16];

	(void) snprintf(text, sizeof(text), "%u", number);
	return strv_contains(&saving->nexthops, text);
}

/* The kernel lists nexthops by number: groups in a second round. */
static bool nexthop_is_wanted(const struct saving *saving, const struct body *body)
{
	const struct nlattr *group = body->attributes[NHA_GROUP];
	const struct nexthop_grp *members;
	size_t count;

	if (!netlink_number(body->attributes[NHA_ID]) || !group == saving->is_second)
		return false;
	if (!group)
		return links_save_has(saving->save, netlink_number(body->attributes[NHA_OIF]));
	members = mnl_attr_get_payload(group);
	count = mnl_attr_get_payload_len(group) / sizeof(*members);
	for (size_t i = 0; i < count; i++)
		if (is_saved_nexthop(saving, members[i].id))
			return true;
	return false;
}

static int describe_nexthop(const struct body *body, struct record *record)
{
	return record_setf(record, "text", "nexthop %u", netlink_number(body->attributes[NHA_ID]));
}

/* Is it a nexthop whose interface is not there? */
static bool is_gone(const struct replay *replay, uint32_t number)
{
	for (size_t i = 0; number && i < replay->count; i++)
		if (replay->tasks[i].gone == number)
			return true;
	return false;
}

/* Linux 5.13's NHA_RES_GROUP and NHA_RES_GROUP_UNBALANCED_TIMER, which older headers lack. */
#define RESILIENT        12
#define RESILIENT_TIMERS 3 /* the last that is set; what follows is only shown */

static void put_resilient(struct nlmsghdr *request, const struct nlattr *shown)
{
	struct nlattr *nest = mnl_attr_nest_start(request, RESILIENT);
	const struct nlattr *attribute;

	mnl_attr_for_each_nested(attribute, shown)
	{
		uint16_t type = mnl_attr_get_type(attribute);

		if (type && type <= RESILIENT_TIMERS)
			netlink_put_copy(request, attribute);
	}
	mnl_attr_nest_end(request, nest);
}

/* A group has the members that are left, which are counted. A scope is never set. */
static enum put put_nexthop(struct replay *replay, struct task *task, struct nlmsghdr *request,
	const struct nlattr *attribute)
{
	const struct nexthop_grp *members = mnl_attr_get_payload(attribute);
	size_t count = mnl_attr_get_payload_len(attribute) / sizeof(*members);
	struct nlattr *group = mnl_nlmsg_get_payload_tail(request);
	struct nhmsg *header = mnl_nlmsg_get_payload(request);

	header->nh_scope = 0;
	if (mnl_attr_get_type(attribute) == RESILIENT) {
		put_resilient(request, attribute);
		return PUT_DONE;
	}
	if (mnl_attr_get_type(attribute) != NHA_GROUP)
		return PUT_COPY;
	mnl_attr_put(request, NHA_GROUP, 0, NULL);
	for (size_t i = 0; i < count; i++) {
		if (is_gone(replay, members[i].id))
			task->left_out++;
		else
			append(request, &members[i], sizeof(*members));
	}
	mnl_attr_nest_end(request, group);
	return mnl_attr_get_payload_len(group) ? PUT_DONE : PUT_NOTHING_LEFT;
}

/* ---- routes */

/* The path behind another one, or the first; NULL: there is no more. */
static const struct rtnexthop *next_path(const struct nlattr *paths, const struct rtnexthop *path)
{
	const char *begin = mnl_attr_get_payload(paths);
	const char *end = begin + mnl_attr_get_payload_len(paths);
	int left;

	path = path ? RTNH_NEXT(path) : mnl_attr_get_payload(paths);
	left = (int) (end - (const char *) path);
	return left >= (int) sizeof(*path) && RTNH_OK(path, left) ? path : NULL;
}

static bool has_saved_path(const struct links_save *save, const struct nlattr *paths)
{
	const struct rtnexthop *path = NULL;

	while ((path = next_path(paths, path)))
		if (links_save_has(save, (uint32_t) path->rtnh_ifindex))
			return true;
	return false;
}

/* A route whose source is an address that goes, goes with it, wherever it leads to. */
static bool has_saved_source(
	const struct links_save *save, uint8_t family, const struct nlattr *source)
{
	const struct record *record = NULL;
	char text[INET6_ADDRSTRLEN];
	size_t length;

	format_address(family, source, text);
	length = strlen(text);
	while (length && (record = records_next(save->run->records, "address", record))) {
		const char *address = record_text(record, "text");

		if (strncmp(address, text, length) == 0 && address[length] == '/')
			return true;
	}
	return false;
}

/* Reads an IPv6 sysctl that is a digit; 0: unknown. */
static char read_digit(const struct links_save *save, const struct link *link, const char *name)
{
	_cleanup_free_ char *value = NULL;
	char path[128];

	(void) snprintf(path, sizeof(path), "proc/sys/net/ipv6/conf/%s/%s", link->name, name);
	return fs_read_line(save->run->netstate->root_fd, path, &value) < 0 ? '\0' : value[0];
}

/* Does the kernel listen to routers on the interface? Then it has their routes again by itself. */
static bool accepts_routers(const struct links_save *save, uint32_t index)
{
	const struct link *link = link_by_index(&save->table, index);
	char accept = link ? read_digit(save, link, "accept_ra") : '\0';

	return accept == '2' || (accept == '1' && read_digit(save, link, "forwarding") == '0');
}

/*
 * The kernel makes an address's own route, with this metric, but for those whose makers want
 * another one (IFA_F_NOPREFIXROUTE): NetworkManager makes it, and calls it the kernel's.
 */
static bool is_kernels_own(const struct rtmsg *header, const struct body *body)
{
	uint32_t metric = header->rtm_family == AF_INET6 ? IP6_RT_PRIO_ADDRCONF : 0;

	return header->rtm_protocol == RTPROT_KERNEL &&
	       (header->rtm_type != RTN_UNICAST ||
		       netlink_number(body->attributes[RTA_PRIORITY]) == metric);
}

static bool route_is_wanted(const struct saving *saving, const struct body *body)
{
	const struct links_save *save = saving->save;
	const struct rtmsg *header = body->header;
	const struct nlattr *paths = body->attributes[RTA_MULTIPATH];
	uint32_t out = netlink_number(body->attributes[RTA_OIF]);

	if ((header->rtm_flags & RTM_F_CLONED) ||
		(header->rtm_family != AF_INET && header->rtm_family != AF_INET6) ||
		is_kernels_own(header, body) || header->rtm_protocol == RTPROT_REDIRECT)
		return false;
	if (header->rtm_protocol == RTPROT_RA && accepts_routers(save, out))
		return false;
	return links_save_has(save, out) || (paths && has_saved_path(save, paths)) ||
	       is_saved_nexthop(saving, netlink_number(body->attributes[RTA_NH_ID])) ||
	       has_saved_source(save, header->rtm_family, body->attributes[RTA_PREFSRC]);
}

/* "10.1.0.0/16 via 10.0.0.1, table 254" */
static int describe_route(const struct body *body, struct record *record)
{
	const struct rtmsg *header = body->header;
	const struct nlattr *table = body->attributes[RTA_TABLE];
	const struct rta_cacheinfo *cache =
		netlink_payload(body->attributes[RTA_CACHEINFO], sizeof(*cache));
	char target[INET6_ADDRSTRLEN];
	char gateway[INET6_ADDRSTRLEN];
	int r;

	format_address(header->rtm_family, body->attributes[RTA_DST], target);
	format_address(header->rtm_family, body->attributes[RTA_GATEWAY], gateway);
	r = record_setf(record, "text", "%s/%u%s%s, table %u", *target ? target : "default",
		header->rtm_dst_len, *gateway ? " via " : "", gateway,
		table ? netlink_number(table) : header->rtm_table);
	if (r < 0 || !cache || cache->rta_expires <= 0)
		return r;
	return record_setf(record, "until", "%llu",
		(unsigned long long) link_boottime_s() + (unsigned) cache->rta_expires / USER_HZ);
}

/*
 * The paths with today's indexes, and no flags but those that are a person's. Those out of
 * interfaces that are not there are left out and counted.
 */
static enum put put_paths(struct replay *replay, struct task *task, struct nlmsghdr *request,
	const struct nlattr *paths)
{
	struct nlattr *copy = mnl_nlmsg_get_payload_tail(request);
	const struct rtnexthop *path = NULL;

	mnl_attr_put(request, RTA_MULTIPATH, 0, NULL);
	while ((path = next_path(paths, path))) {
		struct rtnexthop *put = mnl_nlmsg_get_payload_tail(request);
		uint32_t index = restored_index(
			replay->restore, task->record, (uint32_t) path->rtnh_ifindex);

		if (!index) {
			task->left_out++;
			continue;
		}
		append(request, path, path->rtnh_len);
		put->rtnh_ifindex = (int) index;
		put->rtnh_flags &= RTNH_F_ONLINK;
	}
	mnl_attr_nest_end(request, copy);
	return mnl_attr_get_payload_len(copy) ? PUT_DONE : PUT_NOTHING_LEFT;
}

/* A route by a nexthop's number has what that is beside it: for those who read, not to be sent. */
static enum put put_route(struct replay *replay, struct task *task, struct nlmsghdr *request,
	const struct nlattr *attribute)
{
	switch (mnl_attr_get_type(attribute)) {
	case RTA_OIF:
	case RTA_GATEWAY:
	case RTA_VIA:
	case RTA_ENCAP:
	case RTA_ENCAP_TYPE:
		return replay->body.attributes[RTA_NH_ID] ? PUT_DONE : PUT_COPY;
	case RTA_MULTIPATH:
		return replay->body.attributes[RTA_NH_ID]
			       ? PUT_DONE
			       : put_paths(replay, task, request, attribute);
	default:
		return PUT_COPY;
	}
}

/*
 * Another route of the same target stays beside it, unless that is its own part: of what an earlier
 * try restored, or of IPv6, of whose routes the kernel takes single paths away. False: its time is
 * over.
 */
static bool finish_route(struct replay *replay, struct task *task, struct nlmsghdr *request)
{
	const struct links_restore *restore = replay->restore;
	const struct rtmsg *saved = replay->body.header;
	bool is_in_part = replay->body.attributes[RTA_MULTIPATH] &&
			  (saved->rtm_family == AF_INET6 || record_get(task->record, IN_PART));
	uint64_t until;

	request->nlmsg_flags |= is_in_part && restore->same_boot ? NLM_F_REPLACE : NLM_F_APPEND;
	if (record_get_u64(task->record, "until", &until) < 0)
		return true;
	if (!restore->same_boot || until <= restore->now_s)
		return false;
	mnl_attr_put_u32(request, RTA_EXPIRES, (uint32_t) (until - restore->now_s));
	return true;
}

/* ---- rules */

static bool names_saved_link(const struct links_save *save, const struct nlattr *attribute)
{
	const char *name = netlink_text(attribute);

	for (size_t i = 0; name && i < save->count; i++)
		if (strcmp(save->order[i]->name, name) == 0)
			return true;
	return false;
}

static bool rule_is_wanted(const struct saving *saving, const struct body *body)
{
	return names_saved_link(saving->save, body->attributes[FRA_IIFNAME]) ||
	       names_saved_link(saving->save, body->attributes[FRA_OIFNAME]);
}

static int describe_rule(const struct body *body, struct record *record)
{
	return record_setf(record, "text", "rule of priority %u",
		netlink_number(body->attributes[FRA_PRIORITY]));
}

/* ---- the table, in the order in which it is saved and restored */

static const struct object objects[] = {
	{ "bridge-vlans", "VLANs in the bridge", RTM_GETLINK, RTM_NEWLINK, RTM_SETLINK, 0,
		.family = AF_BRIDGE, .is_optional = true, .header_size = sizeof(struct ifinfomsg),
		.index_at = offsetof(struct ifinfomsg, ifi_index), .kept = BIT(IFLA_AF_SPEC),
		.is_wanted = vlans_are_wanted, .describe = describe_vlans,
		.prepare = prepare_vlans },
	{ "bridge-entry", "entry of the forwarding table", RTM_GETNEIGH, RTM_NEWNEIGH, RTM_NEWNEIGH,
		NLM_F_CREATE | NLM_F_APPEND, .family = AF_BRIDGE, .is_optional = true,
		.header_size = sizeof(struct ndmsg),
		.index_at = offsetof(struct ndmsg, ndm_ifindex),
		.kept = BIT(NDA_LLADDR) | BIT(NDA_VLAN) | BIT(NDA_DST) | BIT(NDA_PORT) |
			BIT(NDA_VNI) | BIT(NDA_SRC_VNI) | BIT(NDA_IFINDEX),
		.indexes = BIT(NDA_IFINDEX), .is_wanted = entry_is_wanted, .finish = finish_entry },
	{ "address", "address", RTM_GETADDR, RTM_NEWADDR, RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL,
		.is_stacked = true, .header_size = sizeof(struct ifaddrmsg),
		.index_at = offsetof(struct ifaddrmsg, ifa_index),
		.kept = ~(BIT(IFA_CACHEINFO) | BIT(IFA_FLAGS)), .is_wanted = address_is_wanted,
		.describe = describe_address, .prepare = prepare_address, .put = put_address,
		.finish = finish_address },
	{ "neighbour", "neighbour", RTM_GETNEIGH, RTM_NEWNEIGH, RTM_NEWNEIGH,
		NLM_F_CREATE | NLM_F_EXCL, .is_dumped_twice = true,
		.header_size = sizeof(struct ndmsg),
		.index_at = offsetof(struct ndmsg, ndm_ifindex),
		.kept = BIT(NDA_DST) | BIT(NDA_LLADDR) | BIT(NDA_PROTOCOL),
		.is_wanted = neighbour_is_wanted, .describe = describe_neighbour },
	/* Before the routes, which name them; kernels before 5.3 know none. */
	{ "nexthop", "nexthop", RTM_GETNEXTHOP, RTM_NEWNEXTHOP, RTM_NEWNEXTHOP,
		NLM_F_CREATE | NLM_F_REPLACE, .is_dumped_twice = true, .is_optional = true,
		.is_late = true, .header_size = sizeof(struct nhmsg),
		.flags_at = offsetof(struct nhmsg, nh_flags), .flags_kept = RTNH_F_ONLINK,
		.kept = (BIT(NHA_FDB + 1) - 1) | BIT(RESILIENT), .indexes = BIT(NHA_OIF),
		.is_wanted = nexthop_is_wanted, .describe = describe_nexthop, .put = put_nexthop },
	{ "route", "route", RTM_GETROUTE, RTM_NEWROUTE, RTM_NEWROUTE, NLM_F_CREATE, .is_late = true,
		.header_size = sizeof(struct rtmsg), .flags_at = offsetof(struct rtmsg, rtm_flags),
		.flags_kept = RTNH_F_ONLINK,
		.kept = ~(BIT(RTA_CACHEINFO) | BIT(RTA_IIF) | BIT(RTA_UID) | BIT(RTA_MARK)),
		.indexes = BIT(RTA_OIF), .is_wanted = route_is_wanted, .describe = describe_route,
		.put = put_route, .finish = finish_route },
	{ "rule", "rule", RTM_GETRULE, RTM_NEWRULE, RTM_NEWRULE, NLM_F_CREATE | NLM_F_EXCL,
		.is_late = true, .is_optional = true, .header_size = sizeof(struct fib_rule_hdr),
		.flags_at = offsetof(struct fib_rule_hdr, flags), .flags_kept = FIB_RULE_INVERT,
		.kept = ~BIT(FRA_PAD), .is_wanted = rule_is_wanted, .describe = describe_rule },
};

/* ---- saving */

static int save_message(void *context, const struct nlmsghdr *message)
{
	struct saving *saving = context;
	const struct links_save *save = saving->save;
	const struct object *object = saving->object;
	char other[INET6_ADDRSTRLEN];
	struct record *record;
	struct body body;
	uint32_t index;

	if (message->nlmsg_type != object->answer ||
		mnl_nlmsg_get_payload_len(message) < object->header_size)
		return 0;
	parse(message, object->header_size, &body);
	saving->link = NULL;
	if (object->index_at) {
		memcpy(&index, (const char *) body.header + object->index_at, sizeof(index));
		if (links_save_has(save, index))
			saving->link = link_by_index(&save->table, index);
		if (!saving->link && object->set == RTM_NEWADDR) {
			format_own(&body, other);
			return strv_push(&saving->others, other);
		}
		if (!saving->link)
			return 0;
	}
	if (!object->is_wanted(saving, &body))
		return 0;
	record = records_add(save->run->records, object->kind, "life", save->life, "link",
		saving->link ? saving->link->name : NULL);
	if (!record ||
		(object->get != RTM_GETLINK && record_set_hex(record, "raw", body.header,
						       mnl_nlmsg_get_payload_len(message)) < 0))
		return -ENOMEM;
	if (object->set == RTM_NEWNEXTHOP &&
		strv_pushf(&saving->nexthops, "%u", netlink_number(body.attributes[NHA_ID])) < 0)
		return -ENOMEM;
	return object->describe ? object->describe(&body, record) : 0;
}

static int dump(struct saving *saving, struct error *error)
{
	const struct object *object = saving->object;
	/* The kernel wants that header of all that is asked of bridges. */
	struct nlmsghdr *request = netlink_request(saving->save->netlink, object->get, NLM_F_DUMP,
		object->family == AF_BRIDGE ? sizeof(struct ifinfomsg) : object->header_size);
	struct ndmsg *header = mnl_nlmsg_get_payload(request);
	int r;

	header->ndm_family = object->family;
	if (object->get == RTM_GETNEIGH && saving->is_second)
		header->ndm_flags = NTF_PROXY;
	if (object->get == RTM_GETLINK)
		mnl_attr_put_u32(request, IFLA_EXT_MASK, RTEXT_FILTER_BRVLAN);
	r = netlink_talk(saving->save->netlink, request, save_message, saving, error);
	if (r == -EOPNOTSUPP && object->is_optional)
		return 0;
	return r < 0 ? error_prefix(error, r, "%s", object->kind) : 0;
}

int replay_save(const struct links_save *save, struct error *error)
{
	struct saving saving = { .save = save };
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(objects); i++) {
		saving.object = &objects[i];
		saving.is_second = false;
		r = dump(&saving, error);
		saving.is_second = true;
		if (r == 0 && objects[i].is_dumped_twice)
			r = dump(&saving, error);
	}
	if (r == 0 && mark_shared(&saving) < 0)
		r = error_set_errno(error, -ENOMEM, "addresses");
	strv_free(&saving.nexthops);
	strv_free(&saving.others);
	return r;
}

/* ---- replaying */

/* The message of a record again; NULL: it is damaged. */
static struct nlmsghdr *saved_message(const struct object *object, const struct record *record)
{
	bool is_vlans = object->get == RTM_GETLINK;
	size_t before = is_vlans ? object->header_size + MNL_ATTR_HDRLEN : 0;
	_cleanup_free_ struct nlmsghdr *message =
		record_message(record, is_vlans ? VLANS : "raw", before);
	size_t size = message ? mnl_nlmsg_get_payload_len(message) : 0;
	const struct nlattr *attribute;
	struct ifinfomsg *header;
	struct nlattr *vlans;
	const char *end;

	if (size < object->header_size || size > UINT16_MAX)
		return NULL;
	if (is_vlans) {
		header = mnl_nlmsg_get_payload(message);
		header->ifi_family = AF_BRIDGE;
		vlans = mnl_nlmsg_get_payload_offset(message, object->header_size);
		vlans->nla_type = IFLA_AF_SPEC | NLA_F_NESTED;
		vlans->nla_len = (uint16_t) (size - object->header_size);
	}
	end = mnl_nlmsg_get_payload_tail(message);
	attribute = mnl_nlmsg_get_payload_offset(message, object->header_size);
	while (mnl_attr_ok(attribute, (int) (end - (const char *) attribute)))
		attribute = mnl_attr_next(attribute);
	/* The attributes fill it to its end, and none of them is cut. */
	return (const char *) attribute == end ? TAKE_PTR(message) : NULL;
}

/* NULL: what it goes with is not there, or there is nothing to do. */
static struct nlmsghdr *begin_request(struct replay *replay, struct task *task)
{
	const struct object *object = task->object;
	const struct nlattr *attribute;
	struct nlmsghdr *request;
	uint32_t flags;
	char *header;

	if (object->prepare && !object->prepare(replay, task))
		return NULL;
	request = netlink_request(
		replay->restore->netlink, object->set, object->flags, object->header_size);
	header = mnl_nlmsg_get_payload(request);
	memcpy(header, replay->body.header, object->header_size);
	if (object->index_at)
		memcpy(header + object->index_at, &task->link->now->index, sizeof(uint32_t));
	if (object->flags_at) {
		memcpy(&flags, header + object->flags_at, sizeof(flags));
		flags &= object->flags_kept;
		memcpy(header + object->flags_at, &flags, sizeof(flags));
	}
	mnl_attr_for_each(attribute, task->message, object->header_size)
	{
		uint16_t type = mnl_attr_get_type(attribute);
		enum put put = PUT_COPY;
		uint32_t index;

		if (type >= ATTRIBUTES || !(object->kept & BIT(type)))
			continue;
		if (object->put)
			put = object->put(replay, task, request, attribute);
		if (put == PUT_NOTHING_LEFT)
			return NULL;
		if (put == PUT_COPY && (object->indexes & BIT(type))) {
			index = restored_index(
				replay->restore, task->record, netlink_number(attribute));
			if (!index)
				return NULL;
			netlink_put(request, type, sizeof(index), &index);
		} else if (put == PUT_COPY) {
			netlink_put_copy(request, attribute);
		}
	}
	return !object->finish || object->finish(replay, task, request) ? request : NULL;
}

/*
 * On an interface that stayed, such as a VLAN on a bond, only the node's network manager removes
 * addresses: NetworkManager and systemd-networkd do so when the carrier is lost, and add them again
 * when it is back. They leave an interface alone that has an address by then which is not theirs.
 */
static void leave_managed(struct replay *replay)
{
	for (size_t i = 0; i < replay->count; i++) {
		struct task *task = &replay->tasks[i];
		struct restored_link *link = task->link;
		const char *text = record_text(task->record, "text");
		char present[INET6_ADDRSTRLEN + 16];

		if (strcmp(task->object->kind, "address") != 0 || !replay->restore->same_boot ||
			!link || link->is_managed || link->device || !link->now ||
			link->now->index != link->old_index)
			continue;
		(void) snprintf(present, sizeof(present), "%.*s %u", (int) strcspn(text, "/"), text,
			link->now->index);
		if (strv_contains(&replay->presents, present))
			continue;
		link->is_managed = true;
		run_note(replay->restore->run,
			"%s stayed, and another process removed its address %s: its addresses "
			"and routes are left to that process",
			link->name, text);
	}
}

/* True: there is nothing more to do for it. */
static bool try(struct replay *replay, struct task *task)
{
	struct nlmsghdr *request;
	struct error error = { 0 };
	int r;

	/* Its interface did not come back: that was reported. */
	if (task->object->index_at && (!task->link || !task->link->now || task->link->is_managed))
		return true;
	if (!task->message) {
		(void) snprintf(task->words, sizeof(task->words), "its record is damaged");
		return false;
	}
	task->left_out = 0;
	parse(task->message, task->object->header_size, &replay->body);
	request = begin_request(replay, task);
	if (!request) {
		task->left_out = 0;
		if (task->object->set == RTM_NEWNEXTHOP)
			task->gone = netlink_number(replay->body.attributes[NHA_ID]);
		return true;
	}
	r = netlink_talk(replay->restore->netlink, request, NULL, NULL, &error);
	if (r < 0 && r != -EEXIST) {
		(void) snprintf(task->words, sizeof(task->words), "%.150s", error.text);
		return false;
	}
	/* A whole one is the node's again, also if the next start tries what is missing. */
	if (task->left_out)
		(void) !record_set(task->record, IN_PART, "1");
	else if (task->object->is_late)
		record_forget(task->record);
	return true;
}

/* Round by round, for a route by way of a gateway can go in when the one to the gateway is. */
static bool are_done(struct replay *replay)
{
	size_t done, left;

	do {
		done = 0;
		left = 0;
		for (size_t i = 0; i < replay->count; i++) {
			struct task *task = &replay->tasks[i];

			if (task->is_done)
				continue;
			task->is_done = try(replay, task);
			done += task->is_done;
			left += !task->is_done;
		}
	} while (done && left);
	return !left;
}

/*
 * A request that is refused now may be accepted in a moment: a nexthop has to have a carrier, and
 * an IPv6 source address counts once no host on the link has objected to it, for which the kernel
 * waits a second from the carrier on. No list of events covers all that a route may wait for.
 */
static void try_all(struct replay *replay, bool is_late)
{
	uint64_t begun_ms = clock_monotonic_ms();
	uint64_t since_ms = begun_ms; /* nothing is waited for that may take longer */

	while (!are_done(replay) && is_late) {
		uint64_t now_ms = clock_monotonic_ms();

		if (now_ms - begun_ms < CARRIER_MS && links_lack_carrier(replay->restore))
			since_ms = now_ms;
		if (now_ms - since_ms >= replay->restore->run->netstate->bind_ms)
			return;
		(void) poll(NULL, 0, RETRY_MS);
	}
}

/*
 * In the order in which an interface has them, for the first address is the source of what it
 * sends: the kernel puts a new one behind the others, but one of IPv6 in front of them.
 */
static void add_tasks(struct replay *replay, const struct object *object)
{
	struct statefile *records = replay->restore->run->records;
	size_t count = records->count;

	for (size_t i = 0; i < 2 * count; i++) {
		bool is_second = i >= count;
		struct record *record = &records->items[is_second ? 2 * count - 1 - i : i];
		/* The family, AF_INET6, is the first byte. */
		bool is_reversed =
			object->is_stacked && strncmp(record_text(record, "raw"), "0a", 2) == 0;

		if (strcmp(record->kind, object->kind) != 0 || is_reversed != is_second)
			continue;
		replay->tasks[replay->count++] = (struct task){ .object = object,
			.record = record,
			.message = saved_message(object, record),
			.link = restored_by_name(replay->restore, record_get(record, "link")) };
	}
}

static void report(const struct run *run, const struct task *task)
{
	const char *label = task->object->label;
	const char *text = record_text(task->record, "text");
	const char *link = record_get(task->record, "link");

	if (!task->is_done)
		run_failure(run, "%s%s%s%s%s: %s", label, *text ? " " : "", text,
			link ? " of " : "", link ? link : "", task->words);
	else if (task->left_out)
		run_failure(run, "%s %s: without %u of its paths, whose interfaces are missing",
			label, text, task->left_out);
}

void replay_restore(struct links_restore *restore, bool is_late)
{
	const struct run *run = restore->run;
	struct replay replay = { .restore = restore };
	struct nlmsghdr *request;
	struct error error = { 0 };

	replay.tasks = calloc(run->records->count + 1, sizeof(*replay.tasks));
	if (!replay.tasks) {
		run_failure(run, "%s: out of memory", is_late ? "routes" : "addresses");
		return;
	}
	for (size_t i = 0; i < ARRAY_SIZE(objects); i++)
		if (objects[i].is_late == is_late)
			add_tasks(&replay, &objects[i]);
	if (!is_late) {
		request = netlink_request(
			restore->netlink, RTM_GETADDR, NLM_F_DUMP, sizeof(struct ifaddrmsg));
		if (netlink_talk(
			    restore->netlink, request, keep_present, &replay.presents, &error) < 0)
			run_failure(run, "addresses: %s", error.text);
		else
			leave_managed(&replay);
	}
	try_all(&replay, is_late);
	for (size_t i = 0; i < replay.count; i++) {
		report(run, &replay.tasks[i]);
		free(replay.tasks[i].message);
	}
	free(replay.tasks);
	strv_free(&replay.presents);
}
