/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/gpu/firmware.h"

#include <fcntl.h>
#include <string.h>

#include "common/fs.h"
#include "entrypoint/contract.h"

/* The kernel looks for firmware in its own mount namespace: in the root that we export. */
int gpu_set_firmware_path(struct action *action)
{
	const struct role *role = action->role;
	_cleanup_free_ char *before = NULL;
	_cleanup_close_ int fd = -1;

	if (fs_read_line(role->root_fd, CONTRACT_FIRMWARE_PATH, &before) == 0 && *before)
		return 0; /* an administrator's choice, or ours of an earlier life */
	fd = openat(role->root_fd, CONTRACT_FIRMWARE_PATH, O_WRONLY | O_CLOEXEC);
	if (fd < 0 ||
		write(fd, CONTRACT_FIRMWARE_PATH_VALUE, strlen(CONTRACT_FIRMWARE_PATH_VALUE)) < 0)
		return action_fail(action, REASON_MOUNT_FAILED, -EIO,
			"/%s: %s: GPUs with GSP firmware cannot start without it",
			CONTRACT_FIRMWARE_PATH, strerror(errno));
	return 0;
}

int gpu_clear_firmware_path(struct action *action)
{
	const struct role *role = action->role;
	_cleanup_free_ char *now = NULL;
	_cleanup_close_ int fd = -1;

	if (fs_read_line(role->root_fd, CONTRACT_FIRMWARE_PATH, &now) < 0 ||
		strcmp(now, CONTRACT_FIRMWARE_PATH_VALUE) != 0)
		return 0;
	fd = openat(role->root_fd, CONTRACT_FIRMWARE_PATH, O_WRONLY | O_CLOEXEC);
	/* A lone NUL is how an empty string is written: a write of no bytes does nothing. */
	if (fd < 0 || write(fd, "", 1) < 0)
		return action_fail(action, REASON_MOUNT_FAILED, -EIO, "/%s: %s",
			CONTRACT_FIRMWARE_PATH, strerror(errno));
	return 0;
}
