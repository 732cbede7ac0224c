/* SPDX-License-Identifier: Apache-2.0 */
/* What --kernel names, and where in a folder the parts of a kernel are: by what is in it. */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/verify/verify.h"
#include "common/fs.h"
#include "common/xalloc.h"
#include "kernels/krel.h"
#include "kernels/tree/tree.h"

int verify_kernel_identify(const struct strv *texts, bool *ret_fetched, struct error *error)
{
	size_t releases = 0;

	*ret_fetched = texts->count > 1;
	for (size_t i = 0; i < texts->count; i++) {
		const char *text = texts->items[i];
		const char *dot = strrchr(text, '.');
		_cleanup_close_ int fd = open(text, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		bool symvers = verify_is_symvers(text);

		if (symvers && texts->count > 1)
			return error_set(error, -EINVAL,
				"--kernel %s: beside another --kernel a Module.symvers is given with "
				"--with",
				text);
		if (access(text, F_OK) < 0) {
			if (strchr(text, '/'))
				return error_set(
					error, -EINVAL, "--kernel %s: %s", text, strerror(errno));
			releases++;
		}
		/* An image is fetched, too, as build --kernel-from takes it. */
		if (!symvers && (fd < 0 || fs_exists(fd, "oci-layout")) &&
			!(dot && strcmp(dot, ".json") == 0 && access(text, F_OK) == 0))
			*ret_fetched = true;
	}
	return releases > 1 ? error_set(error, -EINVAL, "--kernel: one kernel is expected") : 0;
}

void verify_place_close(struct verify_place *place)
{
	cleanup_close(&place->root_fd);
	cleanup_close(&place->build_fd);
	cleanup_close(&place->modules_fd);
	free(place->krel);
	free(place->record);
	free(place->symvers);
	*place = (struct verify_place) VERIFY_PLACE_CLOSED;
}

static bool has_any(int fd, const char *const *names, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (fs_exists(fd, names[i]))
			return true;
	return false;
}

/* lib/modules/<krel> itself, whatever of it there is. */
static bool is_modules_folder(int fd)
{
	static const char *const marks[] = { "kernel", "build", "modules.dep", "modules.order",
		"modules.builtin", "updates", "extra" };

	return has_any(fd, marks, ARRAY_SIZE(marks));
}

/* Below lib/modules, or usr/lib/modules of a root whose link from one to the other is not there. */
static int open_below(int root_fd, const char *krel, const char *rest)
{
	_cleanup_free_ char *path = xasprintf("usr/lib/modules/%s%s", krel, rest);
	int fd = kernel_tree_openat(root_fd, path + strlen("usr/"), O_RDONLY | O_DIRECTORY);

	return fd < 0 ? kernel_tree_openat(root_fd, path, O_RDONLY | O_DIRECTORY) : fd;
}

/* Of a root: its build folder and its modules, either of which may be missing. */
static void take_root(struct verify_place *place, int fd)
{
	place->root_fd = fd;
	place->modules_fd = open_below(fd, place->krel, "");
	place->build_fd = open_below(fd, place->krel, "/build");
}

/*
 * lib/modules/<krel> itself. Links of a root that is mounted somewhere start at the root above.
 * Takes @fd.
 */
static int take_modules(struct verify_place *place, int fd, const char *path)
{
	_cleanup_free_ char *full = realpath(path, NULL);
	_cleanup_free_ char *end = NULL;
	const char *slash = full ? strrchr(full, '/') : NULL;
	size_t length;
	int root_fd;

	place->modules_fd = fd;
	if (!slash)
		return -errno;
	place->krel = xstrdup(slash + 1);
	end = xasprintf("/lib/modules/%s", place->krel);
	length = strlen(full);
	if (length >= strlen(end) && strcmp(full + length - strlen(end), end) == 0) {
		length -= strlen(end);
		if (length >= 4 && strncmp(full + length - 4, "/usr", 4) == 0)
			length -= 4;
		full[length ? length : 1] = '\0';
		root_fd = open(full, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (root_fd >= 0) {
			cleanup_close(&fd);
			take_root(place, root_fd);
			return 0;
		}
	}
	place->build_fd = openat(fd, "build", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return 0;
}

/* Appends the releases below lib/modules that have anything of a kernel. */
static int list_kernels(int fd, struct strv *krels)
{
	_cleanup_strv_ struct strv names = { 0 };
	_cleanup_close_ int modules_fd = open_below(fd, "", "");
	int r = modules_fd < 0 ? 0 : fs_list(modules_fd, ".", &names);

	for (size_t i = 0; i < names.count; i++) {
		_cleanup_close_ int one =
			openat(modules_fd, names.items[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		if (one >= 0 && krel_is_valid(names.items[i]) && is_modules_folder(one))
			xstrv_push(krels, names.items[i]);
	}
	return r;
}

/* Takes @folder. */
static int find_in_folder(struct verify_place *place, int folder, const char *path,
	const char *krel, struct error *error)
{
	static const char *const build_marks[] = { "Module.symvers", ".config",
		"include/generated/utsrelease.h" };
	_cleanup_close_ int fd = folder;
	_cleanup_strv_ struct strv krels = { 0 };
	_cleanup_free_ char *list = NULL;
	int r = list_kernels(fd, &krels);

	if (r < 0)
		return error_set_errno(error, r, "--kernel %s", path);
	if (krels.count > 1 && !(krel && strv_contains(&krels, krel))) {
		list = xstrv_join(&krels, ", ");
		return error_set(error, -ENOTUNIQ,
			"--kernel %s: it has several kernels: %s: name one's folder, "
			"%s/lib/modules/<release>",
			path, list, path);
	}
	if (krels.count) {
		place->krel = xstrdup(krels.count == 1 ? krels.items[0] : krel);
		take_root(place, TAKE_FD(fd));
	} else if (has_any(fd, build_marks, ARRAY_SIZE(build_marks))) {
		/* A tree that was never prepared has no release of its own. */
		place->krel = kernel_tree_release(fd);
		if (!place->krel &&
			fs_read_line(fd, "include/config/kernel.release", &place->krel) < 0)
			place->krel = NULL;
		place->build_fd = TAKE_FD(fd);
	} else if (is_modules_folder(fd)) {
		r = take_modules(place, TAKE_FD(fd), path);
	} else {
		return error_set(error, -EINVAL,
			"--kernel %s: no kernel is in this folder: neither lib/modules/<release> nor "
			"Module.symvers, .config or modules.order is there",
			path);
	}
	return r < 0 ? error_set_errno(error, r, "--kernel %s", path) : 0;
}

/* A record.json lies beside its tree in the cache; one that was copied out is alone. */
static int find_record(struct verify_place *place, const char *path, struct error *error)
{
	_cleanup_(kernel_record_free) struct kernel_record record = { 0 };
	const char *slash = strrchr(path, '/');
	_cleanup_free_ char *folder = slash ? xstrndup(path, (size_t) (slash - path + 1)) : NULL;
	_cleanup_free_ char *text = NULL;
	int r = fs_read(AT_FDCWD, path, 1 << 20, &text, NULL), fd;

	if (r < 0)
		return error_set_errno(error, r, "--kernel %s", path);
	r = kernel_record_read(text, &record, error);
	if (r < 0)
		return error_prefix(error, r, "--kernel %s", path);
	place->krel = xstrdup(record.krel);
	place->record = xstrdup(path);
	fd = open(folder ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0)
		take_root(place, fd);
	return 0;
}

int verify_place_find(
	const char *path, const char *krel, struct verify_place *ret, struct error *error)
{
	_cleanup_(verify_place_close) struct verify_place place = VERIFY_PLACE_CLOSED;
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r = 0;

	if (fd >= 0)
		r = find_in_folder(&place, fd, path, krel, error);
	else if (verify_is_symvers(path))
		place.symvers = xstrdup(path);
	else
		r = find_record(&place, path, error);
	if (r < 0)
		return r;
	if (!place.record && place.root_fd >= 0 && fs_exists(place.root_fd, KERNEL_RECORD_FILE))
		place.record = xasprintf("%s/" KERNEL_RECORD_FILE, path);
	*ret = place;
	place = (struct verify_place) VERIFY_PLACE_CLOSED;
	return 0;
}
