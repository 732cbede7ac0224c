/* SPDX-License-Identifier: Apache-2.0 */
/* Names and settings of an interface that is there. */
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <string.h>

#include "entrypoint/netstate/links_parts.h"

struct nlmsghdr *links_change(const struct links_restore *restore, uint32_t index)
{
	struct nlmsghdr *request = netlink_request(restore->netlink, RTM_NEWLINK, 0);
	struct ifinfomsg *header = netlink_extra(request, sizeof(*header));

	header->ifi_index = (int) index;
	return request;
}

int links_do(const struct links_restore *restore, const struct restored_link *link,
	struct nlmsghdr *request, const char *what)
{
	struct error error = { 0 };
	int r = netlink_talk(restore->netlink, request, NULL, NULL, &error);

	if (r < 0)
		network_failure(restore->network, restore->result, "%s: %s: %s", link->name, what,
			error.text);
	return r;
}

static struct nlmsghdr *flags_request(
	const struct links_restore *restore, uint32_t index, unsigned flags, unsigned mask)
{
	struct nlmsghdr *request = links_change(restore, index);
	struct ifinfomsg *header = mnl_nlmsg_get_payload(request);

	header->ifi_flags = flags;
	header->ifi_change = mask;
	return request;
}

int link_set_flags(const struct links_restore *restore, const struct restored_link *link,
	unsigned flags, unsigned mask, const char *what)
{
	return links_do(restore, link, flags_request(restore, link->index, flags, mask), what);
}

/*
 * Kernels and drivers that want an interface to be down for it say EBUSY. It goes up again with its
 * other flags, later.
 */
static int change_also_down(struct links_restore *restore, uint32_t index, uint16_t type,
	const void *data, size_t size, struct error *error)
{
	struct nlmsghdr *request = links_change(restore, index);
	int r;

	netlink_put(request, type, size, data);
	r = netlink_talk(restore->netlink, request, NULL, NULL, error);
	if (r != -EBUSY)
		return r;
	r = netlink_talk(
		restore->netlink, flags_request(restore, index, 0, IFF_UP), NULL, NULL, error);
	if (r < 0)
		return r;
	request = links_change(restore, index);
	netlink_put(request, type, size, data);
	return netlink_talk(restore->netlink, request, NULL, NULL, error);
}

/* ---- names */

/* The table has the new name at once: reading it anew for each of hundreds takes its time. */
static int rename_to(
	struct links_restore *restore, uint32_t index, const char *name, struct error *error)
{
	int r = change_also_down(restore, index, IFLA_IFNAME, name, strlen(name) + 1, error);

	if (r == 0)
		link_table_rename(&restore->now, index, name);
	return r;
}

static int change_altname(struct links_restore *restore, uint32_t index, const char *name,
	uint16_t type, struct error *error)
{
	struct nlmsghdr *request = netlink_request(restore->netlink, type,
		type == RTM_NEWLINKPROP ? NLM_F_CREATE | NLM_F_EXCL | NLM_F_APPEND : 0);
	struct ifinfomsg *header = netlink_extra(request, sizeof(*header));
	struct nlattr *list;

	header->ifi_index = (int) index;
	list = mnl_attr_nest_start(request, IFLA_PROP_LIST | NLA_F_NESTED);
	netlink_put_text(request, IFLA_ALT_IFNAME, name);
	mnl_attr_nest_end(request, list);
	return netlink_talk(restore->netlink, request, NULL, NULL, error);
}

/* It has the name beside its own: a rename would leave it that. */
static int take_altname(struct links_restore *restore, const struct restored_link *link,
	const struct link *holder, struct error *error)
{
	int r = change_altname(restore, holder->index, link->name, RTM_DELLINKPROP, error);

	if (r == 0)
		network_note(restore->network,
			"%s: %s had that name as an altname, and has it no more", link->name,
			holder->name);
	return r;
}

/* Of one of ours that waits for its own name, the name is taken for as long as that takes. */
static int make_way(struct links_restore *restore, const struct restored_link *link,
	const struct link *holder, struct error *error)
{
	char aside[IFNAMSIZ];

	if (holder->index == link->index)
		return change_altname(restore, link->index, link->name, RTM_DELLINKPROP, error);
	for (size_t i = 0; i < restore->count; i++) {
		const struct restored_link *other = &restore->links[i];

		if (other->index != holder->index || !other->device || other->is_hosts ||
			strcmp(other->name, link->name) == 0)
			continue;
		if (strcmp(holder->name, link->name) != 0)
			return take_altname(restore, link, holder, error);
		(void) snprintf(aside, sizeof(aside), "slw%u", holder->index);
		return rename_to(restore, holder->index, aside, error);
	}
	return error_set(error, -EEXIST, "another interface has that name");
}

static int rename_one(
	struct links_restore *restore, const struct restored_link *link, struct error *error)
{
	const struct link *holder = link_by_name(&restore->now, link->name);
	int r = holder ? make_way(restore, link, holder, error) : 0;

	return r < 0 ? r : rename_to(restore, link->index, link->name, error);
}

void links_rename(struct links_restore *restore)
{
	for (size_t i = 0; i < restore->count; i++) {
		struct restored_link *link = &restore->links[i];
		const struct link *now = restored_now(restore, link);
		struct error error = { 0 };

		if (!now || !link->device || link->is_hosts || link->is_misnamed ||
			strcmp(now->name, link->name) == 0 ||
			rename_one(restore, link, &error) == 0)
			continue;
		link->is_misnamed = true;
		network_failure(restore->network, restore->result, "%s: its name (it is %s): %s",
			link->name, now->name, error.text);
	}
}

static bool answers_to(
	const struct links_restore *restore, const struct restored_link *link, const char *name)
{
	const struct link *holder = link_by_name(&restore->now, name);

	return holder && holder->index == link->index;
}

static void restore_altnames(struct links_restore *restore, const struct restored_link *link)
{
	const char *names = record_get(link->record, "altnames");
	_cleanup_strv_ struct strv list = { 0 };
	struct error look = { 0 };

	if (!names || strv_split(&list, names, " ") < 0)
		return;
	for (size_t i = 0; i < list.count; i++) {
		struct error error = { 0 };
		int r;

		if (answers_to(restore, link, list.items[i]))
			continue;
		r = change_altname(restore, link->index, list.items[i], RTM_NEWLINKPROP, &error);
		/* udev gives altnames, too, and may have been faster. */
		if (r == -EEXIST && restore_look(restore, &look) == 0 &&
			answers_to(restore, link, list.items[i]))
			continue;
		if (r < 0)
			network_failure(restore->network, restore->result, "%s: its name %s: %s",
				link->name, list.items[i], error.text);
	}
}

/* ---- settings */

static void restore_number(struct links_restore *restore, const struct restored_link *link,
	const struct link *now, const char *field, uint16_t type)
{
	const struct nlattr *attribute = link_attribute(now, type);
	struct nlmsghdr *request;
	uint64_t value;

	if (record_get_u64(link->record, field, &value) < 0 || value > UINT32_MAX ||
		(attribute && mnl_attr_get_u32(attribute) == value))
		return;
	request = links_change(restore, link->index);
	mnl_attr_put_u32(request, type, (uint32_t) value);
	(void) links_do(restore, link, request, field);
}

static void restore_alias(
	struct links_restore *restore, const struct restored_link *link, const struct link *now)
{
	const char *alias = record_get(link->record, "alias");
	const struct nlattr *attribute = link_attribute(now, IFLA_IFALIAS);
	struct nlmsghdr *request;

	if (!alias || (attribute && strcmp(mnl_attr_get_str(attribute), alias) == 0))
		return;
	request = links_change(restore, link->index);
	netlink_put(request, IFLA_IFALIAS, strlen(alias), alias);
	(void) links_do(restore, link, request, "alias");
}

static void restore_mac(
	struct links_restore *restore, const struct restored_link *link, const struct link *now)
{
	uint8_t address[LINK_ADDRESS_SIZE];
	int size = record_get_hex(link->record, "mac", address, sizeof(address));
	struct error error = { 0 };

	if (size <= 0 || ((size_t) size == now->address.size &&
				 memcmp(address, now->address.bytes, (size_t) size) == 0))
		return;
	if (change_also_down(restore, link->index, IFLA_ADDRESS, address, (size_t) size, &error) <
		0)
		network_failure(restore->network, restore->result, "%s: its MAC: %s", link->name,
			error.text);
}

/* IP over InfiniBand's mode, which is a setting of its kind. */
static void restore_ipoib(struct links_restore *restore, const struct restored_link *link)
{
	const char *kind = record_get(link->record, "kind");
	_cleanup_(attributes_free) struct attributes data = record_attributes(link->record, "data");
	struct nlmsghdr *request = links_change(restore, link->index);
	const struct nlattr *attribute;
	struct nlattr *info;
	struct nlattr *nest;

	if (!kind || strcmp(kind, "ipoib") != 0 || !data.data)
		return;
	info = mnl_attr_nest_start(request, IFLA_LINKINFO);
	netlink_put_text(request, IFLA_INFO_KIND, kind);
	nest = mnl_attr_nest_start(request, IFLA_INFO_DATA);
	attributes_for_each(attribute, &data)
	{
		if (mnl_attr_get_type(attribute) != IFLA_IPOIB_PKEY)
			(void) links_copy(request, attribute);
	}
	mnl_attr_nest_end(request, nest);
	mnl_attr_nest_end(request, info);
	(void) links_do(restore, link, request, "the mode of IP over InfiniBand");
}

void link_settings_restore(struct links_restore *restore, const struct restored_link *link)
{
	const struct link *now;

	if (restored_now(restore, link))
		restore_altnames(restore, link);
	now = restored_now(restore, link);
	if (!now || link->is_hosts)
		return;
	restore_mac(restore, link, now);
	restore_ipoib(restore, link);
	/* Of another boot: the host may have given what it stands on another one. */
	if (restore->same_boot || link->device)
		restore_number(restore, link, now, "mtu", IFLA_MTU);
	restore_number(restore, link, now, "queue", IFLA_TXQLEN);
	restore_number(restore, link, now, "group", IFLA_GROUP);
	restore_alias(restore, link, now);
}
