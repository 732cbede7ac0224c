/* SPDX-License-Identifier: Apache-2.0 */
/* Which of a folder's files are the kernel's own modules, and the lists that depmod reads. */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "common/fs.h"
#include "common/path.h"
#include "kernels/archive/unpack.h"
#include "kernels/tree/depends.h"
#include "kernels/local/local_files.h"

static const char *const lists[] = { "modules.builtin", "modules.builtin.modinfo",
	"modules.order" };

static int add_file(struct local_files *files, const char *folder, const char *name,
	const char *krel, const char *below)
{
	_cleanup_free_ char *from = NULL;
	_cleanup_free_ char *to = NULL;

	if (asprintf(&from, "%s/%s", folder, name) < 0)
		return -ENOMEM;
	if (asprintf(&to, "lib/modules/%s/%s%s", krel, below, name) < 0)
		return -ENOMEM;
	return local_files_add(files, from, to, NULL);
}

static int add_lists(struct local_files *files, const char *folder, const char *krel, size_t count)
{
	int r = 0;

	for (size_t i = 0; i < count && r == 0; i++) {
		_cleanup_free_ char *path = NULL;

		if (asprintf(&path, "%s/%s", folder, lists[i]) < 0)
			return -ENOMEM;
		if (access(path, F_OK) == 0)
			r = add_file(files, folder, lists[i], krel, "");
	}
	return r;
}

int local_files_add_modules(struct local_files *files, const char *root,
	const struct local_modules *modules, struct error *error)
{
	_cleanup_strv_ struct strv paths = { 0 };
	_cleanup_free_ char *folder = NULL;
	_cleanup_close_ int fd = -1;
	int r = 0;

	if (asprintf(&folder, "%s/%s", root, modules->path) < 0)
		return error_set_errno(error, -ENOMEM, "%s", root);
	fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return error_set_errno(error, -errno, "%s", folder);
	if (modules->modules)
		r = depends_list_modules(fd, "kernel", &paths);
	for (size_t i = 0; i < paths.count && r == 0; i++)
		r = add_file(files, folder, paths.items[i], modules->krel, "");
	if (r == 0)
		r = add_lists(files, folder, modules->krel, ARRAY_SIZE(lists));
	return r < 0 ? error_set_errno(error, r, "%s", folder) : 0;
}

/* The module of "kernel/fs/x.ko", the form of before 5.3: "fs/x.ko". The caller frees it. */
static char *built_path(const char *line)
{
	const char *path = strncmp(line, "kernel/", 7) == 0 ? line + 7 : line;
	const char *dot = strrchr(path, '.');
	char *module;

	if (!dot)
		return NULL;
	return asprintf(&module, "%.*s.ko", (int) (dot - path), path) < 0 ? NULL : module;
}

/*
 * A line of a build folder's modules.order is "kernel/fs/x.ko" before 5.3, "fs/x.ko" since, and
 * "fs/x.o" since 6.2; the source has a folder kernel/ of its own, so that one line does not tell.
 */
static bool lines_have_prefix(const struct strv *lines)
{
	for (size_t i = 0; i < lines->count; i++)
		if (strncmp(lines->items[i], "kernel/", 7) != 0)
			return false;
	return true;
}

struct built {
	struct local_files *files;
	const char *folder;
	const char *krel;
	int root_fd;      /* of a stranger's root: nothing outside of it is read; -1: the user's */
	const char *root; /* what @root_fd is of */
	FILE *order;
	struct error *error;
};

/* The user's own folder may have links to wherever its files lie; a stranger's may not. */
static int look_for(const struct built *built, const char *module)
{
	size_t length = strlen(built->root);
	_cleanup_free_ char *path = NULL;
	_cleanup_close_ int fd = -1;

	if (asprintf(&path, "%s/%s", built->folder, module) < 0)
		return -ENOMEM;
	if (built->root_fd < 0)
		return access(path, F_OK) < 0 ? -errno : 0;
	if (strncmp(path, built->root, length) != 0 || path[length] != '/')
		return -EXDEV;
	fd = open_beneath(built->root_fd, path + length + 1, O_PATH);
	return fd < 0 ? fd : 0;
}

static int add_module(const struct built *built, const char *module)
{
	int r = look_for(built, module);

	if (r == -EXDEV)
		return error_set(built->error, r,
			"%s: modules.order names %s, which leads out of %s: nothing is read there",
			built->folder, module, built->root);
	if (r == -ENOENT || r == -ENOTDIR)
		return error_set(built->error, -EINVAL,
			"%s: modules.order names %s, which is not there: let the kernel's make "
			"modules end, or give the folder of make modules_install",
			built->folder, module);
	if (r == 0)
		r = add_file(built->files, built->folder, module, built->krel, "kernel/");
	if (r < 0)
		return error_set_errno(built->error, r, "%s/%s", built->folder, module);
	(void) fprintf(built->order, "kernel/%s\n", module);
	return 0;
}

static int add_built(const struct built *built, const struct strv *lines)
{
	bool prefix = lines_have_prefix(lines);
	int r = 0;

	for (size_t i = 0; i < lines->count && r == 0; i++) {
		const char *line = lines->items[i];
		_cleanup_free_ char *slashed = NULL;
		_cleanup_free_ char *module = NULL;

		if (unpack_leads_out(line))
			return error_set(built->error, -EXDEV,
				"%s/modules.order: %s leads out of the folder: a kernel's make "
				"writes no such line",
				built->folder, line);
		if (asprintf(&slashed, "kernel/%s", line) < 0)
			return error_set_errno(built->error, -ENOMEM, "%s", built->folder);
		module = built_path(prefix ? line : slashed);
		if (!module)
			return error_set(built->error, -EINVAL, "%s/modules.order: what is %s?",
				built->folder, line);
		r = add_module(built, module);
	}
	return r;
}

static int open_root(const char *root, bool confined, struct built *built)
{
	built->root = root;
	built->root_fd = confined ? open(root, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
	return confined && built->root_fd < 0 ? -errno : 0;
}

int local_files_add_built(struct local_files *files, const char *root,
	const struct local_tree *tree, bool confined, char **ret_order, struct error *error)
{
	struct built built = {
		.files = files,
		.krel = tree->krel,
		.root_fd = -1,
		.error = error,
	};
	_cleanup_strv_ struct strv lines = { 0 };
	_cleanup_free_ char *folder = NULL;
	_cleanup_free_ char *path = NULL;
	_cleanup_free_ char *text = NULL;
	_cleanup_free_ char *order = NULL;
	_cleanup_fclose_ FILE *file = NULL;
	size_t size;
	int r;

	if (*tree->path == '/')
		folder = strdup(tree->path);
	else if (asprintf(&folder, "%s%s%s", root, *tree->path ? "/" : "", tree->path) < 0)
		folder = NULL;
	if (!folder || asprintf(&path, "%s/modules.order", folder) < 0)
		return error_set_errno(error, -ENOMEM, "%s", root);
	r = fs_read(AT_FDCWD, path, 0, &text, NULL);
	if (r == -ENOENT)
		return error_set(error, -EINVAL,
			"%s: it has modules.builtin and no modules.order: let the kernel's make "
			"modules end, or give the folder of make modules_install",
			folder);
	if (r == 0)
		r = strv_split(&lines, text, "\n");
	file = r == 0 ? open_memstream(&order, &size) : NULL;
	if (!file)
		return error_set_errno(error, r < 0 ? r : -ENOMEM, "%s", path);
	built.folder = folder;
	built.order = file;
	r = open_root(root, confined, &built);
	if (r < 0)
		return error_set_errno(error, r, "%s", root);
	r = add_built(&built, &lines);
	cleanup_close(&built.root_fd);
	if (r == 0 && add_lists(files, folder, tree->krel, 2) < 0)
		r = error_set_errno(error, -ENOMEM, "%s", folder);
	cleanup_fclose(&file);
	file = NULL;
	if (r == 0)
		*ret_order = TAKE_PTR(order);
	return r;
}
