/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/local/scan.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "common/fs.h"
#include "common/path.h"
#include "common/xalloc.h"
#include "kernels/tree/tree.h"
#include "module/elf.h"

#define TEXT_LIMIT ((size_t) 1 << 20)
#define DEPTH_MAX  5 /* usr/src/linux-<version>-obj/<arch>/<flavour> */

/* ---- which paths are marks */

enum mark_kind {
	MARK_NONE,
	MARK_FILE,      /* its text, or that it is there, matters for the input */
	MARK_KERNEL,    /* lib/modules/<krel>/kernel, or a module below it */
	MARK_BUILTIN,   /* lib/modules/<krel>/modules.builtin */
	MARK_TREE,      /* one of tree_files */
	MARK_COMPANION, /* Debian's common folder and kbuild package: no kernel, but part of one */
};

/* Files that make a folder a kernel tree; the first makes it a prepared one. */
static const char *const tree_files[] = { KERNEL_TREE_RELEASE_HEADER, "Module.symvers",
	"scripts/Kbuild.include", "modules.builtin" };

static const struct {
	const char *path;
	bool content;
} input_files[] = {
	{ "etc/os-release", true },
	{ "usr/lib/os-release", true },
	{ "probe.json", true },
	{ "oci-layout", false },
	{ "manifest.json", false },
};

/* The meaning of a path. */
struct meaning {
	enum mark_kind kind;
	bool content;     /* its text counts */
	size_t file;      /* of MARK_TREE: which of tree_files */
	size_t length;    /* of the folder that it is about: the tree, or lib/modules/<krel> */
	const char *krel; /* of MARK_KERNEL and MARK_BUILTIN, in the path */
	size_t krel_length;
};

static bool starts_with(const char *path, const char *start)
{
	return strncmp(path, start, strlen(start)) == 0;
}

/* Returns the release in lib/modules/<krel>, at any depth; NULL: it is not such a path. */
static const char *find_release(const char *path)
{
	static const char folder[] = "lib/modules/";
	const char *found = strstr(path, folder);

	while (found && found != path && found[-1] != '/')
		found = strstr(found + 1, folder);
	/* Debug packages have the same paths below usr/lib/debug: those modules are no modules. */
	if (!found || starts_with(path, "usr/lib/debug/"))
		return NULL;
	found += strlen(folder);
	return *found && *found != '/' ? found : NULL;
}

bool local_scan_split(const char *path, char **ret_krel, const char **ret_rest)
{
	const char *krel = find_release(path);
	size_t length = krel ? strcspn(krel, "/") : 0;

	if (!krel)
		return false;
	*ret_rest = krel + length + (krel[length] == '/');
	*ret_krel = xstrndup(krel, length);
	return true;
}

/* The length of what is before these components at the end of the path, -1: it ends otherwise. */
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

static struct meaning meaning_of(const char *path)
{
	static const char *const companions[] = { "usr/src/linux", "usr/src/kernels/",
		"usr/lib/linux-kbuild" };
	struct meaning meaning = { .krel = find_release(path) };

	for (size_t i = 0; i < ARRAY_SIZE(input_files); i++)
		if (strcmp(path, input_files[i].path) == 0)
			return (struct meaning){ .kind = MARK_FILE,
				.content = input_files[i].content };
	if (meaning.krel) {
		const char *rest = meaning.krel + strcspn(meaning.krel, "/");

		meaning.krel_length = (size_t) (rest - meaning.krel);
		meaning.length = (size_t) (rest - path);
		if (strcmp(rest, "/modules.builtin") == 0)
			meaning.kind = MARK_BUILTIN;
		else if (strcmp(rest, "/kernel") == 0 || starts_with(rest, "/kernel/"))
			meaning.kind = !rest[7] || module_suffix(rest) ? MARK_KERNEL : MARK_NONE;
		if (meaning.kind || starts_with(rest, "/kernel/"))
			return meaning;
	}
	for (size_t i = 0; i < ARRAY_SIZE(tree_files); i++) {
		ssize_t length = stem_length(path, tree_files[i]);

		if (length >= 0)
			return (struct meaning){ .kind = MARK_TREE,
				.content = i == 0,
				.file = i,
				.length = (size_t) length };
	}
	for (size_t i = 0; i < ARRAY_SIZE(companions); i++)
		if (starts_with(path, companions[i]))
			return (struct meaning){ .kind = MARK_COMPANION };
	return (struct meaning){ 0 };
}

bool local_scan_wants(const char *path, bool *ret_content)
{
	struct meaning meaning = meaning_of(path);

	*ret_content = meaning.content;
	return meaning.kind != MARK_NONE;
}

/* ---- the marks */

static void places_free(struct local_places *places)
{
	for (size_t i = 0; i < places->count; i++) {
		free(places->items[i].path);
		free(places->items[i].krel);
	}
	free(places->items);
}

void local_scan_free(struct local_scan *scan)
{
	for (size_t i = 0; i < scan->mark_count; i++) {
		free(scan->marks[i].path);
		free(scan->marks[i].text);
	}
	free(scan->marks);
	places_free(&scan->trees);
	places_free(&scan->modules);
	*scan = (struct local_scan){ 0 };
}

static const struct local_mark *find_mark(
	const struct local_scan *scan, const char *path, size_t length)
{
	for (size_t i = 0; i < scan->mark_count; i++)
		if (strncmp(scan->marks[i].path, path, length) == 0 && !scan->marks[i].path[length])
			return &scan->marks[i];
	return NULL;
}

void local_scan_add(struct local_scan *scan, const char *path, const char *text)
{
	struct meaning meaning = meaning_of(path);
	size_t length = strlen(path);

	if (meaning.kind == MARK_COMPANION) {
		path = "usr/src";
		length = strlen(path);
	} else if (meaning.kind == MARK_KERNEL) {
		length = meaning.length + strlen("/kernel");
	}
	if (find_mark(scan, path, length))
		return;
	scan->marks = xreallocarray(scan->marks, scan->mark_count + 1, sizeof(*scan->marks));
	scan->marks[scan->mark_count++] = (struct local_mark){
		.path = xstrndup(path, length),
		.text = text ? xstrdup(text) : NULL,
	};
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

bool local_scan_has(const struct local_scan *scan, const char *path)
{
	return find_mark(scan, path, strlen(path));
}

const char *local_scan_text(const struct local_scan *scan, const char *path)
{
	const struct local_mark *mark = find_mark(scan, path, strlen(path));

	return mark ? mark->text : NULL;
}

/* ---- the kernels that they mark */

/* The place of this path, added where it is new. */
static struct local_place *get_place(struct local_places *places, const char *path, size_t length)
{
	for (size_t i = 0; i < places->count; i++)
		if (strncmp(places->items[i].path, path, length) == 0 &&
			!places->items[i].path[length])
			return &places->items[i];
	places->items = xreallocarray(places->items, places->count + 1, sizeof(*places->items));
	places->items[places->count] = (struct local_place){ .path = xstrndup(path, length) };
	return &places->items[places->count++];
}

void local_scan_finish(struct local_scan *scan)
{
	for (size_t i = 0; i < scan->mark_count; i++) {
		const struct local_mark *mark = &scan->marks[i];
		struct meaning meaning = meaning_of(mark->path);
		struct local_place *place;

		if (meaning.kind == MARK_TREE) {
			_cleanup_free_ char *krel = NULL;

			place = get_place(&scan->trees, mark->path, meaning.length);
			place->symvers |= meaning.file == 1;
			place->builtin |= meaning.file == 3;
			if (mark->text)
				krel = kernel_tree_defined(mark->text, "UTS_RELEASE");
			if (krel && *krel && !strchr(krel, '/'))
				place->krel = TAKE_PTR(krel);
		} else if (meaning.kind == MARK_KERNEL || meaning.kind == MARK_BUILTIN) {
			place = get_place(&scan->modules, mark->path, meaning.length);
			place->builtin |= meaning.kind == MARK_BUILTIN;
			if (!place->krel)
				place->krel = xstrndup(meaning.krel, meaning.krel_length);
		}
	}
}

static const struct local_place *find_place(const struct local_places *places, const char *krel)
{
	for (size_t i = 0; i < places->count; i++)
		if (places->items[i].krel && (!krel || strcmp(places->items[i].krel, krel) == 0))
			return &places->items[i];
	return NULL;
}

const struct local_place *local_scan_tree(const struct local_scan *scan, const char *krel)
{
	return find_place(&scan->trees, krel);
}

const struct local_place *local_scan_modules(const struct local_scan *scan, const char *krel)
{
	const struct local_place *found = find_place(&scan->modules, krel);

	/*
	 * Prefer the one of lib/modules and usr/lib/modules that has the kernel's own modules:
	 * the other has add-ons.
	 */
	for (size_t i = 0; found && !found->builtin && i < scan->modules.count; i++) {
		const struct local_place *place = &scan->modules.items[i];

		if (place->builtin && place->krel && strcmp(place->krel, found->krel) == 0)
			found = place;
	}
	return found;
}

/* ---- the marks of a folder: only the places are looked at where kernels lie */

struct walk {
	struct local_scan *scan;
	int fd;
	const char *folder;
	bool only_inside; /* links that lead out of the folder are not followed */
	struct error *error;
};

static char *join(const char *folder, const char *name)
{
	return xasprintf("%s%s%s", folder, *folder ? "/" : "", name);
}

static int fail(const struct walk *walk, const char *path, int r)
{
	return error_set_errno(walk->error, r, "%s/%s", walk->folder, path);
}

static bool is_folder(const struct walk *walk, const char *path)
{
	struct stat status;

	return fstatat(walk->fd, path, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
	       S_ISDIR(status.st_mode);
}

/* Returns 1 when the file is there, and marked. @folder may be absolute: openat(2) allows that. */
static int mark(const struct walk *walk, const char *folder, const char *file)
{
	_cleanup_free_ char *path = join(folder, file);
	_cleanup_free_ char *text = NULL;
	int r = 0;

	if (faccessat(walk->fd, path, F_OK, 0) < 0)
		return 0;
	if (meaning_of(path).content)
		r = fs_read(walk->fd, path, TEXT_LIMIT, &text, NULL);
	if (r < 0)
		return fail(walk, path, r);
	local_scan_add(walk->scan, path, text);
	return 1;
}

/* The folder's marks when it is a tree, prepared or not: then it returns 1. */
static int look_at_tree(const struct walk *walk, const char *folder)
{
	_cleanup_free_ char *prepared = join(folder, tree_files[0]);
	_cleanup_free_ char *source = join(folder, tree_files[2]);

	if (faccessat(walk->fd, prepared, F_OK, 0) < 0 && faccessat(walk->fd, source, F_OK, 0) < 0)
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(tree_files); i++) {
		int r = mark(walk, folder, tree_files[i]);

		if (r < 0)
			return r;
	}
	return 1;
}

/* Not through links: another name of the same folder, or another system's. */
static int look_below(const struct walk *walk, const char *folder, unsigned int depth)
{
	_cleanup_strv_ struct strv names = { 0 };
	int r = look_at_tree(walk, folder);

	if (r != 0 || depth == 0)
		return r;
	r = fs_list(walk->fd, *folder ? folder : ".", &names);
	if (r == -EACCES && *folder) /* another user's folder in a big one */
		return 0;
	if (r < 0)
		return fail(walk, folder, r);
	for (size_t i = 0; i < names.count; i++) {
		_cleanup_free_ char *path = join(folder, names.items[i]);

		r = is_folder(walk, path) ? look_below(walk, path, depth - 1) : 0;
		if (r < 0)
			return r;
	}
	return 0;
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

	if (chase(walk->fd, path, &target) == 0)
		return look_at_tree(walk, target);
	if (walk->only_inside)
		return 0;
	length = readlinkat(walk->fd, path, outside, sizeof(outside) - 1);
	if (length <= 0 || *outside != '/')
		return 0;
	outside[length] = '\0';
	return look_at_tree(walk, outside);
}

static int look_at_modules(const struct walk *walk, const char *folder)
{
	_cleanup_strv_ struct strv names = { 0 };
	int r = fs_list(walk->fd, folder, &names);

	if (r < 0)
		return fail(walk, folder, r);
	for (size_t i = 0; i < names.count; i++) {
		_cleanup_free_ char *path = join(folder, names.items[i]);
		_cleanup_free_ char *build = join(path, "build");

		if (!is_folder(walk, path))
			continue;
		r = mark(walk, path, "modules.builtin");
		if (r >= 0)
			r = mark(walk, path, "kernel");
		if (r >= 0)
			r = look_at_build(walk, build);
		if (r < 0)
			return r;
	}
	return 0;
}

int local_scan_folder(const char *folder, bool is_root, struct local_scan *ret, struct error *error)
{
	static const char *const modules[] = { "lib/modules", "usr/lib/modules" };
	_cleanup_(local_scan_free) struct local_scan scan = { 0 };
	_cleanup_close_ int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const struct walk walk = {
		.scan = &scan, .fd = fd, .folder = folder, .only_inside = is_root, .error = error
	};
	int r;

	if (fd < 0)
		return error_set_errno(error, -errno, "%s", folder);
	for (size_t i = 0; i < ARRAY_SIZE(modules); i++) {
		if (!is_folder(&walk, modules[i]))
			continue;
		is_root = true;
		r = look_at_modules(&walk, modules[i]);
		if (r < 0)
			return r;
	}
	for (size_t i = 0; i < ARRAY_SIZE(input_files); i++) {
		r = input_files[i].content ? mark(&walk, "", input_files[i].path) : 0;
		if (r < 0)
			return r;
	}
	r = 0;
	if (!is_root)
		r = look_below(&walk, "", DEPTH_MAX);
	else if (is_folder(&walk, "usr/src"))
		r = look_below(&walk, "usr/src", DEPTH_MAX);
	if (r < 0)
		return r;
	local_scan_finish(&scan);
	*ret = scan;
	scan = (struct local_scan){ 0 };
	return 0;
}
