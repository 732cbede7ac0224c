/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/commands.h"

#include <string.h>
#include <unistd.h>

#include "cli/context.h"
#include "cli/exit_code.h"
#include "cli/kernel/kernel.h"
#include "cli/supervise.h"
#include "cli/output_place.h"
#include "cli/resolve_output.h"
#include "cli/resolve_tree.h"
#include "common/fs.h"
#include "kernels/krel.h"

struct resolve_options {
	struct common_options common;
	const char *krel;
	const char *output;
	const char *tree;
	pid_t owner; /* of what the tree grows in: who removes that when the work is ended */
	bool explain;
	bool list;
	bool ofed;
	bool nvidia;
};

static int take_word(
	const char *option, const char *value, const char *word, bool *slot, struct error *error)
{
	*slot = strcmp(value, word) == 0;
	if (*slot || strcmp(value, "none") == 0)
		return 0;
	return error_set(error, -EINVAL,
		"%s %s: only %s is a package; a tree or a tarball is no part of a lock", option,
		value, word);
}

static int take_kernel(void *target, const char *argument, struct error *error)
{
	struct resolve_options *options = target;

	if (options->krel)
		return error_set(error, -EINVAL, "%s: one kernel release is expected", argument);
	options->krel = argument;
	return 0;
}

static int take_ofed(void *target, const char *value, struct error *error)
{
	return take_word(
		"--ofed", value, "reference", &((struct resolve_options *) target)->ofed, error);
}

static int take_nvidia(void *target, const char *value, struct error *error)
{
	return take_word(
		"--nvidia", value, "debian", &((struct resolve_options *) target)->nvidia, error);
}

static int check(void *target, struct error *error)
{
	const struct resolve_options *options = target;

	if (options->list && options->krel)
		return error_set(error, -EINVAL, "--list wants no kernel release");
	if (!options->list && !options->krel)
		return error_set(error, -EINVAL,
			"a kernel release is missing: what uname -r prints on the node, or newest");
	if (options->output && options->common.json && strcmp(options->output, "-") == 0)
		return error_set(error, -EINVAL, "--json and -o - would both write to stdout");
	if (options->list && options->tree)
		return error_set(error, -EINVAL, "--tree wants one kernel release, not --list");
	if (options->list && !options->common.os)
		return error_set(error, -EINVAL, "--os is missing: whose kernels?");
	return 0;
}

#define RESOLVE_OPTION(name, letter, argument, kind, member, help)                                 \
	OPTION(name, letter, argument, kind, struct resolve_options, member, help)

static const struct option_row rows[] = {
	OPTION_CALL("kernel", 0, "KREL", take_kernel, OPTION_HIDDEN),
	RESOLVE_OPTION("output", 0, "FILE", OPTION_TEXT, output, OPTION_HIDDEN),
	RESOLVE_OPTION(NULL, 'o', "FILE", OPTION_TEXT, output, "write the lock, - for stdout"),
	RESOLVE_OPTION("tree", 0, "DIR", OPTION_TEXT, tree,
		"fetch the headers, too, and leave the kernel tree as this new folder:\n"
		"lib/modules/KREL/build and source, what a module is compiled against"),
	RESOLVE_OPTION("explain", 0, NULL, OPTION_FLAG, explain,
		"every place that was looked in, and why it was there or not"),
	RESOLVE_OPTION("list", 0, NULL, OPTION_FLAG, list,
		"every kernel release that the distribution's lists have"),
	OPTION_CALL("ofed", 0, "reference", take_ofed,
		"the reference OFED's source goes into the lock too"),
	OPTION_CALL("nvidia", 0, "debian", take_nvidia,
		"and so do the distribution's packages of NVIDIA's modules"),
};

const struct option_table resolve_options = {
	.verb = "resolve",
	.usage =
		"Usage: slipway resolve [--kernel] KREL|newest [options]\n"
		"       slipway resolve --list --os ID [options]\n"
		"\n"
		"Finds the packages that a kernel's modules are compiled against, the compiler that it was\n"
		"made with, and writes the lock that slipway build --lock takes.\n"
		"\n",
	.notes = "\nWithout --os, newest is debian12's.\n\n",
	OPTION_ROWS(rows),
	.common = offsetof(struct resolve_options, common),
	.take_argument = take_kernel,
	.check = check,
};

static int write_lock(const struct lock *lock, const char *path, struct error *error)
{
	_cleanup_free_ char *text = lock_write(lock);
	int r = -ENOMEM;

	if (text && strcmp(path, "-") == 0)
		r = fputs(text, stdout) < 0 || fflush(stdout) != 0 ? -EIO : 0;
	else if (text)
		r = fs_write_output(path, text, strlen(text));
	return r < 0 ? error_set_errno(error, r, "-o %s", path) : 0;
}

/* Where a person watches, downloads are shown; the line is gone when there is an answer. */
static void start_progress(struct progress *progress, bool json)
{
	progress_start(progress, false);
	if (!progress->terminal || json)
		*progress = (struct progress){ .first_ms = progress->first_ms };
	else
		progress_begin(progress, "resolve");
}

static void clear_progress(struct progress *progress)
{
	if (progress->terminal)
		(void) fputs("\r\033[K", stderr);
	*progress = (struct progress){ 0 };
}

static int find(struct context *context, const struct resolve_options *options,
	struct strv *releases, struct resolve_answer *answer, struct error *error)
{
	_cleanup_(extras_free) struct extras extras = { 0 };
	struct resolve_request request = { .krel = options->krel };
	bool newest = options->krel && strcmp(options->krel, KREL_NEWEST) == 0;
	int r = context_choose_os(
		context, newest ? CONTEXT_DEFAULT_OS : NULL, options->krel, error);

	if (r < 0)
		return r;
	if (options->list)
		return context_list(context, releases, answer, error);
	r = extras_list(
		context->data, &context->os, options->ofed, options->nvidia, &extras, error);
	if (r < 0)
		return r;
	request.extras = extras.items;
	request.extra_count = extras.count;
	return context_resolve(context, &request, answer, error);
}

/* Can what is to be written be written? Asked before anything is fetched. */
static int check_outputs(const struct resolve_options *options, struct error *error)
{
	int r = options->output ? output_file_ready("-o", options->output, error) : 0;

	return r < 0 || !options->tree ? r : resolve_tree_ready(options->tree, error);
}

static int make_tree(const struct resolve_options *options, struct resolve_result *result,
	struct context *context, struct error *error)
{
	int r;

	/* Where nobody watches the download's lines help, too; not beside JSON. */
	if (!options->common.json)
		progress_start(&context->progress, false);
	r = resolve_tree_make(context, &result->answer.lock, options->tree, options->owner, error);
	if (r < 0)
		result->exit_code = context->failure;
	return r;
}

/* Sets the result's exit code. */
static void run(const struct resolve_options *options, struct resolve_result *result,
	struct context *context, struct error *error)
{
	int r = check_outputs(options, error);

	if (r < 0) {
		result->exit_code = EXIT_CODE_OUTPUT;
		return;
	}
	r = context_open(&options->common, context, error);
	if (r < 0) {
		result->exit_code = exit_code_for(r, EXIT_CODE_INTERNAL);
		return;
	}
	start_progress(&context->progress, options->common.json);
	r = find(context, options, &result->releases, &result->answer, error);
	clear_progress(&context->progress);
	result->exit_code = r < 0 ? context_exit_code(r) : EXIT_CODE_OK;
	if (r == 0 && options->tree)
		r = make_tree(options, result, context, error);
	if (r < 0 || !options->output || options->list)
		return;
	r = write_lock(&result->answer.lock, options->output, error);
	if (r < 0)
		result->exit_code = r == -ENOSPC ? EXIT_CODE_DISK_FULL : EXIT_CODE_OUTPUT;
}

static void result_free(struct resolve_result *result)
{
	strv_free(&result->releases);
	resolve_answer_free(&result->answer);
}

/* All but the command line. Returns the exit code. */
static int work(void *context)
{
	const struct resolve_options *options = context;
	struct context opened = CONTEXT_CLOSED;
	_cleanup_(result_free) struct resolve_result result = { 0 };
	struct error error = { 0 };

	run(options, &result, &opened, &error);
	result.os = opened.os.name;
	result.is_list = options->list;
	result.explain = options->explain;
	result.is_written = options->output && strcmp(options->output, "-") == 0;
	if (options->common.json)
		resolve_output_json(&result, &error);
	else
		resolve_output_text(&result, &error);
	context_close(&opened);
	return (int) result.exit_code;
}

/* Ctrl-C, or SIGTERM, while a tree is being written leaves no part of it. */
static int supervised(struct resolve_options *options)
{
	int r;

	options->owner = getpid();
	r = supervise(work, options);
	if (r != 0 && resolve_tree_clear(options->tree, options->owner) < 0)
		(void) fprintf(stderr, "slipway resolve: %s.tmp-%d could not be removed\n",
			options->tree, (int) options->owner);
	return supervise_report(
		r, "resolve", options->common.json, "a tree that was not whole is removed");
}

int resolve_command(int argc, char **argv)
{
	struct resolve_options options = { 0 };
	int code;

	if (options_start(&resolve_options, argc, argv, &options, &code))
		code = options.tree ? supervised(&options) : work(&options);
	common_options_free(&options.common);
	return code;
}
