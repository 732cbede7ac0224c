/* SPDX-License-Identifier: Apache-2.0 */
/* Which files of a headers folder, or of a kernel's build folder, modules compile against. */
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "common/fs.h"
#include "kernels/local/scan.h"
#include "kernels/archive/unpack.h"

struct selection {
	struct local_files *files;
	const char *krel;
	struct strv from; /* folders and files that are still to be walked, … */
	struct strv to;   /* … with their places; those done stay, so that none is walked twice */
	struct error *error;
	bool is_build;      /* a kernel's build folder: only some of it is taken */
	const char *root;   /* a stranger's: nothing outside of it is read; NULL: the user's own */
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
		return error_set(selection->error, r,
			"%s: it leads out of %s: nothing is read there", path, selection->root);
	return error_set_errno(selection->error, r, "%s", path);
}

/* @text as seen from the folder of @path, without "." and ".."; NULL when it leads out. */
static char *resolve_text(const char *path, const char *text)
{
	_cleanup_strv_ struct strv parts = { 0 };
	_cleanup_strv_ struct strv kept = { 0 };
	int r = *text == '/' ? 0 : strv_split(&parts, path, "/");

	if (r == 0 && parts.count)
		strv_remove(&parts, parts.count - 1);
	if (r == 0)
		r = strv_split(&parts, text, "/");
	for (size_t i = 0; i < parts.count && r == 0; i++) {
		if (strcmp(parts.items[i], ".") == 0)
			continue;
		if (strcmp(parts.items[i], "..") != 0)
			r = strv_push(&kept, parts.items[i]);
		else if (kept.count == 0)
			return NULL;
		else
			strv_remove(&kept, kept.count - 1);
	}
	return r < 0 || kept.count == 0 ? NULL : strv_join(&kept, "/");
}

static bool is_below(const char *path, const char *folder)
{
	size_t length = strlen(folder);

	return strncmp(path, folder, length) == 0 && (!path[length] || path[length] == '/');
}

/* What an archive, or another system's root, names must not be a file of this machine. */
static bool is_allowed(const struct selection *selection, const char *from)
{
	return !selection->root || strcmp(selection->root, "/") == 0 ||
	       is_below(from, selection->root);
}

/* Asks for a folder or file to be walked, unless it lies in one that is. */
static int want(struct selection *selection, const char *from, const char *to)
{
	int r;

	if (!is_allowed(selection, from))
		return -EXDEV;
	for (size_t i = 0; i < selection->to.count; i++)
		if (is_below(to, selection->to.items[i]))
			return 0;
	r = strv_push(&selection->from, from);
	return r < 0 ? r : strv_push(&selection->to, to);
}

/*
 * Where an absolute path of the kernel's own system lies here: in the same root, beside the folder
 * that names it, or where it says.
 */
static char *find_absolute(const struct selection *selection, const char *from, const char *path)
{
	_cleanup_free_ char *root = strdup(from);
	_cleanup_free_ char *found = NULL;
	char *sources = root ? strstr(root, "/usr/src/") : NULL;

	if (sources) {
		*sources = '\0';
		if (asprintf(&found, "%s%s", root, path) < 0)
			return NULL;
		if (access(found, F_OK) == 0)
			return TAKE_PTR(found);
		free(TAKE_PTR(found));
	}
	return is_allowed(selection, path) && access(path, F_OK) == 0 ? strdup(path) : NULL;
}

static int add_link(struct selection *selection, const char *from, const char *to)
{
	_cleanup_free_ char *target_from = NULL;
	_cleanup_free_ char *target_to = NULL;
	_cleanup_free_ char *relative = NULL;
	_cleanup_free_ char *real = NULL;
	char text[PATH_MAX];
	ssize_t length = readlink(from, text, sizeof(text) - 1);
	int r = 0;

	if (length < 0)
		return fail(selection, from, -errno);
	text[length] = '\0';
	target_from = *text == '/' ? find_absolute(selection, from, text) : realpath(from, NULL);
	if (!target_from) /* such as a link to documentation that is not there */
		return 0;
	real = realpath(target_from, NULL);
	if (real && local_leads_to_secret(from, real))
		return 0;
	target_to = resolve_text(to, text);
	if (!target_to) /* it leads beyond the output: what is there comes here instead */
		return want(selection, target_from, to);
	if (*text == '/') {
		relative = unpack_relative_link(to, text);
		if (!relative)
			return fail(selection, from, -ENOMEM);
	}
	r = local_files_add(selection->files, from, to, relative ? relative : text);
	if (r == 0)
		r = want(selection, target_from, target_to);
	return r < 0 ? fail(selection, from, r) : 0;
}

static bool is_left_over(const char *path)
{
	static const char *const patterns[] = { "*.o", "*.a", "*.cmd", "*.ko", "*.mod", "*.mod.c",
		"*.d", "*.orig", "*.rej" };
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;

	for (size_t i = 0; i < ARRAY_SIZE(patterns); i++)
		if (fnmatch(patterns[i], name, 0) == 0)
			return true;
	return false;
}

static bool matches_any(const char *path, const char *const *patterns, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (fnmatch(patterns[i], path, FNM_PATHNAME) == 0)
			return true;
	return false;
}

/* In arch/<arch>: Makefiles, headers and linker scripts, at any depth. */
static bool arch_wants(const struct selection *selection, const char *path, bool is_folder)
{
	static const char *const names[] = { "Makefile*", "Kbuild*", "Kconfig*", "Platform",
		"*.lds", "macros.s" };
	_cleanup_free_ char *arch = strndup(path, strcspn(path, "/"));
	const char *slash = strrchr(path, '/');

	if (!slash)
		return is_folder && arch && strv_contains(&selection->arches, arch);
	return is_folder || strstr(path, "/include/") ||
	       matches_any(slash + 1, names, ARRAY_SIZE(names));
}

/* What modules compile against, of a build folder. */
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
	return matches_any(path, files, ARRAY_SIZE(files));
}

static bool wants(const struct selection *selection, const char *from, const char *to)
{
	struct stat status;

	if (local_is_secret(to))
		return false;
	if (!selection->is_build)
		return true;
	return lstat(from, &status) == 0 &&
	       build_wants(selection, to + selection->base_length, S_ISDIR(status.st_mode));
}

static int add_path(struct selection *selection, const char *from, const char *to);

static int add_folder(struct selection *selection, const char *from, const char *to)
{
	_cleanup_strv_ struct strv names = { 0 };
	int r = fs_list(AT_FDCWD, from, &names);

	if (r < 0)
		return fail(selection, from, r);
	for (size_t i = 0; i < names.count && r == 0; i++) {
		_cleanup_free_ char *child_from = NULL;
		_cleanup_free_ char *child_to = NULL;

		if (strcmp(names.items[i], ".git") == 0)
			continue;
		if (asprintf(&child_from, "%s/%s", from, names.items[i]) < 0 ||
			asprintf(&child_to, "%s/%s", to, names.items[i]) < 0)
			return fail(selection, from, -ENOMEM);
		if (wants(selection, child_from, child_to))
			r = add_path(selection, child_from, child_to);
	}
	return r;
}

static int add_path(struct selection *selection, const char *from, const char *to)
{
	struct stat status;
	int r;

	if (lstat(from, &status) < 0)
		return fail(selection, from, -errno);
	if (S_ISDIR(status.st_mode))
		return add_folder(selection, from, to);
	if (S_ISLNK(status.st_mode))
		return add_link(selection, from, to);
	if (!S_ISREG(status.st_mode))
		return 0;
	r = local_files_add(selection->files, from, to, NULL);
	return r < 0 ? fail(selection, from, r) : 0;
}

/* Where a tree's first Makefile goes on: Debian's flavour, SUSE's -obj and O= have one line. */
static char *included_folder(const char *folder)
{
	static const char here[] =
		"$(dir $(lastword $(MAKEFILE_LIST)))"; /* of kernels/tree/tree.h */
	_cleanup_free_ char *path = NULL;
	_cleanup_free_ char *text = NULL;
	const char *line;
	size_t length;

	if (asprintf(&path, "%s/Makefile", folder) < 0)
		return NULL;
	if (fs_read(AT_FDCWD, path, (size_t) 1 << 20, &text, NULL) < 0)
		return NULL;
	line = strncmp(text, "include ", 8) == 0 ? text : strstr(text, "\ninclude ");
	if (!line)
		return NULL;
	line += strcspn(line, "i") + 8;
	if (strncmp(line, here, strlen(here)) == 0)
		line += strlen(here);
	length = strcspn(line, " \t\n");
	/* A kernel's own Makefile includes scripts/…: only another Makefile is meant here. */
	if (length < 10 || strncmp(line + length - 9, "/Makefile", 9) != 0 ||
		memchr(line, '$', length))
		return NULL;
	return strndup(line, length - 9);
}

/* The folder with the rest of the headers, as written in @text, beside the tree at @from. */
static char *find_included(const struct selection *selection, const char *from, const char *text)
{
	_cleanup_free_ char *path = NULL;
	const char *base = strrchr(text, '/');

	if (*text != '/') {
		if (asprintf(&path, "%s/%s", from, text) < 0)
			return NULL;
		return realpath(path, NULL);
	}
	path = find_absolute(selection, from, text);
	if (path)
		return TAKE_PTR(path);
	if (asprintf(&path, "%s/..%s", from, base) < 0)
		return NULL;
	return realpath(path, NULL);
}

static bool has(const char *folder, const char *file)
{
	_cleanup_free_ char *path = NULL;

	return asprintf(&path, "%s/%s", folder, file) >= 0 && access(path, F_OK) == 0;
}

/* The kernel's own source of a build folder, or NULL: it is a headers folder. */
static char *find_sources(const char *from, const char *included)
{
	_cleanup_free_ char *link = NULL;

	if (has(from, "init/main.c"))
		return strdup(from);
	if (has(from, "source/init/main.c") && asprintf(&link, "%s/source", from) >= 0)
		return realpath(link, NULL);
	return included && has(included, "init/main.c") ? strdup(included) : NULL;
}

/* The architectures that this kernel was configured for: those with generated headers. */
static int find_arches(struct selection *selection, const char *from)
{
	_cleanup_free_ char *folder = NULL;
	_cleanup_strv_ struct strv names = { 0 };
	int r = asprintf(&folder, "%s/arch", from) < 0 ? -ENOMEM
						       : fs_list(AT_FDCWD, folder, &names);

	for (size_t i = 0; i < names.count && r == 0; i++) {
		_cleanup_free_ char *generated = NULL;

		if (asprintf(&generated, "%s/include/generated", names.items[i]) < 0)
			return -ENOMEM;
		if (!has(folder, generated))
			continue;
		r = strv_push(&selection->arches, names.items[i]);
		if (r == 0 && strcmp(names.items[i], "arm64") == 0)
			r = strv_push(&selection->arches, "arm"); /* it borrows headers there */
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
			"%s: it has no scripts/mod/modpost: it is not prepared for compiling "
			"modules; let the kernel's make end there",
			from);
	selection->is_build = true;
	selection->base_length = strlen(to) + 1;
	if (r == 0)
		r = strv_push(&selection->to, to);
	if (r == 0)
		r = strv_push(&selection->from, from);
	if (r < 0)
		return fail(selection, from, r);
	if (!is_allowed(selection, sources))
		return fail(selection, from, -EXDEV);
	/* The source's Makefile counts, not the one line that O= leaves. */
	if (strcmp(from, sources) != 0)
		r = add_folder(selection, sources, to);
	return r < 0 ? r : add_folder(selection, from, to);
}

static int check_complete(const struct selection *selection, const char *from, const char *included)
{
	static const char *const needed[] = { "include/linux/module.h", "scripts/mod/modpost" };

	for (size_t i = 0; i < ARRAY_SIZE(needed); i++)
		if (!has(from, needed[i]) && (!included || !has(included, needed[i])))
			return error_set(selection->error, -EINVAL,
				"%s: it has no %s, and neither its links nor its Makefile lead to "
				"one: give the folder, or the package, with the rest of the headers "
				"too",
				from, needed[i]);
	return 0;
}

static int add_headers(struct selection *selection, const char *from, const char *included,
	const char *included_to, const char *to)
{
	int r;

	r = check_complete(selection, from, included);
	if (r < 0)
		return r;
	r = want(selection, from, to);
	if (r == 0 && included)
		r = want(selection, included, included_to);
	if (r < 0)
		return fail(selection, from, r);
	for (size_t i = 0; i < selection->from.count && r == 0; i++)
		r = add_path(selection, selection->from.items[i], selection->to.items[i]);
	return r;
}

/* Where it lay on the kernel's own system, or where it might have. */
static char *place_of(const char *from, const char *krel)
{
	const char *found = strstr(from, "/usr/src/");
	char *place;

	if (found)
		return strdup(found + 1);
	return asprintf(&place, "usr/src/linux-%s", krel) < 0 ? NULL : place;
}

/* The included folder's place: as far from the tree's as it is written there. */
static char *included_place(const char *text, const char *to)
{
	_cleanup_free_ char *makefile = NULL;
	char *place;

	if (strncmp(text, "/usr/src/", 9) == 0)
		return strdup(text + 1);
	if (*text == '/')
		return asprintf(&place, "usr/src%s", strrchr(text, '/')) < 0 ? NULL : place;
	return asprintf(&makefile, "%s/Makefile", to) < 0 ? NULL : resolve_text(makefile, text);
}

static int add_module_link(
	struct selection *selection, const char *name, const char *place, const char *from)
{
	_cleanup_free_ char *path = NULL;
	_cleanup_free_ char *target = NULL;
	_cleanup_free_ char *text = NULL;
	int r;

	if (asprintf(&path, "lib/modules/%s/%s", selection->krel, name) < 0 ||
		asprintf(&target, "/%s", place) < 0)
		return fail(selection, place, -ENOMEM);
	text = unpack_relative_link(path, target);
	r = text ? local_files_add(selection->files, from, path, text) : -ENOMEM;
	return r < 0 ? fail(selection, from, r) : 0;
}

/* @from is the tree's real path. */
static int add_tree(struct selection *selection, const char *from)
{
	_cleanup_free_ char *text = included_folder(from);
	_cleanup_free_ char *included = text ? find_included(selection, from, text) : NULL;
	_cleanup_free_ char *sources = find_sources(from, included);
	_cleanup_free_ char *to = place_of(from, selection->krel);
	_cleanup_free_ char *included_to = to && included ? included_place(text, to) : NULL;
	int r;

	if (!to)
		return fail(selection, from, -ENOMEM);
	if (included && !included_to)
		return error_set(selection->error, -EINVAL,
			"%s: its Makefile includes %s, which is too far away to be taken along",
			from, text);
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

int local_files_add_tree(struct local_files *files, const char *root, const struct local_tree *tree,
	bool confined, struct error *error)
{
	_cleanup_free_ char *real_root = confined ? realpath(root, NULL) : NULL;
	_cleanup_(selection_done) struct selection selection = {
		.files = files,
		.krel = tree->krel,
		.root = real_root,
		.error = error,
	};
	_cleanup_free_ char *path = NULL;
	_cleanup_free_ char *from = NULL;

	if (*tree->path == '/')
		path = strdup(tree->path);
	else if (asprintf(&path, "%s/%s", root, tree->path) < 0)
		path = NULL;
	if (!path || (confined && !real_root))
		return error_set_errno(error, -ENOMEM, "%s", root);
	from = realpath(path, NULL);
	if (!from)
		return error_set_errno(error, -errno, "%s", path);
	if (!is_allowed(&selection, from))
		return fail(&selection, path, -EXDEV);
	return add_tree(&selection, from);
}
