/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The devlink state of a network device, which is lost with its driver: the eswitch's modes,
 * parameters, ports of subfunctions. Source of the messages: Linux include/uapi/linux/devlink.h and
 * net/devlink.
 */
#include <linux/devlink.h>
#include <linux/genetlink.h>
#include <stdlib.h>
#include <string.h>

#include "entrypoint/netstate/device_internal.h"

/* ---- messages of the kernel */

/* One VALUE: its mode, and its data, whose absence is a flag that is not set. */
static bool read_value(const struct nlattr *nest, struct device_param *param)
{
	const struct nlattr *mode = netlink_nested(nest, DEVLINK_ATTR_PARAM_VALUE_CMODE);
	const struct nlattr *data = netlink_nested(nest, DEVLINK_ATTR_PARAM_VALUE_DATA);

	if (!mode || (!data && param->type != PARAM_FLAG) ||
		(data && param->type != PARAM_STRING &&
			mnl_attr_get_payload_len(data) > sizeof(uint32_t)))
		return false;
	param->mode = (uint8_t) netlink_number(mode);
	if (param->type == PARAM_STRING)
		netlink_copy_text(data, param->value, sizeof(param->value));
	else
		(void) snprintf(param->value, sizeof(param->value), "%u",
			param->type == PARAM_FLAG ? data != NULL : netlink_number(data));
	return true;
}

/* Permanent values are the firmware's, which keeps them. */
static int take_param(const struct nlattr *nest, struct device *device)
{
	const struct nlattr *values = netlink_nested(nest, DEVLINK_ATTR_PARAM_VALUES_LIST);
	struct device_param param = {
		.type = (uint8_t) netlink_number(netlink_nested(nest, DEVLINK_ATTR_PARAM_TYPE)),
	};
	const struct nlattr *value;

	netlink_copy_text(
		netlink_nested(nest, DEVLINK_ATTR_PARAM_NAME), param.name, sizeof(param.name));
	if (!values || !*param.name)
		return 0;
	mnl_attr_for_each_nested(value, values)
	{
		struct device_param *added;

		if (!read_value(value, &param) || param.mode == DEVLINK_PARAM_CMODE_PERMANENT)
			continue;
		added = array_add(&device->params, &device->param_count, sizeof(*added));
		if (!added)
			return -ENOMEM;
		*added = param;
	}
	return 0;
}

static int take_port(const struct nlmsghdr *message, struct device *device)
{
	struct device_sf *sf = array_add(&device->sfs, &device->sf_count, sizeof(*sf));
	const struct nlattr *attribute;
	const struct nlattr *nest;

	if (!sf)
		return -ENOMEM;
	mnl_attr_for_each(attribute, message, sizeof(struct genlmsghdr))
	{
		device_take(attribute, device, sf);
	}
	nest = netlink_attribute(message, sizeof(struct genlmsghdr), DEVLINK_ATTR_PORT_FUNCTION);
	attribute = netlink_nested(nest, DEVLINK_PORT_FUNCTION_ATTR_HW_ADDR);
	if (attribute && mnl_attr_get_payload_len(attribute) <= sizeof(sf->address)) {
		sf->address_size = mnl_attr_get_payload_len(attribute);
		memcpy(sf->address, mnl_attr_get_payload(attribute), sf->address_size);
	}
	attribute = netlink_nested(nest, DEVLINK_PORT_FN_ATTR_STATE);
	if (attribute) {
		sf->known |= SF_STATE;
		sf->is_active = netlink_number(attribute) == DEVLINK_PORT_FN_STATE_ACTIVE;
	}
	return 0;
}

/* Does an attribute about rates bound anything? */
static bool is_rate(const struct nlattr *attribute)
{
	static const char none[sizeof(uint64_t)];
	size_t size = mnl_attr_get_payload_len(attribute);

	switch (mnl_attr_get_type(attribute)) {
	case DEVLINK_ATTR_RATE_NODE_NAME:
	case DEVLINK_ATTR_RATE_PARENT_NODE_NAME:
		return true;
	case DEVLINK_ATTR_RATE_TX_SHARE:
	case DEVLINK_ATTR_RATE_TX_MAX:
		return size <= sizeof(none) &&
		       memcmp(mnl_attr_get_payload(attribute), none, size) != 0;
	default:
		return false;
	}
}

/* Ignores a device that is not in the list. */
int devlink_take(void *list, const struct nlmsghdr *message)
{
	const size_t header = sizeof(struct genlmsghdr);
	const char *bus = netlink_text(netlink_attribute(message, header, DEVLINK_ATTR_BUS_NAME));
	const char *part = netlink_text(netlink_attribute(message, header, DEVLINK_ATTR_DEV_NAME));
	const struct nlattr *attribute;
	char name[DEVICE_NAME_SIZE];
	struct device *device;
	int r = 0;

	(void) snprintf(name, sizeof(name), "%s/%s", bus ? bus : "", part ? part : "");
	device = device_list_find(list, name);
	if (!device)
		return 0;
	mnl_attr_for_each(attribute, message, header)
	{
		uint16_t type = mnl_attr_get_type(attribute);

		device_take(attribute, device, NULL);
		device->has_rates = device->has_rates || is_rate(attribute);
		if (type == DEVLINK_ATTR_PARAM)
			r = take_param(attribute, device);
		else if (type == DEVLINK_ATTR_PORT_FLAVOUR &&
			 netlink_number(attribute) == DEVLINK_PORT_FLAVOUR_PCI_SF)
			r = take_port(message, device);
		if (r < 0)
			return r;
	}
	return 0;
}

/* ---- requests */

/* @device: NULL for all. */
static struct nlmsghdr *request(
	struct netlink *devlink, uint8_t command, uint16_t flags, const char *device)
{
	struct nlmsghdr *message = netlink_command(devlink, command, flags);
	const char *slash = device ? strchr(device, '/') : NULL;
	char bus[DEVICE_NAME_SIZE];

	if (!slash)
		return message;
	(void) snprintf(bus, sizeof(bus), "%.*s", (int) (slash - device), device);
	mnl_attr_put_strz(message, DEVLINK_ATTR_BUS_NAME, bus);
	mnl_attr_put_strz(message, DEVLINK_ATTR_DEV_NAME, slash + 1);
	return message;
}

/* Kernels that filter dumps of ports (6.5 and later) do so by the device; others list all. */
int devlink_ask(struct netlink *devlink, uint8_t command, const char *device,
	struct device_list *list, struct error *error)
{
	bool is_dump = !device || command == DEVLINK_CMD_PORT_GET;

	return netlink_talk(devlink, request(devlink, command, is_dump ? NLM_F_DUMP : 0, device),
		devlink_take, list, error);
}

int devlink_eswitch_set(struct netlink *devlink, const char *device, uint16_t attribute,
	uint16_t value, struct error *error)
{
	struct nlmsghdr *message = request(devlink, DEVLINK_CMD_ESWITCH_SET, 0, device);

	if (attribute == DEVLINK_ATTR_ESWITCH_MODE)
		mnl_attr_put_u16(message, attribute, value);
	else
		mnl_attr_put_u8(message, attribute, (uint8_t) value);
	return netlink_talk(devlink, message, NULL, NULL, error);
}

int devlink_param_get(struct netlink *devlink, const char *device, struct device_param *param,
	struct error *error)
{
	_cleanup_(device_free) struct device now = { 0 };
	struct device_list list = { &now, 1 };
	struct nlmsghdr *message = request(devlink, DEVLINK_CMD_PARAM_GET, 0, device);
	int r;

	(void) snprintf(now.name, sizeof(now.name), "%s", device);
	mnl_attr_put_strz(message, DEVLINK_ATTR_PARAM_NAME, param->name);
	r = netlink_talk(devlink, message, devlink_take, &list, error);
	if (r < 0)
		return r;
	for (size_t i = 0; i < now.param_count; i++)
		if (now.params[i].mode == param->mode &&
			strcmp(now.params[i].name, param->name) == 0) {
			*param = now.params[i];
			return 0;
		}
	return error_set(error, -EINVAL, "it has no value of that kind");
}

void devlink_put_value(struct nlmsghdr *message, const struct device_param *param)
{
	unsigned long number = strtoul(param->value, NULL, 10);
	size_t size = param->type == PARAM_U8 ? 1 : param->type == PARAM_U16 ? 2 : 4;

	mnl_attr_put_u8(message, DEVLINK_ATTR_PARAM_TYPE, param->type);
	mnl_attr_put_u8(message, DEVLINK_ATTR_PARAM_VALUE_CMODE, param->mode);
	if (param->type == PARAM_STRING)
		mnl_attr_put_strz(message, DEVLINK_ATTR_PARAM_VALUE_DATA, param->value);
	else if (param->type != PARAM_FLAG)
		mnl_attr_put(message, DEVLINK_ATTR_PARAM_VALUE_DATA, size, &number);
	else if (number)
		mnl_attr_put(message, DEVLINK_ATTR_PARAM_VALUE_DATA, 0, NULL);
}

int devlink_param_set(struct netlink *devlink, const char *device, const struct device_param *param,
	struct error *error)
{
	struct nlmsghdr *message = request(devlink, DEVLINK_CMD_PARAM_SET, 0, device);

	mnl_attr_put_strz(message, DEVLINK_ATTR_PARAM_NAME, param->name);
	devlink_put_value(message, param);
	return netlink_talk(devlink, message, NULL, NULL, error);
}

int devlink_reload(struct netlink *devlink, const char *device, struct error *error)
{
	struct nlmsghdr *message = request(devlink, DEVLINK_CMD_RELOAD, 0, device);

	mnl_attr_put_u8(message, DEVLINK_ATTR_RELOAD_ACTION, DEVLINK_RELOAD_ACTION_DRIVER_REINIT);
	return netlink_talk(devlink, message, NULL, NULL, error);
}

int devlink_sf_add(struct netlink *devlink, struct device *device, const struct device_sf *sf,
	struct error *error)
{
	struct device_list list = { device, 1 };
	struct nlmsghdr *message = request(devlink, DEVLINK_CMD_PORT_NEW, 0, device->name);

	mnl_attr_put_u16(message, DEVLINK_ATTR_PORT_FLAVOUR, DEVLINK_PORT_FLAVOUR_PCI_SF);
	mnl_attr_put_u16(message, DEVLINK_ATTR_PORT_PCI_PF_NUMBER, sf->pf);
	mnl_attr_put_u32(message, DEVLINK_ATTR_PORT_PCI_SF_NUMBER, sf->number);
	/* Drivers take the absence for their own, and some refuse to have it set. */
	if (sf->controller)
		mnl_attr_put_u32(message, DEVLINK_ATTR_PORT_CONTROLLER_NUMBER, sf->controller);
	return netlink_talk(devlink, message, devlink_take, &list, error);
}

int devlink_sf_set(struct netlink *devlink, const char *device, uint32_t port_index, uint16_t type,
	size_t size, const void *value, struct error *error)
{
	struct nlmsghdr *message = request(devlink, DEVLINK_CMD_PORT_SET, 0, device);
	struct nlattr *nest;

	mnl_attr_put_u32(message, DEVLINK_ATTR_PORT_INDEX, port_index);
	nest = mnl_attr_nest_start(message, DEVLINK_ATTR_PORT_FUNCTION);
	mnl_attr_put(message, type, size, value);
	mnl_attr_nest_end(message, nest);
	return netlink_talk(devlink, message, NULL, NULL, error);
}
