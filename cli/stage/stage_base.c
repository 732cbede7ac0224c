/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images that live in Buildah's storage: the two bases and the build container's. An output folder
 * holds their name, which has the key in it.
 */
#include <fcntl.h>
#include <string.h>

#include "cli/stage/stage_tools.h"
#include "cli/bundle/bundle.h"
#include "cli/image/base_sources.h"
#include "common/fs.h"
#include "kernels/tool.h"

static int read_name(const char *output, char **ret_name)
{
	_cleanup_free_ char *path = NULL;

	if (asprintf(&path, "%s/" IMAGE_NAME_FILE, output) < 0)
		return -ENOMEM;
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
	_cleanup_free_ char *path = NULL;
	int r = asprintf(&path, "%s/" IMAGE_NAME_FILE, place->folder) < 0
			? -ENOMEM
			: fs_write_atomic(AT_FDCWD, path, name, strlen(name), 0644);

	return r < 0 ? error_set_errno(error, r, "%s", place->folder) : 0;
}

static int add_base_inputs(
	const struct build *build, const char *kind, struct hash *hash, struct error *error)
{
	const struct catalogue *os = &build->context.os;
	_cleanup_free_ char *refreshed = NULL;
	int r = build->bundle ? 0 : base_sources_stamp(build, &refreshed);

	if (r < 0)
		return error_set_errno(error, r, "%s", build->context.cache.path);
	hash_add_text(hash, kind);
	hash_add_text(hash, os->os);
	hash_add_text(hash, os->image.codename);
	hash_add_text(hash, os->id);
	hash_add_text(hash, os->version_id);
	hash_add_text(hash, build->bundle ? build->bundle->target->refreshed : refreshed);
	base_sources_add_inputs(build, hash);
	return cached_add_data(&build->context, "containers/debian/base.sh", hash, error);
}

int build_base_add_inputs(const struct build *build, struct hash *hash, struct error *error)
{
	return add_base_inputs(build, "build", hash, error);
}

/* The image that --base names now: the name may stand for another one tomorrow. */
static int find_user_base(const struct build *build, char **ret_id, struct error *error)
{
	const char *base = build->options.base;

	*ret_id = buildah_image_id(base);
	return *ret_id ? 0
		       : error_set(error, -ENOENT,
				 "--base %s: not in the local storage: run `buildah pull %s` first",
				 base, base);
}

int runtime_base_add_inputs(const struct build *build, struct hash *hash, struct error *error)
{
	_cleanup_free_ char *id = NULL;
	int r;

	if (build->options.base) {
		r = find_user_base(build, &id, error);
		if (r == 0)
			hash_add_text(hash, id);
		return r;
	}
	r = add_base_inputs(build, "runtime", hash, error);
	return r < 0 ? r
		     : cached_add_data(
			       &build->context, "containers/debian/trim-runtime.sh", hash, error);
}

static int make_tar(
	struct build *build, const char *kind, const char *tar_path, struct error *error)
{
	_cleanup_strv_ struct strv argv = { 0 };
	int r = strv_pushf(&argv, "%s/containers/debian/base.sh", build->context.data);

	if (r == 0)
		r = strv_push(&argv, kind);
	if (r == 0)
		r = strv_push(&argv, "--output");
	if (r == 0)
		r = strv_push(&argv, tar_path);
	if (r < 0)
		return error_set_errno(error, r, "base.sh");
	r = base_sources(build, &argv, error);
	if (r < 0)
		return r;
	progress_step(&build->context.progress, "a minimal root file system by mmdebstrap");
	return tool_run(&argv, NULL, error);
}

static int make_base(
	struct build *build, const char *kind, const struct stage_place *place, struct error *error)
{
	_cleanup_(stage_buildah_done) struct buildah buildah = { .log_fd = -1 };
	_cleanup_free_ char *folder = NULL;
	_cleanup_free_ char *tar_path = NULL;
	_cleanup_free_ char *name = NULL;
	int r;

	if (build->options.common.offline)
		return bundle_lacks_image(build, kind, error);
	r = cache_new_folder(&build->context.cache, "base", &folder);
	if (r < 0 || asprintf(&tar_path, "%s/root.tar", folder) < 0 ||
		asprintf(&name, "localhost/slipway/%s-base-%s:%.16s", kind, build->context.os.os,
			place->key) < 0)
		return error_set_errno(error, r < 0 ? r : -ENOMEM, "base image");
	r = stage_buildah(build, place, &buildah, error);
	if (r == 0)
		r = make_tar(build, kind, tar_path, error);
	if (r == 0)
		r = buildah_import(&buildah, tar_path, name, error);
	return r < 0 ? r : image_name_write(place, name, error);
}

int build_base_run(struct build *build, const struct stage_place *place, struct error *error)
{
	return make_base(build, "build", place, error);
}

int runtime_base_run(struct build *build, const struct stage_place *place, struct error *error)
{
	_cleanup_free_ char *id = NULL;
	int r;

	if (!build->options.base)
		return make_base(build, "runtime", place, error);
	r = find_user_base(build, &id, error);
	return r < 0 ? r : image_name_write(place, id, error);
}

int toolchain_add_inputs(const struct build *build, struct hash *hash, struct error *error)
{
	hash_add_text(
		hash, build->kernel.record.compiler.name ? build->kernel.record.compiler.name : "");
	return cached_add_data(
		&build->context, "containers/debian/Containerfile.build", hash, error);
}

/* The packages of the compiler: a kernel made with clang wants LLVM's linker and tools as well. */
static int push_compiler(const struct build *build, struct strv *arguments)
{
	const char *name = build->kernel.record.compiler.name;
	const char *version = strchr(name, '-');

	if (!build->kernel.record.compiler.llvm || !version)
		return strv_pushf(arguments, "COMPILER=%s", name);
	return strv_pushf(arguments, "COMPILER=%s lld%s llvm%s", name, version, version);
}

int toolchain_run(struct build *build, const struct stage_place *place, struct error *error)
{
	_cleanup_(stage_buildah_done) struct buildah buildah = { .log_fd = -1 };
	_cleanup_strv_ struct strv arguments = { 0 };
	_cleanup_strv_ struct strv labels = { 0 };
	_cleanup_free_ char *base = NULL;
	_cleanup_free_ char *file = NULL;
	_cleanup_free_ char *folder = NULL;
	_cleanup_free_ char *name = NULL;
	_cleanup_free_ char *id = NULL;
	int r;

	if (build->options.common.offline)
		return bundle_lacks_image(build, "the build container's image", error);
	r = image_name(build, STAGE_BUILD_BASE, &base, error);
	if (r < 0)
		return r;
	if (asprintf(&file, "%s/containers/debian/Containerfile.build", build->context.data) < 0 ||
		asprintf(&name, "localhost/slipway/build-%s-%s:%.16s", build->context.os.os,
			build->kernel.record.compiler.name, place->key) < 0 ||
		strv_pushf(&arguments, "BASE=%s", base) < 0 ||
		push_compiler(build, &arguments) < 0 ||
		cache_new_folder(&build->context.cache, "toolchain-context", &folder) < 0)
		return error_set_errno(error, -ENOMEM, "toolchain");
	r = stage_buildah(build, place, &buildah, error);
	if (r < 0)
		return r;
	buildah.network = true; /* it installs packages */
	progress_step(&build->context.progress, build->kernel.record.compiler.name);
	r = buildah_build(&buildah, file, folder, &arguments, &labels, &id, error);
	if (r < 0)
		return error_prefix(error, r, "log %s", place->log);
	r = buildah_tag(id, name, error);
	return r < 0 ? r : image_name_write(place, name, error);
}
