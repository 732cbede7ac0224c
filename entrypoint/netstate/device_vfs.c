/* SPDX-License-Identifier: Apache-2.0 */
/* A PF's virtual functions on their way back: their number, and what the PF holds for each. */
#include <inttypes.h>
#include <linux/devlink.h>
#include <string.h>

#include "entrypoint/netstate/device_restore.h"

/* VLAN, trust and spoof check can be set in legacy mode only, by most drivers. */
static void go_legacy(struct restoration *restoration)
{
	const char *device = restoration->saved->name;
	struct error error = { 0 };

	if (!restoration->devlink || restoration->now.eswitch.mode == DEVLINK_ESWITCH_MODE_LEGACY)
		return;
	if (devlink_eswitch_set_mode(
		    restoration->devlink, device, DEVLINK_ESWITCH_MODE_LEGACY, &error) < 0)
		crew_tell(restoration->crew, "%s stays in %s mode while its VFs are made: %s",
			device, device_eswitch_word(restoration->now.eswitch.mode), error.text);
}

static void make_vfs(struct restoration *restoration)
{
	const struct device *saved = restoration->saved;
	int root_fd = restoration->network->root_fd;
	char number[16];
	int r;

	go_legacy(restoration);
	/* No driver shall meet a VF before it has its address. */
	if (restoration->now.has_autoprobe && restoration->now.autoprobe)
		(void) device_write(root_fd, saved->name, "sriov_drivers_autoprobe", "0");
	(void) snprintf(number, sizeof(number), "%u", saved->vf_number);
	r = device_write(root_fd, saved->name, "sriov_numvfs", number);
	if (r < 0)
		crew_fail(restoration->crew,
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
		crew_fail(restoration->crew,
			"%s has %u VFs that somebody made meanwhile, and had %u: they are left as "
			"they are",
			saved->name, now->vf_number, saved->vf_number);
		return false;
	}
	if (!now->has_vfs) {
		crew_fail(restoration->crew,
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
		crew_fail(restoration->crew, "VF %u of %s does not get back %s: %s", saved->index,
			restoration->saved->name, vf_attribute_words(attribute), error.text);
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

void restore_vfs(struct restoration *restoration)
{
	if (expect_number(restoration)) {
		make_vfs(restoration);
		if (restoration_look(restoration) < 0)
			return;
	}
	if (restoration->now.ifindex)
		restore_settings(restoration);
}
