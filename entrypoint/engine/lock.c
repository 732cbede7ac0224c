/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/engine/lock.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "common/fs.h"

static int make_folder(int root_fd, const char *path)
{
	char folder[PATH_MAX];
	char *slash;

	(void) snprintf(folder, sizeof(folder), "%s", path);
	slash = strrchr(folder, '/');
	if (!slash)
		return 0;
	*slash = '\0';
	return fs_mkdir_parents(root_fd, folder, 0755);
}

/* Between our open and our lock the holder may have removed the file: then ours has no name. */
static bool has_name(int root_fd, const char *path, int fd)
{
	struct stat ours;
	struct stat named;

	return fstat(fd, &ours) == 0 && fstatat(root_fd, path, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
	       ours.st_dev == named.st_dev && ours.st_ino == named.st_ino;
}

static int write_pid(int fd)
{
	char pid[16];
	int length = snprintf(pid, sizeof(pid), "%d\n", (int) getpid());

	if (ftruncate(fd, 0) < 0 || pwrite(fd, pid, (size_t) length, 0) != length)
		return -EIO;
	return 0;
}

int lock_take(int root_fd, const char *path, int *ret_fd, struct error *error)
{
	int r = make_folder(root_fd, path);

	if (r < 0)
		return error_set_errno(error, r,
			"the folder of /%s cannot be made (is the operator's host folder mounted "
			"there?)",
			path);
	for (;;) {
		_cleanup_close_ int fd = openat(root_fd, path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);

		if (fd < 0)
			return error_set_errno(error, -errno, "/%s", path);
		if (flock(fd, LOCK_EX | LOCK_NB) < 0)
			return error_set(error, -EBUSY,
				"another driver container holds /%s: two must not drive one node: "
				"let the "
				"old pod end, and see that only one DaemonSet selects the node",
				path);
		if (!has_name(root_fd, path, fd))
			continue;
		r = write_pid(fd);
		if (r < 0)
			return error_set_errno(error, r, "/%s", path);
		*ret_fd = TAKE_FD(fd);
		return 0;
	}
}

void lock_let_go(int root_fd, const char *path, int fd)
{
	(void) unlinkat(root_fd, path, 0);
	(void) close(fd);
}

bool lock_is_held(int root_fd, const char *path)
{
	_cleanup_close_ int fd = openat(root_fd, path, O_RDONLY | O_CLOEXEC);

	return fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) < 0;
}
