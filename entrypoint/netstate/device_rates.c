/* SPDX-License-Identifier: Apache-2.0 */
/* Rates of ports and of the nodes that they share, on their way back. */
#include <inttypes.h>
#include <string.h>

#include "entrypoint/netstate/device_restore.h"

static int keep_port(void *context, const char *name, const struct devlink_port *port)
{
	(void) name;
	return device_add_port(context, port);
}

struct keeper {
	const char *device;
	struct device *now;
};

static int keep_rate(void *context, const char *name, const struct devlink_rate *rate)
{
	const struct keeper *keeper = context;

	return strcmp(name, keeper->device) == 0 ? device_add_rate(keeper->now, rate, NULL) : 0;
}

/* "node x", "VF 3", "subfunction 88". */
static void describe(const struct device_rate *rate, char text[128])
{
	if (*rate->rate.node)
		(void) snprintf(text, 128, "rate node %s", rate->rate.node);
	else
		(void) snprintf(text, 128, "%s %" PRIu32, rate->port.is_vf ? "VF" : "subfunction",
			rate->port.number);
}

static void fail(
	const struct restoration *restoration, const struct device_rate *saved, const char *why)
{
	char what[128];

	describe(saved, what);
	crew_fail(restoration->crew,
		"%s of %s does not get back its rates (devlink port function rate): %s", what,
		restoration->saved->name, why);
}

static const struct devlink_port *port_of(const struct device *now, const struct devlink_port *port)
{
	for (size_t i = 0; i < now->port_count; i++)
		if (device_is_same_port(&now->ports[i], port))
			return &now->ports[i];
	for (size_t i = 0; i < now->sf_count; i++)
		if (device_is_same_port(&now->sfs[i].port, port))
			return &now->sfs[i].port;
	return NULL;
}

static const struct devlink_rate *rate_now(
	const struct device *now, const struct devlink_rate *wanted)
{
	for (size_t i = 0; i < now->rate_count; i++) {
		const struct devlink_rate *rate = &now->rates[i].rate;

		if (strcmp(rate->node, wanted->node) == 0 &&
			(*wanted->node || rate->port_index == wanted->port_index))
			return rate;
	}
	return NULL;
}

static void set_parts(struct restoration *restoration, const struct device_rate *saved,
	const struct devlink_rate *wanted, const struct devlink_rate *now)
{
	const char *device = restoration->saved->name;
	struct error error = { 0 };
	int r = 0;

	if (wanted->share != now->share)
		r = devlink_rate_set(
			restoration->devlink, device, wanted, DEVLINK_RATE_SHARE, &error);
	if (r == 0 && wanted->max != now->max)
		r = devlink_rate_set(
			restoration->devlink, device, wanted, DEVLINK_RATE_MAX, &error);
	if (r == 0 && strcmp(wanted->parent, now->parent) != 0)
		r = devlink_rate_set(
			restoration->devlink, device, wanted, DEVLINK_RATE_PARENT, &error);
	if (r < 0)
		fail(restoration, saved, error.text);
}

static void restore_rate(struct restoration *restoration, const struct device_rate *saved)
{
	struct devlink_rate wanted = saved->rate;
	const struct devlink_rate *now;

	if (!*wanted.node) {
		const struct devlink_port *port = port_of(&restoration->now, &saved->port);

		if (!port) {
			fail(restoration, saved, "it has no port");
			return;
		}
		wanted.port_index = port->index;
	}
	now = rate_now(&restoration->now, &wanted);
	if (now)
		set_parts(restoration, saved, &wanted, now);
	else
		fail(restoration, saved, "the driver that is loaded has no rates for it");
}

/* All nodes before anything is put below one. */
static void add_nodes(struct restoration *restoration)
{
	const struct device *saved = restoration->saved;

	for (size_t i = 0; i < saved->rate_count; i++) {
		const struct devlink_rate *rate = &saved->rates[i].rate;
		struct devlink_rate added = { 0 };
		struct error error = { 0 };

		if (!*rate->node || rate_now(&restoration->now, rate))
			continue;
		(void) snprintf(added.node, sizeof(added.node), "%s", rate->node);
		if (devlink_rate_add_node(restoration->devlink, saved->name, rate->node, &error) <
			0)
			fail(restoration, &saved->rates[i], error.text);
		else if (device_add_rate(&restoration->now, &added, NULL) < 0)
			fail(restoration, &saved->rates[i], strerror(ENOMEM));
	}
}

void restore_rates(struct restoration *restoration)
{
	const struct device *saved = restoration->saved;
	struct keeper keeper = { saved->name, &restoration->now };
	struct error error = { 0 };
	int r;

	if (!saved->rate_count || !restoration->devlink)
		return;
	r = devlink_ports(restoration->devlink, saved->name, keep_port, &restoration->now, &error);
	if (r == 0)
		r = devlink_rates(restoration->devlink, saved->name, keep_rate, &keeper, &error);
	if (r < 0) {
		crew_fail(restoration->crew, "%s does not tell its rates: %s", saved->name,
			error.text);
		return;
	}
	add_nodes(restoration);
	for (size_t i = 0; i < saved->rate_count; i++)
		restore_rate(restoration, &saved->rates[i]);
}
