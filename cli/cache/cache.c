/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cache/cache.h"

#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "common/fs.h"
#include "common/xalloc.h"

#define OUTPUTS     "stages"
#define COMPILED    "compiled/ccache"
#define KEY_IN_NAME 24 /* hex digits: 96 bits distinguish any two outputs of a cache */

static char *default_path(void)
{
	const char *named = getenv("SLIPWAY_CACHE");
	const char *xdg = getenv("XDG_CACHE_HOME");
	const char *home = getenv("HOME");

	if (named && *named)
		return xstrdup(named);
	if (xdg && *xdg == '/')
		return xasprintf("%s/slipway", xdg);
	return xasprintf("%s/.cache/slipway", home && *home ? home : "/root");
}

/* -EACCES is a server's answer to exit_code_for(): here it is this machine's, so -EPERM. */
static int cannot_use(const char *path, int r, struct error *error)
{
	(void) error_set_errno(error, r, "cache %s", path);
	return error_try(error, r == -EACCES ? -EPERM : r, "use another cache: --cache DIR");
}

int cache_open(const char *path, struct cache *ret, struct error *error)
{
	static const char *const folders[] = { OUTPUTS, "blobs/sha256", "indexes", "logs", "failed",
		"locks", "runs" };
	_cleanup_(cache_close) struct cache cache = { .fd = -1, .run_lock_fd = -1 };
	_cleanup_free_ char *wanted = path ? xstrdup(path) : default_path();
	int r = fs_mkdir_parents(AT_FDCWD, wanted, 0755);

	if (r < 0)
		return cannot_use(wanted, r, error);
	cache.path = realpath(wanted, NULL);
	cache.fd = cache.path ? open(cache.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	if (cache.fd < 0)
		return cannot_use(wanted, -errno, error);
	for (size_t i = 0; i < ARRAY_SIZE(folders); i++) {
		r = fs_mkdir_parents(cache.fd, folders[i], 0755);
		if (r < 0)
			return cannot_use(cache.path, r, error);
	}
	*ret = cache;
	cache = (struct cache){ .fd = -1, .run_lock_fd = -1 };
	return 0;
}

bool cache_is_there(const char *path)
{
	_cleanup_free_ char *outputs = xasprintf("%s/" OUTPUTS, path);

	return fs_exists(AT_FDCWD, outputs);
}

void cache_close(struct cache *cache)
{
	cleanup_close(&cache->fd);
	cleanup_close(&cache->run_lock_fd);
	free(cache->path);
	free(cache->run_path);
	free(cache->scratch_path);
	*cache = (struct cache){ .fd = -1, .run_lock_fd = -1 };
}

/*
 * Locks the file in a run's folder by which others see that it lives. A folder's lock would be seen
 * by this machine alone where the cache is on NFS, as would that of a file open for reading.
 * -ENOENT: another run's sweep took the folder for a dead run's, and removed it.
 */
static int lock_run(const char *path, int how, int *ret_fd)
{
	_cleanup_free_ char *lock = xasprintf("%s/" CACHE_RUN_LOCK, path);
	_cleanup_close_ int fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	struct stat ours, there;

	if (fd < 0 || flock(fd, how) < 0 || fstat(fd, &ours) < 0 || stat(lock, &there) < 0)
		return errno == ESTALE ? -ENOENT : -errno;
	if (!ours.st_nlink || ours.st_ino != there.st_ino)
		return -ENOENT;
	*ret_fd = TAKE_FD(fd);
	return 0;
}

/*
 * With its lock held. It is renamed first: a run that is just being started in it finds nothing
 * there, and makes another. NFS keeps an open file, and with it the folder, until it is closed.
 */
static void remove_run(const char *path, int *lock_fd)
{
	_cleanup_free_ char *gone = xasprintf("%s.gone", path);

	if (rename(path, gone) == 0)
		(void) !fs_remove_tree(AT_FDCWD, gone);
	cleanup_close(lock_fd);
	*lock_fd = -1;
	(void) !fs_remove_tree(AT_FDCWD, gone); /* if not now, the next run tries again */
}

/* A run holds its lock until it ends: one that can be locked is a killed run's. */
static void sweep_dead_runs(const struct cache *cache, void (*clear)(const char *run_path))
{
	_cleanup_strv_ struct strv names = { 0 };

	if (fs_list(cache->fd, "runs", &names) < 0)
		return;
	for (size_t i = 0; i < names.count; i++) {
		_cleanup_free_ char *path = xasprintf("%s/runs/%s", cache->path, names.items[i]);
		_cleanup_close_ int fd = -1;

		if (lock_run(path, LOCK_EX | LOCK_NB, &fd) < 0)
			continue;
		clear(path);
		remove_run(path, &fd);
	}
}

static int make_run_folder(struct cache *cache)
{
	_cleanup_free_ char *path = xasprintf("%s/runs/%d-XXXXXX", cache->path, (int) getpid());
	_cleanup_close_ int fd = -1;
	int r;

	if (!mkdtemp(path))
		return -errno;
	r = lock_run(path, LOCK_EX, &fd);
	if (r < 0)
		return r == -ENOENT ? -EAGAIN : r;
	/* Recipes may drop their privileges, and what they work on is below. */
	if (chmod(path, 0755) < 0)
		return -errno;
	cache->run_path = TAKE_PTR(path);
	cache->run_lock_fd = TAKE_FD(fd);
	return 0;
}

int cache_start_run(struct cache *cache, void (*clear)(const char *run_path), struct error *error)
{
	int r;

	sweep_dead_runs(cache, clear);
	do
		r = make_run_folder(cache);
	while (r == -EAGAIN);
	if (r == -EACCES || r == -EROFS)
		return cannot_use(cache->path, r, error);
	if (r < 0)
		return error_set_errno(error, r, "%s/runs", cache->path);
	cache->scratch_path = xstrdup(cache->run_path);
	return 0;
}

int cache_split_run(struct cache *cache, const char *name)
{
	free(cache->scratch_path);
	cache->scratch_path = xasprintf("%s/%s", cache->run_path, name);
	return fs_mkdir_parents(AT_FDCWD, cache->scratch_path, 0755);
}

void cache_end_run(struct cache *cache)
{
	if (cache->run_path)
		remove_run(cache->run_path, &cache->run_lock_fd);
}

char *cache_output_path(const struct cache *cache, const char *name, const char *key)
{
	return xasprintf("%s/" OUTPUTS "/%s-%.*s", cache->path, name, KEY_IN_NAME, key);
}

char *cache_log_path(const struct cache *cache, const char *name, const char *key)
{
	return xasprintf("%s/logs/%s-%.*s.log", cache->path, name, KEY_IN_NAME, key);
}

bool cache_entry_is_of(const char *entry, const char *name)
{
	size_t length = strlen(name);

	return strncmp(entry, name, length) == 0 && entry[length] == '-' &&
	       !strchr(entry + length + 1, '-');
}

int cache_lock(
	const struct cache *cache, const char *name, const char *key, bool waits, int *ret_fd)
{
	_cleanup_free_ char *path = xasprintf("locks/%s-%.*s", name, KEY_IN_NAME, key);
	_cleanup_close_ int fd = -1;

	fd = openat(cache->fd, path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	if (fd < 0)
		return -errno;
	while (flock(fd, LOCK_EX | (waits ? 0 : LOCK_NB)) < 0)
		if (errno != EINTR)
			return -errno;
	*ret_fd = TAKE_FD(fd);
	return 0;
}

/* The lock that prune takes alone: what is marked as used under it is not removed then. */
static int keep_prune_out(const struct cache *cache)
{
	int fd = openat(cache->fd, "locks/tidy", O_RDWR | O_CREAT | O_CLOEXEC, 0644);

	if (fd >= 0)
		while (flock(fd, LOCK_SH) < 0 && errno == EINTR)
			;
	return fd;
}

bool cache_use(const struct cache *cache, const char *output_path)
{
	_cleanup_close_ int fd = keep_prune_out(cache);

	(void) fd;
	(void) utimensat(AT_FDCWD, output_path, NULL, AT_SYMLINK_NOFOLLOW);
	return fs_exists(AT_FDCWD, output_path);
}

int cache_name_full(const struct cache *cache, int r, struct error *error)
{
	return r == -ENOSPC || r == -EDQUOT ? error_line(error, r, "the cache: %s", cache->path)
					    : r;
}

int cache_new_folder(const struct cache *cache, const char *name, char **ret_path)
{
	_cleanup_free_ char *path = xasprintf("%s/%s", cache->scratch_path, name);
	int r = fs_remove_tree(AT_FDCWD, path);

	if (r == 0)
		r = fs_mkdir_parents(AT_FDCWD, path, 0755);
	if (r == 0)
		*ret_path = TAKE_PTR(path);
	return r;
}

int cache_compiled_folder(const struct cache *cache, char **ret_path)
{
	_cleanup_close_ int fd = keep_prune_out(cache);
	int r = fs_mkdir_parents(cache->fd, COMPILED, 0755);

	(void) fd;
	if (r == 0 && utimensat(cache->fd, COMPILED, NULL, 0) < 0)
		r = -errno;
	if (r == 0)
		*ret_path = xasprintf("%s/" COMPILED, cache->path);
	return r;
}

int cache_set_aside(const struct cache *cache, const char *output_path)
{
	_cleanup_free_ char *path = xasprintf("%s/replaced-XXXXXX", cache->run_path);

	if (!mkdtemp(path))
		return -errno;
	return rename(output_path, path) < 0 && errno != ENOENT ? -errno : 0;
}

/* Its files reach the disk before its name does. */
static int settle(const char *folder)
{
	_cleanup_close_ int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0 || syncfs(fd) < 0)
		return -errno;
	/* It counts as used now, whatever time what made it has given its folder. */
	(void) utimensat(AT_FDCWD, folder, NULL, 0);
	return 0;
}

int cache_replace(const struct cache *cache, const char *folder, const char *output_path)
{
	int r = settle(folder);

	/* Runs with another storage read it meanwhile: it is there at each moment. */
	if (r < 0 || renameat2(AT_FDCWD, folder, AT_FDCWD, output_path, RENAME_EXCHANGE) == 0)
		return r;
	/* NFS cannot do so. */
	if (errno != ENOENT)
		r = cache_set_aside(cache, output_path);
	return r < 0 || rename(folder, output_path) == 0 ? r : -errno;
}

int cache_keep(const char *folder, const char *output_path)
{
	int r = settle(folder);

	if (r < 0)
		return r;
	if (rename(folder, output_path) == 0)
		return 0;
	return errno == ENOTEMPTY || errno == EEXIST ? 0 : -errno;
}

char *cache_keep_failed(const struct cache *cache, const char *folder, const char *name)
{
	_cleanup_free_ char *path = xasprintf("%s/failed/%s", cache->path, name);

	if (fs_remove_tree(AT_FDCWD, path) < 0 || rename(folder, path) < 0)
		return NULL;
	return TAKE_PTR(path);
}
