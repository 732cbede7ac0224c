/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vfio-pci and its variants (nvgrace_gpu_vfio_pci, …) hold a device for a virtual machine. One that
 * is open cannot be unbound: the kernel would wait for its user. Source: Linux drivers/vfio, and
 * Documentation/driver-api/vfio.rst for the device nodes.
 */
#include <limits.h>
#include <string.h>

#include "common/fs.h"
#include "entrypoint/gpu/devices_parts.h"
#include "entrypoint/role/users.h"

#define USERS_NAMED 8

static bool is_vfio(const char *driver)
{
	return strstr(driver, "vfio") != NULL;
}

/* The last part of a link below the device, or "". */
static void link_name(
	int root_fd, const struct pci_function *function, const char *link, char name[64])
{
	char target[PATH_MAX];
	char path[128];
	const char *slash;
	ssize_t length;

	(void) snprintf(path, sizeof(path), PCI_DEVICES_PATH "/%s/%s", function->address, link);
	length = readlinkat(root_fd, path, target, sizeof(target) - 1);
	target[length < 0 ? 0 : length] = '\0';
	slash = strrchr(target, '/');
	(void) snprintf(name, 64, "%.63s", slash ? slash + 1 : target);
}

/* Its group's node, and since Linux 6.6 one of its own. */
static int push_nodes(int root_fd, const struct pci_function *function, struct strv *nodes)
{
	_cleanup_strv_ struct strv own = { 0 };
	char path[128];
	char group[64];
	int r = 0;

	link_name(root_fd, function, "iommu_group", group);
	if (*group)
		r = strv_pushf(nodes, "/dev/vfio/%s", group);
	if (r == 0 && *group)
		r = strv_pushf(nodes, "/dev/vfio/noiommu-%s", group);
	(void) snprintf(path, sizeof(path), PCI_DEVICES_PATH "/%s/vfio-dev", function->address);
	if (r < 0 || fs_list(root_fd, path, &own) < 0)
		return r;
	for (size_t i = 0; r == 0 && i < own.count; i++)
		r = strv_pushf(nodes, "/dev/vfio/devices/%s", own.items[i]);
	return r;
}

static int expect_no_users(struct taking *taking, const struct pci_function *function)
{
	struct action *action = taking->action;
	const struct role *role = action->role;
	_cleanup_strv_ struct strv nodes = { 0 };
	struct user users[USERS_NAMED];
	char who[USER_TEXT_SIZE];
	int count;

	if (push_nodes(role->root_fd, function, &nodes) < 0)
		return action_fail(action, REASON_INTERNAL, -ENOMEM, "out of memory");
	count = nodes.count ? users_of_devices(role->root_fd, &nodes, users, USERS_NAMED) : 0;
	if (count < 0)
		return action_fail(action, REASON_DEVICE_HELD, count,
			"who uses %s cannot be told: /proc: %s", function->address,
			strerror(-count));
	if (count == 0)
		return 0;
	user_text(&users[0], who);
	return action_fail(action, REASON_DEVICE_HELD, -EBUSY,
		"%s is given to a virtual machine by %s, and in use by %s%s: end it, or take the "
		"node out of those that run a GPU driver",
		function->address, function->driver, who, count > 1 ? " and others" : "");
}

static void read_override(int root_fd, const struct pci_function *function, char override[64])
{
	_cleanup_free_ char *text = NULL;
	char path[128];

	(void) snprintf(
		path, sizeof(path), PCI_DEVICES_PATH "/%s/driver_override", function->address);
	override[0] = '\0';
	if (fs_read_line(root_fd, path, &text) == 0 && strcmp(text, "(null)") != 0)
		(void) snprintf(override, 64, "%.63s", text);
}

bool devices_have_override(int root_fd, const struct pci_function *function)
{
	char override[64];

	read_override(root_fd, function, override);
	return is_vfio(override);
}

static int unbind(struct taking *taking, const struct pci_function *function, const char *override)
{
	struct action *action = taking->action;
	const struct role *role = action->role;
	int r = expect_no_users(taking, function);

	if (r == 0)
		r = taking_remember(
			taking, "bind %s %s %s", function->address, function->driver, override);
	if (r < 0)
		return r;
	r = sysfs_put_device(role->root_fd, function, "driver/unbind", function->address);
	if (r < 0)
		return action_fail(action, REASON_DEVICE_HELD, r, "%s does not let go of %s: %s",
			function->driver, function->address, strerror(-r));
	worker_report(action->worker, WORKER_NOTE, 0, "%s is taken from %s", function->address,
		function->driver);
	return 0;
}

/* An override keeps nvidia from the device, also from one that nothing drives. */
static int clear_override(struct taking *taking, const struct pci_function *function)
{
	struct action *action = taking->action;
	const struct role *role = action->role;
	int r = sysfs_put_device(role->root_fd, function, "driver_override", "\n");

	if (r < 0)
		return action_fail(action, REASON_DEVICE_HELD, r,
			"/" PCI_DEVICES_PATH "/%s/driver_override, which keeps nvidia from it, "
			"cannot be cleared: %s",
			function->address, strerror(-r));
	return 0;
}

static int take(struct taking *taking, const struct pci_function *function)
{
	const struct role *role = taking->action->role;
	char override[64];
	int r = 0;

	read_override(role->root_fd, function, override);
	if (is_vfio(function->driver))
		r = unbind(taking, function, override);
	if (r == 0 && is_vfio(override))
		r = clear_override(taking, function);
	return r;
}

int devices_free_vfio(struct taking *taking)
{
	int r = 0;

	for (int i = 0; r == 0 && i < taking->count; i++)
		if (taking_is_ours(&taking->functions[i]))
			r = take(taking, &taking->functions[i]);
	return r;
}
