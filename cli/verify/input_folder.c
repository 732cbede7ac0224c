/* SPDX-License-Identifier: Apache-2.0 */
/* The modules below a folder, and which of them are of the kernel that is meant. */
#include "cli/verify/input.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "common/within.h"
#include "kernels/local/scan.h"
#include "module/kernel_facts.h"

/*
 * A link to a module counts where it stays in the folder: the weak-updates of Enterprise Linux. In
 * a stranger's image its target is looked for there, never on this machine.
 */
static bool is_file(
	const struct verify_input *input, int dir_fd, const struct dirent *entry, const char *path)
{
	struct stat status;
	int fd;

	if (entry->d_type == DT_REG)
		return true;
	if (entry->d_type != DT_LNK && entry->d_type != DT_UNKNOWN)
		return false;
	if (!verify_input_unpacks(input))
		return fstatat(dir_fd, entry->d_name, &status, 0) == 0 && S_ISREG(status.st_mode);
	fd = open_in_root(input->fd, path, O_PATH);
	if (fd < 0)
		return false;
	if (fstat(fd, &status) < 0)
		status.st_mode = 0;
	(void) close(fd);
	return S_ISREG(status.st_mode);
}

static bool is_folder(int dir_fd, const struct dirent *entry)
{
	struct stat status;

	if (entry->d_type != DT_UNKNOWN)
		return entry->d_type == DT_DIR;
	return fstatat(dir_fd, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
	       S_ISDIR(status.st_mode);
}

struct walk {
	struct verify_input *input;
	char path[PATH_MAX]; /* of the entry that is looked at, below the input's folder */
};

static int list_folder(struct walk *walk, int parent_fd, const char *name, size_t length);

static int list_entry(struct walk *walk, int dir_fd, const struct dirent *entry, size_t length)
{
	struct verify_input *input = walk->input;
	bool module = verify_is_module(entry->d_name);

	/* What debuggers read has the names of modules, and none of their bytes. */
	if (input->root && strcmp(walk->path, "usr/lib/debug") == 0)
		return 0;
	/* Beside the nvidia-peermem that is installed, an image of ours may have more of them. */
	if (input->root && strcmp(walk->path, KERNEL_FACTS_FOLDER) == 0)
		return 0;
	if (is_folder(dir_fd, entry))
		return list_folder(walk, dir_fd, entry->d_name, length);
	if (!module && strcmp(entry->d_name, "Module.symvers") != 0)
		return 0;
	if (!is_file(input, dir_fd, entry, walk->path))
		return 0;
	return strv_push(module ? &input->modules : &input->symvers, walk->path);
}

/* Appends to the path of @length bytes; returns its new length, or 0 when it gets too long. */
static size_t extend_path(struct walk *walk, size_t length, const char *name)
{
	size_t size = strlen(name);

	if (length + size + 2 > sizeof(walk->path))
		return 0;
	if (length)
		walk->path[length++] = '/';
	memcpy(walk->path + length, name, size + 1);
	return length + size;
}

/* Folders of others that root itself may not read (FUSE) are passed over, as is what went away. */
static int list_folder(struct walk *walk, int parent_fd, const char *name, size_t length)
{
	int fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	_cleanup_closedir_ DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;
	int r = 0;

	if (!dir) {
		r = errno == EMFILE || errno == ENOMEM ? -errno : 0;
		cleanup_close(&fd);
		return r;
	}
	while (r == 0 && (entry = readdir(dir))) {
		size_t below;

		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		below = extend_path(walk, length, entry->d_name);
		r = below ? list_entry(walk, dirfd(dir), entry, below) : -ENAMETOOLONG;
	}
	return r;
}

/* The kernel's own modules may be what is to be judged: their folders are walked once. */
static bool take_lists(struct verify_input *input, struct verify_input *from)
{
	struct stat ours, theirs;

	if (!from || !from->modules.count || input->root || verify_input_unpacks(input))
		return false;
	if (fstat(input->fd, &ours) < 0 || fstat(from->fd, &theirs) < 0 ||
		ours.st_dev != theirs.st_dev || ours.st_ino != theirs.st_ino)
		return false;
	strv_free(&input->modules);
	strv_free(&input->symvers);
	input->modules = from->modules;
	input->symvers = from->symvers;
	from->modules = from->symvers = (struct strv){ 0 };
	return true;
}

int verify_input_list(struct verify_input *input, struct error *error)
{
	struct walk walk = { .input = input };
	int r;

	if (take_lists(input, input->listed))
		return 0;
	r = list_folder(&walk, input->fd, ".", 0);
	if (r < 0)
		return error_set_errno(error, r, "%s", input->name);
	strv_sort(&input->modules);
	strv_sort(&input->symvers);
	return 0;
}

/* Where in @path a folder of this very name is, or NULL. */
static const char *find_folder(const char *path, const char *name)
{
	size_t length = strlen(name);

	for (const char *part = path; part; part = strchr(part, '/')) {
		part += *part == '/';
		if (strncmp(part, name, length) == 0 && part[length] == '/')
			return part;
	}
	return NULL;
}

/* Appends what stands before folders named @krel: "lib/modules/", "drivers/", "". */
static int add_prefixes(const struct strv *paths, const char *krel, struct strv *prefixes)
{
	for (size_t i = 0; i < paths->count; i++) {
		const char *path = paths->items[i];
		const char *found = find_folder(path, krel);
		_cleanup_free_ char *prefix = NULL;

		if (!found)
			continue;
		prefix = strndup(path, (size_t) (found - path));
		if (!prefix || strv_push_unique(prefixes, prefix) < 0)
			return -ENOMEM;
	}
	return 0;
}

/*
 * The kernel that a path is of when it is not @krel: the freed-by-caller *ret_other, or NULL. A
 * folder beside one that is named after a release holds another's modules only if its name can be a
 * release and not, say, "common".
 */
static int other_kernel(
	const char *path, const char *krel, const struct strv *prefixes, char **ret_other)
{
	_cleanup_free_ char *release = NULL;
	const char *rest;

	*ret_other = NULL;
	if (find_folder(path, krel))
		return 0;
	if (local_scan_split(path, &release, &rest)) {
		*ret_other = TAKE_PTR(release);
		return 0;
	}
	for (size_t i = 0; i < prefixes->count; i++) {
		const char *prefix = prefixes->items[i];
		const char *name = path + strlen(prefix);
		size_t length;

		if (strncmp(path, prefix, strlen(prefix)) != 0)
			continue;
		length = strcspn(name, "/");
		if (name[length] != '/' || *name < '0' || *name > '9')
			continue;
		*ret_other = strndup(name, length);
		return *ret_other ? 0 : -ENOMEM;
	}
	return 0;
}

static int keep_ours(struct verify_input *input, struct strv *paths, const char *krel,
	const struct strv *prefixes)
{
	struct strv kept = { 0 };
	int r = 0;

	for (size_t i = 0; i < paths->count && r == 0; i++) {
		_cleanup_free_ char *other = NULL;

		r = other_kernel(paths->items[i], krel, prefixes, &other);
		if (r == 0 && other)
			r = strv_push_unique(&input->passed_over, other);
		else if (r == 0)
			r = strv_push(&kept, paths->items[i]);
	}
	strv_free(paths);
	*paths = kept;
	return r;
}

/* Is any module in the folder of some kernel? */
static bool names_a_kernel(const struct strv *paths)
{
	for (size_t i = 0; i < paths->count; i++) {
		_cleanup_free_ char *release = NULL;
		const char *rest;

		if (local_scan_split(paths->items[i], &release, &rest))
			return true;
	}
	return false;
}

int verify_input_choose(struct verify_input *input, const char *krel)
{
	_cleanup_strv_ struct strv prefixes = { 0 };
	int r = add_prefixes(&input->modules, krel, &prefixes);

	if (r < 0)
		return r;
	if (prefixes.count == 0) {
		input->other_kernel = names_a_kernel(&input->modules);
		return 0;
	}
	r = add_prefixes(&input->symvers, krel, &prefixes);
	if (r == 0)
		r = keep_ours(input, &input->modules, krel, &prefixes);
	if (r == 0)
		r = keep_ours(input, &input->symvers, krel, &prefixes);
	strv_sort(&input->passed_over);
	return r;
}
