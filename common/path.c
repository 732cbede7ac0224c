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

struct way {
	struct strv done; /* components without links */
	char *rest;       /* what is still to be looked at */
	unsigned int links;
	bool beneath; /* nothing may even try to lead out */
};

static void way_free(struct way *way)
{
	strv_free(&way->done);
	free(way->rest);
}

/* Takes the first component off the rest; an empty one when there is none. */
static void next_component(char *rest, char component[NAME_MAX + 1])
{
	size_t skip = strspn(rest, "/");
	size_t length = strcspn(rest + skip, "/");
	size_t kept = length > NAME_MAX ? NAME_MAX : length;

	memcpy(component, rest + skip, kept);
	component[kept] = '\0';
	memmove(rest, rest + skip + length, strlen(rest + skip + length) + 1);
}

static int follow(struct way *way, const char *target)
{
	char *rest;

	if (++way->links > LINKS_MAX)
		return -ELOOP;
	if (way->beneath && *target == '/')
		return -EXDEV;
	if (asprintf(&rest, "%s/%s", target, way->rest) < 0)
		return -ENOMEM;
	free(way->rest);
	way->rest = rest;
	if (*target == '/')
		strv_free(&way->done);
	return 0;
}

static int chase_step(struct way *way, int root_fd, const char *component)
{
	_cleanup_free_ char *path = NULL;
	char target[PATH_MAX];
	ssize_t length;
	int r;

	if (strcmp(component, ".") == 0)
		return 0;
	if (strcmp(component, "..") == 0) {
		if (way->beneath && way->done.count == 0)
			return -EXDEV;
		if (way->done.count)
			strv_remove(&way->done, way->done.count - 1);
		return 0;
	}
	r = strv_push(&way->done, component);
	path = r < 0 ? NULL : strv_join(&way->done, "/");
	if (!path)
		return -ENOMEM;
	length = readlinkat(root_fd, path, target, sizeof(target) - 1);
	if (length < 0)
		return errno == EINVAL ? 0 : -errno;
	target[length] = '\0';
	strv_remove(&way->done, way->done.count - 1);
	return follow(way, target);
}

static int chase_as(int root_fd, const char *path, bool beneath, char **ret_path)
{
	_cleanup_(way_free) struct way way = { .rest = strdup(path), .beneath = beneath };
	char component[NAME_MAX + 1];
	int r = 0;

	if (!way.rest)
		return -ENOMEM;
	if (beneath && *path == '/')
		return -EXDEV;
	for (;;) {
		next_component(way.rest, component);
		if (!*component)
			break;
		r = chase_step(&way, root_fd, component);
		if (r < 0)
			return r;
	}
	*ret_path = way.done.count ? strv_join(&way.done, "/") : strdup(".");
	return *ret_path ? 0 : -ENOMEM;
}

int chase(int root_fd, const char *path, char **ret_path)
{
	return chase_as(root_fd, path, false, ret_path);
}

int chase_beneath(int dir_fd, const char *path, char **ret_path)
{
	return chase_as(dir_fd, path, true, ret_path);
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
	int r = chase_beneath(dir_fd, path, &real);

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

/* Kernels before 5.6 say the first, filters of older container engines the second. */
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
