/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/verify/input.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/image/buildah.h"
#include "common/fs.h"
#include "common/path.h"
#include "common/xalloc.h"
#include "kernels/archive/unpack.h"
#include "kernels/local/image.h"
#include "kernels/local/scan.h"
#include "kernels/tool.h"
#include "module/kernel_facts.h"

/* --- what it is --- */

static const struct {
	const char *prefix;
	enum verify_kind kind;
} transports[] = {
	{ "oci:", VERIFY_LAYOUT },
	{ "oci-archive:", VERIFY_ARCHIVE },
	{ "docker-archive:", VERIFY_ARCHIVE },
	{ "containers-storage:", VERIFY_STORAGE },
};

static const char kinds_text[] =
	"a folder of modules, .ko files, an image's archive or layout, or the name of an image in "
	"containers-storage is wanted";

bool verify_is_module(const char *path)
{
	static const char *const ends[] = { ".ko", ".ko.xz", ".ko.zst", ".ko.gz" };
	size_t length = strlen(path);

	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		size_t end = strlen(ends[i]);

		if (length > end && path[length - end - 1] != '/' &&
			strcmp(path + length - end, ends[i]) == 0)
			return true;
	}
	return false;
}

/* Packed in a way that depmod and the kernel do not know; NULL: it is none of these. */
static const char *unknown_packing(const char *path)
{
	static const char *const ends[] = { "bz2", "lz4", "lzma", "lzo" };
	const char *dot = strrchr(path, '.');

	for (size_t i = 0; i < ARRAY_SIZE(ends); i++)
		if (dot && dot - path > 3 && strcmp(dot + 1, ends[i]) == 0 &&
			strncmp(dot - 3, ".ko", 3) == 0)
			return ends[i];
	return NULL;
}

/* What exists tells itself. */
static int identify_path(struct verify_input *input, const struct stat *status, struct error *error)
{
	_cleanup_close_ int fd = -1;

	if (S_ISREG(status->st_mode)) {
		const char *packing = unknown_packing(input->place);

		if (packing)
			return error_set(error, -EINVAL,
				"%s: no kernel takes modules packed with %s: unpack it, or pack it "
				"with xz, zstd or gzip",
				input->name, packing);
		input->kind = verify_is_module(input->place) ? VERIFY_MODULE : VERIFY_ARCHIVE;
		return 0;
	}
	if (!S_ISDIR(status->st_mode))
		return error_set(error, -EINVAL, "%s: neither a folder nor a file: %s", input->name,
			kinds_text);
	fd = open(input->place, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return error_set_errno(error, -errno, "%s", input->name);
	input->kind = fs_exists(fd, "oci-layout") && fs_exists(fd, "index.json") ? VERIFY_LAYOUT
										 : VERIFY_FOLDER;
	return 0;
}

/* "oci:PATH:TAG" and "oci-archive:PATH:TAG", as other tools write them. */
static void drop_tag(char *place)
{
	char *colon = strrchr(place, ':');
	struct stat status;

	if (!colon || strchr(colon, '/') || stat(place, &status) == 0)
		return;
	*colon = '\0';
	if (stat(place, &status) < 0)
		*colon = ':';
}

int verify_input_identify(const char *what, struct verify_input *ret, struct error *error)
{
	struct stat status;
	size_t skip = 0;
	int r = 0;

	*ret = (struct verify_input) VERIFY_INPUT_CLOSED;
	for (size_t i = 0; i < ARRAY_SIZE(transports) && !skip; i++) {
		if (strncmp(what, transports[i].prefix, strlen(transports[i].prefix)) != 0)
			continue;
		ret->kind = transports[i].kind;
		skip = strlen(transports[i].prefix);
	}
	ret->name = xstrdup(what);
	ret->place = xstrdup(what + skip);
	if (skip && ret->kind == VERIFY_STORAGE) {
		if (!*ret->place)
			r = error_set(error, -EINVAL, "%s: the image's name is missing", what);
	} else if (skip) {
		drop_tag(ret->place);
		if (stat(ret->place, &status) < 0)
			r = error_set(error, -EINVAL, "%s: %s", what, strerror(errno));
	} else if (stat(what, &status) == 0) {
		r = identify_path(ret, &status, error);
	} else if (strstr(what, "://")) {
		/* No registry is asked: what runs where is not ours to fetch unasked. */
		r = error_set(error, -EINVAL,
			"%s: no registry is asked: pull it first (buildah pull %s), then give its "
			"name",
			what, what);
	} else if (errno != ENOENT || *what == '/' || *what == '.' || !*what ||
		   verify_is_module(what)) {
		r = error_set(error, -EINVAL, "%s: %s: %s", what, strerror(errno), kinds_text);
	} else {
		ret->kind = VERIFY_STORAGE;
	}
	if (r < 0)
		verify_input_close(ret);
	return r;
}

/* --- unpacking an image or archive: the modules and what else the proof wants --- */

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

/* A manifest that names a layer which is not there is damage, not a missing file of the user's. */
static int unpack_image(const char *path, bool archive, const struct unpack *unpack,
	struct verify_input *input, struct error *error)
{
	_cleanup_(local_image_free) struct local_image image = { 0 };
	int r = local_image_open(path, archive, &image, error);

	if (r < 0)
		return r;
	input->image = true;
	r = local_image_unpack(&image, unpack, error);
	return r < 0 ? error_prefix(error, r == -ENOENT ? -EBADMSG : r,
			       "%s: its layers cannot be read", input->name)
		     : 0;
}

/* A .deb, .rpm or tarball that is no image may hold modules as well. */
static int unpack_file(const char *path, const struct unpack *unpack, struct verify_input *input,
	struct error *error)
{
	enum archive_kind kind;
	int r = archive_input_kind(AT_FDCWD, path, &kind);

	if (r < 0)
		return error_set_errno(error, r, "%s", input->name);
	if (kind != ARCHIVE_KIND_TAR)
		return unpack_package(unpack, AT_FDCWD, path, error);
	r = unpack_image(path, true, unpack, input, error);
	return r == -ENOENT ? unpack_tar(unpack, AT_FDCWD, path, error) : r;
}

static int unpack_archive(const char *path, const struct unpack *unpack, struct verify_input *input,
	struct error *error)
{
	int r = unpack_file(path, unpack, input, error);

	if (r != -EBADMSG)
		return r;
	/* What libarchive minds, with what to do about it. */
	if (begins_as_archive(path)) {
		const struct error why = *error;

		return error_set(
			error, r, "%s: it is damaged or cut short: copy it anew", why.text);
	}
	return error_set(error, -EINVAL,
		"%s: no image, archive, package or module: a folder, an image's archive or layout, "
		"a .deb, .rpm or tarball, or a file named .ko, .ko.gz, .ko.xz or .ko.zst is wanted",
		input->name);
}

/* No such name; or there is no buildah to ask. */
static int no_image(const struct verify_input *input, struct error *error)
{
	_cleanup_strv_ struct strv argv = { 0 };
	struct error why = { 0 };

	xstrv_split(&argv, "buildah --version", " ");
	if (tool_run(&argv, NULL, &why) == -ENOPKG)
		return error_set(error, -ENOPKG,
			"%s: neither a file nor a folder, and there is no buildah to ask for an "
			"image of that name: scripts/install-packages",
			input->name);
	return error_set(error, -EINVAL,
		"%s: neither a file or folder nor an image in containers-storage: buildah images "
		"lists those; a path starts with / or ./",
		input->name);
}

/* Through an archive, not a mount: that needs the rights of root, and has to be undone. */
static int unpack_stored(
	const struct unpack *unpack, struct verify_input *input, struct error *error)
{
	_cleanup_free_ char *path = xasprintf("%s.oci.tar", input->folder);
	_cleanup_free_ char *id = buildah_image_id(input->place);
	int r;

	if (!id)
		return no_image(input, error);
	r = buildah_save(id, path, error);
	if (r == 0)
		r = unpack_archive(path, unpack, input, error);
	(void) unlink(path);
	return r;
}

/* Into a folder of this run. */
static int unpack_input(struct verify_input *input, struct context *context, struct error *error)
{
	struct unpack unpack = {
		.wanted = input->wanted ? input->wanted : is_wanted,
		.name_only = is_firmware,
	};
	int r;

	input->folder = xasprintf("%s/verify-XXXXXX", context->cache.run_path);
	if (!mkdtemp(input->folder))
		return error_set_errno(error, -errno, "%s", context->cache.path);
	unpack.folder = input->folder;
	progress_step(&context->progress, input->name);
	if (input->kind == VERIFY_STORAGE)
		return unpack_stored(&unpack, input, error);
	if (input->kind == VERIFY_ARCHIVE)
		return unpack_archive(input->place, &unpack, input, error);
	r = unpack_image(input->place, false, &unpack, input, error);
	return r == -ENOENT ? error_prefix(error, -EBADMSG, "%s: no whole OCI layout", input->name)
			    : r;
}

/* --- the modules below a folder, and which of them are of the kernel that is meant --- */

/*
 * A link to a module counts where it stays in the folder: the weak-updates of Enterprise Linux. In
 * a stranger's image its target is looked for there, never on this machine.
 */
static bool is_file(
	const struct verify_input *input, int dir_fd, const struct dirent *entry, const char *path)
{
	struct stat status;
	int fd;

	if (entry->d_type == DT_REG)
		return true;
	if (entry->d_type != DT_LNK && entry->d_type != DT_UNKNOWN)
		return false;
	if (!verify_input_unpacks(input))
		return fstatat(dir_fd, entry->d_name, &status, 0) == 0 && S_ISREG(status.st_mode);
	fd = open_in_root(input->fd, path, O_PATH);
	if (fd < 0)
		return false;
	if (fstat(fd, &status) < 0)
		status.st_mode = 0;
	(void) close(fd);
	return S_ISREG(status.st_mode);
}

static bool is_folder(int dir_fd, const struct dirent *entry)
{
	struct stat status;

	if (entry->d_type != DT_UNKNOWN)
		return entry->d_type == DT_DIR;
	return fstatat(dir_fd, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
	       S_ISDIR(status.st_mode);
}

struct walk {
	struct verify_input *input;
	char path[PATH_MAX]; /* of the entry that is looked at, below the input's folder */
};

static int list_folder(struct walk *walk, int parent_fd, const char *name, size_t length);

static int list_entry(struct walk *walk, int dir_fd, const struct dirent *entry, size_t length)
{
	struct verify_input *input = walk->input;
	bool module = verify_is_module(entry->d_name);

	/* What debuggers read has the names of modules, and none of their bytes. */
	if (input->root && strcmp(walk->path, "usr/lib/debug") == 0)
		return 0;
	/* Beside the nvidia-peermem that is installed, an image of ours may have more of them. */
	if (input->root && strcmp(walk->path, KERNEL_FACTS_FOLDER) == 0)
		return 0;
	if (is_folder(dir_fd, entry))
		return list_folder(walk, dir_fd, entry->d_name, length);
	if (!module && strcmp(entry->d_name, "Module.symvers") != 0)
		return 0;
	if (!is_file(input, dir_fd, entry, walk->path))
		return 0;
	xstrv_push(module ? &input->modules : &input->symvers, walk->path);
	return 0;
}

/* Folders of others that root itself may not read (FUSE) are skipped, as is what went away. */
static int list_folder(struct walk *walk, int parent_fd, const char *name, size_t length)
{
	int fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	_cleanup_closedir_ DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;
	int r;

	if (!dir) {
		r = errno == EMFILE || errno == ENOMEM ? -errno : 0;
		cleanup_close(&fd);
		return r;
	}
	while ((entry = readdir(dir))) {
		size_t room = sizeof(walk->path) - length;
		int added;

		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		added = snprintf(
			walk->path + length, room, "%s%s", length ? "/" : "", entry->d_name);
		if (added < 0 || (size_t) added >= room)
			return -ENAMETOOLONG;
		r = list_entry(walk, dirfd(dir), entry, length + (size_t) added);
		if (r < 0)
			return r;
	}
	return 0;
}

int verify_input_list(struct verify_input *input, struct error *error)
{
	struct verify_input *from = input->listed;
	struct walk walk = { .input = input };
	struct stat ours, theirs;
	int r;

	/* The kernel's own modules may be what is to be judged: their folders are walked once. */
	if (from && from->modules.count && !input->root && !verify_input_unpacks(input) &&
		fstat(input->fd, &ours) == 0 && fstat(from->fd, &theirs) == 0 &&
		ours.st_dev == theirs.st_dev && ours.st_ino == theirs.st_ino) {
		strv_free(&input->modules);
		strv_free(&input->symvers);
		input->modules = from->modules;
		input->symvers = from->symvers;
		from->modules = from->symvers = (struct strv){ 0 };
		return 0;
	}
	r = list_folder(&walk, input->fd, ".", 0);
	if (r < 0)
		return error_set_errno(error, r, "%s", input->name);
	strv_sort(&input->modules);
	strv_sort(&input->symvers);
	return 0;
}

/* Where in @path a folder of this very name is, or NULL. */
static const char *find_folder(const char *path, const char *name)
{
	size_t length = strlen(name);

	for (const char *part = path; part; part = strchr(part, '/')) {
		part += *part == '/';
		if (strncmp(part, name, length) == 0 && part[length] == '/')
			return part;
	}
	return NULL;
}

/* Appends what stands before folders named @krel: "lib/modules/", "drivers/", "". */
static void add_prefixes(const struct strv *paths, const char *krel, struct strv *prefixes)
{
	for (size_t i = 0; i < paths->count; i++) {
		const char *path = paths->items[i];
		const char *found = find_folder(path, krel);
		_cleanup_free_ char *prefix = NULL;

		if (!found)
			continue;
		prefix = xstrndup(path, (size_t) (found - path));
		xstrv_push_unique(prefixes, prefix);
	}
}

/*
 * The kernel that a path is of when it is not @krel, freed by the caller, or NULL. A folder beside
 * one that is named after a release holds another's modules only if its name can be a release and
 * not, say, "common".
 */
static char *other_kernel(const char *path, const char *krel, const struct strv *prefixes)
{
	char *release = NULL;
	const char *rest;

	if (find_folder(path, krel))
		return NULL;
	if (local_scan_split(path, &release, &rest))
		return release;
	for (size_t i = 0; i < prefixes->count; i++) {
		const char *prefix = prefixes->items[i];
		const char *name = path + strlen(prefix);
		size_t length;

		if (strncmp(path, prefix, strlen(prefix)) != 0)
			continue;
		length = strcspn(name, "/");
		if (name[length] == '/' && *name >= '0' && *name <= '9')
			return xstrndup(name, length);
	}
	return NULL;
}

static void keep_ours(struct verify_input *input, struct strv *paths, const char *krel,
	const struct strv *prefixes)
{
	struct strv kept = { 0 };

	for (size_t i = 0; i < paths->count; i++) {
		_cleanup_free_ char *other = other_kernel(paths->items[i], krel, prefixes);

		if (other)
			xstrv_push_unique(&input->skipped, other);
		else
			xstrv_push(&kept, paths->items[i]);
	}
	strv_free(paths);
	*paths = kept;
}

/* Is any module in the folder of some kernel? */
static bool names_a_kernel(const struct strv *paths)
{
	for (size_t i = 0; i < paths->count; i++) {
		_cleanup_free_ char *release = NULL;
		const char *rest;

		if (local_scan_split(paths->items[i], &release, &rest))
			return true;
	}
	return false;
}

void verify_input_choose(struct verify_input *input, const char *krel)
{
	_cleanup_strv_ struct strv prefixes = { 0 };

	add_prefixes(&input->modules, krel, &prefixes);
	if (prefixes.count == 0) {
		input->other_kernel = names_a_kernel(&input->modules);
		return;
	}
	add_prefixes(&input->symvers, krel, &prefixes);
	keep_ours(input, &input->modules, krel, &prefixes);
	keep_ours(input, &input->symvers, krel, &prefixes);
	strv_sort(&input->skipped);
}

/* --- opening --- */

bool verify_input_unpacks(const struct verify_input *input)
{
	return input->kind != VERIFY_FOLDER && input->kind != VERIFY_MODULE;
}

void verify_input_close(struct verify_input *input)
{
	cleanup_close(&input->fd);
	free(input->name);
	free(input->place);
	free(input->folder);
	strv_free(&input->modules);
	strv_free(&input->symvers);
	strv_free(&input->skipped);
	*input = (struct verify_input) VERIFY_INPUT_CLOSED;
}

int verify_input_open(struct verify_input *input, struct context *context, struct error *error)
{
	const char *slash = strrchr(input->place, '/');
	int r;

	if (input->kind == VERIFY_MODULE) { /* a folder with one name in it */
		input->folder = slash ? xstrndup(input->place, (size_t) (slash - input->place + 1))
				      : xstrdup(".");
		xstrv_push(&input->modules, slash ? slash + 1 : input->place);
	} else if (verify_input_unpacks(input)) {
		r = unpack_input(input, context, error);
		if (r < 0)
			return r;
	} else {
		input->folder = xstrdup(input->place);
	}
	input->fd = open(input->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (input->fd < 0)
		return error_set_errno(error, -errno, "%s", input->name);
	if (input->kind == VERIFY_MODULE)
		return 0;
	input->root = verify_input_unpacks(input) || fs_exists(input->fd, "lib/modules") ||
		      fs_exists(input->fd, "usr/lib/modules");
	return verify_input_list(input, error);
}
