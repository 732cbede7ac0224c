/* SPDX-License-Identifier: Apache-2.0 */
/* A bundle as a file: a tarball whose first entry is the manifest. */
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/bundle/bundle.h"
#include "cli/image/output_place.h"
#include "common/fs.h"
#include "common/hash.h"
#include "common/xalloc.h"
#include "kernels/archive/pack.h"
#include "kernels/archive/unpack.h"

/* ---- writing */

static uint64_t all_bytes(const struct bundle_manifest *manifest)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < manifest->file_count; i++)
		bytes += manifest->files[i].size_bytes;
	return bytes;
}

static void show_bytes(
	struct progress *progress, const char *done, uint64_t bytes, uint64_t of_bytes)
{
	char text[128];

	if (!progress)
		return;
	(void) snprintf(text, sizeof(text), "%s%.1f of %.1f MB", done, (double) bytes / 1e6,
		(double) of_bytes / 1e6);
	progress_at(progress, text);
}

static int write_to(const struct bundle_manifest *manifest, const char *folder, const char *path,
	struct progress *progress, struct error *error)
{
	_cleanup_close_ int fd =
		open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
	_cleanup_(pack_free) struct pack *pack = NULL;
	_cleanup_free_ char *text = NULL;
	uint64_t bytes = 0, of_bytes = all_bytes(manifest);
	int r;

	if (fd < 0)
		return error_set_errno(error, -errno, "%s", path);
	if (of_bytes > UNPACK_LIMIT_BYTES)
		return error_set(error, -EFBIG,
			"the bundle would hold %.1f GB: slipway build unpacks %.1f GB at most",
			(double) of_bytes / 1e9, (double) UNPACK_LIMIT_BYTES / 1e9);
	pack = pack_new(fd);
	if (!pack)
		out_of_memory();
	text = bundle_manifest_write(manifest);
	r = pack_text(pack, BUNDLE_MANIFEST, text, strlen(text));
	if (r < 0)
		return error_set_errno(error, r, "%s", path);
	for (size_t i = 0; i < manifest->file_count; i++) {
		const struct bundle_file *file = &manifest->files[i];
		_cleanup_free_ char *from = xasprintf("%s/%s", folder, file->path);

		r = pack_file(pack, file->path, from);
		if (r < 0)
			return error_set_errno(error, r, "%s", path);
		bytes += file->size_bytes;
		show_bytes(progress, "", bytes, of_bytes);
	}
	r = pack_finish(pack);
	if (r == 0 && fsync(fd) < 0)
		r = -errno;
	return r < 0 ? error_set_errno(error, r, "%s", path) : 0;
}

int bundle_pack(const struct bundle_manifest *manifest, const char *folder, const char *path,
	struct progress *progress, char *ret_sha256, struct error *error)
{
	_cleanup_free_ char *temporary = output_temporary(path);
	struct stat status;
	int r;

	if (!temporary)
		return error_set_errno(error, -ENOMEM, "--output %s", path);
	/* A rename would put a file where a device was. */
	if (stat(path, &status) == 0 && !S_ISREG(status.st_mode))
		return error_set(
			error, -EINVAL, "--output %s: it exists and is not a regular file", path);
	r = write_to(manifest, folder, temporary, progress, error);
	if (r < 0) {
		(void) unlink(temporary);
		return r;
	}
	r = hash_file(AT_FDCWD, temporary, ret_sha256);
	if (r == 0 && rename(temporary, path) < 0)
		r = -errno;
	if (r == 0)
		return 0;
	(void) unlink(temporary);
	return error_set_errno(error, r, "%s", path);
}

/* ---- reading */

struct unpacking {
	const struct bundle_manifest *manifest;
	const struct bundle_target *target; /* NULL: any */
	bool *seen;                         /* of each of its files */
	const char *odd;                    /* what is wrong with an entry; NULL: nothing so far */
};

static bool is_read(const struct unpacking *unpacking, const char *path)
{
	return !unpacking->target || bundle_target_reads(unpacking->target, path);
}

/* Also accepts paths that lead out of the folder, so that unpack_run() refuses them. */
static bool is_wanted(void *context, const char *path)
{
	struct unpacking *unpacking = context;
	size_t index = bundle_find_file(unpacking->manifest, path);

	if (unpack_leads_out(path))
		return true;
	if (strcmp(path, BUNDLE_MANIFEST) == 0)
		return false;
	if (index == unpacking->manifest->file_count) {
		unpacking->odd = "it has an entry that its manifest does not";
		return false;
	}
	if (unpacking->seen[index])
		unpacking->odd = "it has an entry twice";
	unpacking->seen[index] = true;
	return is_read(unpacking, path);
}

static int check_file(
	const char *bundle, int folder_fd, const struct bundle_file *file, struct error *error)
{
	struct stat status = { 0 };
	char hex[HASH_HEX_SIZE];
	int r;

	if (fstatat(folder_fd, file->path, &status, AT_SYMLINK_NOFOLLOW) < 0)
		return error_set_errno(error, -errno, "%s: %s", bundle, file->path);
	if (!S_ISREG(status.st_mode))
		return error_set(
			error, -EXDEV, "%s: its entry %s is no plain file", bundle, file->path);
	if ((uint64_t) status.st_size != file->size_bytes)
		return error_set(error, -EBADMSG,
			"%s: altered: %s has not the %llu bytes that its manifest names", bundle,
			file->path, (unsigned long long) file->size_bytes);
	r = hash_file(folder_fd, file->path, hex);
	if (r < 0)
		return error_set_errno(error, r, "%s: %s", bundle, file->path);
	if (strcmp(hex, file->sha256) != 0)
		return error_set(error, -EBADMSG,
			"%s: altered: %s has the SHA-256 %s, and its manifest names %s", bundle,
			file->path, hex, file->sha256);
	return 0;
}

/* @unpacking has what unpack_run() found. */
static int check_files(const char *bundle, const char *folder, const struct unpacking *unpacking,
	struct progress *progress, struct error *error)
{
	_cleanup_close_ int folder_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const struct bundle_manifest *manifest = unpacking->manifest;
	uint64_t bytes = 0, of_bytes = all_bytes(manifest);

	if (folder_fd < 0)
		return error_set_errno(error, -errno, "%s", folder);
	if (unpacking->odd)
		return error_set(error, -EBADMSG, "%s: altered: %s", bundle, unpacking->odd);
	for (size_t i = 0; i < manifest->file_count; i++) {
		const struct bundle_file *file = &manifest->files[i];
		bool unpacked = unpacking->seen[i] && is_read(unpacking, file->path);
		int r = unpacked ? check_file(bundle, folder_fd, file, error) : 0;

		if (r < 0)
			return r;
		bytes += file->size_bytes;
		show_bytes(progress, "checked ", bytes, of_bytes);
	}
	for (size_t i = 0; i < manifest->file_count; i++)
		if (!unpacking->seen[i])
			return error_set(error, -EBADMSG,
				"%s: cut short: %s is missing in it; copy it again", bundle,
				manifest->files[i].path);
	return 0;
}

/* Refuses the bundle as damaged, with the message of the reader that failed. */
static int refuse_damaged(const struct error *found, struct error *error)
{
	*error = *found;
	return error_try(
		error, -EBADMSG, "compare its SHA-256 with the one that slipway bundle printed");
}

int bundle_open(const char *path, struct bundle_manifest *ret, struct error *error)
{
	struct error found = { 0 };
	_cleanup_free_ char *text = NULL;
	size_t size;
	int r = archive_member_read(
		path, BUNDLE_MANIFEST, BUNDLE_LIMIT_BYTES, &text, &size, &found);

	*ret = (struct bundle_manifest){ 0 };
	if (r == -ENOENT || (r == -EBADMSG && !archive_looks_damaged(path)))
		return error_try(error,
			error_set(
				error, -EBADMSG, "%s: no bundle: it has no " BUNDLE_MANIFEST, path),
			"slipway bundle -o FILE KREL makes one");
	if (r == -EBADMSG)
		return refuse_damaged(&found, error);
	if (r < 0) {
		*error = found;
		return r;
	}
	r = bundle_manifest_read(text, ret, error);
	return r < 0 ? error_prefix(error, r, "%s", path) : 0;
}

int bundle_unpack(const char *path, const struct bundle_manifest *manifest,
	const struct bundle_target *target, const char *folder, struct progress *progress,
	struct error *error)
{
	_cleanup_free_ bool *seen = xcalloc(manifest->file_count + 1, sizeof(bool));
	struct unpacking unpacking = { .manifest = manifest, .target = target, .seen = seen };
	const struct unpack unpack = {
		.folder = folder,
		.wanted = is_wanted,
		.context = &unpacking,
	};
	struct error found = { 0 };
	int r = unpack_run(&unpack, AT_FDCWD, path, &found);

	if (r == -EBADMSG)
		return refuse_damaged(&found, error);
	if (r < 0) {
		*error = found;
		return r;
	}
	return check_files(path, folder, &unpacking, progress, error);
}
