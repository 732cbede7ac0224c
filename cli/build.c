/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/build.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>

#include "cli/bundle.h"
#include "cli/lockfile.h"
#include "cli/output.h"
#include "cli/arrow_tools.h"
#include "cli/supervise.h"
#include "common/process.h"

/* The user's word against the evidence: said, and kept in the lock. */
static int override_compiler(struct build *build, struct error *error)
{
	const char *wanted = build->options.compiler;
	_cleanup_free_ char *evidence = NULL;
	_cleanup_free_ char *note = NULL;
	_cleanup_free_ char *for_tree = strdup(wanted);
	_cleanup_free_ char *for_lock = strdup(wanted);

	if (strcmp(build->tree.compiler, wanted) == 0)
		return 0;
	if (!for_tree || !for_lock ||
		asprintf(&evidence, "--compiler, instead of %s: the kernel was made with that",
			build->tree.compiler) < 0 ||
		asprintf(&note, "--compiler %s instead of %s, which the kernel was made with",
			wanted, build->tree.compiler) < 0)
		return error_set_errno(error, -ENOMEM, "--compiler");
	progress_note(&build->context.progress, note);
	free(build->tree.compiler);
	free(build->lock.compiler);
	free(build->lock.compiler_evidence);
	build->tree.compiler = TAKE_PTR(for_tree);
	build->lock.compiler = TAKE_PTR(for_lock);
	build->lock.compiler_evidence = TAKE_PTR(evidence);
	return 0;
}

/* The compiler comes from the tree itself, so the tree must be there before other keys are. */
int build_read_tree(struct build *build, struct error *error)
{
	_cleanup_close_ int fd = -1;
	int r = arrows_make(build, ARROW_BIT(ARROW_KERNEL), error);

	if (r == 0)
		r = arrow_open(build, ARROW_KERNEL, &fd, error);
	if (r == 0)
		r = kernel_tree_read(fd, build->lock.krel, &build->tree, error);
	if (r == 0 && build->options.compiler)
		r = override_compiler(build, error);
	if (r < 0 && build->failure == EXIT_CODE_OK)
		build->failure = exit_code_for(r, EXIT_CODE_CONTENT);
	return r;
}

static int run(struct build *build, struct error *error)
{
	const unsigned int goals =
		ARROW_BIT(ARROW_NIC) | ARROW_BIT(ARROW_GPU) | ARROW_BIT(ARROW_PROOF);
	int r = build_prepare(build, error);

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
		r = build_read_tree(build, error);
	if (r == 0)
		r = arrows_make(build, goals, error);
	return r < 0 ? r : output_write(build, error);
}

void build_done(struct build *build)
{
	lock_free(&build->lock);
	strv_free(&build->compilers);
	kernel_tree_free(&build->tree);
	local_free(&build->local);
	bundle_free(&build->bundle);
	source_free(&build->ofed);
	source_free(&build->nvidia);
	for (size_t i = 0; i < ARROW_COUNT; i++)
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

static void say_interrupted(const struct build_options *options, int signal_number)
{
	(void) fprintf(stderr,
		"slipway build: interrupted by signal %d; what was half made is removed, what was "
		"finished is kept\n",
		signal_number);
	if (options->common.json)
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
	if (options->common.json)
		(void) printf("{\"event\":\"failed\",\"exit_code\":%d,\"reason\":\"ended by signal "
			      "%d\"}\n",
			EXIT_CODE_INTERNAL, signal_number);
	return EXIT_CODE_INTERNAL;
}

/* The work is a child's; what it opened here, the cache with its run folder, outlives it. */
static int supervised(struct build *build)
{
	struct cache *cache = &build->context.cache;
	int r = supervise(work, build);

	if (r != 0)
		buildah_sweep(cache->run_path);
	cache_end_run(cache);
	if (process_was_interrupted(r))
		say_interrupted(&build->options, r - 128);
	else if (r > 128)
		r = say_killed(&build->options, r - 128);
	return r < 0 ? EXIT_CODE_INTERNAL : r;
}

static int start(struct build *build)
{
	struct error error = { 0 };
	int r = context_open(&build->options.common, &build->context, &error);

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
