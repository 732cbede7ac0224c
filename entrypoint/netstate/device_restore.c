/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices restored, each in a process of its own. Every step compares what is with what was and
 * touches only what differs; what fails is reported, and the rest goes on. The order: parameters,
 * for some can be set in legacy mode only and some need a reload; VFs without a driver, and what
 * the PF holds for each; the eswitch's modes, so that drivers of VFs and representors meet the
 * final one; subfunctions, which exist in switchdev mode only; at last the VFs' drivers.
 */
#include <limits.h>
#include <linux/devlink.h>
#include <linux/rtnetlink.h>
#include <string.h>

#include "common/fs.h"
#include "entrypoint/engine/kill_point.h"
#include "entrypoint/netstate/device_internal.h"
#include "entrypoint/role/pci.h"

#define PFS_AT_ONCE 32
#define BINDERS     8 /* processes for each PF: a driver takes a good part of a second for a VF */

struct pf {
	const struct run *run;
	const struct device *saved;
	struct device now;
	struct netlink *devlink; /* NULL: a kernel without it */
	struct netlink *route;
	const char *lacks;       /* what it waits for */
	bool has_refused_params; /* to be tried again */
	struct device_sf coming; /* a subfunction whose auxiliary device is waited for */
};

static int read_eswitch(const struct pf *pf, struct device *device, struct error *error)
{
	struct device_list list = { device, 1 };

	device->known &= ~(unsigned) (DEVICE_MODE | DEVICE_INLINE | DEVICE_ENCAP);
	return devlink_ask(pf->devlink, DEVLINK_CMD_ESWITCH_GET, device->name, &list, error);
}

/* Looks anew at what /sys and the PF's interface have. */
static int look(struct pf *pf)
{
	struct error error = { 0 };
	int r;

	device_free(&pf->now);
	r = device_read_sysfs(pf->run->netstate->root_fd, pf->saved->name, &pf->now);
	if (r == 0)
		r = device_read_vfs(pf->route, &pf->now, &error);
	/* No eswitch is an answer, too. */
	if (r == 0 && pf->devlink)
		(void) !read_eswitch(pf, &pf->now, &error);
	if (r < 0)
		run_failure(pf->run, "%s cannot be read: %s", pf->saved->name,
			*error.text ? error.text : strerror(-r));
	return r;
}

/* ---- until it is there */

static bool needs_interface(const struct device *saved)
{
	for (size_t i = 0; i < saved->vf_count; i++)
		if (saved->vfs[i].known)
			return true;
	return false;
}

static bool is_there(void *context)
{
	struct pf *pf = context;
	const struct device *saved = pf->saved;
	_cleanup_(device_free) struct device now = { 0 };
	struct error ignored;

	pf->lacks = NULL;
	if (device_read_sysfs(pf->run->netstate->root_fd, saved->name, &now) < 0 || !*now.driver)
		pf->lacks = "no driver is bound to it (see the kernel log)";
	else if (needs_interface(saved) && !now.ifindex)
		pf->lacks = "it has no network interface";
	else if (pf->devlink && (saved->known & DEVICE_MODE) &&
		 read_eswitch(pf, &now, &ignored) < 0)
		pf->lacks = "devlink does not list it";
	return !pf->lacks;
}

/* For driver, interface and devlink instance; false, and reported, when one does not come. */
static bool await(struct pf *pf)
{
	uint32_t bind_ms = pf->run->netstate->bind_ms;

	if (netlink_wait(NETLINK_KOBJECT_UEVENT, UEVENTS, bind_ms, is_there, pf))
		return true;
	run_failure(
		pf->run, "%s is not ready after %u ms: %s", pf->saved->name, bind_ms, pf->lacks);
	return false;
}

/*
 * ---- parameters
 *
 * Some of a runtime mode are taken before switchdev mode only (flow_steering_mode of mlx5_core),
 * some in it only, and when the other port of the card is there, too (esw_multiport): what is
 * refused at first is tried again at the end.
 */

enum outcome { PARAM_SAME, PARAM_CHANGED, PARAM_ABSENT, PARAM_REFUSED };

static enum outcome restore_param(
	const struct pf *pf, const struct device_param *saved, struct error *error)
{
	struct device_param now = *saved;

	/* One of another type is another one. */
	if (devlink_param_get(pf->devlink, pf->saved->name, &now, error) < 0 ||
		now.type != saved->type)
		return PARAM_ABSENT;
	if (strcmp(now.value, saved->value) == 0)
		return PARAM_SAME;
	return devlink_param_set(pf->devlink, pf->saved->name, saved, error) < 0 ? PARAM_REFUSED
										 : PARAM_CHANGED;
}

static void param_failure(
	const struct pf *pf, const struct device_param *param, const struct error *error)
{
	run_failure(pf->run, "%s: its parameter %s=%s could not be set: %s", pf->saved->name,
		param->name, param->value, error->text);
}

/* A reload takes the interfaces away: not with VFs, which may be in use. */
static void reload(struct pf *pf)
{
	const char *device = pf->saved->name;
	struct error error = { 0 };

	if (pf->now.vf_number) {
		run_failure(pf->run,
			"%s has VFs already: its driverinit parameters take effect after "
			"`devlink dev reload %s`",
			device, device);
		return;
	}
	if (devlink_reload(pf->devlink, device, &error) < 0)
		run_failure(pf->run, "%s: devlink reload: %s", device, error.text);
	(void) await(pf);
	(void) !look(pf);
}

static void restore_params(struct pf *pf)
{
	_cleanup_strv_ struct strv absent = { 0 };
	_cleanup_free_ char *names = NULL;
	bool needs_reload = false;

	for (size_t i = 0; pf->devlink && i < pf->saved->param_count; i++) {
		const struct device_param *param = &pf->saved->params[i];
		bool waits_for_reload = param->mode == DEVLINK_PARAM_CMODE_DRIVERINIT;
		struct error error = { 0 };
		enum outcome outcome = restore_param(pf, param, &error);

		if (outcome == PARAM_ABSENT)
			(void) !strv_push_unique(&absent, param->name);
		if (outcome == PARAM_CHANGED && waits_for_reload)
			needs_reload = true;
		if (outcome == PARAM_REFUSED && waits_for_reload)
			param_failure(pf, param, &error);
		else if (outcome == PARAM_REFUSED)
			pf->has_refused_params = true;
	}
	names = absent.count ? strv_join(&absent, ", ") : NULL;
	if (names)
		run_note(pf->run, "%s: the loaded driver has no devlink parameter %s",
			pf->saved->name, names);
	if (needs_reload)
		reload(pf);
}

/* Tries those of a runtime mode that are not as they were. How many are refused. */
static unsigned retry(const struct pf *pf, bool is_last)
{
	unsigned refused = 0;

	for (size_t i = 0; i < pf->saved->param_count; i++) {
		const struct device_param *param = &pf->saved->params[i];
		struct error error = { 0 };

		if (param->mode == DEVLINK_PARAM_CMODE_DRIVERINIT ||
			restore_param(pf, param, &error) != PARAM_REFUSED)
			continue;
		refused++;
		if (is_last)
			param_failure(pf, param, &error);
	}
	return refused;
}

static bool all_are_back(void *context)
{
	return retry(context, false) == 0;
}

/* ---- VFs: their number, and what the PF holds for each */

static void make_vfs(struct pf *pf)
{
	const char *name = pf->saved->name;
	int root_fd = pf->run->netstate->root_fd;
	struct error error = { 0 };
	char number[16];
	int r;

	/* VLAN, trust and spoof check can be set in legacy mode only, by most drivers. */
	if (pf->devlink && pf->now.mode != DEVLINK_ESWITCH_MODE_LEGACY &&
		devlink_eswitch_set(pf->devlink, name, DEVLINK_ATTR_ESWITCH_MODE,
			DEVLINK_ESWITCH_MODE_LEGACY, &error) < 0)
		run_note(pf->run, "%s stays in %s mode while its VFs are created: %s", name,
			device_mode_word(pf->now.mode), error.text);
	/* No driver shall meet a VF before it has its address. */
	if ((pf->now.known & DEVICE_AUTOPROBE) && pf->now.autoprobe)
		(void) !device_write(root_fd, name, "sriov_drivers_autoprobe", "0");
	(void) snprintf(number, sizeof(number), "%u", pf->saved->vf_number);
	r = device_write(root_fd, name, "sriov_numvfs", number);
	if (r < 0)
		run_failure(pf->run,
			"%s: its %s VFs could not be created: sriov_numvfs: %s (see the kernel "
			"log)",
			name, number, strerror(-r));
}

/* Are they to be made again? */
static bool lacks_vfs(const struct pf *pf)
{
	const struct device *saved = pf->saved;
	const struct device *now = &pf->now;

	if (!(saved->known & DEVICE_VFS) || saved->vf_number == now->vf_number)
		return false;
	if (now->vf_number) {
		run_failure(pf->run,
			"%s has %u VFs, which were created since then, and had %u: they are left "
			"as they are",
			saved->name, now->vf_number, saved->vf_number);
		return false;
	}
	if (!(now->known & DEVICE_VFS)) {
		run_failure(pf->run,
			"%s had %u VFs, but the loaded driver has none (no sriov_numvfs)",
			saved->name, saved->vf_number);
		return false;
	}
	return true;
}

/* Nothing was set there: nothing has to be. */
static bool was_unset(const struct device_vf *saved, enum vf_attribute attribute)
{
	static const uint8_t none[sizeof(saved->mac.mac)];

	switch (attribute) {
	case VF_MAC:
		return memcmp(saved->mac.mac, none, sizeof(none)) == 0;
	case VF_NODE_GUID:
		return saved->node_guid.guid == 0;
	case VF_PORT_GUID:
		return saved->port_guid.guid == 0;
	default:
		return false;
	}
}

/* One attribute a message: the kernel stops at the first that it refuses, without naming it. */
static void restore_attribute(struct pf *pf, const struct device_vf *saved, struct device_vf *now,
	enum vf_attribute attribute)
{
	struct nlmsghdr *message;
	struct error error = { 0 };
	struct nlattr *list;
	struct nlattr *info;

	if (!vf_knows(saved, attribute) || vf_is_same(saved, now, attribute) ||
		was_unset(saved, attribute))
		return;
	message = netlink_link_request(pf->route, RTM_SETLINK, 0, (uint32_t) pf->now.ifindex);
	list = mnl_attr_nest_start(message, IFLA_VFINFO_LIST);
	info = mnl_attr_nest_start(message, IFLA_VF_INFO);
	device_put_vf(message, saved, attribute);
	mnl_attr_nest_end(message, info);
	mnl_attr_nest_end(message, list);
	if (netlink_talk(pf->route, message, NULL, NULL, &error) < 0)
		run_failure(pf->run, "VF %u of %s: %s could not be set: %s", saved->index,
			pf->saved->name, vf_attributes[attribute].words, error.text);
	else
		now->changed |= 1u << attribute;
}

static void restore_vfs(struct pf *pf)
{
	const struct device *saved = pf->saved;

	if (lacks_vfs(pf)) {
		make_vfs(pf);
		if (look(pf) < 0)
			return;
	}
	for (size_t i = 0; pf->now.ifindex && i < saved->vf_count; i++) {
		const struct device_vf *vf = &saved->vfs[i];

		for (int k = 0; vf->index < pf->now.vf_count && k < VF_ATTRIBUTES; k++)
			restore_attribute(pf, vf, &pf->now.vfs[vf->index], (enum vf_attribute) k);
	}
}

/* ---- the eswitch */

/* Another mode of it than legacy and switchdev; @bit: that both have it. */
static void restore_submode(struct pf *pf, uint32_t bit, uint16_t attribute, uint8_t saved,
	uint8_t now, const char *what)
{
	struct error error = { 0 };

	if ((pf->saved->known & pf->now.known & bit) && saved != now &&
		devlink_eswitch_set(pf->devlink, pf->saved->name, attribute, saved, &error) < 0)
		run_failure(pf->run, "%s: its %s mode %u could not be set: %s", pf->saved->name,
			what, saved, error.text);
}

static void restore_eswitch(struct pf *pf)
{
	const struct device *saved = pf->saved;
	struct device *now = &pf->now;
	struct error error = { 0 };

	if (!(saved->known & DEVICE_MODE) || !pf->devlink)
		return;
	if (!(now->known & DEVICE_MODE)) {
		run_failure(pf->run,
			"%s has no eswitch any more, and its mode was %s: does the loaded driver "
			"support it?",
			saved->name, device_mode_word(saved->mode));
		return;
	}
	if (saved->mode != now->mode && saved->mode == DEVLINK_ESWITCH_MODE_LEGACY)
		run_note(pf->run,
			"%s is in %s mode now and was in legacy: it was changed since then and "
			"is left as it is",
			saved->name, device_mode_word(now->mode));
	else if (saved->mode != now->mode &&
		 devlink_eswitch_set(pf->devlink, saved->name, DEVLINK_ATTR_ESWITCH_MODE,
			 saved->mode, &error) < 0)
		run_failure(pf->run, "%s could not be set to %s mode: %s", saved->name,
			device_mode_word(saved->mode), error.text);
	/* The mode may have changed the others. */
	if (read_eswitch(pf, now, &error) < 0)
		return;
	restore_submode(pf, DEVICE_INLINE, DEVLINK_ATTR_ESWITCH_INLINE_MODE, saved->inline_mode,
		now->inline_mode, "inline");
	restore_submode(pf, DEVICE_ENCAP, DEVLINK_ATTR_ESWITCH_ENCAP_MODE, saved->encap_mode,
		now->encap_mode, "encap");
}

/*
 * ---- subfunctions
 *
 * The port is added, gets its address, is made active, and then an auxiliary device comes for it.
 * Source: Documentation/networking/devlink/devlink-port.rst.
 */

static int list_subfunctions(struct pf *pf)
{
	struct device_list list = { &pf->now, 1 };
	struct error error = { 0 };
	int r = devlink_ask(pf->devlink, DEVLINK_CMD_PORT_GET, pf->saved->name, &list, &error);

	if (r < 0)
		run_note(pf->run, "%s: its subfunctions cannot be listed: %s", pf->saved->name,
			error.text);
	return r;
}

static void sf_failure(
	const struct pf *pf, const struct device_sf *saved, const char *what, const char *why)
{
	run_failure(
		pf->run, "subfunction %u of %s %s: %s", saved->number, pf->saved->name, what, why);
}

/* The one that is there, or a new one; NULL when it cannot be had. */
static struct device_sf *add_subfunction(struct pf *pf, const struct device_sf *saved)
{
	struct device_sf *now = device_find_subfunction(&pf->now, saved);
	struct error error = { 0 };
	int r;

	if (now)
		return now;
	r = devlink_sf_add(pf->devlink, &pf->now, saved, &error);
	now = device_find_subfunction(&pf->now, saved);
	/* A run that was killed in the middle may have added it a moment ago. */
	if (!now && (r == 0 || r == -EEXIST) && list_subfunctions(pf) == 0)
		now = device_find_subfunction(&pf->now, saved);
	if (!now)
		sf_failure(
			pf, saved, "could not be created", r < 0 ? error.text : "it is not listed");
	return now;
}

/* Its address has to be set before it is active. */
static void configure_subfunction(struct pf *pf, const struct device_sf *saved)
{
	static const uint8_t none[sizeof(saved->address)];
	const uint8_t active = DEVLINK_PORT_FN_STATE_ACTIVE;
	struct device_sf *now = add_subfunction(pf, saved);
	struct error error = { 0 };

	if (!now)
		return;
	if (saved->address_size && memcmp(saved->address, none, sizeof(none)) != 0 &&
		memcmp(saved->address, now->address, sizeof(none)) != 0 &&
		devlink_sf_set(pf->devlink, pf->saved->name, now->port_index,
			DEVLINK_PORT_FUNCTION_ATTR_HW_ADDR, saved->address_size, saved->address,
			&error) < 0)
		sf_failure(pf, saved, "could not be given its address", error.text);
	if ((saved->known & SF_STATE) && saved->is_active && !now->is_active &&
		devlink_sf_set(pf->devlink, pf->saved->name, now->port_index,
			DEVLINK_PORT_FN_ATTR_STATE, sizeof(active), &active, &error) < 0)
		sf_failure(pf, saved, "could not be activated", error.text);
}

/* Has the auxiliary device of pf->coming come, and been taken by a driver? */
static bool has_driver(void *context)
{
	struct pf *pf = context;

	device_read_subfunction(pf->run->netstate->root_fd, pf->saved->name, &pf->coming);
	return *pf->coming.driver != '\0';
}

static void restore_sf_driver(struct pf *pf, const struct device_sf *saved)
{
	const struct device_sf *now = &pf->coming;
	const struct device_sf *before = device_find_subfunction(&pf->now, saved);
	bool was_active = before && before->is_active;
	int root_fd = pf->run->netstate->root_fd;
	const char *auxiliary = now->auxiliary;
	int r = 0;

	if (!*saved->auxiliary)
		return;
	pf->coming = *saved;
	/* The bus gives a driver to each one that comes, also to one that had none. */
	(void) netlink_wait(NETLINK_KOBJECT_UEVENT, UEVENTS,
		was_active && !*saved->driver ? 0 : pf->run->netstate->bind_ms, has_driver, pf);
	if (strcmp(now->driver, saved->driver) == 0)
		return;
	if (!*auxiliary) {
		sf_failure(pf, saved, "has no auxiliary device", "none appeared in time");
		return;
	}
	if (*now->driver)
		r = sysfs_put(root_fd, auxiliary, "sys/bus/auxiliary/devices/%s/driver/unbind",
			auxiliary);
	if (r == 0 && *saved->driver)
		r = sysfs_put(
			root_fd, auxiliary, "sys/bus/auxiliary/drivers/%s/bind", saved->driver);
	if (r < 0)
		sf_failure(pf, saved,
			*saved->driver ? "could not be bound to its driver"
				       : "could not be unbound",
			r == -ENOENT ? "that driver is not loaded" : strerror(-r));
}

static void restore_subfunctions(struct pf *pf)
{
	const struct device *saved = pf->saved;

	if (!saved->sf_count || !pf->devlink)
		return;
	(void) !list_subfunctions(pf);
	for (size_t i = 0; i < saved->sf_count; i++)
		configure_subfunction(pf, &saved->sfs[i]);
	/* All of them are on their way by now. */
	for (size_t i = 0; i < saved->sf_count; i++)
		restore_sf_driver(pf, &saved->sfs[i]);
}

/*
 * ---- drivers of VFs
 *
 * A VF gets a driver of the loaded module, or vfio-pci through its driver_override. Source:
 * Documentation/ABI/testing/sysfs-bus-pci.
 */

/* A driver that reads address and GUID when it takes the VF has to take it again. */
static bool is_outdated(const struct device_vf *now)
{
	return (now->changed & (1u << VF_MAC | 1u << VF_NODE_GUID | 1u << VF_PORT_GUID)) != 0;
}

/* Reads the name of what @link below the VF's sysfs folder points to. */
static void vf_link(const struct pf *pf, const struct device_vf *now, const char *link,
	char part[DEVICE_PART_SIZE])
{
	char path[PATH_MAX];

	(void) snprintf(path, sizeof(path), PCI_DEVICES "/%s/%s", now->function, link);
	sysfs_link_name(pf->run->netstate->root_fd, path, part, DEVICE_PART_SIZE);
}

/* Is it driven by a module that went and came? */
static bool is_ours(const struct pf *pf, const struct device_vf *now)
{
	char module[DEVICE_PART_SIZE];

	vf_link(pf, now, "driver/module", module);
	return strv_contains(pf->run->netstate->modules, module);
}

static bool has_work(const struct pf *pf, const struct device_vf *saved)
{
	const struct device_vf *now;

	if (saved->index >= pf->now.vf_count)
		return false;
	now = &pf->now.vfs[saved->index];
	if (!*saved->function || !*now->function)
		return false;
	return strcmp(saved->driver, now->driver) != 0 ||
	       strcmp(saved->override, now->override) != 0 ||
	       (*now->driver && is_outdated(now) && is_ours(pf, now));
}

/* A PF's VFs whose drivers have to be restored. */
struct binding {
	const struct pf *pf;
	size_t *indexes; /* [count], in saved->vfs */
	size_t count;
};

/* One that a driver of another module has was given to it meanwhile, and may be in use. */
static enum job_status restore_driver(const struct run *run, void *context, size_t index)
{
	const struct binding *binding = context;
	const struct pf *pf = binding->pf;
	const struct device_vf *saved = &pf->saved->vfs[binding->indexes[index]];
	const struct device_vf *now = &pf->now.vfs[saved->index];
	bool moves = strcmp(saved->driver, now->driver) != 0 || is_outdated(now);
	const char *function = now->function;
	int root_fd = run->netstate->root_fd;
	const char *absent = NULL;
	char driver[DEVICE_PART_SIZE];
	char what[256] = "";
	int r = 0;

	if (moves && *now->driver && !is_ours(pf, now)) {
		run_failure(run,
			"VF %u of %s (%s) is bound to %s now (before: %s): it was rebound since "
			"then and is left as it is",
			saved->index, pf->saved->name, function, now->driver,
			*saved->driver ? saved->driver : "none");
		return JOB_DONE;
	}
	if (moves && *now->driver) {
		(void) snprintf(what, sizeof(what), "could not be unbound from %s", now->driver);
		r = sysfs_put(root_fd, function, PCI_DEVICES "/%s/driver/unbind", function);
	}
	if (r == 0 && strcmp(saved->override, now->override) != 0) {
		(void) snprintf(what, sizeof(what), "could not be given its driver_override '%s'",
			saved->override);
		/* An empty line clears it. */
		r = sysfs_put(root_fd, *saved->override ? saved->override : "\n",
			PCI_DEVICES "/%s/driver_override", function);
	}
	if (r == 0 && moves && *saved->driver) {
		(void) snprintf(what, sizeof(what), "could not be bound to %s", saved->driver);
		absent = "that driver is not loaded";
		r = sysfs_put(root_fd, function, "sys/bus/pci/drivers/%s/bind", saved->driver);
		/* udev or another program may have been faster. */
		vf_link(pf, now, "driver", driver);
		if (strcmp(driver, saved->driver) == 0)
			r = 0;
	}
	if (r < 0)
		run_failure(run, "VF %u of %s (%s) %s: %s", saved->index, pf->saved->name, function,
			what, r == -ENOENT && absent ? absent : strerror(-r));
	return JOB_DONE;
}

/*
 * While autoprobe is off no driver takes a VF, not even by hand, unless its override says so
 * (pci_device_can_probe() in drivers/pci/pci-driver.c).
 */
static void set_autoprobe(struct pf *pf, bool autoprobe)
{
	struct device *now = &pf->now;
	int r;

	if (!(now->known & DEVICE_AUTOPROBE) || now->autoprobe == autoprobe)
		return;
	r = device_write(pf->run->netstate->root_fd, now->name, "sriov_drivers_autoprobe",
		autoprobe ? "1" : "0");
	if (r < 0)
		run_failure(pf->run, "%s: its sriov_drivers_autoprobe %d could not be set: %s",
			now->name, autoprobe, strerror(-r));
	else
		now->autoprobe = autoprobe;
}

static void restore_drivers(struct pf *pf)
{
	const struct device *saved = pf->saved;
	_cleanup_free_ size_t *indexes = calloc(saved->vf_count + 1, sizeof(*indexes));
	struct binding binding = { .pf = pf, .indexes = indexes };
	struct error error = { 0 };

	if (!indexes)
		run_failure(pf->run, "the drivers of the VFs of %s: out of memory", saved->name);
	for (size_t i = 0; indexes && i < saved->vf_count; i++)
		if (has_work(pf, &saved->vfs[i]))
			indexes[binding.count++] = i;
	if (binding.count) {
		set_autoprobe(pf, true);
		if (pool_run(pf->run, binding.count, BINDERS, restore_driver, &binding, NULL,
			    &error) < 0)
			run_failure(pf->run, "the drivers of the VFs of %s: %s", saved->name,
				error.text);
	}
	if (saved->known & DEVICE_AUTOPROBE)
		set_autoprobe(pf, saved->autoprobe);
}

/* ---- the whole of it */

static enum job_status restore_all(struct pf *pf)
{
	bool is_there_now = await(pf);

	/* Without its driver there is nothing to restore; without its interface all else is. */
	if (!device_is_driven(pf->run->netstate->root_fd, pf->saved->name))
		return JOB_ABSENT;
	if (look(pf) < 0)
		return JOB_LOST;
	restore_params(pf);
	kill_point("network:device:params");
	restore_vfs(pf);
	kill_point("network:device:vfs");
	restore_eswitch(pf);
	kill_point("network:device:eswitch");
	restore_subfunctions(pf);
	kill_point("network:device:subfunctions");
	restore_drivers(pf);
	kill_point("network:device:drivers");
	if (pf->has_refused_params && !netlink_wait(NETLINK_KOBJECT_UEVENT, UEVENTS,
					      pf->run->netstate->bind_ms, all_are_back, pf))
		(void) retry(pf, true);
	return is_there_now ? JOB_DONE : JOB_ABSENT;
}

static enum job_status restore_device(const struct run *run, void *context, size_t index)
{
	const struct device_list *devices = context;
	struct pf pf = { .run = run, .saved = &devices->items[index] };
	enum job_status status = JOB_LOST;
	struct error error = { 0 };
	int r = netlink_open(NETLINK_ROUTE, &pf.route, &error);

	if (r == 0)
		r = netlink_open_family(DEVLINK_GENL_NAME, &pf.devlink, &error);
	if (r == 0 || r == -ENOENT)
		status = restore_all(&pf);
	else
		run_failure(run, "%s: %s", pf.saved->name, error.text);
	device_free(&pf.now);
	netlink_close(&pf.devlink);
	netlink_close(&pf.route);
	return status;
}

static void count_device(const struct run *run, const char *name)
{
	_cleanup_close_ int fd = device_open(run->netstate->root_fd, name);
	unsigned vfs = 0;

	if (!fs_exists(fd, "driver"))
		return;
	(void) sysfs_read_number(fd, "sriov_numvfs", &vfs);
	run->result->devices++;
	run->result->vfs += vfs;
}

int devices_restore(const struct run *run, struct error *error)
{
	_cleanup_(device_list_free) struct device_list devices = { 0 };
	_cleanup_free_ enum job_status *statuses = NULL;
	bool keeps_absent = run_is_of_this_boot(run);
	int r;

	/* A damaged record costs what it has, not the others. */
	for (size_t i = 0; i < run->records->count; i++) {
		r = device_load_one(run->records, i, &devices, error);
		if (r < 0 && r != -EBADMSG)
			return r;
		if (r < 0) {
			run_failure(run, "%s", error->text);
			record_forget(&run->records->items[i]);
		}
	}
	records_sweep(run->records);
	if (!devices.count)
		return 0;
	statuses = calloc(devices.count, sizeof(*statuses));
	if (!statuses)
		return error_set_errno(error, -ENOMEM, "devices");
	r = pool_run(run, devices.count, PFS_AT_ONCE, restore_device, &devices, statuses, error);
	if (r < 0)
		return r;
	/* After a boot what is absent is given up, unless something else is tried again. */
	for (size_t i = 0; i < devices.count; i++)
		keeps_absent = keeps_absent || statuses[i] == JOB_LOST;
	for (size_t i = 0; i < devices.count; i++) {
		const char *name = devices.items[i].name;

		if (statuses[i] != JOB_LOST)
			count_device(run, name);
		if (statuses[i] == JOB_DONE || (statuses[i] == JOB_ABSENT && !keeps_absent))
			records_forget(run->records, device_kinds, "device", name);
	}
	return 0;
}
