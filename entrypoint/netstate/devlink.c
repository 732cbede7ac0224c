/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/netstate/devlink.h"

#include <linux/devlink.h>
#include <linux/genetlink.h>
#include <stdlib.h>
#include <string.h>

#include "entrypoint/netstate/devlink_parts.h"

int devlink_open(struct devlink **ret, struct error *error)
{
	_cleanup_(devlink_close) struct devlink *devlink = calloc(1, sizeof(*devlink));
	int r;

	if (!devlink)
		return error_set_errno(error, -ENOMEM, "devlink");
	r = netlink_open(NETLINK_GENERIC, &devlink->netlink, error);
	if (r < 0)
		return r;
	r = netlink_family(devlink->netlink, DEVLINK_GENL_NAME, error);
	if (r < 0)
		return r;
	devlink->family = (uint16_t) r;
	*ret = TAKE_PTR(devlink);
	return 0;
}

void devlink_close(struct devlink **devlink)
{
	if (!*devlink)
		return;
	netlink_close(&(*devlink)->netlink);
	free(*devlink);
	*devlink = NULL;
}

struct nlmsghdr *devlink_request(
	struct devlink *devlink, uint8_t command, uint16_t flags, const char *device)
{
	struct nlmsghdr *message = netlink_request(devlink->netlink, devlink->family, flags);
	struct genlmsghdr *header = netlink_extra(message, sizeof(*header));
	char bus[DEVLINK_NAME_SIZE];
	char *slash;

	header->cmd = command;
	header->version = DEVLINK_GENL_VERSION;
	if (!device)
		return message;
	(void) snprintf(bus, sizeof(bus), "%s", device);
	slash = strchr(bus, '/');
	if (slash)
		*slash = '\0';
	mnl_attr_put_strz(message, DEVLINK_ATTR_BUS_NAME, bus);
	mnl_attr_put_strz(message, DEVLINK_ATTR_DEV_NAME, slash ? slash + 1 : "");
	return message;
}

int devlink_do(struct devlink *devlink, struct nlmsghdr *message, struct error *error)
{
	return netlink_talk(devlink->netlink, message, NULL, NULL, error);
}

bool devlink_copy_text(const struct nlattr *attribute, char *text, size_t size)
{
	if (mnl_attr_validate(attribute, MNL_TYPE_NUL_STRING) < 0 ||
		mnl_attr_get_payload_len(attribute) > size)
		return false;
	memcpy(text, mnl_attr_get_payload(attribute), mnl_attr_get_payload_len(attribute));
	return true;
}

bool devlink_get_number(const struct nlattr *attribute, uint32_t *number)
{
	switch (mnl_attr_get_payload_len(attribute)) {
	case sizeof(uint8_t):
		*number = mnl_attr_get_u8(attribute);
		return true;
	case sizeof(uint16_t):
		*number = mnl_attr_get_u16(attribute);
		return true;
	case sizeof(uint32_t):
		*number = mnl_attr_get_u32(attribute);
		return true;
	default:
		return false;
	}
}

void devlink_read_device(const struct nlmsghdr *message, char device[DEVLINK_NAME_SIZE])
{
	char bus[32] = "";
	char name[DEVLINK_NAME_SIZE - sizeof(bus)] = "";
	const struct nlattr *attribute;

	mnl_attr_for_each(attribute, message, sizeof(struct genlmsghdr))
	{
		if (mnl_attr_get_type(attribute) == DEVLINK_ATTR_BUS_NAME)
			(void) devlink_copy_text(attribute, bus, sizeof(bus));
		if (mnl_attr_get_type(attribute) == DEVLINK_ATTR_DEV_NAME)
			(void) devlink_copy_text(attribute, name, sizeof(name));
	}
	(void) snprintf(device, DEVLINK_NAME_SIZE, "%s/%s", bus, name);
}

/* ---- eswitch */

void devlink_read_eswitch(const struct nlmsghdr *message, struct devlink_eswitch *eswitch)
{
	const struct nlattr *attribute;
	uint32_t number;

	mnl_attr_for_each(attribute, message, sizeof(struct genlmsghdr))
	{
		if (!devlink_get_number(attribute, &number))
			continue;
		switch (mnl_attr_get_type(attribute)) {
		case DEVLINK_ATTR_ESWITCH_MODE:
			eswitch->has_mode = true;
			eswitch->mode = (uint16_t) number;
			break;
		case DEVLINK_ATTR_ESWITCH_INLINE_MODE:
			eswitch->has_inline = true;
			eswitch->inline_mode = (uint8_t) number;
			break;
		case DEVLINK_ATTR_ESWITCH_ENCAP_MODE:
			eswitch->has_encap = true;
			eswitch->encap_mode = (uint8_t) number;
			break;
		default:
			break;
		}
	}
}

static int keep_eswitch(void *context, const struct nlmsghdr *message)
{
	devlink_read_eswitch(message, context);
	return 0;
}

int devlink_eswitch_get(struct devlink *devlink, const char *device,
	struct devlink_eswitch *eswitch, struct error *error)
{
	struct nlmsghdr *message = devlink_request(devlink, DEVLINK_CMD_ESWITCH_GET, 0, device);

	*eswitch = (struct devlink_eswitch){ 0 };
	return netlink_talk(devlink->netlink, message, keep_eswitch, eswitch, error);
}

int devlink_eswitch_set_mode(
	struct devlink *devlink, const char *device, uint16_t mode, struct error *error)
{
	struct nlmsghdr *message = devlink_request(devlink, DEVLINK_CMD_ESWITCH_SET, 0, device);

	mnl_attr_put_u16(message, DEVLINK_ATTR_ESWITCH_MODE, mode);
	return devlink_do(devlink, message, error);
}

int devlink_eswitch_set_inline(
	struct devlink *devlink, const char *device, uint8_t mode, struct error *error)
{
	struct nlmsghdr *message = devlink_request(devlink, DEVLINK_CMD_ESWITCH_SET, 0, device);

	mnl_attr_put_u8(message, DEVLINK_ATTR_ESWITCH_INLINE_MODE, mode);
	return devlink_do(devlink, message, error);
}

int devlink_eswitch_set_encap(
	struct devlink *devlink, const char *device, uint8_t mode, struct error *error)
{
	struct nlmsghdr *message = devlink_request(devlink, DEVLINK_CMD_ESWITCH_SET, 0, device);

	mnl_attr_put_u8(message, DEVLINK_ATTR_ESWITCH_ENCAP_MODE, mode);
	return devlink_do(devlink, message, error);
}
