/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/kernel_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "common/fs.h"
#include "kernels/tree/tree.h"

static int open_in_tree(int root_fd, const char *name, int *ret_fd)
{
	_cleanup_strv_ struct strv releases = { 0 };
	_cleanup_free_ char *path = NULL;
	int r = fs_list(root_fd, "lib/modules", &releases);

	if (r < 0)
		return r;
	if (releases.count != 1)
		return releases.count ? -ENOTUNIQ : -ENOENT;
	if (asprintf(&path, "lib/modules/%s/build/%s", releases.items[0], name) < 0)
		return -ENOMEM;
	*ret_fd = kernel_tree_openat(root_fd, path, O_RDONLY | O_CLOEXEC);
	return *ret_fd < 0 ? *ret_fd : 0;
}

int kernel_file_open(const char *kernel, const char *name, int *ret_fd)
{
	_cleanup_close_ int fd = open(kernel, O_RDONLY | O_CLOEXEC);
	_cleanup_close_ int build_fd = -1;
	struct stat status;

	if (fd < 0 || fstat(fd, &status) < 0)
		return -errno;
	if (!S_ISDIR(status.st_mode)) {
		*ret_fd = TAKE_FD(fd);
		return 0;
	}
	*ret_fd = openat(fd, name, O_RDONLY | O_CLOEXEC);
	if (*ret_fd >= 0)
		return 0;
	build_fd = openat(fd, "build", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (build_fd >= 0)
		*ret_fd = openat(build_fd, name, O_RDONLY | O_CLOEXEC);
	return *ret_fd >= 0 ? 0 : open_in_tree(fd, name, ret_fd);
}
