/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A netlink socket by libmnl: requests and dumps with the kernel's own words for a refusal
 * (extended acknowledgements), and generic netlink families by name (devlink, ethtool).
 */
#pragma once

#include <libmnl/libmnl.h>
#include <stdint.h>

#include "common/cleanup.h"
#include "common/error.h"

struct netlink;

/* @protocol: NETLINK_ROUTE, NETLINK_RDMA. */
int netlink_open(int protocol, struct netlink **ret, struct error *error);
/* Generic netlink of that family; -ENOENT when the kernel lacks it. */
int netlink_open_family(const char *name, struct netlink **ret, struct error *error);
void netlink_close(struct netlink **netlink);

/*
 * A new request in the socket's own buffer, valid until the next one, with a header of so many
 * bytes that are zero, or one of the family and version 1. Attributes of a fixed size are put by
 * mnl_attr_put_*(), others by netlink_put().
 */
struct nlmsghdr *netlink_request(
	struct netlink *netlink, uint16_t type, uint16_t flags, size_t header_size);
/* One about an interface, whose header is struct ifinfomsg. */
struct nlmsghdr *netlink_link_request(
	struct netlink *netlink, uint16_t type, uint16_t flags, uint32_t index);
struct nlmsghdr *netlink_command(struct netlink *netlink, uint8_t command, uint16_t flags);

/* An attribute of any size: for one that does not fit netlink_talk() returns -EMSGSIZE. */
void netlink_put(struct nlmsghdr *request, uint16_t type, size_t size, const void *data);
void netlink_put_text(struct nlmsghdr *request, uint16_t type, const char *text);
void netlink_put_copy(struct nlmsghdr *request, const struct nlattr *attribute);

/* Called for each message of an answer; negative ends it with that code. */
typedef int netlink_callback(void *context, const struct nlmsghdr *message);

/*
 * Sends, and waits for the acknowledgement or the end of a dump. 0, or the kernel's negative errno
 * with its words in @error. @callback may be NULL; it is called when the answer is complete, and
 * may ask on the same socket. A dump that the kernel says was interrupted by a change is asked for
 * again, a few times; -EAGAIN when that is not enough.
 */
int netlink_talk(struct netlink *netlink, struct nlmsghdr *request, netlink_callback *callback,
	void *context, struct error *error);

/* ---- attributes */

#define BIT(type) (UINT64_C(1) << (type)) /* of a set of types below 64 */

/* One behind a message's header, or inside of another attribute; these may be NULL. NULL: none. */
const struct nlattr *netlink_attribute(
	const struct nlmsghdr *message, size_t header_size, uint16_t type);
const struct nlattr *netlink_nested(const struct nlattr *nest, uint16_t type);
/* Its value, of one, two or four bytes: 0 without it. */
uint32_t netlink_number(const struct nlattr *attribute);
/* Its text; NULL: without it, or it does not end. */
const char *netlink_text(const struct nlattr *attribute);
/* Copies its text, "" where it has none, cut to the size. */
void netlink_copy_text(const struct nlattr *attribute, char *text, size_t size);
/* Is its payload just that? */
bool netlink_is(const struct nlattr *attribute, const void *data, size_t size);
/* Its payload, if that has at least so many bytes; else, or without it, NULL. */
const void *netlink_payload(const struct nlattr *attribute, size_t size);

/* ---- waiting for a device or an interface */

typedef bool netlink_condition(void *context);

#define UEVENTS 1 /* the kernel's; udev's are in group 2 */

/*
 * True as soon as the condition holds, which is asked at once and after each event of NETLINK_ROUTE
 * (@groups: RTMGRP_…) or NETLINK_KOBJECT_UEVENT (UEVENTS); false after @timeout_ms. Twice a second
 * it is asked anew, for what sends no event (a devlink instance).
 */
bool netlink_wait(int protocol, uint32_t groups, uint32_t timeout_ms, netlink_condition *condition,
	void *context);
