/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/modules/users.h"

#include <ctype.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "common/fs.h"

static bool has_prefix(const char *path, const char *const *prefixes)
{
	for (; *prefixes; prefixes++)
		if (strncmp(path, *prefixes, strlen(*prefixes)) == 0)
			return true;
	return false;
}

/*
 * The link text of a descriptor is read, never opened or followed: that could block on a dead
 * network file system.
 */
static bool opens_device(int process_fd, const char *const *prefixes, struct user *user)
{
	int fd = openat(process_fd, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_closedir_ DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;

	if (!dir) {
		cleanup_close(&fd);
		return false;
	}
	while ((entry = readdir(dir))) {
		char target[PATH_MAX];
		ssize_t length = readlinkat(dirfd(dir), entry->d_name, target, sizeof(target) - 1);

		if (length < 0)
			continue;
		target[length] = '\0';
		if (!has_prefix(target, prefixes))
			continue;
		(void) snprintf(user->device, sizeof(user->device), "%.*s",
			(int) sizeof(user->device) - 1, target);
		return true;
	}
	return false;
}

static bool examine(int proc_fd, const char *name, const char *const *prefixes, struct user *user)
{
	_cleanup_close_ int process_fd = openat(proc_fd, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
	_cleanup_free_ char *command = NULL;

	if (process_fd < 0 || !opens_device(process_fd, prefixes, user))
		return false;
	user->pid = (pid_t) strtol(name, NULL, 10);
	if (fs_read_line(process_fd, "comm", &command) == 0)
		(void) snprintf(user->command, sizeof(user->command), "%s", command);
	else
		(void) snprintf(user->command, sizeof(user->command), "?");
	return true;
}

int users_of_devices(int root_fd, const char *const *prefixes, struct user *users, size_t capacity)
{
	int fd = openat(root_fd, "proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_closedir_ DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;
	size_t count = 0;

	if (!dir) {
		int r = -errno;

		cleanup_close(&fd);
		return r;
	}
	while (count < capacity && (entry = readdir(dir)))
		if (isdigit((unsigned char) entry->d_name[0]))
			count += examine(dirfd(dir), entry->d_name, prefixes, &users[count]);
	return (int) count;
}
