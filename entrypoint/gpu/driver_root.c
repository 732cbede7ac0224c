/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/gpu/driver_root.h"

#include <limits.h>
#include <string.h>

#include "common/fs.h"
#include "entrypoint/contract.h"
#include "entrypoint/gpu/device_nodes.h"
#include "entrypoint/role/rootfs.h"
#include "module/kernel_facts.h"

/* The sources show the symvers of the image's first kernel until then. */
static int choose_symvers(const struct role *role, struct error *error)
{
	_cleanup_free_ char *text = NULL;
	char from[PATH_MAX], to[PATH_MAX];
	size_t size;
	int r;

	(void) snprintf(
		from, sizeof(from), KERNEL_FACTS_FOLDER "/%s/" KERNEL_FACTS_NVIDIA, role->krel);
	(void) snprintf(to, sizeof(to), "usr/src/nvidia-%s/Module.symvers", role->image.version);
	r = fs_read(role->root_fd, from, 0, &text, &size);
	if (r == -ENOENT)
		return 0;
	if (r == 0)
		r = fs_write_atomic(role->root_fd, to, text, size, 0644);
	return r < 0 ? error_set_errno(error, r, "/%s from /%s", to, from) : 0;
}

/* The vendor's programs make what is missing, too, where they may. */
static void make_nodes(struct role *role)
{
	struct error error = { "" };

	if (device_nodes_make(role->root_fd, &error) < 0)
		log_event(&role->log, "note", role->log.step, 0, REASON_NONE, error.text);
}

int gpu_export_root(struct action *action)
{
	struct role *role = action->role;
	int r = choose_symvers(role, &action->error);

	make_nodes(role);
	if (r == 0)
		r = rootfs_export(role->root_fd, CONTRACT_DRIVER_ROOT, &action->error);
	return action_reason(action, REASON_MOUNT_FAILED, r);
}

int gpu_detach_root(struct action *action)
{
	return action_reason(
		action, REASON_MOUNT_FAILED, rootfs_detach(CONTRACT_DRIVER_ROOT, &action->error));
}
