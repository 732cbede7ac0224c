/* SPDX-License-Identifier: Apache-2.0 */
#include "common/within.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>

#include "common/chase.h"
#include "common/strv.h"

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
