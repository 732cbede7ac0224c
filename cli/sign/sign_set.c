/* SPDX-License-Identifier: Apache-2.0 */
/* The modules of a folder that are signed together: all or none, also after a kill. */
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "cli/sign/sign_folder.h"
#include "common/fs.h"
#include "common/xalloc.h"

#define STAGED_SUFFIX ".slipway-signed"    /* the new file, until it is in place */
#define BEFORE_SUFFIX ".slipway-before"    /* the old one, until all the new ones are */
#define DONE_NAME     ".slipway-sign-done" /* all the new ones are: the old ones may go */

/* Appends the files below a folder; links are skipped. */
static int list_files(int fd, const char *folder, struct strv *files)
{
	_cleanup_strv_ struct strv names = { 0 };
	int r = fs_list(fd, *folder ? folder : ".", &names);

	if (r < 0)
		return r;
	for (size_t i = 0; i < names.count; i++) {
		_cleanup_free_ char *path =
			xasprintf("%s%s%s", folder, *folder ? "/" : "", names.items[i]);
		struct stat status;

		if (fstatat(fd, path, &status, AT_SYMLINK_NOFOLLOW) < 0)
			return -errno;
		if (S_ISDIR(status.st_mode))
			r = list_files(fd, path, files);
		else if (S_ISREG(status.st_mode))
			xstrv_push(files, path);
		if (r < 0)
			return r;
	}
	return 0;
}

static int remove_file(int fd, const char *path)
{
	return unlinkat(fd, path, 0) < 0 && errno != ENOENT ? -errno : 0;
}

/*
 * After this no file beside the modules is left: the old ones are put back, or have gone when all
 * the new ones were in place.
 */
static int clear_up(int fd)
{
	bool done = fs_exists(fd, DONE_NAME);
	_cleanup_strv_ struct strv files = { 0 };
	int r = list_files(fd, "", &files);

	if (r < 0)
		return r;
	for (size_t i = 0; i < files.count; i++) {
		const char *path = files.items[i];
		bool before = str_ends_with(path, ".ko" BEFORE_SUFFIX);

		if (before && !done) {
			_cleanup_free_ char *module =
				xstrndup(path, strlen(path) - strlen(BEFORE_SUFFIX));

			if (renameat(fd, path, fd, module) < 0)
				return -errno;
		}
		/* rename() between two links to one file leaves both. */
		if (before || str_ends_with(path, ".ko" STAGED_SUFFIX))
			r = remove_file(fd, path);
		if (r < 0)
			return r;
	}
	return remove_file(fd, DONE_NAME);
}

int sign_set_open(const char *folder, struct sign_set *ret, struct error *error)
{
	static const char *const packed[] = { ".ko.xz", ".ko.gz", ".ko.zst", ".ko.bz2", ".ko.lz4" };
	_cleanup_(sign_set_close) struct sign_set set = { .folder = xstrdup(folder), .fd = -1 };
	_cleanup_strv_ struct strv files = { 0 };
	int r;

	set.fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (set.fd < 0)
		return error_set_errno(error, -errno, "%s: cannot open the folder", folder);
	if (flock(set.fd, LOCK_EX | LOCK_NB) < 0)
		return error_set_errno(error, errno == EWOULDBLOCK ? -EBUSY : -errno,
			"%s: another slipway sign is working on it", folder);
	r = clear_up(set.fd);
	if (r == 0)
		r = list_files(set.fd, "", &files);
	if (r < 0)
		return error_set_errno(error, r, "%s", folder);
	for (size_t i = 0; i < files.count; i++) {
		for (size_t k = 0; k < ARRAY_SIZE(packed); k++)
			if (str_ends_with(files.items[i], packed[k])) {
				(void) error_set(error, -EINVAL,
					"%s/%s: already compressed, but the uncompressed module "
					"must be signed",
					folder, files.items[i]);
				return error_try(error, -EINVAL,
					"sign the uncompressed module, then compress it");
			}
		if (str_ends_with(files.items[i], ".ko"))
			xstrv_push(&set.paths, files.items[i]);
	}
	if (set.paths.count == 0)
		return error_set(error, -ENOENT, "%s: it has no .ko files", folder);
	*ret = set;
	set = (struct sign_set) SIGN_SET_CLOSED;
	return 0;
}

void sign_set_close(struct sign_set *set)
{
	for (size_t i = 0; set->fd >= 0 && i < set->paths.count; i++) {
		_cleanup_free_ char *staged = xasprintf("%s" STAGED_SUFFIX, set->paths.items[i]);

		(void) unlinkat(set->fd, staged, 0);
	}
	cleanup_close(&set->fd);
	strv_free(&set->paths);
	free(set->folder);
	*set = (struct sign_set) SIGN_SET_CLOSED;
}

int sign_set_stage(const struct sign_set *set, const char *path, const void *data, size_t size,
	struct error *error)
{
	_cleanup_free_ char *staged = xasprintf("%s" STAGED_SUFFIX, path);
	_cleanup_close_ int fd = -1;
	struct stat status;
	int r = 0;

	if (fstatat(set->fd, path, &status, AT_SYMLINK_NOFOLLOW) == 0)
		fd = openat(set->fd, staged, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
			0600);
	if (fd < 0 || (fchown(fd, status.st_uid, status.st_gid) < 0 && geteuid() == 0) ||
		fchmod(fd, status.st_mode & 07777) < 0)
		r = -errno;
	if (r == 0)
		r = fs_write_all(fd, data, size);
	return r < 0 ? error_set_errno(error, r, "%s/%s", set->folder, staged) : 0;
}

/* Puts all in place, and marks that with a file. */
static int replace_all(const struct sign_set *set)
{
	_cleanup_close_ int done = -1;
	int fd = set->fd;

	if (syncfs(fd) < 0)
		return -errno;
	for (size_t i = 0; i < set->paths.count; i++) {
		const char *path = set->paths.items[i];
		_cleanup_free_ char *staged = xasprintf("%s" STAGED_SUFFIX, path);
		_cleanup_free_ char *before = xasprintf("%s" BEFORE_SUFFIX, path);

		/* If links are possible, the old file keeps its place until it is replaced. */
		if (linkat(fd, path, fd, before, 0) < 0 && renameat(fd, path, fd, before) < 0)
			return -errno;
		if (renameat(fd, staged, fd, path) < 0)
			return -errno;
	}
	done = openat(fd, DONE_NAME, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	return done < 0 || syncfs(fd) < 0 ? -errno : 0;
}

int sign_set_commit(const struct sign_set *set, struct error *error)
{
	sigset_t all, before;
	bool done;
	int r;

	(void) sigfillset(&all);
	(void) sigprocmask(SIG_BLOCK, &all, &before);
	r = replace_all(set);
	done = fs_exists(set->fd, DONE_NAME);
	/* If restoring fails too, the next run repeats it, since it looks for leftovers first. */
	if (r == 0)
		r = clear_up(set->fd);
	else if (!done)
		(void) !clear_up(set->fd);
	(void) sigprocmask(SIG_SETMASK, &before, NULL);
	if (r < 0 && done)
		return error_set_errno(error, r,
			"%s: all modules are signed, but the old files (*" BEFORE_SUFFIX
			") cannot be removed",
			set->folder);
	return r < 0 ? error_set_errno(error, r, "%s: nothing was signed", set->folder) : 0;
}
