/* SPDX-License-Identifier: Apache-2.0 */
/* Recipes, run as seam 1 of docs/architecture.md has it, and the message when one fails. */
#include <fcntl.h>
#include <signal.h>
#include <string.h>

#include "cli/stage/stage_internal.h"
#include "common/buildlog.h"
#include "common/fs.h"
#include "common/process.h"
#include "common/xalloc.h"

#define SOURCE "/slipway/source" /* in the container, as the next */
#define BESIDE "/slipway/beside"

void init_key(const struct stage *stage, struct key *key)
{
	static const char *const sources[] = { "containers/recipes/init.sh",
		"containers/recipes/lib.sh", "Makefile", "tests/tests.mk", "docs/reasons.md",
		"common", "module", "entrypoint" };

	(void) stage;
	for (size_t i = 0; i < ARRAY_SIZE(sources); i++)
		key_data(key, "%s", sources[i]);
}

int init_run(struct build *build, const struct stage *stage, const struct stage_place *place,
	struct error *error)
{
	const struct recipe recipe = {
		.name = "init", .source = build->context.data, .for_runtime = true
	};

	(void) stage;
	return recipe_run(build, &recipe, place, error);
}

char *recipe_own_path(const char *text, const char *source)
{
	char *own = xstrdup(text);
	size_t from = 0;
	const char *found;

	while ((found = strstr(own + from, SOURCE))) {
		size_t before = (size_t) (found - own);
		char *next =
			xasprintf("%.*s%s%s", (int) before, own, source, found + strlen(SOURCE));

		free(own);
		own = next;
		from = before + strlen(source);
	}
	return own;
}

/*
 * Reports the lines that a person would scroll back to, the path of the whole log, and what to try.
 * @work is the kept work folder, or NULL.
 */
static int explain_failure(const struct build *build, const struct recipe *recipe, int status,
	const char *log, const char *work, struct error *error)
{
	static const char in_container[] = "/slipway/work/";
	_cleanup_(buildlog_error_free) struct buildlog_error found = { 0 };
	_cleanup_free_ char *text = NULL;
	_cleanup_free_ char *place = NULL;
	_cleanup_free_ char *message = NULL;
	const char *file, *hint;
	int r = fs_read(AT_FDCWD, log, 0, &text, NULL);

	if (!work)
		work = "not kept";
	/* The log has no error of the compiler's then: it just ends. */
	if (status == 128 + SIGKILL || (r == 0 && buildlog_says_killed(text))) {
		(void) error_set(error, -ENOMEM,
			"recipe %s: killed by SIGKILL, probably because memory ran out",
			recipe->name);
		(void) error_line(error, -ENOMEM, "log: %s", log);
		(void) error_line(error, -ENOMEM, "work folder: %s", work);
		return error_try(error, -ENOMEM, "a smaller --jobs (it was %u), or more memory",
			build->options.jobs);
	}
	if (r < 0 || buildlog_first_error(text, &found) < 0) {
		(void) error_set(error, -EIO,
			"recipe %s: exit status %d, but the log shows no error", recipe->name,
			status);
		return error_line(error, -EIO, "log: %s", log);
	}
	/* The container's path means nothing outside: the rest is below what was kept. */
	file = found.file;
	if (file && strncmp(file, in_container, strlen(in_container)) == 0)
		file += strlen(in_container);
	if (file)
		place = xasprintf("%s:%lu: ", file, found.line);
	message = recipe_own_path(found.message, recipe->source);
	r = error_set(error, buildlog_error_number(&found), "recipe %s failed%s%s", recipe->name,
		found.step ? " at: " : "", found.step ? found.step : "");
	(void) error_line(error, r, "first error: %s%s", place ? place : "", message);
	(void) error_line(error, r, "log: %s", log);
	(void) error_line(error, r, "work folder: %s", work);
	hint = buildlog_hint(&found);
	return hint ? error_try(error, r, "%s", hint) : r;
}

static const struct stage *toolchain_of(const struct build *build, const struct recipe *recipe)
{
	return stage_find(build, STAGE_TOOLCHAIN, recipe->for_runtime ? ROOT_RUNTIME : ROOT_KERNEL);
}

/* Returns the container's path of the set that the modules are bound to; NULL if they are not. */
static char *bound_path(const struct recipe *recipe)
{
	return recipe->bound ? xasprintf("/slipway/%s", driver_rows[recipe->bound_to].name) : NULL;
}

static void recipe_environment(
	const struct build *build, const struct recipe *recipe, struct strv *ret)
{
	_cleanup_free_ char *bound = bound_path(recipe);

	xstrv_pushf(ret, "SLIPWAY_KREL=%s", build->target.krel);
	xstrv_pushf(ret, "SLIPWAY_ARCH=%s", build->target.arch->uname);
	if (build_is_cross(build)) {
		xstrv_pushf(ret, "ARCH=%s", build->target.arch->kbuild);
		xstrv_pushf(ret, "CROSS_COMPILE=%s-", build->target.arch->triplet);
		/* Where pkg-config looks for what slipway-init links. */
		xstrv_pushf(ret, "PKG_CONFIG_LIBDIR=/usr/lib/%s/pkgconfig:/usr/share/pkgconfig",
			build->target.arch->triplet);
	}
	xstrv_push(ret, "SLIPWAY_KERNEL=/slipway/kernel");
	xstrv_push(ret, "SLIPWAY_SOURCE=" SOURCE);
	xstrv_pushf(ret, "SLIPWAY_BESIDE=%s", recipe->beside ? BESIDE : "");
	for (enum driver driver = 0; driver < DRIVER_COUNT; driver++)
		if (driver_rows[driver].set_variable)
			xstrv_pushf(ret, "%s=%s", driver_rows[driver].set_variable,
				bound && recipe->bound_to == driver ? bound : "");
	xstrv_pushf(ret, "SLIPWAY_CONFIGURED=%s", recipe->configured ? "/slipway/configured" : "");
	xstrv_pushf(
		ret, "SLIPWAY_VERIFY_CONFIGURE=%s", build->options.verify_configure ? "yes" : "");
	if (build->options.nfsrdma)
		xstrv_push(ret, "SLIPWAY_NFSRDMA=yes");
	if (ofed_has_gds(build))
		xstrv_push(ret, "SLIPWAY_GDS=yes");
	if (build->options.ofed_flags.count) {
		_cleanup_free_ char *flags = xstrv_join(&build->options.ofed_flags, " ");

		xstrv_pushf(ret, "SLIPWAY_OFED_FLAGS=%s", flags);
	}
	xstrv_push(ret, "SLIPWAY_PATCHES=/slipway/patches");
	xstrv_push(ret, "SLIPWAY_OUTPUT=/slipway/output");
	xstrv_push(ret, "SLIPWAY_WORK=/slipway/work");
	xstrv_pushf(ret, "SLIPWAY_CC=%s",
		toolchain_compiler(build, recipe->for_runtime ? ROOT_RUNTIME : ROOT_KERNEL));
	xstrv_pushf(ret, "SLIPWAY_JOBS=%u", build->options.jobs);
	if (build->modules != NVIDIA_NONE)
		xstrv_pushf(
			ret, "SLIPWAY_KERNEL_MODULE_TYPE=%s", build->options.kernel_module_type);
	xstrv_push(ret, "CCACHE_DIR=/slipway/ccache");
	xstrv_push(ret, "CCACHE_MAXSIZE=4G");
	/* An image of the same key has the same compiler: its time says less. */
	xstrv_pushf(
		ret, "CCACHE_COMPILERCHECK=string:%s", toolchain_of(build, recipe)->cached->key);
}

int recipe_run(struct build *build, const struct recipe *recipe, const struct stage_place *place,
	struct error *error)
{
	const struct context *context = &build->context;
	_cleanup_(stage_buildah_done) struct buildah buildah = { .log_fd = -1 };
	_cleanup_free_ char *recipes = xasprintf("%s/containers/recipes", context->data);
	_cleanup_free_ char *tests = xasprintf("%s/containers/feature-tests", context->data);
	_cleanup_free_ char *patches =
		xasprintf("%s/containers/patches/%s", context->data, recipe->name);
	_cleanup_free_ char *program = xasprintf("/slipway/recipes/%s.sh", recipe->name);
	_cleanup_free_ char *work_name = xasprintf("%s-work", recipe->name);
	_cleanup_strv_ struct strv environment = { 0 };
	_cleanup_free_ char *bound = bound_path(recipe);
	_cleanup_free_ char *image = image_name(toolchain_of(build, recipe), error);
	_cleanup_free_ char *work = NULL;
	_cleanup_free_ char *empty = NULL;
	_cleanup_free_ char *kept = NULL;
	_cleanup_free_ char *compiled = NULL;
	struct buildah_mount mounts[11] = { 0 };
	size_t count = 0;
	int r;

	if (!image)
		return -EIO;
	r = cache_new_folder(&context->cache, work_name, &work);
	/* Stands for the patches where a source has none. */
	if (r == 0)
		r = cache_new_folder(&context->cache, "empty", &empty);
	if (r == 0)
		r = cache_compiled_folder(&context->cache, &compiled);
	if (r < 0)
		return error_set_errno(error, r, "recipe %s", recipe->name);
	r = stage_buildah(build, place, &buildah, error);
	if (r < 0)
		return r;
	mounts[count++] = (struct buildah_mount){ recipes, "/slipway/recipes", false };
	mounts[count++] = (struct buildah_mount){ tests, "/slipway/feature-tests", false };
	mounts[count++] =
		(struct buildah_mount){ build->kernel.tree.path, "/slipway/kernel", false };
	mounts[count++] = (struct buildah_mount){ recipe->source, SOURCE, false };
	mounts[count++] = (struct buildah_mount){ fs_exists(AT_FDCWD, patches) ? patches : empty,
		"/slipway/patches", false };
	mounts[count++] = (struct buildah_mount){ place->folder, "/slipway/output", true };
	mounts[count++] = (struct buildah_mount){ work, "/slipway/work", true };
	mounts[count++] = (struct buildah_mount){ compiled, "/slipway/ccache", true };
	if (bound)
		mounts[count++] = (struct buildah_mount){ recipe->bound, bound, false };
	if (recipe->configured)
		mounts[count++] =
			(struct buildah_mount){ recipe->configured, "/slipway/configured", false };
	if (recipe->beside)
		mounts[count++] = (struct buildah_mount){ recipe->beside, BESIDE, false };
	recipe_environment(build, recipe, &environment);
	r = buildah_run(&buildah, image, recipe->name, mounts, count, &environment, program, error);
	if (process_was_interrupted(r))
		return error_set(
			error, -EINTR, "recipe %s: ended by signal %d", recipe->name, r - 128);
	if (r > 0) {
		kept = cache_keep_failed(&context->cache, work, recipe->name);
		return explain_failure(build, recipe, r, place->log, kept, error);
	}
	if (r == 0 && fs_remove_tree(AT_FDCWD, work) < 0)
		progress_note(
			&build->context.progress, "a recipe's work folder could not be removed");
	return r;
}
