/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/resolve_tree.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/image/buildah.h"
#include "cli/kernel/kernel.h"
#include "cli/output_place.h"
#include "common/copy.h"
#include "common/fs.h"

/* Without the slashes at its end, for a name beside it. */
static char *bare_name(const char *folder)
{
	size_t length = strlen(folder);

	while (length > 1 && folder[length - 1] == '/')
		length--;
	return strndup(folder, length);
}

int resolve_tree_ready(const char *folder, struct error *error)
{
	_cleanup_strv_ struct strv names = { 0 };
	_cleanup_free_ char *bare = bare_name(folder);
	struct stat status;
	int r;

	if (!bare)
		return error_set_errno(error, -ENOMEM, "--tree");
	if (lstat(bare, &status) < 0)
		return errno == ENOENT ? output_file_ready("--tree", bare, error)
				       : error_set_errno(error, -errno, "--tree %s", bare);
	if (!S_ISDIR(status.st_mode))
		return error_set(
			error, -ENOTDIR, "--tree %s: that is no folder: name a new one", bare);
	r = fs_list(AT_FDCWD, bare, &names);
	if (r == 0 && names.count)
		return error_set(
			error, -ENOTEMPTY, "--tree %s: it is not empty: name a new folder", bare);
	return r < 0 ? error_set_errno(error, r, "--tree %s", bare) : 0;
}

/* Where it grows; NULL without memory. */
static char *aside_name(const char *folder, pid_t owner)
{
	_cleanup_free_ char *bare = bare_name(folder);
	char *aside;

	return bare && asprintf(&aside, "%s.tmp-%d", bare, (int) owner) >= 0 ? aside : NULL;
}

int resolve_tree_clear(const char *folder, pid_t owner)
{
	_cleanup_free_ char *aside = aside_name(folder, owner);

	return aside ? fs_remove_tree(AT_FDCWD, aside) : -ENOMEM;
}

/* Copied aside and renamed: nobody sees a part of it. A copy, so that a change is no change of the
 * cache. */
static int place_tree(int tree_fd, const char *folder, pid_t owner, struct error *error)
{
	_cleanup_free_ char *bare = bare_name(folder);
	_cleanup_free_ char *aside = aside_name(folder, owner);
	int r;

	if (!bare || !aside)
		return error_set_errno(error, -ENOMEM, "--tree");
	r = fs_remove_tree(AT_FDCWD, aside);
	if (r == 0)
		r = copy_tree_apart(tree_fd, ".", AT_FDCWD, aside);
	if (r == 0 && rename(aside, bare) < 0)
		r = -errno;
	if (r == 0)
		return 0;
	if (fs_remove_tree(AT_FDCWD, aside) < 0)
		return error_set_errno(error, r, "--tree %s (%s stays)", bare, aside);
	return error_set_errno(error, r, "--tree %s", bare);
}

int resolve_tree_make(struct context *context, const struct lock *lock, const char *folder,
	pid_t owner, struct error *error)
{
	struct kernel kernel = { .context = context, .lock = *lock };
	_cleanup_close_ int fd = -1;
	int r = cache_start_run(&context->cache, buildah_sweep, error);

	if (r < 0)
		return context_fail(context, EXIT_CODE_INTERNAL, r);
	r = kernel_tree(&kernel, &fd, error);
	if (r == 0) {
		r = place_tree(fd, folder, owner, error);
		if (r < 0)
			context->failure = r == -ENOSPC ? EXIT_CODE_DISK_FULL : EXIT_CODE_OUTPUT;
	}
	kernel.lock = (struct lock){ 0 }; /* the caller's */
	kernel_free(&kernel);
	cache_end_run(&context->cache);
	return r;
}
