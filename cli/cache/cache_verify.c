/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cache/cache_verify.h"

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <string.h>

#include "cli/image/image.h"
#include "common/fs.h"
#include "kernels/fetch/store.h"

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
		return -ENOMEM;
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
		return error_set_errno(error, -ENOMEM, "%s", path);
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
	_cleanup_free_ char *path = NULL;
	int r;

	if (asprintf(&path, "%s/%s/" IMAGE_ARCHIVE, cache->path, entry->path) < 0)
		return error_set_errno(error, -ENOMEM, "%s", entry->path);
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
	_cleanup_free_ char *name = strdup(strrchr(entry->path, '/') + 1);
	char *dash = name ? strrchr(name, '-') : NULL;

	if (!dash)
		return name ? -EINVAL : -ENOMEM;
	*dash = '\0';
	return cache_lock(cache, name, dash + 1, ret_fd);
}

static int put_away_output(const struct verifying *verifying, const struct cache_entry *entry)
{
	_cleanup_free_ char *path = NULL;
	_cleanup_close_ int lock_fd = -1;
	struct error ignored;
	int r;

	if (asprintf(&path, "%s/%s", verifying->cache->path, entry->path) < 0)
		return -ENOMEM;
	r = lock_output(verifying->cache, entry, &lock_fd);
	if (r == 0)
		r = check_output(verifying->cache, entry, &ignored);
	/* Who made it anew while it was looked at has brought a right one. */
	return r == -EUCLEAN ? cache_set_aside(verifying->cache, path) : r < 0 ? r : 0;
}

/* Under the lock of who would bring the right one. */
static int put_away(const struct verifying *verifying, const struct cache_entry *entry,
	struct verify_result *result)
{
	const char *digest = strrchr(entry->path, '/') + 1;
	struct error ignored;

	if (entry->kind == CACHE_DOWNLOAD)
		return store_set_aside_damaged(&verifying->store, digest, 0, &ignored);
	if (!cache_entry_in_use(entry, verifying->living_since_s))
		return put_away_output(verifying, entry);
	result->in_use++;
	return 0;
}

static int check_all(const struct verifying *verifying, const struct cache_entries *entries,
	void (*on_damaged)(void *context, const struct cache_entry *entry, const char *what),
	void *context, struct verify_result *result, struct error *error)
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
	void *context, struct verify_result *ret, struct error *error)
{
	_cleanup_(cache_entries_free) struct cache_entries entries = { 0 };
	struct verifying verifying = {
		.cache = cache,
		.store = { .fd = -1 },
		.living_since_s = cache_oldest_run(cache),
	};
	int r = store_open(cache->fd, "blobs", &verifying.store, error);

	*ret = (struct verify_result){ 0 };
	if (r == 0)
		r = cache_entries_read(cache, &entries, error);
	if (r == 0)
		r = check_all(&verifying, &entries, on_damaged, context, ret, error);
	store_close(&verifying.store);
	return r;
}
