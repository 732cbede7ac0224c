/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nexthops, routes of all tables and rules that go with an interface, as the kernel tells them
 * (struct rtmsg, nhmsg, fib_rule_hdr of include/uapi/linux).
 */
#include <arpa/inet.h>
#include <linux/fib_rules.h>
#include <linux/nexthop.h>
#include <linux/rtnetlink.h>
#include <string.h>

#include "common/fs.h"
#include "entrypoint/netstate/links_parts.h"

#define USER_HZ 100 /* what the kernel tells an expiry in, on every architecture of today */

/* ---- which routes go */

struct saving {
	const struct saved_links *saved;
	size_t address_end;   /* behind the last record of an address */
	struct strv nexthops; /* numbers of those that are saved */
	bool is_groups;       /* the kernel tells nexthops by number: groups in a second round */
};

static uint32_t number_of(const struct nlattr *attribute)
{
	return attribute && mnl_attr_validate(attribute, MNL_TYPE_U32) >= 0
		       ? mnl_attr_get_u32(attribute)
		       : 0;
}

static bool has_saved_path(const struct saved_links *saved, const struct nlattr *paths)
{
	const struct rtnexthop *path = mnl_attr_get_payload(paths);
	int left = mnl_attr_get_payload_len(paths);

	for (; left >= (int) sizeof(*path) && RTNH_OK(path, left);
		left -= (int) NLMSG_ALIGN(path->rtnh_len), path = RTNH_NEXT(path))
		if (saved_links_has(saved, (uint32_t) path->rtnh_ifindex))
			return true;
	return false;
}

/* A route whose source is an address that goes, goes with it, wherever it leads to. */
static bool has_saved_source(
	const struct saving *saving, const struct rtmsg *header, const struct nlattr *source)
{
	for (size_t i = 0; source && i < saving->address_end; i++) {
		const struct record *record = &saving->saved->records->items[i];
		char text[INET6_ADDRSTRLEN];
		const char *address = record_get(record, "text");
		size_t length;

		if (strcmp(record->kind, "address") != 0 || !address ||
			mnl_attr_get_payload_len(source) <
				(header->rtm_family == AF_INET ? 4 : 16) ||
			!inet_ntop(header->rtm_family, mnl_attr_get_payload(source), text,
				sizeof(text)))
			continue;
		length = strlen(text);
		if (strncmp(address, text, length) == 0 && address[length] == '/')
			return true;
	}
	return false;
}

/* Does the kernel itself listen to routers on the interface? Its routes of theirs come anew then.
 */
static bool hears_routers(const struct saved_links *saved, uint32_t index)
{
	static const char folder[] = "proc/sys/net/ipv6/conf";
	const struct link *link = link_by_index(&saved->table, index);
	_cleanup_free_ char *accept = NULL;
	_cleanup_free_ char *forwarding = NULL;
	char path[128];

	(void) snprintf(path, sizeof(path), "%s/%s/accept_ra", folder, link ? link->name : "");
	if (fs_read_line(saved->network->root_fd, path, &accept) < 0)
		return false;
	(void) snprintf(path, sizeof(path), "%s/%s/forwarding", folder, link ? link->name : "");
	if (fs_read_line(saved->network->root_fd, path, &forwarding) < 0)
		return false;
	return accept[0] == '2' || (accept[0] == '1' && forwarding[0] == '0');
}

static bool is_wanted(const struct saving *saving, const struct nlmsghdr *message)
{
	const struct rtmsg *header = mnl_nlmsg_get_payload(message);
	const struct nlattr *paths = links_attribute(message, sizeof(*header), RTA_MULTIPATH);
	uint32_t out = number_of(links_attribute(message, sizeof(*header), RTA_OIF));
	char nexthop[16];

	if (message->nlmsg_type != RTM_NEWROUTE || (header->rtm_flags & RTM_F_CLONED) ||
		(header->rtm_family != AF_INET && header->rtm_family != AF_INET6) ||
		header->rtm_protocol == RTPROT_KERNEL || header->rtm_protocol == RTPROT_REDIRECT)
		return false;
	if (header->rtm_protocol == RTPROT_RA && hears_routers(saving->saved, out))
		return false;
	(void) snprintf(nexthop, sizeof(nexthop), "%u",
		number_of(links_attribute(message, sizeof(*header), RTA_NH_ID)));
	return saved_links_has(saving->saved, out) ||
	       (paths && has_saved_path(saving->saved, paths)) ||
	       strv_contains(&saving->nexthops, nexthop) ||
	       has_saved_source(
		       saving, header, links_attribute(message, sizeof(*header), RTA_PREFSRC));
}

/* For whoever reads the journal or a message: "10.1.0.0/16 via 10.0.0.1, table 254". */
static int describe_route(struct record *record, const struct nlmsghdr *message)
{
	const struct rtmsg *header = mnl_nlmsg_get_payload(message);
	const struct nlattr *to = links_attribute(message, sizeof(*header), RTA_DST);
	const struct nlattr *via = links_attribute(message, sizeof(*header), RTA_GATEWAY);
	const struct nlattr *table = links_attribute(message, sizeof(*header), RTA_TABLE);
	const struct rta_cacheinfo *cache = NULL;
	const struct nlattr *attribute = links_attribute(message, sizeof(*header), RTA_CACHEINFO);
	char target[INET6_ADDRSTRLEN] = "default";
	char gateway[INET6_ADDRSTRLEN] = "";
	int r;

	if (to)
		(void) inet_ntop(
			header->rtm_family, mnl_attr_get_payload(to), target, sizeof(target));
	if (via)
		(void) inet_ntop(
			header->rtm_family, mnl_attr_get_payload(via), gateway, sizeof(gateway));
	r = record_setf(record, "text", "%s/%u%s%s, table %u", target, header->rtm_dst_len,
		gateway[0] ? " via " : "", gateway, table ? number_of(table) : header->rtm_table);
	if (attribute && mnl_attr_get_payload_len(attribute) >= sizeof(*cache))
		cache = mnl_attr_get_payload(attribute);
	if (r == 0 && cache && cache->rta_expires > 0)
		r = record_setf(record, "until", "%llu",
			(unsigned long long) links_boottime_s() +
				(unsigned) cache->rta_expires / USER_HZ);
	return r;
}

static int save_route(void *context, const struct nlmsghdr *message)
{
	const struct saving *saving = context;
	struct record *record;

	if (!is_wanted(saving, message))
		return 0;
	record = links_raw_record(saving->saved, "route", message);
	return record ? describe_route(record, message) : -ENOMEM;
}

/* ---- nexthops and rules */

static bool has_saved_member(const struct saving *saving, const struct nlattr *group)
{
	const struct nexthop_grp *members = mnl_attr_get_payload(group);
	size_t count = mnl_attr_get_payload_len(group) / sizeof(*members);

	for (size_t i = 0; i < count; i++) {
		char number[16];

		(void) snprintf(number, sizeof(number), "%u", members[i].id);
		if (strv_contains(&saving->nexthops, number))
			return true;
	}
	return false;
}

static int save_nexthop(void *context, const struct nlmsghdr *message)
{
	struct saving *saving = context;
	const struct nlattr *group = links_attribute(message, sizeof(struct nhmsg), NHA_GROUP);
	uint32_t out = number_of(links_attribute(message, sizeof(struct nhmsg), NHA_OIF));
	uint32_t number = number_of(links_attribute(message, sizeof(struct nhmsg), NHA_ID));
	struct record *record;

	if (message->nlmsg_type != RTM_NEWNEXTHOP || !number || saving->is_groups != !!group)
		return 0;
	if (group ? !has_saved_member(saving, group) : !saved_links_has(saving->saved, out))
		return 0;
	record = links_raw_record(saving->saved, "nexthop", message);
	if (!record || record_setf(record, "text", "nexthop %u", number) < 0 ||
		strv_pushf(&saving->nexthops, "%u", number) < 0)
		return -ENOMEM;
	return 0;
}

static int names_saved_link(const struct saved_links *saved, const struct nlattr *name)
{
	if (!name || mnl_attr_validate(name, MNL_TYPE_NUL_STRING) < 0)
		return false;
	for (size_t i = 0; i < saved->count; i++) {
		const struct link *link = link_by_index(&saved->table, saved->order[i]);

		if (link && strcmp(link->name, mnl_attr_get_str(name)) == 0)
			return true;
	}
	return false;
}

static int save_rule(void *context, const struct nlmsghdr *message)
{
	const struct saving *saving = context;
	const struct nlattr *in =
		links_attribute(message, sizeof(struct fib_rule_hdr), FRA_IIFNAME);
	const struct nlattr *out =
		links_attribute(message, sizeof(struct fib_rule_hdr), FRA_OIFNAME);
	struct record *record;

	if (message->nlmsg_type != RTM_NEWRULE ||
		(!names_saved_link(saving->saved, in) && !names_saved_link(saving->saved, out)))
		return 0;
	record = links_raw_record(saving->saved, "rule", message);
	if (!record || record_setf(record, "text", "rule of priority %u",
			       number_of(links_attribute(
				       message, sizeof(struct fib_rule_hdr), FRA_PRIORITY))) < 0)
		return -ENOMEM;
	return 0;
}

static int dump(struct saving *saving, uint16_t type, size_t header_size,
	netlink_callback *callback, struct error *error)
{
	struct nlmsghdr *request = netlink_request(saving->saved->netlink, type, NLM_F_DUMP);

	(void) netlink_extra(request, header_size);
	return netlink_talk(saving->saved->netlink, request, callback, saving, error);
}

int routes_save(const struct saved_links *saved, struct error *error)
{
	struct saving saving = { .saved = saved, .address_end = saved->records->count };
	int r;

	/* Kernels before 5.3 know no nexthops. */
	r = dump(&saving, RTM_GETNEXTHOP, sizeof(struct nhmsg), save_nexthop, error);
	saving.is_groups = true;
	if (r == 0)
		r = dump(&saving, RTM_GETNEXTHOP, sizeof(struct nhmsg), save_nexthop, error);
	if (r == -EOPNOTSUPP)
		r = 0;
	if (r == 0)
		r = dump(&saving, RTM_GETROUTE, sizeof(struct rtmsg), save_route, error);
	if (r == 0)
		r = dump(&saving, RTM_GETRULE, sizeof(struct fib_rule_hdr), save_rule, error);
	strv_free(&saving.nexthops);
	return r < 0 ? error_prefix(error, r, "routes") : 0;
}
