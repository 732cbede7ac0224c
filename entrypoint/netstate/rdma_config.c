/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/netstate/rdma_config.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/fs.h"
#include "entrypoint/role/pci.h"

int rdma_config_open(int root_fd)
{
	_cleanup_close_ int config_fd =
		openat(root_fd, "sys/kernel/config", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_close_ int mount_fd = -1;
	_cleanup_close_ int context_fd = -1;

	if (fs_exists(config_fd, "rdma_cm"))
		return TAKE_FD(config_fd);
	if (!fs_exists(root_fd, "sys/module/rdma_cm"))
		return -ENOENT;
	context_fd = fsopen("configfs", FSOPEN_CLOEXEC);
	if (context_fd < 0 || fsconfig(context_fd, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return -errno;
	mount_fd = fsmount(context_fd, FSMOUNT_CLOEXEC, 0);
	if (mount_fd < 0)
		return -errno;
	return fs_exists(mount_fd, "rdma_cm") ? TAKE_FD(mount_fd) : -ENOENT;
}

bool rdma_config_begin(struct rdma_config *config, int fd, const char *device)
{
	*config = (struct rdma_config){ .fd = fd };
	(void) snprintf(config->folder, sizeof(config->folder), "rdma_cm/%s", device);
	config->is_made = mkdirat(fd, config->folder, 0755) == 0;
	return config->is_made || errno == EEXIST;
}

void rdma_config_end(struct rdma_config *config)
{
	if (*config->folder)
		(void) unlinkat(config->fd, config->folder, AT_REMOVEDIR);
}

int rdma_config_read(
	const struct rdma_config *config, const char *port, const char *setting, char **ret)
{
	char path[PATH_MAX];

	(void) snprintf(path, sizeof(path), "%s/ports/%s/%s", config->folder, port, setting);
	return fs_read_line(config->fd, path, ret);
}

int rdma_config_write(
	const struct rdma_config *config, const char *port, const char *setting, const char *value)
{
	return sysfs_put(config->fd, value, "%s/ports/%s/%s", config->folder, port, setting);
}
