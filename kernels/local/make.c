/* SPDX-License-Identifier: Apache-2.0 */
/* Which of a folder's files are the kernel's own modules, and the lists that depmod reads. */
#include <fcntl.h>
#include <fnmatch.h>
#include <string.h>
#include <sys/stat.h>

#include "common/fs.h"
#include "common/path.h"
#include "kernels/archive/unpack.h"
#include "kernels/local/local.h"
#include "kernels/local/image.h"
#include "kernels/local/scan.h"
#include "kernels/probe/probe.h"
#include "kernels/tree/depends.h"

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

/* ---- From the inputs to the outputs: archives are unpacked aside, and then everything is a  */

struct stage {
	const struct local_kernel *kernel;
	const char *scratch;
	struct strv roots; /* folders with kernels: the user's, or below @scratch */
	bool modules;      /* the kernel's own modules are wanted, not the headers */
	struct error *error;
};

static int fail(const struct stage *stage, const char *what, int r)
{
	return error_set_errno(stage->error, r, "%s", what);
}

static bool starts_with(const char *path, const char *start)
{
	return strncmp(path, start, strlen(start)) == 0;
}

/* Unpacked by us from somebody's archive. */
static bool is_staged(const struct stage *stage, const char *root)
{
	return starts_with(root, stage->scratch) && root[strlen(stage->scratch)] == '/';
}

static bool is_module_file(const char *path)
{
	const char *suffix = strstr(path, ".ko");

	return suffix && (!suffix[3] || suffix[3] == '.');
}

/* Of a package or an image: a whole system may be in it. Its links at the top stay out. */
static bool package_wants(void *context, const char *path)
{
	static const char *const starts[] = { "lib/modules/", "usr/lib/modules/", "usr/src/",
		"usr/lib/linux-kbuild", "lib/linux-kbuild" };
	const struct stage *stage = context;
	const char *slash = strrchr(path, '/');

	if (strncmp(slash ? slash + 1 : path, ".wh.", 4) == 0)
		return false;
	if (!stage->modules && is_module_file(path))
		return false;
	if (stage->modules)
		return starts_with(path, starts[0]) || starts_with(path, starts[1]);
	for (size_t i = 0; i < ARRAY_SIZE(starts); i++)
		if (starts_with(path, starts[i]))
			return true;
	return false;
}

/* Of a tarball: all but what compiling has left behind. */
static bool tarball_wants(void *context, const char *path)
{
	const struct stage *stage = context;

	if (!stage->modules && is_module_file(path))
		return false;
	return fnmatch("*.o", path, 0) != 0 && fnmatch("*.a", path, 0) != 0 &&
	       fnmatch("*.cmd", path, 0) != 0 && !strstr(path, "/.git/") &&
	       !starts_with(path, ".git/");
}

/* Makes a folder in the scratch folder; one that is there is fine. */
static int scratch_folder(const struct stage *stage, const char *name, char **ret_path)
{
	_cleanup_free_ char *path = NULL;
	int r;

	if (asprintf(&path, "%s/%s", stage->scratch, name) < 0)
		return fail(stage, name, -ENOMEM);
	r = fs_mkdir_parents(AT_FDCWD, path, 0755);
	if (r < 0)
		return fail(stage, path, r);
	*ret_path = TAKE_PTR(path);
	return 0;
}

static int unpack_image(
	const struct local_input *input, const struct unpack *unpack, struct error *error)
{
	_cleanup_(local_image_free) struct local_image image = { 0 };
	int r = local_image_open(input->path, input->kind == LOCAL_IMAGE_ARCHIVE, &image, error);

	return r < 0 ? r : local_image_unpack(&image, unpack, error);
}

/* All packages and images go into one root, as on the system that they are for. */
static int stage_package(struct stage *stage, const struct local_input *input)
{
	_cleanup_free_ char *folder = NULL;
	struct unpack unpack = { .wanted = package_wants, .context = stage };
	int r = scratch_folder(stage, "packages", &folder);

	if (r < 0)
		return r;
	unpack.folder = folder;
	if (input->kind == LOCAL_DEB)
		r = unpack_deb(&unpack, AT_FDCWD, input->path, stage->error);
	else if (input->kind == LOCAL_RPM)
		r = unpack_rpm(&unpack, AT_FDCWD, input->path, stage->error);
	else
		r = unpack_image(input, &unpack, stage->error);
	if (r < 0)
		return r;
	r = strv_push_unique(&stage->roots, folder);
	return r < 0 ? fail(stage, input->path, r) : 0;
}

static int stage_tarball(struct stage *stage, const struct local_input *input, size_t number)
{
	_cleanup_free_ char *folder = NULL;
	struct unpack unpack = { .wanted = tarball_wants, .context = stage };
	char name[32];
	int r;

	(void) snprintf(name, sizeof(name), "tarball-%zu", number);
	r = scratch_folder(stage, name, &folder);
	if (r < 0)
		return r;
	unpack.folder = folder;
	r = unpack_tar(&unpack, AT_FDCWD, input->path, stage->error);
	if (r == 0 && input->kind == LOCAL_PROBE)
		r = strv_pushf(&stage->roots, "%s/" PROBE_ROOT, folder);
	else if (r == 0)
		r = strv_push(&stage->roots, folder);
	return r == -ENOMEM ? fail(stage, input->path, r) : r;
}

/* Has it what is wanted, or may it be a part of it? */
static bool is_needed(const struct stage *stage, const struct local_input *input)
{
	const char *krel = stage->kernel->krel;
	const struct local_tree *tree = local_scan_tree(input->scan, krel);

	if (stage->modules)
		return local_scan_modules(input->scan, krel) || (tree && tree->builtin);
	return tree || local_scan_has(input->scan, "usr/src");
}

static int stage_all(struct stage *stage)
{
	int r = 0;

	for (size_t i = 0; i < stage->kernel->count && r == 0; i++) {
		const struct local_input *input = &stage->kernel->inputs[i];

		if (!is_needed(stage, input))
			continue;
		if (input->kind == LOCAL_FOLDER)
			r = strv_push(&stage->roots, input->path);
		else if (input->kind == LOCAL_TARBALL || input->kind == LOCAL_PROBE)
			r = stage_tarball(stage, input, i);
		else
			r = stage_package(stage, input);
	}
	return r == -ENOMEM ? fail(stage, "--kernel-from", r) : r;
}

static void scan_free(struct local_scan **scan)
{
	local_scan_free(*scan);
}

static int scan_root(const struct stage *stage, const char *root, struct local_scan **ret)
{
	_cleanup_(scan_free) struct local_scan *scan = local_scan_new();
	int r = scan ? local_scan_folder(scan, root, stage->error) : fail(stage, root, -ENOMEM);

	if (r < 0)
		return r;
	if (local_scan_finish(scan) < 0)
		return fail(stage, root, -ENOMEM);
	*ret = TAKE_PTR(scan);
	return 0;
}

/* 1: it is this root that has it, and @files are its files; 0: it has not. */
static int select_headers(const struct stage *stage, const char *root,
	const struct local_scan *scan, struct local_files *files)
{
	const struct local_tree *tree = local_scan_tree(scan, stage->kernel->krel);
	int r;

	if (!tree || !tree->symvers)
		return 0;
	r = local_files_add_tree(files, root, tree, is_staged(stage, root), stage->error);
	return r < 0 ? r : 1;
}

static int select_modules(const struct stage *stage, const char *root,
	const struct local_scan *scan, struct local_files *files, char **ret_order)
{
	const struct local_modules *modules = local_scan_modules(scan, stage->kernel->krel);
	const struct local_tree *tree = local_scan_tree(scan, stage->kernel->krel);
	int r;

	if (modules && modules->builtin)
		r = local_files_add_modules(files, root, modules, stage->error);
	else if (tree && tree->builtin)
		r = local_files_add_built(
			files, root, tree, is_staged(stage, root), ret_order, stage->error);
	else
		return 0;
	return r < 0 ? r : 1;
}

static int write_order(const struct stage *stage, int folder_fd, const char *order)
{
	_cleanup_free_ char *path = NULL;
	int r;

	if (!order)
		return 0;
	if (asprintf(&path, "lib/modules/%s/modules.order", stage->kernel->krel) < 0)
		return fail(stage, "modules.order", -ENOMEM);
	r = fs_write_atomic(folder_fd, path, order, strlen(order), 0644);
	return r < 0 ? fail(stage, path, r) : 0;
}

/* 1: the root had it and it is in the folder now; 0: look in the next. */
static int make_from(const struct stage *stage, const char *root, int folder_fd)
{
	_cleanup_(scan_free) struct local_scan *scan = NULL;
	_cleanup_(local_files_free) struct local_files files = { 0 };
	_cleanup_free_ char *order = NULL;
	int r = scan_root(stage, root, &scan);

	if (r == 0)
		r = stage->modules ? select_modules(stage, root, scan, &files, &order)
				   : select_headers(stage, root, scan, &files);
	if (r <= 0)
		return r;
	local_files_sort(&files);
	r = local_files_copy(&files, folder_fd, !is_staged(stage, root), stage->error);
	if (r == 0)
		r = write_order(stage, folder_fd, order);
	return r < 0 ? r : 1;
}

static int make(struct stage *stage, const char *folder)
{
	_cleanup_close_ int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r = fd < 0 ? fail(stage, folder, -errno) : stage_all(stage);

	for (size_t i = 0; i < stage->roots.count && r == 0; i++)
		r = make_from(stage, stage->roots.items[i], fd);
	strv_free(&stage->roots);
	if (r < 0)
		return error_prefix(stage->error, r, "--kernel-from");
	if (r == 0)
		return error_set(stage->error, -EINVAL,
			"--kernel-from: the %s of kernel %s were seen but not found when unpacked: "
			"a link leads to where nothing is",
			stage->modules ? "modules" : "headers", stage->kernel->krel);
	return 0;
}

int local_make_tree(const struct local_kernel *kernel, const char *scratch, const char *folder,
	struct error *error)
{
	struct stage stage = { .kernel = kernel, .scratch = scratch, .error = error };

	return make(&stage, folder);
}

int local_make_modules(const struct local_kernel *kernel, const char *scratch, const char *folder,
	struct error *error)
{
	struct stage stage = {
		.kernel = kernel,
		.scratch = scratch,
		.modules = true,
		.error = error,
	};

	return make(&stage, folder);
}
