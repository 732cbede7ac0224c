/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the mlnx-ofed-kernel tree in NVIDIA's releases. MLNX_OFED_LINUX-….tgz has
 * src/MLNX_OFED_SRC-….tgz. That has SOURCES/mlnx-ofed-kernel_….orig.tar.gz for Debian-based
 * distributions, and SRPMS/mlnx-ofa_kernel-….src.rpm, with mlnx-ofa_kernel-….tgz inside, for
 * RPM-based ones. Source: MLNX_OFED 5.9, and its mlnx-ofa_kernel.spec, mlnxofedinstall and
 * install.pl.
 */
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/stage/stage_internal.h"
#include "common/fs.h"
#include "common/xalloc.h"
#include "kernels/archive/unpack.h"
#include "kernels/tool.h"

/* In the tree that is unpacked: these names, for the builds that find it in the cache. */
#define OFED_LEFT_OUT ".slipway-left-out"

/* MLNX_OFED_LINUX, MLNX_OFED_SRC, the source package, its tarball. */
#define DEPTH_LIMIT 4

/* From the tree outwards. */
static const char *const places[] = {
	"mlnx-ofa_kernel-[0-9]*.tgz",
	"SOURCES/mlnx-ofed-kernel-[0-9]*",
	"SOURCES/mlnx-ofed-kernel_[0-9]*.tar.*",
	"SRPMS/mlnx-ofa_kernel-[0-9]*.src.rpm",
	"src/MLNX_OFED_SRC-*.tgz",
};

/*
 * Sources of kernel modules beside it, which nothing here compiles. mlnx-nvme and mlnx-nfsrdma are
 * what the tree has in drivers/nvme and net/sunrpc/xprtrdma, and --nfsrdma compiles it there.
 */
static const char *const others[] = { "iser", "isert", "srp", "xpmem", "knem", "kernel-mft",
	"fwctl" };

/* The last of what matches @pattern in the folder, whose own path is none; or NULL. */
static char *find(const char *folder, const char *pattern)
{
	_cleanup_free_ char *plain = xasprintf("%s/", folder);
	_cleanup_free_ char *escaped = xcalloc(2, strlen(plain) + 1);
	_cleanup_free_ char *whole = NULL;
	glob_t found = { 0 };
	char *path = NULL;
	char *to = escaped;

	for (const char *from = plain; *from; from++) {
		if (strchr("*?[\\", *from))
			*to++ = '\\';
		*to++ = *from;
	}
	whole = xasprintf("%s%s", escaped, pattern);
	if (glob(whole, 0, NULL, &found) == 0)
		path = xstrdup(found.gl_pathv[found.gl_pathc - 1]);
	globfree(&found);
	return path;
}

/*
 * The mlnx-ofed-kernel tree, or the archive with it, in an unpacked one of them; NULL where there
 * is none. The caller frees it.
 */
static char *find_inside(const char *folder)
{
	char *path = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(places) && !path; i++)
		path = find(folder, places[i]);
	return path;
}

/* "iser, srp": which sources of modules beside it nothing here compiles; NULL for none. */
static char *list_left_out(const char *folder)
{
	_cleanup_strv_ struct strv left_out = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
		_cleanup_free_ char *pattern = xasprintf("S*S/%s[-_][0-9]*", others[i]);
		_cleanup_free_ char *path = find(folder, pattern);

		if (path)
			xstrv_push(&left_out, others[i]);
	}
	return left_out.count ? xstrv_join(&left_out, ", ") : NULL;
}

/*
 * One archive, at @path below @from: messages name it by that, for @from is a folder of the run but
 * for the first. *ret_inside is NULL where the tree itself was in it, which is at *ret_top then.
 */
static int open_layer(const struct build *build, const char *from, const char *path, int depth,
	char **ret_top, char **ret_inside, struct error *error)
{
	_cleanup_close_ int fd = open(from, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_free_ char *name = xasprintf("ofed-archive-%d", depth);
	_cleanup_free_ char *folder = NULL;
	struct unpack unpack = { .kind = ARCHIVE_KIND_TAR };
	int r = fd < 0 ? -errno : cache_new_folder(&build->context.cache, name, &folder);

	if (r == 0)
		r = archive_input_kind(fd, path, &unpack.kind);
	if (r < 0)
		return error_set_errno(error, r, "%s", path);
	unpack.folder = folder;
	r = unpack_run(&unpack, fd, path, error);
	if (r == 0)
		r = source_find_top(folder, ret_top, error);
	if (r < 0)
		return r;
	*ret_inside = find_inside(*ret_top);
	return 0;
}

static int write_left_out(const char *tree, const char *names, struct error *error)
{
	_cleanup_free_ char *path = xasprintf("%s/" OFED_LEFT_OUT, tree);
	int r = fs_write_atomic(AT_FDCWD, path, names, strlen(names), 0644);

	return r < 0 ? error_set_errno(error, r, "%s", path) : 0;
}

/* The tree out of all that is around it, as the only entry of @folder. */
int ofed_unpack(
	const struct build *build, const char *archive, const char *folder, struct error *error)
{
	_cleanup_free_ char *place = xasprintf("%s/mlnx-ofed-kernel", folder);
	_cleanup_free_ char *next = xstrdup(archive);
	_cleanup_free_ char *from = xstrdup("/");
	_cleanup_free_ char *left_out = NULL;

	for (int depth = 0; depth < DEPTH_LIMIT; depth++) {
		_cleanup_free_ char *top = NULL, *inside = NULL;
		struct stat status = { 0 };
		const char *path = depth ? next + strlen(from) + 1 : next;
		int r = open_layer(build, from, path, depth, &top, &inside, error);

		if (r < 0)
			return depth ? error_prefix(error, r, "%s", archive) : r;
		if (inside && !left_out)
			left_out = list_left_out(top);
		if (!inside || (stat(inside, &status) == 0 && S_ISDIR(status.st_mode))) {
			if (rename(inside ? inside : top, place) < 0)
				return error_set_errno(error, -errno, "%s", place);
			return left_out ? write_left_out(place, left_out, error) : 0;
		}
		free(next);
		next = TAKE_PTR(inside);
		free(from);
		from = TAKE_PTR(top);
	}
	return error_set(
		error, -EINVAL, "%s: no mlnx-ofed-kernel found in its nested archives", archive);
}

/* ---- the tree */

bool ofed_is_tree(const struct strv *names)
{
	return strv_contains(names, "configure") || strv_contains(names, "ofed_scripts");
}

/*
 * Its makefiles count by their exact names: on a case-folding file system "makefile" answers for
 * "Makefile" too.
 */
int ofed_check_tree(
	const char *top, const char *text, const struct strv *names, struct error *error)
{
	static const char *const makefiles[] = { "makefile", "Makefile" };

	(void) top;
	for (size_t i = 0; i < ARRAY_SIZE(makefiles); i++) {
		if (strv_contains(names, makefiles[i]))
			continue;
		(void) error_set(error, -EINVAL,
			"--ofed %s: %s is missing; OFED needs both \"makefile\" (targets) and "
			"\"Makefile\" (kbuild)",
			text, makefiles[i]);
		return error_try(error, -EINVAL,
			"unpack it on a case-sensitive file system: others keep only one of them");
	}
	return 0;
}

/* Says what of an OFED nothing here compiles: @names, "" or NULL for nothing. */
static void note_left_out(struct build *build, const char *names)
{
	if (names && *names)
		progress_notef(&build->context.progress,
			"only mlnx-ofed-kernel of this OFED is compiled; other module sources are "
			"left out: %s",
			names);
}

/* A folder where MLNX_OFED_SRC was unpacked stands for the tree, or the archive, in it. */
int ofed_identify(struct build *build, struct source *source, struct error *error)
{
	_cleanup_free_ char *inside = find_inside(source->path);
	_cleanup_free_ char *left_out = NULL;
	struct stat status;

	(void) error;
	if (!inside || stat(inside, &status) < 0)
		return 0;
	left_out = list_left_out(source->path);
	note_left_out(build, left_out);
	free(source->path);
	source->path = TAKE_PTR(inside);
	source->form = S_ISDIR(status.st_mode) ? SOURCE_TREE : SOURCE_ARCHIVE;
	return 0;
}

int ofed_make_reference(
	struct build *build, const char *tarball, const char *folder, struct error *error)
{
	_cleanup_strv_ struct strv argv = { 0 };

	progress_step(&build->context.progress, "generate the reference OFED");
	xstrv_pushf(&argv, "%s/scripts/reference-ofed", build->context.data);
	xstrv_push(&argv, "--kernel-source");
	xstrv_push(&argv, tarball);
	xstrv_push(&argv, "--output");
	xstrv_push(&argv, folder);
	return tool_run(&argv, NULL, error);
}

bool ofed_has_gds(const struct build *build)
{
	return build->options.nfsrdma && build_has(build, DRIVER_NVIDIA_FS);
}

/* A node may want storage over RDMA that the NIC image will lack. */
static int look_for_storage(struct build *build, const char *top, struct error *error)
{
	_cleanup_free_ char *folder = xasprintf("%s/net/sunrpc/xprtrdma", top);
	bool has = fs_exists(AT_FDCWD, folder);

	if (build->options.sources_image &&
		(build->options.nfsrdma || build->options.ofed_flags.count))
		progress_note(&build->context.progress,
			"--nfsrdma and --ofed-flag are for this kernel's modules: nodes that compile "
			"others follow ENABLE_NFSRDMA and APPEND_DRIVER_BUILD_FLAGS");
	if (build->options.nfsrdma && !has) {
		(void) error_set(error, -EINVAL,
			"--nfsrdma: this OFED has no NFS over RDMA: net/sunrpc/xprtrdma is missing");
		return error_try(error, -EINVAL,
			"leave out --nfsrdma, or take a source of mlnx-ofed-kernel that has it");
	}
	if (!has || build->options.nfsrdma ||
		strv_contains(&build->options.ofed_flags, "--with-nfsrdma-mod"))
		return 0;
	progress_note(&build->context.progress,
		build_has(build, DRIVER_NVIDIA_FS)
			? "without --nfsrdma the NIC image has no NFS and NVMe over RDMA, and "
			  "GPUDirect Storage reaches only local disks"
			: "without --nfsrdma the NIC image has no NFS and NVMe over RDMA "
			  "(ENABLE_NFSRDMA)");
	return 0;
}

int ofed_look(struct build *build, const char *top, struct error *error)
{
	_cleanup_free_ char *path = xasprintf("%s/" OFED_LEFT_OUT, top);
	_cleanup_free_ char *names = NULL;

	if (build->sources[DRIVER_OFED].form == SOURCE_ARCHIVE &&
		fs_read(AT_FDCWD, path, 0, &names, NULL) == 0)
		note_left_out(build, names);
	return look_for_storage(build, top, error);
}

/* ---- the version */

#define VERSION_MIDDLE "OFED."

/*
 * "24.07.OFED.24.07.0.6.0.1-1" in debian/changelog is what its publisher calls 24.07-0.6.0.1, and
 * before 23.10 "5.9-OFED.5.9.0.5.5.1" 5.9-0.5.5.1: as source_version() of
 * containers/recipes/ofed.sh has it. The caller frees it.
 */
static char *published_version(const char *full)
{
	const char *middle = strstr(full, VERSION_MIDDLE);
	size_t length = middle && middle > full ? (size_t) (middle - full) - 1 : 0;
	const char *again = middle ? middle + strlen(VERSION_MIDDLE) : "";

	if (!length || !strchr(".-", full[length]) || strncmp(again, full, length) != 0 ||
		again[length] != '.')
		return xstrdup(full);
	again += length + 1;
	return xasprintf("%.*s-%.*s", (int) length, full, (int) strcspn(again, "-"), again);
}

/* The version of a tree; the caller frees it. */
static char *changelog_version(const char *top)
{
	_cleanup_free_ char *path = xasprintf("%s/debian/changelog", top);
	_cleanup_free_ char *line = NULL;
	char *open, *close;

	if (fs_read_line(AT_FDCWD, path, &line) < 0)
		return NULL;
	open = strchr(line, '(');
	close = open ? strchr(open, ')') : NULL;
	if (!close)
		return NULL;
	*close = '\0';
	return published_version(open + 1);
}

/*
 * A release is called by the folder that is around all in its archive, and still there where that
 * was unpacked: MLNX_OFED_SRC-24.07-0.6.1.0, MLNX_OFED_LINUX-24.07-0.6.1.0-debian12.5-x86_64.
 */
char *ofed_says(const struct build *build, const char *path, bool is_folder, const void *data)
{
	static const char *const names[] = { "MLNX_OFED_SRC-debian-", "MLNX_OFED_SRC-",
		"MLNX_OFED_LINUX-" };
	_cleanup_free_ char *inside = is_folder ? find_inside(path) : NULL;
	_cleanup_free_ char *top = NULL;

	(void) build;
	(void) data;
	if (is_folder && !inside)
		return changelog_version(path);
	top = inside ? xstrdup(basename(path)) : source_tarball_top(path);
	for (size_t i = 0; top && i < ARRAY_SIZE(names); i++)
		if (strncmp(top, names[i], strlen(names[i])) == 0)
			return xstrdup(top + strlen(names[i]));
	return NULL;
}

char *ofed_version(const struct build *build)
{
	const struct lock_package *package = lock_find(&build->kernel.lock, LOCK_OFED_SOURCE);
	_cleanup_free_ char *top = NULL, *upstream = NULL;
	struct error ignored;

	/* As scripts/reference-ofed calls what it makes. */
	if (build->sources[DRIVER_OFED].form == SOURCE_PACKAGE) {
		upstream = package ? resolve_upstream(package->version) : NULL;
		return upstream ? xasprintf("%s-reference", upstream) : NULL;
	}
	return source_top(build, DRIVER_OFED, &top, &ignored) < 0 ? NULL : changelog_version(top);
}
