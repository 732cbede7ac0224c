/* SPDX-License-Identifier: Apache-2.0 */
/* Recipes, run as seam 1 of docs/architecture.md has it, and what is said when one fails. */
#include <fcntl.h>
#include <signal.h>
#include <string.h>

#include "common/buildlog.h"
#include "cli/stage/stage_internal.h"
#include "common/fs.h"
#include "common/process.h"
#include "common/xalloc.h"

int init_add_inputs(const struct build *build, const struct stage *stage, struct hash *hash,
	struct error *error)
{
	static const char *const sources[] = { "containers/recipes/init.sh",
		"containers/recipes/lib.sh", "Makefile", "tests/tests.mk", "common", "module",
		"entrypoint" };
	int r = 0;

	(void) stage;
	for (size_t i = 0; i < ARRAY_SIZE(sources) && r == 0; i++)
		r = cached_add_data(&build->context, sources[i], hash, error);
	return r;
}

int init_run(struct build *build, const struct stage *stage, const struct stage_place *place,
	struct error *error)
{
	const struct recipe recipe = { .name = "init", .source = build->context.data };

	(void) stage;
	return recipe_run(build, &recipe, place, error);
}

/* ---- what is said when one fails */

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
	if (found.file)
		place = xasprintf("%s:%lu: ", below_work(found.file), found.line);
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

/* ---- a run */

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
	xstrv_pushf(&argv, "/slipway/recipes/%s.sh", recipe->name);
	xstrv_pushf(&environment, "SLIPWAY_KREL=%s", build->kernel.lock.krel);
	xstrv_push(&environment, "SLIPWAY_ARCH=x86_64");
	xstrv_push(&environment, "SLIPWAY_KERNEL=/slipway/kernel");
	xstrv_push(&environment, "SLIPWAY_SOURCE=/slipway/source");
	xstrv_pushf(&environment, "SLIPWAY_OFED=%s", recipe->ofed ? "/slipway/ofed" : "");
	xstrv_pushf(&environment, "SLIPWAY_NVIDIA=%s", recipe->nvidia ? "/slipway/nvidia" : "");
	xstrv_push(&environment, "SLIPWAY_PATCHES=/slipway/patches");
	xstrv_push(&environment, "SLIPWAY_OUTPUT=/slipway/output");
	xstrv_push(&environment, "SLIPWAY_WORK=/slipway/work");
	xstrv_pushf(&environment, "SLIPWAY_CC=%s", build->kernel.record.compiler.name);
	xstrv_pushf(&environment, "SLIPWAY_JOBS=%u", build->options.jobs);
	return buildah_run(
		buildah, image, recipe->name, mounts, mount_count, &environment, &argv, error);
}

int recipe_run(struct build *build, const struct recipe *recipe, const struct stage_place *place,
	struct error *error)
{
	const struct context *context = &build->context;
	_cleanup_(stage_buildah_done) struct buildah buildah = { .log_fd = -1 };
	_cleanup_(folders_free) struct folders folders = {
		.recipes = xasprintf("%s/containers/recipes", context->data),
		.patches = xasprintf("%s/containers/patches/%s", context->data, recipe->name),
	};
	_cleanup_free_ char *work = xasprintf("%s-work", recipe->name);
	_cleanup_free_ char *kept = NULL;
	int r = cache_new_folder(&context->cache, work, &folders.work);

	if (r == 0)
		r = cache_new_folder(&context->cache, "empty", &folders.empty);
	if (r < 0)
		return error_set_errno(error, r, "recipe %s", recipe->name);
	r = stage_buildah(build, place, &buildah, error);
	if (r == 0)
		r = start_container(build, &buildah, recipe, &folders, place->folder, error);
	if (process_was_interrupted(r))
		return error_set(
			error, -EINTR, "recipe %s: ended by signal %d", recipe->name, r - 128);
	if (r > 0) {
		kept = cache_keep_failed(&context->cache, folders.work, recipe->name);
		return was_killed(r, place->log)
			       ? recipe_killed(build, recipe, place->log, kept, error)
			       : compile_failed(recipe, r, place->log, kept, error);
	}
	if (r == 0 && fs_remove_tree(AT_FDCWD, folders.work) < 0)
		progress_note(
			&build->context.progress, "a recipe's work folder could not be removed");
	return r;
}
