/* SPDX-License-Identifier: Apache-2.0 */
/* Interfaces found again, with their names, settings, and all that stands on them. */
#include <linux/rtnetlink.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "entrypoint/engine/kill_point.h"
#include "entrypoint/netstate/link_internal.h"

uint64_t link_boottime_s(void)
{
	struct timespec now;

	(void) clock_gettime(CLOCK_BOOTTIME, &now);
	return (uint64_t) now.tv_sec;
}

struct nlmsghdr *record_message(const struct record *record, const char *field, size_t before)
{
	const char *text = record_get(record, field);
	size_t size = text ? strlen(text) / 2 : 0;
	_cleanup_free_ struct nlmsghdr *message = NULL;

	if (text && before + size)
		message = calloc(1, MNL_NLMSG_HDRLEN + MNL_ALIGN(before + size));
	if (!message)
		return NULL;
	message->nlmsg_len = (uint32_t) (MNL_NLMSG_HDRLEN + before + size);
	if (record_get_hex(record, field, mnl_nlmsg_get_payload_offset(message, before), size) !=
		(int) size)
		return NULL;
	return TAKE_PTR(message);
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
	const struct links_restore *restore, const struct record *record, uint32_t old_index)
{
	uint64_t life = record_number(record, "life");

	for (size_t i = 0; i < restore->count; i++) {
		const struct restored_link *link = &restore->links[i];

		if (link->life == life && link->old_index == old_index)
			return link->now && !link->is_managed ? link->now->index : 0;
	}
	return restore->same_boot && link_by_index(&restore->now, old_index) ? old_index : 0;
}

/*
 * One driver has "p0" of what another has no label for. @is_any: nor is its number the same. The
 * state file may have but one record of such a port, so that it cannot be mistaken for another.
 */
static struct link *find_relabelled(const struct links_restore *restore, const char *device,
	const char *port, uint32_t dev_port, bool is_any)
{
	size_t count = 0;

	for (size_t i = 0; i < restore->count; i++) {
		const struct restored_link *other = &restore->links[i];

		count += other->device && strcmp(other->device, device) == 0 &&
			 link_port_is_own(record_text(other->record, "port")) &&
			 (is_any || record_number(other->record, "dev_port") == dev_port);
	}
	return count == 1 ? link_by_relabelled(&restore->now, device, port, dev_port, is_any)
			  : NULL;
}

static struct link *find(const struct links_restore *restore, const struct restored_link *old)
{
	const char *port = record_text(old->record, "port");
	uint32_t dev_port = (uint32_t) record_number(old->record, "dev_port");
	uint32_t nth = (uint32_t) record_number(old->record, "nth");
	struct link *link;

	if (!old->device)
		return link_by_name(&restore->now, old->name);
	link = link_by_device(&restore->now, old->device, port, dev_port, nth);
	if (!link)
		link = find_relabelled(restore, old->device, port, dev_port, false);
	if (!link && restore->is_late)
		link = find_relabelled(restore, old->device, port, dev_port, true);
	return link;
}

static bool is_missing(const struct restored_link *link)
{
	return link->device && !link->now && !link->is_hosts;
}

/* Reads the table anew, and what each is in it. */
static int look(struct links_restore *restore)
{
	restore->look_result = link_table_read(restore->run->netstate->root_fd, restore->netlink,
		&restore->now, &restore->look_error);
	if (restore->look_result < 0)
		return restore->look_result;
	restore->missing = 0;
	for (size_t i = 0; i < restore->count; i++) {
		struct restored_link *link = &restore->links[i];

		link->now = find(restore, link);
		restore->missing += is_missing(link);
	}
	return 0;
}

void links_look(struct links_restore *restore)
{
	if (look(restore) < 0)
		run_failure(restore->run, "%s", restore->look_error.text);
}

static int collect(struct links_restore *restore)
{
	struct record *record = NULL;

	while ((record = records_next(restore->run->records, "link", record))) {
		const char *name = record_text(record, "name");
		struct restored_link *link;

		if (!record_is_part(name, IFNAMSIZ)) {
			run_failure(restore->run, "interface %.*s: its record is damaged", IFNAMSIZ,
				name);
			continue;
		}
		link = array_add(&restore->links, &restore->count, sizeof(*link));
		if (!link)
			return -ENOMEM;
		link->record = record;
		link->name = name;
		link->device = record_get(record, "device");
		link->over = record_get(record, "over");
		link->life = record_number(record, "life");
		link->old_index = record_number(record, "index");
		link->is_hosts = record_get(record, LINK_DONE);
	}
	for (size_t i = 0; i < restore->count; i++)
		restore->links[i].lower = restored_by_name(restore, restore->links[i].over);
	return 0;
}

/* ---- waiting */

/* Are all there, or more than before? A table that changes while it is read is read again. */
static bool have_come(void *context)
{
	struct links_restore *restore = context;
	size_t before = restore->missing;
	int r = look(restore);

	return r == 0 ? !restore->missing || restore->missing < before : r != -EAGAIN;
}

/* The time starts anew whenever one more came, for bind_ms is what one of them may take. */
static int await_links(struct links_restore *restore)
{
	uint32_t bind_ms = restore->run->netstate->bind_ms;

	restore->missing = SIZE_MAX;
	while (netlink_wait(NETLINK_ROUTE, RTMGRP_LINK, bind_ms, have_come, restore))
		if (restore->look_result < 0 || !restore->missing)
			return restore->look_result;
	restore->is_late = true;
	if (look(restore) < 0)
		return restore->look_result;
	for (size_t i = 0; i < restore->count; i++)
		if (is_missing(&restore->links[i]))
			run_failure(restore->run, "%s: no interface of %s appeared within %u ms",
				restore->links[i].name, restore->links[i].device, bind_ms);
	return 0;
}

/* One that had a carrier and is up, and has none now. */
static const char *first_without_carrier(const struct links_restore *restore)
{
	for (size_t i = 0; i < restore->count; i++) {
		const struct link *now = restore->links[i].now;

		if (now && record_get(restore->links[i].record, "carrier") &&
			(now->flags & IFF_UP) && !(now->flags & IFF_LOWER_UP))
			return restore->links[i].name;
	}
	return NULL;
}

bool links_lack_carrier(struct links_restore *restore)
{
	return look(restore) == 0 && first_without_carrier(restore);
}

static bool have_carriers(void *context)
{
	int r = look(context);

	return r == 0 ? !first_without_carrier(context) : r != -EAGAIN;
}

/* A cable's link takes a second or more; one that takes more than bind_ms is no failure. */
static void await_carriers(struct links_restore *restore)
{
	if (!netlink_wait(NETLINK_ROUTE, RTMGRP_LINK, restore->run->netstate->bind_ms,
		    have_carriers, restore) &&
		restore->look_result == 0)
		run_note(restore->run, "%s has no carrier yet", first_without_carrier(restore));
}

/* ---- requests about one interface */

struct nlmsghdr *link_change(const struct links_restore *restore, const struct link *now)
{
	return netlink_link_request(restore->netlink, RTM_NEWLINK, 0, now->index);
}

void link_do(const struct links_restore *restore, const struct restored_link *link,
	struct nlmsghdr *request, const char *what)
{
	struct error error = { 0 };

	if (netlink_talk(restore->netlink, request, NULL, NULL, &error) < 0)
		run_failure(restore->run, "%s: %s: %s", link->name, what, error.text);
}

static struct nlmsghdr *flags_request(
	const struct links_restore *restore, const struct link *now, unsigned flags, unsigned mask)
{
	struct nlmsghdr *request = link_change(restore, now);
	struct ifinfomsg *header = mnl_nlmsg_get_payload(request);

	header->ifi_flags = flags;
	header->ifi_change = mask;
	return request;
}

void link_set_flags(const struct links_restore *restore, const struct restored_link *link,
	unsigned flags, unsigned mask, const char *what)
{
	link_do(restore, link, flags_request(restore, link->now, flags, mask), what);
}

/*
 * Kernels and drivers that want an interface to be down for it answer EBUSY. It goes up again with
 * its other flags, later.
 */
static int change_also_down(struct links_restore *restore, struct link *now, uint16_t type,
	const void *data, size_t size, struct error *error)
{
	for (bool is_down = false;; is_down = true) {
		struct nlmsghdr *request = link_change(restore, now);
		int r;

		netlink_put(request, type, size, data);
		r = netlink_talk(restore->netlink, request, NULL, NULL, error);
		if (r != -EBUSY || is_down)
			return r;
		request = flags_request(restore, now, 0, IFF_UP);
		r = netlink_talk(restore->netlink, request, NULL, NULL, error);
		if (r < 0)
			return r;
		now->flags &= ~(unsigned) IFF_UP;
	}
}

/* ---- names */

/* The table has the new name at once: reading it anew for each of hundreds takes its time. */
static int rename_to(
	struct links_restore *restore, struct link *now, const char *name, struct error *error)
{
	int r = change_also_down(restore, now, IFLA_IFNAME, name, strlen(name) + 1, error);

	if (r == 0)
		(void) snprintf(now->name, IFNAMSIZ, "%s", name);
	return r;
}

/* @type: RTM_NEWLINKPROP, RTM_DELLINKPROP. */
static int change_altname(struct links_restore *restore, const struct link *now, const char *name,
	uint16_t type, struct error *error)
{
	struct nlmsghdr *request = netlink_link_request(restore->netlink, type,
		type == RTM_NEWLINKPROP ? NLM_F_CREATE | NLM_F_EXCL | NLM_F_APPEND : 0, now->index);
	struct nlattr *list = mnl_attr_nest_start(request, IFLA_PROP_LIST | NLA_F_NESTED);

	netlink_put_text(request, IFLA_ALT_IFNAME, name);
	mnl_attr_nest_end(request, list);
	return netlink_talk(restore->netlink, request, NULL, NULL, error);
}

/*
 * Takes the link's name from the interface that has it: from one of ours that waits for its own
 * name, for as long as that takes; as an altname, which a rename would leave, for good.
 */
static int free_name(struct links_restore *restore, const struct restored_link *link,
	struct link *holder, struct error *error)
{
	const struct restored_link *other = NULL;
	char aside[IFNAMSIZ];
	int r;

	if (holder == link->now)
		return change_altname(restore, holder, link->name, RTM_DELLINKPROP, error);
	for (size_t i = 0; !other && i < restore->count; i++)
		if (restore->links[i].now == holder && restore->links[i].device &&
			!restore->links[i].is_hosts &&
			strcmp(restore->links[i].name, link->name) != 0)
			other = &restore->links[i];
	if (!other)
		return error_set(error, -EEXIST, "another interface has that name");
	if (strcmp(holder->name, link->name) == 0) {
		(void) snprintf(aside, sizeof(aside), "slw%u", holder->index);
		return rename_to(restore, holder, aside, error);
	}
	r = change_altname(restore, holder, link->name, RTM_DELLINKPROP, error);
	if (r == 0)
		run_note(restore->run,
			"%s: that name was an altname of %s, from which it was removed", link->name,
			holder->name);
	return r;
}

/* Is it a driver's, of another name than it had, and to be changed? */
static bool is_misnamed(const struct restored_link *link)
{
	return link->now && link->device && !link->is_hosts && !link->is_misnamed &&
	       strcmp(link->now->name, link->name) != 0;
}

static void rename_links(struct links_restore *restore)
{
	for (size_t i = 0; i < restore->count; i++) {
		struct restored_link *link = &restore->links[i];
		struct link *holder;
		struct error error = { 0 };
		int r;

		if (!is_misnamed(link))
			continue;
		holder = link_by_name(&restore->now, link->name);
		r = holder ? free_name(restore, link, holder, &error) : 0;
		if (r == 0)
			r = rename_to(restore, link->now, link->name, &error);
		if (r == 0)
			continue;
		link->is_misnamed = true;
		run_failure(restore->run, "%s: its name (now %s): %s", link->name, link->now->name,
			error.text);
	}
}

static void restore_altnames(struct links_restore *restore, const struct restored_link *link)
{
	_cleanup_strv_ struct strv list = { 0 };

	if (strv_split(&list, record_text(link->record, "altnames"), " ") < 0)
		return;
	for (size_t i = 0; link->now && i < list.count; i++) {
		const char *name = list.items[i];
		const struct link *holder = link_by_name(&restore->now, name);
		struct error error = { 0 };
		int r;

		if (holder == link->now)
			continue;
		r = change_altname(restore, link->now, name, RTM_NEWLINKPROP, &error);
		/* udev gives altnames, too, and may have been faster. */
		if (r == -EEXIST) {
			links_look(restore);
			holder = link_by_name(&restore->now, name);
		}
		if (r < 0 && !(holder && holder == link->now))
			run_failure(
				restore->run, "%s: its name %s: %s", link->name, name, error.text);
	}
}

/* ---- settings */

static void restore_number(struct links_restore *restore, const struct restored_link *link,
	const char *field, uint16_t type)
{
	const struct nlattr *attribute = link_attribute(link->now, type);
	struct nlmsghdr *request;
	uint64_t value;

	if (record_get_u64(link->record, field, &value) < 0 || value > UINT32_MAX ||
		(attribute && netlink_number(attribute) == value))
		return;
	request = link_change(restore, link->now);
	mnl_attr_put_u32(request, type, (uint32_t) value);
	link_do(restore, link, request, field);
}

static void restore_mac(struct links_restore *restore, const struct restored_link *link)
{
	uint8_t address[LINK_ADDRESS_SIZE];
	int size = record_get_hex(link->record, "mac", address, sizeof(address));
	struct error error = { 0 };

	if (size > 0 &&
		!netlink_is(link_attribute(link->now, IFLA_ADDRESS), address, (size_t) size) &&
		change_also_down(restore, link->now, IFLA_ADDRESS, address, (size_t) size, &error) <
			0)
		run_failure(restore->run, "%s: its MAC: %s", link->name, error.text);
}

static void restore_link(struct links_restore *restore, const struct restored_link *link)
{
	const char *alias = record_text(link->record, "alias");
	struct nlmsghdr *request;
	const char *current;

	restore_altnames(restore, link);
	if (!link->now || link->is_hosts)
		return;
	restore_mac(restore, link);
	if (strcmp(record_text(link->record, "kind"), "ipoib") == 0)
		link_set_differences(restore, link, false, "ipoib", 0);
	/* After a reboot the host may have given the interface below it another MTU. */
	if (restore->same_boot || link->device)
		restore_number(restore, link, "mtu", IFLA_MTU);
	restore_number(restore, link, "queue", IFLA_TXQLEN);
	restore_number(restore, link, "group", IFLA_GROUP);
	current = netlink_text(link_attribute(link->now, IFLA_IFALIAS));
	if (!*alias || (current && strcmp(current, alias) == 0))
		return;
	request = link_change(restore, link->now);
	netlink_put(request, IFLA_IFALIAS, strlen(alias), alias);
	link_do(restore, link, request, "alias");
}

/* @drivers: those of devices, or those that a person made. */
static void restore_settings(struct links_restore *restore, bool drivers)
{
	for (size_t i = 0; i < restore->count; i++)
		if (!restore->links[i].device != drivers)
			restore_link(restore, &restore->links[i]);
	links_look(restore);
}

static void restore_flags(struct links_restore *restore)
{
	for (size_t i = 0; i < restore->count; i++) {
		const struct restored_link *link = &restore->links[i];
		uint64_t flags = 0;
		unsigned differences;

		if (!link->now || link->is_hosts ||
			record_get_u64(link->record, "flags", &flags) < 0)
			continue;
		differences = ((unsigned) flags ^ link->now->flags) & LINK_FLAGS;
		if (differences)
			link_set_flags(restore, link, (unsigned) flags, differences, "its flags");
	}
	links_look(restore);
}

/* ---- one pass */

/* Interfaces that the host has set up since it booted are left to the host. */
static void leave_the_hosts(struct links_restore *restore)
{
	for (size_t i = 0; !restore->same_boot && i < restore->count; i++) {
		struct restored_link *link = &restore->links[i];

		link->is_hosts |= link->now && ((link->now->flags & IFF_UP) || link->now->master);
	}
}

/*
 * Names first, for masters and rules know a port by its name; settings while an interface is down;
 * masters before addresses, which joining a VRF takes away.
 */
static int restore_all(struct links_restore *restore)
{
	if (await_links(restore) < 0)
		return restore->look_result;
	leave_the_hosts(restore);
	rename_links(restore);
	kill_point("network:links:named");
	restore_settings(restore, true);
	ethtool_restore(restore);
	dcb_restore(restore);
	links_make(restore);
	kill_point("network:links:made");
	sysctls_restore(restore);
	masters_restore(restore);
	kill_point("network:links:masters");
	restore_settings(restore, false);
	/* udev may have named one meanwhile; once it is up, older kernels refuse that. */
	rename_links(restore);
	restore_flags(restore);
	kill_point("network:links:up");
	replay_restore(restore, false);
	kill_point("network:links:addresses");
	replay_restore(restore, true);
	kill_point("network:links:routes");
	await_carriers(restore);
	masters_choose_ports(restore);
	dhcp_report(restore);
	for (size_t i = 0; i < restore->count; i++) {
		const struct restored_link *link = &restore->links[i];

		/* A name that was given after ours holds, but not in silence. */
		if (is_misnamed(link))
			run_failure(restore->run, "%s was renamed to %s meanwhile", link->name,
				link->now->name);
		restore->run->result->links += link->now != NULL;
	}
	return 0;
}

static void links_restore_free(struct links_restore *restore)
{
	link_table_free(&restore->now);
	netlink_close(&restore->netlink);
	free(restore->links);
}

/*
 * All of an absent interface stays, after a boot only while a device is left in the records: its
 * restore was cut short. Routes and rules that are back are forgotten already.
 */
static void keep_absent(struct links_restore *restore)
{
	struct statefile *records = restore->run->records;

	if (!restore->missing || (!restore->same_boot && !records_next(records, "device", NULL))) {
		records_forget(records, link_kinds, NULL, NULL);
		return;
	}
	for (size_t i = 0; i < records->count; i++) {
		const struct restored_link *link =
			restored_by_name(restore, record_get(&records->items[i], "link"));

		if (link && link->now)
			record_forget(&records->items[i]);
	}
	for (size_t i = 0; i < restore->count; i++)
		if (restore->links[i].now)
			(void) !record_set(restore->links[i].record, LINK_DONE, "1");
	records_sweep(records);
}

int links_restore(const struct run *run, struct error *error)
{
	_cleanup_(links_restore_free) struct links_restore restore = {
		.run = run, .same_boot = run_is_of_this_boot(run), .now_s = link_boottime_s()
	};
	int r = netlink_open(NETLINK_ROUTE, &restore.netlink, error);

	if (r < 0)
		return r;
	if (collect(&restore) < 0)
		return error_set_errno(error, -ENOMEM, "interfaces");
	if (restore.count && restore_all(&restore) < 0) {
		*error = restore.look_error;
		return restore.look_result;
	}
	keep_absent(&restore);
	return 0;
}

void links_restore_bond_macs(const struct run *run)
{
	_cleanup_(links_restore_free) struct links_restore restore = { .run = run };
	struct error ignored;

	if (netlink_open(NETLINK_ROUTE, &restore.netlink, &ignored) < 0 || collect(&restore) < 0 ||
		look(&restore) < 0)
		return;
	for (size_t i = 0; i < restore.count; i++) {
		const struct restored_link *link = &restore.links[i];

		if (strcmp(record_text(link->record, "kind"), "bond") == 0 && link->now &&
			link->now->index == link->old_index)
			restore_mac(&restore, link);
	}
}
