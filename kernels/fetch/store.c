/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/fetch/store.h"

#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "common/fs.h"
#include "common/hash.h"

#define WHOLE   "sha256"
#define PARTIAL "partial"
#define DAMAGED "damaged"

int store_open(int dir_fd, const char *path, struct store *ret, struct error *error)
{
	static const char *const folders[] = { WHOLE, PARTIAL, DAMAGED };
	struct store store = { .fd = -1, .path = strdup(path) };
	int r = store.path ? fs_mkdir_parents(dir_fd, path, 0755) : -ENOMEM;

	if (r == 0) {
		store.fd = openat(dir_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		r = store.fd < 0 ? -errno : 0;
	}
	for (size_t i = 0; i < ARRAY_SIZE(folders) && r == 0; i++)
		r = fs_mkdir_parents(store.fd, folders[i], 0755);
	if (r < 0) {
		store_close(&store);
		return error_set_errno(error, r, "%s", path);
	}
	*ret = store;
	return 0;
}

void store_close(struct store *store)
{
	cleanup_close(&store->fd);
	free(store->path);
	*store = (struct store){ .fd = -1 };
}

/* A name below the store is a digest and nothing else, wherever the digest came from. */
static int name_in(const char *folder, const char *sha256, const char *ending, char **ret_name)
{
	if (!hash_is_hex(sha256))
		return -EINVAL;
	return asprintf(ret_name, "%s/%s%s", folder, sha256, ending) < 0 ? -ENOMEM : 0;
}

static int sha256_of(int dir_fd, const char *name, char hex[HASH_HEX_SIZE])
{
	struct hash *hash = hash_new();
	int r;

	if (!hash)
		return -ENOMEM;
	r = hash_add_file(hash, dir_fd, name);
	hash_finish(hash, hex);
	return r;
}

/*
 * Marks a file as used now. Under a lock that who tidies the store takes alone: what was seen here
 * is not removed then.
 */
static void mark_used(const struct store *store, const char *name)
{
	_cleanup_close_ int fd = openat(store->fd, "tidy", O_RDWR | O_CREAT | O_CLOEXEC, 0644);

	if (fd >= 0)
		while (flock(fd, LOCK_SH) < 0 && errno == EINTR)
			;
	(void) utimensat(store->fd, name, NULL, AT_SYMLINK_NOFOLLOW);
}

int store_verify(
	const struct store *store, const char *sha256, uint64_t size_bytes, struct error *error)
{
	_cleanup_free_ char *name = NULL;
	char hex[HASH_HEX_SIZE];
	struct stat status;
	int r = name_in(WHOLE, sha256, "", &name);

	if (r < 0)
		return error_set_errno(error, r, "%s", sha256);
	if (fstatat(store->fd, name, &status, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0
				       : error_set_errno(error, -errno, "%s/%s", store->path, name);
	if (size_bytes && (uint64_t) status.st_size != size_bytes)
		return error_set(error, -EUCLEAN,
			"%s/%s: damaged on disk: %llu bytes long instead of %llu", store->path,
			name, (unsigned long long) status.st_size, (unsigned long long) size_bytes);
	r = sha256_of(store->fd, name, hex);
	if (r < 0)
		return error_set_errno(
			error, r == -EISDIR ? -EUCLEAN : r, "%s/%s", store->path, name);
	if (strcmp(hex, sha256) != 0)
		return error_set(error, -EUCLEAN, "%s/%s: damaged on disk: its SHA-256 is %s",
			store->path, name, hex);
	return 1;
}

int store_check(
	const struct store *store, const char *sha256, uint64_t size_bytes, struct error *error)
{
	_cleanup_free_ char *name = NULL;

	if (name_in(WHOLE, sha256, "", &name) == 0)
		mark_used(store, name);
	return store_verify(store, sha256, size_bytes, error);
}

int store_set_aside(const struct store *store, const char *sha256)
{
	_cleanup_free_ char *from = NULL;
	_cleanup_free_ char *to = NULL;
	int r = name_in(WHOLE, sha256, "", &from);

	if (r == 0)
		r = name_in(DAMAGED, sha256, "", &to);
	if (r == 0)
		r = fs_remove_tree(store->fd, to);
	if (r < 0)
		return r;
	return renameat(store->fd, from, store->fd, to) < 0 && errno != ENOENT ? -errno : 0;
}

int store_take(const struct store *store, int dir_fd, const char *name, const char *sha256)
{
	_cleanup_free_ char *place = NULL;
	int r = name_in(WHOLE, sha256, "", &place);

	if (r < 0)
		return r;
	if (fs_exists(store->fd, place))
		return unlinkat(dir_fd, name, 0) < 0 ? -errno : 0;
	return renameat(dir_fd, name, store->fd, place) < 0 ? -errno : 0;
}

/* ---- What is missing in the store, fetched by one run for all. */

/* A file that is wanted and was not there when we looked: ours to fetch while we hold its lock. */
struct missing {
	const struct store_file *file;
	char *name; /* below the store, while it is on its way */
	int lock_fd;
	int result; /* 1: not there yet */
	struct error error;
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

static bool is_same_file(int dir_fd, const char *name, int fd)
{
	struct stat named, opened;

	return fstatat(dir_fd, name, &named, AT_SYMLINK_NOFOLLOW) == 0 && fstat(fd, &opened) == 0 &&
	       named.st_dev == opened.st_dev && named.st_ino == opened.st_ino;
}

/*
 * Waits for another run that fetches the same. All take their locks in the order of the digests, so
 * that no two wait for each other. Who tidies the store may remove the file of a lock that nobody
 * holds: then the one that we have opened is nobody's, and we open the new one.
 */
static int take_lock(const struct store *store, const char *sha256, int *ret_fd)
{
	_cleanup_free_ char *name = NULL;

	if (asprintf(&name, "partial/%s.lock", sha256) < 0)
		return -ENOMEM;
	for (;;) {
		_cleanup_close_ int fd =
			openat(store->fd, name, O_RDWR | O_CREAT | O_CLOEXEC, 0644);

		if (fd < 0)
			return -errno;
		while (flock(fd, LOCK_EX) < 0)
			if (errno != EINTR)
				return -errno;
		if (is_same_file(store->fd, name, fd)) {
			*ret_fd = TAKE_FD(fd);
			return 0;
		}
	}
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
	r = store_set_aside(store, sha256);
	return r < 0 ? error_set_errno(error, r, "%s: cannot be moved away", sha256) : 1;
}

static bool can_fetch(const struct fetching *fetching, const struct store_file *file)
{
	if (!download_is_offline(fetching->download))
		return true;
	for (size_t i = 0; i < file->urls->count; i++)
		if (strncmp(file->urls->items[i], "file:", 5) == 0)
			return true;
	return false;
}

/*
 * 1: there; 0: to be fetched; negative: damaged and not to be had, or the disk is at fault. A
 * damaged one is set aside by who holds its lock: another run may be putting the right one there.
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
	r = store_set_aside(fetching->store, file->sha256);
	return r < 0 ? error_prefix(error, r, "%s: cannot be moved away", file->name) : 0;
}

static int add_missing(
	struct fetching *fetching, const struct store_file *file, struct error *error)
{
	struct missing *missing = &fetching->items[fetching->count];
	int r;

	for (size_t i = 0; i < fetching->count; i++)
		if (strcmp(fetching->items[i].file->sha256, file->sha256) == 0)
			return 0;
	r = look(fetching, file, false, error);
	if (r != 0)
		return r < 0 ? r : 0;
	*missing = (struct missing){ .file = file, .lock_fd = -1, .result = 1 };
	if (asprintf(&missing->name, "partial/%s", file->sha256) < 0)
		return error_set_errno(error, -ENOMEM, "%s", file->name);
	fetching->count++;
	return 0;
}

/* Takes each lock, and looks again: who had it before us may have brought the file. */
static int lock_all(struct fetching *fetching, struct error *error)
{
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
		if (r > 0)
			missing->result = 0;
	}
	return 0;
}

/* Puts into its place what came, and keeps the words about what did not. */
static void settle(const struct store *store, struct missing *missing, struct download_file *from)
{
	missing->result = from->result;
	missing->error = from->error;
	download_file_done(from);
	if (missing->result == 0) {
		missing->result =
			store_take(store, store->fd, missing->name, missing->file->sha256);
		if (missing->result < 0)
			(void) error_set_errno(&missing->error, missing->result, "%s/%s",
				store->path, missing->name);
	}
	if (missing->result < 0)
		(void) error_prefix(&missing->error, missing->result, "%s", missing->file->name);
}

static struct download_file download_of(
	const struct fetching *fetching, const struct missing *missing, size_t url)
{
	const struct store_file *file = missing->file;

	return (struct download_file){
		.url = file->urls->items[url],
		.dir_fd = fetching->store->fd,
		.path = missing->name,
		.sha256 = file->sha256,
		.size_bytes = file->size_bytes,
		.user = file->user,
		.password = file->password,
		.client_certificate = file->client_certificate,
		.client_key = file->client_key,
		.certificate_authority = file->certificate_authority,
	};
}

/* Asks the @round-th URL of whatever is still not there. 1: and there was one to ask; 0. */
static int fetch_round(struct fetching *fetching, size_t round, struct error *error)
{
	_cleanup_free_ struct download_file *files =
		calloc(fetching->count, sizeof(struct download_file));
	_cleanup_free_ size_t *owners = calloc(fetching->count, sizeof(size_t));
	struct error ignored;
	size_t count = 0;
	int r;

	if (!files || !owners)
		return error_set_errno(error, -ENOMEM, "store");
	for (size_t i = 0; i < fetching->count; i++) {
		struct missing *missing = &fetching->items[i];

		if (missing->result == 0 || round >= missing->file->urls->count)
			continue;
		owners[count] = i;
		files[count++] = download_of(fetching, missing, round);
	}
	if (count == 0)
		return 0;
	r = download_run(fetching->download, files, count, &ignored);
	if (r == -ENOMEM) {
		*error = ignored;
		return r;
	}
	for (size_t i = 0; i < count; i++)
		settle(fetching->store, &fetching->items[owners[i]], &files[i]);
	return 1;
}

static int fetch_all(struct fetching *fetching, struct error *error)
{
	int r = 1;

	for (size_t round = 0; r > 0; round++)
		r = fetch_round(fetching, round, error);
	for (size_t i = 0; i < fetching->count && r == 0; i++) {
		const struct missing *missing = &fetching->items[i];

		if (missing->result == 1)
			return error_set(
				error, -EINVAL, "%s: no URL of it is known", missing->file->name);
		if (missing->result < 0)
			*error = missing->error;
		r = missing->result;
	}
	return r;
}

static void count_missing(const struct fetching *fetching, size_t *ret_count, uint64_t *ret_bytes)
{
	*ret_count = 0;
	*ret_bytes = 0;
	for (size_t i = 0; i < fetching->count; i++) {
		if (fetching->items[i].result == 0)
			continue;
		(*ret_count)++;
		*ret_bytes += fetching->items[i].file->size_bytes;
	}
}

int store_fetch(const struct store *store, struct download *download,
	const struct store_file *files, size_t count,
	void (*on_missing)(void *context, size_t count, uint64_t size_bytes), void *context,
	struct error *error)
{
	_cleanup_(
		fetching_free) struct fetching fetching = { .store = store, .download = download };
	uint64_t size_bytes;
	size_t missing;
	int r = 0;

	fetching.items = calloc(count ? count : 1, sizeof(*fetching.items));
	if (!fetching.items)
		return error_set_errno(error, -ENOMEM, "store");
	for (size_t i = 0; i < count && r == 0; i++)
		r = add_missing(&fetching, &files[i], error);
	if (r == 0 && fetching.count > 0)
		r = lock_all(&fetching, error);
	if (r < 0)
		return r;
	count_missing(&fetching, &missing, &size_bytes);
	if (missing == 0)
		return 0;
	if (on_missing)
		on_missing(context, missing, size_bytes);
	return fetch_all(&fetching, error);
}
