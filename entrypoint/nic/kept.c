/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/nic/kept.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>

#include "common/copy.h"
#include "common/fs.h"
#include "entrypoint/engine/kill_point.h"

#define ID_FILE "set"

static bool has_set(int root_fd, const char *folder, const char *krel, const char *id)
{
	_cleanup_free_ char *text = NULL;
	char path[PATH_MAX];

	(void) snprintf(path, sizeof(path), "%s/%s/" ID_FILE, folder, krel);
	return fs_read_line(root_fd, path, &text) == 0 && strcmp(text, id) == 0;
}

static int copy_in(int root_fd, const char *from, int to_fd)
{
	const char *slash = strrchr(from, '/');
	const char *name = slash ? slash + 1 : from;
	int r = copy_apart(root_fd, from, to_fd, name);

	return r < 0 ? r : fs_sync(to_fd, name);
}

static int fill(int root_fd, const char *folder, const struct strv *paths, const char *id)
{
	_cleanup_close_ int folder_fd = -1;
	int r = fs_mkdir_parents(root_fd, folder, 0755);

	if (r < 0)
		return r;
	folder_fd = openat(root_fd, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (folder_fd < 0)
		return -errno;
	for (size_t i = 0; r == 0 && i < paths->count; i++)
		r = copy_in(root_fd, paths->items[i], folder_fd);
	if (r == 0)
		r = fs_write_atomic(folder_fd, ID_FILE, id, strlen(id), 0644);
	return r < 0 ? r : fs_sync(root_fd, folder);
}

/* The new folder takes the old one's place, also where the file system cannot exchange two. */
static int exchange(int root_fd, const char *made, const char *folder)
{
	int r;

	if (renameat2(root_fd, made, root_fd, folder, RENAME_EXCHANGE) == 0)
		return 0;
	if (errno != ENOENT && errno != EINVAL && errno != ENOSYS)
		return -errno;
	r = fs_remove_tree(root_fd, folder);
	if (r == 0 && renameat(root_fd, made, root_fd, folder) < 0)
		r = -errno;
	return r;
}

static int show(int root_fd, const char *made, const char *folder)
{
	const char *slash = strrchr(folder, '/');
	char above[PATH_MAX];
	int r = exchange(root_fd, made, folder);

	(void) snprintf(above, sizeof(above), "%.*s", slash ? (int) (slash - folder) : 1,
		slash ? folder : ".");
	return r < 0 ? r : fs_sync(root_fd, above);
}

int kept_replace(int root_fd, const char *folder, const char *krel, const struct strv *paths,
	const char *id, struct error *error)
{
	char made[PATH_MAX];
	char below[PATH_MAX];
	int r;

	if (has_set(root_fd, folder, krel, id))
		return 0;
	if (snprintf(made, sizeof(made), "%s.new", folder) >= (int) sizeof(made) ||
		snprintf(below, sizeof(below), "%s/%s", made, krel) >= (int) sizeof(below))
		return error_set_errno(error, -ENAMETOOLONG, "/%s", folder);
	r = fs_remove_tree(root_fd, made);
	if (r == 0)
		r = fill(root_fd, below, paths, id);
	if (r == 0)
		r = fs_sync(root_fd, made);
	kill_point("swap:kept:copied");
	if (r == 0)
		r = show(root_fd, made, folder);
	kill_point("swap:kept:shown");
	if (fs_remove_tree(root_fd, made) < 0 && r == 0)
		r = -EIO;
	return r < 0 ? error_set_errno(error, r, "copies of the loaded modules in /%s", folder) : 0;
}
