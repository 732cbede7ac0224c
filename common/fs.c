/* SPDX-License-Identifier: Apache-2.0 */
#include "common/fs.h"

#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

int fs_only_file(int fd)
{
	struct stat status;
	int r;

	if (fd < 0)
		return fd == -ENXIO ? -ESPIPE : fd; /* open(2) of a socket */
	if (fstat(fd, &status) < 0)
		r = -errno;
	else if (S_ISREG(status.st_mode) ||
		 (S_ISCHR(status.st_mode) && status.st_rdev == makedev(1, 3)))
		return fd;
	else
		r = S_ISDIR(status.st_mode) ? -EISDIR : -ESPIPE;
	cleanup_close(&fd);
	return r;
}

int fs_open(int dir_fd, const char *path, int flags)
{
	int fd = openat(dir_fd, path, flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	return fs_only_file(fd < 0 ? -errno : fd);
}

/* @line: one line is all there is, and the read that would find its end is spared. */
static int read_all(int fd, size_t limit, bool line, char **ret_text, size_t *ret_size)
{
	_cleanup_free_ char *text = NULL;
	size_t capacity = 4096;
	size_t size = 0;

	for (;;) {
		char *grown = realloc(text, capacity + 1);
		ssize_t got;

		if (!grown)
			return -ENOMEM;
		text = grown;
		got = read(fd, text + size, capacity - size);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (got == 0)
			break;
		size += (size_t) got;
		if (limit && size > limit)
			return -EFBIG;
		if (line && text[size - 1] == '\n')
			break;
		if (size == capacity)
			capacity *= 2;
	}
	text[size] = '\0';
	*ret_text = TAKE_PTR(text);
	if (ret_size)
		*ret_size = size;
	return 0;
}

int fs_read(int dir_fd, const char *path, size_t limit, char **ret_text, size_t *ret_size)
{
	_cleanup_close_ int fd = fs_open(dir_fd, path, O_RDONLY);

	return fd < 0 ? fd : fs_read_fd(fd, limit, ret_text, ret_size);
}

int fs_read_fd(int fd, size_t limit, char **ret_text, size_t *ret_size)
{
	return read_all(fd, limit, false, ret_text, ret_size);
}

int fs_read_line(int dir_fd, const char *path, char **ret_line)
{
	_cleanup_close_ int fd = fs_open(dir_fd, path, O_RDONLY);
	char *line = NULL;
	size_t size = 0;
	int r = fd < 0 ? fd : read_all(fd, 0, true, &line, &size);

	if (r < 0)
		return r;
	while (size && strchr(" \t\r\n", line[size - 1]))
		line[--size] = '\0';
	*ret_line = line;
	return 0;
}

int fs_write_all(int fd, const void *buffer, size_t size)
{
	const char *data = buffer;

	while (size) {
		ssize_t put = write(fd, data, size);

		if (put < 0 && errno == EINTR)
			continue;
		if (put < 0)
			return -errno;
		data += put;
		size -= (size_t) put;
	}
	return 0;
}

/* Removes what it could not finish; what was there before stays. */
static int write_synced(int dir_fd, const char *path, const void *data, size_t size, mode_t mode)
{
	_cleanup_close_ int fd =
		openat(dir_fd, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
	int r;

	if (fd < 0)
		return -errno;
	r = fs_write_all(fd, data, size);
	if (r == 0 && fsync(fd) < 0)
		r = -errno;
	if (r < 0)
		(void) unlinkat(dir_fd, path, 0);
	return r;
}

/* Runs in containers that share a folder may have the same process ID. */
char *fs_temporary(const char *path)
{
	uint64_t random = 0;
	char *temporary;

	if (getrandom(&random, sizeof(random), 0) != (ssize_t) sizeof(random) ||
		asprintf(&temporary, "%s.%016llx.tmp", path, (unsigned long long) random) < 0)
		return NULL;
	return temporary;
}

int fs_write_atomic(int dir_fd, const char *path, const void *data, size_t size, mode_t mode)
{
	_cleanup_free_ char *temporary = NULL;
	int r;

	do {
		free(temporary);
		temporary = fs_temporary(path);
		if (!temporary)
			return -ENOMEM;
		r = write_synced(dir_fd, temporary, data, size, mode);
	} while (r == -EEXIST);
	if (r < 0)
		return r;
	if (renameat(dir_fd, temporary, dir_fd, path) == 0)
		return 0;
	r = -errno;
	(void) unlinkat(dir_fd, temporary, 0);
	return r;
}

int fs_sync(int dir_fd, const char *path)
{
	_cleanup_close_ int fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	/* EINVAL: a file system that has nothing to sync. */
	return fsync(fd) < 0 && errno != EINVAL ? -errno : 0;
}

int fs_copy(int dir_fd, const char *from, const char *to, size_t limit, mode_t mode)
{
	_cleanup_free_ char *data = NULL;
	size_t size = 0;
	int r = fs_read(dir_fd, from, limit, &data, &size);

	return r < 0 ? r : fs_write_atomic(dir_fd, to, data, size, mode);
}

int fs_write_output(const char *path, const void *data, size_t size)
{
	_cleanup_close_ int fd = -1;
	struct stat status;

	if (stat(path, &status) < 0 || S_ISREG(status.st_mode))
		return fs_write_atomic(AT_FDCWD, path, data, size, 0644);
	fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
	return fd < 0 ? -errno : fs_write_all(fd, data, size);
}

int fs_mkdir_parents(int dir_fd, const char *path, mode_t mode)
{
	_cleanup_free_ char *copy = NULL;

	/* Mostly all but the last is there, or it too. */
	if (mkdirat(dir_fd, path, mode) == 0 || errno == EEXIST)
		return 0;
	copy = strdup(path);
	if (!copy)
		return -ENOMEM;
	for (char *slash = strchr(copy + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		if (mkdirat(dir_fd, copy, mode) < 0 && errno != EEXIST)
			return -errno;
		*slash = '/';
	}
	if (mkdirat(dir_fd, copy, mode) < 0 && errno != EEXIST)
		return -errno;
	return 0;
}

/* @device: what the top of the tree is on; NULL for the top itself. */
static int remove_on_device(int dir_fd, const char *path, const dev_t *device)
{
	_cleanup_strv_ struct strv names = { 0 };
	_cleanup_close_ int child_fd = -1;
	struct stat status;
	int r;

	if (unlinkat(dir_fd, path, 0) == 0 || errno == ENOENT)
		return 0;
	if (errno != EISDIR && errno != EPERM)
		return -errno;
	child_fd = openat(dir_fd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (child_fd < 0 || fstat(child_fd, &status) < 0)
		return -errno;
	if (device && status.st_dev != *device)
		return -EBUSY;
	r = fs_list(child_fd, ".", &names);
	for (size_t i = 0; i < names.count && r == 0; i++)
		r = remove_on_device(child_fd, names.items[i], &status.st_dev);
	if (r < 0)
		return r;
	return unlinkat(dir_fd, path, AT_REMOVEDIR) < 0 ? -errno : 0;
}

int fs_remove_tree(int dir_fd, const char *path)
{
	return remove_on_device(dir_fd, path, NULL);
}

bool fs_exists(int dir_fd, const char *path)
{
	return faccessat(dir_fd, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

int fs_list(int dir_fd, const char *path, struct strv *names)
{
	int fd = openat(dir_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_closedir_ DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;

	if (!dir) {
		int r = -errno;

		if (fd >= 0)
			(void) close(fd);
		return r;
	}
	while ((entry = readdir(dir))) {
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		if (strv_push(names, entry->d_name) < 0)
			return -ENOMEM;
	}
	strv_sort(names);
	return 0;
}

int fs_list_tree(int dir_fd, const char *folder, struct strv *paths)
{
	_cleanup_strv_ struct strv names = { 0 };
	int r = fs_list(dir_fd, folder, &names);

	for (size_t i = 0; i < names.count && r == 0; i++) {
		_cleanup_free_ char *path = NULL;
		struct stat status;

		if (asprintf(&path, "%s/%s", folder, names.items[i]) < 0) {
			path = NULL;
			return -ENOMEM;
		}
		if (fstatat(dir_fd, path, &status, AT_SYMLINK_NOFOLLOW) < 0)
			return -errno;
		r = S_ISDIR(status.st_mode) ? fs_list_tree(dir_fd, path, paths)
					    : strv_push(paths, path);
	}
	return r;
}

static int copy_content(int from_fd, const char *from, int to_fd, const char *to, mode_t mode)
{
	_cleanup_close_ int in = fs_open(from_fd, from, O_RDONLY | O_NOFOLLOW);
	_cleanup_close_ int out = -1;
	ssize_t sent;

	if (in < 0)
		return in;
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

/* @apart: never a hard link, and with the files' times. */
static int copy_entry(int from_fd, const char *from, int to_fd, const char *to, bool apart)
{
	_cleanup_strv_ struct strv names = { 0 };
	_cleanup_close_ int source_fd = -1;
	_cleanup_close_ int copy_fd = -1;
	char target[PATH_MAX];
	struct stat status;
	ssize_t length;
	int r;

	if (fstatat(from_fd, from, &status, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if ((S_ISLNK(status.st_mode) || S_ISREG(status.st_mode)) && unlinkat(to_fd, to, 0) < 0 &&
		errno != ENOENT)
		return -errno;
	if (S_ISLNK(status.st_mode)) {
		length = readlinkat(from_fd, from, target, sizeof(target) - 1);
		if (length < 0)
			return -errno;
		target[length] = '\0';
		return symlinkat(target, to_fd, to) < 0 ? -errno : 0;
	}
	if (S_ISREG(status.st_mode) && apart)
		return copy_apart(from_fd, from, to_fd, to);
	if (S_ISREG(status.st_mode))
		return linkat(from_fd, from, to_fd, to, 0) == 0
			       ? 0
			       : copy_content(from_fd, from, to_fd, to, status.st_mode);
	if (!S_ISDIR(status.st_mode))
		return 0;
	if (mkdirat(to_fd, to, status.st_mode & 0777) < 0 && errno != EEXIST)
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
