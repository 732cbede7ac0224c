/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's userspace: what containers/recipes/userspace.sh put into the GPU image, and nothing
 * of the image's own base. The base's libraries are the operating system's business.
 */
#include "cli/export/export_internal.h"

#include <fcntl.h>
#include <fnmatch.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/programs/elf_program.h"
#include "common/fs.h"
#include "common/path.h"
#include "common/xalloc.h"
#include "kernels/archive/unpack.h"

#define INIT   "slipway-init" /* what an image's entrypoints lead to: nvidia-driver … */
#define GLIBC  "GLIBC_"
#define LINKED "usr/lib/" /* and a triplet */

/* Below @from, files by such a name go to the same place below @to; "": the library folder. */
static const struct part {
	const char *from;
	const char *name; /* fnmatch(3) of the last part of the path; "": by the driver's version */
	const char *to;
} parts[] = {
	{ "usr/bin", "nvidia-*", "usr/bin" },
	{ "usr/bin", "nv-fabricmanager", "usr/bin" },
	{ "usr/bin", "nvswitch-audit", "usr/bin" },
	{ LINKED, "*nvidia*", "" },
	{ LINKED, "libcuda*", "" },
	{ LINKED, "libnv*", "" },
	{ LINKED, "", "" },
	{ "usr/lib/firmware/nvidia", "*", "usr/lib/firmware/nvidia" },
	{ "usr/share/nvidia", "*", "usr/share/nvidia" },
	{ "usr/share/glvnd", "*", "usr/share/glvnd" },
	{ "usr/share/egl", "*", "usr/share/egl" },
	{ "usr/share/vulkan", "*", "usr/share/vulkan" },
	{ "usr/share/X11/xorg.conf.d", "*nvidia*", "usr/share/X11/xorg.conf.d" },
	/* Its loaders search both (Vulkan-Loader, docs/LoaderDriverInterface.md). */
	{ "etc/vulkan", "*", "usr/share/vulkan" },
	{ "etc/vulkansc", "*", "usr/share/vulkansc" },
};

/* The part of @path behind the folder and its '/'; NULL: it is elsewhere. */
static const char *rest_below(const char *path, const char *folder)
{
	size_t length = strlen(folder);

	return strncmp(path, folder, length) == 0 && path[length] == '/' ? path + length + 1 : NULL;
}

static const char *rest_of_part(const struct part *part, const char *path, const struct arch *arch)
{
	_cleanup_free_ char *folder = NULL;

	if (strcmp(part->from, LINKED) != 0)
		return rest_below(path, part->from);
	folder = xasprintf(LINKED "%s", arch->triplet);
	return rest_below(path, folder);
}

bool export_wants_userspace(const char *path)
{
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		for (const struct arch *arch = archs; arch->uname; arch++)
			if (rest_of_part(&parts[i], path, arch) &&
				(!*parts[i].name || fnmatch(parts[i].name, basename(path), 0) == 0))
				return true;
	return false;
}

/* Where the file of the image goes, freed by the caller; NULL: it is not the driver's. */
static char *place_of(const struct export *export, const char *version, const char *path)
{
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		const struct part *part = &parts[i];
		const char *rest = rest_of_part(part, path, export->arch);
		_cleanup_free_ char *end = xasprintf(".so.%s", version);

		if (rest && (*part->name ? fnmatch(part->name, basename(path), 0) == 0
					 : str_ends_with(path, end)))
			return xasprintf(
				"%s/%s", *part->to ? part->to : export->library_folder, rest);
	}
	return NULL;
}

/* ---- what programs need of the system */

static bool is_newer(const char *version, const char *than)
{
	unsigned int a[2] = { 0 }, b[2] = { 0 };

	if (!than)
		return true;
	(void) sscanf(version, "%u.%u", &a[0], &a[1]);
	(void) sscanf(than, "%u.%u", &b[0], &b[1]);
	return a[0] != b[0] ? a[0] > b[0] : a[1] > b[1];
}

static int add_needs(
	struct export *export, const struct staging *root, const char *path, struct error *error)
{
	_cleanup_close_ int fd = fs_open(root->fd, path, O_RDONLY);
	struct elf_program program = { 0 };
	int r = fd < 0 ? fd : elf_program_read(fd, &program, error);

	if (r == -ENOEXEC)
		return 0;
	if (r == -EBADMSG)
		return error_prefix(error, r, "%s", path);
	if (r < 0)
		return error_set_errno(error, r, "%s", path);
	for (size_t i = 0; i < program.demand_count; i++) {
		const char *version = program.demands[i].version;

		if (strncmp(version, GLIBC, strlen(GLIBC)) != 0 ||
			!is_newer(version + strlen(GLIBC), export->glibc))
			continue;
		free(export->glibc);
		export->glibc = xstrdup(version + strlen(GLIBC));
	}
	for (size_t i = 0; i < program.needed.count; i++) {
		_cleanup_free_ char *own =
			xasprintf("%s/%s", export->library_folder, program.needed.items[i]);

		if (!fs_exists(root->fd, own))
			xstrv_push_unique(&export->needs, program.needed.items[i]);
	}
	elf_program_free(&program);
	return 0;
}

/* Only programs count: libraries are for containers, too, which have what those need. */
static int find_needs(struct export *export, const struct staging *root, struct error *error)
{
	_cleanup_strv_ struct strv paths = { 0 };
	int r = fs_list_tree(root->fd, "usr/bin", &paths);

	if (r < 0)
		return error_set_errno(error, r, "usr/bin");
	for (size_t i = 0; i < paths.count; i++) {
		r = add_needs(export, root, paths.items[i], error);
		if (r < 0)
			return r;
	}
	strv_sort(&export->needs);
	return 0;
}

static int check_glibc(struct export *export, const struct export_input *gpu, struct error *error)
{
	const struct catalogue *os = &export->context->os;

	if (!export->glibc || !*os->glibc || !is_newer(export->glibc, os->glibc))
		return 0;
	if (export->force) {
		progress_notef(&export->context->progress,
			"%s: programs need glibc %s, and %s has %s: they will not start",
			gpu->image.name, export->glibc, os->name, os->glibc);
		return 0;
	}
	(void) error_set(error, -EINVAL, "%s: programs need glibc %s, and %s has %s",
		gpu->image.name, export->glibc, os->name, os->glibc);
	(void) error_try(error, -EINVAL, "--without " EXPORT_USERSPACE);
	return error_try(error, -EINVAL, "--force, to export them all the same");
}

/* ---- placing */

/* The path that a link of the image leads to; NULL: nothing of it was unpacked there. */
static char *follow(const struct export_input *gpu, const char *path)
{
	char *target = NULL;

	return chase(gpu->image.fd, path, &target) < 0 ? NULL : target;
}

static int leads_out(struct export *export, const struct export_input *gpu, const char *path,
	const char *text, struct error *error)
{
	if (export->force) {
		progress_notef(&export->context->progress,
			"%s: /%s is left out: it leads to %s, which is not the driver's",
			gpu->image.name, path, text);
		return 0;
	}
	(void) error_set(error, -EINVAL, "%s: /%s leads to %s, which is not the driver's",
		gpu->image.name, path, text);
	return error_try(error, -EINVAL, "--force, to leave it out");
}

/*
 * A program becomes the file that it leads to: the DRA driver's search for nvidia-smi is `find
 * -type f` (k8s-dra-driver-gpu hack/kubelet-plugin-prestart.sh).
 */
static int place_link(struct export *export, const struct export_input *gpu, const char *path,
	const char *to, struct staging *root, struct error *error)
{
	_cleanup_free_ char *target = follow(gpu, path);
	_cleanup_free_ char *place = target ? place_of(export, gpu->conf.version, target) : NULL;
	_cleanup_free_ char *link = NULL;
	char text[PATH_MAX] = "";
	ssize_t length = readlinkat(gpu->image.fd, path, text, sizeof(text) - 1);

	if (length < 0)
		return error_set_errno(error, -errno, "%s", path);
	text[length] = '\0';
	if (strcmp(basename(text), INIT) == 0)
		return 0;
	if (!place)
		return leads_out(export, gpu, path, text, error);
	if (rest_below(path, "usr/bin")) {
		staging_copy(root, to, "%s/%s", gpu->image.folder, target);
		return root->result;
	}
	link = unpack_relative_link(to, place);
	staging_link(root, link, to);
	return root->result;
}

static int place(struct export *export, const struct export_input *gpu, const char *path,
	struct staging *root, struct error *error)
{
	_cleanup_free_ char *to = place_of(export, gpu->conf.version, path);
	struct stat status;

	if (!to)
		return 0;
	if (fstatat(gpu->image.fd, path, &status, AT_SYMLINK_NOFOLLOW) < 0)
		return error_set_errno(error, -errno, "%s", path);
	if (S_ISLNK(status.st_mode))
		return place_link(export, gpu, path, to, root, error);
	staging_copy(root, to, "%s/%s", gpu->image.folder, path);
	return root->result;
}

int export_stage_userspace(struct export *export, struct staging *root, struct error *error)
{
	const struct export_input *gpu = export_find_role(export, "gpu");
	_cleanup_strv_ struct strv paths = { 0 };
	static const char *const tops[] = { "usr/bin", "usr/lib", "usr/share", "etc" };
	int r;

	if (!gpu || strv_contains(&export->without, EXPORT_USERSPACE))
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(tops); i++) {
		r = fs_list_tree(gpu->image.fd, tops[i], &paths);
		if (r < 0 && r != -ENOENT)
			return error_set_errno(error, r, "%s: %s", gpu->image.name, tops[i]);
	}
	for (size_t i = 0; i < paths.count; i++) {
		r = place(export, gpu, paths.items[i], root, error);
		if (r < 0)
			return r;
	}
	if (!fs_exists(root->fd, EXPORT_SMI)) {
		(void) error_set(error, -EINVAL,
			"%s: it has no userspace driver: /" EXPORT_SMI " is missing",
			gpu->image.name);
		return error_try(error, -EINVAL, "--without " EXPORT_USERSPACE);
	}
	r = find_needs(export, root, error);
	return r < 0 ? r : check_glibc(export, gpu, error);
}
