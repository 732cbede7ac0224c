/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cache/cache.h"

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "cli/image/buildah.h"
#include "cli/image/image.h"
#include "common/fs.h"
#include "common/xalloc.h"
#include "kernels/fetch/store.h"

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
	[CACHE_OUTPUT] = { "output", "stages", NULL, "locks/tidy" },
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

static void add(struct cache_entries *entries, const struct cache *cache, enum cache_kind kind,
	const char *name)
{
	_cleanup_free_ char *path = xasprintf("%s/%s", places[kind].folder, name);
	struct cache_entry *entry;
	struct stat status;

	/* One that has just gone is none. */
	if (fstatat(cache->fd, path, &status, AT_SYMLINK_NOFOLLOW) < 0)
		return;
	entries->items = xreallocarray(entries->items, entries->count + 1, sizeof(*entries->items));
	entry = &entries->items[entries->count++];
	*entry = (struct cache_entry){ .kind = kind, .used_s = last_use(&status) };
	entry->size_bytes = size_on_disk(cache->fd, path);
	entry->path = TAKE_PTR(path);
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
		add(entries, cache, kind, names.items[i]);
	}
	return r == -ENOENT ? 0 : r;
}

/* The image in the local storage that an output stands for, or that lies in it as an archive. */
static void name_output(const struct cache *cache, struct cache_entry *entry)
{
	_cleanup_free_ char *folder = xasprintf("%s/%s", cache->path, entry->path);
	_cleanup_free_ char *path = xasprintf("%s/image", folder);
	_cleanup_(image_free) struct image image = { 0 };
	struct error ignored;

	if (fs_read_line(AT_FDCWD, path, &entry->name) == 0 ||
		image_read(folder, &image, &ignored) < 0)
		return;
	entry->name = TAKE_PTR(image.reference);
	entry->has_driver = true;
}

/* A digest says nothing to people: the fetch wrote a name beside it. */
static void name_download(const struct cache *cache, struct cache_entry *entry)
{
	_cleanup_free_ char *path = xasprintf(NAMES "/%s", strrchr(entry->path, '/') + 1);

	if (fs_read_line(cache->fd, path, &entry->name) < 0)
		entry->name = NULL;
}

void cache_name_download(const struct cache *cache, const char *sha256, const char *name)
{
	_cleanup_free_ char *path = xasprintf(NAMES "/%s", sha256);

	if (fs_exists(cache->fd, path) || fs_mkdir_parents(cache->fd, NAMES, 0755) < 0)
		return;
	(void) !fs_write_atomic(cache->fd, path, name, strlen(name), 0644);
}

int cache_entries_read(const struct cache *cache, struct cache_entries *ret, struct error *error)
{
	_cleanup_(cache_entries_free) struct cache_entries entries = { 0 };
	int r = 0;

	for (unsigned int kind = 0; kind < CACHE_KIND_COUNT && r == 0; kind++)
		r = add_kind(&entries, cache, kind);
	if (r < 0)
		return error_set_errno(error, r, "cache %s", cache->path);
	for (size_t i = 0; i < entries.count; i++) {
		if (entries.items[i].kind == CACHE_OUTPUT)
			name_output(cache, &entries.items[i]);
		else if (entries.items[i].kind == CACHE_DOWNLOAD)
			name_download(cache, &entries.items[i]);
	}
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
	_cleanup_free_ char *lock = xasprintf("%s/%.*s.lock", places[CACHE_PARTIAL].folder,
		HASH_HEX_SIZE - 1, strrchr(path, '/') + 1);

	return is_locked(cache, path) || is_locked(cache, lock);
}

static int move_away(const struct cache *cache, const struct cache_entry *entry)
{
	const char *base = strrchr(entry->path, '/') + 1;
	_cleanup_free_ char *to = xasprintf("%s/pruned-%s", cache->run_path, base);
	_cleanup_free_ char *name = xasprintf(NAMES "/%s", base);

	if (renameat(cache->fd, entry->path, AT_FDCWD, to) < 0)
		return errno == ENOENT ? 1 : -errno;
	if (entry->kind == CACHE_DOWNLOAD)
		(void) unlinkat(cache->fd, name, 0);
	return fs_remove_tree(AT_FDCWD, to) < 0 ? -EIO : 1;
}

/*
 * Removes an entry: 1 when it is gone, 0 when somebody has used it since it was listed, or uses it
 * now.
 */
static int remove_entry(const struct cache *cache, const struct cache_entry *entry)
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

/* When the oldest of the other runs that are alive began; 0 when there is none. */
static time_t oldest_run(const struct cache *cache)
{
	_cleanup_strv_ struct strv names = { 0 };
	const char *own = cache->run_path ? strrchr(cache->run_path, '/') + 1 : "";
	time_t oldest_s = 0;

	if (fs_list(cache->fd, "runs", &names) < 0)
		return 0;
	for (size_t i = 0; i < names.count; i++) {
		_cleanup_free_ char *path = xasprintf("runs/%s", names.items[i]);
		_cleanup_close_ int fd = -1;
		time_t began_s;

		if (strcmp(names.items[i], own) == 0)
			continue;
		fd = openat(cache->fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) == 0)
			continue;
		began_s = birth_of(cache->fd, path);
		if (!oldest_s || began_s < oldest_s)
			oldest_s = began_s;
	}
	return oldest_s;
}

/* May a run that is alive have used it? */
static bool is_in_use(const struct cache_entry *entry, time_t living_since_s)
{
	return living_since_s && entry->used_s + SLACK_S >= living_since_s;
}

/* ---- pruning */

#define OURS "localhost/slipway/"

struct pruning {
	const struct cache *cache;
	const struct cache_prune_request *request;
	const struct cache_prune_listener *listener;
	struct cache_prune_result *result;
	struct cache_entries entries;
	time_t living_since_s;
	uint64_t left_bytes;
	struct strv kept_images; /* that an output which stays stands for */
};

static void pruning_free(struct pruning *pruning)
{
	cache_entries_free(&pruning->entries);
	strv_free(&pruning->kept_images);
}

static int by_last_use(const void *a, const void *b)
{
	const struct cache_entry *left = a, *right = b;

	return (left->used_s > right->used_s) - (left->used_s < right->used_s);
}

static bool is_wanted_gone(const struct pruning *pruning, const struct cache_entry *entry)
{
	const struct cache_prune_request *request = pruning->request;

	if (request->all || entry->kind == CACHE_DAMAGED)
		return true;
	if (request->by_age && time(NULL) - entry->used_s > request->age_s)
		return true;
	return request->by_size && pruning->left_bytes > request->keep_bytes;
}

static void remove_image(const struct pruning *pruning, const char *name)
{
	if (pruning->request->dry_run || buildah_remove_image(name) == 0)
		pruning->listener->on_image(pruning->listener->context, name);
}

/* 1: gone, or would be. */
static int prune_entry(struct pruning *pruning, const struct cache_entry *entry)
{
	int r = 1;

	if (is_in_use(entry, pruning->living_since_s))
		r = 0;
	else if (!pruning->request->dry_run)
		r = remove_entry(pruning->cache, entry);
	if (r == 0)
		pruning->result->in_use++;
	if (r <= 0)
		return r;
	pruning->result->removed++;
	pruning->result->removed_bytes += entry->size_bytes;
	pruning->left_bytes -= entry->size_bytes;
	pruning->listener->on_entry(pruning->listener->context, entry);
	if (entry->kind == CACHE_OUTPUT && entry->name && !entry->has_driver &&
		strncmp(entry->name, OURS, strlen(OURS)) == 0)
		remove_image(pruning, entry->name);
	return 1;
}

/* Images of outputs that went without them: with the cache's folder, or by hand. */
static void remove_other_images(struct pruning *pruning)
{
	_cleanup_strv_ struct strv names = { 0 };

	if (buildah_image_names(OURS, &names) < 0)
		return;
	for (size_t i = 0; i < names.count; i++)
		if (!strv_contains(&pruning->kept_images, names.items[i]))
			remove_image(pruning, names.items[i]);
}

int cache_prune(const struct cache *cache, const struct cache_prune_request *request,
	const struct cache_prune_listener *listener, struct cache_prune_result *ret,
	struct error *error)
{
	_cleanup_(pruning_free) struct pruning pruning = {
		.cache = cache,
		.request = request,
		.listener = listener,
		.result = ret,
		.living_since_s = oldest_run(cache),
	};
	int r = cache_entries_read(cache, &pruning.entries, error);

	*ret = (struct cache_prune_result){ 0 };
	if (r < 0)
		return r;
	if (pruning.entries.count)
		qsort(pruning.entries.items, pruning.entries.count, sizeof(*pruning.entries.items),
			by_last_use);
	for (size_t i = 0; i < pruning.entries.count; i++)
		pruning.left_bytes += pruning.entries.items[i].size_bytes;
	for (size_t i = 0; i < pruning.entries.count; i++) {
		const struct cache_entry *entry = &pruning.entries.items[i];

		r = is_wanted_gone(&pruning, entry) ? prune_entry(&pruning, entry) : 0;
		if (r < 0)
			return error_set_errno(error, r, "%s/%s", cache->path, entry->path);
		if (r == 0 && entry->kind == CACHE_OUTPUT && entry->name)
			xstrv_push(&pruning.kept_images, entry->name);
	}
	/* Another cache's run may have made some a moment ago: only where all is to go. */
	if (request->all && !pruning.living_since_s)
		remove_other_images(&pruning);
	return 0;
}

/* ---- verifying */

#define OCI_BLOBS "blobs/sha256/"

static void free_archive(struct archive **archive)
{
	(void) archive_read_free(*archive);
}

/* The SHA-256 of a member's content. -EBADMSG when it cannot be read to its end. */
static int hash_member(struct archive *archive, char hex[HASH_HEX_SIZE])
{
	struct hash *hash = hash_new();
	char buffer[65536];
	ssize_t got = 0;

	if (!hash)
		out_of_memory();
	while ((got = archive_read_data(archive, buffer, sizeof(buffer))) > 0)
		hash_add(hash, buffer, (size_t) got);
	hash_finish(hash, hex);
	return got < 0 ? -EBADMSG : 0;
}

/* OCI image layout: every blob lies under its digest. */
static int check_archive(const char *path, struct error *error)
{
	_cleanup_(free_archive) struct archive *archive = archive_read_new();
	struct archive_entry *entry;
	int r = 0;

	if (!archive)
		out_of_memory();
	(void) archive_read_support_format_tar(archive);
	if (archive_read_open_filename(archive, path, 65536) != ARCHIVE_OK)
		return error_set(error, -EUCLEAN, "%s: %s", path, archive_error_string(archive));
	while (r == 0 && (r = archive_read_next_header(archive, &entry)) == ARCHIVE_OK) {
		const char *name = archive_entry_pathname(entry);
		char hex[HASH_HEX_SIZE];

		if (!name || strncmp(name, OCI_BLOBS, strlen(OCI_BLOBS)) != 0 ||
			archive_entry_filetype(entry) != AE_IFREG)
			continue;
		r = hash_member(archive, hex);
		if (r < 0 || strcmp(hex, name + strlen(OCI_BLOBS)) != 0)
			return error_set(error, -EUCLEAN, "%s: damaged at %s", path, name);
	}
	return r == ARCHIVE_EOF
		       ? 0
		       : error_set(error, -EUCLEAN, "%s: %s", path, archive_error_string(archive));
}

static int check_output(
	const struct cache *cache, const struct cache_entry *entry, struct error *error)
{
	_cleanup_free_ char *path = xasprintf("%s/%s/" IMAGE_ARCHIVE, cache->path, entry->path);
	int r;

	if (!fs_exists(AT_FDCWD, path))
		return 0;
	r = check_archive(path, error);
	return r < 0 ? r : 1;
}

struct verifying {
	const struct cache *cache;
	struct store store;
	time_t living_since_s;
};

/* 1: right; 0: nothing tells what it was; -EUCLEAN. */
static int check(
	const struct verifying *verifying, const struct cache_entry *entry, struct error *error)
{
	if (entry->kind == CACHE_DOWNLOAD)
		return store_verify(&verifying->store, strrchr(entry->path, '/') + 1, 0, error);
	return entry->kind == CACHE_OUTPUT ? check_output(verifying->cache, entry, error) : 0;
}

/* "stages/<name>-<key>" is made under the lock of that name and key. */
static int lock_output(const struct cache *cache, const struct cache_entry *entry, int *ret_fd)
{
	_cleanup_free_ char *name = xstrdup(strrchr(entry->path, '/') + 1);
	char *dash = strrchr(name, '-');

	if (!dash)
		return -EINVAL;
	*dash = '\0';
	return cache_lock(cache, name, dash + 1, ret_fd);
}

static int put_away_output(const struct verifying *verifying, const struct cache_entry *entry)
{
	_cleanup_free_ char *path = xasprintf("%s/%s", verifying->cache->path, entry->path);
	_cleanup_close_ int lock_fd = -1;
	struct error ignored;
	int r = lock_output(verifying->cache, entry, &lock_fd);

	if (r == 0)
		r = check_output(verifying->cache, entry, &ignored);
	/* Who made it anew while it was looked at has brought a right one. */
	return r == -EUCLEAN ? cache_set_aside(verifying->cache, path) : r < 0 ? r : 0;
}

/* Under the lock of who would bring the right one. */
static int put_away(const struct verifying *verifying, const struct cache_entry *entry,
	struct cache_verify_result *result)
{
	const char *digest = strrchr(entry->path, '/') + 1;
	struct error ignored;

	if (entry->kind == CACHE_DOWNLOAD)
		return store_set_aside_damaged(&verifying->store, digest, 0, &ignored);
	if (!is_in_use(entry, verifying->living_since_s))
		return put_away_output(verifying, entry);
	result->in_use++;
	return 0;
}

static int check_all(const struct verifying *verifying, const struct cache_entries *entries,
	void (*on_damaged)(void *context, const struct cache_entry *entry, const char *what),
	void *context, struct cache_verify_result *result, struct error *error)
{
	for (size_t i = 0; i < entries->count; i++) {
		const struct cache_entry *entry = &entries->items[i];
		int r = check(verifying, entry, error);

		if (r < 0 && r != -EUCLEAN && r != -EINVAL)
			return r;
		result->unchecked += r == 0;
		if (r == 0)
			continue;
		result->checked++;
		result->checked_bytes += entry->size_bytes;
		if (r == 1)
			continue;
		result->damaged++;
		on_damaged(context, entry, error->text);
		if (r == -EUCLEAN)
			r = put_away(verifying, entry, result);
		if (r < 0 && r != -EINVAL)
			return error_set_errno(error, r, "%s", entry->path);
	}
	return 0;
}

int cache_verify(const struct cache *cache,
	void (*on_damaged)(void *context, const struct cache_entry *entry, const char *what),
	void *context, struct cache_verify_result *ret, struct error *error)
{
	_cleanup_(cache_entries_free) struct cache_entries entries = { 0 };
	struct verifying verifying = {
		.cache = cache,
		.store = { .fd = -1 },
		.living_since_s = oldest_run(cache),
	};
	int r = store_open(cache->fd, "blobs", &verifying.store, error);

	*ret = (struct cache_verify_result){ 0 };
	if (r == 0)
		r = cache_entries_read(cache, &entries, error);
	if (r == 0)
		r = check_all(&verifying, &entries, on_damaged, context, ret, error);
	store_close(&verifying.store);
	return r;
}
