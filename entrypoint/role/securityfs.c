/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/role/securityfs.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/fs.h"

/* Constants of linux/mount.h, which older distributions lack and newer ones have twice. */
#define CONFIG_CREATE  6 /* FSCONFIG_CMD_CREATE */
#define OPEN_CLOEXEC   1 /* FSOPEN_CLOEXEC, FSMOUNT_CLOEXEC */
#define ATTR_READ_ONLY 1 /* MOUNT_ATTR_RDONLY */

int securityfs_open(void)
{
#if defined(SYS_fsopen) && defined(SYS_fsconfig) && defined(SYS_fsmount)
	_cleanup_close_ int context = (int) syscall(SYS_fsopen, "securityfs", OPEN_CLOEXEC);
	int fd;

	if (context < 0 || syscall(SYS_fsconfig, context, CONFIG_CREATE, NULL, NULL, 0) < 0)
		return -errno;
	fd = (int) syscall(SYS_fsmount, context, OPEN_CLOEXEC, ATTR_READ_ONLY);
	return fd < 0 ? -errno : fd;
#else
	return -ENOSYS;
#endif
}

bool securityfs_locks_down(int root_fd)
{
	_cleanup_close_ int fd = -1;
	_cleanup_free_ char *levels = NULL;

	if (fs_read_line(root_fd, "sys/kernel/security/lockdown", &levels) < 0) {
		fd = fs_exists(root_fd, "sys/kernel/security") ? securityfs_open() : -ENOENT;
		if (fd < 0 || fs_read_line(fd, "lockdown", &levels) < 0)
			return false;
	}
	return strchr(levels, '[') && !strstr(levels, "[none]");
}
