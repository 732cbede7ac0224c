/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the files of a headers folder, or of a kernel's build folder, that modules compile against.
 */
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "common/fs.h"
#include "common/xalloc.h"
#include "kernels/archive/unpack.h"
#include "kernels/local/scan.h"
#include "kernels/tree/tree.h"

/* ---- the list */

int local_files_add(struct local_files *files, const char *from, const char *to, const char *link)
{
	if (unpack_leads_out(to))
		return -EXDEV;
	/* A power of two at a time. */
	if ((files->count & (files->count + 1)) == 0)
		files->items =
			xreallocarray(files->items, 2 * (files->count + 1), sizeof(*files->items));
	files->items[files->count] = (struct local_file){
		.from = xstrdup(from),
		.to = xstrdup(to),
		.link = link ? xstrdup(link) : NULL,
		.rank = files->count,
	};
	files->count++;
	return 0;
}

static void file_free(struct local_file *file)
{
	free(file->from);
	free(file->to);
	free(file->link);
	free(file->text);
}

void local_files_free(struct local_files *files)
{
	for (size_t i = 0; i < files->count; i++)
		file_free(&files->items[i]);
	free(files->items);
	*files = (struct local_files){ 0 };
}

static int compare(const void *a, const void *b)
{
	const struct local_file *left = a;
	const struct local_file *right = b;
	int order = strcmp(left->to, right->to);

	return order ? order : (left->rank > right->rank) - (left->rank < right->rank);
}

void local_files_sort(struct local_files *files)
{
	size_t kept = 0;

	if (files->count)
		qsort(files->items, files->count, sizeof(*files->items), compare);
	for (size_t i = 0; i < files->count; i++) {
		if (kept && strcmp(files->items[kept - 1].to, files->items[i].to) == 0)
			file_free(&files->items[i]);
		else
			files->items[kept++] = files->items[i];
	}
	files->count = kept;
}

/* ---- what a tree has that is never taken */

static bool matches_any(const char *path, const char *const *patterns, size_t count, int flags)
{
	for (size_t i = 0; i < count; i++)
		if (fnmatch(patterns[i], path, flags) == 0)
			return true;
	return false;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/*
 * Names of keys and their containers. In certs/, a kernel's make leaves the key that it made for
 * its modules, in forms of any name. Nothing compiles against them.
 */
static bool is_secret(const char *path)
{
	static const char *const patterns[] = { "certs", "*.pem", "*.priv", "*.key", "*.p12",
		"*.pfx", "signing_key*" };

	return matches_any(base_name(path), patterns, ARRAY_SIZE(patterns), FNM_CASEFOLD);
}

static bool is_left_over(const char *path)
{
	static const char *const patterns[] = { "*.o", "*.a", "*.cmd", "*.ko", "*.mod", "*.mod.c",
		"*.d", "*.orig", "*.rej" };

	return matches_any(base_name(path), patterns, ARRAY_SIZE(patterns), 0);
}

/* ---- walking a tree */

struct selection {
	struct local_files *files;
	const char *krel;
	struct strv from; /* folders and files that are still to be walked, … */
	struct strv to;   /* … with their places; those done stay, so that none is walked twice */
	struct error *error;
	bool is_build;      /* a kernel's build folder: only some of it is taken */
	const char *root;   /* nothing outside of it is read; NULL: the user's own */
	struct strv arches; /* of a build folder: which folders of arch/ count */
	size_t base_length; /* of the place of the build folder, with its '/' */
};

static void selection_done(struct selection *selection)
{
	strv_free(&selection->from);
	strv_free(&selection->to);
	strv_free(&selection->arches);
}

static int fail(const struct selection *selection, const char *path, int r)
{
	if (r == -EXDEV)
		return error_set(selection->error, r, "%s: it leads out of %s, so it is not read",
			path, selection->root);
	return error_set_errno(selection->error, r, "%s", path);
}

static bool has(const char *folder, const char *file)
{
	_cleanup_free_ char *path = xasprintf("%s/%s", folder, file);

	return access(path, F_OK) == 0;
}

static bool is_below(const char *path, const char *folder)
{
	size_t length = strlen(folder);

	return strncmp(path, folder, length) == 0 && (!path[length] || path[length] == '/');
}

/* A path in an archive, or in another system's root, must not lead to a file of this machine. */
static bool is_allowed(const struct selection *selection, const char *from)
{
	return !selection->root || strcmp(selection->root, "/") == 0 ||
	       is_below(from, selection->root);
}

/* Asks for a folder or file to be walked, unless it lies in one that is. */
static int want(struct selection *selection, const char *from, const char *to)
{
	if (!is_allowed(selection, from))
		return -EXDEV;
	for (size_t i = 0; i < selection->to.count; i++)
		if (is_below(to, selection->to.items[i]))
			return 0;
	xstrv_push(&selection->from, from);
	xstrv_push(&selection->to, to);
	return 0;
}

/*
 * Finds an absolute path of the kernel's own system on this machine: in the same root, beside the
 * folder that names it, or at that very path.
 */
static char *find_absolute(const struct selection *selection, const char *from, const char *path)
{
	const char *sources = strstr(from, "/usr/src/");
	_cleanup_free_ char *found = NULL;

	if (sources) {
		found = xasprintf("%.*s%s", (int) (sources - from), from, path);
		if (access(found, F_OK) == 0)
			return TAKE_PTR(found);
	}
	return is_allowed(selection, path) && access(path, F_OK) == 0 ? xstrdup(path) : NULL;
}

static int add_link(struct selection *selection, const char *from, const char *to)
{
	_cleanup_free_ char *target_from = NULL;
	_cleanup_free_ char *target_to = NULL;
	_cleanup_free_ char *relative = NULL;
	_cleanup_free_ char *real = NULL;
	char text[PATH_MAX];
	ssize_t length = readlink(from, text, sizeof(text) - 1);
	int r;

	if (length < 0)
		return fail(selection, from, -errno);
	text[length] = '\0';
	target_from = *text == '/' ? find_absolute(selection, from, text) : realpath(from, NULL);
	if (!target_from) /* such as a link to documentation that is not there */
		return 0;
	/* A link by another name brings a key no more than the file itself does. */
	real = realpath(target_from, NULL);
	if (real && (is_secret(real) || (strstr(real, "/certs/") && !strstr(from, "/certs/"))))
		return 0;
	target_to = unpack_link_target(to, text);
	if (!target_to ||
		!*target_to) /* it leads beyond the output: what is there comes here instead */
		return want(selection, target_from, to);
	relative = *text == '/' ? unpack_relative_link(to, text) : NULL;
	r = local_files_add(selection->files, from, to, relative ? relative : text);
	if (r == 0)
		r = want(selection, target_from, target_to);
	return r < 0 ? fail(selection, from, r) : 0;
}

/*
 * In arch/<arch>: Makefiles, headers and linker scripts, at any depth. User Mode Linux has its
 * processor's headers in arch/x86/um, outside of any include/.
 */
static bool arch_wants(const struct selection *selection, const char *path, bool is_folder)
{
	static const char *const names[] = { "Makefile*", "Kbuild*", "Kconfig*", "Platform",
		"*.lds", "macros.s" };

	if (!strchr(path, '/'))
		return is_folder && strv_contains(&selection->arches, path);
	return is_folder || strstr(path, "/include/") ||
	       (strv_contains(&selection->arches, "um") && strstr(path, "/um/") &&
		       fnmatch("*.h", base_name(path), 0) == 0) ||
	       matches_any(base_name(path), names, ARRAY_SIZE(names), FNM_PATHNAME);
}

/* Selects the files of a build folder that modules compile against. */
static bool build_wants(const struct selection *selection, const char *path, bool is_folder)
{
	static const char *const files[] = { "Makefile*", "Kbuild", "Kconfig", ".config",
		"Module.symvers", "arch", "tools", "tools/objtool", "tools/objtool/objtool",
		"tools/bpf", "tools/bpf/resolve_btfids",
		"tools/bpf/resolve_btfids/resolve_btfids" };

	if (is_left_over(path))
		return false;
	if (is_below(path, "include") || is_below(path, "scripts"))
		return true;
	if (strncmp(path, "arch/", 5) == 0)
		return arch_wants(selection, path + 5, is_folder);
	return matches_any(path, files, ARRAY_SIZE(files), FNM_PATHNAME);
}

static int add_folder(struct selection *selection, const char *from, const char *to);

static int add_path(struct selection *selection, const char *from, const char *to)
{
	struct stat status;
	int r = 0;

	if (lstat(from, &status) < 0)
		return fail(selection, from, -errno);
	if (selection->is_build &&
		!build_wants(selection, to + selection->base_length, S_ISDIR(status.st_mode)))
		return 0;
	if (S_ISDIR(status.st_mode))
		return add_folder(selection, from, to);
	if (S_ISLNK(status.st_mode))
		return add_link(selection, from, to);
	if (S_ISREG(status.st_mode))
		r = local_files_add(selection->files, from, to, NULL);
	return r < 0 ? fail(selection, from, r) : 0;
}

static int add_folder(struct selection *selection, const char *from, const char *to)
{
	_cleanup_strv_ struct strv names = { 0 };
	int r = fs_list(AT_FDCWD, from, &names);

	if (r < 0)
		return fail(selection, from, r);
	for (size_t i = 0; i < names.count; i++) {
		_cleanup_free_ char *child_from = xasprintf("%s/%s", from, names.items[i]);
		_cleanup_free_ char *child_to = xasprintf("%s/%s", to, names.items[i]);

		if (strcmp(names.items[i], ".git") == 0 || is_secret(child_to))
			continue;
		r = add_path(selection, child_from, child_to);
		if (r < 0)
			return r;
	}
	return 0;
}

/* ---- a kernel's own build folder */

/* The kernel's own source of a build folder, or NULL: it is a headers folder. */
static char *find_sources(const char *from, const char *included)
{
	_cleanup_free_ char *link = xasprintf("%s/source", from);

	if (has(from, "init/main.c"))
		return xstrdup(from);
	if (has(link, "init/main.c"))
		return realpath(link, NULL);
	return included && has(included, "init/main.c") ? xstrdup(included) : NULL;
}

/* The architectures that this kernel was configured for: those with generated headers. */
static int find_arches(struct selection *selection, const char *from)
{
	_cleanup_free_ char *folder = xasprintf("%s/arch", from);
	_cleanup_strv_ struct strv names = { 0 };
	int r = fs_list(AT_FDCWD, folder, &names);

	for (size_t i = 0; i < names.count; i++) {
		_cleanup_free_ char *generated = xasprintf("%s/include/generated", names.items[i]);

		if (!has(folder, generated))
			continue;
		xstrv_push(&selection->arches, names.items[i]);
		if (strcmp(names.items[i], "arm64") == 0)
			xstrv_push(&selection->arches, "arm"); /* it borrows headers there */
	}
	return r == -ENOENT ? 0 : r;
}

/* Source and output in one place, as when it had been built in the tree. */
static int add_build_folder(
	struct selection *selection, const char *from, const char *sources, const char *to)
{
	int r = find_arches(selection, from);

	if (!has(from, "scripts/mod/modpost"))
		return error_set(selection->error, -EINVAL,
			"%s: it has no scripts/mod/modpost, so modules cannot be compiled with it; "
			"build the kernel there completely",
			from);
	selection->is_build = true;
	selection->base_length = strlen(to) + 1;
	xstrv_push(&selection->to, to);
	xstrv_push(&selection->from, from);
	if (r == 0 && !is_allowed(selection, sources))
		r = -EXDEV;
	if (r < 0)
		return fail(selection, from, r);
	/* The source's Makefile counts, not the one line that O= leaves. */
	if (strcmp(from, sources) != 0)
		r = add_folder(selection, sources, to);
	return r < 0 ? r : add_folder(selection, from, to);
}

/* ---- a headers folder, and the one that has the rest of the headers */

/*
 * Returns the folder that a tree's first Makefile includes: Debian's flavour, SUSE's -obj and O=
 * have one such line.
 */
static char *included_folder(const char *folder)
{
	static const char makefile[] = "/Makefile";
	_cleanup_free_ char *path = xasprintf("%s%s", folder, makefile);
	_cleanup_free_ char *text = NULL;
	const char *line;
	size_t length;

	if (fs_read(AT_FDCWD, path, (size_t) 1 << 20, &text, NULL) < 0)
		return NULL;
	line = strncmp(text, "include ", 8) == 0 ? text : strstr(text, "\ninclude ");
	if (!line)
		return NULL;
	line += strcspn(line, "i") + 8;
	if (strncmp(line, KERNEL_TREE_HERE, strlen(KERNEL_TREE_HERE)) == 0)
		line += strlen(KERNEL_TREE_HERE);
	length = strcspn(line, " \t\n");
	/* A kernel's own Makefile includes scripts/…: only another Makefile is meant here. */
	if (length <= strlen(makefile) || memchr(line, '$', length))
		return NULL;
	length -= strlen(makefile);
	return strncmp(line + length, makefile, strlen(makefile)) == 0 ? xstrndup(line, length)
								       : NULL;
}

/* The folder with the rest of the headers, as written in @text, beside the tree at @from. */
static char *find_included(const struct selection *selection, const char *from, const char *text)
{
	_cleanup_free_ char *path = NULL;

	if (*text == '/') {
		path = find_absolute(selection, from, text);
		if (path)
			return TAKE_PTR(path);
		path = xasprintf("%s/..%s", from, strrchr(text, '/'));
	} else {
		path = xasprintf("%s/%s", from, text);
	}
	return realpath(path, NULL);
}

/* The included folder's place: as far from the tree's as it is written there. */
static char *included_place(const char *text, const char *to)
{
	_cleanup_free_ char *makefile = xasprintf("%s/Makefile", to);
	_cleanup_free_ char *place = NULL;

	if (strncmp(text, "/usr/src/", 9) == 0)
		return xstrdup(text + 1);
	place = *text == '/' ? xasprintf("usr/src%s", strrchr(text, '/'))
			     : unpack_link_target(makefile, text);
	return place && *place ? TAKE_PTR(place) : NULL;
}

static int add_headers(struct selection *selection, const char *from, const char *included,
	const char *included_to, const char *to)
{
	static const char *const needed[] = { "include/linux/module.h", "scripts/mod/modpost" };
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(needed); i++)
		if (!has(from, needed[i]) && (!included || !has(included, needed[i])))
			return error_set(selection->error, -EINVAL,
				"%s: it has no %s, and neither its links nor its Makefile lead to "
				"one: also give the folder or package with the rest of the headers",
				from, needed[i]);
	r = want(selection, from, to);
	if (r == 0 && included)
		r = want(selection, included, included_to);
	if (r < 0)
		return fail(selection, from, r);
	/* The list grows on the way. */
	for (size_t i = 0; i < selection->from.count && r == 0; i++)
		r = add_path(selection, selection->from.items[i], selection->to.items[i]);
	return r;
}

/* ---- the whole tree */

static int add_module_link(
	struct selection *selection, const char *name, const char *place, const char *from)
{
	_cleanup_free_ char *path = xasprintf("lib/modules/%s/%s", selection->krel, name);
	_cleanup_free_ char *text = unpack_relative_link(path, place);
	int r = local_files_add(selection->files, from, path, text);

	return r < 0 ? fail(selection, from, r) : 0;
}

/* @from is the tree's real path. Its place is where it lay on the kernel's own system, or might. */
static int add_tree(struct selection *selection, const char *from)
{
	const char *place = strstr(from, "/usr/src/");
	_cleanup_free_ char *text = included_folder(from);
	_cleanup_free_ char *included = text ? find_included(selection, from, text) : NULL;
	_cleanup_free_ char *sources = find_sources(from, included);
	_cleanup_free_ char *to =
		place ? xstrdup(place + 1) : xasprintf("usr/src/linux-%s", selection->krel);
	_cleanup_free_ char *included_to = included ? included_place(text, to) : NULL;
	int r;

	if (included && !included_to)
		return error_set(selection->error, -EINVAL,
			"%s: its Makefile includes %s, which is too far away to be included", from,
			text);
	if (sources)
		r = add_build_folder(selection, from, sources, to);
	else
		r = add_headers(selection, from, included, included_to, to);
	if (r == 0)
		r = add_module_link(selection, "build", to, from);
	if (r < 0)
		return r;
	return add_module_link(selection, "source", included && !sources ? included_to : to, from);
}

int local_files_add_tree(struct local_files *files, const char *root,
	const struct local_place *tree, bool confined, struct error *error)
{
	_cleanup_free_ char *real_root = confined ? realpath(root, NULL) : NULL;
	_cleanup_(selection_done) struct selection selection = {
		.files = files,
		.krel = tree->krel,
		.root = real_root,
		.error = error,
	};
	_cleanup_free_ char *path =
		*tree->path == '/' ? xstrdup(tree->path) : xasprintf("%s/%s", root, tree->path);
	_cleanup_free_ char *from = realpath(path, NULL);

	if (!from || (confined && !real_root))
		return error_set_errno(error, -errno, "%s", path);
	if (!is_allowed(&selection, from))
		return fail(&selection, path, -EXDEV);
	return add_tree(&selection, from);
}
