/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/nodebuild/contents.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

#include "common/fnv.h"
#include "common/fs.h"
#include "entrypoint/nodebuild/host_tree.h"

static int list_folder(int set_fd, const char *folder, FILE *out);

/* A file that cannot be read to its end has another hash: that is a difference, too. */
static int list_file(int set_fd, const char *path, const struct stat *status, FILE *out)
{
	return fprintf(out, "f %016" PRIx64 " %jd %s\n", host_file_hash(set_fd, path),
		       (intmax_t) status->st_size, path) < 0
		       ? -ENOMEM
		       : 0;
}

static int list_link(int set_fd, const char *path, FILE *out)
{
	char target[PATH_MAX];
	ssize_t size = readlinkat(set_fd, path, target, sizeof(target));

	if (size < 0)
		return 0;
	return fprintf(out, "l %016" PRIx64 " %zd %s\n",
		       fnv64_bytes(FNV64_START, target, (size_t) size), size, path) < 0
		       ? -ENOMEM
		       : 0;
}

static int list_entry(int set_fd, const char *path, FILE *out)
{
	struct stat status;

	if (fstatat(set_fd, path, &status, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	if (S_ISDIR(status.st_mode))
		return list_folder(set_fd, path, out);
	if (S_ISREG(status.st_mode))
		return list_file(set_fd, path, &status, out);
	return S_ISLNK(status.st_mode) ? list_link(set_fd, path, out) : 0;
}

/* The times and the list itself change while a set is used. */
static bool is_own(const char *folder, const char *name)
{
	return strcmp(folder, ".") == 0 &&
	       (strcmp(name, CONTENTS_FILE) == 0 || strcmp(name, "inputs") == 0);
}

static int list_folder(int set_fd, const char *folder, FILE *out)
{
	_cleanup_strv_ struct strv names = { 0 };
	bool top = strcmp(folder, ".") == 0;
	int r = fs_list(set_fd, folder, &names);

	if (r < 0)
		return r == -ENOMEM ? r : 0;
	for (size_t i = 0; i < names.count && r == 0; i++) {
		char path[PATH_MAX];

		if (is_own(folder, names.items[i]))
			continue;
		(void) snprintf(path, sizeof(path), "%s%s%s", top ? "" : folder, top ? "" : "/",
			names.items[i]);
		r = list_entry(set_fd, path, out);
	}
	return r;
}

static int list_all(int set_fd, char **ret_text, size_t *ret_size)
{
	FILE *out = open_memstream(ret_text, ret_size);
	int r = out ? list_folder(set_fd, ".", out) : -ENOMEM;

	if (out && fclose(out) != 0 && r == 0)
		r = -ENOMEM;
	return r;
}

int contents_write(int set_fd)
{
	_cleanup_free_ char *text = NULL;
	size_t size = 0;
	int r = list_all(set_fd, &text, &size);

	return r < 0 ? r : fs_write_atomic(set_fd, CONTENTS_FILE, text, size, 0644);
}

/* The path on the first line in which the two differ, of whichever has one there. */
static void first_difference(const char *written, const char *found, char path[256])
{
	const char *line;

	while (*written && *found) {
		size_t length = strcspn(written, "\n");

		if (strncmp(written, found, length + 1) != 0)
			break;
		written += length + (written[length] == '\n');
		found += length + (found[length] == '\n');
	}
	line = *written ? written : found;
	for (int field = 0; field < 3 && line[strcspn(line, " \n")] == ' '; field++)
		line += strcspn(line, " ") + 1;
	(void) snprintf(path, 256, "%.*s", (int) strcspn(line, "\n"), line);
}

int contents_check(int set_fd, struct error *error)
{
	_cleanup_free_ char *written = NULL;
	_cleanup_free_ char *found = NULL;
	char path[256];
	size_t size = 0;
	int r = fs_read(set_fd, CONTENTS_FILE, 0, &written, NULL);

	if (r < 0)
		return error_set_errno(error, r, CONTENTS_FILE);
	r = list_all(set_fd, &found, &size);
	if (r < 0)
		return error_set_errno(error, r, CONTENTS_FILE);
	if (strcmp(written, found) == 0)
		return 0;
	first_difference(written, found, path);
	return error_set(error, -EBADMSG, "%s is not what was written there", path);
}
