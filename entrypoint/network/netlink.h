/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A netlink socket by libmnl: requests and dumps with the kernel's own words for a refusal
 * (extended acknowledgements), and generic netlink families by name (devlink). Runs in workers.
 */
#pragma once

#include <libmnl/libmnl.h>
#include <stdint.h>

#include "common/cleanup.h"
#include "common/error.h"

struct netlink;

/* @protocol: NETLINK_ROUTE, NETLINK_GENERIC. */
int netlink_open(int protocol, struct netlink **ret, struct error *error);
void netlink_close(struct netlink **netlink);

/*
 * A new request in the socket's own buffer, valid until the next one: attributes are put by
 * mnl_attr_put_*() behind what netlink_extra() adds.
 */
struct nlmsghdr *netlink_request(struct netlink *netlink, uint16_t type, uint16_t flags);
void *netlink_extra(struct nlmsghdr *message, size_t size);

/* Called for each message of an answer; negative ends it with that code. */
typedef int netlink_callback(void *context, const struct nlmsghdr *message);

/*
 * Sends, and waits for the acknowledgement or the end of a dump. 0, or the kernel's negative errno
 * with its words in @error. @callback may be NULL. A dump that the kernel says was interrupted by a
 * change is asked for again, a few times.
 */
int netlink_talk(struct netlink *netlink, struct nlmsghdr *request, netlink_callback *callback,
	void *context, struct error *error);

/* Generic netlink: the family's number by its name; -ENOENT when the kernel lacks it. */
int netlink_family(struct netlink *netlink, const char *name, struct error *error);
