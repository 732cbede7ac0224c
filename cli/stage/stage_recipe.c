/* SPDX-License-Identifier: Apache-2.0 */
/* Recipes, run as seam 1 of docs/architecture.md has it, and what is said when one fails. */
#include <fcntl.h>
#include <signal.h>
#include <string.h>

#include "common/buildlog.h"
#include "cli/stage/stage_tools.h"
#include "common/fs.h"
#include "common/process.h"
#include "common/copy.h"

int recipe_add(const struct build *build, const char *name, struct hash *hash, struct error *error)
{
	_cleanup_free_ char *script = NULL;
	_cleanup_free_ char *patches = NULL;
	int r;

	if (asprintf(&script, "containers/recipes/%s.sh", name) < 0 ||
		asprintf(&patches, "containers/patches/%s", name) < 0)
		return error_set_errno(error, -ENOMEM, "%s", name);
	hash_add_text(hash, build->kernel.lock.krel);
	r = cached_add_data(&build->context, script, hash, error);
	if (r == 0)
		r = cached_add_data(&build->context, "containers/recipes/lib.sh", hash, error);
	return r < 0 ? r : cached_add_data(&build->context, patches, hash, error);
}

int ofed_add_inputs(const struct build *build, struct hash *hash, struct error *error)
{
	int r = recipe_add(build, "ofed", hash, error);

	if (r == 0 && build->ofed.kind == SOURCE_TREE)
		r = source_add_content(&build->ofed, hash, error);
	return r;
}

int nvidia_add_inputs(const struct build *build, struct hash *hash, struct error *error)
{
	int r = recipe_add(build, "nvidia", hash, error);

	if (r == 0 && build->nvidia.kind == SOURCE_TREE)
		r = source_add_content(&build->nvidia, hash, error);
	return r;
}

int init_add_inputs(const struct build *build, struct hash *hash, struct error *error)
{
	static const char *const sources[] = { "containers/recipes/init.sh",
		"containers/recipes/lib.sh", "Makefile", "tests/tests.mk", "common", "module",
		"entrypoint" };
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(sources) && r == 0; i++)
		r = cached_add_data(&build->context, sources[i], hash, error);
	return r;
}

bool userspace_applies(const struct build *build)
{
	return nvidia_applies(build) &&
	       (build->userspace.kind == SOURCE_TREE ||
		       lock_find(&build->kernel.lock, LOCK_NVIDIA_USERSPACE));
}

int userspace_add_inputs(const struct build *build, struct hash *hash, struct error *error)
{
	int r = cached_add_data(&build->context, "containers/recipes/userspace.sh", hash, error);

	if (r == 0)
		r = cached_add_data(&build->context, "containers/recipes/lib.sh", hash, error);
	if (build->userspace.kind == SOURCE_TREE)
		return r < 0 ? r : source_add_content(&build->userspace, hash, error);
	kernel_add_packages(&build->kernel, LOCK_NVIDIA_USERSPACE, hash);
	return r;
}

/* The container's path of the work folder means nothing outside: the rest is below what was kept.
 */
static const char *below_work(const char *file)
{
	static const char work[] = "/slipway/work/";

	return strncmp(file, work, strlen(work)) == 0 ? file + strlen(work) : file;
}

/* Says what a person would scroll back to, where the whole log is, and what to try. */
static int compile_failed(const struct recipe *recipe, int status, const char *log,
	const char *work, struct error *error)
{
	_cleanup_(buildlog_error_free) struct buildlog_error found = { 0 };
	_cleanup_free_ char *text = NULL;
	_cleanup_free_ char *place = NULL;

	if (fs_read(AT_FDCWD, log, 0, &text, NULL) < 0 || buildlog_first_error(text, &found) < 0)
		return error_set(error, -EIO,
			"recipe %s: exit status %d, and its log names no error\n  log: %s",
			recipe->name, status, log);
	if (found.file && asprintf(&place, "%s:%lu: ", below_work(found.file), found.line) < 0)
		return error_set_errno(error, -ENOMEM, "recipe %s", recipe->name);
	return error_set(error, -EIO,
		"recipe %s failed%s%s\n  first error: %s%s\n  log: %s\n  work folder: %s\n  try: "
		"%s",
		recipe->name, found.step ? " at: " : "", found.step ? found.step : "",
		place ? place : "", found.message, log, work ? work : "not kept",
		buildlog_hint(&found));
}

static bool was_killed(int status, const char *log)
{
	_cleanup_free_ char *text = NULL;

	return status == 128 + SIGKILL ||
	       (fs_read(AT_FDCWD, log, 0, &text, NULL) == 0 && buildlog_says_killed(text));
}

/* The log has no error of the compiler's then: it just ends. */
static int recipe_killed(const struct build *build, const struct recipe *recipe, const char *log,
	const char *work, struct error *error)
{
	return error_set(error, -EIO,
		"recipe %s: killed (SIGKILL), as the kernel does when memory runs out\n  log: %s\n "
		" "
		"work folder: %s\n  try: a smaller --jobs (it was %u), or more memory",
		recipe->name, log, work ? work : "not kept", build->options.jobs);
}

static int recipe_environment(
	const struct build *build, const struct recipe *recipe, struct strv *list)
{
	int r = strv_pushf(list, "SLIPWAY_KREL=%s", build->kernel.lock.krel);

	if (r == 0)
		r = strv_push(list, "SLIPWAY_ARCH=x86_64");
	if (r == 0)
		r = strv_push(list, "SLIPWAY_KERNEL=/slipway/kernel");
	if (r == 0)
		r = strv_push(list, "SLIPWAY_SOURCE=/slipway/source");
	if (r == 0)
		r = strv_pushf(list, "SLIPWAY_OFED=%s", recipe->ofed ? "/slipway/ofed" : "");
	if (r == 0)
		r = strv_pushf(list, "SLIPWAY_NVIDIA=%s", recipe->nvidia ? "/slipway/nvidia" : "");
	if (r == 0)
		r = strv_push(list, "SLIPWAY_PATCHES=/slipway/patches");
	if (r == 0)
		r = strv_push(list, "SLIPWAY_OUTPUT=/slipway/output");
	if (r == 0)
		r = strv_push(list, "SLIPWAY_WORK=/slipway/work");
	if (r == 0)
		r = strv_pushf(list, "SLIPWAY_CC=%s", build->kernel.record.compiler.name);
	if (r == 0)
		r = strv_pushf(list, "SLIPWAY_JOBS=%u", build->options.jobs);
	return r;
}

/* The folders that a recipe sees; an empty one stands for patches where a source has none. */
struct folders {
	char *recipes;
	char *patches;
	char *work;
	char *empty;
};

static void folders_free(struct folders *folders)
{
	free(folders->recipes);
	free(folders->patches);
	free(folders->work);
	free(folders->empty);
}

static int make_folders(
	const struct build *build, const struct recipe *recipe, struct folders *folders)
{
	_cleanup_free_ char *work = NULL;
	int r;

	if (asprintf(&folders->recipes, "%s/containers/recipes", build->context.data) < 0 ||
		asprintf(&folders->patches, "%s/containers/patches/%s", build->context.data,
			recipe->name) < 0 ||
		asprintf(&work, "%s-work", recipe->name) < 0)
		return -ENOMEM;
	r = cache_new_folder(&build->context.cache, work, &folders->work);
	if (r == 0)
		r = cache_new_folder(&build->context.cache, "empty", &folders->empty);
	return r;
}

static int start_container(const struct build *build, struct buildah *buildah,
	const struct recipe *recipe, const struct folders *folders, const char *output,
	struct error *error)
{
	struct buildah_mount mounts[8] = {
		{ .from = folders->recipes, .to = "/slipway/recipes" },
		{ .from = stage_output(build, STAGE_KERNEL), .to = "/slipway/kernel" },
		{ .from = recipe->source, .to = "/slipway/source" },
		{ .from = fs_exists(AT_FDCWD, folders->patches) ? folders->patches : folders->empty,
			.to = "/slipway/patches" },
		{ .from = output, .to = "/slipway/output", .writable = true },
		{ .from = folders->work, .to = "/slipway/work", .writable = true },
	};
	size_t mount_count = 6;
	_cleanup_strv_ struct strv environment = { 0 };
	_cleanup_strv_ struct strv argv = { 0 };
	_cleanup_free_ char *image = NULL;
	int r = image_name(build, STAGE_TOOLCHAIN, &image, error);

	if (r < 0)
		return r;
	if (recipe->ofed)
		mounts[mount_count++] =
			(struct buildah_mount){ .from = recipe->ofed, .to = "/slipway/ofed" };
	if (recipe->nvidia)
		mounts[mount_count++] =
			(struct buildah_mount){ .from = recipe->nvidia, .to = "/slipway/nvidia" };
	if (strv_pushf(&argv, "/slipway/recipes/%s.sh", recipe->name) < 0 ||
		recipe_environment(build, recipe, &environment) < 0)
		return error_set_errno(error, -ENOMEM, "recipe %s", recipe->name);
	return buildah_run(
		buildah, image, recipe->name, mounts, mount_count, &environment, &argv, error);
}

int recipe_run(struct build *build, const struct recipe *recipe, const struct stage_place *place,
	struct error *error)
{
	_cleanup_(stage_buildah_done) struct buildah buildah = { .log_fd = -1 };
	_cleanup_(folders_free) struct folders folders = { 0 };
	_cleanup_free_ char *kept = NULL;
	int r = make_folders(build, recipe, &folders);

	if (r < 0)
		return error_set_errno(error, r, "recipe %s", recipe->name);
	r = stage_buildah(build, place, &buildah, error);
	if (r == 0)
		r = start_container(build, &buildah, recipe, &folders, place->folder, error);
	if (process_was_interrupted(r))
		return error_set(
			error, -EINTR, "recipe %s: ended by signal %d", recipe->name, r - 128);
	if (r > 0) {
		kept = cache_keep_failed(&build->context.cache, folders.work, recipe->name);
		return was_killed(r, place->log)
			       ? recipe_killed(build, recipe, place->log, kept, error)
			       : compile_failed(recipe, r, place->log, kept, error);
	}
	if (r == 0 && fs_remove_tree(AT_FDCWD, folders.work) < 0)
		progress_note(
			&build->context.progress, "a recipe's work folder could not be removed");
	return r;
}

int ofed_run(struct build *build, const struct stage_place *place, struct error *error)
{
	_cleanup_free_ char *source = NULL;
	struct recipe recipe = { .name = "ofed" };
	int r = source_tree(build, &build->ofed, STAGE_OFED_SOURCE, &source, error);

	recipe.source = source;
	return r < 0 ? r : recipe_run(build, &recipe, place, error);
}

int nvidia_run(struct build *build, const struct stage_place *place, struct error *error)
{
	_cleanup_free_ char *source = NULL;
	struct recipe recipe = { .name = "nvidia" };
	int r = source_tree(build, &build->nvidia, STAGE_NVIDIA_SOURCE, &source, error);

	recipe.source = source;
	if (ofed_applies(build))
		recipe.ofed = stage_output(build, STAGE_OFED);
	return r < 0 ? r : recipe_run(build, &recipe, place, error);
}

int init_run(struct build *build, const struct stage_place *place, struct error *error)
{
	const struct recipe recipe = { .name = "init", .source = build->context.data };

	return recipe_run(build, &recipe, place, error);
}

/* The recipe tells packages by their file names, as apt-get download gives them. */
static int link_package(const struct build *build, const struct lock_package *package,
	const char *folder, struct error *error)
{
	_cleanup_free_ char *blob = NULL;
	_cleanup_free_ char *file = NULL;
	int r;

	if (asprintf(&blob, "blobs/sha256/%s", package->sha256) < 0 ||
		asprintf(&file, "%s/%s_%s_%s.deb", folder, package->name, package->version,
			package->architecture) < 0)
		return error_set_errno(error, -ENOMEM, "%s", package->name);
	r = copy_tree(build->context.cache.fd, blob, AT_FDCWD, file);
	return r < 0 ? error_set_errno(error, r, "%s", file) : 0;
}

int userspace_run(struct build *build, const struct stage_place *place, struct error *error)
{
	struct recipe recipe = { .name = "userspace" };
	_cleanup_free_ char *folder = NULL;
	int r;

	recipe.source = build->userspace.path;
	if (recipe.source)
		return recipe_run(build, &recipe, place, error);
	r = kernel_fetch(&build->kernel, LOCK_NVIDIA_USERSPACE, error);
	if (r < 0)
		return r;
	r = cache_new_folder(&build->context.cache, "packages", &folder);
	if (r < 0)
		return error_set_errno(error, r, "packages");
	for (size_t i = 0; i < build->kernel.lock.count && r == 0; i++)
		if (strcmp(build->kernel.lock.packages[i].purpose, LOCK_NVIDIA_USERSPACE) == 0)
			r = link_package(build, &build->kernel.lock.packages[i], folder, error);
	recipe.source = folder;
	return r < 0 ? r : recipe_run(build, &recipe, place, error);
}
