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

#include "entrypoint/netstate/links_parts.h"

#define RETRY_MS 100

static uint32_t number_of(const struct nlattr *attribute)
{
	return attribute && mnl_attr_validate(attribute, MNL_TYPE_U32) >= 0
		       ? mnl_attr_get_u32(attribute)
		       : 0;
}

/* What is still to be done, and the kernel's last word on it. */
struct task {
	struct record *record;
	char words[160];
	bool is_done;
	unsigned left_out; /* paths or members that are not there */
	uint32_t gone;     /* the number of a nexthop whose interface is not there */
};

struct tasks {
	const struct links_restore *restore;
	struct task *items;
	size_t count;
};

static uint64_t life_of(const struct record *record)
{
	uint64_t life = 0;

	(void) record_get_u64(record, "life", &life);
	return life;
}

/*
 * The paths with today's indexes, and no flags but those that are a person's. Those out of
 * interfaces that are not there are left out and counted. False: all of them are.
 */
static bool copy_paths(const struct links_restore *restore, struct task *task,
	struct nlmsghdr *request, const struct nlattr *paths)
{
	const struct rtnexthop *path = mnl_attr_get_payload(paths);
	int left = mnl_attr_get_payload_len(paths);
	_cleanup_free_ char *copy = calloc(1, (size_t) left + NLMSG_ALIGNTO);
	size_t used = 0;

	for (; copy && left >= (int) sizeof(*path) && RTNH_OK(path, left);
		left -= (int) NLMSG_ALIGN(path->rtnh_len), path = RTNH_NEXT(path)) {
		uint32_t index = restored_index(
			restore, life_of(task->record), (uint32_t) path->rtnh_ifindex);
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

/* Is it a nexthop whose interface is not there? */
static bool is_gone(const struct tasks *tasks, uint32_t number)
{
	for (size_t i = 0; number && i < tasks->count; i++)
		if (tasks->items[i].gone == number)
			return true;
	return false;
}

/* A group's members, likewise. */
static bool copy_members(const struct tasks *tasks, struct task *task, struct nlmsghdr *request,
	const struct nlattr *members)
{
	const struct nexthop_grp *member = mnl_attr_get_payload(members);
	size_t count = mnl_attr_get_payload_len(members) / sizeof(*member);
	_cleanup_free_ struct nexthop_grp *copy = calloc(count + 1, sizeof(*copy));
	size_t used = 0;

	for (size_t i = 0; copy && i < count; i++) {
		if (is_gone(tasks, member[i].id))
			task->left_out++;
		else
			copy[used++] = member[i];
	}
	return used && mnl_attr_put_check(request, NETLINK_REQUEST_SIZE, NHA_GROUP,
			       used * sizeof(*copy), copy);
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

static bool copy_route_attribute(const struct links_restore *restore, struct task *task,
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
		return put_index(restore, life_of(task->record), request, attribute);
	case RTA_MULTIPATH:
		return copy_paths(restore, task, request, attribute);
	default:
		return links_copy(request, attribute);
	}
}

/*
 * Another route of the same target stays beside it, unless that is its own part: of what an earlier
 * try brought, or of IPv6, of whose routes the kernel takes single paths away.
 */
static int manner_of(const struct links_restore *restore, const struct task *task,
	const struct nlmsghdr *message)
{
	const struct rtmsg *saved = mnl_nlmsg_get_payload(message);
	bool is_shared = links_attribute(message, sizeof(*saved), RTA_MULTIPATH) != NULL;
	bool is_in_part = saved->rtm_family == AF_INET6 || record_get(task->record, LINKS_IN_PART);

	return is_shared && is_in_part && restore->same_boot ? NLM_F_REPLACE : NLM_F_APPEND;
}

/* NULL: what it leads to is not there, or its time is over. */
static struct nlmsghdr *route_request(
	const struct links_restore *restore, struct task *task, const struct nlmsghdr *message)
{
	const struct rtmsg *saved = mnl_nlmsg_get_payload(message);
	bool by_number = links_attribute(message, sizeof(*saved), RTA_NH_ID) != NULL;
	struct nlmsghdr *request = netlink_request(restore->netlink, RTM_NEWROUTE,
		(uint16_t) (NLM_F_CREATE | manner_of(restore, task, message)));
	struct rtmsg *header = netlink_extra(request, sizeof(*header));
	const struct nlattr *attribute;
	uint64_t until;

	*header = *saved;
	header->rtm_flags &= RTNH_F_ONLINK;
	mnl_attr_for_each(attribute, message, sizeof(*saved))
	{
		if (!copy_route_attribute(restore, task, request, attribute, by_number))
			return NULL;
	}
	if (record_get_u64(task->record, "until", &until) < 0)
		return request;
	if (!restore->same_boot || until <= restore->now_s ||
		!mnl_attr_put_u32_check(request, NETLINK_REQUEST_SIZE, RTA_EXPIRES,
			(uint32_t) (until - restore->now_s)))
		return NULL;
	return request;
}

static struct nlmsghdr *nexthop_request(
	const struct tasks *tasks, struct task *task, const struct nlmsghdr *message)
{
	const struct links_restore *restore = tasks->restore;
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
			is_good = is_good &&
				  put_index(restore, life_of(task->record), request, attribute);
		else if (type == NHA_GROUP)
			is_good = is_good && copy_members(tasks, task, request, attribute);
		else if (type <= NHA_FDB)
			is_good = is_good && links_copy(request, attribute);
	}
	if (is_good)
		return request;
	task->gone = number_of(links_attribute(message, sizeof(*header), NHA_ID));
	return NULL;
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
static bool try(const struct tasks *tasks, struct task *task)
{
	const struct links_restore *restore = tasks->restore;
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
	task->left_out = 0;
	if (strcmp(kind, "route") == 0)
		request = route_request(restore, task, message);
	else if (strcmp(kind, "nexthop") == 0)
		request = nexthop_request(tasks, task, message);
	else
		request = rule_request(restore, message);
	/* Its interface did not come back: that was told. */
	if (!request) {
		task->left_out = 0;
		return true;
	}
	r = netlink_talk(restore->netlink, request, NULL, NULL, &error);
	if (r < 0)
		(void) snprintf(task->words, sizeof(task->words), "%.150s", error.text);
	else if (task->left_out)
		(void) !record_set(task->record, LINKS_IN_PART, "1");
	return r == 0 || r == -EEXIST;
}

/* One round: a route by way of a gateway can go in when the one to the gateway is. True: some did.
 */
static bool try_all(const struct tasks *tasks)
{
	bool is_progress = false;

	for (size_t i = 0; i < tasks->count; i++) {
		struct task *task = &tasks->items[i];

		if (task->is_done)
			continue;
		task->is_done = try(tasks, task);
		is_progress = is_progress || task->is_done;
	}
	return is_progress;
}

static size_t count_open(const struct tasks *tasks)
{
	size_t left = 0;

	for (size_t i = 0; i < tasks->count; i++)
		left += !tasks->items[i].is_done;
	return left;
}

/*
 * What is refused now may be taken in a moment: a source address of IPv6 counts when nobody on the
 * link has objected to it, for which the kernel waits a second.
 */
static void try_until_done(const struct tasks *tasks)
{
	uint32_t waited_ms = 0;

	for (;;) {
		while (try_all(tasks))
			;
		if (!count_open(tasks) || waited_ms >= tasks->restore->network->bind_ms)
			return;
		(void) poll(NULL, 0, RETRY_MS);
		waited_ms += RETRY_MS;
	}
}

/* Nexthops first: routes name them. */
static size_t collect(struct statefile *records, struct task *tasks)
{
	static const char *const kinds[] = { "nexthop", "route", "rule" };
	size_t count = 0;

	for (size_t kind = 0; kind < ARRAY_SIZE(kinds); kind++)
		for (size_t i = 0; i < records->count; i++)
			if (strcmp(records->items[i].kind, kinds[kind]) == 0)
				tasks[count++] = (struct task){ .record = &records->items[i] };
	return count;
}

static void tell(const struct links_restore *restore, const struct task *task)
{
	const char *text = record_get(task->record, "text");

	if (!task->is_done)
		network_failure(restore->network, restore->result, "%s %s: %s", task->record->kind,
			text ? text : "", task->words);
	else if (task->left_out)
		network_failure(restore->network, restore->result,
			"%s %s: without %u of its paths, whose interfaces are not there",
			task->record->kind, text ? text : "", task->left_out);
}

void routes_restore(struct links_restore *restore)
{
	_cleanup_free_ struct task *items = calloc(restore->records->count + 1, sizeof(*items));
	struct tasks tasks = { .restore = restore, .items = items };

	if (!items) {
		network_failure(restore->network, restore->result, "routes: no memory");
		return;
	}
	tasks.count = collect(restore->records, items);
	try_until_done(&tasks);
	for (size_t i = 0; i < tasks.count; i++)
		tell(restore, &items[i]);
}
