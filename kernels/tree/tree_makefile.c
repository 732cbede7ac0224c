/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The small Makefile that a build folder apart from its sources has. Three forms are known:
 * Debian's (include), what make O= writes since Linux 4.20 (KBUILD_OUTPUT and include; SUSE's is of
 * this form) and what it wrote before (MAKEARGS := -C).
 */
#include "kernels/tree/tree.h"

#include <fcntl.h>
#include <string.h>

#include "common/fs.h"
#include "kernels/archive/unpack.h"

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

int kernel_tree_relocate_makefile(int root_fd, int build_fd, const char *krel, struct error *error)
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
