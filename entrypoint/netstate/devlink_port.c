/* SPDX-License-Identifier: Apache-2.0 */
/* Ports of VFs and subfunctions. */
#include <linux/devlink.h>
#include <linux/genetlink.h>
#include <linux/netlink.h>
#include <string.h>

#include "entrypoint/netstate/devlink_parts.h"

struct port_reader {
	const char *device; /* NULL: any */
	devlink_port_callback *callback;
	void *context;
};

static void read_function(const struct nlattr *nest, struct devlink_port *port)
{
	const struct nlattr *attribute;
	uint32_t number;

	mnl_attr_for_each_nested(attribute, nest)
	{
		size_t size = mnl_attr_get_payload_len(attribute);

		if (mnl_attr_get_type(attribute) == DEVLINK_PORT_FUNCTION_ATTR_HW_ADDR &&
			size <= sizeof(port->address)) {
			memcpy(port->address, mnl_attr_get_payload(attribute), size);
			port->address_size = size;
		}
		if (mnl_attr_get_type(attribute) == DEVLINK_PORT_FN_ATTR_STATE &&
			devlink_get_number(attribute, &number)) {
			port->has_state = true;
			port->is_active = number == DEVLINK_PORT_FN_STATE_ACTIVE;
		}
	}
}

static void read_number(
	const struct nlattr *attribute, struct devlink_port *port, uint32_t *flavour)
{
	uint32_t number;

	if (!devlink_get_number(attribute, &number))
		return;
	switch (mnl_attr_get_type(attribute)) {
	case DEVLINK_ATTR_PORT_FLAVOUR:
		*flavour = number;
		break;
	case DEVLINK_ATTR_PORT_INDEX:
		port->index = number;
		break;
	case DEVLINK_ATTR_PORT_CONTROLLER_NUMBER:
		port->controller = number;
		break;
	case DEVLINK_ATTR_PORT_PCI_PF_NUMBER:
		port->pf = (uint16_t) number;
		break;
	case DEVLINK_ATTR_PORT_PCI_VF_NUMBER:
	case DEVLINK_ATTR_PORT_PCI_SF_NUMBER:
		port->number = number;
		break;
	default:
		break;
	}
}

bool devlink_read_port(
	const struct nlmsghdr *message, char device[DEVLINK_NAME_SIZE], struct devlink_port *port)
{
	uint32_t flavour = UINT32_MAX;
	const struct nlattr *attribute;

	*port = (struct devlink_port){ 0 };
	devlink_read_device(message, device);
	mnl_attr_for_each(attribute, message, sizeof(struct genlmsghdr))
	{
		if (mnl_attr_get_type(attribute) == DEVLINK_ATTR_PORT_FUNCTION)
			read_function(attribute, port);
		else
			read_number(attribute, port, &flavour);
	}
	port->is_vf = flavour == DEVLINK_PORT_FLAVOUR_PCI_VF;
	return port->is_vf || flavour == DEVLINK_PORT_FLAVOUR_PCI_SF;
}

static int pass_port(void *context, const struct nlmsghdr *message)
{
	const struct port_reader *reader = context;
	char device[DEVLINK_NAME_SIZE];
	struct devlink_port port;

	if (!devlink_read_port(message, device, &port) ||
		(reader->device && strcmp(reader->device, device) != 0))
		return 0;
	return reader->callback(reader->context, device, &port);
}

/* Kernels that filter dumps (6.5 and later) do so by the device; the others tell of all. */
int devlink_ports(struct devlink *devlink, const char *device, devlink_port_callback *callback,
	void *context, struct error *error)
{
	struct port_reader reader = { device, callback, context };
	struct nlmsghdr *message =
		devlink_request(devlink, DEVLINK_CMD_PORT_GET, NLM_F_DUMP, device);

	return netlink_talk(devlink->netlink, message, pass_port, &reader, error);
}

static int keep_index(void *context, const char *device, const struct devlink_port *port)
{
	uint32_t *index = context;

	(void) device;
	*index = port->index;
	return 0;
}

int devlink_subfunction_add(
	struct devlink *devlink, const char *device, struct devlink_port *port, struct error *error)
{
	struct port_reader reader = { device, keep_index, &port->index };
	struct nlmsghdr *message = devlink_request(devlink, DEVLINK_CMD_PORT_NEW, 0, device);

	port->index = UINT32_MAX;
	mnl_attr_put_u16(message, DEVLINK_ATTR_PORT_FLAVOUR, DEVLINK_PORT_FLAVOUR_PCI_SF);
	mnl_attr_put_u16(message, DEVLINK_ATTR_PORT_PCI_PF_NUMBER, port->pf);
	mnl_attr_put_u32(message, DEVLINK_ATTR_PORT_PCI_SF_NUMBER, port->number);
	/* Drivers take the absence for their own, and some refuse to be told. */
	if (port->controller)
		mnl_attr_put_u32(message, DEVLINK_ATTR_PORT_CONTROLLER_NUMBER, port->controller);
	return netlink_talk(devlink->netlink, message, pass_port, &reader, error);
}

int devlink_port_set_address(struct devlink *devlink, const char *device,
	const struct devlink_port *port, struct error *error)
{
	struct nlmsghdr *message = devlink_request(devlink, DEVLINK_CMD_PORT_SET, 0, device);
	struct nlattr *nest;

	mnl_attr_put_u32(message, DEVLINK_ATTR_PORT_INDEX, port->index);
	nest = mnl_attr_nest_start(message, DEVLINK_ATTR_PORT_FUNCTION);
	mnl_attr_put(
		message, DEVLINK_PORT_FUNCTION_ATTR_HW_ADDR, port->address_size, port->address);
	mnl_attr_nest_end(message, nest);
	return devlink_do(devlink, message, error);
}

int devlink_port_set_active(struct devlink *devlink, const char *device,
	const struct devlink_port *port, struct error *error)
{
	struct nlmsghdr *message = devlink_request(devlink, DEVLINK_CMD_PORT_SET, 0, device);
	struct nlattr *nest;

	mnl_attr_put_u32(message, DEVLINK_ATTR_PORT_INDEX, port->index);
	nest = mnl_attr_nest_start(message, DEVLINK_ATTR_PORT_FUNCTION);
	mnl_attr_put_u8(message, DEVLINK_PORT_FN_ATTR_STATE,
		port->is_active ? DEVLINK_PORT_FN_STATE_ACTIVE : DEVLINK_PORT_FN_STATE_INACTIVE);
	mnl_attr_nest_end(message, nest);
	return devlink_do(devlink, message, error);
}
