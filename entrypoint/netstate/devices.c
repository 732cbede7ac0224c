/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/netstate/devices.h"

#include <linux/devlink.h>
#include <stdlib.h>
#include <string.h>

#include "entrypoint/netstate/crew.h"
#include "entrypoint/netstate/device_restore.h"
#include "entrypoint/netstate/device_state.h"
#include "entrypoint/netstate/tell.h"

#define PFS_AT_ONCE 32

/* ---- save */

struct saving {
	const struct network *network;
	struct device_list devices;
	struct devlink *devlink; /* NULL: a kernel without it */
	struct netlink *route;
};

static void saving_end(struct saving *saving)
{
	device_list_free(&saving->devices);
	devlink_close(&saving->devlink);
	netlink_close(&saving->route);
}

static bool is_recorded(const struct statefile *records, const char *name)
{
	for (size_t i = 0; i < records->count; i++) {
		const char *device = record_get(&records->items[i], "device");

		if (device && strcmp(records->items[i].kind, "device") == 0 &&
			strcmp(device, name) == 0)
			return true;
	}
	return false;
}

static void tell_gaps(const struct network *network, const struct device *device)
{
	size_t told = 0;

	for (size_t i = 0; i < device->vf_count; i++)
		told += device->vfs[i].settings.known != 0;
	if (told < device->vf_count)
		network_note(network,
			"%s: what it holds for %zu of its %zu VFs is not told, and not kept: %s",
			device->name, device->vf_count - told, device->vf_count,
			device->ifindex ? "the kernel leaves it out"
					: "its interface is not in this network namespace");
}

/* A device whose driver answers with an error, or has no eswitch, is kept without it. */
static void read_eswitch(struct saving *saving, struct device *device)
{
	struct error error = { 0 };
	int r = -EOPNOTSUPP;

	if (saving->devlink)
		r = devlink_eswitch_get(saving->devlink, device->name, &device->eswitch, &error);
	if (r < 0 && r != -EOPNOTSUPP && r != -ENODEV)
		network_note(saving->network,
			"%s: its eswitch's mode is not told, and not kept: %s", device->name,
			error.text);
}

static int read_device(struct saving *saving, const char *name, struct error *error)
{
	struct device_list *list = &saving->devices;
	struct device *items = reallocarray(list->items, list->count + 1, sizeof(*items));
	struct device *device;
	int r;

	if (!items)
		return error_set_errno(error, -ENOMEM, "%s", name);
	list->items = items;
	device = &items[list->count];
	r = device_read_sysfs(saving->network->root_fd, name, device);
	if (r < 0)
		return error_set_errno(error, r, "%s", name);
	list->count++;
	r = device_read_vfs(saving->route, device, error);
	if (r < 0)
		return error_prefix(error, r, "%s: its VFs", name);
	tell_gaps(saving->network, device);
	read_eswitch(saving, device);
	return 0;
}

static int keep_param(void *context, const char *name, const struct devlink_param *param)
{
	struct device *device = device_list_find(context, name);

	return device ? device_add_param(device, param) : 0;
}

static int keep_port(void *context, const char *name, const struct devlink_port *port)
{
	struct device *device = device_list_find(context, name);

	return device ? device_add_port(device, port) : 0;
}

static int keep_rate(void *context, const char *name, const struct devlink_rate *rate)
{
	struct device *device = device_list_find(context, name);

	return device ? device_keep_rate(device, rate) : 0;
}

/* Asked once for all devices; the rates after the ports that they are of. */
static void read_devlink(struct saving *saving)
{
	struct error error = { 0 };
	int r;

	if (!saving->devlink)
		return;
	if (devlink_params(saving->devlink, keep_param, &saving->devices, &error) < 0)
		network_note(saving->network, "devlink's parameters are not told, and not kept: %s",
			error.text);
	if (devlink_ports(saving->devlink, NULL, keep_port, &saving->devices, &error) < 0)
		network_note(
			saving->network, "subfunctions are not told, and not kept: %s", error.text);
	r = devlink_rates(saving->devlink, NULL, keep_rate, &saving->devices, &error);
	if (r < 0 && r != -EOPNOTSUPP)
		network_note(saving->network, "devlink's rates are not told, and not kept: %s",
			error.text);
	for (size_t i = 0; i < saving->devices.count; i++) {
		struct device *device = &saving->devices.items[i];

		for (size_t j = 0; j < device->sf_count; j++)
			device_read_subfunction(
				saving->network->root_fd, device->name, &device->sfs[j]);
	}
}

static int save_all(struct saving *saving, const struct strv *names, struct statefile *records,
	struct error *error)
{
	int r = netlink_open(NETLINK_ROUTE, &saving->route, error);

	if (r < 0)
		return r;
	r = devlink_open(&saving->devlink, error);
	if (r < 0 && r != -ENOENT)
		return r;
	r = 0;
	for (size_t i = 0; r == 0 && i < names->count; i++)
		if (!is_recorded(records, names->items[i]))
			r = read_device(saving, names->items[i], error);
	if (r < 0)
		return r;
	read_devlink(saving);
	for (size_t i = 0; r == 0 && i < saving->devices.count; i++)
		r = device_store(&saving->devices.items[i], records);
	return r < 0 ? error_set_errno(error, r, "the journal of the network state") : 0;
}

int devices_save(const struct network *network, struct statefile *records, struct error *error)
{
	_cleanup_(saving_end) struct saving saving = { .network = network };
	_cleanup_strv_ struct strv names = { 0 };
	int r = device_names(network->root_fd, network->modules, &names);

	if (r < 0)
		return error_set_errno(error, r, "the devices of the modules that go");
	return names.count ? save_all(&saving, &names, records, error) : 0;
}

bool devices_are_driven(int root_fd, const struct statefile *records)
{
	bool is_any_recorded = false;

	for (size_t i = 0; i < records->count; i++) {
		const char *device = record_get(&records->items[i], "device");
		char driver[DEVICE_PART_SIZE];

		if (!device || strcmp(records->items[i].kind, "device") != 0)
			continue;
		is_any_recorded = true;
		device_link(root_fd, device, "driver", driver);
		if (*driver)
			return true;
	}
	return !is_any_recorded;
}

/* ---- what somebody has set up since */

static bool is_set_up(const struct network *network, struct devlink *devlink, const char *name)
{
	struct devlink_eswitch eswitch = { 0 };
	struct error ignored;
	struct device now;
	bool has_vfs = device_read_sysfs(network->root_fd, name, &now) == 0 && now.vf_number;

	device_free(&now);
	return has_vfs ||
	       (devlink && devlink_eswitch_get(devlink, name, &eswitch, &ignored) == 0 &&
		       eswitch.has_mode && eswitch.mode == DEVLINK_ESWITCH_MODE_SWITCHDEV);
}

static void forget_set_up(const struct network *network, struct devlink *devlink,
	const struct strv *names, struct statefile *records)
{
	for (size_t i = 0; i < names->count; i++) {
		if (!is_recorded(records, names->items[i]) ||
			!is_set_up(network, devlink, names->items[i]))
			continue;
		network_note(network,
			"%s: somebody has set it up since its state was saved: that is kept",
			names->items[i]);
		device_forget(records, names->items[i]);
	}
}

void devices_forget_set_up(const struct network *network, struct statefile *records)
{
	struct devlink *devlink = NULL;
	struct error ignored;
	_cleanup_strv_ struct strv names = { 0 };

	if (device_names(network->root_fd, network->modules, &names) < 0)
		return;
	(void) devlink_open(&devlink, &ignored);
	forget_set_up(network, devlink, &names, records);
	devlink_close(&devlink);
}

/* ---- restore */

struct restoring {
	const struct network *network;
	const struct device_list *devices;
};

static void restore_one(void *context, size_t index, struct crew *crew)
{
	const struct restoring *restoring = context;

	crew_end(crew, index,
		device_restore(restoring->network, &restoring->devices->items[index], crew));
}

/* What was tried is nobody's business any more; what was not is owed. */
static void settle(const struct device_list *devices, const enum crew_fate *fates,
	struct statefile *records, struct network_result *result)
{
	for (size_t i = 0; i < devices->count; i++) {
		if (fates[i] == CREW_DONE)
			device_forget(records, devices->items[i].name);
		result->is_absent = result->is_absent || fates[i] == CREW_ABSENT;
		result->is_cut_short = result->is_cut_short || fates[i] == CREW_LOST;
	}
}

/* A damaged record costs what it says, not the others. */
static int load(const struct network *network, const struct statefile *records,
	struct network_result *result, struct device_list *devices, struct error *error)
{
	int r = 0;

	for (size_t i = 0; i < records->count && r == 0; i++) {
		struct error why = { 0 };

		r = device_load_one(records, i, devices, &why);
		if (r == -EBADMSG) {
			network_failure(network, result, "%s", why.text);
			r = 0;
		} else if (r < 0) {
			*error = why;
		}
	}
	return r;
}

int devices_restore(const struct network *network, struct statefile *records,
	struct network_result *result, struct error *error)
{
	_cleanup_(device_list_free) struct device_list devices = { 0 };
	_cleanup_free_ enum crew_fate *fates = NULL;
	struct restoring restoring = { network, &devices };
	int r = load(network, records, result, &devices, error);

	if (r < 0 || !devices.count)
		return r;
	fates = calloc(devices.count, sizeof(*fates));
	if (!fates)
		return error_set_errno(error, -ENOMEM, "devices");
	r = crew_run(
		network, result, devices.count, PFS_AT_ONCE, restore_one, &restoring, fates, error);
	if (r == 0)
		settle(&devices, fates, records, result);
	return r;
}
