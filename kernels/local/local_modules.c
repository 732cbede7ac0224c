/* SPDX-License-Identifier: Apache-2.0 */
/* Which of a folder's files are the kernel's own modules, and the lists that depmod reads. */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "common/fs.h"
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

static int add_built(struct local_files *files, const char *folder, const struct strv *lines,
	const char *krel, FILE *order, struct error *error)
{
	bool prefix = lines_have_prefix(lines);

	for (size_t i = 0; i < lines->count; i++) {
		const char *line = lines->items[i];
		_cleanup_free_ char *slashed = NULL;
		_cleanup_free_ char *module = NULL;
		_cleanup_free_ char *path = NULL;

		if (asprintf(&slashed, "kernel/%s", line) < 0)
			return error_set_errno(error, -ENOMEM, "%s", folder);
		module = built_path(prefix ? line : slashed);
		if (!module || asprintf(&path, "%s/%s", folder, module) < 0)
			return error_set(
				error, -EINVAL, "%s/modules.order: what is %s?", folder, line);
		if (access(path, F_OK) < 0)
			return error_set(error, -EINVAL,
				"%s: modules.order names %s, which is not there: let the kernel's "
				"make modules end, or give the folder of make modules_install",
				folder, module);
		if (add_file(files, folder, module, krel, "kernel/") < 0)
			return error_set_errno(error, -ENOMEM, "%s", folder);
		(void) fprintf(order, "kernel/%s\n", module);
	}
	return 0;
}

int local_files_add_built(struct local_files *files, const char *root,
	const struct local_tree *tree, char **ret_order, struct error *error)
{
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
	r = add_built(files, folder, &lines, tree->krel, file, error);
	if (r == 0 && add_lists(files, folder, tree->krel, 2) < 0)
		r = error_set_errno(error, -ENOMEM, "%s", folder);
	cleanup_fclose(&file);
	file = NULL;
	if (r == 0)
		*ret_order = TAKE_PTR(order);
	return r;
}
