/* SPDX-License-Identifier: Apache-2.0 */
#include "common/owned.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/strv.h"

static bool is_own_uid(const struct stat *status)
{
	return status->st_uid == 0 || status->st_uid == geteuid();
}

bool is_owned(const struct stat *status)
{
	return is_own_uid(status) && (status->st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

bool is_owned_way(const struct stat *status)
{
	return is_owned(status) || (is_own_uid(status) && (status->st_mode & S_ISVTX) != 0);
}

static int check(const struct stat *status, bool is_way, const char *name, struct error *error)
{
	if (!S_ISREG(status->st_mode) && !S_ISDIR(status->st_mode))
		return error_set(error, -EPERM, "%s is %s", name,
			S_ISLNK(status->st_mode) ? "a symbolic link" : "no regular file");
	if (is_way ? is_owned_way(status) : is_owned(status))
		return 0;
	if (!is_own_uid(status))
		return error_set(error, -EPERM, "%s belongs to the user %u, not to root", name,
			(unsigned) status->st_uid);
	return error_set(error, -EPERM, "others than root may write to %s (mode %04o)", name,
		(unsigned) status->st_mode & 07777);
}

/* O_PATH opens a link itself, and no device or pipe is opened by it. */
static int take_step(
	int dir_fd, const char *part, bool is_way, const char *path, struct error *error)
{
	_cleanup_close_ int fd = openat(dir_fd, part, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct stat status;
	int r;

	if (fd < 0 || fstat(fd, &status) < 0)
		return error_set_errno(error, -errno, "%s of %s", part, path);
	r = check(&status, is_way, part, error);
	return r < 0 ? error_prefix(error, r, "%s", path) : TAKE_FD(fd);
}

static int check_start(int dir_fd, const char *path, struct error *error)
{
	struct stat status;

	if (fstat(dir_fd, &status) < 0)
		return error_set_errno(error, -errno, "the folder of %s", path);
	return check(&status, true, "the folder above", error) < 0
		       ? error_prefix(error, -EPERM, "%s", path)
		       : 0;
}

static int walk(int dir_fd, const struct strv *parts, const char *path, struct error *error)
{
	_cleanup_close_ int at_fd = -1;

	for (size_t i = 0; i < parts->count; i++) {
		int fd = take_step(at_fd < 0 ? dir_fd : at_fd, parts->items[i],
			i + 1 < parts->count, path, error);

		if (fd < 0)
			return fd;
		cleanup_close(&at_fd);
		at_fd = fd;
	}
	return TAKE_FD(at_fd);
}

/* The very file that was looked at, opened for more than a look. */
static int open_again(int path_fd, int flags)
{
	char name[64];
	int fd;

	(void) snprintf(name, sizeof(name), "/proc/self/fd/%d", path_fd);
	fd = open(name, flags | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int open_owned(int dir_fd, const char *path, int flags, struct error *error)
{
	_cleanup_strv_ struct strv parts = { 0 };
	_cleanup_close_ int fd = -1;
	int r = strv_split(&parts, path, "/");

	if (r == 0 && (parts.count == 0 || strv_contains(&parts, "..")))
		r = -EINVAL;
	if (r < 0)
		return error_set_errno(error, r, "%s", path);
	r = check_start(dir_fd, path, error);
	if (r < 0)
		return r;
	fd = walk(dir_fd, &parts, path, error);
	if (fd < 0)
		return fd;
	r = open_again(fd, flags);
	return r < 0 ? error_set_errno(error, r, "%s", path) : r;
}
