/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/fetch/store.h"

#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "common/fs.h"
#include "common/hash.h"
#include "common/xalloc.h"

#define WHOLE   "sha256"
#define PARTIAL "partial"
#define DAMAGED "damaged"

int store_open(int dir_fd, const char *path, struct store *ret, struct error *error)
{
	static const char *const folders[] = { WHOLE, PARTIAL, DAMAGED };
	_cleanup_(store_close) struct store store = { .fd = -1 };
	int r = fs_mkdir_parents(dir_fd, path, 0755);

	if (r == 0) {
		store.fd = openat(dir_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		r = store.fd < 0 ? -errno : 0;
	}
	for (size_t i = 0; i < ARRAY_SIZE(folders) && r == 0; i++)
		r = fs_mkdir_parents(store.fd, folders[i], 0755);
	if (r < 0)
		return error_set_errno(error, r, "%s", path);
	ret->fd = TAKE_FD(store.fd);
	ret->path = xstrdup(path);
	return 0;
}

void store_close(struct store *store)
{
	cleanup_close(&store->fd);
	free(store->path);
	*store = (struct store){ .fd = -1 };
}

/* Below the store a name is a digest and nothing else: NULL for what is none. */
static char *name_in(const char *folder, const char *sha256)
{
	return hash_is_hex(sha256) ? xasprintf("%s/%s", folder, sha256) : NULL;
}

int store_verify(
	const struct store *store, const char *sha256, uint64_t size_bytes, struct error *error)
{
	_cleanup_free_ char *name = name_in(WHOLE, sha256);
	char hex[HASH_HEX_SIZE];
	struct stat status;
	int r;

	if (!name)
		return error_set_errno(error, -EINVAL, "%s", sha256);
	if (fstatat(store->fd, name, &status, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0
				       : error_set_errno(error, -errno, "%s/%s", store->path, name);
	if (size_bytes && (uint64_t) status.st_size != size_bytes)
		return error_set(error, -EUCLEAN,
			"%s/%s: damaged on disk: %llu bytes long instead of %llu", store->path,
			name, (unsigned long long) status.st_size, (unsigned long long) size_bytes);
	r = hash_file(store->fd, name, hex);
	if (r < 0)
		return error_set_errno(
			error, r == -EISDIR ? -EUCLEAN : r, "%s/%s", store->path, name);
	if (strcmp(hex, sha256) != 0)
		return error_set(error, -EUCLEAN, "%s/%s: damaged on disk: its SHA-256 is %s",
			store->path, name, hex);
	return 1;
}

/*
 * Marked as used now under a lock that a run which tidies the store takes alone: what was seen here
 * is not removed then.
 */
int store_check(
	const struct store *store, const char *sha256, uint64_t size_bytes, struct error *error)
{
	_cleanup_free_ char *name = name_in(WHOLE, sha256);

	if (name) {
		_cleanup_close_ int fd =
			openat(store->fd, "tidy", O_RDWR | O_CREAT | O_CLOEXEC, 0644);

		while (fd >= 0 && flock(fd, LOCK_SH) < 0 && errno == EINTR)
			;
		(void) utimensat(store->fd, name, NULL, AT_SYMLINK_NOFOLLOW);
	}
	return store_verify(store, sha256, size_bytes, error);
}

int store_take(const struct store *store, int dir_fd, const char *name, const char *sha256)
{
	_cleanup_free_ char *place = name_in(WHOLE, sha256);

	if (!place)
		return -EINVAL;
	if (fs_exists(store->fd, place))
		return unlinkat(dir_fd, name, 0) < 0 ? -errno : 0;
	return renameat(dir_fd, name, store->fd, place) < 0 ? -errno : 0;
}

/*
 * Waits for another run that fetches the same. All take their locks in the order of the digests, so
 * that no two wait for each other. A run that tidies the store may remove a lock's file that no
 * process holds: then the new one is opened.
 */
static int take_lock(const struct store *store, const char *sha256, int *ret_fd)
{
	_cleanup_free_ char *name = xasprintf(PARTIAL "/%s.lock", sha256);

	if (!hash_is_hex(sha256))
		return -EINVAL;
	for (;;) {
		_cleanup_close_ int fd =
			openat(store->fd, name, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
		struct stat named, opened;

		if (fd < 0)
			return -errno;
		while (flock(fd, LOCK_EX) < 0)
			if (errno != EINTR)
				return -errno;
		if (fstatat(store->fd, name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
			fstat(fd, &opened) == 0 && named.st_dev == opened.st_dev &&
			named.st_ino == opened.st_ino) {
			*ret_fd = TAKE_FD(fd);
			return 0;
		}
	}
}

/* For the holder of its lock. */
static int set_aside(const struct store *store, const char *sha256)
{
	_cleanup_free_ char *from = name_in(WHOLE, sha256);
	_cleanup_free_ char *to = name_in(DAMAGED, sha256);
	int r = from ? fs_remove_tree(store->fd, to) : -EINVAL;

	if (r < 0)
		return r;
	return renameat(store->fd, from, store->fd, to) < 0 && errno != ENOENT ? -errno : 0;
}

int store_set_aside_damaged(
	const struct store *store, const char *sha256, uint64_t size_bytes, struct error *error)
{
	_cleanup_close_ int lock_fd = -1;
	int r = take_lock(store, sha256, &lock_fd);

	if (r < 0)
		return error_set_errno(error, r, "%s: lock in the store", sha256);
	r = store_verify(store, sha256, size_bytes, error);
	if (r != -EUCLEAN)
		return r < 0 ? r : 0;
	r = set_aside(store, sha256);
	return r < 0 ? error_set_errno(error, r, "%s: cannot be moved aside", sha256) : 1;
}

/* ---- what is missing in the store, fetched by one run for all */

/* A file that was not there when we looked: ours to fetch while we hold its lock. */
struct missing {
	const struct store_file *file;
	char *name; /* below the store, while it is fetched */
	int lock_fd;
	bool there; /* by now */
	struct download_file download;
};

struct fetching {
	const struct store *store;
	struct download *download;
	struct missing *items;
	size_t count;
};

static void fetching_free(struct fetching *fetching)
{
	for (size_t i = 0; i < fetching->count; i++) {
		cleanup_close(&fetching->items[i].lock_fd);
		free(fetching->items[i].name);
	}
	free(fetching->items);
}

static int by_digest(const void *a, const void *b)
{
	const struct missing *left = a, *right = b;

	return strcmp(left->file->sha256, right->file->sha256);
}

static bool can_fetch(const struct fetching *fetching, const struct store_file *file)
{
	return !download_is_offline(fetching->download) || strncmp(file->url, "file:", 5) == 0;
}

/*
 * 1: there; 0: to be fetched; negative: damaged and not to be had, or the disk is at fault. A
 * damaged one is set aside under its lock: another run may be putting the right one there.
 */
static int look(const struct fetching *fetching, const struct store_file *file, bool locked,
	struct error *error)
{
	int r = store_check(fetching->store, file->sha256, file->size_bytes, error);

	if (r != -EUCLEAN)
		return r < 0 ? error_prefix(error, r, "%s", file->name) : r;
	if (!can_fetch(fetching, file))
		return error_prefix(error, r,
			"%s cannot be fetched again with --offline: run once without it",
			file->name);
	if (!locked)
		return 0;
	r = set_aside(fetching->store, file->sha256);
	return r < 0 ? error_prefix(error, r, "%s: cannot be moved aside", file->name) : 0;
}

static int add_missing(
	struct fetching *fetching, const struct store_file *file, struct error *error)
{
	int r;

	for (size_t i = 0; i < fetching->count; i++)
		if (strcmp(fetching->items[i].file->sha256, file->sha256) == 0)
			return 0;
	r = look(fetching, file, false, error);
	if (r != 0)
		return r < 0 ? r : 0;
	fetching->items[fetching->count++] = (struct missing){
		.file = file, .name = name_in(PARTIAL, file->sha256), .lock_fd = -1
	};
	return 0;
}

/* Takes each lock, and looks again: the run that had it may have brought the file. */
static int lock_all(struct fetching *fetching, struct error *error)
{
	if (fetching->count)
		qsort(fetching->items, fetching->count, sizeof(*fetching->items), by_digest);
	for (size_t i = 0; i < fetching->count; i++) {
		struct missing *missing = &fetching->items[i];
		int r = take_lock(fetching->store, missing->file->sha256, &missing->lock_fd);

		if (r < 0)
			return error_set_errno(
				error, r, "%s: lock in the store", missing->file->name);
		r = look(fetching, missing->file, true, error);
		if (r < 0)
			return r;
		missing->there = r > 0;
	}
	return 0;
}

/* Puts into its place what came. */
static void settle(const struct store *store, struct missing *missing)
{
	struct download_file *download = &missing->download;

	download_file_done(download);
	if (download->result == 0) {
		download->result =
			store_take(store, store->fd, missing->name, missing->file->sha256);
		if (download->result < 0)
			(void) error_set_errno(&download->error, download->result, "%s/%s",
				store->path, missing->name);
	}
	missing->there = download->result == 0;
}

/* Fetches whatever is not there by now. */
static void fetch_missing(struct fetching *fetching)
{
	_cleanup_free_ struct download_file **files =
		xcalloc(fetching->count, sizeof(struct download_file *));
	size_t count = 0;

	for (size_t i = 0; i < fetching->count; i++) {
		struct missing *missing = &fetching->items[i];
		const struct store_file *file = missing->file;

		if (missing->there)
			continue;
		missing->download = (struct download_file){
			.url = file->url,
			.dir_fd = fetching->store->fd,
			.path = missing->name,
			.sha256 = file->sha256,
			.size_bytes = file->size_bytes,
			.credentials = &file->credentials,
		};
		files[count++] = &missing->download;
	}
	if (count)
		download_run(fetching->download, files, count);
	for (size_t i = 0; i < fetching->count; i++)
		if (!fetching->items[i].there)
			settle(fetching->store, &fetching->items[i]);
}

int store_fetch(const struct store *store, struct download *download,
	const struct store_file *files, size_t count,
	void (*on_missing)(void *context, size_t count, uint64_t size_bytes), void *context,
	struct error *error)
{
	_cleanup_(fetching_free) struct fetching fetching = {
		.store = store,
		.download = download,
		.items = xcalloc(count, sizeof(struct missing)),
	};
	uint64_t size_bytes = 0;
	size_t missing = 0;
	int r = 0;

	for (size_t i = 0; i < count && r == 0; i++)
		r = add_missing(&fetching, &files[i], error);
	if (r == 0)
		r = lock_all(&fetching, error);
	if (r < 0)
		return r;
	for (size_t i = 0; i < fetching.count; i++)
		if (!fetching.items[i].there) {
			missing++;
			size_bytes += fetching.items[i].file->size_bytes;
		}
	if (missing && on_missing)
		on_missing(context, missing, size_bytes);
	fetch_missing(&fetching);
	for (size_t i = 0; i < fetching.count; i++) {
		const struct missing *item = &fetching.items[i];

		if (item->there)
			continue;
		*error = item->download.error;
		return error_prefix(error, item->download.result, "%s", item->file->name);
	}
	return 0;
}
