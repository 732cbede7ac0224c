/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The drivers: what their sources are, made ready for the recipes (unpacked, checked, at their own
 * top level), and the sets of modules that the recipes compile of them.
 */
#include "cli/stage/stage_internal.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "common/fs.h"
#include "common/nearest.h"
#include "common/hash.h"
#include "common/xalloc.h"
#include "kernels/archive/makeself.h"
#include "kernels/archive/unpack.h"
#include "kernels/tool.h"
#include "kernels/web_page.h"

const struct source_kind source_kinds[DRIVER_COUNT] = {
	[DRIVER_OFED] = {
		.name = "ofed",
		.image = IMAGE_NIC,
		.bound_to = DRIVER_COUNT,
		.configures = true,
		.set_room = { 100 },
		.title = "OFED",
		.published = "MLNX_OFED_SRC-….tgz or MLNX_OFED_LINUX-….tgz",
		.package_word = "reference",
		.package_text = "made of Debian's kernel source, for trials only",
		.purpose = LOCK_OFED_SOURCE,
		.recipe_part = "ofed-tree.sh",
		.input = "nic",
	},
	[DRIVER_NVIDIA] = {
		.name = "nvidia",
		.image = IMAGE_GPU,
		.source_room = { 190 },
		.set_room = { 100 },
		.title = "NVIDIA's kernel modules",
		.published = "NVIDIA's installer, NVIDIA-Linux-….run",
		.package_word = "debian",
		.package_text = "what Debian packages",
		.purpose = LOCK_NVIDIA_SOURCE,
		.bound_to = DRIVER_OFED,
		.input = "gpu",
	},
	[DRIVER_GDRCOPY] = {
		.name = "gdrcopy",
		.image = IMAGE_GPU,
		.title = "GDRCopy",
		.file = "src/gdrdrv/gdrdrv.c",
		.bound_to = DRIVER_NVIDIA,
		.recipe_part = "bound-to-nvidia.sh",
		.input = "gdrcopy",
	},
	[DRIVER_NVIDIA_FS] = {
		.name = "nvidia-fs",
		.image = IMAGE_GPU,
		.title = "nvidia-fs",
		.file = "src/nvfs-core.c",
		.bound_to = DRIVER_NVIDIA,
		.recipe_part = "bound-to-nvidia.sh",
		.input = "nvidia-fs",
	},
};

bool build_has(const struct build *build, enum driver driver)
{
	return build->sources[driver].form != SOURCE_NONE;
}

/* ---- what the options name */

/* By the names at its top. NVIDIA's is in Debian's or in NVIDIA's own layout. */
static bool is_tree_of(enum driver driver, const char *path, const struct strv *names)
{
	const struct source_kind *kind = &source_kinds[driver];
	_cleanup_free_ char *file = kind->file ? xasprintf("%s/%s", path, kind->file) : NULL;

	if (file)
		return fs_exists(AT_FDCWD, file);
	if (driver == DRIVER_OFED)
		return strv_contains(names, "configure") || strv_contains(names, "ofed_scripts");
	return strv_contains(names, "kernel-open") || strv_contains(names, ".manifest") ||
	       (strv_contains(names, "Kbuild") && strv_contains(names, "nvidia"));
}

static int try_package(const struct source_kind *kind, int code, struct error *error)
{
	return kind->package_word ? error_try(error, code, "--%s %s: %s", kind->name,
					    kind->package_word, kind->package_text)
				  : code;
}

/* The user may name these for the driver instead. */
static int try_others(const struct source_kind *kind, int code, struct error *error)
{
	if (kind->published)
		(void) error_try(error, code, "%s", kind->published);
	(void) error_try(error, code, "a tree of its source, or a tarball of one");
	return try_package(kind, code, error);
}

static int not_of(enum driver driver, const char *path, const char *text, const struct strv *names,
	struct error *error)
{
	const struct source_kind *kind = &source_kinds[driver];

	if (kind->file)
		(void) error_set(error, -EINVAL, "--%s %s: no source of %s: it has no %s",
			kind->name, text, kind->title, kind->file);
	else if (driver == DRIVER_NVIDIA)
		(void) error_set(error, -EINVAL,
			"--%s %s: no source of %s: it is no installer, and has neither "
			"kernel-open/ nor Kbuild and nvidia/ at its top",
			kind->name, text, kind->title);
	else
		(void) error_set(error, -EINVAL,
			"--%s %s: no OFED kernel source: it has no configure at its top",
			kind->name, text);
	for (enum driver other = 0; other < DRIVER_COUNT; other++)
		if (is_tree_of(other, path, names))
			return error_try(error, -EINVAL, "--%s %s: it is a source of %s",
				source_kinds[other].name, text, source_kinds[other].title);
	return try_others(kind, -EINVAL, error);
}

/*
 * Is it the driver's source? @text: what the user named, which an unpacked archive came from.
 * OFED's is an mlnx-ofed-kernel style tree, whose makefiles count by their exact names: on a
 * case-folding file system "makefile" answers for "Makefile" too.
 */
static int check_tree(enum driver driver, const char *path, const char *text, struct error *error)
{
	static const char *const makefiles[] = { "makefile", "Makefile" };
	_cleanup_strv_ struct strv names = { 0 };
	int r = fs_list(AT_FDCWD, path, &names);

	if (r < 0)
		return error_set_errno(error, r, "%s", path);
	if (!is_tree_of(driver, path, &names))
		return not_of(driver, path, text, &names, error);
	for (size_t i = 0; driver == DRIVER_OFED && i < ARRAY_SIZE(makefiles); i++) {
		if (strv_contains(&names, makefiles[i]))
			continue;
		(void) error_set(error, -EINVAL,
			"--%s %s: its %s is missing, and it needs both \"makefile\" (targets) and "
			"\"Makefile\" (kbuild)",
			source_kinds[driver].name, text, makefiles[i]);
		return error_try(error, -EINVAL,
			"unpack it on another file system: one that folds case keeps only one of "
			"them");
	}
	return 0;
}

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
		"%s: its sha256 is %s, and %s says %.64s: download it again", path, hex, list,
		line);
}

/*
 * Is the file or folder NVIDIA's installer? Then source->version is set. That of a folder is in the
 * second line of its list of files (nvidia-installer install-from-cwd.c, parse_manifest()).
 */
static int identify_installer(struct build *build, struct source *source, struct error *error)
{
	_cleanup_free_ char *manifest = xasprintf("%s/.manifest", source->path);
	_cleanup_free_ char *text = NULL;
	_cleanup_close_ int fd = -1;
	_cleanup_strv_ struct strv lines = { 0 };
	const char *arch = build->context.arch;
	struct makeself installer;
	int r;

	if (source->form == SOURCE_TREE) {
		if (fs_read(AT_FDCWD, manifest, 0, &text, NULL) < 0)
			return 0;
		xstrv_split(&lines, text, "\n");
		if (lines.count > 1)
			source->version = xstrdup(lines.items[1]);
		return 0;
	}
	fd = fs_open(AT_FDCWD, source->path, O_RDONLY);
	r = fd < 0 ? fd : makeself_read(fd, &installer);
	if (r < 0)
		return r == -ENOEXEC ? 0 : error_set_errno(error, r, "%s", source->path);
	if (strcmp(installer.machine, arch) != 0)
		return error_set(error, -EINVAL,
			"%s: the installer is for %s, the images are for %s: download "
			"NVIDIA-Linux-%s-%s.run",
			source->path, installer.machine, arch, arch, installer.version);
	source->version = xstrdup(installer.version);
	r = check_sum(source->path, error);
	if (r == -ENOENT && !installer.has_md5)
		progress_notef(&build->context.progress,
			"%s was made without an MD5 (zeros in its first lines), and no %s.sha256sum lies "
			"beside it: whether it was changed on its way is not checked",
			source->path, basename(source->path));
	if (r == 0 || r == -ENOENT)
		r = makeself_seek(fd, source->path, error);
	return r == -EBADMSG ? -EINVAL : r; /* a bad source, not a damaged download of ours */
}

/* Says what of an OFED nothing here compiles: @names, "" or NULL for nothing. */
static void note_left_out(struct build *build, const char *names)
{
	if (names && *names)
		progress_notef(&build->context.progress,
			"of this OFED mlnx-ofed-kernel is compiled; its sources of other modules are "
			"left out: %s",
			names);
}

/* A version is what the operators call a driver by: "535", "550.90.07", "24.07-0.6.1.0". */
static int not_there(
	const struct source_kind *kind, const char *text, int number, struct error *error)
{
	if (*text < '0' || *text > '9' || text[strspn(text, "0123456789.-")]) {
		(void) error_set(error, -EINVAL, "--%s %s: %s", kind->name, text, strerror(number));
		if (strcmp(text, "none") == 0)
			return error_try(error, -EINVAL, "leave out --%s", kind->name);
		if (kind->package_word && is_slip_of(text, kind->package_word, 2))
			return try_package(kind, -EINVAL, error);
		return try_others(kind, -EINVAL, error);
	}
	(void) error_set(error, -EINVAL,
		"--%s %s: that is a version, and the driver's source is wanted", kind->name, text);
	if (!kind->published)
		return try_others(kind, -EINVAL, error);
	(void) error_try(error, -EINVAL, "download it, and name the file: %s", kind->published);
	return try_package(kind, -EINVAL, error);
}

int sources_identify(struct build *build, struct error *error)
{
	for (enum driver driver = 0; driver < DRIVER_COUNT; driver++) {
		const struct source_kind *kind = &source_kinds[driver];
		struct source *source = &build->sources[driver];
		const char *word = kind->package_word;
		_cleanup_free_ char *inside = NULL, *named = NULL;
		struct stat status;
		const char *text = build->options.sources[driver];
		int r;

		if (!text || (driver == DRIVER_NVIDIA && strcmp(text, "none") == 0))
			continue;
		if (word && strcmp(text, word) == 0) {
			source->form = SOURCE_PACKAGE;
			continue;
		}
		if (stat(text, &status) < 0)
			return not_there(kind, text, errno, error);
		if (!S_ISDIR(status.st_mode) && !S_ISREG(status.st_mode))
			return try_others(kind,
				error_set(error, -EINVAL, "--%s %s: neither a folder nor a file",
					kind->name, text),
				error);
		if (web_page_is(AT_FDCWD, text)) {
			named = xasprintf("--%s %s", kind->name, text);
			return try_others(kind, web_page_refuse(named, -EINVAL, error), error);
		}
		source->path = realpath(text, NULL);
		if (!source->path)
			return error_set_errno(error, -errno, "--%s %s", kind->name, text);
		inside = driver == DRIVER_OFED ? ofed_source_inside(source->path) : NULL;
		if (inside && stat(inside, &status) == 0) {
			_cleanup_free_ char *left_out = ofed_source_left_out(source->path);

			note_left_out(build, left_out);
			free(source->path);
			source->path = TAKE_PTR(inside);
		}
		source->form = S_ISDIR(status.st_mode) ? SOURCE_TREE : SOURCE_ARCHIVE;
		r = driver == DRIVER_NVIDIA ? identify_installer(build, source, error) : 0;
		if (r < 0)
			return r;
		r = source->form == SOURCE_TREE ? check_tree(driver, source->path, text, error) : 0;
		if (r < 0)
			return r;
	}
	return 0;
}

/* ---- the source, made ready */

/* A tree is used where it lies: nothing is made of it. */
bool source_applies(const struct build *build, const struct stage *stage)
{
	enum source_form form = build->sources[stage->of].form;

	return form == SOURCE_PACKAGE || form == SOURCE_ARCHIVE;
}

void source_key(const struct stage *stage, struct key *key)
{
	const struct source *source = &key->build->sources[stage->of];

	if (source->form == SOURCE_ARCHIVE) {
		key_tree(key, source->path);
		return;
	}
	kernel_add_packages(&key->build->kernel, source_kinds[stage->of].purpose, key->hash);
	if (stage->of == DRIVER_OFED) {
		key_data(key, "scripts/reference-ofed");
		key_data(key, "scripts/reference-ofed.d");
	}
}

int source_find_top(const char *folder, char **ret_path, struct error *error)
{
	_cleanup_free_ char *path = xstrdup(folder);

	for (;;) {
		_cleanup_strv_ struct strv names = { 0 };
		_cleanup_free_ char *below = NULL;
		struct stat status;
		int r = fs_list(AT_FDCWD, path, &names);

		if (r < 0)
			return error_set_errno(error, r, "%s", folder);
		if (names.count == 1)
			below = xasprintf("%s/%s", path, names.items[0]);
		if (!below || lstat(below, &status) < 0 || !S_ISDIR(status.st_mode)) {
			*ret_path = TAKE_PTR(path);
			return 0;
		}
		free(path);
		path = TAKE_PTR(below);
	}
}

int source_top(const struct build *build, enum driver driver, char **ret_path, struct error *error)
{
	const struct source *source = &build->sources[driver];

	if (source->form != SOURCE_TREE)
		return source_find_top(stage_output(build, STAGE_SOURCE, driver), ret_path, error);
	*ret_path = xstrdup(source->path);
	return 0;
}

/*
 * The installer has both kinds of modules, in kernel-open/ and kernel/ (up to R510 only the
 * latter). A tree of open-gpu-kernel-modules becomes what the installer has in kernel-open/: see
 * core_run().
 */
int source_tree(const struct build *build, enum driver driver, char **ret_path, struct error *error)
{
	_cleanup_free_ char *top = NULL, *open = NULL, *closed = NULL;
	int r;

	if (driver == DRIVER_NVIDIA && build->sources[driver].has_core) {
		*ret_path = xstrdup(stage_output(build, STAGE_CORE, driver));
		return 0;
	}
	r = source_top(build, driver, &top, error);
	if (r < 0)
		return r;
	open = xasprintf("%s/kernel-open", top);
	closed = xasprintf("%s/kernel", top);
	if (driver != DRIVER_NVIDIA)
		*ret_path = TAKE_PTR(top);
	else if (build->modules != NVIDIA_PROPRIETARY && fs_exists(AT_FDCWD, open))
		*ret_path = TAKE_PTR(open);
	else if (build->modules != NVIDIA_OPEN && fs_exists(AT_FDCWD, closed))
		*ret_path = TAKE_PTR(closed);
	else
		*ret_path = TAKE_PTR(top);
	return 0;
}

/* A package's tarball is below usr/src, beside documentation and DKMS files. */
static bool is_tarball(void *data, const char *path)
{
	(void) data;
	return strncmp(path, "usr/src/", 8) == 0 && strstr(path, ".tar");
}

/* Fetches the package of a purpose and gives the path of the source tarball in it. */
static int package_tarball(
	struct build *build, const char *purpose, char **ret_path, struct error *error)
{
	const struct lock_package *package = lock_find(&build->kernel.lock, purpose);
	_cleanup_strv_ struct strv names = { 0 };
	_cleanup_free_ char *folder = NULL;
	_cleanup_free_ char *sources = NULL;
	_cleanup_free_ char *blob = NULL;
	struct unpack unpack = { .kind = ARCHIVE_KIND_DEB, .wanted = is_tarball };
	int r = kernel_fetch(&build->kernel, purpose, error);

	if (r < 0)
		return r;
	r = cache_new_folder(&build->context.cache, "package", &folder);
	if (r < 0)
		return error_set_errno(error, r, "%s", package->name);
	blob = xasprintf("blobs/sha256/%s", package->sha256);
	unpack.folder = folder;
	progress_step(&build->context.progress, package->name);
	r = unpack_run(&unpack, build->context.cache.fd, blob, error);
	if (r < 0)
		return r;
	sources = xasprintf("%s/usr/src", folder);
	r = fs_list(AT_FDCWD, sources, &names);
	if (r < 0 || names.count == 0)
		return error_set(error, -EINVAL, "the source package has no tarball under usr/src");
	*ret_path = xasprintf("%s/%s", sources, names.items[0]);
	return 0;
}

int source_run(struct build *build, const struct stage *stage, const struct stage_place *place,
	struct error *error)
{
	const struct source_kind *kind = &source_kinds[stage->of];
	const struct source *source = &build->sources[stage->of];
	const char *text = build->options.sources[stage->of];
	struct unpack unpack = { .folder = place->folder };
	_cleanup_strv_ struct strv argv = { 0 };
	_cleanup_free_ char *tarball = NULL;
	_cleanup_free_ char *top = NULL;
	int r;

	if (source->form == SOURCE_ARCHIVE) {
		r = archive_input_kind(AT_FDCWD, source->path, &unpack.kind);
		if (r == 0 && stage->of == DRIVER_OFED)
			r = ofed_source_unpack(build, source->path, place->folder, error);
		else if (r == 0)
			r = unpack_run(&unpack, AT_FDCWD, source->path, error);
		/* A file of the user's that is no whole archive is a bad source, not a damaged
		 * download. */
		if (r == -EBADMSG && !archive_looks_damaged(source->path))
			r = try_others(kind,
				error_set(error, -EINVAL, "--%s %s: neither an archive nor %s",
					kind->name, text,
					stage->of == DRIVER_NVIDIA ? "NVIDIA's installer"
								   : "a folder"),
				error);
		else if (r == -EBADMSG)
			r = -EINVAL;
	} else {
		r = package_tarball(build, kind->purpose, &tarball, error);
		if (r < 0)
			return r;
		if (stage->of == DRIVER_OFED) {
			progress_step(&build->context.progress, "generate the reference OFED");
			xstrv_pushf(&argv, "%s/scripts/reference-ofed", build->context.data);
			xstrv_push(&argv, "--kernel-source");
			xstrv_push(&argv, tarball);
			xstrv_push(&argv, "--output");
			xstrv_push(&argv, place->folder);
			r = tool_run(&argv, NULL, error);
		} else {
			r = unpack_run(&unpack, AT_FDCWD, tarball, error);
		}
	}
	if (r == 0)
		r = source_find_top(place->folder, &top, error);
	return r < 0 ? r : check_tree(stage->of, top, text, error);
}

/*
 * ---- the core of an open-gpu-kernel-modules tree: half of its compiling, and of no kernel. With
 * it the sources in kernel-open/ are what the installer has there.
 */

bool core_applies(const struct build *build, const struct stage *stage)
{
	return build->sources[stage->of].has_core;
}

void core_key(const struct stage *stage, struct key *key)
{
	const struct source *source = &key->build->sources[stage->of];

	key_data(key, "containers/recipes/%s-core.sh", source_kinds[stage->of].name);
	key_data(key, "containers/recipes/lib.sh");
	if (source->form == SOURCE_TREE)
		key_tree(key, source->path);
}

int core_run(struct build *build, const struct stage *stage, const struct stage_place *place,
	struct error *error)
{
	struct recipe recipe = { .name = stage->name };
	_cleanup_free_ char *source = NULL;
	int r = source_top(build, stage->of, &source, error);

	recipe.source = source;
	return r < 0 ? r : recipe_run(build, &recipe, place, error);
}

/* ---- the set that the recipe compiles of it */

bool set_applies(const struct build *build, const struct stage *stage)
{
	return build_has(build, stage->of);
}

/* A source with a folder for either kind of modules has to have that of the kind asked for. */
static int check_kind(const struct build *build, const char *top, struct error *error)
{
	bool is_open = build->modules == NVIDIA_OPEN;
	_cleanup_free_ char *wanted = xasprintf("%s/%s", top, is_open ? "kernel-open" : "kernel");
	_cleanup_free_ char *other = xasprintf("%s/%s", top, is_open ? "kernel" : "kernel-open");

	if (build->modules == NVIDIA_NONE || fs_exists(AT_FDCWD, wanted) ||
		!fs_exists(AT_FDCWD, other))
		return 0;
	if (is_open)
		return error_set(error, -EINVAL,
			"--kernel-module-type open: %s has the proprietary modules only: leave the "
			"option out, or name a driver that has both (from 515 on)",
			build->sources[DRIVER_NVIDIA].path);
	return error_set(error, -EINVAL,
		"--kernel-module-type proprietary: %s has the open modules only: name NVIDIA's "
		"installer of that version (NVIDIA-Linux-….run), with kernel/ in it",
		build->sources[DRIVER_NVIDIA].path);
}

static int look_at_ofed(struct build *build, struct error *error)
{
	_cleanup_free_ char *top = NULL, *path = NULL, *names = NULL;
	int r;

	if (build->sources[DRIVER_OFED].form != SOURCE_ARCHIVE)
		return 0;
	r = source_top(build, DRIVER_OFED, &top, error);
	if (r < 0)
		return r;
	path = xasprintf("%s/" OFED_LEFT_OUT, top);
	if (fs_read(AT_FDCWD, path, 0, &names, NULL) == 0)
		note_left_out(build, names);
	return 0;
}

static bool is_archive(const struct build *build, const struct stage *stage)
{
	return build->sources[stage->of].form == SOURCE_ARCHIVE;
}

int source_look(struct build *build, struct error *error)
{
	struct source *source = &build->sources[DRIVER_NVIDIA];
	_cleanup_free_ char *top = NULL, *core = NULL;
	int r = stages_make(build, STAGE_BIT(STAGE_SOURCE), is_archive, error);

	if (r == 0)
		r = look_at_ofed(build, error);
	if (r < 0 || !build_has(build, DRIVER_NVIDIA) || source->form == SOURCE_PACKAGE)
		return r;
	r = source_top(build, DRIVER_NVIDIA, &top, error);
	if (r < 0)
		return r;
	core = xasprintf("%s/src/nvidia", top);
	source->has_core = !source->version && fs_exists(AT_FDCWD, core);
	r = check_kind(build, top, error);
	return r < 0 ? context_fail(&build->context, EXIT_CODE_SOURCE, r) : 0;
}

void source_tree_key(struct key *key, enum driver driver)
{
	_cleanup_free_ char *path = NULL;

	/* What source_tree() takes of a source goes by it. */
	if (driver == DRIVER_NVIDIA && key->build->modules != NVIDIA_NONE)
		key_text(key, key->build->options.kernel_module_type);
	if (driver == DRIVER_NVIDIA && key->build->sources[driver].has_core)
		return; /* in the core's key */
	if (key->build->sources[driver].form == SOURCE_TREE &&
		source_tree(key->build, driver, &path, key->error) == 0)
		key_tree(key, path);
}

void set_key(const struct stage *stage, struct key *key)
{
	const struct source_kind *kind = &source_kinds[stage->of];

	key_text(key, key->build->kernel.lock.krel);
	key_data(key, "containers/recipes/%s.sh", kind->name);
	key_data(key, "containers/recipes/lib.sh");
	key_data(key, "containers/patches/%s", kind->name);
	if (kind->recipe_part)
		key_data(key, "containers/recipes/%s", kind->recipe_part);
	source_tree_key(key, stage->of);
}

int set_run(struct build *build, const struct stage *stage, const struct stage_place *place,
	struct error *error)
{
	const struct source_kind *kind = &source_kinds[stage->of];
	struct recipe recipe = { .name = kind->name };
	_cleanup_free_ char *source = NULL;
	int r = source_tree(build, stage->of, &source, error);

	if (r < 0)
		return r;
	recipe.source = source;
	if (kind->configures)
		recipe.configured = stage_output(build, STAGE_CONFIGURED, stage->of);
	if (kind->bound_to == DRIVER_OFED && build_has(build, DRIVER_OFED))
		recipe.ofed = stage_output(build, STAGE_SET, DRIVER_OFED);
	if (kind->bound_to == DRIVER_NVIDIA)
		recipe.nvidia = stage_output(build, STAGE_SET, DRIVER_NVIDIA);
	return recipe_run(build, &recipe, place, error);
}

/* ---- what OFED's configure says of the kernel: a compile that fails does not ask it again */

bool configured_applies(const struct build *build, const struct stage *stage)
{
	return source_kinds[stage->of].configures && build_has(build, stage->of);
}

void configured_key(const struct stage *stage, struct key *key)
{
	key_text(key, key->build->kernel.lock.krel);
	key_data(key, "containers/recipes/ofed-configure.sh");
	key_data(key, "containers/recipes/lib.sh");
	key_data(key, "containers/recipes/ofed-tree.sh");
	key_data(key, "containers/recipes/feature-tests");
	if (key->build->options.verify_configure)
		key_text(key, "verified");
	source_tree_key(key, stage->of);
}

int configured_run(struct build *build, const struct stage *stage, const struct stage_place *place,
	struct error *error)
{
	struct recipe recipe = { .name = "ofed-configure" };
	_cleanup_free_ char *source = NULL;
	int r = source_tree(build, stage->of, &source, error);

	if (r < 0)
		return r;
	recipe.source = source;
	return recipe_run(build, &recipe, place, error);
}
