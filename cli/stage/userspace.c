/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The userspace of NVIDIA's driver, judged before anything is compiled: what --userspace names, and
 * what there is without it. containers/recipes/userspace.sh arranges it.
 */
#include "cli/stage/stage_internal.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/json.h"
#include "cli/programs/elf_program.h"
#include "common/arch.h"
#include "common/fs.h"
#include "common/image_conf.h"
#include "common/xalloc.h"

#define INSTALLER "the folder that NVIDIA's installer unpacks (sh NVIDIA-Linux-….run -x)"
#define NVML      "libnvidia-ml.so."
#define CUDA      "libcuda.so."

#define USERSPACE_FORM "userspace-2" /* changes with what is made of the recipe's output */

/* An installer's folder has three levels: / is a mistake. */
#define DEPTH_LIMIT 16

struct found {
	struct strv versions;
	struct strv cudas; /* versions, too */
	char *cuda;        /* path of the first libcuda */
	bool smi;
	bool firmware;
	bool imex;
};

/* Recognizes the files by the names that the recipe looks for: both must change together. */
static void take_file(struct found *found, const char *path, bool in_firmware)
{
	const char *name = basename(path);
	const char *dot = strrchr(name, '.');

	found->smi |= strcmp(name, "nvidia-smi") == 0;
	found->imex |= strcmp(name, "nvidia-imex") == 0;
	found->firmware |= in_firmware && dot && strcmp(dot, ".bin") == 0;
	if (strncmp(name, CUDA, strlen(CUDA)) == 0) {
		xstrv_push(&found->cudas, name + strlen(CUDA));
		if (!found->cuda)
			found->cuda = xstrdup(path);
	} else if (strncmp(name, NVML, strlen(NVML)) == 0 && strchr(name + strlen(NVML), '.'))
		xstrv_push_unique(&found->versions, name + strlen(NVML));
}

/* Links are not followed; "32" has the libraries of 32 bit, which no node wants. */
static int look(struct found *found, const char *folder, bool in_firmware, unsigned int depth)
{
	_cleanup_strv_ struct strv names = { 0 };
	int r = depth < DEPTH_LIMIT ? fs_list(AT_FDCWD, folder, &names) : 0;

	if (r < 0)
		return r == -ENOENT ? 0 : r; /* a folder that changes */
	for (size_t i = 0; i < names.count; i++) {
		const char *name = names.items[i];
		_cleanup_free_ char *path = xasprintf("%s/%s", folder, name);
		struct stat status;

		if (lstat(path, &status) < 0)
			continue;
		if (S_ISREG(status.st_mode))
			take_file(found, path, in_firmware);
		else if (S_ISDIR(status.st_mode) && strcmp(name, "32") != 0)
			r = look(found, path, in_firmware || strcmp(name, "firmware") == 0,
				depth + 1);
		if (r < 0)
			return r;
	}
	return 0;
}

/* Returns the option that names the folder. */
static const char *option_of(const struct build *build)
{
	return build->options.userspace ? "--userspace" : "--nvidia";
}

/*
 * Finds what the recipe would refuse before minutes of compiling. Firmware is required only for
 * modules that run it (on the GSP).
 */
static int judge(const struct build *build, const struct found *found, const char *folder,
	char **ret_version, struct error *error)
{
	const char *option = option_of(build);
	_cleanup_free_ char *version = xstrv_join(&found->versions, ", ");
	const char *lack = NULL;

	if (found->versions.count == 0) {
		(void) error_set(error, -EINVAL, "%s: no " NVML "* below %s", option, folder);
		return error_try(error, -EINVAL, INSTALLER);
	}
	if (found->versions.count > 1) {
		(void) error_set(error, -EINVAL, "%s %s: contains several driver versions: %s",
			option, folder, version);
		return error_try(error, -EINVAL, INSTALLER ", of one version");
	}
	if (!strv_contains(&found->cudas, version))
		lack = "no libcuda.so of that version";
	else if (!found->smi)
		lack = "no nvidia-smi";
	else if (!found->firmware && build->modules != NVIDIA_PROPRIETARY)
		lack = "no firmware/*.bin, which the open modules need to start a GPU";
	if (lack) {
		(void) error_set(error, -EINVAL, "%s %s: driver %s is incomplete: it has %s",
			option, folder, version, lack);
		return error_try(error, -EINVAL, INSTALLER);
	}
	*ret_version = TAKE_PTR(version);
	return 0;
}

/* -EINVAL for libraries of another machine; what is no library is found later. */
static int check_machine(const struct build *build, const struct found *found, const char *folder,
	struct error *error)
{
	const struct arch *arch = arch_find(build->context.arch);
	const struct arch *other;
	_cleanup_(elf_program_free) struct elf_program library = { 0 };
	_cleanup_close_ int fd = found->cuda ? fs_open(AT_FDCWD, found->cuda, O_RDONLY) : -1;
	struct error ignored;

	if (fd < 0 || !arch || elf_program_read(fd, &library, &ignored) < 0 ||
		library.machine == arch->machine)
		return 0;
	other = arch_of_machine((uint16_t) library.machine);
	(void) error_set(error, -EINVAL,
		"%s %s: the userspace is for %s, but the images are for %s", option_of(build),
		folder, other ? other->uname : "an unknown machine", arch->uname);
	return error_try(
		error, -EINVAL, "unpack NVIDIA-Linux-%s-….run of that version", arch->uname);
}

int userspace_open(struct build *build, struct error *error)
{
	const struct source *source = &build->sources[DRIVER_NVIDIA];
	const char *option = option_of(build);
	const char *text = build->options.userspace;
	struct found found = { 0 };
	struct stat status;
	int r;

	if (!text && source->version && source->form == SOURCE_ARCHIVE) {
		build->userspace_version = xstrdup(source->version);
		return 0;
	}
	if (!text && source->version)
		text = source->path;
	if (!text)
		return 0;
	r = stat(text, &status) < 0 ? errno : S_ISDIR(status.st_mode) ? 0 : ENOTDIR;
	if (r > 0) {
		(void) error_set(error, -EINVAL, "%s %s: %s", option, text,
			r == ENOTDIR ? "not a folder" : strerror(r));
		return error_try(error, -EINVAL, INSTALLER);
	}
	build->userspace = realpath(text, NULL);
	if (!build->userspace)
		return error_set_errno(error, -errno, "%s %s", option, text);
	r = look(&found, build->userspace, false, 0);
	r = r < 0 ? error_set_errno(error, r, "%s %s", option, build->userspace)
		  : judge(build, &found, build->userspace, &build->userspace_version, error);
	if (r == 0)
		r = check_machine(build, &found, build->userspace, error);
	strv_free(&found.versions);
	strv_free(&found.cudas);
	free(found.cuda);
	return r;
}

/*
 * Is the package in the lock, or the one that it is called in a release before or after? Debian
 * gave libraries a new name with "t64" at its end when time_t became one of 64 bit (Debian 13).
 */
static bool is_locked(const struct lock *lock, const char *name)
{
	for (size_t i = 0; i < lock->count; i++) {
		const char *there = lock->packages[i].name;
		size_t length = strlen(there), wanted = strlen(name);
		size_t shorter = length < wanted ? length : wanted;
		const char *longer = length < wanted ? name : there;

		if (strncmp(there, name, shorter) == 0 &&
			(length == wanted || strcmp(longer + shorter, "t64") == 0))
			return true;
	}
	return false;
}

/*
 * The packages of the list that the lock has not; but for @all those of the driver's version are
 * left out, some of which are no part of each driver (libnvidia-gpucomp before 545).
 */
static int list_lacking(
	const struct build *build, bool all, struct strv *lacking, struct error *error)
{
	_cleanup_(extras_free) struct extras extras = { 0 };
	int r = extras_list(build->context.data, build->target.os, false, true,
		build->kernel.request.nvidia_modules, &extras, error);

	if (r < 0)
		return r;
	for (size_t i = 0; i < extras.count; i++)
		if (extras.items[i].optional && (all || !extras.items[i].same_upstream_as) &&
			!is_locked(&build->kernel.lock, extras.items[i].name))
			xstrv_push(lacking, extras.items[i].name);
	return 0;
}

static int note_left_out(struct build *build, struct error *error)
{
	_cleanup_strv_ struct strv lacking = { 0 };
	_cleanup_free_ char *names = NULL;
	int r = list_lacking(build, false, &lacking, error);

	if (r < 0 || lacking.count == 0)
		return r;
	names = xstrv_join(&lacking, ", ");
	progress_notef(&build->context.progress,
		"%s has no %s: left out of the GPU image's "
		"userspace",
		build->target.os->os, names);
	return 0;
}

int userspace_check(struct build *build, struct error *error)
{
	bool package = build->sources[DRIVER_NVIDIA].form == SOURCE_PACKAGE;
	_cleanup_free_ char *version = NULL;

	if (!build_has(build, DRIVER_NVIDIA))
		return 0;
	if (!build->userspace)
		return package && build_has_userspace(build) ? note_left_out(build, error) : 0;
	/* If the version is not known, the recipe that compiles the source reports that. */
	version = nvidia_version(build);
	if (!version || strcmp(version, build->userspace_version) == 0)
		return 0;
	build->context.failure = EXIT_CODE_SOURCE;
	(void) error_set(error, -EINVAL,
		"%s %s: it is from driver %s, but the modules of --nvidia are from %s: only one "
		"version works together",
		option_of(build), build->userspace, build->userspace_version, version);
	(void) error_try(error, -EINVAL, "give the folder of installer version %s", version);
	return error_try(error, -EINVAL, "give --nvidia the modules' source of version %s",
		build->userspace_version);
}

int userspace_require(struct build *build, struct error *error)
{
	_cleanup_free_ char *version = NULL;

	if (!build_has(build, DRIVER_NVIDIA) || build_has_userspace(build))
		return 0;
	version = nvidia_version(build);
	(void) error_set(error, -EINVAL,
		"no nvidia-smi, libraries and firmware of the modules' version%s%s: the GPU image "
		"would load the modules but never become ready",
		version ? ", " : "", version ? version : "");
	if (build->options.force && !redist_given(build)) {
		progress_note(&build->context.progress, error->text);
		return 0;
	}
	build->context.failure = EXIT_CODE_SOURCE;
	(void) error_try(error, -EINVAL, "--userspace: give " INSTALLER " of that version");
	return error_try(error, -EINVAL, "--force%s%s, for an image that can only be inspected",
		redist_given(build) ? " without --" : "",
		redist_given(build) ? redist_given(build) : "");
}

/* ---- the driver's own list of GPUs */

/* Returns the device id of a chip that this driver serves, not a legacy branch before it; or 0. */
static unsigned int served_device(json_object *chip)
{
	const char *id = json_object_get_string(json_object_object_get(chip, "devid"));

	if (!id || json_object_object_get_ex(chip, "legacybranch", NULL))
		return 0;
	return (unsigned int) strtoul(id, NULL, 16);
}

int userspace_chips(const struct build *build, char **ret_chips, struct error *error)
{
	_cleanup_free_ char *path = NULL;
	_cleanup_strv_ struct strv blocks = { 0 };
	json_object *root, *chips;
	size_t count;

	if (build_has_userspace(build))
		path = xasprintf("%s/usr/share/nvidia/supported-gpus.json",
			stage_output(build, STAGE_USERSPACE, IMAGE_GPU));
	if (!path || !fs_exists(AT_FDCWD, path)) {
		*ret_chips = xstrdup("");
		return 0;
	}
	root = json_object_from_file(path);
	chips = json_object_object_get(root, "chips");
	count = json_object_is_type(chips, json_type_array) ? json_object_array_length(chips) : 0;
	for (size_t i = 0; i < count; i++) {
		unsigned int device = served_device(json_object_array_get_idx(chips, i));
		_cleanup_free_ char *block = xasprintf("%04x", device & ~(GPU_CHIP_IDS - 1));

		if (device)
			xstrv_push_unique(&blocks, block);
	}
	json_object_put(root);
	if (blocks.count == 0)
		return error_set(error, -EBADMSG,
			"%s in the driver's userspace is not a list of GPUs: unpack the installer "
			"again",
			path);
	*ret_chips = xstrv_join(&blocks, " ");
	return 0;
}

/* ---- what an image has of it */

/* The files and links below @folder, by their paths in the image. */
static int list_files(const char *folder, const char *below, struct strv *files)
{
	_cleanup_free_ char *path = xasprintf("%s/%s", folder, below);
	_cleanup_strv_ struct strv names = { 0 };
	int r = fs_list(AT_FDCWD, path, &names);

	if (r < 0)
		return r;
	for (size_t i = 0; i < names.count; i++) {
		_cleanup_free_ char *name = xasprintf("%s/%s", below, names.items[i]);
		_cleanup_free_ char *file = xasprintf("%s%s", folder, name);
		struct stat status;

		if (lstat(file, &status) < 0)
			return -errno;
		if (S_ISDIR(status.st_mode))
			r = list_files(folder, name, files);
		else
			xstrv_push(files, name);
		if (r < 0)
			return r;
	}
	return 0;
}

int userspace_record(
	const struct build *build, const char *folder, json_object **ret, struct error *error)
{
	const struct stage *stage = stage_find(build, STAGE_USERSPACE, IMAGE_GPU);
	_cleanup_free_ char *version = NULL;
	_cleanup_free_ char *text = NULL;
	_cleanup_strv_ struct strv packages = { 0 };
	_cleanup_strv_ struct strv lacking = { 0 };
	_cleanup_strv_ struct strv files = { 0 };
	struct hash *hash = hash_new();
	char id[HASH_HEX_SIZE];
	int r = hash_add_tree(hash, AT_FDCWD, folder);

	hash_finish(hash, id);
	if (r == 0)
		r = list_files(folder, "", &files);
	if (r < 0)
		return error_set_errno(error, r, "%s", folder);
	version = set_value(stage, "version", error);
	text = set_value(stage, "packages", error);
	if (!version || !text)
		return -EIO;
	if (!build->userspace_version) {
		xstrv_split(&packages, text, " ");
		r = list_lacking(build, true, &lacking, error);
		if (r < 0)
			return r;
	}
	*ret = json_object_new_object();
	json_add_texts(*ret, "version", version, "id", id);
	json_add(*ret, "packages", json_list(&packages));
	json_add(*ret, "lacking", json_list(&lacking));
	json_add(*ret, "files", json_list(&files));
	return 0;
}

/* ---- the names with which programs find its libraries */

/* A library's DT_SONAME, which is what programs link: NULL for none, and for what is no library. */
static char *read_soname(int folder_fd, const char *name)
{
	_cleanup_(elf_program_free) struct elf_program library = { 0 };
	_cleanup_close_ int fd = openat(folder_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	struct error ignored = { 0 };

	if (fd < 0 || elf_program_read(fd, &library, &ignored) < 0)
		return NULL;
	return TAKE_PTR(library.soname);
}

int userspace_link_libraries(const char *folder, struct error *error)
{
	static const struct timespec never[] = { { .tv_sec = 0 }, { .tv_sec = 0 } };
	static const char *const wanted[] = { NVML "1", CUDA "1" };
	_cleanup_close_ int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_strv_ struct strv names = { 0 };
	int r = fd < 0 ? -errno : fs_list(fd, ".", &names);

	for (size_t i = 0; i < names.count && r == 0; i++) {
		_cleanup_free_ char *soname = read_soname(fd, names.items[i]);

		if (!soname || !*soname || *soname == '.' || strchr(soname, '/') ||
			strcmp(soname, names.items[i]) == 0)
			continue;
		/* One that an installer's list has is its own. */
		if (symlinkat(names.items[i], fd, soname) < 0)
			r = errno == EEXIST ? 0 : -errno;
		else
			r = utimensat(fd, soname, never, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
	}
	/* As the recipe leaves it: no time of this run stays in the output. */
	if (r == 0 && futimens(fd, never) < 0)
		r = -errno;
	if (r < 0)
		return error_set_errno(error, r, "%s", folder);
	for (size_t i = 0; i < ARRAY_SIZE(wanted); i++)
		if (!fs_exists(fd, wanted[i]))
			return error_set(error, -EINVAL,
				"no library of the userspace has the SONAME %s: it is not NVIDIA's "
				"driver",
				wanted[i]);
	return 0;
}

/* ---- the stage */

bool build_has_userspace(const struct build *build)
{
	return build_has(build, DRIVER_NVIDIA) &&
	       (build->userspace_version || lock_find(&build->kernel.lock, LOCK_NVIDIA_USERSPACE));
}

bool userspace_has_imex(const struct build *build)
{
	_cleanup_free_ char *top = NULL;
	struct found found = { 0 };
	struct error ignored;

	if (build->redist[REDIST_IMEX].path)
		return true;
	if (!build->userspace_version) /* Debian has no package of it */
		return false;
	if (!build->userspace && source_top(build, DRIVER_NVIDIA, &top, &ignored) < 0)
		return false;
	(void) look(&found, build->userspace ? build->userspace : top, false, 0);
	strv_free(&found.versions);
	strv_free(&found.cudas);
	return found.imex;
}

bool userspace_applies(const struct build *build, const struct stage *stage)
{
	return stage->of == IMAGE_GPU && build_has_userspace(build);
}

void userspace_key(const struct stage *stage, struct key *key)
{
	(void) stage;
	key_text(key, USERSPACE_FORM);
	key_data(key, "containers/recipes/userspace.sh");
	key_data(key, "containers/recipes/lib.sh");
	redist_key(key);
	if (key->build->userspace)
		key_tree(key, key->build->userspace);
	else if (!key->build->userspace_version)
		kernel_add_packages(&key->build->kernel, LOCK_NVIDIA_USERSPACE, key->hash);
	if (key->build->modules != NVIDIA_NONE)
		key_text(key, key->build->options.kernel_module_type);
}

static int arrange(struct build *build, const struct recipe *recipe,
	const struct stage_place *place, struct error *error)
{
	_cleanup_free_ char *libraries =
		xasprintf("%s/usr/lib/%s", place->folder, build->target.arch->triplet);
	int r = recipe_run(build, recipe, place, error);

	return r < 0 ? r : userspace_link_libraries(libraries, error);
}

int userspace_run(struct build *build, const struct stage *stage, const struct stage_place *place,
	struct error *error)
{
	const struct lock *lock = &build->kernel.lock;
	_cleanup_(staging_close) struct staging packages = { .fd = -1 };
	struct recipe recipe = {
		.name = "userspace", .source = build->userspace, .for_runtime = true
	};
	_cleanup_free_ char *folder = NULL;
	_cleanup_free_ char *beside = NULL;
	int r = redist_unpack(build, &beside, error);

	(void) stage;
	if (r < 0)
		return r;
	recipe.beside = beside;
	if (!recipe.source && build->userspace_version) {
		r = source_top(build, DRIVER_NVIDIA, &folder, error);
		if (r < 0)
			return r;
		recipe.source = folder;
	}
	if (recipe.source)
		return arrange(build, &recipe, place, error);
	r = kernel_fetch(&build->kernel, LOCK_NVIDIA_USERSPACE, error);
	if (r < 0)
		return r;
	r = cache_new_folder(&build->context.cache, "packages", &folder);
	if (r < 0)
		return error_set_errno(error, r, "packages");
	r = staging_open(&packages, folder, error);
	if (r < 0)
		return r;
	/* The recipe knows packages by their file names, as apt-get download gives them. */
	for (size_t i = 0; i < lock->count; i++) {
		const struct lock_package *package = &lock->packages[i];
		_cleanup_free_ char *file = xasprintf(
			"%s_%s_%s.deb", package->name, package->version, package->architecture);

		if (strcmp(package->purpose, LOCK_NVIDIA_USERSPACE) == 0)
			staging_copy(&packages, file, "%s/blobs/sha256/%s",
				build->context.cache.path, package->sha256);
	}
	recipe.source = folder;
	return packages.result < 0 ? packages.result : arrange(build, &recipe, place, error);
}
