/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of devlink.h share. */
#pragma once

#include "entrypoint/netstate/devlink.h"
#include "entrypoint/netstate/netlink.h"

struct devlink {
	struct netlink *netlink;
	uint16_t family;
};

/* @device: NULL for all. */
struct nlmsghdr *devlink_request(
	struct devlink *devlink, uint8_t command, uint16_t flags, const char *device);
/* A request whose answer is an acknowledgement. */
int devlink_do(struct devlink *devlink, struct nlmsghdr *message, struct error *error);

/* "bus/name" of a message. */
void devlink_read_device(const struct nlmsghdr *message, char device[DEVLINK_NAME_SIZE]);
/* False: no string that ends, or one too long. */
bool devlink_copy_text(const struct nlattr *attribute, char *text, size_t size);
/* Of one, two or four bytes. */
bool devlink_get_number(const struct nlattr *attribute, uint32_t *number);
