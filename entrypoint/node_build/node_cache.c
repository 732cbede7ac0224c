/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/node_build/node_cache.h"

#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#include "common/hash.h"
#include "common/fs.h"
#include "common/path.h"
#include "entrypoint/contract.h"
#include "entrypoint/node_build/contents.h"

#define INPUTS      "inputs"
#define TEMPORARY   "tmp-"
#define HOST_PREFIX "/" CONTRACT_GPU_HOST_ROOT

static const struct {
	const char *folder;
	size_t most;
} shelves[] = {
	[NODE_MODULES] = { "modules", NODE_CACHE_SETS },
	[NODE_HEADERS] = { "headers", NODE_CACHE_HEADERS },
};

static void set_path(enum node_shelf shelf, const char *name, char path[PATH_MAX])
{
	(void) snprintf(path, PATH_MAX, "%s/%.255s", shelves[shelf].folder, name);
}

/*
 * Modules that will be loaded come out of here: root's, and nobody else's to write, nor to be put
 * in the place of.
 */
static bool is_roots_alone(int folder_fd)
{
	struct stat folder, above;

	return fstat(folder_fd, &folder) == 0 && is_owned(&folder) &&
	       fstatat(folder_fd, "..", &above, 0) == 0 && is_owned_way(&above);
}

static int open_folder(const char *path, struct node_cache *cache)
{
	int r = fs_mkdir_parents(AT_FDCWD, path, 0700);

	if (r < 0)
		return r;
	cache->fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (cache->fd < 0)
		return -errno;
	if (!is_roots_alone(cache->fd)) {
		(void) close(cache->fd);
		cache->fd = -1;
		return -EPERM;
	}
	r = fs_mkdir_parents(cache->fd, shelves[NODE_MODULES].folder, 0700);
	if (r == 0)
		r = fs_mkdir_parents(cache->fd, "log", 0700);
	if (r < 0) {
		(void) close(cache->fd);
		cache->fd = -1;
	}
	return r;
}

static void name_path(const char *path, struct node_cache *cache)
{
	bool host = strncmp(path, HOST_PREFIX "/", strlen(HOST_PREFIX "/")) == 0;

	(void) snprintf(
		cache->path, sizeof(cache->path), "%s", host ? path + strlen(HOST_PREFIX) : path);
}

int node_cache_open(
	const char *chosen, const char *usual, struct node_cache *ret, struct error *error)
{
	bool is_chosen = chosen && *chosen;
	const char *path = is_chosen ? chosen : usual;
	int r = -ENOENT;

	*ret = (struct node_cache){ .fd = -1, .lasting = true };
	if (path && *path)
		r = open_folder(path, ret);
	if (r < 0 && is_chosen)
		return error_set_errno(error, r,
			"SLIPWAY_NODE_CACHE=%s: give a folder of the host that root owns and only "
			"root can write to",
			path);
	if (r < 0) {
		path = NODE_CACHE_FALLBACK;
		ret->lasting = false;
		r = open_folder(path, ret);
	}
	name_path(path, ret);
	return r < 0 ? error_set_errno(error, r, "%s", path) : 0;
}

bool node_cache_leave_read_only(struct node_cache *cache)
{
	struct node_cache other;
	struct error ignored;

	if (faccessat(cache->fd, ".", W_OK, 0) == 0 || errno != EROFS ||
		node_cache_open(NULL, NULL, &other, &ignored) < 0)
		return false;
	node_cache_close(cache);
	*cache = other;
	return true;
}

void node_cache_close(struct node_cache *cache)
{
	cleanup_close(&cache->fd);
	cache->fd = -1;
}

void node_cache_name(const char *prefix, const struct strv *inputs, char name[NAME_MAX])
{
	uint64_t hash = FNV64_START;

	for (size_t i = 0; i < inputs->count; i++) {
		hash = fnv64_bytes(hash, inputs->items[i], strlen(inputs->items[i]));
		hash = fnv64_bytes(hash, "\n", 1);
	}
	(void) snprintf(name, NAME_MAX, "%.200s-%016" PRIx64, prefix, hash);
}

int node_cache_find(const struct node_cache *cache, enum node_shelf shelf, const char *name,
	const struct strv *inputs, int *ret_fd, struct error *error)
{
	_cleanup_free_ char *wanted = strv_join(inputs, "\n");
	_cleanup_free_ char *found = NULL;
	_cleanup_close_ int fd = -1;
	char path[PATH_MAX];

	if (!wanted)
		return error_set_errno(error, -ENOMEM, "%s", name);
	set_path(shelf, name, path);
	fd = open_owned(cache->fd, path, O_RDONLY | O_DIRECTORY, error);
	if (fd < 0)
		return fd == -EPERM ? -EBADMSG : -ENOENT;
	if (fs_read(fd, INPUTS, 65536, &found, NULL) < 0)
		return error_set(error, -EBADMSG, "it does not say what it was made of");
	if (strcmp(found, wanted) != 0)
		return -ENOENT; /* another's of the same hash */
	if (contents_check(fd, error) < 0)
		return -EBADMSG;
	(void) utimensat(fd, INPUTS, NULL, 0); /* the oldest go first */
	*ret_fd = TAKE_FD(fd);
	return 0;
}

int node_cache_begin(const struct node_cache *cache, char folder[NAME_MAX], int *ret_fd)
{
	_cleanup_close_ int fd = -1;
	struct timespec now;

	(void) clock_gettime(CLOCK_MONOTONIC, &now);
	(void) snprintf(folder, NAME_MAX, TEMPORARY "%d-%ld", (int) getpid(), now.tv_nsec);
	if (mkdirat(cache->fd, folder, 0700) < 0)
		return -errno;
	fd = openat(cache->fd, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0 || mkdirat(fd, "output", 0755) < 0 ||
		mkdirat(fd, "work", 0755) < 0)
		return -errno;
	*ret_fd = TAKE_FD(fd);
	return 0;
}

/* 0 when it cannot be told: such a set goes first. */
static time_t last_use(const struct node_cache *cache, enum node_shelf shelf, const char *name)
{
	char path[PATH_MAX];
	struct stat status;

	(void) snprintf(path, sizeof(path), "%s/%.255s/" INPUTS, shelves[shelf].folder, name);
	return fstatat(cache->fd, path, &status, 0) < 0 ? 0 : status.st_mtime;
}

/* Renamed first: a set that somebody is killed over must not be found half, nor keep its name. */
static int remove_set(const struct node_cache *cache, enum node_shelf shelf, const char *name)
{
	char path[PATH_MAX], gone[PATH_MAX];

	set_path(shelf, name, path);
	(void) snprintf(gone, sizeof(gone), TEMPORARY "old-%d-%s", (int) getpid(), name);
	if (renameat(cache->fd, path, cache->fd, gone) < 0)
		return -errno;
	return fs_remove_tree(cache->fd, gone);
}

void node_cache_drop(const struct node_cache *cache, enum node_shelf shelf, const char *name)
{
	(void) remove_set(cache, shelf, name);
}

static void remove_oldest(const struct node_cache *cache, enum node_shelf shelf)
{
	_cleanup_strv_ struct strv names = { 0 };

	if (fs_list(cache->fd, shelves[shelf].folder, &names) < 0)
		return;
	while (names.count > shelves[shelf].most) {
		size_t oldest = 0;

		for (size_t i = 1; i < names.count; i++)
			if (last_use(cache, shelf, names.items[i]) <
				last_use(cache, shelf, names.items[oldest]))
				oldest = i;
		if (remove_set(cache, shelf, names.items[oldest]) < 0)
			return;
		strv_remove(&names, oldest);
	}
}

int node_cache_keep(const struct node_cache *cache, enum node_shelf shelf, const char *folder,
	int folder_fd, const char *name, const struct strv *inputs)
{
	_cleanup_free_ char *text = strv_join(inputs, "\n");
	_cleanup_close_ int output_fd =
		openat(folder_fd, "output", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_close_ int found_fd = -1;
	struct error ignored;
	char output[PATH_MAX];
	char path[PATH_MAX];
	int r = text ? 0 : -ENOMEM;

	if (output_fd < 0)
		return -errno;
	if (r == 0)
		r = fs_write_atomic(output_fd, INPUTS, text, strlen(text), 0644);
	if (r == 0)
		r = contents_write(output_fd);
	if (r == 0)
		r = fs_mkdir_parents(cache->fd, shelves[shelf].folder, 0700);
	if (r < 0)
		return r;
	/* Everything on disk before the name is: a set that a power failure emptied would be taken
	 * for whole. */
	(void) syncfs(cache->fd);
	(void) snprintf(output, sizeof(output), "%s/output", folder);
	set_path(shelf, name, path);
	/* What has the name and is not this set is damaged, or another's of the same hash. */
	if (node_cache_find(cache, shelf, name, inputs, &found_fd, &ignored) < 0)
		(void) remove_set(cache, shelf, name);
	if (renameat(cache->fd, output, cache->fd, path) < 0 && errno != ENOTEMPTY &&
		errno != EEXIST) /* another container of the pod was quicker */
		return -errno;
	remove_oldest(cache, shelf);
	return fs_remove_tree(cache->fd, folder);
}

void node_cache_sweep(const struct node_cache *cache)
{
	_cleanup_strv_ struct strv names = { 0 };

	if (fs_list(cache->fd, ".", &names) < 0)
		return;
	for (size_t i = 0; i < names.count; i++) {
		_cleanup_close_ int fd = -1;

		if (strncmp(names.items[i], TEMPORARY, strlen(TEMPORARY)) != 0)
			continue;
		fd = openat(cache->fd, names.items[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 &&
			fs_remove_tree(cache->fd, names.items[i]) < 0)
			return;
	}
}
