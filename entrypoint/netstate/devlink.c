/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What devlink knows of a network device and forgets with its driver: the eswitch's modes,
 * parameters, ports of subfunctions. Source of the messages: Linux include/uapi/linux/devlink.h and
 * net/devlink.
 */
#include <linux/devlink.h>
#include <linux/genetlink.h>
#include <stdlib.h>
#include <string.h>

#include "entrypoint/netstate/device_internal.h"

struct devlink {
	struct netlink *netlink;
	uint16_t family;
};

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

/* @device: NULL for all. */
static struct nlmsghdr *request(
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

/* A request whose answer is an acknowledgement. */
static int set(struct devlink *devlink, struct nlmsghdr *message, struct error *error)
{
	return netlink_talk(devlink->netlink, message, NULL, NULL, error);
}

/* False: no string that ends, or one too long. */
static bool copy_text(const struct nlattr *attribute, char *text, size_t size)
{
	if (mnl_attr_validate(attribute, MNL_TYPE_NUL_STRING) < 0 ||
		mnl_attr_get_payload_len(attribute) > size)
		return false;
	memcpy(text, mnl_attr_get_payload(attribute), mnl_attr_get_payload_len(attribute));
	return true;
}

/* Of one, two or four bytes. */
static bool get_number(const struct nlattr *attribute, uint32_t *number)
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

/* "bus/name" of a message. */
static void read_device(const struct nlmsghdr *message, char device[DEVLINK_NAME_SIZE])
{
	char bus[32] = "";
	char name[DEVLINK_NAME_SIZE - sizeof(bus)] = "";
	const struct nlattr *attribute;

	mnl_attr_for_each(attribute, message, sizeof(struct genlmsghdr))
	{
		if (mnl_attr_get_type(attribute) == DEVLINK_ATTR_BUS_NAME)
			(void) copy_text(attribute, bus, sizeof(bus));
		if (mnl_attr_get_type(attribute) == DEVLINK_ATTR_DEV_NAME)
			(void) copy_text(attribute, name, sizeof(name));
	}
	(void) snprintf(device, DEVLINK_NAME_SIZE, "%s/%s", bus, name);
}

/* ---- eswitch */

void devlink_read_eswitch(const struct nlmsghdr *message, struct devlink_eswitch *eswitch)
{
	const struct nlattr *attribute;

	mnl_attr_for_each(attribute, message, sizeof(struct genlmsghdr))
	{
		device_take_eswitch(attribute, eswitch);
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
	*eswitch = (struct devlink_eswitch){ 0 };
	return netlink_talk(devlink->netlink, request(devlink, DEVLINK_CMD_ESWITCH_GET, 0, device),
		keep_eswitch, eswitch, error);
}

int devlink_eswitch_set(struct devlink *devlink, const char *device, uint16_t attribute,
	uint16_t value, struct error *error)
{
	struct nlmsghdr *message = request(devlink, DEVLINK_CMD_ESWITCH_SET, 0, device);

	if (attribute == DEVLINK_ATTR_ESWITCH_MODE)
		mnl_attr_put_u16(message, attribute, value);
	else
		mnl_attr_put_u8(message, attribute, (uint8_t) value);
	return set(devlink, message, error);
}

/* ---- parameters */

/* Kernel numbers of attribute types as include/net/netlink.h counts them; no header has them. */
enum {
	TYPE_U8 = 1,
	TYPE_U16 = 2,
	TYPE_U32 = 3,
	TYPE_STRING = 5,
	TYPE_FLAG = 6,
};

struct param_reader {
	devlink_param_callback *callback;
	void *context;
};

static bool read_data(const struct nlattr *data, struct devlink_param *param)
{
	uint32_t number = data != NULL;

	if (param->type == TYPE_STRING)
		return data && copy_text(data, param->value, sizeof(param->value));
	if (param->type != TYPE_FLAG && (!data || !get_number(data, &number)))
		return false;
	(void) snprintf(param->value, sizeof(param->value), "%u", number);
	return true;
}

/* One VALUE: its mode, and its data, whose absence is a flag that is not set. */
static bool read_value(const struct nlattr *nest, struct devlink_param *param)
{
	const struct nlattr *attribute;
	const struct nlattr *data = NULL;
	uint32_t number = 0;
	bool has_mode = false;

	mnl_attr_for_each_nested(attribute, nest)
	{
		if (mnl_attr_get_type(attribute) == DEVLINK_ATTR_PARAM_VALUE_DATA)
			data = attribute;
		if (mnl_attr_get_type(attribute) == DEVLINK_ATTR_PARAM_VALUE_CMODE) {
			has_mode = get_number(attribute, &number);
			param->mode = (uint8_t) number;
		}
	}
	return has_mode && read_data(data, param);
}

static int read_param(const struct nlattr *nest, const char *device,
	devlink_param_callback *callback, void *context)
{
	struct devlink_param param = { 0 };
	const struct nlattr *values = NULL;
	const struct nlattr *attribute;
	uint32_t type = 0;

	mnl_attr_for_each_nested(attribute, nest)
	{
		switch (mnl_attr_get_type(attribute)) {
		case DEVLINK_ATTR_PARAM_NAME:
			(void) copy_text(attribute, param.name, sizeof(param.name));
			break;
		case DEVLINK_ATTR_PARAM_TYPE:
			(void) get_number(attribute, &type);
			break;
		case DEVLINK_ATTR_PARAM_VALUES_LIST:
			values = attribute;
			break;
		default:
			break;
		}
	}
	param.type = (uint8_t) type;
	if (!values || !*param.name)
		return 0;
	mnl_attr_for_each_nested(attribute, values)
	{
		int r = read_value(attribute, &param) ? callback(context, device, &param) : 0;

		if (r < 0)
			return r;
	}
	return 0;
}

int devlink_read_params(
	const struct nlmsghdr *message, devlink_param_callback *callback, void *context)
{
	char device[DEVLINK_NAME_SIZE];
	const struct nlattr *attribute;

	read_device(message, device);
	mnl_attr_for_each(attribute, message, sizeof(struct genlmsghdr))
	{
		int r = 0;

		if (mnl_attr_get_type(attribute) == DEVLINK_ATTR_PARAM)
			r = read_param(attribute, device, callback, context);
		if (r < 0)
			return r;
	}
	return 0;
}

static int pass_params(void *context, const struct nlmsghdr *message)
{
	const struct param_reader *reader = context;

	return devlink_read_params(message, reader->callback, reader->context);
}

/* Permanent ones are the firmware's, which keeps them. */
static int pass_unless_permanent(
	void *context, const char *device, const struct devlink_param *param)
{
	const struct param_reader *reader = context;

	if (param->mode == DEVLINK_PARAM_CMODE_PERMANENT)
		return 0;
	return reader->callback(reader->context, device, param);
}

int devlink_params(struct devlink *devlink, devlink_param_callback *callback, void *context,
	struct error *error)
{
	struct param_reader filter = { .callback = callback, .context = context };
	struct param_reader reader = { .callback = pass_unless_permanent, .context = &filter };
	struct nlmsghdr *message = request(devlink, DEVLINK_CMD_PARAM_GET, NLM_F_DUMP, NULL);

	return netlink_talk(devlink->netlink, message, pass_params, &reader, error);
}

struct wanted_param {
	struct devlink_param *param;
	bool is_found;
};

static int keep_wanted(void *context, const char *device, const struct devlink_param *param)
{
	struct wanted_param *wanted = context;

	(void) device;
	if (param->mode == wanted->param->mode && strcmp(param->name, wanted->param->name) == 0) {
		*wanted->param = *param;
		wanted->is_found = true;
	}
	return 0;
}

int devlink_param_get(struct devlink *devlink, const char *device, struct devlink_param *param,
	struct error *error)
{
	struct wanted_param wanted = { .param = param };
	struct param_reader reader = { keep_wanted, &wanted };
	struct nlmsghdr *message = request(devlink, DEVLINK_CMD_PARAM_GET, 0, device);
	int r;

	mnl_attr_put_strz(message, DEVLINK_ATTR_PARAM_NAME, param->name);
	r = netlink_talk(devlink->netlink, message, pass_params, &reader, error);
	if (r == 0 && !wanted.is_found)
		return error_set(error, -EINVAL, "it has no value of that kind");
	return r;
}

void devlink_put_value(struct nlmsghdr *message, const struct devlink_param *param)
{
	unsigned long number = strtoul(param->value, NULL, 10);

	mnl_attr_put_u8(message, DEVLINK_ATTR_PARAM_TYPE, param->type);
	mnl_attr_put_u8(message, DEVLINK_ATTR_PARAM_VALUE_CMODE, param->mode);
	switch (param->type) {
	case TYPE_U8:
		mnl_attr_put_u8(message, DEVLINK_ATTR_PARAM_VALUE_DATA, (uint8_t) number);
		break;
	case TYPE_U16:
		mnl_attr_put_u16(message, DEVLINK_ATTR_PARAM_VALUE_DATA, (uint16_t) number);
		break;
	case TYPE_U32:
		mnl_attr_put_u32(message, DEVLINK_ATTR_PARAM_VALUE_DATA, (uint32_t) number);
		break;
	case TYPE_STRING:
		mnl_attr_put_strz(message, DEVLINK_ATTR_PARAM_VALUE_DATA, param->value);
		break;
	default:
		if (number)
			mnl_attr_put(message, DEVLINK_ATTR_PARAM_VALUE_DATA, 0, NULL);
		break;
	}
}

int devlink_param_set(struct devlink *devlink, const char *device,
	const struct devlink_param *param, struct error *error)
{
	struct nlmsghdr *message = request(devlink, DEVLINK_CMD_PARAM_SET, 0, device);

	mnl_attr_put_strz(message, DEVLINK_ATTR_PARAM_NAME, param->name);
	devlink_put_value(message, param);
	return set(devlink, message, error);
}

int devlink_reload(struct devlink *devlink, const char *device, struct error *error)
{
	struct nlmsghdr *message = request(devlink, DEVLINK_CMD_RELOAD, 0, device);

	mnl_attr_put_u8(message, DEVLINK_ATTR_RELOAD_ACTION, DEVLINK_RELOAD_ACTION_DRIVER_REINIT);
	return set(devlink, message, error);
}

/* ---- ports of subfunctions */

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
			get_number(attribute, &number)) {
			port->has_state = true;
			port->is_active = number == DEVLINK_PORT_FN_STATE_ACTIVE;
		}
	}
}

bool devlink_read_port(
	const struct nlmsghdr *message, char device[DEVLINK_NAME_SIZE], struct devlink_port *port)
{
	uint32_t flavour = UINT32_MAX;
	const struct nlattr *attribute;

	*port = (struct devlink_port){ 0 };
	read_device(message, device);
	mnl_attr_for_each(attribute, message, sizeof(struct genlmsghdr))
	{
		if (mnl_attr_get_type(attribute) == DEVLINK_ATTR_PORT_FUNCTION)
			read_function(attribute, port);
		else if (mnl_attr_get_type(attribute) == DEVLINK_ATTR_PORT_FLAVOUR)
			(void) get_number(attribute, &flavour);
		else
			device_take_port(attribute, port);
	}
	return flavour == DEVLINK_PORT_FLAVOUR_PCI_SF;
}

struct port_reader {
	const char *device; /* NULL: any */
	devlink_port_callback *callback;
	void *context;
};

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

	return netlink_talk(devlink->netlink,
		request(devlink, DEVLINK_CMD_PORT_GET, NLM_F_DUMP, device), pass_port, &reader,
		error);
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
	struct nlmsghdr *message = request(devlink, DEVLINK_CMD_PORT_NEW, 0, device);

	port->index = UINT32_MAX;
	mnl_attr_put_u16(message, DEVLINK_ATTR_PORT_FLAVOUR, DEVLINK_PORT_FLAVOUR_PCI_SF);
	mnl_attr_put_u16(message, DEVLINK_ATTR_PORT_PCI_PF_NUMBER, port->pf);
	mnl_attr_put_u32(message, DEVLINK_ATTR_PORT_PCI_SF_NUMBER, port->number);
	/* Drivers take the absence for their own, and some refuse to have it set. */
	if (port->controller)
		mnl_attr_put_u32(message, DEVLINK_ATTR_PORT_CONTROLLER_NUMBER, port->controller);
	return netlink_talk(devlink->netlink, message, pass_port, &reader, error);
}

/* @attribute of the function that the port stands for. */
static int set_function(struct devlink *devlink, const char *device, uint32_t index,
	uint16_t attribute, size_t size, const void *value, struct error *error)
{
	struct nlmsghdr *message = request(devlink, DEVLINK_CMD_PORT_SET, 0, device);
	struct nlattr *nest;

	mnl_attr_put_u32(message, DEVLINK_ATTR_PORT_INDEX, index);
	nest = mnl_attr_nest_start(message, DEVLINK_ATTR_PORT_FUNCTION);
	mnl_attr_put(message, attribute, size, value);
	mnl_attr_nest_end(message, nest);
	return set(devlink, message, error);
}

int devlink_port_set_address(struct devlink *devlink, const char *device,
	const struct devlink_port *port, struct error *error)
{
	return set_function(devlink, device, port->index, DEVLINK_PORT_FUNCTION_ATTR_HW_ADDR,
		port->address_size, port->address, error);
}

int devlink_port_set_active(struct devlink *devlink, const char *device,
	const struct devlink_port *port, struct error *error)
{
	const uint8_t state =
		port->is_active ? DEVLINK_PORT_FN_STATE_ACTIVE : DEVLINK_PORT_FN_STATE_INACTIVE;

	return set_function(devlink, device, port->index, DEVLINK_PORT_FN_ATTR_STATE, sizeof(state),
		&state, error);
}

/* ---- rates, which are not saved */

bool devlink_read_rate(const struct nlmsghdr *message, char device[DEVLINK_NAME_SIZE])
{
	static const char none[sizeof(uint64_t)];
	const struct nlattr *attribute;
	bool is_set = false;

	read_device(message, device);
	mnl_attr_for_each(attribute, message, sizeof(struct genlmsghdr))
	{
		uint16_t type = mnl_attr_get_type(attribute);
		size_t size = mnl_attr_get_payload_len(attribute);

		is_set =
			is_set || type == DEVLINK_ATTR_RATE_NODE_NAME ||
			type == DEVLINK_ATTR_RATE_PARENT_NODE_NAME ||
			((type == DEVLINK_ATTR_RATE_TX_SHARE || type == DEVLINK_ATTR_RATE_TX_MAX) &&
				size <= sizeof(none) &&
				memcmp(mnl_attr_get_payload(attribute), none, size) != 0);
	}
	return is_set;
}

static int keep_rated(void *context, const struct nlmsghdr *message)
{
	char device[DEVLINK_NAME_SIZE];

	return devlink_read_rate(message, device) ? strv_push_unique(context, device) : 0;
}

int devlink_rated(struct devlink *devlink, struct strv *devices, struct error *error)
{
	return netlink_talk(devlink->netlink,
		request(devlink, DEVLINK_CMD_RATE_GET, NLM_F_DUMP, NULL), keep_rated, devices,
		error);
}
