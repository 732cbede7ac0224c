/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/stage/build.h"

#include <fcntl.h>
#include <string.h>

#include "cli/bundle/bundle.h"
#include "cli/stage/lockfile.h"
#include "cli/stage/node_tool.h"
#include "cli/image/output.h"
#include "cli/stage/stage_tools.h"
#include "cli/stage/supervise.h"
#include "cli/stage/userspace.h"
#include "cli/output_place.h"
#include "common/json_text.h"

/* Headers are enough to compile, and not to tell what else a module wants to be loaded first. */
static int check_modules(struct build *build, struct error *error)
{
	if (build->local.has_modules || lock_find(&build->lock, LOCK_MODULES))
		return 0;
	build->failure = EXIT_CODE_KERNEL;
	if (build->local.has_headers)
		return error_set(error, -ENODATA,
			"kernel %s: its own modules, which drivers depend on, are neither in what "
			"--kernel-from names nor in the lists of %s: give its package too "
			"(linux-image-%s, kernel-core and kernel-modules-core), or the folder of its "
			"make modules_install",
			build->lock.krel, build->lock.os, build->lock.krel);
	return error_set(error, -ENODATA,
		"kernel %s: its headers are in the lists of %s, its own modules are not: no image can "
		"be made before they are there; run again with --refresh later, or give them by "
		"--kernel-from",
		build->lock.krel, build->lock.os);
}

static void say_export(const struct build *build, size_t count)
{
	const char *folder = build->options.sign_export;

	if (!build->context.progress.json) {
		(void) printf(
			"The digests of %zu modules are in %s: put their signatures into %s/%s, then "
			"run this again with --sign-import %s instead of --sign-export\n",
			count, folder, folder, SIGNING_SIGNATURES, folder);
		return;
	}
	(void) printf("{\"event\":\"result\",\"exit_code\":0,\"modules\":%zu,\"digests\":", count);
	json_text_string(stdout, folder);
	(void) puts("}");
}

/* The first half of a build whose key is elsewhere: no image is made. */
static int run_export(struct build *build, struct error *error)
{
	size_t count;
	int r = stages_make(build,
		STAGE_BIT(STAGE_OFED) | STAGE_BIT(STAGE_NVIDIA) | STAGE_BIT(STAGE_GDRCOPY) |
			STAGE_BIT(STAGE_NVIDIA_FS),
		error);

	if (r < 0)
		return r;
	r = sign_export_sets(build, &count, error);
	if (r < 0)
		build->failure = exit_code_for(r, EXIT_CODE_OUTPUT);
	else
		say_export(build, count);
	return r;
}

static int run_images(struct build *build, struct error *error)
{
	int r = stages_make(build, STAGE_BIT(STAGE_PROOF), error);

	if (r == 0)
		r = proof_judge(build, error);
	if (r == 0 && (r = node_tool_open(build, error)) < 0)
		build->failure = context_exit_code(r);
	if (r == 0)
		r = stages_make(build, STAGE_BIT(STAGE_NIC) | STAGE_BIT(STAGE_GPU), error);
	return r < 0 ? r : output_write(build, error);
}

static int run(struct build *build, struct error *error)
{
	int r = output_place_ready(build->options.output, error);

	if (r < 0) {
		build->failure = EXIT_CODE_OUTPUT;
		return r;
	}
	r = signing_open(build, error);
	if (r == 0)
		r = build_prepare(build, error);
	if (r < 0)
		return r;
	if (build->ofed.kind == SOURCE_NONE)
		progress_note(&build->context.progress,
			"no --ofed: there will be no NIC image, and no nvidia-peermem in the GPU "
			"image");
	if (build->nvidia.kind == SOURCE_NONE)
		progress_note(
			&build->context.progress, "--nvidia none: there will be no GPU image");
	r = lockfile_make(build, error);
	if (r == 0)
		r = userspace_check_version(build, error);
	if (r == 0)
		r = userspace_say_lacks(build, error);
	if (r == 0)
		r = build_read_tree(build, error);
	if (r == 0)
		r = signing_settle(build, error);
	if (r == 0)
		r = build_judge(build, error);
	if (r == 0)
		r = check_modules(build, error);
	if (r < 0)
		return r;
	return build->options.sign_export ? run_export(build, error) : run_images(build, error);
}

void build_done(struct build *build)
{
	signing_free(&build->signing);
	lock_free(&build->lock);
	strv_free(&build->compilers);
	kernel_record_free(&build->record);
	local_free(&build->local);
	bundle_free(&build->bundle);
	source_free(&build->ofed);
	source_free(&build->nvidia);
	source_free(&build->userspace);
	free(build->userspace_version);
	source_free(&build->gdrcopy);
	source_free(&build->nvidia_fs);
	for (size_t i = 0; i < STAGE_COUNT; i++)
		free(build->states[i].output);
}

/* In the supervised child. Returns the exit code. */
static int work(void *context)
{
	struct build *build = context;
	struct error error = { 0 };
	int r;

	progress_start(&build->context.progress, build->options.common.json);
	r = run(build, &error);
	if (r < 0) {
		if (build->failure == EXIT_CODE_OK)
			build->failure = EXIT_CODE_INTERNAL;
		output_failure(build, &error);
	}
	return r < 0 ? (int) build->failure : EXIT_CODE_OK;
}

static int usage_error(const struct error *error)
{
	(void) fprintf(
		stderr, "slipway build: %s\nslipway build --help lists the options\n", error->text);
	return EXIT_CODE_USAGE;
}

/* The work is a child's; what it opened here, the cache with its run folder, outlives it. */
static int supervised(struct build *build)
{
	struct cache *cache = &build->context.cache;
	int r = supervise(work, build);

	if (r != 0)
		buildah_sweep(cache->run_path);
	cache_end_run(cache);
	return supervise_report(r, "build", build->options.common.json,
		"what was half made is removed, what was finished is kept");
}

static int start(struct build *build)
{
	struct error error = { 0 };
	int r = signing_read_password(build, &error);

	if (r < 0)
		return usage_error(&error);
	r = context_open(&build->options.common, &build->context, &error);
	if (r == 0)
		r = cache_start_run(&build->context.cache, buildah_sweep, &error);
	if (r == 0)
		return supervised(build);
	(void) fprintf(stderr, "slipway build: %s\n", error.text);
	return EXIT_CODE_INTERNAL;
}

int build_command(int argc, char **argv)
{
	struct build build = { .context = CONTEXT_CLOSED };
	struct error error = { 0 };
	int r = build_options_parse(argc, argv, &build.options, &error);

	if (r < 0) {
		r = usage_error(&error);
	} else if (build.options.common.help) {
		build_options_usage(stdout);
		r = EXIT_CODE_OK;
	} else {
		r = start(&build);
	}
	build_done(&build);
	context_close(&build.context);
	build_options_free(&build.options);
	return r;
}
