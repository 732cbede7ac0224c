/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Interfaces of PFs, VFs, representors and subfunctions, and what stands on them: the table of
 * those that there are now, and what the parts of saving and restoring share. In the state file,
 * which has records of several saves when runs were killed ("life" tells them apart, because what
 * an index meant is of one save):
 *
 *   link life index name [device port dev_port nth] [kind over data] mtu queue flags group …
 *   sysctls link ipv4.conf.rp_filter=2 …
 *   ethtool life link rings=6=1024 …
 *   dcb life link pfc=<hex> …
 *   address, route, …: the kernel's messages (replay.c)
 */
#pragma once

#include <linux/if.h>
#include <linux/if_link.h>
#include <stdbool.h>
#include <stdint.h>

#include "entrypoint/netstate/netlink_internal.h"
#include "entrypoint/netstate/netstate_internal.h"

#define LINK_ADDRESS_SIZE 32 /* MAX_ADDR_LEN of include/linux/netdevice.h */

/* Flags that a person can set. */
#define LINK_FLAGS (IFF_UP | IFF_PROMISC | IFF_ALLMULTI | IFF_NOARP | IFF_MULTICAST | IFF_DYNAMIC)

/* ---- the interfaces that there are now (link.c) */

struct link {
	uint32_t index;
	char name[IFNAMSIZ];
	unsigned flags; /* IFF_… */
	uint16_t type;  /* ARPHRD_… */
	uint32_t master;
	uint32_t lower; /* what it stands on (a VLAN's interface), in this namespace, or 0 */
	char kind[32];  /* "vlan", "bond" …, or "" */
	/* "pci/0000:3b:00.0", a subfunction's "pci/0000:3b:00.0/sf/88", or "" without a device. */
	char device[DEVICE_NAME_SIZE];
	char port[64];     /* phys_port_name, or "" */
	uint32_t dev_port; /* /sys/class/net/X/dev_port */
	uint32_t nth;      /* which one of those of which all of the above is equal */
	char module[64];   /* of the device's driver, or "" */
	/* NET_ADDR_PERM, _RANDOM, _STOLEN, _SET of include/uapi/linux/netdevice.h. */
	unsigned address_origin;
	bool is_unread;           /* what is in sysfs of it: its folder has another name by now */
	bool is_saved;            /* by this save */
	struct nlmsghdr *message; /* the kernel's whole message, owned */
};

struct link_table {
	struct link *items; /* by index */
	size_t count;
};

void link_table_free(struct link_table *table);
/*
 * Replaces what is in @table, which is empty at first and stays what it is on failure. @root_fd:
 * where sys/class/net is; what that has of an interface is read once, for it lasts as long as the
 * interface.
 */
int link_table_read(
	int root_fd, struct netlink *netlink, struct link_table *table, struct error *error);

/* These are NULL when there is none. */
struct link *link_by_index(const struct link_table *table, uint32_t index);
/* Altnames count. */
struct link *link_by_name(const struct link_table *table, const char *name);
/* Finds an interface by properties that last: device, port and which one of them (@nth). */
struct link *link_by_device(const struct link_table *table, const char *device, const char *port,
	uint32_t dev_port, uint32_t nth);
/*
 * The port whose label, of another driver, was @port: the device's only one with that @dev_port and
 * with a label where there was none, or the other way round. @is_any: its only one. NULL.
 */
struct link *link_by_relabelled(const struct link_table *table, const char *device,
	const char *port, uint32_t dev_port, bool is_any);
/* Is it, or what it stands on, of a driver that goes with the modules? @link may be NULL. */
bool link_goes(const struct strv *modules, const struct link_table *table, const struct link *link);
/* Is that the label of a device's own port ("", "p0"), not of what it has ports for ("pf0vf1")? */
bool link_port_is_own(const char *port);

/* Has it settings of a driver? What stands on another interface has none of its own; a
 * representor's are the eswitch's. */
bool link_has_settings(const struct link *link);

/* An attribute of RTM_NEWLINK, or one inside IFLA_LINKINFO; NULL. Valid as long as the link. */
const struct nlattr *link_attribute(const struct link *link, uint16_t type);
const struct nlattr *link_info_attribute(const struct link *link, uint16_t type);

/* ---- saving */

struct links_save {
	const struct run *run;
	struct netlink *netlink;
	struct link_table table;
	struct link **order; /* those that are saved, a lower one before what stands on it */
	size_t count;
	char life[24]; /* of the records */
};

bool links_save_has(const struct links_save *save, uint32_t index);

int sysctls_save(const struct links_save *save); /* -ENOMEM */
/* Who listens on them: -ENOMEM (dhcp.c). */
int dhcp_save(const struct links_save *save);
int ethtool_save(const struct links_save *save, struct error *error);
int dcb_save(const struct links_save *save); /* -ENOMEM */
/* Addresses, neighbours, routes and what else goes with an interface as messages (replay.c). */
int replay_save(const struct links_save *save, struct error *error);

/* ---- restoring */

/* One link record, and what it is today. */
struct restored_link {
	struct record *record;
	const char *name;
	const char *device;                /* NULL: made by a person, not by a driver */
	const char *over;                  /* what it stands on, or NULL */
	const struct restored_link *lower; /* … of those that are saved, or NULL */
	uint64_t life;
	uint64_t old_index;
	struct link *now; /* NULL: it is not there */
	/*
	 * The host's own configuration has set it up after a reboot, or an earlier run has restored
	 * it: nothing of it is changed, nor is it missing when it is gone.
	 */
	bool is_hosts;
	bool is_managed;  /* addresses and routes are its manager's to give again */
	bool is_tried;    /* it was not there, and was made, or could not be */
	bool is_misnamed; /* its name could not be restored, which was reported */
};

struct links_restore {
	const struct run *run;
	struct netlink *netlink;
	struct link_table now;
	struct restored_link *links;
	size_t count;
	size_t missing;          /* how many of them did not come */
	int look_result;         /* of the last look, … */
	struct error look_error; /* … and why, when that failed */
	bool same_boot;
	bool is_late;   /* what has not come by now has another number, or does not come */
	uint64_t now_s; /* CLOCK_BOOTTIME, to which a lifetime's end is compared */
};

uint64_t link_boottime_s(void);
/* NULL: no link of that name, or @name is NULL. */
struct restored_link *restored_by_name(const struct links_restore *restore, const char *name);
/*
 * Translates an index in a record to the current one, or 0. An interface that was not saved keeps
 * its index during one boot.
 */
uint32_t restored_index(
	const struct links_restore *restore, const struct record *record, uint32_t old_index);
/* Reads the table anew, and what each is in it; a failure is reported. */
void links_look(struct links_restore *restore);

/* Looks anew: has one that had a carrier, and is up, none now? */
bool links_lack_carrier(struct links_restore *restore);

/*
 * A message with the bytes of a record's field as its attributes, behind so many that are zero;
 * NULL: there are none, or they are damaged. To be freed.
 */
struct nlmsghdr *record_message(const struct record *record, const char *field, size_t before);

/* A new RTM_NEWLINK for an interface that is there. */
struct nlmsghdr *link_change(const struct links_restore *restore, const struct link *now);
/* Sends it; a refusal is reported, with @what of which interface it was. */
void link_do(const struct links_restore *restore, const struct restored_link *link,
	struct nlmsghdr *request, const char *what);
void link_set_flags(const struct links_restore *restore, const struct restored_link *link,
	unsigned flags, unsigned mask, const char *what);
/*
 * Restores settings of the interface's own kind ("bond", "ipoib"), or as a port of such a master:
 * one by one, and only those that differ. @only: that attribute alone; 0: all.
 */
void link_set_differences(const struct links_restore *restore, const struct restored_link *link,
	bool is_port, const char *kind, uint16_t only);

/* Makes what stood on other interfaces and went with them (link_master.c). */
void links_make(struct links_restore *restore);
/* Masters, ports' settings and a master's active port (link_master.c). */
void masters_restore(struct links_restore *restore);
void masters_choose_ports(struct links_restore *restore);
void sysctls_restore(const struct links_restore *restore);
/* At the end, when a client has had the time to notice: which has not (dhcp.c). */
void dhcp_report(const struct links_restore *restore);
/* While interfaces are down: some drivers want that, others begin anew for it. */
void ethtool_restore(const struct links_restore *restore);
/* After the MTU and ethtool's pause, which its buffers and PFC go by. */
void dcb_restore(const struct links_restore *restore);
/* Addresses, and what needs no other thing; or (@is_late) nexthops, routes and rules. */
void replay_restore(struct links_restore *restore, bool is_late);
