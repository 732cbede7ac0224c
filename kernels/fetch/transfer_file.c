/* SPDX-License-Identifier: Apache-2.0 */
/* file: URLs, in both forms that apt's sources know: "file:/path" and "file:///path". */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "kernels/fetch/transfer.h"

bool transfer_is_file(const char *url)
{
	return strncasecmp(url, "file:", 5) == 0;
}

static int hex_digit(char c)
{
	static const char digits[] = "0123456789abcdef";
	const char *found = c ? strchr(digits, c | 0x20) : NULL;

	return found ? (int) (found - digits) : -1;
}

/* The path of a URL, RFC 8089; %XX becomes a byte, but for the one that would end the name. */
static char *path_of(const char *url)
{
	const char *from = url + strlen("file:");
	char *path, *to;

	if (strncmp(from, "//localhost/", 12) == 0)
		from += 11;
	else if (strncmp(from, "//", 2) == 0)
		from += 2;
	path = to = calloc(1, strlen(from) + 1);
	if (!path)
		return NULL;
	while (*from) {
		int high = from[0] == '%' ? hex_digit(from[1]) : -1;
		int low = high >= 0 ? hex_digit(from[2]) : -1;

		if (low >= 0 && (high || low)) {
			*to++ = (char) (high << 4 | low);
			from += 3;
		} else {
			*to++ = *from++;
		}
	}
	return path;
}

/* The file's identity stands in for an ETag, so that a list that did not change is not read. */
static int note_entity(struct download_file *file, const struct stat *status)
{
	return asprintf(&file->new_etag, "\"%llx-%llx-%llx.%lx\"",
		       (unsigned long long) status->st_ino, (unsigned long long) status->st_size,
		       (unsigned long long) status->st_ctim.tv_sec,
		       (unsigned long) status->st_ctim.tv_nsec) < 0
		       ? -ENOMEM
		       : 0;
}

static int copy(struct arrival *arrival, int fd, struct error *error)
{
	char buffer[65536];

	for (;;) {
		ssize_t got = read(fd, buffer, sizeof(buffer));
		int r;

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return error_set_errno(error, -errno, "cannot be read");
		if (got == 0)
			return 0;
		r = arrival_add(arrival, buffer, (size_t) got, error);
		if (r < 0)
			return r;
	}
}

static int open_failed(int code, struct error *error)
{
	if (code == -ENOENT || code == -ENOTDIR)
		return error_set(error, -EADDRNOTAVAIL, "no such file");
	return error_set_errno(error, code, "cannot be opened");
}

int transfer_read_file(struct transfer *transfer, struct error *error)
{
	struct download_file *file = transfer->file;
	_cleanup_free_ char *path = path_of(file->url);
	_cleanup_close_ int fd = path ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
	struct stat status;
	int r;

	if (fd < 0)
		return open_failed(path ? -errno : -ENOMEM, error);
	if (path[0] != '/')
		return error_set(error, -EINVAL, "a file: URL needs an absolute path");
	if (fstat(fd, &status) < 0 || !S_ISREG(status.st_mode))
		return error_set(error, -EADDRNOTAVAIL, "no regular file");
	r = note_entity(file, &status);
	if (r < 0)
		return error_set_errno(error, r, "cannot be read");
	if (file->etag && strcmp(file->etag, file->new_etag) == 0) {
		file->not_modified = true;
		return 0;
	}
	r = arrival_restart(&transfer->arrival, error);
	if (r == 0)
		r = arrival_check_length(&transfer->arrival, (uint64_t) status.st_size, error);
	if (r == 0)
		r = arrival_reserve(&transfer->arrival, (uint64_t) status.st_size, error);
	if (r == 0)
		r = copy(&transfer->arrival, fd, error);
	transfer->received_bytes += transfer->arrival.bytes;
	return r < 0 ? r : arrival_finish(&transfer->arrival, error);
}
