/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters of devlink devices, and the reload that makes those of driverinit count. */
#include <linux/devlink.h>
#include <linux/genetlink.h>
#include <linux/netlink.h>
#include <stdlib.h>
#include <string.h>

#include "entrypoint/netstate/devlink_parts.h"

/* Kernel numbers of attribute types as include/net/netlink.h counts them; no header tells. */
enum {
	TYPE_U8 = 1,
	TYPE_U16 = 2,
	TYPE_U32 = 3,
	TYPE_STRING = 5,
	TYPE_FLAG = 6,
};

struct param_reader {
	const char *device; /* NULL: any */
	struct devlink_param *wanted;
	bool is_found;
	devlink_param_callback *callback;
	void *context;
};

static bool read_data(const struct nlattr *data, struct devlink_param *param)
{
	uint32_t number = data != NULL;

	if (param->type == TYPE_STRING)
		return data && devlink_copy_text(data, param->value, sizeof(param->value));
	if (param->type != TYPE_FLAG && (!data || !devlink_get_number(data, &number)))
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
			has_mode = devlink_get_number(attribute, &number);
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
			(void) devlink_copy_text(attribute, param.name, sizeof(param.name));
			break;
		case DEVLINK_ATTR_PARAM_TYPE:
			(void) devlink_get_number(attribute, &type);
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

	devlink_read_device(message, device);
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
	struct nlmsghdr *message =
		devlink_request(devlink, DEVLINK_CMD_PARAM_GET, NLM_F_DUMP, NULL);

	return netlink_talk(devlink->netlink, message, pass_params, &reader, error);
}

static int keep_wanted(void *context, const char *device, const struct devlink_param *param)
{
	struct param_reader *reader = context;

	(void) device;
	if (param->mode == reader->wanted->mode && strcmp(param->name, reader->wanted->name) == 0) {
		*reader->wanted = *param;
		reader->is_found = true;
	}
	return 0;
}

int devlink_param_get(struct devlink *devlink, const char *device, struct devlink_param *param,
	struct error *error)
{
	struct param_reader wanted = { .wanted = param };
	struct param_reader reader = { .callback = keep_wanted, .context = &wanted };
	struct nlmsghdr *message = devlink_request(devlink, DEVLINK_CMD_PARAM_GET, 0, device);
	int r;

	mnl_attr_put_strz(message, DEVLINK_ATTR_PARAM_NAME, param->name);
	r = netlink_talk(devlink->netlink, message, pass_params, &reader, error);
	if (r == 0 && !wanted.is_found)
		r = error_set(error, -EINVAL, "it has no value of that kind");
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
	struct nlmsghdr *message = devlink_request(devlink, DEVLINK_CMD_PARAM_SET, 0, device);

	mnl_attr_put_strz(message, DEVLINK_ATTR_PARAM_NAME, param->name);
	devlink_put_value(message, param);
	return devlink_do(devlink, message, error);
}

int devlink_reload(struct devlink *devlink, const char *device, struct error *error)
{
	struct nlmsghdr *message = devlink_request(devlink, DEVLINK_CMD_RELOAD, 0, device);

	mnl_attr_put_u8(message, DEVLINK_ATTR_RELOAD_ACTION, DEVLINK_RELOAD_ACTION_DRIVER_REINIT);
	return devlink_do(devlink, message, error);
}
