/* SPDX-License-Identifier: Apache-2.0 */
/* Of an image or archive: the modules and what else the proof wants, in a folder of this run. */
#include <fcntl.h>
#include <string.h>

#include "cli/image/buildah.h"
#include "cli/verify/input.h"
#include "kernels/archive/unpack.h"
#include "kernels/local/image.h"
#include "kernels/tool.h"

static bool is_below(const char *path, const char *folder)
{
	size_t length = strlen(folder);

	if (strncmp(path, "usr/", 4) == 0 && strncmp(folder, "usr/", 4) != 0)
		path += 4;
	return strncmp(path, folder, length) == 0 && path[length] == '/';
}

static bool is_firmware(void *context, const char *path)
{
	(void) context;
	return is_below(path, "lib/firmware");
}

static bool is_modprobe_conf(const char *path)
{
	static const char *const folders[] = { "etc/modprobe.d", "run/modprobe.d",
		"usr/local/lib/modprobe.d", "lib/modprobe.d" };

	for (size_t i = 0; i < ARRAY_SIZE(folders); i++)
		if (is_below(path, folders[i]))
			return true;
	return false;
}

/* A layer's ".wh.nvidia.ko" is a name that removes one, and local_image_unpack()'s to read. */
static bool is_wanted(void *context, const char *path)
{
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;

	if (strncmp(name, ".wh.", 4) == 0 || strncmp(path, "usr/lib/debug/", 14) == 0)
		return false;
	return verify_is_module(path) || strcmp(name, "Module.symvers") == 0 ||
	       is_firmware(context, path) || is_modprobe_conf(path);
}

/* A manifest that names a layer which is not there is damage, not a missing file of the user's. */
static int unpack_image(const struct local_image *image, const struct unpack *unpack,
	struct verify_input *input, struct error *error)
{
	int r = local_image_unpack(image, unpack, error);

	input->image = true;
	if (r == -ENOENT)
		r = -EBADMSG;
	return r < 0 ? error_prefix(error, r, "%s: its layers cannot be read", input->name) : 0;
}

/* Does a file begin as any archive does? What is cut short or damaged further on still does. */
static bool begins_as_archive(const char *path)
{
	static const struct {
		size_t offset, size;
		const char *bytes;
	} marks[] = {
		{ 0, 2, "\x1f\x8b" }, /* gzip */
		{ 0, 3, "BZh" },      /* bzip2 */
		{ 0, 5,
			"\xfd"
			"7zXZ" },             /* xz */
		{ 0, 4, "\x28\xb5\x2f\xfd" }, /* zstd */
		{ 0, 3, "\x5d\0\0" },         /* lzma */
		{ 257, 5, "ustar" },          /* tar */
		{ 0, 8, "!<arch>\n" },        /* Debian's packages */
		{ 0, 4, "\xed\xab\xee\xdb" }, /* RPM */
	};
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	char start[512] = { 0 };

	if (fd < 0 || read(fd, start, sizeof(start)) < 0)
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(marks); i++)
		if (memcmp(start + marks[i].offset, marks[i].bytes, marks[i].size) == 0)
			return true;
	return false;
}

/* What libarchive minds, with what to do about it. */
static int explain_damage(
	const struct verify_input *input, const char *path, int code, struct error *error)
{
	const struct error why = *error;

	if (!begins_as_archive(path))
		return error_set(error, -EINVAL,
			"%s: no image, archive, package or module: a folder, an image's archive or "
			"layout, a .deb, .rpm or tarball, or a file named .ko, .ko.gz, .ko.xz or "
			".ko.zst is wanted",
			input->name);
	return error_set(error, code, "%s: it is damaged or cut short: copy it anew", why.text);
}

/* A .deb, .rpm or tarball that is no image may hold modules as well. */
static int unpack_file(const char *path, const struct unpack *unpack, struct verify_input *input,
	struct error *error)
{
	_cleanup_(local_image_free) struct local_image image = { 0 };
	enum archive_kind kind;
	int r = archive_input_kind(AT_FDCWD, path, &kind);

	if (r < 0)
		return error_set_errno(error, r, "%s", input->name);
	if (kind != ARCHIVE_KIND_TAR)
		return unpack_package(unpack, AT_FDCWD, path, error);
	r = local_image_open(path, true, &image, error);
	if (r == 0)
		return unpack_image(&image, unpack, input, error);
	return r == -ENOENT ? unpack_tar(unpack, AT_FDCWD, path, error) : r;
}

static int unpack_archive(const char *path, const struct unpack *unpack, struct verify_input *input,
	struct error *error)
{
	int r = unpack_file(path, unpack, input, error);

	return r == -EBADMSG ? explain_damage(input, path, r, error) : r;
}

static int unpack_layout(
	const struct unpack *unpack, struct verify_input *input, struct error *error)
{
	_cleanup_(local_image_free) struct local_image image = { 0 };
	int r = local_image_open(input->place, false, &image, error);

	if (r == -ENOENT)
		return error_prefix(error, -EBADMSG, "%s: no whole OCI layout", input->name);
	return r < 0 ? r : unpack_image(&image, unpack, input, error);
}

/* No such name: or is there nobody to ask? */
static int no_image(const struct verify_input *input, struct error *error)
{
	_cleanup_strv_ struct strv argv = { 0 };
	struct error why = { 0 };
	int r = strv_split(&argv, "buildah --version", " ");

	if (r == 0)
		r = tool_run(&argv, NULL, &why);
	if (r == -ENOPKG)
		return error_set(error, r,
			"%s: neither a file nor a folder, and there is no buildah to ask for an "
			"image of that name: scripts/install-packages",
			input->name);
	return error_set(error, -EINVAL,
		"%s: neither a file or folder nor an image in containers-storage: buildah images "
		"lists those; a path starts with / or ./",
		input->name);
}

/*
 * Through an archive, not a mount: that needs the rights of root, and somebody who unmounts it
 * again after whatever end.
 */
static int unpack_stored(const struct unpack *unpack, struct verify_input *input,
	const char *scratch, struct error *error)
{
	_cleanup_free_ char *path = NULL;
	_cleanup_free_ char *id = buildah_image_id(input->place);
	int r;

	if (!id)
		return no_image(input, error);
	if (asprintf(&path, "%s.oci.tar", scratch) < 0)
		return error_set_errno(error, -ENOMEM, "%s", input->name);
	r = buildah_save(id, path, error);
	if (r == 0)
		r = unpack_archive(path, unpack, input, error);
	(void) unlink(path);
	return r;
}

int verify_input_unpack(struct verify_input *input, struct context *context, struct error *error)
{
	struct unpack unpack = { .wanted = is_wanted, .name_only = is_firmware };
	_cleanup_free_ char *template = NULL;
	int r;

	if (asprintf(&template, "%s/verify-XXXXXX", context->cache.run_path) < 0)
		return error_set_errno(error, -ENOMEM, "%s", input->name);
	r = mkdtemp(template) ? 0 : -errno;
	input->folder = TAKE_PTR(template);
	if (r < 0)
		return error_set_errno(error, r, "%s", context->cache.path);
	unpack.folder = input->folder;
	progress_step(&context->progress, input->name);
	switch (input->kind) {
	case VERIFY_STORAGE:
		return unpack_stored(&unpack, input, input->folder, error);
	case VERIFY_LAYOUT:
		return unpack_layout(&unpack, input, error);
	default:
		return unpack_archive(input->place, &unpack, input, error);
	}
}
