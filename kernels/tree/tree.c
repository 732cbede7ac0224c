/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/tree/tree.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "common/fs.h"
#include "common/strv.h"
#include "common/path.h"
#include "kernels/archive/unpack.h"

int kernel_tree_openat(int root_fd, const char *path, int flags)
{
	return open_in_root(root_fd, path, flags);
}

static char *path_of(int fd)
{
	char link[32];
	char path[PATH_MAX];
	ssize_t size;

	(void) snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	size = readlink(link, path, sizeof(path));
	return size < 0 || size == sizeof(path) ? NULL : strndup(path, (size_t) size);
}

char *kernel_tree_path(int root_fd, int fd)
{
	_cleanup_free_ char *root = path_of(root_fd);
	_cleanup_free_ char *path = path_of(fd);
	size_t length;

	if (!root || !path)
		return NULL;
	length = strcmp(root, "/") == 0 ? 0 : strlen(root);
	if (strncmp(path, root, length) != 0 || (path[length] && path[length] != '/'))
		return NULL;
	return strdup(path[length] ? path + length + 1 : "");
}

int kernel_tree_open(int root_fd, const char *krel, int *ret_fd, struct error *error)
{
	_cleanup_free_ char *path = NULL;
	int fd;

	if (asprintf(&path, "lib/modules/%s/build", krel) < 0)
		return error_set_errno(error, -ENOMEM, "%s", krel);
	fd = kernel_tree_openat(root_fd, path, O_RDONLY | O_DIRECTORY);
	if (fd < 0)
		return error_set_errno(error, fd,
			"kernel tree: %s (the headers package should have brought it)", path);
	*ret_fd = fd;
	return 0;
}

/* The release that modules get. Debian's include/config/kernel.release holds another one. */
char *kernel_tree_release(int build_fd)
{
	static const char define[] = "#define UTS_RELEASE \"";
	_cleanup_free_ char *text = NULL;
	const char *found;

	if (fs_read(build_fd, "include/generated/utsrelease.h", 0, &text, NULL) < 0)
		return NULL;
	found = strstr(text, define);
	if (!found)
		return NULL;
	found += strlen(define);
	return strndup(found, strcspn(found, "\"\n"));
}

/* Links are made anew in one step, so that none is missing when we are interrupted. */
static int replace_link(int dir_fd, const char *name, const char *target)
{
	_cleanup_free_ char *temporary = NULL;

	if (asprintf(&temporary, ".%s.slipway", name) < 0)
		return -ENOMEM;
	(void) unlinkat(dir_fd, temporary, 0);
	if (symlinkat(target, dir_fd, temporary) < 0)
		return -errno;
	return renameat(dir_fd, temporary, dir_fd, name) < 0 ? -errno : 0;
}

/* Points @dir_fd/@name at what @target_fd is. */
static int link_to(int root_fd, int dir_fd, const char *name, int target_fd)
{
	_cleanup_free_ char *folder = kernel_tree_path(root_fd, dir_fd);
	_cleanup_free_ char *below = kernel_tree_path(root_fd, target_fd);
	_cleanup_free_ char *from = NULL;
	_cleanup_free_ char *to = NULL;
	_cleanup_free_ char *way = NULL;

	if (!folder || !below)
		return -EXDEV;
	if (asprintf(&from, "/%s/%s", folder, name) < 0 || asprintf(&to, "/%s", below) < 0)
		return -ENOMEM;
	way = unpack_relative_link(from, to);
	return way ? replace_link(dir_fd, name, way) : -ENOMEM;
}

/* Is it a link, and to an absolute path? */
static bool link_is_absolute(int dir_fd, const char *name)
{
	char first = '\0';

	return readlinkat(dir_fd, name, &first, 1) == 1 && first == '/';
}

/* Makes an absolute link a relative one; -ENOENT when it is one and leads nowhere. */
static int settle_link(int root_fd, int dir_fd, const char *name)
{
	_cleanup_free_ char *folder = kernel_tree_path(root_fd, dir_fd);
	_cleanup_free_ char *path = NULL;
	_cleanup_close_ int fd = -1;

	if (asprintf(&path, "%s/%s", folder ? folder : "", name) < 0)
		return -ENOMEM;
	fd = kernel_tree_openat(root_fd, path, O_PATH);
	if (fd < 0)
		return fd;
	return link_is_absolute(dir_fd, name) ? link_to(root_fd, dir_fd, name, fd) : 0;
}

int kernel_tree_settle_modules(int root_fd, const char *krel, struct error *error)
{
	_cleanup_free_ char *usual = NULL;
	_cleanup_free_ char *merged = NULL;
	_cleanup_free_ char *way = NULL;
	int r;

	if (asprintf(&usual, "lib/modules/%s", krel) < 0 ||
		asprintf(&merged, "usr/lib/modules/%s", krel) < 0 ||
		asprintf(&way, "../../usr/lib/modules/%s", krel) < 0)
		return error_set_errno(error, -ENOMEM, "%s", krel);
	if (fs_exists(root_fd, usual) || !fs_exists(root_fd, merged))
		return 0;
	r = fs_exists(root_fd, "lib") ? fs_mkdir_parents(root_fd, "lib/modules", 0755)
				      : replace_link(root_fd, "lib", "usr/lib");
	if (r == 0 && !fs_exists(root_fd, usual))
		r = symlinkat(way, root_fd, usual) < 0 ? -errno : 0;
	return r < 0 ? error_set_errno(error, r, "%s", usual) : 0;
}

static int open_modules(int root_fd, const char *krel, int *ret_fd, struct error *error)
{
	_cleanup_free_ char *path = NULL;
	int r = kernel_tree_settle_modules(root_fd, krel, error);

	if (r < 0)
		return r;
	if (asprintf(&path, "lib/modules/%s", krel) < 0)
		return error_set_errno(error, -ENOMEM, "%s", krel);
	r = fs_exists(root_fd, path) ? 0 : fs_mkdir_parents(root_fd, path, 0755);
	if (r == 0)
		r = kernel_tree_openat(root_fd, path, O_RDONLY | O_DIRECTORY);
	if (r < 0)
		return error_set_errno(error, r, "kernel tree: %s", path);
	*ret_fd = r;
	return 0;
}

/* Does this folder hold a tree of this release? Opens it when so, else -ENOENT. */
static int try_tree(int root_fd, const char *path, const char *krel)
{
	_cleanup_close_ int fd = kernel_tree_openat(root_fd, path, O_RDONLY | O_DIRECTORY);
	_cleanup_free_ char *release = fd < 0 ? NULL : kernel_tree_release(fd);

	if (!release || strcmp(release, krel) != 0)
		return -ENOENT;
	return TAKE_FD(fd);
}

/* Looks for a tree of the release in @path and @depth folders below it. */
static int search_tree(int root_fd, const char *path, const char *krel, int depth)
{
	_cleanup_strv_ struct strv names = { 0 };
	_cleanup_close_ int folder_fd = -1;
	int found = try_tree(root_fd, path, krel);

	if (found >= 0 || depth == 0)
		return found;
	folder_fd = kernel_tree_openat(root_fd, path, O_RDONLY | O_DIRECTORY);
	if (folder_fd < 0 || fs_list(folder_fd, ".", &names) < 0)
		return -ENOENT;
	for (size_t i = 0; i < names.count; i++) {
		_cleanup_free_ char *below = NULL;

		if (asprintf(&below, "%s/%s", path, names.items[i]) < 0)
			return -ENOMEM;
		found = search_tree(root_fd, below, krel, depth - 1);
		if (found >= 0)
			return found;
	}
	return -ENOENT;
}

static int find_build(int root_fd, int modules_fd, const char *krel, struct error *error)
{
	_cleanup_close_ int fd = -1;
	int r = settle_link(root_fd, modules_fd, "build");

	if (r == 0)
		return 0;
	/* usr/src/linux-*-obj/<arch>/<flavour> is the deepest of the known places. */
	fd = search_tree(root_fd, "usr/src", krel, 3);
	if (fd < 0)
		return error_set(error, -ENOENT,
			"kernel tree: neither lib/modules/%s/build nor any folder below usr/src is "
			"a tree of kernel %s: the package with its headers is missing or is of "
			"another release",
			krel, krel);
	r = link_to(root_fd, modules_fd, "build", fd);
	return r < 0 ? error_set_errno(error, r, "kernel tree: build") : 0;
}

/* Without a "source" the build folder is both: a link that leads nowhere would only mislead. */
static int settle_sources(int root_fd, int modules_fd, int build_fd, struct error *error)
{
	int r = settle_link(root_fd, modules_fd, "source");

	if (r == -ENOENT && unlinkat(modules_fd, "source", 0) < 0 && errno != ENOENT)
		r = -errno;
	if (r < 0 && r != -ENOENT)
		return error_set_errno(error, r, "kernel tree: source");
	for (size_t i = 0; i < 4; i++) {
		static const char *const names[] = { "source", "scripts", "tools", "Makefile" };

		r = settle_link(root_fd, build_fd, names[i]);
		if (r < 0 && r != -ENOENT)
			return error_set_errno(error, r, "kernel tree: %s", names[i]);
	}
	return 0;
}

int kernel_tree_relocate(int root_fd, const char *krel, struct error *error)
{
	_cleanup_close_ int modules_fd = -1;
	_cleanup_close_ int build_fd = -1;
	int r = open_modules(root_fd, krel, &modules_fd, error);

	if (r == 0)
		r = find_build(root_fd, modules_fd, krel, error);
	if (r == 0)
		r = kernel_tree_open(root_fd, krel, &build_fd, error);
	if (r == 0)
		r = settle_sources(root_fd, modules_fd, build_fd, error);
	return r < 0 ? r : kernel_tree_relocate_makefile(root_fd, build_fd, krel, error);
}
