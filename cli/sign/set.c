/* SPDX-License-Identifier: Apache-2.0 */
/* The modules of a folder that are signed together: all or none, also after a kill. */
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "cli/sign/sign.h"
#include "common/fs.h"
#include "common/xalloc.h"
#include "module/elf.h"

#define MODULE_SUFFIX ".ko"
#define STAGED_SUFFIX ".slipway-signed"    /* the new file, until it is in place */
#define BEFORE_SUFFIX ".slipway-before"    /* the old one, until all the new ones are */
#define DONE_NAME     ".slipway-sign-done" /* all the new ones are: the old ones may go */

#define MODULE_SIZE_LIMIT ((size_t) 512 << 20) /* as elf_file.c has it */

/* What lies in the folder. */
struct finds {
	struct strv modules;
	struct strv packed;
	struct strv staged;
	struct strv before;
};

static void finds_free(struct finds *finds)
{
	strv_free(&finds->modules);
	strv_free(&finds->packed);
	strv_free(&finds->staged);
	strv_free(&finds->before);
}

static bool ends_with(const char *text, const char *end)
{
	size_t length = strlen(text);

	return length >= strlen(end) && strcmp(text + length - strlen(end), end) == 0;
}

static void note_file(struct finds *finds, const char *path)
{
	static const char *const packed[] = { ".ko.xz", ".ko.gz", ".ko.zst", ".ko.bz2", ".ko.lz4" };

	if (ends_with(path, MODULE_SUFFIX))
		xstrv_push(&finds->modules, path);
	else if (ends_with(path, MODULE_SUFFIX STAGED_SUFFIX))
		xstrv_push(&finds->staged, path);
	else if (ends_with(path, MODULE_SUFFIX BEFORE_SUFFIX))
		xstrv_push(&finds->before, path);
	for (size_t i = 0; i < ARRAY_SIZE(packed); i++)
		if (ends_with(path, packed[i]))
			xstrv_push(&finds->packed, path);
}

static int find_below(int fd, const char *folder, struct finds *finds)
{
	_cleanup_strv_ struct strv names = { 0 };
	int r = fs_list(fd, *folder ? folder : ".", &names);

	for (size_t i = 0; i < names.count && r == 0; i++) {
		_cleanup_free_ char *path =
			xasprintf("%s%s%s", folder, *folder ? "/" : "", names.items[i]);
		struct stat status;

		if (fstatat(fd, path, &status, AT_SYMLINK_NOFOLLOW) < 0)
			return -errno;
		if (S_ISDIR(status.st_mode))
			r = find_below(fd, path, finds);
		else if (S_ISREG(status.st_mode))
			note_file(finds, path);
	}
	return r;
}

static int remove_all(int fd, const struct strv *paths)
{
	for (size_t i = 0; i < paths->count; i++)
		if (unlinkat(fd, paths->items[i], 0) < 0 && errno != ENOENT)
			return -errno;
	return 0;
}

static int drop_before(int fd, const struct strv *before)
{
	int r = remove_all(fd, before);

	if (r == 0 && unlinkat(fd, DONE_NAME, 0) < 0 && errno != ENOENT)
		r = -errno;
	return r;
}

/* After this no file of an earlier run is left, and all modules are of one kind. */
static int repair(int fd, const struct finds *finds)
{
	if (fs_exists(fd, DONE_NAME)) {
		int r = drop_before(fd, &finds->before);

		return r < 0 ? r : remove_all(fd, &finds->staged);
	}
	for (size_t i = 0; i < finds->before.count; i++) {
		const char *before = finds->before.items[i];
		_cleanup_free_ char *path =
			xstrndup(before, strlen(before) - strlen(BEFORE_SUFFIX));

		if (renameat(fd, before, fd, path) < 0)
			return -errno;
	}
	return remove_all(fd, &finds->staged);
}

static int look(struct sign_set *set, struct error *error)
{
	_cleanup_(finds_free) struct finds left = { 0 };
	_cleanup_(finds_free) struct finds finds = { 0 };
	int r = find_below(set->fd, "", &left);

	if (r == 0)
		r = repair(set->fd, &left);
	if (r == 0)
		r = find_below(set->fd, "", &finds);
	if (r < 0)
		return error_set_errno(error, r, "%s", set->folder);
	if (finds.packed.count)
		return error_set(error, -EINVAL,
			"%s/%s: compressed already: the signature belongs to the module's own "
			"bytes, so sign first, compress then",
			set->folder, finds.packed.items[0]);
	if (finds.modules.count == 0)
		return error_set(
			error, -ENOENT, "%s: no " MODULE_SUFFIX " file there", set->folder);
	set->paths = finds.modules;
	finds.modules = (struct strv){ 0 };
	return 0;
}

int sign_set_open(const char *folder, struct sign_set *ret, struct error *error)
{
	_cleanup_(sign_set_close) struct sign_set set = { .folder = xstrdup(folder), .fd = -1 };
	int r;

	set.fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (set.fd < 0)
		return error_set_errno(error, -errno, "%s: cannot open the folder", folder);
	if (flock(set.fd, LOCK_EX | LOCK_NB) < 0)
		return error_set_errno(error, errno == EWOULDBLOCK ? -EBUSY : -errno,
			"%s: another slipway sign works on it", folder);
	r = look(&set, error);
	if (r < 0)
		return r;
	*ret = set;
	set = (struct sign_set) SIGN_SET_CLOSED;
	return 0;
}

static char *staged_path(const char *path)
{
	return xasprintf("%s" STAGED_SUFFIX, path);
}

void sign_set_close(struct sign_set *set)
{
	for (size_t i = 0; set->fd >= 0 && i < set->paths.count; i++) {
		_cleanup_free_ char *staged = staged_path(set->paths.items[i]);

		(void) unlinkat(set->fd, staged, 0);
	}
	cleanup_close(&set->fd);
	strv_free(&set->paths);
	free(set->folder);
	*set = (struct sign_set) SIGN_SET_CLOSED;
}

int sign_set_read(const struct sign_set *set, const char *path, char **ret_data, size_t *ret_size,
	struct error *error)
{
	_cleanup_(elf_module_close) struct elf_module *module = NULL;
	int r = elf_module_open(set->fd, path, &module, error);

	if (r < 0)
		return error_prefix(error, r, "%s", set->folder);
	r = fs_read(set->fd, path, MODULE_SIZE_LIMIT, ret_data, ret_size);
	return r < 0 ? error_set_errno(error, r, "%s/%s", set->folder, path) : 0;
}

/* A new file with the mode and owner of the module. */
static int create_staged(const struct sign_set *set, const char *path, const char *staged)
{
	struct stat status;
	int fd, r = 0;

	if (fstatat(set->fd, path, &status, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	fd = openat(set->fd, staged, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	if ((fchown(fd, status.st_uid, status.st_gid) < 0 && geteuid() == 0) ||
		fchmod(fd, status.st_mode & 07777) < 0)
		r = -errno;
	if (r == 0)
		return fd;
	cleanup_close(&fd);
	return r;
}

int sign_set_stage(const struct sign_set *set, const char *path, const void *data, size_t size,
	struct error *error)
{
	_cleanup_free_ char *staged = staged_path(path);
	_cleanup_close_ int fd = create_staged(set, path, staged);
	int r = fd < 0 ? fd : fs_write_all(fd, data, size);

	return r < 0 ? error_set_errno(error, r, "%s/%s", set->folder, staged) : 0;
}

/* The old file keeps its place until the new one is renamed over it, where links can be made. */
static int replace(int fd, const char *path)
{
	_cleanup_free_ char *staged = staged_path(path);
	_cleanup_free_ char *before = xasprintf("%s" BEFORE_SUFFIX, path);

	if (linkat(fd, path, fd, before, 0) < 0 && renameat(fd, path, fd, before) < 0)
		return -errno;
	return renameat(fd, staged, fd, path) < 0 ? -errno : 0;
}

static int mark_done(int fd)
{
	int done = openat(fd, DONE_NAME, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	if (done < 0)
		return -errno;
	(void) close(done);
	return syncfs(fd) < 0 ? -errno : 0;
}

static int replace_all(const struct sign_set *set)
{
	_cleanup_(finds_free) struct finds finds = { 0 };
	int r = syncfs(set->fd) < 0 ? -errno : 0;

	for (size_t i = 0; i < set->paths.count && r == 0; i++)
		r = replace(set->fd, set->paths.items[i]);
	if (r == 0)
		r = find_below(set->fd, "", &finds);
	if (r == 0)
		r = mark_done(set->fd);
	return r < 0 ? r : drop_before(set->fd, &finds.before);
}

int sign_set_commit(const struct sign_set *set, struct error *error)
{
	_cleanup_(finds_free) struct finds left = { 0 };
	sigset_t all, before;
	int r;

	(void) sigfillset(&all);
	(void) sigprocmask(SIG_BLOCK, &all, &before);
	r = replace_all(set);
	/* A repair that fails too is done again by the next run, which looks first. */
	if (r < 0 && !fs_exists(set->fd, DONE_NAME) && find_below(set->fd, "", &left) == 0)
		(void) repair(set->fd, &left);
	(void) sigprocmask(SIG_SETMASK, &before, NULL);
	if (r < 0 && fs_exists(set->fd, DONE_NAME))
		return error_set_errno(error, r,
			"%s: all is signed, but the old files (*" BEFORE_SUFFIX
			") cannot be removed",
			set->folder);
	return r < 0 ? error_set_errno(error, r, "%s: nothing was signed", set->folder) : 0;
}
