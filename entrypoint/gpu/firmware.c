/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/gpu/firmware.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>

#include "common/fs.h"
#include "entrypoint/contract.h"
#include "entrypoint/role/mountinfo.h"
#include "entrypoint/role/rootfs.h"

/* Of the image. Where the operator mounts its folder over it, rootfs_show() still finds it. */
#define IMAGE_FIRMWARE "lib/firmware"

static int write_path(struct action *action, const char *value, size_t size)
{
	const struct role *role = action->role;
	_cleanup_close_ int fd =
		openat(role->root_fd, CONTRACT_FIRMWARE_PATH, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, value, size) < 0)
		return action_fail(action, REASON_MOUNT_FAILED, -EIO,
			"/%s: %s: GPUs with GSP firmware cannot start without it",
			CONTRACT_FIRMWARE_PATH, strerror(errno));
	return 0;
}

/* On the host, as the kernel sees it. */
static bool host_has(const struct role *role, const char *path)
{
	char below[PATH_MAX];

	(void) snprintf(below, sizeof(below), CONTRACT_GPU_HOST_ROOT "/%s", path);
	return fs_exists(role->root_fd, below);
}

/*
 * Somebody else's value: an installation that is gone leaves one that leads nowhere, and that one
 * is replaced; a folder that is there was put there by someone who wants it.
 */
static bool is_theirs(struct role *role, const char *value)
{
	char wanted[1536], text[ERROR_TEXT_SIZE];

	if (!*value || strcmp(value, CONTRACT_FIRMWARE_PATH_VALUE) == 0)
		return false;
	if (host_has(role, "proc") && !host_has(role, value)) {
		(void) snprintf(text, sizeof(text),
			"the kernel's firmware path was %.256s, which does not exist on the node: "
			"it is replaced",
			value);
		log_event(&role->log, "note", role->log.step, 0, REASON_NONE, text);
		return false;
	}
	(void) snprintf(wanted, sizeof(wanted), "%.1024s/nvidia/%s", value, role->image.version);
	if (host_has(role, wanted))
		return true;
	(void) snprintf(text, sizeof(text),
		"the kernel's firmware path is %.256s, set by someone else, and has no nvidia/%s: "
		"GPUs with GSP firmware will not start unless it is in the node's /lib/firmware; "
		"put it there, or empty /%s",
		value, role->image.version, CONTRACT_FIRMWARE_PATH);
	log_event(&role->log, "note", role->log.step, 0, REASON_NONE, text);
	return true;
}

/* The root has it already, where one is mounted: of an earlier life whose driver stays. */
static int show_firmware(struct action *action)
{
	const struct role *role = action->role;
	bool shown = false;
	int r;

	if (mountinfo_count(role->root_fd, CONTRACT_DRIVER_ROOT) > 0)
		return 0;
	r = rootfs_detach(CONTRACT_DRIVER_FIRMWARE, &action->error);
	if (r == 0)
		r = rootfs_show(IMAGE_FIRMWARE, CONTRACT_DRIVER_FIRMWARE, &shown, &action->error);
	return action_reason(action, REASON_MOUNT_FAILED, r);
}

int gpu_set_firmware_path(struct action *action)
{
	struct role *role = action->role;
	_cleanup_free_ char *before = NULL;
	int r = show_firmware(action);

	if (r < 0)
		return r;
	if (fs_read_line(role->root_fd, CONTRACT_FIRMWARE_PATH, &before) == 0 &&
		is_theirs(role, before))
		return 0;
	return write_path(
		action, CONTRACT_FIRMWARE_PATH_VALUE, strlen(CONTRACT_FIRMWARE_PATH_VALUE));
}

int gpu_clear_firmware_path(struct action *action)
{
	const struct role *role = action->role;
	_cleanup_free_ char *now = NULL;
	int r;

	/* The driver stays, in use: a GPU that starts anew still has to find its firmware. */
	if (role->plan.stop_failed)
		return 0;
	r = rootfs_detach(CONTRACT_DRIVER_FIRMWARE, &action->error);
	if (r < 0)
		return action_reason(action, REASON_MOUNT_FAILED, r);
	if (fs_read_line(role->root_fd, CONTRACT_FIRMWARE_PATH, &now) < 0 ||
		strcmp(now, CONTRACT_FIRMWARE_PATH_VALUE) != 0)
		return 0;
	/* A lone NUL is how an empty string is written: a write of no bytes does nothing. */
	return write_path(action, "", 1);
}
