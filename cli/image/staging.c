/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/image/staging.h"

#include <fcntl.h>
#include <string.h>

#include "common/fs.h"
#include "common/xalloc.h"

int staging_open(struct staging *ret, const char *path, struct error *error)
{
	int r = fs_mkdir_parents(AT_FDCWD, path, 0755);

	*ret = (struct staging){ .fd = -1, .path = xstrdup(path), .error = error };
	if (r == 0)
		ret->fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (ret->fd < 0)
		ret->result = error_set_errno(error, r < 0 ? r : -errno, "%s", path);
	return ret->result;
}

void staging_close(struct staging *staging)
{
	cleanup_close(&staging->fd);
	free(staging->path);
	*staging = (struct staging){ .fd = -1 };
}

int staging_fail(struct staging *staging, int code, const char *what)
{
	if (staging->result == 0)
		staging->result = error_set_errno(staging->error, code, "%s", what);
	return staging->result;
}

/* @found: what is not there is left out. */
static void copy(struct staging *staging, const char *to, bool found, const char *from_format,
	va_list arguments)
{
	_cleanup_free_ char *from = xvasprintf(from_format, arguments);
	int r;

	if (staging->result < 0 || (found && !fs_exists(AT_FDCWD, from)))
		return;
	r = copy_tree(AT_FDCWD, from, staging->fd, to);
	if (r < 0)
		(void) staging_fail(staging, r, from);
}

void staging_copy(struct staging *staging, const char *to, const char *from_format, ...)
{
	va_list arguments;

	va_start(arguments, from_format);
	copy(staging, to, false, from_format, arguments);
	va_end(arguments);
}

void staging_copy_found(struct staging *staging, const char *to, const char *from_format, ...)
{
	va_list arguments;

	va_start(arguments, from_format);
	copy(staging, to, true, from_format, arguments);
	va_end(arguments);
}

static void make_parents(struct staging *staging, const char *path)
{
	_cleanup_free_ char *folder = xstrdup(path);
	char *slash = strrchr(folder, '/');

	if (slash) {
		*slash = '\0';
		staging_mkdir(staging, folder);
	}
}

void staging_copy_apart(struct staging *staging, const char *to, const char *from)
{
	int r;

	make_parents(staging, to);
	r = staging->result == 0 ? copy_apart(AT_FDCWD, from, staging->fd, to) : 0;
	if (r < 0)
		(void) staging_fail(staging, r, from);
}

void staging_mkdir(struct staging *staging, const char *path)
{
	int r = staging->result == 0 ? fs_mkdir_parents(staging->fd, path, 0755) : 0;

	if (r < 0)
		(void) staging_fail(staging, r, path);
}

void staging_link(struct staging *staging, const char *to, const char *path)
{
	make_parents(staging, path);
	if (staging->result == 0 && symlinkat(to, staging->fd, path) < 0)
		(void) staging_fail(staging, -errno, path);
}

void staging_write(struct staging *staging, const char *path, const void *data, size_t size)
{
	int r;

	make_parents(staging, path);
	/* An existing file may be a link into another folder: replace it. */
	r = staging->result == 0 ? fs_write_atomic(staging->fd, path, data, size, 0644) : 0;
	if (r < 0)
		(void) staging_fail(staging, r, path);
}

void staging_write_lines(struct staging *staging, const char *path, const struct strv *lines)
{
	_cleanup_free_ char *joined = xstrv_join(lines, "\n");
	_cleanup_free_ char *text = xasprintf("%s%s", joined, lines->count ? "\n" : "");

	staging_write(staging, path, text, strlen(text));
}
