/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "cli/bundle/bundle.h"
#include "cli/commands.h"
#include "cli/output_place.h"
#include "cli/stage/build.h"
#include "cli/supervise.h"
#include "common/json_text.h"

struct verb {
	struct build build;
	struct bundle bundle; /* of --bundle */
};

static int import_bundle(struct verb *verb, struct error *error)
{
	struct build *build = &verb->build;
	int r = bundle_import(build, &verb->bundle, error);

	if (r < 0)
		return context_fail(
			&build->context, r == -ENODATA ? EXIT_CODE_KERNEL : EXIT_CODE_CONTENT, r);
	r = build_options_check_gpu(&build->options, error);
	return r < 0 ? context_fail(&build->context, EXIT_CODE_USAGE, r) : 0;
}

/* All that can be wrong with what was asked comes out before anything is fetched or made. */
static int run(struct verb *verb, struct error *error)
{
	struct build *build = &verb->build;
	int r = output_place_ready(build->options.output, error);

	if (r < 0) {
		build->context.failure = EXIT_CODE_OUTPUT;
		return r;
	}
	r = signing_open(build, error);
	if (r == 0)
		r = kernel_check_compiler(&build->context, build->options.compiler, error);
	if (r == 0 && build->options.bundle)
		r = import_bundle(verb, error);
	if (r == 0)
		r = build_prepare(build, error);
	return r < 0 ? r : build_run(build, error);
}

/* In the supervised child. Returns the exit code. */
static int work(void *context)
{
	struct verb *verb = context;
	struct build *build = &verb->build;
	struct error error = { 0 };
	int code;

	progress_start(&build->context.progress, build->options.common.json);
	if (run(verb, &error) == 0)
		return EXIT_CODE_OK;
	code = build->context.failure ? (int) build->context.failure : EXIT_CODE_INTERNAL;
	(void) fflush(stdout);
	(void) fprintf(stderr, "slipway build: %s\n", error.text);
	if (build->context.progress.json) {
		(void) printf("{\"event\":\"failed\",\"exit_code\":%d,\"reason\":", code);
		json_text_string(stdout, exit_code_text(code));
		(void) fputs(",\"message\":", stdout);
		json_text_string(stdout, error.text);
		(void) puts("}");
		(void) fflush(stdout);
	}
	return code;
}

int build_command(int argc, char **argv)
{
	struct verb verb = { .build = { .context = CONTEXT_CLOSED } };
	struct build *build = &verb.build;
	struct error error = { 0 };
	int code;
	bool started = build_options_start(argc, argv, &build->options, &code);

	if (started && signing_read_password(build, &error) < 0) {
		(void) fprintf(stderr,
			"slipway build: %s\nslipway build --help lists the options\n", error.text);
		code = EXIT_CODE_USAGE;
	} else if (started) {
		code = supervise_run(&build->context, &build->options.common, "build",
			"what was half made is removed, what was finished is kept", work, &verb);
	}
	bundle_close(&verb.bundle);
	build_done(build);
	context_close(&build->context);
	build_options_free(&build->options);
	return code;
}
