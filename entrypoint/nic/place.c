/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/nic/place.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "common/fnv.h"
#include "common/fs.h"
#include "entrypoint/nic/label.h"

#define KEPT ".slipway-kept"
#define NEW  ".slipway-new"

/* Of a file that somebody else may have written to. */
#define CONTENT_LIMIT (4UL << 20)

static int name_place(struct place *place)
{
	const struct hostfiles *files = place->files;
	const char *slash = strrchr(place->path, '/');
	size_t length = strlen(files->memory_folder) + 1;
	int size;

	size = snprintf(place->folder, sizeof(place->folder), "%.*s",
		slash ? (int) (slash - place->path) : 1, slash ? place->path : ".");
	if (size < PATH_MAX)
		size = snprintf(
			place->kept, sizeof(place->kept), "%.*s%s", PATH_MAX, place->path, KEPT);
	if (size < PATH_MAX)
		size = snprintf(place->memory, sizeof(place->memory), "%s/%s", files->memory_folder,
			place->path);
	if (size >= PATH_MAX || length >= PATH_MAX)
		return -ENAMETOOLONG;
	for (char *c = place->memory + length; *c; c++)
		if (*c == '/')
			*c = '-';
	return 0;
}

static enum place_state state_of_link(const struct place *place)
{
	char target[PATH_MAX];
	ssize_t size = readlinkat(place->files->root_fd, place->path, target, sizeof(target) - 1);

	if (size < 0)
		return PLACE_FOREIGN;
	target[size] = '\0';
	if (*target == '/' && strcmp(target + 1, place->memory) == 0)
		return PLACE_OURS;
	return strcmp(target, "/dev/null") == 0 ? PLACE_MASKED : PLACE_FOREIGN;
}

int place_look(
	struct place *place, const struct hostfiles *files, const char *path, struct error *error)
{
	struct stat status;

	*place = (struct place){ .files = files, .path = path, .state = PLACE_EMPTY };
	if (name_place(place) < 0)
		return error_set_errno(error, -ENAMETOOLONG, "/%s", path);
	if (fstatat(files->root_fd, path, &status, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : error_set_errno(error, -errno, "/%s", path);
	if (S_ISLNK(status.st_mode))
		place->state = state_of_link(place);
	else
		place->state = S_ISREG(status.st_mode) ? PLACE_FOREIGN : PLACE_NO_FILE;
	return 0;
}

uint64_t place_hash(const char *content)
{
	return fnv64_bytes(FNV64_START, content, strlen(content));
}

bool place_content_is(const struct place *place, uint64_t hash)
{
	_cleanup_free_ char *content = NULL;

	return fs_read(place->files->root_fd, place->memory, CONTENT_LIMIT, &content, NULL) == 0 &&
	       place_hash(content) == hash;
}

bool place_content_exists(const struct place *place)
{
	return fs_exists(place->files->root_fd, place->memory);
}

bool place_is_kept_itself(const struct place *place)
{
	int root_fd = place->files->root_fd;
	struct stat there, kept;

	return fstatat(root_fd, place->path, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
	       fstatat(root_fd, place->kept, &kept, AT_SYMLINK_NOFOLLOW) == 0 &&
	       there.st_dev == kept.st_dev && there.st_ino == kept.st_ino;
}

static int write_content(const struct place *place, const char *content, struct error *error)
{
	int root_fd = place->files->root_fd;
	int r = fs_mkdir_parents(root_fd, place->files->memory_folder, 0755);

	if (r == 0)
		r = fs_write_atomic(root_fd, place->memory, content, strlen(content), 0644);
	if (r < 0)
		return error_set_errno(error, r, "/%s", place->memory);
	return label_copy(root_fd, place->memory, place->folder, error);
}

/* A second name for it, so that no reader ever finds nothing. */
static int keep(const struct place *place, struct error *error)
{
	int root_fd = place->files->root_fd;
	int r;

	if (place->state != PLACE_FOREIGN || place_is_kept_itself(place))
		return 0;
	place_forget_kept(place);
	r = linkat(root_fd, place->path, root_fd, place->kept, 0) < 0
		    ? -errno
		    : fs_sync(root_fd, place->folder);
	return r < 0 ? error_set_errno(
			       error, r, "/%s, to keep what /%s was", place->kept, place->path)
		     : 0;
}

static int replace_by_link(const struct place *place, struct error *error)
{
	int root_fd = place->files->root_fd;
	char new_path[PATH_MAX + sizeof(NEW)], target[PATH_MAX + 1];
	int r = 0;

	(void) snprintf(new_path, sizeof(new_path), "%s" NEW, place->path);
	(void) snprintf(target, sizeof(target), "/%s", place->memory);
	(void) unlinkat(root_fd, new_path, 0);
	if (symlinkat(target, root_fd, new_path) < 0)
		return error_set_errno(error, -errno, "link at /%s", place->path);
	r = label_copy(root_fd, new_path, place->folder, error);
	if (r == 0 && renameat(root_fd, new_path, root_fd, place->path) < 0)
		r = error_set_errno(error, -errno, "link at /%s", place->path);
	if (r < 0)
		(void) unlinkat(root_fd, new_path, 0);
	return r;
}

int place_put(struct place *place, const char *content, struct error *error)
{
	int r = write_content(place, content, error);

	if (r == 0)
		r = keep(place, error);
	/* A link that is ours is made anew too: udevd and libkmod look at the folder's time. */
	if (r == 0)
		r = replace_by_link(place, error);
	if (r == 0)
		place->state = PLACE_OURS;
	return r;
}

int place_restore(struct place *place, struct error *error)
{
	int root_fd = place->files->root_fd;

	if (renameat(root_fd, place->kept, root_fd, place->path) < 0 &&
		(errno != ENOENT || (unlinkat(root_fd, place->path, 0) < 0 && errno != ENOENT)))
		return error_set_errno(error, -errno, "/%s", place->path);
	place_forget_content(place);
	(void) !fs_sync(root_fd, place->folder); /* it is undone all the same */
	return 0;
}

void place_forget_kept(const struct place *place)
{
	(void) unlinkat(place->files->root_fd, place->kept, 0);
}

void place_forget_content(const struct place *place)
{
	char unfinished[PATH_MAX + sizeof(NEW)];

	(void) snprintf(unfinished, sizeof(unfinished), "%s" NEW, place->path);
	(void) unlinkat(place->files->root_fd, unfinished, 0);
	(void) unlinkat(place->files->root_fd, place->memory, 0);
}
