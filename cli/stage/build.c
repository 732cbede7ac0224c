/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/stage/build.h"

#include <fcntl.h>
#include <string.h>

#include "cli/bundle/bundle.h"
#include "cli/commands.h"
#include "cli/stage/node_tool.h"
#include "cli/image/output.h"
#include "cli/stage/stage_tools.h"
#include "cli/stage/supervise.h"
#include "cli/stage/userspace.h"
#include "cli/output_place.h"
#include "common/json_text.h"
#include "common/xalloc.h"

/* Headers are enough to compile, and not to tell what else a module wants to be loaded first. */
static int check_modules(struct build *build, struct error *error)
{
	if (build->kernel.local.has_modules || lock_find(&build->kernel.lock, LOCK_MODULES))
		return 0;
	build->context.failure = EXIT_CODE_KERNEL;
	if (build->kernel.local.has_headers)
		return error_set(error, -ENODATA,
			"kernel %s: its own modules, which drivers depend on, are neither in what "
			"--kernel-from names nor in the lists of %s: give its package too "
			"(linux-image-%s, kernel-core and kernel-modules-core), or the folder of its "
			"make modules_install",
			build->kernel.lock.krel, build->kernel.lock.os, build->kernel.lock.krel);
	return error_set(error, -ENODATA,
		"kernel %s: its headers are in the lists of %s, its own modules are not: no image can "
		"be made before they are there; run again with --refresh later, or give them by "
		"--kernel-from",
		build->kernel.lock.krel, build->kernel.lock.os);
}

static int identify_sources(struct build *build, struct error *error)
{
	const struct build_options *options = &build->options;
	int r = 0;

	if (options->ofed)
		r = source_identify("--ofed", options->ofed, "reference", &build->ofed, error);
	if (r == 0 && strcmp(options->nvidia, "none") != 0)
		r = source_identify("--nvidia", options->nvidia, "debian", &build->nvidia, error);
	if (r == 0 && options->userspace)
		r = userspace_open(
			options->userspace, &build->userspace, &build->userspace_version, error);
	if (r == 0 && options->gdrcopy)
		r = source_identify("--gdrcopy", options->gdrcopy, NULL, &build->gdrcopy, error);
	if (r == 0 && options->nvidia_fs)
		r = source_identify(
			"--nvidia-fs", options->nvidia_fs, NULL, &build->nvidia_fs, error);
	if (r == 0 && build->gdrcopy.kind == SOURCE_TREE)
		r = source_check_gdrcopy(build->gdrcopy.path, error);
	if (r == 0 && build->nvidia_fs.kind == SOURCE_TREE)
		r = source_check_nvidia_fs(build->nvidia_fs.path, error);
	if (r == 0 && build->ofed.kind == SOURCE_TREE)
		r = source_check_ofed(build->ofed.path, error);
	if (r == 0 && build->nvidia.kind == SOURCE_TREE)
		r = source_check_nvidia(build->nvidia.path, error);
	return r < 0 ? context_fail(&build->context, EXIT_CODE_SOURCE, r) : 0;
}

static int import_bundle(struct build *build, struct error *error)
{
	int r = bundle_import(build, error);

	if (r < 0)
		return context_fail(
			&build->context, r == -ENODATA ? EXIT_CODE_KERNEL : EXIT_CODE_CONTENT, r);
	r = build_options_check_gpu(&build->options, error);
	return r < 0 ? context_fail(&build->context, EXIT_CODE_USAGE, r) : 0;
}

int build_prepare(struct build *build, struct error *error)
{
	const struct build_options *options = &build->options;
	struct kernel *kernel = &build->kernel;
	int r;

	kernel->context = &build->context;
	kernel->request.compiler = options->compiler;
	r = kernel_check_compiler(kernel, error);
	if (r == 0 && options->bundle)
		r = import_bundle(build, error);
	if (r == 0)
		r = identify_sources(build, error);
	if (r < 0)
		return r;
	kernel->request.krel = options->krel;
	kernel->request.lock = options->lock;
	kernel->request.bundle = options->bundle;
	kernel->request.files = options->kernel_from;
	kernel->request.for_images = true;
	kernel->request.ofed_package = build->ofed.kind == SOURCE_PACKAGE;
	kernel->request.nvidia_package = build->nvidia.kind == SOURCE_PACKAGE;
	return kernel_find(kernel, error);
}

/* Says the findings of lint: an error of them ends the build, unless --force. */
static int judge(struct build *build, struct error *error)
{
	const struct kernel_purpose purpose = {
		.ofed = build->ofed.kind != SOURCE_NONE,
		.nvidia = build->nvidia.kind != SOURCE_NONE,
		.signing = signing_wanted(build),
	};
	_cleanup_(lint_free) struct lint lint = { 0 };
	size_t errors;
	int r = kernel_lint(&build->kernel, &purpose, &lint, error);

	if (r < 0)
		return r;
	for (size_t i = 0; i < lint.count; i++) {
		const struct lint_finding *finding = &lint.findings[i];
		_cleanup_free_ char *note = NULL;

		if (finding->severity == LINT_NOTE)
			continue;
		note = xasprintf("%s %s: %s; %s", lint_severity_text(finding->severity),
			finding->id, finding->reason, finding->fix);
		progress_note(&build->context.progress, note);
	}
	errors = lint_count(&lint, LINT_ERROR);
	if (errors > 0 && !build->options.force)
		return context_fail(&build->context, EXIT_CODE_LINT,
			error_set(error, -ECANCELED,
				"%zu finding%s of slipway lint, the first %s: %s; next: %s. --force goes on "
				"all the same",
				errors, errors == 1 ? "" : "s", lint.findings[0].id,
				lint.findings[0].reason, lint.findings[0].fix));
	kernel_override_compiler(&build->kernel);
	return 0;
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
		(void) context_fail(&build->context, EXIT_CODE_OUTPUT, r);
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
		build->context.failure = context_exit_code(r);
	if (r == 0)
		r = stages_make(build, STAGE_BIT(STAGE_NIC) | STAGE_BIT(STAGE_GPU), error);
	return r < 0 ? r : output_write(build, error);
}

static int run(struct build *build, struct error *error)
{
	int r = output_place_ready(build->options.output, error);

	if (r < 0) {
		build->context.failure = EXIT_CODE_OUTPUT;
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
	r = kernel_lock(&build->kernel, error);
	if (r == 0)
		r = userspace_check_version(build, error);
	if (r == 0)
		r = userspace_say_lacks(build, error);
	if (r == 0)
		r = kernel_open_tree(&build->kernel, error);
	if (r == 0)
		r = signing_settle(build, error);
	if (r == 0)
		r = judge(build, error);
	if (r == 0)
		r = check_modules(build, error);
	if (r < 0)
		return r;
	return build->options.sign_export ? run_export(build, error) : run_images(build, error);
}

void build_done(struct build *build)
{
	signing_free(&build->signing);
	kernel_free(&build->kernel);
	bundle_free(&build->bundle);
	source_free(&build->ofed);
	source_free(&build->nvidia);
	source_free(&build->userspace);
	free(build->userspace_version);
	source_free(&build->gdrcopy);
	source_free(&build->nvidia_fs);
	for (size_t i = 0; i < STAGE_COUNT; i++)
		cached_free(&build->outputs[i]);
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
		if (build->context.failure == EXIT_CODE_OK)
			build->context.failure = EXIT_CODE_INTERNAL;
		output_failure(build, &error);
	}
	return r < 0 ? (int) build->context.failure : EXIT_CODE_OK;
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

static int usage_error(const struct error *error)
{
	(void) fprintf(
		stderr, "slipway build: %s\nslipway build --help lists the options\n", error->text);
	return EXIT_CODE_USAGE;
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
	int code;

	if (build_options_start(argc, argv, &build.options, &code))
		code = start(&build);
	build_done(&build);
	context_close(&build.context);
	build_options_free(&build.options);
	return code;
}
