/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/commands.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/bundle/bundle.h"
#include "cli/fleet/fleet.h"
#include "cli/image/buildah.h"
#include "cli/json.h"
#include "common/slipway_version.h"
#include "cli/stage/build.h"
#include "cli/supervise.h"
#include "cli/image/output_place.h"
#include "common/text.h"
#include "common/xalloc.h"

struct verb {
	struct build_options options; /* of each build, but for the kernel */
	struct strv krels;
	const char *plan;       /* file of slipway plan, in place of all that */
	struct strv common;     /* what we were given that each of its builds is to have */
	struct context context; /* where it is put together */
	struct bundle_manifest manifest;
};

static int take_kernel(void *target, const char *argument, struct error *error)
{
	struct verb *verb = target;

	(void) error;
	xstrv_push_unique(&verb->krels, argument);
	return 0;
}

static int check(void *target, struct error *error)
{
	const struct verb *verb = target;
	const struct build_options *options = &verb->options;

	if (options->output && strcmp(options->output, "-") == 0)
		return error_set(error, -EINVAL, "--output -: a bundle is a file: give its name");
	if (verb->krels.count > 1 && options->kernel_from.count)
		return error_set(error, -EINVAL, "--kernel-from can only be used with one kernel");
	if (options->kernel_module_type && strcmp(options->sources[DRIVER_NVIDIA], "debian") != 0 &&
		strcmp(options->sources[DRIVER_NVIDIA], "none") != 0) {
		(void) error_set(error, -EINVAL,
			"--kernel-module-type applies only to Debian's packages: other sources go "
			"into the bundle whole, with both kinds");
		return error_try(error, -EINVAL, "give it to slipway build --bundle instead");
	}
	return build_options_check_drivers(options, error);
}

static const struct option_rule rules[] = {
	{ .needs = "output", .why = "--output FILE is missing: the bundle to write" },
	{ .needs = "kernel kernel-from plan " OPTION_RULE_ARGUMENT,
		.why = "the kernel is missing: give a release (uname -r on the node) or newest" },
	{ .given = "plan",
		.refuses = "kernel kernel-from root base compiler kernel-module-type os arch ofed "
			   "nvidia gdrcopy nvidia-fs sources " OPTION_RULE_ARGUMENT,
		.why = "the plan has a command line for each build" },
};

#define BUNDLE_OPTION(name, letter, argument, kind, member, help)                                  \
	OPTION(name, letter, argument, kind, struct verb, options.member, help)

static const struct option_row rows[] = {
	OPTION_ARGUMENT(
		"KREL", "kernel release (uname -r on the node) or newest; also as --kernel KREL"),
	OPTION_CALL("kernel", 0, "KREL", take_kernel, OPTION_HIDDEN),
	BUNDLE_OPTION("output", 'o', "FILE", OPTION_TEXT, output,
		"the bundle to write; it appears only when complete"),
	OPTION("plan", 0, "FILE", OPTION_TEXT, struct verb, plan,
		"all that the builds of slipway plan --json need, in place of the options\n"
		"below; - for stdin"),
	DRIVER_OPTIONS(struct verb, options.sources),
	SOURCES_OPTION(struct verb, options.source_folders),
	BUNDLE_OPTION("kernel-module-type", 0, "KIND", OPTION_TEXT, kernel_module_type,
		"for debian: open or proprietary [open]"),
	BUNDLE_OPTION("base", 0, "REF", OPTION_TEXT, base, "base of the driver images"),
	BUNDLE_OPTION("root", 0, "OS", OPTION_TEXT, root,
		"compile in a build root of this distribution [the kernel's own]"),
	BUNDLE_OPTION("kernel-from", 0, "PATH", OPTION_LIST, kernel_from,
		"a kernel that no repository has; may be repeated"),
	BUNDLE_OPTION("compiler", 0, "NAME", OPTION_TEXT, compiler,
		"compiler to use [the one that built the kernel]"),
};

const struct option_table bundle_options = {
	.verb = "bundle",
	.usage =
		"Usage: slipway bundle -o FILE [options] KREL…\n"
		"       slipway bundle -o FILE --plan FILE [options]\n"
		"\n"
		"Writes one file with everything that builds for these kernels need: packages, driver\n"
		"sources, base images and locks. `slipway build --bundle FILE` builds from it without a\n"
		"network. The userspace of a source tree is not included: copy its folder too, and give\n"
		"--userspace (and --sources-image, if wanted) to `slipway build --bundle`. A bundle of\n"
		"a plan has the userspace too, and what is compiled for no kernel in particular.\n"
		"\n",
	OPTION_ROWS(rows),
	OPTION_RULES(rules),
	.column = 21,
	.common = offsetof(struct verb, options.common),
	.take_argument = take_kernel,
	.check = check,
};

static int collect(struct verb *verb, struct build *build, const struct strv *args,
	const char *folder, struct error *error)
{
	int r = context_open(&build->options.common, &build->context, error);

	if (r == 0)
		r = cache_start_run(&build->context.cache, buildah_sweep, error);
	if (r < 0)
		return r;
	context_show_progress(&build->context, true);
	r = build_prepare(build, error);
	if (r == 0)
		r = bundle_preflight(build, error);
	if (r == 0)
		r = roots_find(build, error);
	if (r == 0)
		r = kernel_lock(&build->kernel, error);
	if (r == 0)
		r = bundle_collect(build, &verb->manifest, args, folder, error);
	cache_end_run(&build->context.cache);
	return r;
}

static void print_result(const struct verb *verb, const char *sha256)
{
	size_t count = verb->manifest.target_count;
	_cleanup_strv_ struct strv krels = { 0 };
	json_object *object;
	struct stat status = { 0 };

	(void) stat(verb->options.output, &status);
	if (!verb->options.common.json) {
		text_print(stdout, "%s  %.1f MB, %zu %s%s\n", verb->options.output,
			(double) status.st_size / 1e6, count, verb->plan ? "build" : "kernel",
			count == 1 ? "" : "s");
		text_print(stdout, "  sha256 %s\n", sha256);
		text_print(stdout, "  slipway build%s%s --bundle %s\n",
			verb->plan ? " --plan " : "", verb->plan ? verb->plan : "",
			verb->options.output);
		return;
	}
	object = json_object_new_object();
	for (size_t i = 0; i < count; i++)
		xstrv_push_unique(&krels, verb->manifest.targets[i].krel);
	json_add_texts(object, "event", "result");
	json_add(object, "exit_code", json_object_new_int(EXIT_CODE_OK));
	json_add_texts(object, "file", verb->options.output);
	json_add(object, "size_bytes", json_object_new_uint64((uint64_t) status.st_size));
	json_add_texts(object, "sha256", sha256);
	json_add(object, "kernels", json_list(&krels));
	json_print_line(object);
}

static int add_build(struct verb *verb, const struct build_options *options,
	const struct strv *args, const char *folder, struct error *error)
{
	struct build build = { .options = *options, .context = CONTEXT_CLOSED };
	int r = collect(verb, &build, args, folder, error);

	if (r < 0) {
		verb->context.failure = build.context.failure;
		progress_abandon(&build.context.progress);
	}
	build_done(&build);
	context_close(&build.context);
	return r;
}

/* A build of the plan, with its own options and those that we were given for each. */
static int add_planned(
	struct verb *verb, const struct strv *args, const char *folder, struct error *error)
{
	_cleanup_strv_ struct strv words = { 0 };
	struct build_options options;
	int code, r;

	xstrv_push(&words, "build");
	for (size_t i = 0; i < args->count; i++)
		xstrv_push(&words, args->items[i]);
	for (size_t i = 0; i < verb->common.count; i++)
		xstrv_push(&words, verb->common.items[i]);
	if (!build_options_start(words.items, &options, &code)) {
		verb->context.failure = EXIT_CODE_USAGE;
		r = error_set(error, -EINVAL, "slipway build does not take its command line");
	} else {
		options.plan = verb->plan;
		options.output = verb->options.output;
		options.common.json = verb->options.common.json;
		r = add_build(verb, &options, args, folder, error);
	}
	build_options_free(&options);
	return r;
}

/* One that cannot be built is left out: slipway plan has said why. */
static int add_plan(struct verb *verb, const char *folder, struct error *error)
{
	struct fleet fleet = { 0 };
	int r = fleet_read(verb->plan, &fleet, error);

	if (r < 0)
		verb->context.failure = exit_code_for(r, EXIT_CODE_USAGE);
	for (size_t i = 0; r == 0 && i < fleet.target_count; i++) {
		const struct fleet_target *target = &fleet.targets[i];

		for (size_t j = 0; r == 0 && j < target->build_count; j++) {
			const struct fleet_build *build = &target->builds[j];
			struct error why = { 0 };

			if (fleet_check_build(target, build, &why) != EXIT_CODE_OK)
				progress_notef(&verb->context.progress,
					"target %u, %s, is left out: %s", target->index,
					target->krel, why.text);
			else
				r = add_planned(verb, &build->args, folder, error);
			if (r < 0)
				r = error_prefix(
					error, r, "target %u, %s", target->index, target->krel);
		}
	}
	fleet_free(&fleet);
	if (r < 0 || verb->manifest.target_count)
		return r;
	verb->context.failure = EXIT_CODE_USAGE;
	return error_set(error, -EINVAL, "--plan %s: none of its builds can be made", verb->plan);
}

static int add_kernels(struct verb *verb, const char *folder, struct error *error)
{
	size_t count = verb->krels.count ? verb->krels.count : 1;

	for (size_t i = 0; i < count; i++) {
		struct build_options options = verb->options;
		int r;

		options.krel = verb->krels.count ? verb->krels.items[i] : NULL;
		r = add_build(verb, &options, NULL, folder, error);
		if (r < 0)
			return r;
	}
	return 0;
}

static int make_bundle(struct verb *verb, struct error *error)
{
	struct progress *progress = &verb->context.progress;
	_cleanup_free_ char *folder = NULL;
	char sha256[HASH_HEX_SIZE];
	int r = output_file_ready("--output", verb->options.output, error);

	if (r < 0) {
		verb->context.failure = EXIT_CODE_OUTPUT;
		return r;
	}
	r = cache_new_folder(&verb->context.cache, "collected", &folder);
	if (r < 0)
		return error_set_errno(error, r, "bundle");
	r = verb->plan ? add_plan(verb, folder, error) : add_kernels(verb, folder, error);
	if (r < 0)
		return r;
	progress_begin(progress, "write");
	r = bundle_pack(&verb->manifest, folder, verb->options.output, progress, sha256, error);
	progress_end(progress, r < 0 ? "failed" : "done");
	if (r < 0)
		return context_fail(&verb->context, EXIT_CODE_OUTPUT, r);
	print_result(verb, sha256);
	return 0;
}

static int make(void *data, struct error *error)
{
	struct verb *verb = data;
	int r;

	verb->manifest.slipway = xstrdup(SLIPWAY_VERSION);
	r = make_bundle(verb, error);
	bundle_manifest_free(&verb->manifest);
	return r;
}

int bundle_command(char **argv)
{
	struct verb verb = { .context = CONTEXT_CLOSED };
	int code;

	fleet_common_words(argv, &verb.common); /* parsing sorts the words */
	build_options_default(&verb.options);
	if (options_start(&bundle_options, argv, &verb, &code))
		code = supervise_run(&verb.context, &verb.options.common, "bundle",
			"no bundle was written", make, &verb);
	strv_free(&verb.krels);
	strv_free(&verb.common);
	context_close(&verb.context);
	build_options_free(&verb.options);
	return code;
}
