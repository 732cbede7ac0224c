/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device in the journal:
 *
 *   device device=pci/0000:3b:00.0 driver=mlx5_core vfs=8 autoprobe=1 eswitch=switchdev …
 *   param device=pci/0000:3b:00.0 name=flow_steering_mode type=5 mode=0 value=smfs
 *   vf device=pci/0000:3b:00.0 index=0 function=0000:3b:00.2 driver=vfio-pci mac=020000000001 …
 *   rate device=pci/0000:3b:00.0 vf=1 controller=0 pf=0 share=0 max=1250000 parent=group
 *   sf device=pci/0000:3b:00.0 controller=0 pf=0 number=88 address=0200000000ff active=1 …
 *
 * A field that is missing is something that the driver did not tell.
 */
#include <inttypes.h>
#include <linux/devlink.h>
#include <linux/if_link.h>
#include <stdlib.h>
#include <string.h>

#include "entrypoint/netstate/device_state.h"

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

const char *device_eswitch_word(uint16_t mode)
{
	return mode < ARRAY_SIZE(eswitch_words) ? eswitch_words[mode] : "unknown";
}

/* ---- to the journal: the first failure is kept, so that a record is written in one go */

struct writer {
	struct record *record;
	int code;
};

static void begin(struct writer *writer, struct statefile *records, const char *kind,
	const struct device *device)
{
	if (writer->code < 0)
		return;
	writer->record = statefile_add(records, kind);
	writer->code =
		writer->record ? record_set(writer->record, "device", device->name) : -ENOMEM;
}

static void put_text(struct writer *writer, const char *name, const char *value)
{
	if (writer->code == 0 && *value)
		writer->code = record_set(writer->record, name, value);
}

static void put_number(struct writer *writer, const char *name, uint64_t value)
{
	if (writer->code == 0)
		writer->code = record_setf(writer->record, name, "%" PRIu64, value);
}

static void put_hex(struct writer *writer, const char *name, uint64_t value)
{
	if (writer->code == 0)
		writer->code = record_setf(writer->record, name, "0x%" PRIx64, value);
}

static void put_bytes(struct writer *writer, const char *name, const void *data, size_t size)
{
	if (writer->code == 0 && size)
		writer->code = record_set_hex(writer->record, name, data, size);
}

/* A mode that this program has no word for yet is written as its number. */
static void put_word(struct writer *writer, const char *name, const char *const *words,
	size_t count, unsigned value)
{
	if (value < count && words[value])
		put_text(writer, name, words[value]);
	else
		put_number(writer, name, value);
}

static void store_device(
	struct writer *writer, struct statefile *records, const struct device *device)
{
	const struct devlink_eswitch *eswitch = &device->eswitch;

	begin(writer, records, "device", device);
	put_text(writer, "driver", device->driver);
	if (device->has_vfs)
		put_number(writer, "vfs", device->vf_number);
	if (device->has_autoprobe)
		put_number(writer, "autoprobe", device->autoprobe);
	if (eswitch->has_mode)
		put_word(
			writer, "eswitch", eswitch_words, ARRAY_SIZE(eswitch_words), eswitch->mode);
	if (eswitch->has_inline)
		put_word(writer, "inline", inline_words, ARRAY_SIZE(inline_words),
			eswitch->inline_mode);
	if (eswitch->has_encap)
		put_word(
			writer, "encap", encap_words, ARRAY_SIZE(encap_words), eswitch->encap_mode);
}

static void store_settings(struct writer *writer, const struct vf_settings *vf)
{
	if (vf_knows(vf, VF_MAC))
		put_bytes(writer, "mac", vf->mac, sizeof(vf->mac));
	if (vf_knows(vf, VF_NODE_GUID))
		put_hex(writer, "node_guid", vf->node_guid);
	if (vf_knows(vf, VF_PORT_GUID))
		put_hex(writer, "port_guid", vf->port_guid);
	if (vf_knows(vf, VF_VLAN)) {
		put_number(writer, "vlan", vf->vlan);
		put_number(writer, "qos", vf->qos);
		put_hex(writer, "protocol", vf->vlan_protocol);
	}
	if (vf_knows(vf, VF_RATE)) {
		put_number(writer, "min_rate", vf->min_rate);
		put_number(writer, "max_rate", vf->max_rate);
	}
	if (vf_knows(vf, VF_TRUST))
		put_number(writer, "trust", vf->trust);
	if (vf_knows(vf, VF_SPOOF_CHECK))
		put_number(writer, "spoof_check", vf->spoof_check);
	if (vf_knows(vf, VF_LINK_STATE))
		put_word(writer, "link_state", link_words, ARRAY_SIZE(link_words), vf->link_state);
	if (vf_knows(vf, VF_RSS_QUERY))
		put_number(writer, "rss_query", vf->rss_query);
}

static void store_vf(struct writer *writer, struct statefile *records, const struct device *device,
	const struct device_vf *vf)
{
	begin(writer, records, "vf", device);
	put_number(writer, "index", vf->settings.index);
	put_text(writer, "function", vf->function);
	put_text(writer, "driver", vf->driver);
	put_text(writer, "override", vf->override);
	store_settings(writer, &vf->settings);
}

static void store_sf(struct writer *writer, struct statefile *records, const struct device *device,
	const struct device_sf *sf)
{
	begin(writer, records, "sf", device);
	put_number(writer, "controller", sf->port.controller);
	put_number(writer, "pf", sf->port.pf);
	put_number(writer, "number", sf->port.number);
	put_bytes(writer, "address", sf->port.address, sf->port.address_size);
	if (sf->port.has_state)
		put_number(writer, "active", sf->port.is_active);
	put_text(writer, "auxiliary", sf->auxiliary);
	put_text(writer, "driver", sf->driver);
}

static void store_param(struct writer *writer, struct statefile *records,
	const struct device *device, const struct devlink_param *param)
{
	begin(writer, records, "param", device);
	put_text(writer, "name", param->name);
	put_number(writer, "type", param->type);
	put_number(writer, "mode", param->mode);
	put_text(writer, "value", param->value);
}

static void store_rate(struct writer *writer, struct statefile *records,
	const struct device *device, const struct device_rate *rate)
{
	begin(writer, records, "rate", device);
	put_text(writer, "node", rate->rate.node);
	if (!*rate->rate.node) {
		put_number(writer, rate->port.is_vf ? "vf" : "sf", rate->port.number);
		put_number(writer, "controller", rate->port.controller);
		put_number(writer, "pf", rate->port.pf);
	}
	put_number(writer, "share", rate->rate.share);
	put_number(writer, "max", rate->rate.max);
	put_text(writer, "parent", rate->rate.parent);
}

int device_store(const struct device *device, struct statefile *records)
{
	struct writer writer = { 0 };

	store_device(&writer, records, device);
	for (size_t i = 0; i < device->param_count; i++)
		store_param(&writer, records, device, &device->params[i]);
	for (size_t i = 0; i < device->vf_count; i++)
		store_vf(&writer, records, device, &device->vfs[i]);
	for (size_t i = 0; i < device->sf_count; i++)
		store_sf(&writer, records, device, &device->sfs[i]);
	for (size_t i = 0; i < device->rate_count; i++)
		store_rate(&writer, records, device, &device->rates[i]);
	return writer.code;
}

/* ---- from the journal */

static void get_text(const struct record *record, const char *name, char *text, size_t size)
{
	const char *value = record_get(record, name);

	(void) snprintf(text, size, "%s", value ? value : "");
}

/* What becomes a part of a path below /sys, or "". */
static bool get_part(const struct record *record, const char *name, char part[DEVICE_PART_SIZE])
{
	get_text(record, name, part, DEVICE_PART_SIZE);
	return !record_get(record, name) ||
	       record_is_part(record_get(record, name), DEVICE_PART_SIZE);
}

static bool get_number(const struct record *record, const char *name, uint64_t *number)
{
	*number = 0;
	return record_get_u64(record, name, number) == 0;
}

static bool get_flag(const struct record *record, const char *name, bool *flag)
{
	uint64_t number;
	bool is_there = get_number(record, name, &number);

	*flag = number != 0;
	return is_there;
}

static bool get_word(const struct record *record, const char *name, const char *const *words,
	size_t count, uint64_t *number)
{
	const char *value = record_get(record, name);

	for (size_t i = 0; value && i < count; i++)
		if (words[i] && strcmp(words[i], value) == 0) {
			*number = i;
			return true;
		}
	return get_number(record, name, number);
}

static void load_eswitch(const struct record *record, struct devlink_eswitch *eswitch)
{
	uint64_t number;

	eswitch->has_mode =
		get_word(record, "eswitch", eswitch_words, ARRAY_SIZE(eswitch_words), &number);
	eswitch->mode = (uint16_t) number;
	eswitch->has_inline =
		get_word(record, "inline", inline_words, ARRAY_SIZE(inline_words), &number);
	eswitch->inline_mode = (uint8_t) number;
	eswitch->has_encap =
		get_word(record, "encap", encap_words, ARRAY_SIZE(encap_words), &number);
	eswitch->encap_mode = (uint8_t) number;
}

static int load_device(const struct record *record, struct device *device)
{
	uint64_t number;

	if (!get_part(record, "driver", device->driver))
		return -EBADMSG;
	device->has_vfs = get_number(record, "vfs", &number);
	device->vf_number = (unsigned) number;
	device->has_autoprobe = get_flag(record, "autoprobe", &device->autoprobe);
	load_eswitch(record, &device->eswitch);
	return 0;
}

static void learn(struct vf_settings *vf, enum vf_attribute attribute, bool is_known)
{
	if (is_known)
		vf->known |= 1u << attribute;
}

static void load_settings(const struct record *record, struct vf_settings *vf)
{
	uint64_t number;

	learn(vf, VF_MAC,
		record_get_hex(record, "mac", vf->mac, sizeof(vf->mac)) == sizeof(vf->mac));
	learn(vf, VF_NODE_GUID, get_number(record, "node_guid", &vf->node_guid));
	learn(vf, VF_PORT_GUID, get_number(record, "port_guid", &vf->port_guid));
	learn(vf, VF_VLAN, get_number(record, "vlan", &number));
	vf->vlan = (uint16_t) number;
	(void) get_number(record, "qos", &number);
	vf->qos = (uint8_t) number;
	(void) get_number(record, "protocol", &number);
	vf->vlan_protocol = (uint16_t) number;
	learn(vf, VF_RATE, get_number(record, "max_rate", &number));
	vf->max_rate = (uint32_t) number;
	(void) get_number(record, "min_rate", &number);
	vf->min_rate = (uint32_t) number;
	learn(vf, VF_TRUST, get_flag(record, "trust", &vf->trust));
	learn(vf, VF_SPOOF_CHECK, get_flag(record, "spoof_check", &vf->spoof_check));
	learn(vf, VF_LINK_STATE,
		get_word(record, "link_state", link_words, ARRAY_SIZE(link_words), &number));
	vf->link_state = (uint8_t) number;
	learn(vf, VF_RSS_QUERY, get_flag(record, "rss_query", &vf->rss_query));
}

static int load_vf(const struct record *record, struct device *device)
{
	struct device_vf *vfs = reallocarray(device->vfs, device->vf_count + 1, sizeof(*vfs));
	struct device_vf vf = { 0 };
	uint64_t index;

	if (!vfs)
		return -ENOMEM;
	device->vfs = vfs;
	if (!get_number(record, "index", &index) || !get_part(record, "function", vf.function) ||
		!get_part(record, "driver", vf.driver))
		return -EBADMSG;
	vf.settings.index = (uint32_t) index;
	get_text(record, "override", vf.override, sizeof(vf.override));
	load_settings(record, &vf.settings);
	vfs[device->vf_count++] = vf;
	return 0;
}

static int load_sf(const struct record *record, struct device *device)
{
	struct devlink_port port = { 0 };
	struct device_sf *sf;
	uint64_t number;
	int size;
	int r;

	if (!get_number(record, "number", &number))
		return -EBADMSG;
	port.number = (uint32_t) number;
	(void) get_number(record, "controller", &number);
	port.controller = (uint32_t) number;
	(void) get_number(record, "pf", &number);
	port.pf = (uint16_t) number;
	size = record_get_hex(record, "address", port.address, sizeof(port.address));
	port.address_size = size > 0 ? (size_t) size : 0;
	port.has_state = get_flag(record, "active", &port.is_active);
	r = device_add_port(device, &port);
	if (r < 0)
		return r;
	sf = &device->sfs[device->sf_count - 1];
	return get_part(record, "auxiliary", sf->auxiliary) &&
			       get_part(record, "driver", sf->driver)
		       ? 0
		       : -EBADMSG;
}

static int load_rate(const struct record *record, struct device *device)
{
	struct devlink_rate rate = { 0 };
	struct devlink_port port = { 0 };
	uint64_t number;

	get_text(record, "node", rate.node, sizeof(rate.node));
	get_text(record, "parent", rate.parent, sizeof(rate.parent));
	(void) get_number(record, "share", &rate.share);
	(void) get_number(record, "max", &rate.max);
	if (*rate.node)
		return device_add_rate(device, &rate, NULL);
	port.is_vf = get_number(record, "vf", &number);
	if (!port.is_vf && !get_number(record, "sf", &number))
		return -EBADMSG;
	port.number = (uint32_t) number;
	(void) get_number(record, "controller", &number);
	port.controller = (uint32_t) number;
	(void) get_number(record, "pf", &number);
	port.pf = (uint16_t) number;
	return device_add_rate(device, &rate, &port);
}

static int load_param(const struct record *record, struct device *device)
{
	struct devlink_param param = { 0 };
	uint64_t number;

	get_text(record, "name", param.name, sizeof(param.name));
	get_text(record, "value", param.value, sizeof(param.value));
	if (!*param.name || !get_number(record, "type", &number))
		return -EBADMSG;
	param.type = (uint8_t) number;
	(void) get_number(record, "mode", &number);
	param.mode = (uint8_t) number;
	return device_add_param(device, &param);
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

static const struct {
	const char *kind;
	int (*load)(const struct record *record, struct device *device);
} kinds[] = {
	{ "device", load_device },
	{ "vf", load_vf },
	{ "sf", load_sf },
	{ "rate", load_rate },
	{ "param", load_param },
};

static int load_record(const struct record *record, struct device_list *list)
{
	const char *name = record_get(record, "device");

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		struct device *device;

		if (strcmp(record->kind, kinds[i].kind) != 0)
			continue;
		if (!name || !is_device_name(name))
			return -EBADMSG;
		device = device_of(list, name);
		return device ? kinds[i].load(record, device) : -ENOMEM;
	}
	return 0;
}

int device_load_one(const struct statefile *records, size_t index, struct device_list *list,
	struct error *error)
{
	int r = load_record(&records->items[index], list);

	if (r == -EBADMSG)
		return error_set(error, r,
			"the journal of the network state has a damaged record of the kind %s "
			"(record %zu)",
			records->items[index].kind, index + 1);
	return r < 0 ? error_set_errno(error, r, "the journal of the network state") : 0;
}

int device_load(const struct statefile *records, struct device_list *list, struct error *error)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < records->count; i++)
		r = device_load_one(records, i, list, error);
	return r;
}

static bool is_of_a_device(const struct record *record)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (strcmp(record->kind, kinds[i].kind) == 0)
			return true;
	return false;
}

static bool is_no_ones(const struct record *record)
{
	return !record_get(record, "forgotten");
}

void device_forget(struct statefile *records, const char *name)
{
	for (size_t i = 0; i < records->count; i++) {
		struct record *record = &records->items[i];
		const char *device = record_get(record, "device");

		if (device && strcmp(device, name) == 0 && is_of_a_device(record))
			(void) !record_set(record, "forgotten", "1");
	}
	statefile_keep(records, is_no_ones);
}
