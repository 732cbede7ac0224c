/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "cli/bundle/bundle.h"
#include "cli/fleet/fleet.h"
#include "cli/message.h"
#include "cli/commands.h"
#include "cli/image/output_place.h"
#include "cli/image/policies.h"
#include "cli/stage/build.h"
#include "cli/json.h"
#include "cli/supervise.h"
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

int build_command(char **argv)
{
	struct verb verb = { .build = { .context = CONTEXT_CLOSED } };
	struct build *build = &verb.build;
	_cleanup_strv_ struct strv common = { 0 };
	struct error error = { 0 };
	bool started;
	int code;

	fleet_common_words(argv, &common); /* parsing sorts the words */
	started = build_options_start(argv, &build->options, &code);
	if (started && build->options.plan)
		code = run_plan(&build->options, &common);
	else if (started && signing_read_password(build, &error) < 0) {
		message_error(stderr, "slipway build", &error);
		(void) fputs("slipway build --help lists the options\n", stderr);
		code = EXIT_CODE_USAGE;
	} else if (started) {
		code = supervise_run(&build->context, &build->options.common, "build",
			"unfinished work was removed, finished stages are kept", make, &verb);
	}
	bundle_close(&verb.bundle);
	build_done(build);
	context_close(&build->context);
	build_options_free(&build->options);
	return code;
}
