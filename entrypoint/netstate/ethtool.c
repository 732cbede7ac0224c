/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ethtool settings of a driver's interface: channels, rings, interrupt coalescing, features and
 * pause, through the kernel's ethtool family of generic netlink (5.8; Linux net/ethtool and
 * Documentation/networking/ethtool-netlink.rst). In the state file, a record for each interface:
 *
 *   ethtool life link channels=9=8 rings=6=1024 9=512 … features=+rx-gro -rx-lro …
 *
 * numbers by the kernel's number for each, switches by their names. Only what differs is set. One
 * driver does not have to take what another did: that is reported, and is no failure.
 */
#include <linux/ethtool_netlink.h>
#include <linux/genetlink.h>
#include <stdio.h>
#include <string.h>

#include "entrypoint/netstate/link_internal.h"

#define KIND "ethtool"

/* Attribute 1 is the header in all of these messages. */
#define HEADER 1

/* A number for each attribute from @first to @last, or (features) a set of switches. */
struct part {
	const char *name;
	uint8_t get;
	uint8_t set;
	uint16_t first;
	uint16_t last;
	uint16_t changeable; /* switches: those that are on there can be set; 0: numbers */
};

static const struct part parts[] = {
	{ "channels", ETHTOOL_MSG_CHANNELS_GET, ETHTOOL_MSG_CHANNELS_SET,
		ETHTOOL_A_CHANNELS_RX_COUNT, ETHTOOL_A_CHANNELS_COMBINED_COUNT, 0 },
	{ "rings", ETHTOOL_MSG_RINGS_GET, ETHTOOL_MSG_RINGS_SET, ETHTOOL_A_RINGS_RX,
		ETHTOOL_A_RINGS_TX, 0 },
	{ "coalesce", ETHTOOL_MSG_COALESCE_GET, ETHTOOL_MSG_COALESCE_SET,
		ETHTOOL_A_COALESCE_RX_USECS, ETHTOOL_A_COALESCE_RATE_SAMPLE_INTERVAL, 0 },
	{ "features", ETHTOOL_MSG_FEATURES_GET, ETHTOOL_MSG_FEATURES_SET, ETHTOOL_A_FEATURES_WANTED,
		0, ETHTOOL_A_FEATURES_HW },
	{ "pause", ETHTOOL_MSG_PAUSE_GET, ETHTOOL_MSG_PAUSE_SET, ETHTOOL_A_PAUSE_AUTONEG,
		ETHTOOL_A_PAUSE_TX, 0 },
};

static struct nlmsghdr *begin(
	struct netlink *netlink, uint8_t command, uint32_t index, uint32_t flags)
{
	struct nlmsghdr *request = netlink_command(netlink, command, 0);
	struct nlattr *header = mnl_attr_nest_start(request, HEADER);

	mnl_attr_put_u32(request, ETHTOOL_A_HEADER_DEV_INDEX, index);
	if (flags)
		mnl_attr_put_u32(request, ETHTOOL_A_HEADER_FLAGS, flags);
	mnl_attr_nest_end(request, header);
	return request;
}

/* ---- what the kernel has, as words: "6=1024", or "+rx-gro" */

struct words {
	const struct part *part;
	struct strv list;
};

/* Is it on? A list without a mask has those that are on; one with a mask has each with a value. */
static bool is_on(const struct nlattr *set, const char *name)
{
	const struct nlattr *bits = netlink_nested(set, ETHTOOL_A_BITSET_BITS);
	const struct nlattr *bit;

	if (!bits)
		return false;
	mnl_attr_for_each_nested(bit, bits)
	{
		const char *other = netlink_text(netlink_nested(bit, ETHTOOL_A_BITSET_BIT_NAME));

		if (other && strcmp(other, name) == 0)
			return netlink_nested(set, ETHTOOL_A_BITSET_NOMASK) ||
			       netlink_nested(bit, ETHTOOL_A_BITSET_BIT_VALUE);
	}
	return false;
}

/* Adds the switches that can be set. The message lists those that are on; the others are off. */
static int add_switches(struct words *words, const struct nlmsghdr *message)
{
	const size_t header = sizeof(struct genlmsghdr);
	const struct nlattr *set = netlink_attribute(message, header, words->part->first);
	const struct nlattr *changeable =
		netlink_attribute(message, header, words->part->changeable);
	const struct nlattr *bits = netlink_nested(changeable, ETHTOOL_A_BITSET_BITS);
	const struct nlattr *bit;

	if (!bits)
		return 0;
	mnl_attr_for_each_nested(bit, bits)
	{
		const char *name = netlink_text(netlink_nested(bit, ETHTOOL_A_BITSET_BIT_NAME));

		if (name && !strpbrk(name, " \t") && is_on(changeable, name) &&
			strv_pushf(&words->list, "%c%s", is_on(set, name) ? '+' : '-', name) < 0)
			return -ENOMEM;
	}
	return 0;
}

static int keep(void *context, const struct nlmsghdr *message)
{
	struct words *words = context;
	const struct part *part = words->part;
	const struct nlattr *attribute;

	if (part->changeable)
		return add_switches(words, message);
	mnl_attr_for_each(attribute, message, sizeof(struct genlmsghdr))
	{
		uint16_t type = mnl_attr_get_type(attribute);
		size_t size = mnl_attr_get_payload_len(attribute);

		if (type >= part->first && type <= part->last &&
			(size == sizeof(uint8_t) || size == sizeof(uint32_t)) &&
			strv_pushf(&words->list, "%u=%u", (unsigned) type,
				netlink_number(attribute)) < 0)
			return -ENOMEM;
	}
	return 0;
}

/* -ENOMEM. What the driver does not know has no words. */
static int ask(struct netlink *netlink, const struct part *part, uint32_t index, struct strv *list)
{
	struct words words = { .part = part };
	struct error ignored;
	int r = netlink_talk(netlink, begin(netlink, part->get, index, 0), keep, &words, &ignored);

	*list = words.list;
	return r == -ENOMEM ? r : 0;
}

/* ---- saving */

static int save_link(
	const struct links_save *save, struct netlink *netlink, const struct link *link)
{
	struct record *record =
		records_add(save->run->records, KIND, "life", save->life, "link", link->name);

	if (!record)
		return -ENOMEM;
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		_cleanup_strv_ struct strv words = { 0 };
		_cleanup_free_ char *text = NULL;

		if (ask(netlink, &parts[i], link->index, &words) < 0)
			return -ENOMEM;
		if (!words.count)
			continue;
		text = strv_join(&words, " ");
		if (!text || record_set(record, parts[i].name, text) < 0)
			return -ENOMEM;
	}
	return 0;
}

int ethtool_save(const struct links_save *save, struct error *error)
{
	_cleanup_(netlink_close) struct netlink *netlink = NULL;
	struct error ignored;

	/* A kernel without it. */
	if (netlink_open_family(ETHTOOL_GENL_NAME, &netlink, &ignored) < 0)
		return 0;
	for (size_t i = 0; i < save->count; i++) {
		const struct link *link = save->order[i];

		if (link_has_settings(link) && save_link(save, netlink, link) < 0)
			return error_set_errno(error, -ENOMEM, "what ethtool sets");
	}
	return 0;
}

/* ---- restoring */

static void put_number(struct nlmsghdr *request, const struct part *part, const char *word)
{
	unsigned type, value;

	if (sscanf(word, "%u=%u", &type, &value) != 2 || type < part->first || type > part->last)
		return;
	/* Pause and two switches among coalescing's numbers are a byte. */
	if (part->get == ETHTOOL_MSG_PAUSE_GET ||
		(part->get == ETHTOOL_MSG_COALESCE_GET &&
			(type == ETHTOOL_A_COALESCE_USE_ADAPTIVE_RX ||
				type == ETHTOOL_A_COALESCE_USE_ADAPTIVE_TX)))
		mnl_attr_put_u8(request, (uint16_t) type, (uint8_t) value);
	else
		mnl_attr_put_u32(request, (uint16_t) type, value);
}

static void put_switches(
	struct nlmsghdr *request, const struct part *part, char *const *words, size_t count)
{
	struct nlattr *set = mnl_attr_nest_start(request, part->first);
	struct nlattr *bits = mnl_attr_nest_start(request, ETHTOOL_A_BITSET_BITS);

	for (size_t i = 0; i < count; i++) {
		struct nlattr *bit = mnl_attr_nest_start(request, ETHTOOL_A_BITSET_BITS_BIT);

		netlink_put_text(request, ETHTOOL_A_BITSET_BIT_NAME, words[i] + 1);
		if (words[i][0] == '+')
			mnl_attr_put(request, ETHTOOL_A_BITSET_BIT_VALUE, 0, NULL);
		mnl_attr_nest_end(request, bit);
	}
	mnl_attr_nest_end(request, bits);
	mnl_attr_nest_end(request, set);
}

static int set_words(struct netlink *netlink, const struct part *part, uint32_t index,
	char *const *words, size_t count, struct error *error)
{
	struct nlmsghdr *request = begin(netlink, part->set, index, ETHTOOL_FLAG_OMIT_REPLY);

	if (part->changeable)
		put_switches(request, part, words, count);
	else
		for (size_t i = 0; i < count; i++)
			put_number(request, part, words[i]);
	return netlink_talk(netlink, request, NULL, NULL, error);
}

/* Has this driver the same thing ("6=" or "rx-gro"), and otherwise? */
static bool differs(const struct strv *now, const struct part *part, const char *word)
{
	for (size_t i = 0; *word && i < now->count; i++) {
		const char *other = now->items[i];
		bool is_same = part->changeable ? strcmp(word + 1, other + 1) == 0
						: strncmp(word, other, strcspn(word, "=") + 1) == 0;

		if (is_same && strcmp(word, other) != 0)
			return true;
	}
	return false;
}

static void restore_part(const struct run *run, struct netlink *netlink, const struct part *part,
	const struct record *record, const struct restored_link *link)
{
	_cleanup_strv_ struct strv now = { 0 };
	_cleanup_strv_ struct strv words = { 0 };
	struct error error = { 0 };

	if (strv_split(&words, record_text(record, part->name), " ") < 0 || !words.count ||
		ask(netlink, part, link->now->index, &now) < 0)
		return;
	for (size_t i = words.count; i > 0; i--)
		if (!differs(&now, part, words.items[i - 1]))
			strv_remove(&words, i - 1);
	if (!words.count ||
		set_words(netlink, part, link->now->index, words.items, words.count, &error) == 0)
		return;
	/* One that is not taken keeps none of the others from it. */
	for (size_t i = 0; i < words.count; i++)
		if (set_words(netlink, part, link->now->index, &words.items[i], 1, &error) < 0)
			run_note(run, "%s: this driver refuses a setting of ethtool: %s %s: %s",
				link->name, part->name, words.items[i], error.text);
}

void ethtool_restore(const struct links_restore *restore)
{
	_cleanup_(netlink_close) struct netlink *netlink = NULL;
	const struct record *record = NULL;
	struct error ignored;

	if (netlink_open_family(ETHTOOL_GENL_NAME, &netlink, &ignored) < 0)
		return;
	while ((record = records_next(restore->run->records, KIND, record))) {
		const struct restored_link *link =
			restored_by_name(restore, record_get(record, "link"));

		if (!link || !link->now || link->is_hosts ||
			record_number(record, "life") != link->life)
			continue;
		for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
			restore_part(restore->run, netlink, &parts[i], record, link);
	}
}
