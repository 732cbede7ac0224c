/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images that live in Buildah's storage: the two bases, the build container's and the kits. An
 * output folder holds their name, which has the key in it.
 */
#include "cli/stage/stage_internal.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/slipway_version.h"
#include "common/buildlog.h"
#include "common/fs.h"
#include "common/xalloc.h"
#include "kernels/repo/signature.h"
#include "kernels/tool.h"

/* ---- Buildah for a stage */

/* The last two parts of a path: the recipe's folders are the same for all. */
static const char *short_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	if (slash)
		slash = memrchr(path, '/', (size_t) (slash - path));
	return slash ? slash + 1 : path;
}

/* How much the newest log of this stage had compiled, for this kernel or another. */
static size_t count_in_last_log(const struct build *build, const char *stage)
{
	const struct cache *cache = &build->context.cache;
	_cleanup_strv_ struct strv names = { 0 };
	_cleanup_free_ char *newest = NULL;
	_cleanup_free_ char *text = NULL;
	size_t length = strlen(stage);
	time_t newest_s = 0;

	if (fs_list(cache->fd, "logs", &names) < 0)
		return 0;
	for (size_t i = 0; i < names.count; i++) {
		const char *name = names.items[i];
		_cleanup_free_ char *path = xasprintf("logs/%s", name);
		struct stat status;

		/* What follows is a key: a name such as "nvidia-source" goes on with another. */
		if (strncmp(name, stage, length) != 0 || name[length] != '-' ||
			strchr(name + length + 1, '-') ||
			fstatat(cache->fd, path, &status, 0) < 0 || status.st_size == 0 ||
			status.st_mtime < newest_s)
			continue;
		newest_s = status.st_mtime;
		free(newest);
		newest = TAKE_PTR(path);
	}
	if (!newest || fs_read(cache->fd, newest, 0, &text, NULL) < 0)
		return 0;
	return buildlog_count_compiled(text);
}

static void on_line(void *context, const char *line)
{
	struct build *build = context;
	const char *file = buildlog_compiled(line);

	if (strncmp(line, "==> ", 4) == 0)
		progress_step(&build->context.progress, line + 4);
	else if (file)
		progress_compiled(&build->context.progress, short_name(file));
	else
		progress_tick(&build->context.progress);
}

static void on_quiet(void *context)
{
	struct build *build = context;

	progress_tick(&build->context.progress);
}

int stage_buildah(struct build *build, const struct stage_place *place, struct buildah *ret,
	struct error *error)
{
	struct progress *progress = &build->context.progress;
	size_t to_compile = progress->stage ? count_in_last_log(build, progress->stage) : 0;
	int fd = open(place->log, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644);

	if (fd < 0)
		return error_set_errno(error, -errno, "%s", place->log);
	progress->to_compile = to_compile;
	*ret = (struct buildah){
		.log_fd = fd,
		.on_line = on_line,
		.on_quiet = on_quiet,
		.context = build,
		.run_path = build->context.cache.run_path,
	};
	return 0;
}

void stage_buildah_done(struct buildah *buildah)
{
	cleanup_close(&buildah->log_fd);
}

int made_image_build(struct build *build, const struct stage_place *place,
	const struct made_image *image, char **ret_id, struct error *error)
{
	_cleanup_(stage_buildah_done) struct buildah buildah = { .log_fd = -1 };
	_cleanup_free_ char *file =
		xasprintf("%s/containers/debian/%s", build->context.data, image->containerfile);
	int r = stage_buildah(build, place, &buildah, error);

	if (r < 0)
		return r;
	buildah.network = image->network;
	buildah.target = image->target;
	buildah.date = image->date;
	r = buildah_build(
		&buildah, file, image->folder, &image->arguments, &image->labels, ret_id, error);
	return r < 0 ? error_prefix(error, r, "log %s", place->log) : 0;
}

void made_image_free(struct made_image *image)
{
	strv_free(&image->arguments);
	strv_free(&image->labels);
}

/* ---- names of images */

static int read_name(const char *output, char **ret_name)
{
	_cleanup_free_ char *path = xasprintf("%s/" IMAGE_NAME_FILE, output);

	return fs_read_line(AT_FDCWD, path, ret_name);
}

bool image_still_there(const char *output)
{
	_cleanup_free_ char *name = NULL;
	_cleanup_free_ char *id = NULL;

	if (read_name(output, &name) < 0)
		return false;
	id = buildah_image_id(name);
	return id != NULL;
}

char *image_name(const struct build *build, enum stage_id stage, struct error *error)
{
	char *name = NULL;
	int r = read_name(stage_output(build, stage), &name);

	if (r < 0)
		(void) error_set_errno(error, r, "%s", stage_output(build, stage));
	return r < 0 ? NULL : name;
}

static int write_name(const struct stage_place *place, const char *name, struct error *error)
{
	_cleanup_free_ char *path = xasprintf("%s/" IMAGE_NAME_FILE, place->folder);
	int r = fs_write_atomic(AT_FDCWD, path, name, strlen(name), 0644);

	return r < 0 ? error_set_errno(error, r, "%s", place->folder) : 0;
}

/* Makes the image, and has the output stand for it by a name that begins with @prefix. */
static int make_named(struct build *build, const struct stage_place *place,
	const struct made_image *image, const char *prefix, struct error *error)
{
	_cleanup_free_ char *name = xasprintf("localhost/slipway/%s:%.16s", prefix, place->key);
	_cleanup_free_ char *id = NULL;
	int r = made_image_build(build, place, image, &id, error);

	if (r == 0)
		r = buildah_tag(id, name, error);
	return r < 0 ? r : write_name(place, name, error);
}

/* ---- the repositories that bases are made of */

static bool is_in_base(const struct catalogue *os, const struct repository *repository)
{
	return repository->kind == REPOSITORY_APT && repository_in_root(os, repository);
}

/*
 * apt_auth.conf(5), @path: neither the image nor the list of processes has a password. The file
 * goes with the run.
 */
static int add_password(const char *path, const struct mirror *mirror, struct error *error)
{
	_cleanup_fclose_ FILE *file = NULL;

	if (!mirror->credentials.user)
		return 0;
	if (strpbrk(mirror->credentials.user, " \t") ||
		strpbrk(mirror->credentials.password, " \t"))
		return error_set(error, -EINVAL,
			"mirror %s: apt takes no user and password with a blank in it",
			mirror->name);
	file = fopen(path, "ae");
	if (!file || fchmod(fileno(file), 0600) < 0)
		return error_set_errno(error, -errno, "%s", path);
	return fprintf(file, "machine %s/ login %s password %s\n", mirror->url,
		       mirror->credentials.user, mirror->credentials.password) < 0
		       ? error_set_errno(error, -EIO, "%s", path)
		       : 0;
}

/*
 * Each source with its own keys only: one repository's must not sign another's lists. A keyring
 * goes by the name that it has: what a link leads to may have another one in the image. apt looks
 * at the lists' age itself, but where Slipway let it be when it resolved the kernel.
 */
static int add_source(struct build *build, const struct repository *repository,
	const struct mirror *mirror, struct strv *argv, struct error *error)
{
	const struct context *context = &build->context;
	const struct common_options *common = context->options;
	const char *keyring = signature_keyring(&repository->keyrings, common->keyring);
	_cleanup_strv_ struct strv words = { 0 };
	_cleanup_free_ char *path = NULL;
	_cleanup_free_ char *options = NULL;
	_cleanup_free_ char *url = NULL;
	int r = mirrors_url(mirror, repository, &context->os, build->kernel.lock.krel,
		context->arch, common->snapshot, &url, error);

	if (r < 0)
		return r;
	if (keyring && *keyring != '/')
		path = realpath(keyring, NULL);
	else if (keyring && fs_exists(AT_FDCWD, keyring))
		path = xstrdup(keyring);
	if (keyring && (!path || strpbrk(path, " \t,[]")))
		return error_set(error, -EKEYREJECTED,
			"%s: %s: apt cannot use this keyring: name one that exists, whose path has "
			"no blanks, commas and brackets",
			repository->name, keyring);
	if (path)
		xstrv_pushf(&words, "signed-by=%s", path);
	if (common->allow_expired || repository->archive)
		xstrv_push(&words, "check-valid-until=no");
	if (common->allow_unsigned)
		xstrv_push(&words, "trusted=yes");
	options = xstrv_join(&words, " ");
	xstrv_push(argv, "--source");
	xstrv_pushf(argv, "deb %s%s%s%s %s %s", *options ? "[" : "", options, *options ? "] " : "",
		url, repository->suite, repository->components);
	return 0;
}

int base_sources(struct build *build, struct strv *argv, struct error *error)
{
	const struct catalogue *os = &build->context.os;
	_cleanup_free_ char *auth = xasprintf("%s/apt-auth.conf", build->context.cache.run_path);
	size_t added = 0;
	int r = fs_remove_tree(AT_FDCWD, auth);

	if (r < 0)
		return error_set_errno(error, r, "base image");
	r = context_mirrors(&build->context, error);
	if (r < 0)
		return r;
	xstrv_push(argv, "--suite");
	xstrv_push(argv, os->root.suite);
	for (size_t i = 0; i < os->repository_count; i++) {
		const struct repository *repository = &os->repositories[i];
		const struct mirror *mirror = mirrors_find(&build->context.mirrors, repository);

		if (!is_in_base(os, repository))
			continue;
		if (!mirror) {
			progress_notef(&build->context.progress,
				"no mirror is known for %s (repository %s): the base images are made "
				"without it",
				repository->mirror, repository->name);
			continue;
		}
		r = add_password(auth, mirror, error);
		if (r == 0)
			r = add_source(build, repository, mirror, argv, error);
		if (r < 0)
			return r;
		added++;
	}
	if (added == 0)
		return error_set(error, -ENOMEDIUM,
			"no mirror is known for %s, and its base images are made from one: name it with "
			"--mirror or in mirrors.ini (docs/kernels.md)",
			os->name);
	if (fs_exists(AT_FDCWD, auth)) {
		xstrv_push(argv, "--auth");
		xstrv_push(argv, auth);
	}
	return 0;
}

int base_sources_stamp(const struct build *build, char **ret_stamp)
{
	const struct context *context = &build->context;
	_cleanup_free_ char *refreshed = NULL;
	char hex[HASH_HEX_SIZE];
	struct hash *hash;
	int r = cache_refreshed(&context->cache, context->os.os, &refreshed);

	if (r < 0)
		return r;
	hash = hash_new();
	hash_add_text(hash, refreshed);
	hash_add_text(hash, context->options->allow_expired ? "expired" : "valid");
	for (size_t i = 0; i < context->os.repository_count; i++)
		if (is_in_base(&context->os, &context->os.repositories[i]))
			signature_hash_keyring(&context->os.repositories[i].keyrings,
				context->options->keyring, hash);
	hash_finish(hash, hex);
	*ret_stamp = xstrdup(hex);
	return 0;
}

/* ---- the bases */

/* The ID of the image that --base names now: the name may stand for another one tomorrow. */
static int find_user_base(const struct build *build, char **ret_id, struct error *error)
{
	const char *base = build->options.base;

	*ret_id = buildah_image_id(base);
	return *ret_id ? 0
		       : error_set(error, -ENOENT,
				 "--base %s: not in the local storage: run `buildah pull %s` first",
				 base, base);
}

static bool is_users(const struct build *build, const struct stage *stage)
{
	return build->options.base && strcmp(stage->base, "runtime") == 0;
}

void base_key(const struct stage *stage, struct key *key)
{
	const struct build *build = key->build;
	const struct catalogue *os = &build->context.os;
	_cleanup_free_ char *text = NULL;
	int r;

	if (is_users(build, stage)) {
		key->result = find_user_base(build, &text, key->error);
		if (key->result == 0)
			key_text(key, text);
		return;
	}
	r = build->bundle_refreshed ? 0 : base_sources_stamp(build, &text);
	if (r < 0) {
		key->result = error_set_errno(key->error, r, "%s", build->context.cache.path);
		return;
	}
	key_text(key, stage->base);
	key_text(key, os->os);
	key_text(key, os->root.suite);
	key_text(key, os->id);
	key_text(key, os->version_id);
	key_text(key, build->bundle_refreshed ? build->bundle_refreshed : text);
	key_text(key, build->context.options->allow_unsigned ? "unsigned" : "signed");
	for (size_t i = 0; i < os->repository_count; i++)
		if (is_in_base(os, &os->repositories[i])) {
			key_text(key, os->repositories[i].suite);
			key_text(key, os->repositories[i].components);
		}
	key_data(key, "containers/debian/base.sh");
	if (strcmp(stage->base, "runtime") == 0)
		key_data(key, "containers/debian/trim-runtime.sh");
}

/*
 * Why an image is not there that only the network could bring: offline, or a bundle of another
 * slipway, whose recipes make another image.
 */
static int fail_offline(const struct build *build, const char *what, struct error *error)
{
	if (!build->bundle_slipway)
		return error_set(error, -ENETDOWN,
			"%s: not in the cache, and --offline keeps it from being made: run once "
			"without --offline, or build from a bundle",
			what);
	return error_set(error, -ENETDOWN,
		"%s: the one in the bundle is of other recipes: the bundle was made by slipway %s, "
		"and this is " SLIPWAY_VERSION " with its own containers/ folder: build with that "
		"one, or make the bundle anew with this one",
		what, build->bundle_slipway);
}

int base_run(struct build *build, const struct stage *stage, const struct stage_place *place,
	struct error *error)
{
	const struct buildah buildah = { .log_fd = -1, .run_path = build->context.cache.run_path };
	_cleanup_strv_ struct strv argv = { 0 };
	_cleanup_free_ char *folder = NULL;
	_cleanup_free_ char *tar = NULL;
	_cleanup_free_ char *name = NULL;
	int r;

	if (is_users(build, stage)) {
		r = find_user_base(build, &name, error);
		return r < 0 ? r : write_name(place, name, error);
	}
	if (build->options.common.offline)
		return fail_offline(build, stage->base, error);
	r = cache_new_folder(&build->context.cache, "base", &folder);
	if (r < 0)
		return error_set_errno(error, r, "base image");
	tar = xasprintf("%s/root.tar", folder);
	name = xasprintf("localhost/slipway/%s-base-%s:%.16s", stage->base, build->context.os.os,
		place->key);
	xstrv_pushf(&argv, "%s/containers/debian/base.sh", build->context.data);
	xstrv_push(&argv, stage->base);
	xstrv_push(&argv, "--output");
	xstrv_push(&argv, tar);
	r = base_sources(build, &argv, error);
	if (r < 0)
		return r;
	progress_step(&build->context.progress, "a minimal root file system by mmdebstrap");
	r = tool_run(&argv, NULL, error);
	if (r == 0)
		r = buildah_import(&buildah, tar, name, error);
	return r < 0 ? r : write_name(place, name, error);
}

/* ---- the build container */

void toolchain_key(const struct stage *stage, struct key *key)
{
	const char *compiler = key->build->kernel.record.compiler.name;

	(void) stage;
	key_text(key, compiler ? compiler : "");
	key_data(key, "containers/debian/Containerfile.build");
}

int toolchain_run(struct build *build, const struct stage *stage, const struct stage_place *place,
	struct error *error)
{
	const struct kernel_compiler *compiler = &build->kernel.record.compiler;
	const char *version = strchr(compiler->name, '-');
	_cleanup_(made_image_free) struct made_image image = {
		.containerfile = "Containerfile.build", .network = true, /* it installs packages */
	};
	_cleanup_free_ char *base = NULL;
	_cleanup_free_ char *folder = NULL;
	_cleanup_free_ char *prefix =
		xasprintf("build-%s-%s", build->context.os.os, compiler->name);
	int r;

	(void) stage;
	if (build->options.common.offline)
		return fail_offline(build, "the build container's image", error);
	base = image_name(build, STAGE_BUILD_BASE, error);
	if (!base)
		return -EIO;
	r = cache_new_folder(&build->context.cache, "toolchain-context", &folder);
	if (r < 0)
		return error_set_errno(error, r, "toolchain");
	image.folder = folder;
	xstrv_pushf(&image.arguments, "BASE=%s", base);
	/* A kernel made with clang wants LLVM's linker and tools as well. */
	if (compiler->llvm && version)
		xstrv_pushf(&image.arguments, "COMPILER=%s lld%s llvm%s", compiler->name, version,
			version);
	else
		xstrv_pushf(&image.arguments, "COMPILER=%s", compiler->name);
	progress_step(&build->context.progress, compiler->name);
	return make_named(build, place, &image, prefix, error);
}

/*
 * ---- the kits: the build container with a driver's source and its recipes in it, as the image
 * that a driver image starts from which can compile on a node. cli/node_build/ reads it.
 */

static const struct kit {
	const char *containerfile; /* below containers/debian */
	const char *recipes[5];    /* up to a NULL */
	bool with_runtime;         /* programs of the runtime base go into it */
} kits[DRIVER_COUNT] = {
	[DRIVER_NVIDIA] = {
		.containerfile = "Containerfile.kit",
		.recipes = { "lib.sh", "nvidia.sh", "peermem.sh" },
	},
	[DRIVER_OFED] = {
		.containerfile = "Containerfile.nic-kit",
		.recipes = { "lib.sh", "ofed.sh", "ofed-tree.sh", "feature-tests" },
		.with_runtime = true,
	},
};

/* Is it compiled with the kit's own driver, which its modules are bound to? */
static bool is_addon(const struct build *build, const struct stage *kit, enum driver driver)
{
	return kit->driver == DRIVER_NVIDIA && source_kinds[driver].bound_to == STAGE_NVIDIA &&
	       build_has(build, driver);
}

bool kit_applies(const struct build *build, const struct stage *stage)
{
	return build->options.sources_image && build_has(build, stage->driver);
}

static void source_part_key(struct key *key, enum driver driver)
{
	key_data(key, "containers/patches/%s", source_kinds[driver].name);
	source_tree_key(key, driver);
}

void kit_key(const struct stage *stage, struct key *key)
{
	const struct kit *kit = &kits[stage->driver];

	key_data(key, "containers/debian/%s", kit->containerfile);
	for (size_t i = 0; kit->recipes[i]; i++)
		key_data(key, "containers/recipes/%s", kit->recipes[i]);
	source_part_key(key, stage->driver);
	for (enum driver driver = 0; driver < DRIVER_COUNT; driver++) {
		const struct source_kind *kind = &source_kinds[driver];

		if (!is_addon(key->build, stage, driver))
			continue;
		key_text(key, kind->name);
		key_data(key, "containers/recipes/%s.sh", kind->name);
		key_data(key, "containers/recipes/%s", kind->recipe_part);
		source_part_key(key, driver);
	}
}

/* To "source" and "patches" below @folder, "" or with a slash at its end. */
static int stage_source(const struct build *build, enum driver driver, const char *folder,
	struct staging *staging, struct error *error)
{
	_cleanup_free_ char *source = NULL;
	_cleanup_free_ char *to = xasprintf("%ssource", folder);
	_cleanup_free_ char *patches = xasprintf("%spatches", folder);
	int r = source_tree(build, driver, &source, error);

	if (r < 0)
		return r;
	staging_copy(staging, to, "%s", source);
	/* Of a source without fixes the recipe's folder of them is empty. */
	staging_mkdir(staging, patches);
	staging_copy_found(staging, patches, "%s/containers/patches/%s", build->context.data,
		source_kinds[driver].name);
	return staging->result;
}

/* Its source, patches and recipes: containers/recipes/nvidia.sh runs them after itself. */
static int stage_addon(
	const struct build *build, enum driver driver, struct staging *staging, struct error *error)
{
	const struct source_kind *kind = &source_kinds[driver];
	const char *data = build->context.data;
	_cleanup_free_ char *folder = xasprintf("addons/%s/", kind->name);
	_cleanup_free_ char *recipe = xasprintf("recipes/%s.sh", kind->name);
	_cleanup_free_ char *part = xasprintf("recipes/%s", kind->recipe_part);
	int r = stage_source(build, driver, folder, staging, error);

	if (r < 0)
		return r;
	staging_copy(staging, recipe, "%s/containers/%s", data, recipe);
	if (!fs_exists(staging->fd, part))
		staging_copy(staging, part, "%s/containers/%s", data, part);
	return staging->result;
}

int kit_run(struct build *build, const struct stage *stage, const struct stage_place *place,
	struct error *error)
{
	const struct kit *kit = &kits[stage->driver];
	const struct context *context = &build->context;
	_cleanup_(made_image_free) struct made_image image = {
		.containerfile = kit->containerfile,
	};
	_cleanup_(staging_close) struct staging staging = { .fd = -1 };
	/* The id is a hash of all that is in it, the compiler included: the node's cache goes by
	 * it. */
	_cleanup_free_ char *conf = xasprintf("id=%s\nos=%s\n", place->key, context->os.os);
	_cleanup_free_ char *prefix = xasprintf("%s-%s", stage->name, context->os.os);
	_cleanup_free_ char *folder = NULL;
	_cleanup_free_ char *path = NULL;
	_cleanup_free_ char *base = image_name(build, STAGE_TOOLCHAIN, error);
	_cleanup_free_ char *runtime =
		kit->with_runtime ? image_name(build, STAGE_RUNTIME_BASE, error) : NULL;
	int r;

	if (!base || (kit->with_runtime && !runtime))
		return -EIO;
	r = cache_new_folder(&context->cache, "kit-context", &folder);
	if (r < 0)
		return error_set_errno(error, r, "%s", stage->name);
	progress_step(&build->context.progress, "the driver's source and the recipes");
	path = xasprintf("%s/kit", folder);
	r = staging_open(&staging, path, error);
	if (r < 0)
		return r;
	for (size_t i = 0; kit->recipes[i]; i++) {
		_cleanup_free_ char *to = xasprintf("recipes/%s", kit->recipes[i]);

		staging_copy(&staging, to, "%s/containers/%s", context->data, to);
	}
	r = stage_source(build, stage->driver, "", &staging, error);
	for (enum driver driver = 0; driver < DRIVER_COUNT && r == 0; driver++)
		if (is_addon(build, stage, driver))
			r = stage_addon(build, driver, &staging, error);
	if (r < 0)
		return r;
	staging_write(&staging, "kit.conf", conf, strlen(conf));
	if (staging.result < 0)
		return staging.result;
	image.folder = folder;
	xstrv_pushf(&image.arguments, "BASE=%s", base);
	if (runtime)
		xstrv_pushf(&image.arguments, "RUNTIME=%s", runtime);
	return make_named(build, place, &image, prefix, error);
}
