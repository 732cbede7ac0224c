/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device's devlink parameters on their way back. Some of a runtime mode are taken before
 * switchdev mode only (flow_steering_mode of mlx5_core), some in it only, and when the other port
 * of the card is there, too (esw_multiport): what is refused at first is tried again at the end.
 */
#include <linux/devlink.h>
#include <string.h>

#include "entrypoint/netstate/device_restore.h"
#include "entrypoint/netstate/uevents.h"

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

static void fail(const struct restoration *restoration, const struct devlink_param *param,
	const struct error *error)
{
	crew_fail(restoration->crew, "%s does not get back its parameter %s=%s: %s",
		restoration->saved->name, param->name, param->value, error->text);
}

/* What the driver that is loaded does not know any more: one line for all of it. */
static void tell_absent(struct restoration *restoration, const struct strv *absent)
{
	_cleanup_free_ char *names = absent->count ? strv_join(absent, ", ") : NULL;

	if (names)
		crew_tell(restoration->crew,
			"%s: the driver that is loaded has no devlink parameter %s",
			restoration->saved->name, names);
}

/* A reload takes the interfaces away: not with VFs, which somebody may be using. */
static void reload(struct restoration *restoration)
{
	const char *device = restoration->saved->name;
	struct error error = { 0 };

	if (restoration->now.vf_number) {
		crew_fail(restoration->crew,
			"%s has VFs already: its driverinit parameters count after `devlink dev "
			"reload %s`",
			device, device);
		return;
	}
	if (devlink_reload(restoration->devlink, device, &error) < 0)
		crew_fail(restoration->crew, "%s does not reload: %s", device, error.text);
	(void) restoration_await(restoration);
	(void) restoration_look(restoration);
}

void restore_params(struct restoration *restoration)
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
			fail(restoration, param, &error);
		else if (outcome == PARAM_REFUSED)
			restoration->has_refused_params = true;
	}
	tell_absent(restoration, &absent);
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
			fail(restoration, param, &error);
	}
	return refused;
}

static bool all_are_back(void *context)
{
	return retry(context, false) == 0;
}

void restore_refused_params(struct restoration *restoration)
{
	if (!restoration->has_refused_params)
		return;
	if (!uevents_wait(
		    restoration->uevents, restoration->network->bind_ms, all_are_back, restoration))
		(void) retry(restoration, true);
}
