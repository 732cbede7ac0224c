/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/verify/input.h"
#include "cli/verify/verify_internal.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/image/buildah.h"
#include "cli/image/image_record.h"
#include "cli/image/registry.h"
#include "cli/json.h"
#include "common/arch.h"
#include "common/fs.h"
#include "common/image_conf.h"
#include "common/path.h"
#include "common/xalloc.h"
#include "kernels/archive/unpack.h"
#include "kernels/json_fields.h"
#include "kernels/local/local_image.h"
#include "kernels/local/scan.h"
#include "kernels/tool.h"
#include "kernels/tree/depends.h"
#include "module/elf.h"
#include "module/running.h"

/* --- what it is --- */

static int not_wanted(const char *name, const char *why, struct error *error)
{
	(void) error_set(error, -EINVAL, "%s: %s", name, why);
	(void) error_try(error, -EINVAL,
		"an image: its archive, its layout (oci:FOLDER), or its name in "
		"containers-storage");
	return error_try(error, -EINVAL,
		"a folder of modules, a file named .ko, .ko.gz, .ko.xz or .ko.zst, a .deb, .rpm or "
		"tarball");
}

bool verify_is_symvers(const char *path)
{
	_cleanup_close_ int fd = fs_open(AT_FDCWD, path, O_RDONLY);
	const char *slash = strrchr(path, '/');
	char start[2];

	if (fd < 0)
		return false;
	return strstr(slash ? slash : path, "symvers") ||
	       (pread(fd, start, 2, 0) == 2 && memcmp(start, "0x", 2) == 0);
}

/* Packed in a way that depmod and the kernel do not know. */
static int check_packing(const struct verify_input *input, struct error *error)
{
	static const char *const packings[] = { "bz2", "lz4", "lzma", "lzo" };
	const char *dot = strrchr(input->place, '.');

	for (size_t i = 0; i < ARRAY_SIZE(packings); i++)
		if (dot && dot - input->place > 3 && strcmp(dot + 1, packings[i]) == 0 &&
			strncmp(dot - 3, ".ko", 3) == 0)
			return error_set(error, -EINVAL,
				"%s: kernels cannot load modules compressed with %s: unpack it, or "
				"compress it with xz, zstd or gzip",
				input->name, packings[i]);
	return 0;
}

static int identify_path(struct verify_input *input, struct error *error)
{
	const char *place = input->place;
	_cleanup_free_ char *layout = xasprintf("%s/oci-layout", place);
	_cleanup_free_ char *index = xasprintf("%s/index.json", place);
	struct stat status;

	if (stat(place, &status) < 0) {
		if (strstr(place, "://"))
			return error_try(error,
				error_set(error, -EINVAL, "%s: no address of an image", place),
				"docker://%s for one in a registry", strstr(place, "://") + 3);
		if (errno != ENOENT || !*place || *place == '/' || *place == '.' ||
			module_suffix(place))
			return not_wanted(place, strerror(errno), error);
		input->kind = VERIFY_STORAGE;
		return 0;
	}
	if (S_ISREG(status.st_mode)) {
		input->kind = module_suffix(place) ? VERIFY_MODULE : VERIFY_ARCHIVE;
		return check_packing(input, error);
	}
	if (!S_ISDIR(status.st_mode))
		return not_wanted(place, "neither a folder nor a file", error);
	input->kind = fs_exists(AT_FDCWD, layout) && fs_exists(AT_FDCWD, index) ? VERIFY_LAYOUT
										: VERIFY_FOLDER;
	return 0;
}

/* "oci:PATH:TAG" and "oci-archive:PATH:TAG", as other tools write them. */
static void drop_tag(char *place)
{
	char *colon = strrchr(place, ':');

	if (!colon || strchr(colon, '/') || access(place, F_OK) == 0)
		return;
	*colon = '\0';
	if (access(place, F_OK) < 0)
		*colon = ':';
}

int verify_input_identify(const char *what, struct verify_input *ret, struct error *error)
{
	static const struct {
		const char *prefix;
		enum verify_kind kind;
	} transports[] = {
		{ "oci:", VERIFY_LAYOUT },
		{ "oci-archive:", VERIFY_ARCHIVE },
		{ "docker-archive:", VERIFY_ARCHIVE },
		{ "containers-storage:", VERIFY_STORAGE },
		{ "docker://", VERIFY_REGISTRY },
	};
	const char *place = what;
	int r = 0;

	*ret = (struct verify_input) VERIFY_INPUT_CLOSED;
	for (size_t i = 0; i < ARRAY_SIZE(transports) && place == what; i++) {
		size_t length = strlen(transports[i].prefix);

		if (strncmp(what, transports[i].prefix, length) == 0) {
			ret->kind = transports[i].kind;
			place += length;
		}
	}
	ret->name = xstrdup(what);
	ret->place = xstrdup(place);
	if (place == what) {
		r = identify_path(ret, error);
	} else if ((ret->kind == VERIFY_STORAGE || ret->kind == VERIFY_REGISTRY) && !*place) {
		r = error_set(error, -EINVAL, "%s: the image's name is missing", what);
	} else if (ret->kind != VERIFY_STORAGE && ret->kind != VERIFY_REGISTRY) {
		drop_tag(ret->place);
		if (access(ret->place, F_OK) < 0)
			r = error_set(error, -EINVAL, "%s: %s", what, strerror(errno));
	}
	if (r < 0)
		verify_input_close(ret);
	return r;
}

int verify_input_read_outputs(const char *folder, json_object **ret, struct error *error)
{
	_cleanup_free_ char *path = xasprintf("%s/" IMAGE_LIST, folder);
	_cleanup_free_ char *text = NULL;
	_cleanup_json_ json_object *object = NULL;
	size_t size;
	int r = fs_read(AT_FDCWD, path, 0, &text, &size);

	if (r < 0)
		return error_set_errno(error, r, "%s", path);
	r = json_parse(text, size, &object, error);
	if (r < 0)
		return error_prefix(error, r, "%s", path);
	if (!json_object_is_type(json_object_object_get(object, "images"), json_type_array))
		return error_set(error, -EBADMSG, "%s: it has no list of images", path);
	*ret = TAKE_PTR(object);
	return 0;
}

bool verify_input_outputs(const char *what, struct strv *images, char **os)
{
	_cleanup_json_ json_object *object = NULL;
	json_object *list, *role, *name;
	struct error ignored;
	size_t before = images->count;

	if (verify_input_read_outputs(what, &object, &ignored) < 0)
		return false;
	list = json_object_object_get(object, "images");
	for (size_t i = 0; i < json_object_array_length(list); i++)
		if (json_object_object_get_ex(json_object_array_get_idx(list, i), "role", &role))
			xstrv_pushf(images, "%s%s%s.oci.tar", what,
				what[strlen(what) - 1] == '/' ? "" : "/",
				json_object_get_string(role));
	if (os && !*os && json_object_object_get_ex(object, "os", &name))
		*os = xstrdup(json_object_get_string(name));
	return images->count > before;
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

/* A layer's ".wh.nvidia.ko" is a name that removes one, and local_image_unpack()'s to read. */
static bool is_wanted(void *context, const char *path)
{
	static const char *const folders[] = { "lib/firmware", "etc/modprobe.d", "run/modprobe.d",
		"usr/local/lib/modprobe.d", "lib/modprobe.d" };
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;

	(void) context;
	if (strncmp(name, ".wh.", 4) == 0 || strncmp(path, "usr/lib/debug/", 14) == 0)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(folders); i++)
		if (is_below(path, folders[i]))
			return true;
	return module_suffix(path) || strcmp(name, "Module.symvers") == 0 ||
	       strcmp(name, VERIFY_MODULES_DEP) == 0 || strcmp(path, IMAGE_CONF) == 0 ||
	       strcmp(path, IMAGE_KIT) == 0;
}

/* Is it an image of slipway build, whose programs are to start? */
static int look_for_programs(
	const struct local_image *image, struct verify_input *input, struct error *error)
{
	bool ours = false;
	int r = input->wanted || input->any_programs
			? 0
			: local_image_has_label(image, IMAGE_LABEL_ROLE, &ours, error);

	if (r == 0 && (ours || (input->any_programs && !input->wanted)))
		input->files = xcalloc(1, sizeof(*input->files));
	return r;
}

/* The same of a root that is a folder. */
static int look_in_folder(struct verify_input *input, const char *root, struct error *error)
{
	_cleanup_free_ char *conf = xasprintf("%s/" IMAGE_CONF, root);

	if (input->wanted || !(input->any_programs || fs_exists(AT_FDCWD, conf)))
		return 0;
	input->files = xcalloc(1, sizeof(*input->files));
	return image_files_add_folder(input->files, root, error);
}

/* Lists the images of an index that are not opened; it has been opened, so that it is sound. */
static void list_other_archs(
	const struct local_image *image, struct verify_input *input, const char *arch)
{
	_cleanup_(local_images_free) struct local_images images = { 0 };
	struct error ignored = { 0 };

	if (local_images_list(image->path, image->archive, &images, &ignored) < 0 ||
		images.count < 2)
		return;
	for (size_t i = 0; i < images.count; i++)
		if (strcmp(images.items[i].arch, arch) != 0)
			xstrv_push_unique(&input->archs, images.items[i].arch);
}

/* A manifest that names a layer which is not there is damage, not a missing file of the user's. */
static int unpack_image(const char *path, bool archive, const struct unpack *unpack,
	struct verify_input *input, struct context *context, struct error *error)
{
	_cleanup_(local_image_free) struct local_image image = { 0 };
	int r = local_image_open(path, archive, input->arch, &image, error);

	if (r < 0)
		return r;
	list_other_archs(&image, input, image.arch);
	input->image = true;
	r = look_for_programs(&image, input, error);
	if (r == 0)
		r = input->wanted
			    ? local_image_unpack(&image, unpack, error)
			    : verify_unpack_layers(&image, unpack, input->files, context, error);
	return r < 0 ? error_prefix(error, r == -ENOENT ? -EBADMSG : r,
			       "%s: its layers cannot be read", input->name)
		     : 0;
}

/* A .deb, .rpm or tarball that is no image may hold modules as well. */
static int unpack_archive(const char *path, const struct unpack *unpack, struct verify_input *input,
	struct context *context, struct error *error)
{
	enum archive_kind kind;
	int r = archive_input_kind(AT_FDCWD, path, &kind);

	if (r < 0)
		return error_set_errno(error, r, "%s", input->name);
	r = kind == ARCHIVE_KIND_TAR ? unpack_image(path, true, unpack, input, context, error)
				     : unpack_package(unpack, AT_FDCWD, path, error);
	if (r == -ENOENT && kind == ARCHIVE_KIND_TAR)
		r = unpack_run(unpack, AT_FDCWD, path, error);
	if (r != -EBADMSG || archive_looks_damaged(path))
		return r;
	return not_wanted(input->name, "not an image, archive, package or module", error);
}

static int not_stored(const struct verify_input *input, struct error *error)
{
	const char *place = input->place;
	const char *slash = strchr(place, '/');
	const char *sign = strpbrk(place, ".:");

	(void) error_set(error, -EINVAL,
		"%s: neither a file or folder nor an image in containers-storage", input->name);
	/* As containers-registries.conf(5) tells a registry's host: by its dot or port. */
	if (slash && sign && sign < slash)
		(void) error_try(error, -EINVAL, "if it is in a registry: docker://%s", place);
	(void) error_try(error, -EINVAL, "buildah images lists the names of local images");
	return error_try(error, -EINVAL, "start a path with / or ./");
}

/* From where it is mounted; without the right to mount, from an archive of it. */
static int read_stored(const char *id, const struct unpack *unpack, struct verify_input *input,
	struct context *context, struct error *error)
{
	const struct buildah buildah = { .run_path = context->cache.run_path,
		.scratch_path = context->cache.scratch_path };
	struct unpack of_folder = *unpack;
	_cleanup_free_ char *container = NULL;
	_cleanup_free_ char *root = NULL;
	_cleanup_free_ char *path = NULL;
	struct error ignored = { 0 };
	int r;

	if (geteuid() == 0 && buildah_mount_image(&buildah, id, &container, &root, &ignored) == 0) {
		input->image = true;
		of_folder.kind = ARCHIVE_KIND_FOLDER;
		r = unpack_run(&of_folder, AT_FDCWD, root, error);
		if (r == 0)
			r = look_in_folder(input, root, error);
		buildah_remove_container(container);
		return r;
	}
	path = xasprintf("%s.oci.tar", input->folder);
	r = buildah_save(id, path, error);
	if (r == 0)
		r = unpack_archive(path, unpack, input, context, error);
	(void) unlink(path);
	return r;
}

/* The caller frees *ret_id. */
static int find_stored(const struct verify_input *input, char **ret_id, struct error *error)
{
	_cleanup_strv_ struct strv argv = { 0 };
	struct error why = { 0 };

	*ret_id = buildah_image_id(input->place);
	if (*ret_id)
		return 0;
	xstrv_split(&argv, "buildah --version", " ");
	if (tool_run(&argv, NULL, &why) != -ENOPKG)
		return not_stored(input, error);
	(void) error_set(error, -ENOPKG,
		"%s: neither a file nor a folder, and without buildah no image of that name can be "
		"found",
		input->name);
	return error_try(error, -ENOPKG, "scripts/install-packages");
}

static int unpack_stored(const struct unpack *unpack, struct verify_input *input,
	struct context *context, struct error *error)
{
	_cleanup_free_ char *id = NULL;
	int r = find_stored(input, &id, error);

	return r < 0 ? r : read_stored(id, unpack, input, context, error);
}

static void on_quiet(void *context)
{
	progress_tick(context);
}

static void become_archive(struct verify_input *input, char *path)
{
	free(input->place);
	input->place = path;
	input->kind = VERIFY_ARCHIVE;
}

static int pull(struct verify_input *input, struct context *context, struct error *error)
{
	_cleanup_free_ char *path = xasprintf("%s.oci.tar", input->folder);
	int r = registry_pull(input->place, input->arch ? input->arch : arch_here()->oci, path,
		on_quiet, &context->progress, error);

	if (r == 0)
		become_archive(input, TAKE_PTR(path));
	return r;
}

int verify_input_fetch(struct verify_input *input, struct context *context, struct error *error)
{
	_cleanup_free_ char *folder = xasprintf("%s/image-XXXXXX", context->cache.run_path);
	_cleanup_free_ char *path = NULL;
	_cleanup_free_ char *id = NULL;
	int r;

	if (input->kind != VERIFY_STORAGE && input->kind != VERIFY_REGISTRY)
		return 0;
	if (!mkdtemp(folder))
		return error_set_errno(error, -errno, "%s", context->cache.path);
	path = xasprintf("%s/" IMAGE_ARCHIVE, folder);
	progress_step(&context->progress, input->name);
	if (input->kind == VERIFY_REGISTRY) {
		r = registry_pull(input->place, NULL, path, on_quiet, &context->progress, error);
	} else {
		r = find_stored(input, &id, error);
		if (r == 0)
			r = buildah_save(id, path, error);
	}
	if (r == 0)
		become_archive(input, TAKE_PTR(path));
	return r;
}

/* Into a folder of this run. */
static int unpack_input(struct verify_input *input, struct context *context, struct error *error)
{
	struct unpack unpack = {
		.wanted = input->wanted ? input->wanted : is_wanted,
		.name_only = input->wanted ? NULL : is_firmware,
	};
	int r;

	input->folder = xasprintf("%s/verify-XXXXXX", context->cache.run_path);
	if (!mkdtemp(input->folder))
		return error_set_errno(error, -errno, "%s", context->cache.path);
	unpack.folder = input->folder;
	progress_step(&context->progress, input->name);
	r = input->kind == VERIFY_REGISTRY ? pull(input, context, error) : 0;
	if (r < 0)
		return r;
	if (input->kind == VERIFY_STORAGE)
		return unpack_stored(&unpack, input, context, error);
	if (input->kind == VERIFY_ARCHIVE)
		return unpack_archive(input->place, &unpack, input, context, error);
	r = unpack_image(input->place, false, &unpack, input, context, error);
	return r == -ENOENT
		       ? error_prefix(error, -EBADMSG, "%s: not a complete OCI layout", input->name)
		       : r;
}

/* --- the modules below a folder, and which of them are of the kernel that is meant --- */

/*
 * A link to a module counts as a file where it stays in the folder: the weak-updates of Enterprise
 * Linux. In an image of others its target is looked for there, never on this machine.
 */
static unsigned char type_of(
	const struct verify_input *input, int dir_fd, const struct dirent *entry, const char *path)
{
	_cleanup_close_ int fd = -1;
	struct stat status;

	if (entry->d_type != DT_LNK && entry->d_type != DT_UNKNOWN)
		return entry->d_type;
	if (fstatat(dir_fd, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) < 0)
		return DT_UNKNOWN;
	if (!S_ISLNK(status.st_mode))
		return IFTODT(status.st_mode);
	fd = verify_input_unpacks(input) ? open_in_root(input->fd, path, O_PATH)
					 : openat(dir_fd, entry->d_name, O_PATH | O_CLOEXEC);
	return fd >= 0 && fstat(fd, &status) == 0 && S_ISREG(status.st_mode) ? DT_REG : DT_LNK;
}

/*
 * Lists the files below @path, of @length bytes. Skips other users' folders that root itself may
 * not read (FUSE), and files that were removed meanwhile. Uses the types that readdir() gives: a
 * stat of each file would take half as long again as all of verify.
 */
static int list_folder(struct verify_input *input, int parent_fd, const char *name,
	char path[PATH_MAX], size_t length)
{
	int fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	_cleanup_closedir_ DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;

	if (!dir) {
		int r = errno == EMFILE || errno == ENOMEM ? -errno : 0;

		cleanup_close(&fd);
		return r;
	}
	while ((entry = readdir(dir))) {
		bool module = module_suffix(entry->d_name);
		bool wanted = module || strcmp(entry->d_name, "Module.symvers") == 0;
		unsigned char type;
		size_t below;
		int r = 0;

		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
			(entry->d_type == DT_LNK && !wanted))
			continue;
		below = length + (size_t) snprintf(path + length, PATH_MAX - length, "%s%s",
					 length ? "/" : "", entry->d_name);
		if (below >= PATH_MAX)
			return -ENAMETOOLONG;
		/*
		 * Debug files have the names of modules, but none of their code. Beside the
		 * installed nvidia-peermem, an image of ours may have more of them.
		 */
		if (input->root && (strcmp(path, "usr/lib/debug") == 0 ||
					   strcmp(path, KERNEL_FACTS_FOLDER) == 0))
			continue;
		type = type_of(input, dirfd(dir), entry, path);
		if (type == DT_DIR)
			r = list_folder(input, dirfd(dir), entry->d_name, path, below);
		else if (type == DT_REG && wanted)
			xstrv_push(module ? &input->modules : &input->symvers, path);
		if (r < 0)
			return r;
	}
	return 0;
}

/* The kernel's own modules may be what is to be judged: their 900 folders are walked once. */
static bool take_lists(struct verify_input *input, const struct verify_input *listed)
{
	struct stat ours, theirs;

	if (!listed || !listed->modules.count || input->root || fstat(input->fd, &ours) < 0 ||
		fstat(listed->fd, &theirs) < 0 || ours.st_dev != theirs.st_dev ||
		ours.st_ino != theirs.st_ino)
		return false;
	for (size_t i = 0; i < listed->modules.count; i++)
		xstrv_push(&input->modules, listed->modules.items[i]);
	for (size_t i = 0; i < listed->symvers.count; i++)
		xstrv_push(&input->symvers, listed->symvers.items[i]);
	return true;
}

int verify_input_list(struct verify_input *input, struct error *error)
{
	char path[PATH_MAX];
	int r;

	if (take_lists(input, input->listed))
		return 0;
	r = list_folder(input, input->fd, ".", path, 0);
	if (r < 0)
		return error_set_errno(error, r, "%s", input->name);
	strv_sort(&input->modules);
	strv_sort(&input->symvers);
	return 0;
}

/* Returns the position in @path of a folder of this very name, or NULL. */
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
		const char *found = find_folder(paths->items[i], krel);
		_cleanup_free_ char *prefix =
			xstrndup(paths->items[i], found ? (size_t) (found - paths->items[i]) : 0);

		if (found)
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
		const char *name = path + strlen(prefixes->items[i]);

		if (strncmp(path, prefixes->items[i], strlen(prefixes->items[i])) == 0 &&
			strchr(name, '/') && *name >= '0' && *name <= '9')
			return xstrndup(name, strcspn(name, "/"));
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

void verify_input_choose(struct verify_input *input, const char *krel)
{
	_cleanup_strv_ struct strv prefixes = { 0 };

	add_prefixes(&input->modules, krel, &prefixes);
	if (prefixes.count == 0) {
		for (size_t i = 0; i < input->modules.count; i++) {
			_cleanup_free_ char *other =
				other_kernel(input->modules.items[i], krel, &prefixes);

			if (other)
				xstrv_push_unique(&input->others, other);
		}
		strv_sort(&input->others);
		return;
	}
	add_prefixes(&input->symvers, krel, &prefixes);
	keep_ours(input, &input->modules, krel, &prefixes);
	keep_ours(input, &input->symvers, krel, &prefixes);
	strv_sort(&input->skipped);
}

bool verify_input_finds_none(const struct verify_input *input)
{
	return input->image && input->others.count && fs_exists(input->fd, IMAGE_CONF) &&
	       !fs_exists(input->fd, IMAGE_KIT);
}

void verify_input_conf(const struct verify_input *input, const char *krel, struct image_conf *ret)
{
	_cleanup_free_ char *path =
		xasprintf(KERNEL_FACTS_FOLDER "/%s/" KERNEL_FACTS_IMAGE, krel ? krel : "");
	bool own = krel && fs_exists(input->fd, path);
	_cleanup_free_ char *text = NULL;

	(void) !fs_read(input->fd, own ? path : IMAGE_CONF, IMAGE_CONF_LIMIT, &text, NULL);
	image_conf_parse(text ? text : "", ret);
}

/* --- opening --- */

bool verify_input_unpacks(const struct verify_input *input)
{
	return input->kind == VERIFY_ARCHIVE || input->kind == VERIFY_LAYOUT ||
	       input->kind == VERIFY_STORAGE || input->kind == VERIFY_REGISTRY;
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
	strv_free(&input->archs);
	strv_free(&input->others);
	if (input->files)
		image_files_free(input->files);
	free(input->files);
	*input = (struct verify_input) VERIFY_INPUT_CLOSED;
}

/* A folder of images, as build --output makes it: they are archives, and looked into by name. */
static int check_folder(const struct verify_input *input, struct error *error)
{
	_cleanup_strv_ struct strv names = { 0 };
	_cleanup_strv_ struct strv images = { 0 };
	_cleanup_free_ char *text = NULL;

	if (input->modules.count || input->symvers.count || fs_list(input->fd, ".", &names) < 0)
		return 0;
	for (size_t i = 0; i < names.count; i++) {
		const char *dot = strstr(names.items[i], ".oci.tar");

		if (dot && !dot[strlen(".oci.tar")])
			xstrv_pushf(&images, "%s%s%s", input->place,
				input->place[strlen(input->place) - 1] == '/' ? "" : "/",
				names.items[i]);
	}
	if (!images.count)
		return 0;
	text = xstrv_join(&images, " ");
	return error_try(error,
		error_set(error, -EINVAL, "%s: it has no modules, but it has images", input->name),
		"give the images instead: %s", text);
}

int verify_input_open(struct verify_input *input, struct context *context, struct error *error)
{
	const char *slash = strrchr(input->place, '/');
	bool unpacks = verify_input_unpacks(input);
	int r;

	if (input->kind == VERIFY_SYMVERS) {
		input->fd = AT_FDCWD;
		xstrv_push(&input->symvers, input->place);
		return 0;
	}
	if (unpacks) {
		r = cache_name_full(&context->cache, unpack_input(input, context, error), error);
		if (r < 0)
			return r;
	} else if (input->kind == VERIFY_MODULE) { /* a folder with one name in it */
		input->folder = slash ? xstrndup(input->place, (size_t) (slash - input->place + 1))
				      : xstrdup(".");
		xstrv_push(&input->modules, slash ? slash + 1 : input->place);
	} else {
		input->folder = xstrdup(input->place);
	}
	input->fd = open(input->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (input->fd < 0)
		return error_set_errno(error, -errno, "%s", input->name);
	if (input->kind == VERIFY_MODULE)
		return 0;
	input->root = unpacks || fs_exists(input->fd, "lib/modules") ||
		      fs_exists(input->fd, "usr/lib/modules");
	if (input->root && !unpacks) {
		r = look_in_folder(input, input->folder, error);
		if (r < 0)
			return r;
	}
	if (input->files)
		image_files_settle(input->files);
	r = verify_input_list(input, error);
	return r == 0 && input->kind == VERIFY_FOLDER ? check_folder(input, error) : r;
}
