/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/node_build/contents.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

#include "common/hash.h"
#include "common/fs.h"
#include "common/path.h"
#include "entrypoint/node_build/host_tree.h"

struct listing {
	int set_fd;
	FILE *out;
	bool settles; /* what is not root's alone becomes so, instead of being listed as such */
};

static int list_folder(const struct listing *listing, const char *folder);

/* A file that cannot be read to its end has another hash: that is a difference, too. */
static int list_file(const struct listing *listing, const char *path, const struct stat *status)
{
	return fprintf(listing->out, "f %016" PRIx64 " %jd %s\n",
		       host_file_hash(listing->set_fd, path), (intmax_t) status->st_size, path) < 0
		       ? -ENOMEM
		       : 0;
}

static int list_link(const struct listing *listing, const char *path)
{
	char target[PATH_MAX];
	ssize_t size = readlinkat(listing->set_fd, path, target, sizeof(target));

	if (size < 0)
		return 0;
	return fprintf(listing->out, "l %016" PRIx64 " %zd %s\n",
		       fnv64_bytes(FNV64_START, target, (size_t) size), size, path) < 0
		       ? -ENOMEM
		       : 0;
}

/* A source that was unpacked or copied with its owner and mode, say. */
static void settle(int set_fd, const char *path, struct stat *status)
{
	if (fchownat(set_fd, path, geteuid(), (gid_t) -1, AT_SYMLINK_NOFOLLOW) == 0 &&
		fchmodat(set_fd, path, status->st_mode & 0755, 0) == 0)
		(void) fstatat(set_fd, path, status, AT_SYMLINK_NOFOLLOW);
}

static int list_owned(const struct listing *listing, const char *path, const struct stat *status)
{
	return S_ISDIR(status->st_mode) ? list_folder(listing, path)
					: list_file(listing, path, status);
}

static int list_entry(const struct listing *listing, const char *path)
{
	struct stat status;

	if (fstatat(listing->set_fd, path, &status, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	if (S_ISLNK(status.st_mode))
		return list_link(listing, path);
	if (!S_ISDIR(status.st_mode) && !S_ISREG(status.st_mode))
		return 0;
	if (!is_owned(&status) && listing->settles)
		settle(listing->set_fd, path, &status);
	if (is_owned(&status))
		return list_owned(listing, path, &status);
	/* As no list that was written has it: a difference. */
	return fprintf(listing->out, "w - - %s\n", path) < 0 ? -ENOMEM : 0;
}

/* The times and the list itself change while a set is used. */
static bool is_own(const char *folder, const char *name)
{
	return strcmp(folder, ".") == 0 &&
	       (strcmp(name, CONTENTS_FILE) == 0 || strcmp(name, "inputs") == 0);
}

static int list_folder(const struct listing *listing, const char *folder)
{
	_cleanup_strv_ struct strv names = { 0 };
	bool top = strcmp(folder, ".") == 0;
	int r = fs_list(listing->set_fd, folder, &names);

	if (r < 0)
		return r == -ENOMEM ? r : 0;
	for (size_t i = 0; i < names.count && r == 0; i++) {
		char path[PATH_MAX];

		if (is_own(folder, names.items[i]))
			continue;
		(void) snprintf(path, sizeof(path), "%s%s%s", top ? "" : folder, top ? "" : "/",
			names.items[i]);
		r = list_entry(listing, path);
	}
	return r;
}

static int list_all(int set_fd, bool settles, char **ret_text, size_t *ret_size)
{
	const struct listing listing = {
		.set_fd = set_fd, .out = open_memstream(ret_text, ret_size), .settles = settles
	};
	int r = listing.out ? list_folder(&listing, ".") : -ENOMEM;

	if (listing.out && fclose(listing.out) != 0 && r == 0)
		r = -ENOMEM;
	return r;
}

int contents_write(int set_fd)
{
	_cleanup_free_ char *text = NULL;
	size_t size = 0;
	int r = list_all(set_fd, true, &text, &size);

	/* What cannot become root's alone: such a set would be damaged from its first day. */
	if (r == 0 && (strncmp(text, "w ", 2) == 0 || strstr(text, "\nw ")))
		return -EPERM;
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
	r = list_all(set_fd, false, &found, &size);
	if (r < 0)
		return error_set_errno(error, r, CONTENTS_FILE);
	if (strcmp(written, found) == 0)
		return 0;
	first_difference(written, found, path);
	return error_set(error, -EBADMSG, "%s is not what was written there", path);
}
