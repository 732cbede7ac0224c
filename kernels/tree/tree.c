/* SPDX-License-Identifier: Apache-2.0 */
/* What the programs in a kernel tree, which kbuild runs while it compiles a module, run on. */
#include "kernels/tree/tree.h"

#include <elf.h>
#include <endian.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>

#include "common/cleanup.h"
#include "common/fs.h"
#include "common/strv.h"
#include "common/path.h"
#include "kernels/archive/unpack.h"

static const struct {
	uint16_t machine;
	unsigned char class;
	unsigned char data;
	const char *name;
} machines[] = {
	{ EM_X86_64, ELFCLASS64, ELFDATA2LSB, "x86_64" },
	{ EM_386, ELFCLASS32, ELFDATA2LSB, "i686" },
	{ EM_AARCH64, ELFCLASS64, ELFDATA2LSB, "aarch64" },
	{ EM_ARM, ELFCLASS32, ELFDATA2LSB, "armv7l" },
	{ EM_PPC64, ELFCLASS64, ELFDATA2LSB, "ppc64le" },
	{ EM_PPC64, ELFCLASS64, ELFDATA2MSB, "ppc64" },
	{ EM_S390, ELFCLASS64, ELFDATA2MSB, "s390x" },
	{ EM_RISCV, ELFCLASS64, ELFDATA2LSB, "riscv64" },
};

/* The name of the machine in an ELF header, "" when the file is not ELF. */
static const char *machine_of(const unsigned char *header)
{
	uint16_t machine;

	if (memcmp(header, ELFMAG, SELFMAG) != 0)
		return "";
	memcpy(&machine, header + offsetof(Elf64_Ehdr, e_machine), sizeof(machine));
	machine = header[EI_DATA] == ELFDATA2MSB ? be16toh(machine) : le16toh(machine);
	for (size_t i = 0; i < ARRAY_SIZE(machines); i++)
		if (machines[i].machine == machine && machines[i].class == header[EI_CLASS] &&
			machines[i].data == header[EI_DATA])
			return machines[i].name;
	return "an unknown machine";
}

static const char *program_machine(int root_fd, const char *path)
{
	_cleanup_close_ int fd = kernel_tree_openat(root_fd, path, O_RDONLY);
	unsigned char header[sizeof(Elf64_Ehdr)];

	if (fd < 0 || read(fd, header, sizeof(header)) != (ssize_t) sizeof(header))
		return "";
	return machine_of(header);
}

int kernel_tree_tools_arch(int root_fd, int build_fd, char **ret_arch)
{
	static const char *const programs[] = {
		"scripts/basic/fixdep",
		"scripts/mod/modpost",
		"tools/objtool/objtool",
	};
	_cleanup_free_ char *build = kernel_tree_path(root_fd, build_fd);
	const char *arch = "";

	for (size_t i = 0; build && !*arch && i < ARRAY_SIZE(programs); i++) {
		_cleanup_free_ char *path = NULL;

		if (asprintf(&path, "%s/%s", build, programs[i]) < 0)
			return -ENOMEM;
		arch = program_machine(root_fd, path);
	}
	*ret_arch = strdup(arch);
	return *ret_arch ? 0 : -ENOMEM;
}

/*
 * The small Makefile that a build folder apart from its sources has. Three forms are known:
 * Debian's (include), what make O= writes since Linux 4.20 (KBUILD_OUTPUT and include; SUSE's is of
 * this form) and what it wrote before (MAKEARGS := -C).
 */

#define HERE "$(dir $(lastword $(MAKEFILE_LIST)))"

struct relocation {
	int root_fd;
	int build_fd;
	const char *krel;
	char *build_path; /* below the root */
	bool changed;
};

static void relocation_done(struct relocation *relocation)
{
	free(relocation->build_path);
}

/* Opens what the Makefile calls @path; sources may have been packed at another place. */
static int open_source(const struct relocation *relocation, const char *path, const char *file)
{
	_cleanup_free_ char *source = NULL;
	_cleanup_free_ char *sibling = NULL;
	int fd = kernel_tree_openat(relocation->root_fd, path, O_RDONLY);

	if (fd >= 0)
		return fd;
	if (asprintf(&source, "lib/modules/%s/source/%s", relocation->krel, file) < 0 ||
		asprintf(&sibling, "%s/source/%s", relocation->build_path, file) < 0)
		return -ENOMEM;
	fd = kernel_tree_openat(relocation->root_fd, source, O_RDONLY);
	return fd >= 0 ? fd : kernel_tree_openat(relocation->root_fd, sibling, O_RDONLY);
}

/* The way from the Makefile to @path, an absolute path of the machine that made it. */
static int relative_way(
	const struct relocation *relocation, const char *path, char **ret_way, struct error *error)
{
	bool is_makefile = strlen(path) > 9 && strcmp(path + strlen(path) - 9, "/Makefile") == 0;
	_cleanup_close_ int fd = open_source(relocation, path, is_makefile ? "Makefile" : "");
	_cleanup_free_ char *from = NULL;
	_cleanup_free_ char *below = NULL;
	_cleanup_free_ char *to = NULL;

	if (fd < 0)
		return error_set(error, -EINVAL,
			"kernel tree: its Makefile needs %s, which is not there: the package with "
			"the common part of the headers, or the kernel's source tree, is missing",
			path);
	below = kernel_tree_path(relocation->root_fd, fd);
	if (!below || asprintf(&from, "/%s/Makefile", relocation->build_path) < 0 ||
		asprintf(&to, "/%s", below) < 0)
		return error_set_errno(error, -ENOMEM, "kernel tree");
	*ret_way = unpack_relative_link(from, to);
	return *ret_way ? 0 : error_set_errno(error, -ENOMEM, "kernel tree");
}

/* Writes "@before HERE way" instead of a line that ends with an absolute path. */
static int write_way(struct relocation *relocation, FILE *out, const char *before, const char *path,
	struct error *error)
{
	_cleanup_free_ char *way = NULL;
	int r = relative_way(relocation, path, &way, error);

	if (r < 0)
		return r;
	(void) fprintf(out, "%s" HERE "%s\n", before, way);
	relocation->changed = true;
	return 0;
}

static const char *skip(const char *text, const char *word)
{
	size_t length = strlen(word);

	text += strspn(text, " \t");
	return strncmp(text, word, length) == 0 ? text + length : NULL;
}

/* The absolute path that a line of the form "[export] KBUILD_OUTPUT [:]= /path" ends with. */
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

static int relocate_line(
	struct relocation *relocation, const char *line, FILE *out, struct error *error)
{
	const char *value = skip(line, "include ");

	if (value && skip(value, "/"))
		return write_way(relocation, out, "include ", value + strspn(value, " \t"), error);
	value = skip(line, "MAKEARGS := -C ");
	if (value && skip(value, "/"))
		return write_way(
			relocation, out, "MAKEARGS := -C ", value + strspn(value, " \t"), error);
	if (is_absolute_output(line)) {
		(void) fprintf(out, "%sKBUILD_OUTPUT := $(realpath " HERE ")\n",
			skip(line, "export ") ? "export " : "");
		relocation->changed = true;
		return 0;
	}
	(void) fprintf(out, "%s\n", line);
	return 0;
}

static int relocate_text(struct relocation *relocation, char *text, FILE *out, struct error *error)
{
	char *rest = text;
	char *line;

	while ((line = strsep(&rest, "\n"))) {
		int r;

		if (!rest && !*line)
			break; /* what follows the last newline */
		r = relocate_line(relocation, line, out, error);
		if (r < 0)
			return r;
	}
	return 0;
}

/* tree_makefile.c: the Makefile's part of kernel_tree_relocate(). */
static int kernel_tree_relocate_makefile(
	int root_fd, int build_fd, const char *krel, struct error *error)
{
	_cleanup_(relocation_done) struct relocation relocation = { root_fd, build_fd, krel,
		kernel_tree_path(root_fd, build_fd), false };
	_cleanup_free_ char *text = NULL;
	_cleanup_free_ char *moved = NULL;
	_cleanup_fclose_ FILE *out = NULL;
	size_t size = 0;
	int r = fs_read(build_fd, "Makefile", 0, &text, NULL);

	if (r < 0)
		return error_set_errno(error, r, "kernel tree: Makefile");
	out = open_memstream(&moved, &size);
	if (!out || !relocation.build_path)
		return error_set_errno(error, -ENOMEM, "kernel tree");
	r = relocate_text(&relocation, text, out, error);
	if (r < 0 || !relocation.changed)
		return r;
	if (fflush(out) != 0)
		return error_set_errno(error, -ENOMEM, "kernel tree");
	r = fs_write_atomic(build_fd, "Makefile", moved, size, 0644);
	return r < 0 ? error_set_errno(error, r, "kernel tree: Makefile") : 0;
}

int kernel_tree_openat(int root_fd, const char *path, int flags)
{
	return open_in_root(root_fd, path, flags);
}

static char *path_of(int fd)
{
	char link[32];
	char path[PATH_MAX];
	ssize_t size;

	(void) snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	size = readlink(link, path, sizeof(path));
	return size < 0 || size == sizeof(path) ? NULL : strndup(path, (size_t) size);
}

char *kernel_tree_path(int root_fd, int fd)
{
	_cleanup_free_ char *root = path_of(root_fd);
	_cleanup_free_ char *path = path_of(fd);
	size_t length;

	if (!root || !path)
		return NULL;
	length = strcmp(root, "/") == 0 ? 0 : strlen(root);
	if (strncmp(path, root, length) != 0 || (path[length] && path[length] != '/'))
		return NULL;
	return strdup(path[length] ? path + length + 1 : "");
}

int kernel_tree_open(int root_fd, const char *krel, int *ret_fd, struct error *error)
{
	_cleanup_free_ char *path = NULL;
	int fd;

	if (asprintf(&path, "lib/modules/%s/build", krel) < 0)
		return error_set_errno(error, -ENOMEM, "%s", krel);
	fd = kernel_tree_openat(root_fd, path, O_RDONLY | O_DIRECTORY);
	if (fd < 0)
		return error_set_errno(error, fd,
			"kernel tree: %s (the headers package should have brought it)", path);
	*ret_fd = fd;
	return 0;
}

/* The release that modules get. Debian's include/config/kernel.release holds another one. */
char *kernel_tree_release(int build_fd)
{
	static const char define[] = "#define UTS_RELEASE \"";
	_cleanup_free_ char *text = NULL;
	const char *found;

	if (fs_read(build_fd, "include/generated/utsrelease.h", 0, &text, NULL) < 0)
		return NULL;
	found = strstr(text, define);
	if (!found)
		return NULL;
	found += strlen(define);
	return strndup(found, strcspn(found, "\"\n"));
}

/* Links are made anew in one step, so that none is missing when we are interrupted. */
static int replace_link(int dir_fd, const char *name, const char *target)
{
	_cleanup_free_ char *temporary = NULL;

	if (asprintf(&temporary, ".%s.slipway", name) < 0)
		return -ENOMEM;
	(void) unlinkat(dir_fd, temporary, 0);
	if (symlinkat(target, dir_fd, temporary) < 0)
		return -errno;
	return renameat(dir_fd, temporary, dir_fd, name) < 0 ? -errno : 0;
}

/* Points @dir_fd/@name at what @target_fd is. */
static int link_to(int root_fd, int dir_fd, const char *name, int target_fd)
{
	_cleanup_free_ char *folder = kernel_tree_path(root_fd, dir_fd);
	_cleanup_free_ char *below = kernel_tree_path(root_fd, target_fd);
	_cleanup_free_ char *from = NULL;
	_cleanup_free_ char *to = NULL;
	_cleanup_free_ char *way = NULL;

	if (!folder || !below)
		return -EXDEV;
	if (asprintf(&from, "/%s/%s", folder, name) < 0 || asprintf(&to, "/%s", below) < 0)
		return -ENOMEM;
	way = unpack_relative_link(from, to);
	return way ? replace_link(dir_fd, name, way) : -ENOMEM;
}

/* Is it a link, and to an absolute path? */
static bool link_is_absolute(int dir_fd, const char *name)
{
	char first = '\0';

	return readlinkat(dir_fd, name, &first, 1) == 1 && first == '/';
}

/* Makes an absolute link a relative one; -ENOENT when it is one and leads nowhere. */
static int settle_link(int root_fd, int dir_fd, const char *name)
{
	_cleanup_free_ char *folder = kernel_tree_path(root_fd, dir_fd);
	_cleanup_free_ char *path = NULL;
	_cleanup_close_ int fd = -1;

	if (asprintf(&path, "%s/%s", folder ? folder : "", name) < 0)
		return -ENOMEM;
	fd = kernel_tree_openat(root_fd, path, O_PATH);
	if (fd < 0)
		return fd;
	return link_is_absolute(dir_fd, name) ? link_to(root_fd, dir_fd, name, fd) : 0;
}

int kernel_tree_settle_modules(int root_fd, const char *krel, struct error *error)
{
	_cleanup_free_ char *usual = NULL;
	_cleanup_free_ char *merged = NULL;
	_cleanup_free_ char *way = NULL;
	int r;

	if (asprintf(&usual, "lib/modules/%s", krel) < 0 ||
		asprintf(&merged, "usr/lib/modules/%s", krel) < 0 ||
		asprintf(&way, "../../usr/lib/modules/%s", krel) < 0)
		return error_set_errno(error, -ENOMEM, "%s", krel);
	if (fs_exists(root_fd, usual) || !fs_exists(root_fd, merged))
		return 0;
	r = fs_exists(root_fd, "lib") ? fs_mkdir_parents(root_fd, "lib/modules", 0755)
				      : replace_link(root_fd, "lib", "usr/lib");
	if (r == 0 && !fs_exists(root_fd, usual))
		r = symlinkat(way, root_fd, usual) < 0 ? -errno : 0;
	return r < 0 ? error_set_errno(error, r, "%s", usual) : 0;
}

static int open_modules(int root_fd, const char *krel, int *ret_fd, struct error *error)
{
	_cleanup_free_ char *path = NULL;
	int r = kernel_tree_settle_modules(root_fd, krel, error);

	if (r < 0)
		return r;
	if (asprintf(&path, "lib/modules/%s", krel) < 0)
		return error_set_errno(error, -ENOMEM, "%s", krel);
	r = fs_exists(root_fd, path) ? 0 : fs_mkdir_parents(root_fd, path, 0755);
	if (r == 0)
		r = kernel_tree_openat(root_fd, path, O_RDONLY | O_DIRECTORY);
	if (r < 0)
		return error_set_errno(error, r, "kernel tree: %s", path);
	*ret_fd = r;
	return 0;
}

/* Does this folder hold a tree of this release? Opens it when so, else -ENOENT. */
static int try_tree(int root_fd, const char *path, const char *krel)
{
	_cleanup_close_ int fd = kernel_tree_openat(root_fd, path, O_RDONLY | O_DIRECTORY);
	_cleanup_free_ char *release = fd < 0 ? NULL : kernel_tree_release(fd);

	if (!release || strcmp(release, krel) != 0)
		return -ENOENT;
	return TAKE_FD(fd);
}

/* Looks for a tree of the release in @path and @depth folders below it. */
static int search_tree(int root_fd, const char *path, const char *krel, int depth)
{
	_cleanup_strv_ struct strv names = { 0 };
	_cleanup_close_ int folder_fd = -1;
	int found = try_tree(root_fd, path, krel);

	if (found >= 0 || depth == 0)
		return found;
	folder_fd = kernel_tree_openat(root_fd, path, O_RDONLY | O_DIRECTORY);
	if (folder_fd < 0 || fs_list(folder_fd, ".", &names) < 0)
		return -ENOENT;
	for (size_t i = 0; i < names.count; i++) {
		_cleanup_free_ char *below = NULL;

		if (asprintf(&below, "%s/%s", path, names.items[i]) < 0)
			return -ENOMEM;
		found = search_tree(root_fd, below, krel, depth - 1);
		if (found >= 0)
			return found;
	}
	return -ENOENT;
}

static int find_build(int root_fd, int modules_fd, const char *krel, struct error *error)
{
	_cleanup_close_ int fd = -1;
	int r = settle_link(root_fd, modules_fd, "build");

	if (r == 0)
		return 0;
	/* usr/src/linux-*-obj/<arch>/<flavour> is the deepest of the known places. */
	fd = search_tree(root_fd, "usr/src", krel, 3);
	if (fd < 0)
		return error_set(error, -ENOENT,
			"kernel tree: neither lib/modules/%s/build nor any folder below usr/src is "
			"a tree of kernel %s: the package with its headers is missing or is of "
			"another release",
			krel, krel);
	r = link_to(root_fd, modules_fd, "build", fd);
	return r < 0 ? error_set_errno(error, r, "kernel tree: build") : 0;
}

/* Without a "source" the build folder is both: a link that leads nowhere would only mislead. */
static int settle_sources(int root_fd, int modules_fd, int build_fd, struct error *error)
{
	int r = settle_link(root_fd, modules_fd, "source");

	if (r == -ENOENT && unlinkat(modules_fd, "source", 0) < 0 && errno != ENOENT)
		r = -errno;
	if (r < 0 && r != -ENOENT)
		return error_set_errno(error, r, "kernel tree: source");
	for (size_t i = 0; i < 4; i++) {
		static const char *const names[] = { "source", "scripts", "tools", "Makefile" };

		r = settle_link(root_fd, build_fd, names[i]);
		if (r < 0 && r != -ENOENT)
			return error_set_errno(error, r, "kernel tree: %s", names[i]);
	}
	return 0;
}

int kernel_tree_relocate(int root_fd, const char *krel, struct error *error)
{
	_cleanup_close_ int modules_fd = -1;
	_cleanup_close_ int build_fd = -1;
	int r = open_modules(root_fd, krel, &modules_fd, error);

	if (r == 0)
		r = find_build(root_fd, modules_fd, krel, error);
	if (r == 0)
		r = kernel_tree_open(root_fd, krel, &build_fd, error);
	if (r == 0)
		r = settle_sources(root_fd, modules_fd, build_fd, error);
	return r < 0 ? r : kernel_tree_relocate_makefile(root_fd, build_fd, krel, error);
}
