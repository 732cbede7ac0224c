/* SPDX-License-Identifier: Apache-2.0 */
/*
 * IPv6 tokens: the lower half of the addresses that an interface makes of a router's prefix, as a
 * person chose it (ip token). The kernel tells it to who asks for the family's own part of
 * interfaces only. Source: Linux net/ipv6/addrconf.c, inet6_fill_ifla6_attrs() and
 * inet6_set_iftoken().
 */
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <string.h>

#include "entrypoint/netstate/links_parts.h"

#define FIELD      "token"
#define TOKEN_SIZE 16

static struct record *record_of(const struct saved_links *saved, uint32_t index)
{
	for (size_t i = 0; i < saved->records->count; i++) {
		struct record *record = &saved->records->items[i];
		uint64_t life, number;

		if (strcmp(record->kind, "link") == 0 &&
			record_get_u64(record, "life", &life) == 0 && life == saved->life &&
			record_get_u64(record, "index", &number) == 0 && number == index)
			return record;
	}
	return NULL;
}

/* NULL: none was chosen. */
static const void *token_of(const struct nlmsghdr *message)
{
	static const uint8_t none[TOKEN_SIZE];
	const struct nlattr *family =
		links_attribute(message, sizeof(struct ifinfomsg), IFLA_PROTINFO);
	const struct nlattr *attribute;

	if (!family)
		return NULL;
	mnl_attr_for_each_nested(attribute, family)
	{
		if (mnl_attr_get_type(attribute) == IFLA_INET6_TOKEN &&
			mnl_attr_get_payload_len(attribute) == TOKEN_SIZE &&
			memcmp(mnl_attr_get_payload(attribute), none, TOKEN_SIZE) != 0)
			return mnl_attr_get_payload(attribute);
	}
	return NULL;
}

static int save_token(void *context, const struct nlmsghdr *message)
{
	const struct saved_links *saved = context;
	const struct ifinfomsg *header = mnl_nlmsg_get_payload(message);
	const void *token = message->nlmsg_type == RTM_NEWLINK ? token_of(message) : NULL;
	struct record *record = token ? record_of(saved, (uint32_t) header->ifi_index) : NULL;

	return record ? record_set_hex(record, FIELD, token, TOKEN_SIZE) : 0;
}

int tokens_save(struct saved_links *saved, struct error *error)
{
	struct nlmsghdr *request = netlink_request(saved->netlink, RTM_GETLINK, NLM_F_DUMP);
	struct ifinfomsg *header = netlink_extra(request, sizeof(*header));
	int r;

	header->ifi_family = AF_INET6;
	r = netlink_talk(saved->netlink, request, save_token, saved, error);
	/* A kernel without IPv6. */
	return r == -EOPNOTSUPP ? 0 : r;
}

static void restore_token(
	const struct links_restore *restore, const struct restored_link *link, const void *token)
{
	struct nlmsghdr *request = links_change(restore, link->index);
	struct nlattr *families = mnl_attr_nest_start(request, IFLA_AF_SPEC);
	struct nlattr *family = mnl_attr_nest_start(request, AF_INET6);

	netlink_put(request, IFLA_INET6_TOKEN, TOKEN_SIZE, token);
	mnl_attr_nest_end(request, family);
	mnl_attr_nest_end(request, families);
	(void) links_do(restore, link, request, "its IPv6 token");
}

void tokens_restore(const struct links_restore *restore)
{
	for (size_t i = 0; i < restore->count; i++) {
		const struct restored_link *link = &restore->links[i];
		uint8_t token[TOKEN_SIZE];

		if (restored_now(restore, link) && !link->is_hosts &&
			record_get_hex(link->record, FIELD, token, TOKEN_SIZE) == TOKEN_SIZE)
			restore_token(restore, link, token);
	}
}
