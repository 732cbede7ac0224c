/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/commands.h"

#include <string.h>

#include "cli/image/output_place.h"
#include "cli/index/index.h"
#include "cli/json.h"
#include "cli/supervise.h"
#include "common/xalloc.h"

struct verb {
	struct common_options options;
	struct strv names;
	struct context context;
	struct image_index index;
};

static int take_argument(void *target, const char *argument, struct error *error)
{
	struct verb *verb = target;

	(void) error;
	xstrv_push(&verb->names, argument);
	return 0;
}

/* The file's name, as build --output has it or by itself. */
static int check(void *target, struct error *error)
{
	struct verb *verb = target;
	struct image_index *index = &verb->index;

	if (verb->names.count > INDEX_MAX)
		return error_set(error, -EINVAL, "more than %d images", INDEX_MAX);
	if (strncmp(index->output, OUTPUT_ARCHIVE, strlen(OUTPUT_ARCHIVE)) == 0)
		index->output += strlen(OUTPUT_ARCHIVE);
	if (!*index->output || strcmp(index->output, "-") == 0 ||
		strcmp(index->output, OUTPUT_STORAGE) == 0 || strstr(index->output, "://"))
		return error_set(error, -EINVAL,
			"--output %s: not a file: an index is written to an OCI archive",
			index->output);
	return operators_check(&index->operators, error);
}

static const struct option_rule rules[] = {
	{ .needs = OPTION_RULE_ARGUMENT,
		.why = "the images are missing: one for each architecture" },
	{ .needs = "output", .why = "--output is missing: the file to write" },
};

static const struct option_row rows[] = {
	IMAGES_ARGUMENT("an index stands for all its images"),
	OPTION("output", 'o', "FILE", OPTION_TEXT, struct verb, index.output,
		"the OCI archive to write"),
	OPERATORS_OPTIONS(struct verb, index.operators),
	OS_VERSION_OPTION(struct verb, index.os_version),
};

const struct option_table index_options = {
	.verb = "index",
	.usage =
		"Usage: slipway index [options] IMAGE IMAGE… --output FILE\n"
		"\n"
		"Puts images of one driver version and distribution for several architectures into "
		"one OCI\n"
		"index, so that one tag stands for all of them and each node gets its own. The images "
		"stay as\n"
		"they are. A GPU index has the tag of its images if that is the same for all, else "
		"VERSION-OS,\n"
		"which the operator asks for when it does not use precompiled drivers; a NIC index "
		"has the tags\n"
		"of all its images, which end with the architecture. Copy it with skopeo copy "
		"--all.\n"
		"\n",
	.notes = "\n",
	OPTION_ROWS(rows),
	OPTION_RULES(rules),
	.only_common = "cache json quiet verbose help",
	.common = offsetof(struct verb, options),
	.take_argument = take_argument,
	.check = check,
};

static int make_index(struct verb *verb, struct error *error)
{
	struct context *context = &verb->context;
	struct image_index *index = &verb->index;
	json_object *object;
	int r = output_file_ready("--output", index->output, error);

	if (r < 0)
		return context_fail(context, EXIT_CODE_OUTPUT, r);
	progress_begin(&context->progress, "index");
	index->context = context;
	r = index_open(index, &verb->names, error);
	if (r < 0) {
		(void) context_fail(context, EXIT_CODE_USAGE, r);
	} else {
		r = index_write(index, error);
		if (r < 0)
			(void) context_fail(context, EXIT_CODE_OUTPUT, r);
	}
	progress_end(&context->progress, r < 0 ? "failed" : "done");
	if (r < 0)
		return r;
	if (!verb->options.json) {
		index_print(index);
		return 0;
	}
	object = index_to_json(index);
	json_add_texts(object, "event", "result");
	json_add(object, "exit_code", json_object_new_int(EXIT_CODE_OK));
	json_print_line(object);
	return 0;
}

static int make(void *data, struct error *error)
{
	struct verb *verb = data;
	int r = make_index(verb, error);

	index_close(&verb->index);
	return r;
}

int index_command(char **argv)
{
	struct verb verb = { .context = CONTEXT_CLOSED };
	int code;

	if (options_start(&index_options, argv, &verb, &code))
		code = supervise_run(
			&verb.context, &verb.options, "index", "no index was written", make, &verb);
	context_close(&verb.context);
	strv_free(&verb.names);
	common_options_free(&verb.options);
	return code;
}
