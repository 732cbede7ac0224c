/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the kernel tree and no more, and says what stands against building for it. */
#include "cli/commands.h"

#include <string.h>

#include "cli/json.h"
#include "cli/kernel/kernel.h"
#include "cli/message.h"
#include "cli/supervise.h"
#include "common/text.h"
#include "common/xalloc.h"

struct verb {
	struct common_options common;
	struct context context;
	struct kernel kernel;
	struct kernel_purpose purpose;
};

static int take_drivers(void *target, const char *value, struct error *error)
{
	struct verb *verb = target;
	_cleanup_strv_ struct strv names = { 0 };

	xstrv_split(&names, value, ",");
	verb->purpose.ofed = strv_contains(&names, "ofed");
	verb->purpose.nvidia = strv_contains(&names, "nvidia");
	if (names.count == 0 ||
		names.count != (size_t) verb->purpose.ofed + (size_t) verb->purpose.nvidia)
		return error_set(
			error, -EINVAL, "--drivers %s: must be ofed, nvidia or ofed,nvidia", value);
	return 0;
}

static int take_kernel(void *target, const char *argument, struct error *error)
{
	struct verb *verb = target;

	if (verb->kernel.request.krel)
		return error_set(
			error, -EINVAL, "%s: only one kernel release can be given", argument);
	verb->kernel.request.krel = argument;
	return 0;
}

static const struct option_rule rules[] = {
	{ .needs = "kernel lock kernel-from " OPTION_RULE_ARGUMENT,
		.why = "the kernel is missing: give a release (uname -r on the node), newest, "
		       "--kernel-from or --lock" },
	{ .given = "lock",
		.refuses = "refresh",
		.why = "a lock already names the packages, so no "
		       "list is read" },
};

#define LINT_OPTION(name, argument, kind, member, help)                                            \
	OPTION(name, 0, argument, kind, struct verb, kernel.request.member, help)

static const struct option_row rows[] = {
	OPTION_CALL("kernel", 0, "KREL", take_kernel, OPTION_HIDDEN),
	LINT_OPTION("kernel-from", "PATH", OPTION_LIST, files,
		"a kernel that no repository has, or a file from slipway probe; may be repeated"),
	OPTION_CALL("drivers", 0, "LIST", take_drivers,
		"drivers to be built: ofed, nvidia or ofed,nvidia [ofed,nvidia]"),
	LINT_OPTION("compiler", "NAME", OPTION_TEXT, compiler,
		"compiler to use instead of the kernel's own: gcc-12"),
	LINT_OPTION("lock", "FILE", OPTION_TEXT, lock,
		"take the kernel from a lock instead of package lists"),
};

const struct option_table lint_options = {
	.verb = "lint",
	.usage = "Usage: slipway lint [--kernel] KREL|newest [options]\n"
		 "\n"
		 "Checks a kernel before minutes of compiling: fetches its headers, reads its "
		 "configuration\n"
		 "and lists the problems for building drivers, the worst first. slipway-lint(1) "
		 "explains\n"
		 "each finding. The exit code is 24 if one of them is an error.\n"
		 "\n",
	OPTION_ROWS(rows),
	OPTION_RULES(rules),
	.common = offsetof(struct verb, common),
	.take_argument = take_kernel,
};

static void print_text(const struct verb *verb, const struct lint *lint)
{
	const struct kernel_record *record = &verb->kernel.record;
	size_t errors = lint_count(lint, LINT_ERROR);
	size_t warnings = lint_count(lint, LINT_WARNING);
	size_t notes = lint_count(lint, LINT_NOTE);

	text_print(stdout, "%s (%s), made with %s, vermagic \"%s\"\n", record->krel,
		*record->arch ? record->arch : "unknown architecture",
		*record->compiler.name ? record->compiler.name : "an unknown compiler",
		record->vermagic);
	for (size_t i = 0; i < lint->count; i++) {
		const struct lint_finding *finding = &lint->findings[i];
		_cleanup_free_ char *fix = message_paths(finding->fix);

		message_print(stdout,
			finding->severity == LINT_ERROR     ? COLOUR_RED
			: finding->severity == LINT_WARNING ? COLOUR_YELLOW
							    : COLOUR_NONE,
			"%-8s", lint_severity_text(finding->severity));
		text_print(stdout, " %-28s %s\n", finding->id, finding->reason);
		text_print(stdout, "%-8s %-28s   %s\n", "", "", fix);
	}
	text_print(stdout, "%zu error%s, %zu warning%s, %zu note%s\n", errors,
		errors == 1 ? "" : "s", warnings, warnings == 1 ? "" : "s", notes,
		notes == 1 ? "" : "s");
}

static void print_json(const struct verb *verb, const struct lint *lint, enum exit_code code)
{
	json_object *root = json_object_new_object();

	json_add(root, "event", json_text("result"));
	json_add(root, "exit_code", json_object_new_int((int) code));
	json_add(root, "os", json_text(verb->context.os.os));
	json_add(root, "findings", lint_json(lint));
	json_add(root, "record", kernel_record_json(&verb->kernel.record));
	json_print_line(root);
}

/* Sets the context's failure to EXIT_CODE_LINT where a finding is an error. */
static int judge(struct verb *verb, struct error *error)
{
	struct kernel *kernel = &verb->kernel;
	_cleanup_(lint_free) struct lint lint = { 0 };
	enum exit_code code;
	int r = kernel_find(kernel, error);

	if (r < 0)
		return r;
	r = kernel_lock(kernel, error);
	if (r == 0)
		r = kernel_open_tree(kernel, error);
	if (r < 0 && kernel_open_node(kernel, error) == 0)
		r = 0;
	if (r == 0)
		r = kernel_lint(kernel, &verb->purpose, &lint, error);
	if (r < 0)
		return r;
	code = lint_count(&lint, LINT_ERROR) ? EXIT_CODE_LINT : EXIT_CODE_OK;
	if (verb->common.json)
		print_json(verb, &lint, code);
	else
		print_text(verb, &lint);
	verb->context.failure = code;
	return 0;
}

/* In the supervised child. Returns the exit code. */
static int work(void *context)
{
	struct verb *verb = context;
	struct error error = { 0 };

	context_show_progress(&verb->context, true);
	if (judge(verb, &error) == 0)
		return (int) verb->context.failure;
	if (verb->context.failure == EXIT_CODE_OK)
		verb->context.failure = EXIT_CODE_INTERNAL;
	return json_fail(
		"lint", verb->common.json ? "failed" : NULL, (int) verb->context.failure, &error);
}

int lint_command(char **argv)
{
	struct verb verb = {
		.context = CONTEXT_CLOSED,
		.kernel.request.no_modules = true,
		.purpose = { .ofed = true, .nvidia = true },
	};
	int code;

	verb.kernel.context = &verb.context;
	if (options_start(&lint_options, argv, &verb, &code))
		code = supervise_in_cache(
			&verb.context, &verb.common, "lint", "nothing was judged", work, &verb);
	strv_free(&verb.kernel.request.files);
	kernel_free(&verb.kernel);
	context_close(&verb.context);
	common_options_free(&verb.common);
	return code;
}
