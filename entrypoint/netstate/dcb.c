/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Data center bridging, saved and restored. In the state file, a record for each interface that has
 * it:
 *
 *   dcb life link dcbx=13 ets=<hex> maxrate=<hex> pfc=<hex> buffer=<hex> app=<hex>
 *
 * with the kernel's structures, without what they have of counters and capabilities. A lossless
 * network loses packets without these: what is set, and a driver does not take, is a failure.
 */
#include "entrypoint/netstate/dcb.h"

#include <linux/rtnetlink.h>
#include <stdlib.h>
#include <string.h>

#include "entrypoint/netstate/link_internal.h"

#define KIND "dcb"

#define PART(name, type, member)                                                                   \
	{                                                                                          \
		name, type, offsetof(struct dcb, member), sizeof(((struct dcb *) NULL)->member)    \
	}

/* In the order in which they are set: drivers compute the buffers from what is lossless. */
static const struct part {
	const char *name;
	uint16_t type;
	size_t offset; /* in struct dcb */
	size_t size;
} parts[] = {
	PART("ets", DCB_ATTR_IEEE_ETS, ets),
	PART("maxrate", DCB_ATTR_IEEE_MAXRATE, maxrate),
	PART("pfc", DCB_ATTR_IEEE_PFC, pfc),
	PART("buffer", DCB_ATTR_DCB_BUFFER, buffer),
};

#define PART_SIZE sizeof(struct ieee_pfc) /* the largest */

void dcb_free(struct dcb *dcb)
{
	free(dcb->apps);
	*dcb = (struct dcb){ .dcbx = -1 };
}

bool dcb_has_app(const struct dcb *dcb, const struct dcb_app *app)
{
	for (size_t i = 0; i < dcb->app_count; i++)
		if (memcmp(&dcb->apps[i], app, sizeof(*app)) == 0)
			return true;
	return false;
}

/* ---- asking */

static struct nlmsghdr *begin(
	struct netlink *netlink, uint16_t type, uint8_t command, const char *interface)
{
	struct nlmsghdr *request = netlink_request(netlink, type, 0, sizeof(struct dcbmsg));
	struct dcbmsg *header = mnl_nlmsg_get_payload(request);

	header->cmd = command;
	netlink_put_text(request, DCB_ATTR_IFNAME, interface);
	return request;
}

static int keep(void *context, const struct nlmsghdr *message)
{
	struct dcb *dcb = context;
	const struct nlattr *ieee =
		netlink_attribute(message, sizeof(struct dcbmsg), DCB_ATTR_IEEE);
	const struct nlattr *dcbx =
		netlink_attribute(message, sizeof(struct dcbmsg), DCB_ATTR_DCBX);
	const struct nlattr *table = netlink_nested(ieee, DCB_ATTR_IEEE_APP_TABLE);
	const struct nlattr *entry;

	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		const void *payload =
			netlink_payload(netlink_nested(ieee, parts[i].type), parts[i].size);

		if (!payload)
			continue;
		memcpy((char *) dcb + parts[i].offset, payload, parts[i].size);
		dcb->has |= BIT(parts[i].type);
	}
	if (dcbx)
		dcb->dcbx = (int) netlink_number(dcbx);
	if (!table)
		return 0;
	mnl_attr_for_each_nested(entry, table)
	{
		const void *payload = netlink_payload(entry, sizeof(struct dcb_app));
		struct dcb_app *app;

		if (!payload)
			continue;
		app = array_add(&dcb->apps, &dcb->app_count, sizeof(*app));
		if (!app)
			return -ENOMEM;
		memcpy(app, payload, sizeof(*app));
	}
	return 0;
}

/* Replaces what is in @dcb, on failure by nothing. */
static int ask(struct netlink *netlink, const char *interface, struct dcb *dcb, struct error *error)
{
	int r;

	dcb_free(dcb);
	r = netlink_talk(
		netlink, begin(netlink, RTM_GETDCB, DCB_CMD_IEEE_GET, interface), keep, dcb, error);
	return r == -EOPNOTSUPP ? error_set(error, r, "this driver has no DCB") : r;
}

int dcb_read(const char *interface, struct dcb *ret, struct error *error)
{
	_cleanup_(netlink_close) struct netlink *netlink = NULL;
	int r = netlink_open(NETLINK_ROUTE, &netlink, error);

	*ret = (struct dcb){ .dcbx = -1 };
	return r < 0 ? r : ask(netlink, interface, ret, error);
}

/* ---- saving */

/* Leaves what can be set. A share of the line means nothing to a class that has none. */
static void drop_readings(struct dcb *dcb)
{
	dcb->ets.ets_cap = 0;
	dcb->ets.cbs = 0;
	for (size_t i = 0; i < IEEE_8021QAZ_MAX_TCS; i++)
		if (dcb->ets.tc_tsa[i] != IEEE_8021QAZ_TSA_ETS)
			dcb->ets.tc_tx_bw[i] = 0;
	dcb->pfc = (struct ieee_pfc){
		.pfc_en = dcb->pfc.pfc_en, .mbc = dcb->pfc.mbc, .delay = dcb->pfc.delay
	};
	dcb->buffer.total_size = 0;
}

static int save_link(const struct links_save *save, const struct link *link)
{
	_cleanup_(dcb_free) struct dcb dcb = { 0 };
	struct error ignored;
	struct record *record;
	int r = ask(save->netlink, link->name, &dcb, &ignored);

	if (r == -ENOMEM || r == -EOPNOTSUPP)
		return r == -ENOMEM ? r : 0;
	if (r < 0)
		return run_record_unsaved(
			save->run, link->name, "its data center bridging (dcb, mlnx_qos)");
	drop_readings(&dcb);
	record = records_add(save->run->records, KIND, "life", save->life, "link", link->name);
	if (!record || (dcb.dcbx >= 0 && record_setf(record, "dcbx", "%d", dcb.dcbx) < 0))
		return -ENOMEM;
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		if ((dcb.has & BIT(parts[i].type)) &&
			record_set_hex(record, parts[i].name, (char *) &dcb + parts[i].offset,
				parts[i].size) < 0)
			return -ENOMEM;
	return record_set_hex(record, "app", dcb.apps, dcb.app_count * sizeof(*dcb.apps));
}

int dcb_save(const struct links_save *save)
{
	for (size_t i = 0; i < save->count; i++)
		if (link_has_settings(save->order[i]) && save_link(save, save->order[i]) < 0)
			return -ENOMEM;
	return 0;
}

/* ---- setting */

/*
 * Keeps the kernel's verdict on a request; the acknowledgement says only that the request arrived.
 */
static int keep_verdict(void *context, const struct nlmsghdr *message)
{
	uint32_t *verdict = context;
	const struct nlattr *ieee =
		netlink_attribute(message, sizeof(struct dcbmsg), DCB_ATTR_IEEE);

	*verdict = netlink_number(
		ieee ? ieee : netlink_attribute(message, sizeof(struct dcbmsg), DCB_ATTR_DCBX));
	return 0;
}

static int send_request(struct netlink *netlink, struct nlmsghdr *request, struct error *error)
{
	uint32_t verdict = 0;
	int r = netlink_talk(netlink, request, keep_verdict, &verdict, error);

	if (r < 0 || verdict == 0)
		return r;
	/* A negative errno in one byte, or of DCBX 1. */
	if (verdict == 1)
		return error_set(error, -EINVAL, "the driver refuses it");
	return error_set_errno(error, (int) verdict - 256, "the driver refuses it");
}

static int set_part(struct netlink *netlink, const char *interface, const struct part *part,
	const void *data, struct error *error)
{
	struct nlmsghdr *request = begin(netlink, RTM_SETDCB, DCB_CMD_IEEE_SET, interface);
	struct nlattr *ieee = mnl_attr_nest_start(request, DCB_ATTR_IEEE);

	netlink_put(request, part->type, part->size, data);
	mnl_attr_nest_end(request, ieee);
	return send_request(netlink, request, error);
}

/* @command: DCB_CMD_IEEE_SET, DCB_CMD_IEEE_DEL. */
static int change_app(struct netlink *netlink, const char *interface, uint8_t command,
	const struct dcb_app *app, struct error *error)
{
	struct nlmsghdr *request = begin(netlink, RTM_SETDCB, command, interface);
	struct nlattr *ieee = mnl_attr_nest_start(request, DCB_ATTR_IEEE);
	struct nlattr *table = mnl_attr_nest_start(request, DCB_ATTR_IEEE_APP_TABLE);

	netlink_put(request, DCB_ATTR_IEEE_APP, sizeof(*app), app);
	mnl_attr_nest_end(request, table);
	mnl_attr_nest_end(request, ieee);
	return send_request(netlink, request, error);
}

static int set_dcbx(struct netlink *netlink, const char *interface, int dcbx, struct error *error)
{
	struct nlmsghdr *request = begin(netlink, RTM_SETDCB, DCB_CMD_SDCBX, interface);

	mnl_attr_put_u8(request, DCB_ATTR_DCBX, (uint8_t) dcbx);
	return send_request(netlink, request, error);
}

/* ---- setting one thing, for mlnx_qos */

int dcb_write(const char *interface, const struct dcb *dcb, uint16_t type, struct error *error)
{
	_cleanup_(netlink_close) struct netlink *netlink = NULL;
	int r = netlink_open(NETLINK_ROUTE, &netlink, error);

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(parts); i++)
		if (parts[i].type == type)
			return set_part(netlink, interface, &parts[i],
				(const char *) dcb + parts[i].offset, error);
	return r;
}

int dcb_write_dcbx(const char *interface, int dcbx, struct error *error)
{
	_cleanup_(netlink_close) struct netlink *netlink = NULL;
	int r = netlink_open(NETLINK_ROUTE, &netlink, error);

	return r < 0 ? r : set_dcbx(netlink, interface, dcbx, error);
}

int dcb_write_app(
	const char *interface, const struct dcb_app *app, bool remove, struct error *error)
{
	_cleanup_(netlink_close) struct netlink *netlink = NULL;
	uint8_t command = remove ? DCB_CMD_IEEE_DEL : DCB_CMD_IEEE_SET;
	int r = netlink_open(NETLINK_ROUTE, &netlink, error);

	return r < 0 ? r : change_app(netlink, interface, command, app, error);
}

/* ---- restoring */

static bool is_lossless(const struct record *record)
{
	struct ieee_pfc pfc;

	return record_get_hex(record, "pfc", &pfc, sizeof(pfc)) == sizeof(pfc) && pfc.pfc_en;
}

/* A driver that lacks a part does as one whose part is zero; PFC's delay alone does nothing. */
static bool is_set(const struct record *record, const struct part *part)
{
	char value[PART_SIZE];
	int size = record_get_hex(record, part->name, value, sizeof(value));

	if (part->type == DCB_ATTR_IEEE_PFC || part->type == DCB_ATTR_DCB_BUFFER)
		return is_lossless(record);
	for (int i = 0; i < size; i++)
		if (value[i])
			return true;
	return false;
}

static bool is_any_set(const struct record *record)
{
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		if (is_set(record, &parts[i]))
			return true;
	return *record_text(record, "app");
}

/* mlx5 names the versions also when its firmware negotiates, and takes 0 for that alone. */
static void restore_dcbx(const struct links_restore *restore, const struct record *record,
	const struct restored_link *link, int now)
{
	int dcbx = (int) record_number(record, "dcbx");
	struct error error = { 0 };
	int r;

	if (!record_get(record, "dcbx") || dcbx == now)
		return;
	if (now < 0) {
		run_note(restore->run, "%s: dcb dcbx 0x%x: this driver has none", link->name,
			(unsigned) dcbx);
		return;
	}
	r = set_dcbx(restore->netlink, link->now->name, dcbx, &error);
	if (r < 0 && !(dcbx & DCB_CAP_DCBX_HOST))
		r = set_dcbx(restore->netlink, link->now->name, 0, &error);
	if (r < 0)
		run_failure(restore->run, "%s: dcb dcbx 0x%x: %s", link->name, (unsigned) dcbx,
			error.text);
}

/*
 * One that is set may change another: each is compared with what is there by then. The buffers of a
 * network that is not lossless are the driver's own; with others mlx5 computes no more of them.
 */
static void restore_part(const struct links_restore *restore, const struct record *record,
	const struct restored_link *link, const struct part *part)
{
	_cleanup_(dcb_free) struct dcb now = { 0 };
	_Alignas(uint64_t) char wanted[PART_SIZE];
	struct error error = { 0 };
	int r;

	if (part->type == DCB_ATTR_DCB_BUFFER && !is_lossless(record))
		return;
	if (record_get_hex(record, part->name, wanted, sizeof(wanted)) != (int) part->size)
		return;
	r = ask(restore->netlink, link->now->name, &now, &error);
	drop_readings(&now);
	if (r == 0 && !(now.has & BIT(part->type)) && !is_set(record, part))
		return;
	if (r == 0 && !(now.has & BIT(part->type)))
		r = error_set(&error, -EOPNOTSUPP, "this driver has none");
	else if (r == 0 && memcmp((char *) &now + part->offset, wanted, part->size) != 0)
		r = set_part(restore->netlink, link->now->name, part, wanted, &error);
	if (r < 0)
		run_failure(restore->run, "%s: dcb %s: %s", link->name, part->name, error.text);
}

/* Makes, or (DCB_CMD_IEEE_DEL) removes, what only the first one has. */
static void change_apps(const struct links_restore *restore, const struct restored_link *link,
	uint8_t command, const struct dcb *one, const struct dcb *other)
{
	for (size_t i = 0; i < one->app_count; i++) {
		const struct dcb_app *app = &one->apps[i];
		struct error error = { 0 };

		if (!dcb_has_app(other, app) &&
			change_app(restore->netlink, link->now->name, command, app, &error) < 0)
			run_failure(restore->run,
				"%s: dcb app%s: selector %u, protocol %u, priority %u: %s",
				link->name, command == DCB_CMD_IEEE_DEL ? ", to be removed" : "",
				app->selector, app->protocol, app->priority, error.text);
	}
}

/*
 * A new entry may replace another (mlx5), so what is too much is known when all are there. After a
 * boot that may be the host's.
 */
static void restore_apps(const struct links_restore *restore, const struct record *record,
	const struct restored_link *link)
{
	_cleanup_(dcb_free) struct dcb wanted = { 0 };
	_cleanup_(dcb_free) struct dcb now = { 0 };
	size_t size = strlen(record_text(record, "app")) / 2;
	struct error ignored;

	wanted.app_count = size / sizeof(*wanted.apps);
	wanted.apps = calloc(wanted.app_count + 1, sizeof(*wanted.apps));
	if (!wanted.apps || record_get_hex(record, "app", wanted.apps, size) != (int) size ||
		ask(restore->netlink, link->now->name, &now, &ignored) < 0)
		return;
	change_apps(restore, link, DCB_CMD_IEEE_SET, &wanted, &now);
	if (restore->same_boot && ask(restore->netlink, link->now->name, &now, &ignored) == 0)
		change_apps(restore, link, DCB_CMD_IEEE_DEL, &now, &wanted);
}

void dcb_restore(const struct links_restore *restore)
{
	const struct record *record = NULL;

	while ((record = records_next(restore->run->records, KIND, record))) {
		const struct restored_link *link =
			restored_by_name(restore, record_get(record, "link"));
		_cleanup_(dcb_free) struct dcb now = { 0 };
		struct error error = { 0 };
		int r;

		if (!link || !link->now || link->is_hosts ||
			record_number(record, "life") != link->life)
			continue;
		r = ask(restore->netlink, link->now->name, &now, &error);
		if (r < 0 && (r != -EOPNOTSUPP || is_any_set(record)))
			run_failure(restore->run, "%s: dcb: %s", link->name, error.text);
		if (r < 0)
			continue;
		restore_dcbx(restore, record, link, now.dcbx);
		for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
			restore_part(restore, record, link, &parts[i]);
		restore_apps(restore, record, link);
	}
}
