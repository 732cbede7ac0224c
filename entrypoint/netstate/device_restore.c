/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices restored, each in a process of its own. Every step compares what is with what was and
 * touches only what differs; what fails is reported, and the rest goes on. The order: parameters,
 * for some can be set in legacy mode only and some need a reload; VFs without a driver, and what
 * the PF holds for each; the eswitch's modes, so that drivers of VFs and representors meet the
 * final one; subfunctions, which exist in switchdev mode only; at last the VFs' drivers.
 */
#include <linux/devlink.h>
#include <string.h>

#include "entrypoint/engine/kill_point.h"
#include "entrypoint/netstate/device_internal.h"
#include "entrypoint/netstate/state_internal.h"

#define PFS_AT_ONCE 32
#define BINDERS     8 /* processes for each PF: a driver takes a good part of a second for a VF */

struct restoration {
	const struct netstate *netstate;
	struct pool *pool;
	const struct device *saved;
	struct device now;
	struct devlink *devlink; /* NULL: a kernel without it */
	struct netlink *route;
	int uevents;
	bool has_refused_params; /* to be tried again */
};

/* Looks anew at what /sys and the PF's interface say. */
static int look(struct restoration *restoration)
{
	const struct device *saved = restoration->saved;
	struct device *now = &restoration->now;
	struct error error = { 0 };
	int r;

	device_free(now);
	r = device_read_sysfs(restoration->netstate->root_fd, saved->name, now);
	if (r == 0)
		r = device_read_vfs(restoration->route, now, &error);
	/* No eswitch is an answer, too. */
	if (r == 0 && restoration->devlink)
		(void) devlink_eswitch_get(
			restoration->devlink, saved->name, &now->eswitch, &error);
	if (r < 0)
		pool_failure(restoration->pool, "%s cannot be read: %s", saved->name,
			*error.text ? error.text : strerror(-r));
	return r;
}

/* ---- until it is there */

static bool wants_interface(const struct device *saved)
{
	for (size_t i = 0; i < saved->vf_count; i++)
		if (saved->vfs[i].settings.known)
			return true;
	return false;
}

/* What it still lacks, NULL when nothing. */
static const char *missing(struct restoration *restoration)
{
	const struct device *saved = restoration->saved;
	struct devlink_eswitch eswitch;
	struct error error = { 0 };
	struct device now;
	const char *lacks = NULL;

	if (device_read_sysfs(restoration->netstate->root_fd, saved->name, &now) < 0 ||
		!*now.driver)
		lacks = "no driver has taken it (the kernel's log says why)";
	else if (wants_interface(saved) && !now.ifindex)
		lacks = "its interface has not come";
	else if (restoration->devlink && saved->eswitch.has_mode &&
		 devlink_eswitch_get(restoration->devlink, saved->name, &eswitch, &error) < 0)
		lacks = "devlink does not know it";
	device_free(&now);
	return lacks;
}

static bool is_there(void *context)
{
	return missing(context) == NULL;
}

/* Waits until driver, interface and devlink instance are there; false, and said, when one is not.
 */
static bool await(struct restoration *restoration)
{
	uint32_t bind_ms = restoration->netstate->bind_ms;
	const char *lacks;

	if (uevents_wait(restoration->uevents, bind_ms, is_there, restoration))
		return true;
	lacks = missing(restoration);
	if (!lacks)
		return true;
	pool_failure(restoration->pool, "%s is not back after %u ms: %s", restoration->saved->name,
		bind_ms, lacks);
	return false;
}

/*
 * ---- parameters
 *
 * Some of a runtime mode are taken before switchdev mode only (flow_steering_mode of mlx5_core),
 * some in it only, and when the other port of the card is there, too (esw_multiport): what is
 * refused at first is tried again at the end.
 */

enum outcome {
	PARAM_SAME,
	PARAM_CHANGED,
	PARAM_ABSENT,
	PARAM_REFUSED,
};

static enum outcome restore_param(
	struct restoration *restoration, const struct devlink_param *saved, struct error *error)
{
	const char *device = restoration->saved->name;
	struct devlink_param now = *saved;

	/* One of another type is another one. */
	if (devlink_param_get(restoration->devlink, device, &now, error) < 0 ||
		now.type != saved->type)
		return PARAM_ABSENT;
	if (strcmp(now.value, saved->value) == 0)
		return PARAM_SAME;
	return devlink_param_set(restoration->devlink, device, saved, error) < 0 ? PARAM_REFUSED
										 : PARAM_CHANGED;
}

static void param_failure(const struct restoration *restoration, const struct devlink_param *param,
	const struct error *error)
{
	pool_failure(restoration->pool, "%s does not get back its parameter %s=%s: %s",
		restoration->saved->name, param->name, param->value, error->text);
}

/* What the driver that is loaded does not know any more: one line for all of it. */
static void report_absent(struct restoration *restoration, const struct strv *absent)
{
	_cleanup_free_ char *names = absent->count ? strv_join(absent, ", ") : NULL;

	if (names)
		pool_note(restoration->pool,
			"%s: the driver that is loaded has no devlink parameter %s",
			restoration->saved->name, names);
}

/* A reload takes the interfaces away: not with VFs, which somebody may be using. */
static void reload(struct restoration *restoration)
{
	const char *device = restoration->saved->name;
	struct error error = { 0 };

	if (restoration->now.vf_number) {
		pool_failure(restoration->pool,
			"%s has VFs already: its driverinit parameters count after `devlink dev "
			"reload %s`",
			device, device);
		return;
	}
	if (devlink_reload(restoration->devlink, device, &error) < 0)
		pool_failure(restoration->pool, "%s does not reload: %s", device, error.text);
	(void) await(restoration);
	(void) look(restoration);
}

static void restore_params(struct restoration *restoration)
{
	_cleanup_strv_ struct strv absent = { 0 };
	const struct device *saved = restoration->saved;
	bool needs_reload = false;

	if (!restoration->devlink)
		return;
	for (size_t i = 0; i < saved->param_count; i++) {
		const struct devlink_param *param = &saved->params[i];
		bool waits_for_reload = param->mode == DEVLINK_PARAM_CMODE_DRIVERINIT;
		struct error error = { 0 };
		enum outcome outcome = restore_param(restoration, param, &error);

		if (outcome == PARAM_ABSENT && strv_push_unique(&absent, param->name) < 0)
			continue;
		if (outcome == PARAM_CHANGED && waits_for_reload)
			needs_reload = true;
		if (outcome == PARAM_REFUSED && waits_for_reload)
			param_failure(restoration, param, &error);
		else if (outcome == PARAM_REFUSED)
			restoration->has_refused_params = true;
	}
	report_absent(restoration, &absent);
	if (needs_reload)
		reload(restoration);
}

/* ---- what was refused at first */

static unsigned retry(struct restoration *restoration, bool is_last)
{
	const struct device *saved = restoration->saved;
	unsigned refused = 0;

	for (size_t i = 0; i < saved->param_count; i++) {
		const struct devlink_param *param = &saved->params[i];
		struct error error = { 0 };

		if (param->mode == DEVLINK_PARAM_CMODE_DRIVERINIT ||
			restore_param(restoration, param, &error) != PARAM_REFUSED)
			continue;
		refused++;
		if (is_last)
			param_failure(restoration, param, &error);
	}
	return refused;
}

static bool all_are_back(void *context)
{
	return retry(context, false) == 0;
}

static void restore_refused_params(struct restoration *restoration)
{
	if (!restoration->has_refused_params)
		return;
	if (!uevents_wait(restoration->uevents, restoration->netstate->bind_ms, all_are_back,
		    restoration))
		(void) retry(restoration, true);
}
/* ---- VFs: their number, and what the PF holds for each */

/* VLAN, trust and spoof check can be set in legacy mode only, by most drivers. */
static void go_legacy(struct restoration *restoration)
{
	const char *device = restoration->saved->name;
	struct error error = { 0 };

	if (!restoration->devlink || restoration->now.eswitch.mode == DEVLINK_ESWITCH_MODE_LEGACY)
		return;
	if (devlink_eswitch_set(restoration->devlink, device, DEVLINK_ATTR_ESWITCH_MODE,
		    DEVLINK_ESWITCH_MODE_LEGACY, &error) < 0)
		pool_note(restoration->pool, "%s stays in %s mode while its VFs are made: %s",
			device, device_eswitch_word(restoration->now.eswitch.mode), error.text);
}

static void make_vfs(struct restoration *restoration)
{
	const struct device *saved = restoration->saved;
	int root_fd = restoration->netstate->root_fd;
	char number[16];
	int r;

	go_legacy(restoration);
	/* No driver shall meet a VF before it has its address. */
	if (restoration->now.has_autoprobe && restoration->now.autoprobe)
		(void) device_write(root_fd, saved->name, "sriov_drivers_autoprobe", "0");
	(void) snprintf(number, sizeof(number), "%u", saved->vf_number);
	r = device_write(root_fd, saved->name, "sriov_numvfs", number);
	if (r < 0)
		pool_failure(restoration->pool,
			"%s does not make its %s VFs again: sriov_numvfs: %s (the kernel's log may "
			"say more)",
			saved->name, number, strerror(-r));
}

static bool expect_number(struct restoration *restoration)
{
	const struct device *saved = restoration->saved;
	const struct device *now = &restoration->now;

	if (!saved->has_vfs || saved->vf_number == now->vf_number)
		return false;
	if (now->vf_number) {
		pool_failure(restoration->pool,
			"%s has %u VFs that somebody made meanwhile, and had %u: they are left as "
			"they are",
			saved->name, now->vf_number, saved->vf_number);
		return false;
	}
	if (!now->has_vfs) {
		pool_failure(restoration->pool,
			"%s had %u VFs, and the driver that is loaded makes none: no sriov_numvfs",
			saved->name, saved->vf_number);
		return false;
	}
	return true;
}

/* ---- what the PF holds */

static bool is_zero(const uint8_t *bytes, size_t size)
{
	while (size && !bytes[size - 1])
		size--;
	return size == 0;
}

/* Nothing was set there: nothing has to be. */
static bool was_unset(const struct vf_settings *saved, enum vf_attribute attribute)
{
	switch (attribute) {
	case VF_MAC:
		return is_zero(saved->mac, sizeof(saved->mac));
	case VF_NODE_GUID:
		return saved->node_guid == 0;
	case VF_PORT_GUID:
		return saved->port_guid == 0;
	default:
		return false;
	}
}

static void restore_attribute(struct restoration *restoration, const struct vf_settings *saved,
	struct device_vf *now, enum vf_attribute attribute)
{
	struct error error = { 0 };
	int r;

	if (!vf_knows(saved, attribute) || vf_is_same(saved, &now->settings, attribute) ||
		was_unset(saved, attribute))
		return;
	r = vf_set(restoration->route, restoration->now.ifindex, saved, attribute, &error);
	if (r < 0)
		pool_failure(restoration->pool, "VF %u of %s does not get back %s: %s",
			saved->index, restoration->saved->name, vf_attribute_words(attribute),
			error.text);
	else
		now->changed |= 1u << attribute;
}

static void restore_settings(struct restoration *restoration)
{
	const struct device *saved = restoration->saved;
	struct device *now = &restoration->now;

	for (size_t i = 0; i < saved->vf_count; i++) {
		const struct vf_settings *vf = &saved->vfs[i].settings;

		if (vf->index >= now->vf_count)
			continue;
		for (int attribute = 0; attribute < VF_ATTRIBUTES; attribute++)
			restore_attribute(restoration, vf, &now->vfs[vf->index],
				(enum vf_attribute) attribute);
	}
}

static void restore_vfs(struct restoration *restoration)
{
	if (expect_number(restoration)) {
		make_vfs(restoration);
		if (look(restoration) < 0)
			return;
	}
	if (restoration->now.ifindex)
		restore_settings(restoration);
}
/* ---- the eswitch */

static void set_eswitch(
	struct restoration *restoration, uint16_t attribute, uint16_t value, const char *what)
{
	const char *device = restoration->saved->name;
	struct error error = { 0 };

	if (devlink_eswitch_set(restoration->devlink, device, attribute, value, &error) >= 0)
		return;
	if (attribute == DEVLINK_ATTR_ESWITCH_MODE)
		pool_failure(restoration->pool, "%s does not go back to %s mode: %s", device,
			device_eswitch_word(value), error.text);
	else
		pool_failure(restoration->pool, "%s does not get back its %s mode %u: %s", device,
			what, value, error.text);
}

static void restore_eswitch(struct restoration *restoration)
{
	const struct devlink_eswitch *saved = &restoration->saved->eswitch;
	struct devlink_eswitch *now = &restoration->now.eswitch;
	const char *device = restoration->saved->name;
	struct error error = { 0 };

	if (!saved->has_mode || !restoration->devlink)
		return;
	if (!now->has_mode) {
		pool_failure(restoration->pool,
			"%s has no eswitch any more, and its mode was %s: does the driver that is "
			"loaded support it?",
			device, device_eswitch_word(saved->mode));
		return;
	}
	if (saved->mode != now->mode && saved->mode == DEVLINK_ESWITCH_MODE_LEGACY)
		pool_note(restoration->pool,
			"%s is in %s mode now and was in legacy: somebody changed it, it is left",
			device, device_eswitch_word(now->mode));
	else if (saved->mode != now->mode)
		set_eswitch(restoration, DEVLINK_ATTR_ESWITCH_MODE, saved->mode, "");
	/* The mode may have changed the others. */
	if (devlink_eswitch_get(restoration->devlink, device, now, &error) < 0)
		return;
	if (saved->has_inline && now->has_inline && saved->inline_mode != now->inline_mode)
		set_eswitch(restoration, DEVLINK_ATTR_ESWITCH_INLINE_MODE, saved->inline_mode,
			"inline");
	if (saved->has_encap && now->has_encap && saved->encap_mode != now->encap_mode)
		set_eswitch(
			restoration, DEVLINK_ATTR_ESWITCH_ENCAP_MODE, saved->encap_mode, "encap");
}

/*
 * ---- subfunctions
 *
 * The port is added, gets its address, is made active, and then an auxiliary device comes for it.
 * Source: Documentation/networking/devlink/devlink-port.rst.
 */

static int keep_port(void *context, const char *name, const struct devlink_port *port)
{
	(void) name;
	return device_add_subfunction(context, port);
}

static int list_subfunctions(struct restoration *restoration)
{
	struct error error = { 0 };
	int r = devlink_ports(restoration->devlink, restoration->saved->name, keep_port,
		&restoration->now, &error);

	if (r < 0)
		pool_note(restoration->pool, "%s: its subfunctions cannot be listed: %s",
			restoration->saved->name, error.text);
	return r;
}

static void sf_failure(const struct restoration *restoration, const struct device_sf *saved,
	const char *what, const char *why)
{
	pool_failure(restoration->pool, "subfunction %u of %s %s: %s", saved->port.number,
		restoration->saved->name, what, why);
}

/* The one that is there, or a new one; NULL when it cannot be had. */
static struct device_sf *add_subfunction(
	struct restoration *restoration, const struct device_sf *saved)
{
	struct devlink_port port = { .controller = saved->port.controller,
		.pf = saved->port.pf,
		.number = saved->port.number };
	struct device_sf *now = device_find_subfunction(&restoration->now, &port);
	struct error error = { 0 };
	int r;

	if (now)
		return now;
	r = devlink_subfunction_add(restoration->devlink, restoration->saved->name, &port, &error);
	/* Something that was killed in the middle may have added it a moment ago. */
	if (r == -EEXIST && list_subfunctions(restoration) == 0)
		now = device_find_subfunction(&restoration->now, &port);
	if (now)
		return now;
	if (r == 0)
		r = device_add_subfunction(&restoration->now, &port);
	if (r < 0) {
		sf_failure(restoration, saved, "is not made again",
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

static void configure_subfunction(struct restoration *restoration, const struct device_sf *saved)
{
	const char *device = restoration->saved->name;
	struct device_sf *now = add_subfunction(restoration, saved);
	struct devlink_port port = saved->port;
	struct error error = { 0 };

	if (!now)
		return;
	port.index = now->port.index;
	if (port.address_size && !has_address(saved, now) &&
		devlink_port_set_address(restoration->devlink, device, &port, &error) < 0)
		sf_failure(restoration, saved, "does not get back its address", error.text);
	if (port.has_state && port.is_active && !now->port.is_active &&
		devlink_port_set_active(restoration->devlink, device, &port, &error) < 0)
		sf_failure(restoration, saved, "does not become active", error.text);
}

/* ---- its auxiliary device */

struct coming {
	const struct restoration *restoration;
	struct device_sf now;
};

static bool has_driver(void *context)
{
	struct coming *coming = context;

	device_read_subfunction(coming->restoration->netstate->root_fd,
		coming->restoration->saved->name, &coming->now);
	return *coming->now.driver != '\0';
}

static int move_subfunction(const struct restoration *restoration, const struct device_sf *saved,
	const struct device_sf *now)
{
	int root_fd = restoration->netstate->root_fd;
	char device[DEVLINK_NAME_SIZE];
	char path[192];
	int r = 0;

	(void) snprintf(device, sizeof(device), "auxiliary/%s", now->auxiliary);
	if (*now->driver)
		r = device_write(root_fd, device, "driver/unbind", now->auxiliary);
	(void) snprintf(path, sizeof(path), "sys/bus/auxiliary/drivers/%s/bind", saved->driver);
	return r < 0 || !*saved->driver ? r : sysfs_write(root_fd, path, now->auxiliary);
}

static void restore_sf_driver(struct restoration *restoration, const struct device_sf *saved)
{
	struct coming coming = { .restoration = restoration, .now = *saved };
	const struct device_sf *before = device_find_subfunction(&restoration->now, &saved->port);
	bool was_active = before && before->port.is_active;
	int r;

	if (!*saved->auxiliary)
		return;
	/* The bus gives a driver to each one that comes, also to one that had none. */
	(void) uevents_wait(restoration->uevents,
		was_active && !*saved->driver ? 0 : restoration->netstate->bind_ms, has_driver,
		&coming);
	if (strcmp(coming.now.driver, saved->driver) == 0)
		return;
	if (!*coming.now.auxiliary) {
		sf_failure(
			restoration, saved, "has no auxiliary device", "it has not come in time");
		return;
	}
	r = move_subfunction(restoration, saved, &coming.now);
	if (r < 0)
		sf_failure(restoration, saved,
			*saved->driver ? "does not go back to its driver" : "is not unbound",
			r == -ENOENT ? "that is not loaded" : strerror(-r));
}

static void restore_subfunctions(struct restoration *restoration)
{
	const struct device *saved = restoration->saved;

	if (!saved->sf_count || !restoration->devlink)
		return;
	(void) list_subfunctions(restoration);
	for (size_t i = 0; i < saved->sf_count; i++)
		configure_subfunction(restoration, &saved->sfs[i]);
	/* All of them are on their way by now. */
	for (size_t i = 0; i < saved->sf_count; i++)
		restore_sf_driver(restoration, &saved->sfs[i]);
}
/*
 * ---- drivers of VFs
 *
 * Of the module that was loaded, or vfio-pci by its override. Source:
 * Documentation/ABI/testing/sysfs-bus-pci.
 */

struct binding {
	struct restoration *restoration;
	size_t *indexes; /* [count]: in saved->vfs, of those that something is to be done for */
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

	device_link(restoration->netstate->root_fd, function, "driver/module", module);
	return strv_contains(restoration->netstate->modules, module);
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
	return sysfs_write(restoration->netstate->root_fd, path, strchr(function, '/') + 1);
}

static int set_override(
	const struct restoration *restoration, const struct device_vf *saved, const char *function)
{
	/* An empty line clears it. */
	int r = device_write(restoration->netstate->root_fd, function, "driver_override",
		*saved->override ? saved->override : "\n");

	if (r < 0)
		pool_failure(restoration->pool,
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
		pool_failure(restoration->pool,
			"VF %u of %s (%s) is driven by %s now, and was by %s: somebody gave it "
			"away, it is left",
			saved->settings.index, restoration->saved->name, now->function, now->driver,
			*saved->driver ? saved->driver : "none");
		return -EBUSY;
	}
	r = device_write(restoration->netstate->root_fd, function, "driver/unbind", now->function);
	if (r < 0)
		pool_failure(restoration->pool, "VF %u of %s (%s): %s does not let go of it: %s",
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
	device_link(restoration->netstate->root_fd, function, "driver", driver);
	if (strcmp(driver, saved->driver) == 0)
		return;
	pool_failure(restoration->pool, "VF %u of %s (%s) does not go back to %s: %s",
		saved->settings.index, restoration->saved->name, function + strlen("pci/"),
		saved->driver, r == -ENOENT ? "that driver is not loaded" : strerror(-r));
}

static void restore_driver(void *context, size_t index, struct pool *pool)
{
	const struct binding *binding = context;
	const struct restoration *restoration = binding->restoration;
	const struct device_vf *saved = &restoration->saved->vfs[binding->indexes[index]];
	const struct device_vf *now = &restoration->now.vfs[saved->settings.index];
	char function[DEVLINK_NAME_SIZE];
	bool moves = strcmp(saved->driver, now->driver) != 0 || is_outdated(now);

	(void) pool;
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
	r = device_write(restoration->netstate->root_fd, now->name, "sriov_drivers_autoprobe",
		autoprobe ? "1" : "0");
	if (r < 0)
		pool_failure(restoration->pool,
			"%s does not get back its sriov_drivers_autoprobe %d: %s", now->name,
			autoprobe, strerror(-r));
	else
		now->autoprobe = autoprobe;
}

static void restore_drivers(struct restoration *restoration)
{
	const struct device *saved = restoration->saved;
	struct device *now = &restoration->now;
	_cleanup_free_ size_t *indexes = calloc(saved->vf_count + 1, sizeof(*indexes));
	struct binding binding = { .restoration = restoration, .indexes = indexes };

	if (!indexes)
		pool_failure(restoration->pool, "%s: out of memory", saved->name);
	for (size_t i = 0; indexes && i < saved->vf_count; i++)
		if (saved->vfs[i].settings.index < now->vf_count &&
			has_work(restoration, &saved->vfs[i],
				&now->vfs[saved->vfs[i].settings.index]))
			indexes[binding.count++] = i;
	if (binding.count) {
		set_autoprobe(restoration, true);
		pool_share(restoration->pool, binding.count, BINDERS, restore_driver, &binding);
	}
	if (saved->has_autoprobe)
		set_autoprobe(restoration, saved->autoprobe);
}

/* ---- the whole of it */

static enum job_status restore_all(struct restoration *restoration)
{
	bool is_there_now = await(restoration);
	char driver[DEVICE_PART_SIZE];

	/* Without its driver there is nothing to bring back; without its interface all else is. */
	device_link(restoration->netstate->root_fd, restoration->saved->name, "driver", driver);
	if (!*driver)
		return JOB_ABSENT;
	if (look(restoration) < 0)
		return JOB_LOST;
	restore_params(restoration);
	kill_point("network:device:params");
	restore_vfs(restoration);
	kill_point("network:device:vfs");
	restore_eswitch(restoration);
	kill_point("network:device:eswitch");
	restore_subfunctions(restoration);
	kill_point("network:device:subfunctions");
	restore_drivers(restoration);
	kill_point("network:device:drivers");
	restore_refused_params(restoration);
	pool_count(restoration->pool, 1, restoration->now.vf_number);
	return is_there_now ? JOB_DONE : JOB_ABSENT;
}

static enum job_status restore_device(
	const struct netstate *netstate, const struct device *saved, struct pool *pool)
{
	struct restoration restoration = { .netstate = netstate, .pool = pool, .saved = saved };
	enum job_status status = JOB_LOST;
	struct error error = { 0 };
	int r = netlink_open(NETLINK_ROUTE, &restoration.route, &error);

	restoration.uevents = uevents_open();
	if (r == 0)
		r = devlink_open(&restoration.devlink, &error);
	if (r == 0 || r == -ENOENT)
		status = restore_all(&restoration);
	else
		pool_failure(pool, "%s cannot be brought back: %s", saved->name, error.text);
	device_free(&restoration.now);
	devlink_close(&restoration.devlink);
	netlink_close(&restoration.route);
	cleanup_close(&restoration.uevents);
	return status;
}

struct job {
	const struct netstate *netstate;
	const struct device_list *devices;
};

static void restore_one(void *context, size_t index, struct pool *pool)
{
	const struct job *job = context;

	pool_end(pool, index, restore_device(job->netstate, &job->devices->items[index], pool));
}

int devices_restore(const struct netstate *netstate, struct statefile *records,
	struct netstate_result *result, struct error *error)
{
	_cleanup_(device_list_free) struct device_list devices = { 0 };
	_cleanup_free_ enum job_status *statuses = NULL;
	struct job job = { netstate, &devices };
	int r;

	/* A damaged record costs what it says, not the others. */
	for (size_t i = 0; i < records->count; i++) {
		struct error why = { 0 };

		r = device_load_one(records, i, &devices, &why);
		if (r < 0 && r != -EBADMSG)
			return error_set(error, r, "%s", why.text);
		if (r < 0)
			netstate_failure(netstate, result, "%s", why.text);
	}
	if (!devices.count)
		return 0;
	statuses = calloc(devices.count, sizeof(*statuses));
	if (!statuses)
		return error_set_errno(error, -ENOMEM, "devices");
	r = pool_run(
		netstate, result, devices.count, PFS_AT_ONCE, restore_one, &job, statuses, error);
	if (r < 0)
		return r;
	for (size_t i = 0; i < devices.count; i++) {
		if (statuses[i] == JOB_DONE)
			device_forget(records, devices.items[i].name);
		result->is_absent = result->is_absent || statuses[i] == JOB_ABSENT;
		result->is_cut_short = result->is_cut_short || statuses[i] == JOB_LOST;
	}
	return 0;
}
