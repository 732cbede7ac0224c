/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses and neighbours that do not come back by themselves, as the kernel told them (struct
 * ifaddrmsg, struct ndmsg of include/uapi/linux), with the interface's index of today.
 */
#include <arpa/inet.h>
#include <linux/if_addr.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <string.h>

#include "entrypoint/netstate/links_parts.h"

#define FOR_EVER UINT32_MAX /* of a lifetime: INFINITY_LIFE_TIME of include/net/addrconf.h */

/* IFA_PROTO, since Linux 5.18 (include/uapi/linux/if_addr.h): whose work an address is. */
#define PROTO_NUMBER    11
#define PROTO_KERNEL_LO 1
#define PROTO_KERNEL_RA 2
#define PROTO_KERNEL_LL 3

/* What a person may say of an address; the rest the kernel finds out. */
#define SETTABLE_FLAGS                                                                             \
	(IFA_F_NODAD | IFA_F_OPTIMISTIC | IFA_F_HOMEADDRESS | IFA_F_MANAGETEMPADDR |               \
		IFA_F_NOPREFIXROUTE | IFA_F_MCAUTOJOIN)

struct saving {
	const struct saved_links *saved;
	int r;
};

static void format_address(
	uint8_t family, const struct nlattr *attribute, char text[INET6_ADDRSTRLEN])
{
	size_t size = family == AF_INET ? 4 : 16;

	text[0] = '\0';
	if (attribute && mnl_attr_get_payload_len(attribute) >= size)
		(void) inet_ntop(family, mnl_attr_get_payload(attribute), text, INET6_ADDRSTRLEN);
}

/* The interface's own address: of a point-to-point one, IFA_ADDRESS is the other side's. */
static const struct nlattr *own_address(const struct nlmsghdr *message)
{
	const struct nlattr *local = links_attribute(message, sizeof(struct ifaddrmsg), IFA_LOCAL);

	return local ? local : links_attribute(message, sizeof(struct ifaddrmsg), IFA_ADDRESS);
}

static uint32_t flags_of(const struct nlmsghdr *message)
{
	const struct ifaddrmsg *header = mnl_nlmsg_get_payload(message);
	const struct nlattr *flags = links_attribute(message, sizeof(*header), IFA_FLAGS);

	return flags && mnl_attr_validate(flags, MNL_TYPE_U32) >= 0 ? mnl_attr_get_u32(flags)
								    : header->ifa_flags;
}

/* Temporary addresses, those of router advertisements and of the link: the kernel makes them. */
static bool comes_by_itself(const struct nlmsghdr *message)
{
	const struct ifaddrmsg *header = mnl_nlmsg_get_payload(message);
	const struct nlattr *attribute = links_attribute(message, sizeof(*header), PROTO_NUMBER);
	uint8_t proto = attribute && mnl_attr_get_payload_len(attribute) >= 1
				? mnl_attr_get_u8(attribute)
				: 0;

	return (header->ifa_family == AF_INET6 && (flags_of(message) & IFA_F_TEMPORARY)) ||
	       proto == PROTO_KERNEL_LO || proto == PROTO_KERNEL_RA || proto == PROTO_KERNEL_LL;
}

static const struct ifa_cacheinfo *lifetimes_of(const struct nlmsghdr *message)
{
	const struct nlattr *attribute =
		links_attribute(message, sizeof(struct ifaddrmsg), IFA_CACHEINFO);

	return attribute && mnl_attr_get_payload_len(attribute) >= sizeof(struct ifa_cacheinfo)
		       ? mnl_attr_get_payload(attribute)
		       : NULL;
}

static int describe_address(
	const struct saving *saving, struct record *record, const struct nlmsghdr *message)
{
	const struct ifaddrmsg *header = mnl_nlmsg_get_payload(message);
	const struct link *link = link_by_index(&saving->saved->table, header->ifa_index);
	const struct ifa_cacheinfo *lifetimes = lifetimes_of(message);
	char address[INET6_ADDRSTRLEN];
	int r;

	format_address(header->ifa_family, own_address(message), address);
	r = record_set(record, "link", link->name);
	if (r == 0)
		r = record_setf(record, "text", "%s/%u", address, header->ifa_prefixlen);
	/* Lifetimes are told as what is left of them: that runs on while the driver is away. */
	if (r == 0 && lifetimes && lifetimes->ifa_valid != FOR_EVER)
		r = record_setf(record, "since", "%llu", (unsigned long long) links_boottime_s());
	return r;
}

static int save_address(void *context, const struct nlmsghdr *message)
{
	const struct saving *saving = context;
	const struct ifaddrmsg *header = mnl_nlmsg_get_payload(message);
	struct record *record;

	if (message->nlmsg_type != RTM_NEWADDR ||
		!saved_links_has(saving->saved, header->ifa_index) || comes_by_itself(message))
		return 0;
	record = links_raw_record(saving->saved, "address", message);
	return record ? describe_address(saving, record, message) : -ENOMEM;
}

int addresses_save(const struct saved_links *saved, struct error *error)
{
	struct nlmsghdr *request = netlink_request(saved->netlink, RTM_GETADDR, NLM_F_DUMP);
	struct ifaddrmsg *header = netlink_extra(request, sizeof(*header));
	struct saving saving = { .saved = saved };
	int r;

	header->ifa_family = AF_UNSPEC;
	r = netlink_talk(saved->netlink, request, save_address, &saving, error);
	if (r == -ENOMEM)
		return error_set_errno(error, r, "addresses");
	return r < 0 ? error_prefix(error, r, "addresses") : 0;
}

/* ---- restoring addresses */

/* An address that an interface has. */
struct present {
	uint32_t index;
	uint8_t family;
	uint8_t prefix;
	uint8_t size;
	uint8_t bytes[16];
};

/* All that there are before the first one comes back. */
struct presents {
	struct present *items;
	size_t count;
};

static void presents_free(struct presents *presents)
{
	free(presents->items);
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

static int add_present(void *context, const struct nlmsghdr *message)
{
	struct presents *presents = context;
	struct present *items;

	if (message->nlmsg_type != RTM_NEWADDR)
		return 0;
	items = reallocarray(presents->items, presents->count + 1, sizeof(*items));
	if (!items)
		return -ENOMEM;
	presents->items = items;
	presents->count += read_present(message, &items[presents->count]);
	return 0;
}

static int read_presents(
	const struct links_restore *restore, struct presents *presents, struct error *error)
{
	struct nlmsghdr *request = netlink_request(restore->netlink, RTM_GETADDR, NLM_F_DUMP);
	struct ifaddrmsg *header = netlink_extra(request, sizeof(*header));

	header->ifa_family = AF_UNSPEC;
	return netlink_talk(restore->netlink, request, add_present, presents, error);
}

enum presence { PRESENCE_NOWHERE, PRESENCE_HERE, PRESENCE_ELSEWHERE };

/* What somebody gave to another interface meanwhile is that one's. A link's address is each link's.
 */
static enum presence find_present(
	const struct presents *presents, const struct nlmsghdr *message, uint32_t index)
{
	const struct ifaddrmsg *header = mnl_nlmsg_get_payload(message);
	enum presence found = PRESENCE_NOWHERE;
	struct present wanted;

	if (!read_present(message, &wanted))
		return PRESENCE_NOWHERE;
	for (size_t i = 0; i < presents->count; i++) {
		const struct present *present = &presents->items[i];

		if (present->family != wanted.family || present->size != wanted.size ||
			memcmp(present->bytes, wanted.bytes, wanted.size) != 0)
			continue;
		if (present->index == index && present->prefix == wanted.prefix)
			return PRESENCE_HERE;
		if (present->index != index && header->ifa_scope == RT_SCOPE_UNIVERSE)
			found = PRESENCE_ELSEWHERE;
	}
	return found;
}

/* False: it has run out, or will never be known again. */
static bool put_lifetimes(const struct links_restore *restore, const struct record *record,
	struct nlmsghdr *request, const struct nlmsghdr *message)
{
	const struct ifa_cacheinfo *saved = lifetimes_of(message);
	struct ifa_cacheinfo left;
	uint64_t since;
	uint64_t gone;

	if (!saved || saved->ifa_valid == FOR_EVER)
		return true;
	if (!restore->same_boot || record_get_u64(record, "since", &since) < 0)
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

static bool put_address_attributes(struct nlmsghdr *request, const struct nlmsghdr *message,
	const struct link *now, const char *old_name)
{
	const struct nlattr *attribute;
	uint32_t flags = flags_of(message) & SETTABLE_FLAGS;

	mnl_attr_for_each(attribute, message, sizeof(struct ifaddrmsg))
	{
		uint16_t type = mnl_attr_get_type(attribute);

		if (type == IFA_CACHEINFO || type == IFA_FLAGS)
			continue;
		/* A label that is but the name follows the name. */
		if (type == IFA_LABEL && strcmp(now->name, old_name) != 0)
			continue;
		if (!links_copy(request, attribute))
			return false;
	}
	return mnl_attr_put_u32_check(request, NETLINK_REQUEST_SIZE, IFA_FLAGS, flags);
}

static void send_address(struct links_restore *restore, const struct record *record,
	const struct restored_link *link, const struct nlmsghdr *message)
{
	const struct link *now = restored_now(restore, link);
	struct nlmsghdr *request =
		netlink_request(restore->netlink, RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL);
	struct ifaddrmsg *header = netlink_extra(request, sizeof(*header));
	const char *text = record_get(record, "text");
	struct error error = { 0 };
	int r;

	*header = *(const struct ifaddrmsg *) mnl_nlmsg_get_payload(message);
	header->ifa_index = now->index;
	header->ifa_flags = 0;
	if (!put_address_attributes(request, message, now, link->name) ||
		!put_lifetimes(restore, record, request, message))
		return;
	r = netlink_talk(restore->netlink, request, NULL, NULL, &error);
	if (r < 0 && r != -EEXIST)
		network_failure(restore->network, restore->result, "address %s of %s: %s",
			text ? text : "", link->name, error.text);
}

static void restore_address(
	struct links_restore *restore, const struct presents *presents, const struct record *record)
{
	const char *name = record_get(record, "link");
	const struct restored_link *link = name ? restored_by_name(restore, name) : NULL;
	_cleanup_free_ struct nlmsghdr *message =
		links_raw_message(record, sizeof(struct ifaddrmsg));
	const char *text = record_get(record, "text");
	enum presence presence;

	if (!link || !restored_now(restore, link))
		return;
	if (!message) {
		links_damaged(restore, record);
		return;
	}
	presence = find_present(presents, message, link->index);
	if (presence == PRESENCE_ELSEWHERE)
		network_note(restore->network, "address %s of %s stays where it is now",
			text ? text : "", name);
	else if (presence == PRESENCE_NOWHERE)
		send_address(restore, record, link, message);
}

static bool is_address(const struct record *record, uint8_t family)
{
	_cleanup_free_ struct nlmsghdr *message = NULL;
	const struct ifaddrmsg *header;

	if (strcmp(record->kind, "address") != 0)
		return false;
	message = links_raw_message(record, sizeof(*header));
	header = message ? mnl_nlmsg_get_payload(message) : NULL;
	/* One that is damaged is told of with the others of IPv4. */
	return (header ? header->ifa_family : AF_INET) == family;
}

/*
 * In the order in which an interface has them, for the first one is the source of what it sends.
 * The kernel puts a new one behind the others, but one of IPv6 in front of them.
 */
void addresses_restore(struct links_restore *restore)
{
	const struct statefile *records = restore->records;
	_cleanup_(presents_free) struct presents presents = { 0 };
	struct error error = { 0 };

	if (read_presents(restore, &presents, &error) < 0)
		network_failure(restore->network, restore->result, "addresses: %s", error.text);
	for (size_t i = 0; i < records->count; i++)
		if (is_address(&records->items[i], AF_INET))
			restore_address(restore, &presents, &records->items[i]);
	for (size_t i = records->count; i > 0; i--)
		if (is_address(&records->items[i - 1], AF_INET6))
			restore_address(restore, &presents, &records->items[i - 1]);
}

/* ---- neighbours */

static int save_neighbour(void *context, const struct nlmsghdr *message)
{
	const struct saving *saving = context;
	const struct ndmsg *header = mnl_nlmsg_get_payload(message);
	const struct nlattr *address = links_attribute(message, sizeof(*header), NDA_DST);
	const struct link *link;
	char text[INET6_ADDRSTRLEN];
	struct record *record;

	if (message->nlmsg_type != RTM_NEWNEIGH ||
		!saved_links_has(saving->saved, (uint32_t) header->ndm_ifindex) ||
		(header->ndm_family != AF_INET && header->ndm_family != AF_INET6) ||
		!((header->ndm_state & NUD_PERMANENT) || (header->ndm_flags & NTF_PROXY)))
		return 0;
	link = link_by_index(&saving->saved->table, (uint32_t) header->ndm_ifindex);
	record = links_raw_record(saving->saved, "neighbour", message);
	format_address(header->ndm_family, address, text);
	if (!record || record_set(record, "link", link->name) < 0 ||
		record_set(record, "text", text) < 0)
		return -ENOMEM;
	return 0;
}

int neighbours_save(const struct saved_links *saved, struct error *error)
{
	static const uint8_t which[] = { 0, NTF_PROXY };
	struct saving saving = { .saved = saved };

	for (size_t i = 0; i < ARRAY_SIZE(which); i++) {
		struct nlmsghdr *request =
			netlink_request(saved->netlink, RTM_GETNEIGH, NLM_F_DUMP);
		struct ndmsg *header = netlink_extra(request, sizeof(*header));
		int r;

		header->ndm_flags = which[i];
		r = netlink_talk(saved->netlink, request, save_neighbour, &saving, error);
		if (r < 0)
			return error_prefix(error, r, "neighbours");
	}
	return 0;
}

static void restore_neighbour(struct links_restore *restore, const struct record *record)
{
	const char *name = record_get(record, "link");
	const struct restored_link *link = name ? restored_by_name(restore, name) : NULL;
	_cleanup_free_ struct nlmsghdr *message = links_raw_message(record, sizeof(struct ndmsg));
	const char *text = record_get(record, "text");
	struct nlmsghdr *request;
	const struct nlattr *attribute;
	struct ndmsg *header;
	struct error error = { 0 };
	int r;

	if (!link || !restored_now(restore, link))
		return;
	if (!message) {
		links_damaged(restore, record);
		return;
	}
	request = netlink_request(restore->netlink, RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_EXCL);
	header = netlink_extra(request, sizeof(*header));
	*header = *(const struct ndmsg *) mnl_nlmsg_get_payload(message);
	header->ndm_ifindex = (int) link->index;
	mnl_attr_for_each(attribute, message, sizeof(*header))
	{
		uint16_t type = mnl_attr_get_type(attribute);

		if (type == NDA_DST || type == NDA_LLADDR || type == NDA_PROTOCOL)
			(void) links_copy(request, attribute);
	}
	r = netlink_talk(restore->netlink, request, NULL, NULL, &error);
	if (r < 0 && r != -EEXIST)
		network_failure(restore->network, restore->result, "neighbour %s of %s: %s",
			text ? text : "", name, error.text);
}

void neighbours_restore(struct links_restore *restore)
{
	for (size_t i = 0; i < restore->records->count; i++)
		if (strcmp(restore->records->items[i].kind, "neighbour") == 0)
			restore_neighbour(restore, &restore->records->items[i]);
}
