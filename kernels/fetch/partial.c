/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/fetch/partial_internal.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "common/fs.h"
#include "common/xalloc.h"

#define DEFAULT_LIMIT ((uint64_t) 4 << 30)

/* The message has the whole path. */
static int failed(const struct partial *partial, int code, struct error *error)
{
	char link[64], folder[PATH_MAX] = "";
	ssize_t length = 0;

	if (partial->file->dir_fd >= 0) {
		(void) snprintf(link, sizeof(link), "/proc/self/fd/%d", partial->file->dir_fd);
		length = readlink(link, folder, sizeof(folder) - 2);
	}
	if (length > 0)
		folder[length] = '/';
	if (code == -EDQUOT)
		code = -ENOSPC;
	if (code == -ENOSPC)
		return error_set(error, code,
			"%s%s: no space is left on that disk: free some (slipway cache prune), or "
			"name a folder on another with --cache",
			folder, partial->file->path);
	return error_set_errno(error, code, "%s%s", folder, partial->file->path);
}

static void drop_hash(struct partial *partial)
{
	char ignored[HASH_HEX_SIZE];

	if (partial->hash)
		hash_finish(TAKE_PTR(partial->hash), ignored);
}

static void restart_hash(struct partial *partial)
{
	drop_hash(partial);
	partial->hash = partial->file->sha256 ? hash_new() : NULL;
}

static int read_old(struct partial *partial)
{
	struct stat status;
	int r;

	if (fstat(partial->fd, &status) < 0)
		return -errno;
	if (status.st_size == 0)
		return 0;
	if (partial->file->size_bytes && (uint64_t) status.st_size > partial->file->size_bytes)
		return ftruncate(partial->fd, 0) < 0 ? -errno : 0;
	r = hash_add_file(partial->hash, partial->file->dir_fd, partial->name);
	if (r < 0)
		return r;
	if (lseek(partial->fd, 0, SEEK_END) < 0)
		return -errno;
	partial->bytes = (uint64_t) status.st_size;
	partial->resumed = true;
	return 0;
}

int partial_open(const struct download_file *file, struct partial *ret, struct error *error)
{
	struct partial partial = { .file = file, .name = xasprintf("%s.part", file->path) };
	int r = 0;

	partial.fd = openat(file->dir_fd, partial.name,
		O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | (file->sha256 ? 0 : O_TRUNC), 0644);
	restart_hash(&partial);
	if (partial.fd < 0)
		r = -errno;
	else if (file->sha256)
		r = read_old(&partial);
	if (r < 0) {
		r = failed(&partial, r, error);
		partial_close(&partial, true);
		return r;
	}
	*ret = partial;
	return 0;
}

int partial_restart(struct partial *partial, struct error *error)
{
	restart_hash(partial);
	partial->bytes = 0;
	partial->resumed = false;
	return ftruncate(partial->fd, 0) < 0 || lseek(partial->fd, 0, SEEK_SET) < 0
		       ? failed(partial, -errno, error)
		       : 0;
}

static int check_length(const struct partial *partial, uint64_t bytes, struct error *error)
{
	const struct download_file *file = partial->file;
	uint64_t limit = file->limit_bytes;

	if (file->size_bytes && bytes > file->size_bytes)
		return error_set(error, -EBADMSG,
			"longer than the %llu bytes that it is to have: the server has another "
			"file there",
			(unsigned long long) file->size_bytes);
	if (!limit)
		limit = file->size_bytes ? file->size_bytes : DEFAULT_LIMIT;
	if (bytes > limit)
		return error_set(error, -EFBIG, "longer than %llu bytes, the most that is taken",
			(unsigned long long) limit);
	return 0;
}

int partial_reserve(struct partial *partial, uint64_t size_bytes, struct error *error)
{
	int r = check_length(partial, size_bytes, error);

	if (r < 0 || size_bytes <= partial->bytes)
		return r;
	/* A file system that cannot do that fails later. */
	if (fallocate(partial->fd, FALLOC_FL_KEEP_SIZE, (off_t) partial->bytes,
		    (off_t) (size_bytes - partial->bytes)) < 0 &&
		(errno == ENOSPC || errno == EDQUOT))
		return failed(partial, -ENOSPC, error);
	return 0;
}

int partial_add(struct partial *partial, const void *data, size_t size, struct error *error)
{
	int r = check_length(partial, partial->bytes + size, error);

	if (r < 0)
		return r;
	r = fs_write_all(partial->fd, data, size);
	if (r < 0)
		return failed(partial, r, error);
	if (partial->hash)
		hash_add(partial->hash, data, size);
	partial->bytes += size;
	return 0;
}

static int check_content(struct partial *partial, struct error *error)
{
	const struct download_file *file = partial->file;
	char hex[HASH_HEX_SIZE];

	if (file->size_bytes && partial->bytes != file->size_bytes)
		return error_set(error, -EBADMSG, "%llu bytes long instead of %llu",
			(unsigned long long) partial->bytes, (unsigned long long) file->size_bytes);
	if (!partial->hash)
		return 0;
	hash_finish(TAKE_PTR(partial->hash), hex);
	if (strcmp(hex, file->sha256) == 0)
		return 0;
	return error_set(error, -EBADMSG, "its SHA-256 is %s, and %s is wanted", hex, file->sha256);
}

int partial_finish(struct partial *partial, struct error *error)
{
	struct error ignored;
	int r = check_content(partial, error);

	if (r < 0) {
		int restarted = partial_restart(partial, &ignored);

		return restarted < 0 ? restarted : r;
	}
	/* A crash must not leave a name that stands for nothing. */
	if (fdatasync(partial->fd) < 0 || renameat(partial->file->dir_fd, partial->name,
						  partial->file->dir_fd, partial->file->path) < 0)
		return failed(partial, -errno, error);
	free(TAKE_PTR(partial->name));
	return 0;
}

void partial_close(struct partial *partial, bool keep)
{
	drop_hash(partial);
	if (partial->name && (!keep || !partial->file->sha256 || partial->bytes == 0))
		(void) unlinkat(partial->file->dir_fd, partial->name, 0);
	else if (partial->name)
		(void) !ftruncate(partial->fd, (off_t) partial->bytes); /* frees the rest */
	cleanup_close(&partial->fd);
	free(partial->name);
	*partial = (struct partial){ .fd = -1 };
}
