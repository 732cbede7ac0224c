/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/support.h"

#include "common/fs.h"

int folder_make(void **state)
{
	struct folder *folder = calloc(1, sizeof(*folder));

	if (!folder)
		return -1;
	(void) snprintf(folder->path, sizeof(folder->path), "/tmp/slipway-unit-XXXXXX");
	if (!mkdtemp(folder->path)) {
		free(folder);
		return -1;
	}
	folder->fd = open(folder->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	*state = folder;
	return folder->fd < 0 ? -1 : 0;
}

int folder_remove(void **state)
{
	struct folder *folder = *state;
	int r = fs_remove_tree(AT_FDCWD, folder->path);

	cleanup_close(&folder->fd);
	free(folder);
	return r;
}

void folder_subfolder(const struct folder *folder, const char *path)
{
	assert_int_equal(fs_mkdir_parents(folder->fd, path, 0755), 0);
}

void folder_link(const struct folder *folder, const char *path, const char *target)
{
	assert_int_equal(symlinkat(target, folder->fd, path), 0);
}

void folder_write(const struct folder *folder, const char *path, const void *data, size_t size)
{
	_cleanup_free_ char *parent = strdup(path);
	_cleanup_close_ int fd = -1;
	char *slash;

	assert_non_null(parent);
	slash = strrchr(parent, '/');
	if (slash) {
		*slash = '\0';
		folder_subfolder(folder, parent);
	}
	fd = openat(folder->fd, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, data, size), (ssize_t) size);
}

void folder_write_text(const struct folder *folder, const char *path, const char *text)
{
	folder_write(folder, path, text, strlen(text));
}

char *folder_read_text(const struct folder *folder, const char *path)
{
	char *text = NULL;

	assert_int_equal(fs_read(folder->fd, path, 0, &text, NULL), 0);
	return text;
}

void folder_module(const struct folder *folder, const char *name, const char *references,
	const char *const *holders)
{
	char path[256];

	(void) snprintf(path, sizeof(path), "sys/module/%s/initstate", name);
	folder_write_text(folder, path, "live\n");
	(void) snprintf(path, sizeof(path), "sys/module/%s/refcnt", name);
	folder_write_text(folder, path, references);
	for (; holders && *holders; holders++) {
		(void) snprintf(path, sizeof(path), "sys/module/%s/holders/%s", name, *holders);
		folder_subfolder(folder, path);
	}
}

void assert_contains(const char *text, const char *part)
{
	if (!strstr(text, part))
		fail_msg("\"%s\" is not in \"%s\"", part, text);
}

struct capture capture_start(void)
{
	struct capture capture = { .before = dup(STDOUT_FILENO), .file = tmpfile() };

	assert_true(capture.before >= 0 && capture.file);
	(void) fflush(stdout);
	assert_true(dup2(fileno(capture.file), STDOUT_FILENO) >= 0);
	return capture;
}

char *capture_end(struct capture *capture)
{
	char *text = calloc(1, 65536);

	(void) fflush(stdout);
	assert_true(dup2(capture->before, STDOUT_FILENO) >= 0);
	assert_non_null(text);
	rewind(capture->file);
	(void) fread(text, 1, 65535, capture->file);
	(void) fclose(capture->file);
	cleanup_close(&capture->before);
	return text;
}
