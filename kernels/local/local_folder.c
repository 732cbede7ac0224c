/* SPDX-License-Identifier: Apache-2.0 */
/* The marks of a folder: only the places are looked at where kernels lie. */
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "common/path.h"
#include "common/fs.h"
#include "kernels/local/local_scan.h"

#define TEXT_LIMIT ((size_t) 1 << 20)
#define DEPTH_MAX  5 /* usr/src/linux-<version>-obj/<arch>/<flavour> */

struct walk {
	struct local_scan *scan;
	int fd;
	const char *folder;
	bool only_inside; /* links that lead out of the folder are not followed */
	struct error *error;
};

static int fail(const struct walk *walk, const char *path, int r)
{
	return error_set_errno(walk->error, r, "%s/%s", walk->folder, path);
}

/* @path may be absolute: openat() then leaves the folder alone. */
static int mark(const struct walk *walk, const char *folder, const char *file)
{
	_cleanup_free_ char *path = NULL;
	_cleanup_free_ char *text = NULL;
	bool content;
	int r = 0;

	if (asprintf(&path, "%s%s%s", folder, *folder ? "/" : "", file) < 0)
		return fail(walk, folder, -ENOMEM);
	if (faccessat(walk->fd, path, F_OK, 0) < 0)
		return 0;
	if (local_scan_wants(path, &content) && content)
		r = fs_read(walk->fd, path, TEXT_LIMIT, &text, NULL);
	if (r == 0)
		r = local_scan_add(walk->scan, path, text);
	return r < 0 ? fail(walk, path, r) : 0;
}

static bool is_folder(const struct walk *walk, const char *path)
{
	struct stat status;

	return fstatat(walk->fd, *path ? path : ".", &status, AT_SYMLINK_NOFOLLOW) == 0 &&
	       S_ISDIR(status.st_mode);
}

static bool has(const struct walk *walk, const char *folder, const char *file)
{
	_cleanup_free_ char *path = NULL;

	return asprintf(&path, "%s%s%s", folder, *folder ? "/" : "", file) >= 0 &&
	       faccessat(walk->fd, path, F_OK, 0) == 0;
}

/* The folder's marks when it is a tree, prepared or not. */
static int look_at_tree(const struct walk *walk, const char *folder, bool *ret_found)
{
	static const char *const files[] = { "include/generated/utsrelease.h", "Module.symvers",
		"scripts/Kbuild.include", "modules.builtin" };
	int r = 0;

	*ret_found = has(walk, folder, files[0]) || has(walk, folder, files[2]);
	for (size_t i = 0; i < ARRAY_SIZE(files) && r == 0 && *ret_found; i++)
		r = mark(walk, folder, files[i]);
	return r;
}

/* Not through links: another name of the same folder, or another system's. */
static int look_below(const struct walk *walk, const char *folder, unsigned int depth)
{
	_cleanup_strv_ struct strv names = { 0 };
	bool found;
	int r = look_at_tree(walk, folder, &found);

	if (r < 0 || found || depth == 0)
		return r;
	r = fs_list(walk->fd, *folder ? folder : ".", &names);
	if (r == -EACCES && *folder) /* somebody else's folder in a big one */
		return 0;
	if (r < 0)
		return fail(walk, folder, r);
	for (size_t i = 0; i < names.count && r == 0; i++) {
		_cleanup_free_ char *path = NULL;

		if (asprintf(&path, "%s%s%s", folder, *folder ? "/" : "", names.items[i]) < 0)
			return fail(walk, folder, -ENOMEM);
		if (is_folder(walk, path))
			r = look_below(walk, path, depth - 1);
	}
	return r;
}

/*
 * The link "build": in the root when it means something there. Where modules_install has just made
 * the root, it leads to the build folder itself, which is outside.
 */
static int look_at_build(const struct walk *walk, const char *path)
{
	_cleanup_free_ char *target = NULL;
	char outside[PATH_MAX];
	ssize_t length;
	bool found;

	if (chase(walk->fd, path, &target) == 0)
		return look_at_tree(walk, target, &found);
	if (walk->only_inside)
		return 0;
	length = readlinkat(walk->fd, path, outside, sizeof(outside) - 1);
	if (length <= 0 || *outside != '/')
		return 0;
	outside[length] = '\0';
	return look_at_tree(walk, outside, &found);
}

static int look_at_modules(const struct walk *walk, const char *folder)
{
	_cleanup_strv_ struct strv names = { 0 };
	int r = fs_list(walk->fd, folder, &names);

	if (r < 0)
		return fail(walk, folder, r);
	for (size_t i = 0; i < names.count && r == 0; i++) {
		_cleanup_free_ char *path = NULL;
		_cleanup_free_ char *build = NULL;

		if (asprintf(&path, "%s/%s", folder, names.items[i]) < 0 ||
			asprintf(&build, "%s/build", path) < 0)
			return fail(walk, folder, -ENOMEM);
		if (!is_folder(walk, path))
			continue;
		r = mark(walk, path, "modules.builtin");
		if (r == 0)
			r = mark(walk, path, "kernel");
		if (r == 0)
			r = look_at_build(walk, build);
	}
	return r;
}

static int look(const struct walk *walk, bool is_root)
{
	static const char *const modules[] = { "lib/modules", "usr/lib/modules" };
	static const char *const files[] = { "etc/os-release", "usr/lib/os-release", "probe.json" };
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(modules) && r == 0; i++) {
		if (!is_folder(walk, modules[i]))
			continue;
		is_root = true;
		r = look_at_modules(walk, modules[i]);
	}
	for (size_t i = 0; i < ARRAY_SIZE(files) && r == 0; i++)
		r = mark(walk, "", files[i]);
	if (r == 0 && is_root && is_folder(walk, "usr/src"))
		return look_below(walk, "usr/src", DEPTH_MAX);
	return r < 0 || is_root ? r : look_below(walk, "", DEPTH_MAX);
}

static int scan_as(struct local_scan *scan, const char *folder, bool is_root, struct error *error)
{
	_cleanup_close_ int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct walk walk = {
		.scan = scan, .fd = fd, .folder = folder, .only_inside = is_root, .error = error
	};

	if (fd < 0)
		return error_set_errno(error, -errno, "%s", folder);
	return look(&walk, is_root);
}

int local_scan_folder(struct local_scan *scan, const char *folder, struct error *error)
{
	return scan_as(scan, folder, false, error);
}

int local_scan_root(struct local_scan *scan, const char *folder, struct error *error)
{
	return scan_as(scan, folder, true, error);
}
