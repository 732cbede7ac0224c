/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/commands.h"

#include <string.h>

#include "cli/supervise.h"
#include "cli/combine/combine.h"
#include "cli/output_place.h"
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
	const struct verb *verb = target;

	if (verb->names.count < 2 || verb->names.count > COMBINE_MAX)
		return error_set(error, -EINVAL, "two to %d images are wanted, and %zu %s named",
			COMBINE_MAX, verb->names.count, verb->names.count == 1 ? "is" : "are");
	return output_place_check(verb->combine.output, error);
}

static const struct option_row rows[] = {
	OPTION_ARGUMENT("IMAGE",
		"a GPU image that slipway build or combine made: its archive, its OCI\n"
		"layout, or its name in containers-storage; the new one starts from\n"
		"the first"),
	OPTION("output", 0, "WHERE", OPTION_TEXT, struct verb, combine.output,
		"DIR, containers-storage: or oci-archive:FILE [containers-storage:]"),
};

const struct option_table combine_options = {
	.verb = "combine",
	.usage =
		"Usage: slipway combine [options] IMAGE IMAGE…\n"
		"\n"
		"Makes one GPU image of several: of one driver version and distribution, for several\n"
		"kernels, or for one kernel with several OFEDs. Its tag is what GPU Operator asks for\n"
		"without precompiled drivers, VERSION-OS; the node takes the modules of its kernel, and\n"
		"the nvidia-peermem that fits the OFED that is loaded.\n"
		"\n",
	.notes = "\n",
	OPTION_ROWS(rows),
	.common = offsetof(struct verb, options),
	.take_argument = take_argument,
	.check = check,
};

static int open_inputs(struct verb *verb, struct error *error)
{
	struct combine *combine = &verb->combine;
	int r = 0;

	combine->context = &verb->context;
	combine->inputs = xcalloc(verb->names.count, sizeof(*combine->inputs));
	for (size_t i = 0; i < verb->names.count && r == 0; i++) {
		struct combine_input *input = &combine->inputs[combine->input_count++];

		*input = (struct combine_input){
			.name = verb->names.items[i], .what = VERIFY_INPUT_CLOSED, .fd = -1
		};
		r = combine_input_open(input, &verb->context, error);
	}
	return r;
}

static void say_result(const struct verb *verb, const struct image *image, bool changed)
{
	json_object *object;

	if (!verb->options.json) {
		if (!changed)
			(void) puts("Nothing new: the image is there already.");
		combine_say(&verb->combine, image);
		return;
	}
	object = combine_to_json(&verb->combine, image);
	(void) json_object_object_add(object, "event", json_object_new_string("result"));
	(void) json_object_object_add(object, "exit_code", json_object_new_int(EXIT_CODE_OK));
	(void) json_object_object_add(object, "nothing_to_do", json_object_new_boolean(!changed));
	(void) puts(json_object_to_json_string_ext(
		object, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE));
	(void) json_object_put(object);
}

/* *ret_code is the exit code of a failure whose errno does not tell. */
static int make(struct verb *verb, enum exit_code *ret_code, struct error *error)
{
	_cleanup_(image_free) struct image image = { 0 };
	bool changed = false;
	int r = output_place_ready(verb->combine.output, error);

	*ret_code = EXIT_CODE_OUTPUT;
	if (r < 0)
		return r;
	progress_begin(&verb->context.progress, "combine");
	*ret_code = EXIT_CODE_USAGE;
	r = open_inputs(verb, error);
	if (r == 0)
		r = combine_kernels(&verb->combine, error);
	if (r == 0) {
		*ret_code = EXIT_CODE_IMAGE;
		r = combine_make(&verb->combine, &image, &changed, error);
	}
	progress_end(&verb->context.progress, r < 0 ? "failed" : "done");
	if (r == 0)
		say_result(verb, &image, changed);
	return r;
}

/* In the supervised child. Returns the exit code. */
static int work(void *context)
{
	struct verb *verb = context;
	struct error error = { 0 };
	enum exit_code code;
	int r;

	progress_start(&verb->context.progress, verb->options.json);
	r = make(verb, &code, &error);
	if (r == 0)
		return EXIT_CODE_OK;
	code = exit_code_for(r, code);
	return supervise_failed("combine", verb->options.json, code, &error);
}

int combine_command(int argc, char **argv)
{
	struct verb verb = { .context = CONTEXT_CLOSED, .combine.output = OUTPUT_STORAGE };
	int code;

	if (options_start(&combine_options, argc, argv, &verb, &code))
		code = supervise_run(&verb.context, &verb.options, "combine",
			"what was half made is removed", work, &verb);
	combine_close(&verb.combine);
	context_close(&verb.context);
	strv_free(&verb.names);
	common_options_free(&verb.options);
	return code;
}
