/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/fetch/partial_internal.h"

#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "common/clock.h"

#define DEFAULT_LIMIT ((uint64_t) 4 << 30)

/* Where it goes, for messages. */
static int failed(const struct partial *partial, int code, struct error *error)
{
	char link[64], folder[PATH_MAX] = "";
	ssize_t length = 0;

	if (partial->file->dir_fd >= 0) {
		(void) snprintf(link, sizeof(link), "/proc/self/fd/%d", partial->file->dir_fd);
		length = readlink(link, folder, sizeof(folder) - 2);
	}
	if (length > 0)
		(void) snprintf(folder + length, sizeof(folder) - (size_t) length, "/");
	if (code == -EDQUOT)
		code = -ENOSPC;
	if (code == -ENOSPC)
		return error_set(error, code,
			"%s%s: no space is left on that disk: free some (slipway cache prune), or "
			"name a folder on another with --cache",
			folder, partial->file->path);
	return error_set_errno(error, code, "%s%s", folder, partial->file->path);
}

static int restart_hash(struct partial *partial)
{
	char ignored[HASH_HEX_SIZE];

	if (!partial->file->sha256)
		return 0;
	if (partial->hash)
		hash_finish(partial->hash, ignored);
	partial->hash = hash_new();
	return partial->hash ? 0 : -ENOMEM;
}

static bool is_named(const struct partial *partial)
{
	struct stat named, opened;

	return fstatat(partial->file->dir_fd, partial->name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
	       fstat(partial->fd, &opened) == 0 && named.st_dev == opened.st_dev &&
	       named.st_ino == opened.st_ino;
}

/*
 * The name that a later run finds again: -EBUSY when another run writes to it. Who had it before us
 * may have renamed it to its place while we waited for nothing: then it is not ours to write to.
 */
static int open_shared(struct partial *partial)
{
	if (asprintf(&partial->name, "%s.part", partial->file->path) < 0)
		return -ENOMEM;
	partial->fd = openat(partial->file->dir_fd, partial->name,
		O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
	if (partial->fd < 0)
		return -errno;
	if (flock(partial->fd, LOCK_EX | LOCK_NB) == 0 && is_named(partial)) {
		partial->stays = true;
		return 0;
	}
	cleanup_close(&partial->fd);
	free(TAKE_PTR(partial->name));
	partial->fd = -1;
	return -EBUSY;
}

/* A name that nobody else has, also no other thread and no process of another PID namespace. */
static int open_own(struct partial *partial)
{
	static atomic_uint counter;

	for (;;) {
		if (asprintf(&partial->name, "%s.%d-%llx-%u.part", partial->file->path,
			    (int) getpid(), (unsigned long long) clock_monotonic_us(),
			    atomic_fetch_add(&counter, 1)) < 0)
			return -ENOMEM;
		partial->fd = openat(partial->file->dir_fd, partial->name,
			O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
		if (partial->fd >= 0)
			return 0;
		free(TAKE_PTR(partial->name));
		if (errno != EEXIST)
			return -errno;
	}
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
	partial->bytes = partial->old_bytes = (uint64_t) status.st_size;
	partial->resumed = true;
	return 0;
}

int partial_open(const struct download_file *file, struct partial *ret, struct error *error)
{
	struct partial partial = { .file = file, .fd = -1 };
	int r = file->sha256 ? open_shared(&partial) : -EBUSY;

	if (r == -EBUSY)
		r = open_own(&partial);
	if (r == 0)
		r = restart_hash(&partial);
	if (r == 0 && partial.stays)
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
	int r = restart_hash(partial);

	if (r == 0 && (ftruncate(partial->fd, 0) < 0 || lseek(partial->fd, 0, SEEK_SET) < 0))
		r = -errno;
	partial->bytes = partial->old_bytes = 0;
	partial->resumed = false;
	return r < 0 ? failed(partial, r, error) : 0;
}

int partial_reserve(struct partial *partial, uint64_t size_bytes, struct error *error)
{
	if (size_bytes <= partial->bytes)
		return 0;
	if (fallocate(partial->fd, FALLOC_FL_KEEP_SIZE, (off_t) partial->bytes,
		    (off_t) (size_bytes - partial->bytes)) < 0 &&
		(errno == ENOSPC || errno == EDQUOT))
		return failed(partial, -ENOSPC, error);
	/* A file system that cannot do that says so later. */
	return 0;
}

int partial_check_length(const struct partial *partial, uint64_t bytes, struct error *error)
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

int partial_add(struct partial *partial, const void *data, size_t size, struct error *error)
{
	const char *from = data;
	int r = partial_check_length(partial, partial->bytes + size, error);

	if (r < 0)
		return r;
	while (size) {
		ssize_t put = write(partial->fd, from, size);

		if (put < 0 && errno == EINTR)
			continue;
		if (put < 0)
			return failed(partial, -errno, error);
		if (partial->hash)
			hash_add(partial->hash, from, (size_t) put);
		partial->bytes += (uint64_t) put;
		from += put;
		size -= (size_t) put;
	}
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

bool partial_is_whole(const struct partial *partial)
{
	return partial->file->size_bytes && partial->bytes == partial->file->size_bytes;
}

void partial_close(struct partial *partial, bool keep)
{
	char ignored[HASH_HEX_SIZE];

	if (partial->hash)
		hash_finish(TAKE_PTR(partial->hash), ignored);
	if (partial->name && (!keep || !partial->stays || partial->bytes == 0))
		(void) unlinkat(partial->file->dir_fd, partial->name, 0);
	else if (partial->name)
		(void) !ftruncate(partial->fd, (off_t) partial->bytes); /* gives back the rest */
	cleanup_close(&partial->fd);
	free(partial->name);
	*partial = (struct partial){ .fd = -1 };
}
