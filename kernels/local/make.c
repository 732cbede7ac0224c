/* SPDX-License-Identifier: Apache-2.0 */
/* From the inputs to the outputs: the kernel's own modules, and what they are compiled against. */
#include <fcntl.h>
#include <fnmatch.h>
#include <string.h>

#include "common/fs.h"
#include "common/path.h"
#include "common/xalloc.h"
#include "kernels/local/local_image.h"
#include "kernels/local/local.h"
#include "kernels/tree/depends.h"
#include "module/elf.h"

/* ---- the kernel's own modules, and the lists that depmod reads */

/* A build folder's modules.order is written anew: it is the last. */
static const char *const lists[] = { "modules.builtin", "modules.builtin.modinfo",
	"modules.order" };

static int add_file(struct local_files *files, const char *folder, const char *name,
	const char *krel, const char *below)
{
	_cleanup_free_ char *from = xasprintf("%s/%s", folder, name);
	_cleanup_free_ char *to = xasprintf("lib/modules/%s/%s%s", krel, below, name);

	return local_files_add(files, from, to, NULL);
}

static int add_lists(struct local_files *files, const char *folder, const char *krel, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		_cleanup_free_ char *path = xasprintf("%s/%s", folder, lists[i]);
		int r = access(path, F_OK) == 0 ? add_file(files, folder, lists[i], krel, "") : 0;

		if (r < 0)
			return r;
	}
	return 0;
}

static int add_modules(struct local_files *files, const char *root,
	const struct local_place *modules, struct error *error)
{
	_cleanup_free_ char *folder = xasprintf("%s/%s", root, modules->path);
	_cleanup_close_ int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_strv_ struct strv paths = { 0 };
	int r = fd < 0 ? -errno : depends_list_modules(fd, "kernel", &paths);

	if (r == -ENOENT && fd >= 0) /* all is built in */
		r = 0;
	for (size_t i = 0; i < paths.count && r == 0; i++)
		r = add_file(files, folder, paths.items[i], modules->krel, "");
	if (r == 0)
		r = add_lists(files, folder, modules->krel, ARRAY_SIZE(lists));
	return r < 0 ? error_set_errno(error, r, "%s", folder) : 0;
}

/*
 * A line of a build folder's modules.order is "kernel/fs/x.ko" before 5.3, "fs/x.ko" since, and
 * "fs/x.o" since 6.2; the source has a folder kernel/ of its own, so that one line does not show
 * which.
 */
static bool lines_have_prefix(const struct strv *lines)
{
	for (size_t i = 0; i < lines->count; i++)
		if (strncmp(lines->items[i], "kernel/", 7) != 0)
			return false;
	return true;
}

/*
 * Is the module there? The user's own folder may have links to wherever its files lie; one that is
 * @confined to @root may not.
 */
static int look_for(const char *root, const char *folder, const char *module, bool confined)
{
	size_t length = strlen(root);
	_cleanup_free_ char *path = xasprintf("%s/%s", folder, module);
	_cleanup_close_ int root_fd = -1;
	_cleanup_close_ int fd = -1;

	if (!confined)
		return access(path, F_OK) < 0 ? -errno : 0;
	if (strncmp(path, root, length) != 0 || path[length] != '/')
		return -EXDEV;
	root_fd = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	fd = root_fd < 0 ? -errno : open_beneath(root_fd, path + length + 1, O_PATH);
	return fd < 0 ? fd : 0;
}

int local_files_add_built(struct local_files *files, const char *root,
	const struct local_place *tree, bool confined, struct error *error)
{
	_cleanup_free_ char *folder =
		*tree->path == '/' ? xstrdup(tree->path)
				   : xasprintf("%s%s%s", root, *tree->path ? "/" : "", tree->path);
	_cleanup_free_ char *path = xasprintf("%s/modules.order", folder);
	_cleanup_free_ char *to = xasprintf("lib/modules/%s/modules.order", tree->krel);
	_cleanup_strv_ struct strv lines = { 0 };
	_cleanup_strv_ struct strv order = { 0 };
	_cleanup_free_ char *text = NULL;
	size_t skip;
	int r = fs_read(AT_FDCWD, path, 0, &text, NULL);

	if (r == -ENOENT)
		return error_set(error, -EINVAL,
			"%s: it has modules.builtin but no modules.order: complete make modules "
			"there, or give the folder made by make modules_install",
			folder);
	if (r < 0)
		return error_set_errno(error, r, "%s", path);
	xstrv_split(&lines, text, "\n");
	skip = lines_have_prefix(&lines) ? strlen("kernel/") : 0;
	for (size_t i = 0; i < lines.count; i++) {
		const char *line = lines.items[i] + skip;
		const char *dot = strrchr(line, '.');
		_cleanup_free_ char *module = NULL;

		if (unpack_leads_out(lines.items[i]))
			return error_set(error, -EXDEV,
				"%s/modules.order: %s leads out of the folder, which a kernel "
				"build never writes",
				folder, lines.items[i]);
		if (!dot)
			return error_set(error, -EINVAL, "%s/modules.order: unexpected line %s",
				folder, lines.items[i]);
		module = xasprintf("%.*s.ko", (int) (dot - line), line);
		r = look_for(root, folder, module, confined);
		if (r == -EXDEV)
			return error_set(error, r,
				"%s: modules.order names %s, which leads out of %s, so it is not "
				"read",
				folder, module, root);
		if (r == -ENOENT || r == -ENOTDIR)
			return error_set(error, -EINVAL,
				"%s: modules.order names %s, which is missing: complete make "
				"modules there, or give the folder made by make modules_install",
				folder, module);
		if (r == 0)
			r = add_file(files, folder, module, tree->krel, "kernel/");
		if (r < 0)
			return error_set_errno(error, r, "%s/%s", folder, module);
		xstrv_pushf(&order, "kernel/%s", module);
	}
	r = add_lists(files, folder, tree->krel, ARRAY_SIZE(lists) - 1);
	if (r == 0)
		r = local_files_add(files, path, to, NULL);
	if (r < 0)
		return error_set_errno(error, r, "%s", folder);
	xstrv_push(&order, "");
	files->items[files->count - 1].text = xstrv_join(&order, "\n");
	return 0;
}

int local_files_add_parts(struct local_files *files, const char *root,
	const struct local_scan *scan, const struct local_parts *parts, struct error *error)
{
	const struct local_place *tree = local_scan_tree(scan, parts->krel);
	const struct local_place *modules = local_scan_modules(scan, parts->krel);
	bool built;
	int r = 0;

	if (parts->tree && tree && tree->symvers)
		r = local_files_add_tree(files, root, tree, parts->confined, error);
	if (r < 0)
		return r;
	/* Modules without their list are taken by who asks, where a build folder has no others. */
	built = tree && tree->builtin && !(modules && modules->builtin);
	if (parts->modules && built)
		r = local_files_add_built(files, root, tree, parts->confined, error);
	else if (parts->modules && modules && (modules->builtin || parts->unlisted))
		r = add_modules(files, root, modules, error);
	local_files_sort(files);
	return r;
}

/* ---- into a folder */

int local_files_copy(
	const struct local_files *files, int folder_fd, bool apart, struct error *error)
{
	_cleanup_free_ char *made = xstrdup("");

	for (size_t i = 0; i < files->count; i++) {
		const struct local_file *file = &files->items[i];
		const char *slash = strrchr(file->to, '/');
		size_t length = slash ? (size_t) (slash - file->to) : 0;
		int r = 0;

		if (strncmp(file->to, made, length) != 0 || made[length]) {
			free(made);
			made = xstrndup(file->to, length);
			r = *made ? fs_mkdir_parents(folder_fd, made, 0755) : 0;
		}
		if (r == 0 && file->link)
			r = symlinkat(file->link, folder_fd, file->to) < 0 ? -errno : 0;
		else if (r == 0 && file->text)
			r = fs_write_atomic(
				folder_fd, file->to, file->text, strlen(file->text), 0644);
		else if (r == 0 &&
			 (apart || linkat(AT_FDCWD, file->from, folder_fd, file->to, 0) < 0))
			r = copy_apart(AT_FDCWD, file->from, folder_fd, file->to);
		if (r < 0 && r != -EEXIST) /* then an earlier input has it */
			return error_set_errno(error, r, "%s", file->from);
	}
	return 0;
}

/* ---- archives are unpacked into the scratch folder, and then everything is a folder */

struct stage {
	const struct local_kernel *kernel;
	const char *scratch;
	struct strv *roots; /* folders with kernels: the user's, or below @scratch */
	bool modules;       /* the kernel's own modules are wanted, not the headers */
	struct error *error;
};

static bool starts_with(const char *path, const char *start)
{
	return strncmp(path, start, strlen(start)) == 0;
}

/* Unpacked by us from an archive that comes from outside. */
static bool is_staged(const struct stage *stage, const char *root)
{
	return starts_with(root, stage->scratch) && root[strlen(stage->scratch)] == '/';
}

/*
 * Selects files of a package or an image, which may hold a whole system. Links at its top stay out.
 */
static bool package_wants(void *context, const char *path)
{
	static const char *const starts[] = { "lib/modules/", "usr/lib/modules/", "usr/src/",
		"usr/lib/linux-kbuild", "lib/linux-kbuild" };
	const struct stage *stage = context;
	const char *slash = strrchr(path, '/');

	if (starts_with(slash ? slash + 1 : path, ".wh.") ||
		(!stage->modules && module_suffix(path)))
		return false;
	for (size_t i = 0; i < (stage->modules ? 2 : ARRAY_SIZE(starts)); i++)
		if (starts_with(path, starts[i]))
			return true;
	return false;
}

/* Selects files of a tarball: all but what an earlier compilation and git left behind. */
static bool tarball_wants(void *context, const char *path)
{
	const struct stage *stage = context;

	if (!stage->modules && module_suffix(path))
		return false;
	return fnmatch("*.o", path, 0) != 0 && fnmatch("*.a", path, 0) != 0 &&
	       fnmatch("*.cmd", path, 0) != 0 && !strstr(path, "/.git/") &&
	       !starts_with(path, ".git/");
}

/* All packages and images go into one root, as on the system that they are for. */
static int stage_archive(struct stage *stage, const struct local_input *input, size_t number)
{
	bool tarball = input->kind == LOCAL_TARBALL || input->kind == LOCAL_PROBE;
	_cleanup_free_ char *folder = tarball ? xasprintf("%s/tarball-%zu", stage->scratch, number)
					      : xasprintf("%s/packages", stage->scratch);
	_cleanup_free_ char *root =
		xasprintf("%s%s", folder, input->kind == LOCAL_PROBE ? "/" PROBE_ROOT : "");
	const struct unpack unpack = {
		.folder = folder,
		.wanted = tarball ? tarball_wants : package_wants,
		.context = stage,
	};
	_cleanup_(local_image_free) struct local_image image = { 0 };
	int r = fs_mkdir_parents(AT_FDCWD, folder, 0755);

	if (r < 0)
		return error_set_errno(stage->error, r, "%s", folder);
	if (tarball) {
		r = unpack_run(&unpack, AT_FDCWD, input->path, stage->error);
	} else if (input->kind == LOCAL_DEB || input->kind == LOCAL_RPM) {
		r = unpack_package(&unpack, AT_FDCWD, input->path, stage->error);
	} else {
		r = local_image_open(input->path, input->kind == LOCAL_IMAGE_ARCHIVE, NULL, &image,
			stage->error);
		if (r == 0)
			r = local_image_unpack(&image, &unpack, stage->error);
	}
	xstrv_push_unique(stage->roots, root);
	return r;
}

/* Has it what is wanted, or may it be a part of it? */
static bool is_needed(const struct stage *stage, const struct local_input *input)
{
	const char *krel = stage->kernel->krel;
	const struct local_place *tree = local_scan_tree(&input->scan, krel);

	if (stage->modules)
		return local_scan_modules(&input->scan, krel) || (tree && tree->builtin);
	return tree || local_scan_has(&input->scan, "usr/src");
}

/* 1: the root had it and it is in the folder now; 0: look in the next. */
static int make_from(const struct stage *stage, const char *root, int folder_fd)
{
	const struct local_parts parts = {
		.krel = stage->kernel->krel,
		.tree = !stage->modules,
		.modules = stage->modules,
		.unlisted = stage->kernel->modules_unlisted,
		.confined = is_staged(stage, root),
	};
	_cleanup_(local_scan_free) struct local_scan scan = { 0 };
	_cleanup_(local_files_free) struct local_files files = { 0 };
	int r = local_scan_folder(root, false, &scan, stage->error);

	if (r == 0)
		r = local_files_add_parts(&files, root, &scan, &parts, stage->error);
	if (r < 0 || files.count == 0)
		return r;
	r = local_files_copy(&files, folder_fd, !parts.confined, stage->error);
	return r < 0 ? r : 1;
}

int local_make(const struct local_kernel *kernel, bool modules, const char *scratch,
	const char *folder, struct error *error)
{
	_cleanup_strv_ struct strv roots = { 0 };
	struct stage stage = {
		.kernel = kernel,
		.scratch = scratch,
		.roots = &roots,
		.modules = modules,
		.error = error,
	};
	_cleanup_close_ int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r = 0;

	if (fd < 0)
		return error_set_errno(error, -errno, "%s", folder);
	for (size_t i = 0; i < kernel->count && r == 0; i++) {
		const struct local_input *input = &kernel->inputs[i];

		if (!is_needed(&stage, input))
			continue;
		if (input->kind == LOCAL_FOLDER)
			xstrv_push(&roots, input->path);
		else
			r = stage_archive(&stage, input, i);
	}
	for (size_t i = 0; i < roots.count && r == 0; i++)
		r = make_from(&stage, roots.items[i], fd);
	if (r == 0)
		return error_set(error, -EINVAL,
			"the %s of kernel %s were listed but are missing after unpacking: a link "
			"leads to a missing file",
			modules ? "modules" : "headers", kernel->krel);
	return r < 0 ? r : 0;
}
