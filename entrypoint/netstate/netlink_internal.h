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

/* A request's most, all attributes of it: mnl_attr_put_*() do not look, mnl_attr_put_*_check() do.
 */
#define NETLINK_REQUEST_SIZE ((size_t) 128 << 10)

/*
 * A new request in the socket's own buffer, valid until the next one: attributes of a fixed size
 * are put by mnl_attr_put_*() behind what netlink_extra() adds, others by netlink_put().
 */
struct nlmsghdr *netlink_request(struct netlink *netlink, uint16_t type, uint16_t flags);
void *netlink_extra(struct nlmsghdr *message, size_t size);

/* An attribute of any size: for one that does not fit netlink_talk() says -EMSGSIZE. */
void netlink_put(struct nlmsghdr *request, uint16_t type, size_t size, const void *data);
void netlink_put_text(struct nlmsghdr *request, uint16_t type, const char *text);

/* Called for each message of an answer; negative ends it with that code. */
typedef int netlink_callback(void *context, const struct nlmsghdr *message);

/*
 * Sends, and waits for the acknowledgement or the end of a dump. 0, or the kernel's negative errno
 * with its words in @error. @callback may be NULL; it is called when the answer is complete, so
 * that it may ask for other things on the same socket. A dump that the kernel says was interrupted
 * by a change is asked for again, a few times; -EAGAIN when that is not enough.
 */
int netlink_talk(struct netlink *netlink, struct nlmsghdr *request, netlink_callback *callback,
	void *context, struct error *error);

/* Generic netlink: the family's number by its name; -ENOENT when the kernel lacks it. */
int netlink_family(struct netlink *netlink, const char *name, struct error *error);

/*
 * Notifications (RTNLGRP_LINK): on a socket of their own, for netlink_talk() drops what it meets.
 */
int netlink_join(struct netlink *netlink, unsigned group, struct error *error);
/*
 * Waits at most @timeout_ms for notifications, and drops them. 0 when the time is over, 1 when
 * there were some: look at the state of things after every return.
 */
int netlink_wait(struct netlink *netlink, uint32_t timeout_ms, struct error *error);

/* ---- attributes */

/* One behind a message's header, or inside of another attribute, which may be NULL. NULL: none. */
const struct nlattr *netlink_attribute(
	const struct nlmsghdr *message, size_t header_size, uint16_t type);
const struct nlattr *netlink_nested(const struct nlattr *nest, uint16_t type);
/* Its value, of four bytes: 0 without it. */
uint32_t netlink_number(const struct nlattr *attribute);
/* Its text; NULL: without it, or it does not end. */
const char *netlink_text(const struct nlattr *attribute);
/* Puts a copy; false when there is no room. */
bool netlink_copy(struct nlmsghdr *request, const struct nlattr *attribute);

/* ---- uevents: waiting for a device or an interface to come */

/* Listens from now on: to be opened before what is waited for is set off. -1: cannot be had. */
int uevents_open(void);

typedef bool uevents_condition(void *context);

/*
 * True as soon as the condition holds, which is asked at once and after each event; false after
 * @timeout_ms. Twice a second it is asked anew, for what sends no event (a devlink instance).
 */
bool uevents_wait(int fd, uint32_t timeout_ms, uevents_condition *condition, void *context);
