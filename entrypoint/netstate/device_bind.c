/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drivers of virtual functions on their way back: of the module that was loaded, or vfio-pci by its
 * override. Several at a time, for a driver takes a good part of a second for each. Source:
 * Documentation/ABI/testing/sysfs-bus-pci.
 */
#include <string.h>

#include "entrypoint/netstate/device_restore.h"

#define BINDERS 8 /* processes for each PF */

struct binding {
	struct restoration *restoration;
	const struct device_vf **saved; /* [count]: what has something to be done */
	struct device_vf **now;
	size_t count;
};

/* A driver that reads address and GUID when it takes the VF has to take it again. */
static bool is_outdated(const struct device_vf *now)
{
	return (now->changed & (1u << VF_MAC | 1u << VF_NODE_GUID | 1u << VF_PORT_GUID)) != 0;
}

static bool is_ours(const struct restoration *restoration, const char *function)
{
	char module[DEVICE_PART_SIZE];

	device_module(restoration->network->root_fd, function, module);
	return strv_contains(restoration->network->modules, module);
}

static bool has_work(const struct restoration *restoration, const struct device_vf *saved,
	const struct device_vf *now)
{
	char function[DEVLINK_NAME_SIZE];

	if (!*saved->function || !*now->function)
		return false;
	if (strcmp(saved->driver, now->driver) != 0 || strcmp(saved->override, now->override) != 0)
		return true;
	(void) snprintf(function, sizeof(function), "pci/%s", now->function);
	return *now->driver && is_outdated(now) && is_ours(restoration, function);
}

static int bind_to(const struct restoration *restoration, const char *driver, const char *function)
{
	char path[128];

	(void) snprintf(path, sizeof(path), "sys/bus/pci/drivers/%s/bind", driver);
	return sysfs_write(restoration->network->root_fd, path, strchr(function, '/') + 1);
}

static int set_override(
	const struct restoration *restoration, const struct device_vf *saved, const char *function)
{
	/* An empty line clears it. */
	int r = device_write(restoration->network->root_fd, function, "driver_override",
		*saved->override ? saved->override : "\n");

	if (r < 0)
		crew_fail(restoration->crew,
			"VF %u of %s (%s) does not get back its driver_override '%s': %s",
			saved->settings.index, restoration->saved->name, function + strlen("pci/"),
			saved->override, strerror(-r));
	return r;
}

/* Only from a driver of ours: another one was given it by somebody, who may be using it. */
static int release(const struct restoration *restoration, const struct device_vf *saved,
	const struct device_vf *now, const char *function)
{
	int r;

	if (!*now->driver)
		return 0;
	if (!is_ours(restoration, function)) {
		crew_fail(restoration->crew,
			"VF %u of %s (%s) is driven by %s now, and was by %s: somebody gave it "
			"away, it is left",
			saved->settings.index, restoration->saved->name, now->function, now->driver,
			*saved->driver ? saved->driver : "none");
		return -EBUSY;
	}
	r = device_write(restoration->network->root_fd, function, "driver/unbind", now->function);
	if (r < 0)
		crew_fail(restoration->crew, "VF %u of %s (%s): %s does not let go of it: %s",
			saved->settings.index, restoration->saved->name, now->function, now->driver,
			strerror(-r));
	return r;
}

static void bind_again(
	const struct restoration *restoration, const struct device_vf *saved, const char *function)
{
	char driver[DEVICE_PART_SIZE];
	int r;

	if (!*saved->driver)
		return;
	r = bind_to(restoration, saved->driver, function);
	if (r == 0)
		return;
	/* udev or another program may have been faster. */
	device_link(restoration->network->root_fd, function, "driver", driver);
	if (strcmp(driver, saved->driver) == 0)
		return;
	crew_fail(restoration->crew, "VF %u of %s (%s) does not go back to %s: %s",
		saved->settings.index, restoration->saved->name, function + strlen("pci/"),
		saved->driver, r == -ENOENT ? "that driver is not loaded" : strerror(-r));
}

static void restore_driver(void *context, size_t index, struct crew *crew)
{
	const struct binding *binding = context;
	const struct restoration *restoration = binding->restoration;
	const struct device_vf *saved = binding->saved[index];
	const struct device_vf *now = binding->now[index];
	char function[DEVLINK_NAME_SIZE];
	bool moves = strcmp(saved->driver, now->driver) != 0 || is_outdated(now);

	(void) crew;
	(void) snprintf(function, sizeof(function), "pci/%s", now->function);
	if (moves && release(restoration, saved, now, function) < 0)
		return;
	if (strcmp(saved->override, now->override) != 0 &&
		set_override(restoration, saved, function) < 0)
		return;
	if (moves)
		bind_again(restoration, saved, function);
}

/*
 * While autoprobe is off no driver takes a VF, not even by hand, unless its override says so
 * (pci_device_can_probe() in drivers/pci/pci-driver.c).
 */
static void set_autoprobe(struct restoration *restoration, bool autoprobe)
{
	struct device *now = &restoration->now;
	int r;

	if (!now->has_autoprobe || now->autoprobe == autoprobe)
		return;
	r = device_write(restoration->network->root_fd, now->name, "sriov_drivers_autoprobe",
		autoprobe ? "1" : "0");
	if (r < 0)
		crew_fail(restoration->crew,
			"%s does not get back its sriov_drivers_autoprobe %d: %s", now->name,
			autoprobe, strerror(-r));
	else
		now->autoprobe = autoprobe;
}

static void restore_drivers_of(struct restoration *restoration, struct binding *binding)
{
	const struct device *saved = restoration->saved;
	struct device *now = &restoration->now;

	for (size_t i = 0; i < saved->vf_count; i++) {
		const struct device_vf *vf = &saved->vfs[i];

		if (vf->settings.index >= now->vf_count ||
			!has_work(restoration, vf, &now->vfs[vf->settings.index]))
			continue;
		binding->saved[binding->count] = vf;
		binding->now[binding->count++] = &now->vfs[vf->settings.index];
	}
	if (!binding->count)
		return;
	set_autoprobe(restoration, true);
	crew_share(restoration->crew, binding->count, BINDERS, restore_driver, binding);
}

void restore_drivers(struct restoration *restoration)
{
	size_t count = restoration->saved->vf_count;
	struct binding binding = { .restoration = restoration };

	binding.saved = calloc(count + 1, sizeof(const struct device_vf *));
	binding.now = calloc(count + 1, sizeof(struct device_vf *));
	if (binding.saved && binding.now)
		restore_drivers_of(restoration, &binding);
	else
		crew_fail(restoration->crew, "%s: out of memory", restoration->saved->name);
	free(binding.saved);
	free(binding.now);
	if (restoration->saved->has_autoprobe)
		set_autoprobe(restoration, restoration->saved->autoprobe);
}
