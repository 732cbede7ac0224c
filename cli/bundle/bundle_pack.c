/* SPDX-License-Identifier: Apache-2.0 */
#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/bundle/bundle_archive.h"
#include "common/hash.h"

struct packing {
	const struct bundle_manifest *manifest;
	int folder_fd;
	struct archive *archive;
	void (*on_bytes)(void *context, uint64_t bytes, uint64_t of_bytes);
	void *context;
	uint64_t bytes;
	uint64_t of_bytes;
};

static void free_archive(struct archive **archive)
{
	(void) archive_write_free(*archive);
}

static void free_entry(struct archive_entry **entry)
{
	archive_entry_free(*entry);
}

/* libarchive keeps the errno of what it could not write, as of a disk that is full. */
static int write_failed(const struct packing *packing, const char *path, struct error *error)
{
	int code = archive_errno(packing->archive);

	if (code == ENOSPC || code == EDQUOT)
		return error_set(
			error, -ENOSPC, "%s: no space is left on the disk of the bundle", path);
	return error_set(error, -EIO, "%s: %s", path, archive_error_string(packing->archive));
}

static int write_header(
	struct packing *packing, const char *path, uint64_t size_bytes, struct error *error)
{
	_cleanup_(free_entry) struct archive_entry *entry = archive_entry_new();

	if (!entry)
		return error_set_errno(error, -ENOMEM, "%s", path);
	archive_entry_set_pathname(entry, path);
	archive_entry_set_filetype(entry, AE_IFREG);
	archive_entry_set_perm(entry, 0644);
	archive_entry_set_size(entry, (la_int64_t) size_bytes);
	archive_entry_set_mtime(entry, 0, 0);
	return archive_write_header(packing->archive, entry) == ARCHIVE_OK
		       ? 0
		       : write_failed(packing, path, error);
}

static int write_data(struct packing *packing, const char *path, const void *data, size_t size,
	struct error *error)
{
	const char *from = data;

	while (size) {
		ssize_t put = archive_write_data(packing->archive, from, size);

		if (put <= 0)
			return write_failed(packing, path, error);
		from += put;
		size -= (size_t) put;
	}
	return 0;
}

static int pack_file(struct packing *packing, const struct bundle_file *file, struct error *error)
{
	_cleanup_close_ int fd = openat(packing->folder_fd, file->path, O_RDONLY | O_CLOEXEC);
	uint64_t left = file->size_bytes;
	char buffer[65536];
	int r = fd < 0 ? error_set_errno(error, -errno, "%s", file->path)
		       : write_header(packing, file->path, left, error);

	while (r == 0 && left) {
		ssize_t got = read(fd, buffer, left < sizeof(buffer) ? left : sizeof(buffer));

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return error_set_errno(error, got < 0 ? -errno : -EIO, "%s", file->path);
		r = write_data(packing, file->path, buffer, (size_t) got, error);
		left -= (uint64_t) got;
		packing->bytes += (uint64_t) got;
		if (packing->on_bytes)
			packing->on_bytes(packing->context, packing->bytes, packing->of_bytes);
	}
	return r;
}

static int pack_all(struct packing *packing, struct error *error)
{
	_cleanup_free_ char *text = bundle_manifest_write(packing->manifest);
	int r;

	if (!text)
		return error_set_errno(error, -ENOMEM, "manifest");
	r = write_header(packing, BUNDLE_MANIFEST, strlen(text), error);
	if (r == 0)
		r = write_data(packing, BUNDLE_MANIFEST, text, strlen(text), error);
	for (size_t i = 0; i < packing->manifest->file_count && r == 0; i++)
		r = pack_file(packing, &packing->manifest->files[i], error);
	if (r == 0 && archive_write_close(packing->archive) != ARCHIVE_OK)
		r = write_failed(packing, BUNDLE_MANIFEST, error);
	return r;
}

static int write_to(struct packing *packing, const char *path, struct error *error)
{
	_cleanup_(free_archive) struct archive *archive = archive_write_new();
	_cleanup_close_ int fd =
		open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
	int r;

	if (fd < 0)
		return error_set_errno(error, -errno, "%s", path);
	packing->archive = archive;
	/* Downloads are compressed already, images are not: a quick level does for both. */
	if (!archive || archive_write_set_format_pax_restricted(archive) != ARCHIVE_OK ||
		archive_write_add_filter_zstd(archive) != ARCHIVE_OK ||
		archive_write_set_filter_option(archive, "zstd", "compression-level", "3") !=
			ARCHIVE_OK ||
		archive_write_open_fd(archive, fd) != ARCHIVE_OK)
		return error_set_errno(error, -ENOMEM, "%s", path);
	r = pack_all(packing, error);
	return r == 0 && fsync(fd) < 0 ? error_set_errno(error, -errno, "%s", path) : r;
}

static int hash_file(const char *path, char *ret_sha256)
{
	struct hash *hash = hash_new();
	int r;

	if (!hash)
		return -ENOMEM;
	r = hash_add_file(hash, AT_FDCWD, path);
	hash_finish(hash, ret_sha256);
	return r;
}

int bundle_pack(const struct bundle_manifest *manifest, int folder_fd, const char *path,
	void (*on_bytes)(void *context, uint64_t bytes, uint64_t of_bytes), void *context,
	char *ret_sha256, struct error *error)
{
	struct packing packing = {
		.manifest = manifest,
		.folder_fd = folder_fd,
		.on_bytes = on_bytes,
		.context = context,
	};
	_cleanup_free_ char *temporary = NULL;
	struct stat status;
	int r;

	/* A rename would put a file where a device was. */
	if (stat(path, &status) == 0 && !S_ISREG(status.st_mode))
		return error_set(error, -EINVAL, "-o %s: there is something that is no file", path);
	for (size_t i = 0; i < manifest->file_count; i++)
		packing.of_bytes += manifest->files[i].size_bytes;
	if (asprintf(&temporary, "%s.%d.tmp", path, (int) getpid()) < 0)
		return error_set_errno(error, -ENOMEM, "%s", path);
	r = write_to(&packing, temporary, error);
	if (r == 0) {
		r = hash_file(temporary, ret_sha256);
		if (r == 0 && rename(temporary, path) < 0)
			r = -errno;
		if (r < 0)
			(void) error_set_errno(error, r, "%s", path);
	}
	if (r < 0)
		(void) unlink(temporary);
	return r;
}
