/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/fetch/arrival.h"

#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "common/clock.h"

#define DEFAULT_LIMIT ((uint64_t) 4 << 30)

/* Where it goes, for messages. */
static int failed(const struct arrival *arrival, int code, struct error *error)
{
	char link[64], folder[PATH_MAX] = "";
	ssize_t length = 0;

	if (arrival->file->dir_fd >= 0) {
		(void) snprintf(link, sizeof(link), "/proc/self/fd/%d", arrival->file->dir_fd);
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
			folder, arrival->file->path);
	return error_set_errno(error, code, "%s%s", folder, arrival->file->path);
}

static int restart_hash(struct arrival *arrival)
{
	char ignored[HASH_HEX_SIZE];

	if (!arrival->file->sha256)
		return 0;
	if (arrival->hash)
		hash_finish(arrival->hash, ignored);
	arrival->hash = hash_new();
	return arrival->hash ? 0 : -ENOMEM;
}

static bool is_named(const struct arrival *arrival)
{
	struct stat named, opened;

	return fstatat(arrival->file->dir_fd, arrival->name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
	       fstat(arrival->fd, &opened) == 0 && named.st_dev == opened.st_dev &&
	       named.st_ino == opened.st_ino;
}

/*
 * The name that a later run finds again: -EBUSY when another run writes to it. Who had it before us
 * may have renamed it to its place while we waited for nothing: then it is not ours to write to.
 */
static int open_shared(struct arrival *arrival)
{
	if (asprintf(&arrival->name, "%s.part", arrival->file->path) < 0)
		return -ENOMEM;
	arrival->fd = openat(arrival->file->dir_fd, arrival->name,
		O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
	if (arrival->fd < 0)
		return -errno;
	if (flock(arrival->fd, LOCK_EX | LOCK_NB) == 0 && is_named(arrival)) {
		arrival->stays = true;
		return 0;
	}
	cleanup_close(&arrival->fd);
	free(TAKE_PTR(arrival->name));
	arrival->fd = -1;
	return -EBUSY;
}

/* A name that nobody else has, also no other thread and no process of another PID namespace. */
static int open_own(struct arrival *arrival)
{
	static atomic_uint counter;

	for (;;) {
		if (asprintf(&arrival->name, "%s.%d-%llx-%u.part", arrival->file->path,
			    (int) getpid(), (unsigned long long) clock_monotonic_us(),
			    atomic_fetch_add(&counter, 1)) < 0)
			return -ENOMEM;
		arrival->fd = openat(arrival->file->dir_fd, arrival->name,
			O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
		if (arrival->fd >= 0)
			return 0;
		free(TAKE_PTR(arrival->name));
		if (errno != EEXIST)
			return -errno;
	}
}

static int read_old(struct arrival *arrival)
{
	struct stat status;
	int r;

	if (fstat(arrival->fd, &status) < 0)
		return -errno;
	if (status.st_size == 0)
		return 0;
	if (arrival->file->size_bytes && (uint64_t) status.st_size > arrival->file->size_bytes)
		return ftruncate(arrival->fd, 0) < 0 ? -errno : 0;
	r = hash_add_file(arrival->hash, arrival->file->dir_fd, arrival->name);
	if (r < 0)
		return r;
	if (lseek(arrival->fd, 0, SEEK_END) < 0)
		return -errno;
	arrival->bytes = arrival->old_bytes = (uint64_t) status.st_size;
	arrival->resumed = true;
	return 0;
}

int arrival_open(const struct download_file *file, struct arrival *ret, struct error *error)
{
	struct arrival arrival = { .file = file, .fd = -1 };
	int r = file->sha256 ? open_shared(&arrival) : -EBUSY;

	if (r == -EBUSY)
		r = open_own(&arrival);
	if (r == 0)
		r = restart_hash(&arrival);
	if (r == 0 && arrival.stays)
		r = read_old(&arrival);
	if (r < 0) {
		r = failed(&arrival, r, error);
		arrival_close(&arrival, true);
		return r;
	}
	*ret = arrival;
	return 0;
}

int arrival_restart(struct arrival *arrival, struct error *error)
{
	int r = restart_hash(arrival);

	if (r == 0 && (ftruncate(arrival->fd, 0) < 0 || lseek(arrival->fd, 0, SEEK_SET) < 0))
		r = -errno;
	arrival->bytes = arrival->old_bytes = 0;
	arrival->resumed = false;
	return r < 0 ? failed(arrival, r, error) : 0;
}

int arrival_reserve(struct arrival *arrival, uint64_t size_bytes, struct error *error)
{
	if (size_bytes <= arrival->bytes)
		return 0;
	if (fallocate(arrival->fd, FALLOC_FL_KEEP_SIZE, (off_t) arrival->bytes,
		    (off_t) (size_bytes - arrival->bytes)) < 0 &&
		(errno == ENOSPC || errno == EDQUOT))
		return failed(arrival, -ENOSPC, error);
	/* A file system that cannot do that says so later. */
	return 0;
}

int arrival_check_length(const struct arrival *arrival, uint64_t bytes, struct error *error)
{
	const struct download_file *file = arrival->file;
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

int arrival_add(struct arrival *arrival, const void *data, size_t size, struct error *error)
{
	const char *from = data;
	int r = arrival_check_length(arrival, arrival->bytes + size, error);

	if (r < 0)
		return r;
	while (size) {
		ssize_t put = write(arrival->fd, from, size);

		if (put < 0 && errno == EINTR)
			continue;
		if (put < 0)
			return failed(arrival, -errno, error);
		if (arrival->hash)
			hash_add(arrival->hash, from, (size_t) put);
		arrival->bytes += (uint64_t) put;
		from += put;
		size -= (size_t) put;
	}
	return 0;
}

static int check_content(struct arrival *arrival, struct error *error)
{
	const struct download_file *file = arrival->file;
	char hex[HASH_HEX_SIZE];

	if (file->size_bytes && arrival->bytes != file->size_bytes)
		return error_set(error, -EBADMSG, "%llu bytes long instead of %llu",
			(unsigned long long) arrival->bytes, (unsigned long long) file->size_bytes);
	if (!arrival->hash)
		return 0;
	hash_finish(TAKE_PTR(arrival->hash), hex);
	if (strcmp(hex, file->sha256) == 0)
		return 0;
	return error_set(error, -EBADMSG, "its SHA-256 is %s, and %s is wanted", hex, file->sha256);
}

int arrival_finish(struct arrival *arrival, struct error *error)
{
	struct error ignored;
	int r = check_content(arrival, error);

	if (r < 0) {
		int restarted = arrival_restart(arrival, &ignored);

		return restarted < 0 ? restarted : r;
	}
	/* A crash must not leave a name that stands for nothing. */
	if (fdatasync(arrival->fd) < 0 || renameat(arrival->file->dir_fd, arrival->name,
						  arrival->file->dir_fd, arrival->file->path) < 0)
		return failed(arrival, -errno, error);
	free(TAKE_PTR(arrival->name));
	return 0;
}

bool arrival_is_whole(const struct arrival *arrival)
{
	return arrival->file->size_bytes && arrival->bytes == arrival->file->size_bytes;
}

void arrival_close(struct arrival *arrival, bool keep)
{
	char ignored[HASH_HEX_SIZE];

	if (arrival->hash)
		hash_finish(TAKE_PTR(arrival->hash), ignored);
	if (arrival->name && (!keep || !arrival->stays || arrival->bytes == 0))
		(void) unlinkat(arrival->file->dir_fd, arrival->name, 0);
	else if (arrival->name)
		(void) !ftruncate(arrival->fd, (off_t) arrival->bytes); /* gives back the rest */
	cleanup_close(&arrival->fd);
	free(arrival->name);
	*arrival = (struct arrival){ .fd = -1 };
}
