/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What ethtool sets of a driver's interface: channels, rings, interrupt coalescing, features and
 * pause, by the kernel's ethtool family of generic netlink (5.8; Linux net/ethtool and
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

/* Of all of them the attribute 1 is the header. */
#define HEADER 1

/* What is a number for each attribute from @first to @last, or a set of named switches. */
struct part {
	const char *name;
	uint8_t get;
	uint8_t set;
	uint16_t first;
	uint16_t last;
	uint16_t changeable; /* switches: those that are on there can be set; 0: all */
	bool is_switches;
};

static const struct part parts[] = {
	{ "channels", ETHTOOL_MSG_CHANNELS_GET, ETHTOOL_MSG_CHANNELS_SET,
		ETHTOOL_A_CHANNELS_RX_COUNT, ETHTOOL_A_CHANNELS_COMBINED_COUNT, 0, false },
	{ "rings", ETHTOOL_MSG_RINGS_GET, ETHTOOL_MSG_RINGS_SET, ETHTOOL_A_RINGS_RX,
		ETHTOOL_A_RINGS_TX, 0, false },
	{ "coalesce", ETHTOOL_MSG_COALESCE_GET, ETHTOOL_MSG_COALESCE_SET,
		ETHTOOL_A_COALESCE_RX_USECS, ETHTOOL_A_COALESCE_RATE_SAMPLE_INTERVAL, 0, false },
	{ "features", ETHTOOL_MSG_FEATURES_GET, ETHTOOL_MSG_FEATURES_SET, ETHTOOL_A_FEATURES_WANTED,
		0, ETHTOOL_A_FEATURES_HW, true },
	{ "pause", ETHTOOL_MSG_PAUSE_GET, ETHTOOL_MSG_PAUSE_SET, ETHTOOL_A_PAUSE_AUTONEG,
		ETHTOOL_A_PAUSE_TX, 0, false },
};

struct ethtool {
	struct netlink *netlink;
	uint16_t family;
};

/* False: a kernel without it. */
static bool ethtool_open(struct ethtool *ethtool)
{
	struct error ignored;
	int family;

	*ethtool = (struct ethtool){ 0 };
	if (netlink_open(NETLINK_GENERIC, &ethtool->netlink, &ignored) < 0)
		return false;
	family = netlink_family(ethtool->netlink, ETHTOOL_GENL_NAME, &ignored);
	ethtool->family = family < 0 ? 0 : (uint16_t) family;
	return family >= 0;
}

static void ethtool_close(struct ethtool *ethtool)
{
	netlink_close(&ethtool->netlink);
}

static struct nlmsghdr *begin(
	const struct ethtool *ethtool, uint8_t command, uint32_t index, bool is_get)
{
	struct nlmsghdr *request = netlink_request(ethtool->netlink, ethtool->family, 0);
	struct genlmsghdr *generic = netlink_extra(request, sizeof(*generic));
	struct nlattr *header;

	generic->cmd = command;
	generic->version = ETHTOOL_GENL_VERSION;
	header = mnl_attr_nest_start(request, HEADER);
	mnl_attr_put_u32(request, ETHTOOL_A_HEADER_DEV_INDEX, index);
	if (!is_get)
		mnl_attr_put_u32(request, ETHTOOL_A_HEADER_FLAGS, ETHTOOL_FLAG_OMIT_REPLY);
	mnl_attr_nest_end(request, header);
	return request;
}

/* ---- what the kernel says, as words */

/* Words of one part, and for switches which of them can be set. */
struct words {
	const struct part *part;
	struct strv list; /* "6=1024", or "+rx-gro" */
	struct strv changeable;
};

static void words_free(struct words *words)
{
	strv_free(&words->list);
	strv_free(&words->changeable);
}

static int add_number(struct strv *list, const struct nlattr *attribute)
{
	uint32_t value;

	if (mnl_attr_get_payload_len(attribute) == sizeof(uint8_t))
		value = mnl_attr_get_u8(attribute);
	else if (mnl_attr_get_payload_len(attribute) == sizeof(uint32_t))
		value = mnl_attr_get_u32(attribute);
	else
		return 0;
	return strv_pushf(list, "%u=%u", (unsigned) mnl_attr_get_type(attribute), value);
}

/* A list without a mask has those that are on; one with a mask says of each whether it is. */
static int add_switches(struct strv *list, const struct nlattr *set)
{
	bool is_all_on = netlink_nested(set, ETHTOOL_A_BITSET_NOMASK) != NULL;
	const struct nlattr *bits = netlink_nested(set, ETHTOOL_A_BITSET_BITS);
	const struct nlattr *bit;
	int r = 0;

	if (!bits)
		return 0;
	mnl_attr_for_each_nested(bit, bits)
	{
		const char *name = netlink_text(netlink_nested(bit, ETHTOOL_A_BITSET_BIT_NAME));
		bool is_on = is_all_on || netlink_nested(bit, ETHTOOL_A_BITSET_BIT_VALUE);

		if (r == 0 && name && !strpbrk(name, " \t"))
			r = strv_pushf(list, "%c%s", is_on ? '+' : '-', name);
	}
	return r;
}

static int keep(void *context, const struct nlmsghdr *message)
{
	struct words *words = context;
	const struct part *part = words->part;
	const struct nlattr *attribute;
	int r = 0;

	mnl_attr_for_each(attribute, message, sizeof(struct genlmsghdr))
	{
		uint16_t type = mnl_attr_get_type(attribute);

		if (r == 0 && part->is_switches && type == part->first)
			r = add_switches(&words->list, attribute);
		else if (r == 0 && part->is_switches && type && type == part->changeable)
			r = add_switches(&words->changeable, attribute);
		else if (r == 0 && !part->is_switches && type >= part->first && type <= part->last)
			r = add_number(&words->list, attribute);
	}
	return r;
}

static bool has_switch(const struct strv *list, char sign, const char *name)
{
	for (size_t i = 0; i < list->count; i++)
		if (list->items[i][0] == sign && strcmp(list->items[i] + 1, name) == 0)
			return true;
	return false;
}

/* What is on was listed; of those that can be set the others are off. */
static int complete(struct words *words)
{
	_cleanup_strv_ struct strv list = { 0 };
	int r = 0;

	if (!words->part->changeable)
		return 0;
	for (size_t i = 0; r == 0 && i < words->changeable.count; i++) {
		const char *word = words->changeable.items[i];

		if (*word == '+')
			r = strv_pushf(&list, "%c%s",
				has_switch(&words->list, '+', word + 1) ? '+' : '-', word + 1);
	}
	strv_free(&words->list);
	words->list = list;
	list = (struct strv){ 0 };
	return r;
}

/* -ENOMEM. What the driver does not know has no words. */
static int ask(
	const struct ethtool *ethtool, const struct part *part, uint32_t index, struct words *words)
{
	struct error ignored;
	int r;

	*words = (struct words){ .part = part };
	r = netlink_talk(
		ethtool->netlink, begin(ethtool, part->get, index, true), keep, words, &ignored);
	if (r == -ENOMEM)
		return r;
	return complete(words);
}

/* ---- saving */

static int save_part(const struct ethtool *ethtool, const struct part *part, uint32_t index,
	struct record *record)
{
	_cleanup_(words_free) struct words words;
	_cleanup_free_ char *text = NULL;
	int r = ask(ethtool, part, index, &words);

	if (r < 0 || !words.list.count)
		return r;
	text = strv_join(&words.list, " ");
	return text ? record_set(record, part->name, text) : -ENOMEM;
}

static int save_link(
	const struct links_save *save, const struct ethtool *ethtool, const struct link *link)
{
	struct record *record = statefile_add(save->records, KIND);
	int r = record ? record_set(record, "link", link->name) : -ENOMEM;

	if (r == 0)
		r = record_setf(record, "life", "%llu", (unsigned long long) save->generation);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(parts); i++)
		r = save_part(ethtool, &parts[i], link->index, record);
	return r;
}

int ethtool_save(const struct links_save *save, struct error *error)
{
	struct ethtool ethtool;
	int r = 0;

	if (ethtool_open(&ethtool))
		for (size_t i = 0; r == 0 && i < save->count; i++) {
			const struct link *link = link_by_index(&save->table, save->order[i]);

			/* What stands on another interface has none of its own; a
			 * representor's are the eswitch's. */
			if (link->device[0] && !link->kind[0] && link_port_is_own(link->port))
				r = save_link(save, &ethtool, link);
		}
	ethtool_close(&ethtool);
	return r < 0 ? error_set_errno(error, r, "what ethtool sets") : 0;
}

/* ---- restoring */

static void put_number(struct nlmsghdr *request, const struct part *part, const char *word)
{
	unsigned type, value;

	if (sscanf(word, "%u=%u", &type, &value) != 2 || type < part->first || type > part->last)
		return;
	/* Pause and the three switches among coalescing's numbers are a byte. */
	if (part->get == ETHTOOL_MSG_PAUSE_GET ||
		(part->get == ETHTOOL_MSG_COALESCE_GET &&
			(type == ETHTOOL_A_COALESCE_USE_ADAPTIVE_RX ||
				type == ETHTOOL_A_COALESCE_USE_ADAPTIVE_TX)))
		mnl_attr_put_u8(request, (uint16_t) type, (uint8_t) value);
	else
		mnl_attr_put_u32(request, (uint16_t) type, value);
}

static void put_switches(
	struct nlmsghdr *request, const struct part *part, const struct strv *words)
{
	struct nlattr *set = mnl_attr_nest_start(request, part->first);
	struct nlattr *bits = mnl_attr_nest_start(request, ETHTOOL_A_BITSET_BITS);

	for (size_t i = 0; i < words->count; i++) {
		struct nlattr *bit = mnl_attr_nest_start(request, ETHTOOL_A_BITSET_BITS_BIT);

		netlink_put_text(request, ETHTOOL_A_BITSET_BIT_NAME, words->items[i] + 1);
		if (words->items[i][0] == '+')
			mnl_attr_put(request, ETHTOOL_A_BITSET_BIT_VALUE, 0, NULL);
		mnl_attr_nest_end(request, bit);
	}
	mnl_attr_nest_end(request, bits);
	mnl_attr_nest_end(request, set);
}

static int set_words(const struct ethtool *ethtool, const struct part *part, uint32_t index,
	const struct strv *words, struct error *error)
{
	struct nlmsghdr *request = begin(ethtool, part->set, index, false);

	if (part->is_switches)
		put_switches(request, part, words);
	else
		for (size_t i = 0; i < words->count; i++)
			put_number(request, part, words->items[i]);
	return netlink_talk(ethtool->netlink, request, NULL, NULL, error);
}

/* Is it of the same thing: "6=" or "rx-gro"? */
static bool is_about_same(const struct part *part, const char *one, const char *other)
{
	size_t length = strcspn(one, "=");

	return part->is_switches ? strcmp(one + 1, other + 1) == 0
				 : strncmp(one, other, length + 1) == 0;
}

/* Those that this driver knows, and has otherwise. */
static int differing(const struct words *now, const struct strv *before, const struct part *part,
	struct strv *list)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < before->count; i++)
		for (size_t k = 0; r == 0 && k < now->list.count; k++)
			if (before->items[i][0] &&
				is_about_same(part, before->items[i], now->list.items[k]) &&
				strcmp(before->items[i], now->list.items[k]) != 0)
				r = strv_push(list, before->items[i]);
	return r;
}

/* One that is not taken keeps none of the others from it. */
static void set_each(const struct links_restore *restore, const struct ethtool *ethtool,
	const struct part *part, const struct restored_link *link, const struct strv *words)
{
	for (size_t i = 0; i < words->count; i++) {
		const struct strv one = { .items = &words->items[i], .count = 1 };
		struct error error = { 0 };

		if (set_words(ethtool, part, link->index, &one, &error) < 0)
			netstate_note(restore->netstate,
				"%s: this driver does not take what ethtool had set: %s %s: %s",
				link->name, part->name, words->items[i], error.text);
	}
}

static void restore_part(const struct links_restore *restore, const struct ethtool *ethtool,
	const struct part *part, const struct record *record, const struct restored_link *link)
{
	const char *text = record_get(record, part->name);
	_cleanup_(words_free) struct words now = { 0 };
	_cleanup_strv_ struct strv before = { 0 };
	_cleanup_strv_ struct strv words = { 0 };
	struct error ignored;

	if (!text || strv_split(&before, text, " ") < 0 ||
		ask(ethtool, part, link->index, &now) < 0 ||
		differing(&now, &before, part, &words) < 0 || !words.count)
		return;
	if (set_words(ethtool, part, link->index, &words, &ignored) < 0)
		set_each(restore, ethtool, part, link, &words);
}

static void restore_record(const struct links_restore *restore, const struct ethtool *ethtool,
	const struct record *record)
{
	const struct restored_link *link = restored_by_name(restore, record_get(record, "link"));
	uint64_t generation = 0;

	if (!link || !link->index || link->is_hosts ||
		record_get_u64(record, "life", &generation) < 0 || generation != link->generation)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		restore_part(restore, ethtool, &parts[i], record, link);
}

void ethtool_restore(const struct links_restore *restore)
{
	struct ethtool ethtool;

	if (ethtool_open(&ethtool))
		for (size_t i = 0; i < restore->records->count; i++)
			if (strcmp(restore->records->items[i].kind, KIND) == 0)
				restore_record(restore, &ethtool, &restore->records->items[i]);
	ethtool_close(&ethtool);
}
