/* SPDX-License-Identifier: Apache-2.0 */
#include "common/copy.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>

#include "common/fs.h"

static int copy_content(int from_fd, const char *from, int to_fd, const char *to, mode_t mode)
{
	_cleanup_close_ int in = openat(from_fd, from, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	_cleanup_close_ int out = -1;
	ssize_t sent;

	if (in < 0)
		return -errno;
	out = openat(to_fd, to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode & 0777);
	if (out < 0)
		return -errno;
	do
		sent = sendfile(out, in, NULL, INT_MAX);
	while (sent > 0 || (sent < 0 && errno == EINTR));
	return sent < 0 ? -errno : 0;
}

int copy_apart(int from_fd, const char *from, int to_fd, const char *to)
{
	struct timespec times[2];
	struct stat status;
	int r;

	if (fstatat(from_fd, from, &status, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	r = copy_content(from_fd, from, to_fd, to, status.st_mode);
	if (r < 0)
		return r;
	times[0] = status.st_atim;
	times[1] = status.st_mtim;
	return utimensat(to_fd, to, times, 0) < 0 ? -errno : 0;
}

static int copy_file(int from_fd, const char *from, int to_fd, const char *to,
	const struct stat *status, bool apart)
{
	if (unlinkat(to_fd, to, 0) < 0 && errno != ENOENT)
		return -errno;
	if (apart)
		return copy_apart(from_fd, from, to_fd, to);
	if (linkat(from_fd, from, to_fd, to, 0) == 0)
		return 0;
	return copy_content(from_fd, from, to_fd, to, status->st_mode);
}

static int copy_link(int from_fd, const char *from, int to_fd, const char *to)
{
	char target[PATH_MAX];
	ssize_t length = readlinkat(from_fd, from, target, sizeof(target) - 1);

	if (length < 0)
		return -errno;
	target[length] = '\0';
	if (unlinkat(to_fd, to, 0) < 0 && errno != ENOENT)
		return -errno;
	return symlinkat(target, to_fd, to) < 0 ? -errno : 0;
}

static int copy_entry(int from_fd, const char *from, int to_fd, const char *to, bool apart);

static int copy_folder(
	int from_fd, const char *from, int to_fd, const char *to, mode_t mode, bool apart)
{
	_cleanup_strv_ struct strv names = { 0 };
	_cleanup_close_ int source_fd = -1;
	_cleanup_close_ int copy_fd = -1;
	int r;

	if (mkdirat(to_fd, to, mode & 0777) < 0 && errno != EEXIST)
		return -errno;
	source_fd = openat(from_fd, from, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	copy_fd = openat(to_fd, to, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (source_fd < 0 || copy_fd < 0)
		return -errno;
	r = fs_list(source_fd, ".", &names);
	for (size_t i = 0; i < names.count && r == 0; i++)
		r = copy_entry(source_fd, names.items[i], copy_fd, names.items[i], apart);
	return r;
}

static int copy_entry(int from_fd, const char *from, int to_fd, const char *to, bool apart)
{
	struct stat status;

	if (fstatat(from_fd, from, &status, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (S_ISDIR(status.st_mode))
		return copy_folder(from_fd, from, to_fd, to, status.st_mode, apart);
	if (S_ISLNK(status.st_mode))
		return copy_link(from_fd, from, to_fd, to);
	if (S_ISREG(status.st_mode))
		return copy_file(from_fd, from, to_fd, to, &status, apart);
	return 0;
}

static int copy_all(int from_fd, const char *from, int to_fd, const char *to, bool apart)
{
	_cleanup_free_ char *parent = strdup(to);
	char *slash = parent ? strrchr(parent, '/') : NULL;
	int r = parent ? 0 : -ENOMEM;

	if (slash && slash != parent) {
		*slash = '\0';
		r = fs_mkdir_parents(to_fd, parent, 0755);
	}
	return r < 0 ? r : copy_entry(from_fd, from, to_fd, to, apart);
}

int copy_tree(int from_fd, const char *from, int to_fd, const char *to)
{
	return copy_all(from_fd, from, to_fd, to, false);
}

int copy_tree_apart(int from_fd, const char *from, int to_fd, const char *to)
{
	return copy_all(from_fd, from, to_fd, to, true);
}
