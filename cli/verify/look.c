/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs and libraries of an image, read as they pass by in its layers: a driver's userspace has
 * 600 MB of them, of which the proof needs names.
 */
#include "cli/verify/verify_internal.h"

#include <elf.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/fs.h"
#include "common/xalloc.h"

#define FILE_SIZE_LIMIT ((la_int64_t) 512 << 20)
#define BLOCK_SIZE      65536

int verify_look_open(struct verify_look *look, const char *folder, struct error *error)
{
	*look = (struct verify_look){ .fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600) };
	if (look->fd < 0)
		look->fd = memfd_create("program", MFD_CLOEXEC);
	return look->fd < 0 ? error_set_errno(error, -errno, "%s", folder) : 0;
}

void verify_look_close(struct verify_look *look)
{
	image_files_free(&look->files);
	cleanup_close(&look->fd);
}

/* Copies the entry's content to look->fd. What does not begin as an ELF file has no more than that.
 */
static int copy(
	const struct verify_look *look, struct archive *reader, bool whole, struct error *error)
{
	_cleanup_free_ char *block = xcalloc(1, BLOCK_SIZE);
	size_t wanted = whole ? BLOCK_SIZE : SELFMAG;
	la_ssize_t got;
	int r;

	if (ftruncate(look->fd, 0) < 0 || lseek(look->fd, 0, SEEK_SET) < 0)
		return error_set_errno(error, -errno, "cannot be kept");
	while ((got = archive_read_data(reader, block, wanted)) > 0) {
		r = fs_write_all(look->fd, block, (size_t) got);
		if (r < 0)
			return error_set_errno(error, r, "cannot be kept");
		if (!whole && (got < SELFMAG || memcmp(block, ELFMAG, SELFMAG) != 0))
			return 0;
		whole = true;
		wanted = BLOCK_SIZE;
	}
	return got < 0 ? archive_input_damaged("a layer", reader, error) : 0;
}

static int look_at_file(struct verify_look *look, const char *path, struct archive_entry *entry,
	struct archive *reader, struct error *error)
{
	/* A text of the loader's has no magic. */
	bool is_text = strncmp(path, "etc/", 4) == 0;
	int r;

	/* No program is so large: data, which the image may need. */
	if (archive_entry_size(entry) > FILE_SIZE_LIMIT)
		return image_files_add(&look->files, path, S_IFREG, NULL, -1, error);
	r = copy(look, reader, is_text, error);
	return r < 0 ? error_prefix(error, r, "%s", path)
		     : image_files_add(&look->files, path, S_IFREG, NULL, look->fd, error);
}

int verify_look(
	void *context, struct archive_entry *entry, struct archive *reader, struct error *error)
{
	struct verify_look *look = context;
	const char *path = archive_input_path(entry);
	const char *hardlink = archive_input_hardlink(entry);
	_cleanup_free_ char *target = NULL;
	_cleanup_free_ char *name = NULL;
	mode_t type = archive_entry_filetype(entry);
	size_t length;

	if (!path || !image_files_want(path))
		return 0;
	/* Folders may end with a slash. A layer's whiteouts are read elsewhere. */
	length = strlen(path);
	name = xstrndup(path, length && path[length - 1] == '/' ? length - 1 : length);
	if (strstr(name, "/.wh."))
		return 0;
	if (hardlink)
		target = xasprintf("/%s", hardlink);
	else if (type == AE_IFLNK)
		target = xstrdup(archive_entry_symlink(entry) ? archive_entry_symlink(entry) : "");
	if (target)
		return image_files_add(&look->files, name, S_IFLNK, target, -1, error);
	if (type == AE_IFDIR)
		return image_files_add(&look->files, name, S_IFDIR, NULL, -1, error);
	return type == AE_IFREG ? look_at_file(look, name, entry, reader, error) : 0;
}
