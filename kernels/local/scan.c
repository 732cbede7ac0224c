/* SPDX-License-Identifier: Apache-2.0 */
/* Which files of a kernel's folder are nobody else's business. */
#include "kernels/local/scan.h"

#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "common/path.h"
#include "common/fs.h"
#include "kernels/archive/unpack.h"

/*
 * What keys and their containers are called; certs/ is where a kernel's make leaves the key that
 * it made for its modules, in forms of any name. Nothing compiles against them.
 */
bool local_is_secret(const char *path)
{
	static const char *const patterns[] = { "certs", "*.pem", "*.priv", "*.key", "*.p12",
		"*.pfx", "signing_key*" };
	const char *slash = strrchr(path, '/');

	for (size_t i = 0; i < ARRAY_SIZE(patterns); i++)
		if (fnmatch(patterns[i], slash ? slash + 1 : path, FNM_CASEFOLD) == 0)
			return true;
	return false;
}

/* A link by another name brings it no more than the file itself does. */
bool local_leads_to_secret(const char *link, const char *target)
{
	return local_is_secret(target) || (strstr(target, "/certs/") && !strstr(link, "/certs/"));
}

int local_files_add(struct local_files *files, const char *from, const char *to, const char *link)
{
	struct local_file *file;

	if (unpack_leads_out(to))
		return -EXDEV;
	if (files->count == files->capacity) {
		size_t capacity = files->capacity ? 2 * files->capacity : 1024;
		struct local_file *grown =
			reallocarray(files->items, capacity, sizeof(*files->items));

		if (!grown)
			return -ENOMEM;
		files->items = grown;
		files->capacity = capacity;
	}
	file = &files->items[files->count++];
	file->from = strdup(from);
	file->to = strdup(to);
	file->link = link ? strdup(link) : NULL;
	return file->from && file->to && (!link || file->link) ? 0 : -ENOMEM;
}

static void file_free(struct local_file *file)
{
	free(file->from);
	free(file->to);
	free(file->link);
}

void local_files_free(struct local_files *files)
{
	for (size_t i = 0; i < files->count; i++)
		file_free(&files->items[i]);
	free(files->items);
	*files = (struct local_files){ 0 };
}

/* glibc's qsort() is stable only as long as it has memory: so the order of adding is asked too. */
struct ranked {
	struct local_file file;
	size_t rank;
};

static int compare(const void *a, const void *b)
{
	const struct ranked *left = a;
	const struct ranked *right = b;
	int order = strcmp(left->file.to, right->file.to);

	return order ? order : (left->rank > right->rank) - (left->rank < right->rank);
}

void local_files_sort(struct local_files *files)
{
	_cleanup_free_ struct ranked *ranked = calloc(files->count + 1, sizeof(*ranked));
	size_t kept = 0;

	if (!ranked)
		return;
	for (size_t i = 0; i < files->count; i++)
		ranked[i] = (struct ranked){ files->items[i], i };
	qsort(ranked, files->count, sizeof(*ranked), compare);
	for (size_t i = 0; i < files->count; i++) {
		if (kept && strcmp(files->items[kept - 1].to, ranked[i].file.to) == 0)
			file_free(&ranked[i].file);
		else
			files->items[kept++] = ranked[i].file;
	}
	files->count = kept;
}

/* ---- The marks of a folder: only the places are looked at where kernels lie. */

#define TEXT_LIMIT ((size_t) 1 << 20)
#define DEPTH_MAX  5 /* usr/src/linux-<version>-obj/<arch>/<flavour> */

struct walk {
	struct local_scan *scan;
	int fd;
	const char *folder;
	bool only_inside; /* links that lead out of the folder are not followed */
	struct error *error;
};

static int fail(const struct walk *walk, const char *path, int r)
{
	return error_set_errno(walk->error, r, "%s/%s", walk->folder, path);
}

/* @path may be absolute: openat() then leaves the folder alone. */
static int mark(const struct walk *walk, const char *folder, const char *file)
{
	_cleanup_free_ char *path = NULL;
	_cleanup_free_ char *text = NULL;
	bool content;
	int r = 0;

	if (asprintf(&path, "%s%s%s", folder, *folder ? "/" : "", file) < 0)
		return fail(walk, folder, -ENOMEM);
	if (faccessat(walk->fd, path, F_OK, 0) < 0)
		return 0;
	if (local_scan_wants(path, &content) && content)
		r = fs_read(walk->fd, path, TEXT_LIMIT, &text, NULL);
	if (r == 0)
		r = local_scan_add(walk->scan, path, text);
	return r < 0 ? fail(walk, path, r) : 0;
}

static bool is_folder(const struct walk *walk, const char *path)
{
	struct stat status;

	return fstatat(walk->fd, *path ? path : ".", &status, AT_SYMLINK_NOFOLLOW) == 0 &&
	       S_ISDIR(status.st_mode);
}

static bool has(const struct walk *walk, const char *folder, const char *file)
{
	_cleanup_free_ char *path = NULL;

	return asprintf(&path, "%s%s%s", folder, *folder ? "/" : "", file) >= 0 &&
	       faccessat(walk->fd, path, F_OK, 0) == 0;
}

/* The folder's marks when it is a tree, prepared or not. */
static int look_at_tree(const struct walk *walk, const char *folder, bool *ret_found)
{
	static const char *const files[] = { "include/generated/utsrelease.h", "Module.symvers",
		"scripts/Kbuild.include", "modules.builtin" };
	int r = 0;

	*ret_found = has(walk, folder, files[0]) || has(walk, folder, files[2]);
	for (size_t i = 0; i < ARRAY_SIZE(files) && r == 0 && *ret_found; i++)
		r = mark(walk, folder, files[i]);
	return r;
}

/* Not through links: another name of the same folder, or another system's. */
static int look_below(const struct walk *walk, const char *folder, unsigned int depth)
{
	_cleanup_strv_ struct strv names = { 0 };
	bool found;
	int r = look_at_tree(walk, folder, &found);

	if (r < 0 || found || depth == 0)
		return r;
	r = fs_list(walk->fd, *folder ? folder : ".", &names);
	if (r == -EACCES && *folder) /* somebody else's folder in a big one */
		return 0;
	if (r < 0)
		return fail(walk, folder, r);
	for (size_t i = 0; i < names.count && r == 0; i++) {
		_cleanup_free_ char *path = NULL;

		if (asprintf(&path, "%s%s%s", folder, *folder ? "/" : "", names.items[i]) < 0)
			return fail(walk, folder, -ENOMEM);
		if (is_folder(walk, path))
			r = look_below(walk, path, depth - 1);
	}
	return r;
}

/*
 * The link "build": in the root when it means something there. Where modules_install has just made
 * the root, it leads to the build folder itself, which is outside.
 */
static int look_at_build(const struct walk *walk, const char *path)
{
	_cleanup_free_ char *target = NULL;
	char outside[PATH_MAX];
	ssize_t length;
	bool found;

	if (chase(walk->fd, path, &target) == 0)
		return look_at_tree(walk, target, &found);
	if (walk->only_inside)
		return 0;
	length = readlinkat(walk->fd, path, outside, sizeof(outside) - 1);
	if (length <= 0 || *outside != '/')
		return 0;
	outside[length] = '\0';
	return look_at_tree(walk, outside, &found);
}

static int look_at_modules(const struct walk *walk, const char *folder)
{
	_cleanup_strv_ struct strv names = { 0 };
	int r = fs_list(walk->fd, folder, &names);

	if (r < 0)
		return fail(walk, folder, r);
	for (size_t i = 0; i < names.count && r == 0; i++) {
		_cleanup_free_ char *path = NULL;
		_cleanup_free_ char *build = NULL;

		if (asprintf(&path, "%s/%s", folder, names.items[i]) < 0 ||
			asprintf(&build, "%s/build", path) < 0)
			return fail(walk, folder, -ENOMEM);
		if (!is_folder(walk, path))
			continue;
		r = mark(walk, path, "modules.builtin");
		if (r == 0)
			r = mark(walk, path, "kernel");
		if (r == 0)
			r = look_at_build(walk, build);
	}
	return r;
}

static int look(const struct walk *walk, bool is_root)
{
	static const char *const modules[] = { "lib/modules", "usr/lib/modules" };
	static const char *const files[] = { "etc/os-release", "usr/lib/os-release", "probe.json" };
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(modules) && r == 0; i++) {
		if (!is_folder(walk, modules[i]))
			continue;
		is_root = true;
		r = look_at_modules(walk, modules[i]);
	}
	for (size_t i = 0; i < ARRAY_SIZE(files) && r == 0; i++)
		r = mark(walk, "", files[i]);
	if (r == 0 && is_root && is_folder(walk, "usr/src"))
		return look_below(walk, "usr/src", DEPTH_MAX);
	return r < 0 || is_root ? r : look_below(walk, "", DEPTH_MAX);
}

static int scan_as(struct local_scan *scan, const char *folder, bool is_root, struct error *error)
{
	_cleanup_close_ int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct walk walk = {
		.scan = scan, .fd = fd, .folder = folder, .only_inside = is_root, .error = error
	};

	if (fd < 0)
		return error_set_errno(error, -errno, "%s", folder);
	return look(&walk, is_root);
}

int local_scan_folder(struct local_scan *scan, const char *folder, struct error *error)
{
	return scan_as(scan, folder, false, error);
}

int local_scan_root(struct local_scan *scan, const char *folder, struct error *error)
{
	return scan_as(scan, folder, true, error);
}

/* What tells a tree, as the end of a path. utsrelease.h is what makes it one. */
#define MARK_RELEASE "include/generated/utsrelease.h"

static const struct {
	const char *end;
	bool content;
} tree_marks[] = {
	{ MARK_RELEASE, true },
	{ "Module.symvers", false },
	{ "scripts/Kbuild.include", false },
	{ "modules.builtin", false },
};

static const struct {
	const char *path;
	bool content;
} told_files[] = {
	{ "etc/os-release", true },
	{ "usr/lib/os-release", true },
	{ "probe.json", true },
	{ "oci-layout", false },
	{ "index.json", false },
	{ "manifest.json", false },
};

struct local_scan *local_scan_new(void)
{
	return calloc(1, sizeof(struct local_scan));
}

void local_scan_free(struct local_scan *scan)
{
	if (!scan)
		return;
	for (size_t i = 0; i < scan->mark_count; i++) {
		free(scan->marks[i].path);
		free(scan->marks[i].text);
	}
	for (size_t i = 0; i < scan->tree_count; i++) {
		free(scan->trees[i].path);
		free(scan->trees[i].krel);
	}
	for (size_t i = 0; i < scan->module_count; i++) {
		free(scan->modules[i].path);
		free(scan->modules[i].krel);
	}
	free(scan->marks);
	free(scan->trees);
	free(scan->modules);
	free(scan);
}

/* Does the path end in these components? Then the length of what is before them, else -1. */
static ssize_t stem_length(const char *path, const char *end)
{
	size_t length = strlen(path);
	size_t size = strlen(end);

	if (length < size || strcmp(path + length - size, end) != 0)
		return -1;
	if (length == size)
		return 0;
	return path[length - size - 1] == '/' ? (ssize_t) (length - size - 1) : -1;
}

static const char *find_lib_modules(const char *path)
{
	static const char folder[] = "lib/modules/";
	const char *found = path;

	while ((found = strstr(found, folder))) {
		if (found == path || found[-1] == '/')
			return found + strlen(folder);
		found++;
	}
	return NULL;
}

/* Debug packages have the same paths below usr/lib/debug: those modules are no modules. */
bool local_scan_split(const char *path, char **ret_krel, const char **ret_rest)
{
	const char *krel = find_lib_modules(path);
	size_t length = krel ? strcspn(krel, "/") : 0;

	if (length == 0 || strncmp(path, "usr/lib/debug/", 14) == 0)
		return false;
	*ret_rest = krel + length + (krel[length] == '/');
	*ret_krel = strndup(krel, length);
	return *ret_krel != NULL;
}

static bool is_of_modules(const char *path, bool *ret_is_module)
{
	_cleanup_free_ char *krel = NULL;
	const char *rest;

	if (!local_scan_split(path, &krel, &rest))
		return false;
	*ret_is_module = strncmp(rest, "kernel/", 7) == 0;
	return *ret_is_module || strcmp(rest, "modules.builtin") == 0 ||
	       strcmp(rest, "kernel") == 0;
}

/* Debian's common folder and kbuild package: no kernel by themselves, but part of one. */
static bool is_companion(const char *path)
{
	static const char *const starts[] = { "usr/src/linux", "usr/src/kernels/",
		"usr/lib/linux-kbuild" };

	for (size_t i = 0; i < ARRAY_SIZE(starts); i++)
		if (strncmp(path, starts[i], strlen(starts[i])) == 0)
			return true;
	return false;
}

static bool is_tree_mark(const char *path, bool *ret_content)
{
	for (size_t i = 0; i < ARRAY_SIZE(tree_marks); i++) {
		if (stem_length(path, tree_marks[i].end) < 0)
			continue;
		*ret_content = tree_marks[i].content;
		return true;
	}
	return false;
}

bool local_scan_wants(const char *path, bool *ret_content)
{
	bool is_module;

	*ret_content = false;
	for (size_t i = 0; i < ARRAY_SIZE(told_files); i++) {
		if (strcmp(path, told_files[i].path) != 0)
			continue;
		*ret_content = told_files[i].content;
		return true;
	}
	if (is_of_modules(path, &is_module)) {
		const char *suffix = strstr(path, ".ko");

		return !is_module || (suffix && (!suffix[3] || suffix[3] == '.'));
	}
	return is_tree_mark(path, ret_content) || is_companion(path);
}

static int push_mark(struct local_scan *scan, const char *path, size_t length, const char *text)
{
	struct local_mark *grown;

	for (size_t i = 0; i < scan->mark_count; i++)
		if (strlen(scan->marks[i].path) == length &&
			strncmp(scan->marks[i].path, path, length) == 0)
			return 0;
	/* A power of two at a time: there are only few marks. */
	if ((scan->mark_count & (scan->mark_count + 1)) == 0) {
		grown = realloc(scan->marks, 2 * (scan->mark_count + 1) * sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		scan->marks = grown;
	}
	scan->marks[scan->mark_count].path = strndup(path, length);
	scan->marks[scan->mark_count].text = text ? strdup(text) : NULL;
	scan->mark_count++;
	return scan->marks[scan->mark_count - 1].path &&
			       (!text || scan->marks[scan->mark_count - 1].text)
		       ? 0
		       : -ENOMEM;
}

int local_scan_add(struct local_scan *scan, const char *path, const char *text)
{
	bool is_module = false, content;
	size_t length = strlen(path);

	if (!is_of_modules(path, &is_module) && !is_tree_mark(path, &content) && is_companion(path))
		return push_mark(scan, "usr/src", strlen("usr/src"), NULL);
	if (is_module)
		length = (size_t) (strstr(find_lib_modules(path), "/kernel/") - path) +
			 strlen("/kernel");
	return push_mark(scan, path, length, text);
}

void local_scan_forget(struct local_scan *scan, const char *path)
{
	size_t length = strlen(path);
	size_t kept = 0;

	for (size_t i = 0; i < scan->mark_count; i++) {
		const char *mark = scan->marks[i].path;

		if (strncmp(mark, path, length) == 0 &&
			(!length || mark[length] == '/' || !mark[length])) {
			free(scan->marks[i].path);
			free(scan->marks[i].text);
			continue;
		}
		scan->marks[kept++] = scan->marks[i];
	}
	scan->mark_count = kept;
}

const char *local_scan_text(const struct local_scan *scan, const char *path)
{
	for (size_t i = 0; i < scan->mark_count; i++)
		if (strcmp(scan->marks[i].path, path) == 0)
			return scan->marks[i].text;
	return NULL;
}

static struct local_tree *tree_at(struct local_scan *scan, const char *path, size_t length)
{
	struct local_tree *tree;

	for (size_t i = 0; i < scan->tree_count; i++)
		if (scan->trees[i].path && strlen(scan->trees[i].path) == length &&
			strncmp(scan->trees[i].path, path, length) == 0)
			return &scan->trees[i];
	tree = &scan->trees[scan->tree_count];
	tree->path = strndup(path, length);
	if (!tree->path)
		return NULL;
	scan->tree_count++;
	return tree;
}

static char *release_of(const char *text)
{
	static const char define[] = "#define UTS_RELEASE \"";
	const char *found = text ? strstr(text, define) : NULL;
	size_t length;

	if (!found)
		return NULL;
	found += strlen(define);
	length = strcspn(found, "\"\n/");
	return found[length] == '"' && length ? strndup(found, length) : NULL;
}

static int finish_tree(struct local_scan *scan, const struct local_mark *mark)
{
	for (size_t i = 0; i < ARRAY_SIZE(tree_marks); i++) {
		ssize_t length = stem_length(mark->path, tree_marks[i].end);
		struct local_tree *tree;

		if (length < 0)
			continue;
		tree = tree_at(scan, mark->path, (size_t) length);
		if (!tree)
			return -ENOMEM;
		if (i == 0 && !tree->krel)
			tree->krel = release_of(mark->text);
		tree->symvers |= i == 1;
		tree->builtin |= i == 3;
		return 0;
	}
	return 0;
}

static int finish_modules(struct local_scan *scan, const char *path, char *krel, const char *rest)
{
	struct local_modules *modules = NULL;

	for (size_t i = 0; i < scan->module_count && !modules; i++)
		if (scan->modules[i].krel && strcmp(scan->modules[i].krel, krel) == 0)
			modules = &scan->modules[i];
	if (!modules) {
		modules = &scan->modules[scan->module_count];
		modules->path = strndup(path, (size_t) (rest - path) - 1);
		modules->krel = strdup(krel);
		scan->module_count++;
		if (!modules->path || !modules->krel)
			return -ENOMEM;
	}
	modules->modules |= strcmp(rest, "kernel") == 0;
	modules->builtin |= strcmp(rest, "modules.builtin") == 0;
	return 0;
}

int local_scan_finish(struct local_scan *scan)
{
	int r = 0;

	scan->trees = calloc(scan->mark_count + 1, sizeof(*scan->trees));
	scan->modules = calloc(scan->mark_count + 1, sizeof(*scan->modules));
	if (!scan->trees || !scan->modules)
		return -ENOMEM;
	for (size_t i = 0; i < scan->mark_count && r == 0; i++) {
		const struct local_mark *mark = &scan->marks[i];
		_cleanup_free_ char *krel = NULL;
		bool is_module;
		const char *rest;

		if (is_of_modules(mark->path, &is_module) &&
			local_scan_split(mark->path, &krel, &rest))
			r = finish_modules(scan, mark->path, krel, rest);
		else
			r = finish_tree(scan, mark);
	}
	return r;
}

bool local_scan_has(const struct local_scan *scan, const char *path)
{
	for (size_t i = 0; i < scan->mark_count; i++)
		if (strcmp(scan->marks[i].path, path) == 0)
			return true;
	return false;
}

const struct local_tree *local_scan_tree(const struct local_scan *scan, const char *krel)
{
	for (size_t i = 0; i < scan->tree_count; i++)
		if (scan->trees[i].krel && (!krel || strcmp(scan->trees[i].krel, krel) == 0))
			return &scan->trees[i];
	return NULL;
}

const struct local_modules *local_scan_modules(const struct local_scan *scan, const char *krel)
{
	for (size_t i = 0; i < scan->module_count; i++)
		if (strcmp(scan->modules[i].krel, krel) == 0)
			return &scan->modules[i];
	return NULL;
}
