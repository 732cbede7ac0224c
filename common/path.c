/* SPDX-License-Identifier: Apache-2.0 */
#include "common/path.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/strv.h"

#define LINKS_MAX 40 /* as the kernel's own path_resolution(7) */

static int chase_as(int root_fd, const char *path, bool beneath, char **ret_path)
{
	_cleanup_strv_ struct strv done = { 0 }; /* components without links */
	_cleanup_free_ char *text = strdup(path);
	const char *rest = text; /* what is still to be looked at */
	unsigned int links = 0;

	if (!text)
		return -ENOMEM;
	if (beneath && *path == '/')
		return -EXDEV;
	for (;;) {
		_cleanup_free_ char *real = NULL;
		char target[PATH_MAX];
		char *longer;
		size_t size;
		ssize_t length;

		rest += strspn(rest, "/");
		size = strcspn(rest, "/");
		if (size == 0)
			break;
		if (size == 2 && rest[0] == '.' && rest[1] == '.') {
			if (beneath && done.count == 0)
				return -EXDEV;
			if (done.count)
				strv_remove(&done, done.count - 1);
		}
		if (rest[0] == '.' && (size == 1 || (size == 2 && rest[1] == '.'))) {
			rest += size;
			continue;
		}
		if (strv_pushf(&done, "%.*s", (int) (size > NAME_MAX ? NAME_MAX : size), rest) < 0)
			return -ENOMEM;
		rest += size;
		real = strv_join(&done, "/");
		if (!real)
			return -ENOMEM;
		length = readlinkat(root_fd, real, target, sizeof(target) - 1);
		if (length < 0 && errno == EINVAL)
			continue;
		if (length < 0)
			return -errno;
		target[length] = '\0';
		if (++links > LINKS_MAX)
			return -ELOOP;
		if (beneath && *target == '/')
			return -EXDEV;
		if (*target == '/')
			strv_free(&done);
		else
			strv_remove(&done, done.count - 1);
		if (asprintf(&longer, "%s/%s", target, rest) < 0)
			return -ENOMEM;
		free(text);
		text = longer;
		rest = text;
	}
	*ret_path = done.count ? strv_join(&done, "/") : strdup(".");
	return *ret_path ? 0 : -ENOMEM;
}

int chase(int root_fd, const char *path, char **ret_path)
{
	return chase_as(root_fd, path, false, ret_path);
}

int chase_in(int root_fd, const char *top, const char *path, char **ret_path)
{
	_cleanup_close_ int top_fd =
		openat(root_fd, *top ? top : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	_cleanup_free_ char *below = NULL;
	char *whole;
	int r = top_fd < 0 ? -errno : chase(top_fd, path, &below);

	if (r < 0)
		return r;
	if (asprintf(&whole, "%s%s%s", top, *top ? "/" : "", below) < 0)
		return -ENOMEM;
	*ret_path = whole;
	return 0;
}

#define TRIES 64 /* openat2(2): -EAGAIN when anything on the machine was renamed meanwhile */

/* @path has no link: one that is there now came in between, and is -ELOOP or -ENOTDIR. */
static int open_without_links(int dir_fd, const char *path, int flags)
{
	_cleanup_strv_ struct strv parts = { 0 };
	_cleanup_close_ int folder_fd = -1;
	int r = strv_split(&parts, path, "/");
	int fd;

	for (size_t i = 0; i + 1 < parts.count && r == 0; i++) {
		fd = openat(folder_fd < 0 ? dir_fd : folder_fd, parts.items[i],
			O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		r = fd < 0 ? -errno : 0;
		cleanup_close(&folder_fd);
		folder_fd = fd;
	}
	if (r < 0 || parts.count == 0)
		return r < 0 ? r : -ENOENT;
	fd = openat(folder_fd < 0 ? dir_fd : folder_fd, parts.items[parts.count - 1],
		flags | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int open_beneath_by_walk(int dir_fd, const char *path, int flags)
{
	_cleanup_free_ char *real = NULL;
	int r = chase_as(dir_fd, path, true, &real);

	return r < 0 ? r : open_without_links(dir_fd, real, flags);
}

int open_in_root_by_walk(int root_fd, const char *path, int flags)
{
	_cleanup_free_ char *real = NULL;
	int r = chase(root_fd, path, &real);

	return r < 0 ? r : open_without_links(root_fd, real, flags);
}

static int open_by_kernel(int dir_fd, const char *path, int flags, uint64_t resolve)
{
	const struct open_how how = {
		.flags = (uint64_t) (unsigned int) (flags | O_CLOEXEC),
		.resolve = resolve | RESOLVE_NO_MAGICLINKS,
	};

	for (unsigned int i = 0; i < TRIES; i++) {
		long fd = syscall(SYS_openat2, dir_fd, path, &how, sizeof(how));

		if (fd >= 0)
			return (int) fd;
		if (errno != EAGAIN && errno != EINTR)
			return -errno;
	}
	return -EAGAIN;
}

/* Kernels before 5.6 return the first, filters of older container engines the second. */
static bool is_lacking(int r)
{
	return r == -ENOSYS || r == -EPERM;
}

int open_beneath(int dir_fd, const char *path, int flags)
{
	int r = open_by_kernel(dir_fd, path, flags, RESOLVE_BENEATH);

	return is_lacking(r) ? open_beneath_by_walk(dir_fd, path, flags) : r;
}

int open_in_root(int root_fd, const char *path, int flags)
{
	int r = open_by_kernel(root_fd, path, flags, RESOLVE_IN_ROOT);

	return is_lacking(r) ? open_in_root_by_walk(root_fd, path, flags) : r;
}

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

int open_owned(int dir_fd, const char *path, int flags, struct error *error)
{
	_cleanup_strv_ struct strv parts = { 0 };
	_cleanup_close_ int at_fd = -1;
	struct stat status;
	char name[64];
	int r = strv_split(&parts, path, "/");

	if (r == 0 && (parts.count == 0 || strv_contains(&parts, "..")))
		r = -EINVAL;
	if (r < 0)
		return error_set_errno(error, r, "%s", path);
	if (fstat(dir_fd, &status) < 0)
		return error_set_errno(error, -errno, "the folder of %s", path);
	r = check(&status, true, "the folder above", error);
	for (size_t i = 0; i < parts.count && r == 0; i++) {
		const char *part = parts.items[i];
		/* O_PATH opens a link itself, and no device or pipe is opened by it. */
		int fd = openat(at_fd < 0 ? dir_fd : at_fd, part, O_PATH | O_NOFOLLOW | O_CLOEXEC);

		cleanup_close(&at_fd);
		at_fd = fd;
		if (fd < 0 || fstat(fd, &status) < 0)
			return error_set_errno(error, -errno, "%s of %s", part, path);
		r = check(&status, i + 1 < parts.count, part, error);
	}
	if (r < 0)
		return error_prefix(error, r, "%s", path);
	/* The very file that was looked at, opened for more than a look. */
	(void) snprintf(name, sizeof(name), "/proc/self/fd/%d", at_fd);
	r = open(name, flags | O_CLOEXEC);
	return r < 0 ? error_set_errno(error, -errno, "%s", path) : r;
}
