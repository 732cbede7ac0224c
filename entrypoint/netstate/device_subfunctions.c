/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Subfunctions on their way back: the port is added, gets its address, is made active, and then an
 * auxiliary device comes for it. Source: Documentation/networking/devlink/devlink-port.rst.
 */
#include <string.h>

#include "entrypoint/netstate/device_restore.h"
#include "entrypoint/netstate/uevents.h"

static int keep_port(void *context, const char *name, const struct devlink_port *port)
{
	(void) name;
	return device_add_port(context, port);
}

static int list(struct restoration *restoration)
{
	struct error error = { 0 };
	int r = devlink_ports(restoration->devlink, restoration->saved->name, keep_port,
		&restoration->now, &error);

	if (r < 0)
		crew_tell(restoration->crew, "%s: its subfunctions cannot be listed: %s",
			restoration->saved->name, error.text);
	return r;
}

static struct device_sf *find(struct device *device, const struct devlink_port *port)
{
	for (size_t i = 0; i < device->sf_count; i++) {
		if (device_is_same_port(&device->sfs[i].port, port))
			return &device->sfs[i];
	}
	return NULL;
}

static void fail(const struct restoration *restoration, const struct device_sf *saved,
	const char *what, const char *why)
{
	crew_fail(restoration->crew, "subfunction %u of %s %s: %s", saved->port.number,
		restoration->saved->name, what, why);
}

/* The one that is there, or a new one; NULL when it cannot be had. */
static struct device_sf *add(struct restoration *restoration, const struct device_sf *saved)
{
	struct devlink_port port = { .controller = saved->port.controller,
		.pf = saved->port.pf,
		.number = saved->port.number };
	struct device_sf *now = find(&restoration->now, &port);
	struct error error = { 0 };
	int r;

	if (now)
		return now;
	r = devlink_subfunction_add(restoration->devlink, restoration->saved->name, &port, &error);
	/* Something that was killed in the middle may have added it a moment ago. */
	if (r == -EEXIST && list(restoration) == 0)
		now = find(&restoration->now, &port);
	if (now)
		return now;
	if (r == 0)
		r = device_add_port(&restoration->now, &port);
	if (r < 0) {
		fail(restoration, saved, "is not made again",
			*error.text ? error.text : strerror(-r));
		return NULL;
	}
	return &restoration->now.sfs[restoration->now.sf_count - 1];
}

static bool has_address(const struct device_sf *saved, const struct device_sf *now)
{
	static const uint8_t none[DEVLINK_ADDRESS_SIZE];

	return memcmp(saved->port.address, none, sizeof(none)) == 0 ||
	       memcmp(saved->port.address, now->port.address, sizeof(none)) == 0;
}

static void configure(struct restoration *restoration, const struct device_sf *saved)
{
	const char *device = restoration->saved->name;
	struct device_sf *now = add(restoration, saved);
	struct devlink_port port = saved->port;
	struct error error = { 0 };

	if (!now)
		return;
	port.index = now->port.index;
	if (port.address_size && !has_address(saved, now) &&
		devlink_port_set_address(restoration->devlink, device, &port, &error) < 0)
		fail(restoration, saved, "does not get back its address", error.text);
	if (port.has_state && port.is_active && !now->port.is_active &&
		devlink_port_set_active(restoration->devlink, device, &port, &error) < 0)
		fail(restoration, saved, "does not become active", error.text);
}

/* ---- its auxiliary device */

struct arrival {
	const struct restoration *restoration;
	struct device_sf now;
};

static bool has_driver(void *context)
{
	struct arrival *arrival = context;

	device_read_subfunction(arrival->restoration->network->root_fd,
		arrival->restoration->saved->name, &arrival->now);
	return *arrival->now.driver != '\0';
}

static int move(const struct restoration *restoration, const struct device_sf *saved,
	const struct device_sf *now)
{
	int root_fd = restoration->network->root_fd;
	char device[DEVLINK_NAME_SIZE];
	char path[192];
	int r = 0;

	(void) snprintf(device, sizeof(device), "auxiliary/%s", now->auxiliary);
	if (*now->driver)
		r = device_write(root_fd, device, "driver/unbind", now->auxiliary);
	(void) snprintf(path, sizeof(path), "sys/bus/auxiliary/drivers/%s/bind", saved->driver);
	return r < 0 || !*saved->driver ? r : sysfs_write(root_fd, path, now->auxiliary);
}

static void restore_driver(struct restoration *restoration, const struct device_sf *saved)
{
	struct arrival arrival = { .restoration = restoration, .now = *saved };
	const struct device_sf *before = find(&restoration->now, &saved->port);
	bool was_active = before && before->port.is_active;
	int r;

	if (!*saved->auxiliary)
		return;
	/* The bus gives a driver to each one that comes, also to one that had none. */
	(void) uevents_wait(restoration->uevents,
		was_active && !*saved->driver ? 0 : restoration->network->bind_ms, has_driver,
		&arrival);
	if (strcmp(arrival.now.driver, saved->driver) == 0)
		return;
	if (!*arrival.now.auxiliary) {
		fail(restoration, saved, "has no auxiliary device", "it has not come in time");
		return;
	}
	r = move(restoration, saved, &arrival.now);
	if (r < 0)
		fail(restoration, saved,
			*saved->driver ? "does not go back to its driver" : "is not unbound",
			r == -ENOENT ? "that is not loaded" : strerror(-r));
}

void restore_subfunctions(struct restoration *restoration)
{
	const struct device *saved = restoration->saved;

	if (!saved->sf_count || !restoration->devlink)
		return;
	(void) list(restoration);
	for (size_t i = 0; i < saved->sf_count; i++)
		configure(restoration, &saved->sfs[i]);
	/* All of them are on their way by now. */
	for (size_t i = 0; i < saved->sf_count; i++)
		restore_driver(restoration, &saved->sfs[i]);
}
