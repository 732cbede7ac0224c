/* SPDX-License-Identifier: Apache-2.0 */
#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/bundle/bundle.h"
#include "common/fs.h"
#include "common/hash.h"
#include "common/xalloc.h"
#include "kernels/archive/unpack.h"

/* ---- writing */

struct packing {
	const struct bundle_manifest *manifest;
	int folder_fd;
	struct archive *archive;
	void (*on_bytes)(void *context, uint64_t bytes, uint64_t of_bytes);
	void *context;
	uint64_t bytes;
	uint64_t of_bytes;
};

static void free_writer(struct archive **archive)
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
		out_of_memory();
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
	int r = write_header(packing, BUNDLE_MANIFEST, strlen(text), error);

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
	_cleanup_(free_writer) struct archive *archive = archive_write_new();
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
	_cleanup_free_ char *temporary = xasprintf("%s.%d.tmp", path, (int) getpid());
	struct stat status;
	int r;

	/* A rename would put a file where a device was. */
	if (stat(path, &status) == 0 && !S_ISREG(status.st_mode))
		return error_set(error, -EINVAL, "-o %s: there is something that is no file", path);
	for (size_t i = 0; i < manifest->file_count; i++)
		packing.of_bytes += manifest->files[i].size_bytes;
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

/* ---- reading */

struct unpacking {
	const char *path; /* of the bundle */
	int folder_fd;
	struct archive *archive;
	struct bundle_manifest *manifest;
	bool *seen; /* of each file of the manifest */
	void (*on_bytes)(void *context, uint64_t bytes, uint64_t of_bytes);
	void *context;
	uint64_t bytes;
	uint64_t of_bytes;
};

static void free_reader(struct archive **archive)
{
	(void) archive_read_free(*archive);
}

/* What libarchive says, in terms of what somebody can do about it. */
static int damaged(const struct unpacking *unpacking, struct error *error)
{
	return error_set(error, -EBADMSG,
		"%s: cut short or damaged after %llu bytes of its content: %s; copy it again and "
		"compare its SHA-256",
		unpacking->path, (unsigned long long) unpacking->bytes,
		archive_error_string(unpacking->archive));
}

static int check_entry(
	const struct unpacking *unpacking, struct archive_entry *entry, struct error *error)
{
	const char *path = archive_entry_pathname(entry);

	if (!path || unpack_leads_out(path))
		return error_set(error, -EXDEV, "%s: its entry %s leads out of the bundle",
			unpacking->path, path ? path : "without a name");
	if (archive_entry_filetype(entry) != AE_IFREG || archive_entry_hardlink(entry))
		return error_set(
			error, -EXDEV, "%s: its entry %s is no plain file", unpacking->path, path);
	return 0;
}

/* The first entry; anything else that is a tarball, or none, is no bundle. */
static int read_manifest(struct unpacking *unpacking, struct error *error)
{
	_cleanup_free_ char *text = xcalloc(1, BUNDLE_LIMIT_BYTES + 1);
	struct archive_entry *entry;
	size_t size = 0;
	ssize_t got;
	int r;

	if (archive_read_next_header(unpacking->archive, &entry) != ARCHIVE_OK ||
		!archive_entry_pathname(entry) ||
		strcmp(archive_entry_pathname(entry), BUNDLE_MANIFEST) != 0)
		return error_set(error, -EBADMSG,
			"%s: no bundle: it does not begin with " BUNDLE_MANIFEST
			"; `slipway bundle -o FILE KREL` makes one",
			unpacking->path);
	while ((got = archive_read_data(
			unpacking->archive, text + size, BUNDLE_LIMIT_BYTES - size)) > 0)
		size += (size_t) got;
	if (got < 0)
		return damaged(unpacking, error);
	if (size == BUNDLE_LIMIT_BYTES)
		return error_set(error, -EFBIG, "%s: its manifest is too long", unpacking->path);
	r = bundle_manifest_read(text, unpacking->manifest, error);
	return r < 0 ? error_prefix(error, r, "%s", unpacking->path) : 0;
}

static int open_below(const struct unpacking *unpacking, const char *path)
{
	_cleanup_free_ char *folder = xstrdup(path);
	char *slash = strrchr(folder, '/');
	int r = 0;

	if (slash) {
		*slash = '\0';
		r = fs_mkdir_parents(unpacking->folder_fd, folder, 0755);
	}
	if (r < 0)
		return r;
	r = openat(unpacking->folder_fd, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
		0644);
	return r < 0 ? -errno : r;
}

/* Never more than the manifest says, whatever comes. */
static int copy_content(struct unpacking *unpacking, const struct bundle_file *file, int fd,
	struct hash *hash, struct error *error)
{
	uint64_t size = 0;
	char buffer[65536];
	ssize_t got;

	while ((got = archive_read_data(unpacking->archive, buffer, sizeof(buffer))) > 0) {
		int r;

		size += (uint64_t) got;
		if (size > file->size_bytes)
			break;
		r = fs_write_all(fd, buffer, (size_t) got);
		if (r < 0)
			return error_set_errno(error, r == -EDQUOT ? -ENOSPC : r,
				"%s: unpacking %s into the cache", unpacking->path, file->path);
		hash_add(hash, buffer, (size_t) got);
		unpacking->bytes += (uint64_t) got;
		if (unpacking->on_bytes)
			unpacking->on_bytes(
				unpacking->context, unpacking->bytes, unpacking->of_bytes);
	}
	if (got < 0)
		return damaged(unpacking, error);
	if (size != file->size_bytes)
		return error_set(error, -EBADMSG,
			"%s: altered: %s has not the %llu bytes that its manifest names",
			unpacking->path, file->path, (unsigned long long) file->size_bytes);
	return 0;
}

static int unpack_file(
	struct unpacking *unpacking, const struct bundle_file *file, struct error *error)
{
	_cleanup_close_ int fd = open_below(unpacking, file->path);
	struct hash *hash = fd < 0 ? NULL : hash_new();
	char hex[HASH_HEX_SIZE];
	int r;

	if (!hash)
		return error_set_errno(
			error, fd < 0 ? fd : -ENOMEM, "%s: %s", unpacking->path, file->path);
	r = copy_content(unpacking, file, fd, hash, error);
	hash_finish(hash, hex);
	if (r == 0 && strcmp(hex, file->sha256) != 0)
		return error_set(error, -EBADMSG,
			"%s: altered: %s has the SHA-256 %s, and its manifest names %s",
			unpacking->path, file->path, hex, file->sha256);
	return r;
}

static int take_entry(struct unpacking *unpacking, struct archive_entry *entry, struct error *error)
{
	const char *path = archive_entry_pathname(entry);
	const struct bundle_file *file;
	int r = check_entry(unpacking, entry, error);

	if (r < 0)
		return r;
	file = bundle_find_file(unpacking->manifest, path);
	if (!file || unpacking->seen[file - unpacking->manifest->files])
		return error_set(error, -EBADMSG, "%s: altered: %s", unpacking->path,
			file ? "it has an entry twice"
			     : "it has an entry that its manifest does not");
	unpacking->seen[file - unpacking->manifest->files] = true;
	return unpack_file(unpacking, file, error);
}

static int take_entries(struct unpacking *unpacking, struct error *error)
{
	struct archive_entry *entry;
	int r = 0;

	while (r == 0) {
		int status = archive_read_next_header(unpacking->archive, &entry);

		if (status == ARCHIVE_EOF)
			break;
		r = status == ARCHIVE_OK ? take_entry(unpacking, entry, error)
					 : damaged(unpacking, error);
	}
	for (size_t i = 0; i < unpacking->manifest->file_count && r == 0; i++)
		if (!unpacking->seen[i])
			return error_set(error, -EBADMSG,
				"%s: cut short: %s is missing in it; copy it again",
				unpacking->path, unpacking->manifest->files[i].path);
	return r;
}

static int unpack(struct unpacking *unpacking, struct error *error)
{
	const struct bundle_manifest *manifest = unpacking->manifest;
	int r = read_manifest(unpacking, error);

	if (r < 0)
		return r;
	for (size_t i = 0; i < manifest->file_count; i++)
		unpacking->of_bytes += manifest->files[i].size_bytes;
	unpacking->seen = xcalloc(manifest->file_count + 1, sizeof(*unpacking->seen));
	r = take_entries(unpacking, error);
	free(unpacking->seen);
	return r;
}

int bundle_unpack(const char *path, int folder_fd, struct bundle_manifest *ret,
	void (*on_bytes)(void *context, uint64_t bytes, uint64_t of_bytes), void *context,
	struct error *error)
{
	_cleanup_(bundle_manifest_free) struct bundle_manifest manifest = { 0 };
	_cleanup_(free_reader) struct archive *archive = archive_read_new();
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct unpacking unpacking = {
		.path = path,
		.folder_fd = folder_fd,
		.archive = archive,
		.manifest = &manifest,
		.on_bytes = on_bytes,
		.context = context,
	};
	int r;

	if (fd < 0)
		return error_set_errno(error, -errno, "--bundle %s", path);
	if (!archive)
		out_of_memory();
	(void) archive_read_support_filter_zstd(archive);
	(void) archive_read_support_format_tar(archive);
	if (archive_read_open_fd(archive, fd, 65536) != ARCHIVE_OK)
		return error_set(error, -EBADMSG,
			"%s: no bundle, or one that is cut short: %s; copy it again and compare its "
			"SHA-256",
			path, archive_error_string(archive));
	r = unpack(&unpacking, error);
	if (r < 0)
		return r;
	*ret = manifest;
	manifest = (struct bundle_manifest){ 0 };
	return 0;
}
