/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "cli/bundle/bundle.h"
#include "cli/fleet/fleet.h"
#include "cli/index/index.h"
#include "cli/message.h"
#include "cli/commands.h"
#include "cli/image/output_place.h"
#include "cli/image/policies.h"
#include "cli/stage/build.h"
#include "cli/json.h"
#include "cli/supervise.h"
#include "common/process.h"
#include "common/xalloc.h"

struct verb {
	struct build build;
	struct bundle bundle; /* of --bundle */
};

/* All that can be wrong with what was asked comes out before anything is fetched or made. */
static int make(void *data, struct error *error)
{
	struct verb *verb = data;
	struct build *build = &verb->build;
	struct context *context = &build->context;
	const char *digests = build->options.sign_export;
	int r = digests ? output_folder_ready("--sign-export", digests, error)
			: output_place_ready(build->options.output, error);

	if (r == 0 && !digests)
		r = policies_ready(build->options.output, error);
	if (r < 0) {
		context->failure = EXIT_CODE_OUTPUT;
		return r;
	}
	r = context_read_date(context, error);
	if (r == 0)
		r = signing_open(build, error);
	if (r == 0)
		r = kernel_check_compiler(context, build->options.compiler, error);
	if (r < 0)
		return r;
	if (build->options.bundle) {
		r = bundle_import(build, &verb->bundle, error);
		if (r < 0)
			return r;
	}
	r = build_prepare(build, error);
	return r < 0 ? r : build_run(build, error);
}

static int run_plan(const struct build_options *options, const struct strv *common)
{
	const struct fleet_run run = {
		.plan = options->plan,
		.target = options->plan_target,
		.bundle = options->bundle,
		.output = strcmp(options->output, OUTPUT_STORAGE) == 0 ? NULL : options->output,
		.common = common,
		.json = options->common.json,
	};
	struct error error = { 0 };
	enum exit_code code;

	if (run.output && !output_place_is_folder(run.output)) {
		(void) error_set(
			&error, -EINVAL, "--output %s: a plan's builds need a folder", run.output);
		code = EXIT_CODE_USAGE;
	} else {
		code = fleet_run(&run, &error);
	}
	return *error.text ? json_fail("build", options->common.json ? "failed" : NULL, (int) code,
				     &error)
			   : (int) code;
}

/* Builds what @options say; @password: of the signing key, or NULL. */
static int run_build(const struct build_options *options, const char *password)
{
	struct verb verb = { .build = { .context = CONTEXT_CLOSED, .options = *options } };
	struct build *build = &verb.build;
	int code;

	build->signing.password = password ? xstrdup(password) : NULL;
	code = supervise_run(&build->context, &build->options.common, "build",
		"unfinished work was removed, finished stages are kept", make, &verb);
	bundle_close(&verb.bundle);
	build_done(build);
	context_close(&build->context);
	return code;
}

/* ---- several architectures */

struct several {
	const struct build_options *options;
	const char *password;
	struct context context; /* of the indexes */
};

/* One of the builds; with @look nothing is compiled yet. */
static int run_arch(const struct several *several, size_t i, bool look)
{
	const char *arch = several->options->common.archs.items[i];
	struct build_options options = *several->options;
	_cleanup_free_ char *output = xasprintf("%s/%s", options.output, arch);

	options.common.arch = arch;
	options.output = output;
	if (options.krels.count > 1)
		options.krel = options.krels.items[i];
	options.of_several = true;
	options.only_look = look;
	/* The build that follows says the same again. */
	options.common.quiet |= look && !options.common.json && !options.dry_run;
	return run_build(&options, several->password);
}

static void announce(const struct several *several, size_t i, const char *what)
{
	const struct build_options *options = several->options;
	const char *arch = options->common.archs.items[i];

	if (options->common.json) {
		json_object *object = json_object_new_object();

		json_add_texts(object, "event", "arch", "arch", arch, "step", what);
		json_print_line(object);
	} else if (!options->common.quiet) {
		message_print(stderr, COLOUR_NONE, "==> %s: %s\n", arch, what);
	}
	(void) message_flush();
}

static int fail(const struct several *several, int code, const struct error *error)
{
	bool json = several->options->common.json;

	return json_fail("build", json ? "failed" : NULL, code, error);
}

/* Looks at all of them, so that whatever can be refused is, before one compiles. */
static int check_archs(const struct several *several)
{
	const struct build_options *options = several->options;
	_cleanup_strv_ struct strv failed = { 0 };
	_cleanup_free_ char *names = NULL;
	struct error causes = { 0 };
	struct error error = { 0 };
	int first = EXIT_CODE_OK;

	for (size_t i = 0; i < options->common.archs.count; i++) {
		int code;

		announce(several, i, options->dry_run ? "dry run" : "check");
		code = run_arch(several, i, !options->dry_run);
		if (process_was_interrupted(code))
			return code;
		if (code == EXIT_CODE_OK)
			continue;
		xstrv_push(&failed, options->common.archs.items[i]);
		(void) error_line(&causes, -EIO, "%s: %s", options->common.archs.items[i],
			exit_code_text(code));
		first = first ? first : code;
	}
	if (!first)
		return EXIT_CODE_OK;
	names = xstrv_join(&failed, ", ");
	(void) error_set(&error, -EIO, "not built for %s; nothing was compiled", names);
	(void) error_take_lines(&error, -EIO, &causes);
	return fail(several, first, &error);
}

static int fail_arch(const struct several *several, size_t i, int code)
{
	const struct build_options *options = several->options;
	const struct strv *names = &options->common.archs;
	struct error error = { 0 };

	if (process_was_interrupted(code))
		return code;
	(void) error_set(&error, -EIO, "not built for %s: %s; no index was made", names->items[i],
		exit_code_text(code));
	for (size_t k = 0; k < i; k++)
		(void) error_line(&error, -EIO, "the images for %s are in %s/%s", names->items[k],
			options->output, names->items[k]);
	(void) error_line(
		&error, -EIO, "finished stages are kept: the same command goes on from there");
	return fail(several, code, &error);
}

static int make_indexes(void *data, struct error *error)
{
	struct several *several = data;
	const struct build_options *options = several->options;
	const struct index_folders folders = {
		.context = &several->context,
		.output = options->output,
		.archs = &options->common.archs,
		.os_version = options->os_version,
		.operators = options->operators,
		.push = &options->push,
	};

	return index_folders_make(&folders, error);
}

static int run_archs(const struct build_options *options, const char *password)
{
	struct several several = {
		.options = options, .password = password, .context = CONTEXT_CLOSED
	};
	struct error error = { 0 };
	int code;

	if (policies_ready(options->output, &error) < 0)
		return fail(&several, EXIT_CODE_OUTPUT, &error);
	code = check_archs(&several);
	if (code != EXIT_CODE_OK || options->dry_run)
		return code;
	for (size_t i = 0; i < options->common.archs.count; i++) {
		announce(&several, i, "build");
		code = run_arch(&several, i, false);
		if (code != EXIT_CODE_OK)
			return fail_arch(&several, i, code);
	}
	code = supervise_run(&several.context, &options->common, "build",
		options->push.registry
			? "the images are there; the same command makes the indexes and pushes them"
			: "the images are there; the same command makes the indexes",
		make_indexes, &several);
	context_close(&several.context);
	return code;
}

int build_command(char **argv)
{
	struct build build = { .context = CONTEXT_CLOSED };
	struct build_options *options = &build.options;
	_cleanup_strv_ struct strv common = { 0 };
	struct error error = { 0 };
	bool started;
	int code;

	fleet_common_words(argv, &common); /* parsing sorts the words */
	started = build_options_start(argv, options, &code);
	if (started && options->plan) {
		code = run_plan(options, &common);
	} else if (started && signing_read_password(&build, &error) < 0) {
		message_error(stderr, "slipway build", &error);
		(void) fputs("slipway build --help lists the options\n", stderr);
		code = EXIT_CODE_USAGE;
	} else if (started) {
		code = options->common.archs.count > 1 ? run_archs(options, build.signing.password)
						       : run_build(options, build.signing.password);
	}
	build_done(&build);
	build_options_free(options);
	return code;
}
