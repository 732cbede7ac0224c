/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images that live in Buildah's storage: the two bases and the build container's. An output folder
 * holds their name, which has the key in it.
 */
#include "cli/stage/stage_internal.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/slipway_version.h"
#include "common/buildlog.h"
#include "common/fs.h"
#include "common/xalloc.h"
#include "kernels/tool.h"

/* ---- Buildah for a stage */

/* The last two parts of a path: the recipe's folders are the same for all. */
static const char *short_name(const char *path)
{
	const char *parts = path;
	size_t slashes = 0;

	for (const char *c = path + strlen(path); c > path && slashes < 2; c--)
		if (c[-1] == '/' && ++slashes)
			parts = c;
	return slashes == 2 ? parts : path;
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
		.context = build,
		.run_path = build->context.cache.run_path,
	};
	return 0;
}

void stage_buildah_done(struct buildah *buildah)
{
	cleanup_close(&buildah->log_fd);
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

int image_name(const struct build *build, enum stage_id stage, char **ret_name, struct error *error)
{
	int r = read_name(stage_output(build, stage), ret_name);

	return r < 0 ? error_set_errno(error, r, "%s", stage_output(build, stage)) : 0;
}

int image_name_write(const struct stage_place *place, const char *name, struct error *error)
{
	_cleanup_free_ char *path = xasprintf("%s/" IMAGE_NAME_FILE, place->folder);
	int r = fs_write_atomic(AT_FDCWD, path, name, strlen(name), 0644);

	return r < 0 ? error_set_errno(error, r, "%s", place->folder) : 0;
}

/* ---- the bases */

/* The image that --base names now, for the runtime base: the name may stand for another one
 * tomorrow. */
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

int base_add_inputs(const struct build *build, const struct stage *stage, struct hash *hash,
	struct error *error)
{
	const struct catalogue *os = &build->context.os;
	_cleanup_free_ char *text = NULL;
	int r;

	if (is_users(build, stage)) {
		r = find_user_base(build, &text, error);
		if (r == 0)
			hash_add_text(hash, text);
		return r;
	}
	r = build->bundle_refreshed ? 0 : base_sources_stamp(build, &text);
	if (r < 0)
		return error_set_errno(error, r, "%s", build->context.cache.path);
	hash_add_text(hash, stage->base);
	hash_add_text(hash, os->os);
	hash_add_text(hash, os->image.codename);
	hash_add_text(hash, os->id);
	hash_add_text(hash, os->version_id);
	hash_add_text(hash, build->bundle_refreshed ? build->bundle_refreshed : text);
	base_sources_add_inputs(build, hash);
	r = cached_add_data(&build->context, "containers/debian/base.sh", hash, error);
	if (r < 0 || strcmp(stage->base, "runtime") != 0)
		return r;
	return cached_add_data(&build->context, "containers/debian/trim-runtime.sh", hash, error);
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

static int make_tar(struct build *build, const char *base, const char *tar, struct error *error)
{
	_cleanup_strv_ struct strv argv = { 0 };
	int r;

	xstrv_pushf(&argv, "%s/containers/debian/base.sh", build->context.data);
	xstrv_push(&argv, base);
	xstrv_push(&argv, "--output");
	xstrv_push(&argv, tar);
	r = base_sources(build, &argv, error);
	if (r < 0)
		return r;
	progress_step(&build->context.progress, "a minimal root file system by mmdebstrap");
	return tool_run(&argv, NULL, error);
}

int base_run(struct build *build, const struct stage *stage, const struct stage_place *place,
	struct error *error)
{
	_cleanup_(stage_buildah_done) struct buildah buildah = { .log_fd = -1 };
	_cleanup_free_ char *folder = NULL;
	_cleanup_free_ char *tar = NULL;
	_cleanup_free_ char *name = NULL;
	int r;

	if (is_users(build, stage)) {
		r = find_user_base(build, &name, error);
		return r < 0 ? r : image_name_write(place, name, error);
	}
	if (build->options.common.offline)
		return fail_offline(build, stage->base, error);
	r = cache_new_folder(&build->context.cache, "base", &folder);
	if (r < 0)
		return error_set_errno(error, r, "base image");
	tar = xasprintf("%s/root.tar", folder);
	name = xasprintf("localhost/slipway/%s-base-%s:%.16s", stage->base, build->context.os.os,
		place->key);
	r = stage_buildah(build, place, &buildah, error);
	if (r == 0)
		r = make_tar(build, stage->base, tar, error);
	if (r == 0)
		r = buildah_import(&buildah, tar, name, error);
	return r < 0 ? r : image_name_write(place, name, error);
}

/* ---- the build container */

int toolchain_add_inputs(const struct build *build, const struct stage *stage, struct hash *hash,
	struct error *error)
{
	const char *compiler = build->kernel.record.compiler.name;

	(void) stage;
	hash_add_text(hash, compiler ? compiler : "");
	return cached_add_data(
		&build->context, "containers/debian/Containerfile.build", hash, error);
}

int toolchain_run(struct build *build, const struct stage *stage, const struct stage_place *place,
	struct error *error)
{
	const struct kernel_compiler *compiler = &build->kernel.record.compiler;
	const char *version = strchr(compiler->name, '-');
	_cleanup_(stage_buildah_done) struct buildah buildah = { .log_fd = -1 };
	_cleanup_strv_ struct strv arguments = { 0 };
	_cleanup_strv_ struct strv labels = { 0 };
	_cleanup_free_ char *base = NULL;
	_cleanup_free_ char *file = NULL;
	_cleanup_free_ char *folder = NULL;
	_cleanup_free_ char *name = NULL;
	_cleanup_free_ char *id = NULL;
	int r;

	(void) stage;
	if (build->options.common.offline)
		return fail_offline(build, "the build container's image", error);
	r = image_name(build, STAGE_BUILD_BASE, &base, error);
	if (r < 0)
		return r;
	r = cache_new_folder(&build->context.cache, "toolchain-context", &folder);
	if (r < 0)
		return error_set_errno(error, r, "toolchain");
	file = xasprintf("%s/containers/debian/Containerfile.build", build->context.data);
	name = xasprintf("localhost/slipway/build-%s-%s:%.16s", build->context.os.os,
		compiler->name, place->key);
	xstrv_pushf(&arguments, "BASE=%s", base);
	/* A kernel made with clang wants LLVM's linker and tools as well. */
	if (compiler->llvm && version)
		xstrv_pushf(
			&arguments, "COMPILER=%s lld%s llvm%s", compiler->name, version, version);
	else
		xstrv_pushf(&arguments, "COMPILER=%s", compiler->name);
	r = stage_buildah(build, place, &buildah, error);
	if (r < 0)
		return r;
	buildah.network = true; /* it installs packages */
	progress_step(&build->context.progress, compiler->name);
	r = buildah_build(&buildah, file, folder, &arguments, &labels, &id, error);
	if (r < 0)
		return error_prefix(error, r, "log %s", place->log);
	r = buildah_tag(id, name, error);
	return r < 0 ? r : image_name_write(place, name, error);
}
