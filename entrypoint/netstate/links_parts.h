/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the parts of links.h share. Records of a save, of which a journal has several when lives
 * were cut short; "life" tells them apart, because what an index meant is of one save.
 *
 *   link life index name [device port dev_port nth] [kind over data] mtu queue flags group …
 *   sysctls link ipv4.conf.rp_filter=2 …
 *   address link text raw          raw: the kernel's message behind its header
 *   route, rule, neighbour, nexthop, bridge-vlan      likewise
 */
#pragma once

#include "entrypoint/netstate/link_table.h"
#include "entrypoint/netstate/links.h"
#include "entrypoint/netstate/tell.h"

/* Flags that a person can set. */
#define LINKS_FLAGS (IFF_UP | IFF_PROMISC | IFF_ALLMULTI | IFF_NOARP | IFF_MULTICAST | IFF_DYNAMIC)

/* Field of a record that an earlier life has brought back; the record is kept for what others stand
 * on. */
#define LINKS_DONE "done"

/* Of a route that an earlier try brought back without some of its paths. */
#define LINKS_IN_PART "part"

/* ---- saving */

struct saved_links {
	const struct network *network;
	struct netlink *netlink;
	struct link_table table;
	uint32_t *order; /* indexes of those that are saved, a lower one before what stands on it */
	size_t count;
	struct statefile *records;
	uint64_t life;
	struct statefile usual; /* a new interface's sysctls, a record for each folder of them */
	struct sysctl_groups *groups;
};

bool saved_links_has(const struct saved_links *saved, uint32_t index);

int link_record_add(const struct saved_links *saved, const struct link *link, struct error *error);
void sysctl_groups_free(struct sysctl_groups **groups);
int sysctls_save(struct saved_links *saved, const struct link *link, struct error *error);
/* After the links' own records, which get them. */
int tokens_save(struct saved_links *saved, struct error *error);
/* Of drivers' interfaces but representors. (links_ethtool.c) */
int ethtool_save(const struct saved_links *saved, struct error *error);
int addresses_save(const struct saved_links *saved, struct error *error);
/* Nexthops, routes and rules: of addresses that were saved before, too. */
int routes_save(const struct saved_links *saved, struct error *error);
int neighbours_save(const struct saved_links *saved, struct error *error);
int bridge_ports_save(const struct saved_links *saved, struct error *error);

/* A record with a message's payload as "raw", and of which life it is; NULL without memory. */
struct record *links_raw_record(
	const struct saved_links *saved, const char *kind, const struct nlmsghdr *message);

/* ---- restoring */

struct links_restore;

/* The message of a record's "raw" again, its header of @header_size at least; NULL: it is damaged.
 */
struct nlmsghdr *links_raw_message(const struct record *record, size_t header_size);
/* Can what a link's record says go into requests: is it as long as the kernel takes it at most? */
bool link_record_is_sound(const struct record *record);
/* Tells that a record cannot be used. */
void links_damaged(const struct links_restore *restore, const struct record *record);

/* Attributes that a record has as bytes. */
struct attributes {
	char *data; /* NULL: there are none, or they are damaged */
	size_t size;
};

#define attributes_for_each(attribute, attributes)                                                 \
	for ((attribute) = (const struct nlattr *) (const void *) (attributes)->data;              \
		(attribute) &&                                                                     \
		mnl_attr_ok((attribute), (int) ((attributes)->data + (attributes)->size -          \
						 (const char *) (attribute)));                     \
		(attribute) = mnl_attr_next(attribute))

void attributes_free(struct attributes *attributes);
struct attributes record_attributes(const struct record *record, const char *name);
const struct nlattr *attributes_find(const struct attributes *attributes, uint16_t type);

uint64_t links_boottime_s(void);
/* An attribute behind a message's header; NULL. */
const struct nlattr *links_attribute(
	const struct nlmsghdr *message, size_t header_size, uint16_t type);
/* Puts a copy of an attribute; false when there is no room. */
bool links_copy(struct nlmsghdr *request, const struct nlattr *attribute);

/* One link record, and what it is today. */
struct restored_link {
	const struct record *record;
	const char *name;
	const char *device; /* NULL: made by a person, not by a driver */
	uint64_t life;
	uint64_t old_index;
	uint32_t index; /* 0: it is not there */
	/* After a reboot: the host's own configuration has set it up, nothing of it is changed. */
	bool is_hosts;
	bool is_tried;    /* it was not there, and was made, or could not be */
	bool is_misnamed; /* its name could not be given back, which was told */
};

struct links_restore {
	const struct network *network;
	struct statefile *records;
	struct network_result *result;
	struct netlink *netlink;
	struct link_table now;
	struct restored_link *links;
	size_t count;
	bool same_boot;
	bool is_late;   /* what has not come by now has another number, or does not come */
	uint64_t now_s; /* CLOCK_BOOTTIME, to which a lifetime's end is compared */
};

struct restored_link *restored_by_name(const struct links_restore *restore, const char *name);
/* What an index of a save means today, or 0. One that was not saved means the same in this boot. */
uint32_t restored_index(const struct links_restore *restore, uint64_t life, uint32_t old_index);
/* What the table says of it now; NULL when it is not there. */
const struct link *restored_now(
	const struct links_restore *restore, const struct restored_link *link);
/* Reads the table anew. */
int restore_look(struct links_restore *restore, struct error *error);

/* A new RTM_NEWLINK for the interface. */
struct nlmsghdr *links_change(const struct links_restore *restore, uint32_t index);
/* Sends it; a refusal is told, with @what of which interface it was. Returns the code. */
int links_do(const struct links_restore *restore, const struct restored_link *link,
	struct nlmsghdr *request, const char *what);
int link_set_flags(const struct links_restore *restore, const struct restored_link *link,
	unsigned flags, unsigned mask, const char *what);

/* Waits for the interfaces of devices, and gives all of them their names. */
int links_await(struct links_restore *restore, struct error *error);
void links_rename(struct links_restore *restore);
/* MAC, MTU, queue length, group, alias, altnames, what its kind has of settings. */
void link_settings_restore(struct links_restore *restore, const struct restored_link *link);
/* Makes what stood on other interfaces and went with them. */
void links_make(struct links_restore *restore);
/* Masters, ports' settings and a master's active port. */
void masters_restore(struct links_restore *restore);
void masters_choose_active(struct links_restore *restore);
void bridge_ports_restore(struct links_restore *restore);
void sysctls_restore(struct links_restore *restore);
/* While interfaces are down: some drivers want that, others begin anew for it. */
void ethtool_restore(const struct links_restore *restore);
/* Before an interface is up: addresses are made of them then. After the sysctls that allow it. */
void tokens_restore(const struct links_restore *restore);
void addresses_restore(struct links_restore *restore);
void neighbours_restore(struct links_restore *restore);
void routes_restore(struct links_restore *restore);
