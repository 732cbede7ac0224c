/* SPDX-License-Identifier: Apache-2.0 */
/* Rates of ports of VFs and subfunctions, and the nodes that they share. */
#include <linux/devlink.h>
#include <linux/genetlink.h>
#include <linux/netlink.h>
#include <string.h>

#include "entrypoint/netstate/devlink_parts.h"

struct rate_reader {
	devlink_rate_callback *callback;
	void *context;
};

static uint64_t rate_of(const struct nlattr *attribute)
{
	return mnl_attr_get_payload_len(attribute) == sizeof(uint64_t) ? mnl_attr_get_u64(attribute)
								       : 0;
}

void devlink_read_rate(
	const struct nlmsghdr *message, char device[DEVLINK_NAME_SIZE], struct devlink_rate *rate)
{
	const struct nlattr *attribute;

	*rate = (struct devlink_rate){ 0 };
	devlink_read_device(message, device);
	mnl_attr_for_each(attribute, message, sizeof(struct genlmsghdr))
	{
		switch (mnl_attr_get_type(attribute)) {
		case DEVLINK_ATTR_PORT_INDEX:
			(void) devlink_get_number(attribute, &rate->port_index);
			break;
		case DEVLINK_ATTR_RATE_NODE_NAME:
			(void) devlink_copy_text(attribute, rate->node, sizeof(rate->node));
			break;
		case DEVLINK_ATTR_RATE_PARENT_NODE_NAME:
			(void) devlink_copy_text(attribute, rate->parent, sizeof(rate->parent));
			break;
		case DEVLINK_ATTR_RATE_TX_SHARE:
			rate->share = rate_of(attribute);
			break;
		case DEVLINK_ATTR_RATE_TX_MAX:
			rate->max = rate_of(attribute);
			break;
		default:
			break;
		}
	}
}

static int pass_rate(void *context, const struct nlmsghdr *message)
{
	const struct rate_reader *reader = context;
	char device[DEVLINK_NAME_SIZE];
	struct devlink_rate rate;

	devlink_read_rate(message, device, &rate);
	return reader->callback(reader->context, device, &rate);
}

int devlink_rates(struct devlink *devlink, const char *device, devlink_rate_callback *callback,
	void *context, struct error *error)
{
	struct rate_reader reader = { callback, context };
	struct nlmsghdr *message =
		devlink_request(devlink, DEVLINK_CMD_RATE_GET, NLM_F_DUMP, device);

	return netlink_talk(devlink->netlink, message, pass_rate, &reader, error);
}

int devlink_rate_add_node(
	struct devlink *devlink, const char *device, const char *node, struct error *error)
{
	struct nlmsghdr *message = devlink_request(devlink, DEVLINK_CMD_RATE_NEW, 0, device);

	mnl_attr_put_strz(message, DEVLINK_ATTR_RATE_NODE_NAME, node);
	return devlink_do(devlink, message, error);
}

int devlink_rate_set(struct devlink *devlink, const char *device, const struct devlink_rate *rate,
	enum devlink_rate_part part, struct error *error)
{
	struct nlmsghdr *message = devlink_request(devlink, DEVLINK_CMD_RATE_SET, 0, device);

	if (*rate->node)
		mnl_attr_put_strz(message, DEVLINK_ATTR_RATE_NODE_NAME, rate->node);
	else
		mnl_attr_put_u32(message, DEVLINK_ATTR_PORT_INDEX, rate->port_index);
	if (part == DEVLINK_RATE_SHARE)
		mnl_attr_put_u64(message, DEVLINK_ATTR_RATE_TX_SHARE, rate->share);
	else if (part == DEVLINK_RATE_MAX)
		mnl_attr_put_u64(message, DEVLINK_ATTR_RATE_TX_MAX, rate->max);
	else
		mnl_attr_put_strz(message, DEVLINK_ATTR_RATE_PARENT_NODE_NAME, rate->parent);
	return devlink_do(devlink, message, error);
}
