/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/netstate/links.h"

#include <linux/rtnetlink.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/fs.h"
#include "entrypoint/engine/kill_point.h"
#include "entrypoint/netstate/links_parts.h"

/* ---- what the journal knows, and what it is today */

struct restored_link *restored_by_name(const struct links_restore *restore, const char *name)
{
	for (size_t i = 0; i < restore->count; i++)
		if (strcmp(restore->links[i].name, name) == 0)
			return &restore->links[i];
	return NULL;
}

uint32_t restored_index(const struct links_restore *restore, uint64_t life, uint32_t old_index)
{
	for (size_t i = 0; i < restore->count; i++)
		if (restore->links[i].life == life && restore->links[i].old_index == old_index)
			return restore->links[i].index;
	return restore->same_boot && link_by_index(&restore->now, old_index) ? old_index : 0;
}

const struct link *restored_now(
	const struct links_restore *restore, const struct restored_link *link)
{
	return link->index ? link_by_index(&restore->now, link->index) : NULL;
}

/* Has the journal but one record of such a port, so that it cannot be mistaken for another? */
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

int restore_look(struct links_restore *restore, struct error *error)
{
	int r = link_table_read(restore->network->root_fd, restore->netlink, &restore->now, error);

	for (size_t i = 0; r == 0 && i < restore->count; i++) {
		const struct link *now = find(restore, restore->links[i].record);

		restore->links[i].index = now ? now->index : 0;
	}
	return r;
}

static bool is_sound(const struct links_restore *restore, const struct record *record)
{
	const char *name = record_get(record, "name");
	bool is_good = link_record_is_sound(record);

	if (!is_good)
		network_failure(restore->network, restore->result,
			"interface %.*s: its record is damaged", IFNAMSIZ, name ? name : "");
	return is_good;
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

		if (strcmp(record->kind, "link") != 0 || !is_sound(restore, record))
			continue;
		(void) record_get_u64(record, "life", &link.life);
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

static void tell_missing(const struct links_restore *restore)
{
	for (size_t i = 0; i < restore->count; i++) {
		const struct restored_link *link = &restore->links[i];

		if (link->device && !link->index)
			network_failure(restore->network, restore->result,
				"%s: no interface of %s came within %u ms", link->name,
				link->device, restore->network->bind_ms);
	}
}

/*
 * Listens, looks, and waits: the time starts anew whenever one more came, for bind_ms is what one
 * of them may take.
 */
int links_await(struct links_restore *restore, struct error *error)
{
	_cleanup_(netlink_close) struct netlink *events = NULL;
	uint64_t deadline_ms = clock_monotonic_ms() + restore->network->bind_ms;
	size_t missing = SIZE_MAX;
	int r = netlink_open(NETLINK_ROUTE, &events, error);

	if (r == 0)
		r = netlink_join(events, RTNLGRP_LINK, error);
	while (r >= 0) {
		uint64_t now_ms = clock_monotonic_ms();
		size_t before = missing;

		r = restore_look(restore, error);
		missing = count_missing(restore);
		if (r < 0 || !missing)
			return r;
		if (missing < before)
			deadline_ms = now_ms + restore->network->bind_ms;
		if (now_ms >= deadline_ms)
			break;
		r = netlink_hear(events, (uint32_t) (deadline_ms - now_ms), NULL, NULL, error);
	}
	restore->is_late = true;
	if (r >= 0)
		r = restore_look(restore, error);
	tell_missing(restore);
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

/* A cable's link takes a second or more; what it takes beyond bind_ms is nobody's fault here. */
static void await_carriers(struct links_restore *restore)
{
	_cleanup_(netlink_close) struct netlink *events = NULL;
	uint64_t deadline_ms = clock_monotonic_ms() + restore->network->bind_ms;
	struct error error = { 0 };
	int r = netlink_open(NETLINK_ROUTE, &events, &error);

	if (r == 0)
		r = netlink_join(events, RTNLGRP_LINK, &error);
	while (r >= 0) {
		uint64_t now_ms = clock_monotonic_ms();
		const char *name;

		if (restore_look(restore, &error) < 0)
			return;
		name = first_without_carrier(restore);
		if (!name)
			return;
		if (now_ms >= deadline_ms) {
			network_note(restore->network, "%s has no carrier yet", name);
			return;
		}
		r = netlink_hear(events, (uint32_t) (deadline_ms - now_ms), NULL, NULL, &error);
	}
}

/* ---- one pass */

/* What the host has set up since it booted is the host's. */
static void leave_the_hosts(struct links_restore *restore)
{
	for (size_t i = 0; !restore->same_boot && i < restore->count; i++) {
		const struct link *now = restored_now(restore, &restore->links[i]);

		restore->links[i].is_hosts = now && ((now->flags & IFF_UP) || now->master);
	}
	/* So is what an earlier life has brought back, and this one reads for what stands on it. */
	for (size_t i = 0; i < restore->count; i++) {
		const struct record *record = restore->links[i].record;

		restore->links[i].is_hosts =
			restore->links[i].is_hosts || record_get(record, LINKS_DONE);
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
		differences = ((unsigned) flags ^ now->flags) & LINKS_FLAGS;
		if (differences)
			(void) link_set_flags(
				restore, link, (unsigned) flags, differences, "its flags");
	}
}

static void look(struct links_restore *restore)
{
	struct error error = { 0 };

	if (restore_look(restore, &error) < 0)
		network_failure(restore->network, restore->result, "%s", error.text);
}

/* @drivers: those of devices, or those that a person made. */
static void restore_settings(struct links_restore *restore, bool drivers)
{
	for (size_t i = 0; i < restore->count; i++)
		if (!restore->links[i].device != drivers)
			link_settings_restore(restore, &restore->links[i]);
	look(restore);
}

static void count_links(const struct links_restore *restore)
{
	for (size_t i = 0; i < restore->count; i++)
		restore->result->links += restore->links[i].index != 0;
}

/* Whoever named an interface after us wins, but not in silence. */
static void check_names(const struct links_restore *restore)
{
	for (size_t i = 0; i < restore->count; i++) {
		const struct restored_link *link = &restore->links[i];
		const struct link *now = restored_now(restore, link);

		if (now && link->device && !link->is_hosts && !link->is_misnamed &&
			strcmp(now->name, link->name) != 0)
			network_failure(restore->network, restore->result,
				"%s: somebody has named it %s", link->name, now->name);
	}
}

/*
 * Names first, for masters and rules know a port by its name; settings while an interface is down;
 * masters before addresses, which joining a VRF takes away.
 */
static int restore_all(struct links_restore *restore, struct error *error)
{
	int r = links_await(restore, error);

	if (r < 0)
		return r;
	leave_the_hosts(restore);
	links_rename(restore);
	kill_point("network:links:named");
	restore_settings(restore, true);
	ethtool_restore(restore);
	links_make(restore);
	kill_point("network:links:made");
	sysctls_restore(restore);
	masters_restore(restore);
	look(restore);
	kill_point("network:links:masters");
	restore_settings(restore, false);
	/* udev may have named one meanwhile; once it is up, older kernels refuse that. */
	links_rename(restore);
	tokens_restore(restore);
	restore_flags(restore);
	look(restore);
	kill_point("network:links:up");
	bridge_ports_restore(restore);
	addresses_restore(restore);
	kill_point("network:links:addresses");
	neighbours_restore(restore);
	routes_restore(restore);
	kill_point("network:links:routes");
	await_carriers(restore);
	masters_choose_active(restore);
	check_names(restore);
	count_links(restore);
	return 0;
}

static bool is_of_this_boot(const struct network *network, const struct statefile *records)
{
	_cleanup_free_ char *now = NULL;

	if (fs_read_line(network->root_fd, "proc/sys/kernel/random/boot_id", &now) < 0)
		return false;
	for (size_t i = 0; i < records->count; i++) {
		const char *id = record_get(&records->items[i], "id");

		if (strcmp(records->items[i].kind, "boot") == 0 && id)
			return strcmp(id, now) == 0;
	}
	return false;
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
	return name ? restored_by_name(restore, name) : NULL;
}

/* Marked first: the links point at the records until all of them are. */
static void mark_done(struct links_restore *restore, struct statefile *records)
{
	for (size_t i = 0; i < records->count; i++) {
		struct record *record = &records->items[i];
		const struct restored_link *link = link_of(restore, record);

		if (link && link->index && !record_get(record, LINKS_DONE))
			(void) !record_set(record, LINKS_DONE, "1");
	}
}

static bool is_still_of_use(const struct record *record)
{
	return !record_get(record, LINKS_DONE) || strcmp(record->kind, "link") == 0;
}

static bool is_not_done(const struct record *record)
{
	return !record_get(record, LINKS_DONE);
}

void links_forget_done(struct statefile *records)
{
	statefile_keep(records, is_not_done);
}

/* Routes and rules stay with an absent interface: to set one that is there does nothing. */
static void settle(struct links_restore *restore, struct statefile *records)
{
	if (!count_missing(restore)) {
		links_forget(records);
		return;
	}
	restore->result->is_absent = true;
	mark_done(restore, records);
	statefile_keep(records, is_still_of_use);
}

int links_restore(const struct network *network, struct statefile *records,
	struct network_result *result, struct error *error)
{
	_cleanup_(links_restore_free) struct links_restore restore = { .network = network,
		.records = records,
		.result = result,
		.same_boot = is_of_this_boot(network, records),
		.now_s = links_boottime_s() };
	int r = netlink_open(NETLINK_ROUTE, &restore.netlink, error);

	if (r < 0)
		return r;
	if (collect(&restore) < 0)
		return error_set_errno(error, -ENOMEM, "interfaces");
	r = restore.count ? restore_all(&restore, error) : 0;
	if (r == 0)
		settle(&restore, records);
	return r;
}
