/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/archive/archive_input.h"

#include <fcntl.h>
#include <stdbool.h>
#include <string.h>

#include "common/strv.h"

#define BLOCK_BYTES ((size_t) 128 << 10)

int archive_input_kind(int dir_fd, const char *path, enum archive_kind *ret_kind)
{
	static const char deb[] = "!<arch>\ndebian-binary";
	static const char rpm[] = "\xed\xab\xee\xdb";
	_cleanup_close_ int fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC);
	char start[sizeof(deb)];
	ssize_t size;

	if (fd < 0)
		return -errno;
	size = read(fd, start, sizeof(start));
	if (size < 0)
		return -errno;
	if (size >= (ssize_t) strlen(deb) && memcmp(start, deb, strlen(deb)) == 0)
		*ret_kind = ARCHIVE_KIND_DEB;
	else if (size >= (ssize_t) strlen(rpm) && memcmp(start, rpm, strlen(rpm)) == 0)
		*ret_kind = ARCHIVE_KIND_RPM;
	else
		*ret_kind = ARCHIVE_KIND_TAR;
	return 0;
}

int archive_input_damaged(const char *name, struct archive *archive, struct error *error)
{
	const char *why = archive_error_string(archive);

	return error_set(
		error, -EBADMSG, "%s: cannot be unpacked: %s", name, why ? why : "damaged");
}

const char *archive_input_path(struct archive_entry *entry)
{
	const char *path = archive_entry_pathname(entry);

	while (path && path[0] == '.' && path[1] == '/')
		path += 2 + strspn(path + 2, "/");
	return path;
}

static la_ssize_t read_outer(struct archive *archive, void *context, const void **ret_block)
{
	struct archive_input *input = context;

	(void) archive;
	*ret_block = input->block;
	return archive_read_data(input->outer, input->block, sizeof(input->block));
}

static void support_filters(struct archive *reader)
{
	(void) archive_read_support_filter_gzip(reader);
	(void) archive_read_support_filter_bzip2(reader);
	(void) archive_read_support_filter_xz(reader);
	(void) archive_read_support_filter_lzma(reader);
	(void) archive_read_support_filter_zstd(reader);
}

/*
 * The member that a link in the archive stands for: older versions of docker save write a layer
 * that two images share once, and "../<id>/layer.tar" elsewhere. NULL when it leads out, or without
 * memory.
 */
static char *resolve_link(const char *member, const char *target)
{
	_cleanup_strv_ struct strv parts = { 0 };
	_cleanup_strv_ struct strv steps = { 0 };
	int r = strv_split(&parts, member, "/");

	if (r < 0 || parts.count == 0 || *target == '/' || strv_split(&steps, target, "/") < 0)
		return NULL;
	strv_remove(&parts, parts.count - 1);
	for (size_t i = 0; i < steps.count && r == 0; i++) {
		if (strcmp(steps.items[i], "..") == 0 && parts.count == 0)
			return NULL;
		if (strcmp(steps.items[i], "..") == 0)
			strv_remove(&parts, parts.count - 1);
		else if (strcmp(steps.items[i], ".") != 0)
			r = strv_push(&parts, steps.items[i]);
	}
	return r < 0 ? NULL : strv_join(&parts, "/");
}

/*
 * Moves the outer archive to the member; @prefix: its name only starts so. *ret_link is what to
 * look for instead where it is a link, freed by the caller.
 */
static int find_member(struct archive_input *input, const char *path, const char *member,
	bool prefix, char **ret_link, struct error *error)
{
	struct archive_entry *entry;
	int r;

	while ((r = archive_read_next_header(input->outer, &entry)) >= ARCHIVE_WARN &&
		r != ARCHIVE_EOF) {
		const char *name = archive_input_path(entry);

		if (!name || (prefix ? strncmp(name, member, strlen(member))
				     : strcmp(name, member)) != 0)
			continue;
		if (!archive_entry_symlink(entry))
			return 0;
		*ret_link = resolve_link(member, archive_entry_symlink(entry));
		return *ret_link ? 0
				 : error_set(error, -EXDEV, "%s: %s -> %s leads out of the archive",
					   path, member, archive_entry_symlink(entry));
	}
	if (r != ARCHIVE_EOF)
		return archive_input_damaged(path, input->outer, error);
	return error_set(error, prefix ? -EBADMSG : -ENOENT, "%s: it has no %s%s", path, member,
		prefix ? ": it is no Debian package" : "");
}

static int open_inner(struct archive_input *input, enum archive_kind kind, const char *path,
	const char *member, char **ret_link, struct error *error)
{
	int r;

	if (kind == ARCHIVE_KIND_DEB) {
		(void) archive_read_support_format_ar(input->outer);
	} else {
		support_filters(input->outer);
		(void) archive_read_support_format_tar(input->outer);
	}
	if (archive_read_open_fd(input->outer, input->fd, BLOCK_BYTES) < ARCHIVE_WARN)
		return archive_input_damaged(path, input->outer, error);
	r = find_member(input, path, member ? member : "data.tar", !member, ret_link, error);
	if (r < 0 || *ret_link)
		return r;
	if (archive_read_open(input->reader, input, NULL, read_outer, NULL) < ARCHIVE_WARN)
		return archive_input_damaged(path, input->reader, error);
	return 0;
}

static int open_input(struct archive_input *input, enum archive_kind kind, int dir_fd,
	const char *path, const char *member, char **ret_link, struct error *error)
{
	bool nested = kind == ARCHIVE_KIND_DEB || member;

	*input = (struct archive_input){ .fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC) };
	if (input->fd < 0)
		return error_set_errno(error, -errno, "%s", path);
	input->reader = archive_read_new();
	input->outer = nested ? archive_read_new() : NULL;
	if (!input->reader || (nested && !input->outer))
		return error_set_errno(error, -ENOMEM, "%s", path);
	support_filters(input->reader);
	if (kind == ARCHIVE_KIND_RPM) {
		(void) archive_read_support_filter_rpm(input->reader);
		(void) archive_read_support_format_cpio(input->reader);
	} else {
		(void) archive_read_support_format_tar(input->reader);
	}
	if (nested)
		return open_inner(input, kind, path, member, ret_link, error);
	if (archive_read_open_fd(input->reader, input->fd, BLOCK_BYTES) < ARCHIVE_WARN)
		return archive_input_damaged(path, input->reader, error);
	return 0;
}

int archive_input_open(struct archive_input *input, enum archive_kind kind, int dir_fd,
	const char *path, const char *member, struct error *error)
{
	_cleanup_free_ char *link = NULL;
	_cleanup_free_ char *further = NULL;
	int r = open_input(input, kind, dir_fd, path, member, &link, error);

	if (r < 0 || !link)
		return r;
	/* What it leads to may lie before it: from the beginning again. */
	archive_input_close(input);
	r = open_input(input, kind, dir_fd, path, link, &further, error);
	if (r == 0 && further)
		r = error_set(error, -EBADMSG, "%s: %s is a link to a link", path, member);
	return r;
}

void archive_input_close(struct archive_input *input)
{
	if (input->reader)
		(void) archive_read_free(input->reader);
	if (input->outer)
		(void) archive_read_free(input->outer);
	cleanup_close(&input->fd);
	*input = (struct archive_input){ .fd = -1 };
}
