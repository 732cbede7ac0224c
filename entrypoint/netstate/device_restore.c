/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/netstate/device_restore.h"

#include <linux/devlink.h>
#include <string.h>

#include "entrypoint/engine/kill_point.h"
#include "entrypoint/netstate/uevents.h"

int restoration_look(struct restoration *restoration)
{
	const struct device *saved = restoration->saved;
	struct device *now = &restoration->now;
	struct error error = { 0 };
	int r;

	device_free(now);
	r = device_read_sysfs(restoration->network->root_fd, saved->name, now);
	if (r == 0)
		r = device_read_vfs(restoration->route, now, &error);
	/* No eswitch is an answer, too. */
	if (r == 0 && restoration->devlink)
		(void) devlink_eswitch_get(
			restoration->devlink, saved->name, &now->eswitch, &error);
	if (r < 0)
		crew_fail(restoration->crew, "%s cannot be read: %s", saved->name,
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

	if (device_read_sysfs(restoration->network->root_fd, saved->name, &now) < 0 || !*now.driver)
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

bool restoration_await(struct restoration *restoration)
{
	uint32_t bind_ms = restoration->network->bind_ms;
	const char *lacks;

	if (uevents_wait(restoration->uevents, bind_ms, is_there, restoration))
		return true;
	lacks = missing(restoration);
	if (!lacks)
		return true;
	crew_fail(restoration->crew, "%s is not back after %u ms: %s", restoration->saved->name,
		bind_ms, lacks);
	return false;
}

/* ---- the eswitch */

static void set_mode(struct restoration *restoration)
{
	const struct device *saved = restoration->saved;
	const struct device *now = &restoration->now;
	struct error error = { 0 };

	if (saved->eswitch.mode == DEVLINK_ESWITCH_MODE_LEGACY) {
		crew_tell(restoration->crew,
			"%s is in %s mode now and was in legacy: somebody changed it, it is left",
			saved->name, device_eswitch_word(now->eswitch.mode));
		return;
	}
	if (devlink_eswitch_set_mode(
		    restoration->devlink, saved->name, saved->eswitch.mode, &error) < 0)
		crew_fail(restoration->crew, "%s does not go back to %s mode: %s", saved->name,
			device_eswitch_word(saved->eswitch.mode), error.text);
}

static void set_inline(struct restoration *restoration)
{
	const struct device *saved = restoration->saved;
	struct error error = { 0 };

	if (devlink_eswitch_set_inline(
		    restoration->devlink, saved->name, saved->eswitch.inline_mode, &error) < 0)
		crew_fail(restoration->crew, "%s does not get back its inline mode %u: %s",
			saved->name, saved->eswitch.inline_mode, error.text);
}

static void set_encap(struct restoration *restoration)
{
	const struct device *saved = restoration->saved;
	struct error error = { 0 };

	if (devlink_eswitch_set_encap(
		    restoration->devlink, saved->name, saved->eswitch.encap_mode, &error) < 0)
		crew_fail(restoration->crew, "%s does not get back its encap mode %u: %s",
			saved->name, saved->eswitch.encap_mode, error.text);
}

void restore_eswitch(struct restoration *restoration)
{
	const struct devlink_eswitch *saved = &restoration->saved->eswitch;
	struct devlink_eswitch *now = &restoration->now.eswitch;
	struct error error = { 0 };

	if (!saved->has_mode || !restoration->devlink)
		return;
	if (!now->has_mode) {
		crew_fail(restoration->crew,
			"%s has no eswitch any more, and its mode was %s: does the driver that is "
			"loaded support it?",
			restoration->saved->name, device_eswitch_word(saved->mode));
		return;
	}
	if (saved->mode != now->mode)
		set_mode(restoration);
	/* The mode may have changed the others. */
	if (devlink_eswitch_get(restoration->devlink, restoration->saved->name, now, &error) < 0)
		return;
	if (saved->has_inline && now->has_inline && saved->inline_mode != now->inline_mode)
		set_inline(restoration);
	if (saved->has_encap && now->has_encap && saved->encap_mode != now->encap_mode)
		set_encap(restoration);
}

/* ---- the whole of it */

static enum crew_fate restore_all(struct restoration *restoration)
{
	bool is_there_now = restoration_await(restoration);
	char driver[DEVICE_PART_SIZE];

	/* Without its driver there is nothing to bring back; without its interface all else is. */
	device_link(restoration->network->root_fd, restoration->saved->name, "driver", driver);
	if (!*driver)
		return CREW_ABSENT;
	if (restoration_look(restoration) < 0)
		return CREW_LOST;
	restore_params(restoration);
	kill_point("network:device:params");
	restore_vfs(restoration);
	kill_point("network:device:vfs");
	restore_eswitch(restoration);
	kill_point("network:device:eswitch");
	restore_subfunctions(restoration);
	kill_point("network:device:subfunctions");
	restore_rates(restoration);
	restore_drivers(restoration);
	kill_point("network:device:drivers");
	restore_refused_params(restoration);
	crew_count(restoration->crew, 1, restoration->now.vf_number);
	return is_there_now ? CREW_DONE : CREW_ABSENT;
}

static int open_all(struct restoration *restoration, struct error *error)
{
	int r = netlink_open(NETLINK_ROUTE, &restoration->route, error);

	if (r == 0)
		r = devlink_open(&restoration->devlink, error);
	return r == -ENOENT ? 0 : r;
}

enum crew_fate device_restore(
	const struct network *network, const struct device *saved, struct crew *crew)
{
	enum crew_fate fate = CREW_LOST;
	struct restoration restoration = { .network = network, .crew = crew, .saved = saved };
	struct error error = { 0 };

	restoration.uevents = uevents_open();
	if (open_all(&restoration, &error) < 0)
		crew_fail(crew, "%s cannot be brought back: %s", saved->name, error.text);
	else
		fate = restore_all(&restoration);
	device_free(&restoration.now);
	devlink_close(&restoration.devlink);
	netlink_close(&restoration.route);
	cleanup_close(&restoration.uevents);
	return fate;
}
