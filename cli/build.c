/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/build.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>

#include "cli/data.h"
#include "cli/lockfile.h"
#include "cli/output.h"
#include "cli/arrow_tools.h"
#include "cli/supervise.h"
#include "common/process.h"

static int fail(struct build *build, enum exit_code code, int r)
{
	build->failure = exit_code_for(r, code);
	return r;
}

/* All that can be wrong with what was asked comes out here, before anything is fetched or made. */
static int prepare(struct build *build, struct error *error)
{
	const struct build_options *options = &build->options;
	_cleanup_free_ char *catalogue = NULL;
	int r = data_find(&build->context.data, error);

	if (r < 0)
		return fail(build, EXIT_CODE_INTERNAL, r);
	if (asprintf(&catalogue, "%s/kernels/catalogue", build->context.data) < 0)
		return error_set_errno(error, fail(build, EXIT_CODE_INTERNAL, -ENOMEM), "slipway");
	r = catalogue_open(catalogue, options->os, &build->context.os, error);
	if (r < 0)
		return fail(build, EXIT_CODE_USAGE, r);
	if (options->ofed)
		r = source_identify("--ofed", options->ofed, "reference", &build->ofed, error);
	if (r == 0 && strcmp(options->nvidia, "none") != 0)
		r = source_identify("--nvidia", options->nvidia, "debian", &build->nvidia, error);
	if (r == 0 && build->ofed.kind == SOURCE_TREE)
		r = source_check_ofed(build->ofed.path, error);
	if (r == 0 && build->nvidia.kind == SOURCE_TREE)
		r = source_check_nvidia(build->nvidia.path, error);
	return r < 0 ? fail(build, EXIT_CODE_SOURCE, r) : 0;
}

/* The compiler comes from the tree itself, so the tree must be there before other keys are. */
static int read_tree(struct build *build, struct error *error)
{
	_cleanup_close_ int fd = -1;
	int r = arrows_make(build, ARROW_BIT(ARROW_KERNEL), error);

	if (r == 0)
		r = arrow_open(build, ARROW_KERNEL, &fd, error);
	if (r == 0)
		r = kernel_tree_read(fd, build->lock.krel, &build->tree, error);
	if (r < 0 && build->failure == EXIT_CODE_OK)
		build->failure = exit_code_for(r, EXIT_CODE_CONTENT);
	return r;
}

static int run(struct build *build, struct error *error)
{
	const unsigned int goals =
		ARROW_BIT(ARROW_NIC) | ARROW_BIT(ARROW_GPU) | ARROW_BIT(ARROW_PROOF);
	int r = prepare(build, error);

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
		r = read_tree(build, error);
	if (r == 0)
		r = arrows_make(build, goals, error);
	return r < 0 ? r : output_write(build, error);
}

static void build_done(struct build *build)
{
	apt_close(&build->apt);
	lock_free(&build->lock);
	kernel_tree_free(&build->tree);
	catalogue_free(&build->context.os);
	source_free(&build->ofed);
	source_free(&build->nvidia);
	free(build->context.data);
	for (size_t i = 0; i < ARROW_COUNT; i++)
		free(build->states[i].output);
}

/* In the supervised child. Returns the exit code. */
static int work(void *context)
{
	struct build *build = context;
	struct error error = { 0 };
	int r;

	progress_start(&build->context.progress, build->options.json);
	r = run(build, &error);
	if (r < 0) {
		if (build->failure == EXIT_CODE_OK)
			build->failure = EXIT_CODE_INTERNAL;
		output_failure(build, &error);
	}
	build_done(build);
	return r < 0 ? (int) build->failure : EXIT_CODE_OK;
}

static int usage_error(const struct error *error)
{
	(void) fprintf(
		stderr, "slipway build: %s\nslipway build --help lists the options\n", error->text);
	return EXIT_CODE_USAGE;
}

static void say_interrupted(const struct build_options *options, int signal_number)
{
	(void) fprintf(stderr,
		"slipway build: interrupted by signal %d; what was half made is removed, what was "
		"finished is kept\n",
		signal_number);
	if (options->json)
		(void) printf(
			"{\"event\":\"failed\",\"exit_code\":%d,\"reason\":\"interrupted\"}\n",
			128 + signal_number);
}

/* The work itself was ended by a signal that nobody sends to interrupt it. */
static int say_killed(const struct build_options *options, int signal_number)
{
	const char *advice = signal_number == SIGKILL
				     ? "; a kernel does that when memory runs out: try a smaller "
				       "--jobs"
				     : "";

	(void) fprintf(stderr, "slipway build: ended by signal %d (%s)%s\n", signal_number,
		strsignal(signal_number), advice);
	if (options->json)
		(void) printf("{\"event\":\"failed\",\"exit_code\":%d,\"reason\":\"ended by signal "
			      "%d\"}\n",
			EXIT_CODE_INTERNAL, signal_number);
	return EXIT_CODE_INTERNAL;
}

int build_command(int argc, char **argv)
{
	struct build build = { .context = CONTEXT_CLOSED };
	struct error error = { 0 };
	int r = build_options_parse(argc, argv, &build.options, &error);

	if (r < 0)
		return usage_error(&error);
	if (build.options.help) {
		build_options_usage(stdout);
		return EXIT_CODE_OK;
	}
	r = cache_open(build.options.cache, &build.context.cache, &error);
	if (r == 0)
		r = cache_start_run(&build.context.cache, buildah_sweep, &error);
	if (r < 0) {
		(void) fprintf(stderr, "slipway build: %s\n", error.text);
		return EXIT_CODE_INTERNAL;
	}
	r = supervise(work, &build);
	if (r != 0)
		buildah_sweep(build.context.cache.run_path);
	cache_end_run(&build.context.cache);
	if (process_was_interrupted(r))
		say_interrupted(&build.options, r - 128);
	else if (r > 128)
		r = say_killed(&build.options, r - 128);
	cache_close(&build.context.cache);
	return r < 0 ? EXIT_CODE_INTERNAL : r;
}
