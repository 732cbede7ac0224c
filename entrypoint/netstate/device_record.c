/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device in the state file:
 *
 *   device device=pci/0000:3b:00.0 driver=mlx5_core vfs=8 autoprobe=1 eswitch=switchdev …
 *   param device=pci/0000:3b:00.0 name=flow_steering_mode type=5 mode=0 value=smfs
 *   vf device=pci/0000:3b:00.0 index=0 function=0000:3b:00.2 driver=vfio-pci mac=020000000001 …
 *   sf device=pci/0000:3b:00.0 controller=0 pf=0 number=88 address=0200000000ff active=1 …
 *
 * Tables say of each field where it is in our structures, in a record, and in the kernel's
 * messages. A field that is missing is something that the driver does not know.
 */
#include <arpa/inet.h>
#include <inttypes.h>
#include <linux/devlink.h>
#include <linux/if_arp.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <stdlib.h>
#include <string.h>

#include "entrypoint/netstate/device_internal.h"

enum field_type {
	FIELD_NUMBER,
	FIELD_HEX,   /* a number that is written as one of base 16 */
	FIELD_FLAG,  /* a bool; the kernel's ~0 is no answer */
	FIELD_WORD,  /* a number that has words; one that has none is written as the number */
	FIELD_BYTES, /* fixed, or as many as the size_t at "known" says */
	FIELD_TEXT,  /* "" is not written */
	FIELD_PART,  /* text that becomes a part of a path */
};

#define ALWAYS UINT16_MAX

struct field {
	const char *name; /* in a record; NULL: only in messages */
	enum field_type type;
	uint16_t offset; /* in the structure */
	uint16_t size;
	/* Where it says that the field is there: a bool; with @bit, a mask; of bytes a size_t. */
	uint16_t known;
	uint32_t bit;
	bool is_required;
	const char *const *words; /* [word_count] */
	uint16_t word_count;
	uint16_t attribute; /* of the message; 0: none */
	uint16_t at;        /* in its payload, … */
	uint16_t width;     /* … of so many bytes; 0: the whole payload */
	bool is_big_endian;
};

#define MEMBER(structure, member)                                                                  \
	.offset = offsetof(struct structure, member),                                              \
	.size = sizeof(((struct structure *) NULL)->member)
#define WORDS(list) .words = (list), .word_count = ARRAY_SIZE(list)

static const char *const eswitch_words[] = {
	[DEVLINK_ESWITCH_MODE_LEGACY] = "legacy",
	[DEVLINK_ESWITCH_MODE_SWITCHDEV] = "switchdev",
};

static const char *const inline_words[] = {
	[DEVLINK_ESWITCH_INLINE_MODE_NONE] = "none",
	[DEVLINK_ESWITCH_INLINE_MODE_LINK] = "link",
	[DEVLINK_ESWITCH_INLINE_MODE_NETWORK] = "network",
	[DEVLINK_ESWITCH_INLINE_MODE_TRANSPORT] = "transport",
};

static const char *const encap_words[] = {
	[DEVLINK_ESWITCH_ENCAP_MODE_NONE] = "none",
	[DEVLINK_ESWITCH_ENCAP_MODE_BASIC] = "basic",
};

static const char *const link_words[] = {
	[IFLA_VF_LINK_STATE_AUTO] = "auto",
	[IFLA_VF_LINK_STATE_ENABLE] = "enable",
	[IFLA_VF_LINK_STATE_DISABLE] = "disable",
};

static const struct field device_fields[] = {
	{ "driver", FIELD_PART, MEMBER(device, driver), .known = ALWAYS },
	{ "vfs", FIELD_NUMBER, MEMBER(device, vf_number),
		.known = offsetof(struct device, has_vfs) },
	{ "autoprobe", FIELD_FLAG, MEMBER(device, autoprobe),
		.known = offsetof(struct device, has_autoprobe) },
};

#define ESWITCH(name, member, has, list, attr)                                                     \
	{                                                                                          \
		name, FIELD_WORD, MEMBER(devlink_eswitch, member),                                 \
			.known = offsetof(struct devlink_eswitch, has), WORDS(list),               \
			.attribute = (attr)                                                        \
	}

static const struct field eswitch_fields[] = {
	ESWITCH("eswitch", mode, has_mode, eswitch_words, DEVLINK_ATTR_ESWITCH_MODE),
	ESWITCH("inline", inline_mode, has_inline, inline_words, DEVLINK_ATTR_ESWITCH_INLINE_MODE),
	ESWITCH("encap", encap_mode, has_encap, encap_words, DEVLINK_ATTR_ESWITCH_ENCAP_MODE),
};

static const struct field param_fields[] = {
	{ "name", FIELD_TEXT, MEMBER(devlink_param, name), .known = ALWAYS, .is_required = true },
	{ "type", FIELD_NUMBER, MEMBER(devlink_param, type), .known = ALWAYS, .is_required = true },
	{ "mode", FIELD_NUMBER, MEMBER(devlink_param, mode), .known = ALWAYS },
	{ "value", FIELD_TEXT, MEMBER(devlink_param, value), .known = ALWAYS },
};

static const struct field vf_fields[] = {
	{ "function", FIELD_PART, MEMBER(device_vf, function), .known = ALWAYS },
	{ "driver", FIELD_PART, MEMBER(device_vf, driver), .known = ALWAYS },
	{ "override", FIELD_TEXT, MEMBER(device_vf, override), .known = ALWAYS },
};

#define SETTING(name, type, member, which, attr, structure, their)                                 \
	{                                                                                          \
		name, type, MEMBER(vf_settings, member),                                           \
			.known = offsetof(struct vf_settings, known), .bit = 1u << (which),        \
			.attribute = (attr), .at = offsetof(struct structure, their),              \
			.width = sizeof(((struct structure *) NULL)->their)                        \
	}

static const struct field setting_fields[] = {
	{ "index", FIELD_NUMBER, MEMBER(vf_settings, index), .known = ALWAYS, .is_required = true,
		.attribute = IFLA_VF_MAC, .width = sizeof(uint32_t) },
	SETTING("mac", FIELD_BYTES, mac, VF_MAC, IFLA_VF_MAC, ifla_vf_mac, mac),
	SETTING("node_guid", FIELD_HEX, node_guid, VF_NODE_GUID, IFLA_VF_IB_NODE_GUID, ifla_vf_guid,
		guid),
	SETTING("port_guid", FIELD_HEX, port_guid, VF_PORT_GUID, IFLA_VF_IB_PORT_GUID, ifla_vf_guid,
		guid),
	SETTING("vlan", FIELD_NUMBER, vlan, VF_VLAN, IFLA_VF_VLAN_LIST, ifla_vf_vlan_info, vlan),
	SETTING("qos", FIELD_NUMBER, qos, VF_VLAN, IFLA_VF_VLAN_LIST, ifla_vf_vlan_info, qos),
	{ "protocol", FIELD_HEX, MEMBER(vf_settings, vlan_protocol),
		.known = offsetof(struct vf_settings, known), .bit = 1u << VF_VLAN,
		.attribute = IFLA_VF_VLAN_LIST,
		.at = offsetof(struct ifla_vf_vlan_info, vlan_proto), .width = sizeof(uint16_t),
		.is_big_endian = true },
	SETTING("min_rate", FIELD_NUMBER, min_rate, VF_RATE, IFLA_VF_RATE, ifla_vf_rate,
		min_tx_rate),
	SETTING("max_rate", FIELD_NUMBER, max_rate, VF_RATE, IFLA_VF_RATE, ifla_vf_rate,
		max_tx_rate),
	SETTING("trust", FIELD_FLAG, trust, VF_TRUST, IFLA_VF_TRUST, ifla_vf_trust, setting),
	SETTING("spoof_check", FIELD_FLAG, spoof_check, VF_SPOOF_CHECK, IFLA_VF_SPOOFCHK,
		ifla_vf_spoofchk, setting),
	{ "link_state", FIELD_WORD, MEMBER(vf_settings, link_state),
		.known = offsetof(struct vf_settings, known), .bit = 1u << VF_LINK_STATE,
		WORDS(link_words), .attribute = IFLA_VF_LINK_STATE,
		.at = offsetof(struct ifla_vf_link_state, link_state), .width = sizeof(uint32_t) },
	SETTING("rss_query", FIELD_FLAG, rss_query, VF_RSS_QUERY, IFLA_VF_RSS_QUERY_EN,
		ifla_vf_rss_query_en, setting),
};

#define PORT(name, member, attr)                                                                   \
	{                                                                                          \
		name, FIELD_NUMBER, MEMBER(devlink_port, member), .known = ALWAYS,                 \
								  .attribute = (attr)              \
	}

static const struct field port_fields[] = {
	PORT(NULL, index, DEVLINK_ATTR_PORT_INDEX),
	PORT("controller", controller, DEVLINK_ATTR_PORT_CONTROLLER_NUMBER),
	PORT("pf", pf, DEVLINK_ATTR_PORT_PCI_PF_NUMBER),
	{ "number", FIELD_NUMBER, MEMBER(devlink_port, number), .known = ALWAYS,
		.is_required = true, .attribute = DEVLINK_ATTR_PORT_PCI_SF_NUMBER },
	{ "address", FIELD_BYTES, MEMBER(devlink_port, address),
		.known = offsetof(struct devlink_port, address_size) },
	{ "active", FIELD_FLAG, MEMBER(devlink_port, is_active),
		.known = offsetof(struct devlink_port, has_state) },
};

static const struct field sf_fields[] = {
	{ "auxiliary", FIELD_PART, MEMBER(device_sf, auxiliary), .known = ALWAYS },
	{ "driver", FIELD_PART, MEMBER(device_sf, driver), .known = ALWAYS },
};

/* ---- devices in memory */

void device_free(struct device *device)
{
	free(device->vfs);
	free(device->sfs);
	free(device->params);
	*device = (struct device){ 0 };
}

void device_list_free(struct device_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		device_free(&list->items[i]);
	free(list->items);
	*list = (struct device_list){ 0 };
}

struct device *device_list_find(const struct device_list *list, const char *name)
{
	for (size_t i = 0; i < list->count; i++)
		if (strcmp(list->items[i].name, name) == 0)
			return &list->items[i];
	return NULL;
}

int device_add_param(struct device *device, const struct devlink_param *param)
{
	struct devlink_param *params =
		reallocarray(device->params, device->param_count + 1, sizeof(*params));

	if (!params)
		return -ENOMEM;
	device->params = params;
	params[device->param_count++] = *param;
	return 0;
}

int device_add_subfunction(struct device *device, const struct devlink_port *port)
{
	struct device_sf *sfs = reallocarray(device->sfs, device->sf_count + 1, sizeof(*sfs));

	if (!sfs)
		return -ENOMEM;
	device->sfs = sfs;
	sfs[device->sf_count++] = (struct device_sf){ .port = *port };
	return 0;
}

struct device_sf *device_find_subfunction(
	const struct device *device, const struct devlink_port *port)
{
	for (size_t i = 0; i < device->sf_count; i++) {
		const struct devlink_port *other = &device->sfs[i].port;

		if (other->controller == port->controller && other->pf == port->pf &&
			other->number == port->number)
			return &device->sfs[i];
	}
	return NULL;
}

/* ---- one field */

static uint64_t number_get(const void *data, size_t size)
{
	uint16_t two;
	uint32_t four;
	uint64_t eight;

	switch (size) {
	case sizeof(uint8_t):
		return *(const uint8_t *) data;
	case sizeof(two):
		memcpy(&two, data, size);
		return two;
	case sizeof(four):
		memcpy(&four, data, size);
		return four;
	case sizeof(eight):
		memcpy(&eight, data, size);
		return eight;
	default:
		return 0;
	}
}

static void number_put(void *data, size_t size, uint64_t number)
{
	uint8_t one = (uint8_t) number;
	uint16_t two = (uint16_t) number;
	uint32_t four = (uint32_t) number;

	if (size == sizeof(one))
		memcpy(data, &one, size);
	else if (size == sizeof(two))
		memcpy(data, &two, size);
	else if (size == sizeof(four))
		memcpy(data, &four, size);
	else if (size == sizeof(number))
		memcpy(data, &number, size);
}

/* How many bytes there are of it: 0 when it is not there. */
static size_t field_size(const struct field *field, const void *item)
{
	const char *known = (const char *) item + field->known;
	size_t size;

	if (field->known == ALWAYS)
		return field->size;
	if (field->bit)
		return number_get(known, sizeof(uint32_t)) & field->bit ? field->size : 0;
	if (field->type != FIELD_BYTES)
		return *(const bool *) known ? field->size : 0;
	memcpy(&size, known, sizeof(size));
	return size;
}

static void field_learn(const struct field *field, void *item, size_t size)
{
	char *known = (char *) item + field->known;

	if (field->known == ALWAYS)
		return;
	if (field->bit)
		number_put(
			known, sizeof(uint32_t), number_get(known, sizeof(uint32_t)) | field->bit);
	else if (field->type == FIELD_BYTES)
		memcpy(known, &size, sizeof(size));
	else
		*(bool *) known = true;
}

static void field_set_number(const struct field *field, void *item, uint64_t number)
{
	number_put((char *) item + field->offset, field->size,
		field->type == FIELD_FLAG ? number != 0 : number);
	field_learn(field, item, field->size);
}

/* ---- to and from a record */

static int field_store(const struct field *field, const void *item, struct record *record)
{
	const char *data = (const char *) item + field->offset;
	size_t size = field_size(field, item);
	uint64_t number;

	if (!field->name || !size)
		return 0;
	if (field->type == FIELD_BYTES)
		return record_set_hex(record, field->name, data, size);
	if (field->type == FIELD_TEXT || field->type == FIELD_PART)
		return *data ? record_set(record, field->name, data) : 0;
	number = number_get(data, field->size);
	if (number < field->word_count && field->words[number])
		return record_set(record, field->name, field->words[number]);
	return record_setf(
		record, field->name, field->type == FIELD_HEX ? "0x%" PRIx64 : "%" PRIu64, number);
}

/* -EBADMSG: one that is required is missing, or a part of a path is none. */
static int field_load(const struct field *field, void *item, const struct record *record)
{
	const char *value = field->name ? record_get(record, field->name) : NULL;
	char *data = (char *) item + field->offset;
	uint64_t number;
	int size;

	if (!value)
		return field->is_required ? -EBADMSG : 0;
	switch (field->type) {
	case FIELD_PART:
		if (!record_is_part(value, field->size))
			return -EBADMSG;
		/* fall through */
	case FIELD_TEXT:
		(void) snprintf(data, field->size, "%s", value);
		return field->is_required && !*value ? -EBADMSG : 0;
	case FIELD_BYTES:
		size = record_get_hex(record, field->name, data, field->size);
		if (size > 0 && (!field->bit || size == field->size))
			field_learn(field, item, (size_t) size);
		return 0;
	default:
		break;
	}
	for (number = 0; number < field->word_count; number++)
		if (field->words[number] && strcmp(field->words[number], value) == 0)
			break;
	if (number >= field->word_count && record_get_u64(record, field->name, &number) < 0)
		return field->is_required ? -EBADMSG : 0;
	field_set_number(field, item, number);
	return 0;
}

/* ---- from and to a message */

/* What else than this attribute says is left as it is; what is too short is of another kernel. */
static void fields_take(const struct field *fields, size_t count, uint16_t type,
	const struct nlattr *attribute, void *item)
{
	const char *payload = mnl_attr_get_payload(attribute);
	size_t size = mnl_attr_get_payload_len(attribute);

	for (size_t i = 0; i < count; i++) {
		const struct field *field = &fields[i];
		size_t width = field->width ? field->width : size;
		uint64_t number;

		if (!field->attribute || field->attribute != type)
			continue;
		if (field->type == FIELD_BYTES && field->at + field->size <= size) {
			memcpy((char *) item + field->offset, payload + field->at, field->size);
			field_learn(field, item, field->size);
			continue;
		}
		if (field->type == FIELD_BYTES || field->at + width > size ||
			(width != 1 && width != 2 && width != 4 && width != 8))
			continue;
		number = number_get(payload + field->at, width);
		if (field->is_big_endian)
			number = ntohs((uint16_t) number);
		if (field->type != FIELD_FLAG || number != UINT32_MAX)
			field_set_number(field, item, number);
	}
}

void device_take_eswitch(const struct nlattr *attribute, struct devlink_eswitch *eswitch)
{
	fields_take(eswitch_fields, ARRAY_SIZE(eswitch_fields), mnl_attr_get_type(attribute),
		attribute, eswitch);
}

void device_take_port(const struct nlattr *attribute, struct devlink_port *port)
{
	fields_take(port_fields, ARRAY_SIZE(port_fields), mnl_attr_get_type(attribute), attribute,
		port);
}

/* ---- VFs */

static const struct {
	const char *words;
	uint16_t type; /* of the message */
	uint8_t size;  /* of its payload, whose first four bytes are the VF's index */
} vf_attributes[VF_ATTRIBUTES] = {
	[VF_MAC] = { "its MAC address", IFLA_VF_MAC, sizeof(struct ifla_vf_mac) },
	[VF_NODE_GUID] = { "its node GUID", IFLA_VF_IB_NODE_GUID, sizeof(struct ifla_vf_guid) },
	[VF_PORT_GUID] = { "its port GUID", IFLA_VF_IB_PORT_GUID, sizeof(struct ifla_vf_guid) },
	[VF_VLAN] = { "its VLAN", IFLA_VF_VLAN_LIST, sizeof(struct ifla_vf_vlan_info) },
	[VF_RATE] = { "its rates", IFLA_VF_RATE, sizeof(struct ifla_vf_rate) },
	[VF_TRUST] = { "its trust", IFLA_VF_TRUST, sizeof(struct ifla_vf_trust) },
	[VF_SPOOF_CHECK] = { "its spoof check", IFLA_VF_SPOOFCHK, sizeof(struct ifla_vf_spoofchk) },
	[VF_LINK_STATE] = { "its link state", IFLA_VF_LINK_STATE,
		sizeof(struct ifla_vf_link_state) },
	[VF_RSS_QUERY] = { "its RSS query", IFLA_VF_RSS_QUERY_EN,
		sizeof(struct ifla_vf_rss_query_en) },
};

const char *vf_attribute_words(enum vf_attribute attribute)
{
	return vf_attributes[attribute].words;
}

bool vf_knows(const struct vf_settings *vf, enum vf_attribute attribute)
{
	return (vf->known & (1u << attribute)) != 0;
}

bool vf_is_same(
	const struct vf_settings *one, const struct vf_settings *other, enum vf_attribute attribute)
{
	if (!vf_knows(one, attribute) || !vf_knows(other, attribute))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(setting_fields); i++) {
		const struct field *field = &setting_fields[i];

		if (field->bit == 1u << attribute &&
			memcmp((const char *) one + field->offset,
				(const char *) other + field->offset, field->size) != 0)
			return false;
	}
	return true;
}

static int read_vf(const struct nlattr *nest, bool is_infiniband, struct vf_list *list)
{
	struct vf_settings *items = reallocarray(list->items, list->count + 1, sizeof(*items));
	const struct nlattr *attribute;
	struct vf_settings *vf;

	if (!items)
		return -ENOMEM;
	list->items = items;
	vf = &items[list->count++];
	*vf = (struct vf_settings){ 0 };
	mnl_attr_for_each_nested(attribute, nest)
	{
		uint16_t type = mnl_attr_get_type(attribute);
		const struct nlattr *data = attribute;

		/* A list of one: the kernel takes no more. */
		if (type == IFLA_VF_VLAN_LIST)
			data = netlink_nested(attribute, IFLA_VF_VLAN_INFO);
		if (data)
			fields_take(setting_fields, ARRAY_SIZE(setting_fields), type, data, vf);
	}
	/* InfiniBand has GUIDs; what stands in the address's place cannot be set. */
	if (is_infiniband)
		vf->known &= ~((1u << VF_MAC) | (1u << VF_VLAN));
	return 0;
}

int vf_read(const struct nlmsghdr *message, struct vf_list *list)
{
	const struct ifinfomsg *link = mnl_nlmsg_get_payload(message);
	const struct nlattr *attribute;
	const struct nlattr *nest;

	mnl_attr_for_each(attribute, message, sizeof(*link))
	{
		if (mnl_attr_get_type(attribute) == IFLA_NUM_VF)
			list->number = mnl_attr_get_u32(attribute);
		if (mnl_attr_get_type(attribute) != IFLA_VFINFO_LIST)
			continue;
		mnl_attr_for_each_nested(nest, attribute)
		{
			int r = read_vf(nest, link->ifi_type == ARPHRD_INFINIBAND, list);

			if (r < 0)
				return r;
		}
	}
	return 0;
}

void vf_put(struct nlmsghdr *message, const struct vf_settings *vf, enum vf_attribute attribute)
{
	uint16_t type = vf_attributes[attribute].type;
	struct nlattr *list = NULL;
	char payload[64] = { 0 };

	memcpy(payload, &vf->index, sizeof(vf->index));
	for (size_t i = 0; i < ARRAY_SIZE(setting_fields); i++) {
		const struct field *field = &setting_fields[i];
		const char *data = (const char *) vf + field->offset;
		uint64_t number;

		if (field->bit != 1u << attribute)
			continue;
		if (field->type == FIELD_BYTES) {
			memcpy(payload + field->at, data, field->size);
			continue;
		}
		number = number_get(data, field->size);
		if (field->is_big_endian)
			number = htons((uint16_t) number);
		number_put(payload + field->at, field->width, number);
	}
	if (type == IFLA_VF_VLAN_LIST) {
		list = mnl_attr_nest_start(message, type);
		type = IFLA_VF_VLAN_INFO;
	}
	mnl_attr_put(message, type, vf_attributes[attribute].size, payload);
	if (list)
		mnl_attr_nest_end(message, list);
}

/* One attribute a message: the kernel stops at the first that it refuses, and says not which. */
int vf_set(struct netlink *route, int ifindex, const struct vf_settings *vf,
	enum vf_attribute attribute, struct error *error)
{
	struct nlmsghdr *message = netlink_request(route, RTM_SETLINK, 0);
	struct ifinfomsg *link = netlink_extra(message, sizeof(*link));
	struct nlattr *list;
	struct nlattr *info;

	link->ifi_index = ifindex;
	list = mnl_attr_nest_start(message, IFLA_VFINFO_LIST);
	info = mnl_attr_nest_start(message, IFLA_VF_INFO);
	vf_put(message, vf, attribute);
	mnl_attr_nest_end(message, info);
	mnl_attr_nest_end(message, list);
	return netlink_talk(route, message, NULL, NULL, error);
}

/* ---- devices in the state file */

enum { KIND_DEVICE, KIND_PARAM, KIND_VF, KIND_SF, KINDS };

/* The structure of a record, and one that begins it or is a part of it. */
static const struct kind {
	const char *name;
	struct part {
		const struct field *fields;
		size_t count;
		size_t offset; /* of the part in the structure */
	} parts[2];
} kinds[KINDS] = {
	[KIND_DEVICE] = { "device", { { device_fields, ARRAY_SIZE(device_fields), 0 },
					    { eswitch_fields, ARRAY_SIZE(eswitch_fields),
						    offsetof(struct device, eswitch) } } },
	[KIND_PARAM] = { "param", { { param_fields, ARRAY_SIZE(param_fields), 0 } } },
	[KIND_VF] = { "vf", { { setting_fields, ARRAY_SIZE(setting_fields),
				      offsetof(struct device_vf, settings) },
				    { vf_fields, ARRAY_SIZE(vf_fields), 0 } } },
	[KIND_SF] = { "sf",
		{ { port_fields, ARRAY_SIZE(port_fields), offsetof(struct device_sf, port) },
			{ sf_fields, ARRAY_SIZE(sf_fields), 0 } } },
};

const char *device_eswitch_word(uint16_t mode)
{
	return mode < ARRAY_SIZE(eswitch_words) ? eswitch_words[mode] : "unknown";
}

static int store(struct statefile *records, const struct device *device, int kind, const void *item)
{
	struct record *record = statefile_add(records, kinds[kind].name);
	int r = record ? record_set(record, "device", device->name) : -ENOMEM;

	for (size_t i = 0; i < ARRAY_SIZE(kinds[kind].parts); i++) {
		const struct part *part = &kinds[kind].parts[i];

		for (size_t k = 0; r == 0 && k < part->count; k++)
			r = field_store(
				&part->fields[k], (const char *) item + part->offset, record);
	}
	return r;
}

int device_store(const struct device *device, struct statefile *records)
{
	int r = store(records, device, KIND_DEVICE, device);

	for (size_t i = 0; r == 0 && i < device->param_count; i++)
		r = store(records, device, KIND_PARAM, &device->params[i]);
	for (size_t i = 0; r == 0 && i < device->vf_count; i++)
		r = store(records, device, KIND_VF, &device->vfs[i]);
	for (size_t i = 0; r == 0 && i < device->sf_count; i++)
		r = store(records, device, KIND_SF, &device->sfs[i]);
	return r;
}

static int load(const struct record *record, int kind, void *item)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds[kind].parts); i++) {
		const struct part *part = &kinds[kind].parts[i];

		for (size_t k = 0; k < part->count; k++) {
			int r = field_load(&part->fields[k], (char *) item + part->offset, record);

			if (r < 0)
				return r;
		}
	}
	return 0;
}

static int load_vf(const struct record *record, struct device *device)
{
	struct device_vf *vfs = reallocarray(device->vfs, device->vf_count + 1, sizeof(*vfs));
	int r;

	if (!vfs)
		return -ENOMEM;
	device->vfs = vfs;
	vfs[device->vf_count] = (struct device_vf){ 0 };
	r = load(record, KIND_VF, &vfs[device->vf_count]);
	if (r == 0)
		device->vf_count++;
	return r;
}

static int load_sf(const struct record *record, struct device *device)
{
	static const struct devlink_port none = { 0 };
	int r = device_add_subfunction(device, &none);

	if (r < 0)
		return r;
	r = load(record, KIND_SF, &device->sfs[device->sf_count - 1]);
	if (r < 0)
		device->sf_count--;
	return r;
}

static int load_param(const struct record *record, struct device *device)
{
	struct devlink_param param = { 0 };
	int r = load(record, KIND_PARAM, &param);

	return r < 0 ? r : device_add_param(device, &param);
}

/* "pci/0000:3b:00.0": a bus and a device of it. */
static bool is_device_name(const char *name)
{
	const char *slash = strchr(name, '/');
	char bus[DEVLINK_NAME_SIZE];

	if (!slash || strnlen(name, DEVLINK_NAME_SIZE) >= DEVLINK_NAME_SIZE)
		return false;
	(void) snprintf(bus, sizeof(bus), "%.*s", (int) (slash - name), name);
	return record_is_part(bus, sizeof(bus)) && record_is_part(slash + 1, DEVLINK_NAME_SIZE);
}

/* Any record of a device makes it known: their order is not to be relied on. */
static struct device *device_of(struct device_list *list, const char *name)
{
	struct device *device = device_list_find(list, name);
	struct device *items;

	if (device)
		return device;
	items = reallocarray(list->items, list->count + 1, sizeof(*items));
	if (!items)
		return NULL;
	list->items = items;
	device = &items[list->count++];
	*device = (struct device){ 0 };
	(void) snprintf(device->name, sizeof(device->name), "%s", name);
	return device;
}

/* KINDS: none of these. */
static int kind_of(const struct record *record)
{
	int kind = 0;

	while (kind < KINDS && strcmp(record->kind, kinds[kind].name) != 0)
		kind++;
	return kind;
}

static int load_record(const struct record *record, struct device_list *list)
{
	const char *name = record_get(record, "device");
	int kind = kind_of(record);
	struct device *device;

	if (kind == KINDS)
		return 0;
	if (!name || !is_device_name(name))
		return -EBADMSG;
	device = device_of(list, name);
	if (!device)
		return -ENOMEM;
	switch (kind) {
	case KIND_VF:
		return load_vf(record, device);
	case KIND_SF:
		return load_sf(record, device);
	case KIND_PARAM:
		return load_param(record, device);
	default:
		return load(record, kind, device);
	}
}

int device_load_one(const struct statefile *records, size_t index, struct device_list *list,
	struct error *error)
{
	int r = load_record(&records->items[index], list);

	if (r == -EBADMSG)
		return error_set(error, r,
			"the saved network state has a damaged record of the kind %s "
			"(record %zu)",
			records->items[index].kind, index + 1);
	return r < 0 ? error_set_errno(error, r, "the saved network state") : 0;
}

static bool is_kept(const struct record *record)
{
	return !record_get(record, "forgotten");
}

void device_forget(struct statefile *records, const char *name)
{
	for (size_t i = 0; i < records->count; i++) {
		struct record *record = &records->items[i];
		const char *device = record_get(record, "device");

		if (device && strcmp(device, name) == 0 && kind_of(record) != KINDS)
			(void) !record_set(record, "forgotten", "1");
	}
	statefile_keep(records, is_kept);
}
