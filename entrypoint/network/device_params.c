/* SPDX-License-Identifier: Apache-2.0 */
/* A device's devlink parameters on their way back. */
#include <linux/devlink.h>
#include <string.h>

#include "entrypoint/network/device_restore.h"

/* What the driver that is loaded does not know any more: one line for all of it. */
static int note_absent(struct strv *absent, const struct devlink_param *param)
{
	return strv_push_unique(absent, param->name);
}

/* 1 when it was changed. */
static int restore_param(
	struct restoration *restoration, const struct devlink_param *saved, struct strv *absent)
{
	const char *device = restoration->saved->name;
	struct devlink_param now = *saved;
	struct error error = { 0 };

	if (devlink_param_get(restoration->devlink, device, &now, &error) < 0)
		return note_absent(absent, saved);
	if (now.type == saved->type && strcmp(now.value, saved->value) == 0)
		return 0;
	if (devlink_param_set(restoration->devlink, device, saved, &error) < 0) {
		crew_fail(restoration->crew, "%s does not get back its parameter %s=%s: %s", device,
			saved->name, saved->value, error.text);
		return 0;
	}
	return 1;
}

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
	restoration_await(restoration);
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
		int r = restore_param(restoration, &saved->params[i], &absent);

		if (r > 0 && saved->params[i].mode == DEVLINK_PARAM_CMODE_DRIVERINIT)
			needs_reload = true;
	}
	tell_absent(restoration, &absent);
	if (needs_reload)
		reload(restoration);
}
