/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cache/cache.h"

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "cli/image/image_record.h"
#include "common/fs.h"
#include "common/xalloc.h"
#include "kernels/fetch/store.h"

#define SLACK_S 2 /* file systems and clocks round */

#define NAMES       "blobs/names" /* of downloads: a line in a file that is named by the digest */
#define FIRST_USE_S ((time_t) 1577836800) /* 2020-01-01, UTC */
#define OCI_BLOBS   "blobs/sha256/"

/*
 * For each kind: its folder, names in it that are no entries, and the lock between users and prune.
 */
static const struct place {
	const char *text;
	const char *folder;
	const char *none[2]; /* patterns */
	const char *tidy_lock;
} places[CACHE_KIND_COUNT] = {
	[CACHE_DOWNLOAD] = { "download", "blobs/sha256", { NULL }, "blobs/tidy" },
	[CACHE_PARTIAL] = { "partial", "blobs/partial", { "*.lock" }, "blobs/tidy" },
	[CACHE_DAMAGED] = { "damaged", "blobs/damaged", { NULL }, "blobs/tidy" },
	[CACHE_OUTPUT] = { "output", "stages", { NULL }, "locks/tidy" },
	/* Package lists are put together in a folder of their own. */
	[CACHE_LIST] = { "list", "indexes", { "*lock", "work" }, "indexes/lock" },
	[CACHE_LOG] = { "log", "logs", { NULL }, "locks/tidy" },
	[CACHE_FAILED] = { "failed", "failed", { NULL }, "locks/tidy" },
	[CACHE_COMPILED] = { "compiled", "compiled", { NULL }, "locks/tidy" },
};

/* ---- listing */

/* Files that several names share count for each name in part: a stage is made of hard links. */
static uint64_t size_on_disk(int dir_fd, const char *path)
{
	_cleanup_strv_ struct strv names = { 0 };
	_cleanup_close_ int fd = -1;
	struct stat status;
	uint64_t size;

	if (fstatat(dir_fd, path, &status, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	size = (uint64_t) status.st_blocks * 512;
	if (!S_ISDIR(status.st_mode))
		return size / (status.st_nlink ? status.st_nlink : 1);
	fd = openat(dir_fd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fs_list(fd, ".", &names) < 0)
		return size;
	for (size_t i = 0; i < names.count; i++)
		size += size_on_disk(fd, names.items[i]);
	return size;
}

/*
 * When it was used last. A time of before there was a Slipway is one that what made the entry has
 * given it, such as the epoch of a reproducible source: then its place in the cache dates from
 * ctime.
 */
static time_t last_use(const struct stat *status)
{
	return status->st_mtime < FIRST_USE_S ? status->st_ctime : status->st_mtime;
}

/*
 * For people: of a download, which is a digest, the name that the fetch wrote beside it; of an
 * output the image in the local storage that it stands for, or that lies in it as an archive.
 */
static void find_name(const struct cache *cache, struct cache_entry *entry)
{
	_cleanup_free_ char *folder = xasprintf("%s/%s", cache->path, entry->path);
	_cleanup_free_ char *beside = xasprintf(NAMES "/%s", basename(entry->path));
	_cleanup_free_ char *inside = xasprintf("%s/image", entry->path);
	_cleanup_(image_free) struct image image = { 0 };
	struct error ignored;

	if (entry->kind == CACHE_DOWNLOAD)
		(void) !fs_read_line(cache->fd, beside, &entry->name);
	if (entry->kind != CACHE_OUTPUT || fs_read_line(cache->fd, inside, &entry->name) == 0 ||
		image_read(folder, &image, &ignored) < 0)
		return;
	entry->name = TAKE_PTR(image.reference);
	entry->has_driver = true;
}

void cache_name_download(const struct cache *cache, const char *sha256, const char *name)
{
	_cleanup_free_ char *path = xasprintf(NAMES "/%s", sha256);

	if (fs_exists(cache->fd, path) || fs_mkdir_parents(cache->fd, NAMES, 0755) < 0)
		return;
	(void) !fs_write_atomic(cache->fd, path, name, strlen(name), 0644);
}

static bool is_none(const struct place *place, const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(place->none) && place->none[i]; i++)
		if (fnmatch(place->none[i], name, 0) == 0)
			return true;
	return false;
}

static int add_kind(struct cache_entries *entries, const struct cache *cache, enum cache_kind kind)
{
	const struct place *place = &places[kind];
	_cleanup_strv_ struct strv names = { 0 };
	int r = fs_list(cache->fd, place->folder, &names);

	if (r < 0)
		return r == -ENOENT ? 0 : r;
	for (size_t i = 0; i < names.count; i++) {
		_cleanup_free_ char *path = xasprintf("%s/%s", place->folder, names.items[i]);
		struct cache_entry *entry;
		struct stat status;

		if (is_none(place, names.items[i]) ||
			fstatat(cache->fd, path, &status, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		entries->items =
			xreallocarray(entries->items, entries->count + 1, sizeof(*entries->items));
		entry = &entries->items[entries->count++];
		*entry = (struct cache_entry){
			.kind = kind,
			.kind_text = place->text,
			.used_s = last_use(&status),
			.size_bytes = size_on_disk(cache->fd, path),
		};
		entry->path = TAKE_PTR(path);
		find_name(cache, entry);
	}
	return 0;
}

/* ---- what is in use */

static bool is_locked(const struct cache *cache, const char *path)
{
	/* For writing, without which NFS locks nothing. What is another user's may be locked. */
	_cleanup_close_ int fd = openat(cache->fd, path, O_RDWR | O_CLOEXEC);

	return fd < 0 ? errno != ENOENT : flock(fd, LOCK_EX | LOCK_NB) < 0;
}

/* A writer of a partial file holds its lock, and that of the digest that it is for. */
static bool is_being_written(const struct cache *cache, const char *path)
{
	_cleanup_free_ char *lock = xasprintf(
		"%s/%.*s.lock", places[CACHE_PARTIAL].folder, HASH_HEX_SIZE - 1, basename(path));

	return is_locked(cache, path) || is_locked(cache, lock);
}

/* When the oldest of the other runs that are alive began; 0 when there is none. */
static time_t oldest_run(const struct cache *cache)
{
	_cleanup_strv_ struct strv names = { 0 };
	const char *own = cache->run_path ? basename(cache->run_path) : "";
	time_t oldest_s = 0;

	if (fs_list(cache->fd, "runs", &names) < 0)
		return 0;
	for (size_t i = 0; i < names.count; i++) {
		_cleanup_free_ char *path = xasprintf("runs/%s", names.items[i]);
		_cleanup_free_ char *lock = xasprintf("%s/" CACHE_RUN_LOCK, path);
		struct statx status;
		time_t began_s = 1; /* where the file system has none: as old as anything */

		if (strcmp(names.items[i], own) == 0 || !is_locked(cache, lock))
			continue;
		if (statx(cache->fd, path, AT_SYMLINK_NOFOLLOW, STATX_BTIME, &status) == 0 &&
			(status.stx_mask & STATX_BTIME))
			began_s = (time_t) status.stx_btime.tv_sec;
		if (!oldest_s || began_s < oldest_s)
			oldest_s = began_s;
	}
	return oldest_s;
}

static int by_last_use(const void *a, const void *b)
{
	const struct cache_entry *left = a, *right = b;

	return (left->used_s > right->used_s) - (left->used_s < right->used_s);
}

int cache_entries_read(const struct cache *cache, struct cache_entries *ret, struct error *error)
{
	time_t living_since_s;

	*ret = (struct cache_entries){ 0 };
	for (unsigned int kind = 0; kind < CACHE_KIND_COUNT; kind++) {
		int r = add_kind(ret, cache, kind);

		if (r < 0)
			return error_set_errno(error, r, "cache %s", cache->path);
	}
	/* After the times of use: a run that used an entry before these were read is seen now. */
	living_since_s = oldest_run(cache);
	ret->is_shared = living_since_s != 0;
	if (ret->count)
		qsort(ret->items, ret->count, sizeof(*ret->items), by_last_use);
	for (size_t i = 0; i < ret->count; i++)
		ret->items[i].in_use =
			ret->is_shared && ret->items[i].used_s + SLACK_S >= living_since_s;
	return 0;
}

void cache_entries_free(struct cache_entries *entries)
{
	for (size_t i = 0; i < entries->count; i++) {
		free(entries->items[i].path);
		free(entries->items[i].name);
	}
	free(entries->items);
	*entries = (struct cache_entries){ 0 };
}

/* ---- pruning */

int cache_entry_remove(const struct cache *cache, const struct cache_entry *entry)
{
	const char *base = basename(entry->path);
	_cleanup_free_ char *to = xasprintf("%s/pruned-%s", cache->run_path, base);
	_cleanup_free_ char *name = xasprintf(NAMES "/%s", base);
	_cleanup_close_ int fd = openat(
		cache->fd, places[entry->kind].tidy_lock, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	struct stat status;

	if (fd < 0)
		return -errno;
	if (flock(fd, LOCK_EX | (entry->kind == CACHE_LIST ? LOCK_NB : 0)) < 0)
		return errno == EWOULDBLOCK ? 0 : -errno;
	if (fstatat(cache->fd, entry->path, &status, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 1 : -errno;
	if (last_use(&status) != entry->used_s ||
		(entry->kind == CACHE_PARTIAL && is_being_written(cache, entry->path)))
		return 0;
	if (renameat(cache->fd, entry->path, AT_FDCWD, to) < 0)
		return errno == ENOENT ? 1 : -errno;
	if (entry->kind == CACHE_DOWNLOAD)
		(void) unlinkat(cache->fd, name, 0);
	return fs_remove_tree(AT_FDCWD, to) < 0 ? -EIO : 1;
}

/* ---- verifying */

static void free_archive(struct archive **archive)
{
	(void) archive_read_free(*archive);
}

/* OCI image layout: every blob lies under its digest. 1: right; 0: it is no image; -EUCLEAN. */
static int check_output(
	const struct cache *cache, const struct cache_entry *entry, struct error *error)
{
	_cleanup_free_ char *path = xasprintf("%s/%s/" IMAGE_ARCHIVE, cache->path, entry->path);
	_cleanup_(free_archive) struct archive *archive = archive_read_new();
	struct archive_entry *member;
	int status;

	if (!fs_exists(AT_FDCWD, path))
		return 0;
	if (!archive)
		out_of_memory();
	(void) archive_read_support_format_tar(archive);
	status = archive_read_open_filename(archive, path, 65536);
	while (status == ARCHIVE_OK &&
		(status = archive_read_next_header(archive, &member)) == ARCHIVE_OK) {
		const char *name = archive_entry_pathname(member);
		struct hash *hash;
		char hex[HASH_HEX_SIZE];
		char buffer[65536];
		ssize_t got;

		if (!name || strncmp(name, OCI_BLOBS, strlen(OCI_BLOBS)) != 0 ||
			archive_entry_filetype(member) != AE_IFREG)
			continue;
		hash = hash_new();
		while ((got = archive_read_data(archive, buffer, sizeof(buffer))) > 0)
			hash_add(hash, buffer, (size_t) got);
		hash_finish(hash, hex);
		if (got < 0 || strcmp(hex, name + strlen(OCI_BLOBS)) != 0)
			return error_set(error, -EUCLEAN, "%s: damaged at %s", path, name);
	}
	return status == ARCHIVE_EOF
		       ? 1
		       : error_set(error, -EUCLEAN, "%s: %s", path, archive_error_string(archive));
}

/*
 * Moves an output out of the way, under the lock of its name and key ("stages/<name>-<key>"): a run
 * that made it anew meanwhile has brought a right one.
 */
static int set_output_aside(const struct cache *cache, const struct cache_entry *entry)
{
	_cleanup_free_ char *path = xasprintf("%s/%s", cache->path, entry->path);
	_cleanup_free_ char *name = xstrdup(basename(entry->path));
	_cleanup_close_ int lock_fd = -1;
	struct error ignored;
	char *dash = strrchr(name, '-');
	int r;

	if (!dash)
		return -EINVAL;
	*dash = '\0';
	r = cache_lock(cache, name, dash + 1, true, &lock_fd);
	if (r < 0)
		return r;
	return check_output(cache, entry, &ignored) == -EUCLEAN ? cache_set_aside(cache, path) : 0;
}

int cache_entry_check(
	const struct cache *cache, const struct cache_entry *entry, struct error *error)
{
	_cleanup_(store_close) struct store store = { .fd = -1 };
	int r;

	if (entry->kind == CACHE_OUTPUT)
		return check_output(cache, entry, error);
	if (entry->kind != CACHE_DOWNLOAD)
		return 0;
	r = store_open(cache->fd, "blobs", &store, error);
	return r < 0 ? r : store_verify(&store, basename(entry->path), 0, error);
}

int cache_entry_set_aside(const struct cache *cache, const struct cache_entry *entry)
{
	_cleanup_(store_close) struct store store = { .fd = -1 };
	struct error ignored;
	int r;

	if (entry->kind == CACHE_OUTPUT)
		return set_output_aside(cache, entry);
	r = store_open(cache->fd, "blobs", &store, &ignored);
	return r < 0 ? r : store_set_aside_damaged(&store, basename(entry->path), 0, &ignored);
}
