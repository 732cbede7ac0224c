/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/fetch.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "common/fs.h"
#include "common/hash.h"

static bool is_missing(int store_fd, const struct lock_package *package)
{
	struct stat status;

	return fstatat(store_fd, package->sha256, &status, 0) < 0 ||
	       (uint64_t) status.st_size != package->size_bytes;
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

static const struct lock_package *package_with(const struct lock *lock, const char *sha256)
{
	for (size_t i = 0; i < lock->count; i++)
		if (strcmp(lock->packages[i].sha256, sha256) == 0)
			return &lock->packages[i];
	return NULL;
}

/* Files are told by their content: apt encodes versions in file names in its own way. */
static int store_downloads(const struct fetch *fetch, const struct lock *lock, struct error *error)
{
	_cleanup_strv_ struct strv names = { 0 };
	_cleanup_close_ int folder_fd = open(fetch->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r = folder_fd < 0 ? -errno : fs_list(folder_fd, ".", &names);

	if (r < 0)
		return error_set_errno(error, r, "%s", fetch->folder);
	for (size_t i = 0; i < names.count; i++) {
		char hex[HASH_HEX_SIZE];

		r = sha256_of(folder_fd, names.items[i], hex);
		if (r < 0)
			return error_set_errno(error, r, "%s/%s", fetch->folder, names.items[i]);
		if (!package_with(lock, hex))
			return error_set(error, -EBADMSG,
				"%s: its SHA-256 is %s, which the lock does not name: the mirror "
				"served another file; run again with --refresh",
				names.items[i], hex);
		if (renameat(folder_fd, names.items[i], fetch->store_fd, hex) < 0)
			return error_set_errno(error, -errno, "%s", names.items[i]);
	}
	return 0;
}

int fetch_packages(const struct fetch *fetch, const struct lock *lock, const char *purpose,
	void (*on_missing)(void *context, size_t count, uint64_t size_bytes), void *context,
	struct error *error)
{
	_cleanup_strv_ struct strv wanted = { 0 };
	uint64_t size_bytes = 0;
	int r;

	for (size_t i = 0; i < lock->count; i++) {
		const struct lock_package *package = &lock->packages[i];

		if ((purpose && strcmp(package->purpose, purpose) != 0) ||
			!is_missing(fetch->store_fd, package))
			continue;
		if (strv_pushf(&wanted, "%s=%s", package->name, package->version) < 0)
			return error_set_errno(error, -ENOMEM, "%s", package->name);
		size_bytes += package->size_bytes;
	}
	if (wanted.count == 0)
		return 0;
	if (on_missing)
		on_missing(context, wanted.count, size_bytes);
	r = apt_download(fetch->apt, &wanted, fetch->folder, error);
	return r < 0 ? r : store_downloads(fetch, lock, error);
}
