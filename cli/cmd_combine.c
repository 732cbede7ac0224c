/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/commands.h"

#include <string.h>

#include "cli/supervise.h"
#include "cli/combine/combine.h"
#include "cli/json.h"
#include "cli/image/output_place.h"
#include "cli/image/policies.h"
#include "common/arch.h"
#include "common/xalloc.h"

struct verb {
	struct common_options options;
	struct strv names;
	struct context context;
	struct combine combine;
};

static int take_argument(void *target, const char *argument, struct error *error)
{
	struct verb *verb = target;

	(void) error;
	xstrv_push(&verb->names, argument);
	return 0;
}

static int check(void *target, struct error *error)
{
	struct verb *verb = target;
	int r;

	if (verb->names.count < 2 || verb->names.count > COMBINE_MAX)
		return error_set(error, -EINVAL, "two to %d images are needed, but %zu %s named",
			COMBINE_MAX, verb->names.count, verb->names.count == 1 ? "is" : "are");
	r = push_check(&verb->combine.push, &verb->combine.operators, error);
	if (r == 0)
		r = revision_check(verb->combine.revision, error);
	if (r == 0)
		r = operators_check(&verb->combine.operators, error);
	return r < 0 ? r : output_place_check(verb->combine.output, error);
}

static const struct option_rule rules[] = {
	PUSH_RULE,
};

static const struct option_row rows[] = {
	IMAGES_ARGUMENT("the new image is based on the first"),
	OPTION("output", 'o', "WHERE", OPTION_TEXT, struct verb, combine.output,
		"DIR, containers-storage: or oci-archive:FILE [containers-storage:]; into DIR\n"
		"go also the operator's policies, and push.sh"),
	PUSH_OPTIONS(struct verb, combine.push),
	OPERATORS_OPTIONS(struct verb, combine.operators),
	OPTION("revision", 0, "N", OPTION_TEXT, struct verb, combine.revision,
		"make VERSION-N the version in the tags, as slipway build does [the first\n"
		"image's]"),
	OS_VERSION_OPTION(struct verb, combine.os_version),
};

const struct option_table combine_options = {
	.verb = "combine",
	.usage =
		"Usage: slipway combine [options] IMAGE IMAGE…\n"
		"\n"
		"Merges GPU images, or NIC images, of one driver version and distribution into one "
		"image, for\n"
		"several kernels; GPU images also for one kernel with several OFED versions. Its "
		"tag is\n"
		"VERSION-OS (a NIC image's VERSION-OS-ARCH), which the operator asks for when it "
		"does not use\n"
		"precompiled drivers. A node takes the modules for its kernel and the "
		"nvidia-peermem built\n"
		"for the OFED that is loaded.\n"
		"\n",
	.notes = "\n",
	OPTION_ROWS(rows),
	OPTION_RULES(rules),
	.only_common = "arch cache json quiet verbose help",
	.common = offsetof(struct verb, options),
	.take_argument = take_argument,
	.check = check,
};

static int make_image(struct verb *verb, struct image *image, struct error *error)
{
	struct context *context = &verb->context;
	struct combine *combine = &verb->combine;
	json_object *object;
	bool changed = false;
	int r = output_place_ready(combine->output, error);

	if (r == 0)
		r = policies_ready(combine->output, error);
	if (r < 0)
		return context_fail(context, EXIT_CODE_OUTPUT, r);
	r = context_read_date(context, error);
	if (r < 0)
		return r;
	progress_begin(&context->progress, "combine");
	combine->context = context;
	combine->wanted_arch = verb->options.arch ? arch_oci(verb->options.arch) : NULL;
	r = combine_open(combine, &verb->names, error);
	if (r < 0)
		(void) context_fail(context, EXIT_CODE_USAGE, r);
	else {
		r = combine_make(combine, image, &changed, error);
		if (context->failure == EXIT_CODE_OK)
			(void) context_fail(context, EXIT_CODE_IMAGE, r);
	}
	progress_end(&context->progress, r < 0 ? "failed" : "done");
	if (r < 0)
		return r;
	if (!verb->options.json) {
		if (!changed)
			(void) puts("Nothing to do: the image already exists.");
		combine_print(combine, image);
		return 0;
	}
	object = combine_to_json(combine, image);
	json_add_texts(object, "event", "result");
	json_add(object, "exit_code", json_object_new_int(EXIT_CODE_OK));
	json_add(object, "nothing_to_do", json_object_new_boolean(!changed));
	json_print_line(object);
	return 0;
}

static int make(void *data, struct error *error)
{
	struct verb *verb = data;
	struct image image = { 0 };
	int r = make_image(verb, &image, error);

	image_free(&image);
	combine_close(&verb->combine);
	return r;
}

int combine_command(char **argv)
{
	struct verb verb = { .context = CONTEXT_CLOSED, .combine.output = OUTPUT_STORAGE };
	int code;

	if (options_start(&combine_options, argv, &verb, &code))
		code = supervise_run(&verb.context, &verb.options, "combine",
			"unfinished work was removed", make, &verb);
	context_close(&verb.context);
	strv_free(&verb.names);
	common_options_free(&verb.options);
	return code;
}
