/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/node_build/node_build_internal.h"

#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#include "common/fs.h"
#include "common/hash.h"
#include "common/path.h"
#include "common/xalloc.h"

#define INPUTS      "inputs"
#define CONTENTS    "contents"
#define TEMPORARY   "tmp-"
#define HOST_PREFIX "/proc/1/root"

static const struct {
	const char *folder;
	size_t most;
} kinds[] = {
	[NODE_MODULES] = { "modules", NODE_CACHE_SETS },
	[NODE_HEADERS] = { "headers", NODE_CACHE_HEADERS },
};

/* ---- contents: "<kind> <hash> <size> <path>" for each file and link, sorted */

struct listing {
	int set_fd;
	FILE *out;
	bool take; /* what is not root's alone becomes so, instead of being listed as such */
};

uint64_t node_cache_file_hash(int dir_fd, const char *path)
{
	_cleanup_close_ int fd = fs_open(dir_fd, path, O_RDONLY);
	uint64_t hash = FNV64_START;
	unsigned char buffer[65536];
	ssize_t size;

	if (fd < 0)
		return 0;
	while ((size = read(fd, buffer, sizeof(buffer))) > 0)
		hash = fnv64_bytes(hash, buffer, (size_t) size);
	return hash;
}

/* A source that was unpacked or copied with its owner and mode, say. */
static void make_owned(int set_fd, const char *path, struct stat *status)
{
	if (fchownat(set_fd, path, geteuid(), (gid_t) -1, AT_SYMLINK_NOFOLLOW) == 0 &&
		fchmodat(set_fd, path, status->st_mode & 0755, 0) == 0)
		(void) fstatat(set_fd, path, status, AT_SYMLINK_NOFOLLOW);
}

/* "." is the set itself, whose own two files change while it is used. */
static void list_entry(const struct listing *listing, const char *path)
{
	bool is_set = strcmp(path, ".") == 0;
	_cleanup_strv_ struct strv names = { 0 };
	char target[PATH_MAX];
	struct stat status;
	ssize_t size;

	if (fstatat(listing->set_fd, path, &status, AT_SYMLINK_NOFOLLOW) < 0)
		return;
	if (S_ISLNK(status.st_mode)) {
		size = readlinkat(listing->set_fd, path, target, sizeof(target));
		if (size >= 0)
			(void) fprintf(listing->out, "l %016" PRIx64 " %zd %s\n",
				fnv64_bytes(FNV64_START, target, (size_t) size), size, path);
		return;
	}
	if (!S_ISDIR(status.st_mode) && !S_ISREG(status.st_mode))
		return;
	if (!is_owned(&status) && listing->take)
		make_owned(listing->set_fd, path, &status);
	if (!is_owned(&status)) { /* as no list that was written has it: a difference */
		(void) fprintf(listing->out, "w - - %s\n", path);
		return;
	}
	if (S_ISREG(status.st_mode)) {
		(void) fprintf(listing->out, "f %016" PRIx64 " %jd %s\n",
			node_cache_file_hash(listing->set_fd, path), (intmax_t) status.st_size,
			path);
		return;
	}
	if (fs_list(listing->set_fd, path, &names) < 0)
		return;
	for (size_t i = 0; i < names.count; i++) {
		const char *name = names.items[i];
		_cleanup_free_ char *below =
			is_set ? xstrdup(name) : xasprintf("%s/%s", path, name);

		if (!is_set || (strcmp(name, CONTENTS) != 0 && strcmp(name, INPUTS) != 0))
			list_entry(listing, below);
	}
}

static char *list_set(int set_fd, bool take)
{
	struct listing listing = { .set_fd = set_fd, .take = take };
	char *text = NULL;
	size_t size;

	listing.out = open_memstream(&text, &size);
	if (!listing.out)
		out_of_memory();
	list_entry(&listing, ".");
	if (fclose(listing.out) != 0)
		out_of_memory();
	return text;
}

int node_cache_write_contents(int set_fd)
{
	_cleanup_free_ char *text = list_set(set_fd, true);

	/* Some file cannot be made root's alone: this set would be damaged from its first day. */
	if (strncmp(text, "w ", 2) == 0 || strstr(text, "\nw "))
		return -EPERM;
	return fs_write_atomic(set_fd, CONTENTS, text, strlen(text), 0644);
}

/* -EBADMSG names the path on the first line in which the two lists differ. */
static int check_contents(int set_fd, struct error *error)
{
	_cleanup_free_ char *found_text = list_set(set_fd, false);
	_cleanup_free_ char *written_text = NULL;
	_cleanup_strv_ struct strv written = { 0 };
	_cleanup_strv_ struct strv found = { 0 };
	int r = fs_read(set_fd, CONTENTS, 0, &written_text, NULL);

	if (r < 0)
		return error_set_errno(error, r, CONTENTS);
	xstrv_split(&written, written_text, "\n");
	xstrv_split(&found, found_text, "\n");
	for (size_t i = 0; i < written.count || i < found.count; i++) {
		const char *line = i < written.count ? written.items[i] : found.items[i];

		if (i < written.count && i < found.count && strcmp(line, found.items[i]) == 0)
			continue;
		for (int field = 0; field < 3 && strchr(line, ' '); field++)
			line = strchr(line, ' ') + 1;
		return error_set(error, -EBADMSG, "%s was changed", line);
	}
	return 0;
}

/* ---- the folder */

static void set_path(enum node_cache_kind kind, const char *name, char path[PATH_MAX])
{
	(void) snprintf(path, PATH_MAX, "%s/%.255s", kinds[kind].folder, name);
}

static int open_folder(const char *path, int *ret_fd)
{
	_cleanup_close_ int fd = -1;
	struct stat folder, above;
	int r = fs_mkdir_parents(AT_FDCWD, path, 0700);

	if (r < 0)
		return r;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	/* Modules that will be loaded come out of here: root's, no other user's to write, nor to
	 * be put in the place of. */
	if (fstat(fd, &folder) < 0 || !is_owned(&folder) || fstatat(fd, "..", &above, 0) < 0 ||
		!is_owned_way(&above))
		return -EPERM;
	r = fs_mkdir_parents(fd, kinds[NODE_MODULES].folder, 0700);
	if (r == 0)
		r = fs_mkdir_parents(fd, "log", 0700);
	if (r < 0)
		return r;
	*ret_fd = TAKE_FD(fd);
	return 0;
}

int node_cache_open(
	const char *chosen, const char *usual, struct node_cache *ret, struct error *error)
{
	bool is_chosen = chosen && *chosen;
	const char *path = is_chosen ? chosen : usual;
	int r = -ENOENT;

	*ret = (struct node_cache){ .fd = -1, .lasting = true };
	if (path && *path)
		r = open_folder(path, &ret->fd);
	if (r < 0 && is_chosen)
		return error_set_errno(error, r,
			"SLIPWAY_NODE_CACHE=%s: it must be a folder on the host that root owns and "
			"only root can write to",
			path);
	if (r < 0) {
		path = NODE_CACHE_FALLBACK;
		ret->lasting = false;
		r = open_folder(path, &ret->fd);
	}
	if (r < 0)
		return error_set_errno(error, r, "%s", path);
	if (strncmp(path, HOST_PREFIX "/", strlen(HOST_PREFIX "/")) == 0)
		path += strlen(HOST_PREFIX);
	(void) snprintf(ret->path, sizeof(ret->path), "%s", path);
	return 0;
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

int node_cache_find(const struct node_cache *cache, enum node_cache_kind kind, const char *name,
	const struct strv *inputs, int *ret_fd, struct error *error)
{
	_cleanup_free_ char *wanted = xstrv_join(inputs, "\n");
	_cleanup_free_ char *found = NULL;
	_cleanup_close_ int fd = -1;
	char path[PATH_MAX];

	set_path(kind, name, path);
	fd = open_owned(cache->fd, path, O_RDONLY | O_DIRECTORY, error);
	if (fd < 0)
		return fd == -EPERM ? -EBADMSG : -ENOENT;
	if (fs_read(fd, INPUTS, 65536, &found, NULL) < 0)
		return error_set(error, -EBADMSG, "it does not name its inputs");
	if (strcmp(found, wanted) != 0)
		return -ENOENT; /* another's of the same hash */
	if (check_contents(fd, error) < 0)
		return -EBADMSG;
	(void) utimensat(fd, INPUTS, NULL, 0); /* the oldest go first */
	*ret_fd = TAKE_FD(fd);
	return 0;
}

/* -ENOENT, -EWOULDBLOCK: another container's sweep took the new folder before we had its lock. */
static int begin(const struct node_cache *cache, char folder[NAME_MAX], int *ret_fd)
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

int node_cache_begin(const struct node_cache *cache, char folder[NAME_MAX], int *ret_fd)
{
	int r = begin(cache, folder, ret_fd);

	return r == -ENOENT || r == -EWOULDBLOCK ? begin(cache, folder, ret_fd) : r;
}

/* Renamed first: a set during whose removal we are killed is not found half, nor in the way. */
static int remove_set(const struct node_cache *cache, enum node_cache_kind kind, const char *name)
{
	char path[PATH_MAX], gone[PATH_MAX];

	set_path(kind, name, path);
	(void) snprintf(gone, sizeof(gone), TEMPORARY "old-%d-%s", (int) getpid(), name);
	if (renameat(cache->fd, path, cache->fd, gone) < 0)
		return -errno;
	return fs_remove_tree(cache->fd, gone);
}

/* 0 when it is not known: such a set goes first. */
static time_t last_use(const struct node_cache *cache, enum node_cache_kind kind, const char *name)
{
	char path[PATH_MAX];
	struct stat status;

	(void) snprintf(path, sizeof(path), "%s/%.255s/" INPUTS, kinds[kind].folder, name);
	return fstatat(cache->fd, path, &status, 0) < 0 ? 0 : status.st_mtime;
}

static void remove_oldest(const struct node_cache *cache, enum node_cache_kind kind)
{
	_cleanup_strv_ struct strv names = { 0 };

	if (fs_list(cache->fd, kinds[kind].folder, &names) < 0)
		return;
	while (names.count > kinds[kind].most) {
		size_t oldest = 0;

		for (size_t i = 1; i < names.count; i++)
			if (last_use(cache, kind, names.items[i]) <
				last_use(cache, kind, names.items[oldest]))
				oldest = i;
		if (remove_set(cache, kind, names.items[oldest]) < 0)
			return;
		strv_remove(&names, oldest);
	}
}

static int replace(const struct node_cache *cache, enum node_cache_kind kind, const char *name,
	const char *output, const char *path)
{
	(void) remove_set(cache, kind, name);
	if (renameat(cache->fd, output, cache->fd, path) < 0 && errno != ENOTEMPTY &&
		errno != EEXIST) /* another container was quicker */
		return -errno;
	return 0;
}

/* Moves the old set below @output's folder. NFS cannot: for a moment there is none of this name. */
static int exchange(const struct node_cache *cache, enum node_cache_kind kind, const char *name,
	const char *output, const char *path)
{
	if (renameat2(cache->fd, output, cache->fd, path, RENAME_EXCHANGE) == 0)
		return 0;
	return errno == EINVAL || errno == ENOSYS ? replace(cache, kind, name, output, path)
						  : -errno;
}

static int keep(const struct node_cache *cache, enum node_cache_kind kind, const char *folder,
	int folder_fd, const char *name, const struct strv *inputs, bool over_good)
{
	_cleanup_free_ char *text = xstrv_join(inputs, "\n");
	_cleanup_close_ int output_fd =
		openat(folder_fd, "output", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_close_ int found_fd = -1;
	char output[PATH_MAX], path[PATH_MAX];
	struct error ignored;
	int r;

	if (output_fd < 0)
		return -errno;
	r = fs_write_atomic(output_fd, INPUTS, text, strlen(text), 0644);
	if (r < 0)
		return r;
	r = node_cache_write_contents(output_fd);
	if (r < 0)
		return r;
	r = fs_mkdir_parents(cache->fd, kinds[kind].folder, 0700);
	if (r < 0)
		return r;
	/* Everything on disk before the name is: a set that a power failure emptied would be taken
	 * for whole. */
	if (syncfs(cache->fd) < 0 && over_good)
		return -errno;
	(void) snprintf(output, sizeof(output), "%s/output", folder);
	set_path(kind, name, path);
	if (renameat(cache->fd, output, cache->fd, path) < 0) {
		if (errno != ENOTEMPTY && errno != EEXIST && errno != ENOTDIR)
			return -errno;
		/* A good one that has the name: another container of the pod was quicker. Any other
		 * is damaged, or another's of the same hash. */
		if (over_good)
			r = exchange(cache, kind, name, output, path);
		else if (node_cache_find(cache, kind, name, inputs, &found_fd, &ignored) < 0)
			r = replace(cache, kind, name, output, path);
		if (r < 0)
			return r;
	}
	remove_oldest(cache, kind);
	/* The set has its name: what cannot be removed now is left to the next sweep. */
	(void) !fs_remove_tree(cache->fd, folder);
	return 0;
}

int node_cache_keep(const struct node_cache *cache, enum node_cache_kind kind, const char *folder,
	int folder_fd, const char *name, const struct strv *inputs)
{
	return keep(cache, kind, folder, folder_fd, name, inputs, false);
}

int node_cache_replace(const struct node_cache *cache, enum node_cache_kind kind,
	const char *folder, int folder_fd, const char *name, const struct strv *inputs)
{
	return keep(cache, kind, folder, folder_fd, name, inputs, true);
}

void node_cache_sweep(const struct node_cache *cache, unsigned wait_ms)
{
	static const struct timespec pause = { .tv_nsec = 20L * 1000 * 1000 };
	_cleanup_strv_ struct strv names = { 0 };

	if (fs_list(cache->fd, ".", &names) < 0)
		return;
	for (size_t i = 0; i < names.count; i++) {
		_cleanup_close_ int fd = -1;
		bool locked;

		if (strncmp(names.items[i], TEMPORARY, strlen(TEMPORARY)) != 0)
			continue;
		fd = openat(cache->fd, names.items[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd < 0)
			continue;
		while ((locked = flock(fd, LOCK_EX | LOCK_NB) < 0) && wait_ms >= 20) {
			(void) nanosleep(&pause, NULL);
			wait_ms -= 20;
		}
		if (!locked && fs_remove_tree(cache->fd, names.items[i]) < 0)
			return;
	}
}
