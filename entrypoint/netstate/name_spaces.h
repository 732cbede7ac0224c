/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Interfaces of devices that are in other network name spaces than this one: a pod's, into which a
 * CNI has moved them. Seen are those name spaces that have a number here, which any pod with a veth
 * pair to this one has, and those of processes that are seen (hostPID). Source: Linux
 * net/core/net_namespace.c (RTM_GETNSID), rtnetlink.c (IFLA_TARGET_NETNSID, since 4.20, and
 * IFLA_PARENT_DEV_NAME, since 5.14: before those nothing is seen).
 */
#pragma once

#include <linux/if.h>
#include <stddef.h>

#include "entrypoint/engine/pod.h"
#include "entrypoint/netstate/devlink.h"

struct away_link {
	char device[DEVLINK_NAME_SIZE]; /* "pci/0000:3b:00.2" */
	char name[IFNAMSIZ];            /* as that name space has it */
	char where[POD_TEXT_SIZE];      /* "pod jobs/trainer-0, container …"; "": nobody knows */
};

struct away_links {
	struct away_link *items;
	size_t count;
};

/* Looks; what cannot be seen is left out. -ENOMEM. The caller frees items. */
int name_spaces_look(int root_fd, struct away_links *links);

/* What one message of another name space says: appends a device's interface. For tests. */
struct nlmsghdr;
int name_spaces_take(struct away_links *links, const struct nlmsghdr *message, const char *where);
