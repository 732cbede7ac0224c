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
