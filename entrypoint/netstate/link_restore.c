/* SPDX-License-Identifier: Apache-2.0 */
/* Interfaces found again, with their names, settings, and all that stands on them. */
#include <linux/rtnetlink.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "entrypoint/engine/kill_point.h"
#include "entrypoint/netstate/link_internal.h"

#define KIND_SIZE      32 /* struct link's */
#define SETTINGS_LIMIT ((size_t) 32 << 10)

uint64_t link_boottime_s(void)
{
	struct timespec now;

	(void) clock_gettime(CLOCK_BOOTTIME, &now);
	return (uint64_t) now.tv_sec;
}

/* ---- records */

static bool is_shorter(const struct record *record, const char *field, size_t size)
{
	const char *text = record_get(record, field);

	return !text || strnlen(text, size) < size;
}

static bool has_short_altnames(const struct record *record)
{
	const char *names = record_get(record, "altnames");

	while (names && *names) {
		size_t length = strcspn(names, " ");

		if (length >= ALTIFNAMSIZ)
			return false;
		names += length + strspn(names + length, " ");
	}
	return true;
}

/* Settings are two digits a byte; what the kernel tells of a kind is some hundred bytes. */
static bool is_sound(const struct record *record)
{
	const char *name = record_get(record, "name");

	return name && record_is_part(name, IFNAMSIZ) && has_short_altnames(record) &&
	       is_shorter(record, "alias", IFALIASZ) && is_shorter(record, "kind", KIND_SIZE) &&
	       is_shorter(record, "port_kind", KIND_SIZE) &&
	       is_shorter(record, "data", SETTINGS_LIMIT * 2 + 1) &&
	       is_shorter(record, "port_data", SETTINGS_LIMIT * 2 + 1);
}

void attributes_free(struct attributes *attributes)
{
	free(attributes->data);
	*attributes = (struct attributes){ 0 };
}

struct attributes record_attributes(const struct record *record, const char *name)
{
	const char *text = record_get(record, name);
	struct attributes found = { .size = text ? strlen(text) / 2 : 0 };

	found.data = found.size ? calloc(1, MNL_ALIGN(found.size)) : NULL;
	if (!found.data)
		return (struct attributes){ 0 };
	if (record_get_hex(record, name, found.data, found.size) != (int) found.size)
		attributes_free(&found);
	return found;
}

const struct nlattr *attributes_find(const struct attributes *attributes, uint16_t type)
{
	const struct nlattr *attribute;

	attributes_for_each(attribute, attributes)
	{
		if (mnl_attr_get_type(attribute) == type)
			return attribute;
	}
	return NULL;
}

/* ---- what the records are of, and what it is today */

struct restored_link *restored_by_name(const struct links_restore *restore, const char *name)
{
	for (size_t i = 0; name && i < restore->count; i++)
		if (strcmp(restore->links[i].name, name) == 0)
			return &restore->links[i];
	return NULL;
}

uint32_t restored_index(
	const struct links_restore *restore, uint64_t generation, uint32_t old_index)
{
	for (size_t i = 0; i < restore->count; i++)
		if (restore->links[i].generation == generation &&
			restore->links[i].old_index == old_index)
			return restore->links[i].index;
	return restore->same_boot && link_by_index(&restore->now, old_index) ? old_index : 0;
}

const struct link *restored_now(
	const struct links_restore *restore, const struct restored_link *link)
{
	return link->index ? link_by_index(&restore->now, link->index) : NULL;
}

/* Has the state file but one record of such a port, so that it cannot be mistaken for another? */
static bool is_only_port(
	const struct links_restore *restore, const char *device, uint64_t dev_port, bool is_any)
{
	size_t count = 0;

	for (size_t i = 0; i < restore->count; i++) {
		const struct record *record = restore->links[i].record;
		const char *port = record_get(record, "port");
		uint64_t other = 0;

		if (!restore->links[i].device || strcmp(restore->links[i].device, device) != 0 ||
			!link_port_is_own(port ? port : ""))
			continue;
		(void) record_get_u64(record, "dev_port", &other);
		count += is_any || other == dev_port;
	}
	return count == 1;
}

/* One driver says "p0" of what another has no label for. @is_any: nor is its number the same. */
static const struct link *find_relabelled(const struct links_restore *restore, const char *device,
	const char *port, uint32_t dev_port, bool is_any)
{
	const struct link *link = link_by_relabelled(&restore->now, device, port, dev_port, is_any);

	return link && is_only_port(restore, device, dev_port, is_any) ? link : NULL;
}

static const struct link *find(const struct links_restore *restore, const struct record *record)
{
	const char *device = record_get(record, "device");
	const char *port = record_get(record, "port");
	const struct link *link;
	uint64_t dev_port = 0;
	uint64_t nth = 0;

	if (!device)
		return link_by_name(&restore->now, record_get(record, "name"));
	(void) record_get_u64(record, "dev_port", &dev_port);
	(void) record_get_u64(record, "nth", &nth);
	port = port ? port : "";
	link = link_by_device(&restore->now, device, port, (uint32_t) dev_port, (uint32_t) nth);
	if (!link)
		link = find_relabelled(restore, device, port, (uint32_t) dev_port, false);
	if (!link && restore->is_late)
		link = find_relabelled(restore, device, port, (uint32_t) dev_port, true);
	return link;
}

static int look(struct links_restore *restore, struct error *error)
{
	int r = link_table_read(restore->netstate->root_fd, restore->netlink, &restore->now, error);

	for (size_t i = 0; r == 0 && i < restore->count; i++) {
		const struct link *now = find(restore, restore->links[i].record);

		restore->links[i].index = now ? now->index : 0;
	}
	return r;
}

int links_look(struct links_restore *restore)
{
	struct error error = { 0 };
	int r = look(restore, &error);

	if (r < 0)
		netstate_failure(restore->netstate, restore->result, "%s", error.text);
	return r;
}

static int collect(struct links_restore *restore)
{
	restore->links = calloc(restore->records->count + 1, sizeof(*restore->links));
	if (!restore->links)
		return -ENOMEM;
	for (size_t i = 0; i < restore->records->count; i++) {
		const struct record *record = &restore->records->items[i];
		struct restored_link link = { .record = record,
			.name = record_get(record, "name"),
			.device = record_get(record, "device") };

		if (strcmp(record->kind, "link") != 0)
			continue;
		if (!is_sound(record)) {
			netstate_failure(restore->netstate, restore->result,
				"interface %.*s: its record is damaged", IFNAMSIZ,
				link.name ? link.name : "");
			continue;
		}
		(void) record_get_u64(record, "life", &link.generation);
		(void) record_get_u64(record, "index", &link.old_index);
		restore->links[restore->count++] = link;
	}
	return 0;
}

/* ---- waiting */

static size_t count_missing(const struct links_restore *restore)
{
	size_t missing = 0;

	for (size_t i = 0; i < restore->count; i++)
		missing += restore->links[i].device && !restore->links[i].index;
	return missing;
}

static void report_missing(const struct links_restore *restore)
{
	for (size_t i = 0; i < restore->count; i++) {
		const struct restored_link *link = &restore->links[i];

		if (link->device && !link->index)
			netstate_failure(restore->netstate, restore->result,
				"%s: no interface of %s came within %u ms", link->name,
				link->device, restore->netstate->bind_ms);
	}
}

/*
 * Listens, looks, and waits: the time starts anew whenever one more came, for bind_ms is what one
 * of them may take.
 */
static int await_links(struct links_restore *restore, struct error *error)
{
	_cleanup_(netlink_close) struct netlink *events = NULL;
	uint64_t deadline_ms = clock_monotonic_ms() + restore->netstate->bind_ms;
	size_t missing = SIZE_MAX;
	int r = netlink_open(NETLINK_ROUTE, &events, error);

	if (r == 0)
		r = netlink_join(events, RTNLGRP_LINK, error);
	while (r >= 0) {
		uint64_t now_ms = clock_monotonic_ms();
		size_t before = missing;

		r = look(restore, error);
		missing = count_missing(restore);
		if (r < 0 || !missing)
			return r;
		if (missing < before)
			deadline_ms = now_ms + restore->netstate->bind_ms;
		if (now_ms >= deadline_ms)
			break;
		r = netlink_wait(events, (uint32_t) (deadline_ms - now_ms), error);
	}
	restore->is_late = true;
	if (r >= 0)
		r = look(restore, error);
	report_missing(restore);
	return r < 0 ? r : 0;
}

/* Has one that had a carrier and is up none now? */
static bool is_without_carrier(
	const struct links_restore *restore, const struct restored_link *link)
{
	const struct link *now = restored_now(restore, link);

	return now && record_get(link->record, "carrier") && (now->flags & IFF_UP) &&
	       !(now->flags & IFF_LOWER_UP);
}

static const char *first_without_carrier(const struct links_restore *restore)
{
	for (size_t i = 0; i < restore->count; i++)
		if (is_without_carrier(restore, &restore->links[i]))
			return restore->links[i].name;
	return NULL;
}

/* A cable's link takes a second or more; one that takes more than bind_ms is no failure. */
static void await_carriers(struct links_restore *restore)
{
	_cleanup_(netlink_close) struct netlink *events = NULL;
	uint64_t deadline_ms = clock_monotonic_ms() + restore->netstate->bind_ms;
	struct error error = { 0 };
	int r = netlink_open(NETLINK_ROUTE, &events, &error);

	if (r == 0)
		r = netlink_join(events, RTNLGRP_LINK, &error);
	while (r >= 0) {
		uint64_t now_ms = clock_monotonic_ms();
		const char *name;

		if (look(restore, &error) < 0)
			return;
		name = first_without_carrier(restore);
		if (!name)
			return;
		if (now_ms >= deadline_ms) {
			netstate_note(restore->netstate, "%s has no carrier yet", name);
			return;
		}
		r = netlink_wait(events, (uint32_t) (deadline_ms - now_ms), &error);
	}
}

/* ---- requests about one interface */

struct nlmsghdr *link_change(const struct links_restore *restore, uint32_t index)
{
	struct nlmsghdr *request = netlink_request(restore->netlink, RTM_NEWLINK, 0);
	struct ifinfomsg *header = netlink_extra(request, sizeof(*header));

	header->ifi_index = (int) index;
	return request;
}

int link_do(const struct links_restore *restore, const struct restored_link *link,
	struct nlmsghdr *request, const char *what)
{
	struct error error = { 0 };
	int r = netlink_talk(restore->netlink, request, NULL, NULL, &error);

	if (r < 0)
		netstate_failure(restore->netstate, restore->result, "%s: %s: %s", link->name, what,
			error.text);
	return r;
}

static struct nlmsghdr *flags_request(
	const struct links_restore *restore, uint32_t index, unsigned flags, unsigned mask)
{
	struct nlmsghdr *request = link_change(restore, index);
	struct ifinfomsg *header = mnl_nlmsg_get_payload(request);

	header->ifi_flags = flags;
	header->ifi_change = mask;
	return request;
}

int link_set_flags(const struct links_restore *restore, const struct restored_link *link,
	unsigned flags, unsigned mask, const char *what)
{
	return link_do(restore, link, flags_request(restore, link->index, flags, mask), what);
}

struct link_info link_begin_info(
	struct nlmsghdr *request, uint16_t kind_type, const char *kind, uint16_t data_type)
{
	struct link_info info = { .request = request };

	info.info = mnl_attr_nest_start(request, IFLA_LINKINFO);
	netlink_put_text(request, kind_type, kind);
	info.data = mnl_attr_nest_start(request, data_type);
	return info;
}

struct nlmsghdr *link_end_info(struct link_info *info)
{
	mnl_attr_nest_end(info->request, info->data);
	mnl_attr_nest_end(info->request, info->info);
	return info->request;
}

/*
 * Kernels and drivers that want an interface to be down for it say EBUSY. It goes up again with its
 * other flags, later.
 */
static int change_also_down(struct links_restore *restore, uint32_t index, uint16_t type,
	const void *data, size_t size, struct error *error)
{
	struct nlmsghdr *request = link_change(restore, index);
	int r;

	netlink_put(request, type, size, data);
	r = netlink_talk(restore->netlink, request, NULL, NULL, error);
	if (r != -EBUSY)
		return r;
	r = netlink_talk(
		restore->netlink, flags_request(restore, index, 0, IFF_UP), NULL, NULL, error);
	if (r < 0)
		return r;
	request = link_change(restore, index);
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
		netstate_note(restore->netstate,
			"%s: %s had that name as an altname, and has it no more", link->name,
			holder->name);
	return r;
}

/* Of one of ours that waits for its own name, the name is taken for as long as that takes. */
static int move_aside(struct links_restore *restore, const struct restored_link *link,
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
	int r = holder ? move_aside(restore, link, holder, error) : 0;

	return r < 0 ? r : rename_to(restore, link->index, link->name, error);
}

static void rename_links(struct links_restore *restore)
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
		netstate_failure(restore->netstate, restore->result, "%s: its name (it is %s): %s",
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

	if (!names || strv_split(&list, names, " ") < 0)
		return;
	for (size_t i = 0; i < list.count; i++) {
		struct error error = { 0 };
		int r;

		if (answers_to(restore, link, list.items[i]))
			continue;
		r = change_altname(restore, link->index, list.items[i], RTM_NEWLINKPROP, &error);
		/* udev gives altnames, too, and may have been faster. */
		if (r == -EEXIST && links_look(restore) == 0 &&
			answers_to(restore, link, list.items[i]))
			continue;
		if (r < 0)
			netstate_failure(restore->netstate, restore->result, "%s: its name %s: %s",
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
	request = link_change(restore, link->index);
	mnl_attr_put_u32(request, type, (uint32_t) value);
	(void) link_do(restore, link, request, field);
}

static void restore_alias(
	struct links_restore *restore, const struct restored_link *link, const struct link *now)
{
	const char *alias = record_get(link->record, "alias");
	const struct nlattr *attribute = link_attribute(now, IFLA_IFALIAS);
	struct nlmsghdr *request;

	if (!alias || (attribute && strcmp(mnl_attr_get_str(attribute), alias) == 0))
		return;
	request = link_change(restore, link->index);
	netlink_put(request, IFLA_IFALIAS, strlen(alias), alias);
	(void) link_do(restore, link, request, "alias");
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
		netstate_failure(restore->netstate, restore->result, "%s: its MAC: %s", link->name,
			error.text);
}

/* IP over InfiniBand's mode, which is a setting of its kind. */
static void restore_ipoib(struct links_restore *restore, const struct restored_link *link)
{
	const char *kind = record_get(link->record, "kind");
	_cleanup_(attributes_free) struct attributes data = record_attributes(link->record, "data");
	const struct nlattr *attribute;
	struct link_info info;

	if (!kind || strcmp(kind, "ipoib") != 0 || !data.data)
		return;
	info = link_begin_info(
		link_change(restore, link->index), IFLA_INFO_KIND, kind, IFLA_INFO_DATA);
	attributes_for_each(attribute, &data)
	{
		if (mnl_attr_get_type(attribute) != IFLA_IPOIB_PKEY)
			(void) netlink_copy(info.request, attribute);
	}
	(void) link_do(restore, link, link_end_info(&info), "the mode of IP over InfiniBand");
}

static void restore_link(struct links_restore *restore, const struct restored_link *link)
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
/* ---- one pass */

/* What the host has set up since it booted is the host's. */
static void leave_the_hosts(struct links_restore *restore)
{
	for (size_t i = 0; !restore->same_boot && i < restore->count; i++) {
		const struct link *now = restored_now(restore, &restore->links[i]);

		restore->links[i].is_hosts = now && ((now->flags & IFF_UP) || now->master);
	}
	/* So is what an earlier run has restored, and this one reads for what stands on it. */
	for (size_t i = 0; i < restore->count; i++) {
		const struct record *record = restore->links[i].record;

		restore->links[i].is_hosts =
			restore->links[i].is_hosts || record_get(record, LINK_DONE);
	}
}

static void restore_flags(struct links_restore *restore)
{
	for (size_t i = 0; i < restore->count; i++) {
		const struct restored_link *link = &restore->links[i];
		const struct link *now = restored_now(restore, link);
		uint64_t flags = 0;
		unsigned differences;

		if (!now || link->is_hosts || record_get_u64(link->record, "flags", &flags) < 0)
			continue;
		differences = ((unsigned) flags ^ now->flags) & LINK_FLAGS;
		if (differences)
			(void) link_set_flags(
				restore, link, (unsigned) flags, differences, "its flags");
	}
}

/* @drivers: those of devices, or those that a person made. */
static void restore_settings(struct links_restore *restore, bool drivers)
{
	for (size_t i = 0; i < restore->count; i++)
		if (!restore->links[i].device != drivers)
			restore_link(restore, &restore->links[i]);
	(void) links_look(restore);
}

static void count_links(const struct links_restore *restore)
{
	for (size_t i = 0; i < restore->count; i++)
		restore->result->links += restore->links[i].index != 0;
}

/* A name that somebody gave after us holds, but not in silence. */
static void check_names(const struct links_restore *restore)
{
	for (size_t i = 0; i < restore->count; i++) {
		const struct restored_link *link = &restore->links[i];
		const struct link *now = restored_now(restore, link);

		if (now && link->device && !link->is_hosts && !link->is_misnamed &&
			strcmp(now->name, link->name) != 0)
			netstate_failure(restore->netstate, restore->result,
				"%s: somebody has named it %s", link->name, now->name);
	}
}

/*
 * Names first, for masters and rules know a port by its name; settings while an interface is down;
 * masters before addresses, which joining a VRF takes away.
 */
static int restore_all(struct links_restore *restore, struct error *error)
{
	int r = await_links(restore, error);

	if (r < 0)
		return r;
	leave_the_hosts(restore);
	rename_links(restore);
	kill_point("network:links:named");
	restore_settings(restore, true);
	ethtool_restore(restore);
	links_make(restore);
	kill_point("network:links:made");
	sysctls_restore(restore);
	masters_restore(restore);
	(void) links_look(restore);
	kill_point("network:links:masters");
	restore_settings(restore, false);
	/* udev may have named one meanwhile; once it is up, older kernels refuse that. */
	rename_links(restore);
	restore_flags(restore);
	(void) links_look(restore);
	kill_point("network:links:up");
	replay_addresses(restore);
	kill_point("network:links:addresses");
	replay_routes(restore);
	kill_point("network:links:routes");
	await_carriers(restore);
	masters_choose_active(restore);
	check_names(restore);
	count_links(restore);
	return 0;
}

static void links_restore_free(struct links_restore *restore)
{
	link_table_free(&restore->now);
	netlink_close(&restore->netlink);
	free(restore->links);
}

static const struct restored_link *link_of(
	const struct links_restore *restore, const struct record *record)
{
	const char *name = record_get(record, "link");

	for (size_t i = 0; i < restore->count; i++)
		if (restore->links[i].record == record)
			return &restore->links[i];
	return restored_by_name(restore, name);
}

/* Marked first: the links point at the records until all of them are. */
static void mark_done(struct links_restore *restore, struct statefile *records)
{
	for (size_t i = 0; i < records->count; i++) {
		struct record *record = &records->items[i];
		const struct restored_link *link = link_of(restore, record);

		if (link && link->index && !record_get(record, LINK_DONE))
			(void) !record_set(record, LINK_DONE, "1");
	}
}

static bool is_still_of_use(const struct record *record)
{
	return !record_get(record, LINK_DONE) || strcmp(record->kind, "link") == 0;
}

static bool is_not_done(const struct record *record)
{
	return !record_get(record, LINK_DONE);
}

void links_forget_done(struct statefile *records)
{
	statefile_keep(records, is_not_done);
}

/* Routes and rules stay with an absent interface: to set one that is there does nothing. */
static void keep_absent(struct links_restore *restore, struct statefile *records)
{
	if (!count_missing(restore)) {
		links_forget(records);
		return;
	}
	restore->result->is_absent = true;
	mark_done(restore, records);
	statefile_keep(records, is_still_of_use);
}

int links_restore(const struct netstate *netstate, struct statefile *records,
	struct netstate_result *result, struct error *error)
{
	_cleanup_(links_restore_free) struct links_restore restore = { .netstate = netstate,
		.records = records,
		.result = result,
		.same_boot = netstate_is_of_this_boot(netstate, records),
		.now_s = link_boottime_s() };
	int r = netlink_open(NETLINK_ROUTE, &restore.netlink, error);

	if (r < 0)
		return r;
	if (collect(&restore) < 0)
		return error_set_errno(error, -ENOMEM, "interfaces");
	r = restore.count ? restore_all(&restore, error) : 0;
	if (r == 0)
		keep_absent(&restore, records);
	return r;
}
