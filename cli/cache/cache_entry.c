/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cache/cache_entry.h"

#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "cli/image/image.h"
#include "common/fs.h"

#define SLACK_S 2 /* file systems and clocks round */

#define NAMES       "blobs/names" /* of downloads: a line in a file that is named by the digest */
#define FIRST_USE_S ((time_t) 1577836800) /* 2020-01-01, UTC */

/* Where each kind lies, which names there are none, and whose lock keeps users and tidiers apart.
 */
static const struct place {
	const char *text;
	const char *folder;
	const char *no_ending;
	const char *tidy_lock;
} places[CACHE_KIND_COUNT] = {
	[CACHE_DOWNLOAD] = { "download", "blobs/sha256", NULL, "blobs/tidy" },
	[CACHE_PARTIAL] = { "partial", "blobs/partial", ".lock", "blobs/tidy" },
	[CACHE_DAMAGED] = { "damaged", "blobs/damaged", NULL, "blobs/tidy" },
	[CACHE_OUTPUT] = { "output", "arrows", NULL, "locks/tidy" },
	[CACHE_LIST] = { "list", "indexes", "lock", "indexes/lock" },
	[CACHE_LOG] = { "log", "logs", NULL, "locks/tidy" },
	[CACHE_FAILED] = { "failed", "failed", NULL, "locks/tidy" },
};

const char *cache_kind_text(enum cache_kind kind)
{
	return places[kind].text;
}

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

static bool has_ending(const char *name, const char *ending)
{
	size_t length = strlen(name), end = ending ? strlen(ending) : 0;

	return ending && length >= end && strcmp(name + length - end, ending) == 0;
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

static int add(struct cache_entries *entries, const struct cache *cache, enum cache_kind kind,
	const char *name)
{
	struct cache_entry *grown, entry = { .kind = kind };
	struct stat status;

	if (asprintf(&entry.path, "%s/%s", places[kind].folder, name) < 0)
		return -ENOMEM;
	grown = realloc(entries->items, (entries->count + 1) * sizeof(*grown));
	if (grown)
		entries->items = grown;
	/* One that has just gone is none. */
	if (!grown || fstatat(cache->fd, entry.path, &status, AT_SYMLINK_NOFOLLOW) < 0) {
		free(entry.path);
		return grown ? 0 : -ENOMEM;
	}
	entry.used_s = last_use(&status);
	entry.size_bytes = size_on_disk(cache->fd, entry.path);
	grown[entries->count++] = entry;
	return 0;
}

static int add_kind(struct cache_entries *entries, const struct cache *cache, enum cache_kind kind)
{
	_cleanup_strv_ struct strv names = { 0 };
	int r = fs_list(cache->fd, places[kind].folder, &names);

	for (size_t i = 0; i < names.count && r == 0; i++) {
		/* Package lists are put together in a folder of their own. */
		if (has_ending(names.items[i], places[kind].no_ending) ||
			(kind == CACHE_LIST && strcmp(names.items[i], "work") == 0))
			continue;
		r = add(entries, cache, kind, names.items[i]);
	}
	return r == -ENOENT ? 0 : r;
}
/* The image in the local storage that an output stands for, or that lies in it as an archive. */
static char *image_name(const struct cache *cache, const struct cache_entry *entry)
{
	_cleanup_free_ char *folder = NULL;
	_cleanup_free_ char *path = NULL;
	struct image image = { 0 };
	struct error ignored;
	char *name = NULL;

	if (asprintf(&path, "%s/image", entry->path) < 0 ||
		asprintf(&folder, "%s/%s", cache->path, entry->path) < 0)
		return NULL;
	if (fs_read_line(cache->fd, path, &name) == 0)
		return name;
	if (image_read(folder, &image, &ignored) < 0)
		return NULL;
	name = TAKE_PTR(image.reference);
	image_free(&image);
	return name;
}

/* What the fetch that brought it wrote beside it. */
static char *download_name(const struct cache *cache, const struct cache_entry *entry)
{
	_cleanup_free_ char *path = NULL;
	char *name = NULL;

	if (asprintf(&path, NAMES "/%s", strrchr(entry->path, '/') + 1) < 0 ||
		fs_read_line(cache->fd, path, &name) < 0)
		return NULL;
	return name;
}

void cache_name_download(const struct cache *cache, const char *sha256, const char *name)
{
	_cleanup_free_ char *path = NULL;

	if (asprintf(&path, NAMES "/%s", sha256) < 0 || fs_exists(cache->fd, path) ||
		fs_mkdir_parents(cache->fd, NAMES, 0755) < 0)
		return;
	(void) !fs_write_atomic(cache->fd, path, name, strlen(name), 0644);
}

/* A digest tells nobody anything; who brought it said whose it is. */
static void find_names(struct cache_entries *entries, const struct cache *cache)
{
	for (size_t i = 0; i < entries->count; i++) {
		struct cache_entry *entry = &entries->items[i];

		if (entry->kind == CACHE_OUTPUT)
			entry->name = image_name(cache, entry);
		else if (entry->kind == CACHE_DOWNLOAD)
			entry->name = download_name(cache, entry);
	}
}

int cache_entries_read(const struct cache *cache, struct cache_entries *ret, struct error *error)
{
	_cleanup_(cache_entries_free) struct cache_entries entries = { 0 };
	int r = 0;

	for (unsigned int kind = 0; kind < CACHE_KIND_COUNT && r == 0; kind++)
		r = add_kind(&entries, cache, kind);
	if (r < 0)
		return error_set_errno(error, r, "cache %s", cache->path);
	find_names(&entries, cache);
	*ret = entries;
	entries = (struct cache_entries){ 0 };
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

static bool is_locked(const struct cache *cache, const char *path)
{
	_cleanup_close_ int fd = openat(cache->fd, path, O_RDONLY | O_CLOEXEC);

	return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0;
}

/* Who writes to a partial file holds its lock, and that of the digest that it is for. */
static bool is_being_written(const struct cache *cache, const char *path)
{
	_cleanup_free_ char *lock = NULL;

	if (asprintf(&lock, "%s/%.*s.lock", places[CACHE_PARTIAL].folder, HASH_HEX_SIZE - 1,
		    strrchr(path, '/') + 1) < 0)
		return true;
	return is_locked(cache, path) || is_locked(cache, lock);
}

static void forget_name(const struct cache *cache, const char *sha256)
{
	_cleanup_free_ char *path = NULL;

	if (asprintf(&path, NAMES "/%s", sha256) >= 0)
		(void) unlinkat(cache->fd, path, 0);
}

static int move_away(const struct cache *cache, const struct cache_entry *entry)
{
	_cleanup_free_ char *to = NULL;

	if (asprintf(&to, "%s/pruned-%s", cache->run_path, strrchr(entry->path, '/') + 1) < 0)
		return -ENOMEM;
	if (renameat(cache->fd, entry->path, AT_FDCWD, to) < 0)
		return errno == ENOENT ? 1 : -errno;
	if (entry->kind == CACHE_DOWNLOAD)
		forget_name(cache, strrchr(entry->path, '/') + 1);
	return fs_remove_tree(AT_FDCWD, to) < 0 ? -EIO : 1;
}

int cache_entry_remove(const struct cache *cache, const struct cache_entry *entry)
{
	const char *tidy = places[entry->kind].tidy_lock;
	_cleanup_close_ int fd = openat(cache->fd, tidy, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	struct stat status;

	if (fd < 0)
		return -errno;
	if (flock(fd, LOCK_EX | (entry->kind == CACHE_LIST ? LOCK_NB : 0)) < 0)
		return errno == EWOULDBLOCK ? 0 : -errno;
	if (fstatat(cache->fd, entry->path, &status, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 1 : -errno;
	if (last_use(&status) != entry->used_s)
		return 0;
	if (entry->kind == CACHE_PARTIAL && is_being_written(cache, entry->path))
		return 0;
	return move_away(cache, entry);
}

static time_t birth_of(int dir_fd, const char *path)
{
	struct statx status;

	/* Where the file system does not say, the run may be as old as anything. */
	if (statx(dir_fd, path, AT_SYMLINK_NOFOLLOW, STATX_BTIME, &status) < 0 ||
		!(status.stx_mask & STATX_BTIME))
		return 1;
	return (time_t) status.stx_btime.tv_sec;
}

time_t cache_oldest_run(const struct cache *cache)
{
	_cleanup_strv_ struct strv names = { 0 };
	const char *own = cache->run_path ? strrchr(cache->run_path, '/') + 1 : "";
	time_t oldest_s = 0;

	if (fs_list(cache->fd, "runs", &names) < 0)
		return 0;
	for (size_t i = 0; i < names.count; i++) {
		_cleanup_free_ char *path = NULL;
		_cleanup_close_ int fd = -1;
		time_t began_s;

		if (strcmp(names.items[i], own) == 0)
			continue;
		if (asprintf(&path, "runs/%s", names.items[i]) < 0)
			return 1;
		fd = openat(cache->fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) == 0)
			continue;
		began_s = birth_of(cache->fd, path);
		if (!oldest_s || began_s < oldest_s)
			oldest_s = began_s;
	}
	return oldest_s;
}

bool cache_entry_in_use(const struct cache_entry *entry, time_t living_since_s)
{
	return living_since_s && entry->used_s + SLACK_S >= living_since_s;
}
