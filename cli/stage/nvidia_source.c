/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Source of NVIDIA's modules: NVIDIA's installer, unpacked or not, which also has the userspace; a
 * tree of open-gpu-kernel-modules; Debian's package.
 */
#include <fcntl.h>
#include <string.h>

#include "cli/stage/stage_internal.h"
#include "common/fs.h"
#include "common/hash.h"
#include "common/xalloc.h"
#include "kernels/archive/makeself.h"
#include "kernels/archive/unpack.h"

/* Debian's layout, or NVIDIA's own. */
bool nvidia_is_tree(const struct strv *names)
{
	return strv_contains(names, "kernel-open") || strv_contains(names, ".manifest") ||
	       (strv_contains(names, "Kbuild") && strv_contains(names, "nvidia"));
}

/* ---- the installer */

/*
 * NVIDIA publishes FILE.sha256sum with each installer: where that lies beside it, it counts.
 * -ENOENT where it does not.
 */
static int check_sum(const char *path, struct error *error)
{
	_cleanup_free_ char *list = xasprintf("%s.sha256sum", path);
	_cleanup_free_ char *line = NULL;
	char hex[HASH_HEX_SIZE];
	int r = fs_read_line(AT_FDCWD, list, &line);

	if (r < 0)
		return error_set_errno(error, r, "%s", list);
	r = hash_file(AT_FDCWD, path, hex);
	if (r < 0)
		return error_set_errno(error, r, "%s", path);
	if (strncmp(line, hex, strlen(hex)) == 0)
		return 0;
	return error_set(error, -EINVAL,
		"%s: the sha256 is %s, but %s has %.64s: download it again", path, hex, list, line);
}

/*
 * Reads the version of an unpacked installer, the second line of its list of files
 * (nvidia-installer install-from-cwd.c, parse_manifest()). NULL for another folder.
 */
static char *manifest_version(const char *folder)
{
	_cleanup_free_ char *manifest = xasprintf("%s/.manifest", folder);
	_cleanup_strv_ struct strv lines = { 0 };
	_cleanup_free_ char *text = NULL;

	if (fs_read(AT_FDCWD, manifest, 0, &text, NULL) < 0)
		return NULL;
	xstrv_split(&lines, text, "\n");
	return lines.count > 1 ? xstrdup(lines.items[1]) : NULL;
}

/* Is the file or folder the installer? Then source->version is set. */
int nvidia_identify(struct build *build, struct source *source, struct error *error)
{
	const char *arch = build->context.arch;
	_cleanup_close_ int fd = -1;
	struct makeself installer;
	int r;

	if (source->form == SOURCE_TREE) {
		source->version = manifest_version(source->path);
		return 0;
	}
	fd = fs_open(AT_FDCWD, source->path, O_RDONLY);
	r = fd < 0 ? fd : makeself_read(fd, &installer);
	if (r < 0)
		return r == -ENOEXEC ? 0 : error_set_errno(error, r, "%s", source->path);
	if (strcmp(installer.machine, arch) != 0)
		return error_set(error, -EINVAL,
			"%s: the installer is for %s, but the images are for %s: download "
			"NVIDIA-Linux-%s-%s.run",
			source->path, installer.machine, arch, arch, installer.version);
	source->version = xstrdup(installer.version);
	r = check_sum(source->path, error);
	if (r == -ENOENT && !installer.has_md5)
		progress_notef(&build->context.progress,
			"%s cannot be checked for changes: it contains no MD5 (zeros in its first "
			"lines), and there is no %s.sha256sum next to it",
			source->path, basename(source->path));
	if (r == 0 || r == -ENOENT)
		r = makeself_seek(fd, source->path, error);
	return r == -EBADMSG ? -EINVAL : r; /* a bad source, not a damaged download of ours */
}

/* ---- which modules */

/* A source with a folder for either kind of modules has to have that of the kind asked for. */
static int check_kind(const struct build *build, const char *top, struct error *error)
{
	const char *path = build->sources[DRIVER_NVIDIA].path;
	bool is_open = build->modules == NVIDIA_OPEN;
	_cleanup_free_ char *wanted = xasprintf("%s/%s", top, is_open ? "kernel-open" : "kernel");
	_cleanup_free_ char *other = xasprintf("%s/%s", top, is_open ? "kernel" : "kernel-open");

	if (build->modules == NVIDIA_NONE || fs_exists(AT_FDCWD, wanted) ||
		!fs_exists(AT_FDCWD, other))
		return 0;
	if (is_open)
		return error_set(error, -EINVAL,
			"--kernel-module-type open: %s has only the proprietary modules: leave out "
			"the option, or use a driver that has both (515 or later)",
			path);
	return error_set(error, -EINVAL,
		"--kernel-module-type proprietary: %s has only the open modules: use NVIDIA's "
		"installer of that version (NVIDIA-Linux-….run), which contains kernel/",
		path);
}

int nvidia_look(struct build *build, const char *top, struct error *error)
{
	struct source *source = &build->sources[DRIVER_NVIDIA];
	_cleanup_free_ char *core = xasprintf("%s/src/nvidia", top);

	source->has_core = !source->version && fs_exists(AT_FDCWD, core);
	return check_kind(build, top, error);
}

/*
 * The installer has both kinds of modules, in kernel-open/ and kernel/ (up to R510 only the
 * latter). A tree of open-gpu-kernel-modules becomes what the installer has in kernel-open/: see
 * core_run().
 */
char *nvidia_find_tree(const struct build *build, const char *top)
{
	_cleanup_free_ char *open = xasprintf("%s/kernel-open", top);
	_cleanup_free_ char *closed = xasprintf("%s/kernel", top);

	if (build->modules != NVIDIA_PROPRIETARY && fs_exists(AT_FDCWD, open))
		return TAKE_PTR(open);
	if (build->modules != NVIDIA_OPEN && fs_exists(AT_FDCWD, closed))
		return TAKE_PTR(closed);
	return xstrdup(top);
}

const char *nvidia_variant(const struct build *build)
{
	return build->modules != NVIDIA_NONE ? build->options.kernel_module_type : NULL;
}

/* ---- the version */

#define KBUILD_LIMIT ((size_t) 256 << 10)

/* NV_VERSION_STRING of a Kbuild: "595.58.03"; NULL where there is none. */
static char *kbuild_version(const char *text)
{
	static const char name[] = "NV_VERSION_STRING=\\\"";
	const char *found = strstr(text, name);

	return found ? xstrndup(found + strlen(name), strspn(found + strlen(name), "0123456789."))
		     : NULL;
}

static char *read_version(const char *source)
{
	static const char *const places[] = { "kernel-open/Kbuild", "kernel/Kbuild", "Kbuild" };

	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		_cleanup_free_ char *file = xasprintf("%s/%s", source, places[i]);
		_cleanup_free_ char *text = NULL;
		char *version;

		if (fs_read(AT_FDCWD, file, 0, &text, NULL) < 0)
			continue;
		version = kbuild_version(text);
		if (version)
			return version;
	}
	return NULL;
}

/* The same of a tarball of open-gpu-kernel-modules. */
static char *tarball_version(const char *path)
{
	_cleanup_free_ char *top = source_tarball_top(path);
	_cleanup_free_ char *kbuild = NULL;
	_cleanup_free_ char *text = NULL;
	struct error ignored;
	size_t size;

	if (!top || !strstr(top, "open-gpu-kernel-modules"))
		return NULL;
	kbuild = xasprintf("%s/kernel-open/Kbuild", top);
	if (archive_member_read(path, kbuild, KBUILD_LIMIT, &text, &size, &ignored) < 0)
		return NULL;
	return kbuild_version(text);
}

char *nvidia_says(const struct build *build, const char *path, bool is_folder, const void *data)
{
	_cleanup_close_ int fd = -1;
	struct makeself installer;
	char *version;

	(void) data;
	if (is_folder) {
		version = manifest_version(path);
		return version ? version : read_version(path);
	}
	fd = fs_open(AT_FDCWD, path, O_RDONLY);
	if (fd < 0)
		return NULL;
	if (makeself_read(fd, &installer) < 0)
		return tarball_version(path);
	return strcmp(installer.machine, build->context.arch) == 0
		       ? xstrdup(installer.version)
		       : xasprintf("%s for %s", installer.version, installer.machine);
}

char *nvidia_version(const struct build *build)
{
	const struct source *source = &build->sources[DRIVER_NVIDIA];
	const struct lock_package *package = lock_find(&build->kernel.lock, LOCK_NVIDIA_SOURCE);
	_cleanup_free_ char *top = NULL;
	struct error ignored;

	if (source->form == SOURCE_PACKAGE)
		return package ? resolve_upstream(package->version) : NULL;
	if (source->version)
		return xstrdup(source->version);
	return source_top(build, DRIVER_NVIDIA, &top, &ignored) < 0 ? NULL : read_version(top);
}
