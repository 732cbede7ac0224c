/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device in the state file:
 *
 *   device device=pci/0000:3b:00.0 driver=mlx5_core vfs=8 autoprobe=1 eswitch=switchdev …
 *   param device=pci/0000:3b:00.0 name=flow_steering_mode type=5 mode=0 value=smfs
 *   vf device=pci/0000:3b:00.0 index=0 function=0000:3b:00.2 driver=vfio-pci mac=020000000001 …
 *   sf device=pci/0000:3b:00.0 controller=0 pf=0 number=88 address=0200000000ff active=1 …
 *
 * Tables have for each field where it is in our structures, in a record, and in devlink's
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

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers of any width are copied");

enum field_type {
	FIELD_NUMBER,
	FIELD_HEX,   /* a number that is written as one of base 16 */
	FIELD_FLAG,  /* 0 or 1 */
	FIELD_WORD,  /* a number that has words; one that has none is written as the number */
	FIELD_BYTES, /* fixed, or as many as the size_t at "length" has */
	FIELD_TEXT,  /* "" is not written */
	FIELD_PART,  /* text that becomes a part of a path */
};

struct field {
	const char *name; /* in a record; NULL: only in messages */
	enum field_type type;
	uint16_t offset; /* in the structure */
	uint16_t size;
	uint32_t bit;    /* of the structure's "known"; 0: it is always there */
	uint16_t length; /* of bytes; 0: all */
	bool is_required;
	const char *const *words; /* ends with NULL */
	uint16_t attribute;       /* of devlink's messages; 0: none */
	bool is_big_endian;
};

#define VF_MAC_SIZE 6 /* of an Ethernet address */

#define MEMBER(structure, member)                                                                  \
	.offset = offsetof(struct structure, member),                                              \
	.size = sizeof(((struct structure *) NULL)->member)

static const char *const mode_words[] = { "legacy", "switchdev", NULL };
static const char *const inline_words[] = { "none", "link", "network", "transport", NULL };
static const char *const encap_words[] = { "none", "basic", NULL };
static const char *const link_words[] = { "auto", "enable", "disable", NULL };

static const struct field device_fields[] = {
	{ "driver", FIELD_PART, MEMBER(device, driver) },
	{ "vfs", FIELD_NUMBER, MEMBER(device, vf_number), .bit = DEVICE_VFS },
	{ "autoprobe", FIELD_FLAG, MEMBER(device, autoprobe), .bit = DEVICE_AUTOPROBE },
	{ "eswitch", FIELD_WORD, MEMBER(device, mode), .bit = DEVICE_MODE, .words = mode_words,
		.attribute = DEVLINK_ATTR_ESWITCH_MODE },
	{ "inline", FIELD_WORD, MEMBER(device, inline_mode), .bit = DEVICE_INLINE,
		.words = inline_words, .attribute = DEVLINK_ATTR_ESWITCH_INLINE_MODE },
	{ "encap", FIELD_WORD, MEMBER(device, encap_mode), .bit = DEVICE_ENCAP,
		.words = encap_words, .attribute = DEVLINK_ATTR_ESWITCH_ENCAP_MODE },
	{ 0 },
};

static const struct field param_fields[] = {
	{ "name", FIELD_TEXT, MEMBER(device_param, name), .is_required = true },
	{ "type", FIELD_NUMBER, MEMBER(device_param, type), .is_required = true },
	{ "mode", FIELD_NUMBER, MEMBER(device_param, mode) },
	{ "value", FIELD_TEXT, MEMBER(device_param, value) },
	{ 0 },
};

#define SETTING(name, type, member, which)                                                         \
	{                                                                                          \
		name, type, MEMBER(device_vf, member), .bit = 1u << (which)                        \
	}

static const struct field vf_fields[] = {
	{ "index", FIELD_NUMBER, MEMBER(device_vf, index), .is_required = true },
	{ "mac", FIELD_BYTES, offsetof(struct device_vf, mac.mac), VF_MAC_SIZE,
		.bit = 1u << VF_MAC },
	SETTING("node_guid", FIELD_HEX, node_guid.guid, VF_NODE_GUID),
	SETTING("port_guid", FIELD_HEX, port_guid.guid, VF_PORT_GUID),
	SETTING("vlan", FIELD_NUMBER, vlan.vlan, VF_VLAN),
	SETTING("qos", FIELD_NUMBER, vlan.qos, VF_VLAN),
	{ "protocol", FIELD_HEX, MEMBER(device_vf, vlan.vlan_proto), .bit = 1u << VF_VLAN,
		.is_big_endian = true },
	SETTING("min_rate", FIELD_NUMBER, rate.min_tx_rate, VF_RATE),
	SETTING("max_rate", FIELD_NUMBER, rate.max_tx_rate, VF_RATE),
	SETTING("trust", FIELD_FLAG, trust.setting, VF_TRUST),
	SETTING("spoof_check", FIELD_FLAG, spoof_check.setting, VF_SPOOF_CHECK),
	{ "link_state", FIELD_WORD, MEMBER(device_vf, link_state.link_state),
		.bit = 1u << VF_LINK_STATE, .words = link_words },
	SETTING("rss_query", FIELD_FLAG, rss_query.setting, VF_RSS_QUERY),
	{ "function", FIELD_PART, MEMBER(device_vf, function) },
	{ "driver", FIELD_PART, MEMBER(device_vf, driver) },
	{ "override", FIELD_TEXT, MEMBER(device_vf, override) },
	{ 0 },
};

static const struct field sf_fields[] = {
	{ NULL, FIELD_NUMBER, MEMBER(device_sf, port_index), .attribute = DEVLINK_ATTR_PORT_INDEX },
	{ "controller", FIELD_NUMBER, MEMBER(device_sf, controller),
		.attribute = DEVLINK_ATTR_PORT_CONTROLLER_NUMBER },
	{ "pf", FIELD_NUMBER, MEMBER(device_sf, pf), .attribute = DEVLINK_ATTR_PORT_PCI_PF_NUMBER },
	{ "number", FIELD_NUMBER, MEMBER(device_sf, number), .is_required = true,
		.attribute = DEVLINK_ATTR_PORT_PCI_SF_NUMBER },
	{ "address", FIELD_BYTES, MEMBER(device_sf, address),
		.length = offsetof(struct device_sf, address_size) },
	{ "active", FIELD_FLAG, MEMBER(device_sf, is_active), .bit = SF_STATE },
	{ "auxiliary", FIELD_PART, MEMBER(device_sf, auxiliary) },
	{ "driver", FIELD_PART, MEMBER(device_sf, driver) },
	{ 0 },
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

struct device_sf *device_find_subfunction(const struct device *device, const struct device_sf *sf)
{
	for (size_t i = 0; i < device->sf_count; i++) {
		const struct device_sf *other = &device->sfs[i];

		if (other->controller == sf->controller && other->pf == sf->pf &&
			other->number == sf->number)
			return &device->sfs[i];
	}
	return NULL;
}

/* ---- one field */

static uint64_t number_get(const void *data, size_t size)
{
	uint64_t number = 0;

	memcpy(&number, data, size);
	return number;
}

static void field_set(const struct field *field, void *item, const void *data, size_t size)
{
	memcpy((char *) item + field->offset, data, size);
	if (field->length)
		memcpy((char *) item + field->length, &size, sizeof(size));
	if (field->bit)
		*(uint32_t *) item |= field->bit;
}

static void field_set_number(const struct field *field, void *item, uint64_t number)
{
	if (field->type == FIELD_FLAG)
		number = number != 0;
	if (field->is_big_endian)
		number = htons((uint16_t) number);
	field_set(field, item, &number, field->size);
}

static int field_store(const struct field *field, const void *item, struct record *record)
{
	const char *data = (const char *) item + field->offset;
	size_t size = field->length ? number_get((const char *) item + field->length, sizeof(size))
				    : field->size;
	uint64_t number;

	if (!field->name || !size || (field->bit && !(*(const uint32_t *) item & field->bit)))
		return 0;
	if (field->type == FIELD_BYTES)
		return record_set_hex(record, field->name, data, size);
	if (field->type == FIELD_TEXT || field->type == FIELD_PART)
		return *data ? record_set(record, field->name, data) : 0;
	number = number_get(data, field->size);
	if (field->is_big_endian)
		number = ntohs((uint16_t) number);
	for (size_t i = 0; field->words && field->words[i]; i++)
		if (i == number)
			return record_set(record, field->name, field->words[i]);
	return record_setf(
		record, field->name, field->type == FIELD_HEX ? "0x%" PRIx64 : "%" PRIu64, number);
}

/* -EBADMSG: one that is required is missing, or a part of a path is none. */
static int field_load(const struct field *field, void *item, const struct record *record)
{
	const char *value = field->name ? record_get(record, field->name) : NULL;
	char bytes[64];
	uint64_t number;
	int size;

	if (!value)
		return field->is_required ? -EBADMSG : 0;
	if (field->type == FIELD_PART && !record_is_part(value, field->size))
		return -EBADMSG;
	if (field->type == FIELD_PART || field->type == FIELD_TEXT) {
		(void) snprintf((char *) item + field->offset, field->size, "%s", value);
		return field->is_required && !*value ? -EBADMSG : 0;
	}
	if (field->type == FIELD_BYTES) {
		size = record_get_hex(record, field->name, bytes, field->size);
		if (size > 0 && (field->length || size == field->size))
			field_set(field, item, bytes, (size_t) size);
		return 0;
	}
	for (number = 0; field->words && field->words[number]; number++)
		if (strcmp(field->words[number], value) == 0) {
			field_set_number(field, item, number);
			return 0;
		}
	if (record_get_u64(record, field->name, &number) < 0)
		return field->is_required ? -EBADMSG : 0;
	field_set_number(field, item, number);
	return 0;
}

void device_take(const struct nlattr *attribute, struct device *device, struct device_sf *sf)
{
	const struct field *field = sf ? sf_fields : device_fields;
	size_t size = mnl_attr_get_payload_len(attribute);

	for (; field->size; field++)
		if (field->attribute && field->attribute == mnl_attr_get_type(attribute) && size &&
			size <= sizeof(uint64_t))
			field_set_number(field, sf ? (void *) sf : device,
				number_get(mnl_attr_get_payload(attribute), size));
}

/* ---- VFs */

#define ATTRIBUTE(words, type, member)                                                             \
	{                                                                                          \
		words, type, offsetof(struct device_vf, member),                                   \
			sizeof(((struct device_vf *) NULL)->member)                                \
	}

const struct vf_attribute_type vf_attributes[VF_ATTRIBUTES] = {
	[VF_MAC] = ATTRIBUTE("its MAC address", IFLA_VF_MAC, mac),
	[VF_NODE_GUID] = ATTRIBUTE("its node GUID", IFLA_VF_IB_NODE_GUID, node_guid),
	[VF_PORT_GUID] = ATTRIBUTE("its port GUID", IFLA_VF_IB_PORT_GUID, port_guid),
	[VF_VLAN] = ATTRIBUTE("its VLAN", IFLA_VF_VLAN_LIST, vlan),
	[VF_RATE] = ATTRIBUTE("its rates", IFLA_VF_RATE, rate),
	[VF_TRUST] = ATTRIBUTE("its trust", IFLA_VF_TRUST, trust),
	[VF_SPOOF_CHECK] = ATTRIBUTE("its spoof check", IFLA_VF_SPOOFCHK, spoof_check),
	[VF_LINK_STATE] = ATTRIBUTE("its link state", IFLA_VF_LINK_STATE, link_state),
	[VF_RSS_QUERY] = ATTRIBUTE("its RSS query", IFLA_VF_RSS_QUERY_EN, rss_query),
};

bool vf_knows(const struct device_vf *vf, enum vf_attribute attribute)
{
	return (vf->known & (1u << attribute)) != 0;
}

bool vf_is_same(
	const struct device_vf *one, const struct device_vf *other, enum vf_attribute attribute)
{
	if (!vf_knows(one, attribute) || !vf_knows(other, attribute))
		return false;
	for (const struct field *field = vf_fields; field->size; field++)
		if (field->bit == 1u << attribute &&
			memcmp((const char *) one + field->offset,
				(const char *) other + field->offset, field->size) != 0)
			return false;
	return true;
}

/* An attribute that is too short comes from another kernel: it is ignored. */
static void take_setting(const struct nlattr *attribute, struct device_vf *vf)
{
	for (int i = 0; i < VF_ATTRIBUTES; i++) {
		size_t size = vf_attributes[i].size;
		const uint32_t *payload;

		if (vf_attributes[i].type != mnl_attr_get_type(attribute))
			continue;
		/* A list of one: the kernel takes no more. */
		if (i == VF_VLAN)
			attribute = netlink_nested(attribute, IFLA_VF_VLAN_INFO);
		payload = netlink_payload(attribute, size);
		/* A switch that is ~0 is one that the driver does not know. */
		if (!payload || (size == 2 * sizeof(*payload) && payload[1] == UINT32_MAX))
			return;
		memcpy((char *) vf + vf_attributes[i].offset, payload, size);
		vf->known |= 1u << i;
		return;
	}
}

int device_take_vfs(void *context, const struct nlmsghdr *message)
{
	struct device *device = context;
	const struct ifinfomsg *link = mnl_nlmsg_get_payload(message);
	const struct nlattr *list = netlink_attribute(message, sizeof(*link), IFLA_VFINFO_LIST);
	const struct nlattr *attribute;
	const struct nlattr *nest;

	if (!list)
		return 0;
	mnl_attr_for_each_nested(nest, list)
	{
		const struct ifla_vf_mac *mac =
			netlink_payload(netlink_nested(nest, IFLA_VF_MAC), sizeof(*mac));

		if (!mac || mac->vf >= device->vf_count)
			continue;
		mnl_attr_for_each_nested(attribute, nest)
		{
			take_setting(attribute, &device->vfs[mac->vf]);
		}
		/* InfiniBand has GUIDs; what stands in the address's place cannot be set. */
		if (link->ifi_type == ARPHRD_INFINIBAND)
			device->vfs[mac->vf].known &= ~((1u << VF_MAC) | (1u << VF_VLAN));
	}
	return 0;
}

void device_put_vf(
	struct nlmsghdr *message, const struct device_vf *vf, enum vf_attribute attribute)
{
	uint16_t type = vf_attributes[attribute].type;
	size_t size = vf_attributes[attribute].size;
	struct nlattr *list = NULL;
	char payload[64];

	memcpy(payload, (const char *) vf + vf_attributes[attribute].offset, size);
	memcpy(payload, &vf->index, sizeof(vf->index));
	if (attribute == VF_VLAN) {
		list = mnl_attr_nest_start(message, type);
		type = IFLA_VF_VLAN_INFO;
	}
	mnl_attr_put(message, type, size, payload);
	if (list)
		mnl_attr_nest_end(message, list);
}

/* ---- devices in the state file */

const char *const device_kinds[] = { "device", "param", "vf", "sf", NULL };

/* The device itself, and its arrays. */
static const struct kind {
	const struct field *fields;
	size_t size;  /* of an item; 0: the device */
	size_t items; /* where the pointer to the first one is, and their count */
	size_t count;
} kinds[] = {
	{ device_fields, 0, 0, 0 },
	{ param_fields, sizeof(struct device_param), offsetof(struct device, params),
		offsetof(struct device, param_count) },
	{ vf_fields, sizeof(struct device_vf), offsetof(struct device, vfs),
		offsetof(struct device, vf_count) },
	{ sf_fields, sizeof(struct device_sf), offsetof(struct device, sfs),
		offsetof(struct device, sf_count) },
};

const char *device_mode_word(uint16_t mode)
{
	return mode < ARRAY_SIZE(mode_words) - 1 ? mode_words[mode] : "unknown";
}

int device_store(const struct device *device, struct statefile *records)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		const char *item = (const char *) device;
		size_t count = 1;

		if (kinds[i].size) {
			memcpy(&count, item + kinds[i].count, sizeof(count));
			item = *(char *const *) (const void *) (item + kinds[i].items);
		}
		for (; count; count--, item += kinds[i].size) {
			struct record *record = records_add(
				records, device_kinds[i], "device", device->name, NULL, NULL);

			if (!record)
				return -ENOMEM;
			for (const struct field *field = kinds[i].fields; field->size; field++)
				if (field_store(field, item, record) < 0)
					return -ENOMEM;
		}
	}
	return 0;
}

/* "pci/0000:3b:00.0": a bus and a device of it. */
static bool is_device_name(const char *name)
{
	const char *slash = strchr(name, '/');
	char bus[DEVICE_NAME_SIZE];

	if (!slash || strnlen(name, DEVICE_NAME_SIZE) >= DEVICE_NAME_SIZE)
		return false;
	(void) snprintf(bus, sizeof(bus), "%.*s", (int) (slash - name), name);
	return record_is_part(bus, sizeof(bus)) && record_is_part(slash + 1, DEVICE_NAME_SIZE);
}

/* Any record of a device makes it known: their order is not to be relied on. */
static struct device *device_of(struct device_list *list, const char *name)
{
	struct device *device = device_list_find(list, name);

	if (device)
		return device;
	device = array_add(&list->items, &list->count, sizeof(*device));
	if (device)
		(void) snprintf(device->name, sizeof(device->name), "%s", name);
	return device;
}

int device_load_one(const struct statefile *records, size_t index, struct device_list *list,
	struct error *error)
{
	const struct record *record = &records->items[index];
	const char *name = record_text(record, "device");
	const struct field *field;
	struct device *device;
	size_t *count = NULL;
	void *item;
	size_t i = 0;

	while (i < ARRAY_SIZE(kinds) && strcmp(record->kind, device_kinds[i]) != 0)
		i++;
	if (i == ARRAY_SIZE(kinds))
		return 0;
	if (is_device_name(name)) {
		device = device_of(list, name);
		item = device;
		if (device && kinds[i].size) {
			count = (size_t *) (void *) ((char *) device + kinds[i].count);
			item = array_add((char *) device + kinds[i].items, count, kinds[i].size);
		}
		if (!item)
			return error_set_errno(error, -ENOMEM, "the saved network state");
		field = kinds[i].fields;
		while (field->size && field_load(field, item, record) == 0)
			field++;
		if (!field->size)
			return 0;
		if (count)
			(*count)--;
	}
	return error_set(error, -EBADMSG,
		"the saved network state has a damaged record of the kind %s (record %zu)",
		record->kind, index + 1);
}
