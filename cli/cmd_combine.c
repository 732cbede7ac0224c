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

/* *ret_code is the exit code of a failure whose errno does not tell. */
static int make(struct verb *verb, enum exit_code *ret_code, struct error *error)
{
	struct combine *combine = &verb->combine;
	_cleanup_(image_free) struct image image = { 0 };
	json_object *object;
	bool changed = false;
	int r = output_place_ready(combine->output, error);

	*ret_code = EXIT_CODE_OUTPUT;
	if (r < 0)
		return r;
	progress_begin(&verb->context.progress, "combine");
	*ret_code = EXIT_CODE_USAGE;
	combine->context = &verb->context;
	r = combine_open(combine, &verb->names, error);
	if (r == 0) {
		*ret_code = EXIT_CODE_IMAGE;
		r = combine_make(combine, &image, &changed, error);
	}
	progress_end(&verb->context.progress, r < 0 ? "failed" : "done");
	if (r < 0)
		return r;
	if (!verb->options.json) {
		if (!changed)
			(void) puts("Nothing new: the image is there already.");
		combine_print(combine, &image);
		return 0;
	}
	object = combine_to_json(combine, &image);
	json_add_texts(object, "event", "result", NULL);
	json_add(object, "exit_code", json_object_new_int(EXIT_CODE_OK));
	json_add(object, "nothing_to_do", json_object_new_boolean(!changed));
	json_print_line(object);
	return 0;
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
	if (r < 0)
		r = supervise_failed("combine", verb->options.json, exit_code_for(r, code), &error);
	combine_close(&verb->combine);
	return r;
}

int combine_command(int argc, char **argv)
{
	struct verb verb = { .context = CONTEXT_CLOSED, .combine.output = OUTPUT_STORAGE };
	int code;

	if (options_start(&combine_options, argc, argv, &verb, &code))
		code = supervise_run(&verb.context, &verb.options, "combine",
			"what was half made is removed", work, &verb);
	context_close(&verb.context);
	strv_free(&verb.names);
	common_options_free(&verb.options);
	return code;
}
