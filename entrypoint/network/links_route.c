/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nexthops, routes and rules again, as links_route_save.c put them into the journal, with the
 * interfaces' indexes of today.
 */
#include <linux/fib_rules.h>
#include <linux/nexthop.h>
#include <linux/rtnetlink.h>
#include <poll.h>
#include <string.h>

#include "entrypoint/network/links_parts.h"

#define RETRY_MS 100

static uint32_t number_of(const struct nlattr *attribute)
{
	return attribute && mnl_attr_validate(attribute, MNL_TYPE_U32) >= 0
		       ? mnl_attr_get_u32(attribute)
		       : 0;
}

/* What is still to be done, and the kernel's last word on it. */
struct task {
	const struct record *record;
	char words[160];
	bool is_done;
};

static uint64_t life_of(const struct record *record)
{
	uint64_t life = 0;

	(void) record_get_u64(record, "life", &life);
	return life;
}

/* The paths with today's indexes, and no flags but those that are a person's. False: one is gone.
 */
static bool copy_paths(const struct links_restore *restore, uint64_t life, struct nlmsghdr *request,
	const struct nlattr *paths)
{
	size_t size = mnl_attr_get_payload_len(paths);
	_cleanup_free_ char *copy = malloc(size + 1);
	struct rtnexthop *path = (struct rtnexthop *) (void *) copy;
	int left = (int) size;

	if (!copy)
		return false;
	memcpy(copy, mnl_attr_get_payload(paths), size);
	for (; left >= (int) sizeof(*path) && RTNH_OK(path, left);
		left -= (int) NLMSG_ALIGN(path->rtnh_len), path = RTNH_NEXT(path)) {
		uint32_t index = restored_index(restore, life, (uint32_t) path->rtnh_ifindex);

		if (!index)
			return false;
		path->rtnh_ifindex = (int) index;
		path->rtnh_flags &= RTNH_F_ONLINK;
	}
	return mnl_attr_put_check(request, NETLINK_REQUEST_SIZE, RTA_MULTIPATH, size, copy);
}

static bool put_index(const struct links_restore *restore, uint64_t life, struct nlmsghdr *request,
	const struct nlattr *attribute)
{
	uint32_t index = restored_index(restore, life, number_of(attribute));

	return index && mnl_attr_put_u32_check(
				request, NETLINK_REQUEST_SIZE, mnl_attr_get_type(attribute), index);
}

/* A route by a nexthop's number says what that is beside it: for those who read, not to be said. */
static bool is_said_by_nexthop(uint16_t type)
{
	return type == RTA_OIF || type == RTA_GATEWAY || type == RTA_VIA || type == RTA_MULTIPATH ||
	       type == RTA_ENCAP || type == RTA_ENCAP_TYPE;
}

static bool copy_route_attribute(const struct links_restore *restore, uint64_t life,
	struct nlmsghdr *request, const struct nlattr *attribute, bool by_number)
{
	uint16_t type = mnl_attr_get_type(attribute);

	if (by_number && is_said_by_nexthop(type))
		return true;
	switch (type) {
	case RTA_CACHEINFO:
	case RTA_IIF:
	case RTA_UID:
	case RTA_MARK:
		return true;
	case RTA_OIF:
		return put_index(restore, life, request, attribute);
	case RTA_MULTIPATH:
		return copy_paths(restore, life, request, attribute);
	default:
		return links_copy(request, attribute);
	}
}

/* NULL: what it leads to is not there, or its time is over. */
static struct nlmsghdr *route_request(const struct links_restore *restore,
	const struct record *record, const struct nlmsghdr *message)
{
	const struct rtmsg *saved = mnl_nlmsg_get_payload(message);
	bool by_number = links_attribute(message, sizeof(*saved), RTA_NH_ID) != NULL;
	bool is_shared = saved->rtm_family == AF_INET6 &&
			 links_attribute(message, sizeof(*saved), RTA_MULTIPATH);
	/* Of an IPv6 route the kernel takes single paths away: the whole goes over what is left. */
	struct nlmsghdr *request = netlink_request(restore->netlink, RTM_NEWROUTE,
		NLM_F_CREATE | (is_shared && restore->same_boot ? NLM_F_REPLACE : NLM_F_APPEND));
	struct rtmsg *header = netlink_extra(request, sizeof(*header));
	const struct nlattr *attribute;
	uint64_t until;

	*header = *saved;
	header->rtm_flags &= RTNH_F_ONLINK;
	mnl_attr_for_each(attribute, message, sizeof(*saved))
	{
		if (!copy_route_attribute(restore, life_of(record), request, attribute, by_number))
			return NULL;
	}
	if (record_get_u64(record, "until", &until) < 0)
		return request;
	if (!restore->same_boot || until <= restore->now_s ||
		!mnl_attr_put_u32_check(request, NETLINK_REQUEST_SIZE, RTA_EXPIRES,
			(uint32_t) (until - restore->now_s)))
		return NULL;
	return request;
}

static struct nlmsghdr *nexthop_request(const struct links_restore *restore,
	const struct record *record, const struct nlmsghdr *message)
{
	struct nlmsghdr *request =
		netlink_request(restore->netlink, RTM_NEWNEXTHOP, NLM_F_CREATE | NLM_F_REPLACE);
	struct nhmsg *header = netlink_extra(request, sizeof(*header));
	const struct nlattr *attribute;
	bool is_good = true;

	*header = *(const struct nhmsg *) mnl_nlmsg_get_payload(message);
	header->nh_scope = 0;
	header->nh_flags &= RTNH_F_ONLINK;
	mnl_attr_for_each(attribute, message, sizeof(*header))
	{
		uint16_t type = mnl_attr_get_type(attribute);

		if (type == NHA_OIF)
			is_good =
				is_good && put_index(restore, life_of(record), request, attribute);
		else if (type <= NHA_FDB)
			is_good = is_good && links_copy(request, attribute);
	}
	return is_good ? request : NULL;
}

static struct nlmsghdr *rule_request(
	const struct links_restore *restore, const struct nlmsghdr *message)
{
	struct nlmsghdr *request =
		netlink_request(restore->netlink, RTM_NEWRULE, NLM_F_CREATE | NLM_F_EXCL);
	struct fib_rule_hdr *header = netlink_extra(request, sizeof(*header));
	const struct nlattr *attribute;

	*header = *(const struct fib_rule_hdr *) mnl_nlmsg_get_payload(message);
	header->flags &= FIB_RULE_INVERT;
	mnl_attr_for_each(attribute, message, sizeof(*header))
	{
		if (mnl_attr_get_type(attribute) != FRA_PAD && !links_copy(request, attribute))
			return NULL;
	}
	return request;
}

static size_t header_size_of(const char *kind)
{
	if (strcmp(kind, "route") == 0)
		return sizeof(struct rtmsg);
	if (strcmp(kind, "nexthop") == 0)
		return sizeof(struct nhmsg);
	return strcmp(kind, "rule") == 0 ? sizeof(struct fib_rule_hdr) : 0;
}

/* True: there is nothing more to do for it. */
static bool try(const struct links_restore *restore, struct task *task)
{
	const char *kind = task->record->kind;
	_cleanup_free_ struct nlmsghdr *message =
		links_raw_message(task->record, header_size_of(kind));
	struct nlmsghdr *request;
	struct error error = { 0 };
	int r;

	if (!message) {
		(void) snprintf(task->words, sizeof(task->words), "its record is damaged");
		return false;
	}
	if (strcmp(kind, "route") == 0)
		request = route_request(restore, task->record, message);
	else if (strcmp(kind, "nexthop") == 0)
		request = nexthop_request(restore, task->record, message);
	else
		request = rule_request(restore, message);
	/* Its interface did not come back: that was told. */
	if (!request)
		return true;
	r = netlink_talk(restore->netlink, request, NULL, NULL, &error);
	if (r < 0)
		(void) snprintf(task->words, sizeof(task->words), "%.150s", error.text);
	return r == 0 || r == -EEXIST;
}

/* One round: a route by way of a gateway can go in when the one to the gateway is. True: some did.
 */
static bool try_all(const struct links_restore *restore, struct task *tasks, size_t count)
{
	bool is_progress = false;

	for (size_t i = 0; i < count; i++) {
		if (tasks[i].is_done)
			continue;
		tasks[i].is_done = try(restore, &tasks[i]);
		is_progress = is_progress || tasks[i].is_done;
	}
	return is_progress;
}

static size_t count_open(const struct task *tasks, size_t count)
{
	size_t left = 0;

	for (size_t i = 0; i < count; i++)
		left += !tasks[i].is_done;
	return left;
}

/*
 * What is refused now may be taken in a moment: a source address of IPv6 counts when nobody on the
 * link has objected to it, for which the kernel waits a second.
 */
static void try_until_done(const struct links_restore *restore, struct task *tasks, size_t count)
{
	uint32_t waited_ms = 0;

	for (;;) {
		while (try_all(restore, tasks, count))
			;
		if (!count_open(tasks, count) || waited_ms >= restore->network->bind_ms)
			return;
		(void) poll(NULL, 0, RETRY_MS);
		waited_ms += RETRY_MS;
	}
}

/* Nexthops first: routes name them. */
static size_t collect(const struct records *records, struct task *tasks)
{
	static const char *const kinds[] = { "nexthop", "route", "rule" };
	size_t count = 0;

	for (size_t kind = 0; kind < ARRAY_SIZE(kinds); kind++)
		for (size_t i = 0; i < records->count; i++)
			if (strcmp(records->items[i].kind, kinds[kind]) == 0)
				tasks[count++] = (struct task){ .record = &records->items[i] };
	return count;
}

void routes_restore(struct links_restore *restore)
{
	_cleanup_free_ struct task *tasks = calloc(restore->records->count + 1, sizeof(*tasks));
	size_t count = tasks ? collect(restore->records, tasks) : 0;

	if (!tasks) {
		network_failure(restore->network, restore->result, "routes: no memory");
		return;
	}
	try_until_done(restore, tasks, count);
	for (size_t i = 0; i < count; i++) {
		const char *text = record_get(tasks[i].record, "text");

		if (!tasks[i].is_done)
			network_failure(restore->network, restore->result, "%s %s: %s",
				tasks[i].record->kind, text ? text : "", tasks[i].words);
	}
}
