/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/tree/tree.h"

#include <elf.h>
#include <endian.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>

#include "common/arch.h"
#include "common/fs.h"
#include "common/path.h"
#include "common/xalloc.h"
#include "kernels/archive/unpack.h"

#define HEADER_LIMIT ((size_t) 1 << 20)

/* ---- opening */

int kernel_tree_open(int root_fd, const char *krel, int *ret_fd, struct error *error)
{
	_cleanup_free_ char *path = xasprintf("lib/modules/%s/build", krel);
	int fd = open_in_root(root_fd, path, O_RDONLY | O_DIRECTORY);

	if (fd < 0)
		return error_set_errno(
			error, fd, "kernel tree: %s (it should be in the headers package)", path);
	*ret_fd = fd;
	return 0;
}

char *kernel_tree_defined(const char *text, const char *name)
{
	_cleanup_free_ char *define = xasprintf("#define %s \"", name);
	const char *found = strstr(text, define);
	size_t length;

	if (!found)
		return NULL;
	found += strlen(define);
	length = strcspn(found, "\"\n");
	return found[length] == '"' ? xstrndup(found, length) : NULL;
}

/* The release that modules get. Debian's include/config/kernel.release holds another one. */
char *kernel_tree_release(int build_fd)
{
	_cleanup_free_ char *text = NULL;

	if (fs_read(build_fd, KERNEL_TREE_RELEASE_HEADER, 0, &text, NULL) < 0)
		return NULL;
	return kernel_tree_defined(text, "UTS_RELEASE");
}

char *kernel_tree_version(int build_fd)
{
	/* compile.h had it until 6.0 (scripts/mkcompile_h). */
	static const char *const headers[] = { "include/generated/utsversion.h",
		"include/generated/compile.h" };
	char *version = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(headers) && !version; i++) {
		_cleanup_free_ char *text = NULL;

		if (fs_read(build_fd, headers[i], HEADER_LIMIT, &text, NULL) == 0)
			version = kernel_tree_defined(text, "UTS_VERSION");
	}
	return version;
}

/* "" when the file is not there or no ELF. */
static const char *program_machine(int root_fd, const char *path)
{
	_cleanup_close_ int fd = fs_only_file(open_in_root(root_fd, path, O_RDONLY | O_NONBLOCK));
	unsigned char header[sizeof(Elf64_Ehdr)];
	uint16_t machine;

	if (fd < 0 || read(fd, header, sizeof(header)) != (ssize_t) sizeof(header) ||
		memcmp(header, ELFMAG, SELFMAG) != 0)
		return "";
	memcpy(&machine, header + offsetof(Elf64_Ehdr, e_machine), sizeof(machine));
	machine = header[EI_DATA] == ELFDATA2MSB ? be16toh(machine) : le16toh(machine);
	for (const struct arch *arch = archs; arch->uname; arch++)
		if (arch->machine == machine && arch->class == header[EI_CLASS] &&
			arch->data == header[EI_DATA])
			return arch->uname;
	return "an unknown machine";
}

const char *kernel_tree_tools_arch(int root_fd, const char *krel)
{
	static const char *const programs[] = {
		"scripts/basic/fixdep",
		"scripts/mod/modpost",
		"tools/objtool/objtool",
	};
	const char *arch = "";

	for (size_t i = 0; !*arch && i < ARRAY_SIZE(programs); i++) {
		_cleanup_free_ char *path = xasprintf("lib/modules/%s/build/%s", krel, programs[i]);

		arch = program_machine(root_fd, path);
	}
	return arch;
}

/*
 * ---- links. Paths are relative to the root; that of a folder, or of what a link leads to, has no
 * link in it.
 */

/* Links are made anew in one step, so that none is missing when we are interrupted. */
static int replace_link(int root_fd, const char *path, const char *text)
{
	_cleanup_free_ char *temporary = xasprintf("%s.slipway", path);

	(void) unlinkat(root_fd, temporary, 0);
	if (symlinkat(text, root_fd, temporary) < 0)
		return -errno;
	return renameat(root_fd, temporary, root_fd, path) < 0 ? -errno : 0;
}

/* Makes an absolute link a relative one; -ENOENT when @name is not there, or leads nowhere. */
static int settle_link(int root_fd, const char *folder, const char *name)
{
	_cleanup_free_ char *path = xasprintf("%s/%s", folder, name);
	_cleanup_free_ char *target = NULL;
	_cleanup_free_ char *text = NULL;
	char first = '\0';
	int r = chase(root_fd, path, &target);

	if (r < 0)
		return r;
	if (readlinkat(root_fd, path, &first, 1) != 1 || first != '/')
		return 0;
	text = unpack_relative_link(path, target);
	return replace_link(root_fd, path, text);
}

/* ---- where the tree is */

int kernel_tree_settle_modules(int root_fd, const char *krel, struct error *error)
{
	_cleanup_free_ char *usual = xasprintf("lib/modules/%s", krel);
	_cleanup_free_ char *merged = xasprintf("usr/lib/modules/%s", krel);
	_cleanup_free_ char *text = xasprintf("../../usr/lib/modules/%s", krel);
	int r;

	if (fs_exists(root_fd, usual) || !fs_exists(root_fd, merged))
		return 0;
	r = fs_exists(root_fd, "lib") ? fs_mkdir_parents(root_fd, "lib/modules", 0755)
				      : replace_link(root_fd, "lib", "usr/lib");
	if (r == 0 && !fs_exists(root_fd, usual))
		r = symlinkat(text, root_fd, usual) < 0 ? -errno : 0;
	return r < 0 ? error_set_errno(error, r, "%s", usual) : 0;
}

/* Looks for a tree of the release in @path and @depth folders below it; NULL: there is none. */
static char *search_tree(int root_fd, const char *path, const char *krel, int depth)
{
	_cleanup_close_ int fd = open_in_root(root_fd, path, O_RDONLY | O_DIRECTORY);
	_cleanup_free_ char *release = fd < 0 ? NULL : kernel_tree_release(fd);
	_cleanup_strv_ struct strv names = { 0 };
	char *found = NULL;

	if (release && strcmp(release, krel) == 0)
		return chase(root_fd, path, &found) < 0 ? NULL : found;
	if (fd < 0 || depth == 0 || fs_list(fd, ".", &names) < 0)
		return NULL;
	for (size_t i = 0; i < names.count && !found; i++) {
		_cleanup_free_ char *below = xasprintf("%s/%s", path, names.items[i]);

		found = search_tree(root_fd, below, krel, depth - 1);
	}
	return found;
}

static int find_build(int root_fd, const char *modules, const char *krel, struct error *error)
{
	_cleanup_free_ char *path = xasprintf("%s/build", modules);
	_cleanup_free_ char *found = NULL;
	_cleanup_free_ char *text = NULL;
	int r = settle_link(root_fd, modules, "build");

	if (r == 0)
		return 0;
	/* usr/src/linux-*-obj/<arch>/<flavour> is the deepest of the known places. */
	found = search_tree(root_fd, "usr/src", krel, 3);
	if (!found) {
		(void) error_set(error, -ENOENT,
			"kernel tree: neither lib/modules/%s/build nor any folder below usr/src is "
			"a tree of kernel %s",
			krel, krel);
		return error_try(
			error, -ENOENT, "give the headers package of exactly this release");
	}
	text = unpack_relative_link(path, found);
	r = replace_link(root_fd, path, text);
	return r < 0 ? error_set_errno(error, r, "kernel tree: build") : 0;
}

/* Without a "source" the build folder is both: a link that leads nowhere would only mislead. */
static int settle_sources(int root_fd, const char *modules, const char *build, struct error *error)
{
	static const char *const names[] = { "source", "scripts", "tools", "Makefile" };
	_cleanup_free_ char *source = xasprintf("%s/source", modules);
	int r = settle_link(root_fd, modules, "source");

	if (r == -ENOENT && unlinkat(root_fd, source, 0) < 0 && errno != ENOENT)
		r = -errno;
	if (r < 0 && r != -ENOENT)
		return error_set_errno(error, r, "kernel tree: source");
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		r = settle_link(root_fd, build, names[i]);
		if (r < 0 && r != -ENOENT)
			return error_set_errno(error, r, "kernel tree: %s", names[i]);
	}
	return 0;
}

/*
 * ---- the small Makefile that a build folder apart from its sources has. Three forms are known:
 * Debian's (include), what make O= writes since Linux 4.20 (KBUILD_OUTPUT and include; SUSE's is of
 * this form) and what it wrote before (MAKEARGS := -C).
 */

/* Returns the text after @word at the beginning of @text, ignoring blanks; or NULL. */
static const char *skip(const char *text, const char *word)
{
	size_t length = strlen(word);

	text += strspn(text, " \t");
	return strncmp(text, word, length) == 0 ? text + length : NULL;
}

/* Does a line of the form "[export] KBUILD_OUTPUT [:]= /path" end with an absolute path? */
static bool is_absolute_output(const char *line)
{
	const char *after = skip(line, "export ");
	const char *value = skip(after ? after : line, "KBUILD_OUTPUT");

	if (!value)
		return false;
	after = skip(value, ":=");
	value = after ? after : skip(value, "=");
	return value && skip(value, "/");
}

/* Finds the Makefile's @path on this system: sources may have been packed at another place. */
static char *find_source(int root_fd, const char *krel, const char *build, const char *path)
{
	const char *slash = strrchr(path, '/');
	const char *file = slash && strcmp(slash, "/Makefile") == 0 && slash > path ? slash : "/.";
	_cleanup_free_ char *source = xasprintf("lib/modules/%s/source%s", krel, file);
	_cleanup_free_ char *sibling = xasprintf("%s/source%s", build, file);
	const char *const places[] = { path, source, sibling };
	char *found;

	for (size_t i = 0; i < ARRAY_SIZE(places); i++)
		if (chase(root_fd, places[i], &found) == 0)
			return found;
	return NULL;
}

static int relocate_makefile(int root_fd, const char *krel, const char *build, struct error *error)
{
	static const char *const befores[] = { "include ", "MAKEARGS := -C " };
	_cleanup_free_ char *makefile = xasprintf("%s/Makefile", build);
	_cleanup_free_ char *text = NULL;
	_cleanup_strv_ struct strv lines = { 0 };
	_cleanup_free_ char *moved = NULL;
	bool changed = false;
	char *rest, *line;
	int r = fs_read(root_fd, makefile, 0, &text, NULL);

	if (r < 0)
		return error_set_errno(error, r, "kernel tree: Makefile");
	rest = text;
	while ((line = strsep(&rest, "\n"))) {
		const char *before = NULL, *path = NULL;
		_cleanup_free_ char *source = NULL;
		_cleanup_free_ char *way = NULL;

		for (size_t i = 0; i < ARRAY_SIZE(befores) && !path; i++) {
			before = befores[i];
			path = skip(line, before);
			if (path && !skip(path, "/"))
				path = NULL;
		}
		if (!path && is_absolute_output(line)) {
			xstrv_pushf(&lines, "%sKBUILD_OUTPUT := $(realpath " KERNEL_TREE_HERE ")",
				skip(line, "export ") ? "export " : "");
			changed = true;
			continue;
		}
		if (!path) {
			xstrv_push(&lines, line);
			continue;
		}
		path += strspn(path, " \t");
		source = find_source(root_fd, krel, build, path);
		if (!source) {
			(void) error_set(error, -EINVAL,
				"kernel tree: its Makefile needs %s, which is missing", path);
			(void) error_try(error, -EINVAL,
				"also give the package with the common part of the headers");
			return error_try(error, -EINVAL, "also give the kernel's source tree");
		}
		way = unpack_relative_link(makefile, source);
		xstrv_pushf(&lines, "%s" KERNEL_TREE_HERE "%s", before, way);
		changed = true;
	}
	if (!changed)
		return 0;
	moved = xstrv_join(&lines, "\n");
	r = fs_write_atomic(root_fd, makefile, moved, strlen(moved), 0644);
	return r < 0 ? error_set_errno(error, r, "kernel tree: Makefile") : 0;
}

int kernel_tree_relocate(int root_fd, const char *krel, struct error *error)
{
	_cleanup_free_ char *path = xasprintf("lib/modules/%s", krel);
	_cleanup_free_ char *build_path = xasprintf("%s/build", path);
	_cleanup_free_ char *modules = NULL;
	_cleanup_free_ char *build = NULL;
	_cleanup_close_ int build_fd = -1;
	int r = kernel_tree_settle_modules(root_fd, krel, error);

	if (r < 0)
		return r;
	r = fs_exists(root_fd, path) ? 0 : fs_mkdir_parents(root_fd, path, 0755);
	if (r == 0)
		r = chase(root_fd, path, &modules);
	if (r < 0)
		return error_set_errno(error, r, "kernel tree: %s", path);
	r = find_build(root_fd, modules, krel, error);
	if (r == 0)
		r = kernel_tree_open(root_fd, krel, &build_fd, error);
	if (r < 0)
		return r;
	r = chase(root_fd, build_path, &build);
	if (r < 0)
		return error_set_errno(error, r, "kernel tree: %s", build_path);
	r = settle_sources(root_fd, modules, build, error);
	return r < 0 ? r : relocate_makefile(root_fd, krel, build, error);
}
