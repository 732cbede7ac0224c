/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interfaces that there are now, with what says which one it is after its driver was gone: the
 * device that it belongs to, by a name that lasts, and its port there.
 */
#pragma once

#include <linux/if.h>
#include <stdbool.h>
#include <stdint.h>

#include "entrypoint/netstate/netlink.h"

#define LINK_DEVICE_SIZE  128
#define LINK_ADDRESS_SIZE 32 /* MAX_ADDR_LEN of include/linux/netdevice.h */

struct link_address {
	uint8_t bytes[LINK_ADDRESS_SIZE];
	size_t size;
};

struct link {
	uint32_t index;
	char name[IFNAMSIZ];
	unsigned flags; /* IFF_… */
	uint16_t type;  /* ARPHRD_… */
	uint32_t master;
	uint32_t lower; /* what it stands on (a VLAN's interface), in this name space, or 0 */
	char kind[32];  /* "vlan", "bond" …, or "" */
	/* "pci/0000:3b:00.0", a subfunction's "pci/0000:3b:00.0/sf/88", or "" without a device. */
	char device[LINK_DEVICE_SIZE];
	char port[64];     /* phys_port_name, or "" */
	uint32_t dev_port; /* /sys/class/net/X/dev_port */
	uint32_t nth;      /* which one of those of which all of the above is equal */
	char module[64];   /* of the device's driver, or "" */
	struct link_address address;
	struct link_address permanent; /* size 0: the kernel does not say */
	/* NET_ADDR_PERM, _RANDOM, _STOLEN, _SET of include/uapi/linux/netdevice.h. */
	unsigned address_origin;
	struct nlmsghdr *message; /* the kernel's whole word, owned */
};

struct link_table {
	struct link *items; /* by index */
	size_t count;
};

void link_table_free(struct link_table *table);

/*
 * Replaces what is in @table, which is empty at first. @root_fd: where sys/class/net is; what that
 * says of an interface is read once, for it lasts as long as the interface.
 */
int link_table_read(
	int root_fd, struct netlink *netlink, struct link_table *table, struct error *error);

/*
 * The name that lasts of the device that is behind an entry of a class, whose folder is open: ""
 * without one.
 */
void link_device_of(int dir_fd, char device[LINK_DEVICE_SIZE]);

/* NULL when there is none. */
const struct link *link_by_index(const struct link_table *table, uint32_t index);
/* Of an interface that was renamed since the table was read. */
void link_table_rename(struct link_table *table, uint32_t index, const char *name);
/* Altnames count. */
const struct link *link_by_name(const struct link_table *table, const char *name);
/* By what lasts: device, port and which one of them. */
const struct link *link_by_device(const struct link_table *table, const char *device,
	const char *port, uint32_t dev_port, uint32_t nth);

/* Is that the label of a device's own port ("", "p0"), not of what it has ports for ("pf0vf1")? */
bool link_port_is_own(const char *port);
/* Can two labels be one port's, of which one driver has a label for it and the other has none? */
bool link_port_is_relabelled(const char *one, const char *other);
/*
 * The port whose label, of another driver, was @port: the device's only one with that @dev_port and
 * with a label where there was none, or the other way round. @is_any: its only one. NULL.
 */
const struct link *link_by_relabelled(const struct link_table *table, const char *device,
	const char *port, uint32_t dev_port, bool is_any);

/* An attribute of RTM_NEWLINK, or one inside IFLA_LINKINFO; NULL. Valid as long as the link. */
const struct nlattr *link_attribute(const struct link *link, uint16_t type);
const struct nlattr *link_info_attribute(const struct link *link, uint16_t type);
